//! `flowctl history`: past jobs, the progress and resources of one job over time, and past events.

use super::cost;
use super::event_line::event_line;
use super::sweep::past::past_sweeps;
use super::top::draw::curve;
use api::client::{Client, segment};
use api::wire::{BlockRecord, BlockRecords, Event, EventRecords, JobRecord, JobRecords, Sample, Samples};
use clap::Args;
use model::{End, EndEvidence};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use term::exit::{Exit, Failure};
use term::message;
use term::screen::{self, Look, Screen, Tone};
use term::table::{Cell, Column, table};
use term::text::{self, clean};
use term::when;

/// Maximum number of jobs or events in one result: the newest; `--since` and `--until` narrow it.
const ROWS_AT_MOST: usize = 20_000;
/// Maximum number of samples in one result.
const SAMPLES_AT_MOST: usize = 1_000_000;
/// Approximate number of rows for one job; `-o jsonl` prints all samples.
const TABLE_ROWS: u64 = 120;
/// Default of `--since` for the list of jobs.
const DEFAULT_SPAN_MS: u64 = 86_400_000;

/// Arguments of `flowctl history`.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// Name, id, or the beginning of an id of a running or ended job; the newest match is shown
    #[arg(value_hint = super::completion::JOB)]
    job: Option<String>,
    /// Not before TIME: 10m or 2h or 3d (ago), 14:05, or RFC 3339 [default: the start of JOB, or one day ago]
    #[arg(long, value_parser = when::instant, value_name = "TIME")]
    since: Option<u64>,
    /// Not after TIME
    #[arg(long, value_parser = when::instant, value_name = "TIME")]
    until: Option<u64>,
    /// Show events instead: starts, ends, lists, holds, commands
    #[arg(long)]
    events: bool,
    /// Only the trials of this sweep: its name, or that of one of its jobs
    #[arg(long, value_name = "NAME", conflicts_with_all = ["job", "events"])]
    group: Option<String>,
}

/// `flowctl history`.
pub(crate) async fn history(client: &Client, args: &HistoryArgs, screen: &Screen) -> Result<(), Failure> {
    let until = args.until.unwrap_or_else(when::now_unix_ms);
    match &args.job {
        _ if args.events => events(client, args, until, screen).await,
        None => {
            let since = args.since.unwrap_or(until.saturating_sub(DEFAULT_SPAN_MS));
            let mut found = jobs(client, &span(since, until), None).await?;
            if let Some(name) = &args.group {
                found = of_sweep(found, name, since)?;
            }
            screen.show(&found, &found, |look| jobs_page(&found, since, look))
        }
        Some(job) => one(client, job, args, until, screen).await,
    }
}

async fn one(client: &Client, name: &str, args: &HistoryArgs, until: u64, screen: &Screen) -> Result<(), Failure> {
    let found = jobs(client, &span(args.since.unwrap_or(0), until), Some(name)).await?;
    // A job that had this name before it was renamed comes after those that have it.
    let Some(job) = found.into_iter().max_by_key(|job| (job.name == name, job.started_unix_ms, job.number)) else {
        let message = format!("no run of {name} found between {} and {}", since_text(args.since), when::clock(until));
        return Err(Failure::new(
            Exit::NotFound,
            message,
            "widen --since and --until; `flowctl history` lists the jobs",
        ));
    };
    let since = args.since.unwrap_or(job.first_unix_ms);
    let lasted = until.min(job.last_unix_ms).saturating_sub(since.max(job.first_unix_ms));
    let every_ms = if screen.is_json() { 0 } else { lasted / TABLE_ROWS };
    let samples = samples(client, &span(since, until), Some(&job.id), every_ms).await?;
    let document = JobHistory { job, samples };
    screen.show(&document, &document.samples, |look| job_page(&document, every_ms, look))
}

async fn events(client: &Client, args: &HistoryArgs, until: u64, screen: &Screen) -> Result<(), Failure> {
    // Without a time, a job's events begin with the first.
    let earliest = if args.job.is_some() { 0 } else { until.saturating_sub(DEFAULT_SPAN_MS) };
    let job = args.job.as_ref().map_or_else(String::new, |job| format!("&job={}", segment(job)));
    let events = past_events(client, &(span(args.since.unwrap_or(earliest), until) + &job)).await?;
    let page = |look: &Look| events.iter().map(|event| event_line(event, look)).collect();
    screen.show(&events, &events, page)
}

fn since_text(since: Option<u64>) -> String {
    since.map_or_else(|| "its beginning".to_owned(), when::clock)
}

/// A job and its samples.
#[derive(Serialize)]
struct JobHistory {
    job: JobRecord,
    samples: Vec<Sample>,
}

/// The query parameters `since=…&until=…`.
pub(crate) fn span(since: u64, until: u64) -> String {
    format!("since={since}&until={until}")
}

/// Fetches the jobs of a time span, page by page.
pub(crate) async fn jobs(client: &Client, span: &str, job: Option<&str>) -> Result<Vec<JobRecord>, Failure> {
    let job = job.map_or_else(String::new, |job| format!("&job={}", segment(job)));
    let path = format!("/v1/history?{span}{job}&limit=2000");
    pages(client, &path, |page: JobRecords| (page.jobs, page.next)).await
}

/// Fetches the samples of a time span, one for each `every_ms`, page by page.
pub(crate) async fn samples(
    client: &Client,
    span: &str,
    job: Option<&str>,
    every_ms: u64,
) -> Result<Vec<Sample>, Failure> {
    let job = job.map_or_else(String::new, |job| format!("&job={}", segment(job)));
    let every = every_ms as f64 / 1000.0;
    let (mut all, mut after): (Vec<Sample>, Option<String>) = (Vec::new(), None);
    loop {
        let place = after.as_ref().map_or_else(String::new, |after| format!("&after={}", segment(after)));
        let page: Samples =
            client.get(&format!("/v1/history/samples?{span}{job}&every_s={every}&limit=20000{place}")).await?;
        all.extend(page.samples);
        match page.next.filter(|next| after.as_ref() != Some(next) && all.len() < SAMPLES_AT_MOST) {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// Fetches the events selected by the parameters of a query, page by page.
pub(crate) async fn past_events(client: &Client, query: &str) -> Result<Vec<Event>, Failure> {
    let path = format!("/v1/history/events?{query}&limit=5000");
    pages(client, &path, |page: EventRecords| (page.events, page.next)).await
}

/// Fetches one page of the events since a time, after the event with the sequence number `after`.
pub(crate) async fn events_after(client: &Client, since: u64, after: u64) -> Result<Vec<Event>, Failure> {
    let page: EventRecords = client.get(&format!("/v1/history/events?since={since}&after={after}&limit=5000")).await?;
    Ok(page.events)
}

/// Fetches the blocks of the switchback experiment within a time span, page by page.
pub(crate) async fn past_blocks(client: &Client, span: &str) -> Result<Vec<BlockRecord>, Failure> {
    pages(client, &format!("/v1/history/blocks?{span}"), |page: BlockRecords| (page.blocks, page.next)).await
}

/// Fetches the newest [`ROWS_AT_MOST`] rows of a path with a query, oldest first; `parts` splits a page into its rows and the cursor of
/// the next page.
async fn pages<P: DeserializeOwned, T>(
    client: &Client,
    path: &str,
    parts: impl Fn(P) -> (Vec<T>, Option<u64>),
) -> Result<Vec<T>, Failure> {
    let (mut newest, mut after, mut left_out) = (Vec::new(), 0, 0);
    loop {
        let (rows, next) = parts(client.get(&format!("{path}&after={after}")).await?);
        newest.extend(rows);
        let excess = newest.len().saturating_sub(ROWS_AT_MOST);
        newest.drain(..excess);
        left_out += excess;
        match next.filter(|next| *next > after) {
            Some(next) => after = next,
            None => break,
        }
    }
    if left_out > 0 {
        message::print(format_args!(
            "only the newest {ROWS_AT_MOST} rows are shown, {left_out} older ones are not; choose a shorter span with --since \
             and --until"
        ));
    }
    Ok(newest)
}

/// The jobs that are trials of a sweep.
fn of_sweep(mut jobs: Vec<JobRecord>, name: &str, since: u64) -> Result<Vec<JobRecord>, Failure> {
    let sweeps = past_sweeps(&jobs);
    let trials = sweeps.iter().filter(|sweep| sweep.is_called(name)).flat_map(|sweep| &sweep.trials);
    let numbers: BTreeSet<u64> = trials.map(|job| job.number).collect();
    if numbers.is_empty() {
        let message = format!("no sweep called {name} ran since {}, and no trial of that name", when::clock(since));
        return Err(Failure::new(
            Exit::NotFound,
            message,
            "`flowctl history -o wide` shows the sweeps; --since looks further back",
        ));
    }
    jobs.retain(|job| numbers.contains(&job.number));
    Ok(jobs)
}

fn jobs_page(jobs: &[JobRecord], since: u64, look: &Look) -> String {
    if jobs.is_empty() {
        return format!("no job ran since {}; use --since to look further back\n", when::clock(since));
    }
    let mut columns = vec![
        Column::elastic("NAME", 12),
        Column::left("ID"),
        Column::left("STARTED"),
        Column::right("LASTED"),
        Column::right("CPU"),
        Column::left("METRIC"),
        Column::left("PROGRESS"),
    ];
    let is_wide = look.columns.is_none();
    if is_wide {
        columns.extend([Column::left("SWEEP"), Column::left("USER")]);
    }
    let disturbed: Vec<Option<f64>> = jobs.iter().map(disturbed).collect();
    let is_any_disturbed = disturbed.iter().any(Option::is_some);
    if is_any_disturbed {
        columns.push(Column::right("DISTURBED"));
    }
    columns.push(Column::left("END"));
    let sweeps = past_sweeps(jobs);
    let trials = sweeps.iter().flat_map(|sweep| sweep.trials.iter().map(|trial| (trial.number, &sweep.name)));
    let sweep_of: BTreeMap<u64, &String> = trials.collect();
    let row = |(job, disturbed): (&JobRecord, &Option<f64>)| {
        let mut row = job_row(job);
        if is_wide {
            row.extend([Cell::or_dash(sweep_of.get(&job.number).copied().cloned()), Cell::or_dash(job.user.clone())]);
        }
        if is_any_disturbed {
            row.push(disturbed.map_or_else(|| Cell::plain(""), |part| Cell::new(Tone::Warn, &text::percent(part))));
        }
        row.push(end_cell(job));
        row
    };
    let rows: Vec<Vec<Cell>> = jobs.iter().zip(&disturbed).map(row).collect();
    table(&columns, &rows, look)
}

/// The part of its CPU that a run lost beside other jobs, if that disturbed its speed.
fn disturbed(job: &JobRecord) -> Option<f64> {
    cost::disturbed(job.lost_cpu_s, job.latest.as_ref()?.cpu_s)
}

/// `runs`, or how the job ended: `done`, `failed 1`, `killed: memory`, `stopped`; `ended` if that is unknown.
pub(crate) fn end(job: &JobRecord) -> String {
    how_it_ended(job).map_or_else(|| "runs".to_owned(), |end| end.to_string())
}

/// How the job ended, as recorded; records of earlier versions have only the exit code.
fn how_it_ended(job: &JobRecord) -> Option<End> {
    job.ended_unix_ms?;
    let recorded = job.end.as_deref().and_then(|kind| End::of_kind(kind, job.exit_code));
    Some(recorded.unwrap_or_else(|| EndEvidence { exit_code: job.exit_code, ..EndEvidence::default() }.end()))
}

fn job_row(job: &JobRecord) -> Vec<Cell> {
    let latest = job.latest.as_ref();
    let lasted = job.ended_unix_ms.unwrap_or(job.last_unix_ms).saturating_sub(job.started_unix_ms);
    let value = latest.and_then(value_text);
    let metric = value.map(|value| format!("{} {value}", job.metric.as_deref().unwrap_or("value")));
    vec![
        Cell::new(Tone::Bold, &job.name),
        Cell::plain(&text::fit(&clean(&job.short_id), 24)),
        Cell::plain(&when::clock(job.started_unix_ms)),
        Cell::plain(&text::duration(lasted as f64 / 1000.0)),
        Cell::or_dash(latest.and_then(|latest| latest.cpu_s).map(text::duration)),
        Cell::or_dash(metric),
        Cell::or_dash(progress(job, latest)),
    ]
}

fn end_cell(job: &JobRecord) -> Cell {
    let tone = match how_it_ended(job) {
        None => Tone::Good,
        Some(end) if end.is_failure() => Tone::Bad,
        Some(_) => Tone::Plain,
    };
    Cell::new(tone, &end(job))
}

/// The latest evaluation in words; `NaN` if it was not finite.
pub(crate) fn value_text(sample: &Sample) -> Option<String> {
    sample.value.map(text::number_text).or_else(|| sample.has_diverged().then(|| "NaN".to_owned()))
}

fn progress(job: &JobRecord, sample: Option<&Sample>) -> Option<String> {
    let current = text::number_text(sample?.progress?);
    let total = job.total.map_or_else(String::new, |total| format!("/{}", text::number_text(total)));
    Some(format!("{} {current}{total}", job.unit.as_deref().unwrap_or("")).trim().to_owned())
}

fn job_page(history: &JobHistory, every_ms: u64, look: &Look) -> String {
    let JobHistory { job, samples } = history;
    let ended = match job.ended_unix_ms {
        Some(ended) => format!("ended {} ({})", when::clock(ended), end(job)),
        None => "runs, or was last seen ".to_owned() + &when::clock(job.last_unix_ms),
    };
    let mut page = format!(
        "{} · {} · {} · started {} · {ended}\n",
        look.paint(Tone::Bold, &text::fit(&clean(&job.name), 40)),
        text::fit(&clean(&job.short_id), 24),
        clean(&job.runtime),
        when::clock(job.started_unix_ms),
    );
    if let Some(cost) = cost::in_words(job, samples) {
        page.push_str(&look.wrapped(&cost, 0));
        page.push('\n');
    }
    page.push_str(&curve_of(job, samples, look));
    let gpus = samples.iter().any(|sample| sample.gpus.is_some() || sample.gpu_memory_bytes.is_some());
    let mut columns =
        vec![Column::left("TIME"), Column::right("VALUE"), Column::left("PROGRESS"), Column::right("CORES")];
    if gpus {
        columns.extend(["GPUS", "GPU-MEM"].map(Column::right));
    }
    columns.extend([Column::right("SHARE"), Column::right("WEIGHT"), Column::elastic("WHY", 16)]);
    let before = std::iter::once(None).chain(samples.iter().map(Some));
    let rows: Vec<Vec<Cell>> =
        samples.iter().zip(before).map(|(sample, before)| sample_row(job, sample, before, gpus)).collect();
    page.push_str(&table(&columns, &rows, look));
    if every_ms > 2_000 {
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "{}",
            look.paint(
                Tone::Dim,
                &format!("one row per {}; -o jsonl prints all samples", text::duration(every_ms as f64 / 1000.0))
            )
        );
    }
    page
}

/// The curve of the evaluations over time, with the name of the metric above it; empty if there are fewer than two.
fn curve_of(job: &JobRecord, samples: &[Sample], look: &Look) -> String {
    let evaluated = samples.iter().filter(|sample| sample.value.is_some_and(f64::is_finite));
    let ends = [evaluated.clone().next(), evaluated.clone().next_back()];
    let [Some(first), Some(last)] = ends else { return String::new() };
    let seconds = |sample: &Sample| sample.unix_ms.saturating_sub(first.unix_ms) as f64 / 1000.0;
    let points: Vec<(f64, f64)> = evaluated.filter_map(|sample| Some((seconds(sample), sample.value?))).collect();
    if points.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return String::new(); // one evaluation, in several samples
    }
    let ends = [first, last].map(|sample| when::clock(sample.unix_ms));
    let is_one_day = ends[0].get(..10) == ends[1].get(..10);
    let ends = ends.map(|end| if is_one_day { end.get(11..).unwrap_or(&end).to_owned() } else { end });
    let columns = look.columns.unwrap_or(usize::MAX);
    let is_ascii = screen::is_ascii_only(|name| std::env::var(name).ok());
    let metric = clean(job.metric.as_deref().unwrap_or("value"));
    format!("\n{}\n{}\n", look.paint(Tone::Bold, &metric), curve::page(&points, ends, columns, is_ascii))
}

fn sample_row(job: &JobRecord, sample: &Sample, before: Option<&Sample>, gpus: bool) -> Vec<Cell> {
    let why = match (&sample.hold, &sample.decision) {
        (Some(hold), _) => Cell::new(Tone::Warn, &format!("left alone: {hold}")),
        (None, Some(decision)) => Cell::plain(&decision.text),
        (None, None) => Cell::new(Tone::Dim, "not decided yet"),
    };
    let mut row = vec![
        Cell::plain(&when::clock(sample.unix_ms)),
        Cell::or_dash(value_text(sample)),
        Cell::or_dash(progress(job, Some(sample))),
        Cell::or_dash(before.and_then(|before| cores_between(before, sample)).map(|cores| format!("{cores:.2}"))),
    ];
    if gpus {
        row.push(Cell::or_dash(sample.gpus.map(|gpus| format!("{gpus:.2}"))));
        row.push(Cell::or_dash(sample.gpu_memory_bytes.map(text::bytes)));
    }
    row.extend([
        Cell::or_dash(sample.share.map(text::percent)),
        Cell::or_dash(sample.cpu_weight.map(|weight| weight.to_string())),
        why,
    ]);
    row
}

/// Average number of cores used between two samples of one job.
pub(crate) fn cores_between(before: &Sample, after: &Sample) -> Option<f64> {
    let seconds = after.unix_ms.saturating_sub(before.unix_ms) as f64 / 1000.0;
    (seconds > 0.0).then_some((after.cpu_s? - before.cpu_s?).max(0.0) / seconds)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
