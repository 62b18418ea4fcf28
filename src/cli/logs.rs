//! `flowctl logs`: prints or follows the log of a governed job.

use super::check_log::{self, CheckLogArgs};
use super::job_log::{self, JobLog};
use api::client::Client;
use clap::Args;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use term::exit::Failure;
use term::screen::Format;
use term::text;

/// Arguments of `flowctl logs`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogsArgs {
    /// Name, id, or the beginning of an id; for a file, or with `-o json`, the log is parsed as by check-log
    #[arg(value_name = "JOB", value_hint = super::completion::JOB)]
    job: String,
    /// Keep printing new output until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Print only the last N lines, and with -f what follows
    #[arg(long = "tail", short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Print the log itself, even for a file or with `-o json`.
    #[arg(long, hide = true)]
    raw: bool,
}

impl LogsArgs {
    /// Whether the log is printed as it is, and not what was read from it.
    pub(crate) fn prints_text(&self) -> bool {
        self.raw || self.follow || self.last.is_some()
    }
}

/// Prints the log of a job.
///
/// # Errors
/// There is no such job, its log cannot be read by this user, or the output could not be written.
pub(crate) fn run(args: &LogsArgs, client: &Client, format: Format) -> Result<(), Failure> {
    if !args.prints_text() && (format.is_json() || check_log::is_path(&args.job)) {
        return check_log::run(&CheckLogArgs { log: args.job.clone(), ..CheckLogArgs::default() }, client, format);
    }
    let log = job_log::find(client, &args.job)?;
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    let mut decode = log.decoder();
    let mut harmless = Harmless::default();
    let mut before = match args.last {
        Some(last) => begin_of_last(last, &log)?,
        None => 0,
    };
    let mut print = |bytes: &[u8]| -> io::Result<()> {
        let mut plain = decode(bytes);
        before -= plain.drain(..before.min(plain.len())).len();
        out.write_all(&if is_terminal { harmless.filter(&plain) } else { plain }).and_then(|()| out.flush())
    };
    if args.follow { log.follow(client, &mut print) } else { log.pour(&mut print) }
}

/// Returns the number of bytes before the last lines of a log.
fn begin_of_last(lines: usize, log: &JobLog) -> Result<usize, Failure> {
    let (mut decode, mut last) = (log.decoder(), LastLines { most: lines, ..LastLines::default() });
    log.pour(&mut |bytes| {
        last.push(&decode(bytes));
        Ok(())
    })?;
    Ok(last.begin())
}

/// Where the last lines of a text begin.
#[derive(Default)]
struct LastLines {
    most: usize,
    begins: VecDeque<usize>,
    read: usize,
    is_in_line: bool,
}

impl LastLines {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if !self.is_in_line {
                self.begins.push_back(self.read);
                if self.begins.len() > self.most {
                    self.begins.pop_front();
                }
            }
            self.is_in_line = *byte != b'\n';
            self.read += 1;
        }
    }

    fn begin(&self) -> usize {
        self.begins.front().copied().unwrap_or(self.read)
    }
}

/// Removes what must not reach a terminal from the untrusted output of a job, also across chunks.
#[derive(Default)]
struct Harmless {
    /// The beginning of a character whose end is in the next chunk.
    begun: Vec<u8>,
}

impl Harmless {
    fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(bytes);
        let mut kept = Vec::with_capacity(whole.len());
        let mut left = whole.len();
        for chunk in whole.utf8_chunks() {
            let safe = chunk.valid().chars().filter(|c| "\n\r\t".contains(*c) || !text::is_unsafe(*c));
            kept.extend(safe.collect::<String>().into_bytes());
            left -= chunk.valid().len() + chunk.invalid().len();
            match str::from_utf8(chunk.invalid()) {
                Err(error) if left == 0 && error.error_len().is_none() => self.begun = chunk.invalid().to_vec(),
                // Not UTF-8, but some terminals take a byte from 0x80 to 0x9F for a control.
                _ => kept.extend(chunk.invalid().iter().filter(|byte| !(0x80..=0x9F).contains(*byte))),
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::{Harmless, LastLines};

    #[test]
    fn the_last_lines_begin_where_tail_begins_them() {
        for (text, most, expected) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 1, "c"),
            ("a\n\n", 1, "\n"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\nb\n", 0, ""),
            ("", 3, ""),
        ] {
            let mut last = LastLines { most, ..LastLines::default() };
            text.as_bytes().chunks(2).for_each(|chunk| last.push(chunk));
            assert_eq!(&text[last.begin()..], expected, "{text:?}");
        }
    }

    #[test]
    fn controls_are_removed_and_text_is_kept_also_across_chunks() {
        let text =
            "loss\u{1b}[2J 0.5\u{9b}31m \u{7f}\u{1}5 µs, 2² »é 模\u{202e}型\u{2066}\u{2069}\u{200f}\u{61c}\t\r\n";
        let whole = [text.as_bytes(), b"\xE9\x9B\n"].concat();
        let expected = ["loss[2J 0.531m 5 µs, 2² »é 模型\t\r\n".as_bytes(), b"\xE9\n"].concat();
        for size in 1..=whole.len() {
            let mut harmless = Harmless::default();
            let kept: Vec<u8> = whole.chunks(size).flat_map(|chunk| harmless.filter(chunk)).collect();
            assert_eq!(kept, expected, "in chunks of {size}");
        }
    }
}
