//! Where output goes: how wide, whether coloured, in which form, and whether anybody reads it. Imports: std, rustix, tokio.

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

/// The forms of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table that fits the terminal.
    #[default]
    Table,
    /// Every column, nothing cut off.
    Wide,
    /// One JSON document, as the daemon's API describes it.
    Json,
    /// One JSON document a line: a container, an event, a check.
    Jsonl,
}

/// What `-o` says: a form, or for a command that makes one, a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// How to print.
    Form(Format),
    /// Where to write.
    File(PathBuf),
}

impl Output {
    /// Reads a form.
    pub fn forms() -> impl TypedValueParser<Value = Output> {
        EnumValueParser::<Format>::new().map(Output::Form)
    }

    /// Reads a file's name.
    pub fn files() -> impl TypedValueParser<Value = Output> {
        PathBufValueParser::new().map(Output::File)
    }

    /// How to print; a command that writes a file prints the usual way.
    pub fn form(&self) -> Format {
        match self {
            Output::Form(form) => *form,
            Output::File(_) => Format::default(),
        }
    }
}

/// When to colour.
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

/// What a stretch of text means; colour only repeats what the words say.
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
    /// Worth a look.
    Warn,
    /// Bad.
    Bad,
    /// The eye's anchor.
    Accent,
}

/// What a page may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns; `None` = nothing is cut off.
    pub columns: Option<usize>,
    /// Whether to colour.
    pub color: bool,
}

impl Look {
    /// The text in its tone.
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

    /// The text, cut to the page where it has a width.
    pub fn fit(&self, text: &str) -> String {
        self.columns.map_or_else(|| text.to_owned(), |columns| text::fit(text, columns))
    }

    /// The text in lines that fit the page, each after `indent` blanks except the first.
    pub fn wrapped(&self, text: &str, indent: usize) -> String {
        let Some(columns) = self.columns else { return text.to_owned() };
        text::wrap(text, columns.saturating_sub(indent).max(20)).join(&format!("\n{}", " ".repeat(indent)))
    }
}

/// The standard output with what the user asked for.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// The form.
    pub format: Format,
    color: bool,
    terminal: bool,
}

impl Screen {
    /// What the arguments and the environment ask for.
    pub fn new(format: Format, color: ColorChoice) -> Screen {
        let terminal = io::stdout().is_terminal();
        Screen { format, color: wanted(color, terminal), terminal }
    }

    /// Whether JSON was asked for.
    pub fn is_json(&self) -> bool {
        matches!(self.format, Format::Json | Format::Jsonl)
    }

    /// Whether a person watches.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The page as it is now: a terminal's width changes.
    pub fn look(&self) -> Look {
        let columns = (self.format != Format::Wide).then(|| columns().max(40));
        Look { columns, color: self.color }
    }

    /// Waits until nobody reads the output any more; for ever where that cannot be told, as of a file.
    pub async fn reader_gone(&self) {
        // The system reports a pipe without a reader as an error of its writing end. Unchecked, its mode stays as others share it.
        let output = io::stdout().as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd_unchecked);
        if let Ok(output) = output
            && output.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// Prints the text as it stands.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Prints a document: indented, or on one line.
    pub fn print_json<T: Serialize>(&self, document: &T) -> io::Result<()> {
        let mut text = match self.format {
            Format::Jsonl => serde_json::to_string(document)?,
            _ => serde_json::to_string_pretty(document)?,
        };
        text.push('\n');
        self.print(&text)
    }
}

/// Whether messages to the standard error may be coloured.
pub fn error_look(color: ColorChoice) -> Look {
    Look { columns: None, color: wanted(color, io::stderr().is_terminal()) }
}

fn wanted(color: ColorChoice, terminal: bool) -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb"),
    }
}

fn columns() -> usize {
    let told = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    told.or_else(seen).filter(|columns| *columns > 0).unwrap_or(80)
}
