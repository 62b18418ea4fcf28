//! One log followed through growth, rotation and truncation. No watching here: it is told when to look.

mod opened;

use super::open::TailError;
use super::rotated::open_before;
use super::source::{Position, Source};
use opened::{Identity, Open};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much is read at a time, and when reading on is hopeless.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of one log per look.
    pub per_log: u64,
    /// Bytes of all logs per call.
    pub per_call: u64,
    /// A log further behind than this is skipped to near its end: a log of holes, or one written faster than is worth reading.
    pub behind: u64,
    /// What is left to read after a skip.
    pub keep: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { per_log: 1 << 20, per_call: 4 << 20, behind: 64 << 20, keep: 256 << 10 }
    }
}

/// From where a log is read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From its first byte.
    Beginning,
    /// Only what is written from now on.
    End,
    /// From where an earlier daemon stopped; from the beginning where that file is gone.
    At(Position),
    /// The same in the midst of reading: what was read of an unfinished line is known, and it goes on at this very byte.
    On(Position),
}

/// What happened to a log besides growing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it cannot be read now.
    pub problem: Option<TailError>,
    /// Bytes that were skipped because reading was hopelessly behind.
    pub skipped: u64,
    /// How often it was cut or written anew in place.
    pub truncated: u64,
    /// How often another file took its name.
    pub rotated: u64,
}

/// So many bytes before the offset are remembered and compared.
const REMEMBERED: usize = 16;
/// One call reads so much, with what is compared in front of it.
const CHUNK: usize = 32 * 1024;
/// What lies further behind may have been given back by the owner of a handed log.
const HANDED_BEHIND: u64 = 2 << 20;
/// At most so many rotated files are looked for.
const ROTATED_AT_MOST: u32 = 20;
/// Where a name inside a container leads is asked at every so manyth look without news.
const INSIDE_EVERY: u32 = 4;

/// What one look at a log found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) bytes: u64,
    /// There is more to read at once, or a rotation to finish.
    pub(super) more: bool,
}

/// One followed log.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) source: Source,
    pub(super) health: Health,
    start: Start,
    current: Option<Open>,
    /// Rotated files between the current one and the log's present name, oldest first.
    next: VecDeque<Open>,
    /// Drop bytes up to the next line's beginning.
    align: bool,
    /// The last byte handed out did not end a line.
    mid_line: bool,
    /// Another file has the log's name; the current one gets one more look before it is left.
    leaving: bool,
    /// The files that were read and left, youngest last.
    left: VecDeque<Identity>,
    /// Looks without news since the name was last followed, inside a container.
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
            left: VecDeque::new(),
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

    /// Reads what is new, at most the budget, and hands it to `sink`.
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

    /// Opens the log for the first time; false while there is none.
    fn open_first(&mut self) -> bool {
        let file = match self.source.open() {
            Ok(file) => file,
            Err(problem) => {
                // What appears later is new from its first byte.
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

    /// The file to read first, at the offset to read it from.
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
            // A shorter file was cut while nobody looked.
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

    /// The rotated file that a stored position is in; those rotated after it are put in line.
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
            self.read_anew(sink);
        } else if size - open.offset > behind {
            let to = size - budget.keep;
            self.health.skipped += to - open.offset;
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
            // Less than asked for is its end; asking once more would cost each line of a slow log a second call.
            if read < room {
                return Ok(Look { bytes, more: false });
            }
        }
        Ok(Look { bytes, more: true })
    }

    /// Reads at most `room` new bytes, after making sure that what was read before still stands in front of them.
    fn read_chunk(&mut self, room: usize, buffer: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Some(open) = &mut self.current else { return Ok(0) };
        let before = open.remembered.len();
        buffer.resize(before + room, 0);
        let read = open.file.read_at(buffer, open.offset - before as u64)?;
        if read < before || buffer[..before] != open.remembered[..] {
            self.read_anew(sink);
            return Ok(if read == 0 { 0 } else { self.read_chunk(room, buffer, sink)? });
        }
        let fresh = &buffer[before..read];
        if fresh.is_empty() {
            return Ok(0);
        }
        open.offset += fresh.len() as u64;
        open.remembered = buffer[read.saturating_sub(REMEMBERED)..read].to_vec();
        self.hand_out(&buffer[before..read], sink);
        Ok(read - before)
    }

    fn hand_out(&mut self, mut bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
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

    /// The file was cut or written anew: what it holds now has not been read.
    fn read_anew(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if let Some(open) = &mut self.current {
            open.offset = 0;
            open.remembered.clear();
        }
        self.health.truncated += 1;
        self.align = false;
        self.end_line(sink);
    }

    /// What follows does not continue the last line.
    fn end_line(&mut self, sink: &mut dyn FnMut(&[u8])) {
        if std::mem::take(&mut self.mid_line) {
            sink(b"\n");
        }
    }

    /// At the end of a rotated file: goes on with the next in line, if there is one.
    fn next_rotated(&mut self) -> bool {
        let Some(next) = self.next.pop_front() else { return false };
        if let Some(left) = self.current.replace(next) {
            self.left.push_back(left.identity);
            if self.left.len() > ROTATED_AT_MOST as usize {
                self.left.pop_front();
            }
        }
        true
    }

    /// At the end of the present file with nothing new: whether there is another to read. A file that lost its name gets one
    /// more look, for whoever writes it may not have noticed yet.
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

    /// Whether the log's name leads to another file than the one being read. No file of that name is no other file: it may
    /// be between two.
    fn replaced(&mut self) -> bool {
        let Some(open) = &self.current else { return false };
        match &self.source {
            Source::Host(path) => std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && !open.is(&meta)),
            Source::Inside(file) => {
                // Finding it takes several calls: not at each look.
                self.idle_looks = (self.idle_looks + 1) % INSIDE_EVERY;
                let due = self.leaving || self.idle_looks == 0;
                due && file.open().is_ok_and(|file| file.metadata().is_ok_and(|meta| !open.is(&meta)))
            }
            Source::Handed(_) => false,
        }
    }

    /// Files that were written and rotated away since `old` was left, oldest first: `LOG.1`, `LOG.2`, … younger than it.
    fn rotated_after(&self, old: &Open) -> VecDeque<Open> {
        let mut younger = VecDeque::new();
        let Ok(last_written) = old.file.metadata().and_then(|meta| meta.modified()) else { return younger };
        for number in 1..=ROTATED_AT_MOST {
            let Some(file) = self.open_rotated(number) else { break };
            let Ok(meta) = file.metadata() else { break };
            let Ok(written) = meta.modified() else { break };
            // Within one tick of the file system's clock, only memory tells.
            let known = written == last_written && self.left.contains(&Identity::of(&meta));
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
