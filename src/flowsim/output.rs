//! Input files as text, and results as tables, JSON, and files that are replaced atomically.

use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use term::screen::Look;
use term::table::{self, Cell, Column};

/// Returns the file's name and its text.
///
/// # Errors
/// Names the path and `what` it should contain.
pub(crate) fn read_text(file: &Path, what: &str) -> Result<(String, String), String> {
    let path = file.display().to_string();
    match fs::read_to_string(file) {
        Ok(text) => Ok((path, text)),
        Err(error) => Err(format!("{path}: cannot read {what}: {error}; check the path and its permissions")),
    }
}

/// Formats a table: the first `left` columns are left-aligned, the others right-aligned, and nothing is cut off.
pub(crate) fn table(titles: &[&'static str], left: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let (to_left, to_right) = titles.split_at(left);
    let to_right = to_right.iter().copied().map(Column::right);
    let columns: Vec<Column> = to_left.iter().copied().map(Column::left).chain(to_right).collect();
    let rows: Vec<Vec<Cell>> = rows.map(|row| row.iter().map(|text| Cell::plain(text)).collect()).collect();
    table::table(&columns, &rows, &Look { columns: None, color: false })
}

/// A result as one line of JSON.
///
/// # Errors
/// If it has no form in JSON.
pub(crate) fn json(result: &impl Serialize) -> Result<String, String> {
    let line = serde_json::to_string(result);
    line.map(|line| line + "\n").map_err(|error| format!("cannot write the result as JSON: {error}"))
}

/// Writes `bytes` to a temporary file beside `path` and renames it: a reader sees the old file or the new one.
///
/// # Errors
/// Names the path and the failure; the temporary file is removed.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let temporary = beside(path);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        format!("{}: cannot write: {error}; choose a path in an existing, writable folder", path.display())
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_without_leaving_a_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_names_the_path_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("taken")).unwrap();
        let error = write_whole(&folder.path().join("taken"), b"x").unwrap_err();
        assert!(error.contains("taken: cannot write"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
