//! How many lines of unknown shape may still be analysed, once it is settled what the log is read for.
//!
//! Problem: an analysis costs as much as reading a hundred known lines, and some logs never stop printing new templates: samples
//! of text, file names, many programs in one log. Approach: until the evaluation is settled everything is analysed. From then on
//! analyses are earned by lines: few for shapes seen for the first time, more for shapes that come again, since an evaluation
//! comes again and a sample does not. Imports: nothing.

/// Values of the evaluation function from which it is settled.
pub const SETTLED: u32 = 64;

/// A kind of shapes: what earns an analysis, and how many can be saved up.
#[derive(Clone, Copy, Debug)]
struct Rate {
    lines: u64,
    saved_at_most: u64,
}

const NEW: Rate = Rate { lines: 512, saved_at_most: 1024 };
const AGAIN: Rate = Rate { lines: 256, saved_at_most: 512 };

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    lines: u64,
    /// The lines that have paid for analyses, of new shapes and of those that came again.
    spent: [u64; 2],
}

impl Allowance {
    /// Another line was read.
    #[inline]
    pub fn earn(&mut self) {
        self.lines += 1;
    }

    /// Whether one more line may be analysed; then it is paid for.
    pub fn spend(&mut self, comes_again: bool) -> bool {
        let (rate, spent) = if comes_again { (AGAIN, &mut self.spent[1]) } else { (NEW, &mut self.spent[0]) };
        // Saved lines begin as many as may be saved.
        let earned = self.lines + rate.lines * rate.saved_at_most;
        *spent = (*spent).max(self.lines);
        let may = *spent + rate.lines <= earned;
        *spent += if may { rate.lines } else { 0 };
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(allowance: &mut Allowance, comes_again: bool, asked: usize) -> usize {
        (0..asked).filter(|_| allowance.spend(comes_again)).count()
    }

    #[test]
    fn what_is_saved_can_be_spent_at_once_and_the_rest_is_earned_by_lines() {
        let mut allowance = Allowance::default();
        assert_eq!(granted(&mut allowance, false, 5000), 1024);
        (0..5120).for_each(|_| allowance.earn());
        assert_eq!(granted(&mut allowance, false, 5000), 10);
        assert_eq!(granted(&mut allowance, true, 5000), 512, "each kind has its own");
        (0..10_000_000).for_each(|_| allowance.earn());
        assert_eq!(granted(&mut allowance, false, 5000), 1024, "no more than may be saved");
    }
}
