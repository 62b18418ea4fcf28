//! OASIS: a job is admitted if its utility exceeds the cost of its resources at the current load.
//!
//! Source: "Online Job Scheduling in Distributed Machine Learning Clusters" (OASIS), as adopted by weighted DRAGON: the price of a resource
//! rises exponentially with its used fraction, from a lowest price L at which every job is admitted to a highest price U at which none is:
//! `p(fraction) = L · (U / L)^fraction`. Utility is the job's weight. A price is for the cluster's entire capacity of a resource.

use super::queue::weight;
use model::cluster::{ClusterJob, ClusterObservation, NodeState, Resources};

/// L is the lowest utility per demand divided by this, U is the highest multiplied by it.
const MARGIN: f64 = 2.0;

/// Prices at the current load.
pub(super) struct Prices {
    whole: Resources,
    used: Resources,
    least: f64,
    greatest: f64,
}

impl Prices {
    /// Returns `None` if no job requests any resource: there are no prices then.
    pub(super) fn of(observation: &ClusterObservation) -> Option<Prices> {
        let mut whole = Resources::default();
        for node in observation.nodes.iter().filter(|node| node.state == NodeState::Ready) {
            add(&mut whole, node.capacity, 1);
        }
        let mut used = Resources::default();
        for job in &observation.jobs {
            add(&mut used, job.request, job.placed.len() as u32);
        }
        let value = |job: &ClusterJob| weight(job.priority) / parts(demand(job), whole).iter().sum::<f64>();
        let values = observation.jobs.iter().map(value).filter(|value| value.is_finite() && *value > 0.0);
        let (least, greatest) = values.fold((f64::INFINITY, 0.0_f64), |(l, g), value| (l.min(value), g.max(value)));
        least.is_finite().then(|| Prices { whole, used, least: least / MARGIN, greatest: greatest * MARGIN })
    }

    /// Returns the utility of the job and the current cost of its resources.
    pub(super) fn judge(&self, job: &ClusterJob) -> (f64, f64) {
        let price = |part: f64| self.least * (self.greatest / self.least).powf(part.clamp(0.0, 1.0));
        let used = parts(self.used, self.whole);
        let cost: f64 = parts(demand(job), self.whole).iter().zip(used).map(|(part, used)| part * price(used)).sum();
        (weight(job.priority), cost)
    }

    /// Adds an admitted job to the load.
    pub(super) fn admit(&mut self, job: &ClusterJob) {
        add(&mut self.used, job.request, job.workers.min.max(1));
    }
}

fn demand(job: &ClusterJob) -> Resources {
    let mut demand = Resources::default();
    add(&mut demand, job.request, job.workers.min.max(1));
    demand
}

fn add(sum: &mut Resources, request: Resources, times: u32) {
    sum.cores += f64::from(times) * request.cores;
    sum.memory.0 = sum.memory.0.saturating_add(request.memory.0.saturating_mul(u64::from(times)));
    sum.gpus = sum.gpus.saturating_add(request.gpus.saturating_mul(times));
}

/// Returns the fraction of each resource: cores, memory, GPUs; 0 where the cluster has none.
fn parts(of: Resources, whole: Resources) -> [f64; 3] {
    let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 0.0 };
    [
        part(of.cores, whole.cores),
        part(of.memory.0 as f64, whole.memory.0 as f64),
        part(f64::from(of.gpus), f64::from(whole.gpus)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{cluster, waiting, worker};

    #[test]
    fn an_empty_cluster_admits_every_job_and_a_full_one_none() {
        let mut observation = cluster(4, 8.0);
        observation.jobs = [1.0, 100.0]
            .into_iter()
            .map(|level| waiting("job", |job| (job.priority.level, job.request.cores) = (level, 2.0)))
            .collect();
        let admits = |observation: &ClusterObservation| {
            let prices = Prices::of(observation).expect("cores have a price");
            observation.jobs[..2]
                .iter()
                .map(|job| prices.judge(job))
                .map(|(utility, cost)| utility > cost)
                .collect::<Vec<_>>()
        };
        assert_eq!(admits(&observation), [true, true]);
        let mut large = worker(0, |_| {});
        large.request.cores = 16.0;
        observation.jobs.push(large.clone());
        assert_eq!(admits(&observation), [false, true], "half full: only the job of higher utility");
        observation.jobs.push(large);
        assert_eq!(admits(&observation), [false, false]);
    }
}
