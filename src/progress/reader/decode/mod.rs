//! Splits bytes into lines, log entries and records.
//!
//! Imports: its files.

pub mod json_file;
pub mod lines;
pub mod tensorboard;
pub mod utf16;

pub use lines::Rendering;
