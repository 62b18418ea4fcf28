//! Scenarios: a node and a schedule of jobs, either built in or read from a TOML file.
//!
//! One seed gives one schedule, the same for every policy.

mod builtin;
mod file;
mod sweep;
mod threads;

use super::job::{Job, JobPlan};
use super::random::Stream;
use model::Bytes;
use std::path::Path;

pub use builtin::{BUILT_IN, VARIATIONS};
pub(super) use builtin::{FIGURE_1_RATE, Variations, exponential, job, random_job, split};

/// The simulated machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeShape {
    /// Cores.
    pub cores: f64,
    /// Main memory.
    pub memory: Bytes,
    /// Part of the speed lost for each further competing job (caches, memory bandwidth): with n equal jobs each runs at 1/(1 +
    /// contention·(n − 1)) of its speed. 0 = the fluid model of the literature.
    pub contention: f64,
    /// Speed of its cores, as a multiple of that of the machine whose CPU-seconds the scenario gives.
    pub speed: f64,
}

impl Default for NodeShape {
    fn default() -> Self {
        NodeShape { cores: 8.0, memory: Bytes(64 << 30), contention: 0.0, speed: 1.0 }
    }
}

/// A node and its schedule.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name given by the user.
    pub name: String,
    /// The machine.
    pub node: NodeShape,
    schedule: Schedule,
}

#[derive(Clone, Debug)]
enum Schedule {
    BuiltIn(builtin::BuiltIn),
    File(Vec<file::JobTemplate>),
}

/// Random streams of one seed: one for the schedule, and from `NOISE_STREAMS` on one for each job's noise.
pub(super) const SCHEDULE_STREAM: u64 = 0;
const NOISE_STREAMS: u64 = 1 << 32;

impl Scenario {
    /// Opens the built-in scenario of that name, or the file at that path.
    ///
    /// # Errors
    /// Lists the known names; or names line and column in the file and what is expected there.
    pub fn open(name_or_path: &str) -> Result<Scenario, String> {
        if let Some(scenario) = Scenario::built_in(name_or_path)? {
            return Ok(scenario);
        }
        let path = Path::new(name_or_path);
        if !path.exists() {
            return Err(format!(
                "{name_or_path}: neither a built-in scenario nor a file; expected one of {}, with any of the suffixes {}",
                BUILT_IN.join(", "),
                VARIATIONS.map(|(suffix, _)| format!("-{suffix}")).join(", "),
            ));
        }
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!("{name_or_path}: cannot read the scenario: {error}; check the path and its permissions")
        })?;
        Scenario::parse(name_or_path, &text)
    }

    /// Returns the built-in scenario of that name; `None` if the name does not start with that of a built-in scenario.
    ///
    /// # Errors
    /// An unknown suffix after the name of a built-in scenario.
    pub fn built_in(name: &str) -> Result<Option<Scenario>, String> {
        Ok(builtin::BuiltIn::parse(name)?.map(|built_in| Scenario {
            name: name.to_owned(),
            node: NodeShape::default(),
            schedule: Schedule::BuiltIn(built_in),
        }))
    }

    /// Parses a scenario from TOML text; `path` names it in errors, and files of measured curves are relative to it.
    ///
    /// # Errors
    /// Line, column, and what is expected there.
    pub fn parse(path: &str, text: &str) -> Result<Scenario, String> {
        let (name, node, jobs) = file::parse(path, text)?;
        Ok(Scenario { name, node, schedule: Schedule::File(jobs) })
    }

    /// Whether any of its jobs uses a GPU.
    pub fn uses_gpus(&self) -> bool {
        match &self.schedule {
            Schedule::BuiltIn(built_in) => built_in.uses_gpus(),
            Schedule::File(jobs) => jobs.iter().any(file::JobTemplate::uses_gpu),
        }
    }

    /// Draws the jobs of one seed, sorted by start.
    pub fn draw(&self, seed: u64) -> Vec<Job> {
        let mut draws = Stream::new(seed, SCHEDULE_STREAM);
        let mut plans: Vec<JobPlan> = match &self.schedule {
            Schedule::BuiltIn(built_in) => built_in.plans(&self.node, seed, &mut draws),
            Schedule::File(jobs) => file::plans(jobs, &self.node, &mut draws),
        };
        plans.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        drawn(plans, &self.node, seed)
    }
}

/// Returns the planned jobs on the node's cores, the noise of each drawn from a stream of its own.
pub(super) fn drawn(mut plans: Vec<JobPlan>, node: &NodeShape, seed: u64) -> Vec<Job> {
    plans.iter_mut().for_each(|plan| plan.speed_up(node.speed));
    let noise = |number: usize| Stream::new(seed, NOISE_STREAMS + number as u64);
    plans.into_iter().enumerate().map(|(number, plan)| Job::draw(plan, &mut noise(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faster_cores_shorten_the_work_and_change_nothing_else() {
        for name in ["random-5", "random-5-mixed-io", "gpu-4"] {
            let mut scenario = Scenario::open(name).expect("built in");
            let slow = scenario.draw(3);
            scenario.node.speed = 4.0;
            for (slow, fast) in slow.into_iter().zip(scenario.draw(3)) {
                assert!((fast.plan.work - slow.plan.work / 4.0).abs() < 1e-9);
                assert_eq!((fast.plan.start_s, fast.plan.units), (slow.plan.start_s, slow.plan.units));
                let gpu = |job: &Job| job.plan.gpu.map_or(0.0, |gpu| job.plan.work / gpu.every);
                assert!((gpu(&fast) - gpu(&slow)).abs() < 1e-6, "as many kernels");
            }
        }
    }
}
