//! How many cores a job can use at once: one thread, two loaders, half of its time at the disk.
//!
//! Shares are soft, so a job that used less than it was offered, and was not kept waiting for CPU, can use no more. It is offered that and a
//! little more from then on, so that growth shows; the rest goes to the next in rank on purpose, and not by weight to everybody alike.

use crate::model::{ContainerObservation, CpuTime, Millis, RunState};
use serde::{Deserialize, Serialize};

/// Used less than this part of the offer: it cannot use more.
const SATISFIED_BELOW: f64 = 0.85;

/// Waited for CPU for more than this part of the time (PSI): it wanted more.
const WAITED: f64 = 0.1;

/// How much of the way to what was used less is believed at once.
const SHRINK: f64 = 0.25;

/// What a job may use that used all that it was offered, in parts of that.
const GROWTH: f64 = 1.5;

/// What is offered beyond what can be used.
const HEADROOM: f64 = 1.1;

/// The kernel's mean of the last ten seconds still tells of the time when a job was offered less.
const PRESSURE_LAGS: Millis = Millis::from_secs(10);

/// An offer so many times the last one is a new one.
const MORE: f64 = 1.5;

/// Shorter intervals say too little.
pub(super) const LEAST_INTERVAL: Millis = Millis(1000);

/// Follows one container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Width {
    mark: Option<(Millis, CpuTime)>,
    /// The last look, if it told.
    #[serde(default)]
    seen: Option<(Millis, CpuTime)>,
    /// Cores that it has been offered since the mark, least and most.
    offered: Option<(f64, f64)>,
    /// The last offer, and since when it has been about as much.
    #[serde(default)]
    latest: Option<(f64, Millis)>,
    /// Cores that it can use, where it ever had more than enough.
    usable: Option<f64>,
}

impl Width {
    /// Takes one tick's observation. Cores worth offering; `None` = as many as there are. `kept` is the part of the last offer that was really
    /// there: others, whom nobody governs, may have taken the rest.
    pub(super) fn after(&mut self, now: Millis, container: &ContainerObservation, kept: f64) -> Option<f64> {
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
            // A pause for loading or a checkpoint does not make it narrow at once.
            Some(usable) if satisfied => self.usable = Some(used.max(usable + SHRINK * (used - usable))),
            None if satisfied => self.usable = Some(used),
            // It outgrew what was known of it. Whoever used all that it was offered may use more.
            Some(usable) if used > usable => self.usable = Some(if used > most { GROWTH * used } else { used }),
            Some(_) | None => {}
        }
    }

    /// It may use this many cores from `now` until the next tick, whoever else is hungry. What it used of less than that says nothing.
    pub(super) fn offer(&mut self, now: Millis, cores: f64) {
        let since = self.latest.filter(|(before, _)| cores <= MORE * before).map(|(_, since)| since);
        if since.is_none() {
            (self.mark, self.offered) = (self.seen, None);
        }
        self.offered = Some(self.offered.map_or((cores, cores), |(least, most)| (least.min(cores), most.max(cores))));
        self.latest = Some((cores, since.unwrap_or(now)));
    }

    /// Whether the next look, [`LEAST_INTERVAL`] from now, may be the first to tell how wide it is.
    pub(super) fn is_about_to_show(&self, now: Millis) -> bool {
        self.usable.is_none() && self.latest.is_some_and(|(_, since)| now.since(since) < LEAST_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known after being offered so much and using so much, in cores, each second.
    fn after(history: &[(f64, f64)]) -> Option<f64> {
        let mut width = Width::default();
        for (offered, used) in history {
            width.offer(Millis(0), *offered);
            width.judge(*used, None, 1.0);
        }
        width.usable.map(|usable| (usable * 100.0).round() / 100.0)
    }

    #[test]
    fn a_thread_that_now_and_then_waits_stays_one_thread() {
        assert_eq!(after(&[(1.9, 0.98)]), Some(0.98));
        assert_eq!(after(&[(1.9, 0.98), (1.08, 0.6)]), Some(0.89), "a pause makes it little narrower");
        assert_eq!(after(&[(1.9, 0.98), (1.08, 0.6), (0.98, 0.97)]), Some(0.97), "and is forgotten at the next look");
    }

    #[test]
    fn pressure_of_the_time_on_the_floor_does_not_hide_that_one_thread_is_enough() {
        let mut job = crate::policy::node::testing::container("a");
        job.usage.pressure.cpu = Some(0.6); // it waited for most of the last ten seconds
        let mut width = Width::default();
        let mut look = |second: u64, cores_used: f64, offered: f64| {
            let used = job.usage.cpu.unwrap_or_default().0 + (cores_used * 3e6) as u64;
            job.usage.cpu = Some(CpuTime(used));
            let usable = width.after(Millis::from_secs(second), &job, 1.0);
            width.offer(Millis::from_secs(second), offered);
            usable
        };
        look(0, 0.0, 0.02);
        assert_eq!(look(20, 0.1, 1.9), None, "favoured from now on");
        assert!((1.0..1.2).contains(&look(23, 0.98, 1.9).expect("known at the next look")));

        // Offered as much for long, and kept waiting all the same by somebody outside: that is no width.
        let mut width = Width::default();
        let mut outsider = crate::policy::node::testing::container("b");
        outsider.usage.pressure.cpu = Some(0.6);
        for second in [0, 20, 40, 60] {
            outsider.usage.cpu = Some(CpuTime(second * 300_000));
            assert_eq!(width.after(Millis::from_secs(second), &outsider, 1.0), None);
            width.offer(Millis::from_secs(second), 1.0);
        }
    }

    #[test]
    fn a_higher_offer_is_measured_from_its_own_beginning() {
        let mut job = crate::policy::node::testing::container("a");
        job.usage.pressure.cpu = None;
        let mut width = Width::default();
        let mut look = |at: Millis, cpu_seconds: f64, offered: f64| {
            job.usage.cpu = Some(CpuTime((cpu_seconds * 1e6) as u64));
            let usable = width.after(at, &job, 1.0);
            width.offer(at, offered);
            (usable, width.is_about_to_show(at))
        };
        look(Millis(0), 0.0, 0.02);
        assert_eq!(look(Millis(900), 0.02, 1.9), (None, true), "favoured, too soon after the last look to measure");
        assert_eq!(look(Millis(1900), 1.0, 1.9), (Some(HEADROOM * 0.98), false));
    }

    #[test]
    fn an_offer_at_a_look_that_told_nothing_is_not_measured_from_an_older_one() {
        let mut job = crate::policy::node::testing::container("a");
        let mut width = Width::default();
        let mut look = |second: u64, cpu_seconds: Option<u64>, offered: f64| {
            job.usage.cpu = cpu_seconds.map(|seconds| CpuTime(seconds * 1_000_000));
            let usable = width.after(Millis::from_secs(second), &job, 1.0);
            width.offer(Millis::from_secs(second), offered);
            usable
        };
        look(0, Some(0), 0.02);
        look(20, None, 1.9);
        assert_eq!(look(22, Some(4), 1.9), None, "4 CPU-seconds in 2 seconds, not in 22");
    }

    #[test]
    fn who_uses_all_that_it_is_offered_is_soon_as_wide_as_the_node() {
        let mut known = 1.0;
        let mut looks = 0;
        let mut width = Width { usable: Some(known), ..Width::default() };
        while known < 16.0 {
            width.offer(Millis(0), HEADROOM * known);
            width.judge(1.01 * HEADROOM * known, None, 1.0); // what others leave idle comes on top
            known = width.usable.expect("known");
            looks += 1;
        }
        assert!(looks < 8, "{looks}");
    }
}
