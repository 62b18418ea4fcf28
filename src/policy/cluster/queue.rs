//! The order of waiting jobs.
//!
//! Source: weighted DRAGON, equation 1 and section III-A: weight = γ1 / (1 + e^γ2), without time in it. Jobs come by descending weight, then
//! by descending demand, then in order of arrival; the first that fits starts (adapted FCFS). To prevent starvation, a job that has waited
//! too long reserves the nodes that could run it, unless it could not start even on all of them at once.

use model::Millis;
use model::cluster::{ClusterJob, ClusterObservation, Priority, QueueRule, Resources};
use std::cmp::Ordering;

/// [f(γ1, γ2)] Returns the weight of a job.
pub fn weight(priority: Priority) -> f64 {
    priority.level.clamp(1.0, 100.0) / (1.0 + priority.decay.clamp(0.0, 1.0).exp())
}

/// Whether a job has more than the default weight.
pub(super) fn is_urgent(priority: Priority) -> bool {
    weight(priority) > weight(Priority::default())
}

/// Returns the waiting jobs in scheduling order.
pub(super) fn order(observation: &ClusterObservation, rule: QueueRule) -> Vec<usize> {
    let waiting = |job: &usize| observation.jobs[*job].placed.is_empty();
    let mut order: Vec<usize> = (0..observation.jobs.len()).filter(waiting).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&observation.jobs[*a], &observation.jobs[*b]);
        let by_weight = if rule == QueueRule::Weighted { by_weight(a, b) } else { Ordering::Equal };
        by_weight.then_with(|| a.arrived.cmp(&b.arrived)).then_with(|| a.name.cmp(&b.name))
    });
    order
}

fn by_weight(a: &ClusterJob, b: &ClusterJob) -> Ordering {
    weight(b.priority).total_cmp(&weight(a.priority)).then_with(|| need(b).total_cmp(&need(a)))
}

/// Demand of a job in cores, for comparison: one GPU counts as 4 cores, 4 GiB of memory as one core.
fn need(job: &ClusterJob) -> f64 {
    let Resources { cores, memory, gpus } = job.request;
    f64::from(job.workers.min) * (cores + 4.0 * f64::from(gpus) + memory.0 as f64 / (4_u64 << 30) as f64)
}

/// Whether a job has waited so long that it may no longer be overtaken.
pub(super) fn is_stuck(job: &ClusterJob, now: Millis, overtaken_for: Millis) -> bool {
    now.since(job.arrived) >= overtaken_for
}

/// Whether `job` cannot fit if `before` did not fit, provided that no resources were freed in between.
pub(super) fn needs_no_less(job: &ClusterJob, before: &ClusterJob) -> bool {
    let (r, b) = (job.request, before.request);
    r.cores >= b.cores
        && r.memory >= b.memory
        && r.gpus >= b.gpus
        && job.workers.min >= before.workers.min
        && job.constraints == before.constraints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{cluster, waiting};

    #[test]
    fn the_weight_is_that_of_equation_1() {
        let weigh = |level, decay| weight(Priority { level, decay });
        assert_eq!(weigh(100.0, 0.0), 50.0);
        assert!((weigh(10.0, 1.0) - 10.0 / (1.0 + std::f64::consts::E)).abs() < 1e-12);
    }

    #[test]
    fn jobs_come_by_weight_then_the_larger_need_first_then_in_order_of_arrival() {
        let mut observation = cluster(1, 8.0);
        let job = |name: &str, arrived, level, cores| {
            waiting(name, |job| {
                job.arrived = Millis(arrived);
                (job.priority.level, job.request.cores) = (level, cores);
            })
        };
        observation.jobs = vec![
            job("early", 1, 1.0, 1.0),
            job("late and large", 2, 1.0, 8.0),
            job("as small as the first", 2, 1.0, 1.0),
            job("urgent", 3, 50.0, 1.0),
            job("urgent and large", 4, 50.0, 4.0),
            job("most urgent", 5, 100.0, 1.0),
        ];
        assert_eq!(order(&observation, QueueRule::Weighted), [5, 4, 3, 1, 0, 2]);
        assert_eq!(order(&observation, QueueRule::FirstFit), [0, 2, 1, 3, 4, 5]);
    }
}
