//! Jobs that share a GPU, and one of them frozen for parts of the time: by a real daemon, with a stand-in for NVIDIA's library, in real
//! cgroups and on a real engine. Whatever happens to whom: nobody stays frozen, and who was paused by others stays paused.
//! Wants root, cgroups, a C compiler; one test wants docker.io and busybox-static.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use flowcon::host::cgroup::Residences;
use flowcon::host::freezer::Freezer;
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, RunSpec};
use support::gpu::StandIn;

const SOON: Duration = Duration::from_secs(10);
/// Progress is measured before anybody is frozen.
const MEASURED: Duration = Duration::from_secs(60);

const GPU: &str = "gpu 0 GPU-aaaa 100 34359738368 42949672960 212500 400000 61 1410 1215 0 NVIDIA A100-SXM4-40GB\n";

/// The settings of all tests here.
const ON: [&str; 2] = ["gpu.control=duty-cycle", "policy.interval=1s"];

/// It counts, and learns a little each time.
const COUNTS: &str = "i=0; while :; do i=$((i+1)); echo \"step $i/100000 loss: $((90000000/(i+9)))\"; sleep 0.05; done";

/// Jobs of all tests here, which run beside each other.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A job that uses the GPU, as the driver says.
struct Job {
    name: String,
    pid: u32,
    run: Option<Child>,
    /// Grows while it goes on.
    counted: PathBuf,
    _dir: Option<tempfile::TempDir>,
}

impl Job {
    fn start(daemon: &Daemon, name: &str) -> Job {
        let name = format!("{name}-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let dir = tempfile::tempdir().unwrap();
        let (counted, told) = (dir.path().join("counted"), dir.path().join("pid"));
        let script = format!("echo $$ > \"$1.new\"; mv \"$1.new\" \"$1\"; {COUNTS}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(daemon.socket()).args(["run", "--name", &name, "--", "sh", "-c", &script, "job"]);
        let run = command.arg(&told).stdout(File::create(&counted).unwrap()).spawn().unwrap();
        let pid = eventually("its process", SOON, || fs::read_to_string(&told).ok()?.trim().parse().ok());
        Job { name, pid, run: Some(run), counted, _dir: Some(dir) }
    }

    fn in_engine(engine: &Engine, name: &str, options: &[&str]) -> Job {
        let shared = engine.dir().join(name);
        fs::create_dir(&shared).unwrap();
        let mount = format!("{}:/out", shared.display());
        let options: Vec<&str> = ["--volume", &mount].into_iter().chain(options.iter().copied()).collect();
        let script = COUNTS.replace("; sleep 0.05", "; echo 0123456789 >> /out/counted; usleep 50000");
        let labels = ["flowcon.enable=true"];
        let id = engine.run(RunSpec { name, labels: &labels, options: &options, script: &script });
        let counted = shared.join("counted");
        Job { name: name.to_owned(), pid: engine.pid_of(&id), run: None, counted, _dir: None }
    }

    fn count(&self) -> u64 {
        fs::metadata(&self.counted).map_or(0, |file| file.len())
    }

    fn counts_on(&self) {
        let before = self.count();
        eventually("it counts on", SOON, || (self.count() > before + 100).then_some(()));
    }

    /// Whether it stands still for much longer than a turn.
    fn stands_still_for(&self, time: Duration) -> bool {
        let before = self.count();
        sleep(time);
        self.count() == before
    }

    fn freezer(&self) -> Freezer {
        let home = Residences::of_host().unwrap().of(self.pid).unwrap().directories;
        home.iter().find_map(|path| Freezer::open(path).ok()).expect("a freezer")
    }

    fn is_frozen(&self) -> bool {
        self.freezer().is_frozen().unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let Some(run) = &mut self.run else { return };
        let home = Residences::of_host().and_then(|residences| residences.of(self.pid));
        for path in home
            .into_iter()
            .flat_map(|home| home.directories)
            .filter(|path| path.to_string_lossy().contains(&self.name))
        {
            let _ = flowcon::host::freezer::thaw(&path); // a failed test must not leave it
        }
        let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).stderr(Stdio::null()).status();
        let _ = run.wait();
    }
}

/// Both use the GPU, each for half of the time.
fn share(stand_in: &StandIn, jobs: &[&Job]) {
    let part = 100 / jobs.len();
    let uses = jobs.iter().map(|job| format!("process 0 {} {part} 1073741824\n", job.pid));
    stand_in.set_script(&format!("{GPU}{}", uses.collect::<String>()));
}

fn frozen_share(daemon: &Daemon, job: &Job) -> f64 {
    daemon.job(&job.name).map_or(0.0, |job| job["frozen_share"].as_f64().unwrap_or(0.0))
}

/// Waits until one is frozen for a good part of the time: the one that is, and the other.
fn governed<'job>(daemon: &Daemon, jobs: &'job [Job; 2]) -> (&'job Job, &'job Job) {
    eventually("one is frozen for parts of the time", MEASURED, || {
        let [first, second] = jobs;
        let shares = (frozen_share(daemon, first), frozen_share(daemon, second));
        match shares {
            (share, _) if share > 0.2 => Some((first, second)),
            (_, share) if share > 0.2 => Some((second, first)),
            _ => None,
        }
    })
}

/// A daemon with two jobs on one GPU.
fn two(stand_in: &StandIn, settings: &[&str]) -> (Daemon, [Job; 2]) {
    stand_in.set_script(GPU);
    let settings: Vec<&str> = ON.iter().chain(settings).copied().collect();
    let daemon = stand_in.daemon(&settings);
    let jobs = [Job::start(&daemon, "one"), Job::start(&daemon, "two")];
    share(stand_in, &[&jobs[0], &jobs[1]]);
    (daemon, jobs)
}

/// The daemon's process that freezes and thaws.
fn guard(daemon: &Daemon) -> u32 {
    let is_guard = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        words.ends_with(b"\0freezer\0") && parent == Some(daemon.pid())
    };
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.collect::<Vec<u32>>().into_iter().find(is_guard).expect("a process that freezes")
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap().success());
}

/// Never frozen any more, as far as a test can wait: for ten periods.
fn stays_thawed(job: &Job) {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        assert!(!job.is_frozen(), "{} is frozen", job.name);
        sleep(Duration::from_millis(20));
    }
    job.counts_on();
}

#[test]
fn one_of_two_is_frozen_for_parts_of_the_time_and_it_is_told_and_ends_with_the_daemon() {
    let stand_in = StandIn::of(&[]);
    let (mut daemon, jobs) = two(&stand_in, &[]);
    let (frozen, favoured) = governed(&daemon, &jobs);
    frozen.counts_on();
    favoured.counts_on();
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert!(!favoured.is_frozen(), "the favoured one is never frozen");
        sleep(Duration::from_millis(10));
    }
    let explained = daemon.stdout_of(&["explain", &frozen.name]);
    let explained = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(explained.contains("of the time") && explained.contains("gpu.control"), "{explained}");
    assert!(daemon.stdout_of(&["status"]).contains("frozen "), "{}", daemon.stdout_of(&["status"]));
    assert!(daemon.stdout_of(&["metrics"]).contains("flowcon_container_frozen_ratio"));
    daemon.end("TERM");
    stays_thawed(frozen);
}

#[test]
fn a_job_that_an_operator_released_is_not_frozen_any_more() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = two(&stand_in, &[]);
    let (frozen, _) = governed(&daemon, &jobs);
    daemon.stdout_of(&["release", &frozen.name]);
    eventually("it is let go", SOON, || (frozen_share(&daemon, frozen) == 0.0).then_some(()));
    stays_thawed(frozen);
    daemon.stdout_of(&["govern", &frozen.name]);
    governed(&daemon, &jobs);
    daemon.stdout_of(&["restore"]);
    let none = || jobs.iter().all(|job| frozen_share(&daemon, job) == 0.0).then_some(());
    eventually("all are let go", SOON, none);
    jobs.iter().for_each(stays_thawed);
}

#[test]
fn when_the_daemon_is_killed_in_the_middle_of_a_freeze_everybody_goes_on_within_a_second_or_so() {
    let stand_in = StandIn::of(&[]);
    let (mut daemon, jobs) = two(&stand_in, &["gpu.freeze-at-most=10s"]);
    let (frozen, _) = governed(&daemon, &jobs);
    eventually("the middle of a freeze", MEASURED, || frozen.is_frozen().then_some(()));
    daemon.end("KILL");
    stays_thawed_soon(frozen);
}

#[test]
fn when_the_guard_is_killed_in_the_middle_of_a_freeze_the_daemon_thaws_and_says_so() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = two(&stand_in, &["gpu.freeze-at-most=10s"]);
    let (frozen, _) = governed(&daemon, &jobs);
    sleep(Duration::from_secs(12)); // one that has been there for long is told of for as long as a young one
    eventually("the middle of a freeze", MEASURED, || frozen.is_frozen().then_some(()));
    kill(guard(&daemon), "KILL");
    eventually("it is thawed", SOON, || (!frozen.is_frozen()).then_some(()));
    frozen.counts_on();
    eventually("it is told", SOON, || daemon.stdout_of(&["status"]).contains("the process that freezes").then_some(()));
}

#[test]
fn a_daemon_that_hangs_has_nothing_frozen_after_seconds() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = two(&stand_in, &["gpu.freeze-at-most=60s"]);
    let (frozen, _) = governed(&daemon, &jobs);
    eventually("the middle of a freeze", MEASURED * 2, || frozen.is_frozen().then_some(()));
    daemon.signal("STOP");
    stays_thawed_soon(frozen);
    daemon.signal("CONT");
}

#[test]
fn what_daemon_and_guard_leave_frozen_when_both_are_killed_a_restore_or_the_next_daemon_thaws() {
    let stand_in = StandIn::of(&[]);
    let (mut daemon, jobs) = two(&stand_in, &["gpu.freeze-at-most=10s", "on-exit=keep"]);
    for by_restore in [true, false] {
        let (frozen, _) = governed(&daemon, &jobs);
        let guard = guard(&daemon);
        // Nobody can thaw it while both are stopped; it must be frozen then.
        eventually("both are stopped in the middle of a freeze", MEASURED * 2, || {
            eventually("the middle of a freeze", MEASURED, || frozen.is_frozen().then_some(()));
            kill(guard, "STOP");
            daemon.signal("STOP");
            let is_frozen = frozen.is_frozen();
            if !is_frozen {
                kill(guard, "CONT");
                daemon.signal("CONT");
            }
            is_frozen.then_some(())
        });
        kill(guard, "KILL");
        daemon.end("KILL");
        assert!(frozen.is_frozen() && frozen.stands_still_for(Duration::from_millis(500)), "nobody has thawed it");
        if by_restore {
            // As the unit asks after the end of the daemon; the setting is about limits.
            let restored = daemon.restore_command().args(["--as-configured", "--set", "on-exit=keep"]).status().unwrap();
            assert!(restored.success());
            assert!(!frozen.is_frozen());
            frozen.counts_on();
        }
        daemon.boot();
        frozen.counts_on();
    }
}

fn stays_thawed_soon(job: &Job) {
    eventually("it is thawed", SOON, || (!job.is_frozen()).then_some(()));
    stays_thawed(job);
}

#[test]
fn on_an_engine_its_own_pause_is_never_undone_and_a_health_check_keeps_a_job_from_being_frozen() {
    let engine = Engine::start();
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(GPU);
    let address = format!("engine.address={}", engine.address());
    let mut daemon = stand_in.daemon(&[ON[0], ON[1], &address]);
    let jobs = [Job::in_engine(&engine, "one", &[]), Job::in_engine(&engine, "two", &[])];
    share(&stand_in, &[&jobs[0], &jobs[1]]);
    let (frozen, _) = governed(&daemon, &jobs);
    for _ in 0..3 {
        // In the middle of a freeze the engine refuses: it takes our freeze for a pause.
        eventually("docker pause", SOON, || engine.try_docker(&["pause", &frozen.name]).status.success().then_some(()));
        eventually("it is the engine's", SOON, || {
            daemon.job(&frozen.name).is_some_and(|job| job["state"] == "paused").then_some(())
        });
        sleep(Duration::from_millis(1500)); // until the guard has heard of it
        assert!(frozen.stands_still_for(Duration::from_secs(2)), "the engine's pause was undone");
        engine.docker(&["unpause", &frozen.name]);
        frozen.counts_on();
        governed(&daemon, &jobs);
    }
    eventually("docker pause", SOON, || engine.try_docker(&["pause", &frozen.name]).status.success().then_some(()));
    daemon.end("KILL");
    let restored = daemon.restore_command().args(["--set", &address]).status().unwrap();
    assert!(restored.success());
    assert!(frozen.stands_still_for(Duration::from_secs(1)), "a restore has undone the engine's pause");
    engine.docker(&["unpause", &frozen.name]);
    frozen.counts_on();
    engine.docker(&["rm", "--force", &jobs[0].name, &jobs[1].name]);

    let checked = ["--health-cmd", "true", "--health-interval", "1s"];
    let jobs = [Job::in_engine(&engine, "three", &checked), Job::in_engine(&engine, "four", &checked)];
    share(&stand_in, &[&jobs[0], &jobs[1]]);
    daemon.boot();
    let has_run = |job: &Value| job["uptime_s"].as_f64().is_some_and(|uptime| uptime > 20.0);
    for job in &jobs {
        daemon.wait_for_job(&job.name, "it has run for a while", MEASURED, has_run);
        assert_eq!(frozen_share(&daemon, job), 0.0);
        let told = daemon.stdout_of(&["explain", &job.name]);
        assert!(told.contains("health check"), "{told}");
    }
}

#[test]
fn a_job_that_ends_is_forgotten_and_the_other_is_never_frozen_alone() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = two(&stand_in, &[]);
    let (frozen, favoured) = governed(&daemon, &jobs);
    kill(favoured.pid, "KILL");
    eventually("it ends", SOON, || daemon.job(&favoured.name).is_none().then_some(()));
    eventually("the other is let go", SOON, || (frozen_share(&daemon, frozen) == 0.0).then_some(()));
    stays_thawed(frozen);
}
