//! Unpacks a tar stream into a local volume, whose content is replaced by one rename.
//!
//! ```text
//! volumes/NAME/_data            content that containers see
//! volumes/NAME/.flowcon-NUMBER  staging folder of a transfer; removed if the transfer is incomplete
//! ```
//! Nothing is written outside the staging folder: entries that use `..` or links to leave it are rejected, and devices are skipped. Some space
//! is left free for the jobs of this node.

use super::attributes::Attributes;
use super::owner;
use super::pack::hexadecimal;
use model::Bytes;
use model::swarm::Owner;
use rustix::fs::RenameFlags;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};
use tar::{Archive, EntryType};
use tokio::sync::mpsc;

/// Prefix of staging folders, followed by the number of the transfer.
const STAGING_PREFIX: &str = ".flowcon-";
/// Bytes between checks of the free space.
const SPACE_CHECKED_EVERY: u64 = 64 << 20;

/// Limits of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Maximum size.
    pub(super) most: Bytes,
    /// Maximum bytes per second.
    pub(super) rate: Option<Bytes>,
    /// Space to leave free.
    pub(super) spare: Spare,
}

/// Space that a copy leaves free on its file system: a part of it, up to a size. Jobs and the engine write there too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spare {
    percent: u64,
    most: Bytes,
}

impl Spare {
    /// The space left free by an agent.
    pub(super) const USUAL: Spare = Spare { percent: 5, most: Bytes(5 << 30) };

    /// Returns the space to leave free on a file system of this size.
    fn of(self, total: Bytes) -> Bytes {
        Bytes((total.0 / 100).saturating_mul(self.percent).min(self.most.0))
    }
}

/// A received volume that is not visible to containers yet.
pub(super) struct Staged {
    pub(super) data: PathBuf,
    new: PathBuf,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After the swap this is the previous content.
        let _ = fs::remove_dir_all(&self.new);
    }
}

/// Unpacks the stream into a staging folder. Blocks: call it on a separate thread.
pub(super) fn unpack(data: &Path, number: u64, chunks: mpsc::Receiver<Vec<u8>>, bounds: Bounds) -> io::Result<Staged> {
    let folder = data.parent().ok_or_else(|| io::Error::other("a volume without a folder"))?;
    for entry in fs::read_dir(folder)?.filter_map(Result::ok) {
        let name = entry.file_name();
        // Left over from an agent that was killed.
        if name.to_str().is_some_and(|name| name.starts_with(STAGING_PREFIX) && !name.starts_with(owner::FILE)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    let new = folder.join(format!("{STAGING_PREFIX}{number}"));
    fs::create_dir(&new)?;
    let mut staged = Staged { data: data.to_owned(), new, bytes: 0, sha256: String::new() };
    let mut stream = Stream::new(chunks, bounds, folder);
    let mut own = None;
    let mut archive = Archive::new(&mut stream);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_preserve_mtime(true);
    // Applied last, because a folder's time changes with each file that is created in it.
    let mut folders = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let attributes = attributes(&mut entry)?;
        let name = entry.path()?.into_owned();
        if name.components().all(|part| part == Component::CurDir) {
            own = Some((entry.header().uid()?, entry.header().gid()?, entry.header().mode()?));
            folders.push((staged.new.clone(), attributes));
        } else if matches!(kind, EntryType::Regular | EntryType::Directory | EntryType::Symlink | EntryType::GNUSparse)
        {
            if !entry.unpack_in(&staged.new)? {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the stream has an entry outside the volume"));
            }
            let place = place(&staged.new, &name);
            match kind {
                EntryType::Directory => folders.push((place, attributes)),
                _ => attributes.give_to(&place)?,
            }
        }
    }
    // Read the padding after the last entry: it is part of the checksum.
    io::copy(&mut stream, &mut io::sink())?;
    (staged.bytes, staged.sha256) = stream.sum();
    if let Some((uid, gid, mode)) = own {
        let number =
            |id: u64| u32::try_from(id).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "invalid owner"));
        chown(&staged.new, Some(number(uid)?), Some(number(gid)?))?;
        fs::set_permissions(&staged.new, fs::Permissions::from_mode(mode & 0o7777))?;
    }
    for (folder, attributes) in folders.iter().rev() {
        attributes.give_to(folder)?;
    }
    rustix::fs::syncfs(fs::File::open(&staged.new)?)?;
    Ok(staged)
}

/// Returns the path where `unpack_in` has put an entry: a leading `/` is ignored. Names that leave the folder were rejected before.
fn place(folder: &Path, name: &Path) -> PathBuf {
    folder.join(name.components().filter(|part| matches!(part, Component::Normal(_))).collect::<PathBuf>())
}

fn attributes<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<Attributes> {
    let Some(records) = entry.pax_extensions()? else { return Ok(Attributes::default()) };
    let records = records.collect::<io::Result<Vec<_>>>()?;
    Ok(Attributes::read(records.iter().map(|record| (record.key_bytes(), record.value_bytes()))))
}

impl Staged {
    /// Makes the received content visible to containers.
    pub(super) fn swap(self, new: &Owner) -> io::Result<()> {
        owner::write(&self.data, new)?;
        let here = rustix::fs::CWD;
        rustix::fs::renameat_with(here, &self.new, here, &self.data, RenameFlags::EXCHANGE)?;
        Ok(rustix::fs::syncfs(fs::File::open(&self.data)?)?)
    }
}

/// Reads chunks as one stream: counted, hashed and rate-limited.
struct Stream {
    chunks: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    at: usize,
    digest: Sha256,
    bytes: u64,
    bounds: Bounds,
    /// A folder on the file system that is written.
    folder: PathBuf,
    /// Number of bytes at which the free space is checked next.
    next_check: u64,
    began: Instant,
}

impl Stream {
    fn new(chunks: mpsc::Receiver<Vec<u8>>, bounds: Bounds, folder: &Path) -> Stream {
        let (rest, digest, began) = (Vec::new(), Sha256::new(), Instant::now());
        Stream { chunks, rest, at: 0, digest, bytes: 0, bounds, folder: folder.to_owned(), next_check: 0, began }
    }

    fn sum(self) -> (u64, String) {
        (self.bytes, hexadecimal(&self.digest.finalize()))
    }

    /// Fails if less space is free than a copy must leave.
    fn check_space(&mut self) -> io::Result<()> {
        let found = rustix::fs::statvfs(&self.folder)?;
        let size = |blocks: u64| Bytes(blocks.saturating_mul(found.f_frsize));
        let (free, spare) = (size(found.f_bavail), self.bounds.spare.of(size(found.f_blocks)));
        if free < spare {
            let what = format!("{free} are free, and {spare} must stay free; remove unused volumes or images there");
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        self.next_check = self.bytes.saturating_add(SPACE_CHECKED_EVERY);
        Ok(())
    }

    fn refill(&mut self) -> io::Result<()> {
        if self.bytes >= self.next_check {
            self.check_space()?;
        }
        self.at = 0;
        self.rest = self.chunks.blocking_recv().unwrap_or_default();
        self.digest.update(&self.rest);
        self.bytes += self.rest.len() as u64;
        if self.bytes > self.bounds.most.0 {
            let most = self.bounds.most;
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {most} (volume-most)")));
        }
        if let Some(rate) = self.bounds.rate {
            let due = Duration::from_secs_f64(self.bytes as f64 / rate.0.max(1) as f64);
            std::thread::sleep(due.saturating_sub(self.began.elapsed()));
        }
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.rest.len() {
            self.refill()?;
        }
        let taken = into.len().min(self.rest.len() - self.at);
        into[..taken].copy_from_slice(&self.rest[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pack::pack;
    use super::*;
    use model::swarm::ServiceId;
    use std::os::unix::fs::symlink;

    const WIDE: Bounds = Bounds { most: Bytes(1 << 30), rate: None, spare: Spare { percent: 0, most: Bytes(0) } };

    fn carried(from: &Path, to: &Path, bounds: Bounds) -> io::Result<Staged> {
        let (out, chunks) = mpsc::channel(4);
        let from = from.to_owned();
        let sending = std::thread::spawn(move || pack(&from, out));
        let staged = unpack(to, 7, chunks, bounds);
        let sent = sending.join().expect("no panic");
        if let (Ok(staged), Ok(sent)) = (&staged, &sent) {
            assert_eq!((staged.bytes, &staged.sha256), (sent.bytes, &sent.sha256));
        }
        staged
    }

    #[test]
    fn files_links_modes_and_times_arrive_and_become_visible_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to/_data"));
        fs::create_dir_all(from.join("deep/er")).expect("made");
        fs::create_dir_all(&to).expect("made");
        fs::write(to.join("old"), "old").expect("written");
        let large = vec![7_u8; 3_000_000];
        fs::write(from.join("deep/er/model"), &large).expect("written");
        fs::set_permissions(from.join("deep/er/model"), fs::Permissions::from_mode(0o640)).expect("set");
        symlink("/etc/passwd", from.join("link")).expect("linked");
        let precise = |path: &Path, seconds: u64| {
            let time = std::time::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
            fs::File::open(path).and_then(|file| file.set_modified(time)).expect("set");
            time
        };
        let (file_time, folder_time) =
            (precise(&from.join("deep/er/model"), 1_000_000), precise(&from.join("deep"), 2_000_000));
        let name = "x".repeat(180);
        fs::write(from.join(&name), "long").expect("written");
        let staged = carried(&from, &to, WIDE).expect("carried");
        assert!(to.join("old").exists() && !to.join("deep").exists());
        let new = Owner { service: ServiceId("s".into()), name: "train".into(), number: 7 };
        staged.swap(&new).expect("swapped");
        assert_eq!(fs::read(to.join("deep/er/model")).expect("read"), large);
        assert_eq!(fs::metadata(to.join("deep/er/model")).expect("there").permissions().mode() & 0o777, 0o640);
        let modified = |name: &str| fs::metadata(to.join(name)).and_then(|file| file.modified()).expect("there");
        assert_eq!((modified("deep/er/model"), modified("deep")), (file_time, folder_time));
        assert_eq!(fs::read_link(to.join("link")).expect("a link"), Path::new("/etc/passwd"));
        assert_eq!(fs::read_to_string(to.join(name)).expect("read"), "long");
        assert!(!to.join("old").exists());
        assert_eq!(owner::read(&to).expect("readable"), Some(new));
        let left: Vec<_> = fs::read_dir(folder.path().join("to")).expect("read").filter_map(Result::ok).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn a_stream_that_is_too_large_or_interrupted_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to/_data"));
        fs::create_dir_all(&from).expect("made");
        fs::create_dir_all(&to).expect("made");
        fs::write(from.join("model"), vec![1_u8; 1_000_000]).expect("written");
        let small = Bounds { most: Bytes(100_000), ..WIDE };
        assert_eq!(carried(&from, &to, small).err().expect("refused").kind(), io::ErrorKind::FileTooLarge);
        let (out, chunks) = mpsc::channel(4);
        let whole = std::thread::spawn(move || pack(&from, out));
        let (cut, half) = mpsc::channel(4);
        let cutting = std::thread::spawn(move || {
            let mut chunks = chunks;
            let first = chunks.blocking_recv().expect("a chunk");
            let _ = cut.blocking_send(first[..first.len() / 2].to_vec());
        });
        assert!(unpack(&to, 8, half, WIDE).is_err());
        cutting.join().expect("no panic");
        let _ = whole.join();
        let left: Vec<_> = fs::read_dir(folder.path().join("to")).expect("read").filter_map(Result::ok).collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_copy_leaves_space_for_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to/_data"));
        fs::create_dir_all(&from).expect("made");
        fs::create_dir_all(&to).expect("made");
        fs::write(from.join("model"), vec![1_u8; 1_000_000]).expect("written");
        // More than any file system has.
        let tight = Bounds { spare: Spare { percent: 200, most: Bytes(u64::MAX) }, ..WIDE };
        assert_eq!(carried(&from, &to, tight).err().expect("refused").kind(), io::ErrorKind::StorageFull);
        let left: Vec<_> = fs::read_dir(folder.path().join("to")).expect("read").filter_map(Result::ok).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let usual = |total: u64| Spare::USUAL.of(Bytes(total)).0;
        assert_eq!((usual(100 << 20), usual(1 << 40)), (5 << 20, 5 << 30));
    }

    #[test]
    fn an_entry_outside_the_volume_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("to/_data");
        fs::create_dir_all(&to).expect("made");
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.set_mode(0o644);
        header.as_gnu_mut().expect("gnu").name[..9].copy_from_slice(b"../escape");
        header.set_cksum();
        tar.append(&header, &b"evil"[..]).expect("appended");
        let bytes = tar.into_inner().expect("made");
        let (out, chunks) = mpsc::channel(4);
        out.try_send(bytes).expect("room");
        drop(out);
        assert!(unpack(&to, 1, chunks, WIDE).is_err());
        assert!(!folder.path().join("to/escape").exists());
    }

    #[test]
    fn attributes_of_an_absolute_name_stay_in_the_volume() {
        let folder = tempfile::tempdir().expect("a folder");
        let (to, outside) = (folder.path().join("to/_data"), folder.path().join("outside"));
        fs::create_dir_all(&to).expect("made");
        fs::write(&outside, "theirs").expect("written");
        let before = fs::metadata(&outside).and_then(|file| file.modified()).expect("there");
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_pax_extensions([("mtime", &b"1000.5"[..])]).expect("appended");
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.set_mode(0o644);
        // The current user: an unprivileged one cannot change the owner of files.
        header.set_uid(u64::from(rustix::process::getuid().as_raw()));
        header.set_gid(u64::from(rustix::process::getgid().as_raw()));
        let name = outside.to_str().expect("a plain name").as_bytes();
        header.as_gnu_mut().expect("gnu").name[..name.len()].copy_from_slice(name);
        header.set_cksum();
        tar.append(&header, &b"evil"[..]).expect("appended");
        let (out, chunks) = mpsc::channel(4);
        out.try_send(tar.into_inner().expect("made")).expect("room");
        drop(out);
        let staged = unpack(&to, 1, chunks, WIDE).expect("below the volume");
        let inside = fs::metadata(place(&staged.new, &outside)).and_then(|file| file.modified()).expect("there");
        assert_eq!(inside, std::time::UNIX_EPOCH + Duration::from_millis(1_000_500));
        assert_eq!(fs::metadata(&outside).and_then(|file| file.modified()).expect("there"), before);
        assert_eq!(fs::read_to_string(&outside).expect("there"), "theirs");
    }
}
