//! Training programs that never existed, and the truth about their logs: what no list of known frameworks can be fitted to.
//!
//! A seed makes a program: its names, its layout, how its loops nest, what it prints beside and between. It then runs, and each
//! number that matters is noted as it is printed. Used by `tests/reader_invented.rs` (fixed seeds) and
//! `benches/reader_invented.rs` (fresh seeds). Imports: the library's public reader, random numbers.

mod decoys;
mod layout;
mod loops;
mod names;
mod nothing;
mod program;

use flowcon::model::{Direction, Directives};
use flowcon::progress::{LogReading, Survey};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a program is like; accuracy is told per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Epochs, one line each.
    Plain,
    /// Steps inside epochs, on one line.
    Steps,
    /// An epoch's heading, then lines that count only inside it.
    UnderHeading,
    /// A bar redrawn inside each epoch.
    Bars,
    /// An evaluation with a loop of its own after each epoch.
    Evaluations,
    /// The same name for two parts of the data, on lines of their own.
    TwoSeries,
    /// Folds of epochs.
    Folds,
    /// Stopped, and resumed from a checkpoint that is a little older.
    Resumed,
    /// Several workers write to one log.
    Ranks,
    /// Names that mean nothing, or none at all.
    Unknown,
    /// What counts has a name that means nothing.
    UnknownCount,
    /// Columns without a header.
    Headless,
    /// Words of other languages.
    Foreign,
    /// No training at all.
    Nothing,
}

pub const KINDS: [Kind; 14] = [
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
    Kind::Nothing,
];

/// A series that a practitioner might watch, as it was printed.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub direction: Direction,
    /// In the order of printing, redraws that were overwritten left out.
    pub values: Vec<f64>,
    /// All renderings.
    pub redrawn: Vec<f64>,
}

/// A counter that tells how far the job is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    pub current: f64,
    pub total: Option<f64>,
    /// The total stands only in a configuration: not knowing it is right too.
    pub only_declared: bool,
}

/// A log and the truth about it.
pub struct Invented {
    pub log: String,
    /// Each of them is right; none: nothing may be reported.
    pub series: Vec<Series>,
    /// Each of them is right.
    pub progress: Vec<Counted>,
}

/// What the reader made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What is wrong, in words; empty: fully right.
    pub faults: Vec<String>,
    /// A wrong series or direction, told with a confidence of 0.8 or more.
    pub confidently_wrong: bool,
}

/// The program of this kind that the seed makes, run once.
pub fn invent(kind: Kind, seed: u64) -> Invented {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (kind as u64) << 56);
    match kind {
        Kind::Nothing => nothing::log(&mut rng),
        kind => program::run(kind, &mut rng),
    }
}

/// Reads the log as `flowctl logs` does, and compares with the truth.
pub fn judge(invented: &Invented) -> Verdict {
    let mut survey = Survey::new(&Directives::default());
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
    let told =
        format!("{:?} with {} values from {:?} to {:?}", reading.metric, values.len(), values.first(), values.last());
    if invented.series.is_empty() {
        return if reading.metric.is_some() { vec![format!("{told} where there is none")] } else { Vec::new() };
    }
    let part_of = |series: &&Series| !values.is_empty() && values.iter().all(|value| series.redrawn.contains(value));
    let Some(series) = invented.series.iter().find(|series| is(series, &values)) else {
        if invented.series.iter().any(|series| part_of(&series)) {
            return vec![MISSED.to_owned(), told];
        }
        let wanted: Vec<_> = invented.series.iter().map(|series| (&series.name, series.values.len())).collect();
        return vec![format!("{told}, wanted one of {wanted:?}")];
    };
    if reading.direction == Some(series.direction) {
        return Vec::new();
    }
    vec![format!("direction {:?} of {:?}, wanted {:?}", reading.direction, reading.metric, series.direction)]
}

/// Between the final state of each line and every redraw, two in a hundred may be missing, as in the judge of the real logs.
fn is(series: &Series, values: &[f64]) -> bool {
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
