//! What was decided about the job that is looked at: from the daemon's history, and from then on as it is seen. Pure.
//! Imports: wire types, text.

use crate::api::wire::{ContainerDetail, Sample};
use crate::term::text;
use std::collections::VecDeque;

/// Decisions that are kept, the newest.
const KEPT_AT_MOST: usize = 1000;

/// Decisions in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    all: VecDeque<(u64, String)>,
}

impl Decisions {
    /// Takes over what was decided before the first decision that was seen.
    pub fn precede(&mut self, past: &[Sample]) {
        let seen = std::mem::take(&mut self.all);
        let first = seen.front().map_or(u64::MAX, |(unix_ms, _)| *unix_ms);
        let told = past.iter().filter(|sample| sample.unix_ms < first);
        told.filter_map(|sample| Some((sample.unix_ms, of_sample(sample)?))).for_each(|decided| self.keep(decided));
        seen.into_iter().for_each(|decided| self.keep(decided));
    }

    /// Takes what the daemon told of the job at this instant.
    pub fn take(&mut self, told: &ContainerDetail, unix_ms: u64) {
        let decided = match (&told.container.hold, &told.explanation.decision) {
            (Some(hold), _) => hold.why.clone(),
            (None, Some(_)) => words(told.container.share, &told.container.why),
            (None, None) => return,
        };
        self.keep((unix_ms, decided));
    }

    /// The same again is no news.
    fn keep(&mut self, decided: (u64, String)) {
        if self.all.back().is_some_and(|(_, last)| *last == decided.1) {
            return;
        }
        if self.all.len() == KEPT_AT_MOST {
            self.all.pop_front();
        }
        self.all.push_back(decided);
    }

    /// When and what, in the order of time.
    pub fn told(&self) -> impl Iterator<Item = (u64, &str)> {
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
    fn the_past_comes_before_what_was_seen_and_the_same_again_is_told_once() {
        let mut decisions = Decisions::default();
        let told = detail("vae", &[1.0], 1, "");
        decisions.take(&told, NOW);
        decisions.take(&told, NOW + 1000);
        decisions.precede(&[
            sample(NOW - 3000, 0.2, "slow"),
            sample(NOW - 2000, 0.2, "slow"),
            sample(NOW - 1000, 0.4, "fast"),
            sample(NOW + 500, 0.9, "seen already"),
        ]);
        let told: Vec<(u64, &str)> = decisions.told().collect();
        let expected = [
            (NOW - 3000, "share 20%, slow"),
            (NOW - 1000, "share 40%, fast"),
            (NOW, "share 63%, learning fast: 63% of all growth"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn memory_is_bounded() {
        let mut decisions = Decisions::default();
        let past: Vec<Sample> = (0..5000).map(|at| sample(NOW - 10_000 + at, 0.5, &format!("decision {at}"))).collect();
        decisions.precede(&past);
        assert_eq!(decisions.told().count(), KEPT_AT_MOST);
        assert!(decisions.told().last().is_some_and(|(_, words)| words.ends_with("decision 4999")));
    }
}
