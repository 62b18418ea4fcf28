//! The owner's own description of the lines that matter, from the label `flowcon.pattern`.
//!
//! Assumption: the regular expression comes from whoever labelled the container; the `regex` crate bounds its time and size.
//! Imports: nothing.

use super::number;
use regex::bytes::{Regex, RegexBuilder};

/// Compiled size at most, so that a hostile label cannot take the memory of a daemon.
const SIZE_MAX: usize = 1 << 20;

/// A valid pattern: it has a group `value`.
#[derive(Clone, Debug)]
pub(in crate::progress) struct Pattern {
    regex: Regex,
}

/// What a line says by the pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Matched {
    pub value: f64,
    pub current: Option<f64>,
    pub total: Option<f64>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.regex.as_str() == other.regex.as_str()
    }
}

impl Pattern {
    /// # Errors
    /// In words for the owner: the expression is invalid, too large, or has no group `value`.
    pub(in crate::progress) fn new(expression: &str) -> Result<Pattern, String> {
        let regex = RegexBuilder::new(expression)
            .size_limit(SIZE_MAX)
            .dfa_size_limit(SIZE_MAX)
            .build()
            .map_err(|error| error.to_string().lines().last().unwrap_or("it is invalid").trim().to_owned())?;
        match regex.capture_names().flatten().any(|name| name == "value") {
            true => Ok(Pattern { regex }),
            false => Err("it has no group (?<value>…)".to_owned()),
        }
    }

    pub(super) fn read(&self, line: &[u8]) -> Option<Matched> {
        let groups = self.regex.captures(line)?;
        let number = |name| groups.name(name).and_then(|text| number::parse(text.as_bytes().trim_ascii()));
        Some(Matched { value: number("value")?, current: number("current"), total: number("total") })
    }
}
