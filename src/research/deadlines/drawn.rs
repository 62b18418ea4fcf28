//! Random instances, drawn as the thesis's evaluation describes them.
//!
//! Ten jobs per node; a mean of 30,000 s divided by the number of nodes between two submissions; nodes of 1, 2, 4 or 8 GPUs of two types at
//! the prices of a cloud. Run times, speed-ups, deadlines and weights are in the ranges of published instances.

use super::instance::{Instance, InstanceJob};
use policy::cluster::deadlines::{Catalogue, RunTimes};
use sim::random::Stream;

const JOBS_PER_NODE: usize = 10;
/// Seconds between two submissions to one node.
const GAP_S: f64 = 30_000.0;
/// Type of GPU, and its price per hour.
const GPU_PRICES: [(&str, f64); 2] = [("K80", 0.56), ("M60", 0.62)];
const GPUS: [usize; 4] = [1, 2, 4, 8];

impl Instance {
    /// Draws the instance of that seed.
    pub fn drawn(nodes: usize, seed: u64) -> Instance {
        let mut stream = Stream::new(seed, 0);
        let mut uniform = move || stream.uniform(0.0, 1.0);
        let catalogue = catalogue();
        let mut submit_s = 0.0;
        let jobs = (0..nodes * JOBS_PER_NODE).map(|number| {
            submit_s -= (1.0 - 0.999_999 * uniform()).ln() * GAP_S / nodes as f64;
            let (one, most, other) = (70_000.0 + 270_000.0 * uniform(), 1.2 + 1.2 * uniform(), 0.9 + 0.3 * uniform());
            let time = |gpus: usize| one / (1.0 + (most - 1.0) * (gpus - 1) as f64 / 7.0);
            let rows: Vec<_> =
                (1..=8).flat_map(|gpus| [(0, gpus, time(gpus)), (1, gpus, other * time(gpus))]).collect();
            let times = RunTimes::new(&catalogue, &rows).expect("times above zero for GPUs of the catalogue");
            let deadline_s = submit_s + times.fastest_s() * (1.0 + 1.5 * uniform());
            InstanceJob { id: number.to_string(), submit_s, deadline_s, weight: 0.005 + 0.01 * uniform(), times }
        });
        let jobs = jobs.collect();
        Instance { name: format!("1-{nodes}"), nodes, catalogue, jobs }
    }
}

fn catalogue() -> Catalogue {
    let rows: Vec<(String, &str, usize, f64)> = GPU_PRICES
        .iter()
        .flat_map(|(gpu, price)| GPUS.map(|gpus| (format!("{gpu}x{gpus}"), *gpu, gpus, price * gpus as f64)))
        .collect();
    let rows: Vec<_> = rows.iter().map(|(name, gpu, gpus, price)| (name.as_str(), *gpu, *gpus, *price)).collect();
    Catalogue::new(&rows).expect("prices above zero")
}
