//! The numbers that the pattern of the hints finds.

use super::notation::parse;
use crate::pattern::Pattern;

/// The numbers of a line that matches the pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Matched {
    pub value: f64,
    pub current: Option<f64>,
    pub total: Option<f64>,
}

/// Returns the numbers that the pattern finds on a line.
pub(crate) fn matched(pattern: &Pattern, line: &[u8]) -> Option<Matched> {
    let found = pattern.find(line)?;
    let number = |text: &[u8]| parse(text.trim_ascii());
    Some(Matched {
        value: number(found.value)?,
        current: found.current.and_then(number),
        total: found.total.and_then(number),
    })
}
