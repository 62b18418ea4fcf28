//! Traces of many jobs on a cluster of GPUs: rigid jobs, whole seconds, and preemption without cost unless a restart cost is given.
//!
//! Where GPUs are of several types, a job uses one type at a time and gets the fastest type with free GPUs; moving to another type is a
//! preemption that keeps the work done. The queueing disciplines have the semantics of the published Tiresias simulator, so that its
//! per-job end times can be compared with these. Order of simultaneous events: completions, then arrivals, then one scheduling pass.

mod cluster;
mod discipline;
mod free_gpus;
mod job;
mod speeds;
#[cfg(test)]
mod tests;

use cluster::Cluster;
pub use discipline::{DISCIPLINES, Discipline};
pub use free_gpus::Gpus;
use free_gpus::Group;
pub use job::{Span, TraceJob};
use sim::table_file::{Row, TableFile};
use speeds::Needs;
pub use speeds::Speeds;

/// Result of a trace.
#[derive(Clone, Debug)]
pub struct TraceOutcome {
    /// For each job, in the trace's order.
    pub spans: Vec<Span>,
    /// Number of arrivals, completions and demotion times handled.
    pub events: u64,
    /// Number of times that a running job lost its GPUs.
    pub preemptions: u64,
}

/// Reads a trace with the columns `job_id`, `submit_s` (or `submit_time`, `arrival_s`), `num_gpus` (or `num_gpu`), and `duration_s` (or
/// `duration`); with `speeds`, the last one is replaced by `model` and `total_steps`, or `job_class`. Jobs are sorted by submission, ties
/// by id.
///
/// # Errors
/// File, line, column and what is expected; also for a job that cannot run on the cluster.
pub fn read(path: &str, text: &str, gpus: &Gpus, speeds: Option<&Speeds>) -> Result<Vec<TraceJob>, String> {
    let table = TableFile::parse(path, text)?;
    let id = table.column(&["job_id"])?;
    let submit = table.column(&["submit_s", "submit_time", "arrival_s"])?;
    let count = table.column(&["num_gpus", "num_gpu"])?;
    let length = match speeds {
        Some(speeds) => Length::Measured(speeds.needs(&table)?),
        None => Length::Given(table.column(&["duration_s", "duration"])?),
    };
    let mut jobs = Vec::new();
    for row in table.rows() {
        let wanted = row.whole(count, 1)?;
        if wanted > gpus.largest() {
            return Err(row.error(count, &format!("the cluster has {}; expected no more", gpus.largest())));
        }
        let durations_s = length.on_each(gpus, &row, wanted)?;
        if durations_s.iter().all(Option::is_none) {
            return Err(row.error(
                count,
                "no speed for this job with that number of GPUs on any type; add one to the table of speeds",
            ));
        }
        let (id, submit_s) = (row.text(id).to_owned(), row.whole(submit, 0)?);
        jobs.push(TraceJob { id, submit_s, gpus: wanted, durations_s });
    }
    jobs.sort_by(|a, b| a.submit_s.cmp(&b.submit_s).then_with(|| order_of_ids(&a.id, &b.id)));
    Ok(jobs)
}

/// Source of the jobs' durations.
enum Length<'a> {
    /// This column, for all GPUs.
    Given(usize),
    /// The work of the job, and the speed of each type.
    Measured(Needs<'a>),
}

impl Length<'_> {
    fn on_each(&self, gpus: &Gpus, row: &Row<'_, '_>, wanted: u64) -> Result<Vec<Option<u64>>, String> {
        let on = |group: &Group| match (self, &group.kind) {
            _ if wanted > group.total() => Ok(None),
            (Length::Measured(needs), Some(kind)) => needs.seconds(row, wanted, kind),
            (Length::Measured(_), None) => Ok(None),
            (Length::Given(column), _) => row.whole(*column, 1).map(Some),
        };
        gpus.groups().iter().map(on).collect()
    }
}

/// Compares by number if both ids are numbers.
fn order_of_ids(a: &str, b: &str) -> std::cmp::Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        _ => a.cmp(b),
    }
}

/// Runs the jobs, sorted by submission, to the end of the last. A job that restarts after a preemption runs `restart_cost_s` longer.
pub fn run(jobs: &[TraceJob], gpus: &Gpus, discipline: Discipline, restart_cost_s: u64) -> TraceOutcome {
    let mut cluster = Cluster::new(jobs, gpus, restart_cost_s);
    let mut queue = discipline.queue();
    let (mut arrived, mut jump, mut events) = (0, None, 0);
    loop {
        let arrival = jobs.get(arrived).map(|job| job.submit_s);
        let event = arrival.into_iter().chain(cluster.next_completion()).min();
        let Some(at) = event else { break };
        // An earlier demotion time is an event of its own; a simultaneous one is handled with this event.
        let at = jump.filter(|jump| *jump < at).unwrap_or(at);
        events += 1;
        cluster.advance(at);
        queue.demote_running(&cluster);
        cluster.complete();
        while jobs.get(arrived).is_some_and(|job| job.submit_s <= at) {
            queue.arrive(arrived);
            arrived += 1;
        }
        queue.pass(&mut cluster);
        jump = queue.next_jump(&cluster);
    }
    TraceOutcome { spans: cluster.spans(), events, preemptions: cluster.preemptions() }
}
