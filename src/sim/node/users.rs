//! What each user has used on the virtual node. A schedule is short beside the half-life with which a daemon forgets use, so nothing is
//! forgotten here.

use super::state::State;
use crate::job::Job;
use model::UserObservation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The users of all jobs that ever ran, ordered by name, with the CPU-seconds that these have used.
pub(super) fn observed(jobs: &[Arc<Job>], states: &[State]) -> Vec<UserObservation> {
    let mut used: BTreeMap<&str, f64> = BTreeMap::new();
    for (job, state) in jobs.iter().zip(states) {
        if let Some(user) = &job.plan.user {
            *used.entry(user).or_default() += state.cpu;
        }
    }
    used.into_iter().map(|(name, used)| UserObservation { name: name.to_owned(), weight: 1.0, used }).collect()
}
