//! Crashes at random instants: SIGKILL to the daemon and to `flowcond restore`, on a real engine with real containers, again and
//! again. Afterwards each container has exactly the limits that it had, or those that its owner set since.
//!
//! `FLOWCON_CRASHES=1000 cargo test --test crash` is the long run; without it there are a few dozen.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod support;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;
use support::daemon::Daemon;
use support::engine::{CONVERGED, Engine, GROWING, RunSpec};

const CRASHES: usize = 30;

/// Milliseconds that a daemon lives at most: it finds its jobs, reads their logs, journals and writes within them.
const LIFE_MS: u64 = 1500;

/// Milliseconds after which a restore is killed at most.
const RESTORE_MS: u64 = 40;

/// An owner's choices are multiples of this many: a weight is about ten shares, and a smaller change on cgroup v1 is not noticed.
const SHARES: u32 = 20;

/// How long after a change its owner looks.
const LOOK: Duration = Duration::from_millis(300);

/// A container, its limit's file in the kernel, and what must stand there when nobody governs.
struct Job {
    name: &'static str,
    file: PathBuf,
    original: String,
}

impl Job {
    fn start(engine: &Engine, name: &'static str, options: &[&str], script: &str) -> Job {
        let id = engine.run(RunSpec { name, labels: &["flowcon.enable=true"], options, script });
        let file = if Engine::is_cgroup_v1() { "cpu.shares" } else { "cpu.weight" };
        let file = engine.cgroup_of(&id, "cpu").join(file);
        let original = fs::read_to_string(&file).unwrap();
        Job { name, file, original }
    }

    /// As its owner does, who looks whether it took: two updates at one instant are the engine's to order.
    fn change(&mut self, engine: &Engine, shares: u32) {
        for _ in 0..20 {
            engine.docker(&["update", "--cpu-shares", &shares.to_string(), self.name]);
            self.original = self.present();
            sleep(LOOK);
            if self.present() == self.original {
                return;
            }
        }
        panic!("{}: the owner's change was overwritten again and again", self.name);
    }

    fn present(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }
}

fn some_time(random: &mut impl Rng, most_ms: u64) {
    sleep(Duration::from_millis(random.random_range(0..most_ms)));
}

#[test]
fn whenever_it_is_killed_every_container_gets_its_own_limits_back() {
    let crashes = std::env::var("FLOWCON_CRASHES").ok().and_then(|count| count.parse().ok()).unwrap_or(CRASHES);
    let seed = std::env::var("FLOWCON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let engine = Engine::start();
    // A thousand crashes take longer than their quarter of an hour.
    let (growing, converged) = (GROWING.replace("9000 ", "90000 "), CONVERGED.replace("9000 ", "90000 "));
    let mut jobs = [
        // A bound changes weights at the first decision, whatever the logs say.
        Job::start(&engine, "plain", &["--label", "flowcon.min-share=60%"], &growing),
        Job::start(&engine, "light", &["--cpu-shares", "333"], &converged),
        Job::start(&engine, "heavy", &["--cpu-shares", "3000"], &converged),
    ];
    let mut daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    let (mut governed, mut changed) = (0, 0);
    for crash in 0..crashes {
        some_time(&mut random, LIFE_MS);
        // Now and then the owner changes a limit beside us, at any moment.
        if random.random_range(0..8) == 0 {
            let job = random.random_range(0..jobs.len());
            jobs[job].change(&engine, SHARES * random.random_range(10..200));
            changed += 1;
            some_time(&mut random, LIFE_MS);
        }
        daemon.end("KILL");
        governed += usize::from(jobs.iter().any(|job| job.present() != job.original));
        // A restore is killed too; the next daemon may come before the restore.
        if random.random_range(0..3) == 0 {
            let mut restore = daemon.restoring().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            some_time(&mut random, RESTORE_MS);
            let _ = restore.kill();
            restore.wait().unwrap();
        }
        if random.random_range(0..3) > 0 {
            let said = daemon.restore();
            for job in &jobs {
                let place = format!("crash {crash} of seed {seed}, {}: {said}{}", job.name, daemon.log());
                assert_eq!(job.present(), job.original, "{place}");
            }
        }
        daemon.launch();
    }
    daemon.end("KILL");
    daemon.restore();
    for job in &jobs {
        assert_eq!(job.present(), job.original, "{}: {}", job.name, daemon.log());
    }
    println!("{crashes} crashes, {governed} of them while limits stood, {changed} changes by the owner");
    assert!(governed > crashes / 20, "limits stood at {governed} of {crashes} crashes only");
}
