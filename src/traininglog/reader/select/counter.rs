//! One progress counter: its updates, its nesting, and how likely it is the counter of the job.

use crate::ProgressUnit;
use crate::plausible;
use crate::reader::parse::meaning::{ASIDE, Count, Counted, OF_COUNTER};
use serde::{Deserialize, Serialize};

/// Number of distinct values above which more make no difference.
pub(super) const DISTINCT_MAX: u32 = 8;

/// Number of equal values after a fall that make it a restart.
const REPEATS_THAT_RESTART: u8 = 3;

/// Number of restarts that show rounds; a single one may be a second fit.
const ROUNDS: u32 = 2;

/// Number of changes of a total that show that it is none.
const TOTALS: u32 = 3;

/// Number of small falls that a count does not have.
const SLIPS: u32 = 3;

/// Number of steps of equal size that make a counter of a number with an unknown name.
const REGULAR: u32 = 4;

/// Number of advances within one epoch that show that a line is not printed at the end of its epoch.
const ADVANCES_INSIDE: u32 = 2;

/// A counter's place among the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub has_total: bool,
    pub has_outer: bool,
    pub is_idle: bool,
    /// Whether it is printed on the lines of the evaluation.
    pub beside: bool,
    /// First line of the evaluation.
    pub since: u64,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counter {
    pub count: Count,
    #[serde(default)]
    pub label: u16,
    pub current: f64,
    pub total: Option<f64>,
    pub first: f64,
    pub distinct: u32,
    pub updates: u32,
    pub restarts: u32,
    pub exceeded: u32,
    /// Number of changes of the printed total.
    #[serde(default)]
    pub totals: u32,
    /// Number of falls after which the metric went on as before, so that no other run has begun.
    #[serde(default)]
    pub continued: u32,
    /// Updates on a line that also counted epochs.
    pub inside: u32,
    #[serde(default)]
    pub first_line: u64,
    pub last_line: u64,
    pub last_advance: u64,
    /// Whether it has fractional values (`'epoch': 0.25`), so that no inner counter is added.
    #[serde(default)]
    pub has_parts: bool,
    pub fallen: Option<(f64, u8)>,
    /// Number of advances of outer counters when this one last advanced.
    #[serde(default)]
    pub outer_advances: u32,
    /// Whether it continued when an outer counter advanced.
    #[serde(default)]
    pub outlives: bool,
    /// Number of small falls, as of a score: `Epoch 3: 9492 / 10000`.
    #[serde(default)]
    pub slips: u32,
    /// The latest increase.
    #[serde(default)]
    pub stride: f64,
    /// Number of increases equal to the one before.
    #[serde(default)]
    pub regular: u32,
    /// Number of other increases.
    #[serde(default)]
    pub irregular: u32,
    /// Number of advances since the latest one of an outer counter, until it reached [`ADVANCES_INSIDE`].
    #[serde(default)]
    pub advances_inside: u32,
}

impl Counter {
    pub(crate) fn new(counted: Counted, total: Option<f64>, value: f64, line: u64, outer_advances: u32) -> Counter {
        Counter {
            count: counted.count,
            label: counted.label,
            current: value,
            total,
            first: value,
            distinct: 1,
            updates: 0,
            restarts: 0,
            exceeded: 0,
            totals: 0,
            continued: 0,
            inside: 0,
            first_line: line,
            last_line: line,
            last_advance: line,
            has_parts: false,
            fallen: None,
            outer_advances,
            outlives: false,
            slips: 0,
            stride: 0.0,
            regular: 0,
            irregular: 0,
            advances_inside: 0,
        }
    }

    /// Whether all values are plausible.
    pub(crate) fn is_plausible(&self) -> bool {
        let counts = [
            self.distinct,
            self.updates,
            self.restarts,
            self.exceeded,
            self.totals,
            self.continued,
            self.inside,
            self.outer_advances,
            self.regular,
            self.irregular,
            self.advances_inside,
            self.slips,
        ];
        counts.into_iter().all(plausible::small_count)
            && [self.first_line, self.last_line, self.last_advance].into_iter().all(plausible::count)
            && [self.current, self.first, self.stride].into_iter().all(plausible::number)
            && plausible::optional(self.total)
            && self.fallen.is_none_or(|(value, repeats)| plausible::number(value) && repeats < REPEATS_THAT_RESTART)
    }

    pub(crate) fn is(&self, counted: Counted) -> bool {
        self.count == counted.count && self.label == counted.label
    }

    /// Whether the latest value was the first of a fall to about the beginning.
    pub(super) fn fell_to_start(&self) -> bool {
        self.fallen.is_some_and(|(to, repeats)| repeats == 1 && to - self.first < self.current - to)
    }

    /// Takes a value; returns whether the counter advanced.
    pub(crate) fn take(&mut self, value: f64, line: u64, outer_advances: u32) -> bool {
        if value > self.current {
            let stride = value - self.current;
            (self.regular, self.irregular) = match stride == self.stride {
                true => (self.regular.saturating_add(1), self.irregular),
                false => (self.regular, self.irregular.saturating_add(1)),
            };
            self.stride = stride;
            self.distinct = self.distinct.saturating_add(1);
            self.outlives |= outer_advances > self.outer_advances && self.restarts == 0 && self.fallen.is_none();
            if self.advances_inside < ADVANCES_INSIDE {
                self.advances_inside = if outer_advances == self.outer_advances { self.advances_inside + 1 } else { 0 };
            }
            self.outer_advances = outer_advances;
            (self.current, self.last_advance, self.fallen) = (value, line, None);
            return true;
        }
        if value < self.current {
            self.slips = self.slips.saturating_add(u32::from(value * 2.0 > self.current));
            // A single fall may be noise, a summary or an evaluation labelled "epoch 0"; a new phase continues from there.
            let repeats = match self.fallen {
                Some((fallen, repeats)) if fallen == value => repeats + 1,
                Some(_) => REPEATS_THAT_RESTART,
                None => 1,
            };
            if repeats >= REPEATS_THAT_RESTART {
                self.restarts = self.restarts.saturating_add(1);
                (self.current, self.last_advance, self.fallen) = (value, line, None);
                self.outer_advances = outer_advances;
            } else {
                self.fallen = Some((value, repeats));
            }
        }
        false
    }

    /// Whether it counts parts of a unit of `outer`.
    pub(crate) fn is_within(&self, outer: &Counter) -> bool {
        let restarted = self.restarts + u32::from(self.fallen.is_some());
        let restarts = restarted > 0 && restarted + 2 >= outer.distinct;
        // Before the first restart, a counter of batches or pairs that moves within an epoch is inside.
        let moves = outer.distinct <= 2 && matches!(self.count, Count::Pair | Count::Batch | Count::Nested);
        let nested = self.inside * 2 > self.updates || restarts || moves && self.last_line > outer.first_line;
        !self.count.is_outer() && self.count != Count::Percent && nested && self.total.is_some()
    }

    /// Whether it counts batches on a line that also counts epochs.
    pub(crate) fn is_part_of_line(&self) -> bool {
        matches!(self.count, Count::Pair | Count::Batch | Count::Nested) && self.inside * 2 > self.updates
    }

    /// Whether it counts several steps of an epoch on lines that also count epochs.
    pub(crate) fn moves_inside(&self) -> bool {
        matches!(self.count, Count::Step | Count::Iteration | Count::Batch)
            && self.advances_inside >= ADVANCES_INSIDE
            && self.inside * 2 > self.updates
    }

    /// Whether it counts large parts of the job and has not reached its printed total, so that it is no preparation that ended.
    pub(crate) fn is_unfinished(&self) -> bool {
        let is_large = matches!(self.count, Count::Epoch | Count::Fold | Count::Round | Count::Trial | Count::Episode);
        is_large && self.total.is_some_and(|total| self.current < total)
    }

    /// Whether it counts within rounds of equal length, such as `[950/1000]` in each epoch of a log that does not count epochs: its total
    /// is that of a round, and a job has any number of rounds. Steps and iterations may also start again in another run of the program,
    /// in which the metric begins anew.
    pub(crate) fn is_of_rounds(&self) -> bool {
        let is_run = matches!(self.count, Count::Step | Count::Iteration) && self.continued * 2 <= self.restarts;
        !self.count.is_outer()
            && self.count != Count::Percent
            && self.restarts >= ROUNDS
            && self.total.is_some()
            && !is_run
    }

    /// Whether the number behind it is no total, because it also moves: `Batch 4/203800`, `Batch 4/203900`.
    pub(crate) fn has_moving_total(&self) -> bool {
        self.totals >= TOTALS && self.totals * 2 > self.updates
    }

    /// Whether it restarts about whenever `other` advances, and `other` restarts far less often: `iteration:3 step:40/100`.
    pub(crate) fn restarts_with(&self, other: &Counter) -> bool {
        let counts =
            matches!(other.count, Count::Iteration | Count::Step | Count::Round | Count::Episode | Count::Trial);
        counts && self.restarts >= 3 && self.restarts * 2 >= other.distinct && other.restarts * 4 < self.restarts
    }

    /// Returns a coarse summary of the inputs of the rank, which is unchanged while the counter only advances.
    #[inline]
    pub(crate) fn rank_inputs(&self) -> u32 {
        let flags = [
            self.exceeded > 0,
            self.total.is_some(),
            self.inside * 2 > self.updates,
            self.goes_on(),
            self.is_regular(),
            self.is_unfinished(),
            self.has_moving_total(),
        ];
        let bits = flags.iter().fold(0, |bits, flag| bits << 1 | u32::from(*flag));
        bits << 8 | self.restarts.min(DISTINCT_MAX) << 4 | self.distinct.min(DISTINCT_MAX)
    }

    /// Whether it goes on when an outer counter advances, as a count of the whole job does. A run may be resumed once or twice.
    fn goes_on(&self) -> bool {
        self.outlives && self.slips < SLIPS
    }

    /// Whether it has had more than one value.
    pub(crate) fn moves(&self) -> bool {
        self.distinct >= 2
    }

    fn is_regular(&self) -> bool {
        self.regular >= REGULAR && self.regular >= self.irregular * 4 && self.restarts == 0 && self.fallen.is_none()
    }

    pub(super) fn rank(&self, place: Place) -> f64 {
        let Place { has_total, has_outer, is_idle, beside, since } = place;
        let kind = match self.count {
            Count::Fold => 1.1,
            Count::Epoch => 1.0,
            Count::Kimg => 0.97,
            Count::Step | Count::Iteration => 0.95,
            Count::Episode | Count::Trial | Count::Round => 0.9,
            Count::Lead => 0.8,
            Count::Pair => 0.75,
            Count::Batch => 0.6,
            Count::Tick | Count::Nested => 0.45,
            Count::Percent if self.label == OF_COUNTER.label && self.restarts == 0 => 0.9,
            Count::Sample | Count::Percent => 0.3,
            Count::Tally if self.is_regular() && (beside || has_total) => 0.4,
            Count::Tally if self.is_regular() => 0.2,
            Count::Tally => return 0.0,
        };
        let restarting = match self.restarts {
            0 => 0.0,
            1 => 0.2,
            _ => 0.6,
        };
        let nested = has_outer && !self.count.is_outer() && !self.goes_on();
        let constant = match (self.moves(), is_idle) {
            (true, _) => 0.0,
            (_, false) => 0.2,
            (_, true) => 0.6,
        };
        let aside = if self.label & ASIDE == 0 || self.count == Count::Fold { 0.0 } else { 0.1 };
        let ended = if self.last_line < since && !self.is_unfinished() { 1.2 } else { 0.0 };
        // Among equals the one with more values wins: training has a longer bar than evaluation.
        let moved = 0.04 * (1.0 - 1.0 / f64::from(self.distinct.min(DISTINCT_MAX)));
        let context = if has_total { 0.45 } else { 0.0 } + if beside { 0.2 } else { 0.0 };
        kind + moved + context - restarting - if nested { 0.9 } else { 0.0 } - constant - ended - aside
    }
}

impl Count {
    /// Whether other counters restart when it advances.
    pub(crate) fn is_outer(self) -> bool {
        matches!(self, Count::Epoch | Count::Fold)
    }

    /// Returns the corresponding unit of the model.
    pub(crate) fn unit(self) -> ProgressUnit {
        match self {
            Count::Epoch => ProgressUnit::Epoch,
            Count::Step | Count::Batch | Count::Pair | Count::Nested | Count::Tally => ProgressUnit::Step,
            Count::Iteration | Count::Episode | Count::Trial | Count::Fold | Count::Tick | Count::Lead => {
                ProgressUnit::Iteration
            }
            Count::Round => ProgressUnit::Round,
            Count::Kimg | Count::Sample => ProgressUnit::Sample,
            Count::Percent => ProgressUnit::Percent,
        }
    }
}
