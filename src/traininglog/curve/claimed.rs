//! Matches claimed totals with the log's counter.

use super::History;
use crate::claim::{self, Claim, Counted, TotalClaim};

impl History {
    /// Replaces the totals found outside of the log.
    pub(crate) fn claims(&mut self, claims: Vec<Claim>) {
        self.claims = claims;
    }

    /// Returns the current claim and its confidence. `None` if the log prints a total, or if the job ran past every claim. Before the first
    /// line the counter is unknown.
    pub(super) fn claimed(&self) -> Option<(&Claim, f64)> {
        if self.is_silent() && self.comparable().next().is_none() {
            return claim::least(&self.claims);
        }
        claim::choose(&self.claims, self.counted()?, self.done())
    }

    /// Returns the current claim for status and plans.
    pub(super) fn claim(&self) -> Option<TotalClaim> {
        let (claim, confidence) = self.claimed()?;
        Some(TotalClaim { total: claim.total, key: claim.key.clone(), origin: claim.origin, confidence })
    }

    /// Returns the claimed total as the end of fitted curves, if its confidence suffices and it is in the units of the fit.
    pub(super) fn claimed_end(&self) -> Option<f64> {
        let same_units = self.is_silent() || self.progress.is_some() == self.improvements.counts;
        let (claim, confidence) = self.claimed().filter(|_| same_units)?;
        (confidence >= claim::SURE).then_some(claim.total)
    }

    /// Units done, in the unit that claims are matched with.
    pub(super) fn done(&self) -> f64 {
        self.progress.map_or(self.evaluations as f64, |progress| progress.current)
    }

    /// Returns the unit of a claimed total. A run that has printed nothing is assumed to count like the latest prior run.
    fn counted(&self) -> Option<Counted> {
        if self.claims.is_empty() {
            return None;
        }
        match self.progress {
            Some(progress) if progress.total.is_some() => None,
            Some(progress) => Some(Counted::Unit(progress.unit)),
            None if self.evaluations > 0 => Some(Counted::Evaluations),
            None => {
                let latest = self.comparable().last()?;
                Some(latest.unit.map_or(Counted::Evaluations, Counted::Unit))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PriorRun;
    use crate::claim::{ClaimOrigin, of_command};
    use crate::{Direction, Estimate, Evaluation, Millis, Progress, ProgressUnit};
    use std::sync::Arc;

    fn claims(line: &str) -> Vec<Claim> {
        of_command(&line.split(' ').collect::<Vec<_>>())
    }

    fn claiming(line: &str) -> History {
        let mut history = History::new(Some(Direction::Down));
        history.claims(claims(line));
        history
    }

    /// Prints an epoch and its loss each second.
    fn train(history: &mut History, epochs: std::ops::RangeInclusive<u32>, total: Option<f64>) {
        for epoch in epochs {
            let (at, current) = (Millis(u64::from(epoch) * 1000), f64::from(epoch));
            history.report(Progress { unit: ProgressUnit::Epoch, current, total, at });
            history.push(Evaluation { at, value: (-current / 9.0).exp(), current: Some(current), total });
        }
    }

    fn likely(estimate: Option<Estimate>) -> Option<f64> {
        estimate.map(|estimate| estimate.likely)
    }

    #[test]
    fn the_command_supplies_a_total_that_the_log_does_not_print() {
        let mut history = claiming("python train.py --epochs 50");
        assert_eq!(likely(history.peek(Millis(0)).units_to_completion), Some(50.0), "nothing is counted so far");
        train(&mut history, 1..=12, None);
        let learning = history.peek(Millis(12_000));
        let claim = learning.claim.expect("a claim");
        assert_eq!((claim.total, claim.key.as_str(), claim.origin), (50.0, "--epochs", ClaimOrigin::Command));
        assert_eq!(likely(learning.units_to_completion), Some(38.0));
        assert_eq!(learning.progress.and_then(|progress| progress.total), None, "the log does not print it");
    }

    #[test]
    fn before_the_first_line_the_smallest_sure_claim_is_used() {
        let total = |line: &str| claiming(line).peek(Millis(0)).claim.map(|claim| claim.total);
        assert_eq!(total("python train.py --max_steps 9000 --epochs 50"), Some(50.0));
        assert_eq!(total("python train.py -n 5"), None, "not sure");
        assert_eq!(total("python train.py"), None);
    }

    #[test]
    fn a_total_in_the_log_takes_precedence_over_the_command() {
        let mut history = claiming("python train.py --epochs 50");
        train(&mut history, 1..=12, Some(20.0));
        let learning = history.peek(Millis(12_000));
        assert_eq!((learning.claim, likely(learning.units_to_completion)), (None, Some(8.0)));
    }

    #[test]
    fn a_claim_is_dropped_when_the_job_runs_past_it() {
        let mut history = claiming("python train.py --epochs 12");
        train(&mut history, 1..=12, None);
        assert_eq!(likely(history.peek(Millis(0)).units_to_completion), Some(0.0));
        train(&mut history, 13..=13, None);
        let learning = history.peek(Millis(0));
        assert_eq!((learning.claim, learning.units_to_completion), (None, None));
    }

    #[test]
    fn a_claimed_total_ends_the_curve_like_a_printed_one() {
        let forecast = |line: &str, total: Option<f64>| {
            let mut history = claiming(line);
            train(&mut history, 1..=20, total);
            history.close_interval(Millis(20_000)).curve.expect("fitted")
        };
        let printed = forecast("python train.py", Some(40.0));
        assert_eq!(forecast("python train.py --epochs 40", None), printed);
        assert_eq!(forecast("python train.py -n 40", None), forecast("python train.py", None), "too weak for that");
        assert_ne!(forecast("python train.py", None), printed);
    }

    #[test]
    fn evaluations_count_as_epochs_if_the_log_has_no_counter() {
        let mut history = claiming("python train.py --epochs 50");
        for n in 1..=10u32 {
            let value = (-f64::from(n) / 9.0).exp();
            history.push(Evaluation { at: Millis(u64::from(n) * 1000), value, current: None, total: None });
        }
        let learning = history.peek(Millis(10_000));
        assert_eq!(likely(learning.units_to_completion), Some(40.0));
        assert!(learning.claim.is_some_and(|claim| claim.confidence < 0.5));
    }

    #[test]
    fn before_the_first_line_a_claim_is_matched_with_the_unit_of_the_last_run() {
        let mut before = claiming("");
        train(&mut before, 1..=30, Some(30.0));
        let prior_run: Arc<PriorRun> = Arc::new(before.prior_run().expect("it improved"));
        let forecast = |line: &str| {
            let mut history = claiming(line);
            history.use_prior_runs(vec![prior_run.clone()]);
            likely(history.peek(Millis(0)).units_to_completion)
        };
        assert_eq!(forecast("python train.py"), Some(30.0));
        assert_eq!(forecast("python train.py --epochs 80"), Some(80.0), "the claim of this run");
        assert_eq!(forecast("python train.py --max_steps 80"), Some(30.0), "other units");
    }

    #[test]
    fn claims_are_not_saved() {
        let mut history = claiming("python train.py --epochs 50");
        train(&mut history, 1..=12, None);
        let saved = serde_json::to_string(&history).expect("numbers");
        assert!(!saved.contains("epochs"), "{saved}");
        let mut resumed: History = serde_json::from_str(&saved).expect("as saved");
        assert_eq!(resumed.peek(Millis(0)).claim, None);
        resumed.claims(claims("python train.py --epochs 50"));
        assert_eq!(resumed.peek(Millis(0)).claim, history.peek(Millis(0)).claim);
    }
}
