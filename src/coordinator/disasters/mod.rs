//! Fault-injection tests: random schedules of failures, delays and manual changes, drawn from a seed.
//!
//! The machine is the real one; the Swarm, its nodes and agents are simulated. Invariants at each instant: never two writers of a job, never
//! a start while one of its containers lives, never a start without the newest saved state or with that of another job. At the end, after all faults are repaired, every
//! job runs exactly once or has ended by itself, and every command got a reply. A violation is reported with its minimised schedule.

mod action;
mod coordinator;
mod fault;
mod job;
mod managers;
mod node;
mod report;
mod volume;
mod world;

use crate::machine::Command;
use crate::machine::labels::INTERNAL_PREFIX;
use action::{Action, act, passes, schedule};
use coordinator::Coordinator;
use fault::Fault;
use job::JOBS;
use model::cluster::JobState;
use world::{NODES, World, node_of};

/// Number of rounds of 40 s within which the cluster must become stable after all faults are repaired.
const ROUNDS: usize = 24;

/// Runs one schedule on a new world; returns the violation as an error.
fn run(actions: &[Action], fault: Fault) -> Result<(), String> {
    let mut world = World::new(fault);
    let mut coordinators = [0, 1].map(|node| Coordinator::start(node, 0, fault));
    for action in actions {
        act(&mut coordinators, &mut world, *action)?;
        if let Some(what) = world.violation {
            return Err(what);
        }
    }
    epilogue(&mut coordinators, &mut world)
}

/// Repairs all faults and manual changes, then waits until the cluster is stable.
fn epilogue(coordinators: &mut [Coordinator], world: &mut World) -> Result<(), String> {
    for node in 0..NODES {
        for heals in [Action::Healed(node), Action::DiskFull(node, false), Action::NoImage(node, false)] {
            act(coordinators, world, heals)?;
        }
        world.nodes[node].drained = false;
        world.nodes[node].closed = false;
        world.nodes[node].version = world.next();
    }
    world.both_lead = false;
    act(coordinators, world, Action::SharesVolume(false))?;
    for job in 0..JOBS {
        world.behaviours[job].crashes = false;
        act(coordinators, world, Action::OddLabel(job, false))?;
        act(coordinators, world, Action::RestartsAlways(job, false))?;
        act(coordinators, world, Action::ComesAfterNothing(job))?;
    }
    for round in 0..ROUNDS {
        passes(coordinators, world, 40_000, 400, 1)?;
        let leader = world.leader;
        let problems: Vec<(usize, String)> =
            (0..JOBS).filter_map(|job| Some((job, problem(&coordinators[leader], world, job)?))).collect();
        let unanswered: usize = coordinators.iter().map(Coordinator::unanswered).sum();
        if problems.is_empty() && unanswered == 0 {
            return Ok(());
        }
        if round == ROUNDS - 1 {
            let unanswered = format!("{unanswered} commands got no reply");
            let problems = problems.into_iter().map(|(_, what)| what);
            return Err(problems.chain([unanswered]).collect::<Vec<_>>().join("; "));
        }
        for (job, _) in problems {
            repair(&mut coordinators[leader], world, job)?;
        }
    }
    Ok(())
}

/// Returns what is wrong with a job at the end, if anything.
fn problem(coordinator: &Coordinator, world: &World, job: usize) -> Option<String> {
    let service = world.services[job].as_ref()?;
    let name = format!("job-{job}");
    let status = coordinator.status.jobs.iter().find(|status| *status.name == *name);
    let Some(status) = status else { return Some(format!("{name} is missing in the status")) };
    let alive: Vec<usize> = (0..NODES).flat_map(|node| vec![node; world.nodes[node].alive(job)]).collect();
    let is_correct = match status.state {
        JobState::Done => alive.is_empty() && world.is_complete[job],
        JobState::Failed | JobState::Cancelled => alive.is_empty(),
        JobState::Running => alive.len() == 1 && status.node.as_ref().and_then(node_of) == alive.first().copied(),
        _ => false,
    };
    if is_correct {
        return None;
    }
    let labels: Vec<String> = service
        .labels
        .iter()
        .filter_map(|(label, value)| Some(format!("{}={value}", label.strip_prefix(INTERNAL_PREFIX)?)))
        .collect();
    let (mode, pin, why) = (&service.mode, &service.pin, &status.why);
    Some(format!(
        "{name} is {:?} ({why:?}), alive on {alive:?}, {mode:?} at {pin:?}; {}",
        status.state,
        labels.join(" ")
    ))
}

/// Does what an operator does about a job that waits for one.
fn repair(coordinator: &mut Coordinator, world: &mut World, job: usize) -> Result<(), String> {
    let name = format!("job-{job}");
    let Some(status) = coordinator.status.jobs.iter().find(|status| *status.name == *name) else { return Ok(()) };
    use model::cluster::WhyKind;
    match status.why.as_ref().map(|why| why.kind) {
        Some(WhyKind::NoPlace) => {
            (0..NODES).for_each(|node| world.nodes[node].drained = false);
            Ok(())
        }
        // It removes the state of others from its volume: `docker volume rm`.
        Some(WhyKind::VolumeTaken) => {
            let number = world.volumes[job];
            for node in &mut world.nodes {
                node.volumes.0.retain(|volume, found| *volume != number || found.owner == Some(job));
            }
            Ok(())
        }
        Some(WhyKind::Suspended | WhyKind::GaveUp) => coordinator.command(world, Command::Resume(name)),
        Some(WhyKind::Foreign) => {
            act(std::slice::from_mut(coordinator), world, Action::ScaledByHand { job, replicas: 0 })
        }
        _ => Ok(()),
    }
}

/// Minimises a failing schedule; returns it with its violation.
fn shrunk(mut actions: Vec<Action>, fault: Fault) -> (Vec<Action>, String) {
    let mut size = actions.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < actions.len() {
            let mut fewer = actions.clone();
            fewer.drain(at..(at + size).min(fewer.len()));
            if run(&fewer, fault).is_err() {
                actions = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    let why = run(&actions, fault).expect_err("only failing schedules are kept");
    (actions, why)
}

/// Returns the seed of the first failing schedule and its minimised form as text.
fn first_violation(seeds: std::ops::Range<u64>, fault: Fault) -> Option<(u64, String)> {
    for seed in seeds {
        let actions = schedule(seed);
        if run(&actions, fault).is_err() {
            let (actions, why) = shrunk(actions, fault);
            let words: Vec<String> = actions.iter().map(|action| format!("  {action:?}")).collect();
            return Some((seed, format!("seed {seed}: {why}\n{}", words.join("\n"))));
        }
    }
    None
}

/// Runs a quarter of the schedules, one test each for parallelism: 20,000 in total, or as many as `FLOWCON_SCHEDULES` says.
fn no_violation_in(quarter: u64) {
    let all = std::env::var("FLOWCON_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let violation = first_violation(all / 4 * quarter..all / 4 * (quarter + 1), Fault::None);
    assert!(violation.is_none(), "{}", violation.unwrap().1);
}

#[test]
fn no_schedule_makes_two_writers_or_loses_saved_state() {
    no_violation_in(0);
}

#[test]
fn no_schedule_of_the_second_quarter_violates_an_invariant() {
    no_violation_in(1);
}

#[test]
fn no_schedule_of_the_third_quarter_violates_an_invariant() {
    no_violation_in(2);
}

#[test]
fn no_schedule_of_the_last_quarter_violates_an_invariant() {
    no_violation_in(3);
}

#[test]
fn planted_faults_are_found() {
    for fault in [
        Fault::SkipsTheProof,
        Fault::TrustsSwarmsList,
        Fault::ActsBeforeTheLabels,
        Fault::IgnoresVersions,
        Fault::CarriesTwice,
        Fault::BreaksTheLease,
        Fault::ForgetsWhatItStopped,
        Fault::DoesNotSettle,
        Fault::SkipsTheSecondProof,
        Fault::SkipsTheClaim,
        Fault::StealsVolumes,
        Fault::CarriesOverOthers,
        Fault::StartsWithAnEarlierState,
    ] {
        let found = first_violation(0..20_000, fault);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
