//! What a target gets now: at most so many deliveries an hour, several events of a job in one, a digest of what is more, and retries.

use crate::message::Message;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A message waits this long for others about the same job.
const JOINED_WITHIN_MS: u64 = 10_000;
/// Messages in one delivery.
const TOGETHER_AT_MOST: usize = 50;
const HOUR_MS: u64 = 3_600_000;
/// Time before the first retry; it doubles with each failure.
const RETRY_FIRST_MS: u64 = 5_000;
const RETRY_AT_MOST_MS: u64 = 900_000;

/// What was sent to a target, and when the next attempt may be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// Deliveries of the last hour, Unix time in milliseconds.
    sent_ms: Vec<u64>,
    /// Failures since the last success.
    pub failures: u32,
    /// Not before.
    not_before_ms: u64,
    /// Messages that had no room in the spool since the last delivery.
    pub left_out: u64,
}

/// What to do for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this time; `None` = before there is another message.
    Wait(Option<u64>),
    /// Send the messages at these positions as one.
    Send(Vec<usize>),
}

/// Decides what is sent now of the messages that wait, oldest first.
pub(crate) fn step(waiting: &[Message], pace: &Pace, per_hour: u32, now_ms: u64) -> Step {
    if waiting.is_empty() {
        return Step::Wait(None);
    }
    // A time far in the future comes from a clock that was set back.
    if now_ms < pace.not_before_ms && pace.not_before_ms - now_ms <= HOUR_MS {
        return Step::Wait(Some(pace.not_before_ms));
    }
    let recent: Vec<u64> = pace.sent_ms.iter().copied().filter(|at| is_recent(*at, now_ms)).collect();
    let free = (per_hour.max(1) as usize).saturating_sub(recent.len());
    if free == 0 {
        return Step::Wait(recent.iter().min().map(|first| first + HOUR_MS));
    }
    let due_at = |message: &Message| message.queued_ms.min(now_ms) + JOINED_WITHIN_MS;
    let due: Vec<usize> = (0..waiting.len()).filter(|at| due_at(&waiting[*at]) <= now_ms).collect();
    let Some(first) = due.first() else { return Step::Wait(waiting.iter().map(due_at).min()) };
    let subjects: BTreeSet<Option<&str>> = waiting.iter().map(Message::subject).collect();
    let together: Vec<usize> = if subjects.len() > free {
        (0..waiting.len()).collect()
    } else {
        let subject = waiting[*first].subject();
        (0..waiting.len()).filter(|at| waiting[*at].subject() == subject).collect()
    };
    Step::Send(together.into_iter().take(TOGETHER_AT_MOST).collect())
}

fn is_recent(at: u64, now_ms: u64) -> bool {
    at <= now_ms && now_ms - at < HOUR_MS
}

impl Pace {
    /// Notes a delivery.
    pub(crate) fn sent(&mut self, now_ms: u64) {
        self.sent_ms.retain(|at| is_recent(*at, now_ms));
        self.sent_ms.push(now_ms);
        (self.failures, self.not_before_ms, self.left_out) = (0, 0, 0);
    }

    /// Notes a failed attempt and returns the time until the next. `jitter`: 0 to 1, so that several machines do not try at once.
    pub(crate) fn failed(&mut self, now_ms: u64, jitter: f64, asked_ms: Option<u64>) -> u64 {
        let doubled = RETRY_FIRST_MS.saturating_mul(1 << self.failures.min(10)).min(RETRY_AT_MOST_MS);
        let spread = (doubled as f64 * (0.75 + jitter.clamp(0.0, 1.0) / 2.0)) as u64;
        let wait = spread.max(asked_ms.unwrap_or(0).min(HOUR_MS));
        self.failures += 1;
        self.not_before_ms = now_ms + wait;
        wait
    }

    /// Allows the next attempt at once, as after a permanent error, which the next message need not have.
    pub(crate) fn gave_up(&mut self) {
        (self.failures, self.not_before_ms) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::message;
    use model::AlertKind;
    use proptest::prelude::*;

    fn at(job: &str, queued_ms: u64) -> Message {
        message(job, AlertKind::Failed, queued_ms)
    }

    fn sent(times: &[u64]) -> Pace {
        Pace { sent_ms: times.to_vec(), ..Pace::default() }
    }

    #[test]
    fn a_job_s_events_are_joined_and_more_jobs_than_there_is_room_for_are_a_digest() {
        let none = Pace::default();
        for (name, waiting, pace, per_hour, now, expected) in [
            ("nothing", vec![], &none, 3, 0, Step::Wait(None)),
            ("may be joined", vec![at("a", 0)], &none, 3, 9_999, Step::Wait(Some(10_000))),
            ("due", vec![at("a", 0)], &none, 3, 10_000, Step::Send(vec![0])),
            ("of one job", vec![at("a", 0), at("b", 1), at("a", 9_000)], &none, 3, 10_000, Step::Send(vec![0, 2])),
            ("too many", vec![at("a", 0), at("b", 1), at("c", 2)], &none, 2, 10_000, Step::Send(vec![0, 1, 2])),
            ("the last one", vec![at("a", 5), at("b", 5)], &sent(&[1, 2]), 3, 10_005, Step::Send(vec![0, 1])),
            ("no room", vec![at("a", 5)], &sent(&[1, 2, 3]), 3, 10_005, Step::Wait(Some(HOUR_MS + 1))),
            ("an hour later", vec![at("a", 5)], &sent(&[1, 2, 3]), 3, HOUR_MS + 1, Step::Send(vec![0])),
            ("clock set back", vec![at("a", 90_000)], &none, 3, 5_000, Step::Wait(Some(15_000))),
        ] {
            assert_eq!(step(&waiting, pace, per_hour, now), expected, "{name}");
        }
    }

    #[test]
    fn retries_come_ever_later_but_within_a_quarter_of_an_hour() {
        let mut pace = Pace::default();
        let waits: Vec<u64> = (0..12).map(|_| pace.failed(0, 0.5, None)).collect();
        assert_eq!(waits[..4], [5_000, 10_000, 20_000, 40_000]);
        assert_eq!(waits[11], RETRY_AT_MOST_MS);
        assert_eq!(pace.failed(0, 0.0, Some(1_200_000)), 1_200_000, "the server asked for it");
        assert_eq!(step(&[at("a", 0)], &pace, 9, 20_000), Step::Wait(Some(1_200_000)));
        pace.sent(2_000_000);
        assert_eq!(pace.failed(2_000_000, 0.5, None), 5_000);
    }

    proptest! {
        /// Whatever the order of failures and arrivals: each message is delivered once, and no hour has more deliveries than allowed.
        #[test]
        fn nothing_is_lost_and_no_hour_has_too_many(
            arrivals in prop::collection::vec((0u64..4 * HOUR_MS, 0u8..20), 1..150),
            failures in prop::collection::vec(any::<bool>(), 0..60),
            per_hour in 1u32..6,
        ) {
            let mut arrivals: Vec<Message> =
                arrivals.iter().map(|(at_ms, job)| at(&format!("job-{job}"), *at_ms)).collect();
            arrivals.sort_by_key(|message| message.queued_ms);
            let total = arrivals.len();
            let mut arrivals = arrivals.into_iter().peekable();
            let (mut waiting, mut pace, mut now) = (Vec::new(), Pace::default(), 0);
            let (mut delivered, mut times) = (Vec::new(), Vec::new());
            let mut failures = failures.into_iter();
            for _ in 0..10_000 {
                while let Some(message) = arrivals.next_if(|message| message.queued_ms <= now) {
                    waiting.push(message);
                }
                let next = arrivals.peek().map(|message| message.queued_ms);
                match step(&waiting, &pace, per_hour, now) {
                    Step::Wait(until) => {
                        let Some(at) = until.into_iter().chain(next).min() else { break };
                        prop_assert!(at > now, "it waits for something that has passed");
                        now = at;
                    }
                    Step::Send(_) if failures.next() == Some(true) => {
                        pace.failed(now, 0.3, None);
                    }
                    Step::Send(which) => {
                        prop_assert!(!which.is_empty());
                        pace.sent(now);
                        times.push(now);
                        for at in which.into_iter().rev() {
                            delivered.push(waiting.remove(at));
                        }
                    }
                }
            }
            prop_assert_eq!(delivered.len(), total);
            for first in &times {
                let within = times.iter().filter(|at| (*first..first + HOUR_MS).contains(at)).count();
                prop_assert!(within <= per_hour as usize, "{within} deliveries within an hour");
            }
        }
    }
}
