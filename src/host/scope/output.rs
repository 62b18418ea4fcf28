//! The output of a scope on disk: whole lines of both streams, bounded, rotated by rename.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A line that is longer is cut here.
const LONGEST_LINE: usize = 16 << 10;

/// A log with one rotated file beside it: at most twice its size on disk.
#[derive(Debug)]
pub struct OutputLog {
    path: PathBuf,
    file: File,
    size: u64,
    largest: u64,
    /// The unfinished line of each stream, so that two streams never share a line.
    unfinished: [Vec<u8>; 2],
}

impl OutputLog {
    /// Makes the log at `path`, to be rotated to `path.1` when it has `largest` bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path, largest: u64) -> io::Result<OutputLog> {
        let file = open_new(path)?;
        Ok(OutputLog { path: path.to_owned(), file, size: 0, largest, unfinished: Default::default() })
    }

    /// Appends a piece of stream 0 or 1; what does not end a line waits for the rest of it. A carriage return ends one too:
    /// progress bars use nothing else.
    ///
    /// # Errors
    /// The system's, on a full disk for example; the piece is lost then and the next may be appended again.
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
    /// As [`OutputLog::append`].
    pub fn finish(&mut self, stream: usize) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.unfinished[stream & 1]);
        if rest.is_empty() {
            return Ok(());
        }
        rest.push(b'\n');
        self.write(&rest)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + lines.len() as u64 > self.largest {
            self.rotate()?;
        }
        self.file.write_all(lines)?;
        self.size += lines.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let mut rotated = self.path.as_os_str().to_owned();
        rotated.push(".1");
        std::fs::rename(&self.path, rotated)?;
        self.file = open_new(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_streams_are_not_torn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let mut log = OutputLog::create(&path, 1000).unwrap();
        log.append(0, b"loss ").unwrap();
        log.append(1, b"warning\n 50%\r").unwrap();
        log.append(0, b"0.1\nunfinished").unwrap();
        log.finish(0).unwrap();
        log.finish(1).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "warning\n 50%\rloss 0.1\nunfinished\n");
    }

    #[test]
    fn the_disk_holds_twice_the_size_at_most_and_the_newest_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let mut log = OutputLog::create(&path, 1000).unwrap();
        for number in 0..1000 {
            log.append(0, format!("line {number}\n").as_bytes()).unwrap();
        }
        let (now, before) = (std::fs::read(&path).unwrap(), std::fs::read(path.with_extension("log.1")).unwrap());
        assert!(now.len() <= 1000 && before.len() <= 1000);
        assert!(now.ends_with(b"line 999\n"));
        let text = String::from_utf8([before, now].concat()).unwrap();
        let numbers: Vec<u32> = text.lines().map(|line| line[5..].parse().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap or a torn line");
    }

    #[test]
    fn a_line_without_an_end_takes_no_endless_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = OutputLog::create(&dir.path().join("output.log"), 1 << 20).unwrap();
        for _ in 0..100 {
            log.append(0, &[b'x'; 4096]).unwrap();
            assert!(log.unfinished[0].len() < LONGEST_LINE);
        }
    }
}
