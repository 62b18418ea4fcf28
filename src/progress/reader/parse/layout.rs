//! Lines that were scanned before, but for their digits: a print of the same layout has the same shape and numbers in the
//! same places.
//!
//! Problem: most lines of a log are prints of few templates, and most of these differ in nothing but digits. Approach: a
//! *layout* is a line with every digit taken as a zero; its hash costs a fraction of a scan. The few digits that mean something
//! (`top5`, `0,531`) are kept with the layout and compared. Properties: a line of a known layout has the shape and the numbers
//! that a scan of it finds. Imports: its siblings.

use super::bytes::EACH;
use super::number::Span;

/// Eight keys are one cache line.
const WAYS: usize = 8;
const SETS_FIRST: usize = 2;
pub const SETS: usize = 16;
/// A full table becomes so many times larger.
const GROWTH: usize = 2;

/// Numbers of a line that is kept; a line with more is scanned each time.
const NUMBERS: usize = 20;

/// Digits that must be the same, of a line that is kept.
pub const MEANT: usize = 10;

/// What FxHash multiplies by.
const MIXER: u64 = 0x517c_c1b7_2722_0a95;

/// A digit that means something where it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Digit {
    pub at: u16,
    pub digit: u8,
}

/// The layouts of the lines that came of late.
#[derive(Debug)]
pub struct Layouts {
    keys: Vec<[u64; WAYS]>,
    known: Vec<[Layout; WAYS]>,
    dice: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    shape: u64,
    numbers: [Span; NUMBERS],
    meant: [Digit; MEANT],
    lengths: (u8, u8),
    /// Bytes of the line: whatever hashes alike, no number stands behind its end.
    line: u16,
}

impl Default for Layouts {
    fn default() -> Self {
        Layouts::of(SETS_FIRST)
    }
}

impl Layouts {
    fn of(sets: usize) -> Self {
        Layouts { keys: vec![[0; WAYS]; sets], known: vec![[Layout::default(); WAYS]; sets], dice: 1 }
    }

    /// The shape of a line with this key, if its layout is known; then its numbers are written to `numbers`.
    #[inline]
    pub fn recall(&self, key: u64, line: &[u8], numbers: &mut Vec<Span>) -> Option<u64> {
        let set = self.set_of(key);
        let way = self.keys[set].iter().position(|known| *known == key)?;
        let layout = &self.known[set][way];
        let (count, meant) = (usize::from(layout.lengths.0), usize::from(layout.lengths.1));
        let differs = |meant: &Digit| line.get(usize::from(meant.at)) != Some(&meant.digit);
        if usize::from(layout.line) != line.len() || layout.meant[..meant].iter().any(differs) {
            return None;
        }
        numbers.clear();
        numbers.extend_from_slice(&layout.numbers[..count]);
        Some(layout.shape)
    }

    /// Keeps what a scan of `line`, which has this key, found.
    pub fn keep(&mut self, key: u64, line: &[u8], shape: u64, numbers: &[Span], meant: &[Digit]) {
        let Ok(length) = u16::try_from(line.len()) else { return };
        if numbers.len() > NUMBERS || meant.len() > MEANT {
            return;
        }
        let mut set = self.set_of(key);
        let free = |keys: &[u64; WAYS]| keys.iter().position(|known| *known == key || *known == 0);
        let way = match free(&self.keys[set]) {
            Some(way) => way,
            None if self.keys.len() < SETS => {
                // What is forgotten here is scanned once more.
                *self = Layouts::of(self.keys.len() * GROWTH);
                set = self.set_of(key);
                0
            }
            None => self.roll(),
        };
        self.keys[set][way] = key;
        let layout = &mut self.known[set][way];
        (layout.shape, layout.lengths, layout.line) = (shape, (numbers.len() as u8, meant.len() as u8), length);
        layout.numbers[..numbers.len()].copy_from_slice(numbers);
        layout.meant[..meant.len()].copy_from_slice(meant);
    }

    fn set_of(&self, key: u64) -> usize {
        ((key >> 32) as usize * self.keys.len()) >> 32
    }

    /// A number below [`WAYS`], the same in each run.
    fn roll(&mut self) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) as usize % WAYS
    }
}

/// A hash of `line` in which all digits are the same; never zero. `commas_divide` makes it another one.
#[inline]
pub fn key(line: &[u8], commas_divide: bool) -> u64 {
    let (pairs, _) = line.as_chunks::<16>();
    // Two hashes side by side, as the step of one waits for the step before.
    // A length that is mixed in as it stands would be undone by a difference in the first byte.
    let (mut first, mut second) = ((line.len() as u64).wrapping_mul(MIXER), u64::from(commas_divide));
    for pair in pairs {
        let [low, high] = [0, 8].map(|at| pair[at..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk)));
        (first, second) = (mixed(first, low), mixed(second, high));
    }
    if line.len() % 16 > 8 {
        let at = line.len() / 16 * 16;
        first = mixed(first, line[at..].first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk)));
    }
    let rest = match line.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => line.iter().fold(0, |chunk, byte| chunk << 8 | u64::from(*byte)),
    };
    mixed(mixed(first, rest), second) | 1
}

/// Mixes eight bytes in, digits taken as zeros (FxHash's step).
#[inline]
fn mixed(hash: u64, chunk: u64) -> u64 {
    let values = chunk ^ (EACH * 0x30);
    // The highest bit of each byte that is a digit.
    let digits = !(((values & (EACH * 0x7F)) + EACH * 0x76) | values) & (EACH * 0x80);
    let plain = chunk & !((digits >> 3) - (digits >> 7));
    (hash.rotate_left(5) ^ plain).wrapping_mul(MIXER)
}

#[cfg(test)]
mod tests {
    use super::super::scan::Scan;
    use super::*;
    use proptest::prelude::*;

    /// What a scan of the line alone finds.
    fn scanned(line: &str, commas: bool) -> (u64, Vec<Span>) {
        let mut scan = Scan::default();
        scan.read(line.as_bytes(), commas);
        (scan.shape, scan.numbers)
    }

    fn is_known(layouts: &Layouts, line: &str) -> bool {
        layouts.recall(key(line.as_bytes(), false), line.as_bytes(), &mut Vec::new()).is_some()
    }

    #[test]
    fn a_line_is_known_by_another_one_that_differs_in_numbers() {
        let mut layouts = Layouts::default();
        let learn = |layouts: &mut Layouts, line: &str, meant: &[Digit]| {
            let (shape, numbers) = scanned(line, false);
            layouts.keep(key(line.as_bytes(), false), line.as_bytes(), shape, &numbers, meant);
        };
        learn(&mut layouts, "2026-01-02 03:04:05 epoch 3/20 loss 0.5312", &[]);
        assert!(is_known(&layouts, "2026-11-12 13:14:15 epoch 4/20 loss 0.4999"));
        assert!(!is_known(&layouts, "2026-11-12 13:14:15 epoch 14/20 loss 0.4999"), "another length");
        assert!(!is_known(&layouts, "2026-11-12 13:14:15 epoch 4/20 loss:0.4999"), "another mark");
        learn(&mut layouts, "top5 0.31", &[Digit { at: 3, digit: b'5' }]);
        assert!(is_known(&layouts, "top5 0.42") && !is_known(&layouts, "top1 0.42"));
    }

    #[test]
    fn lines_of_different_length_have_no_layout_in_common_whatever_they_hash_to() {
        let (long, short) = (&b"\xd03200,581,2168.8079172096823"[..], &b"28600,595,2746.893651792245"[..]);
        assert_ne!(key(long, true), key(short, true), "once they hashed alike");
        let mut scan = Scan::default();
        scan.read(long, true);
        let mut layouts = Layouts::default();
        layouts.keep(42, long, scan.shape, &scan.numbers, &[]);
        assert!(layouts.recall(42, long, &mut Vec::new()).is_some());
        assert!(layouts.recall(42, short, &mut Vec::new()).is_none());
    }

    #[test]
    fn layouts_take_a_bounded_memory() {
        let mut layouts = Layouts::default();
        for line in 0..5000 {
            let text = "x".repeat(line % 900) + &"y".repeat(line / 900 + 1);
            layouts.keep(key(text.as_bytes(), false), text.as_bytes(), line as u64, &[], &[]);
            assert!(is_known(&layouts, &text));
        }
        assert_eq!((layouts.keys.len(), layouts.known.len()), (SETS, SETS));
        let many = vec![Span::default(); NUMBERS + 1];
        layouts.keep(key(b"dump", false), b"dump", 1, &many, &[]);
        assert!(!is_known(&layouts, "dump"));
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[a-c]{1,2}",
            4 => "[0-9]{1,4}",
            3 => "[0-9]{1,2}\\.[0-9]{1,9}",
            1 => "[0-9]\\.?[0-9]?[eEdD][-+]?[0-9]{1,2}",
            2 => "[0-9]{1,2}(,[0-9]{3}|,[0-9]{1,4}|x[0-9a-f]{1,3})",
            4 => "[ ]{1,3}",
            4 => "[-+.,:/@()\\[=|#_]{1,2}",
            1 => "(nan|inf|Infinity|epoch|step|0x1f|top5|s0\\.|mAP@\\.5|é|轮|→)",
            1 => "(█|▌|━|│|\t|\u{1})",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Lines of one layout: whatever digits they are printed with.
        #[test]
        fn what_is_known_is_what_a_scan_finds(
            template in prop::collection::vec(piece(), 1..12),
            digits in prop::collection::vec("[0-9]{8}", 1..12),
            commas in any::<bool>(),
        ) {
            let mut scan = Scan::default();
            let template = template.concat();
            for digits in digits {
                let mut digits = digits.chars().cycle();
                let other = |c: char| if c.is_ascii_digit() { digits.next().unwrap_or(c) } else { c };
                let line: String = template.chars().map(other).collect();
                for text in [&template, &line, &line] {
                    scan.read(text.as_bytes(), commas);
                    prop_assert_eq!((scan.shape, scan.numbers.clone()), scanned(text, commas), "{}", text);
                }
            }
        }
    }
}
