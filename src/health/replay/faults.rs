//! Faults that are put into recorded curves at random places, and how soon each was found.

use super::recorded::{REPORT_MS, Series};
use super::{LOOK_S, Replay};
use model::{Bytes, Condition, Hints};
use traininglog::Direction;

/// What goes wrong after a number of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nan,
    /// Each report is further from the last good value by three times the range, which is at least a fiftieth of the first value.
    Explodes,
    /// Each report is worse by a fiftieth of the range or half of the noise, the larger of both.
    Overfits,
    Sleeps,
    Spins,
}

/// All faults.
pub(crate) const FAULTS: [Fault; 5] = [Fault::Nan, Fault::Explodes, Fault::Overfits, Fault::Sleeps, Fault::Spins];

/// A silence that is long enough for any job, in seconds.
const STALLED_WITHIN_S: f64 = 120.0;
/// A fault lasts for so many reports.
const LASTS: usize = 24;
/// The reports of which the interval is the mean.
const RECENT: usize = 16;

impl Fault {
    fn shows(self, condition: Condition) -> bool {
        match self {
            Fault::Nan => condition == Condition::Nan,
            Fault::Explodes => condition == Condition::Diverging,
            Fault::Overfits => matches!(condition, Condition::Overfitting | Condition::Diverging),
            Fault::Sleeps | Fault::Spins => condition == Condition::Stalled,
        }
    }
}

/// When a fault was found.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "the name is shown if it is late")]
pub(crate) struct Found {
    pub(crate) name: String,
    /// Reports before the fault.
    pub(crate) at: usize,
    /// Reports and seconds after its begin; `None` = never.
    pub(crate) after: Option<(usize, f64)>,
    /// The longest interval between two reports before, in seconds.
    pub(crate) longest_s: f64,
}

impl Found {
    /// Whether it was found as soon as promised: at the first look after so many reports, or after such a silence.
    pub(crate) fn is_in_time(&self, fault: Fault) -> bool {
        self.after.is_some_and(|(reports, seconds)| {
            let within = |most: usize| reports <= most || seconds <= most as f64 * self.longest_s + LOOK_S as f64;
            match fault {
                Fault::Nan | Fault::Explodes => within(2),
                Fault::Overfits => within(10),
                Fault::Sleeps | Fault::Spins => seconds <= (4.0 * self.longest_s).max(STALLED_WITHIN_S) + LOOK_S as f64,
            }
        })
    }
}

/// Random numbers (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// At least 0, and below 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Puts a fault into each curve.
pub(crate) fn put_into(series: &[Series], fault: Fault, seed: u64) -> Vec<Found> {
    let mut random = Random::new(seed);
    let has_rhythm = |series: &&Series| series.reports.last().is_some_and(|(at, _)| *at >= REPORT_MS);
    let of = |series: &Series| {
        let reports = series.reports.len();
        let least = (reports / 4).max(8);
        let at = least + (random.next() * (reports - least) as f64) as usize;
        find(series, fault, at, &mut random)
    };
    series.iter().filter(has_rhythm).map(of).collect()
}

/// Replays a curve with a fault after `at` reports, and returns when it was found.
fn find(series: &Series, fault: Fault, at: usize, random: &mut Random) -> Found {
    let reports = &series.reports;
    let healthy = &reports[..at];
    let intervals: Vec<u64> = healthy.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let latest = &intervals[intervals.len().saturating_sub(RECENT)..];
    let interval_ms = (latest.iter().sum::<u64>() / latest.len() as u64).max(1);
    let longest_s = intervals.iter().copied().max().unwrap_or_default() as f64 / 1000.0;
    let values = || healthy.iter().map(|(_, value)| *value).filter(|value| value.is_finite());
    let range = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
    let (last_ms, last) = healthy[at - 1];
    let mut replay = Replay::of(series);
    for (number, &(at_ms, value)) in healthy.iter().enumerate() {
        replay.pass_until(at_ms, &mut |_| {});
        replay.report(number + 1, value);
    }
    replay.is_busy = fault != Fault::Sleeps;
    // A curve may overfit without a fault.
    let mut after = fault.shows(replay.condition).then_some((0, 0.0));
    let mut pass = |replay: &mut Replay, until_ms: u64, reports: usize| {
        replay.pass_until(until_ms, &mut |replay| {
            if fault.shows(replay.condition) {
                after.get_or_insert((reports, (replay.now_ms - last_ms) as f64 / 1000.0));
            }
        });
    };
    let noise = noise(&healthy[at.saturating_sub(RECENT)..]);
    let worse = if series.direction == Direction::Down { 1.0 } else { -1.0 };
    let step = 3.0 * worse * range.max(0.02 * healthy[0].1.abs());
    let slope = worse * (0.02 * range).max(0.5 * noise);
    for number in 1..=LASTS {
        pass(&mut replay, last_ms + number as u64 * interval_ms, number - 1);
        let steps = number as f64;
        let value = match fault {
            Fault::Nan => f64::NAN,
            Fault::Explodes => last + step * steps,
            Fault::Overfits => last + slope * steps + noise * 1.7 * (2.0 * random.next() - 1.0),
            Fault::Sleeps | Fault::Spins => continue,
        };
        replay.report(at + number, value);
    }
    let end_ms = replay.now_ms + (4000.0 * longest_s.max(STALLED_WITHIN_S)) as u64;
    pass(&mut replay, end_ms, LASTS);
    Found { name: series.name.clone(), at, after, longest_s }
}

/// The standard deviation of values around their trend, from the differences of neighbours.
fn noise(values: &[(u64, f64)]) -> f64 {
    let steps: Vec<f64> = values.windows(2).map(|pair| pair[1].1 - pair[0].1).filter(|step| step.is_finite()).collect();
    let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
    (steps.iter().map(|step| (step - mean).powi(2)).sum::<f64>() / (2 * steps.len()).max(1) as f64).sqrt()
}

/// Fills the memory of a job within ten minutes; returns the seconds from the warning to the kill. `None`: nobody warned.
pub(crate) fn least_warning_s(seed: u64) -> Option<u64> {
    const RAMP_S: u64 = 600;
    const LIMIT: f64 = 8e9;
    let mut random = Random::new(seed);
    let (start, noise) = (0.6 * random.next(), 0.005 * random.next());
    let mut replay = Replay::new(&Hints::default());
    let mut warned_s = None;
    for second in (0..RAMP_S).step_by(LOOK_S as usize) {
        let part = start + (1.0 - start) * second as f64 / RAMP_S as f64 + noise * (random.next() - 0.5);
        replay.memory = Some((Bytes((LIMIT * part) as u64), Bytes(LIMIT as u64)));
        replay.pass_until(1000 * (second + LOOK_S), &mut |_| {});
        match replay.condition {
            Condition::ShortOfMemory => warned_s = warned_s.or(Some(RAMP_S - second)),
            _ => warned_s = None,
        }
    }
    warned_s
}
