//! Computes the time until a job reached 90, 95 and 99 % of its final improvement.

/// Fractions of the final improvement.
pub(super) const PARTS: [f64; 3] = [0.90, 0.95, 0.99];

/// Seconds from the start until the fraction `part` of the improvement from the first to the best evaluation was reached; `None` for a
/// job that never improved or has fewer than two evaluations. `curve` holds (seconds since the job's start, evaluation), oldest first.
pub(super) fn time_to(curve: &[(f64, f64)], part: f64) -> Option<f64> {
    let (_, first) = *curve.first()?;
    let (_, last) = *curve.last()?;
    let better = |value: f64| if last < first { first - value } else { value - first };
    let final_improvement = curve.iter().map(|(_, value)| better(*value)).fold(0.0, f64::max);
    let reached = |value: f64| final_improvement > 0.0 && better(value) >= part * final_improvement;
    curve.iter().find(|(_, value)| reached(*value)).map(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_loss_and_a_rising_accuracy_give_the_same_times() {
        let loss: Vec<(f64, f64)> = (0..=100).map(|t| (f64::from(t), 2.0 - f64::from(t) / 100.0)).collect();
        let accuracy: Vec<(f64, f64)> = loss.iter().map(|(at, value)| (*at, 3.0 - value)).collect();
        for curve in [loss, accuracy] {
            for (part, expected) in PARTS.into_iter().zip([90.0, 95.0, 99.0]) {
                let time = time_to(&curve, part).expect("it improves");
                assert!((time - expected).abs() <= 1.0, "{part}: {time}"); // one step of the curve
            }
        }
    }

    #[test]
    fn a_job_that_never_improved_has_no_time() {
        assert_eq!(time_to(&[], 0.9), None);
        assert_eq!(time_to(&[(0.0, 1.0)], 0.9), None);
        assert_eq!(time_to(&[(0.0, 1.0), (5.0, 1.0)], 0.9), None);
    }

    #[test]
    fn noise_at_the_end_does_not_change_the_time() {
        let curve = [(0.0, 10.0), (1.0, 1.0), (2.0, 0.0), (3.0, 0.4)];
        assert_eq!(time_to(&curve, 0.9), Some(1.0));
        assert_eq!(time_to(&curve, 0.99), Some(2.0));
    }
}
