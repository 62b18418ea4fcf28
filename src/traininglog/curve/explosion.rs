//! Whether the values explode: the latest are far outside of everything before.
//!
//! The measure is the range of all values before them. Noise, returns of reinforcement learning and losses of adversaries go up and down
//! within a range that they have shown; a training that explodes leaves it by about its width or more, and stays there. Values outside
//! do not widen the range. If they fall again, another phase of training may have begun, with a range of its own.

use crate::plausible;
use crate::{Direction, Evaluation, Streak};
use serde::{Deserialize, Serialize};

/// Values that show the range.
const LEAST_VALUES: u64 = 8;

/// A value is outside if it is worse than the worst by this multiple of the range. Of 247 real logs, 0.75 accuses the first.
const RANGES: f64 = 0.9;

/// The same, if no value was better than the first: a running mean, for example, rises from zero while it fills.
const RANGES_WITHOUT_IMPROVEMENT: f64 = 4.0;

/// The range is at least this part of the first value: values that have hardly changed show no range.
const LEAST_WIDTH: f64 = 0.02;

/// The range of the values, and the latest ones, if they are outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Explosion {
    range: Option<Range>,
    outside: Option<Outside>,
}

/// How much worse than the first value the others are; negative = better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Range {
    first: f64,
    best: f64,
    worst: f64,
    values: u64,
}

/// Values outside, without another between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Outside {
    first: Evaluation,
    values: u64,
    /// How much worse the latest of them is than the first value of all.
    latest: f64,
    /// The same for the worst of them.
    worst: f64,
    /// The latest of them that are nearer to the range than to the worst.
    falling: u64,
}

impl Explosion {
    /// Adds a finite value.
    pub(super) fn push(&mut self, direction: Direction, evaluation: Evaluation) {
        let new = Range { first: evaluation.value, best: 0.0, worst: 0.0, values: 0 };
        let range = self.range.get_or_insert(new);
        let worse = direction.improvement(evaluation.value, range.first);
        if range.values >= LEAST_VALUES && worse > range.beyond(RANGES) {
            let first = Outside { first: evaluation, values: 0, latest: worse, worst: worse, falling: 0 };
            let outside = self.outside.get_or_insert(first);
            outside.values += 1;
            (outside.latest, outside.worst) = (worse, outside.worst.max(worse));
            let is_nearer = worse - range.worst < outside.worst - worse;
            outside.falling = if is_nearer { outside.falling + 1 } else { 0 };
            if outside.falling < LEAST_VALUES {
                return;
            }
            *range = new;
        }
        self.outside = None;
        let worse = direction.improvement(evaluation.value, range.first);
        range.best = range.best.min(worse);
        range.worst = range.worst.max(worse);
        range.values += 1;
    }

    /// The latest values, if they are far outside of the range of those before.
    pub(super) fn streak(&self) -> Option<Streak> {
        let Outside { first, values, latest, .. } = self.outside?;
        let range = self.range?;
        let is_far = range.best < 0.0 || latest > range.beyond(RANGES_WITHOUT_IMPROVEMENT);
        is_far.then_some(Streak { values, since: first.at, units: first.current })
    }

    /// The first value outside, whose time is carried.
    pub(super) fn first_outside(&mut self) -> Option<&mut Evaluation> {
        self.outside.as_mut().map(|outside| &mut outside.first)
    }

    /// Whether all values are plausible.
    pub(super) fn is_plausible(&self) -> bool {
        let outside = self.outside.is_none_or(|Outside { first, values, latest, worst, falling }| {
            [first.current, first.total].into_iter().all(plausible::optional)
                && [latest, worst].into_iter().all(plausible::number)
                && [values, falling].into_iter().all(plausible::count)
        });
        let range = self.range.is_none_or(|Range { first, best, worst, values }| {
            [first, best, worst].into_iter().all(plausible::number) && plausible::count(values)
        });
        outside && range
    }
}

impl Range {
    /// The worst value and this multiple of the width.
    fn beyond(&self, ranges: f64) -> f64 {
        self.worst + ranges * (self.worst - self.best).max(LEAST_WIDTH * self.first.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Millis;

    fn streak_after(direction: Direction, values: &[f64]) -> Option<u64> {
        let mut explosion = Explosion::default();
        for (number, value) in values.iter().enumerate() {
            let at = Millis::from_secs(number as u64);
            explosion.push(direction, Evaluation { at, value: *value, current: Some(number as f64), total: None });
        }
        explosion.streak().map(|streak| streak.values)
    }

    const FALLING: [f64; 10] = [2.3, 1.9, 1.7, 1.75, 1.5, 1.4, 1.45, 1.3, 1.2, 1.1];

    fn falling_and(more: &[f64]) -> Vec<f64> {
        FALLING.iter().chain(more).copied().collect()
    }

    #[test]
    fn values_far_worse_than_all_before_are_counted_until_one_is_not() {
        assert_eq!(streak_after(Direction::Down, &FALLING), None);
        assert_eq!(streak_after(Direction::Down, &falling_and(&[3.3])), None, "within a range of the worst");
        assert_eq!(streak_after(Direction::Down, &falling_and(&[4.0, 9.0, 50.0])), Some(3));
        assert_eq!(streak_after(Direction::Down, &falling_and(&[4.0, 9.0, 1.1])), None);
        let rising: Vec<f64> = falling_and(&[4.0, 9.0]).iter().map(|value| -value).collect();
        assert_eq!(streak_after(Direction::Up, &rising), Some(2));
    }

    #[test]
    fn a_running_mean_that_fills_is_no_explosion_but_a_loss_that_only_grows_is() {
        let filling = [0.02, 0.44, 0.8, 1.04, 1.23, 1.39, 1.54, 1.68, 1.82, 1.95, 7.8, 7.7];
        assert_eq!(streak_after(Direction::Down, &filling), None);
        let growing = [2.3, 2.4, 2.6, 3.0, 3.1, 3.4, 3.8, 4.1, 6.0, 9.0, 15.0];
        assert_eq!(streak_after(Direction::Down, &growing), Some(3));
    }

    #[test]
    fn values_that_fall_again_are_another_phase_and_values_that_stay_are_not() {
        let other_loss: Vec<f64> = (0..16).map(|n| 4.0 + 5.0 * 0.8_f64.powi(n)).collect();
        assert_eq!(streak_after(Direction::Down, &falling_and(&other_loss)), None);
        assert_eq!(streak_after(Direction::Down, &falling_and(&[11.0; 50])), Some(50));
    }

    #[test]
    fn few_values_or_values_that_hardly_change_show_no_range() {
        let flat = [1.2026, 1.2026, 1.2025, 1.2026, 1.2025, 1.2026, 1.2026, 1.2025, 1.2028, 1.2029];
        assert_eq!(streak_after(Direction::Down, &flat), None);
        assert_eq!(streak_after(Direction::Down, &[2.3, 2.2, 2.1, 50.0, 60.0]), None);
    }
}
