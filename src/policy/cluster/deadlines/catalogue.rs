//! Node types that can be rented, and run times of jobs on them.

const SECONDS_AN_HOUR: f64 = 3600.0;

/// A kind of node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeType {
    /// Name in the price list.
    pub name: String,
    /// The type of its GPUs: an index into [`Catalogue::gpu_types`].
    pub gpu: usize,
    /// How many GPUs it has.
    pub gpus: usize,
    /// Price per hour, whether its GPUs are used or not.
    pub price_per_hour: f64,
}

/// The node types that may be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    gpu_types: Vec<String>,
    nodes: Vec<NodeType>,
    /// The cheapest node type with enough GPUs, by GPU type and number of used GPUs.
    smallest: Vec<Vec<usize>>,
    /// Lowest price of one GPU per second, by GPU type.
    gpu_price: Vec<f64>,
}

impl Catalogue {
    /// Builds a catalogue from rows of name, GPU type, number of GPUs, price per hour.
    ///
    /// # Errors
    /// No row, a node without GPUs, or a price that is negative or not finite.
    pub fn new(rows: &[(&str, &str, usize, f64)]) -> Result<Catalogue, String> {
        let mut gpu_types: Vec<String> = Vec::new();
        let mut nodes = Vec::new();
        for (name, gpu_type, gpus, price_per_hour) in rows {
            if *gpus == 0 || !price_per_hour.is_finite() || *price_per_hour < 0.0 {
                return Err(format!("node type {name}: expected at least one GPU and a non-negative price"));
            }
            let known = gpu_types.iter().position(|known| known == gpu_type);
            let gpu = known.unwrap_or_else(|| {
                gpu_types.push((*gpu_type).to_owned());
                gpu_types.len() - 1
            });
            nodes.push(NodeType { name: (*name).to_owned(), gpu, gpus: *gpus, price_per_hour: *price_per_hour });
        }
        if nodes.is_empty() {
            return Err("the price list has no node types; add at least one".to_owned());
        }
        let mut catalogue = Catalogue { gpu_types, nodes, smallest: Vec::new(), gpu_price: Vec::new() };
        for gpu in 0..catalogue.gpu_types.len() {
            let (smallest, price) = catalogue.summary(gpu);
            catalogue.smallest.push(smallest);
            catalogue.gpu_price.push(price);
        }
        Ok(catalogue)
    }

    fn summary(&self, gpu: usize) -> (Vec<usize>, f64) {
        let of_type = || self.nodes.iter().enumerate().filter(move |(_, node)| node.gpu == gpu);
        let most = of_type().map(|(_, node)| node.gpus).max().unwrap_or(0);
        let cheapest = |used: usize| {
            let fits = of_type().filter(|(_, node)| node.gpus >= used);
            fits.min_by(|(_, one), (_, other)| one.price_per_hour.total_cmp(&other.price_per_hour))
        };
        let smallest = (0..=most).filter_map(|used| cheapest(used.max(1)).map(|(at, _)| at)).collect();
        let price = of_type().map(|(_, node)| node.price_per_hour / node.gpus as f64 / SECONDS_AN_HOUR);
        (smallest, price.fold(f64::INFINITY, f64::min))
    }

    /// Names of the GPU types.
    pub fn gpu_types(&self) -> &[String] {
        &self.gpu_types
    }

    /// The node types, numbered as plans number them.
    pub fn nodes(&self) -> &[NodeType] {
        &self.nodes
    }

    /// Returns the number of GPUs of the largest node with this GPU type.
    pub fn most_gpus(&self, gpu: usize) -> usize {
        self.smallest[gpu].len() - 1
    }

    /// Returns the cheapest node type with at least `gpus` GPUs of this type.
    pub fn cheapest_with(&self, gpu: usize, gpus: usize) -> Option<usize> {
        self.smallest[gpu].get(gpus).copied()
    }

    /// Returns the price of a node type per second.
    pub fn price_per_s(&self, node: usize) -> f64 {
        self.nodes[node].price_per_hour / SECONDS_AN_HOUR
    }

    /// Returns the price of one GPU of this type per second, on the node type where it is cheapest.
    pub fn gpu_price_per_s(&self, gpu: usize) -> f64 {
        self.gpu_price[gpu]
    }

    /// Returns the least cost of a job that runs alone. The sum over all jobs is the lower bound of a schedule's cost.
    pub fn least_cost(&self, times: &RunTimes) -> f64 {
        times
            .all()
            .map(|(gpu, gpus, seconds)| gpus as f64 * seconds * self.gpu_price[gpu])
            .fold(f64::INFINITY, f64::min)
    }
}

/// t(job, GPU type, GPUs): seconds of a whole job.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTimes {
    /// By GPU type, then by the number of GPUs less one.
    seconds: Vec<Vec<Option<f64>>>,
    /// Entries of `seconds`: GPU type, number of GPUs, seconds. Cached because every step needs them.
    ways: Vec<(usize, usize, f64)>,
    /// The same in ascending order of GPU-seconds.
    by_work: Vec<(usize, usize, f64)>,
    fastest_s: f64,
    least_gpu_s: f64,
}

impl RunTimes {
    /// Builds the table for the nodes of a catalogue. Rows with more GPUs than its nodes have are ignored.
    ///
    /// # Errors
    /// A time that is not positive and finite, or a job that cannot run on any node type.
    pub fn new(catalogue: &Catalogue, rows: &[(usize, usize, f64)]) -> Result<RunTimes, String> {
        let mut seconds: Vec<Vec<Option<f64>>> =
            (0..catalogue.gpu_types.len()).map(|gpu| vec![None; catalogue.most_gpus(gpu)]).collect();
        for (gpu, gpus, time) in rows {
            if !time.is_finite() || *time <= 0.0 {
                return Err(format!("{time} seconds on {gpus} GPUs: expected a positive number"));
            }
            let entry = gpus.checked_sub(1).and_then(|at| seconds.get_mut(*gpu).and_then(|row| row.get_mut(at)));
            if let Some(entry) = entry {
                *entry = Some(*time);
            }
        }
        let row = |(gpu, row): (usize, &Vec<Option<f64>>)| -> Vec<(usize, usize, f64)> {
            row.iter().enumerate().filter_map(|(at, time)| time.map(|time| (gpu, at + 1, time))).collect()
        };
        let ways: Vec<_> = seconds.iter().enumerate().flat_map(row).collect();
        if ways.is_empty() {
            return Err("no run time for any node type; add the job to the table of run times".to_owned());
        }
        let gpu_s = |(_, gpus, seconds): &(usize, usize, f64)| *gpus as f64 * *seconds;
        let mut by_work = ways.clone();
        by_work.sort_by(|one, other| gpu_s(one).total_cmp(&gpu_s(other)));
        let fastest_s = ways.iter().map(|(.., seconds)| *seconds).fold(f64::INFINITY, f64::min);
        let least_gpu_s = gpu_s(&by_work[0]);
        Ok(RunTimes { seconds, ways, by_work, fastest_s, least_gpu_s })
    }

    /// Returns the seconds of the whole job on `gpus` GPUs of a type; `None` if it cannot run there.
    pub fn seconds(&self, gpu: usize, gpus: usize) -> Option<f64> {
        *self.seconds.get(gpu)?.get(gpus.checked_sub(1)?)?
    }

    /// Returns all ways to run the job: GPU type, number of GPUs, seconds.
    pub fn all(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        self.ways.iter().copied()
    }

    /// Returns all ways to run the job in ascending order of GPU-seconds.
    pub(super) fn by_work(&self) -> &[(usize, usize, f64)] {
        &self.by_work
    }

    /// min t: returns the seconds of the fastest way.
    pub fn fastest_s(&self) -> f64 {
        self.fastest_s
    }

    /// Returns the least GPU-seconds of all ways.
    pub fn least_gpu_s(&self) -> f64 {
        self.least_gpu_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_node_that_is_large_enough_is_found() {
        let rows = [("one", "K", 1, 1.0), ("four", "K", 4, 3.0), ("two", "K", 2, 3.5), ("big", "M", 8, 9.0)];
        let catalogue = Catalogue::new(&rows).unwrap();
        assert_eq!(
            [1, 2, 3, 4, 5].map(|gpus| catalogue.cheapest_with(0, gpus)),
            [Some(0), Some(1), Some(1), Some(1), None]
        );
        assert_eq!((catalogue.most_gpus(0), catalogue.most_gpus(1)), (4, 8));
        assert_eq!(catalogue.gpu_price_per_s(0), 0.75 / 3600.0);
    }

    #[test]
    fn the_least_cost_takes_the_best_of_price_and_speed() {
        let catalogue = Catalogue::new(&[("k", "K", 2, 7.2), ("m", "M", 1, 36.0)]).unwrap();
        let times = RunTimes::new(&catalogue, &[(0, 1, 100.0), (0, 2, 60.0), (1, 1, 5.0), (1, 9, 1.0)]).unwrap();
        assert!((catalogue.least_cost(&times) - 0.05).abs() < 1e-12);
        assert_eq!((times.fastest_s(), times.least_gpu_s(), times.seconds(1, 9)), (5.0, 5.0, None));
    }

    #[test]
    fn invalid_rows_are_rejected() {
        assert!(Catalogue::new(&[]).is_err() && Catalogue::new(&[("x", "K", 0, 1.0)]).is_err());
        let catalogue = Catalogue::new(&[("k", "K", 2, 7.2)]).unwrap();
        assert!(RunTimes::new(&catalogue, &[(0, 1, 0.0)]).is_err());
        assert!(RunTimes::new(&catalogue, &[(0, 3, 5.0)]).is_err());
    }
}
