//! A folder as a tar stream: what regular files, folders and links it has, with owners, modes and times.
//!
//! Nothing outside of the folder is read: links are sent as links, and files are opened without following one. Sockets, pipes and
//! devices are left out; extended attributes are not kept. Imports: tar.

use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;

/// Bytes that are sent at once.
const CHUNK: usize = 256 * 1024;

/// What was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Sends the folder; blocks, so that it belongs on a thread of its own.
pub(super) fn pack(folder: &Path, out: mpsc::Sender<Vec<u8>>) -> io::Result<Sent> {
    let mut tar = Builder::new(Stream { out, chunk: Vec::with_capacity(CHUNK), digest: Sha256::new(), bytes: 0 });
    tar.follow_symlinks(false);
    let mut own = Header::new_gnu();
    own.set_metadata(&fs::symlink_metadata(folder)?);
    own.set_entry_type(EntryType::Directory);
    own.set_size(0);
    tar.append_data(&mut own, "./", io::empty())?;
    append(&mut tar, folder, Path::new(""))?;
    tar.into_inner()?.finish()
}

fn append(tar: &mut Builder<Stream>, folder: &Path, below: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), below.join(entry.file_name()));
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            tar.append_dir(&name, &path)?;
            append(tar, &path, &name)?;
        } else if found.is_symlink() {
            let mut header = Header::new_gnu();
            header.set_metadata(&found);
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, &name, fs::read_link(&path)?)?;
        } else if found.is_file() {
            let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
            let mut file: File = OpenOptions::new().read(true).custom_flags(no_link).open(&path)?;
            tar.append_file(&name, &mut file)?;
        }
    }
    Ok(())
}

/// Bytes on their way out, counted and digested.
struct Stream {
    out: mpsc::Sender<Vec<u8>>,
    chunk: Vec<u8>,
    digest: Sha256,
    bytes: u64,
}

impl Stream {
    fn send(&mut self) -> io::Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        self.digest.update(&chunk);
        self.bytes += chunk.len() as u64;
        self.out.blocking_send(chunk).map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the reader went away"))
    }

    fn finish(mut self) -> io::Result<Sent> {
        self.send()?;
        Ok(Sent { bytes: self.bytes, sha256: hexadecimal(&self.digest.finalize()) })
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
