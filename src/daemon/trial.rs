//! The sweep that a job may be a trial of.

use super::job::Job;
use model::{Group, Trial};
use std::sync::Arc;

impl Job {
    /// Identifies the sweep that it may be a trial of. A user cannot name another user's; root's and those of containers are one.
    pub(super) fn group_of(&self, user: Option<u32>) -> Option<Arc<str>> {
        match (&self.directives.group, user) {
            (Group::Single, _) => None,
            (Group::Named(name), None | Some(0)) => Some(name.as_str().into()),
            (Group::Named(name), Some(user)) => Some(format!("{user}:{name}").into()),
            (Group::SameTraining, _) => self.training.map(|training| training.to_string().into()),
        }
    }

    /// What is known of it as a trial of this sweep. Only decisions need its curve; snapshots do not show it.
    pub(crate) fn as_trial_of(&self, group: Arc<str>, is_tick: bool) -> Trial {
        let curve = if is_tick { self.tracker.curve() } else { Vec::new() };
        Trial { stop_at: self.stop_at(), ran_before: self.ran_before, ..Trial::new(group, curve) }
    }
}
