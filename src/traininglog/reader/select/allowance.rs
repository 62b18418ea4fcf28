//! Budget for analysing lines of unknown shape once the evaluation function is settled.
//!
//! Problem: an analysis costs as much as reading a hundred known lines, and some logs keep printing new templates: samples of text, file
//! names, many programs in one log. Approach: until the evaluation is settled, every line is analysed. From then on each line read earns a
//! part of an analysis: a small one for shapes seen for the first time, a larger one for repeated shapes, because an evaluation repeats
//! and a sample of text does not.

/// Number of values after which the evaluation function is settled.
pub(crate) const SETTLED: u32 = 64;

/// Budget of a kind of shapes: the lines that earn one analysis, and the maximum number of saved analyses.
#[derive(Clone, Copy, Debug)]
struct Rate {
    lines: u64,
    saved_at_most: u64,
}

const NEW: Rate = Rate { lines: 512, saved_at_most: 1024 };
const AGAIN: Rate = Rate { lines: 256, saved_at_most: 512 };

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance {
    lines: u64,
    /// Lines spent on analyses of new and of repeated shapes.
    spent: [u64; 2],
}

impl Allowance {
    /// Counts a line that was read.
    #[inline]
    pub(crate) fn earn(&mut self) {
        self.lines += 1;
    }

    /// Whether one more line may be analysed; if so, spends the budget for it.
    pub(crate) fn spend(&mut self, is_repeated: bool) -> bool {
        let (rate, spent) = if is_repeated { (AGAIN, &mut self.spent[1]) } else { (NEW, &mut self.spent[0]) };
        // The budget starts full.
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

    fn granted(allowance: &mut Allowance, is_repeated: bool, requested: usize) -> usize {
        (0..requested).filter(|_| allowance.spend(is_repeated)).count()
    }

    #[test]
    fn the_saved_budget_can_be_spent_at_once_and_more_is_earned_by_lines() {
        let mut allowance = Allowance::default();
        assert_eq!(granted(&mut allowance, false, 5000), 1024);
        (0..5120).for_each(|_| allowance.earn());
        assert_eq!(granted(&mut allowance, false, 5000), 10);
        assert_eq!(granted(&mut allowance, true, 5000), 512, "each kind has a separate budget");
        (0..10_000_000).for_each(|_| allowance.earn());
        assert_eq!(granted(&mut allowance, false, 5000), 1024, "savings are limited");
    }
}
