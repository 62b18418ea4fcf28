//! Tests of `flowctl run` by users who may create no cgroup, with and without a daemon that makes it. They need root, and no systemd.

use crate::support::cgroups::cgroups_named;
use crate::support::daemon::{Daemon, eventually};
use crate::support::program::public_flowctl;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// A user with a `flowctl` of their own; each test has another one, because the tests run at the same time.
struct User {
    id: u32,
    dir: tempfile::TempDir,
    socket: PathBuf,
}

impl User {
    fn of(id: u32) -> User {
        let dir = tempfile::tempdir().unwrap();
        public_flowctl(dir.path());
        User { id, socket: dir.path().join("none.sock"), dir }
    }

    /// A user of this daemon; its folder is open to all users, like /run/flowcon.
    fn at(id: u32, daemon: &Daemon) -> User {
        fs::set_permissions(daemon.socket().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        User { socket: daemon.socket(), ..User::of(id) }
    }

    fn run(&self, options: &[&str], script: &str) -> Command {
        let mut command = Command::new(self.dir.path().join("flowctl"));
        command.arg("--socket").arg(&self.socket).arg("run").args(options).args(["--", "sh", "-c", script]);
        command.uid(self.id).gid(self.id).stdin(Stdio::null()).current_dir("/");
        command
    }

    fn output(&self, options: &[&str], script: &str) -> Output {
        self.run(options, script).output().unwrap()
    }

    /// The parents of the commands for which a daemon made a cgroup.
    fn made(&self) -> Vec<PathBuf> {
        cgroups_named(&format!("flowcon.user-{}", self.id))
    }
}

/// A command that runs until it is dropped.
struct Running(Child);

impl Running {
    fn start(user: &User, name: &str) -> Running {
        let mut command = user.run(&["--name", name], "while :; do sleep 0.05; done");
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status(); // it forwards the signal
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_a_daemon_the_command_runs_ungoverned_with_one_warning() {
    let user = User::of(12_361);
    let out = user.output(&[], "echo ran; exit 3");
    let stderr = text(&out.stderr);
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(3), "ran\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("the command is not governed: no permission to create the cgroup"), "{stderr}");
    assert!(stderr.contains("next: run the command as root") && stderr.contains("`sudo flowcond &`"), "{stderr}");
    let out = user.output(&["-d", "--name", "later"], "exit 0");
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(0), "later\n"), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("the command is not governed"), "{}", text(&out.stderr));
}

#[test]
fn a_required_cgroup_that_cannot_be_created_is_an_error_with_the_next_step() {
    let out = User::of(12_362).output(&["--require-cgroup"], "echo ran");
    let stderr = text(&out.stderr);
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(5), ""), "{stderr}");
    assert!(stderr.contains("no permission to create the cgroup") && stderr.contains("sudo flowctl run"), "{stderr}");
}

#[test]
fn a_daemon_makes_the_cgroup_governs_the_command_and_removes_it() {
    let mut daemon = Daemon::start("off", &["policy.interval=1s", "policy.max-interval=1s"]);
    let user = User::at(12_363, &daemon);
    let (first, second) = (Running::start(&user, "first"), Running::start(&user, "second"));
    let names = ["first@12363", "second@12363"];
    for name in names {
        daemon.wait_for_job(name, "it has a share", SOON, |job| job["share"].is_number());
    }
    let parents = user.made();
    assert!(!parents.is_empty());
    for parent in &parents {
        let processes = fs::read_to_string(parent.join("flowcon-first/cgroup.procs")).unwrap();
        assert!(processes.lines().count() >= 1, "{}", parent.display());
        for made in [parent.clone(), parent.join("flowcon-first")] {
            let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&made).unwrap());
            assert_eq!(owner, 0, "the user cannot change {}", made.display());
        }
    }
    daemon.end("TERM");
    daemon.boot();
    for name in names {
        daemon.wait_for_job(name, "it is governed again", SOON, |job| job["share"].is_number());
    }
    drop(first);
    eventually("the first has ended", SOON, || daemon.job(names[0]).is_none().then_some(()));
    eventually("its cgroup is gone", SOON, || {
        parents.iter().all(|parent| !parent.join("flowcon-first").exists()).then_some(())
    });
    assert!(parents.iter().all(|parent| parent.join("flowcon-second").exists()), "the other goes on");
    drop(second);
    eventually("the user's cgroups are gone", SOON, || user.made().is_empty().then_some(()));
}

#[test]
fn a_command_belongs_to_its_user_who_may_not_name_another() {
    let daemon = Daemon::start("off", &["policy.fair-between=users"]);
    let user = User::at(12_365, &daemon);
    let out = user.output(&["--label", "flowcon.user=alice"], "echo ran");
    let stderr = text(&out.stderr);
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(6), ""), "{stderr}");
    assert!(stderr.contains("it is 12365; only root and api.admins may name alice"), "{stderr}");
    assert!(stderr.contains("next: leave it out"), "{stderr}");
    let out = user.output(&["--label", "flowcon.user=12365"], "echo ran");
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(0), "ran\n"), "{}", text(&out.stderr));
    let _running = Running::start(&user, "own");
    let job = daemon.wait_for_job("own@12365", "it is governed", SOON, |_| true);
    assert_eq!(job["user"], "12365");
}

#[test]
fn the_number_of_cgroups_that_a_user_gets_is_bounded_and_labels_are_checked_first() {
    let daemon = Daemon::start("off", &["scopes.per-user=1"]);
    let user = User::at(12_364, &daemon);
    let out = user.output(&["--label", "flowcon.weight=9"], "echo ran");
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(6), ""), "{}", text(&out.stderr));
    assert!(user.made().is_empty(), "{:?}", user.made());
    let _running = Running::start(&user, "one");
    daemon.wait_for_job("one@12364", "it is governed", SOON, |_| true);
    let out = user.output(&["--name", "two"], "echo ran");
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(6), ""), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("maximum per user"), "{}", text(&out.stderr));
    assert!(user.made().iter().all(|parent| !parent.join("flowcon-two").exists()));
}
