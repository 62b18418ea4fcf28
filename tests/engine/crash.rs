//! Crashes at random instants: repeated SIGKILL to the daemon and to `flowcond restore`, on a real engine with real containers.
//! Afterwards each container has exactly its original limits, or those that its owner has set since.
//!
//! `FLOWCON_CRASHES=1000 cargo test --test engine crash` is the long run; the default is a few dozen crashes.

use crate::support::daemon::Daemon;
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

const CRASHES: usize = 30;

/// Maximum lifetime in milliseconds of a daemon that is killed at a random time: it finds its jobs, reads their logs, and journals.
const LIFE_MS: u64 = 1500;

/// Maximum time in milliseconds from the first limit in force to the kill of the other daemons.
const IN_FORCE_MS: u64 = 300;

/// Maximum wait for that limit: if the owner has changed all jobs, there is none before the next restore.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(30);

/// Maximum time in milliseconds after which a restore is killed.
const RESTORE_MS: u64 = 40;

/// Step of the owner's changes in shares, and their least distance from the value in force: a weight is about ten shares, and on cgroup v1
/// a change within it is not noticed.
const SHARES: u32 = 20;

/// Time after which the owner checks a change: longer than a pending update of the daemon takes in a busy engine.
const CHECK_AFTER: Duration = Duration::from_secs(2);

/// A container, the file of its limit in the kernel, and the limit that must be there without a governor.
struct Job {
    name: &'static str,
    file: PathBuf,
    original: String,
}

impl Job {
    fn start(engine: &Engine, name: &'static str, options: &[&str], script: &str) -> Job {
        let id = engine.run(RunSpec { name, labels: &["flowcon.enable=true"], options, script });
        let file = engine.weight_file(&id);
        let original = fs::read_to_string(&file).unwrap();
        Job { name, file, original }
    }

    /// Changes the limit as the owner, does the `next` thing at once, and checks the result: the engine may reorder simultaneous updates.
    fn change(&mut self, engine: &Engine, shares: u32, mut next: impl FnMut()) {
        for _ in 0..20 {
            let present: u32 = self.current().trim().parse().unwrap();
            let is_near = Engine::is_cgroup_v1() && present.abs_diff(shares) < SHARES;
            let shares = if is_near { shares + 2 * SHARES } else { shares };
            engine.docker(&["update", "--cpu-shares", &shares.to_string(), self.name]);
            self.original = self.current();
            next();
            sleep(CHECK_AFTER);
            if self.current() == self.original {
                return;
            }
        }
        panic!("{}: the owner's change was overwritten repeatedly", self.name);
    }

    fn current(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }
}

fn random_pause(random: &mut impl Rng, most_ms: u64) {
    sleep(Duration::from_millis(random.random_range(0..most_ms)));
}

#[test]
fn original_limits_are_restored_after_a_kill_at_any_time() {
    let crashes = std::env::var("FLOWCON_CRASHES").ok().and_then(|count| count.parse().ok()).unwrap_or(CRASHES);
    let seed = std::env::var("FLOWCON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let engine = Engine::start();
    // A thousand crashes take longer than the usual fifteen minutes of a job.
    let (growing, converged) = (GROWING.replace("9000 ", "90000 "), CONVERGED.replace("9000 ", "90000 "));
    let mut jobs = [
        // A bound changes weights at the first decision, independent of the logs.
        Job::start(&engine, "plain", &["--label", "flowcon.min-share=60%"], &growing),
        Job::start(&engine, "light", &["--cpu-shares", "333"], &converged),
        Job::start(&engine, "heavy", &["--cpu-shares", "3000"], &converged),
    ];
    let mut daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    let (mut governed, mut changed) = (0, 0);
    for crash in 0..crashes {
        // The time until limits are in force depends on the machine's load, so half of the daemons are killed relative to that.
        if random.random() {
            let until = Instant::now() + IN_FORCE_WITHIN;
            while jobs.iter().all(|job| job.current() == job.original) && Instant::now() < until {
                sleep(Duration::from_millis(10));
            }
            random_pause(&mut random, IN_FORCE_MS);
        } else {
            random_pause(&mut random, LIFE_MS);
        }
        // Sometimes the owner changes a limit at a random time.
        if random.random_range(0..8) == 0 {
            let job = random.random_range(0..jobs.len());
            let shares = SHARES * random.random_range(10..200);
            // Half of these daemons are killed before they notice the change.
            let is_killed = random.random();
            jobs[job].change(&engine, shares, || {
                if is_killed {
                    daemon.end("KILL");
                }
            });
            changed += 1;
            random_pause(&mut random, LIFE_MS);
        }
        daemon.end("KILL");
        governed += usize::from(jobs.iter().any(|job| job.current() != job.original));
        // A restore may be killed, too, and the next daemon may start before the restore.
        if random.random_range(0..3) == 0 {
            let mut restore = daemon.restore_command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            random_pause(&mut random, RESTORE_MS);
            let _ = restore.kill();
            restore.wait().unwrap();
        }
        // An engine out of reach is no reason to forget a container that runs.
        if random.random_range(0..4) == 0 {
            let mut restore = daemon.restore_command();
            restore.args(["--forget-missing", "--set", "engine.address=/nowhere/engine.sock"]);
            let output = restore.output().unwrap();
            assert!(!String::from_utf8_lossy(&output.stdout).contains("forgotten"), "{output:?}");
        }
        if random.random_range(0..3) > 0 {
            let output = daemon.restore();
            for job in &jobs {
                let place = format!("crash {crash} of seed {seed}, {}: {output}{}", job.name, daemon.log());
                assert_eq!(job.current(), job.original, "{place}");
            }
        }
        daemon.launch();
    }
    daemon.end("KILL");
    daemon.restore();
    for job in &jobs {
        assert_eq!(job.current(), job.original, "{}: {}", job.name, daemon.log());
    }
    println!("{crashes} crashes, {governed} of them with limits in force, {changed} changes by the owner");
    assert!(governed > crashes / 5, "limits were in force at only {governed} of {crashes} crashes");
}
