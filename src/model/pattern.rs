//! What a `flowcon.pattern` may be: one definition for whoever checks labels and for whoever reads logs.
//!
//! Problem: anybody who may start a container writes one, and the lines that it is matched against too; a daemon that runs as root pays.
//! The regex crate takes time in proportion to the size of the compiled pattern times the length of the line. Approach: both are bounded,
//! so that the worst line of the worst pattern takes less than a millisecond (`cargo bench --bench pattern` measures it).
//! Imports: regex.

use regex::bytes::{Regex, RegexBuilder};

/// A pattern that compiles to more bytes is refused.
const LARGEST: usize = 8 << 10;
/// What is kept of the states that were met while matching, in bytes: with more of them another way of matching is taken.
const STATES: usize = 64 << 10;
/// Of a longer line so many bytes are matched.
const LINE_LONGEST: usize = 1 << 10;

/// A valid pattern: it has a group `value`, and matching it is cheap.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
}

/// What a pattern found on a line.
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
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Pattern {
    /// # Errors
    /// In words for the owner: it is no regular expression, too large, or has no group `value`.
    pub fn new(expression: &str) -> Result<Pattern, String> {
        let regex = RegexBuilder::new(expression)
            // The classes of all scripts (\w, \d) are a hundred times larger than those of ASCII, and no log needs them in its numbers.
            .unicode(!expression.is_ascii())
            .size_limit(LARGEST)
            .dfa_size_limit(STATES)
            .build()
            .map_err(|error| in_words(&error))?;
        match regex.capture_names().flatten().any(|name| name == "value") {
            true => Ok(Pattern { regex }),
            false => Err("expected a regular expression with a group (?P<value>…)".to_owned()),
        }
    }

    /// What a line says. A match that the end of the part that is looked at may have cut says nothing.
    pub fn find<'a>(&self, line: &'a [u8]) -> Option<Found<'a>> {
        let looked_at = &line[..line.len().min(LINE_LONGEST)];
        let groups = self.regex.captures(looked_at)?;
        let is_cut = looked_at.len() < line.len() && groups.get(0)?.end() == looked_at.len();
        let text = |name| groups.name(name).map(|group| group.as_bytes());
        let found = Found { value: text("value")?, current: text("current"), total: text("total") };
        (!is_cut).then_some(found)
    }
}

fn in_words(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => format!(
            "it is too large to be matched against every line (more than {} KiB compiled); \
             repeat less in it ({{1,9}} counts nine times), or name the metric with flowcon.metric instead",
            LARGEST >> 10
        ),
        other => {
            let words = other.to_string();
            let last = words.lines().last().unwrap_or("it is no regular expression").trim();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
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
    fn what_people_write_is_valid_and_found() {
        assert_eq!(value(r"loss=(?P<value>\S+)", "step 3 loss=0.5 lr=1"), Some("0.5"));
        let long = r"(?i)^\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d.*?epoch\s+(?P<current>\d+)\s*/\s*(?P<total>\d+).*?val[_ ]loss\s*[:=]\s*(?P<value>[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)";
        assert_eq!(value(long, "[2026-01-01 10:00:00,123] INFO Epoch 3/90 loss: 0.9 val_loss: 4.1e-2"), Some("4.1e-2"));
        assert_eq!(value(r"损失[:：]\s*(?P<value>\S+)", "第3轮 损失：0.25"), Some("0.25"));
        assert_eq!(value(r"loss (?P<value>\S+)", "Übung 3: loss 0.25"), Some("0.25"));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_reason_and_what_to_do() {
        let refused = |expression: &str| Pattern::new(expression).expect_err("invalid");
        assert_eq!(refused("(unclosed"), "unclosed group");
        assert_eq!(refused("loss=.*"), "expected a regular expression with a group (?P<value>…)");
        for bomb in [r"(?P<value>(?:a{1,100}){1,100})", r"(?u)(?P<value>\w{1,100})", "(?P<value>(?:(?:x?){50}){50})"] {
            assert!(refused(bomb).contains("KiB compiled"), "{bomb}");
            assert!(refused(bomb).contains("flowcon.metric"), "{bomb}");
        }
    }

    #[test]
    fn of_a_long_line_the_beginning_is_read_and_no_number_is_cut() {
        let line = |before: usize| format!("{}loss=0.125 lr=1{}", "x".repeat(before), "y".repeat(LINE_LONGEST));
        let found = |before: usize| value(r"loss=(?P<value>\S+)", &line(before)).map(str::to_owned);
        assert_eq!(found(LINE_LONGEST - 11), Some("0.125".to_owned()));
        assert_eq!(found(LINE_LONGEST - 8), None, "0.1 is what the cut left");
        assert_eq!(found(LINE_LONGEST), None);
    }
}
