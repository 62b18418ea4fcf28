//! `flowctl logs`: a governed job's log as it stands, and as it grows. Imports: the API's client, the log of a job by its name.

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
    /// Name, id, or the beginning of an id. Of a file, and with `-o json`, it is told how the log is understood: see check-log
    #[arg(value_name = "JOB", value_hint = super::completion::JOB)]
    job: String,
    /// Print what the job writes from now on too, until it ends
    #[arg(long, short)]
    follow: bool,
    /// What `logs` alone does.
    #[arg(long, hide = true)]
    raw: bool,
}

/// Prints the log.
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
    let for_a_person = out.is_terminal();
    let mut decode = log.decoder();
    let mut print = |bytes: &[u8]| -> io::Result<()> {
        // What a job wrote is its owner's: a terminal gets no commands out of it.
        let harmless = |byte: &u8| !for_a_person || !byte.is_ascii_control() || b"\n\r\t".contains(byte);
        let kept: Vec<u8> = decode(bytes).into_iter().filter(|byte| harmless(byte)).collect();
        out.write_all(&kept).and_then(|()| out.flush())
    };
    if args.follow { log.follow(client, &mut print) } else { log.pour(&mut print) }
}
