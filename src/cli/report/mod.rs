//! `flowctl report`: the governor's effect on the jobs of a time span, as one self-contained HTML page.
//!
//! `data` fetches the daemon's history, `estimate` estimates completion times under plain sharing, `forecasts` judges the times left, `measure` compares with control
//! periods (`measured` is its text), `charts` and `tables` show the jobs, `sweeps` their sweeps, `page` assembles the document.

mod charts;
mod data;
mod estimate;
mod forecasts;
mod measure;
#[cfg(test)]
mod measure_truth_tests;
mod measured;
mod page;
mod sweeps;
mod tables;
#[cfg(test)]
mod truth_tests;

use api::client::Client;
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::Path;
use term::exit::{Exit, Failure};
use term::message;
use term::screen::{Format, Output};
use term::text;
use term::when;

/// Length of a report without `--since`, in milliseconds.
const DEFAULT_LENGTH_MS: u64 = 86_400_000;

/// Arguments of `flowctl report`.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Start of the report: 10m, 2h or 3d (ago), 14:05, or RFC 3339 [default: a day ago]
    #[arg(long, value_parser = when::instant, value_name = "TIME")]
    since: Option<u64>,
    /// End of the report [default: now]
    #[arg(long, value_parser = when::instant, value_name = "TIME")]
    until: Option<u64>,
    /// File to write the page to; `-` is standard output
    // Replaces the global argument of the same name.
    #[arg(long, short, value_parser = Output::files(), default_value = "report.html", value_name = "FILE")]
    output: Output,
}

/// `flowctl report`.
pub(crate) async fn report(client: &Client, args: &ReportArgs) -> Result<(), Failure> {
    let until = args.until.unwrap_or_else(when::now_unix_ms).min(when::now_unix_ms());
    let since = args.since.unwrap_or(until.saturating_sub(DEFAULT_LENGTH_MS));
    if since >= until {
        return Err(Failure::new(
            Exit::Usage,
            "--since is not before --until",
            "give an earlier --since or a later --until",
        ));
    }
    // Whoever means the format would get a file called `json`.
    let file = match &args.output {
        Output::File(file) if !is_format(file) => file,
        _ => {
            return Err(Failure::new(
                Exit::Usage,
                "a report is written only as an HTML page",
                "name its file after the command: `flowctl report -o report.html`; `flowctl history -o json` prints its data",
            ));
        }
    };
    let data = data::fetch(client, since, until).await?;
    if data.jobs.is_empty() {
        let message = format!("no job ran between {} and {}", when::clock(since), when::clock(until));
        return Err(Failure::new(
            Exit::NotFound,
            message,
            "give an earlier --since; `flowctl history` lists the recorded jobs",
        ));
    }
    let page = page::html(&data);
    write(file, &page)?;
    if file != Path::new("-") {
        let jobs = text::count(data.jobs.len(), "job");
        message::print(format_args!("{jobs}, {} in {}", text::bytes(page.len() as u64), file.display()));
    }
    Ok(())
}

/// Whether a file name is one of the output formats of other commands.
fn is_format(file: &Path) -> bool {
    Format::value_variants()
        .iter()
        .filter_map(Format::to_possible_value)
        .any(|format| file == Path::new(format.get_name()))
}

fn write(path: &Path, page: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(std::io::stdout().lock().write_all(page.as_bytes())?);
    }
    std::fs::write(path, page).map_err(|error| {
        let message = format!("cannot write the report to {}: {error}", path.display());
        Failure::new(Exit::Failed, message, "check that the directory exists, is writable and has free space")
    })
}
