//! The numbers that the owner's own description of a line, `flowcon.pattern`, finds on it.
//!
//! Imports: model.

use super::number;
use crate::model::Pattern;

/// What a line says by the pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Matched {
    pub value: f64,
    pub current: Option<f64>,
    pub total: Option<f64>,
}

pub(super) fn read(pattern: &Pattern, line: &[u8]) -> Option<Matched> {
    let found = pattern.find(line)?;
    let number = |text: &[u8]| number::parse(text.trim_ascii());
    Some(Matched {
        value: number(found.value)?,
        current: found.current.and_then(number),
        total: found.total.and_then(number),
    })
}
