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
    let is_json = matches!(format, Format::Json | Format::Jsonl);
    if !args.raw && !args.follow && (is_json || check_log::is_path(&args.job)) {
        return check_log::run(&CheckLogArgs { log: args.job.clone(), ..CheckLogArgs::default() }, client, format);
    }
    let log = job_log::find(client, &args.job)?;
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    let mut decode = log.decoder();
    let mut print = |bytes: &[u8]| -> io::Result<()> {
        // The output of a job is untrusted: control characters must not reach a terminal.
        let harmless = |byte: &u8| !is_terminal || !byte.is_ascii_control() || b"\n\r\t".contains(byte);
        let kept: Vec<u8> = decode(bytes).into_iter().filter(|byte| harmless(byte)).collect();
        out.write_all(&kept).and_then(|()| out.flush())
    };
    if args.follow { log.follow(client, &mut print) } else { log.pour(&mut print) }
}
