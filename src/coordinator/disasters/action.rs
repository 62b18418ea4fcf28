//! Actions of a schedule, drawn from a seed, and their effects on the world.

use super::coordinator::{Coordinator, name};
use super::job::{ALONE, JOBS, TWIN, volume_name};
use super::world::{NODES, World, node_id};
use crate::machine::Command;
use crate::machine::labels::{AFTER, CHECKPOINT, MOVABLE, has_internal};
use model::swarm::{RestartCondition, ServiceMode, SwarmService};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const ACTIONS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// A coordinator handles events, or its requests are executed.
    Steps {
        coordinator: usize,
        steps: usize,
        pick: usize,
    },
    /// Time passes; up to `steps` steps per second of all coordinators.
    Passes {
        milliseconds: u64,
        steps: usize,
        pick: usize,
    },
    /// A coordinator is killed and restarted; its requests in flight may still arrive.
    Killed {
        coordinator: usize,
        arrives: bool,
    },
    LeaderIs(usize),
    /// Two managers claim to be the leader.
    BothLead(bool),
    Cut(usize),
    Healed(usize),
    AgentDies(usize),
    /// All containers of the node die at once.
    EngineRestarts(usize),
    DiskFull(usize, bool),
    NoImage(usize, bool),
    ClockJumps(i64),
    /// The availability of the node is set to `drain`, or back to `active`.
    Availability {
        node: usize,
        closed: bool,
    },
    Command {
        coordinator: usize,
        what: CommandKind,
    },
    ScaledByHand {
        job: usize,
        replicas: u64,
    },
    PinnedByHand {
        job: usize,
        node: Option<usize>,
    },
    /// Only the version changes.
    UpdatedByHand(usize),
    /// `docker stack deploy`: the service is as in its file again, with 0 replicas and without internal labels.
    Redeployed(usize),
    DeletedByHand(usize),
    OddLabel(usize, bool),
    RestartsAlways(usize, bool),
    /// The twin gets the checkpoint volume of the first job, or its own again.
    SharesVolume(bool),
    /// Its label `flowcon.after` is removed.
    ComesAfterNothing(usize),
    /// Its program crashes as soon as it starts.
    Crashes {
        job: usize,
        from_now_on: bool,
    },
    Completes(usize),
    /// Whether its program ignores SIGTERM instead of saving.
    IgnoresStop(usize, bool),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CommandKind {
    Drain(usize),
    Undrain(usize),
    Move {
        job: usize,
        node: usize,
    },
    Suspend(usize),
    Resume(usize),
    Cancel(usize),
    /// A node that is cut off is switched off for good, and an operator confirms it.
    NodeIsOff {
        job: usize,
        node: usize,
    },
}

pub(super) fn schedule(seed: u64) -> Vec<Action> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let begins = Action::Passes { milliseconds: 20_000, steps: 200, pick: 0 };
    // Most schedules leave out the dependent jobs: fewer jobs run faster.
    let absent = match seed % 4 {
        0 => TWIN..JOBS,
        1 => ALONE..TWIN,
        _ => ALONE..JOBS,
    };
    let begins = absent.map(Action::DeletedByHand).chain([begins]);
    begins.chain((0..ACTIONS).flat_map(|_| with_a_move(action(&mut random)))).collect()
}

/// Adds to a crash moves of the job while its restart is in flight to the node.
fn with_a_move(action: Action) -> Vec<Action> {
    let Action::Crashes { job, from_now_on: false } = action else { return vec![action] };
    let passes = |milliseconds| Action::Passes { milliseconds, steps: 60, pick: job };
    let moves = (0..NODES).map(|node| Action::Command { coordinator: 0, what: CommandKind::Move { job, node } });
    [action, passes(2000)].into_iter().chain(moves).chain([passes(4000)]).collect()
}

fn action(random: &mut ChaCha8Rng) -> Action {
    let (job, node, coordinator) =
        (random.random_range(0..JOBS), random.random_range(0..NODES), random.random_range(0..2));
    let (pick, yes): (usize, bool) = (random.random_range(0..1000), random.random_bool(0.5));
    let steps = [1, 2, 3, 5, 8, 13, 30][random.random_range(0..7)];
    match random.random_range(0..100) {
        0..18 => Action::Steps { coordinator, steps, pick },
        18..52 => {
            let milliseconds = [1000, 1000, 2000, 4000, 8000, 15_000, 40_000][random.random_range(0..7)];
            Action::Passes { milliseconds, steps: steps * 4, pick }
        }
        52..57 => Action::Killed { coordinator, arrives: yes },
        57..59 => Action::LeaderIs(coordinator),
        59 => Action::BothLead(yes),
        60..63 => Action::Cut(node),
        63..67 => Action::Healed(node),
        67 => Action::AgentDies(node),
        68 => Action::EngineRestarts(node),
        69..71 => Action::DiskFull(node, yes),
        71..73 => Action::NoImage(node, yes),
        73 if pick < 300 => Action::Availability { node, closed: yes },
        73 => Action::ClockJumps([-86_400_000, -60_000, 60_000, 86_400_000][pick % 4]),
        74..77 => Action::Command { coordinator, what: CommandKind::Drain(node) },
        77..80 => Action::Command { coordinator, what: CommandKind::Undrain(node) },
        80..87 => Action::Command { coordinator, what: CommandKind::Move { job, node } },
        87 => Action::Command { coordinator, what: CommandKind::Suspend(job) },
        88 => Action::Command { coordinator, what: CommandKind::Resume(job) },
        89..92 => Action::ScaledByHand { job, replicas: u64::from(yes) },
        92 if pick < 300 => Action::PinnedByHand { job, node: yes.then_some(node) },
        // The file would bring back the dependency.
        92 if pick >= 700 && job != TWIN - 1 => Action::Redeployed(job),
        92 => Action::UpdatedByHand(job),
        93 if pick < 300 => Action::DeletedByHand(job),
        93 => Action::OddLabel(job, yes),
        94 if pick < 500 => Action::SharesVolume(yes),
        94 => Action::RestartsAlways(job, yes),
        95 if pick >= 500 => Action::IgnoresStop(job, yes),
        95 => Action::Crashes { job, from_now_on: yes && pick < 300 },
        96 if pick < 300 => Action::Completes(job),
        96 if pick < 450 => Action::Command { coordinator, what: CommandKind::Cancel(job) },
        97 => Action::Command { coordinator, what: CommandKind::NodeIsOff { job, node } },
        _ => Action::Passes { milliseconds: 1000, steps: 60, pick },
    }
}

/// Executes an action.
pub(super) fn act(coordinators: &mut [Coordinator], world: &mut World, action: Action) -> Result<(), String> {
    match action {
        Action::Steps { coordinator, steps, pick } => {
            for step in 0..steps {
                coordinators[coordinator].step(world, pick + step * 7)?;
            }
        }
        Action::Passes { milliseconds, steps, pick } => passes(coordinators, world, milliseconds, steps, pick)?,
        Action::Killed { coordinator, arrives } => coordinators[coordinator].killed(world, arrives),
        Action::LeaderIs(leader) => world.leader = leader,
        Action::BothLead(yes) => world.both_lead = yes,
        Action::Cut(node) => {
            world.nodes[node].cut = true;
            // The other managers elect a new leader.
            if world.leader == node {
                world.leader = 1 - node;
            }
        }
        Action::Healed(node) => world.nodes[node].cut = false,
        Action::AgentDies(node) => {
            world.nodes[node].agent_back = world.now + 10_000;
            world.nodes[node].sent.clear();
        }
        Action::EngineRestarts(node) => world.nodes[node].kill_all(),
        Action::DiskFull(node, full) => world.nodes[node].disk_full = full,
        Action::NoImage(node, none) => world.nodes[node].no_image = none,
        Action::Availability { node, closed } => {
            world.nodes[node].closed = closed;
            world.nodes[node].version = world.next();
        }
        Action::ClockJumps(by) => world.skew = (world.skew + by).clamp(-864_000_000, 864_000_000),
        Action::Command { coordinator, what } => {
            let job = |job: usize| format!("job-{job}");
            let command = match what {
                CommandKind::Drain(node) => Command::Drain(name(node)),
                CommandKind::Undrain(node) => Command::Undrain(name(node)),
                CommandKind::Move { job: which, node } => Command::Move { job: job(which), node: name(node) },
                CommandKind::Suspend(which) => Command::Suspend(job(which)),
                CommandKind::Resume(which) => Command::Resume(job(which)),
                CommandKind::Cancel(which) => Command::Cancel(job(which)),
                CommandKind::NodeIsOff { node, .. } if !world.nodes[node].cut => return Ok(()),
                CommandKind::NodeIsOff { job: which, node } => {
                    world.switch_off(node);
                    Command::NodeIsOff { job: job(which), node: name(node) }
                }
            };
            coordinators[coordinator].command(world, command)?;
        }
        Action::ScaledByHand { .. }
        | Action::PinnedByHand { .. }
        | Action::UpdatedByHand(_)
        | Action::Redeployed(_)
        | Action::DeletedByHand(_)
        | Action::OddLabel(..)
        | Action::RestartsAlways(..)
        | Action::SharesVolume(_)
        | Action::ComesAfterNothing(_) => by_hand(world, action),
        Action::Crashes { job, from_now_on } => {
            world.behaviours[job].crashes = from_now_on;
            for node in &mut world.nodes {
                let died = node.containers.extract_if(.., |container| container.service == job && container.writes());
                let died = died.map(|container| (container.task, super::node::Ended::Failed(Some(1))));
                node.unreported.extend(died.collect::<Vec<_>>());
            }
        }
        Action::IgnoresStop(job, ignores) => world.behaviours[job].ignores_term = ignores,
        Action::Completes(job) => world.behaviours[job].total = 0,
    }
    Ok(())
}

/// Lets time pass in intervals of 1 to 8 s, with steps of all coordinators in each.
pub(super) fn passes(
    coordinators: &mut [Coordinator],
    world: &mut World,
    milliseconds: u64,
    steps: usize,
    pick: usize,
) -> Result<(), String> {
    let at_once = if milliseconds > 20_000 {
        8000
    } else if milliseconds > 4000 {
        4000
    } else {
        1000
    };
    for second in 0..milliseconds.div_ceil(at_once) {
        world.pass(at_once);
        for coordinator in coordinators.iter_mut() {
            coordinator.tick(world)?;
            for step in 0..steps {
                if !coordinator.step(world, pick + step * 7 + second as usize)? {
                    break;
                }
            }
        }
        if let Some(what) = &world.violation {
            return Err(what.clone());
        }
    }
    Ok(())
}

/// Changes a service manually.
fn by_hand(world: &mut World, action: Action) {
    let job = match action {
        Action::ScaledByHand { job, .. } | Action::PinnedByHand { job, .. } => job,
        Action::UpdatedByHand(job) | Action::Redeployed(job) | Action::DeletedByHand(job) => job,
        Action::OddLabel(job, _) | Action::RestartsAlways(job, _) | Action::ComesAfterNothing(job) => job,
        Action::SharesVolume(_) => TWIN,
        _ => return,
    };
    let version = world.next();
    let Some(service) = world.services[job].as_mut() else { return };
    // Swarm keeps one earlier spec: after a second update, nothing would be left of the labels that the first one removed.
    if has_lost_labels(service) && !matches!(action, Action::DeletedByHand(_)) {
        return;
    }
    service.version = version;
    service.previous_labels = service.labels.clone();
    match action {
        Action::ScaledByHand { replicas, .. } if service.mode != ServiceMode::Replicated(replicas) => {
            service.mode = ServiceMode::Replicated(replicas);
            world.respecified(job, true);
        }
        Action::PinnedByHand { node, .. } if service.pin != node.map(node_id) => {
            service.pin = node.map(node_id);
            world.respecified(job, true);
        }
        Action::Redeployed(_) => {
            let file = super::job::service(job, 0);
            (service.labels, service.mode, service.pin) = (file.labels, file.mode, file.pin);
            (service.restart, service.volumes) = (file.restart, file.volumes);
            world.volumes[job] = job;
            world.respecified(job, true);
        }
        Action::DeletedByHand(_) => {
            world.services[job] = None;
            world.tasks.iter_mut().filter(|task| task.service == job).for_each(|task| task.wanted = false);
        }
        Action::OddLabel(_, odd) => {
            let usual = super::job::service(job, 0).labels.get(MOVABLE).cloned();
            match if odd { Some("perhaps".into()) } else { usual } {
                Some(value) => drop(service.labels.insert(MOVABLE.into(), value)),
                None => drop(service.labels.remove(MOVABLE)),
            }
        }
        // A running one would be started again with the other volume by Swarm, which no coordinator can prevent.
        Action::SharesVolume(yes) if service.mode == ServiceMode::Replicated(0) || !yes => {
            let number = if yes { 0 } else { TWIN };
            let name: Arc<str> = volume_name(number).into();
            service.labels.insert(CHECKPOINT.into(), name.clone());
            service.volumes[0].name = name;
            if world.volumes[TWIN] != number {
                (world.volumes[TWIN], world.best[TWIN]) = (number, 0);
            }
        }
        Action::ComesAfterNothing(_) => drop(service.labels.remove(AFTER)),
        Action::RestartsAlways(_, always) => {
            service.restart.condition = if always { RestartCondition::Any } else { RestartCondition::OnFailure };
        }
        _ => {}
    }
}

fn has_lost_labels(service: &SwarmService) -> bool {
    has_internal(&service.previous_labels) && !has_internal(&service.labels)
}
