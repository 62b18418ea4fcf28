//! Follows one log through growth, rotation and truncation. It does not watch the file: its caller decides when to read.

mod opened;

use super::open::TailError;
use super::rotated::open_before;
use super::source::{Position, Source};
use opened::{Identity, Open};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Limits on the amount of data read, and on how far reading may lag behind.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Maximum number of bytes read from one log per look.
    pub per_log: u64,
    /// Maximum number of bytes read from all logs per call.
    pub per_call: u64,
    /// A log that is further behind than this is skipped to near its end: it is a sparse file, or it is written faster than it can be read.
    pub behind: u64,
    /// Bytes before the end that are still read after a skip.
    pub keep: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { per_log: 1 << 20, per_call: 4 << 20, behind: 64 << 20, keep: 256 << 10 }
    }
}

/// Where reading of a log starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At its first byte.
    Beginning,
    /// At its end: only new data is read.
    End,
    /// At the beginning of the line in which an earlier daemon stopped; at the first byte if that file is gone.
    At(Position),
    /// Exactly at this position, for a reader that has already processed the beginning of the line.
    On(Position),
}

/// Problems of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it cannot be read at present.
    pub problem: Option<TailError>,
    /// Bytes skipped because reading was too far behind.
    pub skipped: u64,
    /// When bytes were last skipped.
    pub skipped_at: Option<Instant>,
    /// Number of times that it was truncated or rewritten in place.
    pub truncated: u64,
    /// Number of times that another file took its name.
    pub rotated: u64,
}

/// Number of bytes before the offset that are remembered and compared.
const REMEMBERED: usize = 16;
/// Size of one read call in bytes, including the bytes that are compared.
const CHUNK: usize = 32 * 1024;
/// Data further behind than this may have been released by the owner of a handed log.
const HANDED_BEHIND: u64 = 2 << 20;
/// Maximum number of rotated files that are searched.
const ROTATED_AT_MOST: u32 = 20;
/// The path inside a container is resolved again at every nth look without new data.
const INSIDE_EVERY: u32 = 4;

/// The result of one look at a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) bytes: u64,
    /// Whether there is more to read at once, or a rotation to finish.
    pub(super) more: bool,
}

/// One followed log.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) source: Source,
    pub(super) health: Health,
    start: Start,
    current: Option<Open>,
    /// Rotated files between the current one and the file with the log's name, oldest first.
    next: VecDeque<Open>,
    /// Whether to drop bytes up to the beginning of the next line.
    align: bool,
    /// Whether the last byte passed to the sink did not end a line.
    mid_line: bool,
    /// Whether another file has the log's name; the current file is then read once more.
    leaving: bool,
    /// Identities of files that were read completely, newest last.
    finished: VecDeque<Identity>,
    /// Looks without new data since the path inside the container was last resolved.
    idle_looks: u32,
}

impl Followed {
    pub(super) fn new(source: Source, start: Start) -> Followed {
        Followed {
            source,
            health: Health::default(),
            start,
            current: None,
            next: VecDeque::new(),
            align: false,
            mid_line: false,
            leaving: false,
            finished: VecDeque::new(),
            idle_looks: 0,
        }
    }

    pub(super) fn position(&self) -> Option<Position> {
        match (&self.current, self.start) {
            (Some(open), _) => Some(open.position()),
            (None, Start::At(position) | Start::On(position)) => Some(position),
            (None, _) => None,
        }
    }

    /// Reads new data within the budget and passes it to `sink`.
    pub(super) fn look(&mut self, budget: Budget, buffer: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8])) -> Look {
        let mut look = Look::default();
        if self.current.is_none() && !self.open_first() {
            return look;
        }
        match self.read(budget, buffer, sink) {
            Ok(read) => look = read,
            Err(error) => self.health.problem = Some(self.unreadable(&error)),
        }
        if !look.more {
            look.more = self.next_rotated() || (look.bytes == 0 && self.follow_rotation());
        }
        look
    }

    fn unreadable(&self, error: &io::Error) -> TailError {
        TailError::Open { path: self.source.path().to_owned(), reason: error.to_string() }
    }

    /// Opens the log for the first time; returns false if it cannot be opened yet.
    fn open_first(&mut self) -> bool {
        let file = match self.source.open() {
            Ok(file) => file,
            Err(problem) => {
                // A log that appears later is new from its first byte.
                if matches!(problem, TailError::Missing { .. } | TailError::EmptyDirectory { .. })
                    && self.start == Start::End
                {
                    self.start = Start::Beginning;
                }
                self.health.problem = Some(problem);
                return false;
            }
        };
        match self.place(file) {
            Ok(open) => {
                self.current = Some(open);
                self.health.problem = None;
                true
            }
            Err(error) => {
                self.health.problem = Some(self.unreadable(&error));
                false
            }
        }
    }

    /// Returns the first file to read, with the offset to start from.
    fn place(&mut self, file: File) -> io::Result<Open> {
        let size = file.metadata()?.len();
        let newest = Open::new(file, 0)?;
        let (position, exactly) = match std::mem::replace(&mut self.start, Start::Beginning) {
            Start::Beginning => return Ok(newest),
            Start::End => {
                self.align = newest.mid_line(size);
                return Ok(newest.at(size));
            }
            Start::At(position) => (position, false),
            Start::On(position) => (position, true),
        };
        let open = match newest.is_at(position) {
            // A shorter file was truncated while it was not being followed.
            true if position.offset > size => return Ok(newest),
            true => newest,
            false => match self.rotated_since(position) {
                Some(old) => {
                    self.next.push_back(newest);
                    old
                }
                None => return Ok(newest),
            },
        };
        self.mid_line = exactly && open.mid_line(position.offset);
        let offset = if exactly { position.offset } else { open.line_beginning(position.offset) };
        Ok(open.at(offset))
    }

    /// Returns the rotated file of a stored position, and queues the files that were rotated after it.
    fn rotated_since(&mut self, position: Position) -> Option<Open> {
        let mut younger = VecDeque::new();
        for number in 1..=ROTATED_AT_MOST {
            let open = Open::new(self.open_rotated(number)?, 0).ok()?;
            if open.is_at(position) {
                self.next = younger;
                return Some(open);
            }
            younger.push_front(open);
        }
        None
    }

    fn open_rotated(&self, number: u32) -> Option<File> {
        let Source::Host(path) = &self.source else { return None };
        open_before(path, number)
    }

    fn read(&mut self, budget: Budget, buffer: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8])) -> io::Result<Look> {
        let Some(open) = &mut self.current else { return Ok(Look::default()) };
        let size = open.file.metadata()?.len();
        let behind = if matches!(self.source, Source::Handed(_)) { HANDED_BEHIND } else { budget.behind };
        if size < open.offset {
            self.restart(sink);
        } else if size - open.offset > behind {
            let to = size - budget.keep;
            self.health.skipped += to - open.offset;
            self.health.skipped_at = Some(Instant::now());
            open.offset = to;
            open.remembered.clear();
            self.align = true;
            self.end_line(sink);
        }
        let mut bytes = 0;
        while bytes < budget.per_log {
            let room = (CHUNK - REMEMBERED).min((budget.per_log - bytes) as usize);
            let read = self.read_chunk(room, buffer, sink)?;
            bytes += read as u64;
            // A short read means the end; another call would double the cost of each line of a slow log.
            if read < room {
                return Ok(Look { bytes, more: false });
            }
        }
        Ok(Look { bytes, more: true })
    }

    /// Reads at most `room` new bytes, after checking that the preceding bytes are still the same.
    fn read_chunk(&mut self, room: usize, buffer: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Some(open) = &mut self.current else { return Ok(0) };
        let before = open.remembered.len();
        buffer.resize(before + room, 0);
        let read = open.file.read_at(buffer, open.offset - before as u64)?;
        if read < before || buffer[..before] != open.remembered[..] {
            self.restart(sink);
            return Ok(if read == 0 { 0 } else { self.read_chunk(room, buffer, sink)? });
        }
        let fresh = &buffer[before..read];
        if fresh.is_empty() {
            return Ok(0);
        }
        open.offset += fresh.len() as u64;
        open.remembered = buffer[read.saturating_sub(REMEMBERED)..read].to_vec();
        self.emit(&buffer[before..read], sink);
        Ok(read - before)
    }

    fn emit(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        if self.align {
            let Some(end) = memchr::memchr(b'\n', bytes) else { return };
            bytes = &bytes[end + 1..];
            self.align = false;
        }
        if let Some(last) = bytes.last() {
            self.mid_line = *last != b'\n';
            sink(bytes);
        }
    }

    /// Handles a file that was truncated or rewritten: its current content has not been read.
    fn restart(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if let Some(open) = &mut self.current {
            open.offset = 0;
            open.remembered.clear();
        }
        self.health.truncated += 1;
        self.align = false;
        self.end_line(sink);
    }

    /// Ends an incomplete line, because the following data does not continue it.
    fn end_line(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if std::mem::take(&mut self.mid_line) {
            sink(b"\n");
        }
    }

    /// Continues with the next queued file at the end of a rotated file; returns whether there is one.
    fn next_rotated(&mut self) -> bool {
        let Some(next) = self.next.pop_front() else { return false };
        if let Some(finished) = self.current.replace(next) {
            self.finished.push_back(finished.identity);
            if self.finished.len() > ROTATED_AT_MOST as usize {
                self.finished.pop_front();
            }
        }
        true
    }

    /// Checks, at the end of the current file, whether there is another file to read. A file that lost its name is read once more, because
    /// its writer may not have noticed yet.
    fn follow_rotation(&mut self) -> bool {
        if !self.replaced() {
            self.leaving = false;
            return false;
        }
        if !std::mem::replace(&mut self.leaving, true) {
            return true;
        }
        self.leaving = false;
        match self.source.open().and_then(|file| Open::new(file, 0).map_err(|error| self.unreadable(&error))) {
            Ok(newest) => {
                self.health.rotated += 1;
                self.health.problem = None;
                self.next = self.current.as_ref().map(|old| self.rotated_after(old)).unwrap_or_default();
                self.next.push_back(newest);
                self.next_rotated()
            }
            Err(problem) => {
                self.health.problem = Some(problem);
                false
            }
        }
    }

    /// Whether the log's name refers to a file other than the current one. A missing file does not count, because a rotation may be in
    /// progress.
    fn replaced(&mut self) -> bool {
        let Some(open) = &self.current else { return false };
        match &self.source {
            Source::Host(path) => std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && !open.is(&meta)),
            Source::Inside(file) => {
                // Resolving the path takes several calls, so it is not done at each look.
                self.idle_looks = (self.idle_looks + 1) % INSIDE_EVERY;
                let due = self.leaving || self.idle_looks == 0;
                due && file.open().is_ok_and(|file| file.metadata().is_ok_and(|meta| !open.is(&meta)))
            }
            Source::Handed(_) => false,
        }
    }

    /// Returns files that were written and rotated since `old` was finished, oldest first: `LOG.1`, `LOG.2`, … newer than `old`.
    fn rotated_after(&self, old: &Open) -> VecDeque<Open> {
        let mut younger = VecDeque::new();
        let Ok(last_written) = old.file.metadata().and_then(|meta| meta.modified()) else { return younger };
        for number in 1..=ROTATED_AT_MOST {
            let Some(file) = self.open_rotated(number) else { break };
            let Ok(meta) = file.metadata() else { break };
            let Ok(written) = meta.modified() else { break };
            // Within one tick of the file system's clock, only the remembered identities can tell.
            let known = written == last_written && self.finished.contains(&Identity::of(&meta));
            if old.is(&meta) || written < last_written || known {
                break;
            }
            let Ok(open) = Open::new(file, 0) else { break };
            younger.push_front(open);
        }
        younger
    }
}

#[cfg(test)]
mod tests;
