//! State of the machine, and what its parts share.

use super::event::{Effect, Intervals, LimitNotice, Memory, Piece, Readings, Remembered, RequestId, Run, Work};
use crate::{AfterRestore, LastRun, Ledger, Restore};
use model::{Adoption, ContainerId, EngineMark, EventKind, Hold, JobName, Millis, Refusal, Runtime, named};
use std::collections::{BTreeMap, BTreeSet};

/// Work items that may be open at once; beyond, they are requested again later.
pub const WORK_AT_MOST: usize = 64;

/// A governed container.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) runtime: Runtime,
    pub(super) run: Run,
    pub(super) mark: Option<EngineMark>,
    pub(super) is_deferred: bool,
    pub(super) ledger: Ledger,
}

/// State of all limits.
#[derive(Debug)]
pub struct Machine {
    pub(super) containers: BTreeMap<ContainerId, Container>,
    /// Content of the journal, as far as it is known.
    pub(super) originals: BTreeMap<ContainerId, Remembered>,
    pub(super) damaged: BTreeSet<ContainerId>,
    /// Last runs of containers whose next run the engine may start with our values.
    pub(super) ended: BTreeMap<ContainerId, LastRun>,
    pub(super) adoptions: Adoptions,
    pub(super) engine: Option<EngineMark>,
    pub(super) intervals: Intervals,
    /// An operator released everything.
    pub(super) everything_released: bool,
    /// Commands whose results are awaited.
    pub(super) waiting: Vec<Waiting>,
    /// Number of open work items.
    pub(super) open: usize,
    /// Number of those that change limits.
    pub(super) in_flight: usize,
    /// Number of those that restore everything.
    pub(super) restoring: usize,
    pub(super) stopping: bool,
    pub(super) effects: Vec<Effect>,
}

/// A client waits for the result of a command.
#[derive(Debug)]
pub(super) struct Waiting {
    pub request: RequestId,
    pub awaited: Awaited,
    pub until: Millis,
}

/// The command whose result is awaited.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Awaited {
    Release(Option<ContainerId>),
    Govern(Option<ContainerId>),
    Restore,
}

/// Adopted containers, and clients that wait for them.
#[derive(Debug, Default)]
pub(super) struct Adoptions {
    pub known: BTreeMap<ContainerId, Adoption>,
    /// Number of queries that the engine has not answered.
    pub queries: usize,
    pub awaited: BTreeMap<ContainerId, RequestId>,
    /// Containers whose limits are being restored: not to be governed again meanwhile.
    pub disowning: BTreeMap<ContainerId, RequestId>,
}

impl Machine {
    /// Creates the machine with what an earlier daemon left behind.
    pub fn new(memory: Memory, intervals: Intervals) -> Machine {
        Machine {
            containers: BTreeMap::new(),
            originals: memory.originals,
            damaged: memory.damaged,
            ended: BTreeMap::new(),
            adoptions: Adoptions { known: memory.adopted, ..Adoptions::default() },
            engine: None,
            intervals,
            everything_released: false,
            waiting: Vec::new(),
            open: 0,
            in_flight: 0,
            restoring: 0,
            stopping: false,
            effects: Vec::new(),
        }
    }

    /// Requests this work, unless too much is open already. Returns whether it was requested.
    pub(super) fn start_work(&mut self, work: Work) -> bool {
        if self.open >= WORK_AT_MOST {
            return false;
        }
        self.open += 1;
        self.in_flight += usize::from(!matches!(work, Work::Adopt(..) | Work::Disown { .. }));
        self.effects.push(Effect::Do(work));
        true
    }

    /// Records that one work item is complete.
    pub(super) fn work_done(&mut self, changed_limits: bool) {
        self.open = self.open.saturating_sub(1);
        self.in_flight = self.in_flight.saturating_sub(usize::from(changed_limits));
    }

    /// Starts to restore the limits of a container.
    pub(super) fn begin_restore(&self, id: &ContainerId, afterwards: AfterRestore) -> Option<Piece<Restore>> {
        let container = self.containers.get(id)?;
        let (operation, ask) = Restore::begin(&container.ledger, container.is_deferred, afterwards);
        let original = container.ledger.originals();
        Some(Piece { id: id.clone(), run: Some(container.run), original, operation, ask })
    }

    /// Requests a restore of these containers. If too much is open already, it is requested again later.
    pub(super) fn restore_limits(&mut self, ids: Vec<ContainerId>, afterwards: AfterRestore) {
        let pieces: Vec<Piece<Restore>> = ids.iter().filter_map(|id| self.begin_restore(id, afterwards)).collect();
        if !pieces.is_empty() {
            self.start_work(Work::Restore(pieces));
        }
    }

    pub(super) fn read(&mut self, readings: Readings) {
        for (id, current) in readings {
            if let Some(container) = self.containers.get_mut(&id) {
                container.ledger.read(current);
            }
        }
    }

    pub(super) fn emit(&mut self, kind: EventKind, about: Option<(ContainerId, String)>, text: String) {
        self.effects.push(Effect::Emit { kind, about, text });
    }

    pub(super) fn notice(&mut self, id: &ContainerId, about: LimitNotice, text: Option<String>) {
        self.effects.push(Effect::Notice(id.clone(), about, text));
    }

    pub(super) fn with_name(&self, id: &ContainerId) -> Option<(ContainerId, String)> {
        Some((id.clone(), self.containers.get(id)?.name.clone()))
    }

    /// Returns the ledger of a container.
    pub fn ledger(&self, id: &ContainerId) -> Option<&Ledger> {
        Some(&self.containers.get(id)?.ledger)
    }

    /// Returns why a container is left alone, if it is.
    pub fn hold(&self, id: &ContainerId, now: Millis) -> Option<Hold> {
        self.ledger(id)?.hold(now, self.everything_released)
    }

    /// Whether no limit is being written, so that a decision may be made.
    pub fn is_at_rest(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether an operator released everything.
    pub fn is_everything_released(&self) -> bool {
        self.everything_released
    }

    /// Finds the container with this name, id or beginning of an id.
    ///
    /// # Errors
    /// [`Refusal`] if there is none, or more than one.
    pub fn find(&self, name: &str) -> Result<ContainerId, Refusal> {
        let containers = self.containers.iter().map(|(id, container)| (id, container.name.as_str()));
        match matching(containers, name).as_slice() {
            [id] => Ok(id.clone()),
            [] => Err(Refusal::NotFound(format!("no governed container `{name}`; `flowctl ps` lists them"))),
            several => Err(ambiguous(name, several)),
        }
    }
}

/// Returns the containers that a name means, with the rule of [`named`].
pub(super) fn matching<'a>(known: impl Iterator<Item = (&'a ContainerId, &'a str)>, name: &str) -> Vec<ContainerId> {
    let known: Vec<(&ContainerId, &str)> = known.collect();
    let found = named(known.iter().map(|(id, named)| JobName::of(id.as_str(), named)), name);
    found.into_iter().map(|at| known[at].0.clone()).collect()
}

pub(super) fn ambiguous(name: &str, several: &[ContainerId]) -> Refusal {
    let ids: Vec<&str> = several.iter().map(|id| id.short()).collect();
    Refusal::Refused(format!("`{name}` names several containers: {}; use an id", ids.join(", ")))
}
