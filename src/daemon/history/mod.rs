//! The history: snapshots and events go to a separate thread, which stores what matters.
//!
//! Guarantees: the loop never waits for it, and it cannot stop or slow a tick. The queue is short; what does not fit is left out and
//! counted, and the operator is warned once. Snapshots are shared with the API, so passing one on costs a pointer. Queries are answered
//! by a second thread, which reads beside the writer.

mod answer;
mod keeper;
mod noise;
mod recorder;
#[cfg(test)]
mod recorder_tests;
#[cfg(test)]
mod week_tests;
mod windows;

use super::event::{Component, Event as DaemonEvent};
use api::HistoryRequest;
use config::Settings;
use keeper::{Entry, Keeper};
use model::{ContainerId, Event, JobEnd, Learning, NodeStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use store::history::HistoryLimits;
use tokio::sync::mpsc;

/// Entries that may wait for the disk.
const QUEUE: usize = 256;
/// Snapshots among them: each holds all jobs.
const SNAPSHOTS_WAITING: usize = 8;
/// Minimum time between two warnings about a slow disk.
const NOT_AGAIN_WITHIN: Duration = Duration::from_secs(600);
/// How long the end of the daemon waits for the last rows.
const LAST_ROWS_AT_MOST: Duration = Duration::from_secs(2);

pub(super) const SLOW: &str = "the disk is too slow for the history: some observations are left out of it; nothing else is affected. \
                               Look at the disk (iostat), or set history.enabled = false and restart flowcond";

/// The loop's handle.
pub(super) struct History {
    queue: Option<SyncSender<Entry>>,
    waiting: Arc<AtomicUsize>,
    ended: Option<Receiver<()>>,
    left_out: u64,
    behind: bool,
    warned_at: Option<Instant>,
}

/// A change in the state of the queue.
pub(super) enum Pace {
    /// Something was left out.
    Behind,
    /// The queue is empty again; the number of snapshots that were left out.
    CaughtUp(u64),
}

impl History {
    /// Starts the threads that store and answer. Problems with the disk are reported to the loop.
    pub(crate) fn start(
        settings: &Settings,
        events: mpsc::Sender<DaemonEvent>,
        requests: mpsc::Receiver<HistoryRequest>,
    ) -> History {
        let directory = settings.state_dir.clone();
        let enabled = settings.history.enabled;
        let waiting = Arc::<AtomicUsize>::default();
        let mut history =
            History { queue: None, waiting: waiting.clone(), ended: None, left_out: 0, behind: false, warned_at: None };
        let readable = enabled.then(|| directory.clone());
        let damaged = Arc::<AtomicU64>::default();
        let found_damaged = damaged.clone();
        let answering =
            thread("history-answers", move || answer::answer(readable.as_deref(), requests, &found_damaged));
        if !(enabled && answering) {
            return history;
        }
        let (queue, entries) = sync_channel(QUEUE);
        let (end, ended) = sync_channel(1);
        let limits = limits(settings);
        let keeping = thread("history", move || {
            // The loop may have ended.
            let report = move |problem| drop(events.blocking_send(DaemonEvent::Health(Component::History, problem)));
            Keeper::new(directory, limits, report, damaged).keep(&entries, &waiting);
            drop(end);
        });
        if keeping {
            history.queue = Some(queue);
            history.ended = Some(ended);
        }
        history
    }

    /// Passes a snapshot on, or leaves it out.
    pub(crate) fn snapshot(&mut self, status: &Arc<NodeStatus>) -> Option<Pace> {
        let queue = self.queue.as_ref()?;
        let waiting = self.waiting.load(Ordering::Acquire);
        if waiting == 0 && self.behind {
            self.behind = false;
            let left_out = std::mem::take(&mut self.left_out);
            self.hand_over(Entry::Snapshot(status.clone()));
            return Some(Pace::CaughtUp(left_out));
        }
        if waiting < SNAPSHOTS_WAITING && queue.try_send(Entry::Snapshot(status.clone())).is_ok() {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            return None;
        }
        self.left_out += 1;
        let is_news = !self.behind && self.warned_at.is_none_or(|warned| warned.elapsed() >= NOT_AGAIN_WITHIN);
        self.behind = true;
        is_news.then(|| {
            self.warned_at = Some(Instant::now());
            Pace::Behind
        })
    }

    fn hand_over(&mut self, snapshot: Entry) {
        if self.queue.as_ref().is_some_and(|queue| queue.try_send(snapshot).is_ok()) {
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Passes an event on, or leaves it out.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Some(queue) = &self.queue {
            // Snapshots report a full queue.
            let _ = queue.try_send(Entry::Event(event.clone()));
        }
    }

    /// Passes on how a job ended; must precede the event of its end.
    pub(crate) fn ended(&mut self, id: &ContainerId, end: &JobEnd) {
        if let Some(queue) = &self.queue {
            // If the queue is full, it stays unknown.
            let _ = queue.try_send(Entry::Ended(id.clone(), end.clone()));
        }
    }

    /// Passes on what was read from the log after the container ended.
    pub(crate) fn read_to_end(&mut self, id: &ContainerId, learning: Learning) {
        if let Some(queue) = &self.queue {
            // If the queue is full, the last observation stays.
            let _ = queue.try_send(Entry::ReadToEnd(id.clone(), Box::new(learning)));
        }
    }

    /// Applies new bounds.
    pub(crate) fn reconfigure(&mut self, settings: &Settings) {
        if let Some(queue) = &self.queue {
            // If the queue is full, the next reload applies them.
            let _ = queue.try_send(Entry::Limits(limits(settings)));
        }
    }
}

impl Drop for History {
    /// Waits a short time for the last rows to reach the disk.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(ended) = self.ended.take() {
            let _ = ended.recv_timeout(LAST_ROWS_AT_MOST); // written, or too slow to wait for
        }
    }
}

fn limits(settings: &Settings) -> HistoryLimits {
    HistoryLimits { max_age_ms: settings.history.max_age.0, max_bytes: settings.history.max_size.0 }
}

/// Starts a thread. Returns `false` if it cannot be started; then there is no history.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    if let Err(error) = &started {
        tracing::warn!(%error, "the thread of the history cannot be started; no history is kept");
    }
    started.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck() -> (History, Receiver<Entry>) {
        let (queue, entries) = sync_channel(QUEUE);
        let history = History {
            queue: Some(queue),
            waiting: Arc::default(),
            ended: None,
            left_out: 0,
            behind: false,
            warned_at: None,
        };
        (history, entries)
    }

    #[test]
    fn a_hung_disk_costs_a_few_snapshots_of_memory_and_one_notice() {
        let (mut history, entries) = stuck();
        let status = Arc::<NodeStatus>::default();
        let reported = (0..1000).filter(|_| history.snapshot(&status).is_some()).count();
        assert_eq!(reported, 1);
        assert_eq!(entries.try_iter().count(), SNAPSHOTS_WAITING);
        history.waiting.store(0, Ordering::Release);
        let left_out = 1000 - SNAPSHOTS_WAITING as u64;
        assert!(matches!(history.snapshot(&status), Some(Pace::CaughtUp(count)) if count == left_out));
        assert_eq!(entries.try_iter().count(), 1);
    }

    #[test]
    fn a_disabled_history_accepts_everything_and_keeps_nothing() {
        let (mut history, _given) = stuck();
        history.queue = None;
        assert!(history.snapshot(&Arc::default()).is_none());
    }
}
