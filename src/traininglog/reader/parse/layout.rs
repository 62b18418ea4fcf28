//! Caches scans by layout: lines that differ only in digits have the same shape, and numbers at the same positions.
//!
//! Problem: most lines of a log come from few templates, and most of these differ only in digits. Approach: a *layout* is a line with every
//! digit replaced by zero; its hash costs a fraction of a scan. The few significant digits (`top5`, `0,531`) are kept with the layout and
//! compared. Properties: a line of a known layout has the shape and the numbers that a scan would find.

use super::bytes::EACH;
use super::commas::{Commas, Shown};
use super::number::Span;

/// Ways of a set: eight keys fill a cache line.
const WAYS: usize = 8;
const SETS_FIRST: usize = 2;
pub(crate) const SETS: usize = 16;
/// Growth factor of a full table.
const GROWTH: usize = 2;

/// Maximum numbers of a cached line; a line with more is scanned each time.
const NUMBERS: usize = 20;

/// Maximum significant digits of a cached line.
pub(crate) const SIGNIFICANT: usize = 10;

/// The multiplier of FxHash.
const MIXER: u64 = 0x517c_c1b7_2722_0a95;

/// A significant digit and its position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digit {
    pub at: u16,
    pub digit: u8,
}

/// The layouts of recent lines.
#[derive(Debug)]
pub(crate) struct Layouts {
    keys: Vec<[u64; WAYS]>,
    known: Vec<[Layout; WAYS]>,
    dice: Dice,
}

/// The shape of a line, whether it is in plain notation, and what its commas show.
pub(crate) type Known = (u64, bool, Shown);

#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    known: Known,
    numbers: [Span; NUMBERS],
    significant: [Digit; SIGNIFICANT],
    lengths: (u8, u8),
    /// Bytes of the line: in case of a hash collision, no number may lie beyond the end.
    line: u16,
}

impl Default for Layouts {
    fn default() -> Self {
        Layouts::of(SETS_FIRST)
    }
}

impl Layouts {
    fn of(sets: usize) -> Self {
        Layouts { keys: vec![[0; WAYS]; sets], known: vec![[Layout::default(); WAYS]; sets], dice: Dice::default() }
    }

    /// Returns what is known of a line with this key and writes its numbers to `numbers`, if the layout is known.
    #[inline]
    pub(crate) fn recall(&self, key: u64, line: &[u8], numbers: &mut Vec<Span>) -> Option<Known> {
        let set = self.set_of(key);
        let way = self.keys[set].iter().position(|known| *known == key)?;
        let layout = &self.known[set][way];
        let (count, significant) = (usize::from(layout.lengths.0), usize::from(layout.lengths.1));
        let differs = |significant: &Digit| line.get(usize::from(significant.at)) != Some(&significant.digit);
        if usize::from(layout.line) != line.len() || layout.significant[..significant].iter().any(differs) {
            return None;
        }
        numbers.clear();
        numbers.extend_from_slice(&layout.numbers[..count]);
        Some(layout.known)
    }

    /// Caches the result of a scan of `line` with this key.
    pub(crate) fn keep(&mut self, key: u64, line: &[u8], known: Known, numbers: &[Span], significant: &[Digit]) {
        let Ok(length) = u16::try_from(line.len()) else { return };
        if numbers.len() > NUMBERS || significant.len() > SIGNIFICANT {
            return;
        }
        let mut set = self.set_of(key);
        let free = |keys: &[u64; WAYS]| keys.iter().position(|known| *known == key || *known == 0);
        let way = match free(&self.keys[set]) {
            Some(way) => way,
            None if self.keys.len() < SETS => {
                // Forgotten lines are scanned again.
                *self = Layouts::of(self.keys.len() * GROWTH);
                set = self.set_of(key);
                0
            }
            None => self.dice.roll(WAYS),
        };
        self.keys[set][way] = key;
        let layout = &mut self.known[set][way];
        layout.known = known;
        (layout.lengths, layout.line) = ((numbers.len() as u8, significant.len() as u8), length);
        layout.numbers[..numbers.len()].copy_from_slice(numbers);
        layout.significant[..significant.len()].copy_from_slice(significant);
    }

    fn set_of(&self, key: u64) -> usize {
        set_of(key, self.keys.len())
    }
}

/// Returns the set of a key in a set-associative cache.
pub(crate) fn set_of(key: u64, sets: usize) -> usize {
    ((key >> 32) as usize * sets) >> 32
}

/// Chooses the entries of a cache to evict, pseudo-randomly and the same in each run (Knuth's linear congruential generator).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Returns a number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

impl Default for Dice {
    fn default() -> Dice {
        Dice(1)
    }
}

/// Returns a hash of `line` and the meaning of commas that does not depend on the digits; never zero.
#[inline]
pub(crate) fn key(line: &[u8], commas: Commas) -> u64 {
    let (pairs, _) = line.as_chunks::<16>();
    // Two independent hashes, because each step depends on the step before.
    // The length is multiplied first: otherwise a difference in the first byte could cancel it.
    let (mut first, mut second) = ((line.len() as u64).wrapping_mul(MIXER), commas as u64);
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

/// Mixes in eight bytes with digits replaced by zeros (a step of FxHash).
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

    /// Scans the line without the cache.
    fn scanned(line: &str, commas: Commas) -> (Known, Vec<Span>) {
        let mut scan = Scan::default();
        scan.read(line.as_bytes(), commas);
        ((scan.shape, scan.is_plain, scan.shown), scan.numbers)
    }

    fn is_known(layouts: &Layouts, line: &str) -> bool {
        layouts.recall(key(line.as_bytes(), Commas::Guessed), line.as_bytes(), &mut Vec::new()).is_some()
    }

    #[test]
    fn a_line_that_differs_only_in_digits_has_a_known_layout() {
        let mut layouts = Layouts::default();
        let learn = |layouts: &mut Layouts, line: &str, significant: &[Digit]| {
            let (known, numbers) = scanned(line, Commas::Guessed);
            layouts.keep(key(line.as_bytes(), Commas::Guessed), line.as_bytes(), known, &numbers, significant);
        };
        learn(&mut layouts, "2026-01-02 03:04:05 epoch 3/20 loss 0.5312", &[]);
        assert!(is_known(&layouts, "2026-11-12 13:14:15 epoch 4/20 loss 0.4999"));
        assert!(!is_known(&layouts, "2026-11-12 13:14:15 epoch 14/20 loss 0.4999"), "another length");
        assert!(!is_known(&layouts, "2026-11-12 13:14:15 epoch 4/20 loss:0.4999"), "another mark");
        learn(&mut layouts, "top5 0.31", &[Digit { at: 3, digit: b'5' }]);
        assert!(is_known(&layouts, "top5 0.42") && !is_known(&layouts, "top1 0.42"));
    }

    #[test]
    fn lines_of_different_length_never_share_a_layout_even_if_their_hashes_collide() {
        let (long, short) = (&b"\xd03200,581,2168.8079172096823"[..], &b"28600,595,2746.893651792245"[..]);
        assert_ne!(key(long, Commas::Divide), key(short, Commas::Divide), "a former collision");
        let mut scan = Scan::default();
        scan.read(long, Commas::Divide);
        let mut layouts = Layouts::default();
        layouts.keep(42, long, (scan.shape, true, scan.shown), &scan.numbers, &[]);
        assert!(layouts.recall(42, long, &mut Vec::new()).is_some());
        assert!(layouts.recall(42, short, &mut Vec::new()).is_none());
    }

    #[test]
    fn layouts_use_bounded_memory() {
        let mut layouts = Layouts::default();
        for line in 0..5000 {
            let text = "x".repeat(line % 900) + &"y".repeat(line / 900 + 1);
            let known = (line as u64, true, Shown::default());
            layouts.keep(key(text.as_bytes(), Commas::Guessed), text.as_bytes(), known, &[], &[]);
            assert!(is_known(&layouts, &text));
        }
        assert_eq!((layouts.keys.len(), layouts.known.len()), (SETS, SETS));
        let many = vec![Span::default(); NUMBERS + 1];
        layouts.keep(key(b"dump", Commas::Guessed), b"dump", Known::default(), &many, &[]);
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
            2 => "(loss[:=] ?)?(float32|np\\.int|tensor|rho|f1|<Tensor: numpy=)[(]?[-]?[0-9]\\.[0-9]{1,2}[)>]",
            2 => "[0-9]{1,3}(['_.,][0-9]{2,3}){1,2}",
            1 => "(NaN[0-9]{2}|1\\.#INF|loss=None|\u{2212}[0-9]|[0-9]\u{202f}[0-9]{3}|[0-9]\\.[0-9]+\\([0-9]\\))",
            1 => "(█|▌|━|│|\t|\u{1})",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Lines of one layout with any digits.
        #[test]
        fn a_cached_layout_gives_the_same_result_as_a_scan(
            template in prop::collection::vec(piece(), 1..12),
            digits in prop::collection::vec("[0-9]{8}", 1..12),
            commas in prop::sample::select(vec![Commas::Guessed, Commas::Divide, Commas::Decimal]),
        ) {
            let mut scan = Scan::default();
            let template = template.concat();
            for digits in digits {
                let mut digits = digits.chars().cycle();
                let other = |c: char| if c.is_ascii_digit() { digits.next().unwrap_or(c) } else { c };
                let line: String = template.chars().map(other).collect();
                for text in [&template, &line, &line] {
                    scan.read(text.as_bytes(), commas);
                    let found = ((scan.shape, scan.is_plain, scan.shown), scan.numbers.clone());
                    prop_assert_eq!(found, scanned(text, commas), "{}", text);
                }
            }
        }
    }
}
