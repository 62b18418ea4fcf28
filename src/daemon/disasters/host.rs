//! The host of the simulation, which outlives the daemon: containers, journal, engine, disk and clock. It executes the steps of operations
//! as the actuator does.

use super::super::exact::{exact, has_ours, numbers_of};
use super::super::journal::{Journal, journalled_of};
use super::modes::{Disk, EngineId, EngineMode, Processes, Update};
use super::planted_bug::PlantedBug;
use super::values::{is_ours, raised};
use super::world::Container;
use docker::Conversion;
use limits::machine::{self, At};
use limits::{
    Ask, Change, EngineRecord, Journalled, Operation, Outcome, RecordResult, Restore, Step, StepResult, WriteResult,
};
use model::{Adoption, ContainerId, EngineLimits, EngineMark, LimitKind, Limits, Millis, Runtime, Setting};
use store::Original;

#[derive(Clone, Debug)]
pub(super) enum Steps {
    Change(Change),
    Restore(Box<Restore>),
}

/// An operation on one container. `run`: the run that its cgroup belongs to, if it ran; `is_governed`: the machine knows that run.
#[derive(Debug)]
pub(super) struct Piece {
    pub container: usize,
    pub run: Option<u32>,
    pub is_governed: bool,
    pub original: Journalled,
    pub steps: Steps,
    pub ask: Ask,
    /// Time at which it last read the current values; it does not know of later changes.
    pub looked: u64,
}

/// The host, which outlives a daemon.
pub(super) struct Host {
    pub containers: Vec<Container>,
    pub journal: Journal,
    /// The engine that answers, and how it answers.
    pub engine: EngineId,
    pub mode: EngineMode,
    pub disk: Disk,
    pub now: Millis,
    /// Time of the wall clock.
    pub unix_ms: u64,
    /// Number of boots.
    pub boot: u32,
    pub at: u64,
    pub planted_bug: PlantedBug,
}

pub(super) fn mark_of(engine: EngineId) -> EngineMark {
    EngineMark { id: Some(format!("{engine:?}")), socket: "/engine.sock".to_owned() }
}

/// Converts an operation of the machine to the form used here.
pub(super) trait IntoSteps {
    fn into_steps(self) -> Steps;
}

impl IntoSteps for Change {
    fn into_steps(self) -> Steps {
        Steps::Change(self)
    }
}

impl IntoSteps for Restore {
    fn into_steps(self) -> Steps {
        Steps::Restore(Box::new(self))
    }
}

impl Host {
    pub(super) fn container(&self, id: &ContainerId) -> Option<usize> {
        self.containers.iter().position(|container| container.id == *id)
    }

    /// Whether the current engine lists this container as running.
    pub(super) fn is_seen(&self, container: usize) -> bool {
        let container = &self.containers[container];
        container.running && (container.runtime == Runtime::Scope || container.engine == self.engine)
    }

    pub(super) fn piece<T: IntoSteps>(&self, piece: machine::Piece<T>) -> Piece {
        let machine::Piece { id, run, original, operation, ask } = piece;
        let container = self.container(&id).expect("a container of the simulation");
        let (run, steps) = (run.map(|(run, _)| run), operation.into_steps());
        Piece { container, run, is_governed: true, original, steps, ask, looked: 0 }
    }

    pub(super) fn moment(&self) -> At {
        At { now: self.now, unix_ms: self.unix_ms }
    }

    /// Returns how the engine answers about this container.
    pub(super) fn mode_for(&self, container: usize) -> EngineMode {
        let container = &self.containers[container];
        let is_elsewhere = container.runtime == Runtime::Docker && container.engine != self.engine;
        if is_elsewhere && self.mode == EngineMode::Answers { EngineMode::Missing } else { self.mode }
    }

    /// Stores an adoption in the journal, or removes it.
    pub(super) fn adopt(&mut self, container: usize, adoption: Option<&Adoption>) -> Result<(), String> {
        let id = self.containers[container].id.clone();
        let mut write = || match adoption {
            Some(adoption) => self.journal.adopt(&id, adoption),
            None => self.journal.disown(&id),
        };
        match self.disk {
            Disk::Full => Err("disk full".to_owned()),
            Disk::Works => write(),
            Disk::Lies => write().and(Err("disk full".to_owned())),
        }
    }

    /// Checks that our values that took effect are in the journal.
    pub(super) fn check(&mut self, container: usize, applied: &[Setting]) -> Result<(), String> {
        let id = self.containers[container].id.clone();
        for setting in applied {
            let written = self.journal.written(&id)?;
            let is_journalled = written.iter().any(|written| raised(*written) == *setting);
            if is_ours(*setting) && !is_journalled {
                return Err(format!("{setting} is in force in {} and is not in the journal", id.short()));
            }
        }
        Ok(())
    }

    /// The engine executes a pending request. Returns whether a value took effect.
    pub(super) fn late(&mut self, container: usize) -> Result<bool, String> {
        let applied = self.containers[container].late()?;
        self.check(container, &applied)?;
        Ok(!applied.is_empty())
    }

    /// Whether the engine answers a query about a container, after its pending requests.
    fn engine_answers(&mut self, container: usize) -> Result<bool, String> {
        let answers = self.mode_for(container) == EngineMode::Answers;
        while answers && self.containers[container].waits() {
            self.late(container)?;
        }
        Ok(answers)
    }

    pub(super) fn original(&self, container: usize, journalled: &Journalled) -> Original {
        let container = &self.containers[container];
        Original {
            id: container.id.clone(),
            runtime: container.runtime,
            name: container.id.short().to_owned(),
            cgroup: "/x".to_owned(),
            boot_id: self.boot.to_string(),
            started_unix_ms: u64::from(container.run),
            remembered_unix_ms: 1,
            limits: journalled.original,
            engine: journalled.engine,
            mark: (container.runtime == Runtime::Docker).then(|| mark_of(container.engine)),
        }
    }

    pub(super) fn read(&mut self, container: usize, run: Option<u32>) -> (Limits, bool) {
        let at = self.at;
        let container = &mut self.containers[container];
        if container.running && run == Some(container.run) {
            container.read_by_daemon(at);
            (container.cgroup, true)
        } else {
            (Limits::default(), false)
        }
    }

    fn forget(&mut self, container: usize) -> Result<(), String> {
        let id = self.containers[container].id.clone();
        match self.disk {
            Disk::Full => Err("disk full".to_owned()),
            Disk::Works => self.journal.forget(&id),
            Disk::Lies => self.journal.forget(&id).and(Err("disk full".to_owned())),
        }
    }

    fn update(&self, asked_at: u64, settings: Vec<Setting>, original: EngineLimits, exact: EngineLimits) -> Update {
        let is_complete = self.planted_bug != PlantedBug::LeavesOutTheRestartPolicy;
        Update { asked_at, settings, original, exact, is_complete }
    }

    /// Writes as the daemon does: to restore or accept limits, it looks into the engine's record first.
    fn write(&mut self, piece: &Piece, settings: &[Setting]) -> Result<WriteResult, String> {
        let (container, mode) = (piece.container, self.mode_for(piece.container));
        let original = piece.original.engine.unwrap_or_default();
        let mut numbers = original;
        let forgotten = match &piece.steps {
            Steps::Change(_) => &[],
            Steps::Restore(restore) => restore.forgotten(),
        };
        if !forgotten.is_empty() && self.containers[container].runtime == Runtime::Docker {
            if !self.engine_answers(container)? {
                let is_missing = mode == EngineMode::Missing;
                return Ok(if is_missing { WriteResult::Gone } else { WriteResult::Failed("no answer".to_owned()) });
            }
            let present = &self.containers[container].numbers;
            let shares = u64::try_from(present.shares).ok();
            numbers = exact(settings, forgotten, &original, Conversion::Shares, (&present.record, shares));
        }
        let update = self.update(piece.looked, settings.to_vec(), original, numbers);
        let (wrote, applied) = self.containers[container].write(piece.run.unwrap_or(0), update, mode)?;
        self.check(container, &applied)?;
        Ok(wrote)
    }

    /// Returns the engine's record as the daemon reads it, with the kernel's numbers.
    pub(super) fn numbers(&self, container: usize) -> Option<EngineLimits> {
        let Container { numbers, runtime, .. } = &self.containers[container];
        let record = (*runtime == Runtime::Docker).then_some(numbers.record);
        numbers_of(record, u64::try_from(numbers.shares).ok())
    }

    fn read_record(&mut self, piece: &Piece, known: &[Setting]) -> Result<Result<EngineRecord, String>, String> {
        let container = piece.container;
        if self.containers[container].runtime == Runtime::Docker && !self.engine_answers(container)? {
            return Ok(Err("no answer".to_owned()));
        }
        let original = piece.original.engine.unwrap_or_default();
        let record = &self.containers[container].numbers.record;
        let has_ours =
            self.containers[container].keeps(known) || has_ours(known, &original, Conversion::Shares, record);
        Ok(Ok(EngineRecord { limits: self.numbers(container), has_ours }))
    }

    /// Executes one step of an operation.
    pub(super) fn answer(&mut self, piece: &Piece) -> Result<StepResult, String> {
        let container = piece.container;
        Ok(match &piece.ask {
            Ask::Journal(_) if self.planted_bug == PlantedBug::SkipsTheJournal => {
                StepResult::Journalled(Ok(piece.original))
            }
            Ask::Journal(settings) => {
                let row = (self.original(container, &piece.original), settings.clone());
                let mut write = || self.journal.journal_changes(std::slice::from_ref(&row)).remove(0);
                StepResult::Journalled(match self.disk {
                    Disk::Full => Err("disk full".to_owned()),
                    Disk::Works => write(),
                    Disk::Lies => write().and(Err("disk full".to_owned())),
                })
            }
            Ask::Read => {
                let (mut current, runs) = self.read(container, piece.run);
                let is_elsewhere = self.containers[container].processes != Processes::InItsCgroup;
                if is_elsewhere && !piece.is_governed && self.planted_bug == PlantedBug::RestoresWhereProcessesAre {
                    [LimitKind::CpuWeight, LimitKind::CpuQuota].into_iter().for_each(|kind| current.unset(kind));
                }
                StepResult::Read { current, runs }
            }
            Ask::Write(settings) => StepResult::Wrote(self.write(piece, settings)?),
            Ask::RestoreRecord(known) => {
                let (id, mode) = (self.containers[container].id.clone(), self.mode_for(container));
                match self.journal.original(&id)? {
                    Some(original) => {
                        if self.planted_bug == PlantedBug::TrustsAMissingContainer && mode == EngineMode::Missing {
                            return Ok(StepResult::Record(RecordResult::Restored(Vec::new())));
                        }
                        let (limits, exact) = (original.limits, original.engine.unwrap_or_default());
                        let update = self.update(piece.looked, Vec::new(), exact, exact);
                        StepResult::Record(self.containers[container].restore_record(known, &limits, update, mode)?)
                    }
                    None => StepResult::Record(RecordResult::Restored(Vec::new())),
                }
            }
            Ask::ReadRecord(known) => StepResult::ReadRecord(self.read_record(piece, known)?),
            Ask::Forget => StepResult::Forgot(self.forget(container)),
        })
    }
}

pub(super) fn next(piece: Piece, answer: StepResult) -> Result<Piece, Box<Outcome>> {
    let Piece { container, run, is_governed, original, steps, looked, .. } = piece;
    let step = match steps {
        Steps::Change(change) => match change.answer(answer) {
            Step::Ask(change, ask) => Ok((Steps::Change(change), ask)),
            Step::Done(outcome) => Err(outcome),
        },
        Steps::Restore(restore) => match restore.answer(answer) {
            Step::Ask(restore, ask) => Ok((Steps::Restore(Box::new(restore)), ask)),
            Step::Done(outcome) => Err(outcome),
        },
    };
    step.map(|(steps, ask)| Piece { container, run, is_governed, original, steps, ask, looked })
}

pub(super) fn of_record(container: usize, original: &Original, written: Vec<Setting>) -> Piece {
    let original = journalled_of(original);
    let (steps, ask) = Restore::of_record(original, written);
    Piece { container, run: None, is_governed: false, original, steps: Steps::Restore(Box::new(steps)), ask, looked: 0 }
}

/// Starts a restore as `flowcond restore` finds the container; `None`: it cannot be found now, or is not in the journal.
pub(super) fn find(host: &mut Host, container: usize) -> Result<Option<Piece>, String> {
    let is_engines = host.containers[container].runtime == Runtime::Docker;
    if is_engines && !host.engine_answers(container)? {
        return Ok(None);
    }
    let Container { id, running, run, .. } = &host.containers[container];
    let Some(original) = host.journal.original(id)? else { return Ok(None) };
    let written = host.journal.written(id)?;
    let is_of_this_boot = is_engines || original.boot_id == host.boot.to_string();
    if !running || !is_of_this_boot {
        return Ok(Some(of_record(container, &original, written)));
    }
    let journalled = journalled_of(&original);
    let (restore, ask) = Restore::of_journal(journalled, written, is_engines);
    let (run, steps) = (Some(*run), Steps::Restore(Box::new(restore)));
    Ok(Some(Piece { container, run, is_governed: false, original: journalled, steps, ask, looked: 0 }))
}

/// Restores all containers as `flowcond restore` does without a daemon.
pub(super) fn restore_alone(host: &mut Host) -> Result<(), String> {
    for container in 0..host.containers.len() {
        let Some(mut piece) = find(host, container)? else { continue };
        loop {
            let answer = host.answer(&piece)?;
            match next(piece, answer) {
                Ok(further) => piece = further,
                Err(_) => break,
            }
        }
    }
    Ok(())
}
