//! Disasters at every step: schedules of what a daemon, its engine, kernel, disk and owners may do to each other, by seed.
//!
//! Ledgers, operations and journal are the real ones (the database is on a disk that works, is full, or lies); the world is simulated.
//! After each step: what of ours came into force was promised, and what an owner set and the daemon saw is not overwritten. At the end,
//! when the world is well again: the daemon comes to rest with its plan in force, and after a restore every container is as its owner
//! wants it and the journal is empty. A violation is told with its schedule, shrunk. Imports: as its parts.

mod action;
mod ground;
mod node;
mod plant;
mod values;
mod work;
mod world;

use super::journal::Journal;
use crate::limits::machine::Command;
use crate::model::{Millis, Runtime};
use action::{Action, THINGS, act, schedule};
use ground::Ground;
use node::Node;
use plant::Plant;
use std::path::Path;
use tempfile::TempDir;
use world::{Disk, Mood, Thing, Which};

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
