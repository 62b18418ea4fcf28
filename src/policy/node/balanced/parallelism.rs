//! Parallelism of a job: the number of cores that it can use at once. A job may have one thread or two loaders, or wait for the disk half
//! of the time.
//!
//! Shares are soft, so a job that used less than it was offered, without waiting for CPU, can use no more. From then on it is offered that
//! and a little more, so that growth is noticed. The rest goes to the next job in rank, instead of to all jobs by weight.
//!
//! A job that imports and loads uses one core, whatever its training uses later, so its first report of progress ends this estimate.

use model::{ContainerObservation, CpuTime, Millis, RunState};
use serde::{Deserialize, Serialize};

/// A job that used less than this part of its offer cannot use more.
const SATISFIED_BELOW: f64 = 0.85;

/// A job that waited for CPU for more than this part of the time (PSI) wanted more.
const WAITED: f64 = 0.1;

/// Weight of a new lower measurement against the previous estimate.
const SHRINK: f64 = 0.25;

/// A job that used all of its offer may use this multiple of it.
const GROWTH: f64 = 1.5;

/// The offer as a multiple of the usable cores.
const HEADROOM: f64 = 1.1;

/// PSI is a mean over ten seconds: this long after a larger offer it still includes the time of the smaller one.
const PRESSURE_LAGS: Millis = Millis::from_secs(10);

/// An offer is new if it exceeds this multiple of the last one.
const MORE: f64 = 1.5;

/// Shorter intervals are not measured.
pub(super) const LEAST_INTERVAL: Millis = Millis(1000);

/// Parallelism of one container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Parallelism {
    mark: Option<(Millis, CpuTime)>,
    /// The last observation, if it had a CPU counter.
    #[serde(default)]
    seen: Option<(Millis, CpuTime)>,
    /// Least and most cores offered since the mark.
    offered: Option<(f64, f64)>,
    /// The last offer, and since when offers have been about as large.
    #[serde(default)]
    latest: Option<(f64, Millis)>,
    /// Cores that it can use, once it has had more than enough.
    usable: Option<f64>,
    /// Whether it has reported progress: its start has ended.
    #[serde(default)]
    has_started: bool,
}

impl Parallelism {
    /// Takes one tick's observation. Returns the cores to offer; `None` = as many as there are. `kept` is the part of the last offer that
    /// was available: ungoverned neighbours may have used the rest.
    pub(super) fn after(&mut self, now: Millis, container: &ContainerObservation, kept: f64) -> Option<f64> {
        if !self.has_started && container.learning.progress.is_some_and(|progress| progress.current > 0.0) {
            *self = Parallelism { has_started: true, latest: self.latest, ..Parallelism::default() };
        }
        self.seen = container.usage.cpu.map(|cpu| (now, cpu));
        let (_, cpu) = self.seen?;
        let (at, before) = *self.mark.get_or_insert((now, cpu));
        if at > now || before > cpu || container.state != RunState::Running {
            self.mark = Some((now, cpu));
        } else if now.since(at) >= LEAST_INTERVAL {
            self.mark = Some((now, cpu));
            let used = cpu.since(before).as_secs_f64() / now.since(at).as_secs_f64();
            let lags = self.latest.is_some_and(|(_, since)| now.since(since) < PRESSURE_LAGS);
            self.judge(used, container.usage.pressure.cpu.filter(|_| !lags), kept);
        }
        self.usable.map(|usable| HEADROOM * usable)
    }

    fn judge(&mut self, used: f64, waited: Option<f64>, kept: f64) {
        let Some((least, most)) = self.offered.take() else { return };
        let least = kept * least;
        let satisfied = used < SATISFIED_BELOW * least && waited.is_none_or(|waited| waited < WAITED);
        match self.usable {
            // A pause for loading or a checkpoint lowers the estimate only gradually.
            Some(usable) if satisfied => self.usable = Some(used.max(usable + SHRINK * (used - usable))),
            None if satisfied => self.usable = Some(used),
            // It uses more than estimated. A job that used all of its offer may use still more.
            Some(usable) if used > usable => self.usable = Some(if used > most { GROWTH * used } else { used }),
            Some(_) | None => {}
        }
    }

    /// Records that the job may use this many cores from `now` until the next tick, whatever the other jobs use.
    pub(super) fn offer(&mut self, now: Millis, cores: f64) {
        let since = self.latest.filter(|(before, _)| cores <= MORE * before).map(|(_, since)| since);
        if since.is_none() {
            (self.mark, self.offered) = (self.seen, None);
        }
        self.offered = Some(self.offered.map_or((cores, cores), |(least, most)| (least.min(cores), most.max(cores))));
        self.latest = Some((cores, since.unwrap_or(now)));
    }

    /// Whether the next tick, [`LEAST_INTERVAL`] from now, may be the first to measure the parallelism.
    pub(super) fn is_about_to_be_measured(&self, now: Millis) -> bool {
        self.usable.is_none() && self.latest.is_some_and(|(_, since)| now.since(since) < LEAST_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Progress, ProgressUnit};

    /// The estimate after these offers and uses, in cores, one pair per second.
    fn after(history: &[(f64, f64)]) -> Option<f64> {
        let mut parallelism = Parallelism::default();
        for (offered, used) in history {
            parallelism.offer(Millis(0), *offered);
            parallelism.judge(*used, None, 1.0);
        }
        parallelism.usable.map(|usable| (usable * 100.0).round() / 100.0)
    }

    #[test]
    fn a_thread_that_sometimes_waits_still_counts_as_one_thread() {
        assert_eq!(after(&[(1.9, 0.98)]), Some(0.98));
        assert_eq!(after(&[(1.9, 0.98), (1.08, 0.6)]), Some(0.89), "a pause lowers the estimate only a little");
        assert_eq!(after(&[(1.9, 0.98), (1.08, 0.6), (0.98, 0.97)]), Some(0.97), "and is forgotten at the next tick");
    }

    #[test]
    fn old_pressure_does_not_hide_that_a_job_has_one_thread() {
        let mut job = crate::node::testing::container("a");
        job.usage.pressure.cpu = Some(0.6); // the job waited for most of the last ten seconds
        let mut parallelism = Parallelism::default();
        let mut tick = |second: u64, cores_used: f64, offered: f64| {
            let used = job.usage.cpu.unwrap_or_default().0 + (cores_used * 3e6) as u64;
            job.usage.cpu = Some(CpuTime(used));
            let usable = parallelism.after(Millis::from_secs(second), &job, 1.0);
            parallelism.offer(Millis::from_secs(second), offered);
            usable
        };
        tick(0, 0.0, 0.02);
        assert_eq!(tick(20, 0.1, 1.9), None, "favoured from now on");
        assert!((1.0..1.2).contains(&tick(23, 0.98, 1.9).expect("known at the next tick")));

        // Offered the same for long, and kept waiting by an ungoverned neighbour: this does not show the parallelism.
        let mut parallelism = Parallelism::default();
        let mut outsider = crate::node::testing::container("b");
        outsider.usage.pressure.cpu = Some(0.6);
        for second in [0, 20, 40, 60] {
            outsider.usage.cpu = Some(CpuTime(second * 300_000));
            assert_eq!(parallelism.after(Millis::from_secs(second), &outsider, 1.0), None);
            parallelism.offer(Millis::from_secs(second), 1.0);
        }
    }

    #[test]
    fn the_one_core_of_a_start_says_nothing_about_the_training() {
        let mut job = crate::node::testing::container("a");
        job.usage.pressure.cpu = Some(0.0);
        let mut parallelism = Parallelism::default();
        let mut tick = |second: u64, cpu_seconds: f64, reports: bool| {
            let at = Millis::from_secs(second);
            job.learning.progress =
                reports.then_some(Progress { unit: ProgressUnit::Epoch, current: 1.0, total: None, at });
            job.usage.cpu = Some(CpuTime((cpu_seconds * 1e6) as u64));
            let usable = parallelism.after(at, &job, 1.0);
            parallelism.offer(at, 1.9);
            usable
        };
        tick(0, 0.0, false);
        assert_eq!(tick(2, 2.0, false), Some(HEADROOM), "imports");
        assert_eq!(tick(4, 5.0, true), None, "the first epoch has ended");
        assert_eq!(tick(6, 8.0, true), Some(HEADROOM * 1.5), "training");
    }

    #[test]
    fn a_higher_offer_is_measured_from_its_start() {
        let mut job = crate::node::testing::container("a");
        job.usage.pressure.cpu = None;
        let mut parallelism = Parallelism::default();
        let mut tick = |at: Millis, cpu_seconds: f64, offered: f64| {
            job.usage.cpu = Some(CpuTime((cpu_seconds * 1e6) as u64));
            let usable = parallelism.after(at, &job, 1.0);
            parallelism.offer(at, offered);
            (usable, parallelism.is_about_to_be_measured(at))
        };
        tick(Millis(0), 0.0, 0.02);
        assert_eq!(tick(Millis(900), 0.02, 1.9), (None, true), "favoured, too soon after the last tick to measure");
        assert_eq!(tick(Millis(1900), 1.0, 1.9), (Some(HEADROOM * 0.98), false));
    }

    #[test]
    fn an_offer_without_a_cpu_counter_is_not_measured_from_an_earlier_tick() {
        let mut job = crate::node::testing::container("a");
        let mut parallelism = Parallelism::default();
        let mut tick = |second: u64, cpu_seconds: Option<u64>, offered: f64| {
            job.usage.cpu = cpu_seconds.map(|seconds| CpuTime(seconds * 1_000_000));
            let usable = parallelism.after(Millis::from_secs(second), &job, 1.0);
            parallelism.offer(Millis::from_secs(second), offered);
            usable
        };
        tick(0, Some(0), 0.02);
        tick(20, None, 1.9);
        assert_eq!(tick(22, Some(4), 1.9), None, "4 CPU-seconds in 2 seconds, not in 22");
    }

    #[test]
    fn a_job_that_uses_all_of_its_offers_is_soon_offered_the_whole_node() {
        let mut known = 1.0;
        let mut ticks = 0;
        let mut parallelism = Parallelism { usable: Some(known), ..Parallelism::default() };
        while known < 16.0 {
            parallelism.offer(Millis(0), HEADROOM * known);
            parallelism.judge(1.01 * HEADROOM * known, None, 1.0); // plus what other jobs leave idle
            known = parallelism.usable.expect("known");
            ticks += 1;
        }
        assert!(ticks < 8, "{ticks}");
    }
}
