//! Sweeps in the history.

use super::name_of;
use api::wire::{JobRecord, Parameter};

/// A sweep of the past, with the runs of its trials in the order of their discovery.
pub(crate) struct PastSweep<'a> {
    /// Its name, as in `flowctl sweep`.
    pub(crate) name: String,
    /// Its trials.
    pub(crate) trials: Vec<&'a JobRecord>,
}

impl PastSweep<'_> {
    /// Whether it has this name, or a trial has.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let is_trial = |trial: &&JobRecord| trial.name == name || trial.id == name || trial.short_id == name;
        self.name == name || self.trials.iter().any(is_trial)
    }
}

/// The sweeps of these jobs, in the order of their first trials.
pub(crate) fn past_sweeps<'a>(jobs: impl IntoIterator<Item = &'a JobRecord>) -> Vec<PastSweep<'a>> {
    let mut groups: Vec<(&str, Vec<&JobRecord>)> = Vec::new();
    for job in jobs {
        let Some(trial) = &job.trial else { continue };
        match groups.iter_mut().find(|(group, _)| *group == trial.group) {
            Some((_, trials)) => trials.push(job),
            None => groups.push((&trial.group, vec![job])),
        }
    }
    let named = |trials: Vec<&'a JobRecord>| {
        let given = trials.iter().find_map(|job| job.trial.as_ref()?.group_name.as_deref());
        let names: Vec<&str> = trials.iter().map(|job| job.name.as_str()).collect();
        PastSweep { name: name_of(given, &names), trials }
    };
    groups.into_iter().map(|(_, trials)| named(trials)).collect()
}

/// The numbers in the command of a job.
pub(crate) fn parameters_of(job: &JobRecord) -> &[Parameter] {
    job.trial.as_ref().map_or(&[], |trial| &trial.parameters)
}
