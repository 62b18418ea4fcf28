//! Situations for tests: drawn from a seed, or built by hand.

use super::catalogue::{Catalogue, RunTimes};
use super::draw::Draw;
use super::plan::{Assignment, Situation, SubmittedJob};

/// Owned data of a situation.
pub(super) struct World {
    pub catalogue: Catalogue,
    pub times: Vec<RunTimes>,
    pub nodes: Vec<Option<usize>>,
    pub fixed: Vec<usize>,
    pub jobs: Vec<Drawn>,
    pub restart_s: f64,
}

/// A job without its run times.
pub(super) struct Drawn {
    pub left: f64,
    pub deadline_s: f64,
    pub weight: f64,
    pub place: Option<Assignment>,
}

impl World {
    /// Returns the jobs in the order of their numbers.
    pub(super) fn job_list(&self) -> Vec<SubmittedJob<'_>> {
        let job = |(number, (drawn, times))| {
            let drawn: &Drawn = drawn;
            SubmittedJob {
                times,
                left: drawn.left,
                number,
                deadline_s: drawn.deadline_s,
                weight: drawn.weight,
                place: drawn.place,
                started: drawn.place.is_some(),
                owed_s: 0.0,
            }
        };
        self.jobs.iter().zip(&self.times).enumerate().map(job).collect()
    }

    pub(super) fn situation<'a>(&'a self, jobs: &'a [SubmittedJob<'a>]) -> Situation<'a> {
        Situation {
            now_s: 0.0,
            catalogue: &self.catalogue,
            nodes: &self.nodes,
            fixed: &self.fixed,
            jobs,
            restart_s: self.restart_s,
        }
    }

    /// Draws a world like those of the evaluation: two GPU types on nodes of 1, 2, 4 and 8 GPUs, sublinear speed-ups, half of the deadlines
    /// not feasible on one GPU. With `running`, nodes are open and run some of the jobs.
    pub(super) fn drawn(seed: u64, nodes: usize, jobs: usize, running: bool, restart_s: f64) -> World {
        let mut draw = Draw::new(seed, 0);
        let rows: Vec<(String, &str, usize, f64)> = [("K", 0.56), ("M", 0.62)]
            .iter()
            .flat_map(|(gpu, price)| [1, 2, 4, 8].map(|gpus| (format!("{gpu}{gpus}"), *gpu, gpus, price * gpus as f64)))
            .collect();
        let rows: Vec<_> = rows.iter().map(|(name, gpu, gpus, price)| (name.as_str(), *gpu, *gpus, *price)).collect();
        let catalogue = Catalogue::new(&rows).unwrap();
        let (nodes, fixed) = (vec![None; nodes], Vec::new());
        let mut world = World { catalogue, times: Vec::new(), nodes, fixed, jobs: Vec::new(), restart_s };
        for _ in 0..jobs {
            let (one, power) = (20_000.0 + 300_000.0 * draw.uniform(), 0.1 + 0.6 * draw.uniform());
            let other = 0.8 + 0.4 * draw.uniform();
            let rows = (1..=8).flat_map(|gpus| {
                let time = one / (gpus as f64).powf(power);
                [(0, gpus, time), (1, gpus, time * other)]
            });
            let times = RunTimes::new(&world.catalogue, &rows.collect::<Vec<_>>()).unwrap();
            let deadline_s = times.fastest_s() * (0.8 + 1.5 * draw.uniform());
            world.times.push(times);
            let left = if running { 0.05 + 0.95 * draw.uniform() } else { 1.0 };
            world.jobs.push(Drawn { left, deadline_s, weight: 0.005 + 0.01 * draw.uniform(), place: None });
        }
        if running {
            world.settle(&mut draw);
        }
        world
    }

    /// Makes machines of the nodes: each keeps its type, a closed one gets any.
    pub(super) fn with_machines(mut self, seed: u64) -> World {
        let mut draw = Draw::new(seed, 1);
        self.fixed = self.nodes.iter().map(|open| open.unwrap_or_else(|| draw.weighted(&[1.0; 8]))).collect();
        self
    }

    fn settle(&mut self, draw: &mut Draw) {
        for node in 0..self.nodes.len() {
            let node_type = draw.weighted(&[1.0; 8]);
            let mut free = self.catalogue.nodes()[node_type].gpus;
            for job in self.jobs.iter_mut().filter(|job| job.place.is_none()) {
                let gpus = 1 + draw.weighted(&[4.0, 2.0, 1.0]);
                if gpus <= free && draw.uniform() < 0.5 {
                    job.place = Some(Assignment { node, gpus });
                    self.nodes[node] = Some(node_type);
                    free -= gpus;
                }
            }
        }
    }
}
