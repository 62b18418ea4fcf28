//! Stopping the processes of a cgroup for a moment, and letting them go on: the kernel's freezer, of version 1 and 2.
//!
//! A [`Guard`] is a process of its own that does all of it by turns, in a period, as the daemon last asked ([`Plan`]). It lets everything go
//! on when it is asked for nothing any more: when the daemon ends, is killed, hangs, or is stopped. When the guard itself is killed, the
//! daemon's thread that listens to it does so. What remains, both killed at once, is what the journal is for.
//!
//! Engines pause containers by the same file. What is frozen already is somebody else's: hands off until they thaw it.
//!
//! Imports: nothing.

mod guard;
mod process;
mod turns;

pub use guard::{Followed, Guard};
pub use process::run;
pub use turns::{Plan, Report, Turn, Turned};

use rustix::fs::{AtFlags, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The freezer of one cgroup, kept open: a path that has become another's meanwhile is never written.
#[derive(Debug)]
pub struct Freezer {
    directory: OwnedFd,
    path: PathBuf,
    files: Files,
}

/// What the kernel calls them.
#[derive(Debug)]
struct Files {
    /// Says what was asked for this very cgroup: a cgroup above may be frozen as well.
    asked: &'static str,
    /// Takes it.
    switch: &'static str,
    frozen: &'static str,
    thawed: &'static str,
}

const VERSION_1: Files =
    Files { asked: "freezer.self_freezing", switch: "freezer.state", frozen: "FROZEN", thawed: "THAWED" };
const VERSION_2: Files = Files { asked: "cgroup.freeze", switch: "cgroup.freeze", frozen: "1", thawed: "0" };

/// Who froze it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Froze {
    /// This call.
    Now,
    /// Somebody before: nothing was done.
    SomebodyElse,
}

impl Freezer {
    /// Opens the freezer of a cgroup's directory.
    ///
    /// # Errors
    /// There is no such directory, or it is no cgroup that can be frozen.
    pub fn open(path: &Path) -> io::Result<Freezer> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let has = |name: &str| rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let files = [VERSION_1, VERSION_2].into_iter().find(|files| has(files.asked) && has(files.switch));
        let files = files.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this cgroup has no freezer"))?;
        Ok(Freezer { directory, path: path.to_owned(), files })
    }

    /// The cgroup's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anybody, of ours or not, has this cgroup frozen.
    ///
    /// # Errors
    /// The kernel's, such as that the cgroup is gone.
    pub fn is_frozen(&self) -> io::Result<bool> {
        let mut text = String::new();
        self.file(self.files.asked, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text.trim() == "1")
    }

    /// Freezes it, unless somebody has.
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

    /// Lets its processes go on, whoever froze it.
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

/// Lets the processes of a cgroup go on that may be frozen; one that is gone needs nothing.
///
/// # Errors
/// The kernel's.
pub fn thaw(path: &Path) -> io::Result<()> {
    match Freezer::open(path).and_then(|freezer| freezer.thaw()) {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Leaves a cgroup to the engine that has paused it: while it was frozen by us the engine may have found nothing to do, and it has been
/// thawed since.
fn leave(path: &Path) {
    // It is gone, or is frozen: nothing is to be done.
    let _ = Freezer::open(path).and_then(|freezer| freezer.freeze());
}

/// Whether it says that the cgroup is no more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Folders that look like a cgroup of either version. The kernel's second file follows the first; here a test writes it.
    fn folder(version: u8) -> (tempfile::TempDir, Freezer) {
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
    fn either_version_is_frozen_and_thawed_by_its_own_words() {
        for (version, file, words) in [(1, "freezer.state", ["FROZEN", "THAWED"]), (2, "cgroup.freeze", ["1", "0"])] {
            let (dir, freezer) = folder(version);
            assert_eq!(freezer.freeze().unwrap(), Froze::Now);
            assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), words[0]);
            freezer.thaw().unwrap();
            assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), words[1]);
        }
    }

    #[test]
    fn what_somebody_froze_is_left_to_them() {
        for (version, file) in [(1, "freezer.self_freezing"), (2, "cgroup.freeze")] {
            let (dir, freezer) = folder(version);
            fs::write(dir.path().join(file), "1\n").unwrap();
            assert_eq!(freezer.freeze().unwrap(), Froze::SomebodyElse);
        }
    }

    #[test]
    fn a_folder_without_a_freezer_is_refused_and_one_that_is_gone_needs_no_thaw() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Freezer::open(dir.path()).unwrap_err().kind(), io::ErrorKind::Unsupported);
        thaw(&dir.path().join("gone")).unwrap();
    }
}
