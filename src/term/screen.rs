//! Standard output: its width, colours and format, and whether its reader is still there.

use super::exit::{Exit, Failure};
use super::text;
use clap::ValueEnum;
use clap::builder::{EnumValueParser, PathBufValueParser, TypedValueParser};
use serde::Serialize;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use tokio::io::Interest;
use tokio::net::unix::pipe;

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table that fits the terminal.
    #[default]
    Table,
    /// Every column, nothing cut off.
    Wide,
    /// One JSON document, as in the daemon's API.
    Json,
    /// One JSON document per line: a container, an event, a check.
    Jsonl,
}

impl Format {
    /// Whether it is JSON.
    pub fn is_json(self) -> bool {
        matches!(self, Format::Json | Format::Jsonl)
    }
}

/// Value of `-o`: a format, or a file for commands that write one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The format to print.
    Form(Format),
    /// The file to write.
    File(PathBuf),
}

impl Output {
    /// Parser of a format.
    pub fn forms() -> impl TypedValueParser<Value = Output> {
        EnumValueParser::<Format>::new().map(Output::Form)
    }

    /// Parser of a file name.
    pub fn files() -> impl TypedValueParser<Value = Output> {
        PathBufValueParser::new().map(Output::File)
    }

    /// The format to print; the default for a command that writes a file.
    pub fn form(&self) -> Format {
        match self {
            Output::Form(form) => *form,
            Output::File(_) => Format::default(),
        }
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Meaning of a piece of text; colour only repeats what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// Less important.
    Dim,
    /// A title.
    Bold,
    /// Good.
    Good,
    /// Needs attention.
    Warn,
    /// Bad.
    Bad,
    /// Highlighted.
    Accent,
}

/// Width and colours of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns; `None`: nothing is cut off.
    pub columns: Option<usize>,
    /// Whether to use colours.
    pub color: bool,
}

impl Look {
    /// Colours the text by its tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Dim => "2",
            Tone::Bold => "1",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Accent => "36",
        };
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Truncates the text to the width of the page, if it has one.
    pub fn fit(&self, text: &str) -> String {
        self.columns.map_or_else(|| text.to_owned(), |columns| text::fit(text, columns))
    }

    /// Wraps the text to the page; lines after the first are indented by `indent` spaces.
    pub fn wrapped(&self, text: &str, indent: usize) -> String {
        let Some(columns) = self.columns else { return text.to_owned() };
        text::wrap(text, columns.saturating_sub(indent).max(20)).join(&format!("\n{}", " ".repeat(indent)))
    }
}

/// Standard output with the requested format and colours.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// The output format.
    pub format: Format,
    color: bool,
    terminal: bool,
}

impl Screen {
    /// Standard output as configured by the arguments and the environment.
    pub fn new(format: Format, color: ColorChoice) -> Screen {
        let terminal = io::stdout().is_terminal();
        Screen { format, color: use_color(color, terminal), terminal }
    }

    /// Whether the output is JSON.
    pub fn is_json(&self) -> bool {
        self.format.is_json()
    }

    /// Whether the output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The current width and colours; a terminal may be resized.
    pub fn look(&self) -> Look {
        let columns = (self.format != Format::Wide).then(|| columns().max(40));
        Look { columns, color: self.color }
    }

    /// Waits until the reader of the output is gone; never returns if that cannot be detected, as for a file.
    pub async fn reader_gone(&self) {
        // A pipe without a reader reports an error at its writing end. Unchecked: the mode of the pipe, which is shared, must not change.
        let output = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
        if let Ok(output) = output
            && output.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// Prints the text unchanged.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Formats a document: as JSON, as one line of JSON for each of its `rows`, or as a page.
    pub fn rendered<D: Serialize, R: Serialize>(
        &self,
        document: &D,
        rows: &[R],
        page: impl FnOnce(&Look) -> String,
    ) -> Result<String, Failure> {
        let unprintable = |error: serde_json::Error| {
            Failure::new(Exit::Failed, format!("cannot print the reply as JSON: {error}"), "use -o table")
        };
        let mut text = String::new();
        match self.format {
            Format::Json => {
                text = text::clean_json(&serde_json::to_string_pretty(document).map_err(unprintable)?);
                text.push('\n');
            }
            Format::Jsonl => {
                for row in rows {
                    text.push_str(&text::clean_json(&serde_json::to_string(row).map_err(unprintable)?));
                    text.push('\n');
                }
            }
            Format::Table | Format::Wide => text = page(&self.look()),
        }
        Ok(text)
    }

    /// Prints a document; see [`Screen::rendered`].
    pub fn show<D: Serialize, R: Serialize>(
        &self,
        document: &D,
        rows: &[R],
        page: impl FnOnce(&Look) -> String,
    ) -> Result<(), Failure> {
        Ok(self.print(&self.rendered(document, rows, page)?)?)
    }

    /// Prints a document as JSON: on one line for `jsonl`, otherwise indented.
    pub fn print_json<T: Serialize>(&self, document: &T) -> io::Result<()> {
        let text = match self.format {
            Format::Jsonl => serde_json::to_string(document)?,
            _ => serde_json::to_string_pretty(document)?,
        };
        self.print(&(text::clean_json(&text) + "\n"))
    }
}

/// Colours of messages on standard error.
pub fn error_look(color: ColorChoice) -> Look {
    Look { columns: None, color: use_color(color, io::stderr().is_terminal()) }
}

fn use_color(color: ColorChoice, terminal: bool) -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// Whether the terminal cannot show Unicode. As in `htop`, the locale decides: the first of three variables that is set. The Linux console
/// has only 512 characters, without those for curves.
pub fn is_ascii_only(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
    let is_unicode = locale.contains("utf-8") || locale.contains("utf8");
    !is_unicode || set("TERM").is_some_and(|term| term == "linux" || term == "dumb")
}

fn columns() -> usize {
    let from_environment = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let from_terminal = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    from_environment.or_else(from_terminal).filter(|columns| *columns > 0).unwrap_or(80)
}

#[cfg(test)]
mod tests {
    use super::is_ascii_only;

    #[test]
    fn the_locale_determines_the_characters_of_the_terminal() {
        let knows = |variables: &[(&str, &str)]| {
            is_ascii_only(|name| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(!knows(&[("LANG", "de_DE.UTF-8"), ("TERM", "xterm")]));
        assert!(!knows(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]), "the first that is set");
        assert!(knows(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!knows(&[("LC_ALL", ""), ("LANG", "de_DE.UTF-8")]), "an empty variable counts as not set");
        assert!(knows(&[]) && knows(&[("LANG", "de_DE@euro")]));
        assert!(knows(&[("LANG", "C.UTF-8"), ("TERM", "linux")]));
    }
}
