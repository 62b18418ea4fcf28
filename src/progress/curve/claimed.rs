//! The total that the job's command claims, matched with what the log counts. Imports: the claims, model.

use super::History;
use crate::model::TotalClaim;
use crate::progress::claim::{self, Claim, Counted};

impl History {
    /// Totals found outside of the log, instead of those found before.
    pub(in crate::progress) fn claims(&mut self, claims: Vec<Claim>) {
        self.claims = claims;
    }

    /// The claim that counts now, and how sure it is: none where the log prints a total, and none that the job ran past. Before the first
    /// line nobody knows what will be counted.
    pub(super) fn claimed(&self) -> Option<(&Claim, f64)> {
        if self.is_silent() && self.comparable().next().is_none() {
            return claim::least(&self.claims);
        }
        claim::choose(&self.claims, self.counted()?, self.done())
    }

    /// The same, for everybody.
    pub(super) fn claim(&self) -> Option<TotalClaim> {
        let (claim, confidence) = self.claimed()?;
        Some(TotalClaim { total: claim.total, key: claim.key.clone(), origin: claim.origin, confidence })
    }

    /// The claim as the end that curves are judged by, if it is sure enough and in the units that they are fitted over.
    pub(super) fn claimed_end(&self) -> Option<f64> {
        let same_units = self.is_silent() || self.progress.is_some() == self.improvements.counts;
        let (claim, confidence) = self.claimed().filter(|_| same_units)?;
        (confidence >= claim::SURE).then_some(claim.total)
    }

    /// Units done, of those that claims are matched with.
    pub(super) fn done(&self) -> f64 {
        self.progress.map_or(self.evaluations as f64, |progress| progress.current)
    }

    /// What a total would be counted in. A run that has printed nothing counts what the latest run of the same training counted.
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
    use crate::model::{ClaimOrigin, Direction, Estimate, Evaluation, Millis, Progress, ProgressUnit};
    use crate::progress::PriorRun;
    use crate::progress::claim::of_command;
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
    fn what_the_log_does_not_say_the_command_does() {
        let mut history = claiming("python train.py --epochs 50");
        assert_eq!(likely(history.peek(Millis(0)).units_to_completion), Some(50.0), "nothing is counted yet");
        train(&mut history, 1..=12, None);
        let learning = history.peek(Millis(12_000));
        let claim = learning.claim.expect("it claims");
        assert_eq!((claim.total, claim.key.as_str(), claim.origin), (50.0, "--epochs", ClaimOrigin::Command));
        assert_eq!(likely(learning.units_to_completion), Some(38.0));
        assert_eq!(learning.progress.and_then(|progress| progress.total), None, "the log does not say it");
    }

    #[test]
    fn before_the_first_line_the_least_of_the_sure_claims_counts() {
        let total = |line: &str| claiming(line).peek(Millis(0)).claim.map(|claim| claim.total);
        assert_eq!(total("python train.py --max_steps 9000 --epochs 50"), Some(50.0));
        assert_eq!(total("python train.py -n 5"), None, "not sure");
        assert_eq!(total("python train.py"), None);
    }

    #[test]
    fn the_log_is_believed_before_the_command() {
        let mut history = claiming("python train.py --epochs 50");
        train(&mut history, 1..=12, Some(20.0));
        let learning = history.peek(Millis(12_000));
        assert_eq!((learning.claim, likely(learning.units_to_completion)), (None, Some(8.0)));
    }

    #[test]
    fn a_job_that_runs_past_its_claim_has_none() {
        let mut history = claiming("python train.py --epochs 12");
        train(&mut history, 1..=12, None);
        assert_eq!(likely(history.peek(Millis(0)).units_to_completion), Some(0.0));
        train(&mut history, 13..=13, None);
        let learning = history.peek(Millis(0));
        assert_eq!((learning.claim, learning.units_to_completion), (None, None));
    }

    #[test]
    fn curves_end_where_the_claim_does_as_if_the_log_had_said_it() {
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
    fn printed_evaluations_are_taken_for_epochs_where_nothing_is_counted() {
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
    fn before_the_first_line_a_claim_counts_in_what_the_last_run_counted() {
        let mut before = claiming("");
        train(&mut before, 1..=30, Some(30.0));
        let prior_run: Arc<PriorRun> = Arc::new(before.prior_run().expect("it improved"));
        let foretold = |line: &str| {
            let mut history = claiming(line);
            history.lean_on(vec![prior_run.clone()]);
            likely(history.peek(Millis(0)).units_to_completion)
        };
        assert_eq!(foretold("python train.py"), Some(30.0));
        assert_eq!(foretold("python train.py --epochs 80"), Some(80.0), "this run's own word");
        assert_eq!(foretold("python train.py --max_steps 80"), Some(30.0), "other units");
    }

    #[test]
    fn claims_are_not_part_of_what_is_saved() {
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
