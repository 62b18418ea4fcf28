//! Disasters at every step: schedules of what a daemon, its engine, kernel, disk and owners may do to each other, by seed.
//!
//! Ledgers, operations and journal are the real ones (the database is on a disk that works, is full, or lies); the world is simulated.
//! After each step: what of ours came into force was promised, and what an owner set and the daemon saw is not overwritten. At the end,
//! when the world is well again: the daemon comes to rest with its plan in force, and after a restore every container is as its owner
//! wants it and the journal is empty. A violation is told with its schedule, shrunk. Imports: as its parts.

mod ground;
mod node;
mod world;

use super::journal::Journal;
use crate::limits::machine::Command;
use crate::model::{Millis, Runtime};
use ground::{Ground, restore_alone};
use node::Node;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;
use world::{Disk, KINDS, Mood, Thing, Which};

/// Mistakes that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    None,
    SkipsThePromise,
    ForgetsAFailedWrite,
    TrustsAMissingContainer,
    ClearsOursOfAll,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
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
const THINGS: usize = 5;
const ACTIONS: usize = 80;

fn schedule(seed: u64) -> Vec<Action> {
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

fn act(node: &mut Node, ground: &mut Ground, action: Action) -> Result<(), String> {
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

/// Goes on until nothing waits any more.
fn settle(node: &mut Node, ground: &mut Ground) -> Result<(), String> {
    for _ in 0..4000 {
        ground.at += 1;
        let stepped = node.step(ground)?;
        let handled = node.handle(ground)?;
        if !stepped && !handled {
            return Ok(());
        }
    }
    Err("the daemon never comes to rest: orders without end".to_owned())
}

/// Everything that was broken works again: it must come to rest, and everything must go back.
fn epilogue(node: &mut Node, ground: &mut Ground) -> Result<(), String> {
    (ground.mood, ground.disk) = (Mood::Answers, Disk::Works);
    for thing in 0..THINGS {
        while ground.things[thing].waits() {
            ground.late(thing)?;
        }
    }
    settle(node, ground)?;
    if node.is_stopping {
        if !node.has_stopped {
            return Err("the daemon was told to end, and never does".to_owned());
        }
        *node = Node::start(ground);
    }
    for engine in [Which::Other, Which::One] {
        act(node, ground, Action::EngineIs(engine))?;
        settle(node, ground)?;
        node.listed(ground)?;
        at_rest(node, ground)?;
        all_back(node, ground)?;
        node.ask(ground, Command::Resume(None))?;
        settle(node, ground)?;
    }
    if node.unanswered() > 0 {
        return Err("a command was never answered".to_owned());
    }
    all_ended(node, ground)
}

/// It comes to rest, with its plan in force wherever it governs.
fn at_rest(node: &mut Node, ground: &mut Ground) -> Result<(), String> {
    let mut quiet = 0;
    for _ in 0..12 {
        settle(node, ground)?;
        ground.now = ground.now.after(Millis::from_secs(400));
        let looked = node.look(ground)?;
        settle(node, ground)?;
        let ticked = node.tick(ground, 0)?;
        quiet = if looked || ticked { 0 } else { quiet + 1 };
    }
    if quiet < 3 {
        return Err("the daemon never comes to rest: it writes again and again".to_owned());
    }
    for thing in 0..THINGS {
        let is_wanted = ground.things[thing].has_label && ground.is_seen(thing);
        let amiss = match node.is_left_alone(ground, thing) {
            Some(true) => ground.things[thing].stands_amiss(),
            Some(false) => ground.things[thing].lacks_plan(thing as u32),
            None if is_wanted => Some(format!("container {thing} is not governed")),
            None if ground.is_seen(thing) => ground.things[thing].stands_amiss(),
            None => None,
        };
        if let Some(amiss) = amiss {
            return Err(format!("at rest {amiss}"));
        }
    }
    Ok(())
}

/// A restore puts back whatever can be reached.
fn all_back(node: &mut Node, ground: &mut Ground) -> Result<(), String> {
    node.ask(ground, Command::Restore)?;
    settle(node, ground)?;
    for thing in ground.things.iter().filter(|thing| thing.engine == ground.engine) {
        // What the engine has of ours while something else stands goes back when the run ends, and is remembered until then.
        let is_remembered = ground.journal.original(&thing.id)?.is_some() && thing.running;
        if let Some(amiss) = thing.stands_amiss().or(thing.record_amiss().filter(|_| !is_remembered)) {
            return Err(format!("after a restore {amiss}"));
        }
    }
    Ok(())
}

/// Nothing of ours is left of those that have ended, and nothing is remembered of them.
fn all_ended(node: &mut Node, ground: &mut Ground) -> Result<(), String> {
    for thing in 0..THINGS {
        act(node, ground, Action::Stops(thing))?;
    }
    for engine in [Which::Other, Which::One] {
        act(node, ground, Action::EngineIs(engine))?;
        settle(node, ground)?;
        node.ask(ground, Command::Restore)?;
        settle(node, ground)?;
    }
    if let Some(amiss) = ground.things.iter().find_map(Thing::record_amiss) {
        return Err(format!("after all have ended, {amiss}"));
    }
    let left = ground.journal.everything()?;
    if left.is_empty() { Ok(()) } else { Err(format!("after all have ended the journal still has {left:?}")) }
}

/// The disk of all schedules: a journal that is emptied before each of them.
struct Disks {
    journal: Option<Journal>,
    _directory: TempDir,
}

impl Disks {
    fn new() -> Disks {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.expect("a folder");
        let (journal, _) = Journal::open(directory.path()).expect("a journal");
        Disks { journal: Some(journal), _directory: directory }
    }

    /// One schedule on a new world.
    fn run(&mut self, actions: &[Action], plant: Plant) -> Result<(), String> {
        let mut journal = self.journal.take().expect("it is put back");
        for (original, _) in journal.everything()? {
            journal.forget(&original.id)?;
        }
        for id in journal.adopted()?.keys() {
            journal.disown(id)?;
        }
        let things = vec![
            Thing::new(1, Runtime::Docker, Which::One, true),
            Thing::new(2, Runtime::Docker, Which::One, true),
            Thing::new(3, Runtime::Scope, Which::One, true),
            Thing::new(4, Runtime::Docker, Which::One, false),
            Thing::new(5, Runtime::Docker, Which::Other, true),
        ];
        let mut ground = Ground {
            things,
            journal,
            engine: Which::One,
            mood: Mood::Answers,
            disk: Disk::Works,
            now: Millis::from_secs(1000),
            unix_ms: 1_000_000,
            boot: 1,
            at: 1,
            plant,
        };
        let mut node = Node::start(&mut ground);
        let acted = actions.iter().try_for_each(|action| act(&mut node, &mut ground, *action));
        let ended = acted.and_then(|()| epilogue(&mut node, &mut ground));
        self.journal = Some(ground.journal);
        ended
    }

    /// Leaves out whatever can be left out, as long as anything is violated.
    fn shrunk(&mut self, mut actions: Vec<Action>, plant: Plant) -> (Vec<Action>, String) {
        let mut size = actions.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < actions.len() {
                let mut fewer = actions.clone();
                fewer.drain(at..(at + size).min(fewer.len()));
                if self.run(&fewer, plant).is_err() {
                    actions = fewer;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        let why = self.run(&actions, plant).unwrap_err();
        (actions, why)
    }
}

/// The first schedule of these seeds that violates anything, with its number and in words.
fn first_violation(seeds: std::ops::Range<u64>, plant: Plant) -> Option<(u64, String)> {
    let mut disks = Disks::new();
    for seed in seeds {
        let actions = schedule(seed);
        if disks.run(&actions, plant).is_err() {
            let (actions, why) = disks.shrunk(actions, plant);
            let words: Vec<String> = actions.iter().map(|action| format!("  {action:?}")).collect();
            return Some((seed, format!("seed {seed}: {why}\n{}", words.join("\n"))));
        }
    }
    None
}

#[test]
fn no_schedule_loses_an_original_or_overwrites_what_an_owner_set() {
    let violation = first_violation(0..20_000, Plant::None);
    assert!(violation.is_none(), "{}", violation.unwrap().1);
}

#[test]
fn mistakes_that_are_planted_are_found() {
    for plant in
        [Plant::SkipsThePromise, Plant::ForgetsAFailedWrite, Plant::TrustsAMissingContainer, Plant::ClearsOursOfAll]
    {
        let found = first_violation(0..20_000, plant);
        println!("{plant:?}: {found:?}");
        assert!(found.is_some(), "{plant:?} is not found");
    }
}

/// `integration/soak/limits` runs it, with as many schedules as it is told.
#[test]
#[ignore = "takes as long as it is told to"]
fn soak() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("FLOWCON_FIRST_SEED").unwrap_or(0);
    let count = number("FLOWCON_SCHEDULES").unwrap_or(1_000_000);
    let violation = first_violation(first..first + count, Plant::None);
    println!("{count} schedules from seed {first}: {}", violation.as_ref().map_or("0 violations", |(_, text)| text));
    assert!(violation.is_none());
}
