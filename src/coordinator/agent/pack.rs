//! A folder as a tar stream: what regular files, folders and links it has, with owners, modes, times and extended attributes.
//!
//! Nothing outside of the folder is read: links are sent as links, and files are opened without following one. Sockets, pipes and
//! devices are left out. Imports: tar.

use super::attributes::Attributes;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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

/// A folder as its names, inodes, sizes and times of change say, which nobody can set back: another one means that somebody wrote there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State([u8; 32]);

/// Reads no file; blocks.
pub(super) fn state_of(folder: &Path) -> io::Result<State> {
    fn add(digest: &mut Sha256, path: &Path) -> io::Result<()> {
        let found = fs::symlink_metadata(path)?;
        let numbers = [found.ino(), found.len(), found.ctime().cast_unsigned(), found.ctime_nsec().cast_unsigned()];
        let name = path.as_os_str().as_bytes();
        digest.update(name.len().to_le_bytes());
        digest.update(name);
        numbers.iter().for_each(|number| digest.update(number.to_le_bytes()));
        if found.is_dir() {
            let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
            entries.sort_by_key(fs::DirEntry::file_name);
            entries.iter().try_for_each(|entry| add(digest, &entry.path()))?;
        }
        Ok(())
    }
    let mut digest = Sha256::new();
    add(&mut digest, folder)?;
    Ok(State(digest.finalize().into()))
}

/// Sends the folder; blocks, so that it belongs on a thread of its own.
pub(super) fn pack(folder: &Path, out: mpsc::Sender<Vec<u8>>) -> io::Result<Sent> {
    let mut tar = Builder::new(Stream { out, chunk: Vec::with_capacity(CHUNK), digest: Sha256::new(), bytes: 0 });
    tar.follow_symlinks(false);
    let found = fs::symlink_metadata(folder)?;
    describe(&mut tar, folder, &found)?;
    let mut own = Header::new_gnu();
    own.set_metadata(&found);
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
            describe(tar, &path, &found)?;
            tar.append_dir(&name, &path)?;
            append(tar, &path, &name)?;
        } else if found.is_symlink() {
            describe(tar, &path, &found)?;
            let mut header = Header::new_gnu();
            header.set_metadata(&found);
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, &name, fs::read_link(&path)?)?;
        } else if found.is_file() {
            let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
            let mut file: File = OpenOptions::new().read(true).custom_flags(no_link).open(&path)?;
            describe(tar, &path, &found)?;
            tar.append_file(&name, &mut file)?;
        }
    }
    Ok(())
}

/// What the next entry's header has no room for.
fn describe(tar: &mut Builder<Stream>, path: &Path, found: &fs::Metadata) -> io::Result<()> {
    let records = Attributes::of(path, found).records();
    tar.append_pax_extensions(records.iter().map(|(key, value)| (key.as_str(), value.as_slice())))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_writes_changes_the_state_also_with_the_times_set_back_and_whoever_reads_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/saved");
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(&file, "1").unwrap();
        let before = state_of(folder.path()).unwrap();
        fs::read(&file).unwrap();
        assert_eq!(state_of(folder.path()).unwrap(), before);
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        // The kernel's clock for files has ticked.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&file, "2").unwrap();
        File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert_ne!(state_of(folder.path()).unwrap(), before);
    }
}
