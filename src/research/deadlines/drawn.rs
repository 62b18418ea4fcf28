//! Random instances, drawn as the thesis's evaluation describes them.
//!
//! Ten jobs per node; a mean time between two submissions to one node of [`GAP_S`] or another; the node types of table 4.1, with or without
//! the in-house servers; trainings of its four networks. The thesis has no run times, on any node: those here are in the ranges of the table
//! that its group published with its simulator (ai-sprint-eu-project/GPUScheduler), and speed-ups follow what the thesis says of each network.

use super::instance::{Instance, InstanceJob};
use policy::cluster::deadlines::{Catalogue, RunTimes};
use sim::random::Stream;

const JOBS_PER_NODE: usize = 10;

/// Seconds between two submissions to one node in most of the thesis's evaluation.
pub const GAP_S: f64 = 30_000.0;

/// Deadlines as multiples of a job's shortest run time, at most: the thesis does not have them. With the loose ones, its greedy rule gains
/// as much over EDF as published; with the tight ones nearly every job is late once a few are.
pub const LOOSE: f64 = 5.0;
/// See [`LOOSE`].
pub const TIGHT: f64 = 2.5;
/// Those of the instances that the thesis's group published with its simulator.
pub const PUBLISHED: f64 = 3.0;

/// What instances are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// Number of nodes.
    pub nodes: usize,
    /// Mean seconds between two submissions to one node.
    pub gap_s: f64,
    /// Deadlines are up to this many times a job's shortest run time after its submission.
    pub slack: f64,
    /// Whether a node can be one of the in-house servers too.
    pub in_house: bool,
}

/// Name, type of GPU, number of GPUs, and price per hour of a node.
type Priced = (&'static str, &'static str, usize, f64);

/// The rented nodes of table 4.1, and the two largest, which the text names without numbers.
const RENTED: [Priced; 8] = [
    ("Standard NC6", "K80", 1, 0.56),
    ("Standard NC12", "K80", 2, 1.13),
    ("Standard NC24", "K80", 4, 2.25),
    ("Standard NC24X", "K80", 8, 4.5),
    ("Standard NV6", "M60", 1, 0.62),
    ("Standard NV12", "M60", 2, 1.24),
    ("Standard NV24", "M60", 4, 2.48),
    ("Standard NV24X", "M60", 8, 4.96),
];

/// The in-house servers of table 4.1.
const IN_HOUSE: [Priced; 3] = [
    ("In-house server 1", "Quadro P600", 2, 0.11),
    ("In-house server 2", "GTX 1080Ti", 8, 1.13),
    ("In-house server 3", "Quadro P600", 8, 0.44),
];

/// A type of GPU in the in-house servers: the run time on one as a multiple of that on a K80, and the speed-up on eight; both from … to. The
/// published table has AlexNet alone, which gets slower on several GTX 1080Ti.
struct InHouse {
    on_one: (f64, f64),
    speed_up: (f64, f64),
}

/// In the order of their types in the catalogue.
const IN_HOUSE_GPUS: [InHouse; 2] =
    [InHouse { on_one: (2.4, 2.7), speed_up: (3.5, 5.5) }, InHouse { on_one: (0.75, 0.8), speed_up: (0.8, 1.0) }];

/// A network: its speed-up on eight GPUs, and its run time on an M60 as a multiple of that on a K80; both from … to.
struct Network {
    speed_up: (f64, f64),
    on_m60: (f64, f64),
}

const NETWORKS: [Network; 4] = [
    // AlexNet: many parameters to exchange for little computation.
    Network { speed_up: (1.2, 1.5), on_m60: (0.9, 1.0) },
    // VGG: computation decides.
    Network { speed_up: (1.5, 2.0), on_m60: (0.9, 1.0) },
    // Deep Speech: recurrent; the speed of memory decides, which is greater on a K80.
    Network { speed_up: (1.3, 1.8), on_m60: (1.1, 1.2) },
    // ResNet: balanced.
    Network { speed_up: (1.8, 2.4), on_m60: (1.0, 1.1) },
];

impl Instance {
    /// Draws the instance of that seed. With in-house servers the jobs are the same.
    pub fn drawn(drawn: Drawn, seed: u64) -> Instance {
        let Drawn { nodes, gap_s, slack, in_house } = drawn;
        let (mut stream, mut of_in_house) = (Stream::new(seed, 0), Stream::new(seed, 1));
        let priced: Vec<Priced> = RENTED.into_iter().chain(IN_HOUSE.into_iter().filter(|_| in_house)).collect();
        let catalogue = Catalogue::new(&priced).expect("prices above zero");
        let mut submit_s = 0.0;
        let jobs = (0..nodes * JOBS_PER_NODE).map(|number| {
            submit_s -= (1.0 - 0.999_999 * stream.uniform(0.0, 1.0)).ln() * gap_s / nodes as f64;
            let Network { speed_up, on_m60 } = &NETWORKS[stream.below(NETWORKS.len())];
            let one = stream.uniform(70_000.0, 340_000.0);
            let (most, other) = (stream.uniform(speed_up.0, speed_up.1), stream.uniform(on_m60.0, on_m60.1));
            let mut speeds = vec![(1.0, most), (other, most)];
            speeds.extend(IN_HOUSE_GPUS.iter().filter(|_| in_house).map(|InHouse { on_one, speed_up }| {
                (of_in_house.uniform(on_one.0, on_one.1), of_in_house.uniform(speed_up.0, speed_up.1))
            }));
            let time = |gpus: usize, most: f64| one / (1.0 + (most - 1.0) * (gpus - 1) as f64 / 7.0);
            let of_type = |(gpu, (on_one, most)): (usize, &(f64, f64))| {
                let (on_one, most) = (*on_one, *most);
                (1..=8).map(move |gpus| (gpu, gpus, on_one * time(gpus, most)))
            };
            let rows: Vec<_> = speeds.iter().enumerate().flat_map(of_type).collect();
            let times = RunTimes::new(&catalogue, &rows).expect("times above zero for GPUs of the catalogue");
            let deadline_s = submit_s + times.fastest_s() * stream.uniform(1.0, slack);
            let weight = stream.uniform(0.005, 0.015);
            InstanceJob { id: number.to_string(), submit_s, deadline_s, weight, times }
        });
        let jobs = jobs.collect();
        Instance { name: format!("1-{nodes}"), nodes, catalogue, jobs }
    }
}
