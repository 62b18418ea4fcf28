//! Disasters at every step: schedules of what coordinators, Swarm, nodes, agents and people may do to each other, by seed.
//!
//! The machine is the real one; the Swarm, its nodes and agents are simulated. At each instant: never two writers of a job, never a start
//! while something of it lives, never a start that does not find the newest saved state. At the end, when everything works again: every
//! job runs exactly once, or has ended; every command was answered. A violation is told with its schedule, shrunk. Imports: as its parts.

mod action;
mod coordinator;
mod job;
mod managers;
mod node;
mod plant;
mod world;

use crate::coordinator::machine::Command;
use crate::coordinator::machine::labels::OURS;
use crate::model::cluster::JobState;
use action::{Action, act, passes, schedule};
use coordinator::Coordinator;
use job::JOBS;
use plant::Plant;
use world::{NODES, World, node_of};

/// Within so many times forty seconds everything comes to rest.
const ROUNDS: usize = 24;

/// One schedule on a new world.
fn run(actions: &[Action], plant: Plant) -> Result<(), String> {
    let mut world = World::new(plant);
    let mut coordinators = [0, 1].map(|node| Coordinator::start(node, 0, plant));
    for action in actions {
        act(&mut coordinators, &mut world, *action)?;
        if let Some(what) = world.violation {
            return Err(what);
        }
    }
    epilogue(&mut coordinators, &mut world)
}

/// Everything that was broken works again, and people put right what they did.
fn epilogue(coordinators: &mut [Coordinator], world: &mut World) -> Result<(), String> {
    for node in 0..NODES {
        for heals in [Action::Healed(node), Action::DiskFull(node, false), Action::NoImage(node, false)] {
            act(coordinators, world, heals)?;
        }
        world.nodes[node].drained = false;
        world.nodes[node].version = world.next();
    }
    world.both_lead = false;
    for job in 0..JOBS {
        world.kinds[job].crashes = false;
        act(coordinators, world, Action::OddLabel(job, false))?;
        act(coordinators, world, Action::RestartsAlways(job, false))?;
        act(coordinators, world, Action::ComesAfterNothing(job))?;
    }
    for round in 0..ROUNDS {
        passes(coordinators, world, 40_000, 400, 1)?;
        let leader = world.leader;
        let amiss: Vec<(usize, String)> =
            (0..JOBS).filter_map(|job| Some((job, amiss(&coordinators[leader], world, job)?))).collect();
        let unanswered: usize = coordinators.iter().map(Coordinator::unanswered).sum();
        if amiss.is_empty() && unanswered == 0 {
            return Ok(());
        }
        if round == ROUNDS - 1 {
            let unanswered = format!("{unanswered} commands were never answered");
            let amiss = amiss.into_iter().map(|(_, what)| what);
            return Err(amiss.chain([unanswered]).collect::<Vec<_>>().join("; "));
        }
        for (job, _) in amiss {
            put_right(&mut coordinators[leader], world, job)?;
        }
    }
    Ok(())
}

/// What is not as it should be with a job at the end.
fn amiss(coordinator: &Coordinator, world: &World, job: usize) -> Option<String> {
    let service = world.services[job].as_ref()?;
    let name = format!("job-{job}");
    let status = coordinator.status.jobs.iter().find(|status| *status.name == *name);
    let Some(status) = status else { return Some(format!("{name} is not told of")) };
    let alive: Vec<usize> = (0..NODES).flat_map(|node| vec![node; world.nodes[node].alive(job)]).collect();
    let is_as_told = match status.state {
        JobState::Done | JobState::Failed => alive.is_empty(),
        JobState::Running => alive.len() == 1 && status.node.as_ref().and_then(node_of) == alive.first().copied(),
        _ => false,
    };
    if is_as_told {
        return None;
    }
    let labels: Vec<String> = service
        .labels
        .iter()
        .filter_map(|(label, value)| Some(format!("{}={value}", label.strip_prefix(OURS)?)))
        .collect();
    let (mode, pin, why) = (&service.mode, &service.pin, &status.why);
    Some(format!(
        "{name} is {:?} ({why:?}), alive on {alive:?}, {mode:?} at {pin:?}; {}",
        status.state,
        labels.join(" ")
    ))
}

/// What a person does about a job that waits for a person.
fn put_right(coordinator: &mut Coordinator, world: &mut World, job: usize) -> Result<(), String> {
    let name = format!("job-{job}");
    let Some(status) = coordinator.status.jobs.iter().find(|status| *status.name == *name) else { return Ok(()) };
    use crate::model::cluster::WhyKind;
    match status.why.as_ref().map(|why| why.kind) {
        Some(WhyKind::NoPlace) => {
            (0..NODES).for_each(|node| world.nodes[node].drained = false);
            Ok(())
        }
        Some(WhyKind::Paused | WhyKind::GaveUp) => coordinator.ask(world, Command::Resume(name)),
        Some(WhyKind::Foreign) => {
            act(std::slice::from_mut(coordinator), world, Action::ScaledByHand { job, replicas: 0 })
        }
        _ => Ok(()),
    }
}

/// Leaves out whatever can be left out, as long as anything is violated.
fn shrunk(mut actions: Vec<Action>, plant: Plant) -> (Vec<Action>, String) {
    let mut size = actions.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < actions.len() {
            let mut fewer = actions.clone();
            fewer.drain(at..(at + size).min(fewer.len()));
            if run(&fewer, plant).is_err() {
                actions = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    let why = run(&actions, plant).expect_err("it was kept because it fails");
    (actions, why)
}

/// The first schedule of these seeds that violates anything, with its number and in words.
fn first_violation(seeds: std::ops::Range<u64>, plant: Plant) -> Option<(u64, String)> {
    for seed in seeds {
        let actions = schedule(seed);
        if run(&actions, plant).is_err() {
            let (actions, why) = shrunk(actions, plant);
            let words: Vec<String> = actions.iter().map(|action| format!("  {action:?}")).collect();
            return Some((seed, format!("seed {seed}: {why}\n{}", words.join("\n"))));
        }
    }
    None
}

/// A quarter of the schedules, so that all processors have work: 20,000 in all, or as many as `FLOWCON_SCHEDULES` says.
fn none_of(quarter: u64) {
    let all = std::env::var("FLOWCON_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let violation = first_violation(all / 4 * quarter..all / 4 * (quarter + 1), Plant::None);
    assert!(violation.is_none(), "{}", violation.unwrap().1);
}

#[test]
fn no_schedule_makes_two_writers_or_loses_what_was_saved() {
    none_of(0);
}

#[test]
fn nor_does_any_of_the_second_quarter() {
    none_of(1);
}

#[test]
fn nor_does_any_of_the_third_quarter() {
    none_of(2);
}

#[test]
fn nor_does_any_of_the_last_quarter() {
    none_of(3);
}

#[test]
fn mistakes_that_are_planted_are_found() {
    for plant in [
        Plant::SkipsTheProof,
        Plant::TrustsSwarmsList,
        Plant::ActsBeforeTheLabels,
        Plant::IgnoresVersions,
        Plant::CarriesTwice,
        Plant::BreaksTheLease,
        Plant::DoesNotSettle,
        Plant::SkipsTheSecondProof,
        Plant::StartsWithAnEarlierState,
    ] {
        let found = first_violation(0..20_000, plant);
        println!("{plant:?}: {found:?}");
        assert!(found.is_some(), "{plant:?} is not found");
    }
}
