//! `flowctl logs`: prints or follows the log of a governed job. Imports: the API's client, `job_log`.

use super::check_log::{self, CheckLogArgs};
use super::job_log;
use crate::api::client::Client;
use crate::term::exit::Failure;
use crate::term::screen::Format;
use clap::Args;
use std::io::{self, IsTerminal, Write};

/// Arguments of `flowctl logs`.
#[derive(Args, Clone, Debug)]
pub struct LogsArgs {
    /// Name, id, or the beginning of an id; for a file, or with `-o json`, the log is parsed as by check-log
    #[arg(value_name = "JOB", value_hint = super::completion::JOB)]
    job: String,
    /// Keep printing new output until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Print the log itself, even for a file or with `-o json`.
    #[arg(long, hide = true)]
    raw: bool,
}

/// Prints the log of a job.
///
/// # Errors
/// There is no such job, its log cannot be read by this user, or the output could not be written.
pub fn run(args: &LogsArgs, client: &Client, format: Format) -> Result<(), Failure> {
    if !args.raw && !args.follow && (format.is_json() || check_log::is_path(&args.job)) {
        return check_log::run(&CheckLogArgs { log: args.job.clone(), ..CheckLogArgs::default() }, client, format);
    }
    let log = job_log::find(client, &args.job)?;
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    let mut decode = log.decoder();
    let mut harmless = Harmless::default();
    let mut print = |bytes: &[u8]| -> io::Result<()> {
        let text = decode(bytes);
        out.write_all(&if is_terminal { harmless.filter(&text) } else { text }).and_then(|()| out.flush())
    };
    if args.follow { log.follow(client, &mut print) } else { log.pour(&mut print) }
}

/// Removes control characters, which must not reach a terminal, from the untrusted output of a job, also across chunks.
#[derive(Default)]
struct Harmless {
    /// Whether a chunk ended with the first byte of U+0080 to U+00BF, half of which are controls (U+009B begins a sequence).
    after_c2: bool,
}

impl Harmless {
    fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if std::mem::take(&mut self.after_c2) {
                if (0x80..=0x9F).contains(&byte) {
                    continue;
                }
                kept.push(0xC2);
            }
            match byte {
                0xC2 => self.after_c2 = true,
                _ if byte.is_ascii_control() && !b"\n\r\t".contains(&byte) => {}
                _ => kept.push(byte),
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::Harmless;

    #[test]
    fn controls_are_removed_and_text_is_kept_also_across_chunks() {
        let whole = "loss\u{1b}[2J 0.5\u{9b}31m \u{7f}\u{1}5 µs, 2² »é\t\r\n".as_bytes();
        let expected = "loss[2J 0.531m 5 µs, 2² »é\t\r\n";
        for size in 1..=whole.len() {
            let mut harmless = Harmless::default();
            let kept: Vec<u8> = whole.chunks(size).flat_map(|chunk| harmless.filter(chunk)).collect();
            assert_eq!(String::from_utf8_lossy(&kept), expected, "in chunks of {size}");
        }
    }
}
