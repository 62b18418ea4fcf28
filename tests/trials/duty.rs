//! Tests of the duty cycle of jobs that share a GPU, with a real daemon, a stand-in for NVIDIA's library, real cgroups and a real
//! engine: after any failure, no job stays frozen, and a job paused by others stays paused.
//! Needs root, cgroups, and a C compiler; two tests need docker.io and busybox-static.

use crate::support::daemon::{Daemon, eventually, unwrapped};
use crate::support::engine::{Engine, RunSpec};
use crate::support::gpu::StandIn;
use flowcon::host::cgroup::ProcessCgroups;
use flowcon::host::freezer::Freezer;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);
/// Timeout for a freeze: progress is measured first.
const MEASURED: Duration = Duration::from_secs(60);
/// Ten periods of the duty cycle: each has a freeze.
const TEN_PERIODS: Duration = Duration::from_secs(5);
/// Time limit of a restore for the engine's answer.
const ENGINE_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

const GPU: &str = "gpu 0 GPU-aaaa 100 34359738368 42949672960 212500 400000 61 1410 1215 0 NVIDIA A100-SXM4-40GB\n";

/// Settings of all tests here.
const ON: [&str; 2] = ["gpu.control=duty-cycle", "policy.interval=1s"];

/// A script that counts, with a falling loss.
const COUNTS: &str = "i=0; while :; do i=$((i+1)); echo \"step $i/100000 loss: $((90000000/(i+9)))\"; sleep 0.05; done";

/// Number of jobs started by all tests here, for unique names.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A job that uses the GPU according to the stand-in.
struct Job {
    name: String,
    pid: u32,
    run: Option<Child>,
    /// File that grows while the job runs.
    counted: PathBuf,
    _dir: Option<tempfile::TempDir>,
}

impl Job {
    fn start(daemon: &Daemon, name: &str) -> Job {
        let name = format!("{name}-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let dir = tempfile::tempdir().unwrap();
        let (counted, pid_file) = (dir.path().join("counted"), dir.path().join("pid"));
        let script = format!("echo $$ > \"$1.new\"; mv \"$1.new\" \"$1\"; {COUNTS}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(daemon.socket()).args(["run", "--name", &name, "--", "sh", "-c", &script, "job"]);
        let run = command.arg(&pid_file).stdout(File::create(&counted).unwrap()).spawn().unwrap();
        let pid = eventually("its process", SOON, || fs::read_to_string(&pid_file).ok()?.trim().parse().ok());
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

    fn assert_progress(&self) {
        let before = self.count();
        eventually("it counts on", SOON, || (self.count() > before + 100).then_some(()));
    }

    /// Whether each look during this time finds it frozen, or thawed.
    fn stays_frozen(&self, frozen: bool, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if self.is_frozen() != frozen {
                return false;
            }
            sleep(Duration::from_millis(20));
        }
        true
    }

    /// Whether it makes no progress for this time.
    fn makes_no_progress_for(&self, time: Duration) -> bool {
        let before = self.count();
        sleep(time);
        self.count() == before
    }

    fn freezer(&self) -> Freezer {
        let home = ProcessCgroups::of_host().unwrap().of(self.pid).unwrap().directories;
        home.iter().find_map(|path| Freezer::open(path).ok()).expect("a freezer")
    }

    fn is_frozen(&self) -> bool {
        self.freezer().is_frozen().unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let Some(run) = &mut self.run else { return };
        let home = ProcessCgroups::of_host().and_then(|residences| residences.of(self.pid));
        for path in home
            .into_iter()
            .flat_map(|home| home.directories)
            .filter(|path| path.to_string_lossy().contains(&self.name))
        {
            let _ = flowcon::host::freezer::thaw(&path); // a failed test must not leave it frozen
        }
        let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).stderr(Stdio::null()).status();
        let _ = run.wait();
    }
}

/// Makes the jobs use the GPU equally.
fn share(stand_in: &StandIn, jobs: &[&Job]) {
    let part = 100 / jobs.len();
    let uses = jobs.iter().map(|job| format!("process 0 {} {part} 1073741824\n", job.pid));
    stand_in.set_script(&format!("{GPU}{}", uses.collect::<String>()));
}

fn frozen_share(daemon: &Daemon, job: &Job) -> f64 {
    daemon.job(&job.name).map_or(0.0, |job| job["frozen_share"].as_f64().unwrap_or(0.0))
}

/// Waits until one of the jobs is frozen for parts of the time; returns it and the other.
fn wait_for_duty_cycle<'job>(daemon: &Daemon, jobs: &'job [Job; 2]) -> (&'job Job, &'job Job) {
    eventually("one job is frozen for parts of the time", MEASURED, || {
        let [first, second] = jobs;
        let shares = (frozen_share(daemon, first), frozen_share(daemon, second));
        match shares {
            (share, _) if share > 0.2 => Some((first, second)),
            (_, share) if share > 0.2 => Some((second, first)),
            _ => None,
        }
    })
}

/// Starts a daemon with two jobs on one GPU.
fn start_two(stand_in: &StandIn, settings: &[&str]) -> (Daemon, [Job; 2]) {
    stand_in.set_script(GPU);
    let settings: Vec<&str> = ON.iter().chain(settings).copied().collect();
    let daemon = stand_in.daemon(&settings);
    let jobs = [Job::start(&daemon, "one"), Job::start(&daemon, "two")];
    share(stand_in, &[&jobs[0], &jobs[1]]);
    (daemon, jobs)
}

/// Process id of the daemon's guard, which freezes and thaws; `None` for some seconds after it was too slow and was killed.
fn guard(daemon: &Daemon) -> Option<u32> {
    let is_guard = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        words.ends_with(b"\0freezer\0") && parent == Some(daemon.pid())
    };
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.collect::<Vec<u32>>().into_iter().find(is_guard)
}

/// Sends a signal; returns whether there is such a process.
fn signal(pid: u32, signal: &str) -> bool {
    Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap().success()
}

/// Whether a process has ended, even if its parent has not noticed it yet.
fn has_ended(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty()
}

/// Checks that the job is not frozen for ten periods, and runs.
fn assert_stays_thawed(job: &Job) {
    assert!(job.stays_frozen(false, TEN_PERIODS), "{} is frozen", job.name);
    job.assert_progress();
}

/// Like [`assert_stays_thawed`], but not from now on: a plan is reported before the guard applies it.
fn assert_soon_stays_thawed(job: &Job) {
    eventually("it stays thawed", SOON, || job.stays_frozen(false, TEN_PERIODS).then_some(()));
    job.assert_progress();
}

#[test]
fn one_of_two_jobs_is_frozen_for_parts_of_the_time_which_is_reported_and_ends_with_the_daemon() {
    let stand_in = StandIn::of(&[]);
    let (mut daemon, jobs) = start_two(&stand_in, &[]);
    let (frozen, favoured) = wait_for_duty_cycle(&daemon, &jobs);
    frozen.assert_progress();
    favoured.assert_progress();
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert!(!favoured.is_frozen(), "the favoured job is never frozen");
        sleep(Duration::from_millis(10));
    }
    // Nothing is frozen for some seconds after the guard was too slow.
    eventually("it is explained", MEASURED, || {
        let explained = unwrapped(&daemon.stdout_of(&["explain", &frozen.name]));
        (explained.contains("of the time") && explained.contains("gpu.control")).then_some(())
    });
    for (command, text) in [("status", "frozen "), ("metrics", "flowcon_container_frozen_ratio")] {
        eventually(text, MEASURED, || daemon.stdout_of(&[command]).contains(text).then_some(()));
    }
    daemon.end("TERM");
    assert_stays_thawed(frozen);
}

#[test]
fn a_released_job_is_no_longer_frozen() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = start_two(&stand_in, &[]);
    let (frozen, _) = wait_for_duty_cycle(&daemon, &jobs);
    daemon.carried_out(&["release", &frozen.name]);
    eventually("it is no longer frozen", SOON, || (frozen_share(&daemon, frozen) == 0.0).then_some(()));
    assert_soon_stays_thawed(frozen);
    daemon.carried_out(&["govern", &frozen.name]);
    wait_for_duty_cycle(&daemon, &jobs);
    daemon.carried_out(&["restore"]);
    let none = || jobs.iter().all(|job| frozen_share(&daemon, job) == 0.0).then_some(());
    eventually("no job is frozen", SOON, none);
    jobs.iter().for_each(assert_soon_stays_thawed);
}

#[test]
fn jobs_are_thawed_soon_after_the_daemon_is_killed_during_a_freeze() {
    let stand_in = StandIn::of(&[]);
    let (mut daemon, jobs) = start_two(&stand_in, &["gpu.freeze-at-most=10s"]);
    wait_for_duty_cycle(&daemon, &jobs);
    // Not always the one that was frozen first: their order may change.
    let frozen = eventually("the middle of a freeze", MEASURED, || jobs.iter().find(|job| job.is_frozen()));
    daemon.end("KILL");
    assert_thawed_soon(frozen);
}

#[test]
fn the_daemon_thaws_and_reports_it_if_the_guard_is_killed_during_a_freeze() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = start_two(&stand_in, &["gpu.freeze-at-most=10s"]);
    wait_for_duty_cycle(&daemon, &jobs);
    sleep(Duration::from_secs(12)); // the end of an old guard is reported like that of a new one
    let events = || daemon.stdout_of(&["events", "--no-follow", "-n", "1000"]);
    let reports = || events().matches("the process that freezes jobs has ended").count();
    let before = reports(); // of guards that were too slow
    let frozen = eventually("the guard is killed in the middle of a freeze", MEASURED, || {
        let frozen = jobs.iter().find(|job| job.is_frozen())?;
        signal(guard(&daemon)?, "KILL").then_some(frozen)
    });
    eventually("it is thawed", SOON, || (!frozen.is_frozen()).then_some(()));
    eventually("it is reported", SOON, || (reports() > before).then_some(()));
    frozen.assert_progress();
}

#[test]
fn jobs_are_thawed_within_seconds_if_the_daemon_hangs() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = start_two(&stand_in, &["gpu.freeze-at-most=60s"]);
    wait_for_duty_cycle(&daemon, &jobs);
    // Not always the one that was frozen first: their order may change.
    let frozen = eventually("the middle of a freeze", MEASURED * 2, || jobs.iter().find(|job| job.is_frozen()));
    daemon.signal("STOP");
    assert_thawed_soon(frozen);
    daemon.signal("CONT");
}

#[test]
fn after_a_kill_of_daemon_and_guard_a_restore_or_the_next_daemon_thaws_the_job() {
    let stand_in = StandIn::of(&[]);
    let (mut daemon, jobs) = start_two(&stand_in, &["gpu.freeze-at-most=10s", "on-exit=keep"]);
    for by_restore in [true, false] {
        let frozen = eventually("both are killed in the middle of a freeze", MEASURED, || {
            let (frozen, _) = wait_for_duty_cycle(&daemon, &jobs);
            kill_both_during_a_freeze(&mut daemon, frozen);
            let is_frozen = frozen.is_frozen();
            if !is_frozen {
                daemon.boot(); // one of them was thawing it as it was stopped
            }
            is_frozen.then_some(frozen)
        });
        // `flowctl run` may still relay earlier output.
        let is_still = || frozen.makes_no_progress_for(Duration::from_millis(500)).then_some(());
        eventually("it makes no progress", SOON, is_still);
        assert!(frozen.is_frozen(), "it is still frozen");
        if by_restore {
            // As in the unit after the end of the daemon; the setting applies only to limits.
            let restored =
                daemon.restore_command().args(["--as-configured", "--set", "on-exit=keep"]).status().unwrap();
            assert!(restored.success());
            assert!(!frozen.is_frozen());
            frozen.assert_progress();
        }
        daemon.boot();
        frozen.assert_progress();
    }
}

/// Kills the daemon and its guard after both were stopped while the job is frozen, so that neither reacts to the end of the other. A
/// stopped process still completes the call to the kernel that it is in, which may be a thaw.
fn kill_both_during_a_freeze(daemon: &mut Daemon, frozen: &Job) {
    let stopped = eventually("both are stopped in the middle of a freeze", MEASURED * 2, || {
        eventually("the middle of a freeze", MEASURED, || frozen.is_frozen().then_some(()));
        let stopped = guard(daemon)?;
        signal(stopped, "STOP");
        daemon.signal("STOP");
        // If the second signal is late, the daemon kills the guard and may have started another.
        let is_frozen = frozen.is_frozen() && guard(daemon) == Some(stopped);
        if !is_frozen {
            signal(stopped, "CONT");
            daemon.signal("CONT");
        }
        is_frozen.then_some(stopped)
    });
    assert!(signal(stopped, "KILL"));
    daemon.end("KILL");
    let has_ended = || fs::read(format!("/proc/{stopped}/cmdline")).unwrap_or_default().is_empty().then_some(());
    eventually("the guard has ended", SOON, has_ended);
}

fn assert_thawed_soon(job: &Job) {
    eventually("it is thawed", SOON, || (!job.is_frozen()).then_some(()));
    assert_stays_thawed(job);
}

#[test]
fn an_engines_pause_is_never_undone_and_a_job_with_a_health_check_is_never_frozen() {
    let engine = Engine::start();
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(GPU);
    let address = format!("engine.address={}", engine.address());
    let mut daemon = stand_in.daemon(&[ON[0], ON[1], &address]);
    let jobs = [Job::in_engine(&engine, "one", &[]), Job::in_engine(&engine, "two", &[])];
    share(&stand_in, &[&jobs[0], &jobs[1]]);
    let (frozen, _) = wait_for_duty_cycle(&daemon, &jobs);
    for _ in 0..3 {
        // During a freeze the engine refuses, because it takes our freeze for a pause.
        engine.pause(&frozen.name);
        eventually("the pause is known", SOON, || {
            daemon.job(&frozen.name).is_some_and(|job| job["state"] == "paused").then_some(())
        });
        eventually("the guard leaves the engine's pause alone", SOON, || {
            let before = frozen.count();
            let stays_frozen = frozen.stays_frozen(true, Duration::from_secs(2));
            (stays_frozen && frozen.count() == before).then_some(())
        });
        engine.docker(&["unpause", &frozen.name]);
        frozen.assert_progress();
        wait_for_duty_cycle(&daemon, &jobs);
    }
    eventually("a restore that keeps the engine's pause", MEASURED, || {
        engine.pause(&frozen.name);
        let guard = guard(&daemon);
        daemon.end("KILL"); // probably before it knows the pause
        eventually("the guard ends", SOON, || guard.is_none_or(has_ended).then_some(()));
        // If the guard froze it at the same moment as the engine, it has thawed it: tried again.
        let was_paused = frozen.is_frozen();
        let began = Instant::now();
        let restored = daemon.restore_command().args(["--set", &address]).status().unwrap();
        let may_be_unanswered = began.elapsed() >= ENGINE_ANSWERS_WITHIN;
        assert!(restored.success() || may_be_unanswered);
        let is_kept = frozen.makes_no_progress_for(Duration::from_secs(1));
        // If the engine does not answer in time, a job may be thawed: tried again.
        assert!(is_kept || may_be_unanswered || !was_paused, "a restore undid the engine's pause");
        if !is_kept {
            frozen.freezer().freeze().unwrap(); // the engine unpauses only what is frozen
        }
        engine.docker(&["unpause", &frozen.name]);
        frozen.assert_progress();
        if !is_kept {
            daemon.boot();
            wait_for_duty_cycle(&daemon, &jobs);
        }
        is_kept.then_some(())
    });
    engine.docker(&["rm", "--force", &jobs[0].name, &jobs[1].name]);

    let checked = ["--health-cmd", "true", "--health-interval", "1s"];
    let jobs = [Job::in_engine(&engine, "three", &checked), Job::in_engine(&engine, "four", &checked)];
    share(&stand_in, &[&jobs[0], &jobs[1]]);
    daemon.boot();
    let is_explained = |job: &Job| {
        let page = daemon.flowctl(&["explain", &job.name]).stdout;
        String::from_utf8_lossy(&page).contains("health check")
    };
    eventually("why they are not frozen", MEASURED, || jobs.iter().all(is_explained).then_some(()));
    sleep(Duration::from_secs(15)); // others are frozen by then
    jobs.iter().for_each(|job| assert_eq!(frozen_share(&daemon, job), 0.0));
}

#[test]
fn a_job_that_its_engine_stops_is_not_frozen_until_it_ends() {
    let engine = Engine::start();
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(GPU);
    let address = format!("engine.address={}", engine.address());
    let daemon = stand_in.daemon(&[ON[0], ON[1], &address]);
    let jobs = [Job::in_engine(&engine, "one", &[]), Job::in_engine(&engine, "two", &[])];
    share(&stand_in, &[&jobs[0], &jobs[1]]);
    let (frozen, _) = wait_for_duty_cycle(&daemon, &jobs);
    // It ignores the signal, as the first process of a container does, and would be killed much later.
    std::thread::scope(|scope| {
        scope.spawn(|| engine.docker(&["stop", "--time", "120", &frozen.name]));
        eventually("it stays thawed", SOON, || frozen.stays_frozen(false, TEN_PERIODS).then_some(()));
        engine.docker(&["kill", &frozen.name]);
    });
}

#[test]
fn a_job_that_is_alone_on_the_gpu_is_not_frozen() {
    let stand_in = StandIn::of(&[]);
    let (daemon, jobs) = start_two(&stand_in, &[]);
    let (frozen, favoured) = wait_for_duty_cycle(&daemon, &jobs);
    assert!(signal(favoured.pid, "KILL"));
    eventually("it ends", SOON, || daemon.job(&favoured.name).is_none().then_some(()));
    eventually("the other is no longer frozen", SOON, || (frozen_share(&daemon, frozen) == 0.0).then_some(()));
    assert_soon_stays_thawed(frozen);
}
