//! A daemon as far as limits go: the real machine, and around it the events that wait for it. Imports: limits, the work, the ground, the values.

use super::ground::{Ground, mark_of};
use super::plant::Plant;
use super::values::{KINDS, planned, raised};
use super::work::{Actuator, Done};
use super::world::{Mood, Which};
use crate::limits::End;
use crate::limits::machine::{Asker, Candidate, Command, Effect, Event, Found, Intervals, Machine, Memory, Remembered};
use crate::model::{ContainerId, LimitChange, Limits, Millis, Refusal, Runtime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Intervals that a reload chooses among.
const INTERVALS: [Intervals; 2] = [
    Intervals { usual: Millis::from_secs(20), longest: Millis::from_secs(320) },
    Intervals { usual: Millis::from_secs(5), longest: Millis::from_secs(60) },
];

/// What waits to be told to the machine; what it is told with is read when it is told.
#[derive(Debug)]
enum Told {
    Connected(Which),
    Started(usize),
    Ended(usize),
    Updated(usize),
    Removed(usize),
    Candidate(Result<Candidate, Refusal>, Asker),
    Done(Done),
}

/// A daemon that runs.
pub struct Node {
    pub machine: Machine,
    /// Which run each governed container was found in.
    runs: BTreeMap<usize, u32>,
    inbox: VecDeque<Told>,
    actuator: Actuator,
    /// Commands that are not answered yet, and how many there were.
    asking: BTreeSet<Asker>,
    asked: u64,
    pub is_stopping: bool,
    pub has_stopped: bool,
}

impl Node {
    /// A daemon starts, and finds what runs.
    pub fn start(ground: &mut Ground) -> Node {
        let mut memory = Memory::default();
        for (original, written) in ground.journal.everything().unwrap_or_default() {
            let promised = super::super::journal::promised_of(&original);
            let (runtime, mark) = (original.runtime, original.mark);
            memory.originals.insert(original.id, Remembered { runtime, mark, original: promised, written });
        }
        memory.adopted = ground.journal.adopted().unwrap_or_default();
        let mut node = Node {
            machine: Machine::new(memory, INTERVALS[0]),
            runs: BTreeMap::new(),
            inbox: VecDeque::new(),
            actuator: Actuator::default(),
            asking: BTreeSet::new(),
            asked: 0,
            is_stopping: false,
            has_stopped: false,
        };
        node.told_connected(ground);
        node.inbox.extend((0..ground.things.len()).filter(|thing| ground.is_seen(*thing)).map(Told::Started));
        node
    }

    pub fn told_connected(&mut self, ground: &Ground) {
        self.inbox.push_back(Told::Connected(ground.engine));
    }

    /// Says again how it is, late or twice.
    pub fn told(&mut self, ground: &Ground, thing: usize) {
        let is_seen = ground.is_seen(thing);
        self.inbox.push_back(if is_seen { Told::Started(thing) } else { Told::Ended(thing) });
    }

    pub fn told_updated(&mut self, thing: usize) {
        self.inbox.push_back(Told::Updated(thing));
    }

    pub fn told_removed(&mut self, thing: usize) {
        self.inbox.push_back(Told::Removed(thing));
    }

    /// The whole truth at once.
    pub fn listed(&mut self, ground: &mut Ground) -> Result<(), String> {
        let mut present = BTreeSet::new();
        for thing in 0..ground.things.len() {
            if ground.is_seen(thing) {
                present.insert(ground.things[thing].id.clone());
                self.found(ground, thing)?;
            } else {
                self.ended(ground, thing)?;
            }
        }
        self.tell(ground, Event::Listed(present))
    }

    fn found(&mut self, ground: &mut Ground, thing: usize) -> Result<(), String> {
        let (id, run) = (ground.things[thing].id.clone(), ground.things[thing].run);
        let is_wanted = ground.things[thing].has_label || self.machine.adoption(&id).is_some();
        if !ground.is_seen(thing) || !is_wanted || self.runs.get(&thing) == Some(&run) {
            return Ok(());
        }
        self.ended(ground, thing)?;
        let (stands, _) = ground.read(thing, Some(run));
        let runtime = ground.things[thing].runtime;
        let mark = (runtime == Runtime::Docker).then(|| mark_of(ground.things[thing].engine));
        let found = Found {
            name: id.short().to_owned(),
            id: id.clone(),
            runtime,
            run: (run, 0),
            mark,
            is_late: true,
            ran_before: false,
            stands,
            engine: None,
        };
        self.runs.insert(thing, run);
        self.tell(ground, Event::Found(Box::new(found)))?;
        if let Some(ledger) = self.machine.ledger(&id) {
            ground.things[thing].agreed(ledger.original()); // what stands is its original, if it is
        }
        Ok(())
    }

    fn ended(&mut self, ground: &mut Ground, thing: usize) -> Result<(), String> {
        self.runs.remove(&thing);
        self.tell(ground, Event::Ended(ground.things[thing].id.clone()))
    }

    /// What stands in all that are governed.
    fn readings(&self, ground: &mut Ground) -> Vec<(ContainerId, Limits)> {
        let read = |(thing, run): (&usize, &u32)| {
            let stands = ground.read(*thing, Some(*run)).0;
            (ground.things[*thing].id.clone(), stands)
        };
        self.runs.iter().map(read).collect()
    }

    /// Tells the oldest of what waits; whether there was anything.
    pub fn handle(&mut self, ground: &mut Ground) -> Result<bool, String> {
        let Some(told) = self.inbox.pop_front() else { return Ok(false) };
        match told {
            Told::Connected(which) => self.tell(ground, Event::Connected(mark_of(which)))?,
            Told::Started(thing) => self.found(ground, thing)?,
            Told::Ended(thing) => self.ended(ground, thing)?,
            Told::Removed(thing) => {
                self.ended(ground, thing)?;
                self.tell(ground, Event::Removed(ground.things[thing].id.clone()))?;
            }
            Told::Updated(thing) => {
                if let Some(run) = self.runs.get(&thing).copied() {
                    let stands = ground.read(thing, Some(run)).0;
                    self.tell(ground, Event::Updated(ground.things[thing].id.clone(), stands))?;
                }
            }
            Told::Done(Done::Came { mut came, is_last }) => {
                for came in &mut came {
                    if matches!(came.outcome.end, End::Failed(_)) && ground.plant == Plant::ForgetsAFailedWrite {
                        came.outcome.promised = None;
                        came.outcome.end = End::Gone;
                    }
                }
                let accepted: Vec<ContainerId> = came
                    .iter()
                    .filter(|came| matches!(came.outcome.end, End::Accepted(_)))
                    .map(|came| came.id.clone())
                    .collect();
                let readings = self.readings(ground);
                self.tell(ground, Event::Came { came, readings, is_last })?;
                for id in accepted {
                    if let Some((thing, ledger)) = ground.thing(&id).zip(self.machine.ledger(&id)) {
                        ground.things[thing].agreed(ledger.original());
                    }
                }
            }
            Told::Done(Done::Restored(mut restored)) => {
                if ground.plant == Plant::ClearsOursOfAll {
                    restored.settled.extend(ground.things.iter().map(|thing| thing.id.clone()));
                }
                let readings = self.readings(ground);
                self.tell(ground, Event::Restored(restored, readings))?;
            }
            Told::Candidate(found, asker) => {
                self.tell(ground, Event::Candidate { found, labels: BTreeMap::new(), asker })?;
            }
            Told::Done(Done::Adopted { thing, adoption, problem }) => {
                let id = ground.things[thing].id.clone();
                self.tell(ground, Event::Adopted { id, adoption, problem })?;
            }
            Told::Done(Done::Disowned { thing, problem }) => {
                self.tell(ground, Event::Disowned { id: ground.things[thing].id.clone(), problem })?;
            }
        }
        Ok(true)
    }

    fn tell(&mut self, ground: &mut Ground, event: Event) -> Result<(), String> {
        for effect in self.machine.handle(event, ground.moment()) {
            match effect {
                Effect::Do(work) => self.actuator.ask(work),
                Effect::Answer { asker, done, .. } => {
                    if !self.asking.remove(&asker) {
                        return Err(format!("a command was answered twice: {done:?}"));
                    }
                }
                Effect::AskEngine { name, asker, .. } => {
                    let found = ground.things.iter().position(|thing| thing.id.as_str() == name);
                    let found = found.filter(|thing| ground.is_seen(*thing) && ground.mood == Mood::Answers);
                    let candidate = found.map(|thing| {
                        let thing = &ground.things[thing];
                        let label = thing.has_label.then(|| "label".to_owned());
                        Candidate { id: thing.id.clone(), name: thing.id.short().to_owned(), label }
                    });
                    let candidate = candidate.ok_or(Refusal::NotOnEngine(name));
                    self.inbox.push_back(Told::Candidate(candidate, asker));
                }
                Effect::Watch(adopted) => {
                    let found = (0..ground.things.len())
                        .filter(|thing| adopted.contains(&ground.things[*thing].id) && ground.is_seen(*thing));
                    self.inbox.extend(found.map(Told::Started));
                }
                Effect::Left(id) => {
                    self.runs.retain(|thing, _| ground.things[*thing].id != id);
                }
                Effect::Stopped => self.has_stopped = true,
                Effect::Emit { .. } | Effect::Notice(..) | Effect::Warn(_) | Effect::DecideNow => {}
            }
        }
        Ok(())
    }

    /// Decides: these numbers for every container and kind; whether anything was to be changed.
    pub fn tick(&mut self, ground: &mut Ground, plan: u32) -> Result<bool, String> {
        if !self.machine.is_at_rest() || self.is_stopping {
            return Ok(false);
        }
        let readings = self.readings(ground);
        self.tell(ground, Event::Looked(readings))?;
        let mut changes = Vec::new();
        for thing in self.runs.keys() {
            let id = &ground.things[*thing].id;
            if self.machine.hold(id, ground.now).is_some() {
                continue;
            }
            let Some(ledger) = self.machine.ledger(id) else { continue };
            for to in KINDS.into_iter().map(|kind| planned(kind, plan + *thing as u32)) {
                let from = ledger.stands().get(to.kind());
                if let Some(from) = from.filter(|from| *from != raised(to) && ledger.has_room_for(to)) {
                    changes.push(LimitChange { id: id.clone(), from, to });
                }
            }
        }
        let any = !changes.is_empty();
        self.tell(ground, Event::Decided(changes))?;
        Ok(any)
    }

    /// Time has passed; whether anything is put back.
    pub fn look(&mut self, ground: &mut Ground) -> Result<bool, String> {
        let was_at_rest = self.machine.is_at_rest();
        self.tell(ground, Event::Passed)?;
        Ok(was_at_rest && !self.machine.is_at_rest())
    }

    pub fn ask(&mut self, ground: &mut Ground, command: Command) -> Result<(), String> {
        self.asked += 1;
        let asker = Asker(self.asked);
        self.asking.insert(asker);
        self.tell(ground, Event::Asked(command, asker))
    }

    pub fn reload(&mut self, ground: &mut Ground, which: usize) -> Result<(), String> {
        self.tell(ground, Event::Reconfigured(INTERVALS[which % INTERVALS.len()]))
    }

    pub fn stop(&mut self, ground: &mut Ground) -> Result<(), String> {
        if std::mem::replace(&mut self.is_stopping, true) {
            return Ok(());
        }
        self.tell(ground, Event::Stop { restore: true })
    }

    /// Who still waits for an answer.
    pub fn unanswered(&self) -> usize {
        self.asking.len()
    }

    /// Whether a container is governed and, if so, left alone by decision.
    pub fn is_left_alone(&self, ground: &Ground, thing: usize) -> Option<bool> {
        let id = &ground.things[thing].id;
        self.machine.ledger(id)?;
        Some(self.machine.hold(id, ground.now).is_some())
    }

    /// The actuator carries out one step of what it is at.
    pub fn step(&mut self, ground: &mut Ground) -> Result<bool, String> {
        let is_busy = self.actuator.is_busy();
        self.inbox.extend(self.actuator.step(ground)?.map(Told::Done));
        Ok(is_busy)
    }
}
