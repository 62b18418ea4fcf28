//! Tests of plans with alternatives, prices and deadlines, and their comparison with earliest deadline first.

use super::*;
use crate::cluster::price::PRICE;
use crate::cluster::testing::{cluster, waiting, worker};
use crate::cluster::{check, plan};
use model::Millis;
use model::cluster::{Alternative, ClusterJob, ClusterPlan, ClusterReason, Constraint, MoveRule, Report, Resources};

fn settings(reclaim: bool) -> ClusterSettings {
    ClusterSettings { queue: QueueRule::Deadlines, reclaim, ..ClusterSettings::default() }
}

fn planned(observation: &ClusterObservation, reclaim: bool) -> ClusterPlan {
    let plan = plan(observation, &settings(reclaim));
    assert_eq!(check(observation, &settings(reclaim), &plan), []);
    plan
}

/// Two nodes: one of 8 cores for 1 an hour, one with 2 GPUs for 10.
fn two_kinds() -> ClusterObservation {
    let mut observation = cluster(2, 8.0);
    observation.nodes[1].capacity.gpus = 2;
    for (node, price, kind) in [(0, "1", "cpu"), (1, "10", "a100")] {
        observation.nodes[node].labels.insert(PRICE.into(), price.into());
        observation.nodes[node].labels.insert("type".into(), kind.into());
    }
    observation
}

fn way(cores: f64, gpus: u32, takes_s: f64) -> Alternative {
    let on = |value: &str| vec![Constraint { label: "type".into(), equal: true, value: value.into() }];
    let constraints = if gpus > 0 { on("a100") } else { Vec::new() };
    Alternative { request: Resources { cores, gpus, ..Resources::default() }, constraints, takes_s: Some(takes_s) }
}

/// A job of an hour on 4 cores, or of nine minutes on a GPU.
fn with_alternatives(due_in_s: u64) -> ClusterJob {
    waiting("either", |job| {
        job.alternatives = vec![way(4.0, 0, 3600.0), way(0.0, 1, 540.0)];
        job.deadline = Some(Millis::from_secs(100 + due_in_s));
    })
}

#[test]
fn a_job_gets_the_cheapest_alternative_that_meets_its_deadline() {
    let mut observation = two_kinds();
    for (due_in_s, node, alternative, node_cost) in [(7200, 0, 0, 0.5), (1800, 1, 1, 0.75)] {
        observation.jobs = vec![with_alternatives(due_in_s)];
        let plan = planned(&observation, false);
        let start = &plan.starts[0];
        assert_eq!((start.node, start.alternative), (node, Some(alternative)), "due in {due_in_s} s");
        let ClusterReason::Planned { cost } = start.reason else { panic!("{:?}", start.reason) };
        assert!((cost.node - node_cost).abs() < 1e-9 && cost.lateness == 0.0, "{cost:?}");
        // What the alternatives would have cost: late on cores, it costs fifty hours of the dearest node for each hour.
        let costs: Vec<f64> = plan.choices[0].costs.iter().map(|cost| cost.unwrap().total()).collect();
        assert!((costs[1] - 0.75).abs() < 1e-9, "{costs:?}");
        assert!((costs[0] - if due_in_s == 1800 { 0.5 + 50.0 * 10.0 / 2.0 } else { 0.5 }).abs() < 1e-6, "{costs:?}");
    }
    observation.jobs = vec![with_alternatives(1800)];
    observation.jobs[0].late_cost = Some(0.001);
    assert_eq!(planned(&observation, false).starts[0].alternative, Some(0), "its lateness costs less than the GPU");
}

#[test]
fn a_job_runs_on_the_cheaper_of_two_equal_nodes_and_a_closed_one_is_named() {
    let mut observation = two_kinds();
    observation.nodes[0].state = NodeState::Closed;
    observation.nodes[1].labels.insert("type".into(), "cpu".into());
    observation.jobs = vec![with_alternatives(7200)];
    observation.jobs[0].alternatives.truncate(1);
    let plan = planned(&observation, false);
    assert_eq!(
        (plan.choices[0].node, plan.starts.len()),
        (Some(0), 1),
        "it need not wait: there is room on an open node"
    );
    observation.nodes[1].state = NodeState::Unreachable;
    let plan = planned(&observation, false);
    assert_eq!((plan.choices[0].node, plan.starts.len(), plan.waits.len()), (Some(0), 0, 1));
}

#[test]
fn instead_of_a_closed_node_a_job_gets_a_free_one_unless_that_is_dearer() {
    // The first node costs nothing, and is full.
    for (free, closed) in [(1, 2), (2, 1)] {
        for (closed_price, starts) in [("1", 1), ("0.5", 0)] {
            let mut observation = cluster(3, 8.0);
            observation.nodes[closed].state = NodeState::Closed;
            observation.nodes[free].labels.insert(PRICE.into(), "1".into());
            observation.nodes[closed].labels.insert(PRICE.into(), closed_price.into());
            observation.jobs = ["first", "second"].map(|name| with_cores(8.0, name, 36_000)).to_vec();
            observation.jobs[0].placed = worker(0, |_| ()).placed;
            let plan = planned(&observation, false);
            let waits: Vec<_> = plan.waits.iter().map(|wait| (wait.job, &wait.reason)).collect();
            let expected = [(1, &ClusterReason::CheaperLater)];
            assert_eq!((plan.starts.len(), &waits[..]), (starts, &expected[starts..]), "{closed}: {plan:?}");
            plan.starts.iter().for_each(|start| assert_eq!(start.node, free));
        }
    }
}

/// A job of an hour on `cores` of any node.
fn with_cores(cores: f64, name: &str, due_in_s: u64) -> ClusterJob {
    let mut job = with_alternatives(due_in_s);
    job.name = name.into();
    job.request.cores = cores;
    job.alternatives = vec![way(cores, 0, 3600.0)];
    job
}

/// A running job of which `left_s` are left on four cores, with the alternatives of [`with_alternatives`].
fn running(left_s: f64, due_in_s: u64) -> ClusterJob {
    let mut job = with_alternatives(due_in_s);
    job.name = "running".into();
    job.placed = worker(0, |worker| worker.report = Some(Report { unit_s: left_s, units_left: 1.0 })).placed;
    (job.request.cores, job.constraints) = (4.0, Vec::new());
    job.alternatives.iter_mut().for_each(|way| way.takes_s = way.takes_s.map(|takes_s| takes_s * left_s / 3600.0));
    job
}

#[test]
fn a_running_job_changes_its_alternative_if_that_saves_more_than_the_stop_and_the_start_cost() {
    let stops = |left_s: f64, due_in_s: u64, reclaim: bool| {
        let mut observation = two_kinds();
        observation.jobs = vec![running(left_s, due_in_s)];
        planned(&observation, reclaim).stops
    };
    assert_eq!(stops(3600.0, 1800, false), [], "running jobs are not stopped unless the operator allows it");
    let late = stops(3600.0, 1800, true);
    // 1800 s of lateness at 500 an hour; on the GPU it ends in time, also with two times ten seconds for the change.
    assert!(
        matches!(late[0].reason, ClusterReason::Cheaper { saves, .. } if (249.0..250.0).contains(&saves)),
        "{late:?}"
    );
    assert_eq!(stops(3600.0, 7200, true), [], "it is in time, and the GPU is not cheaper");
    assert_eq!(stops(20.0, 10, true), [], "with the change it would be later");
}

#[test]
fn a_job_that_moves_for_its_costs_keeps_its_alternative() {
    let mut observation = two_kinds();
    let mut job = running(3600.0, 36_000);
    job.alternatives.clear();
    job.placed[0].node = 1;
    observation.jobs = vec![job];
    let moves = planned(&observation, true).moves;
    assert_eq!((moves.len(), moves[0].from, moves[0].to), (1, 1, 0), "the other node costs a tenth");
    let never = ClusterSettings { moves: MoveRule::Never, ..settings(true) };
    assert_eq!(plan(&observation, &never).moves, []);
}

#[test]
fn the_plan_of_a_hundred_nodes_is_quick_and_is_made_by_several_controllers_beyond() {
    let mut observation = cluster(150, 8.0);
    for node in &mut observation.nodes {
        node.capacity.gpus = 2;
        node.labels.insert("type".into(), "a100".into());
    }
    observation.jobs = (0..120).map(|_| with_alternatives(1800)).collect();
    for (at, job) in observation.jobs.iter_mut().enumerate() {
        job.name = format!("job-{at}").into();
    }
    let began = std::time::Instant::now();
    let plan = planned(&observation, true);
    let took = began.elapsed().as_secs_f64();
    assert_eq!(plan.starts.len(), 120, "each controller has room for its part");
    assert!(took < if cfg!(debug_assertions) { 10.0 } else { 0.3 }, "{took} s");
}

/// Seconds and cost of running some jobs on a cluster to their end, by a rule that says what starts at each arrival and completion.
struct Outcome {
    cost: f64,
    late: Vec<bool>,
}

/// Runs eight jobs that arrive every 60 s. `stops` are followed at once: a stopped job resumes where it stopped.
fn run(
    mut observation: ClusterObservation,
    jobs: &[ClusterJob],
    rule: impl Fn(&ClusterObservation) -> Vec<Step>,
) -> Outcome {
    let mut left: Vec<f64> = vec![1.0; jobs.len()];
    let mut outcome = Outcome { cost: 0.0, late: vec![false; jobs.len()] };
    let start_s = observation.now.as_secs_f64();
    let (mut arrived, mut now) = (0, start_s);
    let number = |job: &ClusterJob| job.name[4..].parse::<usize>().unwrap();
    while arrived < jobs.len() || !observation.jobs.is_empty() {
        while arrived < jobs.len() && start_s + 60.0 * arrived as f64 <= now {
            observation.jobs.push(jobs[arrived].clone());
            arrived += 1;
        }
        observation.now = Millis((now * 1000.0) as u64);
        for job in &mut observation.jobs {
            let part = left[number(job)];
            let whole = &jobs[number(job)];
            for (way, of) in job.alternatives.iter_mut().zip(&whole.alternatives) {
                way.takes_s = of.takes_s.map(|takes_s| takes_s * part);
            }
            let takes_s = job.alternatives.iter().find(|way| way.request == job.request).and_then(|way| way.takes_s);
            if let Some(placed) = job.placed.first_mut() {
                placed.report = Some(Report { unit_s: takes_s.unwrap(), units_left: 1.0 });
            }
        }
        for step in rule(&observation) {
            match step {
                Step::Start { job, node, alternative } => {
                    let job = &mut observation.jobs[job];
                    job.request = job.alternatives[alternative].request;
                    job.placed = worker(node, |worker| worker.move_s = 1.0).placed;
                }
                Step::Stop { job } => observation.jobs[job].placed.clear(),
            }
        }
        // Until the next arrival or completion, at most thirty seconds: what waits for its latest start is planned again then.
        let ends = observation.jobs.iter().filter(|job| !job.placed.is_empty()).map(|job| now + rest(job, jobs, &left));
        let next = if arrived < jobs.len() { start_s + 60.0 * arrived as f64 } else { f64::INFINITY };
        let until = ends.fold(next, f64::min).min(now + 30.0).max(now + 0.001);
        let mut used = vec![false; observation.nodes.len()];
        for job in observation.jobs.iter().filter(|job| !job.placed.is_empty()) {
            let node = job.placed[0].node;
            used[node] = true;
            left[number(job)] -= (until - now) / (rest(job, jobs, &left) / left[number(job)]);
        }
        let prices =
            (0..used.len()).filter(|node| used[*node]).map(|node| crate::cluster::price::price(&observation, node));
        outcome.cost += prices.sum::<f64>() * (until - now) / 3600.0;
        now = until;
        observation.jobs.retain(|job| {
            let number = number(job);
            if left[number] > 1e-6 {
                return true;
            }
            let late_s = (now - job.deadline.unwrap().as_secs_f64()).max(0.0);
            outcome.late[number] = late_s > 1.0;
            outcome.cost += job.late_cost.unwrap() * late_s / 3600.0;
            false
        });
        assert!(now < start_s + 100_000.0, "{:?}", observation.jobs);
    }
    outcome
}

enum Step {
    Start { job: usize, node: usize, alternative: usize },
    Stop { job: usize },
}

/// Returns the seconds that a running job has left.
fn rest(job: &ClusterJob, jobs: &[ClusterJob], left: &[f64]) -> f64 {
    let number: usize = job.name[4..].parse().unwrap();
    let way = jobs[number].alternatives.iter().find(|way| way.request == job.request).unwrap();
    way.takes_s.unwrap() * left[number]
}

#[test]
fn eight_jobs_on_three_nodes_cost_no_more_than_by_earliest_deadline_and_none_is_late_that_was_not() {
    use crate::cluster::deadlines::{Queue, baseline};
    let (mut sum, mut sum_edf) = (0.0, 0.0);
    for seed in 0..8_u64 {
        let mut draw = super::super::deadlines::Draw::new(seed, 0);
        let mut observation = two_kinds();
        observation.nodes.push(observation.nodes[0].clone());
        observation.nodes[2].name = "node-2".into();
        let jobs: Vec<ClusterJob> = (0..8)
            .map(|at| {
                let mut job = with_alternatives(0);
                job.name = format!("job-{at}").into();
                let slow = 600.0 + 3000.0 * draw.uniform();
                job.alternatives =
                    vec![way(4.0, 0, slow), way(8.0, 0, slow / 1.7), way(0.0, 1, slow / (4.0 + 8.0 * draw.uniform()))];
                let arrived = 100 + 60 * at;
                let due = arrived as f64 + slow * (0.4 + 1.6 * draw.uniform());
                (job.arrived, job.deadline) = (Millis::from_secs(arrived), Some(Millis::from_secs(due as u64)));
                job.late_cost = Some(20.0 + 80.0 * draw.uniform());
                job
            })
            .collect();
        let ours = run(observation.clone(), &jobs, |observation| {
            let plan = plan(observation, &settings(true));
            assert_eq!(check(observation, &settings(true), &plan), []);
            let stops = plan.stops.iter().map(|stop| Step::Stop { job: stop.job });
            let starts = plan.starts.iter().map(|start| Step::Start {
                job: start.job,
                node: start.node,
                alternative: start.alternative.unwrap(),
            });
            stops.chain(starts).collect()
        });
        let edf = run(observation, &jobs, |observation| {
            let Some(instance) = Instance::of(observation, &settings(false)) else { return Vec::new() };
            let list: Vec<SubmittedJob<'_>> =
                instance.jobs.iter().enumerate().map(|(at, entry)| entry.submitted(at)).collect();
            let (nodes, fixed) = (&instance.open, &instance.fixed);
            let situation =
                Situation { now_s: 0.0, catalogue: &instance.catalogue, nodes, fixed, jobs: &list, restart_s: 1.0 };
            let places = baseline(&situation, Queue::PackedEdf).places;
            let start = |(entry, place): (&Entry, &Option<crate::cluster::deadlines::Assignment>)| {
                let alternative = instance.alternative(entry, (*place)?)?;
                Some(Step::Start { job: entry.job, node: instance.nodes[(*place)?.node], alternative })
            };
            instance.jobs.iter().zip(&places).filter_map(start).collect()
        });
        println!(
            "seed {seed}: {:.2}, by earliest deadline {:.2}; late {:?} and {:?}",
            ours.cost, edf.cost, ours.late, edf.late
        );
        sum += ours.cost;
        sum_edf += edf.cost;
    }
    assert!(sum <= sum_edf, "{sum:.2}, by earliest deadline {sum_edf:.2}");
}
