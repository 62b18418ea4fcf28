//! Growth efficiency: what a container's evaluation gained per unit of each resource it used.
//!
//! ## Units
//!
//! ```text
//! progress score      P   = gain / time                      part of the evaluation's range per second        [eq. 1]
//! growth efficiency   G_r = P / R_r                                                                           [eq. 2]
//! R_cpu     mean use as a fraction of the whole node      →  G_cpu     = gain / node-CPU-seconds used
//! R_memory  mean charge as a fraction of main memory      →  G_memory  = per second with the node's whole memory
//! R_block, R_network   GiB per second                     →  G_io      = gain / GiB moved
//! R_gpu     mean share of its GPUs' time              →  G_gpu     = gain / GPU-seconds used
//! ```
//!
//! The time cancels out of every G except that of memory, so none of them depends on the length of an interval.
//!
//! ## Problem
//!
//! Evaluations and usage come from different readers, once per tick. A gain covers the time since the last tick that had evaluations, which
//! may be several ticks ago; usage counters are cumulative. And Algorithm 2 runs whenever a container starts or ends: an interval cut to a
//! second holds one or two evaluations, whose noise divided by almost no CPU can be any value.
//!
//! ## Approach
//!
//! The meter keeps the counters of the last tick that had evaluations. Gains of intervals cut short are added up until they span half an
//! interval; only then is the growth *measured*. The sum is nearly the gain of the whole, but not exactly: each part was freed of noise by
//! itself, and divided by the range that was known then.
//!
//! ## Properties
//!
//! - No evaluation in an interval is [`Measurement::Silent`]: unknown, never zero.
//! - A gain that does not start at a tick of this meter, counters that fell and invalid numbers give no measurement; the meter starts again
//!   from the current tick.
//! - A rising loss is negative growth.

use model::{Bytes, ContainerObservation, CpuTime, GrowthEfficiency, Millis, NodeObservation, Usage};
use serde::{Deserialize, Serialize};

/// Least CPU use, in core-seconds, for which growth is computed.
const LEAST_CPU_SECONDS: f64 = 0.005;

/// Maximum distance between the start of a gain and one of the meter's ticks; a larger one means that the gain belongs to other ticks.
const CLOCK_SLACK: Millis = Millis(250);

const GIB: f64 = (1u64 << 30) as f64;

/// One tick's measurement of a container's growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measurement {
    /// An interval with evaluations at both ends.
    Fresh(GrowthEfficiency),
    /// The interval was cut short and continues.
    Pending,
    /// No evaluation, or none that can be attributed to usage: unknown.
    Silent,
}

/// Counters at a tick.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) at: Millis,
    pub(super) usage: Usage,
    /// GPU time used.
    #[serde(default)]
    pub(super) gpu: Option<CpuTime>,
}

/// Measures one container's growth from tick to tick.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct GrowthMeter {
    evaluations: u64,
    /// The last tick that had evaluations.
    mark: Option<Mark>,
    /// Start of the gains that are being added up, and their sum.
    pending: Option<(Mark, f64)>,
    last_silent_end: Option<Millis>,
}

impl GrowthMeter {
    /// Takes one tick's observation. `interval` is the configured interval, without back-off.
    pub(super) fn measure(
        &mut self,
        node: &NodeObservation,
        container: &ContainerObservation,
        gpu: Option<CpuTime>,
        interval: Millis,
    ) -> Measurement {
        let learning = &container.learning;
        let has_evaluations = learning.gain.is_some() || learning.evaluations != self.evaluations;
        self.evaluations = learning.evaluations;
        if !has_evaluations {
            return self.without_evaluations(node.now, interval);
        }
        let mark = Mark { at: node.now, usage: container.usage, gpu };
        let previous = self.mark.replace(mark);
        self.last_silent_end = None;
        let gain = learning.gain.filter(|gain| gain.amount.is_finite() && gain.from < gain.to);
        let (Some(gain), Some(previous)) = (gain, previous) else {
            self.pending = None;
            return Measurement::Silent;
        };
        if apart(gain.from, previous.at) > CLOCK_SLACK || previous.at >= mark.at {
            self.pending = None;
            return Measurement::Silent;
        }
        let (start, sum) = self.pending.take().unwrap_or((previous, 0.0));
        let sum = sum + gain.amount;
        if node.now.since(start.at).0 < interval.0 / 2 {
            self.pending = Some((start, sum));
            return Measurement::Pending;
        }
        match efficiency(sum, &start, &mark, node) {
            Some(growth) => Measurement::Fresh(growth),
            None => Measurement::Silent,
        }
    }

    /// Drops all marks: the clock was set back, so their times are meaningless.
    pub(super) fn forget_marks(&mut self) {
        self.mark = None;
        self.pending = None;
        self.last_silent_end = None;
    }

    /// A tick that a start or an end triggered early has not waited long enough to call the log silent.
    fn without_evaluations(&mut self, now: Millis, interval: Millis) -> Measurement {
        let since = self.last_silent_end.or(self.mark.map(|mark| mark.at));
        match since {
            Some(since) if now.since(since).0 < interval.0 / 2 => Measurement::Pending,
            _ => {
                self.last_silent_end = Some(now);
                Measurement::Silent
            }
        }
    }
}

fn apart(a: Millis, b: Millis) -> Millis {
    Millis(a.0.abs_diff(b.0))
}

/// Returns the growth efficiency of a gain between two ticks; `None` if almost no CPU was used, or the counters are unknown.
pub(super) fn efficiency(gain: f64, from: &Mark, to: &Mark, node: &NodeObservation) -> Option<GrowthEfficiency> {
    let seconds = to.at.since(from.at).as_secs_f64();
    let core_seconds = risen(from.usage.cpu, to.usage.cpu)?.as_secs_f64();
    if core_seconds < LEAST_CPU_SECONDS || node.cores.is_nan() || node.cores <= 0.0 || seconds <= 0.0 {
        return None;
    }
    Some(GrowthEfficiency {
        cpu: finite(gain * node.cores / core_seconds),
        memory: mean_memory(from, to, node).and_then(|part| finite(gain / seconds / part)),
        block_io: moved(from.usage.block_io, to.usage.block_io).and_then(|gib| finite(gain / gib)),
        network_io: moved(from.usage.network_io, to.usage.network_io).and_then(|gib| finite(gain / gib)),
        gpu: gpu_seconds(from, to).and_then(|used| finite(gain / used)),
    })
}

fn gpu_seconds(from: &Mark, to: &Mark) -> Option<f64> {
    let used = risen(from.gpu, to.gpu)?.as_secs_f64();
    (used >= LEAST_CPU_SECONDS).then_some(used)
}

/// The mean over the interval; of its two ends, if what was charged between them is unknown.
fn mean_memory(from: &Mark, to: &Mark, node: &NodeObservation) -> Option<f64> {
    let ends = || Some((from.usage.memory?.0 as f64 + to.usage.memory?.0 as f64) / 2.0);
    let charged = from.usage.memory_time.zip(to.usage.memory_time).map(|(from, to)| to.0 - from.0);
    let seconds = to.at.since(from.at).as_secs_f64();
    let mean = charged.filter(|charged| *charged > 0.0).map(|charged| charged / seconds).or_else(ends)?;
    (node.memory.0 > 0 && mean > 0.0).then(|| mean / node.memory.0 as f64)
}

/// GiB moved between two readings of a counter; `None` when nothing moved.
fn moved(from: Option<Bytes>, to: Option<Bytes>) -> Option<f64> {
    let bytes = to?.0.checked_sub(from?.0)?;
    (bytes > 0).then(|| bytes as f64 / GIB)
}

/// Increase of a counter; `None` when it was reset or is unknown.
pub(super) fn risen(from: Option<CpuTime>, to: Option<CpuTime>) -> Option<CpuTime> {
    to?.0.checked_sub(from?.0).map(CpuTime)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{container, node};
    use model::{ByteSeconds, Gain};

    const INTERVAL: Millis = Millis::from_secs(20);

    /// One tick of a container on two cores that has used `cpu` core-seconds and gained `gain` since the given time.
    fn tick(meter: &mut GrowthMeter, now: u64, cpu: f64, evaluations: u64, gain: Option<(f64, u64)>) -> Measurement {
        let mut c = container("a");
        c.usage.cpu = Some(CpuTime((cpu * 1e6) as u64));
        c.learning.evaluations = evaluations;
        c.learning.gain =
            gain.map(|(amount, from)| Gain { amount, from: Millis::from_secs(from), to: Millis::from_secs(now) });
        let observation = NodeObservation { now: Millis::from_secs(now), cores: 2.0, ..node(Vec::new()) };
        meter.measure(&observation, &c, None, INTERVAL)
    }

    fn cpu(measurement: Measurement) -> Option<f64> {
        match measurement {
            Measurement::Fresh(growth) => growth.cpu,
            other => panic!("not measured: {other:?}"),
        }
    }

    #[test]
    fn growth_is_gain_per_node_cpu_second_for_any_interval() {
        for seconds in [20, 60] {
            let mut meter = GrowthMeter::default();
            assert_eq!(tick(&mut meter, 10, 0.0, 1, None), Measurement::Silent);
            // Half of the node, and a hundredth of the range per second.
            let used = seconds as f64;
            let gain = Some((0.01 * seconds as f64, 10));
            let growth = cpu(tick(&mut meter, 10 + seconds, used, 2, gain)).expect("measured");
            assert!((growth - 0.02).abs() < 1e-12);
        }
    }

    #[test]
    fn missing_data_is_unknown_growth_and_the_next_gain_counts_from_the_last_data() {
        let mut meter = GrowthMeter::default();
        tick(&mut meter, 20, 0.0, 1, None);
        assert_eq!(tick(&mut meter, 40, 20.0, 1, None), Measurement::Silent);
        let growth = cpu(tick(&mut meter, 60, 40.0, 2, Some((0.4, 20)))).expect("measured");
        assert!((growth - 0.02).abs() < 1e-12);
    }

    #[test]
    fn an_interval_cut_short_is_added_to_the_next() {
        let mut meter = GrowthMeter::default();
        tick(&mut meter, 20, 0.0, 1, None);
        assert_eq!(tick(&mut meter, 22, 2.0, 2, Some((-0.3, 20))), Measurement::Pending);
        let growth = cpu(tick(&mut meter, 40, 20.0, 9, Some((0.5, 22)))).expect("measured");
        assert!((growth - 0.2 * 2.0 / 20.0).abs() < 1e-12);
    }

    #[test]
    fn fallen_counters_and_invalid_gains_give_no_measurement() {
        let mut meter = GrowthMeter::default();
        tick(&mut meter, 20, 50.0, 1, None);
        assert_eq!(tick(&mut meter, 40, 10.0, 2, Some((0.5, 20))), Measurement::Silent);
        assert_eq!(tick(&mut meter, 60, 20.0, 3, Some((f64::NAN, 40))), Measurement::Silent);
        assert_eq!(tick(&mut meter, 80, 40.0, 4, Some((0.5, 3))), Measurement::Silent);
        assert!(cpu(tick(&mut meter, 100, 60.0, 5, Some((0.5, 80)))).is_some());
    }

    #[test]
    fn memory_counts_with_its_mean_over_the_interval() {
        let node = NodeObservation { cores: 2.0, ..node(Vec::new()) };
        let mark = |seconds: u64, memory: Option<u64>, charged: Option<f64>| Mark {
            at: Millis::from_secs(seconds),
            usage: Usage {
                cpu: Some(CpuTime(seconds * 1_000_000)),
                memory: memory.map(Bytes),
                memory_time: charged.map(ByteSeconds),
                ..Usage::default()
            },
            gpu: None,
        };
        let growth = |from, to| efficiency(0.5, &from, &to, &node).and_then(|growth| growth.memory);
        let gib = 1 << 30;
        // At both ends 1 of the node's 8 GiB, but 4 GiB on average between them.
        let charged = Some(10.0 * 4.0 * gib as f64);
        assert_eq!(growth(mark(0, Some(gib), Some(0.0)), mark(10, Some(gib), charged)), Some(0.1));
        assert_eq!(growth(mark(0, Some(gib), None), mark(10, Some(gib), None)), Some(0.4), "else the mean of the ends");
        assert_eq!(growth(mark(0, None, None), mark(10, Some(gib), None)), None);
    }

    #[test]
    fn a_rising_loss_is_negative_growth() {
        let mut meter = GrowthMeter::default();
        tick(&mut meter, 20, 0.0, 1, None);
        let growth = cpu(tick(&mut meter, 40, 20.0, 2, Some((-0.5, 20)))).expect("measured");
        assert!(growth < 0.0);
    }
}
