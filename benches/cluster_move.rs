//! What a move costs: time without progress of a job with 100 MB of saved state, moved by the coordinator and by hand, in turns.
//!
//! `cargo bench --bench cluster_move`, as root, with docker.io and iproute2. By hand means: scale to 0, wait for the container's end,
//! copy the volume, pin and scale to 1, each as soon as the step before is done.

#![allow(clippy::unwrap_used, reason = "a panic is how a measurement fails")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use support::swarm::{IMAGE, RESTARTS, TestSwarm};

const REPEATS: usize = 5;
const MEGABYTES: u32 = 100;
/// Between two heartbeats.
const UNIT: &str = "0.1";

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return; // a measurement is no test
    }
    let mut swarm = TestSwarm::start(3);
    let governed = create(&swarm, "governed", &["--replicas", "0", "--label", "flowcon.queue=true"]);
    let by_hand = create(&swarm, "by-hand", &["--replicas", "1", "--constraint", "node.hostname==node-2"]);
    swarm.coordinate();
    swarm.wait("governed", "running", |job| job["state"] == "running");
    grows(&by_hand);
    swarm.done(&["move", "governed", "node-2"]);
    swarm.running_on("governed", "node-2");
    let (mut moved, mut handled) = (Vec::new(), Vec::new());
    for repeat in 0..REPEATS {
        let (from, to) = if repeat % 2 == 0 { (2, 3) } else { (3, 2) };
        let node = format!("node-{to}");
        handled.push(silence(&by_hand, || hand(&swarm, from, to)));
        moved.push(silence(&governed, || {
            swarm.done(&["move", "governed", &node]);
        }));
        swarm.running_on("governed", &node);
        println!("by hand {:.1} s, by the coordinator {:.1} s", handled[repeat], moved[repeat]);
    }
    let (by_hand, governed) = (median(handled), median(moved));
    println!(
        "{MEGABYTES} MB of state, median of {REPEATS}: by hand {by_hand:.1} s, by the coordinator {governed:.1} s without progress: {:.2} × (bound 1.5)",
        governed / by_hand
    );
}

fn create(swarm: &TestSwarm, name: &str, options: &[&str]) -> PathBuf {
    let beats = swarm.dir.join("beats");
    std::fs::create_dir_all(&beats).unwrap();
    let script = format!(
        "[ -f /saved/ballast ] || dd if=/dev/urandom of=/saved/ballast bs=1M count={MEGABYTES} 2>/dev/null; \
         i=$(cat /saved/i 2>/dev/null || echo 0); trap 'echo $i >/saved/i; exit 143' TERM; \
         while :; do sleep {UNIT}; i=$((i+1)); echo $i >>/beats/{name}; echo \"epoch $i/100000 loss $((100000-i))\"; done"
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
    std::fs::metadata(file).map_or(0, |found| found.len())
}

fn grows(file: &Path) {
    let before = length(file);
    let began = Instant::now();
    while length(file) == before {
        assert!(began.elapsed() < Duration::from_secs(120), "{} does not grow", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Seconds between the last heartbeat before a move and the first one after it.
fn silence(file: &Path, act: impl FnOnce() + Send) -> f64 {
    grows(file);
    std::thread::scope(|scope| {
        let acting = scope.spawn(act);
        let (mut last, mut size, mut longest, began) = (Instant::now(), length(file), Duration::ZERO, Instant::now());
        // A unit takes a fraction of a second, a move more than that.
        while !(acting.is_finished() && longest > Duration::from_millis(700)) {
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

fn hand(swarm: &TestSwarm, from: usize, to: usize) {
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
    let node = format!("node.hostname==node-{to}");
    let left = format!("node.hostname==node-{from}");
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
            &left,
            "--constraint-add",
            &node,
            "by-hand",
        ],
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
