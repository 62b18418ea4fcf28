//! Generates logs of invented training programs together with the expected readings, so that the reader cannot be fitted to them.
//!
//! A seed determines a program: its names, its layout, its loops and its other output. The program then runs, and each relevant
//! number is recorded as it is printed. Used by `tests/plain/reader_invented.rs` (fixed seeds) and `benches/reader_invented.rs` (new
//! seeds). Imports: the library's public reader, random numbers.

mod decoys;
mod hard;
mod layout;
mod loops;
mod names;
mod nothing;
mod program;

use flowcon::traininglog::survey::{LogReading, Survey};
use flowcon::traininglog::{Direction, Hints};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Kind of a program; accuracy is reported per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Epochs, one line each.
    Plain,
    /// Steps inside epochs, on one line.
    Steps,
    /// A heading for each epoch, then lines that count only within it.
    UnderHeading,
    /// A progress bar redrawn in each epoch.
    Bars,
    /// An evaluation with a separate loop after each epoch.
    Evaluations,
    /// The same name for two parts of the data, on separate lines.
    TwoSeries,
    /// Folds of epochs.
    Folds,
    /// Stopped, and resumed from a slightly older checkpoint.
    Resumed,
    /// Several workers write to one log.
    Ranks,
    /// Metrics with meaningless names.
    Unknown,
    /// A counter with a meaningless name.
    UnknownCount,
    /// Columns without a header.
    Headless,
    /// Words in other languages.
    Foreign,
    /// Not a training.
    Nothing,
    /// Numbers inside of their types, or with a decimal comma.
    Notations,
    /// A total that is printed once, or beside an epoch that says nothing.
    Totals,
    /// Text after the end: errors, tests, exports.
    AfterEnd,
    /// Reports behind bars, and carriage returns written as text.
    Merged,
    /// Two forms of one report, or training lines under the heading of an evaluation.
    TwoForms,
    /// Settings and files with the names of metrics.
    Settings,
    /// Counts of other things than the progress.
    WrongPairs,
    /// Loops of another kind with the output of the six kinds above before and after them.
    Mixed,
    /// An evaluation under a decorated heading, with lines like those of the training.
    Sections,
    /// Scores with the counts that they are the ratio of.
    Ratios,
    /// A list of items with names of metrics after each report.
    Lists,
}

pub const KINDS: [Kind; 25] = [
    Kind::Plain,
    Kind::Steps,
    Kind::UnderHeading,
    Kind::Bars,
    Kind::Evaluations,
    Kind::TwoSeries,
    Kind::Folds,
    Kind::Resumed,
    Kind::Ranks,
    Kind::Unknown,
    Kind::UnknownCount,
    Kind::Headless,
    Kind::Foreign,
    Kind::Notations,
    Kind::Totals,
    Kind::AfterEnd,
    Kind::Merged,
    Kind::TwoForms,
    Kind::Settings,
    Kind::WrongPairs,
    Kind::Mixed,
    Kind::Sections,
    Kind::Ratios,
    Kind::Lists,
    Kind::Nothing,
];

/// A printed series of a metric.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub direction: Direction,
    /// Values in the order of printing, without overwritten redraws.
    pub values: Vec<f64>,
    /// Values including overwritten redraws.
    pub redrawn: Vec<f64>,
}

/// A counter that shows the progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    pub current: f64,
    pub total: Option<f64>,
    /// Whether the total is printed only in a configuration, so that not finding it is right, too.
    pub only_declared: bool,
}

/// A log with the expected readings.
pub struct Invented {
    pub log: String,
    /// Acceptable series; if empty, nothing may be reported.
    pub series: Vec<Series>,
    /// Acceptable progress.
    pub progress: Vec<Counted>,
}

/// Result of the reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Descriptions of the errors; empty if everything is right.
    pub faults: Vec<String>,
    /// Whether a wrong series or direction was reported with a confidence of 0.8 or more.
    pub confidently_wrong: bool,
}

/// Generates a program of this kind from the seed and runs it.
pub fn invent(kind: Kind, seed: u64) -> Invented {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (kind as u64) << 56);
    match kind {
        Kind::Nothing => nothing::log(&mut rng),
        kind => program::run(kind, &mut rng),
    }
}

/// Reads the log like `flowctl logs` and compares the result with the expected readings.
pub fn judge(invented: &Invented) -> Verdict {
    let mut survey = Survey::new(&Hints::default());
    survey.push(invented.log.as_bytes());
    survey.finish();
    let reading = survey.reading();
    let mut faults = evaluation(invented, &reading);
    let confidently_wrong = !faults.is_empty() && faults[0] != MISSED && reading.confidence >= 0.8;
    faults.extend(progress(invented, &reading));
    Verdict { faults, confidently_wrong }
}

const MISSED: &str = "values are missing";

fn evaluation(invented: &Invented, reading: &LogReading) -> Vec<String> {
    let values: Vec<f64> = reading.observations.iter().map(|observation| observation.value).collect();
    let reported =
        format!("{:?} with {} values from {:?} to {:?}", reading.metric, values.len(), values.first(), values.last());
    if invented.series.is_empty() {
        return if reading.metric.is_some() { vec![format!("{reported}, but there is none")] } else { Vec::new() };
    }
    let part_of = |series: &&Series| !values.is_empty() && values.iter().all(|value| series.redrawn.contains(value));
    let Some(series) = invented.series.iter().find(|series| matches_series(series, &values)) else {
        if invented.series.iter().any(|series| part_of(&series)) {
            return vec![MISSED.to_owned(), reported];
        }
        let wanted: Vec<_> = invented.series.iter().map(|series| (&series.name, series.values.len())).collect();
        return vec![format!("{reported}, wanted one of {wanted:?}")];
    };
    if reading.direction == Some(series.direction) {
        return Vec::new();
    }
    vec![format!("direction {:?} of {:?}, wanted {:?}", reading.direction, reading.metric, series.direction)]
}

/// Whether these are the values of the series, with or without redraws; two per cent may be missing, as for the real logs.
fn matches_series(series: &Series, values: &[f64]) -> bool {
    let slack = (series.redrawn.len() / 50).max(1);
    let count = values.len() + slack >= series.values.len() && values.len() <= series.redrawn.len() + slack;
    let first = values.first() == series.values.first() || values.first() == series.redrawn.first();
    let last = values.last() == series.values.last() || values.last() == series.redrawn.last();
    count && first && last && !values.is_empty()
}

fn progress(invented: &Invented, reading: &LogReading) -> Vec<String> {
    if invented.progress.is_empty() {
        return Vec::new();
    }
    let Some(read) = reading.progress else {
        return vec![format!("no progress, wanted {:?}", invented.progress)];
    };
    let is = |counted: &Counted| {
        let total = read.total == counted.total || counted.only_declared && read.total.is_none();
        total && read.current == counted.current
    };
    if invented.progress.iter().any(is) {
        return Vec::new();
    }
    vec![format!("progress {} of {:?}, wanted {:?}", read.current, read.total, invented.progress)]
}
