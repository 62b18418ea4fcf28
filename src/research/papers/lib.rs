//! Published evaluations, repeated: published figures beside simulated ones.
//!
//! Each figure is simulated three times: the published policy under its paper's assumptions (`assumed`), the same policy under neutral
//! assumptions (`honest`), and the default policy under those (`default`). Figures that cannot be reproduced stay in the table, with the
//! reason below it.

mod cluster;
mod dragon;
mod flowcon;
mod page;
mod pollux;
mod published;
mod testbed;
mod thesis;

pub use cluster::{procon, specon};
pub use dragon::evaluate as dragon;
pub use flowcon::evaluate as flowcon;
pub use page::html;
pub use pollux::evaluate as pollux;
use sim::compare::Change;
pub use thesis::evaluate as thesis;

/// Part of the speed that each further competing job costs, where a paper's figures require that jobs slow each other down.
const CONTENTION: f64 = 0.03;

/// One published figure with the simulated ones.
#[derive(Clone, Debug)]
pub struct Row {
    /// The schedule and its parameters.
    pub source: String,
    /// The measured quantity.
    pub what: &'static str,
    /// The published figure.
    pub published: String,
    /// The published policy under its paper's assumptions.
    pub assumed: String,
    /// The published policy under neutral assumptions.
    pub honest: String,
    /// The default policy under neutral assumptions.
    pub default: String,
}

/// One paper's figures.
pub struct Evaluation {
    /// The paper, and what it is about.
    pub title: &'static str,
    /// The baseline of the changes.
    pub base: &'static str,
    /// The meaning of the column `assumed`.
    pub assumed: &'static str,
    /// The meaning of the column `honest`.
    pub honest: &'static str,
    /// The meaning of the column `default`.
    pub default: &'static str,
    /// Number of schedules in each mean.
    pub schedules: u64,
    /// Its figures.
    pub rows: Vec<Row>,
    /// The figures that are not reproduced, with the reasons.
    pub notes: &'static [&'static str],
}

/// One schedule under one policy.
struct Run {
    /// Each job's seconds from start to end.
    completions_s: Vec<f64>,
    makespan_s: f64,
    /// The contention of each node: seconds that jobs ran there beside another, one job left out. Empty for one node.
    contention_s: Vec<f64>,
}

/// One schedule under the baseline and under another policy. All figures are relative changes.
struct Pair {
    base: Run,
    after: Run,
}

impl Pair {
    fn mean(&self) -> f64 {
        let sum = |run: &Run| run.completions_s.iter().sum::<f64>();
        Change::between(sum(&self.base), sum(&self.after)).0
    }

    fn makespan(&self) -> f64 {
        Change::between(self.base.makespan_s, self.after.makespan_s).0
    }

    /// Change of each job's completion time.
    fn changes(&self) -> Vec<f64> {
        let each = self.base.completions_s.iter().zip(&self.after.completions_s);
        each.map(|(base, after)| Change::between(*base, *after).0).collect()
    }

    /// Change of the job that gained most.
    fn best(&self) -> f64 {
        self.changes().into_iter().fold(0.0, f64::min)
    }

    /// Change of the job that lost most.
    fn worst(&self) -> f64 {
        self.changes().into_iter().fold(0.0, f64::max)
    }

    /// Part of the jobs that are faster.
    fn faster(&self) -> f64 {
        let changes = self.changes();
        changes.iter().filter(|change| is_faster(change)).count() as f64 / changes.len() as f64
    }

    /// Mean change of the jobs that are faster; 0 without such a job.
    fn mean_of_faster(&self) -> f64 {
        mean(&self.changes().into_iter().filter(is_faster).collect::<Vec<_>>())
    }

    /// Mean change of the jobs that are not faster; 0 without such a job.
    fn mean_of_others(&self) -> f64 {
        mean(&self.changes().into_iter().filter(|change| !is_faster(change)).collect::<Vec<_>>())
    }

    /// Change of the standard deviation of the nodes' contention.
    fn contention_spread(&self) -> f64 {
        Change::between(deviation(&self.base.contention_s), deviation(&self.after.contention_s)).0
    }
}

/// Smaller changes count as none.
fn is_faster(change: &f64) -> bool {
    *change < -0.001
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard deviation of a sample.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (values.len().max(2) - 1) as f64).sqrt()
}

/// Schedules under the three assumptions.
struct Experiment {
    assumed: Vec<Pair>,
    honest: Vec<Pair>,
    default: Vec<Pair>,
}

impl Experiment {
    fn row(&self, source: String, what: &'static str, published: &str, of: impl Fn(&[Pair]) -> String) -> Row {
        let published = published.to_owned();
        let [assumed, honest, default] = [&self.assumed, &self.honest, &self.default].map(|pairs| of(pairs));
        Row { source, what, published, assumed, honest, default }
    }
}

/// Mean of a figure over schedules, and the range of 80 % of them.
fn spread(pairs: &[Pair], of: impl Fn(&Pair) -> f64) -> String {
    mean_and_range(pairs.iter().map(of).collect())
}

/// Mean number of faster jobs over schedules, and the greatest.
fn faster(pairs: &[Pair]) -> String {
    let counts: Vec<f64> = pairs.iter().map(|pair| pair.faster() * pair.base.completions_s.len() as f64).collect();
    format!("{:.1} (most {:.0})", mean(&counts), counts.iter().copied().fold(0.0, f64::max))
}

/// Mean of changes over schedules, and the range of 80 % of them.
fn mean_and_range(mut changes: Vec<f64>) -> String {
    changes.sort_by(f64::total_cmp);
    let at = |part: f64| Change(changes[((changes.len() - 1) as f64 * part).round() as usize]);
    let mean = Change(mean(&changes));
    format!("{mean} ({} … {})", at(0.1), at(0.9))
}
