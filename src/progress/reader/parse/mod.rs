//! One line → what each of its numbers means.
//!
//! ```text
//! labels, prefix → message → scan (shape, numbers) → fields | table, by the words of the lexicon
//! ```
//!
//! Imports: model, and `decode` for what a line is.

mod bytes;
mod columns;
mod counting;
pub mod fields;
mod gap;
mod kept;
pub mod labels;
mod layout;
pub mod lexicon;
pub mod meaning;
pub mod number;
mod numeral;
pub mod prefix;
pub mod records;
mod roles;
pub mod scan;
pub mod table;
mod vocabulary;
