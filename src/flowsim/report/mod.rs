//! The report of a comparison: one HTML file with inline SVG, light and dark, without scripts or network access.
//!
//! [`charts`] draws the charts, [`page`] the page around them.

mod charts;
mod page;

pub(crate) use page::{cell_against, html};

use sim::compare::{Comparison, plain_sharing};
use sim::job::Job;
use sim::scenario::Scenario;
use sim::variant::Variant;
use sim::{Keep, Outcome, simulate};

/// Contents of a report: the summary over seeds, and one seed in detail.
pub(crate) struct SimulationReport<'a> {
    /// Means over seeds.
    pub comparison: &'a Comparison,
    /// The seed shown in the charts.
    pub seed: u64,
    /// Its jobs.
    pub jobs: Vec<Job>,
    /// The node's cores.
    pub cores: f64,
    /// Plain sharing on that seed.
    pub fair: Outcome,
    /// The compared policies on that seed, in the comparison's order.
    pub runs: Vec<(String, Outcome)>,
}

impl<'a> SimulationReport<'a> {
    /// Runs `seed` again under every variant and keeps the data for the charts.
    pub(crate) fn of_seed(
        scenario: &Scenario,
        variants: &[Variant],
        comparison: &'a Comparison,
        seed: u64,
    ) -> SimulationReport<'a> {
        let jobs = scenario.draw(seed);
        let keep = Keep { history: true, recording: false };
        let run = |variant: &Variant| simulate(&scenario.node, &jobs, variant, keep);
        let fair = run(&plain_sharing());
        let runs = variants.iter().map(|variant| (variant.name.clone(), run(variant))).collect();
        SimulationReport { comparison, seed, cores: scenario.node.cores, fair, runs, jobs }
    }

    /// End of the longest run, in seconds.
    fn end_s(&self) -> f64 {
        self.runs.iter().flat_map(|(_, run)| &run.jobs).map(|job| job.end_s).fold(1.0, f64::max)
    }

    fn job_names(&self) -> Vec<String> {
        self.jobs.iter().map(|job| job.plan.name.clone()).collect()
    }
}
