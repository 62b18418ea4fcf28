//! Limit on the CPU time that the loop spends on one job's log.
//!
//! Problem: a log's content belongs to its owner, and some of it is expensive to parse (a `flowcon.pattern` at its limits, lines made for
//! it), while one loop governs all jobs. Approach: a token bucket of CPU time. The cost of a job's bytes is measured piece by piece; what
//! exceeds the budget is skipped up to the end of a line. A log of ordinary size never gets there: a MiB takes some hundredths of a
//! second. Pure: the clock is an argument.

use std::time::{Duration, Instant};

/// Unoptimised builds take several times longer.
const SLOWER: u32 = if cfg!(debug_assertions) { 4 } else { 1 };
/// CPU-seconds added per second.
const RATE: f64 = 0.02 * SLOWER as f64;
/// Maximum credit, in CPU-seconds,
const MOST: f64 = 0.05 * SLOWER as f64;
/// except for the initial credit: a log that was written before the job was found is read from its beginning, up to 64 MiB.
const AT_FIRST: f64 = 2.0 * SLOWER as f64;
/// Maximum CPU-seconds of one call, whatever the credit: the loop has other work.
const AT_ONCE: f64 = 0.05 * SLOWER as f64;
/// Bytes that are read between two measurements. The reader cuts longer lines.
const PIECE: usize = 16 << 10;

/// CPU budget of one job's log.
#[derive(Debug)]
pub(super) struct Allowance {
    /// CPU-seconds; negative after a piece that cost more than was left.
    credit: f64,
    at: Instant,
    /// Whether the last piece did not end a line.
    mid_line: bool,
    /// Whether bytes are skipped up to the beginning of the next line.
    skipping: bool,
    /// When bytes were last skipped.
    skipped_at: Option<Instant>,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Allowance {
        Allowance { credit: AT_FIRST, at: now, mid_line: false, skipping: false, skipped_at: None }
    }

    /// Starts another run of the job: what follows begins a line.
    pub(super) fn begin_again(&mut self) {
        (self.mid_line, self.skipping) = (false, false);
    }

    /// Returns when it was last used.
    pub(super) fn used_at(&self) -> Instant {
        self.at
    }

    /// Whether bytes were skipped within `time` before `now`.
    pub(super) fn skipped_within(&self, time: Duration, now: Instant) -> bool {
        self.skipped_at.is_some_and(|at| now.saturating_duration_since(at) < time)
    }

    /// Passes `bytes` to `read` in pieces as long as there is credit. Returns the number of bytes that were skipped. `cpu` returns the
    /// CPU time that this thread has used.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        now: Instant,
        cpu: impl Fn() -> Duration,
        mut read: impl FnMut(&[u8]),
    ) -> usize {
        self.credit =
            self.credit.max(MOST.min(self.credit + RATE * now.saturating_duration_since(self.at).as_secs_f64()));
        self.at = now;
        let begun = cpu();
        let mut used = 0.0;
        let mut rest = bytes;
        let mut skipped = 0;
        if self.skipping && self.credit > 0.0 {
            let line = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            self.skipping = line == rest.len() && rest.last() != Some(&b'\n');
            (skipped, rest) = (line, &rest[line..]);
        }
        while !rest.is_empty() && !self.skipping {
            let (piece, after) = match self.credit > 0.0 && used < AT_ONCE {
                true => rest.split_at(piece_of(rest)),
                false if self.mid_line => rest.split_at(line_of(rest)),
                false => {
                    self.skipping = true;
                    break;
                }
            };
            // A line that is too long to finish is ended here, because what follows the gap is another line.
            read(if piece.is_empty() { b"\n" } else { piece });
            self.mid_line = piece.last().is_some_and(|last| *last != b'\n');
            rest = after;
            let spent = cpu().saturating_sub(begun).as_secs_f64();
            self.credit -= spent - used;
            used = spent;
        }
        skipped += rest.len();
        if skipped > 0 {
            self.skipped_at = Some(now);
        }
        skipped
    }
}

/// Returns the length of the next piece: whole lines, if one ends in it.
fn piece_of(bytes: &[u8]) -> usize {
    if bytes.len() <= PIECE {
        return bytes.len();
    }
    memchr::memrchr(b'\n', &bytes[..PIECE]).map_or(PIECE, |end| end + 1)
}

/// Returns the length of the rest of the current line, so that no number is cut; 0 if the line is too long.
fn line_of(bytes: &[u8]) -> usize {
    let most = &bytes[..bytes.len().min(PIECE)];
    match memchr::memchr(b'\n', most) {
        Some(end) => end + 1,
        None if most.len() == bytes.len() => bytes.len(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Reads `looks` chunks of `bytes`, a quarter of a second apart, at `cost` per byte. Returns the text that was read, the number of
    /// bytes skipped, the CPU time used, and the longest call.
    fn read(bytes: &[u8], looks: u32, cost: Duration) -> (Vec<u8>, usize, Duration, Duration) {
        let begin = Instant::now();
        let mut allowance = Allowance::new(begin);
        let (used, mut text, mut skipped, mut longest) = (Cell::new(Duration::ZERO), Vec::new(), 0, Duration::ZERO);
        for look in 0..looks {
            let before = used.get();
            skipped += allowance.read(
                bytes,
                begin + Duration::from_millis(250) * look,
                || used.get(),
                |piece| {
                    used.set(used.get() + cost * piece.len() as u32);
                    text.extend_from_slice(piece);
                },
            );
            longest = longest.max(used.get() - before);
        }
        (text, skipped, used.get(), longest)
    }

    /// Returns 1 MiB of lines.
    fn lines() -> Vec<u8> {
        b"step 1 loss: 0.5\n".repeat((1 << 20) / 17)
    }

    #[test]
    fn an_old_log_of_64_mib_and_one_that_grows_by_a_mib_a_second_are_read_whole() {
        let reader = Duration::from_nanos(10) * SLOWER; // 100 MB/s
        let (text, skipped, ..) = read(&lines(), 64, reader);
        assert_eq!((text.len(), skipped), (64 * lines().len(), 0));
        let quarter = &lines()[..(1 << 18) / 17 * 17];
        let (text, skipped, ..) = read(quarter, 4 * 60, reader);
        assert_eq!((text.len(), skipped), (4 * 60 * quarter.len(), 0));
    }

    #[test]
    fn an_expensive_log_takes_2_percent_of_a_core_and_never_blocks_the_loop() {
        let looks = 4 * 600;
        let (text, skipped, used, longest) = read(&lines(), looks, Duration::from_micros(1) * SLOWER);
        assert_eq!(text.len() + skipped, looks as usize * lines().len(), "what is not read is counted");
        let core = used.as_secs_f64() / f64::from(looks) * 4.0 / f64::from(SLOWER);
        assert!((0.018..0.025).contains(&core), "{core} of a core");
        let piece = PIECE as f64 * 1e-6 * f64::from(SLOWER);
        assert!(longest.as_secs_f64() <= AT_ONCE + 2.0 * piece, "{longest:?}");
        let whole = text.split(|byte| *byte == b'\n').all(|line| line.is_empty() || line == b"step 1 loss: 0.5");
        assert!(whole, "no line is cut");
    }

    #[test]
    fn a_line_in_progress_is_finished_and_an_endless_one_is_ended() {
        let begin = Instant::now();
        let (used, mut text) = (Cell::new(Duration::ZERO), Vec::new());
        let mut allowance = Allowance::new(begin);
        let mut look = |bytes: &[u8], cost: f64| {
            allowance.read(
                bytes,
                begin,
                || used.get(),
                |piece| {
                    used.set(used.get() + Duration::from_secs_f64(cost));
                    text.extend_from_slice(piece);
                },
            )
        };
        assert_eq!(look(b"loss 0.1", 2.0 * AT_FIRST), 0, "all credit is spent in the middle of a line");
        assert_eq!(look(b"2", 0.0), 0);
        assert_eq!(look(b"5\nloss 0.9\nlo", 0.0), 11);
        assert_eq!(look(b"ss 0.8\n", 0.0), 7);
        assert_eq!(text, b"loss 0.125\n");

        let (used, mut text) = (Cell::new(Duration::ZERO), Vec::new());
        let mut allowance = Allowance::new(begin);
        let endless = vec![b'x'; 4 * PIECE];
        let skipped = allowance.read(
            &endless,
            begin,
            || used.get(),
            |piece| {
                used.set(used.get() + Duration::from_secs_f64(AT_ONCE));
                text.extend_from_slice(piece);
            },
        );
        assert_eq!((skipped, text.len(), text.last()), (3 * PIECE, PIECE + 1, Some(&b'\n')));
    }

    #[test]
    fn a_skip_is_remembered_for_a_while() {
        let (begin, minute) = (Instant::now(), Duration::from_secs(60));
        let mut allowance = Allowance::new(begin);
        let used = Cell::new(Duration::ZERO);
        let spend = |_: &[u8]| used.set(used.get() + Duration::from_secs_f64(2.0 * AT_FIRST));
        assert_eq!(allowance.read(b"a 1\n", begin, || used.get(), spend), 0);
        assert!(!allowance.skipped_within(minute, begin));
        assert_eq!(allowance.read(b"b 2\n", begin, || used.get(), spend), 4);
        assert!(allowance.skipped_within(minute, begin + minute / 2));
        assert!(!allowance.skipped_within(minute, begin + minute));
    }

    #[test]
    fn reading_continues_at_the_beginning_of_a_line() {
        let begin = Instant::now();
        let (used, mut text) = (Cell::new(Duration::ZERO), Vec::new());
        let mut allowance = Allowance::new(begin);
        let mut look = |bytes: &[u8], after: u64, cost: f64| {
            allowance.read(
                bytes,
                begin + Duration::from_secs(after),
                || used.get(),
                |piece| {
                    used.set(used.get() + Duration::from_secs_f64(cost));
                    text.extend_from_slice(piece);
                },
            )
        };
        look(b"a 1\n", 0, 2.0 * AT_FIRST);
        assert_eq!(look(b"b 2\nc ", 0, 0.0), 6);
        assert_eq!(look(b"3", 3600, 0.0), 1, "the rest of a line whose beginning was skipped");
        assert_eq!(look(b"4\nd 4\n", 3600, 0.0), 2);
        assert_eq!(text, b"a 1\nd 4\n");
    }
}
