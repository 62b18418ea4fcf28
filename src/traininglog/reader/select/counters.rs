//! The progress counters of a log, and the choice of the job's counter.
//!
//! Problem: epochs of steps of samples, nested bars, a data set loaded before training starts, counters that begin at 0 or 1, that restart
//! in a second fit, or that run past their total. Approach: a counter is identified by its name; each keeps its latest value, its total
//! and its number of restarts. The job's counter is the outermost one that still moves: a counter that restarts whenever another advances
//! is inside of it, and so is initially a counter without further evidence. Among the rest, a total, a place beside the evaluation, and a
//! larger unit are preferred.

use super::counter::{Counter, DISTINCT_MAX, Place};
use crate::ProgressUnit;
use crate::plausible;
use crate::reader::parse::meaning::{Count, Counted};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Maximum number of counters; one that does not move is evicted, or else the least recently seen one.
const COUNTERS_MAX: usize = 16;

/// Maximum number of declared totals, more than there are kinds of counters.
const DECLARED_MAX: usize = 32;

/// Largest count and total; Hugging Face prints 2⁶³ - 1 epochs for data without a known length.
const COUNT_MAX: f64 = 1e12;

/// All counters of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    counters: Vec<Counter>,
    declared: Vec<Declared>,
    /// Number of advances of counters of epochs or folds.
    #[serde(default)]
    outer_advances: u32,
    /// Number of advances of all counters.
    #[serde(skip)]
    advances: u16,
    #[serde(skip)]
    fell: u16,
    /// Whether the latest count of epochs was a heading (`Epoch 3/40`), and no value has been printed since.
    #[serde(default)]
    is_announced: bool,
    /// Cached outermost counter; cleared when the result may change.
    #[serde(skip)]
    outer: Cell<Option<(Beside, usize)>>,
    /// Index after the counter that was printed last.
    #[serde(skip)]
    latest: usize,
}

/// Position of the evaluation: counters that stopped before its first line belong to preparation, and counters on its lines measure it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Beside {
    pub first_line: u64,
    /// Counters on its lines, one bit each.
    pub counters: u16,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Declared {
    count: Count,
    value: f64,
    contradicted: bool,
}

impl Counters {
    /// Takes a printed counter; returns its bit. `beside_epoch`: whether the line also counts epochs.
    pub(crate) fn advance(
        &mut self,
        counted: Counted,
        value: f64,
        total: Option<f64>,
        line: u64,
        beside_epoch: bool,
    ) -> u16 {
        if !(0.0..=COUNT_MAX).contains(&value) {
            return 0;
        }
        let total = total.filter(|total| *total > 0.0 && *total <= COUNT_MAX);
        let slot = self.slot(counted, total, value, line);
        let outer_advances = self.outer_advances;
        let counter = &mut self.counters[slot];
        let before = counter.rank_inputs();
        counter.updates += 1;
        counter.last_line = line;
        counter.inside += u32::from(beside_epoch && !counted.count.is_outer());
        counter.totals += u32::from(total.is_some_and(|total| counter.total.is_some_and(|known| known != total)));
        counter.total = total.or(counter.total);
        counter.has_parts |= value as u64 as f64 != value;
        counter.exceeded += u32::from(total.is_some_and(|total| value > total));
        let advanced = counter.take(value, line, outer_advances);
        if counter.rank_inputs() != before {
            self.outer.set(None);
        }
        self.fell = self.fell & !(1 << slot) | u16::from(!advanced && counter.fell_to_start()) << slot;
        self.advances = self.advances.wrapping_add(u16::from(advanced));
        self.outer_advances += u32::from(advanced && counted.count.is_outer());
        1 << slot
    }

    /// The counters that fell to about their beginning when they were printed last, one bit each.
    pub(crate) fn fell(&self) -> u16 {
        self.fell
    }

    /// Records that the metric went on as before on a line on which these counters fell.
    pub(crate) fn go_on(&mut self, fell: u16) {
        for (_, counter) in self.counters.iter_mut().enumerate().filter(|(slot, _)| fell >> slot & 1 == 1) {
            counter.continued = counter.continued.saturating_add(1);
        }
    }

    /// Number of advances of all counters.
    pub(crate) fn advances(&self) -> u16 {
        self.advances
    }

    /// Number of advances of counters of epochs or folds.
    pub(crate) fn outer_advances(&self) -> u32 {
        self.outer_advances
    }

    /// Records that an epoch was announced by a heading, or that a value or another count of epochs was printed since.
    pub(crate) fn set_announced(&mut self, is_announced: bool) {
        self.is_announced = is_announced;
    }

    /// Whether there is a counter of epochs or folds.
    pub(crate) fn has_outer(&self) -> bool {
        self.counters.iter().any(|counter| counter.count.is_outer())
    }

    /// Whether `value` continues a known counter with the same total.
    pub(crate) fn would_advance(&self, counted: Counted, value: f64, total: Option<f64>) -> bool {
        let nested =
            matches!(counted.count, Count::Pair | Count::Batch | Count::Nested | Count::Percent | Count::Tally);
        !nested && self.counters.iter().any(|known| known.is(counted) && known.total == total && value > known.current)
    }

    /// Takes a possible total from a configuration or an announcement.
    pub(crate) fn declare(&mut self, count: Count, value: f64, line: u64) {
        if value > COUNT_MAX {
            return;
        }
        // Ignores a total that is printed only at the end: `stopped at max_epochs = 40`.
        if self.counters.iter().any(|counter| counter.count == count && counter.distinct >= DISTINCT_MAX)
            && self.declared.iter().all(|known| known.count != count)
        {
            return;
        }
        // A quantity with such a name that changes is a counter (`total_timesteps`, `num_updates`).
        let counted = Counted { count, label: 0 };
        if let Some(counter) = self.counters.iter().find(|counter| counter.is(counted))
            && counter.distinct >= 2
            && counter.total.is_none()
            && self.declared.iter().any(|d| d.count == count && d.contradicted)
        {
            self.advance(counted, value, None, line, false);
            return;
        }
        match self.declared.iter_mut().find(|declared| declared.count == count) {
            Some(known) if known.value == value => {}
            Some(known) => {
                let moved = (known.value, value);
                known.contradicted = true;
                known.value = value;
                if moved.1 > moved.0 {
                    self.advance(counted, moved.0, None, line, false);
                    self.advance(counted, moved.1, None, line, false);
                }
            }
            None => self.declared.push(Declared { count, value, contradicted: false }),
        }
        self.outer.set(None);
    }

    fn slot(&mut self, counted: Counted, total: Option<f64>, value: f64, line: u64) -> usize {
        // Bars with different totals are different counters.
        let same = |counter: &Counter| counter.is(counted) && (counted.count != Count::Pair || counter.total == total);
        // Fast path: counters have the same order on each line.
        let (before, behind) = self.counters.split_at(self.latest.min(self.counters.len()));
        let found = behind.iter().position(same).map(|at| before.len() + at);
        if let Some(slot) = found.or_else(|| before.iter().position(same)) {
            self.latest = slot + 1;
            return slot;
        }
        self.outer.set(None);
        let counter = Counter::new(counted, total, value, line, self.outer_advances);
        if self.counters.len() < COUNTERS_MAX {
            self.counters.push(counter);
            return self.counters.len() - 1;
        }
        let worth = |slot: &usize| (self.counters[*slot].moves(), self.counters[*slot].last_line);
        let least = (0..COUNTERS_MAX).min_by_key(worth).unwrap_or(0);
        self.counters[least] = counter;
        least
    }

    /// Returns the counter of the whole job.
    pub(crate) fn outermost(&self, beside: Beside) -> Option<&Counter> {
        if let Some((known, slot)) = self.outer.get()
            && known == beside
        {
            return self.counters.get(slot);
        }
        // Idle counters say nothing about the progress: they have not moved, and have no total, or one that says nothing (`epoch 1/1`).
        let (mut totals, mut idle) = ([None; COUNTERS_MAX], 0u16);
        for (slot, counter) in self.counters.iter().enumerate() {
            totals[slot] = self.total_of(counter);
            let is_idle = !counter.moves() && totals[slot].is_none_or(|total| total <= 1.0);
            idle |= u16::from(is_idle) << slot;
        }
        let rank = |slot: usize| {
            let counter = &self.counters[slot];
            // An outer counter is one that moves, that was there before, or with which this one restarted. In `step=340/2500,epoch=0`
            // the steps are not inside an epoch.
            let outer = |(at, other): (usize, &Counter)| {
                let alive = other.last_line >= beside.first_line || other.is_unfinished();
                // Lightning prints its bar once before the first epoch, and then on the line of the epoch.
                let is_part = counter.is_part_of_line() && !other.has_parts;
                let outer = other.count.is_outer() && (at < slot || other.moves() || counter.restarts > 0 || is_part);
                let says_something = idle >> at & 1 == 0 || counter.restarts > 0;
                alive && says_something && (outer || counter.restarts_with(other))
            };
            let has_outer = self.counters.iter().enumerate().any(outer);
            let is_beside = beside.counters >> slot & 1 == 1;
            // A declared single epoch may be the rounded number of steps (`max_steps` of Hugging Face): a bar is more exact.
            let has_total = totals[slot].is_some_and(|total| total > 1.0 || counter.total.is_some());
            let is_idle = idle >> slot & 1 == 1;
            counter.rank(Place { has_total, has_outer, is_idle, beside: is_beside, since: beside.first_line })
        };
        let ranked = (0..self.counters.len()).map(|slot| (rank(slot), self.counters[slot].updates, slot));
        let best = ranked.max_by(|(a, often, _), (b, more_often, _)| a.total_cmp(b).then(often.cmp(more_often)));
        let (.., best) = best.filter(|(rank, ..)| *rank > 0.0)?;
        self.outer.set(Some((beside, best)));
        self.counters.get(best)
    }

    /// Returns the latest counter in `unit`, as requested by the hints.
    pub(crate) fn of_unit(&self, unit: ProgressUnit) -> Option<&Counter> {
        self.counters.iter().filter(|counter| counter.count.unit() == unit).max_by_key(|counter| counter.last_line)
    }

    /// Returns the total of a counter: the printed one if the counter does not exceed it, or else a declared one without contradiction.
    pub(crate) fn total_of(&self, counter: &Counter) -> Option<f64> {
        if counter.count == Count::Percent {
            return Some(100.0);
        }
        let kept = |counter: &Counter| {
            let is_exceeded = counter.exceeded > 0 && counter.restarts == 0;
            counter.total.filter(|_| !is_exceeded && !counter.is_of_rounds() && !counter.has_moving_total())
        };
        // The same counter under another name or in a heading: `Epoch 3/40` above `ep=3`.
        let elsewhere = || {
            let same = |other: &&Counter| {
                other.count == counter.count
                    && counter.count.is_outer()
                    && (other.current - counter.current).abs() <= 1.0
            };
            self.counters.iter().filter(same).find_map(kept)
        };
        kept(counter).or_else(elsewhere).or_else(|| {
            let certain = || self.declared.iter().filter(|declared| !declared.contradicted);
            let of_kind = certain().find(|declared| declared.count == counter.count);
            // A bare number at the beginning of a line counts the only thing that has a total.
            let is_uncounted = |declared: &&Declared| self.counters.iter().all(|other| other.count != declared.count);
            let is_bare = counter.count == Count::Lead && certain().count() == 1;
            let only = || certain().next().filter(|_| is_bare).filter(is_uncounted);
            let declared = of_kind.or_else(only)?;
            let least = if counter.has_parts { 1.0 } else { 2.0 };
            (declared.value >= counter.current.max(least)).then_some(declared.value)
        })
    }

    /// Returns the units done, including the fraction from an inner counter: epoch 3 of 10 and batch 50 of 100 is 2.5.
    pub(crate) fn folded(&self, counter: &Counter) -> f64 {
        if counter.is_of_rounds() {
            return f64::from(counter.restarts) * counter.total.unwrap_or_default() + counter.current;
        }
        if !counter.count.is_outer() || counter.has_parts {
            return counter.current;
        }
        let begun = counter.current - if counter.first >= 1.0 { 1.0 } else { 0.0 };
        let inner = self.counters.iter().filter(|inner| inner.total.is_some() && inner.is_within(counter));
        let Some(inner) = inner.max_by_key(|inner| inner.last_line) else {
            // Without an inner counter, the line is printed at the end of the epoch, unless it is a heading, or such lines count several
            // steps of the epoch.
            let moves_inside = |inner: &Counter| inner.moves_inside() && inner.last_line >= counter.last_advance;
            let is_begun = self.is_announced || self.counters.iter().any(moves_inside);
            return begun.max(0.0) + if is_begun { 0.0 } else { 1.0 };
        };
        // The epoch is printed before its parts, or after them at its end.
        let after = inner.first_line < counter.first_line;
        let done = begun.max(0.0) + if after { 1.0 } else { 0.0 };
        let current = inner.fallen.map_or(inner.current, |(fallen, _)| fallen);
        let part = (current / inner.total.unwrap_or(1.0)).clamp(0.0, 1.0);
        // Parts before the current epoch belong to the previous one.
        let is_current = inner.last_line > counter.last_advance || inner.last_line == counter.last_advance && !after;
        done + if is_current { part } else { 0.0 }
    }

    /// Whether all values are plausible.
    pub(crate) fn is_plausible(&self) -> bool {
        self.counters.len() <= COUNTERS_MAX
            && self.declared.len() <= DECLARED_MAX
            && plausible::small_count(self.outer_advances)
            && self.counters.iter().all(Counter::is_plausible)
            && self.declared.iter().all(|declared| plausible::number(declared.value))
    }

    /// Resets line numbers for a new reader.
    pub(crate) fn forget_lines(&mut self) {
        for counter in &mut self.counters {
            (counter.last_line, counter.last_advance) = (0, 0);
        }
    }
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
