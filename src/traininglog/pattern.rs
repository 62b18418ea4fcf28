//! Regular expressions that read the values of a log, with a bound on the cost of each line.
//!
//! Problem: who starts a job may write both the pattern and the lines that it is matched against, and the program that matches them may
//! read the logs of many users. The regex crate guarantees time proportional to states of the pattern times bytes of the line, without a
//! bound on either. Approach: a backtracker that enters each pair of a state and a byte once, with room for 65,536 pairs. The worst line
//! of the worst pattern thus takes less than a millisecond (measured by flowcon's `cargo bench --bench pattern`). The more states a
//! pattern has, the shorter the prefix of a long line that it is matched against; a pattern that would see less than 256 bytes is rejected.

use regex_automata::nfa::thompson::backtrack::{self, BoundedBacktracker};
use regex_automata::nfa::thompson::{self, BuildError};
use regex_automata::util::syntax;
use std::error::Error;
use std::fmt;

/// Maximum number of pairs of a state and a byte that matching one line may enter.
const STEPS: usize = 64 << 10;
/// Every pattern must be able to see this many bytes of a line.
const LINE_AT_LEAST: usize = 256;
/// Size limit of a compiled pattern in bytes; a pattern with an accepted number of states is smaller.
const COMPILED_AT_MOST: usize = 64 << 10;

/// A valid pattern: it has a group `value`, and matching it is cheap.
///
/// ```
/// use traininglog::pattern::Pattern;
///
/// let pattern = Pattern::new(r"badness <(?P<value>[^>]+)>").expect("it has a group `value`");
/// assert_eq!(pattern.find(b"epoch 3 badness <0.25>").map(|found| found.value), Some(b"0.25".as_slice()));
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    expression: String,
    regex: BoundedBacktracker,
}

/// Why an expression is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidPattern {
    /// It is not a regular expression. The text says why.
    Syntax(String),
    /// It has no group `value`.
    NoValue,
    /// It has too many states to be matched against every line.
    TooLarge,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = STEPS / LINE_AT_LEAST;
        match self {
            InvalidPattern::Syntax(why) => f.write_str(why),
            InvalidPattern::NoValue => f.write_str("expected a regular expression with a group (?P<value>…)"),
            InvalidPattern::TooLarge => write!(
                f,
                "it is too large to be matched against every line: it has more than {states} states (a{{9}} has nine); \
                 use smaller repetition counts"
            ),
        }
    }
}

impl Error for InvalidPattern {}

/// The groups that a pattern matched on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Group `value`.
    pub value: &'a [u8],
    /// Group `current`.
    pub current: Option<&'a [u8]>,
    /// Group `total`.
    pub total: Option<&'a [u8]>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

impl Pattern {
    /// Compiles an expression with the group `value`, and optionally the groups `current` and `total` of the progress counter.
    ///
    /// # Errors
    /// It is not a regular expression, is too large, or has no group `value`.
    pub fn new(expression: &str) -> Result<Pattern, InvalidPattern> {
        // Unicode classes (\w, \d) have a hundred times more states than ASCII classes, and numbers in logs do not need them.
        let syntax = syntax::Config::new().unicode(!expression.is_ascii()).utf8(false);
        let compiled = BoundedBacktracker::builder()
            .syntax(syntax)
            .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(COMPILED_AT_MOST)))
            .configure(backtrack::Config::new().visited_capacity(STEPS / 8))
            .build(expression);
        let regex = compiled.map_err(|error| InvalidPattern::of(&error))?;
        if regex.max_haystack_len() < LINE_AT_LEAST {
            return Err(InvalidPattern::TooLarge);
        }
        match regex.get_nfa().group_info().all_names().any(|(_, _, name)| name == Some("value")) {
            true => Ok(Pattern { expression: expression.to_owned(), regex }),
            false => Err(InvalidPattern::NoValue),
        }
    }

    /// Returns the expression as written.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Matches a line, of which it sees at least the first 256 bytes; the fewer states the pattern has, the more. A match that may have
    /// been truncated, because it ends where the inspected prefix ends, is ignored.
    pub fn find<'a>(&self, line: &'a [u8]) -> Option<Found<'a>> {
        let prefix = &line[..line.len().min(self.regex.max_haystack_len())];
        let mut groups = self.regex.create_captures();
        self.regex.try_captures(&mut self.regex.create_cache(), prefix, &mut groups).ok()?;
        let is_cut = prefix.len() < line.len() && groups.get_match()?.end() == prefix.len();
        let text = |name| groups.get_group_by_name(name).map(|span| &line[span.range()]);
        let found = Found { value: text("value")?, current: text("current"), total: text("total") };
        (!is_cut).then_some(found)
    }
}

impl InvalidPattern {
    fn of(error: &BuildError) -> InvalidPattern {
        if error.size_limit().is_some() {
            return InvalidPattern::TooLarge;
        }
        let words = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let last = words.lines().last().unwrap_or("not a regular expression").trim();
        InvalidPattern::Syntax(last.strip_prefix("error: ").unwrap_or(last).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(expression: &str, line: &'a str) -> Option<&'a str> {
        let pattern = Pattern::new(expression).expect("a valid pattern");
        pattern.find(line.as_bytes()).map(|found| std::str::from_utf8(found.value).expect("text"))
    }

    #[test]
    fn common_patterns_are_valid_and_match() {
        assert_eq!(value(r"loss=(?P<value>\S+)", "step 3 loss=0.5 lr=1"), Some("0.5"));
        let long = r"(?i)^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d.*?epoch\s+(?P<current>\d+)\s*/\s*(?P<total>\d+).*?val[_ ]loss\s*[:=]\s*(?P<value>[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)";
        assert_eq!(value(long, "[2026-01-01 10:00:00,123] INFO Epoch 3/90 loss: 0.9 val_loss: 4.1e-2"), Some("4.1e-2"));
        assert_eq!(value(r"损失[:：]\s*(?P<value>\S+)", "第3轮 损失：0.25"), Some("0.25"));
        assert_eq!(value(r"loss (?P<value>\S+)", "Übung 3: loss 0.25"), Some("0.25"));
    }

    #[test]
    fn an_invalid_pattern_is_rejected_with_the_reason_and_the_next_step() {
        let refused = |expression: &str| Pattern::new(expression).expect_err("invalid").to_string();
        assert_eq!(refused("(unclosed"), "unclosed group");
        assert_eq!(refused("loss=.*"), "expected a regular expression with a group (?P<value>…)");
        for bomb in [r"(?P<value>(?:a{1,100}){1,100})", r"(?u)(?P<value>\w{1,100})", "(?P<value>(?:(?:x?){50}){50})"] {
            assert!(refused(bomb).contains("256 states"), "{bomb}: {}", refused(bomb));
            assert!(refused(bomb).contains("use smaller repetition counts"), "{bomb}");
        }
    }

    #[test]
    fn a_long_line_is_read_up_to_a_limit_and_no_number_is_truncated() {
        let expression = r"loss=(?P<value>\S+)";
        let seen = Pattern::new(expression).expect("a valid pattern").regex.max_haystack_len();
        assert!(seen > 2000, "{seen} bytes");
        let line = |before: usize| format!("{}loss=0.125 lr=1{}", "x".repeat(before), "y".repeat(seen));
        let found = |before: usize| value(expression, &line(before)).map(str::to_owned);
        assert_eq!(found(seen - 11), Some("0.125".to_owned()));
        assert_eq!(found(seen - 8), None, "0.1 is what the cut left");
        assert_eq!(found(seen), None);
    }
}
