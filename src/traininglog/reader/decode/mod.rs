//! Splits bytes into lines, log entries and records.

pub(super) mod cri_file;
pub(super) mod json_file;
pub(super) mod lines;
pub(super) mod log_file;
pub(super) mod pieces;
pub(super) mod tensorboard;
pub(super) mod utf16;

pub(crate) use lines::Rendering;
