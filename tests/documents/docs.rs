//! Tests that every command in the documentation works: here with a real engine and daemon, or in the named script or test. The first
//! test fails for a command that is run nowhere.

use crate::support::daemon::{Daemon, carried_out, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, IMAGE, RunSpec, is_limited};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

pub(crate) const SOON: Duration = Duration::from_secs(40);

/// Where a command is tested that cannot run here, or is tested in more detail elsewhere.
enum Place {
    /// A script with this command on one line, possibly with other words in between.
    Script(&'static str),
    /// A test file that contains these words.
    Test(&'static str, &'static str),
}

use Place::{Script, Test};

const VM_INSTALL: Place = Script("integration/vm/guest/part-10-install");
const VM_SYSTEM: Place = Script("integration/vm/guest/part-40-system");
const VM_ACCESS: Place = Script("integration/vm/guest/part-60-access");
const VM_TARBALL: Place = Script("integration/vm/guest/part-80-tarball");
const CARGO: Place = Test("tests/documents/readme.rs", "cargo_runs_flowctl_by_default_and_flowcond_by_its_name");
const NOTIFY_TEST: &str = "tests/kernel/notify.rs";
const IMAGE_TEST: &str = "tests/engine/packages.rs";
const LISTS: Place = Test("src/lab/bench/list.rs", "the_shipped_lists_are_valid");

#[rustfmt::skip]
const ELSEWHERE: &[(&str, Place)] = &[
    ("./integration/test", Script(".ci/run")),
    ("IMAGE=pytorch/pytorch docker compose -f compose.yaml up -d", Test("tests/documents/examples.rs", "\"up\", \"--detach\"")),
    ("docker compose -f compose.yaml up -d", Test("tests/documents/examples.rs", "\"up\", \"--detach\"")),
    ("docker compose -f compose.yaml down", Test("tests/documents/examples.rs", "\"down\", \"--timeout\"")),
    ("curl -sf http://127.0.0.1:9713/metrics", Test("tests/documents/docs.rs", "\"http://127.0.0.1:9713/metrics\"")),
    ("docker-compose", Test("tests/documents/examples.rs", "\"docker-compose\"")),
    ("IMAGE=pytorch/pytorch sh docker-run.sh", Test("tests/documents/examples.rs", "\"docker-run.sh\"")),
    ("apt install ./flowcon_*.deb", VM_INSTALL),
    ("apt purge flowcon", Script("integration/vm/guest/part-70-upgrade")),
    ("df /var/lib/flowcon", VM_SYSTEM),
    ("chrt", Script("integration/vm/guest/part-35-weights")),
    ("dmesg", VM_SYSTEM),
    ("flowcon-*/install.sh --uninstall", VM_TARBALL),
    (
        "docker node update --label-add flowcon.rented=true --label-add flowcon.price=2.50 NODE",
        Test("tests/swarm/swarm_queue.rs", "\"flowcon.rented=true\""),
    ),
    ("docker service create --name resnet --replicas 0 --restart-condition on-failure --restart-max-attempts 3 \\", Test("tests/support/swarm.rs", "--restart-condition")),
    (
        "FLOWCOORD_IMAGE=registry.example/flowcoord:1 docker stack deploy --compose-file flowcoord-agents.yaml flowcon",
        Test("tests/swarm/swarm_agents.rs", "\"stack\", \"deploy\""),
    ),
    ("flowcoord agent", Test("tests/support/swarm.rs", ".arg(\"agent\")")),
    ("flowcoord demo", Test("tests/swarm/cluster_demo.rs", "\"demo\", \"--nodes\"")),
    ("flowcoord run", Test("tests/support/swarm.rs", ".arg(\"run\")")),
    ("flowctl cluster drain NODE --wait", Test("tests/swarm/swarm.rs", "[\"drain\", target, \"--wait\"]")),
    ("flowctl cluster drain node-2 --wait", Test("tests/swarm/swarm.rs", "[\"drain\", target, \"--wait\"]")),
    ("flowctl cluster doctor", Test("tests/support/swarm.rs", "[\"cluster\", \"doctor\"")),
    ("flowctl cluster explain JOB", Test("tests/swarm/swarm.rs", "[\"explain\", \"train\"]")),
    ("flowctl cluster history", Test("tests/swarm/swarm.rs", "[\"history\"]")),
    ("flowctl cluster move JOB NODE", Test("tests/swarm/swarm.rs", "[\"move\", \"train\", target]")),
    ("flowctl cluster node-is-off JOB NODE", Test("tests/swarm/swarm.rs", "[\"node-is-off\", \"train\", ")),
    ("flowctl cluster cancel JOB", Test("tests/swarm/swarm_queue.rs", "[\"cancel\", \"wide\"]")),
    ("flowctl cluster logs JOB -f", Test("tests/swarm/swarm_queue.rs", "[\"logs\", \"-f\", \"wide-1\"]")),
    ("flowctl cluster submit --name bert --workers 2..4 --image registry/train:1 --checkpoint /saved -- python train.py", Test("tests/swarm/swarm_queue.rs", "\"--workers\", \"2..3\"")),
    ("flowctl cluster submit --name bert --workers 2..4 --image registry/train:1 -- torchrun train.py", Test("tests/swarm/swarm_torch.rs", "\"2..3\"")),
    ("flowsim paper all --html paper.html", Test("tests/plain/flowsim.rs", "\"--html\", &page")),
    ("flowctl cluster status", Test("tests/support/swarm.rs", "[\"status\", \"--json\"]")),
    ("flowctl cluster submit --name resnet --image registry/train:1 --gpus 1 --checkpoint /saved -- python train.py", Test("tests/swarm/swarm.rs", "\"submit\", \"--name\"")),
    ("flowcond --set policy.name=fair", Test("tests/kernel/watching.rs", "[\"--set\", \"policy.name=fair\"")),
    ("flowcond restore --forget-missing", Test("tests/kernel/uninstall.rs", ".arg(\"--forget-missing\")")),
    ("docker run $(flowctl env --docker) IMAGE", Test("tests/engine/runtime.rs", "\"env\", \"--docker\"")),
    ("flowcon-runtime", Test("tests/engine/runtime.rs", "CARGO_BIN_EXE_flowcon-runtime")),
    ("docker stop", Test("tests/trials/duty.rs", "\"stop\"")),
    ("docker start NAME", Test("tests/engine/group_stop.rs", "docker(&[\"start\", \"rate-0\"])")),
    ("flowctl adopt forgotten --label flowcon.weight=0.5", Test("tests/documents/examples.rs", "forgotten is adopted")),
    ("flowctl notify test", Test(NOTIFY_TEST, "test(&[])")),
    ("flowctl notify test phone", Test(NOTIFY_TEST, "test(&[\"hook\"])")),
    ("flowctl run --notify NAMES", Test(NOTIFY_TEST, "\"--notify\", \"gone\"")),
    ("flowcon-notify --config notify.toml --state-dir notify-state", Test("tests/support/notify.rs", "CARGO_BIN_EXE_flowcon-notify")),
    ("systemctl enable --now flowcon-notify", VM_ACCESS),
    ("systemctl status flowcon-notify", VM_ACCESS),
    ("flowctl demo", Test("tests/trials/demo.rs", "demo(&[")),
    ("flowctl top", Test("tests/kernel/top.rs", "keys_sort_filter_release_and_govern_and_q_restores_the_terminal")),
    ("journalctl -u flowcond", VM_SYSTEM),
    ("journalctl -u flowcond -n 50", VM_SYSTEM),
    ("python train.py", Test("tests/documents/docs.rs", "python train.py")),
    ("target/release/flowctl top", Test("tests/kernel/top.rs", "keys_sort_filter_release_and_govern_and_q_restores_the_terminal")),
    ("pip install flowcon_cli-*.whl", Test("tests/kernel/packages.rs", "\"install\", \"--no-index\"")),
    ("sha256sum --check --ignore-missing SHA256SUMS", Test("tests/kernel/packages.rs", "\"--check\", \"--ignore-missing\"")),
    ("docker load --input flowcond-image-*.tar", Test(IMAGE_TEST, "\"load\", \"--input\"")),
    (
        "docker run --detach --name flowcond --restart unless-stopped --pid host --cgroupns host --uts host --network none --read-only \
         --cap-drop ALL --security-opt no-new-privileges --volume /sys/fs/cgroup:/sys/fs/cgroup \
         --volume /var/run/docker.sock:/var/run/docker.sock --volume flowcon:/var/lib/flowcon --volume /run/flowcon:/run/flowcon flowcond",
        Test(IMAGE_TEST, "fn options"),
    ),
    ("docker exec flowcond flowctl status", Test(IMAGE_TEST, "exec flowcond flowctl status")),
    ("docker stop flowcond", Test(IMAGE_TEST, "stop flowcond")),
    ("cargo run --release -- demo", CARGO),
    ("cargo run --release --bin flowcond", CARGO),
    ("systemctl daemon-reload", VM_SYSTEM),
    ("systemctl enable --now flowcon-exporter", VM_ACCESS),
    ("systemctl enable --now flowcond", VM_INSTALL),
    ("systemctl reload flowcond", VM_SYSTEM),
    ("systemctl restart flowcond", Script("integration/vm/guest/part-50-end")),
    ("systemctl status flowcond", VM_INSTALL),
    ("systemctl stop flowcond", Script("integration/vm/guest/part-50-end")),
    ("tar xf flowcon-*.tar.gz && flowcon-*/install.sh", VM_TARBALL),
    ("usermod -aG flowcon USER", VM_ACCESS),
    ("flowctl bench config/bench/fixed-3-frameworks.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-5.toml --interval 20", LISTS),
    ("flowctl bench config/bench/threads.toml --interval 2 --policy fair,balanced", LISTS),
    ("flowctl bench config/bench/broken.toml --interval 5 --policy fair,balanced", LISTS),
    ("flowctl bench config/bench/random-10.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-15.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-5-frameworks.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-10-frameworks.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-15-frameworks.toml --interval 20", LISTS),
];

#[test]
fn every_documented_command_is_run_by_a_test() {
    let commands = crate::texts::commands();
    assert!(commands.len() > 60, "{commands:#?}");
    let here = [include_str!("docs.rs"), include_str!("tasks.rs")].concat();
    let here = regex::Regex::new(r"\(\s+").unwrap().replace_all(&here, "(").into_owned();
    let is_here = |command: &str| {
        ["run_ok", "run_until_ok", "spawn", "run_failing", "run_any"]
            .iter()
            .any(|how| here.contains(&format!(".{how}({command:?}")))
    };
    let untested: Vec<&String> = commands
        .iter()
        .filter(|command| !is_here(command) && !ELSEWHERE.iter().any(|(known, _)| known == command))
        .collect();
    assert!(
        untested.is_empty(),
        "untested commands: run them in tests/documents/docs.rs, or add them to ELSEWHERE: {untested:#?}"
    );
    for (command, place) in ELSEWHERE {
        assert!(commands.contains(*command), "`{command}` is no longer documented");
        match place {
            Script(file) => assert!(
                crate::texts::read(&crate::texts::root().join(file))
                    .replace("\\\n", " ")
                    .lines()
                    .any(|line| has(line, command)),
                "{file} does not run `{command}`"
            ),
            Test(file, words) => {
                assert!(
                    crate::texts::read(&crate::texts::root().join(file)).contains(words),
                    "{file} has no {words} for `{command}`"
                );
            }
        }
    }
}

/// Whether a line of a script has the words of a command in order; a word in capitals matches any word.
fn has(line: &str, command: &str) -> bool {
    let mut words = line.split_whitespace().map(|word| word.trim_matches(|c| "'\"();".contains(c)));
    command.split(' ').all(|wanted| {
        let is_name = wanted.chars().all(|c| c.is_ascii_uppercase());
        words.any(|word| is_name || word.trim_start_matches("./") == wanted.trim_start_matches("./"))
    })
}

/// The environment assumed by the documentation: an engine, a daemon, our programs and a `python` that trains.
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) daemon: Daemon,
    dir: tempfile::TempDir,
}

/// A fake `python` whose `train.py` prints a falling loss, until it is removed.
const TRAINING: &str = "#!/bin/sh\n[ \"$1\" = train.py ] || exit 9\ntrap 'exit 0' TERM\ni=0; while [ -e \"$0\" ] && [ $i -lt 9000 ]; do i=$((i+1)); \
    echo \"step $i/9000 loss: $((90000-10*i))\"; sleep 0.1; done\n";

impl Machine {
    pub(crate) fn start(settings: &[&str]) -> Machine {
        let engine = Engine::start();
        let usual = ["policy.interval=2s"];
        let daemon = Daemon::start(&engine.address(), &[&usual, settings].concat());
        daemon.wait_until_connected("docker");
        let dir = tempfile::Builder::new().prefix("flowcon-docs-").tempdir().unwrap();
        for binary in [env!("CARGO_BIN_EXE_flowctl"), env!("CARGO_BIN_EXE_flowcond"), env!("CARGO_BIN_EXE_flowsim")]
            .map(Path::new)
        {
            symlink(binary, dir.path().join(binary.file_name().unwrap())).unwrap();
        }
        symlink(crate::texts::root().join("config"), dir.path().join("config")).unwrap();
        fs::create_dir(dir.path().join("target")).unwrap();
        symlink(dir.path(), dir.path().join("target/release")).unwrap();
        fs::write(dir.path().join("python"), TRAINING).unwrap();
        fs::set_permissions(dir.path().join("python"), fs::Permissions::from_mode(0o755)).unwrap();
        Machine { engine, daemon, dir }
    }

    /// The documented command in bash, with `names` in place of its placeholders, in a directory with the repository's `config`.
    fn bash(&self, command: &str, names: &[(&str, &str)]) -> Command {
        let put = |line: String, (name, value): &(&str, &str)| {
            assert!(line.contains(name), "`{command}` has no {name}");
            line.replace(name, value)
        };
        let line = names.iter().fold(command.to_owned(), put);
        let path = format!("{}:{}", self.dir.path().display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-c", &line]).current_dir(self.dir.path()).env("PATH", path).stdin(Stdio::null());
        bash.env("DOCKER_HOST", self.engine.address()).env("DOCKER_CONFIG", self.engine.dir().join("client"));
        bash.env("FLOWCON_SOCKET", self.daemon.socket()).env("FLOWCON_STATE_DIR", self.daemon.state_dir());
        bash.env("FLOWCON_CONFIG", self.daemon.config()).env("FLOWCON_ENGINE_ADDRESS", self.engine.address());
        bash
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn run_ok(&self, command: &str, names: &[(&str, &str)]) -> String {
        let output = self.bash(command, names).output().unwrap();
        assert!(output.status.success(), "`{command}`: {}", text_of(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command until it has been carried out, for which the engine may need longer than the reply to it may take.
    pub(crate) fn run_until_ok(&self, command: &str, names: &[(&str, &str)]) {
        carried_out(command, || self.bash(command, names).output().unwrap());
    }

    /// Runs a command that must fail, and returns its output.
    fn run_failing(&self, command: &str, names: &[(&str, &str)]) -> String {
        let output = self.bash(command, names).output().unwrap();
        assert!(!output.status.success(), "`{command}`: {}", text_of(&output));
        text_of(&output)
    }

    /// Runs a command whose exit code depends on the machine, and returns its output.
    pub(crate) fn run_any(&self, command: &str, names: &[(&str, &str)]) -> String {
        text_of(&self.bash(command, names).output().unwrap())
    }

    /// Starts a command that runs until it is stopped.
    pub(crate) fn spawn(&self, command: &str, names: &[(&str, &str)]) -> Running {
        let mut bash = self.bash(command, names);
        Running(bash.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn run_container(&self, name: &str, labels: &[&str], script: &str) -> String {
        self.engine.run(RunSpec { name, labels, script, ..RunSpec::default() })
    }

    pub(crate) fn wait_for_weight(&self, what: &str, id: &str, fits: impl Fn(u32) -> bool) {
        eventually(what, SOON, || fits(self.engine.cpu_weight(id)).then_some(()));
    }

    /// The explanation of a job as JSON.
    pub(crate) fn explained(&self, job: &str) -> Value {
        json(&self.daemon.stdout_of(&["explain", job, "-o", "json"]))["explanation"].clone()
    }

    fn folder(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A command with its children, killed when dropped.
pub(crate) struct Running(Child);

impl Running {
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Close the pipes, because the command might block on its output.
        drop((self.0.stdout.take(), self.0.stderr.take()));
        for signal in ["-TERM", "-KILL"] {
            let _ =
                Command::new("kill").args([signal, "--", &format!("-{}", self.0.id())]).stderr(Stdio::null()).status();
            for _ in 0..50 {
                if self.0.try_wait().unwrap().is_some() {
                    return;
                }
                sleep(Duration::from_millis(100));
            }
        }
    }
}

pub(crate) const GOVERNED: &str = "flowcon.enable=true";

#[test]
fn jobs_are_started_with_their_labels_and_logs_are_parsed() {
    let machine = Machine::start(&[]);
    let python = machine.folder("python");
    machine.engine.docker(&["create", "--name", "base", IMAGE, "true"]);
    machine.engine.docker(&["cp", &python, "base:/bin/python"]);
    machine.engine.docker(&["commit", "base", "pytorch:1"]);

    let _container = machine.spawn(
        "docker run --label flowcon.enable=true --label flowcon.weight=2 IMAGE python train.py",
        &[("IMAGE", "--name weighty pytorch:1")],
    );
    let _command = machine.spawn("flowctl run --label flowcon.deadline=90m -- python train.py", &[]);
    let _third = machine.spawn(
        "flowctl run --label KEY=VALUE -- COMMAND",
        &[("KEY=VALUE", "flowcon.weight=3"), ("COMMAND", "python train.py")],
    );
    let _plain = machine.spawn("flowctl run -- COMMAND", &[("COMMAND", "python train.py")]);
    let _same = machine.spawn("flowctl run -- python train.py", &[]);
    let _built = machine.spawn("target/release/flowctl run -- python train.py", &[]);
    let no_mps = machine.run_failing("flowctl run --gpu-share 40% -- python train.py", &[]);
    assert!(no_mps.contains("no MPS control daemon runs"), "{no_mps}");
    machine.daemon.wait_for_job("weighty", "it is read", SOON, |job| job["metric"]["name"] == "loss");
    assert_eq!(machine.explained("weighty")["weight"], 2.0);
    let scopes = eventually("the commands are read", SOON, || {
        let is_read = |job: &Value| job["runtime"] == "scope" && job["metric"]["name"] == "loss";
        let jobs: Vec<Value> = machine.daemon.jobs().into_iter().filter(is_read).collect();
        (jobs.len() == 5).then_some(jobs)
    });
    let explained: Vec<Value> = scopes.iter().map(|job| machine.explained(job["name"].as_str().unwrap())).collect();
    assert!(explained.iter().any(|job| job["weight"] == 3.0), "{explained:#?}");
    assert!(
        explained.iter().any(|job| job["deadline_in_s"].as_f64().is_some_and(|left| left > 5000.0)),
        "{explained:#?}"
    );

    machine.run_container("odd", &[GOVERNED, "flowcon.weight=lots"], GROWING);
    machine.daemon.wait_for_job("odd", "is read", SOON, |job| job["metric"]["name"] == "loss");
    assert!(machine.run_ok("flowctl status", &[]).contains("flowcon.weight"), "an invalid label is reported");
    assert!(machine.run_ok("flowctl explain JOB", &[("JOB", "odd")]).contains("flowcon.weight"));
    let labels = machine.run_ok("docker inspect -f \"{{.Config.Labels}}\" NAME", &[("NAME", "odd")]);
    assert!(labels.contains("flowcon.enable:true"), "{labels}");

    let log = machine.folder("train.log");
    fs::write(&log, "epoch 1/3 val_loss: 0.9\nepoch 2/3 val_loss: 0.5\nepoch 3/3 val_loss: 0.3\n").unwrap();
    let report = machine.run_ok("flowctl check-log FILE", &[("FILE", &log)]);
    assert!(report.contains("val_loss") && report.contains("0.3"), "{report}");
    let raw = machine.run_ok("flowctl logs JOB", &[("JOB", "odd")]);
    assert!(raw.contains("loss") && !raw.contains("\"stream\""), "decoded: {raw}");
}

#[test]
fn commands_that_stop_governing_restore_original_limits() {
    let mut machine = Machine::start(&["policy.name=flowcon"]);
    machine.run_container("grow", &[GOVERNED], GROWING);
    let flat = machine.run_container("flat", &[GOVERNED], CONVERGED);
    machine.wait_for_weight("flat is limited", &flat, |weight| is_limited(weight, 100));

    machine.run_until_ok("flowctl release JOB", &[("JOB", "flat")]);
    machine.wait_for_weight("its original limits are restored", &flat, |weight| weight == 100);
    sleep(Duration::from_secs(5));
    assert_eq!(machine.engine.cpu_weight(&flat), 100, "it is left alone");
    machine.run_until_ok("flowctl govern JOB", &[("JOB", "flat")]);
    machine.wait_for_weight("it is governed again", &flat, |weight| is_limited(weight, 100));

    machine.engine.docker(&["update", "--cpu-shares", "3000", "flat"]);
    let theirs = machine.engine.cpu_weight(&flat);
    machine.daemon.wait_for_job("flat", "a foreign value is kept", SOON, |job| job["hold"]["kind"] == "foreign");
    machine.run_until_ok("flowctl govern JOB", &[("JOB", "flat")]);
    machine.wait_for_weight("it is governed again", &flat, |weight| is_limited(weight, theirs));

    machine.run_until_ok("flowctl restore", &[]);
    assert_eq!(machine.engine.cpu_weight(&flat), theirs, "the new value is the original");
    assert_eq!(json(&machine.run_ok("flowctl status -o json", &[]))["node"]["released"], true, "all is released");
    machine.run_until_ok("flowctl govern --all", &[]);
    machine.wait_for_weight("all is governed again", &flat, |weight| is_limited(weight, theirs));

    machine.daemon.end("KILL");
    assert!(is_limited(machine.engine.cpu_weight(&flat), theirs), "limits are unchanged");
    machine.run_until_ok("flowcond restore", &[]);
    assert_eq!(machine.engine.cpu_weight(&flat), theirs);

    let _foreground = machine.spawn("flowcond", &[]);
    eventually("it replies", SOON, || machine.daemon.flowctl(&["ps"]).status.success().then_some(()));
    machine.daemon.wait_for_job("flat", "a daemon in the foreground governs", SOON, |_| true);
}

#[test]
fn operator_commands_have_their_documented_effect() {
    let machine = Machine::start(&[]);
    for name in ["one", "two"] {
        machine.run_container(name, &[GOVERNED], GROWING);
        machine.daemon.wait_for_job(name, "is read", SOON, |job| job["metric"]["name"] == "loss");
    }
    let free = machine.run_container("free", &[], CONVERGED);

    machine.run_ok("flowctl pin JOB 40%", &[("JOB", "one")]);
    machine.daemon.wait_for_job("one", "has its pinned share", SOON, |job| {
        job["pinned_share"] == 0.4 && job["cpu_weight"].as_u64().is_some_and(|weight| weight.abs_diff(80) <= 1)
    });
    machine.run_ok("flowctl pin JOB", &[("JOB", "two")]);
    machine.daemon.wait_for_job("two", "is pinned to its current share", SOON, |job| job["pinned_share"].is_number());
    for name in ["one", "two"] {
        machine.run_ok("flowctl unpin JOB", &[("JOB", name)]);
        machine.daemon.wait_for_job(name, "is no longer pinned", SOON, |job| job["pinned_share"].is_null());
    }

    machine.run_until_ok("flowctl adopt NAME --label flowcon.weight=2", &[("NAME", "free")]);
    machine.daemon.wait_for_job("free", "is adopted", SOON, |_| true);
    assert_eq!(machine.explained("free")["weight"], 2.0);
    machine.run_until_ok("flowctl disown NAME", &[("NAME", "free")]);
    assert!(machine.daemon.job("free").is_none() && machine.engine.cpu_weight(&free) == 100);
    machine.run_until_ok("flowctl adopt NAME", &[("NAME", "free")]);
    machine.daemon.wait_for_job("free", "is adopted again", SOON, |_| true);

    machine.run_ok("flowctl policy balanced --objective 1", &[]);
    let status = json(&machine.run_ok("flowctl status -o json", &[]));
    assert_eq!(
        (&status["node"]["policy"]["policy"], &status["node"]["policy"]["objective"]),
        (&"balanced".into(), &1.0.into())
    );
    assert!(machine.run_ok("flowctl policy", &[]).contains("1 (0 quality"));
    fs::write(machine.daemon.config(), "[policy]\nobjective = 0.25\n").unwrap();
    machine.run_ok("flowctl reload", &[]);
    assert!(machine.run_ok("flowctl policy", &[]).contains("0.25 (0 quality"), "the configured value is in force");
    let shown = machine.run_ok("flowctl config show", &[]);
    assert!(
        shown.contains("objective = 0.25") && shown.contains("interval = \"2s\""),
        "the effective configuration: {shown}"
    );
    fs::write(machine.daemon.config(), "[policy]\nobjective = \"fame\"\n").unwrap();
    let file = machine.daemon.config().display().to_string();
    assert!(machine.run_failing("flowcond check-config", &[]).contains(&format!("{file}:2: `policy.objective`")));
    fs::write(machine.daemon.config(), "").unwrap();
    machine.run_ok("flowcond check-config", &[]);
    let keys = machine.run_ok("flowctl config keys", &[]);
    assert!(flowcon::config::KEYS.iter().all(|key| keys.contains(key.name)), "{keys}");
}

#[test]
fn read_only_commands_show_jobs_and_decisions() {
    let machine = Machine::start(&["policy.interval=1s", "policy.max-interval=1s"]);
    for name in ["one", "two"] {
        machine.run_container(name, &[GOVERNED], GROWING);
        machine
            .daemon
            .wait_for_job(name, "is read", SOON, |job| job["metric"]["name"] == "loss" && job["rule"].is_string());
    }
    assert_eq!(machine.run_ok("flowctl ps", &[]).lines().filter(|line| line.contains("running")).count(), 2);
    assert!(machine.run_ok("flowctl status -o table", &[]).contains("one"));
    assert!(machine.run_ok("flowctl status -o wide", &[]).contains("one"));
    assert_eq!(json(&machine.run_ok("flowctl status -o json", &[]))["containers"].as_array().unwrap().len(), 2);
    let lines = machine.run_ok("flowctl status -o jsonl", &[]);
    assert_eq!(lines.lines().map(|line| json(line)["name"].clone()).collect::<Vec<_>>().len(), 2);
    assert!(machine.spawn("flowctl top -b", &[]).first_line().contains("policy"));
    assert!(machine.spawn("flowctl events", &[]).first_line().contains(':'));
    assert!(machine.spawn("flowctl events --since 1h", &[]).first_line().contains(':'));
    let event = machine.spawn("flowctl events -o jsonl", &[]).first_line();
    assert!(json(&event)["text"].is_string(), "{event}");
    assert!(machine.run_ok("flowctl metrics", &[]).contains("flowcon_containers 2"));

    let _exporter = machine.spawn("flowctl metrics --listen 127.0.0.1:9713", &[]);
    eventually("the metrics are served", SOON, || {
        let scraped = Command::new("curl").args(["-sf", "http://127.0.0.1:9713/metrics"]).output().unwrap();
        String::from_utf8_lossy(&scraped.stdout).contains("flowcon_containers 2").then_some(())
    });

    eventually("both are in the history", SOON, || {
        let output = machine.run_ok("flowctl history", &[]);
        (output.contains("one") && output.contains("two")).then_some(())
    });
    // The input of `flowsim deadlines --learned`.
    let jobs = json(&machine.run_ok("flowctl history --since 30d --json", &[]));
    assert!(jobs[0]["name"].is_string() && jobs[0]["started_unix_ms"].is_u64(), "{jobs}");
    let now = current_time(&machine);
    assert!(
        machine
            .run_ok("flowctl explain JOB --at TIME", &[("JOB", "one"), ("TIME", &now)])
            .contains("Decision in force")
    );
    // This daemon did not run ten minutes ago; the message contains the requested time.
    assert!(machine.run_failing("flowctl explain JOB --at 10m", &[("JOB", "one")]).contains("one"));
    assert!(machine.run_any("flowctl explain JOB --at 14:05", &[("JOB", "one")]).contains("14:05:00"));

    machine.run_ok("flowctl report", &[]);
    let page = fs::read_to_string(machine.folder("report.html")).unwrap();
    assert!(page.contains("</html>") && page.contains("one") && page.contains("two"));

    let recording = machine.folder("ticks.jsonl");
    let record = machine.spawn("flowctl record FILE", &[("FILE", &recording)]);
    let ticks =
        || fs::read_to_string(&recording).unwrap_or_default().lines().filter(|line| line.contains("\"tick\"")).count();
    eventually("decisions are recorded", SOON, || (ticks() >= 3).then_some(()));
    drop(record);
    machine.run_ok("flowsim replay FILE", &[("FILE", &recording)]);
}

/// The current time in the format of `--at`.
fn current_time(machine: &Machine) -> String {
    sleep(Duration::from_secs(2));
    let status = json(&machine.run_ok("flowctl status -o json", &[]));
    flowcon::model::time::utc(status["node"]["unix_ms"].as_u64().unwrap())
}

#[test]
fn help_completion_and_doctor_work() {
    let machine = Machine::start(&[]);
    let complete = machine.run_ok("source <(flowctl completion bash)", &[]);
    assert_eq!(complete, "");
    let defines = machine.bash("source <(flowctl completion bash); complete -p flowctl", &[]).output().unwrap();
    assert!(defines.status.success(), "{}", text_of(&defines));
    assert!(machine.run_ok("flowctl help labels", &[]).contains("flowcon.weight=2"));
    assert!(machine.run_ok("flowctl help status", &[]).contains("HEALTH"));
    assert!(machine.run_ok("flowctl help policy", &[]).contains("balanced"));
    assert!(machine.run_ok("flowctl help limits", &[]).contains("cpu.weight"));
    assert!(machine.run_ok("flowctl help operations", &[]).contains("TROUBLESHOOTING"));
    assert!(machine.run_ok("flowctl help threads", &[]).contains("flowcon-runtime"));
    assert!(machine.run_ok("flowctl help users", &[]).contains("WHOSE A JOB IS"));
    assert!(machine.run_ok("flowctl help notify", &[]).contains("WHAT IS SENT"));
    assert!(machine.run_ok("flowctl man PAGE", &[("PAGE", "labels")]).contains("flowcon.weight=2"));
    assert!(machine.run_ok("flowctl env", &[]).contains("export OMP_WAIT_POLICY=passive"));
    assert!(machine.run_ok("flowctl env --docker", &[]).contains("-e OMP_WAIT_POLICY=passive"));
    assert!(machine.run_ok("flowctl env --compose", &[]).contains("environment:"));
    assert!(machine.run_ok("flowctl help gpu", &[]).contains("an NVIDIA H200"));
    assert!(machine.run_ok("flowctl help cluster", &[]).contains("WHAT IT NEVER DOES"));
    assert!(machine.run_ok("flowctl help security", &[]).contains("PERMISSIONS"));
    // Other checks depend on the machine, but the daemon must be found.
    let checked = machine.run_any("flowctl doctor", &[]);
    assert!(checked.contains("daemon") && !checked.contains("no daemon answers"), "{checked}");

    let (socket, state) = (machine.folder("own.sock"), machine.folder("own"));
    let _own = machine.spawn("flowcond --socket PATH --state-dir DIR", &[("PATH", &socket), ("DIR", &state)]);
    eventually("the private daemon replies", SOON, || {
        let output = Command::new(env!("CARGO_BIN_EXE_flowctl")).args(["--socket", &socket, "ps"]).output().unwrap();
        output.status.success().then_some(())
    });
    assert!(Path::new(&state).join("flowcon.db").exists());
}

#[test]
fn lists_and_scenarios_run() {
    let machine = Machine::start(&[]);
    let listed = machine.run_ok("flowsim list", &[]);
    assert!(listed.contains("random-10"), "{listed}");
    let forecasts = machine.run_ok("flowsim forecasts random-10", &[]);
    assert!(forecasts.contains("IN 80 % RANGE"), "{forecasts}");
    let recording = machine.folder("simulated.jsonl");
    machine.run_ok("flowsim run SCENARIO --record FILE", &[("SCENARIO", "random-5"), ("FILE", &recording)]);
    machine.run_ok("flowsim replay FILE", &[("FILE", &recording)]);
    let policies = |page: &str| ["fair", "flowcon", "balanced"].iter().all(|policy| page.contains(policy));
    assert!(policies(&machine.run_ok("flowsim run random-10 --policy fair,flowcon,balanced", &[])));
    assert!(machine.run_ok("flowsim run sweep-unseen-16", &[]).contains("best trial"));
    assert!(policies(
        &machine.run_ok("flowsim run config/scenarios/example.toml --policy fair,flowcon,balanced --seeds 5", &[])
    ));
    assert!(policies(&machine.run_ok(
        "flowsim run config/scenarios/random-10-frameworks.toml --policy fair,flowcon,balanced,completion --set interval=3s",
        &[],
    )));
    assert!(policies(
        &machine
            .run_ok("flowsim run config/scenarios/unseen.toml --policy fair,flowcon,balanced --set interval=5s", &[],)
    ));
    let bound = machine.run_ok(
        "flowsim run config/scenarios/unseen.toml --policy fair,oracle-balanced,balanced --set interval=5s --set node.speed=2.2",
        &[],
    );
    assert!(bound.contains("oracle-balanced"), "{bound}");
    let placed = machine.run_ok("flowsim cluster procon-30x4", &[("30x4", "30x4 --seeds 1")]);
    assert!(placed.contains("specon") && placed.contains("default"), "{placed}");
    // Only checks that the lists run, with little work and one policy.
    let brief = "20 --scale 0.001 --repeats 1 --policy fair --runtime scope";
    let output = machine.run_ok("flowctl bench config/bench/fixed-3.toml --interval 20", &[("20", brief)]);
    assert!(output.contains("COMPLETION") && output.contains("char-rnn"), "{output}");
    let output = machine.run_ok(
        "flowctl bench config/examples/bench.toml --policy fair,balanced --cores 1 --interval 2",
        &[("2", "1 --repeats 1 --scale 0.1 --runtime scope")],
    );
    assert!(output.contains("language-model") && output.contains("balanced"), "{output}");
    assert!(machine.run_ok("flowctl help bench", &[]).contains("value of {epochs}"));
    let list = machine.folder("list.toml");
    fs::write(&list, "[[job]]\nname = \"small\"\ncommand = [\"sleep\", \"1\"]\n").unwrap();
    let output =
        machine.run_ok("flowctl bench LIST", &[("LIST", &format!("{list} --repeats 1 --policy fair --runtime scope"))]);
    assert!(output.contains("COMPLETION") && output.contains("small"), "{output}");
}
