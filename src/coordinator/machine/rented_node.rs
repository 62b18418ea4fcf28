//! One rented node: its stage, from its label, and its volatile state.

use super::event::At;
use super::labels::{RENTED, STAGE};
use model::Millis;
use model::cluster::NodeState;
use model::swarm::{Availability, SwarmNode};
use policy::cluster::RentalState;

/// Stage of a rented node that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RentalStage {
    Closing,
    Closed,
    Opening,
}

pub(super) const STAGES: [(RentalStage, &str); 3] =
    [(RentalStage::Closing, "closing"), (RentalStage::Closed, "closed"), (RentalStage::Opening, "opening")];

/// Volatile state of a rented node.
#[derive(Clone, Debug, Default)]
pub(super) struct Rental {
    /// Since when no job uses it.
    idle_since: Option<Millis>,
    /// When it was opened, as long as it is not ready.
    opened: Option<Millis>,
    /// The node version whose change is in flight.
    pub(super) asked: Option<u64>,
    pub(super) hook: Hook,
}

/// Run of the command of the current stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Hook {
    pub(super) is_under_way: bool,
    pub(super) is_done: bool,
    pub(super) failures: u32,
    /// Earliest time of the next attempt.
    pub(super) next: Millis,
    /// Error of the last attempt.
    pub(super) error: Option<String>,
}

/// Returns the stage of a node; `None` = it is open.
pub(super) fn stage(node: &SwarmNode) -> Option<RentalStage> {
    let text = node.labels.get(STAGE)?;
    STAGES.iter().find(|(_, word)| **text == **word).map(|(stage, _)| *stage)
}

/// Whether a node may be opened and closed: it is a worker with the label [`RENTED`].
fn is_rented(node: &SwarmNode) -> bool {
    !node.is_manager && node.labels.get(RENTED).is_some_and(|value| **value == *"true")
}

impl Rental {
    /// Returns why a node is closed, closing or opening; `None` = it is open.
    pub(super) fn why_closed(&self, node: &SwarmNode) -> Option<String> {
        let text = match stage(node)? {
            RentalStage::Opening => "it is being opened for a waiting job",
            _ if node.availability == Availability::Active => return None,
            RentalStage::Closing => "it is being closed because it was idle",
            RentalStage::Closed => "it was closed because it was idle; it is opened when a job needs it",
        };
        let failed = self.hook.error.as_ref().map(|error| format!("; its command failed and will be retried: {error}"));
        Some(format!("{text}{}", failed.unwrap_or_default()))
    }

    /// Updates the idle time and returns the rental state for the policy.
    pub(super) fn rental(
        &mut self,
        node: &SwarmNode,
        state: NodeState,
        is_used: bool,
        comes_within: Millis,
        at: At,
    ) -> RentalState {
        if state == NodeState::Ready && !is_used {
            self.idle_since.get_or_insert(at.now);
        } else {
            self.idle_since = None;
        }
        if state == NodeState::Ready {
            self.opened = None;
        }
        let idle = self.idle_since.map(|since| at.now.since(since));
        let is_coming = self.opened.is_some_and(|opened| at.now.since(opened) < comes_within);
        let (has_failed, is_asked) = (self.hook.failures > 0, self.asked == Some(node.version));
        match stage(node) {
            _ if !is_rented(node) => RentalState::Ineligible,
            Some(RentalStage::Closed) if is_asked => RentalState::Opening,
            Some(RentalStage::Closed) => RentalState::Closed,
            Some(RentalStage::Opening) if !has_failed => RentalState::Opening,
            Some(_) => RentalState::Ineligible,
            None if is_asked => RentalState::Ineligible,
            None if is_coming => RentalState::Opening,
            None => RentalState::Open { idle },
        }
    }

    /// Resets the volatile state if a look shows another stage than before.
    pub(super) fn remember_stage(&mut self, before: &SwarmNode, node: &SwarmNode, at: At) {
        let was = stage(before);
        if was != stage(node) {
            self.hook = Hook::default();
            self.opened = (was == Some(RentalStage::Opening)).then_some(at.now);
        }
    }
}
