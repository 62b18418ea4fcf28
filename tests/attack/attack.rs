//! Attacks by an unprivileged local user on a running daemon with honest jobs: each attack fails, the honest jobs keep their shares,
//! the daemon's cost stays low, and no reply contains data that the attacker may not read. Needs root.
//!
//! The attacker is this program run as another user, in cgroups owned by that user (as systemd creates for each session).

use crate::support::cost::{cpu_of, resident};
use crate::support::daemon::{Daemon, eventually};
use crate::support::program::{install, public_flowctl};
use flowcon::host::cgroup::Home;
use flowcon::host::scope::protocol::Registration;
use flowcon::host::scope::{Output as Kept, Session, socket_of};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const ATTACKER: u32 = 54_321;
const SOON: Duration = Duration::from_secs(30);
const SECRET: &str = "epoch 7 swordfish: 3133731337.25";

/// What a client of the socket for commands reports if a busy daemon does not answer in time.
const LATE: [&str; 2] = ["Resource temporarily unavailable", "timed out"];

/// A daemon, two honest jobs of root, a file readable only by root, and the attacker's directory and cgroups.
struct Arena {
    daemon: Daemon,
    dir: tempfile::TempDir,
    honest: Vec<(String, Child)>,
    homes: Vec<Home>,
}

impl Arena {
    fn new(name: &str, settings: &[&str]) -> Arena {
        let dir = tempfile::Builder::new().prefix("attack-").tempdir().unwrap();
        fs::write(dir.path().join("secret.json"), "{\"epochs\": 3133731337}").unwrap();
        fs::write(dir.path().join("secret"), SECRET).unwrap();
        for secret in ["secret", "secret.json"] {
            fs::set_permissions(dir.path().join(secret), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let scratch = dir.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        chown(&scratch, Some(ATTACKER), Some(ATTACKER)).unwrap();
        install(std::env::current_exe().unwrap(), &dir.path().join("attacker"));
        public_flowctl(dir.path());

        let settings: Vec<&str> =
            settings.iter().copied().chain(["policy.interval=1s", "policy.max-interval=1s"]).collect();
        let daemon = Daemon::start("off", &settings);
        // Like /run/flowcon: accessible to all users.
        fs::set_permissions(daemon.socket().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();

        // The attacker's cgroups, as in a user session: the outer one contains their cgroups, the inner one their processes.
        let outer_name = format!("attack-{}-{name}", std::process::id());
        let outer = Home::create(&outer_name).unwrap();
        for directory in outer.directories() {
            let inner = directory.join("session");
            let controllers = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
            if !controllers.is_empty() {
                let wanted: Vec<String> = controllers.split_whitespace().map(|name| format!("+{name}")).collect();
                let _ = fs::write(directory.join("cgroup.subtree_control"), wanted.join(" "));
            }
            fs::create_dir(&inner).unwrap();
            for place in [directory, &inner] {
                chown(place, Some(ATTACKER), Some(ATTACKER)).unwrap();
                for file in ["cgroup.procs", "tasks", "cgroup.subtree_control", "cgroup.threads"] {
                    let _ = chown(place.join(file), Some(ATTACKER), Some(ATTACKER)); // not every cgroup version has each file
                }
            }
        }
        let mut arena = Arena { daemon, dir, honest: Vec::new(), homes: vec![outer] };
        for job in ["a", "b"] {
            let name = format!("honest-{}-{name}-{job}", std::process::id());
            let mut command =
                arena.flowctl(&["run", "--name", &name, "--", "sh", "-c", "while :; do sleep 0.05; done"]);
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            arena.honest.push((name, child));
        }
        for (name, _) in &arena.honest {
            arena.daemon.wait_for_job(name, "it has a share", SOON, |job| job["share"].is_number());
        }
        arena
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `flowctl` as root.
    fn flowctl(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path("flowctl"));
        command.arg("--socket").arg(self.daemon.socket()).args(words);
        command
    }

    /// A command run as the attacker, in their cgroups.
    fn as_attacker(&self, program: &Path, words: &[&str]) -> Command {
        let mut enter = String::new();
        for directory in self.homes[0].directories() {
            enter.push_str(&format!("echo $$ >{}/session/cgroup.procs; ", directory.display()));
        }
        let user = ATTACKER.to_string();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{enter} exec \"$@\""), "sh", "setpriv", "--reuid", &user, "--regid", &user]);
        command.args(["--clear-groups", "--"]).arg(program).args(words);
        command.current_dir(self.path("scratch")).stdin(Stdio::null());
        command
    }

    /// `flowctl` as the attacker.
    fn their_flowctl(&self, words: &[&str]) -> Command {
        let mut command = self.as_attacker(&self.path("flowctl"), &[]);
        command.arg("--socket").arg(self.daemon.socket()).args(words);
        command
    }

    /// Runs one of [`the_attacker`]'s attacks and returns its output.
    fn attack(&self, kind: &str, about: &str) -> String {
        let output = self.begin(kind, about).output().unwrap();
        let text = text_of(&output);
        assert!(output.status.success(), "{kind}: {text}");
        text
    }

    fn begin(&self, kind: &str, about: &str) -> Command {
        let words = ["--exact", "attack::the_attacker", "--ignored", "--nocapture"];
        let mut command = self.as_attacker(&self.path("attacker"), &words);
        command.env("ATTACK", kind).env("ABOUT", about).env("SOCKET", self.daemon.socket());
        command.env("SECRET", self.path("secret"));
        command
    }

    /// The CPU weights of the honest jobs in the kernel.
    fn weights(&self) -> Vec<f64> {
        let weight =
            |name: &String| self.daemon.job(name).and_then(|job| job["cpu_weight"].as_f64()).unwrap_or(f64::NAN);
        self.honest.iter().map(|(name, _)| weight(name)).collect()
    }

    /// All replies and the log of the daemon.
    fn all_output(&self) -> String {
        let mut text = String::new();
        let names: Vec<String> =
            self.daemon.jobs().iter().filter_map(|job| job["name"].as_str().map(str::to_owned)).collect();
        let asked =
            [vec!["status", "-o", "json"], vec!["events", "-o", "json", "--no-follow", "-n", "1000"], vec!["history"]];
        for words in asked {
            text.push_str(&text_of(&self.daemon.flowctl(&words)));
        }
        for name in &names {
            text.push_str(&text_of(&self.daemon.flowctl(&["explain", name, "-o", "json"])));
            text.push_str(&text_of(&self.daemon.flowctl(&["logs", name])));
        }
        text + &self.daemon.log()
    }

    fn assert_no_secrets(&self) {
        let text = self.all_output();
        for word in ["swordfish", "3133731337"] {
            assert!(!text.contains(word), "{text}");
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for (_, child) in &mut self.honest {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
        let _ = Command::new("pkill")
            .args(["-KILL", "-U", &ATTACKER.to_string(), "-f", &self.dir.path().to_string_lossy()])
            .status();
        for directory in self.homes.iter().flat_map(Home::directories) {
            for pid in processes_below(directory) {
                let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
            }
            let until = Instant::now() + SOON;
            while directory.exists() && Instant::now() < until {
                remove_below(directory);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn children_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn processes_below(directory: &Path) -> Vec<String> {
    let own = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    let below = children_of(directory).into_iter().flat_map(|child| processes_below(&child));
    own.lines().map(str::to_owned).chain(below).collect()
}

fn remove_below(directory: &Path) {
    children_of(directory).iter().for_each(|child| remove_below(child));
    let _ = fs::remove_dir(directory);
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn no_process_of_root_writes_to_a_path_controlled_by_a_user() {
    let arena = Arena::new("write", &[]);
    let folder = arena.daemon.socket().parent().unwrap().to_owned();
    let canary = arena.path("secret");
    // A former vulnerability: a folder with the job's name in which the record is a symbolic link.
    let text = arena.attack("plant", &format!("{}:{}", folder.display(), canary.display()));
    assert!(text.contains("planted 0"), "{text}");
    let out = arena.flowctl(&["run", "--name", "train", "--", "true"]).output().unwrap();
    assert!(out.status.success(), "{}", text_of(&out));
    assert_eq!(fs::read_to_string(&canary).unwrap(), SECRET);
    let open_to_all: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| entry.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o022 != 0))
        .map(|entry| entry.path())
        .collect();
    assert_eq!(open_to_all, Vec::<PathBuf>::new());
    let text = arena.attack("api", "");
    assert!(text.contains("status: PermissionDenied"), "{text}");
}

#[test]
fn the_daemon_has_no_network_socket() {
    let arena = Arena::new("network", &[]);
    let descriptors = fs::read_dir(format!("/proc/{}/fd", arena.daemon.pid())).unwrap().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    let own: Vec<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    assert!(!own.is_empty(), "it listens on Unix sockets");
    for kind in ["tcp", "tcp6", "udp", "udp6", "udplite", "raw", "raw6", "packet", "netlink"] {
        let table = fs::read_to_string(format!("/proc/{}/net/{kind}", arena.daemon.pid())).unwrap_or_default();
        let of_it = |line: &&str| line.split_whitespace().any(|word| own.iter().any(|inode| inode == word));
        assert_eq!(table.lines().find(of_it), None, "{kind}");
    }
}

#[test]
fn a_user_cannot_make_the_daemon_read_files_of_others() {
    let arena = Arena::new("read", &[]);
    let (secret, config) = (arena.path("secret"), arena.path("secret.json"));
    symlink(&secret, arena.path("scratch/link")).unwrap();
    let mut jobs = Vec::new();
    for (name, path) in [("direct", secret.clone()), ("linked", arena.path("scratch/link"))] {
        let label = format!("flowcon.log={}", path.display());
        let words = ["run", "--name", name, "-l", &label, "--", "sleep", "1000"];
        jobs.push(arena.their_flowctl(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    let config = format!("--config={}", config.display());
    let words = [
        "run",
        "--name",
        "config",
        "--",
        "sh",
        "-c",
        "i=0; while :; do i=$((i+1)); echo epoch $i loss: 0.$i; sleep 1; done",
        &config,
    ];
    jobs.push(arena.their_flowctl(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    for name in ["direct", "linked", "config"] {
        arena.daemon.wait_for_job(&format!("{name}@{ATTACKER}"), "it is governed", SOON, |_| true);
    }
    let config = format!("config@{ATTACKER}");
    arena.daemon.wait_for_job(&config, "its log is read", SOON, |job| job["metric"]["value"].is_number());
    let text = arena.attack("descriptors", "");
    for kind in ["path", "zero", "fifo", "directory", "proc", "write-only", "none", "many"] {
        assert!(text.contains(&format!("{kind}: refused")), "{kind}: {text}");
    }
    arena.assert_no_secrets();
    for mut job in jobs {
        let _ = job.kill();
        let _ = job.wait();
    }
}

#[test]
fn an_output_descriptor_that_is_replaced_by_a_fifo_blocks_nothing() {
    let arena = Arena::new("fifo", &[]);
    let mut attacker = arena.begin("swap", "swapped").stdout(Stdio::null()).spawn().unwrap();
    let name = format!("swapped@{ATTACKER}");
    arena.daemon.wait_for_job(&name, "it is governed", SOON, |_| true);
    eventually("its descriptor is a FIFO now", SOON, || arena.path("scratch/swapped").exists().then_some(()));
    let mut logs = arena.flowctl(&["logs", &name]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("root's command ends", SOON, || logs.try_wait().unwrap());
    let mut why = String::new();
    logs.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("not a regular file"), "{why}");
    let _ = attacker.kill();
    let _ = attacker.wait();
}

#[test]
fn a_user_cannot_take_shares_from_others() {
    let arena = Arena::new("shares", &["scopes.per-user=3", "scopes.label-bytes=5000"]);
    let before = arena.weights();
    for label in ["flowcon.min-share=99%", "flowcon.weight=100", "flowcon.weight=1.5", "flowcon.user=root"] {
        let out = arena.their_flowctl(&["run", "-l", label, "--", "true"]).output().unwrap();
        assert_eq!(out.status.code(), Some(6), "{}", text_of(&out));
        assert!(text_of(&out).contains("api.admins"), "{}", text_of(&out));
    }
    let mut idle = Vec::new();
    for number in 0..3 {
        let name = format!("idle-{number}");
        let words = [
            "run",
            "--name",
            &name,
            "-l",
            "flowcon.memory-floor=20000000t",
            "-l",
            "flowcon.deadline=1s",
            "--",
            "sleep",
            "1000",
        ];
        idle.push(arena.their_flowctl(&words).stderr(Stdio::null()).spawn().unwrap());
        arena.daemon.wait_for_job(&format!("{name}@{ATTACKER}"), "it is governed", SOON, |_| true);
    }
    let out = arena.their_flowctl(&["run", "--name", "fourth", "--", "true"]).output().unwrap();
    assert!(out.status.code() == Some(6) && text_of(&out).contains("scopes.per-user"), "{}", text_of(&out));
    // Root's jobs are not counted with the user's, and a user's job does not reserve its name.
    let out = arena.flowctl(&["run", "--name", "idle-0", "--", "true"]).output().unwrap();
    assert!(out.status.success(), "{}", text_of(&out));
    let decisions = || {
        let text = arena.daemon.stdout_of(&["status", "-o", "json"]);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["node"]["decisions"].as_u64().unwrap()
    };
    let from = decisions();
    eventually("more decisions are taken", SOON, || (decisions() >= from + 3).then_some(()));
    for (before, now) in before.iter().zip(arena.weights()) {
        assert!((now / before - 1.0).abs() <= 0.05, "{before} -> {now}");
    }
    for mut job in idle {
        let _ = job.kill();
        let _ = job.wait();
    }
}

#[test]
fn the_total_size_of_a_users_labels_is_bounded() {
    let arena = Arena::new("labels", &["scopes.label-bytes=5000"]);
    let label = format!("note={}", "x".repeat(3000));
    let words = ["run", "--name", "first", "-l", &label, "--", "sleep", "1000"];
    let mut first = arena.their_flowctl(&words).stderr(Stdio::null()).spawn().unwrap();
    arena.daemon.wait_for_job(&format!("first@{ATTACKER}"), "it is governed", SOON, |_| true);
    let out = arena.their_flowctl(&["run", "--name", "second", "-l", &label, "--", "true"]).output().unwrap();
    assert!(out.status.code() == Some(6) && text_of(&out).contains("scopes.label-bytes"), "{}", text_of(&out));
    let _ = first.kill();
    let _ = first.wait();
}

#[test]
fn a_user_cannot_register_processes_of_others() {
    let arena = Arena::new("others", &[]);
    let (honest, _) = &arena.honest[0];
    let text = arena.attack("others", honest);
    for kind in [
        "root's job",
        "root's process",
        "own process outside",
        "a cgroup for root's job",
        "a cgroup for root's process",
    ] {
        assert!(text.contains(&format!("{kind}: refused")), "{text}");
    }
    let of_honest = fs::read_to_string(format!("/proc/{}/cgroup", arena.honest[0].1.id())).unwrap();
    let of_init = fs::read_to_string("/proc/1/cgroup").unwrap();
    assert!(!of_honest.contains("flowcon.user-") && !of_init.contains("flowcon.user-"), "{of_honest}{of_init}");
    // The same name and command give a separate job and a separate training.
    let words = ["run", "--name", honest, "--", "sh", "-c", "while :; do sleep 0.05; done"];
    let mut same = arena.their_flowctl(&words).stderr(Stdio::null()).spawn().unwrap();
    arena.daemon.wait_for_job(&format!("{honest}@{ATTACKER}"), "it is governed", SOON, |_| true);
    assert!(arena.daemon.job(honest).is_some());
    let training = |id: &str| {
        let path = arena.daemon.state_dir().join(format!("scopes/scope:{id}.json"));
        let record: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        record["training"].as_str().unwrap().to_owned()
    };
    assert_ne!(training(honest), training(&format!("{honest}@{ATTACKER}")));
    // They see only their own jobs.
    let text = text_of(&arena.their_flowctl(&["ps", "-o", "json"]).output().unwrap());
    assert!(text.contains(&format!("{honest}@{ATTACKER}")) && text.matches("\"name\"").count() == 1, "{text}");
    let _ = same.kill();
    let _ = same.wait();
}

#[test]
fn a_dead_command_keeps_no_resources_while_its_connection_is_open() {
    let arena = Arena::new("dead", &[]);
    let mut attacker = arena.begin("hold", "held").stdout(Stdio::null()).spawn().unwrap();
    let name = format!("held@{ATTACKER}");
    arena.daemon.wait_for_job(&name, "it is governed", SOON, |_| true);
    fs::write(arena.path("scratch/seen"), "").unwrap();
    eventually("its process was killed", SOON, || arena.path("scratch/held").exists().then_some(()));
    eventually("it is gone", SOON, || arena.daemon.job(&name).is_none().then_some(()));
    assert!(attacker.try_wait().unwrap().is_none(), "the connection is still held");
    let _ = attacker.kill();
    let _ = attacker.wait();
}

#[test]
fn noise_on_the_socket_and_in_logs_costs_little_and_does_not_affect_others() {
    let arena = Arena::new("noise", &[]);
    let before = arena.weights();
    let mut attackers = Vec::new();
    let pattern = r"flowcon.pattern=(?P<value>(\w+\s?)*!)";
    for (name, script) in [
        ("flood", "while :; do head -c 4000000 /dev/zero | tr '\\0' x; echo; sleep 0.2; done"),
        (
            "lines",
            "while :; do i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo aaaa bbbb cccc dddd eeee ffff $i; done; sleep 0.2; done",
        ),
    ] {
        let words = ["run", "--name", name, "-l", pattern, "--", "sh", "-c", script];
        let mut command = arena.their_flowctl(&words);
        attackers.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    for name in ["flood", "lines"] {
        arena.daemon.wait_for_job(&format!("{name}@{ATTACKER}"), "it is governed", SOON, |_| true);
    }
    attackers.push(arena.begin("crowd", "").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let pid = arena.daemon.pid();
    let (cpu, began) = (cpu_of(&[pid]), Instant::now());
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(15) {
        let asked = Instant::now();
        let start = |_| {
            let out = arena.flowctl(&["run", "--", "true"]).output().unwrap();
            assert!(out.status.success(), "{:?} {}", out.status, text_of(&out));
            out
        };
        // On a busy machine, the accept queue may stay full, or the disk busy, for longer than a start waits: then another start must get through.
        let is_late = |out: &Output| LATE.iter().any(|why| text_of(out).contains(why));
        let out = (0..4).map(start).find(|out| !is_late(out)).expect("a start got through");
        assert!(!text_of(&out).contains("not governed"), "{}", text_of(&out));
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_secs(1));
    }
    let cost = (cpu_of(&[pid]) - cpu) / began.elapsed().as_secs_f64();
    let memory = resident(pid);
    println!("{:.1} % of a core, {memory:.0} MiB, root's slowest start {slowest:?}", cost * 100.0);
    assert!(memory <= 64.0, "{memory} MiB");
    // Without optimisation the same work takes several times as long.
    let bound = if cfg!(debug_assertions) { 0.25 } else { 0.05 };
    assert!(cost <= bound, "{} % of a core", cost * 100.0);
    for (before, now) in before.iter().zip(arena.weights()) {
        assert!((now / before - 1.0).abs() <= 0.05, "{before} -> {now}");
    }
    for mut attacker in attackers {
        let _ = attacker.kill();
        let _ = attacker.wait();
    }
}

/// The attacker's side of the attacks, run as the attacker by name.
#[test]
#[ignore = "run by the attacks, as another user"]
fn the_attacker() {
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    let (kind, about, socket) = (get("ATTACK"), get("ABOUT"), PathBuf::from(get("SOCKET")));
    assert_eq!(rustix::process::geteuid().as_raw(), ATTACKER, "must not run as root");
    let attacker = Attacker {
        runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        run_socket: socket_of(&socket),
        secret: get("SECRET").into(),
        api: socket,
    };
    match kind.as_str() {
        "plant" => plant(&about),
        "api" => println!("status: {:?}", UnixStream::connect(&attacker.api).map(drop).unwrap_err().kind()),
        "descriptors" => attacker.descriptors(),
        "swap" => attacker.swap(&about),
        "others" => attacker.others(&about),
        "hold" => attacker.hold(&about),
        "crowd" => attacker.crowd(),
        other => panic!("{other}"),
    }
}

/// Tries to create folders with the names of scopes, with links to root's file in them.
fn plant(about: &str) {
    let (folder, canary) = about.split_once(':').unwrap();
    let mut planted = 0;
    for scopes in ["s.scopes", "flowcond.scopes", "s-run.sock", "train", "state", "state/scopes"] {
        let job = Path::new(folder).join(scopes).join("train");
        let made = fs::create_dir_all(&job).is_ok();
        let linked = [".scope.json.new", "scope.json", "output.log"]
            .iter()
            .filter(|name| symlink(canary, job.join(name)).is_ok());
        planted += usize::from(made) + linked.count();
    }
    planted += usize::from(fs::remove_file(Path::new(folder).join("s-run.sock")).is_ok());
    println!("planted {planted}");
}

struct Attacker {
    runtime: tokio::runtime::Runtime,
    api: PathBuf,
    run_socket: PathBuf,
    secret: PathBuf,
}

/// A process in a manually created cgroup with a scope's name.
struct Puppet {
    child: Child,
    home: Home,
}

impl Puppet {
    fn new(name: &str) -> Puppet {
        let home = Home::create(&format!("flowcon-{name}")).expect("a new cgroup");
        let enter: String = home.entrances().iter().map(|path| format!("echo 0 >{}; ", path.display())).collect();
        let child = Command::new("sh").args(["-c", &format!("{enter} exec sleep 1000")]).spawn().unwrap();
        while home.is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Puppet { child, home }
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.home.remove();
    }
}

fn pidfd(pid: u32) -> OwnedFd {
    pidfd_open(Pid::from_raw(pid as i32).unwrap(), PidfdFlags::empty()).unwrap()
}

impl Attacker {
    fn register(&self, name: &str, process: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Result<Session, String> {
        self.register_in(false, name, process, output)
    }

    /// Registers a process, for which the daemon is to make a cgroup if `needs_cgroup`.
    fn register_in(
        &self,
        needs_cgroup: bool,
        name: &str,
        process: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<Session, String> {
        let registration = Registration {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            command: vec!["train".to_owned()],
            output: output.as_raw_fd(),
            needs_cgroup,
        };
        self.runtime.block_on(async {
            let mut session = Session::open(&self.run_socket).await.map_err(|error| error.to_string())?;
            match session.register(registration, process, output).await {
                Ok(_) => Ok(session),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    /// Registers; repeated while a busy daemon does not answer in time.
    fn registered(&self, name: &str, process: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Session {
        eventually("it is registered", SOON, || match self.register(name, process, output) {
            Err(why) if LATE.iter().any(|late| why.contains(late)) => None,
            registered => Some(registered.unwrap()),
        })
    }

    fn print_result(what: &str, registered: Result<Session, String>) {
        match registered {
            Ok(_) => println!("{what}: REGISTERED"),
            Err(why) => println!("{what}: refused: {why}"),
        }
    }

    /// Registers everything except readable memory as the output.
    fn descriptors(&self) {
        let puppet = Puppet::new("puppet");
        let process = pidfd(puppet.child.id());
        let open = |path: &Path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, "fifo", rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let memory = Kept::create(1000).unwrap().handle().unwrap();
        let again = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let handed = [
            ("path", open(&self.secret, OFlags::PATH)),
            ("zero", open(Path::new("/dev/zero"), OFlags::RDONLY)),
            ("fifo", open(Path::new("fifo"), OFlags::RDWR | OFlags::NONBLOCK)),
            ("directory", open(Path::new("/tmp"), OFlags::RDONLY)),
            ("proc", open(Path::new("/proc/self/maps"), OFlags::RDONLY)),
            ("write-only", open(Path::new(&again), OFlags::WRONLY)),
        ];
        for (what, output) in &handed {
            Attacker::print_result(what, self.register("puppet", process.as_fd(), output.as_fd()));
        }
        Attacker::print_result("none", self.register("puppet", memory.as_fd(), memory.as_fd()));
        let line = b"{\"register\":{\"name\":\"puppet\",\"labels\":{},\"command\":[],\"output\":1}}\n";
        let stream = UnixStream::connect(&self.run_socket).unwrap();
        let many: Vec<BorrowedFd<'_>> = std::iter::repeat_n(memory.as_fd(), 200).collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&many)));
        let sent = rustix::net::sendmsg(
            &stream,
            &[std::io::IoSlice::new(line)],
            &mut ancillary,
            rustix::net::SendFlags::empty(),
        );
        sent.unwrap();
        let mut answer = String::new();
        (&stream).read_to_string(&mut answer).unwrap();
        println!("many: {}", if answer.contains("\"refused\"") { "refused" } else { "REGISTERED" });
    }

    /// Registers memory, then replaces that descriptor by a FIFO.
    fn swap(&self, name: &str) {
        let puppet = Puppet::new(name);
        let kept = Kept::create(1000).unwrap();
        let mut output = kept.handle().unwrap();
        let _session = self.registered(name, pidfd(puppet.child.id()).as_fd(), output.as_fd());
        rustix::fs::mknodat(rustix::fs::CWD, "fifo", rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let fifo = rustix::fs::open("fifo", OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap();
        rustix::io::dup2(&fifo, &mut output).unwrap();
        fs::write(name, "").unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }

    fn others(&self, honest: &str) {
        let memory = Kept::create(1000).unwrap().handle().unwrap();
        let cgroup = format!("/flowcon-{honest}");
        let lives_there = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/cgroup"))
                .is_ok_and(|text| text.lines().any(|line| line.ends_with(&cgroup)))
        };
        let open = |pid: u32| pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok(); // it may have ended
        let victim = eventually("root's job is visible", SOON, || {
            let entries = fs::read_dir("/proc").unwrap().flatten();
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            pids.filter(&lives_there).find_map(open)
        });
        Attacker::print_result("root's job", self.register(honest, victim.as_fd(), memory.as_fd()));
        Attacker::print_result("root's process", self.register("mine", pidfd(1).as_fd(), memory.as_fd()));
        let own = pidfd(std::process::id());
        Attacker::print_result("own process outside", self.register("mine", own.as_fd(), memory.as_fd()));
        let made = |process: BorrowedFd<'_>| self.register_in(true, "made", process, memory.as_fd());
        Attacker::print_result("a cgroup for root's job", made(victim.as_fd()));
        Attacker::print_result("a cgroup for root's process", made(pidfd(1).as_fd()));
    }

    fn hold(&self, name: &str) {
        let mut puppet = Puppet::new(name);
        let memory = Kept::create(1000).unwrap().handle().unwrap();
        let _session = self.registered(name, pidfd(puppet.child.id()).as_fd(), memory.as_fd());
        while !Path::new("seen").exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        puppet.child.kill().unwrap();
        puppet.child.wait().unwrap();
        fs::write(name, "").unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }

    /// Opens connections endlessly: silent, slow, with garbage, and with long lines.
    fn crowd(&self) {
        let speakers: [&'static [u8]; 5] = [b"", b"{", b"\0\xff\n", b"{\"restore\":{}}\n", &[b' '; 70_000]];
        std::thread::scope(|threads| {
            for bytes in speakers {
                threads.spawn(move || {
                    let mut open = Vec::new();
                    loop {
                        if let Ok(mut stream) = UnixStream::connect(&self.run_socket) {
                            let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
                            let _ = stream.write_all(bytes);
                            open.push(stream);
                        }
                        if open.len() > 40 {
                            open.clear();
                        }
                        std::thread::sleep(Duration::from_millis(2));
                    }
                });
            }
        });
    }
}
