//! The files of a log that its engine rotates by renaming: `LOG`, the previous `LOG.1`, before it `LOG.2`, and so on.
//!
//! Names change while the files are read. A file that is held open keeps its inode number, so it is recognized under any name.

use super::open::{TailError, open_on_host};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Maximum number of files; engines keep only a few.
const AT_MOST: u32 = 1000;
/// Maximum number of attempts; a rotation is only a few renames.
const ATTEMPTS: u32 = 20;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

/// Returns the files of the log at `path`, oldest first: all of them, or those created after `known`.
///
/// # Errors
/// The newest file cannot be opened, or access is denied.
pub fn files_since(path: &Path, known: Option<&File>) -> Result<Vec<File>, TailError> {
    let known = known.and_then(number);
    let mut attempt = 1;
    loop {
        let found = gather(path, known);
        match found {
            Ok((files, true)) => return Ok(files),
            // During a rotation the log's name may be missing.
            Ok((files, false)) if attempt == ATTEMPTS => return Ok(files),
            Err(problem) if attempt == ATTEMPTS || !matches!(problem, TailError::Missing { .. }) => {
                return Err(problem);
            }
            _ => thread::sleep(BETWEEN_ATTEMPTS),
        }
        attempt += 1;
    }
}

/// The same in one pass; the flag says whether the names remained unchanged.
fn gather(path: &Path, known: Option<Inode>) -> Result<(Vec<File>, bool), TailError> {
    let newest = open_on_host(path)?;
    let first = number(&newest);
    let mut files: Vec<File> = Vec::new();
    let mut stable = true;
    let mut next = Some(newest);
    for before in 1..=AT_MOST {
        let Some(file) = next.take() else { break };
        let inode = number(&file);
        if inode.is_some() && inode == known {
            break;
        }
        stable &= files.iter().all(|other| number(other) != inode);
        files.push(file);
        next = open_before(path, before);
        // A gap is a file that is being renamed.
        stable &= next.is_some() || open_before(path, before + 1).is_none();
    }
    stable &= open_on_host(path).is_ok_and(|file| number(&file) == first);
    files.reverse();
    Ok((files, stable))
}

/// Returns the file that was current `rotations` rotations ago.
pub(super) fn open_before(path: &Path, rotations: u32) -> Option<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{rotations}"));
    open_on_host(Path::new(&name)).ok()
}

/// Whether two descriptors refer to the same file, under any names.
pub fn is_same_file(one: &File, other: &File) -> bool {
    number(one) == number(other)
}

/// Device and inode number.
type Inode = (u64, u64);

fn number(file: &File) -> Option<Inode> {
    file.metadata().ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test fails by panicking

    use super::*;
    use std::fs;
    use std::io::Read;

    fn rotate(log: &Path, keep: u32) {
        for number in (1..keep).rev() {
            let older = |number: u32| log.with_extension(format!("log.{number}"));
            let _ = fs::rename(older(number), older(number + 1));
        }
        fs::rename(log, log.with_extension("log.1")).unwrap();
        fs::write(log, "").unwrap();
    }

    fn texts(files: Vec<File>) -> Vec<String> {
        let text = |mut file: File| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        };
        files.into_iter().map(text).collect()
    }

    #[test]
    fn all_files_of_a_rotated_log_are_returned_oldest_first() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("json.log");
        for text in ["one", "two", "three"] {
            if log.exists() {
                rotate(&log, 9);
            }
            fs::write(&log, text).unwrap();
        }
        assert_eq!(texts(files_since(&log, None).unwrap()), ["one", "two", "three"]);
    }

    #[test]
    fn only_files_after_the_known_file_are_returned() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("json.log");
        fs::write(&log, "one").unwrap();
        let known = open_on_host(&log).unwrap();
        assert_eq!(texts(files_since(&log, Some(&known)).unwrap()), [""; 0]);
        for text in ["two", "three"] {
            rotate(&log, 9);
            fs::write(&log, text).unwrap();
        }
        assert_eq!(texts(files_since(&log, Some(&known)).unwrap()), ["two", "three"]);
    }

    #[test]
    fn all_newer_files_are_returned_after_the_known_file_was_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("json.log");
        fs::write(&log, "one").unwrap();
        let known = open_on_host(&log).unwrap();
        for text in ["two", "three", "four"] {
            rotate(&log, 2);
            fs::write(&log, text).unwrap();
        }
        assert_eq!(texts(files_since(&log, Some(&known)).unwrap()), ["two", "three", "four"]);
    }

    #[test]
    fn a_missing_log_is_an_error_and_a_gap_in_its_names_is_unstable() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("json.log");
        assert!(matches!(files_since(&log, None), Err(TailError::Missing { .. })));
        fs::write(&log, "three").unwrap();
        fs::write(log.with_extension("log.2"), "one").unwrap();
        let (_, stable) = gather(&log, None).unwrap();
        assert!(!stable, "two is being renamed");
    }
}
