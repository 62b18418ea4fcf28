//! What may happen, by seed, and how it happens. Imports: the node, the ground, the world, the values.

use super::ground::{Ground, restore_alone};
use super::node::Node;
use super::values::KINDS;
use super::world::{Disk, Mood, Thing, Which};
use crate::limits::machine::Command;
use crate::model::{Millis, Runtime};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The actuator carries out one step.
    Step,
    /// The loop handles one event.
    Handle,
    Tick(u32),
    Look,
    OwnerSets {
        thing: usize,
        kind: usize,
        number: u32,
        by_engine: bool,
    },
    SystemReverts {
        thing: usize,
        kind: usize,
    },
    Stops(usize),
    Starts(usize),
    /// Its engine forgets it.
    Removed(usize),
    /// The daemon is told how it is, once more.
    ToldAgain(usize),
    EngineIsLate(usize),
    Engine(Mood),
    /// Another engine answers from now on.
    EngineIs(Which),
    Disk(Disk),
    Pause(Option<usize>),
    Resume(Option<usize>),
    Restore,
    Adopt(usize),
    Disown(usize),
    /// Other intervals hold.
    Reload(usize),
    Listed,
    /// Told to end, with everything back; started again.
    Stopped,
    /// The machine starts again, and the daemon with it.
    Rebooted,
    /// Somebody sets the clock of people.
    ClockSet(u32),
    /// Killed, and started again at once.
    Killed,
    /// Killed; what systemd runs then restores; started again.
    KilledAndRestored,
    Waits,
}

/// The one that is governed only when it is adopted.
const UNLABELLED: usize = 3;
pub const THINGS: usize = 5;
const ACTIONS: usize = 80;

pub fn schedule(seed: u64) -> Vec<Action> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..ACTIONS).map(|_| action(&mut random)).collect()
}

fn action(random: &mut ChaCha8Rng) -> Action {
    let (thing, kind) = (random.random_range(0..THINGS), random.random_range(0..KINDS.len()));
    let (number, by_engine) = (random.random_range(0..1000), random.random_bool(0.5));
    let one = random.random_bool(0.5).then_some(thing);
    match random.random_range(0..100) {
        0..34 => Action::Step,
        34..52 => Action::Handle,
        52..62 => Action::Tick(number),
        62..65 => Action::Look,
        65..69 => Action::OwnerSets { thing, kind, number, by_engine },
        69 => Action::SystemReverts { thing, kind },
        70..72 => Action::Stops(thing),
        72..76 => Action::Starts(thing),
        76 if number < 250 => Action::Removed(thing),
        76 => Action::ToldAgain(thing),
        77..79 => Action::EngineIsLate(thing),
        79..83 => {
            let moods = [Mood::Answers, Mood::Answers, Mood::Refuses, Mood::Late, Mood::Deaf];
            Action::Engine(moods[random.random_range(0..moods.len())])
        }
        83 => Action::EngineIs(if number % 3 == 0 { Which::Other } else { Which::One }),
        84..86 => {
            let disks = [Disk::Works, Disk::Works, Disk::Full, Disk::Lies];
            Action::Disk(disks[random.random_range(0..disks.len())])
        }
        86 => Action::Pause(one),
        87..90 => Action::Resume(one),
        90 => Action::Restore,
        91 => Action::Adopt(if by_engine { UNLABELLED } else { thing }),
        92 => Action::Disown(if by_engine { UNLABELLED } else { thing }),
        93 if number < 500 => Action::Reload(thing),
        93 => Action::ClockSet(number),
        94 => Action::Listed,
        95 if number < 600 => Action::Stopped,
        95 => Action::Rebooted,
        96 => Action::Killed,
        97 => Action::KilledAndRestored,
        _ => Action::Waits,
    }
}

/// Does it.
pub fn act(node: &mut Node, ground: &mut Ground, action: Action) -> Result<(), String> {
    ground.at += 1;
    if node.has_stopped {
        *node = Node::start(ground);
    }
    let name = |ground: &Ground, thing: usize| ground.things[thing].id.as_str().to_owned();
    match action {
        Action::Step => drop(node.step(ground)?),
        Action::Handle => drop(node.handle(ground)?),
        Action::Tick(plan) => drop(node.tick(ground, plan)?),
        Action::Look => drop(node.look(ground)?),
        Action::OwnerSets { thing, kind, number, by_engine } => {
            let told = ground.things[thing].told;
            ground.things[thing].owner_sets(ground.at, KINDS[kind], number, by_engine);
            if ground.things[thing].told > told && ground.is_seen(thing) {
                node.told_updated(thing);
            }
        }
        Action::SystemReverts { thing, kind } => ground.things[thing].reverts(KINDS[kind]),
        Action::Stops(thing) => {
            if ground.things[thing].running {
                ground.things[thing].stops();
                node.told(ground, thing);
            }
        }
        Action::Starts(thing) => {
            ground.things[thing].starts();
            node.told(ground, thing);
        }
        Action::Removed(thing) => {
            if ground.things[thing].runtime == Runtime::Docker {
                ground.things[thing].is_removed();
                node.told_removed(thing);
            }
        }
        Action::ToldAgain(thing) => node.told(ground, thing),
        Action::EngineIsLate(thing) => ground.late(thing)?,
        Action::Engine(mood) => ground.mood = mood,
        Action::EngineIs(which) => {
            ground.engine = which;
            node.told_connected(ground);
            (0..THINGS).for_each(|thing| node.told(ground, thing));
        }
        Action::Disk(disk) => ground.disk = disk,
        Action::Pause(one) => node.ask(ground, Command::Pause(one.map(|thing| name(ground, thing))))?,
        Action::Resume(one) => node.ask(ground, Command::Resume(one.map(|thing| name(ground, thing))))?,
        Action::Restore => node.ask(ground, Command::Restore)?,
        Action::Adopt(thing) => {
            let adopt = Command::Adopt { name: name(ground, thing), labels: BTreeMap::new() };
            node.ask(ground, adopt)?;
        }
        Action::Disown(thing) => node.ask(ground, Command::Disown(name(ground, thing)))?,
        Action::Reload(which) => node.reload(ground, which)?,
        Action::Listed => node.listed(ground)?,
        Action::Stopped => node.stop(ground)?,
        Action::Rebooted => {
            ground.boot += 1;
            ground.things.iter_mut().for_each(Thing::reboots);
            *node = Node::start(ground);
        }
        Action::ClockSet(number) => ground.unix_ms = u64::from(number) * 1_000_000_000,
        Action::Killed => *node = Node::start(ground),
        Action::KilledAndRestored => {
            restore_alone(ground)?;
            *node = Node::start(ground);
        }
        Action::Waits => ground.now = ground.now.after(Millis::from_secs(90)),
    }
    Ok(())
}
