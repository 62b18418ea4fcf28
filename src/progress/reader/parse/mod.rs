//! Finds the meaning of each number of a line.
//!
//! ```text
//! notation, line tags, prefix → message → scan (shape, numbers) → fields | table, with the words of the lexicon
//! ```
//!
//! Imports: model, and the rendering of a line from `decode`.

mod bytes;
mod columns;
pub mod commas;
pub mod fields;
mod filter;
mod gap;
pub mod label;
pub mod layout;
pub mod lexicon;
pub mod line_tags;
pub mod meaning;
pub mod notation;
pub mod number;
mod numeral;
mod phrases;
pub mod prefix;
pub mod records;
mod roles;
pub mod scan;
pub mod table;
mod vocabulary;
