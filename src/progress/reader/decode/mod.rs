//! Bytes → the lines, entries and records that they are made of.
//!
//! Imports: its files.

pub mod entries;
pub mod events;
pub mod lines;
pub mod wide;

pub use lines::Rendering;
