//! FlowCon to the letter: the growth efficiency of the paper of 2019 and its prototype, for `policy.name = "flowcon-2019"`.
//!
//! ```text
//! E(t_i)   mean of the values printed in the interval, divided by the largest printed so far; without a value, as before
//! P        |E(t_i) − E(t_{i−1})| / (t_i − t_{i−1})                                                    [eq. 1]
//! G        P / R                                                                                     [eq. 2]
//! β        1 + 1/n
//! ```
//!
//! Lists, limits and listeners are those of [`super::flowcon`]. What that policy mends is kept here: a loss that rises counts as growth, a
//! new largest value shifts the scale, noise counts as growth, and a job that prints nothing has no growth, so that it converges in two
//! intervals. The back-off has no cap and ends only when a container starts or ends.
//!
//! Left out: the prototype truncated limits to whole cores, so that those below one core had no effect. Memory is not governed.

use super::growth::{Mark, Measurement, efficiency};
use model::{ContainerObservation, CpuTime, Millis, NodeObservation};
use serde::{Deserialize, Serialize};

/// Stands for a back-off without a cap: a day, the longest interval that can be configured.
pub(super) const NO_CAP: Millis = Millis::from_secs(86_400);

/// [β] for n running containers.
pub(super) fn share_floor(running: usize) -> f64 {
    1.0 + 1.0 / running.max(1) as f64
}

/// Measures one container's growth from tick to tick.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LetterMeter {
    /// The last tick, and E at that time.
    before: Option<(Mark, Option<f64>)>,
}

impl LetterMeter {
    /// Takes one tick's observation. An interval cut short counts like any other.
    pub(super) fn measure(
        &mut self,
        node: &NodeObservation,
        container: &ContainerObservation,
        gpu: Option<CpuTime>,
    ) -> Measurement {
        let mark = Mark { at: node.now, usage: container.usage, gpu };
        let before = self.before.take();
        let printed = container.learning.printed.map(|printed| printed.mean / printed.largest);
        let evaluation = printed.filter(|value| value.is_finite()).or(before.and_then(|(_, evaluation)| evaluation));
        self.before = Some((mark, evaluation));
        let Some((start, earlier)) = before.filter(|(start, _)| start.at < mark.at) else { return Measurement::Silent };
        let change = earlier.zip(evaluation).map_or(0.0, |(earlier, evaluation)| (evaluation - earlier).abs());
        efficiency(change, &start, &mark, node).map_or(Measurement::Silent, Measurement::Fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::{container, node};
    use model::PrintedMean;

    /// Growth per tick of 20 s, each with half of the node's CPU used, for the mean and the largest value printed by then.
    fn growths(values: &[Option<(f64, f64)>]) -> Vec<Option<f64>> {
        let mut meter = LetterMeter::default();
        let mut tick = |(number, printed): (usize, &Option<(f64, f64)>)| {
            let mut c = container("a");
            c.usage.cpu = Some(CpuTime(number as u64 * 20_000_000));
            c.learning.printed = printed.map(|(mean, largest)| PrintedMean { mean, largest });
            let now = Millis::from_secs(20 * number as u64);
            match meter.measure(&NodeObservation { now, cores: 2.0, ..node(Vec::new()) }, &c, None) {
                Measurement::Fresh(growth) => growth.cpu.map(|growth| (growth * 1e6).round() / 1e6),
                Measurement::Pending | Measurement::Silent => None,
            }
        };
        values.iter().enumerate().map(&mut tick).collect()
    }

    #[test]
    fn growth_is_the_change_of_the_value_divided_by_the_largest_whatever_its_direction() {
        // |0.5 − 1| over 20 s at half of the node: 0.5 / 10 node-CPU-seconds.
        assert_eq!(growths(&[Some((4.0, 4.0)), Some((2.0, 4.0))]), [None, Some(0.05)]);
        assert_eq!(growths(&[Some((2.0, 4.0)), Some((4.0, 4.0))]), [None, Some(0.05)], "a loss that rises");
        assert_eq!(growths(&[Some((4.0, 4.0)), Some((4.0, 8.0))]), [None, Some(0.05)], "the scale shifts");
    }

    #[test]
    fn a_job_that_prints_nothing_has_no_growth() {
        assert_eq!(growths(&[None, None, Some((4.0, 4.0))]), [None, Some(0.0), Some(0.0)]);
        assert_eq!(growths(&[Some((4.0, 4.0)), None, Some((2.0, 4.0))]), [None, Some(0.0), Some(0.05)]);
    }

    #[test]
    fn the_floor_of_a_converged_job_is_that_of_the_prototype() {
        assert_eq!([1, 2, 4].map(|running| 1.0 / (share_floor(running) * running as f64)), [0.5, 1.0 / 3.0, 0.2]);
    }
}
