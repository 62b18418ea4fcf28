//! Tests of contention domains on real cgroups: jobs that share processors are ranked among themselves, and their weights in the kernel
//! follow the ranks. Needs root, and a kernel with CPU weights.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// A training that does not end during the test: each unit costs the same CPU, and its only milestone is completion.
const TRAINING: &str = r#"
unit=0
while [ $unit -lt "$1" ]; do
    i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done
    unit=$((unit + 1))
    echo "epoch $unit/$1"
done"#;

/// The processors that tests may use.
pub fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Runs a training of `units` units on these processors with `flowctl run`.
fn train(daemon: &Daemon, name: &str, units: u32, processors: &str) -> Job {
    let run = Job::command(daemon, name, &[], &["sh", "-c", TRAINING, "train", &units.to_string()]);
    let mut command = Command::new("taskset");
    command.args(["-c", processors]).arg(run.get_program()).args(run.get_args());
    Job::spawn(command)
}

/// The explanation of a job; `None` while it is not governed.
fn explained(daemon: &Daemon, name: &str) -> Option<Value> {
    let output = daemon.flowctl(&["explain", name, "-o", "json"]);
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// Rank, weight and domain of a job, once it is ranked.
fn ranking(daemon: &Daemon, name: &str) -> Option<(u64, u64, Value)> {
    let job = explained(daemon, name)?;
    let explanation = &job["explanation"];
    let rank = explanation["decision"]["numbers"]["rank"].as_f64()? as u64;
    Some((rank, job["cpu_weight"].as_u64()?, explanation["domain"].clone()))
}

/// One processor is one core, minus the usage of its other processes.
fn at_most_one_core(domain: &Value) -> bool {
    domain["most_cores"].as_f64().is_some_and(|cores| cores > 0.0 && cores <= 1.0)
}

#[test]
fn on_one_of_several_processors_the_weights_follow_the_ranks() {
    let daemon = Daemon::start("off", &["policy.interval=2s"]);
    let one = processors().last().unwrap().to_string();
    // The remaining times are so different that the order is clear, and no job ends during the test.
    let names = ["near", "further", "far", "farthest"];
    let _jobs: Vec<Job> = names
        .iter()
        .zip([100_000, 400_000, 1_600_000, 6_400_000])
        .map(|(name, units)| train(&daemon, name, units, &one))
        .collect();
    let ordered = || -> Option<()> {
        let rankings: Option<Vec<_>> = names.iter().map(|name| ranking(&daemon, name)).collect();
        let rankings = rankings?;
        let domains = rankings.iter().all(|(_, _, domain)| {
            domain["containers"] == 4 && domain["processors"] == one.as_str() && at_most_one_core(domain)
        });
        let ranks: Vec<u64> = rankings.iter().map(|(rank, _, _)| *rank).collect();
        let weights: Vec<u64> = rankings.iter().map(|(_, weight, _)| *weight).collect();
        // A difference of 1 is within the rounding of kernels: such a weight is not written again.
        let in_order = ranks == [1, 2, 3, 4] && weights.windows(2).all(|pair| pair[0] + 1 >= pair[1]);
        // Each is asked for on its own, and the plan may change meanwhile.
        let is_sum_kept = weights.iter().sum::<u64>().abs_diff(400) <= 4;
        (domains && in_order && is_sum_kept && weights[0] > 300 && weights[1] < 60).then_some(())
    };
    eventually("the weights follow the ranks, and their sum is kept", Duration::from_secs(60), ordered);
    // Once the demand of the first is known, one processor leaves nothing for the others.
    eventually("the first in rank has nearly all CPU, ten times in a row", Duration::from_secs(60), || {
        let has_all = |_| {
            std::thread::sleep(Duration::from_secs(1));
            let weights: Option<Vec<u64>> =
                names.iter().map(|name| ranking(&daemon, name).map(|(_, weight, _)| weight)).collect();
            weights.is_some_and(|weights| weights[0] > 300 && weights[1..].iter().all(|weight| *weight < 60))
        };
        (0..10).all(has_all).then_some(())
    });
    let page = daemon.stdout_of(&["explain", "far"]);
    assert!(page.contains("with 3 other jobs for") && page.contains(&format!("processors {one}")), "{page}");
}

#[test]
fn jobs_on_different_processors_do_not_affect_each_other() {
    let all = processors();
    if all.len() < 2 {
        return eprintln!("skipped: only one processor");
    }
    let (first, second) = (all[0].to_string(), all[1].to_string());
    let daemon = Daemon::start("off", &["policy.interval=2s"]);
    let _jobs = [train(&daemon, "here", 100_000, &first), train(&daemon, "there", 6_400_000, &second)];
    eventually("each is alone in its domain, with its original weight", Duration::from_secs(60), || {
        let rankings: Vec<_> = ["here", "there"].iter().filter_map(|name| ranking(&daemon, name)).collect();
        let alone = |(rank, weight, domain): &(u64, u64, Value)| {
            *rank == 1 && weight.abs_diff(100) <= 1 && domain["containers"] == 1 && at_most_one_core(domain)
        };
        (rankings.len() == 2 && rankings.iter().all(alone)).then_some(())
    });
}
