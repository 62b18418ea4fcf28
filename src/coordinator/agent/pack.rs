//! Packs a folder into a tar stream: regular files, folders and links, with owners, modes, times and extended attributes.
//!
//! Nothing outside the folder is read: links are sent as links, and files are opened without following links. Sockets, pipes and devices are
//! skipped.

use super::attributes::Attributes;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;

/// Bytes per chunk.
const CHUNK: usize = 256 * 1024;

/// Size and checksum of a sent stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Digest of a folder's names, inodes, sizes and change times. Programs cannot set change times, so any write changes the digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State([u8; 32]);

/// Computes the state of a folder without reading its files. Blocks.
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

/// Sends the folder. Blocks: call it on a separate thread.
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

/// Sends the attributes of the next entry that do not fit into its header.
fn describe(tar: &mut Builder<Stream>, path: &Path, found: &fs::Metadata) -> io::Result<()> {
    let records = Attributes::of(path, found).records();
    tar.append_pax_extensions(records.iter().map(|(key, value)| (key.as_str(), value.as_slice())))
}

/// Counts, hashes and sends the written bytes.
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
        self.out
            .blocking_send(chunk)
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the reader has disconnected"))
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
    fn a_write_changes_the_state_even_if_the_time_is_set_back_and_a_read_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/saved");
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(&file, "1").unwrap();
        let before = state_of(folder.path()).unwrap();
        fs::read(&file).unwrap();
        assert_eq!(state_of(folder.path()).unwrap(), before);
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        // Wait for a tick of the kernel's clock for file times.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&file, "2").unwrap();
        File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert_ne!(state_of(folder.path()).unwrap(), before);
    }
}
