//! Fault injection: every system call of the journal fails at any of its occurrences, or the engine hangs during a call. Uses a real
//! engine with real containers, and system calls that `strace` makes fail.
//!
//! `FLOWCON_FAULTS=1000 cargo test --test engine faults` is the long run; the default is a few faults.

use crate::support::daemon::Daemon;
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const FAULTS: usize = 24;

/// System calls of SQLite and the journal on files, and errors of a broken or full disk.
const CALLS: [&str; 6] = ["pwrite64", "pread64", "fsync", "ftruncate", "openat", "fcntl"];
const ERRORS: [&str; 3] = ["EIO", "ENOSPC", "EROFS"];

/// Maximum occurrence of a call at which it begins to fail; it includes opening the journal and the first commits.
const OCCURRENCES: u32 = 16;

/// Maximum lifetime of a daemon in milliseconds.
const LIFE_MS: u64 = 2500;

/// Maximum wait for limits in force, in the rounds that wait for them.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(30);

/// Maximum further wait once the fault has occurred: the daemon may have ended, or may only watch.
const IN_FORCE_AFTER_FAULT: Duration = Duration::from_secs(5);

/// The fault of one round.
#[derive(Debug)]
enum Fault {
    /// This call on a file of the journal fails at its nth occurrence, or from then on.
    Disk { call: &'static str, error: &'static str, nth: u32, forever: bool },
    /// The engine hangs after `after` milliseconds for `lasts` milliseconds.
    Engine { after: u64, lasts: u64 },
}

impl Fault {
    fn any(random: &mut impl Rng) -> Fault {
        if random.random_range(0..4) == 0 {
            return Fault::Engine { after: random.random_range(0..LIFE_MS), lasts: random.random_range(0..LIFE_MS) };
        }
        Fault::Disk {
            call: CALLS[random.random_range(0..CALLS.len())],
            error: ERRORS[random.random_range(0..ERRORS.len())],
            nth: random.random_range(1..=OCCURRENCES),
            forever: random.random_bool(0.5),
        }
    }
}

/// Waits until limits are in force, or the fault prevents that.
fn wait_until_in_force(in_force: impl Fn() -> bool, has_failed: impl Fn() -> bool) {
    let mut until = Instant::now() + IN_FORCE_WITHIN;
    while !in_force() && Instant::now() < until {
        if has_failed() {
            until = until.min(Instant::now() + IN_FORCE_AFTER_FAULT);
        }
        sleep(Duration::from_millis(20));
    }
}

/// Runs a daemon with this fault, and ends its life at a random time after its start or, if it `waits`, after limits are in force. Returns
/// whether something failed.
fn run_with_fault(
    daemon: &mut Daemon,
    engine: &Engine,
    fault: &Fault,
    life: u64,
    waits: bool,
    in_force: impl Fn() -> bool,
) -> bool {
    match fault {
        Fault::Disk { call, error, nth, forever } => {
            let on = if *forever { "+" } else { "" };
            let state = daemon.state_dir();
            let inject = format!("inject={call}:error={error}:when={nth}{on}");
            let trace = format!("trace={call}");
            // Only files of the journal, because failures of other files would not be disk errors.
            let path = |name: &str| format!("{}/{name}", state.display());
            let files = ["flowcon.db", "flowcon.db-wal", "flowcon.db-shm", "flowcon.db-journal"].map(path);
            let calls = tempfile::NamedTempFile::new().unwrap();
            let output = format!("--output={}", calls.path().display());
            let mut under = vec!["strace", "--daemonize", "--follow-forks", "--quiet=all", &output];
            under.extend(["-e", &trace, "-e", &inject]);
            files.iter().for_each(|file| under.extend(["-P", file]));
            daemon.launch_under(&under);
            let has_failed = || fs::read_to_string(calls.path()).unwrap().contains("(INJECTED)");
            if waits {
                wait_until_in_force(in_force, has_failed);
            }
            sleep(Duration::from_millis(life));
            has_failed()
        }
        Fault::Engine { after, lasts } => {
            daemon.launch();
            if waits {
                wait_until_in_force(in_force, || false);
            }
            sleep(Duration::from_millis(*after));
            engine.freeze();
            sleep(Duration::from_millis(*lasts));
            if life.is_multiple_of(2) {
                daemon.end("KILL"); // while its call is pending in the engine
            }
            engine.thaw();
            sleep(Duration::from_millis(life));
            true
        }
    }
}

#[test]
fn original_limits_are_restored_after_any_fault() {
    let faults = std::env::var("FLOWCON_FAULTS").ok().and_then(|count| count.parse().ok()).unwrap_or(FAULTS);
    let seed = std::env::var("FLOWCON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let engine = Engine::start();
    let (growing, converged) = (GROWING.replace("9000 ", "90000 "), CONVERGED.replace("9000 ", "90000 "));
    let start = |name: &str, options: &[&str], script: &str| {
        engine.run(RunSpec { name, labels: &["flowcon.enable=true"], options, script })
    };
    let jobs = [
        // A bound changes weights at the first decision, independent of the logs.
        start("plain", &["--label", "flowcon.min-share=60%"], &growing),
        start("light", &["--cpu-shares", "333"], &converged),
        start("heavy", &["--cpu-shares", "3000"], &converged),
    ];
    let files = jobs.each_ref().map(|id| engine.weight_file(id));
    let weights = || files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    let originals = weights();
    let mut daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    daemon.end("TERM");
    let (mut failed, mut governed) = (0, 0);
    for round in 0..faults {
        let fault = Fault::any(&mut random);
        // The time until limits are in force depends on the machine's load, so half of the daemons live relative to that.
        let (life, waits) = (random.random_range(500..LIFE_MS), random.random());
        failed += usize::from(run_with_fault(&mut daemon, &engine, &fault, life, waits, || weights() != originals));
        governed += usize::from(weights() != originals);
        daemon.end(if random.random_bool(0.7) { "KILL" } else { "TERM" });
        let output = daemon.restore();
        assert_eq!(weights(), originals, "round {round} of seed {seed}, {fault:?}: {output}{}", daemon.log());
    }
    println!("{faults} rounds, {failed} with a failure, {governed} with limits in force at the end");
    assert!(
        failed > faults / 3 && governed > faults / 10,
        "{failed} failed, limits were in force in {governed} of {faults}"
    );
}
