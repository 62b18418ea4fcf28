//! Duration of a job on each type of GPU, from a table of measured speeds beside the trace.
//!
//! A row gives the steps per second of a model on a number of GPUs of a type (`steps_per_s`), or the total seconds of a class of jobs
//! (`exec_time_s`); zero steps mean that the model does not fit there.

use super::free_gpus::Gpus;
use sim::table_file::{MOST, Row, TableFile};
use std::collections::HashMap;

/// Speed of a model on a number of GPUs of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    StepsPerSecond(f64),
    Seconds(f64),
}

/// A table of speeds.
#[derive(Clone, Debug, Default)]
pub struct Speeds {
    path: String,
    /// By type, model, and number of GPUs.
    table: HashMap<(String, String, u64), Speed>,
}

impl Speeds {
    /// Reads a table with the columns `gpu_type` (or `worker_type`), `model` (or `job_class`), `num_gpus`, and `steps_per_s` or
    /// `exec_time_s`.
    ///
    /// # Errors
    /// File, line, column and what is expected.
    pub fn parse(path: &str, text: &str) -> Result<Speeds, String> {
        let file = TableFile::parse(path, text)?;
        let kind = file.column(&["gpu_type", "worker_type"])?;
        let model = file.column(&["model", "job_class"])?;
        let gpus = file.column(&["num_gpus", "num_gpu"])?;
        let speed = file.column(&["steps_per_s", "exec_time_s"])?;
        let counts_steps = file.column(&["steps_per_s"]).is_ok();
        let mut table = HashMap::new();
        for row in file.rows() {
            let key = (row.text(kind).to_owned(), row.text(model).to_owned(), row.whole(gpus, 1)?);
            let number = row.number(speed)?;
            if number < 0.0 {
                return Err(row.error(speed, "expected a number that is not negative"));
            }
            let speed = if counts_steps { Speed::StepsPerSecond(number) } else { Speed::Seconds(number) };
            table.insert(key, speed);
        }
        Ok(Speeds { path: path.to_owned(), table })
    }

    /// Checks that the table has each type of the cluster.
    ///
    /// # Errors
    /// Names the missing type, and the known ones.
    pub fn check(&self, cluster: &Gpus) -> Result<(), String> {
        let mut known: Vec<&str> = self.table.keys().map(|(kind, ..)| kind.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        for group in cluster.groups() {
            let path = &self.path;
            let Some(kind) = &group.kind else {
                return Err(format!(
                    "--gpus {cluster}: with {path} each group needs a type; expected one such as 16x4:{}",
                    known.join(" or ")
                ));
            };
            if !known.contains(&kind.as_str()) {
                return Err(format!(
                    "--gpus {cluster}: {path} has no speeds for `{kind}`; expected one of {}",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Returns the columns of a trace that these speeds need.
    ///
    /// # Errors
    /// A missing column.
    pub(super) fn needs(&self, trace: &TableFile<'_>) -> Result<Needs<'_>, String> {
        let model = trace.column(&["model", "job_class", "model_name"])?;
        let counts_steps = self.table.values().any(|speed| matches!(speed, Speed::StepsPerSecond(_)));
        let steps = counts_steps.then(|| trace.column(&["total_steps", "iterations"])).transpose()?;
        Ok(Needs { speeds: self, model, steps })
    }
}

/// The columns of a trace with the jobs' work.
pub(super) struct Needs<'a> {
    speeds: &'a Speeds,
    model: usize,
    /// `None` if no speed is in steps.
    steps: Option<usize>,
}

impl Needs<'_> {
    /// Returns the whole seconds of the job in a trace's row on the type; `None` where it cannot run.
    ///
    /// # Errors
    /// An invalid number of steps.
    pub(super) fn seconds(&self, row: &Row<'_, '_>, gpus: u64, kind: &str) -> Result<Option<u64>, String> {
        let speed = self.speeds.table.get(&(kind.to_owned(), row.text(self.model).to_owned(), gpus));
        let seconds = match (speed, self.steps) {
            (Some(Speed::StepsPerSecond(speed)), Some(steps)) => row.whole(steps, 1)? as f64 / speed,
            (Some(Speed::Seconds(seconds)), _) => *seconds,
            _ => f64::INFINITY,
        };
        let runs = seconds > 0.0 && seconds <= MOST as f64;
        Ok(runs.then(|| seconds.ceil() as u64))
    }
}
