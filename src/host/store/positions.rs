//! The read position of each container's log, with a checkpoint of its tracker, so that each byte is read once.
//!
//! Saved in batches and not synced: after a power failure some lines are read again.

use super::{Store, StoreError, number, rows};
use model::ContainerId;
use rusqlite::{Row, params};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum size of a checkpoint in bytes; larger ones are not saved.
const CHECKPOINT_LONGEST: usize = 1 << 20;

/// A position in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// In a file: all bytes before `offset` were read.
    File {
        /// Device number.
        device: u64,
        /// Inode number.
        inode: u64,
        /// Creation time of the file, Unix nanoseconds; 0 = unknown.
        born_ns: u64,
        /// Offset in bytes.
        offset: u64,
    },
    /// In the responses of the logs API, per stream.
    Api {
        /// Standard output.
        output: ApiMark,
        /// Standard error.
        error: ApiMark,
    },
}

/// Read position in one stream: all messages before this instant, and `messages` messages with exactly this timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiMark {
    /// Engine time, Unix nanoseconds; 0 = nothing read yet.
    pub unix_ns: u64,
    /// Number of messages with this timestamp that were read.
    pub messages: u32,
}

/// The state that a log reader needs to resume after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// The position.
    pub place: LogPlace,
    /// The tracker's state at that position, as JSON. Untrusted: it must be validated.
    pub checkpoint: Option<String>,
    /// When the run began that the checkpoint belongs to, Unix milliseconds; `None` = an earlier version did not store it.
    pub started_unix_ms: Option<u64>,
}

impl Store {
    /// Saves a batch of positions in one transaction, without waiting for the disk.
    pub fn save_positions<'a>(
        &mut self,
        batch: impl IntoIterator<Item = (&'a ContainerId, &'a ReadPosition)>,
    ) -> Result<(), StoreError> {
        self.lazily("save log positions", |connection| {
            let transaction = connection.transaction()?;
            for (id, position) in batch {
                let (source, [first, second, third, fourth]) = columns(position.place);
                let checkpoint = position.checkpoint.as_deref().filter(|text| text.len() <= CHECKPOINT_LONGEST);
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO position VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
                    .execute(params![
                        id.as_str(),
                        source,
                        first,
                        second,
                        third,
                        fourth,
                        checkpoint,
                        position.started_unix_ms.map(number)
                    ])?;
            }
            transaction.commit()
        })
    }

    /// Returns all saved positions; rows with invalid values are left out, so those logs are read from the start.
    pub fn positions(&self) -> Result<BTreeMap<ContainerId, ReadPosition>, StoreError> {
        let read = rows(&self.connection, "SELECT * FROM position", |row| Ok(parsed(row)));
        Ok(read.map_err(|error| self.error("read log positions", error))?.into_iter().flatten().collect())
    }

    /// Deletes the positions of all containers except `kept`, without waiting for the disk.
    pub fn drop_positions_except(&mut self, kept: &BTreeSet<&str>) -> Result<(), StoreError> {
        let known = rows(&self.connection, "SELECT id FROM position", |row| row.get::<_, String>(0));
        let mut gone = known.map_err(|error| self.error("read log positions", error))?;
        gone.retain(|id| !kept.contains(id.as_str()));
        if gone.is_empty() {
            return Ok(());
        }
        self.lazily("delete log positions", |connection| {
            let transaction = connection.transaction()?;
            for id in &gone {
                transaction.prepare_cached("DELETE FROM position WHERE id = ?1")?.execute([id])?;
            }
            transaction.commit()
        })
    }
}

fn columns(place: LogPlace) -> (&'static str, [i64; 4]) {
    match place {
        LogPlace::File { device, inode, born_ns, offset } => {
            ("file", [number(device), number(inode), number(offset), number(born_ns)])
        }
        LogPlace::Api { output, error } => {
            let (out, err) = (i64::from(output.messages), i64::from(error.messages));
            ("api", [number(output.unix_ns), out, number(error.unix_ns), err])
        }
    }
}

fn parsed(row: &Row<'_>) -> Option<(ContainerId, ReadPosition)> {
    let natural = |column: &str| row.get::<_, i64>(column).ok().and_then(|value| u64::try_from(value).ok());
    let (first, second, third, fourth) = (natural("first")?, natural("second")?, natural("third")?, natural("fourth")?);
    let mark = |unix_ns, messages| Some(ApiMark { unix_ns, messages: u32::try_from(messages).ok()? });
    let place = match row.get::<_, String>("source").ok()?.as_str() {
        "file" => LogPlace::File { device: first, inode: second, born_ns: fourth, offset: third },
        "api" => LogPlace::Api { output: mark(first, second)?, error: mark(third, fourth)? },
        _ => return None,
    };
    let checkpoint = row.get::<_, Option<String>>("checkpoint").ok()?;
    let checkpoint = checkpoint.filter(|text| text.len() <= CHECKPOINT_LONGEST);
    let started_unix_ms = natural("started_unix_ms");
    Some((ContainerId::new(&row.get::<_, String>("id").ok()?), ReadPosition { place, checkpoint, started_unix_ms }))
}
