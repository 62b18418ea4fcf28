//! What is kept of containers that ended, in case they start again.
//!
//! An engine keeps our update over a restart of the container. Its record is put back when the container ends, but an engine that
//! is going down itself, or slow, lets the container start again first: then what stands in the new run is our leftover, and its
//! original is the one of the run before. Imports: host's clock and store, model.

use super::job::Job;
use super::target::stands_in;
use crate::host::node;
use crate::host::store::LogPlace;
use crate::model::{ContainerId, EngineLimits, Limits, Millis, Runtime, Setting};
use std::collections::BTreeMap;

/// What was asked of an engine that went down waits at its socket: the next one may still do it, in the middle of the new run. Until then.
const LATE_AT_MOST: Millis = Millis::from_secs(60);

/// Containers beyond this many are forgotten, the oldest id first.
const KEPT_AT_MOST: usize = 4096;

/// What an engine may still do that we asked of it for the last run, or the return of what that run had.
#[derive(Debug)]
pub(super) struct Late {
    pub until: Millis,
    pub asked: Vec<Setting>,
}

#[derive(Default)]
pub(super) struct Ended {
    last: BTreeMap<ContainerId, LastRun>,
}

/// How a container was left.
#[derive(Default)]
struct LastRun {
    place: Option<LogPlace>,
    original: Limits,
    engine_limits: Option<EngineLimits>,
    /// What we wrote.
    ours: Vec<Setting>,
    /// What we asked for without knowing what became of it.
    unsettled: Vec<Setting>,
}

impl Ended {
    /// Keeps what a next run of this container needs.
    pub fn keep(&mut self, job: &Job) {
        let of_engine = |settings: &[Setting]| match job.target.runtime {
            Runtime::Docker => settings.to_vec(),
            Runtime::Scope => Vec::new(),
        };
        let last = LastRun {
            place: job.place,
            original: job.target.original,
            engine_limits: job.target.engine_limits,
            ours: of_engine(&job.target.ours),
            unsettled: of_engine(&job.unsettled),
        };
        self.last.insert(job.id().clone(), last);
        if self.last.len() > KEPT_AT_MOST {
            self.last.pop_first();
        }
    }

    /// Its log was read on after its end.
    pub fn read_on(&mut self, job: &Job) {
        if let Some(last) = self.last.get_mut(job.id()) {
            last.place = job.place;
        }
    }

    /// Gives a container that was just found what was kept of its last run. What the journal said already stands.
    pub fn return_to(&mut self, job: &mut Job) {
        let Some(last) = self.last.remove(job.id()) else { return };
        job.place = job.place.or(last.place);
        if !job.target.ours.is_empty() {
            return;
        }
        let (original, leftover) = last.taken_off(&job.target.original);
        if !leftover.is_empty() || !last.unsettled.is_empty() {
            job.late = Some(Late { until: node::now().after(LATE_AT_MOST), asked: last.unsettled });
        }
        if !leftover.is_empty() {
            job.target.original = original;
            job.target.engine_limits = last.engine_limits;
            job.target.ours = leftover;
        }
    }
}

impl LastRun {
    /// The limits that stand in the new run without what we left in them, and that.
    fn taken_off(&self, stands: &Limits) -> (Limits, Vec<Setting>) {
        let leftover: Vec<Setting> =
            self.ours.iter().chain(&self.unsettled).copied().filter(|ours| stands_in(stands, *ours)).collect();
        let mut original = *stands;
        for setting in &leftover {
            match setting {
                Setting::CpuWeight(_) => original.cpu_weight = self.original.cpu_weight,
                Setting::CpuQuota(_) => original.cpu_quota = self.original.cpu_quota,
                Setting::MemoryLow(_) => original.memory_low = self.original.memory_low,
                Setting::MemoryHigh(_) => original.memory_high = self.original.memory_high,
                Setting::IoWeight(_) => original.io_weight = self.original.io_weight,
            }
        }
        (original, leftover)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, CpuWeight};

    fn limits(weight: f64, low: u64) -> Limits {
        Limits { cpu_weight: Some(CpuWeight::clamped(weight)), memory_low: Some(Bytes(low << 20)), ..Limits::default() }
    }

    fn last_run() -> LastRun {
        let ours = vec![Setting::CpuWeight(CpuWeight::clamped(117.0)), Setting::MemoryLow(Bytes(64 << 20))];
        LastRun { original: limits(30.0, 20), ours, ..LastRun::default() }
    }

    #[test]
    fn a_weight_that_the_engine_kept_of_ours_is_not_taken_for_the_owners() {
        let (original, leftover) = last_run().taken_off(&limits(117.0, 20));
        assert_eq!(original, limits(30.0, 20));
        assert_eq!(leftover, [Setting::CpuWeight(CpuWeight::clamped(117.0))]);
    }

    #[test]
    fn what_was_asked_of_an_engine_that_went_down_may_stand_in_the_next_run_too() {
        let unsettled = vec![Setting::CpuWeight(CpuWeight::clamped(159.0))];
        let last = LastRun { unsettled: unsettled.clone(), ..last_run() };
        assert_eq!(last.taken_off(&limits(159.0, 20)), (limits(30.0, 20), unsettled));
    }

    #[test]
    fn what_the_owner_set_between_two_runs_is_the_new_original() {
        let (original, leftover) = last_run().taken_off(&limits(500.0, 30));
        assert_eq!(original, limits(500.0, 30));
        assert_eq!(leftover, []);
    }
}
