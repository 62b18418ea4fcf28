//! Cgroups of this machine.

#![allow(dead_code)] // each test binary needs only a part of it

use std::fs;
use std::path::{Path, PathBuf};

/// The directories of this name in all hierarchies, not far below their roots; also those of a scope of systemd with this name.
pub fn cgroups_named(name: &str) -> Vec<PathBuf> {
    fn find(below: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
        let entries = fs::read_dir(below).into_iter().flatten().flatten();
        for path in entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()) {
            let last = path.file_name().unwrap_or_default().to_string_lossy();
            if last.strip_suffix(".scope").unwrap_or(&last) == name {
                found.push(path);
            } else if depth > 0 {
                find(&path, name, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    find(Path::new("/sys/fs/cgroup"), name, 6, &mut found);
    found
}
