//! `flowctl report`: what the governor did for one's own jobs, as one HTML page that needs no network.
//!
//! `data` asks the daemon's history, `estimate` says what plain sharing would have given,
//! `measure` what it did give where there is a holdback (`measured` words it), `charts` draws, `tables` lists, `page` puts it together.
//! Imports: the API's client, sim's drawing primitives and its sharing.

mod charts;
mod data;
mod estimate;
mod measure;
#[cfg(test)]
mod measure_truth_tests;
mod measured;
mod page;
mod tables;
#[cfg(test)]
mod truth_tests;

use crate::api::client::Client;
use crate::term::exit::{Exit, Failure};
use crate::term::screen::Output;
use crate::term::text;
use crate::term::when;
use clap::Args;
use std::io::Write;
use std::path::Path;

/// Without `--since` the report is about so long a time.
const USUALLY_MS: u64 = 86_400_000;

/// Arguments of `flowctl report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Not before TIME: 10m or 2h or 3d (ago), 14:05, or RFC 3339; a day ago where not told
    #[arg(long, value_parser = when::instant, value_name = "TIME")]
    since: Option<u64>,
    /// Not after TIME; now where not told
    #[arg(long, value_parser = when::instant, value_name = "TIME")]
    until: Option<u64>,
    /// Where the page goes; `-` is standard output
    // The same name as the global argument, which it takes the place of.
    #[arg(long, short, value_parser = Output::files(), default_value = "report.html", value_name = "FILE")]
    output: Output,
}

/// `flowctl report`.
pub async fn report(client: &Client, args: &ReportArgs) -> Result<(), Failure> {
    let until = args.until.unwrap_or_else(when::now_unix_ms).min(when::now_unix_ms());
    let since = args.since.unwrap_or(until.saturating_sub(USUALLY_MS));
    if since >= until {
        return Err(Failure::new(Exit::Usage, "--since is not before --until", "give a time before the other"));
    }
    let Output::File(file) = &args.output else {
        return Err(Failure::new(
            Exit::Usage,
            "a report is a page",
            "name its file after the command: `flowctl report -o FILE`",
        ));
    };
    let data = data::asked(client, since, until).await?;
    if data.jobs.is_empty() {
        let message = format!("no job ran between {} and {}", when::clock(since), when::clock(until));
        return Err(Failure::new(
            Exit::NotFound,
            message,
            "widen --since; `flowctl history` lists the jobs that are kept",
        ));
    }
    let page = page::html(&data);
    write(file, &page)?;
    if file != Path::new("-") {
        let jobs = text::count(data.jobs.len(), "job");
        eprintln!("flowctl: {jobs}, {} in {}", text::bytes(page.len() as u64), file.display());
    }
    Ok(())
}

fn write(path: &Path, page: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(std::io::stdout().lock().write_all(page.as_bytes())?);
    }
    std::fs::write(path, page).map_err(|error| {
        let message = format!("cannot write the report to {}: {error}", path.display());
        Failure::new(Exit::Failed, message, "check the folder, its permissions and the free space")
    })
}
