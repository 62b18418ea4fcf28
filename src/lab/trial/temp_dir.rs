//! A directory of our own for the governor's socket and state; gone with the program.
//!
//! Imports: std only.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The directory; dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
    governors: AtomicUsize,
}

impl TempDir {
    /// A new directory that only this user can enter.
    ///
    /// # Errors
    /// The directory for temporary files cannot be written.
    pub fn new() -> Result<TempDir> {
        let path = std::env::temp_dir().join(format!("flowcon-demo-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| {
            format!("create {} (set TMPDIR to a directory that this user may write)", path.display())
        })?;
        Ok(TempDir { path, governors: AtomicUsize::new(1) })
    }

    /// Where the governor listens.
    pub fn socket(&self) -> PathBuf {
        self.path.join("flowcond.sock")
    }

    /// Where a governor keeps its journal: each begins with an empty one.
    pub fn new_state_dir(&self) -> PathBuf {
        let number = self.governors.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("state-{number}"))
    }

    /// A further such place that begins with all that is kept in `known`, whose governor has ended.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub fn state_dir_like(&self, known: &Path) -> Result<PathBuf> {
        let copy = self.new_state_dir();
        fs::DirBuilder::new().mode(0o700).create(&copy).with_context(|| format!("create {}", copy.display()))?;
        for entry in fs::read_dir(known).with_context(|| format!("read {}", known.display()))? {
            let entry = entry?;
            fs::copy(entry.path(), copy.join(entry.file_name())).context("copy what a governor knew")?;
        }
        Ok(copy)
    }

    /// The label by which the demo's governor knows its jobs, and no other governor does.
    pub fn label(&self) -> (String, String) {
        ("flowcon.enable".to_owned(), self.tag())
    }

    /// A name that no other demo has at this time, fit for containers, scopes and images.
    pub fn tag(&self) -> String {
        format!("flowcon-demo-{}", std::process::id())
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("flowctl: could not remove {}: {error}", self.path.display());
        }
    }
}
