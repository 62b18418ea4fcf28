//! A node that is divided between users, on the real kernel. Needs root.

use crate::support::daemon::{Daemon, eventually};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Busy on two processors until it is killed.
const BUSY: &str = "while :; do :; done & while :; do :; done";

/// A command with its children, killed when dropped.
struct Busy {
    child: Child,
    name: String,
}

impl Busy {
    fn start(daemon: &Daemon, user: &str, number: u32) -> Busy {
        let name = format!("test-{}-{user}-{number}", std::process::id());
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(daemon.socket()).args(["run", "--name", &name]);
        command.args([
            "--label",
            &format!("flowcon.user={user}"),
            "--",
            "sh",
            "-c",
            &format!("trap 'kill 0' TERM; {BUSY}"),
        ]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Busy { child, name }
    }

    fn cpu_s(&self, daemon: &Daemon) -> f64 {
        daemon.job(&self.name).and_then(|job| job["cpu_time_s"].as_f64()).expect("it runs")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for cgroup in crate::support::cgroups::cgroups_named(&format!("flowcon-{}", self.name)) {
            let pids = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
            let _ = Command::new("kill").arg("-KILL").args(pids.lines()).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `flowctl users` says of a user.
fn user(daemon: &Daemon, name: &str) -> Option<Value> {
    let list: Value = serde_json::from_str(&daemon.stdout_of(&["users", "-o", "json"])).unwrap();
    assert_eq!(list["fair_between"], "users");
    list["users"].as_array().unwrap().iter().find(|user| user["name"] == name).cloned()
}

#[test]
fn three_busy_jobs_of_one_user_and_one_of_another_have_half_of_the_cpu_each() {
    let settings = ["policy.fair-between=users", "policy.interval=1s", "policy.max-interval=1s"];
    let mut daemon = Daemon::start("off", &settings);
    let jobs: Vec<Busy> = (1..=3).map(|n| Busy::start(&daemon, "alice", n)).collect();
    let other = Busy::start(&daemon, "bob", 1);
    eventually("each user has half", SOON, || {
        let half = |name: &str, jobs: u64| {
            let user = user(&daemon, name)?;
            let is_half = (user["part"].as_f64()? - 0.5).abs() < 0.02;
            (is_half && user["jobs"] == jobs).then_some(())
        };
        half("alice", 3).and(half("bob", 1))
    });
    let cpu_s = |jobs: &[Busy]| jobs.iter().map(|job| job.cpu_s(&daemon)).sum::<f64>();
    let (alice, bob) = (cpu_s(&jobs), other.cpu_s(&daemon));
    sleep(Duration::from_secs(15));
    let (alice, bob) = (cpu_s(&jobs) - alice, other.cpu_s(&daemon) - bob);
    let part = bob / (alice + bob);
    assert!((part - 0.5).abs() < 0.06, "bob used {bob} and alice {alice} CPU-seconds");

    let page = daemon.stdout_of(&["users"]);
    assert!(page.contains("divided between users") && page.contains("alice") && page.contains("bob"), "{page}");
    let page = daemon.stdout_of(&["explain", &jobs[0].name]);
    assert!(page.contains("alice's part, 50% of the node, with 2 other jobs"), "{page}");
    let wide = daemon.stdout_of(&["ps", "-o", "wide"]);
    assert!(wide.contains("USER") && wide.contains("bob"), "{wide}");

    std::fs::write(daemon.config(), "users.weights = [\"bob = 3\"]\n").unwrap();
    daemon.stdout_of(&["reload"]);
    eventually("a reload applies weights", SOON, || {
        let bob = user(&daemon, "bob")?;
        (bob["weight"] == 3.0 && (bob["part"].as_f64()? - 0.75).abs() < 0.02).then_some(())
    });

    let refused = daemon.flowctl(&["policy", "flowcon"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(6) && stderr.contains("policy.fair-between"), "{stderr}");

    let policy = daemon.stdout_of(&["policy"]);
    assert!(policy.contains("fair between      users"), "{policy}");
    daemon.stdout_of(&["policy", "fair"]);
    eventually("a dry run divides nothing", SOON, || {
        daemon.stdout_of(&["users"]).contains("between jobs").then_some(())
    });
    daemon.stdout_of(&["policy", "balanced"]);

    let used = |daemon: &Daemon, name: &str| user(daemon, name).and_then(|user| user["used_cpu_s"].as_f64());
    let before = used(&daemon, "alice").expect("alice has used CPU");
    assert!(before > 0.5 * alice, "{before} CPU-seconds are remembered, of at least {alice}");
    eventually("the history has the use of the last day", SOON, || {
        let day = user(&daemon, "alice")?["last_24h_cpu_s"].as_f64()?;
        (day > 0.5 * alice).then_some(())
    });
    drop((jobs, other));
    daemon.end("TERM");
    daemon.boot();
    let after = used(&daemon, "alice").expect("it is remembered over a restart");
    assert!(after > 0.9 * before, "{after} CPU-seconds, before {before}");
}
