//! Messages of `flowctl` on standard error. Nobody may be reading them any more, which is no reason to stop: a command is running, or
//! something is to be cleaned up.
//!
//! Imports: std only.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line, after the name of the program.
pub fn print(text: impl Display) {
    let _ = writeln!(io::stderr(), "flowctl: {text}");
}

/// Prints text as it is.
pub fn pass_on(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
