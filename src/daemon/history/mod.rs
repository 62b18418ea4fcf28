//! The daemon's memory of what was: every snapshot and event goes to a thread of its own, which keeps what matters.
//!
//! Guarantees: the loop never waits for it, and nothing of it can stop or slow a tick: the queue is short, what does not fit is left
//! out and counted, and an operator is told once. Snapshots are shared with the API, so that handing one over costs a pointer.
//! Questions are answered by a second thread, which reads beside the writer. Imports: api's contract, host's store, model.

mod answer;
mod keeper;
mod noise;
mod recorder;
#[cfg(test)]
mod recorder_tests;
#[cfg(test)]
mod week_tests;
mod windows;

use super::event::{Event as Told, Part};
use crate::api::HistoryRequest;
use crate::config::Settings;
use crate::host::store::history::HistoryLimits;
use crate::model::{ContainerId, Event, Learning, NodeStatus};
use keeper::{Given, Keeper};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// What may wait for the disk.
const QUEUE: usize = 256;
/// Snapshots among it: each holds all jobs.
const SNAPSHOTS_WAITING: usize = 8;
/// A notice about a slow disk is not said again sooner.
const NOT_AGAIN_WITHIN: Duration = Duration::from_secs(600);
/// The end of the daemon does not wait longer for the last rows.
const LAST_ROWS_AT_MOST: Duration = Duration::from_secs(2);

pub(super) const SLOW: &str = "the disk is too slow for the history: some observations are left out of it; nothing else is affected. \
                               Look at the disk (iostat), or set history.enabled = false";

/// The loop's end of it.
pub(super) struct History {
    queue: Option<SyncSender<Given>>,
    waiting: Arc<AtomicUsize>,
    ended: Option<Receiver<()>>,
    left_out: u64,
    behind: bool,
    told: Option<Instant>,
}

/// How the queue is, where that changed.
pub(super) enum Pace {
    /// Something was left out.
    Behind,
    /// The queue is empty again; so many snapshots were left out.
    Caught(u64),
}

impl History {
    /// Begins to keep what it is given and to answer what is asked. Problems with the disk are told to the loop.
    pub fn start(settings: &Settings, loops: mpsc::Sender<Told>, requests: mpsc::Receiver<HistoryRequest>) -> History {
        let directory = settings.state_dir.clone();
        let enabled = settings.history.enabled;
        let waiting = Arc::<AtomicUsize>::default();
        let mut history =
            History { queue: None, waiting: waiting.clone(), ended: None, left_out: 0, behind: false, told: None };
        let readable = enabled.then(|| directory.clone());
        let answering = thread("history-answers", move || answer::answer(readable.as_deref(), requests));
        if !(enabled && answering) {
            return history;
        }
        let (queue, given) = sync_channel(QUEUE);
        let (end, ended) = sync_channel(1);
        let limits = limits(settings);
        let keeping = thread("history", move || {
            // The loop may be gone: nobody to tell.
            let tell = move |problem| drop(loops.blocking_send(Told::Health(Part::History, problem)));
            Keeper::new(directory, limits, tell).keep(&given, &waiting);
            drop(end);
        });
        if keeping {
            history.queue = Some(queue);
            history.ended = Some(ended);
        }
        history
    }

    /// Hands a snapshot over, or leaves it out.
    pub fn snapshot(&mut self, status: &Arc<NodeStatus>) -> Option<Pace> {
        let queue = self.queue.as_ref()?;
        let waiting = self.waiting.load(Ordering::Acquire);
        if waiting == 0 && self.behind {
            self.behind = false;
            let left_out = std::mem::take(&mut self.left_out);
            self.hand_over(Given::Snapshot(status.clone()));
            return Some(Pace::Caught(left_out));
        }
        if waiting < SNAPSHOTS_WAITING && queue.try_send(Given::Snapshot(status.clone())).is_ok() {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            return None;
        }
        self.left_out += 1;
        let is_news = !self.behind && self.told.is_none_or(|told| told.elapsed() >= NOT_AGAIN_WITHIN);
        self.behind = true;
        is_news.then(|| {
            self.told = Some(Instant::now());
            Pace::Behind
        })
    }

    fn hand_over(&mut self, snapshot: Given) {
        if self.queue.as_ref().is_some_and(|queue| queue.try_send(snapshot).is_ok()) {
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Hands an event over, or leaves it out.
    pub fn event(&mut self, event: &Event) {
        if let Some(queue) = &self.queue {
            // A full queue is noticed by the snapshots.
            let _ = queue.try_send(Given::Event(event.clone()));
        }
    }

    /// With what a container ended, before the event of its end.
    pub fn exited(&mut self, id: &ContainerId, code: i32) {
        if let Some(queue) = &self.queue {
            // A full queue: it ended, and nobody knows how.
            let _ = queue.try_send(Given::Exited(id.clone(), code));
        }
    }

    /// What the log of a container that ended has told in the end.
    pub fn read_to_end(&mut self, id: &ContainerId, learning: Learning) {
        if let Some(queue) = &self.queue {
            // A full queue: what was last seen of it stays.
            let _ = queue.try_send(Given::ReadToEnd(id.clone(), Box::new(learning)));
        }
    }

    /// Other bounds from now on.
    pub fn reconfigure(&mut self, settings: &Settings) {
        if let Some(queue) = &self.queue {
            // A full queue: the next reload takes them over.
            let _ = queue.try_send(Given::Limits(limits(settings)));
        }
    }
}

impl Drop for History {
    /// Lets the last rows reach the disk, if that is soon.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(ended) = self.ended.take() {
            let _ = ended.recv_timeout(LAST_ROWS_AT_MOST); // ended, or too slow to wait for
        }
    }
}

fn limits(settings: &Settings) -> HistoryLimits {
    HistoryLimits { max_age_ms: settings.history.max_age.0, max_bytes: settings.history.max_size.0 }
}

/// Starts a thread; `false` = there is none to be had, which only means that there is no history.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    if let Err(error) = &started {
        tracing::warn!(%error, "no thread for the history; nothing is kept of it");
    }
    started.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::publish::empty_status;

    fn stuck() -> (History, Receiver<Given>) {
        let (queue, given) = sync_channel(QUEUE);
        let history = History {
            queue: Some(queue),
            waiting: Arc::default(),
            ended: None,
            left_out: 0,
            behind: false,
            told: None,
        };
        (history, given)
    }

    #[test]
    fn a_disk_that_does_not_answer_costs_a_few_snapshots_of_memory_and_one_notice() {
        let (mut history, given) = stuck();
        let status = Arc::new(empty_status());
        let told = (0..1000).filter(|_| history.snapshot(&status).is_some()).count();
        assert_eq!(told, 1);
        assert_eq!(given.try_iter().count(), SNAPSHOTS_WAITING);
        history.waiting.store(0, Ordering::Release);
        let left_out = 1000 - SNAPSHOTS_WAITING as u64;
        assert!(matches!(history.snapshot(&status), Some(Pace::Caught(count)) if count == left_out));
        assert_eq!(given.try_iter().count(), 1);
    }

    #[test]
    fn a_history_that_is_off_takes_anything_and_keeps_nothing() {
        let (mut history, _given) = stuck();
        history.queue = None;
        assert!(history.snapshot(&Arc::new(empty_status())).is_none());
    }
}
