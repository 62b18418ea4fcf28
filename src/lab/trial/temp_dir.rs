//! A temporary directory for the governor's socket and state, removed on exit.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use term::message;

/// The directory; dropping it removes it with its content.
#[derive(Debug)]
pub(crate) struct TempDir {
    path: PathBuf,
    governors: AtomicUsize,
}

impl TempDir {
    /// Creates a directory that only this user can access.
    ///
    /// # Errors
    /// The temporary directory is not writable.
    pub(crate) fn new() -> Result<TempDir> {
        let path = std::env::temp_dir().join(format!("flowcon-demo-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| {
            format!("create {} (set TMPDIR to a directory that this user may write)", path.display())
        })?;
        Ok(TempDir { path, governors: AtomicUsize::new(1) })
    }

    /// Path of the governor's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("flowcond.sock")
    }

    /// Path of a new state directory for a governor, which starts without state.
    pub(crate) fn new_state_dir(&self) -> PathBuf {
        let number = self.governors.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("state-{number}"))
    }

    /// Creates a state directory as a copy of `known`, whose governor has ended.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub(crate) fn state_dir_like(&self, known: &Path) -> Result<PathBuf> {
        let copy = self.new_state_dir();
        fs::DirBuilder::new().mode(0o700).create(&copy).with_context(|| format!("create {}", copy.display()))?;
        for entry in fs::read_dir(known).with_context(|| format!("read {}", known.display()))? {
            let entry = entry?;
            fs::copy(entry.path(), copy.join(entry.file_name())).context("copy the governor's state")?;
        }
        Ok(copy)
    }

    /// The label that marks jobs for the private governor only.
    pub(crate) fn label(&self) -> (String, String) {
        ("flowcon.enable".to_owned(), self.tag())
    }

    /// A name unique to this process, valid for containers, scopes and images.
    pub(crate) fn tag(&self) -> String {
        format!("flowcon-demo-{}", std::process::id())
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            message::print(format_args!("could not remove {}: {error}", self.path.display()));
        }
    }
}
