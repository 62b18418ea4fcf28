//! Decides which samples are worth keeping: those in which something changed beyond noise. Pure.

use model::{DecisionRecord, Hold, NodeSample, Pressure, Reason, Sample};

/// Minimum time between two samples of a job, unless something turns; for older jobs it is one part in [`PARTS_OF_AGE`] of their age, up to
/// [`LONGEST_GAP_MS`].
const LEAST_GAP_MS: u64 = 2_000;
const PARTS_OF_AGE: u64 = 100;
/// Minimum time between a turn and the sample before it.
const LEAST_TURN_GAP_MS: u64 = 500;
/// A sample is kept this often even if nothing changes: it proves that the job was observed.
const LONGEST_GAP_MS: u64 = 600_000;
/// Minimum time between two pressure samples of the node.
const NODE_GAP_MS: u64 = 30_000;

/// What is needed, besides the last kept sample, to tell a change from noise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// When the job started, Unix milliseconds.
    pub started_unix_ms: u64,
    /// Total progress units.
    pub total: Option<f64>,
    /// Lowest and highest value so far.
    pub range: Option<(f64, f64)>,
    /// Cores used on average up to the last kept sample.
    pub cores: Option<f64>,
}

/// Whether to keep `now` after `kept`; `Some(true)` = as a turn, which is never thinned.
pub(super) fn worth(kept: &Sample, now: &Sample, measure: &Measure) -> Option<bool> {
    let gap = now.unix_ms.saturating_sub(kept.unix_ms);
    if turned(kept, now) && gap >= LEAST_TURN_GAP_MS {
        return Some(true);
    }
    let age = now.unix_ms.saturating_sub(measure.started_unix_ms);
    if gap < (age / PARTS_OF_AGE).clamp(LEAST_GAP_MS, LONGEST_GAP_MS) {
        return None;
    }
    (gap >= LONGEST_GAP_MS || moved_on(kept, now, measure)).then_some(false)
}

/// Cores used on average between two samples.
pub(super) fn cores_between(kept: &Sample, now: &Sample) -> Option<f64> {
    let span = now.unix_ms.saturating_sub(kept.unix_ms) as f64 / 1000.0;
    (span > 0.0).then_some(now.cpu?.since(kept.cpu?).as_secs_f64() / span)
}

/// Whether the decision, hold or state changed.
fn turned(kept: &Sample, now: &Sample) -> bool {
    let decided = match (&kept.decision, &now.decision) {
        (Some(kept), Some(now)) => decided_otherwise(kept, now),
        (kept, now) => kept.is_some() != now.is_some(),
    };
    let weight = |sample: &Sample| sample.weight.map_or(0.0, |weight| f64::from(weight.number()));
    let takes_turns = |sample: &Sample| {
        sample.decision.as_ref().is_some_and(|decision| matches!(decision.reason, Reason::Turn { .. }))
    };
    // Whose turn it is changes all the time.
    let is_only_a_turn = takes_turns(kept) && takes_turns(now);
    kept.state != now.state
        || kind_of(kept.hold.as_ref()) != kind_of(now.hold.as_ref())
        || !is_only_a_turn && (decided || differ(weight(kept), weight(now), 0.1, 0.5))
}

fn decided_otherwise(kept: &DecisionRecord, now: &DecisionRecord) -> bool {
    let milestone = |reason: &Reason| match reason {
        Reason::Ranked { milestone, .. } | Reason::RankedOnGpu { milestone, .. } => Some(milestone.clone()),
        Reason::Trial { standing, .. } => Some(standing.to_string().into()),
        _ => None,
    };
    std::mem::discriminant(&kept.reason) != std::mem::discriminant(&now.reason)
        || milestone(&kept.reason) != milestone(&now.reason)
        || kept.list != now.list
        || differ(kept.share.fraction(), now.share.fraction(), 0.1, 0.005)
        || differ(kept.limit.fraction(), now.limit.fraction(), 0.1, 0.005)
}

fn kind_of(hold: Option<&Hold>) -> Option<std::mem::Discriminant<Hold>> {
    hold.map(std::mem::discriminant)
}

/// Whether CPU, memory, GPUs, value or progress changed visibly on a chart.
fn moved_on(kept: &Sample, now: &Sample, measure: &Measure) -> bool {
    let cores = match (measure.cores, cores_between(kept, now)) {
        (Some(before), Some(cores)) => differ(before, cores, 0.1, 0.05),
        (before, cores) => before.is_some() != cores.is_some(),
    };
    let memory = |sample: &Sample| sample.memory.map_or(0.0, |bytes| bytes.0 as f64);
    let width = measure.range.map_or(0.0, |(low, high)| high - low);
    let value = match (kept.value, now.value) {
        (Some(before), Some(value)) if before.is_finite() && value.is_finite() => {
            (before - value).abs() > 0.01 * width && before != value
        }
        (before, value) => before.map(f64::to_bits) != value.map(f64::to_bits),
    };
    let progress = match (kept.progress, now.progress) {
        (Some(before), Some(units)) => match measure.total {
            Some(total) if total > 0.0 => (units - before).abs() > 0.005 * total,
            _ => differ(before, units, 0.05, 0.0),
        },
        (before, units) => before.is_some() != units.is_some(),
    };
    let gpu_memory = |sample: &Sample| sample.gpu_memory.map_or(0.0, |bytes| bytes.0 as f64);
    cores
        || value
        || progress
        || differ(memory(kept), memory(now), 0.1, (1 << 20) as f64)
        || kept.gpus.is_some() != now.gpus.is_some()
        || differ(kept.gpus.unwrap_or(0.0), now.gpus.unwrap_or(0.0), 0.1, 0.05)
        || differ(gpu_memory(kept), gpu_memory(now), 0.1, (1 << 20) as f64)
}

/// Whether to keep the node's sample.
pub(super) fn node_changed(kept: &NodeSample, now: &NodeSample) -> bool {
    let gap = now.unix_ms.saturating_sub(kept.unix_ms);
    let settings = |node: &NodeSample| {
        (node.policy, node.released, node.interval, node.objective.to_bits(), node.growth_threshold.to_bits())
    };
    settings(kept) != settings(now)
        || differ(kept.cores, now.cores, 0.0, 0.005)
        || gap >= LONGEST_GAP_MS
        || (gap >= NODE_GAP_MS && pressure_moved(&kept.pressure, &now.pressure))
}

fn pressure_moved(kept: &Pressure, now: &Pressure) -> bool {
    let pairs = [(kept.cpu, now.cpu), (kept.memory, now.memory), (kept.io, now.io)];
    pairs.into_iter().any(|(kept, now)| differ(kept.unwrap_or(0.0), now.unwrap_or(0.0), 0.0, 0.1))
}

/// Whether two numbers differ by more than this part of the larger one, and by more than `least`.
fn differ(a: f64, b: f64, part: f64, least: f64) -> bool {
    let apart = (a - b).abs();
    apart > part * a.abs().max(b.abs()) && apart > least
}
