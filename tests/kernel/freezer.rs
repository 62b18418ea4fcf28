//! Tests of the guard process that freezes and thaws, on real cgroups: jobs are thawed when requests stop. Needs root and cgroups.

use crate::support::daemon::eventually;
use flowcon::host::cgroup::Home;
use flowcon::host::freezer::{Freezer, Plan, Turn, TurnResults};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

/// A job that counts, in a separate cgroup.
struct Counter {
    home: Home,
    child: Child,
    counted: PathBuf,
    _dir: tempfile::TempDir,
}

impl Counter {
    fn start(name: &str) -> Counter {
        let home = Home::create(&format!("flowcon-test-{name}-{}", std::process::id())).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let counted = dir.path().join("counted");
        let script = "counted=$1; shift; for entrance; do echo 0 > \"$entrance\"; done; \
                      while :; do echo >> \"$counted\"; sleep 0.01; done";
        let mut command = Command::new("sh");
        command.args(["-c", script, "counter"]).arg(&counted).args(home.entrances());
        let child = command.spawn().unwrap();
        let counter = Counter { home, child, counted, _dir: dir };
        counter.assert_progress();
        counter
    }

    fn count(&self) -> u64 {
        fs::metadata(&self.counted).map_or(0, |file| file.len())
    }

    fn assert_progress(&self) {
        let before = self.count();
        eventually("it makes progress", SOON, || (self.count() > before + 3).then_some(()));
    }

    /// Checks that it is frozen and makes no progress for longer than a turn of its loop on a busy machine. Each look is preceded by
    /// `renew`, for a freeze that ends if it is not renewed.
    fn assert_no_progress(&self, mut renew: impl FnMut()) {
        eventually("it is frozen", SOON, || {
            renew();
            self.freezer().is_frozen().unwrap().then_some(())
        });
        let still = || {
            renew();
            let before = self.count();
            std::thread::sleep(Duration::from_millis(300));
            (self.count() == before).then_some(())
        };
        eventually("it makes no progress", SOON, still);
    }

    fn cgroup(&self) -> &Path {
        let has_freezer = |path: &&PathBuf| Freezer::open(path).is_ok();
        self.home.directories().iter().find(has_freezer).expect("a freezer")
    }

    fn freezer(&self) -> Freezer {
        Freezer::open(self.cgroup()).unwrap()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.freezer().thaw();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its last `sleep` may not have ended yet. Another panic would hide that of a failed test.
        if !self.home.remove() && !std::thread::panicking() {
            eventually("its cgroup is removed", SOON, || self.home.remove().then_some(()));
        }
    }
}

/// The guard process, used directly.
struct Guard {
    child: Child,
    plans: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
}

impl Guard {
    fn start() -> Guard {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        let mut child = command.arg("freezer").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (plans, reports) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Guard { child, plans, reports }
    }

    fn apply(&mut self, plan: &Plan) -> TurnResults {
        let line = serde_json::to_string(plan).unwrap() + "\n";
        self.plans.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let mut report = String::new();
        self.reports.read_line(&mut report).unwrap();
        serde_json::from_str(&report).unwrap()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.plans = None;
        let _ = self.child.wait();
    }
}

/// A plan with a very long freeze, which does not end during a test by itself.
fn long_freeze(cgroup: &Path) -> Plan {
    let turn = Turn { cgroup: cgroup.to_owned(), from: 0.0, share: 1.0 };
    Plan { period_ms: 600_000, at_most_ms: 600_000, turns: vec![turn], leave: Vec::new() }
}

#[test]
fn the_job_is_thawed_and_the_guard_exits_when_its_input_is_closed() {
    let counter = Counter::start("gone");
    let mut guard = Guard::start();
    counter.assert_no_progress(|| drop(guard.apply(&long_freeze(counter.cgroup()))));
    guard.plans = None;
    counter.assert_progress();
    assert!(guard.child.wait().unwrap().success());
}

#[test]
fn the_job_is_thawed_after_seconds_without_requests() {
    let counter = Counter::start("silent");
    let mut guard = Guard::start();
    counter.assert_no_progress(|| drop(guard.apply(&long_freeze(counter.cgroup()))));
    counter.assert_progress();
    assert!(guard.child.try_wait().unwrap().is_none(), "it waits for the next plan");
}

#[test]
fn a_job_is_frozen_for_its_share_of_the_time_and_no_freeze_exceeds_the_limit() {
    let counter = Counter::start("part");
    let mut guard = Guard::start();
    let turn = Turn { cgroup: counter.cgroup().to_owned(), from: 0.0, share: 0.5 };
    let plan = Plan { period_ms: 200, at_most_ms: 200, turns: vec![turn], leave: Vec::new() };
    let before = counter.count();
    // Several windows, because the guard may be without CPU for a part of one.
    eventually("it is frozen for half of the time", SOON, || {
        let (began, frozen_before) = (Instant::now(), guard.apply(&plan).turned[0].frozen_ms);
        let mut frozen_ms = frozen_before;
        while began.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(500));
            frozen_ms = guard.apply(&plan).turned[0].frozen_ms;
        }
        let frozen = (frozen_ms - frozen_before) as f64 / began.elapsed().as_millis() as f64;
        println!("frozen for {frozen} of the time");
        (0.35..0.65).contains(&frozen).then_some(())
    });
    eventually("it makes progress between freezes", SOON, || {
        guard.apply(&plan);
        (counter.count() > before).then_some(())
    });
    guard.apply(&Plan::default());
    counter.assert_progress();
}

#[test]
fn a_cgroup_frozen_by_others_is_reported_and_never_thawed() {
    let counter = Counter::start("others");
    counter.freezer().freeze().unwrap();
    let mut guard = Guard::start();
    guard.apply(&long_freeze(counter.cgroup()));
    let report = eventually("it is reported", SOON, || {
        Some(guard.apply(&long_freeze(counter.cgroup()))).filter(|report| report.turned[0].by_others)
    });
    assert_eq!(report.turned[0].frozen_ms, 0);
    drop(guard);
    counter.assert_no_progress(|| ());
    counter.freezer().thaw().unwrap();
    counter.assert_progress();
}
