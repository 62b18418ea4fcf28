//! One rented node: its stage as its label says it, and what is remembered of it. Imports: event, labels, model, policy.

use super::event::At;
use super::labels::{RENTED, STAGE};
use crate::model::Millis;
use crate::model::cluster::NodeState;
use crate::model::swarm::{Availability, SwarmNode};
use crate::policy::cluster::RentalState;

/// How a rented node goes from open to closed and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Closing,
    Closed,
    Opening,
}

pub(super) const STAGES: [(Stage, &str); 3] =
    [(Stage::Closing, "closing"), (Stage::Closed, "closed"), (Stage::Opening, "opening")];

/// What is remembered of a rented node; nothing of it lasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Rental {
    /// Since when nothing of any job is there.
    idle_since: Option<Millis>,
    /// When it was opened, until it is ready.
    opened: Option<Millis>,
    /// The version whose change is under way.
    pub(super) asked: Option<u64>,
    pub(super) hook: Hook,
}

/// The command of the present stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Hook {
    pub(super) is_under_way: bool,
    pub(super) is_done: bool,
    pub(super) failures: u32,
    /// Not to be run again before.
    pub(super) next: Millis,
    pub(super) said: Option<String>,
}

/// How far a node is with closing or opening; `None` = it is open.
pub(super) fn stage(node: &SwarmNode) -> Option<Stage> {
    let text = node.labels.get(STAGE)?;
    STAGES.iter().find(|(_, word)| **text == **word).map(|(stage, _)| *stage)
}

/// Whether its operator lets it be opened and closed.
fn is_rented(node: &SwarmNode) -> bool {
    !node.is_manager && node.labels.get(RENTED).is_some_and(|value| **value == *"true")
}

impl Rental {
    /// Why a node is closed, or on its way there or back; `None` = it is open.
    pub(super) fn why_closed(&self, node: &SwarmNode) -> Option<String> {
        let text = match stage(node)? {
            Stage::Opening => "it is being opened for a job that waits",
            _ if node.availability == Availability::Active => return None,
            Stage::Closing => "nobody needed it: it is being closed",
            Stage::Closed => "nobody needed it: it is closed until a job waits for it",
        };
        let failed = self.hook.said.as_ref().map(|said| format!("; its command failed, and is run again: {said}"));
        Some(format!("{text}{}", failed.unwrap_or_default()))
    }

    /// What a node is to whoever rents it.
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
            Some(Stage::Closed) if is_asked => RentalState::Opening,
            Some(Stage::Closed) => RentalState::Closed,
            Some(Stage::Opening) if !has_failed => RentalState::Opening,
            Some(_) => RentalState::Ineligible,
            None if is_asked => RentalState::Ineligible,
            None if is_coming => RentalState::Opening,
            None => RentalState::Open { idle },
        }
    }

    /// A look shows a node, maybe in another stage than before.
    pub(super) fn remember_stage(&mut self, before: &SwarmNode, node: &SwarmNode, at: At) {
        let was = stage(before);
        if was != stage(node) {
            self.hook = Hook::default();
            self.opened = (was == Some(Stage::Opening)).then_some(at.now);
        }
    }
}
