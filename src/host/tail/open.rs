//! Opening a log: only a regular file of an ordinary file system, and inside a container only what lies inside it.
//!
//! The path inside a container is the container owner's, so it is hostile input to a daemon that runs as root: it is resolved
//! by the kernel as if the container's root were `/` (`openat2` with `RESOLVE_IN_ROOT`), looked at through a descriptor that
//! touches nothing (`O_PATH`), and opened for reading only after that look.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A log that cannot be read, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TailError {
    /// Nothing there.
    #[error("{path} does not exist (yet); it is read as soon as it appears")]
    Missing {
        /// The log.
        path: PathBuf,
    },
    /// Something that is no log.
    #[error("{path} is {found}, not a regular file; name the file itself")]
    NotAFile {
        /// The log.
        path: PathBuf,
        /// What it is, with its article.
        found: &'static str,
    },
    /// A file whose reading would ask the kernel or a program instead of a disk.
    #[error(
        "{path} lies on a {kind} file system, where reading can stall or do something; write the log to a disk or a volume"
    )]
    NoDisk {
        /// The log.
        path: PathBuf,
        /// The file system.
        kind: &'static str,
    },
    /// The path could not be opened.
    #[error("opening {path}: {reason}; check the path in flowcon.log and its rights")]
    Open {
        /// The log.
        path: PathBuf,
        /// The system's answer.
        reason: String,
    },
    /// A directory without a file in it.
    #[error("{path} is a directory without a log in it (yet); the newest file in it is read as soon as there is one")]
    EmptyDirectory {
        /// The directory.
        path: PathBuf,
    },
}

impl TailError {
    /// Whether more rights would open it.
    pub fn is_denied(&self) -> bool {
        matches!(self, TailError::Open { reason, .. } if *reason == Errno::ACCESS.to_string())
    }
}

/// Where a path inside a container leads.
#[derive(Clone, Debug)]
pub struct ContainerFile {
    /// The path inside, as `flowcon.log` gives it.
    path: PathBuf,
    /// The container's root, kept open: the process number may be another's later.
    root: Option<Arc<OwnedFd>>,
    /// Destination inside and source outside of each bind mount and volume.
    mounts: Vec<(PathBuf, PathBuf)>,
}

impl ContainerFile {
    /// The file `path` inside the container that process `pid` lives in. `mounts` are pairs of source (on the host) and
    /// destination (inside); they are used where the root cannot be opened, as after the container's end.
    ///
    /// Call it while `pid` is known to be the container's.
    pub fn new(pid: Option<u32>, mounts: &[(PathBuf, PathBuf)], path: &Path) -> ContainerFile {
        let open_root = |pid: u32| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty()).ok()
        };
        let mut by_destination: Vec<_> = mounts.iter().map(|(from, to)| (to.clone(), from.clone())).collect();
        by_destination.sort_by_key(|(destination, _)| std::cmp::Reverse(destination.components().count()));
        let root = pid.and_then(open_root).map(Arc::new);
        ContainerFile { path: path.to_owned(), root, mounts: by_destination }
    }

    /// The path inside the container.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file for reading; where the path names a directory, the newest file in it.
    ///
    /// # Errors
    /// [`TailError`], naming the path as the owner wrote it.
    pub fn open(&self) -> Result<File, TailError> {
        let seen = self.look()?;
        match file_type(&seen, &self.path)? {
            FileType::Directory => self.open_newest_in(seen),
            _ => open_seen(&seen, &self.path),
        }
    }

    /// Opens the file for reading, if the path names a regular file.
    ///
    /// # Errors
    /// As [`ContainerFile::open`]; a directory is an error too.
    pub fn open_file(&self) -> Result<File, TailError> {
        open_seen(&self.look()?, &self.path)
    }

    fn look(&self) -> Result<OwnedFd, TailError> {
        if let Some(root) = &self.root {
            return look_beneath(root, &self.path).map_err(|errno| refused(&self.path, errno));
        }
        for (destination, source) in &self.mounts {
            let Ok(rest) = self.path.strip_prefix(destination) else { continue };
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let source = rustix::fs::open(source, flags, Mode::empty()).map_err(|errno| refused(source, errno))?;
            if rest.as_os_str().is_empty() {
                return Ok(source);
            }
            return look_beneath(&source, rest).map_err(|errno| refused(&self.path, errno));
        }
        Err(TailError::Missing { path: self.path.clone() })
    }

    fn open_newest_in(&self, directory: OwnedFd) -> Result<File, TailError> {
        let name = newest_in(&directory).map_err(|error| refused_io(&self.path, &error))?;
        let name = name.ok_or_else(|| TailError::EmptyDirectory { path: self.path.clone() })?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = self.path.join(&name);
        let seen =
            rustix::fs::openat(&directory, &name, flags, Mode::empty()).map_err(|errno| refused(&path, errno))?;
        open_seen(&seen, &path)
    }
}

/// Opens a log that the host names. Its last component may not be a link.
///
/// # Errors
/// [`TailError`]; also when it is no regular file of a disk.
pub fn open_on_host(path: &Path) -> Result<File, TailError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let seen = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| refused(path, errno))?;
    open_seen(&seen, path)
}

/// Resolves `path` with `root` as `/`, without opening what it names.
fn look_beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
        // Kernels before 5.6, and filters that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk_beneath(root, path),
        answer => answer,
    }
}

/// The same without `openat2`: a component at a time, following no link at all.
fn walk_beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut here = root.try_clone().map_err(|_| Errno::MFILE)?;
    for component in path.components() {
        let name = match component {
            Component::Normal(name) => name,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::XDEV),
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&here)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    Ok(here)
}

/// Turns a look at a file into an open one, if it is one that may be read.
fn open_seen(seen: &OwnedFd, path: &Path) -> Result<File, TailError> {
    let found = match file_type(seen, path)? {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Symlink => Some("a symbolic link"),
        FileType::Fifo => Some("a FIFO"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        FileType::Unknown => Some("something unknown"),
    };
    if let Some(found) = found {
        return Err(TailError::NotAFile { path: path.to_owned(), found });
    }
    if let Some(kind) = no_disk(seen) {
        return Err(TailError::NoDisk { path: path.to_owned(), kind });
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let through = format!("/proc/self/fd/{}", seen.as_raw_fd());
    rustix::fs::open(through, flags, Mode::empty()).map(File::from).map_err(|errno| refused(path, errno))
}

fn file_type(seen: &OwnedFd, path: &Path) -> Result<FileType, TailError> {
    let stat = rustix::fs::fstat(seen).map_err(|errno| refused(path, errno))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// File systems whose files are answers of the kernel or of a program (`linux/magic.h`).
fn no_disk(file: impl AsFd) -> Option<&'static str> {
    let kind = rustix::fs::fstatfs(file).ok()?.f_type as u64 as u32;
    match kind {
        0x0000_9fa0 => Some("proc"),
        0x6265_6572 => Some("sysfs"),
        0x0027_e0eb | 0x6367_7270 => Some("cgroup"),
        0x6462_6720 => Some("debugfs"),
        0x7472_6163 => Some("tracefs"),
        0x7363_6673 => Some("securityfs"),
        0x6265_6570 => Some("configfs"),
        0xcafe_4a11 => Some("bpf"),
        0x6573_5546 => Some("FUSE"),
        0x1980_0202 => Some("mqueue"),
        _ => None,
    }
}

/// At most so many entries of a directory are looked at: it is the container's, and may be endless.
const ENTRIES_AT_MOST: usize = 1000;

/// The regular file that was written last; hidden files and links do not count.
fn newest_in(directory: &OwnedFd) -> io::Result<Option<OsString>> {
    let through = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let mut newest: Option<(i64, u64, OsString)> = None;
    for entry in fs::read_dir(through)?.take(ENTRIES_AT_MOST) {
        let name = entry?.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let written = (stat.st_mtime, stat.st_mtime_nsec, name);
        if regular && newest.as_ref().is_none_or(|newest| written > *newest) {
            newest = Some(written);
        }
    }
    Ok(newest.map(|(_, _, name)| name))
}

fn refused(path: &Path, errno: Errno) -> TailError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT => TailError::Missing { path },
        Errno::LOOP => TailError::NotAFile { path, found: "a symbolic link" },
        Errno::XDEV => TailError::Open { path, reason: "it leads outside of the container".to_owned() },
        errno => TailError::Open { path, reason: errno.to_string() },
    }
}

fn refused_io(path: &Path, error: &io::Error) -> TailError {
    TailError::Open { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// A container's root for the tests: a folder, with a secret beside it.
    fn root() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("root/logs")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(dir.path().join("root/logs/train.txt"), "loss 1").unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir.path().join("root"), flags, Mode::empty()).unwrap();
        (dir, root)
    }

    fn text_of(file: Result<File, TailError>) -> Result<String, TailError> {
        let mut text = String::new();
        file?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn a_link_inside_the_root_is_followed_and_one_that_leads_outside_ends_inside() {
        let (dir, root) = root();
        symlink("/logs/train.txt", dir.path().join("root/inside")).unwrap();
        symlink("../secret", dir.path().join("root/relative")).unwrap();
        symlink(dir.path().join("secret"), dir.path().join("root/absolute")).unwrap();
        symlink("/", dir.path().join("root/everything")).unwrap();
        let open = |path: &str| {
            let seen = look_beneath(&root, Path::new(path)).map_err(|errno| refused(Path::new(path), errno))?;
            open_seen(&seen, Path::new(path))
        };
        assert_eq!(text_of(open("/inside")).unwrap(), "loss 1");
        assert_eq!(text_of(open("/everything/logs/train.txt")).unwrap(), "loss 1");
        assert_eq!(text_of(open("/../../logs/train.txt")).unwrap(), "loss 1");
        for outside in ["/relative", "/absolute", "/../secret", "/logs/../../secret"] {
            assert!(matches!(open(outside), Err(TailError::Missing { .. })), "{outside}");
        }
    }

    #[test]
    fn without_openat2_no_link_and_no_parent_is_followed_at_all() {
        let (dir, root) = root();
        symlink("logs", dir.path().join("root/link")).unwrap();
        assert!(walk_beneath(&root, Path::new("/logs/train.txt")).is_ok());
        assert!(matches!(walk_beneath(&root, Path::new("/link/train.txt")), Err(Errno::LOOP)));
        assert!(matches!(walk_beneath(&root, Path::new("/../secret")), Err(Errno::XDEV)));
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_left_alone() {
        let (dir, _) = root();
        let path = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("/etc/shadow", path("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let found = |path: &Path| match open_on_host(path) {
            Err(TailError::NotAFile { found, .. }) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(&path("fifo")), "a FIFO");
        assert_eq!(found(&path("link")), "a symbolic link");
        assert_eq!(found(&path("socket")), "a socket");
        assert_eq!(found(dir.path()), "a directory");
        assert_eq!(found(Path::new("/dev/zero")), "a device");
        assert!(matches!(open_on_host(Path::new("/proc/kmsg")), Err(TailError::NoDisk { kind: "proc", .. })));
        assert!(matches!(open_on_host(&path("nothing")), Err(TailError::Missing { .. })));
    }

    #[test]
    fn inside_a_living_process_paths_start_at_its_root_and_its_proc_is_off_limits() {
        let (dir, _) = root();
        let me = Some(std::process::id());
        let open = |path: &Path| ContainerFile::new(me, &[], path).open();
        assert_eq!(text_of(open(&dir.path().join("root/logs/train.txt"))).unwrap(), "loss 1");
        assert!(matches!(open(Path::new("/proc/1/environ")), Err(TailError::NoDisk { .. })));
        // A magic link would leave any root.
        assert!(open(Path::new("/proc/self/root/etc/hostname")).is_err());
    }

    #[test]
    fn when_the_container_is_gone_its_volumes_still_answer() {
        let (dir, _) = root();
        let mounts = [(dir.path().join("root"), PathBuf::from("/data")), ("/".into(), PathBuf::from("/host"))];
        let open = |path: &str| ContainerFile::new(None, &mounts, Path::new(path)).open();
        assert_eq!(text_of(open("/data/logs/train.txt")).unwrap(), "loss 1");
        assert!(matches!(open("/data/../secret"), Err(TailError::Missing { .. })));
        assert!(matches!(open("/elsewhere"), Err(TailError::Missing { .. })));
    }

    #[test]
    fn a_directory_means_the_newest_file_in_it() {
        let (dir, _) = root();
        let logs = dir.path().join("root/logs");
        let open = || ContainerFile::new(Some(std::process::id()), &[], &logs).open();
        let written = |name: &str, seconds: u64| {
            let file = File::create(logs.join(name)).unwrap();
            io::Write::write_all(&mut &file, name.as_bytes()).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        written("train.txt", 1000);
        written("newer.txt", 2000);
        written(".hidden", 3000);
        symlink("/etc/shadow", logs.join("link")).unwrap();
        assert_eq!(text_of(open()).unwrap(), "newer.txt");
        for name in ["train.txt", "newer.txt"] {
            fs::remove_file(logs.join(name)).unwrap();
        }
        assert!(matches!(open(), Err(TailError::EmptyDirectory { .. })));
    }
}
