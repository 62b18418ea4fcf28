//! Freezes and thaws the processes of a cgroup, with the kernel's freezer of version 1 or 2.
//!
//! A [`Guard`] is a separate process that freezes cgroups in turns within a period, according to the last [`Plan`] of the daemon. It thaws
//! everything when no further plan arrives: when the daemon ends, is killed, hangs, or is stopped. If the guard itself is killed, the
//! daemon's thread that reads its reports thaws everything. The remaining case, both killed at once, is covered by the journal.
//!
//! Engines pause containers through the same file. A cgroup that is already frozen was frozen by someone else, and is left alone until they
//! thaw it.

mod guard;
mod process;
mod turns;

pub use guard::{Followed, Guard};
pub use process::run;
pub use turns::{Plan, Turn, TurnResult, TurnResults};

use rustix::fs::{AtFlags, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The freezer of one cgroup, kept open: a path that has been reused by another cgroup is never written.
#[derive(Debug)]
pub struct Freezer {
    directory: OwnedFd,
    path: PathBuf,
    files: Files,
}

/// Names and values of the control files of one cgroup version.
#[derive(Debug)]
struct Files {
    /// File with the requested state of this cgroup itself; a cgroup above may be frozen as well.
    requested: &'static str,
    /// File that sets the state.
    switch: &'static str,
    frozen: &'static str,
    thawed: &'static str,
}

const VERSION_1: Files =
    Files { requested: "freezer.self_freezing", switch: "freezer.state", frozen: "FROZEN", thawed: "THAWED" };
const VERSION_2: Files = Files { requested: "cgroup.freeze", switch: "cgroup.freeze", frozen: "1", thawed: "0" };

/// The outcome of a freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Froze {
    /// Frozen by this call.
    Now,
    /// Already frozen by someone else: nothing was done.
    SomebodyElse,
}

impl Freezer {
    /// Opens the freezer of a cgroup directory.
    ///
    /// # Errors
    /// There is no such directory, or it is not a cgroup that can be frozen.
    pub fn open(path: &Path) -> io::Result<Freezer> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let has = |name: &str| rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let files = [VERSION_1, VERSION_2].into_iter().find(|files| has(files.requested) && has(files.switch));
        let files = files.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this cgroup has no freezer"))?;
        Ok(Freezer { directory, path: path.to_owned(), files })
    }

    /// Returns the directory of the cgroup.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this cgroup is frozen, by flowcon or by someone else.
    ///
    /// # Errors
    /// Errors of the kernel, for example because the cgroup was removed.
    pub fn is_frozen(&self) -> io::Result<bool> {
        let mut text = String::new();
        self.file(self.files.requested, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text.trim() == "1")
    }

    /// Freezes the cgroup unless it is already frozen.
    ///
    /// # Errors
    /// As [`Freezer::is_frozen`].
    pub fn freeze(&self) -> io::Result<Froze> {
        if self.is_frozen()? {
            return Ok(Froze::SomebodyElse);
        }
        self.switch(self.files.frozen)?;
        Ok(Froze::Now)
    }

    /// Thaws the cgroup, even if someone else froze it.
    ///
    /// # Errors
    /// As [`Freezer::is_frozen`].
    pub fn thaw(&self) -> io::Result<()> {
        self.switch(self.files.thawed)
    }

    fn switch(&self, word: &str) -> io::Result<()> {
        self.file(self.files.switch, OFlags::WRONLY | OFlags::TRUNC)?.write_all(word.as_bytes())
    }

    fn file(&self, name: &str, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.directory, name, flags, Mode::empty())?))
    }
}

/// Thaws a cgroup that may be frozen; a removed cgroup is not an error.
///
/// # Errors
/// Errors of the kernel.
pub fn thaw(path: &Path) -> io::Result<()> {
    match Freezer::open(path).and_then(|freezer| freezer.thaw()) {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Freezes a cgroup that its engine has paused, and leaves it to the engine. The engine may have found it already frozen by us and done
/// nothing, and it has been thawed since.
fn leave(path: &Path) {
    // On failure the cgroup was removed, so there is nothing to do.
    let _ = Freezer::open(path).and_then(|freezer| freezer.freeze());
}

/// Whether the error means that the cgroup was removed.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Directories that look like a cgroup of either version. In the kernel the second file follows the first; here a test writes it.
    fn directory_of(version: u8) -> (tempfile::TempDir, Freezer) {
        let dir = tempfile::tempdir().unwrap();
        let files: &[(&str, &str)] = match version {
            1 => &[("freezer.state", "THAWED\n"), ("freezer.self_freezing", "0\n")],
            _ => &[("cgroup.freeze", "0\n")],
        };
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let freezer = Freezer::open(dir.path()).unwrap();
        (dir, freezer)
    }

    #[test]
    fn each_version_is_frozen_and_thawed_with_its_values() {
        for (version, file, values) in [(1, "freezer.state", ["FROZEN", "THAWED"]), (2, "cgroup.freeze", ["1", "0"])] {
            let (dir, freezer) = directory_of(version);
            assert_eq!(freezer.freeze().unwrap(), Froze::Now);
            assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), values[0]);
            freezer.thaw().unwrap();
            assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), values[1]);
        }
    }

    #[test]
    fn a_cgroup_frozen_by_someone_else_is_left_alone() {
        for (version, file) in [(1, "freezer.self_freezing"), (2, "cgroup.freeze")] {
            let (dir, freezer) = directory_of(version);
            fs::write(dir.path().join(file), "1\n").unwrap();
            assert_eq!(freezer.freeze().unwrap(), Froze::SomebodyElse);
        }
    }

    #[test]
    fn a_directory_without_a_freezer_is_rejected_and_thawing_a_removed_one_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Freezer::open(dir.path()).unwrap_err().kind(), io::ErrorKind::Unsupported);
        thaw(&dir.path().join("gone")).unwrap();
    }
}
