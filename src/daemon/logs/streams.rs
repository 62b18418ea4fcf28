//! Logs that only the engine's logs API provides (`local`, `journald`, Podman): a task for each, no faster than files are read.

use super::feed::{GROWS_TOO_FAST, SKIPS_SHOWN_FOR};
use crate::event::{Event, LogChunk};
use crate::journal::unix_ms;
use docker::{Engine, LogFormat, LogMark, LogPiece, LogPosition, logs as engine_logs};
use futures_util::StreamExt;
use model::ContainerId;
use std::time::{Duration, Instant};
use store::{ApiMark, LogPlace};
use tail::Budget;
use tokio::sync::mpsc;

const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MOST: Duration = Duration::from_secs(30);
/// Pieces that are sent to the loop together, if as many are ready.
const PIECES_AT_ONCE: usize = 16;
/// Cost of a piece besides its bytes, in bytes: its frame and its timestamp.
const PER_PIECE: usize = 64;

/// End of a response of the engine.
enum Ended {
    /// The container has ended, or the loop has.
    Done,
    /// The connection broke, or the engine is busy.
    Broken,
    /// The log is written faster than it can be read.
    TooFast,
}

/// One container's log.
pub(super) struct Stream {
    pub engine: Engine,
    pub id: ContainerId,
    pub serial: u64,
    pub format: LogFormat,
    pub from: LogPosition,
    pub events: mpsc::Sender<Event>,
}

impl Stream {
    /// Returns where an earlier daemon stopped, or the beginning.
    pub(super) fn position(place: Option<LogPlace>) -> LogPosition {
        let mark = |stored: ApiMark| LogMark { unix_ns: stored.unix_ns, messages: stored.messages };
        match place {
            Some(LogPlace::Api { output, error }) => LogPosition { output: mark(output), error: mark(error) },
            _ => LogPosition::default(),
        }
    }

    /// Follows the log until the container ends; reconnects after a broken connection.
    pub(super) async fn follow(mut self) {
        let mut wait = RETRY_FIRST;
        let mut pace = Pace::new(Budget::default(), Instant::now());
        loop {
            let before = self.from;
            match self.read(&mut pace).await {
                Ended::Done => return,
                Ended::TooFast => {
                    let now = LogMark { unix_ns: unix_ms().saturating_mul(1_000_000), messages: 0 };
                    self.from = LogPosition { output: now, error: now };
                    // The line in progress does not continue after the gap.
                    let sent = self.send(b"\n".to_vec()).await;
                    if sent.is_err() || self.report(Some(GROWS_TOO_FAST)).await.is_err() {
                        return;
                    }
                }
                Ended::Broken => {
                    wait = if self.from == before { wait } else { RETRY_FIRST };
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MOST);
                }
            }
        }
    }

    /// Reads one response of the engine. While this waits, the engine waits too.
    async fn read(&mut self, pace: &mut Pace) -> Ended {
        let mut answer =
            Box::pin(engine_logs(&self.engine, &self.id, self.format, self.from).ready_chunks(PIECES_AT_ONCE));
        loop {
            let pieces = tokio::select! {
                pieces = answer.next() => pieces,
                () = pace.skips_are_over() => {
                    if self.report(None).await.is_err() {
                        return Ended::Done;
                    }
                    continue;
                }
            };
            let Some(pieces) = pieces else { return Ended::Done };
            let mut bytes = Vec::new();
            let mut cost = 0;
            let mut error = None;
            for piece in pieces {
                match piece {
                    Ok(LogPiece { bytes: more, position }) => {
                        bytes.extend_from_slice(&more);
                        cost += more.len() + PER_PIECE;
                        self.from = position;
                    }
                    Err(broken) => error = Some(broken),
                }
            }
            if !bytes.is_empty() && self.send(bytes).await.is_err() {
                return Ended::Done;
            }
            if let Some(error) = error {
                tracing::debug!(id = %self.id, %error, "the log stream broke");
                return if error.is_gone() { Ended::Done } else { Ended::Broken };
            }
            match pace.took(cost, Instant::now()) {
                Next::Read => {}
                Next::Wait(time) => tokio::time::sleep(time).await,
                Next::Skip => return Ended::TooFast,
            }
        }
    }

    /// Reports the current problem with the log; `None` = there is none any more.
    async fn report(&self, problem: Option<&str>) -> Result<(), mpsc::error::SendError<Event>> {
        self.events.send(Event::LogHealth(self.id.clone(), problem.map(str::to_owned))).await
    }

    async fn send(&self, bytes: Vec<u8>) -> Result<(), mpsc::error::SendError<Event>> {
        let stored = |mark: LogMark| ApiMark { unix_ns: mark.unix_ns, messages: mark.messages };
        let place = LogPlace::Api { output: stored(self.from.output), error: stored(self.from.error) };
        let (id, serial) = (self.id.clone(), self.serial);
        self.events.send(Event::Logs(vec![LogChunk { id, serial, bytes, place: Some(place) }])).await
    }
}

/// What to do after a piece.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Read,
    /// Wait this long first, so that the engine waits too.
    Wait(Duration),
    /// Skip to the current end of the log.
    Skip,
}

/// Keeps a stream within the budget of log files. A stream does not report its backlog; it is at least what was read without a rest.
#[derive(Debug)]
struct Pace {
    budget: Budget,
    /// Bytes that may be read now.
    credit: f64,
    at: Instant,
    /// Bytes since the stream last had to wait for the job.
    without_rest: u64,
    /// When a skip is not worth a warning any more.
    skip_shown_until: Option<Instant>,
}

impl Pace {
    fn new(budget: Budget, now: Instant) -> Pace {
        Pace { budget, credit: budget.per_log as f64, at: now, without_rest: 0, skip_shown_until: None }
    }

    /// Waits until the last skip is not worth a warning any more; for ever if there was none since the last such wait.
    async fn skips_are_over(&mut self) {
        match self.skip_shown_until {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
        self.skip_shown_until = None;
    }

    /// Records that this many bytes were read.
    fn took(&mut self, bytes: usize, now: Instant) -> Next {
        let (most, rate) = (self.budget.per_log as f64, self.budget.per_second());
        let credit = self.credit + rate * now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        if credit >= most {
            self.without_rest = 0;
        }
        self.credit = credit.min(most) - bytes as f64;
        self.without_rest += bytes as u64;
        if self.without_rest > self.budget.behind {
            self.without_rest = 0;
            self.skip_shown_until = Some(now + SKIPS_SHOWN_FOR);
            return Next::Skip;
        }
        // Longer waits mean fewer wake-ups.
        let short_of = (most / 4.0 - self.credit) / rate;
        if self.credit < 0.0 { Next::Wait(Duration::from_secs_f64(short_of)) } else { Next::Read }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = (1 << 20) as f64;

    /// Reads a log that holds `backlog` and then grows by `rate` per second, in pieces of 64 KiB, for this many seconds. Returns the bytes
    /// read, the number of skips to its end, and the most bytes read in a second.
    fn read(backlog: f64, rate: f64, seconds: u64) -> (f64, u32, f64) {
        let begin = Instant::now();
        let mut pace = Pace::new(Budget::default(), begin);
        let (mut now, mut read, mut gone, mut skips) = (0.0, 0.0, 0.0, 0);
        let mut by_second = vec![0.0; seconds as usize + 1];
        while now < seconds as f64 {
            let there: f64 = backlog + rate * now - gone;
            if there < 65_536.0 {
                now += (65_536.0 - there) / rate;
                continue;
            }
            gone += 65_536.0;
            read += 65_536.0;
            by_second[now as usize] += 65_536.0;
            match pace.took(65_536, begin + Duration::from_secs_f64(now)) {
                Next::Read => {}
                Next::Wait(time) => now += time.as_secs_f64(),
                Next::Skip => {
                    gone = backlog + rate * now;
                    skips += 1;
                }
            }
        }
        (read, skips, by_second.into_iter().fold(0.0, f64::max))
    }

    #[test]
    fn an_old_log_and_one_that_grows_at_an_ordinary_rate_are_read_whole() {
        let (read, skips, most) = read(48.0 * MIB, 0.5 * MIB, 600);
        assert_eq!(skips, 0);
        assert!(read >= 347.0 * MIB, "{read}");
        assert!(most <= 6.0 * MIB, "{most} in a second");
    }

    #[test]
    fn a_log_that_grows_too_fast_is_read_at_the_rate_of_files_and_skipped_to_its_end() {
        let (read, skips, most) = read(0.0, 100.0 * MIB, 600);
        assert!(most <= 6.0 * MIB, "{most} in a second");
        assert!((2000.0 * MIB..2500.0 * MIB).contains(&read), "{read}");
        assert!((30..40).contains(&skips), "{skips}");
    }

    /// Whether it still waits after a short time.
    async fn waits(pace: &mut Pace) -> bool {
        tokio::time::timeout(Duration::from_millis(20), pace.skips_are_over()).await.is_err()
    }

    #[tokio::test]
    async fn a_skip_is_over_once_and_after_ten_minutes() {
        let begin = Instant::now();
        let mut pace = Pace::new(Budget::default(), begin);
        assert!(waits(&mut pace).await, "nothing was skipped");
        assert_eq!(pace.took(1 << 30, begin), Next::Skip);
        assert_eq!(pace.skip_shown_until, Some(begin + Duration::from_secs(600)));
        assert!(waits(&mut pace).await);
        pace.skip_shown_until = Some(begin);
        assert!(!waits(&mut pace).await);
        assert!(waits(&mut pace).await, "it is reported once");
    }

    #[test]
    fn a_burst_is_not_skipped() {
        let begin = Instant::now();
        let mut pace = Pace::new(Budget::default(), begin);
        let mut now = begin;
        for _ in 0..100 {
            assert_ne!(pace.took(2 << 20, now), Next::Skip);
            now += Duration::from_secs(2);
        }
    }
}
