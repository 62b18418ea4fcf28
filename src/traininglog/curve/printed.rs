//! The values as printed: their mean in each interval, and the largest so far. Neither filtered nor fitted, for rules that judge raw values.

use crate::PrintedMean;
use crate::plausible;
use serde::{Deserialize, Serialize};

/// The open interval, and the mean of the closed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Printed {
    sum: f64,
    count: f64,
    largest: f64,
    #[serde(skip)]
    closed: Option<PrintedMean>,
}

impl Printed {
    /// Adds a finite value.
    pub(super) fn push(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
        self.largest = self.largest.max(value.abs());
    }

    /// Ends the interval.
    pub(super) fn close(&mut self) {
        let Printed { sum, count, largest, .. } = *self;
        let mean = (count > 0.0).then(|| PrintedMean { mean: sum / count, largest });
        *self = Printed { largest, closed: mean.filter(|mean| mean.mean.is_finite()), ..Printed::default() };
    }

    /// Returns the mean of the last interval that ended; `None` = it had no value.
    pub(super) fn mean(&self) -> Option<PrintedMean> {
        self.closed
    }

    pub(super) fn is_plausible(&self) -> bool {
        [self.sum, self.count, self.largest].into_iter().all(plausible::number) && self.count >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interval_has_the_mean_of_its_values_and_the_largest_of_all() {
        let mut printed = Printed::default();
        let mut interval = |values: &[f64]| {
            values.iter().for_each(|value| printed.push(*value));
            printed.close();
            printed.mean().map(|closed| (closed.mean, closed.largest))
        };
        assert_eq!(interval(&[4.0, 2.0]), Some((3.0, 4.0)));
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[1.0]), Some((1.0, 4.0)));
        assert_eq!(interval(&[-5.0, 1.0]), Some((-2.0, 5.0)), "of a reward below zero, the size counts");
    }
}
