//! An open cgroup directory, and open files in it.

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str;

/// Maximum size of a control file in bytes; longer files are truncated.
const LARGEST_FILE: usize = 64 * 1024;
/// Maximum number of cgroups searched for processes.
const CGROUPS_AT_MOST: usize = 64;

/// An open cgroup directory. All files in it are accessed through the descriptor.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    unified: bool,
    own: bool,
}

impl Directory {
    /// Opens `path`. `unified`: its files are those of version 2; `own`: this process is in it or in a descendant.
    pub(super) fn open(path: PathBuf, unified: bool, own: bool) -> io::Result<Directory> {
        let fd = rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Directory { fd, path, unified, own })
    }

    /// Duplicates the descriptor.
    pub(super) fn try_clone(&self) -> io::Result<Directory> {
        Ok(Directory { fd: self.fd.try_clone()?, path: self.path.clone(), unified: self.unified, own: self.own })
    }

    /// Returns its subdirectories, as far as they can be opened.
    pub(super) fn children(&self) -> impl Iterator<Item = Directory> {
        // Each subdirectory is a link of it, which has two others: a cgroup without any, as most are, need not be listed. File systems that
        // do not count links of directories say 1.
        let may_have_any = rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink != 2);
        let listed = may_have_any.then(|| std::fs::read_dir(self.anchored()));
        let entries = listed.into_iter().flatten().flatten().flatten();
        entries.filter_map(|entry| {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = self.path.join(entry.file_name());
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd =
                is_directory.then(|| rustix::fs::openat(&self.fd, entry.file_name(), flags, Mode::empty()).ok())??;
            Some(Directory { fd, path, unified: self.unified, own: self.own })
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_unified(&self) -> bool {
        self.unified
    }

    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// Returns a path that refers to the open directory even if its name has been reused. For cgroups-rs, which needs paths.
    pub(super) fn anchored(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Returns the owners of the directory and of its parent.
    pub(super) fn owners(&self) -> Option<[u32; 2]> {
        let own = rustix::fs::fstat(&self.fd).ok()?.st_uid;
        let above = rustix::fs::statat(&self.fd, "..", AtFlags::SYMLINK_NOFOLLOW).ok()?.st_uid;
        Some([own, above])
    }

    pub(super) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?))
    }

    /// Returns the content of a file; `None` if it is missing or cannot be read.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let mut buffer = Vec::new();
        read_whole(&self.open_file(name).ok()?, &mut buffer).ok().map(str::to_owned)
    }

    pub(super) fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(rustix::fs::openat(&self.fd, name, flags, Mode::empty())?).write_all(value.as_bytes())
    }

    /// Whether it contains processes: `cgroup.events` on version 2, `cgroup.procs` on version 1.
    pub(super) fn populated(&self) -> bool {
        match self.read("cgroup.events") {
            Some(events) => events.lines().any(|line| line == "populated 1"),
            None => !self.processes(1).is_empty(),
        }
    }

    /// Returns about `wanted` processes of it and its descendants, at most, in ascending order.
    pub(super) fn processes(&self, wanted: usize) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut below: Vec<Directory> = self.try_clone().into_iter().collect();
        let mut looked = 0;
        while let Some(directory) = below.pop().filter(|_| found.len() < wanted) {
            looked += 1;
            let listed = directory.read("cgroup.procs").unwrap_or_default();
            // 0 is a process that is not visible in this PID namespace.
            found.extend(listed.lines().filter_map(|line| line.parse().ok()).filter(|pid: &u32| *pid > 0));
            if looked + below.len() < CGROUPS_AT_MOST {
                below.extend(directory.children().take(CGROUPS_AT_MOST - looked - below.len()));
            }
        }
        found.into_iter().take(wanted).collect()
    }
}

/// Returns the content of a file that the kernel generates in one piece, such as `/proc/PID/stat`. Usually that is one read:
/// `fs::read_to_string` takes six for that file and eight for `/proc/PID/status`, because they do not tell their size.
pub(super) fn read_generated(path: impl AsRef<Path>) -> io::Result<String> {
    let mut buffer = Vec::new();
    read_whole(&File::open(path)?, &mut buffer).map(str::to_owned)
}

/// Reads an open control file from its start into `buffer`.
fn read_whole<'buffer>(file: &File, buffer: &'buffer mut Vec<u8>) -> io::Result<&'buffer str> {
    let mut filled = 0;
    loop {
        if buffer.len() < filled + 4096 {
            buffer.resize(filled + 4096, 0);
        }
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // The kernel generates a control file in one piece: a read that does not fill the buffer was the last one.
        if filled < buffer.len() || filled >= LARGEST_FILE {
            break;
        }
    }
    str::from_utf8(&buffer[..filled]).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A control file that is opened once and read repeatedly.
#[derive(Debug, Default)]
pub(super) struct KeptFile {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unopened,
    Open(File),
    /// Missing at the last attempt. Opened again after this number of reads, because a controller may be enabled later.
    Missing(u32),
}

const RETRY_AFTER: u32 = 32;

impl KeptFile {
    /// Returns the content of the first of `names` that exists in `directory`.
    pub(super) fn read<'buffer>(
        &mut self,
        directory: &Directory,
        names: &[&str],
        buffer: &'buffer mut Vec<u8>,
    ) -> Option<&'buffer str> {
        if let State::Missing(reads @ 1..) = self.state {
            self.state = State::Missing(reads - 1);
            return None;
        }
        if !matches!(self.state, State::Open(_)) {
            self.state = open_first(directory, names);
        }
        match &self.state {
            State::Open(file) => read_whole(file, buffer).ok(),
            _ => None,
        }
    }
}

fn open_first(directory: &Directory, names: &[&str]) -> State {
    for name in names {
        match directory.open_file(name) {
            Ok(file) => return State::Open(file),
            // Running out of descriptors is a state of this process, not of the cgroup: try again next time.
            Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => return State::Unopened,
            Err(_) => {}
        }
    }
    State::Missing(RETRY_AFTER)
}

/// The open directory per controller. On version 2 it is the same for all controllers.
#[derive(Debug, Default)]
pub(super) struct Directories {
    pub(super) cpu: Option<Directory>,
    pub(super) cpuacct: Option<Directory>,
    pub(super) memory: Option<Directory>,
    pub(super) blkio: Option<Directory>,
    pub(super) freezer: Option<Directory>,
    pub(super) unified: Option<Directory>,
}
