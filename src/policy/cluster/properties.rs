//! Properties of all plans on random clusters, and the scenarios for which the rules were written.

use super::testing::{cluster, exactly, gang, waiting, worker};
use super::{ClusterViolation, check, plan};
use model::cluster::{
    Admission, Category, ClusterJob, ClusterObservation, ClusterPlan, ClusterReason, ClusterSettings, Constraint,
    Convergence, MoveRule, NodeState, Phase, PlacementRule, QueueRule, Report, Resources, Worker, WorkerRange,
};
use model::{Bytes, Estimate, Millis};
use proptest::prelude::*;

fn settings() -> impl Strategy<Value = ClusterSettings> {
    let placements = [PlacementRule::Spread, PlacementRule::ProCon, PlacementRule::LeastAdded];
    let moves = [MoveRule::Never, MoveRule::SpeCon, MoveRule::Forecast];
    let queues = [QueueRule::FirstFit, QueueRule::Dragon, QueueRule::Weighted, QueueRule::Deadlines];
    let each = (prop::sample::select(placements.to_vec()), prop::sample::select(moves.to_vec()));
    let rest = (any::<bool>(), any::<bool>());
    (each, prop::sample::select(queues.to_vec()), rest).prop_map(|((placement, moves), queue, (prices, reclaim))| {
        let admission = if prices { Admission::Prices } else { Admission::All };
        ClusterSettings { placement, moves, queue, admission, reclaim, ..ClusterSettings::default() }
    })
}

fn request() -> impl Strategy<Value = Resources> {
    (0..4_u32, 0..5_u64, 0..2_u32).prop_map(|(cores, gib, gpus)| Resources {
        cores: f64::from(cores),
        memory: Bytes(gib << 30),
        gpus,
    })
}

/// A job that is not placed yet. Its workers are placed by a plan, so that only possible states are observed.
fn job() -> impl Strategy<Value = ClusterJob> {
    let size = (1..4_u32, 0..3_u32, 0..4_u32);
    let rest = (0..2_000_u64, prop::sample::select(vec![1.0, 1.0, 1.0, 20.0, 100.0]), any::<bool>(), 0..3_u32);
    (request(), size, rest, 0..8_u32).prop_map(|(request, (min, more, most), rest, constraint)| {
        let (arrived, level, movable, moves) = rest;
        waiting(&format!("job-{arrived}-{level}-{min}"), |job| {
            job.arrived = Millis::from_secs(arrived);
            (job.priority.level, job.movable, job.moves, job.request) = (level, movable, moves, request);
            job.workers = WorkerRange { min, initial: min + more, max: min + more + most };
            // Some jobs have a deadline, some a known run time.
            job.deadline = (constraint % 2 == 1).then(|| Millis::from_secs(arrived + 500));
            job.takes_s = (constraint > 3).then_some(100.0 * f64::from(min));
            if constraint == 0 {
                job.constraints = vec![Constraint { label: "kind".into(), equal: true, value: "a".into() }];
            }
        })
    })
}

fn estimate() -> impl Strategy<Value = Option<Estimate>> {
    prop::option::of((1.0..1e5_f64, 1.0..5.0_f64).prop_map(|(likely, factor)| Estimate {
        low: likely / factor,
        likely,
        high: likely * factor,
    }))
}

fn facts() -> impl Strategy<Value = (Option<Estimate>, Option<Report>, Option<Convergence>, u8)> {
    let report = prop::option::of((0.1..60.0_f64, 0.0..500.0_f64));
    let categories = vec![Category::Progressing, Category::Watching, Category::Converged];
    (estimate(), report, prop::sample::select(categories), any::<bool>(), 0..12_u8).prop_map(
        |(work, report, category, asks, phase)| {
            let report = report.map(|(unit_s, units_left)| Report { unit_s, units_left });
            (work, report, Some(Convergence { category, asks, since: Millis(0) }), phase)
        },
    )
}

/// A random cluster in operation: jobs placed by an earlier plan, with random forecasts and phases, and new jobs.
fn clusters() -> impl Strategy<Value = ClusterObservation> {
    let states =
        vec![NodeState::Ready, NodeState::Ready, NodeState::Ready, NodeState::Draining, NodeState::Unreachable];
    let node = (2..9_u32, 0..2_u32, prop::sample::select(states), any::<bool>());
    let nodes = prop::collection::vec(node, 1..6);
    let jobs = prop::collection::vec((job(), prop::collection::vec(facts(), 8)), 0..12);
    (nodes, jobs, 0..8_usize).prop_map(|(nodes, jobs, new)| {
        let mut observation = cluster(nodes.len(), 8.0);
        observation.now = Millis::from_secs(2_000);
        for (node, (cores, gpus, _, kind)) in observation.nodes.iter_mut().zip(&nodes) {
            node.capacity = Resources { cores: f64::from(*cores), memory: Bytes(12 << 30), gpus: 2 * gpus };
            node.labels.insert("kind".into(), if *kind { "a" } else { "b" }.into());
        }
        let new = new.min(jobs.len());
        observation.jobs = jobs[new..].iter().map(|(job, _)| job.clone()).collect();
        carry_out(&plan(&observation, &ClusterSettings::default()), &mut observation);
        for (job, (_, facts)) in observation.jobs.iter_mut().zip(&jobs[new..]) {
            for (worker, (work, report, convergence, phase)) in job.placed.iter_mut().zip(facts) {
                (worker.work_left, worker.report, worker.convergence) = (*work, *report, *convergence);
                worker.phase = match phase {
                    0 => Phase::Stopping,
                    1 => Phase::Starting,
                    _ => Phase::Running,
                };
            }
        }
        observation.jobs.extend(jobs[..new].iter().map(|(job, _)| job.clone()));
        for (node, (_, _, state, _)) in observation.nodes.iter_mut().zip(&nodes) {
            node.state = *state;
        }
        observation
    })
}

/// Applies a plan to the observation, as if all its actions had completed.
fn carry_out(plan: &ClusterPlan, observation: &mut ClusterObservation) {
    for stop in &plan.stops {
        observation.jobs[stop.job].placed.retain(|worker| worker.number != stop.worker);
    }
    for moved in &plan.moves {
        let placed = &mut observation.jobs[moved.job].placed;
        placed.iter_mut().filter(|worker| worker.number == moved.worker).for_each(|worker| worker.node = moved.to);
    }
    for start in &plan.starts {
        let placed = worker(start.node, |worker| worker.number = start.worker).placed;
        observation.jobs[start.job].placed.extend(placed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 4_000 }))]

    #[test]
    fn every_plan_passes_the_check_and_is_deterministic(observation in clusters(), settings in settings()) {
        // SpeCon has no limit on moves in flight; the limit of the settings applies to it too.
        let planned = plan(&observation, &settings);
        prop_assert_eq!(check(&observation, &settings, &planned), vec![]);
        prop_assert_eq!(plan(&observation, &settings), planned);
    }

    #[test]
    fn no_gang_is_incomplete_after_several_plans(mut observation in clusters(), settings in settings()) {
        for _ in 0..6 {
            let planned = plan(&observation, &settings);
            carry_out(&planned, &mut observation);
            for job in &mut observation.jobs {
                job.placed.retain(|worker| worker.phase != Phase::Stopping);
                job.placed.iter_mut().for_each(|worker| worker.phase = Phase::Running);
            }
            observation.now = observation.now.after(Millis::from_secs(60));
        }
        // Gangs that were incomplete at first have been completed or stopped by then.
        for job in &observation.jobs {
            let placed = job.placed.len() as u32;
            prop_assert!(placed == 0 || placed >= job.workers.min, "{job:?}");
        }
    }

    #[test]
    fn every_job_has_workers_or_a_reason(observation in clusters(), settings in settings()) {
        let planned = plan(&observation, &settings);
        for (at, job) in observation.jobs.iter().enumerate().filter(|(_, job)| job.placed.is_empty()) {
            let starts = planned.starts.iter().filter(|start| start.job == at).count();
            let waits = planned.waits.iter().filter(|wait| wait.job == at).count();
            prop_assert_eq!((starts > 0) as usize + waits, 1, "{:?}", job);
        }
    }

    #[test]
    fn a_job_that_starts_still_starts_with_the_highest_priority(observation in clusters(), at in any::<prop::sample::Index>()) {
        let settings = ClusterSettings::default();
        let waiting: Vec<usize> = (0..observation.jobs.len()).filter(|at| observation.jobs[*at].placed.is_empty()).collect();
        prop_assume!(!waiting.is_empty());
        let at = waiting[at.index(waiting.len())];
        let starts = |observation: &ClusterObservation| plan(observation, &settings).starts.iter().any(|start| start.job == at);
        let before = starts(&observation);
        let mut promoted = observation;
        promoted.jobs[at].priority.level = 100.0;
        // It alone has the highest level, so no other job is placed before it.
        let others = promoted.jobs.iter_mut().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, job)| job.priority.level = job.priority.level.min(20.0));
        prop_assert!(!before || starts(&promoted));
    }
}

fn planned(observation: &ClusterObservation) -> ClusterPlan {
    let settings = ClusterSettings::default();
    let plan = plan(observation, &settings);
    assert_eq!(check(observation, &settings, &plan), []);
    plan
}

fn seats(plan: &ClusterPlan) -> Vec<(usize, usize)> {
    plan.starts.iter().map(|start| (start.job, start.node)).collect()
}

#[test]
fn two_gangs_that_each_want_more_than_half_take_turns() {
    let mut observation = cluster(4, 4.0);
    observation.jobs = vec![gang("a", 3, 4.0), gang("b", 3, 4.0)];
    let first = planned(&observation);
    assert_eq!(first.starts.iter().map(|start| start.job).collect::<Vec<_>>(), [0, 0, 0]);
    assert!(matches!(first.waits[0].reason, ClusterReason::NoRoom(refusals) if refusals.full == 3));
}

#[test]
fn a_gang_is_placed_on_one_node_if_one_is_large_enough() {
    let mut observation = cluster(3, 8.0);
    observation.jobs = vec![gang("large", 4, 2.0), gang("spread", 10, 1.0)];
    observation.jobs[0].priority.level = 2.0; // the other one needs more
    let plan = planned(&observation);
    assert!(seats(&plan)[..4].iter().all(|(job, node)| (*job, *node) == (0, 0)));
    assert_eq!(seats(&plan).len(), 14);
    assert_eq!(plan.starts[0].reason, ClusterReason::GangTogether);
}

/// An elastic job with workers of 4 cores on both nodes of 8.
fn spread_out() -> ClusterObservation {
    let mut observation = cluster(2, 8.0);
    let mut elastic = gang("elastic", 1, 4.0);
    elastic.workers = WorkerRange { min: 1, initial: 2, max: 4 };
    let place = |(number, node)| worker(node, |worker| worker.number = number).placed.remove(0);
    elastic.placed = [(0, 0), (1, 0), (2, 1), (3, 1)].map(place).into();
    observation.jobs = vec![elastic];
    observation
}

#[test]
fn a_gang_of_three_fits_once_another_is_scaled_down() {
    let mut observation = spread_out();
    let mut urgent = gang("urgent", 3, 4.0);
    urgent.priority.level = 100.0;
    observation.jobs.push(urgent);
    let making = planned(&observation);
    assert_eq!(making.stops.iter().map(|stop| stop.worker).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(making.waits[0].reason, ClusterReason::RoomBeingMade);
    assert!(making.starts.is_empty(), "the room is not free yet");
    // While they stop, no further worker is stopped and no other job gets the room.
    for worker in &mut observation.jobs[0].placed[1..] {
        worker.phase = Phase::Stopping;
    }
    observation.jobs.push(gang("small", 1, 4.0));
    let meanwhile = planned(&observation);
    assert!(meanwhile.stops.is_empty() && meanwhile.starts.is_empty(), "{meanwhile:?}");
    observation.jobs[0].placed.truncate(1);
    assert_eq!(planned(&observation).starts.iter().map(|start| start.job).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn no_job_is_scaled_down_in_vain_or_below_its_initial_size_for_a_job_of_equal_weight() {
    let mut observation = spread_out();
    let mut urgent = gang("too large", 4, 4.0);
    urgent.priority.level = 100.0;
    observation.jobs.push(urgent);
    assert!(planned(&observation).stops.is_empty(), "one worker must stay, so four do not fit");
    observation.jobs[1] = gang("equal", 2, 4.0);
    assert_eq!(planned(&observation).stops.len(), 2, "the workers beyond its initial two");
    observation.jobs[1] = gang("equal", 3, 4.0);
    assert!(planned(&observation).stops.is_empty());
}

#[test]
fn dragon_waits_before_it_scales() {
    let settings = ClusterSettings { queue: QueueRule::Dragon, ..ClusterSettings::default() };
    let mut observation = spread_out();
    observation.now = Millis::from_secs(100);
    observation.jobs.push(gang("new", 1, 4.0));
    observation.jobs[1].arrived = Millis::from_secs(80);
    assert!(plan(&observation, &settings).stops.is_empty());
    observation.now = Millis::from_secs(110);
    assert_eq!(plan(&observation, &settings).stops.len(), 1);
    observation.jobs.truncate(1);
    observation.jobs[0].placed.truncate(2);
    observation.quiet_since = Millis::from_secs(60);
    assert!(plan(&observation, &settings).starts.is_empty());
    observation.quiet_since = Millis::from_secs(50);
    assert_eq!(plan(&observation, &settings).starts.len(), 2);
}

#[test]
fn an_incomplete_gang_is_completed_or_stopped_as_a_whole() {
    let mut observation = cluster(2, 4.0);
    let mut half = gang("half", 2, 4.0);
    half.placed = worker(0, |_| {}).placed;
    observation.jobs = vec![half];
    assert_eq!(seats(&planned(&observation)), [(0, 1)]);
    let mut other = gang("other", 1, 4.0);
    other.placed = worker(1, |_| {}).placed;
    observation.jobs.push(other);
    let plan = planned(&observation);
    assert_eq!((plan.starts.len(), plan.stops.len()), (0, 1));
    assert_eq!(plan.stops[0].reason, ClusterReason::GangIncomplete);
}

#[test]
fn an_incomplete_gang_stops_if_the_rest_cannot_start_or_is_stopping_on_an_unreachable_node() {
    let mut observation = cluster(3, 4.0);
    let mut half = gang("half", 2, 4.0);
    half.placed = worker(0, |_| {}).placed;
    half.workers.max = 1;
    observation.jobs = vec![half];
    assert_eq!(planned(&observation).stops[0].reason, ClusterReason::GangIncomplete);
    observation.jobs[0].workers.max = 2;
    let stopping = |worker: &mut Worker| (worker.number, worker.phase) = (1, Phase::Stopping);
    observation.jobs[0].placed.extend(worker(1, stopping).placed);
    assert_eq!(planned(&observation).stops, [], "the stopping worker exits soon");
    observation.nodes[1].state = NodeState::Unreachable;
    assert_eq!(planned(&observation).stops.iter().map(|stop| stop.worker).collect::<Vec<_>>(), [0]);
    observation.jobs[0].placed[0].phase = Phase::MovingTo(2);
    assert_eq!(planned(&observation).stops, [], "the move completes first");
}

#[test]
fn a_job_that_has_waited_too_long_reserves_its_nodes() {
    let mut observation = cluster(2, 8.0);
    let mut running = gang("running", 1, 4.0);
    running.placed = worker(0, |_| {}).placed;
    observation.jobs = vec![running, gang("large", 2, 8.0), gang("small", 1, 1.0)];
    observation.jobs[2].arrived = Millis(1);
    assert_eq!(seats(&planned(&observation)), [(2, 1)], "adapted FCFS: the first that fits");
    observation.now = Millis::from_secs(700);
    let plan = planned(&observation);
    assert!(plan.starts.is_empty());
    assert_eq!(plan.waits[1].reason, ClusterReason::NotOvertaking { ahead: 1 });
}

#[test]
fn a_gang_for_which_the_whole_cluster_is_too_small_reserves_no_nodes() {
    let mut observation = cluster(2, 8.0);
    observation.now = Millis::from_secs(700);
    observation.jobs = vec![gang("too large", 3, 8.0), gang("small", 1, 1.0)];
    observation.jobs[1].arrived = Millis(1);
    let plan = planned(&observation);
    assert_eq!(plan.starts.iter().map(|start| start.job).collect::<Vec<_>>(), [1]);
    assert_eq!(plan.waits.iter().map(|wait| wait.job).collect::<Vec<_>>(), [0]);
    assert_eq!(plan.waits[0].reason, ClusterReason::ClusterTooSmall { workers: 3, room: 2 });
    // With a third node, it is worth waiting for the small one.
    observation.nodes = cluster(3, 8.0).nodes;
    observation.jobs[1].placed = worker(0, |_| {}).placed;
    observation.jobs.push(gang("next", 1, 1.0));
    observation.jobs[2].arrived = Millis(2);
    let waits = planned(&observation).waits;
    assert_eq!(waits[1].reason, ClusterReason::NotOvertaking { ahead: 0 });
}

#[test]
fn jobs_leave_a_draining_node_one_after_another_and_none_is_placed_there() {
    let mut observation = cluster(3, 8.0);
    observation.nodes[0].state = NodeState::Draining;
    observation.jobs = (0..3).map(|_| worker(0, |_| {})).collect();
    observation.jobs[2].movable = false;
    observation.jobs.push(waiting("new", |_| {}));
    let plan = planned(&observation);
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.moves[0].reason, ClusterReason::Drained);
    assert!(plan.starts.iter().all(|start| start.node != 0));
}

#[test]
fn a_job_moves_if_it_saves_twice_the_cost_of_the_move() {
    let mut observation = cluster(2, 1.0);
    observation.jobs = (0..3).map(|_| worker(0, |worker| worker.work_left = exactly(100.0))).collect();
    let plan = planned(&observation);
    // It saves 100 + 1.5 · 200 on its node and adds 100 on the other, less the cost of 10.
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.moves[0].reason, ClusterReason::Gains { seconds: 290.0, price_s: 10.0 });
    for (price, moves) in [(149.0, 1), (151.0, 0)] {
        let dear = |worker: &mut Worker| (worker.work_left, worker.move_s) = (exactly(100.0), price);
        observation.jobs = (0..3).map(|_| worker(0, dear)).collect();
        assert_eq!(planned(&observation).moves.len(), moves, "at a cost of {price} s for 300 s");
    }
    let vague = |worker: &mut Worker| worker.work_left = Some(Estimate { low: 2.0, likely: 100.0, high: 900.0 });
    observation.jobs = (0..3).map(|_| worker(0, vague)).collect();
    assert!(planned(&observation).moves.is_empty(), "it may end before the move completes");
}

#[test]
fn the_check_finds_violations() {
    let mut observation = cluster(2, 4.0);
    observation.nodes[1].state = NodeState::Unreachable;
    observation.jobs = vec![gang("a", 2, 3.0)];
    let settings = ClusterSettings::default();
    let start = |worker, node| model::cluster::Start {
        job: 0,
        worker,
        node,
        alternative: None,
        reason: ClusterReason::GangTogether,
    };
    let found = |starts| check(&observation, &settings, &ClusterPlan { starts, ..ClusterPlan::default() });
    assert_eq!(found(vec![start(0, 0)]), [ClusterViolation::HalfGang { job: 0 }]);
    assert_eq!(found(vec![start(0, 0), start(1, 0)]), [ClusterViolation::Overfull { node: 0 }]);
    assert_eq!(found(vec![start(0, 0), start(1, 1)]), [ClusterViolation::UnusableNode { node: 1 }]);
    assert_eq!(found(vec![start(0, 7)]), [ClusterViolation::Unknown]);
    assert_eq!(found(vec![start(0, 0), start(0, 0)])[0], ClusterViolation::Twice { job: 0, worker: 0 });
}
