//! What the machine knows, and what all its parts do with it. Imports: events, ledger and operations, model.

use super::event::{Asker, Effect, Intervals, Memory, Piece, Readings, Remembered, Run, Work};
use crate::limits::{LastRun, Ledger, Return, Then};
use crate::model::{Adoption, ContainerId, EngineMark, EventKind, Hold, Millis, NoticeLevel, Refusal, Runtime};
use std::collections::{BTreeMap, BTreeSet};

/// Work that may be open at once; what would be more is asked for again later.
pub const WORK_AT_MOST: usize = 64;

/// A container that is governed.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) runtime: Runtime,
    pub(super) run: Run,
    pub(super) mark: Option<EngineMark>,
    pub(super) is_late: bool,
    pub(super) ledger: Ledger,
}

/// All limits, and who waits for them.
#[derive(Debug)]
pub struct Machine {
    pub(super) containers: BTreeMap<ContainerId, Container>,
    /// What the journal has, as far as it is known.
    pub(super) originals: BTreeMap<ContainerId, Remembered>,
    pub(super) damaged: BTreeSet<ContainerId>,
    pub(super) lost: bool,
    /// How containers were left whose next run an engine may start with our values.
    pub(super) ended: BTreeMap<ContainerId, LastRun>,
    pub(super) adoptions: Adoptions,
    pub(super) engine: Option<EngineMark>,
    pub(super) intervals: Intervals,
    /// An operator paused everything.
    pub(super) paused: bool,
    /// Who waits for what came of a command.
    pub(super) waiting: Vec<Waiting>,
    /// Work of which not all is known.
    pub(super) open: usize,
    /// Of it, what changes limits.
    pub(super) in_flight: usize,
    /// Of it, restores of everything.
    pub(super) restoring: usize,
    pub(super) stopping: bool,
    pub(super) effects: Vec<Effect>,
}

/// Somebody waits for what came of a command.
#[derive(Debug)]
pub(super) struct Waiting {
    pub asker: Asker,
    pub about: About,
    pub until: Millis,
}

/// What they asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum About {
    Pause(Option<ContainerId>),
    Resume(Option<ContainerId>),
    Restore,
}

/// What is adopted, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Adoptions {
    pub known: BTreeMap<ContainerId, Adoption>,
    /// Questions that the engine has not answered.
    pub questions: usize,
    pub awaited: BTreeMap<ContainerId, Asker>,
    /// Whose limits are being put back: not to be governed again meanwhile.
    pub leaving: BTreeMap<ContainerId, Asker>,
}

impl Machine {
    /// What an earlier daemon left behind is not forgotten.
    pub fn new(memory: Memory, intervals: Intervals) -> Machine {
        Machine {
            containers: BTreeMap::new(),
            originals: memory.originals,
            damaged: memory.damaged,
            lost: memory.lost,
            ended: BTreeMap::new(),
            adoptions: Adoptions { known: memory.adopted, ..Adoptions::default() },
            engine: None,
            intervals,
            paused: false,
            waiting: Vec::new(),
            open: 0,
            in_flight: 0,
            restoring: 0,
            stopping: false,
            effects: Vec::new(),
        }
    }

    /// Asks for it, unless too much is open already.
    pub(super) fn ask_for(&mut self, work: Work) -> bool {
        if self.open >= WORK_AT_MOST {
            return false;
        }
        self.open += 1;
        self.in_flight += usize::from(!matches!(work, Work::Adopt(..) | Work::Disown { .. }));
        self.effects.push(Effect::Do(work));
        true
    }

    /// The whole of one work is done.
    pub(super) fn done(&mut self, changed_limits: bool) {
        self.open = self.open.saturating_sub(1);
        self.in_flight = self.in_flight.saturating_sub(usize::from(changed_limits));
    }

    /// Begins to put back what of ours stands in a container.
    pub(super) fn returning(&self, id: &ContainerId, then: Then) -> Option<Piece<Return>> {
        let container = self.containers.get(id)?;
        let (operation, ask) = Return::begin(&container.ledger, container.is_late, then);
        let original = container.ledger.to_promise();
        Some(Piece { id: id.clone(), run: Some(container.run), original, operation, ask })
    }

    /// Asks for the originals of these; where too much is open already, a later look asks again.
    pub(super) fn return_limits(&mut self, ids: Vec<ContainerId>, then: Then) {
        let pieces: Vec<Piece<Return>> = ids.iter().filter_map(|id| self.returning(id, then)).collect();
        if !pieces.is_empty() {
            self.ask_for(Work::Return(pieces));
        }
    }

    pub(super) fn read(&mut self, readings: Readings) {
        for (id, stands) in readings {
            if let Some(container) = self.containers.get_mut(&id) {
                container.ledger.read(stands);
            }
        }
    }

    pub(super) fn emit(&mut self, kind: EventKind, about: Option<(ContainerId, String)>, text: String) {
        self.effects.push(Effect::Emit { kind, about, text });
    }

    pub(super) fn notice(&mut self, id: &ContainerId, level: NoticeLevel, text: String) {
        self.effects.push(Effect::Notice(id.clone(), level, text));
    }

    pub(super) fn named(&self, id: &ContainerId) -> Option<(ContainerId, String)> {
        Some((id.clone(), self.containers.get(id)?.name.clone()))
    }

    /// What is known of a container's limits.
    pub fn ledger(&self, id: &ContainerId) -> Option<&Ledger> {
        Some(&self.containers.get(id)?.ledger)
    }

    /// Why a container is left alone, if it is.
    pub fn hold(&self, id: &ContainerId, now: Millis) -> Option<Hold> {
        self.ledger(id)?.hold(now, self.paused)
    }

    /// Whether no limit is being written, so that a decision may be made.
    pub fn is_at_rest(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether an operator paused everything.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The container of this name, or whose id is or begins so.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn find(&self, name: &str) -> Result<ContainerId, Refusal> {
        let containers = self.containers.iter().map(|(id, container)| (id, container.name.as_str()));
        match matching(containers, name).as_slice() {
            [id] => Ok(id.clone()),
            [] => Err(Refusal::NotFound(format!("no governed container `{name}`; `flowctl ps` lists them"))),
            several => Err(ambiguous(name, several)),
        }
    }
}

/// Those that a name may mean: an id, else a name, else the beginning of ids.
pub(super) fn matching<'a>(
    known: impl Iterator<Item = (&'a ContainerId, &'a str)> + Clone,
    name: &str,
) -> Vec<ContainerId> {
    let those = |is_meant: &dyn Fn(&ContainerId, &str) -> bool| -> Vec<ContainerId> {
        known.clone().filter(|(id, named)| is_meant(id, named)).map(|(id, _)| id.clone()).collect()
    };
    let mut found = those(&|id, _| id.as_str() == name);
    if found.is_empty() {
        found = those(&|_, named| named == name);
    }
    if found.is_empty() && name.len() >= 4 {
        found = those(&|id, _| id.as_str().starts_with(name));
    }
    found
}

pub(super) fn ambiguous(name: &str, several: &[ContainerId]) -> Refusal {
    let ids: Vec<&str> = several.iter().map(|id| id.short()).collect();
    Refusal::Refused(format!("`{name}` names several containers: {}; use an id", ids.join(", ")))
}
