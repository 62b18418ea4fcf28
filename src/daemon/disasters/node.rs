//! A daemon as far as limits go: the real machine, operations and journal. What is here is what surrounds them: events that wait, and
//! work that is carried out a step at a time, as the actuator does. Imports: limits, the ground.

use super::Plant;
use super::ground::{Ground, Piece, find, mark_of, next, of_record};
use super::world::{KINDS, Mood, Which, planned, raised};
use crate::limits::Outcome;
use crate::limits::machine::{
    Asker, Came, Candidate, Command, Effect, Event, Found, Intervals, Machine, Memory, Remembered, Restored, Work,
};
use crate::limits::{Ask, End};
use crate::model::{Adoption, ContainerId, LimitChange, Millis, Refusal, Runtime};
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
    Came { came: Vec<Came>, is_last: bool },
    Restored(Restored),
    Candidate(Result<Candidate, Refusal>, Asker),
    Adopted { thing: usize, adoption: Adoption, problem: Option<String> },
    Disowned { thing: usize, problem: Option<String> },
}

/// Work on its way.
#[derive(Debug)]
enum Doing {
    Begin(Work),
    /// These, then those; `disowns`: it is forgotten afterwards that this one was adopted.
    Carry {
        pieces: VecDeque<Piece>,
        then: VecDeque<Piece>,
        came: Vec<Came>,
        disowns: Option<usize>,
    },
    Restore {
        left: VecDeque<usize>,
        piece: Option<Box<Piece>>,
        settled: BTreeSet<ContainerId>,
    },
}

/// A daemon that runs.
pub struct Node {
    pub machine: Machine,
    /// Which run each governed container was found in.
    runs: BTreeMap<usize, u32>,
    inbox: VecDeque<Told>,
    works: VecDeque<Doing>,
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
            works: VecDeque::new(),
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
    fn readings(&self, ground: &mut Ground) -> Vec<(ContainerId, crate::model::Limits)> {
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
            Told::Came { mut came, is_last } => {
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
            Told::Restored(mut restored) => {
                if ground.plant == Plant::ClearsOursOfAll {
                    restored.settled.extend(ground.things.iter().map(|thing| thing.id.clone()));
                }
                let readings = self.readings(ground);
                self.tell(ground, Event::Restored(restored, readings))?;
            }
            Told::Candidate(found, asker) => {
                self.tell(ground, Event::Candidate { found, labels: BTreeMap::new(), asker })?;
            }
            Told::Adopted { thing, adoption, problem } => {
                let id = ground.things[thing].id.clone();
                self.tell(ground, Event::Adopted { id, adoption, problem })?;
            }
            Told::Disowned { thing, problem } => {
                self.tell(ground, Event::Disowned { id: ground.things[thing].id.clone(), problem })?;
            }
        }
        Ok(true)
    }

    fn tell(&mut self, ground: &mut Ground, event: Event) -> Result<(), String> {
        for effect in self.machine.handle(event, ground.moment()) {
            match effect {
                Effect::Do(work) => self.works.push_back(Doing::Begin(work)),
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
        let Some(doing) = self.works.pop_front() else { return Ok(false) };
        let next = match doing {
            Doing::Begin(work) => self.begin(ground, work)?,
            Doing::Carry { pieces, then, came, disowns } => self.carry(ground, pieces, then, came, disowns)?,
            Doing::Restore { left, piece, settled } => self.restore(ground, left, piece, settled)?,
        };
        if let Some(next) = next {
            self.works.push_front(next);
        }
        Ok(true)
    }

    fn begin(&mut self, ground: &mut Ground, work: Work) -> Result<Option<Doing>, String> {
        let (came, then, disowns) = (Vec::new(), VecDeque::new(), None);
        Ok(Some(match work {
            Work::Change { loosen, tighten } => {
                let pieces = loosen.into_iter().map(|piece| ground.piece(piece)).collect();
                let then = tighten.into_iter().map(|piece| ground.piece(piece)).collect();
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::Return(pieces) => {
                let pieces = pieces.into_iter().map(|piece| ground.piece(piece)).collect();
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::Ended(id) => {
                let (pieces, came) = ended(ground, &id)?;
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::Adopt(id, adoption) => {
                let thing = ground.thing(&id).ok_or("an unknown container is adopted")?;
                let problem = ground.adopt(thing, Some(&adoption)).err();
                self.inbox.push_back(Told::Adopted { thing, adoption, problem });
                return Ok(None);
            }
            Work::Disown { id, running } => {
                let disowns = ground.thing(&id);
                let (pieces, came) = match running {
                    Some(piece) => (VecDeque::from([ground.piece(*piece)]), came),
                    None => ended(ground, &id)?,
                };
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::RestoreAll { .. } => {
                let all = ground.journal.everything()?;
                let left = all.iter().filter_map(|(original, _)| ground.thing(&original.id)).collect();
                Doing::Restore { left, piece: None, settled: BTreeSet::new() }
            }
        }))
    }

    fn carry(
        &mut self,
        ground: &mut Ground,
        mut pieces: VecDeque<Piece>,
        then: VecDeque<Piece>,
        mut came: Vec<Came>,
        disowns: Option<usize>,
    ) -> Result<Option<Doing>, String> {
        let Some(piece) = pieces.pop_front() else {
            if let Some(thing) = disowns {
                let end = came.into_iter().next().map(|came| came.outcome.end);
                let problem = super::super::actuator::why_not_disowned(end).err();
                let problem = problem.or_else(|| ground.adopt(thing, None).err());
                self.inbox.push_back(Told::Disowned { thing, problem });
                return Ok(None);
            }
            let is_last = then.is_empty();
            self.inbox.push_back(Told::Came { came, is_last });
            let next = Doing::Carry { pieces: then, then: VecDeque::new(), came: Vec::new(), disowns };
            return Ok((!is_last).then_some(next));
        };
        let (id, run) = (ground.things[piece.thing].id.clone(), piece.run.map(|run| (run, 0)));
        match advance(ground, piece)? {
            Ok(piece) => pieces.push_back(piece),
            Err(outcome) => came.push(Came { id, run, outcome }),
        }
        Ok(Some(Doing::Carry { pieces, then, came, disowns }))
    }

    fn restore(
        &mut self,
        ground: &mut Ground,
        mut left: VecDeque<usize>,
        piece: Option<Box<Piece>>,
        mut settled: BTreeSet<ContainerId>,
    ) -> Result<Option<Doing>, String> {
        let piece = match piece {
            Some(piece) => {
                let id = ground.things[piece.thing].id.clone();
                match advance(ground, *piece)? {
                    Ok(piece) => Some(Box::new(piece)),
                    Err(outcome) => {
                        settled.extend(matches!(outcome.end, End::Returned { forgotten: true, .. }).then_some(id));
                        None
                    }
                }
            }
            None => match left.pop_front() {
                Some(thing) => find(ground, thing)?.map(Box::new),
                None => {
                    self.inbox.push_back(Told::Restored(Restored { settled, ..Restored::default() }));
                    return Ok(None);
                }
            },
        };
        Ok(Some(Doing::Restore { left, piece, settled }))
    }
}

fn ended(ground: &Ground, id: &ContainerId) -> Result<(VecDeque<Piece>, Vec<Came>), String> {
    Ok(match ground.journal.original(id)? {
        None => {
            let came = Came { id: id.clone(), run: None, outcome: Box::new(Outcome::forgotten()) };
            (VecDeque::new(), vec![came])
        }
        Some(original) => {
            let thing = ground.thing(id).ok_or("an unknown container ended")?;
            (VecDeque::from([of_record(thing, &original, ground.journal.written(id)?)]), Vec::new())
        }
    })
}

fn advance(ground: &mut Ground, mut piece: Piece) -> Result<Result<Piece, Box<Outcome>>, String> {
    if piece.ask == Ask::Read {
        piece.looked = ground.at;
    }
    let answer = ground.answer(&piece)?;
    Ok(next(piece, answer))
}
