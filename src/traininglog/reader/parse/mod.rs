//! Finds the meaning of each number of a line.
//!
//! ```text
//! notation, line tags, prefix → message → scan (shape, numbers) → fields | table, with the words of the lexicon
//! ```

mod bytes;
mod columns;
pub(super) mod commas;
pub(super) mod fields;
mod filter;
pub(crate) mod gap;
pub(super) mod layout;
pub(super) mod lexicon;
pub(super) mod line_tags;
pub(super) mod meaning;
pub(super) mod notation;
pub(super) mod number;
mod numeral;
pub(super) mod pattern;
mod phrases;
pub(super) mod prefix;
mod roles;
pub(super) mod scan;
pub(super) mod table;
mod vocabulary;
