//! Actions of a schedule, drawn from a seed, and their effects on the world.

use super::host::{Host, restore_alone};
use super::modes::{Disk, EngineId, EngineMode, Processes};
use super::node::SimulatedDaemon;
use super::values::KINDS;
use super::world::Container;
use limits::machine::Command;
use model::{Millis, Runtime};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// The actuator executes one step.
    Step,
    /// The loop handles one event.
    Handle,
    Tick(u32),
    /// A decision by which one container has its turn.
    Turn(u32),
    Look,
    OwnerSets {
        container: usize,
        kind: usize,
        number: u32,
        by_engine: bool,
    },
    SystemReverts {
        container: usize,
        kind: usize,
    },
    /// The owner moves the processes of a container to other cgroups, or back.
    Moves(usize, Processes),
    /// An operator releases a container, its owner changes a limit, and the operator governs it again.
    ChangedWhileReleased {
        container: usize,
        kind: usize,
        number: u32,
    },
    Stops(usize),
    Starts(usize),
    /// Its engine removes the container.
    Removed(usize),
    /// The state of the container is reported once more.
    ReportedAgain(usize),
    EngineIsLate(usize),
    Engine(EngineMode),
    /// Another engine answers from now on.
    EngineIs(EngineId),
    Disk(Disk),
    Release(Option<usize>),
    Govern(Option<usize>),
    Restore,
    Adopt(usize),
    Disown(usize),
    /// The intervals change.
    Reload(usize),
    Listed,
    /// The daemon is stopped with a restore, and starts again.
    Stopped,
    /// The host reboots, and the daemon starts again.
    Rebooted,
    /// The wall clock is set.
    ClockSet(u32),
    /// The daemon is killed, and starts again at once.
    Killed,
    /// The daemon is killed, and starts again with another label, which a container gains or loses.
    Relabelled(usize),
    /// The daemon is killed; systemd runs a restore; the daemon starts again.
    KilledAndRestored,
    Waits,
}

/// Index of the container that has no label at first: it is governed only while it is adopted.
const UNLABELLED: usize = 3;
pub(super) const CONTAINERS: usize = 5;
const ACTIONS: usize = 80;

pub(super) fn schedule(seed: u64) -> Vec<Action> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..ACTIONS).map(|_| action(&mut random)).collect()
}

fn action(random: &mut ChaCha8Rng) -> Action {
    let (container, kind) = (random.random_range(0..CONTAINERS), random.random_range(0..KINDS.len()));
    let (number, by_engine) = (random.random_range(0..1000), random.random_bool(0.5));
    let one = random.random_bool(0.5).then_some(container);
    match random.random_range(0..100) {
        0..34 => Action::Step,
        34..52 => Action::Handle,
        52..62 if number % 3 == 0 => Action::Turn(number),
        52..62 => Action::Tick(number),
        62..65 => Action::Look,
        65..69 => Action::OwnerSets { container, kind, number, by_engine },
        69 => Action::SystemReverts { container, kind },
        70..72 => Action::Stops(container),
        72..76 => Action::Starts(container),
        76 if number < 250 => Action::Removed(container),
        76 => Action::ReportedAgain(container),
        77..79 => Action::EngineIsLate(container),
        79..83 => {
            let modes =
                [EngineMode::Answers, EngineMode::Answers, EngineMode::Refuses, EngineMode::Late, EngineMode::Silent];
            Action::Engine(modes[random.random_range(0..modes.len())])
        }
        83 => Action::EngineIs(if number % 3 == 0 { EngineId::Other } else { EngineId::One }),
        84..86 => {
            let disks = [Disk::Works, Disk::Works, Disk::Full, Disk::Lies];
            Action::Disk(disks[random.random_range(0..disks.len())])
        }
        86 => Action::Release(one),
        87..90 => Action::Govern(one),
        90 => Action::Restore,
        91 => Action::Adopt(if by_engine { UNLABELLED } else { container }),
        92 => Action::Disown(if by_engine { UNLABELLED } else { container }),
        93 if number < 250 => Action::Reload(container),
        93 if number < 500 => Action::ClockSet(number),
        93 => Action::ChangedWhileReleased { container, kind, number },
        94 => Action::Listed,
        95 if number < 600 => Action::Stopped,
        95 => Action::Rebooted,
        96 if number < 300 => Action::Relabelled(container),
        96 => Action::Killed,
        97 => Action::KilledAndRestored,
        98 => {
            let places = [Processes::InItsCgroup, Processes::ElsewhereForCpu, Processes::Elsewhere];
            Action::Moves(container, places[number as usize % places.len()])
        }
        _ => Action::Waits,
    }
}

/// The owner sets a limit; the engine reports its update.
fn owner_sets(
    node: &mut SimulatedDaemon,
    host: &mut Host,
    container: usize,
    (kind, number, by_engine): (usize, u32, bool),
) {
    let reported = host.containers[container].updates_reported;
    host.containers[container].owner_sets(host.at, KINDS[kind], number, by_engine);
    if host.containers[container].updates_reported > reported && host.is_seen(container) {
        node.notify_updated(container);
    }
}

/// Applies an action to the world.
pub(super) fn act(node: &mut SimulatedDaemon, host: &mut Host, action: Action) -> Result<(), String> {
    host.at += 1;
    if node.has_stopped {
        *node = SimulatedDaemon::start(host);
    }
    let name = |host: &Host, container: usize| host.containers[container].id.as_str().to_owned();
    match action {
        Action::Step => drop(node.step(host)?),
        Action::Handle => drop(node.handle(host)?),
        Action::Tick(plan) => drop(node.tick(host, plan)?),
        Action::Turn(number) => drop(node.turn(host, number as usize % CONTAINERS)?),
        Action::Look => drop(node.look(host)?),
        Action::OwnerSets { container, kind, number, by_engine } => {
            owner_sets(node, host, container, (kind, number, by_engine));
        }
        Action::Moves(container, processes) => {
            let at = host.at;
            host.containers[container].moves(at, processes);
        }
        Action::ChangedWhileReleased { container, kind, number } => {
            act(node, host, Action::Release(Some(container)))?;
            for _ in 0..number % 20 {
                act(node, host, Action::Step)?;
                act(node, host, Action::Handle)?;
            }
            owner_sets(node, host, container, (kind, number, true));
            act(node, host, Action::Govern(Some(container)))?;
        }
        Action::SystemReverts { container, kind } => host.containers[container].reverts(KINDS[kind]),
        Action::Stops(container) => {
            if host.containers[container].running {
                host.containers[container].stops();
                node.notify(host, container);
            }
        }
        Action::Starts(container) => {
            host.containers[container].starts();
            node.notify(host, container);
        }
        Action::Removed(container) => {
            if host.containers[container].runtime == Runtime::Docker {
                host.containers[container].is_removed();
                node.notify_removed(container);
            }
        }
        Action::ReportedAgain(container) => node.notify(host, container),
        Action::EngineIsLate(container) => {
            if host.late(container)? && host.is_seen(container) {
                node.notify_updated(container);
            }
        }
        Action::Engine(mode) => host.mode = mode,
        Action::EngineIs(which) => {
            host.engine = which;
            node.notify_connected(host);
            (0..CONTAINERS).for_each(|container| node.notify(host, container));
        }
        Action::Disk(disk) => host.disk = disk,
        Action::Release(one) => node.command(host, Command::Release(one.map(|container| name(host, container))))?,
        Action::Govern(one) => node.command(host, Command::Govern(one.map(|container| name(host, container))))?,
        Action::Restore => node.command(host, Command::Restore)?,
        Action::Adopt(container) => {
            let adopt = Command::Adopt { name: name(host, container), labels: BTreeMap::new() };
            node.command(host, adopt)?;
        }
        Action::Disown(container) => node.command(host, Command::Disown(name(host, container)))?,
        Action::Reload(which) => node.reload(host, which)?,
        Action::Listed => node.listed(host)?,
        Action::Stopped => node.stop(host)?,
        Action::Rebooted => {
            host.boot += 1;
            host.containers.iter_mut().for_each(Container::reboots);
            *node = SimulatedDaemon::start(host);
        }
        Action::ClockSet(number) => host.unix_ms = u64::from(number) * 1_000_000_000,
        Action::Killed => *node = SimulatedDaemon::start(host),
        Action::Relabelled(container) => {
            let adopted = host.journal.adopted()?;
            let container = &mut host.containers[container];
            if container.runtime == Runtime::Docker && !adopted.contains_key(&container.id) {
                container.has_label = !container.has_label;
            }
            *node = SimulatedDaemon::start(host);
        }
        Action::KilledAndRestored => {
            restore_alone(host)?;
            *node = SimulatedDaemon::start(host);
        }
        Action::Waits => host.now = host.now.after(Millis::from_secs(90)),
    }
    Ok(())
}
