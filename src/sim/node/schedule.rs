//! A schedule of jobs on one node, from the first start to the last end.

use super::machine::SimulatedNode;
use crate::job::Job;
use crate::outcome::{JobOutcome, Outcome};
use crate::scenario::NodeShape;
use crate::variant::Variant;
use std::sync::Arc;

/// Data to keep besides the outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Shares and printed values, for charts.
    pub history: bool,
    /// Each tick's observation and plan.
    pub recording: bool,
}

/// Runs the jobs (ordered by start) under one policy to the end of the last.
pub fn simulate(shape: &NodeShape, jobs: &[Job], variant: &Variant, keep: Keep) -> Outcome {
    let mut node = SimulatedNode::new(*shape, variant, keep.history, keep.recording);
    jobs.iter().for_each(|job| {
        node.add(Arc::new(job.clone()));
    });
    let mut events = 0;
    let mut starts = jobs.iter().map(|job| job.plan.start_s).enumerate().peekable();
    loop {
        // Simultaneous events: those of running jobs come first, then starts, then decisions.
        match starts.peek() {
            Some(&(number, start_s)) if node.starts_next(start_s) => {
                starts.next();
                node.start(number, start_s);
            }
            _ if node.next_s().is_finite() => {
                node.step();
            }
            _ => break,
        }
        events += 1;
    }
    let states = jobs.iter().zip(node.states());
    let outcomes = states.map(|(job, state)| JobOutcome {
        name: job.plan.name.clone(),
        is_broken: job.plan.fault.is_some(),
        start_s: job.plan.start_s,
        end_s: state.ended_at,
        quality_s: state.quality_at - job.plan.start_s,
        cpu_s: state.cpu,
        gpu_s: state.gpu,
    });
    let jobs = outcomes.collect();
    let (ticks, history, recording) = node.finish();
    Outcome { jobs, events, ticks, history, recording }
}
