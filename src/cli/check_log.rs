//! `flowctl check-log`: shows how a log is parsed.

use super::job_log;
use api::client::Client;
use clap::Args;
use config::LABEL_PREFIX;
use model::{Direction, Hints, Pattern, word};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use term::exit::{Exit, Failure};
use term::screen::Format;
use term::text::{clean, clean_json};
use traininglog::survey::{LogReading, Observation, Survey};

/// Maximum number of other candidates shown.
const OTHERS_SHOWN: usize = 6;

/// Arguments of `flowctl check-log`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CheckLogArgs {
    /// A log, a file of metrics, a directory with such a file or TensorBoard events, `-` for standard input; or the name or
    /// id of a governed job
    #[arg(value_name = "FILE|JOB")]
    pub log: String,
    /// Count each redrawn line once, in its final state
    #[arg(long)]
    pub final_only: bool,
    /// The metric's name, like the label flowcon.metric
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// `down` or `up`, like the label flowcon.direction
    #[arg(long, value_name = "DIRECTION", value_parser = direction)]
    pub direction: Option<Direction>,
    /// A regular expression with the group `value`, like the label flowcon.pattern
    #[arg(long, value_name = "REGEX", value_parser = config::pattern)]
    pub pattern: Option<Pattern>,
}

fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "down" => Ok(Direction::Down),
        "up" => Ok(Direction::Up),
        other => Err(format!("`{other}` is neither down nor up")),
    }
}

/// Parses the log and prints the result.
///
/// # Errors
/// The log could not be found or read, or the output could not be written.
pub(crate) fn run(args: &CheckLogArgs, client: &Client, format: Format) -> Result<(), Failure> {
    let mut reading = read(args, client)?;
    if args.final_only {
        reading.observations.retain(|observation| observation.last);
    }
    let out = &mut BufWriter::new(io::stdout().lock());
    let written = match format {
        Format::Json | Format::Jsonl => {
            let mut json = Vec::new();
            print_json(&reading, &mut json)
                .and_then(|()| out.write_all(clean_json(&String::from_utf8_lossy(&json)).as_bytes()))
        }
        Format::Table | Format::Wide => print_text(&reading, out),
    };
    Ok(written.and_then(|()| out.flush())?)
}

/// Reads a file if the argument is a path or an existing file, or else the log of a job.
fn read(args: &CheckLogArgs, client: &Client) -> Result<LogReading, Failure> {
    let path = Path::new(&args.log);
    if path == Path::new("-") {
        let mut survey = Survey::new(&args.over(Hints::default()));
        let read = job_log::read(io::stdin().lock(), &mut |bytes| survey.push(bytes));
        read.map_err(|error| unreadable(path, &error))?;
        survey.finish();
        return Ok(survey.reading());
    }
    if is_path(&args.log) {
        return surveyed(&args.over(Hints::default()), |survey| feed_file(survey, path));
    }
    let log = job_log::find(client, &args.log)?;
    surveyed(&args.over(log.hints.clone()), |survey| {
        log.pour(&mut |bytes| {
            survey.push(bytes);
            Ok(())
        })?;
        survey.finish();
        Ok(())
    })
}

/// Whether an argument names a file rather than a job. A pod has a slash in its name, as a file may.
pub(super) fn is_path(argument: &str) -> bool {
    let is_pod = || argument.split_once('/').is_some_and(|(namespace, name)| is_label(namespace) && is_label(name));
    argument == "-" || Path::new(argument).exists() || argument.contains('/') && !is_pod()
}

/// Whether Kubernetes accepts this name of a pod or namespace.
fn is_label(name: &str) -> bool {
    let is_of_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.bytes().all(is_of_label)
}

/// Reads the log once, or twice if the metric was chosen too late to keep all its values.
fn surveyed(hints: &Hints, mut feed: impl FnMut(&mut Survey) -> Result<(), Failure>) -> Result<LogReading, Failure> {
    let mut survey = Survey::new(hints);
    feed(&mut survey)?;
    if !survey.is_complete() {
        survey = survey.again(hints);
        feed(&mut survey)?;
    }
    Ok(survey.reading())
}

impl CheckLogArgs {
    /// The labels, overridden by the command line.
    fn over(&self, labels: Hints) -> Hints {
        Hints {
            metric: self.metric.clone().or(labels.metric),
            direction: self.direction.or(labels.direction),
            pattern: self.pattern.clone().or(labels.pattern),
            ..labels
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let exit = if error.kind() == ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
    let message = format!("cannot read {}: {error}", path.display());
    Failure::new(exit, message, "name a readable file, `-` for standard input, or a job of `flowctl ps`")
}

fn feed_file(survey: &mut Survey, path: &Path) -> Result<(), Failure> {
    for path in files_of(path).map_err(|error| unreadable(path, &error))? {
        let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
        job_log::read(file, &mut |bytes| survey.push(bytes)).map_err(|error| unreadable(&path, &error))?;
        survey.finish();
    }
    Ok(())
}

/// The file itself. For a directory, all TensorBoard event files in order (a run writes one after another), or else the most recent
/// file of metrics.
fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_file() {
            files.push((metadata.modified()?, entry.path()));
        }
    }
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut events: Vec<PathBuf> =
        files.iter().map(|(_, path)| path.clone()).filter(|path| named(path).contains(".tfevents.")).collect();
    if !events.is_empty() {
        events.sort();
        return Ok(events);
    }
    let metrics = |path: &Path| {
        [".csv", ".tsv", ".json", ".jsonl", ".log", ".txt", ".out"].iter().any(|end| named(path).ends_with(end))
    };
    let latest = files.into_iter().filter(|(_, path)| metrics(path)).max();
    latest
        .map(|(_, path)| vec![path])
        .ok_or_else(|| io::Error::new(ErrorKind::NotFound, "no event files, CSV, JSON or logs in this directory"))
}

/// JSON has no NaN and infinity: they are printed as strings.
fn number(value: f64) -> Value {
    match value {
        v if v.is_nan() => json!("nan"),
        v if v.is_infinite() => json!(if v > 0.0 { "inf" } else { "-inf" }),
        v if v == v.trunc() && v.abs() < 9e15 => json!(v as i64),
        v => json!(v),
    }
}

/// Prints the JSON of `flowctl check-log --json`, a format written by hand.
fn print_json(reading: &LogReading, out: &mut impl Write) -> io::Result<()> {
    let metric = json!(reading.metric);
    let direction = json!(reading.direction.unwrap_or(Direction::Down));
    write!(out, "{{\"metric\": {metric}, \"direction\": {direction}, \"observations\": [")?;
    for (at, Observation { line, value, current, total, .. }) in reading.observations.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let (value, current, total) =
            (number(*value), current.map(number).unwrap_or_default(), total.map(number).unwrap_or_default());
        write!(out, "{comma}{{\"line\": {line}, \"value\": {value}, \"current\": {current}, \"total\": {total}}}")?;
    }
    let progress = reading.progress.map(|progress| {
        json!({"unit": progress.unit, "current": number(progress.current), "total": progress.total.map(number)})
    });
    let candidates: Vec<Value> = reading
        .candidates
        .iter()
        .map(
            |candidate| json!({"metric": candidate.metric, "count": candidate.count, "score": number(candidate.score)}),
        )
        .collect();
    let confidence = (reading.confidence * 1000.0).round() / 1000.0;
    let (progress, candidates) = (json!(progress), json!(candidates));
    writeln!(out, "], \"progress\": {progress}, \"confidence\": {confidence}, \"candidates\": {candidates}}}")
}

fn print_text(reading: &LogReading, out: &mut impl Write) -> io::Result<()> {
    match &reading.metric {
        None => writeln!(out, "metric      none found; name one with --metric, or describe its lines with --pattern")?,
        Some(metric) => print_metric(metric, reading, out)?,
    }
    match reading.progress {
        None => writeln!(out, "progress    none found")?,
        Some(progress) => {
            let total = progress.total.map_or("an unknown total".to_owned(), |total| total.to_string());
            writeln!(out, "progress    {} {} of {total}", word(progress.unit), progress.current)?;
        }
    }
    print_others(reading, out)
}

/// Prints the other candidates, each with the label that selects it.
fn print_others(reading: &LogReading, out: &mut impl Write) -> io::Result<()> {
    let others: Vec<&_> =
        reading.candidates.iter().skip(usize::from(reading.metric.is_some())).take(OTHERS_SHOWN).collect();
    if others.is_empty() {
        return Ok(());
    }
    writeln!(out, "others      a label on the container selects another metric:")?;
    for other in others {
        let label = format!("{LABEL_PREFIX}metric={}", clean(&other.metric));
        writeln!(out, "            {label} ({} values, score {})", other.count, other.score)?;
    }
    Ok(())
}

fn print_metric(metric: &str, reading: &LogReading, out: &mut impl Write) -> io::Result<()> {
    let better = match reading.direction {
        Some(Direction::Up) => "larger is better",
        _ => "smaller is better",
    };
    let confidence = (reading.confidence * 100.0).round();
    let unsure = if reading.confidence < 0.5 { "unsure, " } else { "" };
    writeln!(out, "metric      {} ({better}; {unsure}confidence {confidence} %)", clean(metric))?;
    if let (Some(first), Some(last)) = (reading.observations.first(), reading.observations.last()) {
        let count = reading.observations.len();
        writeln!(out, "values      {count}, from {} to {}", first.value, last.value)?;
    }
    for (at, (line, text)) in reading.excerpts.iter().enumerate() {
        writeln!(
            out,
            "{:11} line {line}: {}",
            if at == 0 { "read from" } else { "" },
            clean(&text.replace('\t', " "))
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_pod_is_no_path() {
        for job in ["bert", "team/bert-0", "team/bert.v2"] {
            assert!(!is_path(job), "{job}");
        }
        for path in
            ["-", "/var/log/bert", "./bert", "../bert", "runs/Bert", "runs/train_1", "a/b/c", "runs/", "Cargo.toml"]
        {
            assert!(is_path(path), "{path}");
        }
    }
}
