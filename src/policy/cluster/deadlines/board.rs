//! Input of all methods, prepared once per step: the ways to run each job, their costs, and the order of pressure.
//!
//! The cost of a plan is what it would cost to its end without new arrivals: for each job the node's price, divided by the number of GPUs
//! used there, for as long as it runs, and its weight for each second after its deadline. (The thesis looks to the first completion only,
//! and adds a hundred times the worst case for waiting jobs.) The scarcity price is added: see [`super::scarcity`].
//!
//! A waiting job costs what it would cost alone now, plus its weight for each second until the present work has drained, so no job waits
//! while there is room. An idle GPU costs the scarcity price for the same time, because unfinished work delays later jobs.

use super::draft::Draft;
use super::plan::{Assignment, Cell, Plan, Situation};
use super::scarcity::{self, Bids, Way};

/// Waiting costs more than running by at least this.
const NO_TIE: f64 = 1e-6;

/// Rule by which the ways to run a job are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Least cost first: price, lateness and scarcity together. Where GPUs are not scarce and a deadline can be met this is the
    /// thesis's rule.
    #[default]
    Scarcity,
    /// The thesis's second assumption as written: the cheapest that meets the deadline, else the fastest; no job waits by choice.
    Thesis,
}

/// One way to run a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub gpu: usize,
    pub gpus: usize,
    /// Cost, scarcity included.
    pub cost: f64,
}

/// A prepared situation.
pub struct Board<'a> {
    pub(super) situation: &'a Situation<'a>,
    /// Ways to run all jobs, grouped by job, the preferred one first.
    choices: Vec<Choice>,
    /// End of each job's group in `choices`.
    ends: Vec<usize>,
    /// Cost up to which each job starts rather than waits; infinite if the rule has no waiting by choice.
    pub(super) patience: Vec<f64>,
    /// Cost of waiting in a plan, by job.
    waiting: Vec<f64>,
    /// The jobs in descending order of pressure (eq. 3.1).
    pub(super) order: Vec<usize>,
    /// The largest weight ω among the jobs.
    pub(super) most_weight: f64,
    /// Scarcity price of a GPU-second.
    scarcity: f64,
    /// Cost of an idle GPU: its scarcity price until the present work has drained.
    idle_gpu: f64,
    /// Each job if started anew, by job, GPU type and number of GPUs.
    cells: Vec<Option<Cell>>,
    /// Each job if it stays where it is.
    stays: Vec<Option<Cell>>,
    /// The longest row of `cells`.
    widest: usize,
}

impl<'a> Board<'a> {
    /// Prepares a step.
    pub fn new(situation: &'a Situation<'a>, rule: Rule) -> Board<'a> {
        let catalogue = situation.catalogue;
        let gpu_types = catalogue.gpu_types().len();
        let widest = (0..gpu_types).map(|gpu| catalogue.most_gpus(gpu)).max().unwrap_or(0);
        let jobs = situation.jobs.len();
        let mut board = Board {
            situation,
            choices: Vec::with_capacity(jobs * gpu_types * widest),
            ends: Vec::with_capacity(jobs),
            patience: Vec::with_capacity(jobs),
            waiting: Vec::with_capacity(jobs),
            order: by_pressure(situation),
            most_weight: situation.jobs.iter().map(|job| job.weight).fold(0.0, f64::max),
            scarcity: 0.0,
            idle_gpu: 0.0,
            cells: vec![None; jobs * gpu_types * widest],
            stays: vec![None; jobs],
            widest,
        };
        let drained_s = scarcity::drained_s(situation);
        let bids = board.fill_cells(drained_s);
        if rule == Rule::Scarcity {
            board.scarcity = bids.clearing(scarcity::gpus(situation));
        }
        board.idle_gpu = board.scarcity * drained_s;
        match rule {
            Rule::Scarcity => board.patience.extend(bids.waiting(board.scarcity)),
            Rule::Thesis => board.patience.resize(jobs, f64::INFINITY),
        }
        board.rank(rule, drained_s);
        board
    }

    /// Fills `cells` and `stays`, and returns the bids of all jobs.
    fn fill_cells(&mut self, drained_s: f64) -> Bids {
        let situation = self.situation;
        let mut bids = Bids::with_capacity(situation.jobs.len());
        let mut ways = Vec::with_capacity(16);
        for (at, job) in situation.jobs.iter().enumerate() {
            let cell = |gpus: usize, seconds: f64| Cell {
                gpu_s: gpus as f64 * seconds,
                seconds,
                lateness: job.weight * (situation.now_s + seconds - job.deadline_s).max(0.0),
            };
            let (restart_s, row) = (situation.restart_of(job), at * self.row());
            ways.clear();
            for &(gpu, gpus, seconds) in job.times.by_work() {
                let seconds = seconds * job.left + restart_s;
                let cell = cell(gpus, seconds);
                self.cells[row + gpu * self.widest + gpus - 1] = Some(cell);
                let rent = situation.catalogue.gpu_price_per_s(gpu) * cell.gpu_s;
                let late = job.weight * (situation.now_s + drained_s + seconds - job.deadline_s).max(0.0);
                let later = rent + late + job.weight * drained_s;
                ways.push(Way { now: rent + cell.lateness, later, gpu_s: cell.gpu_s, gpus });
            }
            // Nearly sorted already: only the restart time can change the order.
            ways.sort_unstable_by_key(|way| way.gpu_s.to_bits());
            bids.push(&ways);
            if let (Some(place), Some(gpu)) = (job.place, situation.gpu_now(job)) {
                let seconds = situation.seconds_left(job, gpu, place.gpus, true);
                self.stays[at] = seconds.map(|seconds| cell(place.gpus, seconds));
            }
        }
        bids
    }

    /// Number of cells per job.
    fn row(&self) -> usize {
        self.situation.catalogue.gpu_types().len() * self.widest
    }

    fn slot(&self, job: usize, gpu: usize, gpus: usize) -> usize {
        job * self.row() + gpu * self.widest + gpus - 1
    }

    /// Returns the cell of a job that is started anew on this number of GPUs; `None` if it cannot run there.
    pub(super) fn cell(&self, job: usize, gpu: usize, gpus: usize) -> Option<Cell> {
        if gpus == 0 || gpus > self.widest { None } else { self.cells[self.slot(job, gpu, gpus)] }
    }

    /// Returns the smallest number of GPUs of a type on which a job can run; 1 if it cannot.
    pub(super) fn least(&self, job: usize, gpu: usize) -> usize {
        (1..=self.widest).find(|gpus| self.cell(job, gpu, *gpus).is_some()).unwrap_or(1)
    }

    /// Returns the ways to run a job, the preferred one first.
    pub(super) fn choices(&self, job: usize) -> &[Choice] {
        let start = if job == 0 { 0 } else { self.ends[job - 1] };
        &self.choices[start..self.ends[job]]
    }

    /// Sorts the ways to run each job, and sets its cost of waiting from its least cost alone on a node, started now.
    fn rank(&mut self, rule: Rule, drained_s: f64) {
        let catalogue = self.situation.catalogue;
        let gpu_types = 0..catalogue.gpu_types().len();
        let full: Vec<f64> = gpu_types.clone().map(|gpu| catalogue.gpu_price_per_s(gpu) + self.scarcity).collect();
        let price_alone = |gpu: usize, gpus: usize| {
            let node_type = catalogue.cheapest_with(gpu, gpus);
            node_type.map_or(f64::INFINITY, |node_type| catalogue.price_per_s(node_type) / gpus as f64 + self.scarcity)
        };
        let prices_alone: Vec<f64> =
            gpu_types.flat_map(|gpu| (1..=self.widest).map(move |gpus| price_alone(gpu, gpus))).collect();
        for (at, job) in self.situation.jobs.iter().enumerate() {
            let row = &self.cells[at * self.row()..(at + 1) * self.row()];
            let (start, mut alone) = (self.choices.len(), f64::INFINITY);
            for (gpu, gpus, _) in job.times.all() {
                let slot = gpu * self.widest + gpus - 1;
                let Some(cell) = row[slot] else { continue };
                alone = alone.min(prices_alone[slot] * cell.gpu_s + cell.lateness);
                self.choices.push(Choice { gpu, gpus, cost: full[gpu] * cell.gpu_s + cell.lateness });
            }
            let choices = &mut self.choices[start..];
            match rule {
                // Non-negative floats sort like their bits, which compare faster.
                Rule::Scarcity => choices.sort_unstable_by_key(|choice| choice.cost.to_bits()),
                Rule::Thesis => choices.sort_unstable_by(|one, other| {
                    let cell = |choice: &Choice| row[choice.gpu * self.widest + choice.gpus - 1];
                    let end = |choice: &Choice| {
                        self.situation.now_s + cell(choice).map_or(f64::INFINITY, |cell| cell.seconds)
                    };
                    let by_cost = one.cost.total_cmp(&other.cost);
                    let (one, other) = (end(one), end(other));
                    let late = one > job.deadline_s;
                    late.cmp(&(other > job.deadline_s)).then(if late { one.total_cmp(&other) } else { by_cost })
                }),
            }
            self.ends.push(self.choices.len());
            self.waiting.push(alone + job.weight * drained_s + NO_TIE);
        }
    }

    /// Returns the cost of one node to the end of its jobs, less the cost of its used GPUs if idle. `jobs` are pairs of job and GPUs.
    pub(super) fn node_cost(&self, node: usize, gpu: usize, jobs: &[(usize, usize)]) -> f64 {
        self.node_cost_of(node, gpu, jobs.iter().copied())
    }

    /// Like [`Board::node_cost`], for an iterator of jobs.
    pub(super) fn node_cost_of<Jobs: Iterator<Item = (usize, usize)> + Clone>(
        &self,
        node: usize,
        gpu: usize,
        jobs: Jobs,
    ) -> f64 {
        let used: usize = jobs.clone().map(|(_, gpus)| gpus).sum();
        let Some(node_type) = self.node_type(node, gpu, used, jobs.clone()) else {
            return if used == 0 { 0.0 } else { f64::INFINITY };
        };
        let same = self.situation.nodes[node] == Some(node_type);
        let price = self.situation.catalogue.price_per_s(node_type) / used as f64 + self.scarcity;
        let mut cost = -self.idle_gpu * used as f64;
        for (job, gpus) in jobs {
            let stays = same && self.situation.jobs[job].place == Some(Assignment { node, gpus });
            let cell = if stays { self.stays[job] } else { self.cell(job, gpu, gpus) };
            cost += cell.map_or(f64::INFINITY, |cell| price * cell.gpu_s + cell.lateness);
        }
        cost
    }

    /// Returns the cheapest node type that is large enough for the jobs, or the fixed one. If a restart costs time, a large enough open node
    /// keeps its type while a job stays on it. `None` if there are no jobs or no type is large enough.
    fn node_type(
        &self,
        node: usize,
        gpu: usize,
        used: usize,
        mut jobs: impl Iterator<Item = (usize, usize)>,
    ) -> Option<usize> {
        if used == 0 {
            return None;
        }
        let catalogue = self.situation.catalogue;
        if let Some(fixed) = self.situation.fixed.get(node) {
            let has = &catalogue.nodes()[*fixed];
            return (has.gpu == gpu && has.gpus >= used).then_some(*fixed);
        }
        let open = self.situation.nodes[node].filter(|open| {
            let open = &catalogue.nodes()[*open];
            self.situation.restart_s > 0.0 && open.gpu == gpu && open.gpus >= used
        });
        let stays = |(job, gpus): (usize, usize)| self.situation.jobs[job].place == Some(Assignment { node, gpus });
        open.filter(|_| jobs.any(stays)).or_else(|| catalogue.cheapest_with(gpu, used))
    }

    /// Like [`Board::node_type`], for a list of jobs.
    pub(super) fn type_for(&self, node: usize, gpu: usize, jobs: &[(usize, usize)]) -> Option<usize> {
        let used = jobs.iter().map(|(_, gpus)| gpus).sum();
        self.node_type(node, gpu, used, jobs.iter().copied())
    }

    /// Returns the cost of waiting of a job in a plan.
    pub(super) fn waiting_cost(&self, job: usize) -> f64 {
        self.waiting[job]
    }

    /// Returns the cost of a draft.
    pub fn cost(&self, draft: &Draft) -> f64 {
        let seats = draft.seats(self.situation.nodes.len());
        let nodes: f64 = seats.iter().enumerate().map(|(node, jobs)| self.node_cost(node, draft.gpu[node], jobs)).sum();
        let waiting = draft.places.iter().enumerate().filter(|(_, place)| place.is_none());
        let idle = self.idle_gpu * scarcity::gpus(self.situation) as f64;
        nodes + idle + waiting.map(|(job, _)| self.waiting_cost(job)).sum::<f64>()
    }

    /// Converts a draft to a plan: each node gets its type, or is closed.
    pub fn plan(&self, draft: &Draft) -> Plan {
        let seats = draft.seats(self.situation.nodes.len());
        let node_type = |(node, jobs): (usize, &Vec<(usize, usize)>)| self.type_for(node, draft.gpu[node], jobs);
        Plan { nodes: seats.iter().enumerate().map(node_type).collect(), places: draft.places.clone() }
    }
}

/// Returns the jobs in descending order of Δ = T_c + min t − d (eq. 3.1).
fn by_pressure(situation: &Situation<'_>) -> Vec<usize> {
    let pressure: Vec<f64> =
        situation.jobs.iter().map(|job| situation.now_s + job.times.fastest_s() * job.left - job.deadline_s).collect();
    let mut order: Vec<usize> = (0..situation.jobs.len()).collect();
    order.sort_by(|one, other| pressure[*other].total_cmp(&pressure[*one]));
    order
}
