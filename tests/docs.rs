//! Every command that a text tells people to type does what the text says: on a real engine and a real daemon here, or at the named
//! place that runs it. A command that nobody runs fails the first test.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod support;
mod texts;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::daemon::{Daemon, eventually};
use support::engine::{CONVERGED, Engine, GROWING, IMAGE, RunSpec, limited_weight};

const SOON: Duration = Duration::from_secs(40);

/// Who runs a command that cannot run here, or is run at length elsewhere.
enum Place {
    /// A script with this command on one line, options and names of its own between its words.
    Script(&'static str),
    /// A test with these words in it.
    Test(&'static str, &'static str),
}

use Place::{Script, Test};

const VM_INSTALL: Place = Script("integration/vm/guest/part-10-install");
const VM_SYSTEM: Place = Script("integration/vm/guest/part-40-system");
const VM_ACCESS: Place = Script("integration/vm/guest/part-60-access");
const VM_TARBALL: Place = Script("integration/vm/guest/part-80-tarball");
const README: Place = Test("tests/readme.rs", "its_installation_puts_everything_in_place");
const LISTS: Place = Test("src/lab/bench/list.rs", "the_lists_that_come_with_the_program_are_good");

#[rustfmt::skip]
const ELSEWHERE: &[(&str, Place)] = &[
    ("./integration/test", Script(".ci/run")),
    ("IMAGE=pytorch/pytorch docker compose -f compose.yaml up -d", Test("tests/examples.rs", "\"up\", \"--detach\"")),
    ("docker-compose", Test("tests/examples.rs", "\"docker-compose\"")),
    ("IMAGE=pytorch/pytorch sh docker-run.sh", Test("tests/examples.rs", "\"docker-run.sh\"")),
    ("apt install ./flowcon_*.deb", VM_INSTALL),
    ("apt purge flowcon", Script("integration/vm/guest/part-70-upgrade")),
    ("cargo build --release", Script("systemd/package/build")),
    ("cargo run --release -- demo", Test("tests/demo.rs", "demo(&[")),
    ("df /var/lib/flowcon", VM_SYSTEM),
    ("dmesg", VM_SYSTEM),
    ("flowcon-*/install.sh --uninstall", VM_TARBALL),
    (
        "docker node update --label-add flowcon.rented=true --label-add flowcon.price=2.50 NODE",
        Test("tests/swarm_queue.rs", "\"flowcon.rented=true\""),
    ),
    ("docker service create --name resnet --replicas 0 --restart-condition on-failure --restart-max-attempts 3 \\", Test("tests/support/swarm.rs", "--restart-condition")),
    (
        "FLOWCOORD_IMAGE=registry.example/flowcoord:1 docker stack deploy --compose-file flowcoord-agents.yaml flowcon",
        Test("tests/swarm_agents.rs", "\"stack\", \"deploy\""),
    ),
    ("flowcoord agent", Test("tests/support/swarm.rs", ".arg(\"agent\")")),
    ("flowcoord demo", Test("tests/cluster_demo.rs", "\"demo\", \"--nodes\"")),
    ("flowcoord run", Test("tests/support/swarm.rs", ".arg(\"run\")")),
    ("flowctl cluster drain NODE --wait", Test("tests/swarm.rs", "[\"drain\", target, \"--wait\"]")),
    ("flowctl cluster drain node-2 --wait", Test("tests/swarm.rs", "[\"drain\", target, \"--wait\"]")),
    ("flowctl cluster doctor", Test("tests/support/swarm.rs", "[\"cluster\", \"doctor\"")),
    ("flowctl cluster explain JOB", Test("tests/swarm.rs", "[\"explain\", \"train\"]")),
    ("flowctl cluster history", Test("tests/swarm.rs", "[\"history\"]")),
    ("flowctl cluster move JOB NODE", Test("tests/swarm.rs", "[\"move\", \"train\", target]")),
    ("flowctl cluster node-is-off JOB NODE", Test("tests/swarm.rs", "[\"node-is-off\", \"train\", ")),
    ("flowctl cluster status", Test("tests/support/swarm.rs", "[\"status\", \"--json\"]")),
    ("flowctl cluster submit --name resnet --image registry/train:1 --gpus 1 --checkpoint saved:/saved -- python train.py", Test("tests/swarm.rs", "\"submit\", \"--name\"")),
    ("flowctl adopt forgotten --label flowcon.weight=0.5", Test("tests/examples.rs", "forgotten is adopted")),
    ("flowctl demo", Test("tests/demo.rs", "demo(&[")),
    ("flowctl top", Test("tests/top.rs", "keys_look_sort_filter_pause_and_resume_and_q_gives_the_terminal_back")),
    ("install -m 644 -D config/flowcond.toml /etc/flowcon/flowcond.toml", README),
    ("install -m 644 -D systemd/flowcon.sysusers /usr/lib/sysusers.d/flowcon.conf && systemd-sysusers", README),
    ("install -m 644 systemd/flowcond.service /etc/systemd/system/", README),
    ("install -m 755 target/release/flowcond target/release/flowctl /usr/bin/", README),
    ("journalctl -u flowcond", VM_SYSTEM),
    ("journalctl -u flowcond -n 50", VM_SYSTEM),
    ("python train.py", Test("tests/docs.rs", "python train.py")),
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
    ("flowctl bench config/bench/random-10.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-15.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-5-frameworks.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-10-frameworks.toml --interval 20", LISTS),
    ("flowctl bench config/bench/random-15-frameworks.toml --interval 20", LISTS),
];

#[test]
fn every_command_of_every_text_is_run_by_a_test() {
    let commands = texts::commands();
    assert!(commands.len() > 60, "{commands:#?}");
    let here = include_str!("docs.rs").split("\n#[test]").collect::<Vec<_>>().join("");
    let here = regex::Regex::new(r"\(\s+").unwrap().replace_all(&here, "(").into_owned();
    let is_here = |command: &str| {
        ["does", "begins", "fails", "answers"].iter().any(|how| here.contains(&format!(".{how}({command:?}")))
    };
    let nobodys: Vec<&String> = commands
        .iter()
        .filter(|command| !is_here(command) && !ELSEWHERE.iter().any(|(known, _)| known == command))
        .collect();
    assert!(nobodys.is_empty(), "no test runs these: run them in tests/docs.rs, or name who does: {nobodys:#?}");
    for (command, place) in ELSEWHERE {
        assert!(commands.contains(*command), "no text says `{command}` any more");
        match place {
            Script(file) => assert!(
                texts::read(&texts::root().join(file)).replace("\\\n", " ").lines().any(|line| has(line, command)),
                "{file} does not run `{command}`"
            ),
            Test(file, words) => {
                assert!(
                    texts::read(&texts::root().join(file)).contains(words),
                    "{file} has no {words} for `{command}`"
                );
            }
        }
    }
}

/// Whether a line of a script has the words of a command in their order; a word in capitals stands for any.
fn has(line: &str, command: &str) -> bool {
    let mut words = line.split_whitespace().map(|word| word.trim_matches(|c| "'\"();".contains(c)));
    command.split(' ').all(|wanted| {
        let is_name = wanted.chars().all(|c| c.is_ascii_uppercase());
        words.any(|word| is_name || word.trim_start_matches("./") == wanted.trim_start_matches("./"))
    })
}

/// A machine as the texts think of it: an engine, a daemon, our programs and a `python` that trains.
struct Machine {
    engine: Engine,
    daemon: Daemon,
    dir: tempfile::TempDir,
}

/// Learns for a while, as somebody's own `train.py`.
const TRAINING: &str = "#!/bin/sh\n[ \"$1\" = train.py ] || exit 9\ntrap 'exit 0' TERM\ni=0; while [ $i -lt 9000 ]; do i=$((i+1)); \
    echo \"step $i/9000 loss: $((90000-10*i))\"; sleep 0.1; done\n";

impl Machine {
    fn start(settings: &[&str]) -> Machine {
        let engine = Engine::start();
        let usual = ["policy.interval=2s"];
        let daemon = Daemon::start(&engine.address(), &[&usual, settings].concat());
        eventually("the engine is connected", SOON, || {
            daemon.stdout_of(&["status"]).contains("docker: connected").then_some(())
        });
        let dir = tempfile::Builder::new().prefix("flowcon-docs-").tempdir().unwrap();
        for binary in [env!("CARGO_BIN_EXE_flowctl"), env!("CARGO_BIN_EXE_flowcond"), env!("CARGO_BIN_EXE_flowsim")]
            .map(Path::new)
        {
            symlink(binary, dir.path().join(binary.file_name().unwrap())).unwrap();
        }
        symlink(texts::root().join("config"), dir.path().join("config")).unwrap();
        fs::write(dir.path().join("python"), TRAINING).unwrap();
        fs::set_permissions(dir.path().join("python"), fs::Permissions::from_mode(0o755)).unwrap();
        Machine { engine, daemon, dir }
    }

    /// The command as it stands in the text, with `names` in place of its placeholders, in bash and beside the repository's `config`.
    fn typed(&self, command: &str, names: &[(&str, &str)]) -> Command {
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

    /// Runs it to its end, which must be a good one, and gives what it said.
    fn does(&self, command: &str, names: &[(&str, &str)]) -> String {
        let output = self.typed(command, names).output().unwrap();
        assert!(output.status.success(), "`{command}`: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs it to its end, which must be a bad one, and gives what it said.
    fn fails(&self, command: &str, names: &[(&str, &str)]) -> String {
        let output = self.typed(command, names).output().unwrap();
        assert!(!output.status.success(), "`{command}`: {}", said(&output));
        said(&output)
    }

    /// Runs it to an end that depends on the machine, and gives what it said.
    fn answers(&self, command: &str, names: &[(&str, &str)]) -> String {
        said(&self.typed(command, names).output().unwrap())
    }

    /// Starts it, for what goes on until it is told to end.
    fn begins(&self, command: &str, names: &[(&str, &str)]) -> Running {
        let mut bash = self.typed(command, names);
        Running(bash.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn runs(&self, name: &str, labels: &[&str], script: &str) -> String {
        self.engine.run(RunSpec { name, labels, script, ..RunSpec::default() })
    }

    fn weighs(&self, what: &str, id: &str, fits: impl Fn(u32) -> bool) {
        eventually(what, SOON, || fits(self.engine.cpu_weight(id)).then_some(()));
    }

    /// Every number behind the decision about a job, as JSON, once there is one.
    fn explained(&self, job: &str) -> Value {
        json(&self.daemon.stdout_of(&["explain", job, "-o", "json"]))["explanation"].clone()
    }

    fn folder(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A command with its children, ended when dropped.
struct Running(Child);

impl Running {
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Who waits for a reader of its output waits for ever.
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

const GOVERNED: &str = "flowcon.enable=true";

#[test]
fn jobs_are_started_with_their_labels_and_logs_are_understood() {
    let machine = Machine::start(&[]);
    let python = machine.folder("python");
    machine.engine.docker(&["create", "--name", "base", IMAGE, "true"]);
    machine.engine.docker(&["cp", &python, "base:/bin/python"]);
    machine.engine.docker(&["commit", "base", "pytorch:1"]);

    let _container = machine.begins(
        "docker run --label flowcon.enable=true --label flowcon.weight=2 IMAGE python train.py",
        &[("IMAGE", "--name weighty pytorch:1")],
    );
    let _command = machine.begins("flowctl run --label flowcon.deadline=90m -- python train.py", &[]);
    let _third = machine.begins(
        "flowctl run --label KEY=VALUE -- COMMAND",
        &[("KEY=VALUE", "flowcon.weight=3"), ("COMMAND", "python train.py")],
    );
    let _plain = machine.begins("flowctl run -- COMMAND", &[("COMMAND", "python train.py")]);
    let _same = machine.begins("flowctl run -- python train.py", &[]);
    let no_mps = machine.fails("flowctl run --gpu-share 40% -- python train.py", &[]);
    assert!(no_mps.contains("no MPS control daemon runs"), "{no_mps}");
    machine.daemon.wait_for_job("weighty", "it is read", SOON, |job| job["metric"]["name"] == "loss");
    assert_eq!(machine.explained("weighty")["weight"], 2.0);
    let scopes = eventually("the commands are read", SOON, || {
        let is_read = |job: &Value| job["runtime"] == "scope" && job["metric"]["name"] == "loss";
        let jobs: Vec<Value> = machine.daemon.jobs().into_iter().filter(is_read).collect();
        (jobs.len() == 4).then_some(jobs)
    });
    let explained: Vec<Value> = scopes.iter().map(|job| machine.explained(job["name"].as_str().unwrap())).collect();
    assert!(explained.iter().any(|job| job["weight"] == 3.0), "{explained:#?}");
    assert!(
        explained.iter().any(|job| job["deadline_in_s"].as_f64().is_some_and(|left| left > 5000.0)),
        "{explained:#?}"
    );

    machine.runs("odd", &[GOVERNED, "flowcon.weight=lots"], GROWING);
    machine.daemon.wait_for_job("odd", "is found", SOON, |_| true);
    assert!(machine.does("flowctl status", &[]).contains("flowcon.weight"), "a label that cannot be obeyed is told");
    assert!(machine.does("flowctl explain JOB", &[("JOB", "odd")]).contains("flowcon.weight"));
    let labels = machine.does("docker inspect -f \"{{.Config.Labels}}\" NAME", &[("NAME", "odd")]);
    assert!(labels.contains("flowcon.enable:true"), "{labels}");

    let log = machine.folder("train.log");
    fs::write(&log, "epoch 1/3 val_loss: 0.9\nepoch 2/3 val_loss: 0.5\nepoch 3/3 val_loss: 0.3\n").unwrap();
    let understood = machine.does("flowctl check-log FILE", &[("FILE", &log)]);
    assert!(understood.contains("val_loss") && understood.contains("0.3"), "{understood}");
    let raw = machine.does("flowctl logs JOB", &[("JOB", "odd")]);
    assert!(raw.contains("loss") && !raw.contains("\"stream\""), "as it was written: {raw}");
}

#[test]
fn whatever_undoes_puts_original_limits_back() {
    let mut machine = Machine::start(&["policy.name=flowcon"]);
    machine.runs("grow", &[GOVERNED], GROWING);
    let flat = machine.runs("flat", &[GOVERNED], CONVERGED);
    machine.weighs("flat is limited", &flat, |weight| weight == 40);

    machine.does("flowctl release JOB", &[("JOB", "flat")]);
    machine.weighs("its original limits are back", &flat, |weight| weight == 100);
    sleep(Duration::from_secs(5));
    assert_eq!(machine.engine.cpu_weight(&flat), 100, "it is left alone");
    machine.does("flowctl govern JOB", &[("JOB", "flat")]);
    machine.weighs("it is governed again", &flat, |weight| weight == 40);

    machine.engine.docker(&["update", "--cpu-shares", "3000", "flat"]);
    let theirs = machine.engine.cpu_weight(&flat);
    machine.daemon.wait_for_job("flat", "somebody else's value stays", SOON, |job| job["hold"]["kind"] == "foreign");
    machine.does("flowctl govern JOB", &[("JOB", "flat")]);
    machine.weighs("it is governed again", &flat, |weight| weight == limited_weight(theirs));

    machine.does("flowctl restore", &[]);
    assert_eq!(machine.engine.cpu_weight(&flat), theirs, "the new value is the original");
    assert_eq!(json(&machine.does("flowctl status -o json", &[]))["node"]["paused"], true, "all is paused");
    machine.does("flowctl govern --all", &[]);
    machine.weighs("all is governed again", &flat, |weight| weight == limited_weight(theirs));

    machine.daemon.end("KILL");
    assert_eq!(machine.engine.cpu_weight(&flat), limited_weight(theirs), "what stood stands");
    machine.does("flowcond restore", &[]);
    assert_eq!(machine.engine.cpu_weight(&flat), theirs);

    let _foreground = machine.begins("flowcond", &[]);
    eventually("it answers", SOON, || machine.daemon.flowctl(&["ps"]).status.success().then_some(()));
    machine.daemon.wait_for_job("flat", "a daemon by itself governs with what its configuration says", SOON, |_| true);
}

#[test]
fn an_operators_commands_do_what_they_are_said_to() {
    let machine = Machine::start(&[]);
    for name in ["one", "two"] {
        machine.runs(name, &[GOVERNED], GROWING);
        machine.daemon.wait_for_job(name, "is read", SOON, |job| job["metric"]["name"] == "loss");
    }
    let free = machine.runs("free", &[], CONVERGED);

    machine.does("flowctl pin JOB 40%", &[("JOB", "one")]);
    machine.daemon.wait_for_job("one", "has what it was pinned to", SOON, |job| {
        job["pinned_share"] == 0.4 && job["cpu_weight"] == 80
    });
    machine.does("flowctl pin JOB", &[("JOB", "two")]);
    machine.daemon.wait_for_job("two", "is held where it is", SOON, |job| job["pinned_share"].is_number());
    for name in ["one", "two"] {
        machine.does("flowctl unpin JOB", &[("JOB", name)]);
        machine.daemon.wait_for_job(name, "is decided about again", SOON, |job| job["pinned_share"].is_null());
    }

    machine.does("flowctl adopt NAME --label flowcon.weight=2", &[("NAME", "free")]);
    assert_eq!(machine.explained("free")["weight"], 2.0);
    machine.does("flowctl disown NAME", &[("NAME", "free")]);
    assert!(machine.daemon.job("free").is_none() && machine.engine.cpu_weight(&free) == 100);
    machine.does("flowctl adopt NAME", &[("NAME", "free")]);
    assert!(machine.daemon.job("free").is_some());

    machine.does("flowctl policy balanced --objective 1", &[]);
    let status = json(&machine.does("flowctl status -o json", &[]));
    assert_eq!(
        (&status["node"]["policy"]["policy"], &status["node"]["policy"]["objective"]),
        (&"balanced".into(), &1.0.into())
    );
    assert!(machine.does("flowctl policy", &[]).contains("1 (0 quality"));
    fs::write(machine.daemon.config(), "[policy]\nobjective = 0.25\n").unwrap();
    machine.does("flowctl reload", &[]);
    assert!(machine.does("flowctl policy", &[]).contains("0.25 (0 quality"), "what is configured is in force");
    let shown = machine.does("flowctl config show", &[]);
    assert!(
        shown.contains("objective = 0.25") && shown.contains("interval = \"2s\""),
        "what the daemon runs with: {shown}"
    );
    fs::write(machine.daemon.config(), "[policy]\nobjective = \"fame\"\n").unwrap();
    let file = machine.daemon.config().display().to_string();
    assert!(machine.fails("flowcond check-config", &[]).contains(&format!("{file}:2: `policy.objective`")));
    fs::write(machine.daemon.config(), "").unwrap();
    machine.does("flowcond check-config", &[]);
    let keys = machine.does("flowctl config keys", &[]);
    assert!(flowcon::config::KEYS.iter().all(|key| keys.contains(key.name)), "{keys}");
}

#[test]
fn whoever_looks_sees_the_jobs_and_what_was_decided() {
    let machine = Machine::start(&["policy.interval=1s", "policy.max-interval=1s"]);
    for name in ["one", "two"] {
        machine.runs(name, &[GOVERNED], GROWING);
        machine
            .daemon
            .wait_for_job(name, "is read", SOON, |job| job["metric"]["name"] == "loss" && job["rule"].is_string());
    }
    assert_eq!(machine.does("flowctl ps", &[]).lines().filter(|line| line.contains("running")).count(), 2);
    assert!(machine.does("flowctl status -o table", &[]).contains("one"));
    assert!(machine.does("flowctl status -o wide", &[]).contains("one"));
    assert_eq!(json(&machine.does("flowctl status -o json", &[]))["containers"].as_array().unwrap().len(), 2);
    let lines = machine.does("flowctl status -o jsonl", &[]);
    assert_eq!(lines.lines().map(|line| json(line)["name"].clone()).collect::<Vec<_>>().len(), 2);
    assert!(machine.begins("flowctl top -b", &[]).first_line().contains("policy"));
    assert!(machine.begins("flowctl events", &[]).first_line().contains(':'));
    assert!(machine.begins("flowctl events --since 1h", &[]).first_line().contains(':'));
    let event = machine.begins("flowctl events -o jsonl", &[]).first_line();
    assert!(json(&event)["text"].is_string(), "{event}");
    assert!(machine.does("flowctl metrics", &[]).contains("flowcon_containers 2"));

    let _exporter = machine.begins("flowctl metrics --listen 127.0.0.1:9713", &[]);
    eventually("the metrics are served", SOON, || {
        let scraped = Command::new("curl").args(["-sf", "http://127.0.0.1:9713/metrics"]).output().unwrap();
        String::from_utf8_lossy(&scraped.stdout).contains("flowcon_containers 2").then_some(())
    });

    eventually("both are in the history", SOON, || {
        let told = machine.does("flowctl history", &[]);
        (told.contains("one") && told.contains("two")).then_some(())
    });
    // What `flowsim deadlines --learned` reads.
    let jobs = json(&machine.does("flowctl history --since 30d --json", &[]));
    assert!(jobs[0]["name"].is_string() && jobs[0]["started_unix_ms"].is_u64(), "{jobs}");
    let now = this_instant(&machine);
    assert!(
        machine.does("flowctl explain JOB --at TIME", &[("JOB", "one"), ("TIME", &now)]).contains("Decision in force")
    );
    // This daemon did not run ten minutes ago, and it says which instant was meant.
    assert!(machine.fails("flowctl explain JOB --at 10m", &[("JOB", "one")]).contains("one"));
    assert!(machine.answers("flowctl explain JOB --at 14:05", &[("JOB", "one")]).contains("14:05:00"));

    machine.does("flowctl report", &[]);
    let page = fs::read_to_string(machine.folder("report.html")).unwrap();
    assert!(page.contains("</html>") && page.contains("one") && page.contains("two"));

    let recording = machine.folder("ticks.jsonl");
    let record = machine.begins("flowctl record FILE", &[("FILE", &recording)]);
    let ticks =
        || fs::read_to_string(&recording).unwrap_or_default().lines().filter(|line| line.contains("\"tick\"")).count();
    eventually("decisions are written down", SOON, || (ticks() >= 3).then_some(()));
    drop(record);
    machine.does("flowsim replay FILE", &[("FILE", &recording)]);
}

/// This instant, as `--at` takes it.
fn this_instant(machine: &Machine) -> String {
    sleep(Duration::from_secs(2));
    let status = json(&machine.does("flowctl status -o json", &[]));
    flowcon::model::time::utc(status["node"]["unix_ms"].as_u64().unwrap())
}

#[test]
fn what_helps_helps() {
    let machine = Machine::start(&[]);
    let complete = machine.does("source <(flowctl completion bash)", &[]);
    assert_eq!(complete, "");
    let defines = machine.typed("source <(flowctl completion bash); complete -p flowctl", &[]).output().unwrap();
    assert!(defines.status.success(), "{}", said(&defines));
    assert!(machine.does("flowctl help labels", &[]).contains("flowcon.weight=2"));
    assert!(machine.does("flowctl help policy", &[]).contains("balanced"));
    assert!(machine.does("flowctl help limits", &[]).contains("cpu.weight"));
    assert!(machine.does("flowctl help operations", &[]).contains("TROUBLESHOOTING"));
    assert!(machine.does("flowctl help gpu", &[]).contains("NOT YET TRIED"));
    assert!(machine.does("flowctl help cluster", &[]).contains("WHAT IT NEVER DOES"));
    assert!(machine.does("flowctl help security", &[]).contains("WHO CAN DO WHAT"));
    // What this machine lacks is its own business; the daemon is found.
    let checked = machine.answers("flowctl doctor", &[]);
    assert!(checked.contains("daemon") && !checked.contains("no daemon answers"), "{checked}");

    let (socket, state) = (machine.folder("own.sock"), machine.folder("own"));
    let _own = machine.begins("flowcond --socket PATH --state-dir DIR", &[("PATH", &socket), ("DIR", &state)]);
    eventually("a daemon of one's own answers", SOON, || {
        let asked = Command::new(env!("CARGO_BIN_EXE_flowctl")).args(["--socket", &socket, "ps"]).output().unwrap();
        asked.status.success().then_some(())
    });
    assert!(Path::new(&state).join("flowcon.db").exists());
}

#[test]
fn lists_and_scenarios_run() {
    let machine = Machine::start(&[]);
    let listed = machine.does("flowsim list", &[]);
    assert!(listed.contains("random-10"), "{listed}");
    let recording = machine.folder("simulated.jsonl");
    machine.does("flowsim run SCENARIO --record FILE", &[("SCENARIO", "random-5"), ("FILE", &recording)]);
    machine.does("flowsim replay FILE", &[("FILE", &recording)]);
    let policies = |page: &str| ["fair", "flowcon", "balanced"].iter().all(|policy| page.contains(policy));
    assert!(policies(&machine.does("flowsim run random-10 --policy fair,flowcon,balanced", &[])));
    assert!(policies(
        &machine.does("flowsim run config/scenarios/example.toml --policy fair,flowcon,balanced --seeds 5", &[])
    ));
    assert!(policies(&machine.does(
        "flowsim run config/scenarios/random-10-frameworks.toml --policy fair,flowcon,balanced,completion --set interval=3s",
        &[],
    )));
    assert!(policies(
        &machine
            .does("flowsim run config/scenarios/unseen.toml --policy fair,flowcon,balanced --set interval=5s", &[],)
    ));
    let placed = machine.does("flowsim cluster procon-30x4", &[("30x4", "30x4 --seeds 1")]);
    assert!(placed.contains("specon") && placed.contains("default"), "{placed}");
    // Little work, once and under one policy: that they run, not what they measure.
    let brief = "20 --scale 0.001 --repeats 1 --policy fair --runtime scope";
    let told = machine.does("flowctl bench config/bench/fixed-3.toml --interval 20", &[("20", brief)]);
    assert!(told.contains("COMPLETION") && told.contains("char-rnn"), "{told}");
    let told = machine.does(
        "flowctl bench config/examples/bench.toml --policy fair,balanced --interval 5",
        &[("5", "1 --repeats 1 --scale 0.2 --runtime scope")],
    );
    assert!(told.contains("language-model") && told.contains("balanced"), "{told}");
    assert!(machine.does("flowctl help bench", &[]).contains("{epochs} stands for"));
    let list = machine.folder("list.toml");
    fs::write(&list, "[[job]]\nname = \"small\"\ncommand = [\"sleep\", \"1\"]\n").unwrap();
    let told =
        machine.does("flowctl bench LIST", &[("LIST", &format!("{list} --repeats 1 --policy fair --runtime scope"))]);
    assert!(told.contains("COMPLETION") && told.contains("small"), "{told}");
}
