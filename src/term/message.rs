//! Messages. Nobody may be reading them any more, which is no reason to stop: a command is running, or something is to be cleaned up.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line of `flowctl`, after its name.
pub fn print(text: impl Display) {
    print_of("flowctl", text);
}

/// Prints a line of another program, after its name.
pub fn print_of(program: &str, text: impl Display) {
    let _ = writeln!(io::stderr(), "{program}: {text}");
}

/// Prints a line of another program on standard output.
pub fn say(program: &str, text: impl Display) {
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        print_of(program, format_args!("cannot write to standard output: {error}"));
    }
}

/// Prints text as it is.
pub fn pass_on(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
