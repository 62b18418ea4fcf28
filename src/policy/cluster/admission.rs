//! OASIS: a job is admitted if its utility exceeds the cost of its resources at the current load.
//!
//! Source: "Online Job Scheduling in Distributed Machine Learning Clusters" (OASIS), as adopted by weighted DRAGON: the price of a resource
//! rises exponentially with its used fraction, from a lowest price L at which every job is admitted to a highest price U at which none is:
//! `p(fraction) = L · (U / L)^fraction`. Utility is the job's weight. A price is for the cluster's entire capacity of a resource.
//!
//! L and U are settings, or come from the values (utility per demand) of all jobs, also of those that have ended: L is the lowest value divided
//! by `price_margin`, U the highest. So the most valuable jobs, and hence equal ones, fill the cluster, and less valuable ones leave room for
//! them.

use super::queue::weight;
use model::cluster::{ClusterJob, ClusterObservation, ClusterReason, ClusterSettings, NodeState, Resources};

/// Prices at the current load.
pub(super) struct Prices {
    whole: Resources,
    used: Resources,
    least: f64,
    greatest: f64,
}

impl Prices {
    /// Returns `None` if no job requests any resource: there are no prices then.
    pub(super) fn of(observation: &ClusterObservation, settings: &ClusterSettings) -> Option<Prices> {
        let mut whole = Resources::default();
        for node in observation.nodes.iter().filter(|node| node.state == NodeState::Ready) {
            add(&mut whole, node.capacity, 1);
        }
        let mut used = Resources::default();
        for job in &observation.jobs {
            add(&mut used, job.request, job.placed.len() as u32);
        }
        let jobs = observation.jobs.iter().map(|job| (job.priority, demand(job)));
        let values = jobs.chain(observation.ended.iter().copied());
        let values = values.map(|(priority, demand)| weight(priority) / parts(demand, whole).iter().sum::<f64>());
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let (least, greatest) = values.fold((f64::INFINITY, 0.0_f64), |(l, g), value| (l.min(value), g.max(value)));
        let seen = (least / settings.price_margin, greatest);
        let (least, greatest) = settings.prices.unwrap_or(seen);
        least.is_finite().then_some(Prices { whole, used, least, greatest })
    }

    /// Returns why a job is not admitted: its resources cost at least as much as it is worth. With what would admit it.
    pub(super) fn refusal(&self, job: &ClusterJob) -> Option<ClusterReason> {
        let rise = self.greatest / self.least;
        let price = |part: f64| self.least * rise.powf(part.clamp(0.0, 1.0));
        let (used, demand) = (parts(self.used, self.whole), parts(demand(job), self.whole));
        let cost: f64 = demand.iter().zip(used).map(|(part, used)| part * price(used)).sum();
        let utility = weight(job.priority);
        if utility > cost {
            return None;
        }
        // Inverse of the weight, and of the price.
        let level = (cost * utility.recip() * job.priority.level).floor() + 1.0;
        let below = (utility / demand.iter().sum::<f64>() / self.least).ln() / rise.ln();
        let below = if below.is_finite() { below.clamp(0.0, 1.0) } else { 0.0 };
        Some(ClusterReason::PriceTooHigh { price: cost, utility, level, below })
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
    use model::cluster::Priority;

    fn job(level: f64, cores: f64) -> ClusterJob {
        waiting("job", |job| (job.priority.level, job.request.cores) = (level, cores))
    }

    /// Whether each of the first jobs is admitted.
    fn admits(observation: &ClusterObservation, settings: &ClusterSettings, jobs: usize) -> Vec<bool> {
        let prices = Prices::of(observation, settings).expect("cores have a price");
        observation.jobs[..jobs].iter().map(|job| prices.refusal(job).is_none()).collect()
    }

    #[test]
    fn an_empty_cluster_admits_every_job_and_a_full_one_none() {
        let mut observation = cluster(4, 8.0);
        observation.jobs = vec![job(1.0, 2.0), job(100.0, 2.0)];
        let usual = ClusterSettings::default();
        assert_eq!(admits(&observation, &usual, 2), [true, true]);
        let mut large = worker(0, |_| {});
        (large.request.cores, large.priority.level) = (16.0, 8.0);
        observation.jobs.push(large.clone());
        assert_eq!(admits(&observation, &usual, 2), [false, true], "half full: only the job of higher utility");
        observation.jobs.push(large);
        assert_eq!(admits(&observation, &usual, 2), [false, false]);
    }

    #[test]
    fn equal_jobs_fill_an_otherwise_empty_cluster() {
        let mut observation = cluster(1, 6.0);
        observation.jobs = vec![job(1.0, 1.0); 7];
        for placed in 0..6 {
            assert!(admits(&observation, &ClusterSettings::default(), 7)[6], "{placed} of 6 are placed");
            observation.jobs[placed].placed = worker(0, |_| {}).placed;
        }
        assert!(!admits(&observation, &ClusterSettings::default(), 7)[6], "it is full");
    }

    #[test]
    fn the_prices_do_not_change_with_the_jobs_that_are_present() {
        let mut observation = cluster(1, 6.0);
        observation.jobs = vec![job(1.0, 3.0), job(1.0, 3.0)];
        observation.jobs[1].placed = worker(0, |_| {}).placed;
        let reason = |observation: &ClusterObservation, settings: &ClusterSettings| {
            Prices::of(observation, settings).and_then(|prices| prices.refusal(&observation.jobs[0]))
        };
        let fixed = ClusterSettings { prices: Some((0.4, 40.0)), ..ClusterSettings::default() };
        let before = reason(&observation, &fixed).expect("half of the cluster is kept for more valuable jobs");
        observation.jobs.push(job(100.0, 1.0));
        assert_eq!(reason(&observation, &fixed).as_ref(), Some(&before));
        let ClusterReason::PriceTooHigh { price, level, below, .. } = before else { panic!("{before:?}") };
        assert_eq!((price, level), (2.0, 5.0), "half of the cluster at the price 0.4 · 100^0.5");
        assert!((below - 0.199).abs() < 0.001, "0.4 · 100^below is its value, 1: {below}");
        observation.jobs[0].priority.level = level;
        assert_eq!(reason(&observation, &fixed), None, "with that priority it is admitted");
        // A valuable job that has ended counts as long as it is known.
        observation.jobs = vec![job(1.0, 3.0), job(1.0, 3.0)];
        observation.jobs[1].placed = worker(0, |_| {}).placed;
        assert_eq!(reason(&observation, &ClusterSettings::default()), None);
        observation.ended = vec![(Priority { level: 100.0, decay: 0.0 }, observation.jobs[0].request)];
        assert!(reason(&observation, &ClusterSettings::default()).is_some());
    }
}
