//! Jobs with alternatives: what is reserved at their start, what they cost, and what is learned from their runs.

use super::*;
use crate::machine::labels::{ALTERNATIVES, DEADLINE, GANG, LATE_COST};
use model::cluster::{ClusterSettings, QueueRule};

/// A job that takes an hour on two cores of `a`, which costs 1, or ten minutes on the GPU of `b`, which costs 3.
fn bench(labels: &[(&str, &str)]) -> Bench {
    let ways = "cpus=2 duration=1h | gpus=1 node.labels.type==a100 duration=10m";
    let own = [(QUEUE, "true"), (CHECKPOINT, OWN), (ALTERNATIVES, ways)];
    let mut bench = Bench::with(vec![service("job", &[&own[..], labels].concat())]);
    bench.machine.settings.cluster = ClusterSettings { queue: QueueRule::Deadlines, ..ClusterSettings::default() };
    for (node, price) in bench.swarm.nodes.iter_mut().zip(["1", "3"]) {
        node.labels.insert("flowcon.price".into(), price.into());
    }
    bench.swarm.nodes[1].labels.insert("type".into(), "a100".into());
    bench.swarm.nodes[1].capacity.gpus = 1;
    bench
}

#[test]
fn a_job_reserves_what_its_chosen_alternative_says_and_its_costs_are_counted() {
    let mut bench = bench(&[(DEADLINE, "30m"), (LATE_COST, "100")]);
    // The deadline is half an hour after the submission, and that was long ago on this clock.
    bench.swarm.services[0].created = Millis(1_700_000_000_000);
    bench.passes(30);
    assert_eq!(bench.did, ["starting 1@b", "running"]);
    let reserved = bench.swarm.services[0].request;
    assert_eq!((reserved.cores, reserved.gpus), (0.0, 1));
    let job = bench.status.jobs[0].clone();
    let chosen: Vec<bool> = job.alternatives.iter().map(|way| way.is_chosen && way.cost.is_some()).collect();
    assert_eq!(chosen, [false, true]);
    assert!(job.reason.as_ref().unwrap().starts_with("cheapest in the plan: 0.50 for 600 s"), "{:?}", job.reason);
    bench.passes(360);
    let cost = |bench: &Bench| bench.status.jobs[0].cost.unwrap();
    let running = cost(&bench);
    assert!((0.29..0.34).contains(&running), "six minutes at 3 an hour: {running}");
    bench.handle(Event::Command(Command::Suspend("job".to_owned()), CommandId(1)));
    bench.passes(600);
    let suspended = cost(&bench);
    assert!((running..running + 0.05).contains(&suspended), "{suspended} after {running}");
    bench.passes(1800);
    assert!((10.0..40.0).contains(&cost(&bench)), "it is late: {}", cost(&bench));
}

#[test]
fn what_a_run_took_goes_before_what_the_label_says() {
    let mut bench = bench(&[]);
    bench.passes(30);
    assert_eq!(bench.did, ["starting 1@b", "running"]);
    bench.swarm.tasks[0].state = TaskState::Complete;
    bench.swarm.tasks[0].is_wanted = false;
    let mut next = bench.swarm.services[0].clone();
    bench.passes(30);
    (next.id, next.name, next.mode, next.pin) =
        (ServiceId("next".into()), "next".into(), ServiceMode::Replicated(0), None);
    next.labels.retain(|label, _| !label.starts_with(labels::INTERNAL_PREFIX));
    next.volumes.clear();
    next.labels.remove(CHECKPOINT);
    bench.swarm.services.push(next);
    // It starts as soon as it is seen.
    bench.passes(10);
    let at = At { now: Millis(bench.at), unix: Millis(1_700_000_000_000 + bench.at) };
    let jobs = bench.machine.observe(at).observation.jobs;
    let takes: Vec<Option<f64>> = jobs[0].alternatives.iter().map(|way| way.takes_s).collect();
    assert_eq!((takes[0], takes[1].is_some_and(|seconds| seconds < 600.0)), (Some(3600.0), true), "{takes:?}");
}

#[test]
fn the_workers_of_a_gang_have_no_alternatives() {
    let mut bench = bench(&[(GANG, "gang")]);
    bench.passes(30);
    assert!(bench.why("job").1.contains("only a job of one worker can have alternatives"), "{:?}", bench.why("job"));
}
