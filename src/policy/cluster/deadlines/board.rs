//! What every method needs of a situation, made once a step: the ways to run each job, what each costs, and who is pressed most.
//!
//! The cost of a plan is what it would cost to its end if nobody else came: for each job the node's price, divided by the GPUs that
//! are used there, for as long as it runs, and its weight for each second that it ends after its deadline. (The thesis looks to the
//! first completion only, and adds a hundred times the worst case for jobs that wait.) To this comes the scarcity price: see
//! [`super::scarcity`]. A job that waits costs what it would cost alone now, and its weight for each second until the work that is there has drained: so
//! nobody waits where there is room. An idle GPU costs the scarcity price for the same time: work left undone is in the way of later jobs.
//! Imports: nothing of this crate but its neighbours here.

use super::plan::{Cell, Place, Plan, Situation};
use super::{draft::Draft, scarcity};

/// Waiting costs more than running by at least this.
const NO_TIE: f64 = 1e-6;

/// The order in which a job prefers the ways to run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Least cost first: price, lateness and scarcity together. Where GPUs are not scarce and a deadline can be met this is the
    /// thesis's rule.
    #[default]
    Scarcity,
    /// The thesis's second assumption to the letter: the cheapest that meets the deadline, else the fastest; nobody waits by choice.
    Thesis,
}

/// One way to run a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub gpu: usize,
    pub gpus: usize,
    /// What it costs, scarcity included.
    pub cost: f64,
}

/// A situation, prepared.
pub struct Board<'a> {
    pub(super) situation: &'a Situation<'a>,
    /// The ways of all jobs, for each the preferred one first.
    choices: Vec<Choice>,
    /// Where each job's ways end.
    ends: Vec<usize>,
    /// For each job what waiting costs; infinite where a rule knows no waiting by choice.
    pub(super) patience: Vec<f64>,
    /// For each job what waiting costs in a plan.
    waiting: Vec<f64>,
    /// The jobs, the one with the greatest pressure first (eq. 3.1).
    pub(super) order: Vec<usize>,
    /// The largest weight ω among the jobs.
    pub(super) most_weight: f64,
    /// Of a GPU-second.
    scarcity: f64,
    /// What a GPU costs that stays idle: its scarcity price until the work that is there has drained.
    idle_gpu: f64,
    /// For each job, GPU type and number of GPUs: as started anew there.
    cells: Vec<Option<Cell>>,
    /// For each job: as it stays.
    stays: Vec<Option<Cell>>,
    /// The longest row of `cells`.
    widest: usize,
}

impl<'a> Board<'a> {
    /// Prepares a step.
    pub fn new(situation: &'a Situation<'a>, rule: Rule) -> Board<'a> {
        let gpu_types = situation.catalogue.gpu_types().len();
        let widest = (0..gpu_types).map(|gpu| situation.catalogue.most_gpus(gpu)).max().unwrap_or(0);
        let mut board = Board {
            situation,
            choices: Vec::with_capacity(situation.jobs.len() * gpu_types * widest),
            ends: Vec::with_capacity(situation.jobs.len()),
            patience: Vec::with_capacity(situation.jobs.len()),
            waiting: Vec::with_capacity(situation.jobs.len()),
            order: by_pressure(situation),
            most_weight: situation.jobs.iter().map(|job| job.weight).fold(0.0, f64::max),
            scarcity: 0.0,
            idle_gpu: 0.0,
            cells: vec![None; situation.jobs.len() * gpu_types * widest],
            stays: vec![None; situation.jobs.len()],
            widest,
        };
        board.fill_cells();
        let drained_s = scarcity::drained_s(situation);
        let bids = scarcity::bids(situation, drained_s, |job| board.cells_of(job));
        if rule == Rule::Scarcity {
            board.scarcity = scarcity::clearing(&bids, scarcity::gpus(situation) as f64);
        }
        board.idle_gpu = board.scarcity * drained_s;
        for (job, bids) in bids.iter().enumerate() {
            board.rank(job, rule);
            let patience = if rule == Rule::Thesis { f64::INFINITY } else { bids.waiting(board.scarcity) };
            board.ends.push(board.choices.len());
            board.patience.push(patience);
            board.waiting.push(board.alone(job) + situation.jobs[job].weight * drained_s + NO_TIE);
        }
        board
    }

    fn fill_cells(&mut self) {
        let situation = self.situation;
        for (at, job) in situation.jobs.iter().enumerate() {
            let gpu_now = situation.gpu_now(job);
            let cell = |gpus: usize, seconds: f64| Cell {
                gpu_s: gpus as f64 * seconds,
                seconds,
                lateness: job.weight * (situation.now_s + seconds - job.deadline_s).max(0.0),
            };
            for (gpu, gpus, _) in job.times.all() {
                let slot = self.slot(at, gpu, gpus);
                self.cells[slot] = situation.seconds_left(job, gpu, gpus, false).map(|seconds| cell(gpus, seconds));
                if gpu_now == Some(gpu) && job.place.is_some_and(|place| place.gpus == gpus) {
                    self.stays[at] = situation.seconds_left(job, gpu, gpus, true).map(|seconds| cell(gpus, seconds));
                }
            }
        }
    }

    fn slot(&self, job: usize, gpu: usize, gpus: usize) -> usize {
        (job * self.situation.catalogue.gpu_types().len() + gpu) * self.widest + gpus - 1
    }

    /// A job as started anew on so many GPUs; `None` where it cannot run.
    pub(super) fn cell(&self, job: usize, gpu: usize, gpus: usize) -> Option<Cell> {
        if gpus == 0 || gpus > self.widest { None } else { self.cells[self.slot(job, gpu, gpus)] }
    }

    /// Cost of a way to run a job on a full node of the cheapest type.
    pub(super) fn price_of(&self, gpu: usize, cell: Cell) -> f64 {
        (self.situation.catalogue.gpu_price_per_s(gpu) + self.scarcity) * cell.gpu_s + cell.lateness
    }

    /// The least that a job costs alone on a node, started now.
    fn alone(&self, job: usize) -> f64 {
        let catalogue = self.situation.catalogue;
        let ways = self.situation.jobs[job].times.all().filter_map(|(gpu, gpus, _)| {
            let price = catalogue.price_per_s(catalogue.cheapest_with(gpu, gpus)?) / gpus as f64 + self.scarcity;
            self.cell(job, gpu, gpus).map(|cell| price * cell.gpu_s + cell.lateness)
        });
        ways.fold(f64::INFINITY, f64::min)
    }

    /// Each way to start a job anew.
    fn cells_of(&self, job: usize) -> impl Iterator<Item = (usize, usize, Cell)> {
        let ways = self.situation.jobs[job].times.all();
        ways.filter_map(move |(gpu, gpus, _)| self.cell(job, gpu, gpus).map(|cell| (gpu, gpus, cell)))
    }

    /// The ways to run a job, the preferred one first.
    pub(super) fn choices(&self, job: usize) -> &[Choice] {
        let start = if job == 0 { 0 } else { self.ends[job - 1] };
        &self.choices[start..self.ends[job]]
    }

    fn rank(&mut self, job: usize, rule: Rule) {
        let start = self.choices.len();
        let mut choices = std::mem::take(&mut self.choices);
        let choice = |(gpu, gpus, cell)| Choice { gpu, gpus, cost: self.price_of(gpu, cell) };
        choices.extend(self.cells_of(job).map(choice));
        let deadline_s = self.situation.jobs[job].deadline_s;
        choices[start..].sort_unstable_by(|one, other| {
            let by_cost = one.cost.total_cmp(&other.cost);
            if rule == Rule::Scarcity {
                return by_cost;
            }
            let end = |choice: &Choice| {
                let seconds = self.cell(job, choice.gpu, choice.gpus).map_or(f64::INFINITY, |cell| cell.seconds);
                self.situation.now_s + seconds
            };
            let (one, other) = (end(one), end(other));
            let late = one > deadline_s;
            late.cmp(&(other > deadline_s)).then(if late { one.total_cmp(&other) } else { by_cost })
        });
        self.choices = choices;
    }

    /// What one node costs to the end of its jobs, less what its GPUs would cost if they were idle: `jobs` are pairs of job and GPUs.
    pub(super) fn node_cost(&self, node: usize, gpu: usize, jobs: &[(usize, usize)]) -> f64 {
        self.node_cost_of(node, gpu, jobs.iter().copied())
    }

    /// [`Board::node_cost`] of jobs that stand in no list.
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
            let stays = same && self.situation.jobs[job].place == Some(Place { node, gpus });
            let cell = if stays { self.stays[job] } else { self.cell(job, gpu, gpus) };
            cost += cell.map_or(f64::INFINITY, |cell| price * cell.gpu_s + cell.lateness);
        }
        cost
    }

    /// The node type that jobs need: the cheapest that is large enough; but where a restart costs something, what is open stays open
    /// while somebody stays on it. `None` where nobody is there or no node is large enough.
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
        let open = self.situation.nodes[node].filter(|open| {
            let open = &catalogue.nodes()[*open];
            self.situation.restart_s > 0.0 && open.gpu == gpu && open.gpus >= used
        });
        let stays = |(job, gpus): (usize, usize)| self.situation.jobs[job].place == Some(Place { node, gpus });
        open.filter(|_| jobs.any(stays)).or_else(|| catalogue.cheapest_with(gpu, used))
    }

    /// The node type that the jobs of a node need, see above.
    pub(super) fn type_for(&self, node: usize, gpu: usize, jobs: &[(usize, usize)]) -> Option<usize> {
        let used = jobs.iter().map(|(_, gpus)| gpus).sum();
        self.node_type(node, gpu, used, jobs.iter().copied())
    }

    /// What waiting costs a job in a plan.
    pub(super) fn waiting_cost(&self, job: usize) -> f64 {
        self.waiting[job]
    }

    /// What a draft costs.
    pub fn cost(&self, draft: &Draft) -> f64 {
        let seats = draft.seats(self.situation.nodes.len());
        let nodes: f64 = seats.iter().enumerate().map(|(node, jobs)| self.node_cost(node, draft.gpu[node], jobs)).sum();
        let waiting = draft.places.iter().enumerate().filter(|(_, place)| place.is_none());
        let idle = self.idle_gpu * scarcity::gpus(self.situation) as f64;
        nodes + idle + waiting.map(|(job, _)| self.waiting_cost(job)).sum::<f64>()
    }

    /// A draft as a plan: each node gets its type, or is closed.
    pub fn plan(&self, draft: &Draft) -> Plan {
        let seats = draft.seats(self.situation.nodes.len());
        let node_type = |(node, jobs): (usize, &Vec<(usize, usize)>)| self.type_for(node, draft.gpu[node], jobs);
        Plan { nodes: seats.iter().enumerate().map(node_type).collect(), places: draft.places.clone() }
    }
}

/// Δ = T_c + min t − d, the greatest first (eq. 3.1).
fn by_pressure(situation: &Situation<'_>) -> Vec<usize> {
    let pressure: Vec<f64> =
        situation.jobs.iter().map(|job| situation.now_s + job.times.fastest_s() * job.left - job.deadline_s).collect();
    let mut order: Vec<usize> = (0..situation.jobs.len()).collect();
    order.sort_by(|one, other| pressure[*other].total_cmp(&pressure[*one]));
    order
}
