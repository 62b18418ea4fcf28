//! The output of a scope: whole lines of both streams in memory of its `flowctl`, which hands the daemon a descriptor of it.
//!
//! The file has no name, so there is no path that anybody could bend. It only grows; what lies further back than is kept is given
//! back to the system, so that it takes a bounded amount of memory, which counts as its owner's.

use super::ScopeError;
use rustix::fs::{FallocateFlags, FileType, MemfdFlags, Mode, OFlags, SeekFrom};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A line that is longer is cut here.
const LONGEST_LINE: usize = 16 << 10;
/// So much is given back at a time.
const STEP: u64 = 1 << 20;

/// What a command wrote, the newest part of it.
#[derive(Debug)]
pub struct Output {
    file: File,
    size: u64,
    given_back: u64,
    kept: u64,
    /// The unfinished line of each stream, so that two streams never share a line.
    unfinished: [Vec<u8>; 2],
}

impl Output {
    /// An empty one that keeps the last `kept` bytes (and a MiB more).
    ///
    /// # Errors
    /// The system's, without memory or descriptors.
    pub fn create(kept: u64) -> io::Result<Output> {
        const NAME: &str = "flowctl-output";
        let make = |flags| rustix::fs::memfd_create(NAME, flags | MemfdFlags::CLOEXEC);
        // Kernels before 6.3 do not know the first; some later ones want it.
        let fd = make(MemfdFlags::NOEXEC_SEAL).or_else(|_| make(MemfdFlags::ALLOW_SEALING))?;
        Ok(Output { file: File::from(fd), size: 0, given_back: 0, kept, unfinished: Default::default() })
    }

    /// Appends a piece of stream 0 or 1; what does not end a line waits for the rest of it. A carriage return ends one too:
    /// progress bars use nothing else.
    ///
    /// # Errors
    /// The system's, without memory for example; the piece is lost then and the next may be appended again.
    pub fn append(&mut self, stream: usize, piece: &[u8]) -> io::Result<()> {
        let mut waiting = std::mem::take(&mut self.unfinished[stream & 1]);
        waiting.extend_from_slice(piece);
        let whole = match memchr::memrchr2(b'\n', b'\r', &waiting) {
            Some(end) => end + 1,
            None if waiting.len() >= LONGEST_LINE => waiting.len(),
            None => 0,
        };
        let written = if whole > 0 { self.write(&waiting[..whole]) } else { Ok(()) };
        waiting.drain(..whole);
        self.unfinished[stream & 1] = waiting;
        written
    }

    /// Writes what was left unfinished at the end of a stream.
    ///
    /// # Errors
    /// As [`Output::append`].
    pub fn finish(&mut self, stream: usize) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.unfinished[stream & 1]);
        if rest.is_empty() {
            return Ok(());
        }
        rest.push(b'\n');
        self.write(&rest)
    }

    /// One more descriptor of it, for the daemon.
    ///
    /// # Errors
    /// The system's, out of descriptors.
    pub fn handle(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.size += lines.len() as u64;
        let behind = self.size.saturating_sub(self.kept) & !(STEP - 1);
        if behind > self.given_back {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.file, hole, self.given_back, behind - self.given_back)?;
            self.given_back = behind;
        }
        Ok(())
    }
}

/// Whether a descriptor that somebody handed over is memory like an [`Output`]'s: reading it asks no disk, device, network or
/// program, so that it cannot stall.
pub(super) fn is_memory(handed: BorrowedFd<'_>) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    let is_file =
        rustix::fs::fstat(handed).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let is_memory = rustix::fs::fstatfs(handed).is_ok_and(|system| system.f_type as u64 == TMPFS);
    // Opened for reading: one that only names a file is no right to read it.
    let readable = rustix::fs::fcntl_getfl(handed).is_ok_and(|flags| {
        !flags.contains(OFlags::PATH) && matches!(flags & OFlags::RWMODE, OFlags::RDONLY | OFlags::RDWR)
    });
    is_file && is_memory && readable
}

/// Where descriptor `fd` of process `pid` is reached.
pub fn path_of(pid: u32, fd: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
}

/// Opens the output of a scope at a path from [`path_of`], at the first byte that is kept. What is there is its owner's to
/// change, so it is looked at before it is opened.
///
/// # Errors
/// The system's; that it is no such output.
pub fn open(path: &Path) -> Result<File, ScopeError> {
    let failed = |source: io::Error| ScopeError::Output { path: path.to_owned(), source };
    let look = || -> io::Result<File> {
        let seen = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&seen)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        let again = format!("/proc/self/fd/{}", seen.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(again, flags, Mode::empty())?);
        if !is_memory(file.as_fd()) {
            return Err(io::Error::other("it is not the output of a command of `flowctl run`"));
        }
        // An empty one has no data to go to.
        let _ = rustix::fs::seek(&file, SeekFrom::Data(0));
        Ok(file)
    };
    look().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    fn text_of(output: &Output) -> String {
        let path = path_of(std::process::id(), output.file.as_raw_fd());
        let mut text = String::new();
        open(&path).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn lines_of_two_streams_are_not_torn() {
        let mut output = Output::create(1000).unwrap();
        output.append(0, b"loss ").unwrap();
        output.append(1, b"warning\n 50%\r").unwrap();
        output.append(0, b"0.1\nunfinished").unwrap();
        output.finish(0).unwrap();
        output.finish(1).unwrap();
        assert_eq!(text_of(&output), "warning\n 50%\rloss 0.1\nunfinished\n");
    }

    #[test]
    fn what_is_kept_is_the_newest_and_takes_bounded_memory() {
        let mut output = Output::create(2 * STEP).unwrap();
        let line = format!("{}\n", "x".repeat(999));
        for _ in 0..20_000 {
            output.append(0, line.as_bytes()).unwrap();
        }
        output.append(0, b"the end\n").unwrap();
        let meta = output.file.metadata().unwrap();
        assert!(meta.len() > 20_000_000 && meta.blocks() * 512 <= 3 * STEP + 4096, "{} blocks", meta.blocks());
        let text = text_of(&output);
        assert!(text.len() as u64 >= 2 * STEP && text.ends_with("the end\n"), "{}", text.len());
    }

    #[test]
    fn a_line_without_an_end_takes_no_endless_memory() {
        let mut output = Output::create(1 << 20).unwrap();
        for _ in 0..100 {
            output.append(0, &[b'x'; 4096]).unwrap();
            assert!(output.unfinished[0].len() < LONGEST_LINE);
        }
    }

    #[test]
    fn only_readable_memory_counts_as_output() {
        let dir = tempfile::tempdir().unwrap();
        let on_disk = File::create(dir.path().join("file")).unwrap();
        let only_named = rustix::fs::open("/dev/shm", OFlags::PATH, Mode::empty()).unwrap();
        let device = File::open("/dev/zero").unwrap();
        let proc = File::open("/proc/self/maps").unwrap();
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        let mine = Output::create(1000).unwrap();
        assert!(is_memory(mine.file.as_fd()));
        for (what, fd) in [("device", device.as_fd()), ("proc", proc.as_fd()), ("path", only_named.as_fd())] {
            assert!(!is_memory(fd), "{what}");
        }
        assert!(!is_memory(pipe.as_fd()));
        // A temporary folder may be a tmpfs: a file that is open for writing only is refused there too.
        assert!(!is_memory(on_disk.as_fd()));
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(open(&dir.path().join("nothing")).is_err());
    }
}
