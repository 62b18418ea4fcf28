//! Traces of many jobs on a cluster of GPUs: rigid jobs, whole seconds, free preemption unless a restart cost is given.
//!
//! The queueing disciplines have the semantics of the published Tiresias simulator, so that its per-job end times can be checked
//! against ours. At one instant: completions, then arrivals, then one scheduling pass. Imports: nothing of this crate but
//! the simulator's parts.

mod cluster;
mod discipline;
mod room;
#[cfg(test)]
mod tests;

use super::table_file::TableFile;
use cluster::Cluster;
pub use discipline::{DISCIPLINES, Discipline};
pub use room::Gpus;

/// One job of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceJob {
    /// As the trace spells it.
    pub id: String,
    /// When it is submitted, in seconds.
    pub submit_s: u64,
    /// GPUs that it needs at once.
    pub gpus: u64,
    /// Seconds of running that it needs.
    pub duration_s: u64,
}

/// When a job ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// First start, in seconds of the trace.
    pub start_s: u64,
    /// End, in seconds of the trace.
    pub end_s: u64,
}

/// What came out of a trace.
#[derive(Clone, Debug)]
pub struct TraceOutcome {
    /// For each job in the trace's order.
    pub spans: Vec<Span>,
    /// Arrivals, completions and demotion instants handled.
    pub events: u64,
    /// Times that a running job lost its GPUs.
    pub preemptions: u64,
}

/// Reads a trace with the columns `job_id`, `submit_s` (or `submit_time`), `num_gpus` (or `num_gpu`), `duration_s` (or `duration`).
/// Jobs are ordered by submission, ties by id.
///
/// # Errors
/// File, line, column and what is expected; a job that needs more GPUs than there are is one of them.
pub fn read(path: &str, text: &str, gpus: Gpus) -> Result<Vec<TraceJob>, String> {
    let table = TableFile::parse(path, text)?;
    let id = table.column(&["job_id"])?;
    let submit = table.column(&["submit_s", "submit_time"])?;
    let count = table.column(&["num_gpus", "num_gpu"])?;
    let duration = table.column(&["duration_s", "duration"])?;
    let mut jobs = Vec::new();
    for row in table.rows() {
        let job = TraceJob {
            id: row.text(id).to_owned(),
            submit_s: row.whole(submit, 0)?,
            gpus: row.whole(count, 1)?,
            duration_s: row.whole(duration, 1)?,
        };
        if job.gpus > gpus.total() {
            return Err(row.error(count, &format!("the cluster has {}; expected no more", gpus.total())));
        }
        jobs.push(job);
    }
    jobs.sort_by(|a, b| a.submit_s.cmp(&b.submit_s).then_with(|| order_of_ids(&a.id, &b.id)));
    Ok(jobs)
}

/// By number where both are numbers.
fn order_of_ids(a: &str, b: &str) -> std::cmp::Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        _ => a.cmp(b),
    }
}

/// Runs the jobs (ordered by submission) to the end of the last. A job that restarts after a preemption runs `restart_cost_s` longer.
pub fn run(jobs: &[TraceJob], gpus: Gpus, discipline: Discipline, restart_cost_s: u64) -> TraceOutcome {
    let mut cluster = Cluster::new(jobs, gpus, restart_cost_s);
    let mut queue = discipline.queue();
    let (mut arrived, mut jump, mut events) = (0, None, 0);
    loop {
        let arrival = jobs.get(arrived).map(|job| job.submit_s);
        let event = arrival.into_iter().chain(cluster.next_completion()).min();
        let Some(at) = event else { break };
        // A demotion instant earlier than that is an event of its own; at the same instant it is part of it.
        let at = jump.filter(|jump| *jump < at).unwrap_or(at);
        events += 1;
        cluster.advance(at);
        queue.look_at_running(&cluster);
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
