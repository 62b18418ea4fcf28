//! What the daemon cannot command: kernel, engine, disk, clock and owners, as far as limits go.
//!
//! The engine carries out what it was asked for one container in the order in which it was asked, also what nobody waits for any more, and
//! whoever asks about a container is answered after that. Imports: limits, the values, model.

use super::super::testing::id;
use super::values::{KINDS, is_an_owners, is_recorded, original, place, planned, raised, theirs};
use crate::limits::{Record, Wrote, same};
use crate::model::{ContainerId, LimitKind, Limits, Runtime, Setting};
use std::collections::VecDeque;

/// How the engine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Answers,
    Refuses,
    /// Nobody answers in time, and it is done later.
    Late,
    /// Nobody answers, and it is never done.
    Deaf,
    /// Another engine answers, which has never heard of the container.
    Missing,
}

/// One of two engines, of which one answers at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    One,
    Other,
}

/// How the disk answers a promise or a forgetting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    Works,
    /// Nothing is written.
    Full,
    /// It is written, and reported as failed.
    Lies,
}

/// Settings that the engine was asked for, and when.
type Update = (u64, Vec<Setting>);

/// One container.
pub struct Thing {
    pub id: ContainerId,
    pub runtime: Runtime,
    /// Which engine it is in.
    pub engine: Which,
    /// It is governed without being adopted.
    pub has_label: bool,
    pub running: bool,
    /// Its engine has removed it.
    pub removed: bool,
    /// Counts its runs.
    pub run: u32,
    pub cgroup: Limits,
    /// What the engine will start the next run with.
    pub record: Limits,
    /// What its owner wants of this run, and of the next.
    pub wanted: Limits,
    pub wanted_next: Limits,
    /// Values that its owner set since we last agreed on originals, and when the daemon saw them.
    theirs: [Option<Option<u64>>; KINDS.len()],
    /// An update that was under way overwrote what the owner had set meanwhile: nobody can know.
    spoilt: [bool; KINDS.len()],
    /// The same in the engine's record.
    spoilt_next: [bool; KINDS.len()],
    /// What its owner had set in the cgroup alone when we came: it goes back through the engine, which keeps it.
    kept: [Vec<Setting>; KINDS.len()],
    /// Values that its owner has set once.
    used: Vec<Setting>,
    /// When its owner set each kind last.
    set_at: [u64; KINDS.len()],
    queue: VecDeque<Update>,
    /// The engine says that somebody updated it.
    pub told: u32,
}

impl Thing {
    pub fn new(number: u8, runtime: Runtime, engine: Which, has_label: bool) -> Thing {
        let limits: Limits = KINDS.into_iter().map(original).collect();
        Thing {
            id: id(number),
            runtime,
            engine,
            has_label,
            running: true,
            removed: false,
            run: 1,
            cgroup: limits,
            record: limits,
            wanted: limits,
            wanted_next: limits,
            theirs: [None; KINDS.len()],
            spoilt: [false; KINDS.len()],
            spoilt_next: [false; KINDS.len()],
            kept: Default::default(),
            used: Vec::new(),
            set_at: [0; KINDS.len()],
            queue: VecDeque::new(),
            told: 0,
        }
    }

    /// The daemon read what stands.
    pub fn seen(&mut self, at: u64) {
        for seen in self.theirs.iter_mut().flatten() {
            seen.get_or_insert(at);
        }
    }

    /// What stands is what the daemon takes for original from now on, as far as it is the same.
    pub fn agreed(&mut self, original: &Limits) {
        for kind in KINDS {
            if self.cgroup.get(kind) == original.get(kind) {
                self.theirs[place(kind)] = None;
                self.kept[place(kind)].extend(original.get(kind).filter(|original| is_an_owners(*original)));
            }
        }
    }

    /// Its owner sets a limit: by the engine, or in the cgroup alone.
    pub fn owner_sets(&mut self, at: u64, kind: LimitKind, number: u32, by_engine: bool) {
        let setting = theirs(kind, number);
        if self.used.contains(&setting) {
            return; // who sets what was original before cannot be told from whoever puts the original back
        }
        self.used.push(setting);
        let by_engine = by_engine && is_recorded(kind) && self.runtime == Runtime::Docker;
        if by_engine {
            self.record.set(setting);
            self.wanted_next.set(setting);
            self.spoilt_next[place(kind)] = false;
            self.kept[place(kind)].clear();
            self.told += 1;
        } else if !self.running {
            return;
        }
        self.spoilt[place(kind)] = false;
        self.set_at[place(kind)] = at;
        self.wanted.set(setting);
        self.theirs[place(kind)] = Some(None);
        if self.running {
            self.cgroup.set(setting);
        }
    }

    /// The system puts back what it started the run with.
    pub fn reverts(&mut self, kind: LimitKind) {
        if self.running && self.theirs[place(kind)].is_none() {
            let original = self.wanted.get(kind).expect("each kind has a value");
            self.cgroup.set(original);
        }
    }

    pub fn stops(&mut self) {
        self.running = false;
    }

    /// Its engine forgets it, with what it kept of it.
    pub fn is_removed(&mut self) {
        (self.running, self.removed) = (false, true);
        self.queue.clear();
    }

    /// The machine starts again: whatever ran has ended, and nobody remembers what was asked of them.
    pub fn reboots(&mut self) {
        self.running = false;
        self.queue.clear();
    }

    pub fn starts(&mut self) {
        if self.running || self.removed || self.runtime == Runtime::Scope {
            return; // a command has one run
        }
        let no_squeeze = original(LimitKind::MemoryHigh);
        (self.running, self.run) = (true, self.run + 1);
        (self.cgroup, self.wanted) = (self.record, self.wanted_next);
        self.cgroup.set(no_squeeze);
        self.wanted.set(no_squeeze);
        self.theirs[place(LimitKind::MemoryHigh)] = None;
        for kind in KINDS.into_iter().filter(|kind| is_recorded(*kind)) {
            let is_theirs = self.record.get(kind).is_some_and(is_an_owners);
            self.theirs[place(kind)] = self.theirs[place(kind)].filter(|_| is_theirs).map(|_| None);
        }
        self.spoilt = self.spoilt_next;
    }

    /// The engine does the oldest thing that nobody waits for any more; what came into force.
    pub fn late(&mut self) -> Result<Vec<Setting>, String> {
        match self.queue.pop_front().filter(|_| !self.removed) {
            Some((asked_at, settings)) => self.apply(asked_at, &settings),
            None => Ok(Vec::new()),
        }
    }

    /// We write. `run`: of which run the cgroup is. What came into force must have been promised.
    pub fn write(
        &mut self,
        at: u64,
        run: u32,
        settings: &[Setting],
        mood: Mood,
    ) -> Result<(Wrote, Vec<Setting>), String> {
        let of_engine = |setting: &Setting| self.runtime == Runtime::Docker && is_recorded(setting.kind());
        let (by_engine, by_cgroup): (Vec<Setting>, Vec<Setting>) = settings.iter().partition(|s| of_engine(s));
        let mut came = Vec::new();
        if !by_engine.is_empty() {
            match mood {
                Mood::Refuses => return Ok((Wrote::Failed("refused".to_owned()), came)),
                Mood::Deaf => return Ok((Wrote::Failed("no answer".to_owned()), came)),
                Mood::Late => {
                    self.queue.push_back((at, by_engine));
                    return Ok((Wrote::Failed("no answer yet".to_owned()), came));
                }
                Mood::Missing => return Ok((Wrote::Gone, came)),
                Mood::Answers if !self.running => return Ok((Wrote::Gone, came)),
                Mood::Answers => {
                    while !self.queue.is_empty() {
                        came.extend(self.late()?);
                    }
                    came.extend(self.apply(at, &by_engine)?);
                }
            }
        }
        if !self.running || self.run != run {
            return Ok((Wrote::Gone, came));
        }
        came.extend(self.apply(at, &by_cgroup)?);
        Ok((Wrote::Done, came))
    }

    /// The engine's record of one that does not run goes back, as far as it is still ours.
    pub fn return_record(
        &mut self,
        at: u64,
        known: &[Setting],
        original: &Limits,
        mood: Mood,
    ) -> Result<Record, String> {
        if self.runtime == Runtime::Scope {
            return Ok(Record::Back(Vec::new()));
        }
        match mood {
            Mood::Answers if self.removed => return Ok(Record::Back(Vec::new())),
            Mood::Answers => {}
            _ => return Ok(Record::NotNow("no answer".to_owned())),
        }
        while !self.queue.is_empty() {
            self.late()?;
        }
        if self.running {
            return Ok(Record::RunsAgain);
        }
        let is_ours = |kind: LimitKind| {
            let stands = self.record.get(kind);
            is_recorded(kind) && known.iter().any(|known| stands.is_some_and(|now| same(raised(*known), now)))
        };
        let back: Vec<Setting> =
            KINDS.into_iter().filter(|kind| is_ours(*kind)).filter_map(|kind| original.get(kind)).collect();
        self.apply(at, &back)?;
        Ok(Record::Back(Vec::new()))
    }

    /// Whether the engine keeps one of these for the next run.
    pub fn keeps(&self, known: &[Setting]) -> bool {
        self.runtime == Runtime::Docker
            && known
                .iter()
                .any(|known| is_recorded(known.kind()) && self.record.get(known.kind()) == Some(raised(*known)))
    }

    fn apply(&mut self, asked_at: u64, settings: &[Setting]) -> Result<Vec<Setting>, String> {
        let settings: Vec<Setting> = settings.iter().map(|setting| raised(*setting)).collect();
        for setting in &settings {
            let kind = setting.kind();
            if asked_at < self.set_at[place(kind)] && self.wanted.get(kind) != Some(*setting) {
                self.spoilt[place(kind)] = true; // it was under way before its owner set another value
                self.spoilt_next[place(kind)] = true;
            }
            if is_recorded(kind) {
                let is_theirs =
                    self.theirs[place(kind)].is_some() && self.record.get(kind) == self.wanted_next.get(kind);
                if is_theirs && self.record.get(kind) != Some(*setting) {
                    self.spoilt_next[place(kind)] = true;
                }
                self.record.set(*setting);
                if is_an_owners(*setting) {
                    self.kept[place(kind)].push(*setting); // an operator agreed to it
                }
            }
            if !self.running {
                continue;
            }
            let stands_theirs =
                self.cgroup.get(kind) == self.wanted.get(kind) && self.cgroup.get(kind) != Some(*setting);
            if let (Some(seen), true) = (self.theirs[place(kind)], stands_theirs) {
                if seen.is_some_and(|seen| seen < asked_at) && !self.spoilt[place(kind)] {
                    let theirs = self.cgroup.get(kind);
                    return Err(format!("{setting} overwrote what its owner had set, which was known: {theirs:?}"));
                }
                self.spoilt[place(kind)] = true;
            }
            self.cgroup.set(*setting);
        }
        Ok(settings)
    }

    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// What stands and is not as it is planned.
    pub fn lacks_plan(&self, number: u32) -> Option<String> {
        let is_off = |kind: &LimitKind| self.cgroup.get(*kind) != Some(raised(planned(*kind, number)));
        let kind = KINDS.into_iter().find(is_off)?;
        Some(format!("{} has {:?} and another value is planned", self.id.short(), self.cgroup.get(kind)))
    }

    /// What stands and is not as its owner wants it, once everything was put back.
    pub fn stands_amiss(&self) -> Option<String> {
        let is_off = |kind: &LimitKind| {
            let has = self.cgroup.get(*kind);
            has != self.wanted.get(*kind) && !self.keeps_theirs(*kind, has) && !self.spoilt[place(*kind)]
        };
        let kind = KINDS.into_iter().find(is_off).filter(|_| self.running)?;
        let (has, wants) = (self.cgroup.get(kind), self.wanted.get(kind));
        Some(format!("{} has {has:?} and its owner wants {wants:?}", self.id.short()))
    }

    fn keeps_theirs(&self, kind: LimitKind, has: Option<Setting>) -> bool {
        has.is_some_and(|has| self.kept[place(kind)].contains(&has))
    }

    /// What the engine would start the next run with, and should not.
    pub fn record_amiss(&self) -> Option<String> {
        let is_off = |kind: &LimitKind| {
            let record = self.record.get(*kind);
            // Of what its owner set in the cgroup alone, the engine's record goes back when the run ends.
            let is_of_cgroup = self.running && self.theirs[place(*kind)].is_some() || self.keeps_theirs(*kind, record);
            record != self.wanted_next.get(*kind) && !is_of_cgroup && !self.spoilt_next[place(*kind)]
        };
        let is_kept = |kind: &LimitKind| self.runtime == Runtime::Docker && !self.removed && is_recorded(*kind);
        let kind = KINDS.into_iter().filter(is_kept).find(is_off)?;
        let (has, wants) = (self.record.get(kind), self.wanted_next.get(kind));
        Some(format!("the engine's record of {} has {has:?} and its owner wants {wants:?}", self.id.short()))
    }
}
