//! The output of a scope: complete lines of both streams in memory of its `flowctl`, which sends the daemon a descriptor of it.
//!
//! The file has no name, so there is no path that could be redirected. It only grows; memory of old output is released, so that it uses a
//! limited amount of memory, which is accounted to its owner.

use super::ScopeError;
use rustix::fs::{FallocateFlags, FileType, MemfdFlags, Mode, OFlags, SeekFrom};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Maximum length of a line in bytes; a longer line is split here.
const LONGEST_LINE: usize = 16 << 10;
/// Memory is released in steps of this size, in bytes.
const STEP: u64 = 1 << 20;

/// The most recent output of a command.
#[derive(Debug)]
pub struct Output {
    file: File,
    size: u64,
    released: u64,
    kept: u64,
    /// The incomplete line of each stream, so that two streams never share a line.
    unfinished: [Vec<u8>; 2],
}

impl Output {
    /// Creates an empty output that keeps the last `kept` bytes (and up to 1 MiB more).
    ///
    /// # Errors
    /// Errors of the operating system, without memory or descriptors.
    pub fn create(kept: u64) -> io::Result<Output> {
        const NAME: &str = "flowctl-output";
        let make = |flags| rustix::fs::memfd_create(NAME, flags | MemfdFlags::CLOEXEC);
        // Kernels before 6.3 do not support the first flag; some later ones require it.
        let fd = make(MemfdFlags::NOEXEC_SEAL).or_else(|_| make(MemfdFlags::ALLOW_SEALING))?;
        Ok(Output { file: File::from(fd), size: 0, released: 0, kept, unfinished: Default::default() })
    }

    /// Appends a piece of stream 0 or 1; an incomplete line waits for its end. A carriage return ends a line too, because progress bars use
    /// nothing else.
    ///
    /// # Errors
    /// Errors of the operating system, for example without memory. The piece is then lost, and later pieces can still be appended.
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

    /// Writes the incomplete line at the end of a stream.
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

    /// Returns another descriptor, for the daemon.
    ///
    /// # Errors
    /// Errors of the operating system, out of descriptors.
    pub fn handle(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.size += lines.len() as u64;
        let behind = self.size.saturating_sub(self.kept) & !(STEP - 1);
        if behind > self.released {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.file, hole, self.released, behind - self.released)?;
            self.released = behind;
        }
        Ok(())
    }
}

/// Whether a received descriptor is memory like that of an [`Output`]: reading it involves no disk, device, network or program, so it
/// cannot block.
pub(super) fn is_memory(fd: BorrowedFd<'_>) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    let is_file =
        rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let is_memory = rustix::fs::fstatfs(fd).is_ok_and(|system| system.f_type as u64 == TMPFS);
    // It must be opened for reading: a descriptor that only names a file does not grant read access.
    let readable = rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| {
        !flags.contains(OFlags::PATH) && matches!(flags & OFlags::RWMODE, OFlags::RDONLY | OFlags::RDWR)
    });
    is_file && is_memory && readable
}

/// Opens the output of a scope at the path of its descriptor, `/proc/PID/fd/FD`, at the first byte that is kept. The path is under the
/// control of its owner, so it is checked before it is opened.
///
/// # Errors
/// Errors of the operating system, or that it is not such an output.
pub fn open(path: &Path) -> Result<File, ScopeError> {
    let failed = |source: io::Error| ScopeError::Output { path: path.to_owned(), source };
    let look = || -> io::Result<File> {
        let seen = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&seen)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        let again = format!("/proc/self/fd/{}", seen.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(again, flags, Mode::empty())?);
        if !is_memory(file.as_fd()) {
            return Err(io::Error::other("it is not the output of a command of `flowctl run`"));
        }
        // An empty output has no data to seek to.
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
        let path = format!("/proc/self/fd/{}", output.file.as_raw_fd());
        let mut text = String::new();
        open(Path::new(&path)).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn lines_of_two_streams_are_not_mixed() {
        let mut output = Output::create(1000).unwrap();
        output.append(0, b"loss ").unwrap();
        output.append(1, b"warning\n 50%\r").unwrap();
        output.append(0, b"0.1\nunfinished").unwrap();
        output.finish(0).unwrap();
        output.finish(1).unwrap();
        assert_eq!(text_of(&output), "warning\n 50%\rloss 0.1\nunfinished\n");
    }

    #[test]
    fn the_newest_output_is_kept_in_limited_memory() {
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
    fn an_endless_line_uses_limited_memory() {
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
        // A temporary directory may be a tmpfs: a file opened only for writing is rejected there too.
        assert!(!is_memory(on_disk.as_fd()));
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(open(&dir.path().join("nothing")).is_err());
    }
}
