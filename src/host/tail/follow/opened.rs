//! One open log file with its read position.

use crate::source::Position;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::SystemTime;

/// Maximum distance to search back for the beginning of a line, in bytes.
const LINE_AT_MOST: u64 = 64 * 1024;

/// Identifies a file even after it was deleted and its inode number reused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    /// Not supported by every file system.
    born: Option<SystemTime>,
}

impl Identity {
    pub(super) fn of(meta: &Metadata) -> Identity {
        Identity { device: meta.dev(), inode: meta.ino(), born: meta.created().ok() }
    }
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: File,
    pub(super) identity: Identity,
    pub(super) offset: u64,
    /// The bytes before the offset, to detect that the file was truncated and has grown past the offset again.
    pub(super) remembered: Vec<u8>,
}

impl Open {
    /// Returns the same file with a read offset of `offset`.
    pub(super) fn at(self, offset: u64) -> Open {
        Open { offset, ..self }
    }

    /// Returns the start of the line around `offset`: a line that was incomplete before a restart has not been parsed.
    pub(super) fn line_beginning(&self, offset: u64) -> u64 {
        let from = offset.saturating_sub(LINE_AT_MOST);
        let mut before = vec![0; (offset - from) as usize];
        if self.file.read_exact_at(&mut before, from).is_err() {
            return offset;
        }
        match memchr::memrchr(b'\n', &before) {
            Some(end) => from + end as u64 + 1,
            None if from == 0 => 0,
            None => offset,
        }
    }

    /// Whether the byte before `offset` does not end a line.
    pub(super) fn mid_line(&self, offset: u64) -> bool {
        let mut byte = [0];
        offset > 0 && self.file.read_exact_at(&mut byte, offset - 1).is_ok() && byte != *b"\n"
    }

    pub(super) fn new(file: File, offset: u64) -> io::Result<Open> {
        let meta = file.metadata()?;
        Ok(Open { identity: Identity::of(&meta), offset, remembered: Vec::new(), file })
    }

    /// Whether this is the file of a stored position.
    pub(super) fn is_at(&self, position: Position) -> bool {
        let own = self.position();
        let same_birth = own.born_ns == 0 || position.born_ns == 0 || own.born_ns == position.born_ns;
        (own.device, own.inode) == (position.device, position.inode) && same_birth
    }

    pub(super) fn position(&self) -> Position {
        let Identity { device, inode, born } = self.identity;
        let since_1970 = born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
        let born_ns = since_1970.and_then(|since| i64::try_from(since.as_nanos()).ok()).map_or(0, i64::unsigned_abs);
        Position { device, inode, born_ns, offset: self.offset }
    }

    /// Whether `meta` belongs to this file, whose inode number cannot be reused while it is open.
    pub(super) fn is(&self, meta: &Metadata) -> bool {
        (self.identity.device, self.identity.inode) == (meta.dev(), meta.ino())
    }
}
