//! The progress counters of a log: which one tells how far the job is.
//!
//! Problem: epochs of steps of samples, bars inside bars, a data set loaded before training starts, counters that begin at 0 or
//! 1, that start over in a second fit, or that run past their total. Approach: keep each counter's last value, total and
//! restarts; the outermost counter that still moves is the job's. A counter that starts over again and again is inside another.
//! Imports: model only.

use super::lexicon::Count;
use crate::model::ProgressUnit;
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Counters kept; the one not seen for longest makes room.
const COUNTERS_MAX: usize = 16;

/// Distinct values from which more of them say nothing more.
const DISTINCT_MAX: u32 = 8;

/// So many equal values after a fall are a new phase and no slip.
const REPEATS_THAT_RESTART: u8 = 3;

/// One counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Counter {
    pub count: Count,
    pub current: f64,
    pub total: Option<f64>,
    first: f64,
    distinct: u32,
    updates: u32,
    restarts: u32,
    exceeded: u32,
    /// Updates on a line that also counted epochs.
    inside: u32,
    #[serde(default)]
    first_line: u64,
    last_line: u64,
    last_advance: u64,
    /// Counts in parts (`'epoch': 0.25`): it needs nothing folded in.
    #[serde(default)]
    has_parts: bool,
    fallen: Option<(f64, u8)>,
}

/// All counters of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counters {
    counters: Vec<Counter>,
    declared: Vec<Declared>,
    /// The outermost counter as last found, until something changes that could make it another.
    #[serde(skip)]
    outer: Cell<Option<(u64, usize)>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Declared {
    count: Count,
    value: f64,
    contradicted: bool,
}

impl Counters {
    /// Takes a printed counter. `beside_epoch`: the line also counts epochs.
    pub(super) fn advance(&mut self, count: Count, value: f64, total: Option<f64>, line: u64, beside_epoch: bool) {
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let total = total.filter(|total| *total > 0.0 && total.is_finite());
        let slot = self.slot(count, total, value, line);
        let counter = &mut self.counters[slot];
        let before = counter.standing();
        counter.updates += 1;
        counter.last_line = line;
        counter.inside += u32::from(beside_epoch && count != Count::Epoch);
        counter.total = total.or(counter.total);
        counter.has_parts |= value as u64 as f64 != value;
        counter.exceeded += u32::from(total.is_some_and(|total| value > total));
        counter.take(value, line);
        if counter.standing() != before {
            self.outer.set(None);
        }
    }

    /// Whether `value` goes on where a known counter with the same total stands.
    pub(super) fn would_advance(&self, count: Count, value: f64, total: Option<f64>) -> bool {
        let nested = matches!(count, Count::Pair | Count::Batch | Count::Nested | Count::Percent);
        !nested
            && self.counters.iter().any(|known| known.count == count && known.total == total && value > known.current)
    }

    /// Takes what may be the end of a counter, from a configuration or an announcement.
    pub(super) fn declare(&mut self, count: Count, value: f64, line: u64) {
        // A quantity with such a name that moves is a counter after all (`total_timesteps`, `num_updates`).
        if let Some(counter) = self.counters.iter().find(|counter| counter.count == count)
            && counter.distinct >= 2
            && counter.total.is_none()
            && self.declared.iter().any(|d| d.count == count && d.contradicted)
        {
            self.advance(count, value, None, line, false);
            return;
        }
        match self.declared.iter_mut().find(|declared| declared.count == count) {
            Some(known) if known.value == value => {}
            Some(known) => {
                let moved = (known.value, value);
                known.contradicted = true;
                known.value = value;
                if moved.1 > moved.0 {
                    self.advance(count, moved.0, None, line, false);
                    self.advance(count, moved.1, None, line, false);
                }
            }
            None => self.declared.push(Declared { count, value, contradicted: false }),
        }
        self.outer.set(None);
    }

    fn slot(&mut self, count: Count, total: Option<f64>, value: f64, line: u64) -> usize {
        // Bars of different length are different bars.
        let same = |counter: &Counter| counter.count == count && (count != Count::Pair || counter.total == total);
        if let Some(slot) = self.counters.iter().position(same) {
            return slot;
        }
        if self.counters.len() == COUNTERS_MAX {
            let oldest = (0..COUNTERS_MAX).min_by_key(|slot| self.counters[*slot].last_line).unwrap_or(0);
            self.counters.swap_remove(oldest);
        }
        self.outer.set(None);
        self.counters.push(Counter {
            count,
            current: value,
            total,
            first: value,
            distinct: 1,
            updates: 0,
            restarts: 0,
            exceeded: 0,
            inside: 0,
            first_line: line,
            last_line: line,
            last_advance: line,
            has_parts: false,
            fallen: None,
        });
        self.counters.len() - 1
    }

    /// The counter of the whole job. `since`: the line of the first evaluation; what stopped before it was preparation.
    pub(super) fn outermost(&self, since: Option<u64>) -> Option<&Counter> {
        let since_line = since.unwrap_or(0);
        if let Some((known, slot)) = self.outer.get()
            && known == since_line
        {
            return self.counters.get(slot);
        }
        let rank = |slot: &usize| self.counters[*slot].rank(self.total_of(&self.counters[*slot]).is_some(), since);
        let best =
            (0..self.counters.len()).max_by(|a, b| rank(a).total_cmp(&rank(b))).filter(|slot| rank(slot) > 0.0)?;
        self.outer.set(Some((since_line, best)));
        self.counters.get(best)
    }

    /// The counter that counts `unit`, where the owner said so.
    pub(super) fn of_unit(&self, unit: ProgressUnit) -> Option<&Counter> {
        self.counters.iter().filter(|counter| counter.count.unit() == unit).max_by_key(|counter| counter.last_line)
    }

    /// The total of a counter: its own if it keeps to it, else a declared one that nothing contradicts.
    pub(super) fn total_of(&self, counter: &Counter) -> Option<f64> {
        if counter.count == Count::Percent {
            return Some(100.0);
        }
        let own = counter.total.filter(|_| counter.exceeded == 0 || counter.restarts > 0);
        own.or_else(|| {
            let declared =
                self.declared.iter().find(|declared| declared.count == counter.count && !declared.contradicted)?;
            (declared.value >= counter.current && declared.value > 1.0).then_some(declared.value)
        })
    }

    /// Units done by `counter`, the part of the unit that an inner counter has done included: epoch 3 of 10 and batch 50 of 100 is 2.5.
    pub(super) fn folded(&self, counter: &Counter) -> f64 {
        if counter.count != Count::Epoch || counter.has_parts {
            return counter.current;
        }
        let begun = counter.current - if counter.first >= 1.0 { 1.0 } else { 0.0 };
        let inner = self.counters.iter().filter(|inner| inner.is_within(counter));
        let Some(inner) = inner.max_by_key(|inner| inner.last_line) else {
            // Nothing inside: the line is printed when the epoch is over.
            return begun.max(0.0) + 1.0;
        };
        // The epoch is counted before its parts, or after them when it is over.
        let after = inner.first_line < counter.first_line;
        let done = begun.max(0.0) + if after { 1.0 } else { 0.0 };
        let standing = inner.fallen.map_or(inner.current, |(fallen, _)| fallen);
        let part = (standing / inner.total.unwrap_or(1.0)).clamp(0.0, 1.0);
        // Parts that were counted before the present epoch belong to the one before.
        let is_present = inner.last_line > counter.last_advance || inner.last_line == counter.last_advance && !after;
        done + if is_present { part } else { 0.0 }
    }

    /// The line numbers of a new reader begin anew.
    pub(super) fn forget_lines(&mut self) {
        for counter in &mut self.counters {
            (counter.last_line, counter.last_advance) = (0, 0);
        }
    }
}

impl Counter {
    fn take(&mut self, value: f64, line: u64) {
        if value > self.current {
            self.distinct = self.distinct.saturating_add(1);
            (self.current, self.last_advance, self.fallen) = (value, line, None);
        } else if value < self.current {
            // One fall may be a slip, a summary or an evaluation labelled "epoch 0"; a new phase goes on from there.
            let repeats = match self.fallen {
                Some((fallen, repeats)) if fallen == value => repeats + 1,
                Some(_) => REPEATS_THAT_RESTART,
                None => 1,
            };
            if repeats >= REPEATS_THAT_RESTART {
                self.restarts = self.restarts.saturating_add(1);
                (self.current, self.last_advance, self.fallen) = (value, line, None);
            } else {
                self.fallen = Some((value, repeats));
            }
        }
    }

    /// Whether it counts parts of what `outer` counts.
    fn is_within(&self, outer: &Counter) -> bool {
        let begun_again = self.restarts + u32::from(self.fallen.is_some());
        let restarts = begun_again > 0 && begun_again + 2 >= outer.distinct;
        // At first nothing has begun again yet: what counts batches or pairs while the epoch stands is inside.
        let moves = outer.distinct <= 2 && matches!(self.count, Count::Pair | Count::Batch | Count::Nested);
        let nested = self.inside * 2 > self.updates || restarts || moves && self.last_line > outer.first_line;
        !matches!(self.count, Count::Epoch | Count::Percent) && nested && self.total.is_some()
    }

    /// What the rank depends on, coarsely: a counter that only counts on keeps its rank.
    fn standing(&self) -> (u32, u32, bool, bool, bool) {
        (
            self.restarts,
            self.distinct.min(DISTINCT_MAX),
            self.exceeded > 0,
            self.total.is_some(),
            self.inside * 2 > self.updates,
        )
    }

    fn rank(&self, has_total: bool, since: Option<u64>) -> f64 {
        let kind = match self.count {
            Count::Epoch => 1.0,
            Count::Kimg => 0.97,
            Count::Step | Count::Iteration => 0.95,
            Count::Episode | Count::Trial | Count::Round => 0.9,
            Count::Lead => 0.8,
            Count::Pair => 0.75,
            Count::Batch => 0.6,
            Count::Tick | Count::Nested => 0.45,
            Count::Sample | Count::Percent => 0.3,
        };
        let restarting = 0.6 * (f64::from(self.restarts) * 8.0 / f64::from(self.distinct)).min(1.0);
        let nested = if self.inside * 2 > self.updates && self.count != Count::Epoch { 0.35 } else { 0.0 };
        let still = if self.distinct < 2 { 0.2 } else { 0.0 };
        let over = if since.is_some_and(|since| self.last_line < since) { 0.8 } else { 0.0 };
        // Among equals the one that has moved more: the bar of a short evaluation stands beside that of the training.
        let moved = 0.04 * (1.0 - 1.0 / f64::from(self.distinct.min(DISTINCT_MAX)));
        kind + moved + if has_total { 0.3 } else { 0.0 } - restarting - nested - still - over
    }
}

impl Count {
    /// The nearest unit of the model.
    pub(super) fn unit(self) -> ProgressUnit {
        match self {
            Count::Epoch => ProgressUnit::Epoch,
            Count::Step | Count::Batch | Count::Pair | Count::Nested => ProgressUnit::Step,
            Count::Iteration | Count::Episode | Count::Trial | Count::Tick | Count::Lead => ProgressUnit::Iteration,
            Count::Round => ProgressUnit::Round,
            Count::Kimg | Count::Sample => ProgressUnit::Sample,
            Count::Percent => ProgressUnit::Percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_counter_that_moves_is_the_jobs() {
        let mut counters = Counters::default();
        counters.advance(Count::Pair, 5000.0, Some(5000.0), 1, false);
        let mut line = 2;
        for epoch in 1..=3 {
            for batch in (0..100).step_by(10) {
                counters.advance(Count::Epoch, f64::from(epoch), Some(10.0), line, true);
                counters.advance(Count::Pair, f64::from(batch), Some(100.0), line, true);
                line += 1;
            }
        }
        let outer = counters.outermost(Some(2)).expect("counters were seen");
        assert_eq!((outer.count, outer.current, counters.total_of(outer)), (Count::Epoch, 3.0, Some(10.0)));
        assert_eq!(counters.folded(outer), 2.9);
    }

    #[test]
    fn a_single_fall_is_a_slip_and_two_values_are_a_new_phase() {
        let mut counters = Counters::default();
        for epoch in [0.0, 1.0, 2.0, 49.0, 0.0] {
            counters.advance(Count::Epoch, epoch, None, 1, true);
        }
        assert_eq!(counters.outermost(None).map(|c| c.current), Some(49.0));
        counters.advance(Count::Epoch, 1.0, None, 1, true);
        assert_eq!(counters.outermost(None).map(|c| c.current), Some(1.0));
    }

    #[test]
    fn a_declared_end_serves_until_it_is_passed_or_contradicted() {
        let mut counters = Counters::default();
        counters.declare(Count::Epoch, 30.0, 1);
        counters.advance(Count::Epoch, 1.0, None, 2, false);
        let total = |counters: &Counters| counters.outermost(None).and_then(|counter| counters.total_of(counter));
        assert_eq!(total(&counters), Some(30.0));
        counters.advance(Count::Epoch, 31.0, None, 3, false);
        assert_eq!(total(&counters), None);
    }
}
