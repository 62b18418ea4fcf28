//! The cost of a move: how long a job with 100 MB of saved state makes no progress, moved alternately by the coordinator and by hand.
//!
//! `cargo bench --bench cluster_move`, as root, with docker.io and iproute2. A move by hand scales the service to 0, waits until the
//! container has ended, copies the volume, pins the service to the new node and scales it to 1, each step directly after the last.

#![allow(clippy::unwrap_used, reason = "a panic is how a measurement fails")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::cost::median;
use support::swarm::{IMAGE, RESTARTS, TestSwarm};

const REPEATS: usize = 5;
const MEGABYTES: u32 = 100;
/// The seconds of one unit of work: the time between two heartbeats.
const UNIT_S: &str = "0.1";

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return; // `cargo test` does not run the measurement
    }
    let mut swarm = TestSwarm::start(3);
    let governed = create(&swarm, "governed", &["--replicas", "0", "--label", "flowcon.queue=true"]);
    let by_hand = create(&swarm, "by-hand", &["--replicas", "1", "--constraint", "node.hostname==node-2"]);
    swarm.coordinate();
    swarm.wait("governed", "running", |job| job["state"] == "running");
    wait_for_growth(&by_hand);
    swarm.stdout_of(&["move", "governed", "node-2"]);
    swarm.running_on("governed", "node-2");
    let (mut governed_s, mut by_hand_s) = (Vec::new(), Vec::new());
    for repeat in 0..REPEATS {
        let (from, to) = if repeat % 2 == 0 { (2, 3) } else { (3, 2) };
        let node = format!("node-{to}");
        by_hand_s.push(longest_pause(&by_hand, || move_by_hand(&swarm, from, to)));
        governed_s.push(longest_pause(&governed, || {
            swarm.stdout_of(&["move", "governed", &node]);
        }));
        swarm.running_on("governed", &node);
        println!("by hand {:.1} s, by the coordinator {:.1} s", by_hand_s[repeat], governed_s[repeat]);
    }
    let (by_hand, governed) = (median(by_hand_s), median(governed_s));
    println!(
        "{MEGABYTES} MB of state, median time without progress of {REPEATS} moves: by hand {by_hand:.1} s, by the coordinator {governed:.1} s: {:.2} × (limit 1.5)",
        governed / by_hand
    );
}

fn create(swarm: &TestSwarm, name: &str, options: &[&str]) -> PathBuf {
    let beats = swarm.dir.join("beats");
    std::fs::create_dir_all(&beats).unwrap();
    let script = format!(
        "[ -f /saved/ballast ] || dd if=/dev/urandom of=/saved/ballast bs=1M count={MEGABYTES} 2>/dev/null; \
         i=$(cat /saved/i 2>/dev/null || echo 0); trap 'echo $i >/saved/i; exit 143' TERM; \
         while :; do sleep {UNIT_S}; i=$((i+1)); echo $i >>/beats/{name}; echo \"epoch $i/100000 loss $((100000-i))\"; done"
    );
    let (checkpoint, saved) =
        (format!("flowcon.checkpoint={name}"), format!("type=volume,source={name},target=/saved"));
    let shared = format!("type=bind,source={},target=/beats", beats.display());
    let mut arguments = vec!["service", "create", "--detach", "--no-resolve-image", "--name", name];
    arguments.extend(RESTARTS);
    arguments.extend([
        "--label",
        &checkpoint,
        "--label",
        "flowcon.stop-grace=20s",
        "--mount",
        &saved,
        "--mount",
        &shared,
    ]);
    arguments.extend(["--container-label", "flowcon.enable=true"]);
    arguments.extend(options);
    arguments.extend([IMAGE, "sh", "-c", &script]);
    swarm.docker(1, &arguments);
    beats.join(name)
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}

fn wait_for_growth(file: &Path) {
    let before = length(file);
    let began = Instant::now();
    while length(file) == before {
        assert!(began.elapsed() < Duration::from_secs(120), "{} does not grow", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The seconds between the last heartbeat before a move and the first one after it.
fn longest_pause(file: &Path, move_job: impl FnOnce() + Send) -> f64 {
    wait_for_growth(file);
    std::thread::scope(|scope| {
        let moving = scope.spawn(move_job);
        let (mut last, mut size, mut longest, began) = (Instant::now(), length(file), Duration::ZERO, Instant::now());
        // A unit takes 0.1 s; a move takes longer than this limit.
        while !(moving.is_finished() && longest > Duration::from_millis(700)) {
            assert!(began.elapsed() < Duration::from_secs(180), "{} was not moved", file.display());
            std::thread::sleep(Duration::from_millis(5));
            if length(file) != size {
                size = length(file);
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
        longest.as_secs_f64()
    })
}

fn move_by_hand(swarm: &TestSwarm, from: usize, to: usize) {
    swarm.docker(1, &["service", "scale", "--detach", "by-hand=0"]);
    let running = ["ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=by-hand"];
    while !swarm.docker(from, &running).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let volume = |node: usize| swarm.folder(node).join("data/volumes/by-hand/_data");
    swarm.docker(to, &["volume", "create", "by-hand"]);
    let copied = Command::new("sh")
        .args(["-c", "tar -C \"$0\" -c . | tar -C \"$1\" -x && sync -f \"$1\""])
        .args([volume(from), volume(to)])
        .status()
        .unwrap();
    assert!(copied.success());
    let added = format!("node.hostname==node-{to}");
    let removed = format!("node.hostname==node-{from}");
    swarm.docker(
        1,
        &[
            "service",
            "update",
            "--detach",
            "--no-resolve-image",
            "--replicas",
            "1",
            "--constraint-rm",
            &removed,
            "--constraint-add",
            &added,
            "by-hand",
        ],
    );
}
