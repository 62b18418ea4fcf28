//! The parts of the world that the daemon does not control: kernel, engine, disk and owners of containers.
//!
//! The engine executes the requests for one container in order, including those whose caller no longer waits, and answers queries about
//! the container after that.

use super::super::testing::id;
use super::modes::{EngineId, EngineMode, Processes, Update};
use super::numbers::Numbers;
use super::values::{KINDS, is_an_owners, is_recorded, of_owner, original, place, planned, raised};
use limits::{RecordResult, WriteResult, same};
use model::{ContainerId, LimitKind, Limits, Runtime, Setting};
use std::collections::VecDeque;

/// A container.
pub(super) struct Container {
    pub id: ContainerId,
    pub runtime: Runtime,
    /// Engine that runs it.
    pub engine: EngineId,
    /// Whether it is governed without an adoption.
    pub has_label: bool,
    pub running: bool,
    /// Whether its engine has removed it.
    pub removed: bool,
    /// Number of its runs.
    pub run: u32,
    pub cgroup: Limits,
    /// Limits with which the engine will start the next run.
    pub record: Limits,
    /// Limits that its owner wants for this run, and for the next.
    pub wanted: Limits,
    pub wanted_next: Limits,
    /// Kinds that its owner set since the original was last agreed, with the time at which the daemon read the value.
    set_by_owner: [Option<Option<u64>>; KINDS.len()],
    /// Kinds for which an update in flight overwrote the owner's value, which the daemon cannot detect.
    spoilt: [bool; KINDS.len()],
    /// The same for the engine's record.
    spoilt_next: [bool; KINDS.len()],
    /// Values that its owner had set only in the cgroup when it was found: they are restored through the engine, which keeps them.
    accepted: [Vec<Setting>; KINDS.len()],
    /// Values that its owner has used.
    used: Vec<Setting>,
    /// Time at which its owner last set each kind.
    set_at: [u64; KINDS.len()],
    queue: VecDeque<Update>,
    /// The limits in the units of engine and kernel.
    pub numbers: Numbers,
    pub processes: Processes,
    /// Whether its restart policy is as its owner set it. Podman 5 resets what an update does not name.
    keeps_policy: bool,
    /// Time at which somebody other than the daemon last changed anything.
    pub disturbed_at: u64,
    /// Number of updates by the owner that the engine reported.
    pub updates_reported: u32,
    /// Whether its owner or the system ever changed a limit.
    pub was_changed_by_others: bool,
}

impl Container {
    pub(super) fn new(number: u8, runtime: Runtime, engine: EngineId, has_label: bool) -> Container {
        let limits: Limits = KINDS.into_iter().map(original).collect();
        Container {
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
            set_by_owner: [None; KINDS.len()],
            spoilt: [false; KINDS.len()],
            spoilt_next: [false; KINDS.len()],
            accepted: Default::default(),
            used: Vec::new(),
            set_at: [0; KINDS.len()],
            queue: VecDeque::new(),
            numbers: Numbers::new(),
            processes: Processes::InItsCgroup,
            keeps_policy: true,
            disturbed_at: 0,
            updates_reported: 0,
            was_changed_by_others: false,
        }
    }

    /// The daemon reads the current values.
    pub(super) fn read_by_daemon(&mut self, at: u64) {
        for read_by_daemon in self.set_by_owner.iter_mut().flatten() {
            read_by_daemon.get_or_insert(at);
        }
    }

    /// The daemon takes `original` as the original from now on, where it equals the current value.
    pub(super) fn agreed(&mut self, original: &Limits) {
        for kind in KINDS {
            if self.cgroup.get(kind) == original.get(kind) {
                self.set_by_owner[place(kind)] = None;
                self.accepted[place(kind)].extend(original.get(kind).filter(|original| is_an_owners(*original)));
            }
        }
    }

    /// The owner sets a limit, through the engine or only in the cgroup.
    pub(super) fn owner_sets(&mut self, at: u64, kind: LimitKind, number: u32, by_engine: bool) {
        let setting = of_owner(kind, number);
        if self.used.contains(&setting) {
            return; // setting an earlier original again is indistinguishable from a restore
        }
        let by_engine = by_engine && is_recorded(kind) && self.runtime == Runtime::Docker;
        if !by_engine && !self.running || !self.numbers.owner_sets(setting, number, by_engine, self.running) {
            return;
        }
        self.used.push(setting);
        (self.was_changed_by_others, self.disturbed_at) = (true, at);
        if by_engine {
            self.record.set(setting);
            self.wanted_next.set(setting);
            self.spoilt_next[place(kind)] = false;
            self.accepted[place(kind)].clear();
            self.updates_reported += 1;
        }
        self.spoilt[place(kind)] = false;
        self.set_at[place(kind)] = at;
        self.wanted.set(setting);
        self.set_by_owner[place(kind)] = Some(None);
        if self.running {
            self.cgroup.set(setting);
        }
    }

    /// The system restores the value with which the run started.
    pub(super) fn reverts(&mut self, kind: LimitKind) {
        if self.running && self.set_by_owner[place(kind)].is_none() {
            let original = self.wanted.get(kind).expect("each kind has a value");
            self.cgroup.set(original);
            self.was_changed_by_others = true;
            if kind == LimitKind::CpuWeight {
                self.numbers.reverts();
            }
        }
    }

    /// The owner moves the processes of a run.
    pub(super) fn moves(&mut self, at: u64, processes: Processes) {
        if self.running {
            (self.processes, self.disturbed_at) = (processes, at);
        }
    }

    pub(super) fn stops(&mut self) {
        self.running = false;
    }

    /// The engine removes the container and its record.
    pub(super) fn is_removed(&mut self) {
        (self.running, self.removed) = (false, true);
        self.queue.clear();
    }

    /// The host reboots: all containers end, and pending requests are lost.
    pub(super) fn reboots(&mut self) {
        self.running = false;
        self.queue.clear();
    }

    pub(super) fn starts(&mut self) {
        if self.running || self.removed || self.runtime == Runtime::Scope {
            return; // a command runs once
        }
        let no_squeeze = original(LimitKind::MemoryHigh);
        (self.running, self.run) = (true, self.run + 1);
        (self.cgroup, self.wanted) = (self.record, self.wanted_next);
        self.processes = Processes::InItsCgroup;
        self.numbers.starts();
        self.cgroup.set(no_squeeze);
        self.wanted.set(no_squeeze);
        self.set_by_owner[place(LimitKind::MemoryHigh)] = None;
        for kind in KINDS.into_iter().filter(|kind| is_recorded(*kind)) {
            let is_of_owner = self.record.get(kind).is_some_and(is_an_owners);
            self.set_by_owner[place(kind)] = self.set_by_owner[place(kind)].filter(|_| is_of_owner).map(|_| None);
        }
        self.spoilt = self.spoilt_next;
    }

    /// The engine executes the oldest pending request. Returns the values that took effect.
    pub(super) fn late(&mut self) -> Result<Vec<Setting>, String> {
        match self.queue.pop_front().filter(|_| !self.removed) {
            Some(update) if self.numbers.accepts(&update.exact, &update.settings).is_ok() => self.update(&update),
            _ => Ok(Vec::new()),
        }
    }

    /// The daemon writes to the cgroup of this run. Returns the values that took effect, which must be in the journal.
    pub(super) fn write(
        &mut self,
        run: u32,
        update: Update,
        mode: EngineMode,
    ) -> Result<(WriteResult, Vec<Setting>), String> {
        let of_engine = |setting: &Setting| self.runtime == Runtime::Docker && update.asks_engine(*setting);
        let (by_engine, by_cgroup): (Vec<Setting>, Vec<Setting>) = update.settings.iter().partition(|s| of_engine(s));
        let (mut applied, is_this_run) = (Vec::new(), self.running && self.run == run);
        if is_this_run {
            by_cgroup.iter().for_each(|setting| self.numbers.write(&update.exact, *setting));
            applied.extend(self.apply(update.asked_at, &by_cgroup, false)?);
        }
        if !by_engine.is_empty() {
            let update = Update { settings: by_engine, ..update };
            match mode {
                EngineMode::Refuses => return Ok((WriteResult::Failed("refused".to_owned()), applied)),
                EngineMode::Silent => return Ok((WriteResult::Failed("no answer".to_owned()), applied)),
                EngineMode::Late => {
                    self.queue.push_back(update);
                    return Ok((WriteResult::Failed("no answer yet".to_owned()), applied));
                }
                EngineMode::Missing => return Ok((WriteResult::Gone, applied)),
                EngineMode::Answers if !self.running => return Ok((WriteResult::Gone, applied)),
                EngineMode::Answers => {
                    while !self.queue.is_empty() {
                        applied.extend(self.late()?);
                    }
                    if let Err(why) = self.numbers.accepts(&update.exact, &update.settings) {
                        return Ok((WriteResult::Failed(why), applied));
                    }
                    applied.extend(self.update(&update)?);
                }
            }
        }
        Ok((if is_this_run { WriteResult::Done } else { WriteResult::Gone }, applied))
    }

    /// Restores the engine's record of a container that does not run, where it has values of ours.
    pub(super) fn restore_record(
        &mut self,
        known: &[Setting],
        original: &Limits,
        update: Update,
        mode: EngineMode,
    ) -> Result<RecordResult, String> {
        if self.runtime == Runtime::Scope {
            return Ok(RecordResult::Restored(Vec::new()));
        }
        match mode {
            EngineMode::Answers if self.removed => return Ok(RecordResult::Restored(Vec::new())),
            EngineMode::Answers => {}
            _ => return Ok(RecordResult::Failed("no answer".to_owned())),
        }
        while !self.queue.is_empty() {
            self.late()?;
        }
        if self.running {
            return Ok(RecordResult::RunsAgain);
        }
        let is_ours = |kind: LimitKind| {
            let current = self.record.get(kind);
            let is_found = |known: &Setting| current.is_some_and(|now| same(raised(*known), now));
            known.iter().any(|known| update.asks_engine(*known) && is_found(known))
        };
        let settings: Vec<Setting> =
            KINDS.into_iter().filter(|kind| is_ours(*kind)).filter_map(|kind| original.get(kind)).collect();
        let update = Update { settings, ..update };
        if let Err(why) = self.numbers.accepts(&update.exact, &update.settings) {
            return Ok(RecordResult::Failed(why));
        }
        self.update(&update)?;
        Ok(RecordResult::Restored(Vec::new()))
    }

    /// Whether the engine keeps one of these values for the next run.
    pub(super) fn keeps(&self, known: &[Setting]) -> bool {
        self.runtime == Runtime::Docker
            && known
                .iter()
                .any(|known| is_recorded(known.kind()) && self.record.get(known.kind()) == Some(raised(*known)))
    }

    /// The engine carries out a request that it accepts.
    fn update(&mut self, update: &Update) -> Result<Vec<Setting>, String> {
        for setting in &update.settings {
            self.numbers.update(&update.exact, *setting, self.running)?;
        }
        self.keeps_policy &= update.is_complete || update.settings.is_empty() || self.engine == EngineId::One;
        if !self.keeps_policy {
            return Err(format!("an update has reset the restart policy of {}", self.id.short()));
        }
        self.apply(update.asked_at, &update.settings, true)
    }

    fn apply(&mut self, asked_at: u64, settings: &[Setting], by_engine: bool) -> Result<Vec<Setting>, String> {
        let settings: Vec<Setting> = settings.iter().map(|setting| raised(*setting)).collect();
        for setting in &settings {
            let kind = setting.kind();
            if asked_at < self.set_at[place(kind)] && self.wanted.get(kind) != Some(*setting) {
                self.spoilt[place(kind)] = true; // in flight before its owner set another value
                self.spoilt_next[place(kind)] = true;
            }
            if by_engine {
                let is_of_owner =
                    self.set_by_owner[place(kind)].is_some() && self.record.get(kind) == self.wanted_next.get(kind);
                if is_of_owner && self.record.get(kind) != Some(*setting) {
                    self.spoilt_next[place(kind)] = true;
                }
                self.record.set(*setting);
                if is_an_owners(*setting) {
                    self.accepted[place(kind)].push(*setting); // an operator agreed to it
                }
            }
            if !self.running {
                continue;
            }
            let owner_value_in_force =
                self.cgroup.get(kind) == self.wanted.get(kind) && self.cgroup.get(kind) != Some(*setting);
            if let (Some(read_by_daemon), true) = (self.set_by_owner[place(kind)], owner_value_in_force) {
                if read_by_daemon.is_some_and(|read_by_daemon| read_by_daemon < asked_at) && !self.spoilt[place(kind)] {
                    let theirs = self.cgroup.get(kind);
                    return Err(format!("{setting} overwrote the owner's value {theirs:?}, which the daemon had read"));
                }
                self.spoilt[place(kind)] = true;
            }
            self.cgroup.set(*setting);
        }
        Ok(settings)
    }

    pub(super) fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Describes a current value that differs from the plan.
    pub(super) fn plan_violation(&self, number: u32) -> Option<String> {
        let is_off = |kind: &LimitKind| self.cgroup.get(*kind) != Some(raised(planned(*kind, number)));
        let kind = KINDS.into_iter().find(is_off)?;
        Some(format!("{} has {:?}, and another value is planned", self.id.short(), self.cgroup.get(kind)))
    }

    /// Describes a current value that differs from what the owner wants, after a restore.
    pub(super) fn limit_violation(&self) -> Option<String> {
        let is_off = |kind: &LimitKind| {
            let has = self.cgroup.get(*kind);
            has != self.wanted.get(*kind) && !self.is_accepted(*kind, has) && !self.spoilt[place(*kind)]
        };
        let running = || KINDS.into_iter().filter(|_| self.running);
        if let Some(kind) = running().find(is_off) {
            let (has, wants) = (self.cgroup.get(kind), self.wanted.get(kind));
            return Some(format!("{} has {has:?}, and its owner wants {wants:?}", self.id.short()));
        }
        let is_owners =
            |kind: &LimitKind| self.cgroup.get(*kind) == self.wanted.get(*kind) && !self.spoilt[place(*kind)];
        let numbers = running().filter(is_owners).find_map(|kind| self.numbers.violation(kind))?;
        Some(format!("{} has {numbers}", self.id.short()))
    }

    fn is_accepted(&self, kind: LimitKind, has: Option<Setting>) -> bool {
        has.is_some_and(|has| self.accepted[place(kind)].contains(&has))
    }

    /// Describes a value in the engine's record that differs from what the owner wants.
    pub(super) fn record_violation(&self) -> Option<String> {
        let is_off = |kind: &LimitKind| {
            let record = self.record.get(*kind);
            // If the owner set only the cgroup, the engine's record is restored when the run ends.
            let is_of_cgroup =
                self.running && self.set_by_owner[place(*kind)].is_some() || self.is_accepted(*kind, record);
            record != self.wanted_next.get(*kind) && !is_of_cgroup && !self.spoilt_next[place(*kind)]
        };
        let is_kept = |kind: &LimitKind| self.runtime == Runtime::Docker && !self.removed && is_recorded(*kind);
        let id = self.id.short();
        if let Some(kind) = KINDS.into_iter().filter(is_kept).find(is_off) {
            let (has, wants) = (self.record.get(kind), self.wanted_next.get(kind));
            return Some(format!("the engine's record of {id} has {has:?}, and its owner wants {wants:?}"));
        }
        let is_owners =
            |kind: &LimitKind| self.record.get(*kind) == self.wanted_next.get(*kind) && !self.spoilt_next[place(*kind)];
        let mut kept = KINDS.into_iter().filter(is_kept).filter(is_owners);
        let numbers = kept.find_map(|kind| self.numbers.record_violation(kind))?;
        Some(format!("the engine's record of {id} has {numbers}"))
    }
}
