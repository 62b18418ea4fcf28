//! Opens an SQLite file of the state, brings it up to date, and sets a damaged one aside.

use super::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Creates the state directory if necessary (mode 0700), and returns its path without symbolic links, which SQLite does not follow.
pub(super) fn directory(directory: &Path) -> Result<PathBuf, StoreError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| StoreError::directory(directory, "create", source))?;
    directory.canonicalize().map_err(|source| StoreError::directory(directory, "find", source))
}

/// Opens the database at `path`, prepares it, and migrates it to the last of `steps`. A damaged one is set aside first, after
/// `at_damage`, as one of at most `copies`; its new path is returned too.
pub(super) fn open(
    path: &Path,
    prepare: impl Fn(&Connection) -> Result<(), StoreError>,
    steps: &[&str],
    copies: u32,
    at_damage: impl FnOnce() -> Result<(), StoreError>,
) -> Result<(Connection, Option<PathBuf>), StoreError> {
    match open_once(path, &prepare, steps) {
        Err(error) if error.is_damage() => {
            at_damage()?;
            let aside = set_aside(path, copies)?;
            Ok((open_once(path, &prepare, steps)?, Some(aside)))
        }
        opened => Ok((opened?, None)),
    }
}

fn open_once(
    path: &Path,
    prepare: impl Fn(&Connection) -> Result<(), StoreError>,
    steps: &[&str],
) -> Result<Connection, StoreError> {
    let at = |operation: &'static str| move |source: rusqlite::Error| StoreError::sqlite(path, operation, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags).map_err(at("open"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|source| StoreError::directory(path, "set the database's mode", source))?;
    prepare(&connection)?;
    let found = version(&connection).map_err(at("read the schema's version"))?;
    let known = steps.len() as i64;
    if !(0..=known).contains(&found) {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    migrate(&mut connection, found, steps).map_err(at("bring up to date"))?;
    Ok(connection)
}

/// Returns the schema version of an open database; 0 = empty.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Migrates the database from version `found` to the last of `steps`, with one step per version, in one transaction.
fn migrate(connection: &mut Connection, found: i64, steps: &[&str]) -> rusqlite::Result<()> {
    let missing = usize::try_from(found).unwrap_or(0)..steps.len();
    if missing.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for step in &steps[missing] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", steps.len() as i64)?;
    transaction.commit()
}

/// Checks the database with `quick_check`, which reads every page, or with `integrity_check`, which also compares the indices with their
/// tables.
pub(super) fn check(path: &Path, connection: &Connection, check: &str) -> Result<(), StoreError> {
    let at = |source: rusqlite::Error| StoreError::sqlite(path, "check", source);
    let result: String = connection.query_row(&format!("PRAGMA {check}(1)"), [], |row| row.get(0)).map_err(at)?;
    if result == "ok" {
        return Ok(());
    }
    Err(unread(&result).map_or(StoreError::Damaged { path: path.to_owned(), operation: "check" }, at))
}

/// Returns the error because of which the check could not read a page, which it reports like damage: the page itself may be intact.
fn unread(check_result: &str) -> Option<rusqlite::Error> {
    let (_, code) = check_result.split_once("error code=")?;
    let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
    let error = ffi::Error::new(digits.parse().ok()?);
    let is_damage = matches!(error.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase);
    (!is_damage).then_some(rusqlite::Error::SqliteFailure(error, None))
}

/// Renames a damaged database and its journal to the first unused `*.corrupt-N`; the last of at most `copies` is replaced, because the first
/// ones have the most content.
pub(super) fn set_aside(path: &Path, copies: u32) -> Result<PathBuf, StoreError> {
    let free = (1..=copies).map(|n| aside(path, n)).find(|candidate| !candidate.exists());
    let aside = free.unwrap_or_else(|| aside(path, copies));
    for suffix in ["-journal", "-wal", "-shm", ""] {
        replace(&with(path, suffix), &with(&aside, suffix))
            .map_err(|error| StoreError::directory(path, "set the damaged database aside", error))?;
    }
    Ok(aside)
}

/// Returns the path to which a damaged database was renamed last.
pub(super) fn last_set_aside(path: &Path) -> PathBuf {
    let asides = (1..).map(|n| aside(path, n)).take_while(|candidate| candidate.exists());
    asides.last().unwrap_or_else(|| aside(path, 1))
}

fn aside(path: &Path, number: u32) -> PathBuf {
    with(path, &format!(".corrupt-{number}"))
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Renames a file over another; if there is none, the other is deleted.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::rename(from, to) {
        Err(error) if is_missing(&error) => {
            fs::remove_file(to).or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })
        }
        renamed => renamed,
    }
}
