//! Log files, read by one thread as long as their file systems answer.
//!
//! Problem: a file system that does not answer (NFS without its server) blocks the thread that touches it, for hours or for ever.
//! Approach: the thread publishes which log it touches. If it is blocked for too long, it is retired: a new thread continues all other logs
//! after the last bytes that were sent, and whatever the blocked thread reads when it wakes is discarded. The log that blocked it is
//! tried again once that thread has returned, in a thread of its own until it answers.
//!
//! Guarantees: no byte of the other logs is lost or sent twice. The number of threads is bounded; logs beyond it stay unread.
//! [`Files::supervise`] itself touches no log.

use super::worker::{Follow, Places, ResumePoint, Worker};
use crate::event::Event;
use model::ContainerId;
use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;
use tail::{Position, Source, Start};
use tokio::sync::mpsc;
use traininglog::LogFile;

/// A log that blocks its thread for longer than this counts as not answering.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Blocked threads at most; beyond, the common thread is not replaced.
const HELD_AT_MOST: usize = 8;
/// Threads for logs that have not answered yet, as part of these: the rest is left for logs that have.
const TRIED_AT_MOST: usize = 6;

/// The thread that reads a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// The common thread of all logs that answer.
    Common,
    /// A thread of its own, until it answers.
    Own,
    /// A thread that it blocks.
    Held,
    /// None: it waits for a free thread.
    None,
}

struct Log {
    serial: u64,
    source: Source,
    /// Decoder at `start`.
    decoder: Option<LogFile>,
    start: Start,
    /// Whether it has answered since it is followed.
    has_answered: bool,
    reader: Reader,
}

impl Log {
    fn follow(&self, id: &ContainerId) -> Follow {
        let Log { serial, source, decoder, start, .. } = self;
        Follow { id: id.clone(), serial: *serial, source: source.clone(), decoder: *decoder, start: *start }
    }

    fn device(&self) -> Option<u64> {
        match self.start {
            Start::At(Position { device, .. }) | Start::On(Position { device, .. }) => Some(device),
            Start::Beginning | Start::End => None,
        }
    }
}

/// A thread that a log blocks.
struct Held {
    id: ContainerId,
    thread: JoinHandle<()>,
}

/// The loop's handle on the log files.
pub(super) struct Files {
    logs: BTreeMap<ContainerId, Log>,
    common: Option<Worker>,
    own: BTreeMap<ContainerId, Worker>,
    held: Vec<Held>,
    patience: Duration,
    events: mpsc::Sender<Event>,
}

impl Files {
    pub(super) fn new(patience: Duration, events: mpsc::Sender<Event>) -> Files {
        let (logs, own) = (BTreeMap::new(), BTreeMap::new());
        let mut files = Files { logs, common: None, own, held: Vec::new(), patience, events };
        files.start_common();
        files
    }

    pub(super) fn follow(&mut self, follow: Follow) {
        let Follow { id, serial, source, decoder, start } = follow;
        self.unfollow(&id);
        // The paths of engines and of flowcon are on local disks; a path that a job names may be on a file system that does not answer.
        let trusted = self.held.is_empty() || matches!(source, Source::Host(_));
        let reader = match self.held.iter().any(|held| held.id == id) {
            true => Reader::Held,
            false if trusted => Reader::Common,
            false => Reader::None,
        };
        let log = Log { serial, source, decoder, start, has_answered: false, reader };
        if let (Reader::Common, Some(common)) = (reader, &self.common) {
            common.follow(log.follow(&id));
        }
        self.logs.insert(id, log);
    }

    pub(super) fn unfollow(&mut self, id: &ContainerId) {
        if let (Some(Log { reader: Reader::Common, .. }), Some(common)) = (self.logs.remove(id), &self.common) {
            common.unfollow(id);
        }
        if let Some(own) = self.own.remove(id) {
            self.held.push(Held { id: id.clone(), thread: own.end() }); // it may be blocked; otherwise it ends at once
        }
    }

    /// Supervises the threads; to be called every second. Returns the logs that have stopped answering.
    pub(super) fn supervise(&mut self) -> Vec<ContainerId> {
        self.collect_returned();
        if self.common.is_none() {
            self.start_common();
        }
        let mut silent = Vec::new();
        silent.extend(self.replace_common());
        silent.extend(self.sort_tried());
        self.try_again();
        silent
    }

    /// Removes blocked threads that have returned.
    fn collect_returned(&mut self) {
        let threads = std::mem::take(&mut self.held).into_iter();
        let (back, held): (Vec<Held>, Vec<Held>) = threads.partition(|held| held.thread.is_finished());
        self.held = held;
        for Held { id, .. } in back {
            if let Some(log) = self.logs.get_mut(&id).filter(|log| log.reader == Reader::Held) {
                log.reader = Reader::None;
            }
        }
    }

    fn start_common(&mut self) {
        match Worker::start(self.events.clone()) {
            Ok(common) => {
                let logs = self.logs.iter().filter(|(_, log)| log.reader == Reader::Common);
                logs.for_each(|(id, log)| common.follow(log.follow(id)));
                self.common = Some(common);
            }
            Err(error) => tracing::error!(%error, "the thread that reads logs cannot be started; it is tried again"),
        }
    }

    /// Replaces the common thread if a log blocks it, and returns that log.
    fn replace_common(&mut self) -> Option<ContainerId> {
        if self.held.len() >= HELD_AT_MOST {
            return None;
        }
        let common = self.common.as_ref()?;
        let id = common.held(self.patience)?;
        let places = common.retire(|common| common.held(self.patience).as_ref() == Some(&id))?;
        let thread = self.common.take()?.end();
        self.record_positions(places);
        self.isolate(&id);
        self.held.push(Held { id: id.clone(), thread });
        self.start_common();
        Some(id)
    }

    /// Records the positions up to which a retired thread had sent.
    fn record_positions(&mut self, places: Places) {
        for (id, ResumePoint { serial, position, decoder }) in places {
            let Some(log) = self.logs.get_mut(&id).filter(|log| log.serial == serial) else { continue };
            log.has_answered = true;
            if let Some(position) = position {
                (log.start, log.decoder) = (Start::On(position), decoder);
            }
        }
    }

    /// Takes a log that blocks its thread, and those that would block the next one, from the common thread.
    fn isolate(&mut self, id: &ContainerId) {
        let Some(holder) = self.logs.get_mut(id) else { return };
        holder.reader = Reader::Held;
        let (device, had_answered) = (holder.device(), holder.has_answered);
        for log in self.logs.values_mut().filter(|log| log.reader == Reader::Common) {
            let is_beside = device.is_some() && log.device() == device;
            let is_unknown = !had_answered && !log.has_answered && matches!(log.source, Source::Inside(_));
            if is_beside || is_unknown {
                log.reader = Reader::None;
            }
        }
    }

    /// Moves logs that answer from their own threads to the common one. Returns those that do not answer.
    fn sort_tried(&mut self) -> Vec<ContainerId> {
        let mut silent = Vec::new();
        for id in self.own.keys().cloned().collect::<Vec<_>>() {
            let Some(own) = self.own.get(&id) else { continue };
            let is_held = own.held(self.patience).is_some();
            if !is_held && !own.has_answered(&id) {
                continue;
            }
            let Some(places) = own.retire(|own| own.held(self.patience).is_some() == is_held) else { continue };
            let thread = self.own.remove(&id).map(Worker::end);
            self.record_positions(places);
            if is_held {
                self.isolate(&id);
                self.held.extend(thread.map(|thread| Held { id: id.clone(), thread }));
                silent.push(id);
            } else {
                self.join_common(&id);
            }
        }
        silent
    }

    /// Moves a log that has answered to the common thread, and with it those that wait for the same device.
    fn join_common(&mut self, id: &ContainerId) {
        let device = self.logs.get(id).and_then(Log::device);
        for (each, log) in &mut self.logs {
            let is_beside = log.reader == Reader::None && device.is_some() && log.device() == device;
            if each == id || is_beside {
                log.reader = Reader::Common;
                if let Some(common) = &self.common {
                    common.follow(log.follow(each));
                }
            }
        }
    }

    /// Tries unread logs, each in a thread of its own.
    fn try_again(&mut self) {
        while self.own.len() + self.held.len() < TRIED_AT_MOST {
            let held: Vec<u64> = self.held.iter().filter_map(|held| self.logs.get(&held.id)?.device()).collect();
            let may_answer = |log: &Log| log.device().is_none_or(|device| !held.contains(&device));
            let mut waiting = self.logs.iter_mut().filter(|(_, log)| log.reader == Reader::None && may_answer(log));
            let Some((id, log)) = waiting.next() else { return };
            let Ok(own) = Worker::start(self.events.clone()) else { return };
            own.follow(log.follow(id));
            log.reader = Reader::Own;
            self.own.insert(id.clone(), own);
        }
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
