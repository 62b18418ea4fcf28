//! The folder of a running scope, as its `flowctl` keeps it: claimed, locked, filled, removed.

use super::folder::{Folder, NEW_RECORD};
use super::record::{self, OUTPUT, RECORD};
use super::{Placement, Scope, ScopeError, ScopeName};
use crate::model::TrainingId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Makes the folder that scopes are registered in. Where root makes it, everybody may register a scope: the daemon checks each
/// one against the kernel, and nobody can touch another's (the sticky bit).
///
/// # Errors
/// [`ScopeError::Registration`].
pub fn prepare_directory(directory: &Path) -> Result<(), ScopeError> {
    let failed = |error| ScopeError::registration("making", directory, error);
    if let Some(parent) = directory.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(failed)?;
    }
    match DirBuilder::new().mode(0o755).create(directory) {
        Ok(()) if rustix::process::geteuid().is_root() => {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o1777)).map_err(failed)
        }
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::symlink_metadata(directory) {
            Ok(meta) if meta.is_dir() => Ok(()),
            _ => Err(failed(error)),
        },
        Err(error) => Err(failed(error)),
    }
}

/// A claimed name, locked as long as this lives. Its folder goes when this is dropped, unless processes are left in the scope.
#[derive(Debug)]
pub struct Registration {
    folder: Folder,
    name: ScopeName,
    /// The scope outlives this: leave its folder to the daemon.
    left: bool,
}

impl Registration {
    /// Claims `name` in `directory`. The remains of a scope that has ended are cleared away.
    ///
    /// # Errors
    /// [`ScopeError::NameTaken`] when a scope of that name runs, [`ScopeError::Registration`] when the folder cannot be made.
    pub fn claim(directory: &Path, name: &ScopeName) -> Result<Registration, ScopeError> {
        prepare_directory(directory)?;
        let path = directory.join(name.as_str());
        let failed = |error| ScopeError::registration("making", &path, error);
        const TRIES: u32 = 4;
        for _ in 0..TRIES {
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => {}
            }
            // The daemon takes folders of nobody away: this one perhaps, before it was locked.
            let folder = match Folder::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            if !lock(&folder) || !clear(&folder) {
                return Err(ScopeError::NameTaken { name: name.clone() });
            }
            if folder.stands() {
                return Ok(Registration { folder, name: name.clone(), left: false });
            }
        }
        Err(ScopeError::NameTaken { name: name.clone() })
    }

    /// Where the scope's output goes.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join(OUTPUT)
    }

    /// Makes the scope known: from now on the daemon may govern process `pid`.
    ///
    /// # Errors
    /// [`ScopeError::TooMuch`] for labels that do not fit, [`ScopeError::Registration`] when it cannot be written.
    pub fn publish(
        &self,
        labels: BTreeMap<String, String>,
        (pid, start_ticks): (u32, u64),
        placement: Placement,
        command: &[OsString],
    ) -> Result<(), ScopeError> {
        record::check_labels(&labels)?;
        let uid = rustix::process::geteuid().as_raw();
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let user = format!("user {uid}");
        let training = TrainingId::of(std::iter::once(user.as_str()).chain(words.iter().map(AsRef::as_ref)));
        let (name, log, training) = (self.name.clone(), self.log(), Some(training));
        let scope = Scope { name, labels, pid, start_ticks, placement, log, uid, training };
        let (temporary, record) = (self.folder.path().join(NEW_RECORD), self.folder.path().join(RECORD));
        let written = fs::write(&temporary, record::write(&scope, record::this_boot().as_deref()))
            .and_then(|()| fs::rename(&temporary, &record))
            // The daemon watches the folder of folders, where only a change of this one's own data shows.
            .and_then(|()| File::open(self.folder.path())?.set_modified(std::time::SystemTime::now()));
        written.map_err(|error| ScopeError::registration("writing", &record, error))
    }

    /// Leaves the folder behind, for processes of the scope still run: the daemon removes it when they are gone.
    pub fn leave(mut self) {
        self.left = true;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.left {
            self.folder.remove();
        }
    }
}

/// Takes the lock. A daemon has it for a moment when it looks at a folder in which nothing runs: that is waited for.
fn lock(folder: &Folder) -> bool {
    const A_LOOK_TAKES_AT_MOST: Duration = Duration::from_secs(2);
    let until = Instant::now() + A_LOOK_TAKES_AT_MOST;
    loop {
        if folder.lock() {
            return true;
        }
        let runs = folder.scope(record::this_boot().as_deref()).is_some_and(|scope| !ended(&scope));
        if runs || Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Clears the remains of an ended scope out of a locked folder; false when it has not ended.
fn clear(folder: &Folder) -> bool {
    if let Some(scope) = folder.scope(record::this_boot().as_deref()) {
        if !ended(&scope) {
            return false;
        }
        remove_cgroups(&scope);
    }
    folder.empty();
    true
}

/// Whether no process is left in the scope's cgroup.
pub(super) fn ended(scope: &Scope) -> bool {
    match &scope.placement {
        Placement::Cgroupfs(directories) => directories.iter().all(|directory| {
            fs::read_to_string(directory.join("cgroup.procs")).map_or(true, |processes| processes.is_empty())
        }),
        // systemd removes the cgroup with the last process; the first process then is gone as well.
        Placement::Systemd(unit) => !fs::read_to_string(format!("/proc/{}/cgroup", scope.pid))
            .is_ok_and(|cgroups| cgroups.lines().any(|line| line.ends_with(&format!("/{unit}")))),
    }
}

pub(super) fn remove_cgroups(scope: &Scope) {
    if let Placement::Cgroupfs(directories) = &scope.placement {
        for directory in directories {
            let _ = fs::remove_dir(directory); // the kernel refuses while anything is in it
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ScopeName {
        ScopeName::new("job").unwrap()
    }

    #[test]
    fn a_name_is_taken_as_long_as_its_holder_lives_and_free_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let scopes = dir.path().join("deep/flowcond.scopes");
        let held = Registration::claim(&scopes, &name()).unwrap();
        assert!(matches!(Registration::claim(&scopes, &name()), Err(ScopeError::NameTaken { .. })));
        drop(held);
        assert!(!scopes.join("job").exists());
        Registration::claim(&scopes, &name()).unwrap();
    }

    #[test]
    fn a_daemon_that_looks_at_the_new_folder_does_not_take_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job");
        fs::create_dir(&path).unwrap();
        let looking = Folder::open(&path).unwrap();
        assert!(looking.lock());
        let daemon = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            looking.unlock();
        });
        Registration::claim(dir.path(), &name()).unwrap();
        daemon.join().unwrap();
    }

    #[test]
    fn the_remains_of_a_scope_that_ended_without_a_word_are_cleared_away() {
        let dir = tempfile::tempdir().unwrap();
        let crashed = Registration::claim(dir.path(), &name()).unwrap();
        fs::write(crashed.log(), "old").unwrap();
        let nowhere = Placement::Cgroupfs(vec!["/sys/fs/cgroup/cpu/flowcon-job".into()]);
        crashed.publish(BTreeMap::new(), (4_000_000, 1), nowhere, &[]).unwrap();
        crashed.leave();
        assert!(dir.path().join("job/scope.json").exists());
        let next = Registration::claim(dir.path(), &name()).unwrap();
        assert!(!next.log().exists());
    }

    #[test]
    fn labels_without_measure_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let registration = Registration::claim(dir.path(), &name()).unwrap();
        let labels = [("flowcon.pattern".to_owned(), "x".repeat(1 << 20))].into();
        let refused = registration.publish(labels, (2, 1), Placement::Cgroupfs(Vec::new()), &[]);
        assert!(matches!(refused, Err(ScopeError::TooMuch { .. })));
    }

    #[test]
    fn a_file_in_the_way_is_named_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("flowcond.scopes");
        fs::write(&file, "").unwrap();
        let error = Registration::claim(&file, &name()).unwrap_err().to_string();
        assert!(error.contains(file.to_str().unwrap()), "{error}");
    }
}
