//! Decisions about the job on the detail page: from the daemon's history, then from each update. Pure.

use api::wire::{ContainerDetail, Sample};
use std::collections::VecDeque;
use term::text;

/// Maximum number of decisions kept; the oldest are dropped.
const MAX_DECISIONS: usize = 1000;

/// Decisions, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Decisions {
    all: VecDeque<(u64, String)>,
}

impl Decisions {
    /// Prepends the decisions from before the first recorded one.
    pub(super) fn prepend(&mut self, past: &[Sample]) {
        let seen = std::mem::take(&mut self.all);
        let first = seen.front().map_or(u64::MAX, |(unix_ms, _)| *unix_ms);
        let older = past.iter().filter(|sample| sample.unix_ms < first);
        older.filter_map(|sample| Some((sample.unix_ms, of_sample(sample)?))).for_each(|decided| self.push(decided));
        seen.into_iter().for_each(|decided| self.push(decided));
    }

    /// Records the decision in a detail received at this time.
    pub(super) fn push_detail(&mut self, detail: &ContainerDetail, unix_ms: u64) {
        let decided = match (&detail.container.hold, &detail.explanation.decision) {
            (Some(hold), _) => hold.why.clone(),
            (None, Some(_)) => words(detail.container.share, &detail.container.why),
            (None, None) => return,
        };
        self.push((unix_ms, decided));
    }

    /// Appends a decision unless it equals the last one.
    fn push(&mut self, decided: (u64, String)) {
        if self.all.back().is_some_and(|(_, last)| *last == decided.1) {
            return;
        }
        if self.all.len() == MAX_DECISIONS {
            self.all.pop_front();
        }
        self.all.push_back(decided);
    }

    /// Time and text of each decision, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        self.all.iter().map(|(unix_ms, decided)| (*unix_ms, decided.as_str()))
    }
}

fn of_sample(sample: &Sample) -> Option<String> {
    match (&sample.hold, &sample.decision) {
        (Some(hold), _) => Some(hold.clone()),
        (None, Some(decision)) => Some(words(sample.share, &decision.text)),
        (None, None) => None,
    }
}

fn words(share: Option<f64>, why: &str) -> String {
    let share = share.map_or_else(|| "no share".to_owned(), |share| format!("share {}", text::percent(share)));
    format!("{share}, {why}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, detail, sample};
    use super::*;

    #[test]
    fn history_comes_first_and_repeated_decisions_are_merged() {
        let mut decisions = Decisions::default();
        let latest = detail("vae", &[1.0], 1, "");
        decisions.push_detail(&latest, NOW);
        decisions.push_detail(&latest, NOW + 1000);
        decisions.prepend(&[
            sample(NOW - 3000, 0.2, "slow"),
            sample(NOW - 2000, 0.2, "slow"),
            sample(NOW - 1000, 0.4, "fast"),
            sample(NOW + 500, 0.9, "seen already"),
        ]);
        let all: Vec<(u64, &str)> = decisions.iter().collect();
        let expected = [
            (NOW - 3000, "share 20%, slow"),
            (NOW - 1000, "share 40%, fast"),
            (NOW, "share 63%, learning fast: 63% of all growth"),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn memory_is_bounded() {
        let mut decisions = Decisions::default();
        let past: Vec<Sample> = (0..5000).map(|at| sample(NOW - 10_000 + at, 0.5, &format!("decision {at}"))).collect();
        decisions.prepend(&past);
        assert_eq!(decisions.iter().count(), MAX_DECISIONS);
        assert!(decisions.iter().last().is_some_and(|(_, words)| words.ends_with("decision 4999")));
    }
}
