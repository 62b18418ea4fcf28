//! The daemon as far as limits go: its ledgers, the steps of its operations and its journal are the real ones; what is between them is
//! as in the loop and the actuator, one step at a time. Imports: limits, the ground.

use super::Plant;
use super::ground::{Ground, Piece, Steps, find, next, of_record};
use super::world::{KINDS, planned, raised};
use crate::host::store::Original;
use crate::limits::{Ask, Change, End, LastRun, Ledger, Outcome, Return, Then, Verdict};
use crate::model::{Millis, Runtime, Setting};
use std::collections::{BTreeMap, VecDeque};

const INTERVAL: Millis = Millis::from_secs(20);
const LONGEST: Millis = Millis::from_secs(320);

/// Whatever happens to the loop.
#[derive(Debug)]
enum Event {
    Started(usize),
    Ended(usize),
    Updated(usize),
    Actuated(Vec<(usize, Option<u32>, Box<Outcome>)>),
    Restored(Vec<usize>),
}

#[derive(Debug)]
enum Order {
    Carry(VecDeque<Piece>),
    Ended(usize),
    RestoreAll(Option<VecDeque<usize>>),
    /// One of them, and those that follow.
    Restoring(Box<Piece>, VecDeque<usize>),
}

/// A daemon that runs.
pub struct Node {
    jobs: BTreeMap<usize, (Ledger, u32)>,
    remembered: BTreeMap<usize, (Original, Vec<Setting>)>,
    ended: BTreeMap<usize, LastRun>,
    pub paused: bool,
    in_flight: usize,
    restoring: bool,
    inbox: VecDeque<Event>,
    orders: VecDeque<Order>,
    outcomes: Vec<(usize, Option<u32>, Box<Outcome>)>,
    settled: Vec<usize>,
}

impl Node {
    /// A daemon starts, and finds what runs.
    pub fn start(ground: &mut Ground) -> Node {
        let mut remembered = BTreeMap::new();
        for (original, written) in ground.journal.everything().unwrap_or_default() {
            let thing = ground.things.iter().position(|thing| thing.id == original.id);
            remembered.extend(thing.map(|thing| (thing, (original, written))));
        }
        let inbox =
            (0..ground.things.len()).filter(|thing| ground.things[*thing].running).map(Event::Started).collect();
        Node {
            jobs: BTreeMap::new(),
            remembered,
            ended: BTreeMap::new(),
            paused: false,
            in_flight: 0,
            restoring: false,
            inbox,
            orders: VecDeque::new(),
            outcomes: Vec::new(),
            settled: Vec::new(),
        }
    }

    pub fn told_started(&mut self, thing: usize) {
        self.inbox.push_back(Event::Started(thing));
    }

    pub fn told_ended(&mut self, thing: usize) {
        self.inbox.push_back(Event::Ended(thing));
    }

    pub fn told_updated(&mut self, thing: usize) {
        self.inbox.push_back(Event::Updated(thing));
    }

    /// The whole truth at once.
    pub fn listed(&mut self, ground: &mut Ground) {
        for thing in 0..ground.things.len() {
            if ground.things[thing].running {
                self.begin(ground, thing);
            } else {
                self.end(ground, thing);
            }
        }
        for thing in 0..ground.things.len() {
            let is_remembered = self.remembered.contains_key(&thing) && !self.jobs.contains_key(&thing);
            if is_remembered && !ground.things[thing].running && ground.things[thing].runtime == Runtime::Docker {
                self.orders.push_back(Order::Ended(thing));
                self.in_flight += 1;
            }
        }
    }

    fn begin(&mut self, ground: &mut Ground, thing: usize) {
        if !ground.things[thing].running {
            return;
        }
        let run = ground.things[thing].run;
        if self.jobs.get(&thing).is_some_and(|(_, known)| *known == run) {
            return;
        }
        self.end(ground, thing);
        let (stands, _) = ground.read(thing, Some(run));
        let mut ledger = Ledger::found(stands, None);
        if let Some((original, written)) = self.remembered.get(&thing) {
            ledger.recall(original.limits, original.engine, written);
        }
        if let Some(last) = self.ended.remove(&thing) {
            ledger.begin_after(last, ground.now);
        }
        ground.things[thing].agreed(ledger.original()); // what stands is its original, if it is
        self.jobs.insert(thing, (ledger, run));
    }

    fn end(&mut self, ground: &mut Ground, thing: usize) {
        let Some((ledger, _)) = self.jobs.remove(&thing) else { return };
        if ground.things[thing].runtime == Runtime::Docker {
            self.ended.insert(thing, ledger.last_run());
        }
        if ledger.owes_anything() {
            self.remembered.insert(thing, (ground.original(thing, &ledger.to_promise()), ledger.known()));
            self.orders.push_back(Order::Ended(thing));
            self.in_flight += 1;
        }
    }

    /// Handles the oldest event; whether there was one.
    pub fn handle(&mut self, ground: &mut Ground) -> bool {
        match self.inbox.pop_front() {
            None => return false,
            Some(Event::Started(thing)) => self.begin(ground, thing),
            Some(Event::Ended(thing)) => self.end(ground, thing),
            Some(Event::Updated(thing)) => {
                self.read(ground, thing);
                self.check(ground, thing, true);
            }
            Some(Event::Actuated(outcomes)) => {
                self.in_flight -= 1;
                for (thing, run, outcome) in outcomes {
                    self.note(ground, thing, run, outcome);
                }
            }
            Some(Event::Restored(settled)) => {
                self.in_flight -= 1;
                self.restoring = false;
                let all = ground.plant == Plant::ClearsOursOfAll;
                for thing in 0..ground.things.len() {
                    if all || settled.contains(&thing) {
                        self.remembered.remove(&thing);
                        if let Some((ledger, _)) = self.jobs.get_mut(&thing) {
                            ledger.settle();
                        }
                    }
                    self.read(ground, thing);
                }
            }
        }
        true
    }

    fn note(&mut self, ground: &mut Ground, thing: usize, of: Option<u32>, mut outcome: Box<Outcome>) {
        if matches!(outcome.end, End::Failed(_)) && ground.plant == Plant::ForgetsAFailedWrite {
            outcome.promised = None;
            outcome.end = End::Gone;
        }
        if matches!(outcome.end, End::Returned { forgotten: true, .. } | End::Accepted(_)) {
            self.remembered.remove(&thing);
        }
        if of.is_none() && !matches!(outcome.end, End::Returned { .. }) {
            return;
        }
        let Some((ledger, run)) = self.jobs.get_mut(&thing) else { return };
        if of.is_some_and(|of| of != *run) {
            return;
        }
        ledger.note(&outcome, ground.now, LONGEST);
        if matches!(outcome.end, End::Accepted(_)) {
            let Some((ledger, _)) = self.jobs.get(&thing) else { return };
            ground.things[thing].agreed(ledger.original());
        }
        self.read(ground, thing);
    }

    fn read(&mut self, ground: &mut Ground, thing: usize) {
        if let Some((ledger, run)) = self.jobs.get_mut(&thing) {
            ledger.read(ground.read(thing, Some(*run)).0);
        }
    }

    fn check(&mut self, ground: &mut Ground, thing: usize, told: bool) {
        if self.in_flight > 0 {
            return;
        }
        let Some((ledger, _)) = self.jobs.get_mut(&thing) else { return };
        match ledger.check(told, ground.now, self.paused, (INTERVAL, LONGEST)) {
            Verdict::Fine => {}
            Verdict::Theirs(_) => {
                let piece = self.returning(thing, Then::Keep);
                self.carry(piece.into_iter().collect());
            }
            Verdict::Reverted(_, wait) if wait > Millis(0) => ledger.wait_until("again", ground.now.after(wait)),
            Verdict::Reverted(..) => {}
        }
    }

    fn returning(&self, thing: usize, then: Then) -> Option<Piece> {
        let (ledger, run) = self.jobs.get(&thing)?;
        let (steps, ask) = Return::begin(ledger, true, then);
        Some(Piece {
            thing,
            run: Some(*run),
            original: ledger.to_promise(),
            steps: Steps::Return(steps),
            ask,
            looked: 0,
        })
    }

    fn carry(&mut self, pieces: VecDeque<Piece>) {
        if !pieces.is_empty() {
            self.orders.push_back(Order::Carry(pieces));
            self.in_flight += 1;
        }
    }

    /// Decides: these numbers for every container and kind; whether anything was to be changed.
    pub fn tick(&mut self, ground: &mut Ground, plan: u32) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let things: Vec<usize> = self.jobs.keys().copied().collect();
        for thing in &things {
            self.read(ground, *thing);
            self.check(ground, *thing, false);
        }
        let mut pieces = VecDeque::new();
        for thing in things {
            let Some((ledger, run)) = self.jobs.get_mut(&thing) else { continue };
            if ledger.hold(ground.now, self.paused).is_some() {
                continue;
            }
            let wanted = KINDS.into_iter().map(|kind| planned(kind, plan + thing as u32));
            let settings: Vec<Setting> = wanted
                .filter(|setting| {
                    ledger.stands().get(setting.kind()) != Some(raised(*setting)) && ledger.has_room_for(*setting)
                })
                .collect();
            if settings.is_empty() {
                continue;
            }
            ledger.asked(&settings);
            let original = ledger.to_promise();
            let (steps, ask) = Change::begin(ledger, settings);
            pieces.push_back(Piece { thing, run: Some(*run), original, steps: Steps::Change(steps), ask, looked: 0 });
        }
        let changes = !pieces.is_empty();
        self.carry(pieces);
        changes
    }

    /// Between ticks; whether anything is put back.
    pub fn look(&mut self, ground: &mut Ground) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let (now, paused) = (ground.now, self.paused);
        let wants_back =
            self.jobs.iter().filter(|(_, (ledger, _))| ledger.wants_back(now, paused)).map(|(thing, _)| *thing);
        let things: Vec<usize> = wants_back.collect();
        let pieces: VecDeque<Piece> =
            things.into_iter().filter_map(|thing| self.returning(thing, Then::Keep)).collect();
        let any = !pieces.is_empty();
        self.carry(pieces);
        any
    }

    pub fn pause(&mut self) {
        self.paused = true;
        let owing = self.jobs.iter().filter(|(_, (ledger, _))| ledger.owes_anything()).map(|(thing, _)| *thing);
        let things: Vec<usize> = owing.collect();
        self.carry(things.into_iter().filter_map(|thing| self.returning(thing, Then::Keep)).collect());
    }

    pub fn resume(&mut self) {
        if self.restoring {
            return;
        }
        self.paused = false;
        let things: Vec<usize> = self.jobs.keys().copied().collect();
        for thing in things {
            if self.jobs.get_mut(&thing).is_some_and(|(ledger, _)| ledger.release()) {
                let piece = self.returning(thing, Then::Accept);
                self.carry(piece.into_iter().collect());
            }
        }
    }

    pub fn restore(&mut self) {
        self.paused = true;
        if !self.restoring {
            self.restoring = true;
            self.in_flight += 1;
            self.orders.push_back(Order::RestoreAll(None));
        }
    }

    /// Whether a container is governed and, if so, left alone by decision.
    pub fn is_left_alone(&self, thing: usize, now: Millis) -> Option<bool> {
        let (ledger, _) = self.jobs.get(&thing)?;
        Some(ledger.hold(now, self.paused).is_some())
    }

    /// The actuator carries out one step of what it is at.
    pub fn step(&mut self, ground: &mut Ground) -> Result<bool, String> {
        let Some(order) = self.orders.pop_front() else { return Ok(false) };
        match order {
            Order::Carry(mut pieces) => match pieces.pop_front() {
                None => {
                    let outcomes = std::mem::take(&mut self.outcomes);
                    self.inbox.push_back(Event::Actuated(outcomes));
                }
                Some(piece) => {
                    let (thing, run) = (piece.thing, piece.run);
                    match self.advance(ground, piece)? {
                        Ok(piece) => pieces.push_back(piece),
                        Err(outcome) => self.outcomes.push((thing, run, outcome)),
                    }
                    self.orders.push_front(Order::Carry(pieces));
                }
            },
            Order::Ended(thing) => {
                let id = ground.things[thing].id.clone();
                let pieces = match ground.journal.original(&id)? {
                    None => {
                        self.outcomes.push((thing, None, Box::new(Outcome::forgotten())));
                        VecDeque::new()
                    }
                    Some(original) => {
                        let written = ground.journal.written(&id)?;
                        VecDeque::from([of_record(thing, &original, written)])
                    }
                };
                self.orders.push_front(Order::Carry(pieces));
            }
            Order::RestoreAll(None) => {
                let all = ground.journal.everything()?;
                let things =
                    all.iter().filter_map(|(original, _)| ground.things.iter().position(|t| t.id == original.id));
                self.settled.clear();
                self.orders.push_front(Order::RestoreAll(Some(things.collect())));
            }
            Order::RestoreAll(Some(mut left)) => match left.pop_front() {
                None => {
                    let settled = std::mem::take(&mut self.settled);
                    self.inbox.push_back(Event::Restored(settled));
                }
                Some(thing) => {
                    let next = match find(ground, thing)? {
                        Some(piece) => Order::Restoring(Box::new(piece), left),
                        None => Order::RestoreAll(Some(left)),
                    };
                    self.orders.push_front(next);
                }
            },
            Order::Restoring(piece, left) => {
                let thing = piece.thing;
                let next = match self.advance(ground, *piece)? {
                    Ok(piece) => Order::Restoring(Box::new(piece), left),
                    Err(outcome) => {
                        let is_back = matches!(outcome.end, End::Returned { forgotten: true, .. });
                        self.settled.extend(is_back.then_some(thing));
                        Order::RestoreAll(Some(left))
                    }
                };
                self.orders.push_front(next);
            }
        }
        Ok(true)
    }

    fn advance(&mut self, ground: &mut Ground, mut piece: Piece) -> Result<Result<Piece, Box<Outcome>>, String> {
        if piece.ask == Ask::Read {
            piece.looked = ground.at;
        }
        let answer = ground.answer(&piece)?;
        Ok(next(piece, answer))
    }
}
