//! Messages of `flowctl run` on standard error. Nobody may be reading them any more, which is no reason to stop: the command is running.
//!
//! Imports: std only.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line.
pub(super) fn warn(text: impl Display) {
    let _ = writeln!(io::stderr(), "flowctl: {text}");
}

/// Prints text as it is.
pub(super) fn pass_on(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
