//! Creates, protects and removes the file of the Unix socket.

use rustix::fs::{Gid, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Maximum bytes of a Unix socket's address, with the terminating zero.
const MAX_PATH: usize = 108;

/// An error of creating the socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path exceeds the kernel's limit.
    #[error("{path}: the path has {length} bytes, but a socket's path can have at most {}; choose a shorter one with --socket or FLOWCON_SOCKET", MAX_PATH - 1)]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// Another daemon answers at the path.
    #[error(
        "{path}: another daemon answers there; stop it (`systemctl stop flowcond`) or choose another path with --socket"
    )]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The file at the path is not a socket.
    #[error("{path}: this is not a socket, so it is left alone; move it away or choose another path with --socket")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Another error of the system.
    #[error(
        "{path}: cannot {operation}: {source}; check owner and mode of its directory, or choose another path with --socket"
    )]
    System {
        /// The path.
        path: PathBuf,
        /// The failed operation.
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// A listening socket. Dropping it removes its file, if no other file has replaced it.
#[derive(Debug)]
pub struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Socket {
    /// The listener.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // A file that cannot be removed is recognised as stale by the next daemon.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at `path` with `mode` (such as `0o660`) and `group`, if given, as the file's group.
///
/// Creates a missing directory. Replaces a stale socket; a socket that answers is an error. Must be called within a tokio runtime.
pub fn bind(path: &Path, group: Option<u32>, mode: u32) -> Result<Socket, BindError> {
    let length = path.as_os_str().len();
    if length >= MAX_PATH {
        return Err(BindError::TooLong { path: path.to_owned(), length });
    }
    let system = |operation| move |source| BindError::System { path: path.to_owned(), operation, source };
    create_directory(path).map_err(system("create its directory"))?;
    clear_stale(path)?;
    let listener = UnixListener::bind(path).map_err(system("listen"))?;
    let socket = Socket { listener, path: path.to_owned(), identity: identity(path) };
    // Until the mode is set, the umask decides who may connect; peer credentials are checked in any case.
    if let Some(group) = group {
        rustix::fs::chown(path, None, Some(Gid::from_raw(group)))
            .map_err(io::Error::from)
            .map_err(system("set its group"))?;
    }
    rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(io::Error::from).map_err(system("set its mode"))?;
    Ok(socket)
}

fn create_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => fs::create_dir_all(folder),
        _ => Ok(()),
    }
}

fn clear_stale(path: &Path) -> Result<(), BindError> {
    let system = |operation| move |source| BindError::System { path: path.to_owned(), operation, source };
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("inspect it")(error)),
    };
    if !kind.is_socket() {
        return Err(BindError::NotASocket { path: path.to_owned() });
    }
    match probe(path) {
        Ok(()) => Err(BindError::InUse { path: path.to_owned() }),
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(system("remove the stale socket")),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(system("check whether a daemon answers")(error.into())),
    }
}

/// Connects without waiting. A full queue counts as success, because its daemon is running.
fn probe(path: &Path) -> Result<(), Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Err(Errno::AGAIN) => Ok(()),
        other => other,
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_path_beyond_the_limit_of_the_kernel_is_reported_with_its_length() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(110)));
        let message = bind(&path, None, 0o660).expect_err("too long").to_string();
        assert!(message.contains("107") && message.contains("115") && message.contains("--socket"), "{message}");
    }

    #[tokio::test]
    async fn a_socket_that_answers_is_left_alone_and_a_stale_one_is_replaced() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("run/flowcond.sock");
        let alive = bind(&path, None, 0o660).expect("first");
        assert!(matches!(bind(&path, None, 0o660), Err(BindError::InUse { .. })));
        assert_eq!(fs::metadata(&path).expect("socket").permissions().mode() & 0o777, 0o660);

        let stale = folder.path().join("stale.sock");
        drop(std::os::unix::net::UnixListener::bind(&stale).expect("stale"));
        assert!(stale.exists());
        bind(&stale, None, 0o600).expect("replaced");

        drop(alive);
        assert!(!path.exists(), "the file is removed with its listener");
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_never_removed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("precious");
        fs::write(&path, "thesis").expect("written");
        assert!(matches!(bind(&path, None, 0o660), Err(BindError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).expect("still there"), "thesis");
    }

    #[tokio::test]
    async fn the_file_of_a_successor_is_not_removed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("flowcond.sock");
        let first = bind(&path, None, 0o660).expect("first");
        fs::remove_file(&path).expect("removed");
        let _second = bind(&path, None, 0o660).expect("second");
        drop(first);
        assert!(path.exists());
    }
}
