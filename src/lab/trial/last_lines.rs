//! The last lines of a job's output, shown when it fails.

use term::text;

/// Maximum number of lines.
const LINES: usize = 20;
/// Maximum width of a line in columns.
const COLUMNS: usize = 200;
/// Number of bytes of output kept.
const KEPT: usize = 64 << 10;

/// The end of an output of any length.
#[derive(Debug, Default)]
pub(super) struct LastLines {
    end: Vec<u8>,
}

impl LastLines {
    /// Appends the next bytes, which may be split anywhere.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.end.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
        if self.end.len() > 2 * KEPT {
            self.end.drain(..self.end.len() - KEPT);
        }
    }

    /// Returns at most twenty lines in order, without empty ones; a redrawn line in its last state.
    pub(super) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.end);
        let drawn = text.lines().filter_map(|line| line.rsplit('\r').find(|state| !state.trim().is_empty()));
        let clean = drawn.map(|line| text::fit(text::clean(&without_colours(line)).trim_end(), COLUMNS));
        let lines: Vec<String> = clean.filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].to_vec()
    }
}

/// Removes terminal control sequences, `ESC [ … letter`.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut bare = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| ('@'..='~').contains(&c)).map_or(piece.len(), |last| last + 1);
        bare.push_str(&piece[end..]);
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&str]) -> Vec<String> {
        let mut last = LastLines::default();
        pieces.iter().for_each(|piece| last.push(piece.as_bytes()));
        last.lines()
    }

    #[test]
    fn the_last_twenty_lines_are_kept() {
        let mut last = LastLines::default();
        for line in 0..100_000 {
            last.push(format!("line {line}\n").as_bytes());
        }
        assert!(last.end.len() <= 2 * KEPT);
        let lines = last.lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[19].as_str()), (20, "line 99980", "line 99999"));
        last.push(&vec![b'x'; 5 * KEPT]);
        assert_eq!(last.lines().last().map(|line| line.chars().count()), Some(COLUMNS));
    }

    #[test]
    fn control_sequences_are_removed() {
        let lines = lines_of(&["10 %\r20 %\r\n\n\u{1b}[1m7", "1/71\u{1b}[0m loss \u{1b}]0;owned\u{7}\n", "Error: no"]);
        assert_eq!(lines, ["20 %", "71/71 loss ]0;owned", "Error: no"]);
    }
}
