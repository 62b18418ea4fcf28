//! Local search: the seven neighbourhoods of the thesis, and an eighth.
//!
//! Source: thesis §3.1.5. Candidates are jobs that are expected to be late, the most expensive lateness first. If fewer than k are late, the
//! most expensive running jobs complete the list (in the thesis they do not: a plan without lateness is not changed). The eighth moves one
//! job and redistributes the GPUs of the nodes concerned. Without it no neighbourhood empties a node, opens one or starts a waiting job, and
//! plans cost up to three times the optimum. Each round makes the best change of all, until none makes the plan cheaper.

use super::board::Board;
use super::draft::Draft;
use super::plan::Assignment;

/// k: maximum number of jobs in each list of candidates.
const CANDIDATES: usize = 10;

/// Maximum number of changes. A search also ends without it, as each change makes the plan cheaper.
const ROUNDS: usize = 60;

/// Smaller gains do not count.
const LEAST_GAIN: f64 = 1e-9;

/// A changed node: node, GPU type, jobs with their numbers of GPUs.
type ChangedNode = (usize, usize, Vec<(usize, usize)>);

/// Difference to the current plan.
struct Change {
    nodes: Vec<ChangedNode>,
    /// A waiting job that would run.
    starts: Option<usize>,
    /// A running job that would wait.
    stops: Option<usize>,
}

/// State of a search.
struct Search<'b, 'a> {
    board: &'b Board<'a>,
    gpu: Vec<usize>,
    seats: Vec<Vec<(usize, usize)>>,
    cost: Vec<f64>,
    places: Vec<Option<Assignment>>,
    /// Each job's position in the order of pressure.
    rank: Vec<usize>,
    best: Option<(f64, Change)>,
}

impl Board<'_> {
    /// Improves a draft until no neighbourhood improves it further. The result never costs more.
    pub fn improve(&self, draft: &Draft) -> Draft {
        let mut search = Search::new(self, draft);
        for _ in 0..ROUNDS {
            search.look_around();
            let Some((_, change)) = search.best.take() else { break };
            search.make(change);
        }
        Draft { gpu: search.gpu, places: search.places }
    }
}

impl<'b, 'a> Search<'b, 'a> {
    fn new(board: &'b Board<'a>, draft: &Draft) -> Self {
        let seats = draft.seats(draft.gpu.len());
        let cost = seats.iter().enumerate().map(|(node, jobs)| board.node_cost(node, draft.gpu[node], jobs)).collect();
        let mut rank = vec![0; board.order.len()];
        for (position, job) in board.order.iter().enumerate() {
            rank[*job] = position;
        }
        Search { board, gpu: draft.gpu.clone(), seats, cost, places: draft.places.clone(), rank, best: None }
    }

    fn look_around(&mut self) {
        let running: Vec<usize> = self.board.order.iter().copied().filter(|job| self.places[*job].is_some()).collect();
        let (late, on_time) = self.by_cost(&running);
        let mut targets = late.clone();
        targets.extend(on_time.iter().copied());
        targets.truncate(CANDIDATES);
        for target in &targets {
            // 1: late jobs with the most expensive jobs that are on time.
            for other in on_time.iter().take(CANDIDATES) {
                self.swap(*target, *other);
            }
            // 2: late jobs with all running ones, in order of pressure.
            for other in &running {
                self.swap(*target, *other);
            }
        }
        for target in &targets {
            self.moved(*target);
        }
        let waiting: Vec<usize> = self.board.order.iter().copied().filter(|job| self.places[*job].is_none()).collect();
        for job in waiting.iter().take(CANDIDATES) {
            self.postponed(*job, &running);
            self.moved(*job);
        }
        let mut nodes: Vec<usize> =
            targets.iter().filter_map(|job| self.places[*job]).map(|place| place.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            self.other_types(node);
            self.scaled(node, |gpus| Some(gpus * 2));
            self.scaled(node, |gpus| (gpus % 2 == 0).then_some(gpus / 2));
            self.shared_otherwise(node);
            self.relieved(node);
        }
    }

    /// Returns the running jobs that will be late, and those that will not; each the most expensive first.
    fn by_cost(&self, running: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let cell = |job: usize| {
            let place = self.places[job]?;
            self.board.cell(job, self.gpu[place.node], place.gpus)
        };
        let lateness = |job: usize| cell(job).map_or(0.0, |cell| cell.lateness);
        let gpu_s = |job: usize| cell(job).map_or(0.0, |cell| cell.gpu_s);
        let (mut late, mut on_time): (Vec<usize>, Vec<usize>) = running.iter().partition(|job| lateness(**job) > 0.0);
        late.sort_by(|one, other| lateness(*other).total_cmp(&lateness(*one)));
        on_time.sort_by(|one, other| gpu_s(*other).total_cmp(&gpu_s(*one)));
        (late, on_time)
    }

    /// Neighbourhoods 1 and 2: two jobs on different nodes change places.
    fn swap(&mut self, one: usize, other: usize) {
        let (Some(here), Some(there)) = (self.places[one], self.places[other]) else { return };
        if here.node == there.node {
            return;
        }
        // Most swaps gain nothing: their cost is computed before the change is built.
        let price = |node: usize, leaves: usize, comes: usize| {
            let seats = self.seats[node].iter().map(|(job, gpus)| (if *job == leaves { comes } else { *job }, *gpus));
            self.board.node_cost_of(node, self.gpu[node], seats)
        };
        let after = price(here.node, one, other) + price(there.node, other, one);
        if self.cost[here.node] + self.cost[there.node] - after > LEAST_GAIN {
            let nodes = vec![self.replaced(here.node, one, other), self.replaced(there.node, other, one)];
            self.consider(Change { nodes, starts: None, stops: None });
        }
    }

    /// Neighbourhood 3: a waiting job takes the place of a running one with less pressure.
    fn postponed(&mut self, waits: usize, running: &[usize]) {
        for runs in running.iter().rev() {
            if self.rank[*runs] < self.rank[waits] {
                break;
            }
            let Some(place) = self.places[*runs] else { continue };
            let nodes = vec![self.replaced(place.node, *runs, waits)];
            self.consider(Change { nodes, starts: Some(waits), stops: Some(*runs) });
        }
    }

    /// Neighbourhood 4: the node gets another GPU type; the jobs keep their numbers of GPUs.
    fn other_types(&mut self, node: usize) {
        for gpu in 0..self.board.situation.catalogue.gpu_types().len() {
            if gpu != self.gpu[node] {
                let nodes = vec![(node, gpu, self.seats[node].clone())];
                self.consider(Change { nodes, starts: None, stops: None });
            }
        }
    }

    /// Neighbourhoods 5 and 6: twice or half the GPUs for each job of the node.
    fn scaled(&mut self, node: usize, scale: impl Fn(usize) -> Option<usize>) {
        let jobs: Option<Vec<_>> =
            self.seats[node].iter().map(|(job, gpus)| scale(*gpus).map(|gpus| (*job, gpus))).collect();
        if let Some(jobs) = jobs {
            self.consider(Change { nodes: vec![(node, self.gpu[node], jobs)], starts: None, stops: None });
        }
    }

    /// Neighbourhood 7: one GPU of the node moves between two jobs, or between a job and the idle GPUs.
    fn shared_otherwise(&mut self, node: usize) {
        let jobs = self.seats[node].clone();
        for gives in 0..=jobs.len() {
            for takes in 0..=jobs.len() {
                let mut changed = jobs.clone();
                if let Some((_, gpus)) = changed.get_mut(takes) {
                    *gpus += 1;
                }
                if let Some((_, gpus)) = changed.get_mut(gives) {
                    *gpus -= 1;
                }
                if gives != takes && changed.iter().all(|(_, gpus)| *gpus > 0) {
                    self.consider(Change { nodes: vec![(node, self.gpu[node], changed)], starts: None, stops: None });
                }
            }
        }
    }

    /// Neighbourhood 8: a running or waiting job moves to one of the emptiest other nodes, or opens one. The GPUs of the nodes concerned are
    /// redistributed.
    fn moved(&mut self, job: usize) {
        let from = self.places[job].map(|place| place.node);
        let left = from.map(|node| {
            let remain: Vec<usize> = self.jobs_of(node).filter(|other| *other != job).collect();
            (node, self.gpu[node], self.shared_anew(node, self.gpu[node], &remain))
        });
        let used = |node: usize| self.seats[node].iter().map(|(_, gpus)| gpus).sum::<usize>();
        let mut nodes: Vec<(usize, usize)> =
            (0..self.seats.len()).filter(|node| Some(*node) != from).map(|node| (used(node), node)).collect();
        nodes.sort_unstable();
        // Closed nodes that may have any type are equivalent: one is enough.
        let closed = match self.board.situation.fixed.is_empty() {
            true => nodes.iter().take_while(|(used, _)| *used == 0).count().saturating_sub(1),
            false => 0,
        };
        for (used, node) in nodes.into_iter().skip(closed).take(CANDIDATES) {
            let jobs: Vec<usize> = self.jobs_of(node).chain([job]).collect();
            let types = self.board.situation.catalogue.gpu_types().len();
            for gpu in if used > 0 { self.gpu[node]..self.gpu[node] + 1 } else { 0..types } {
                let joined = (node, gpu, self.shared_anew(node, gpu, &jobs));
                let starts = from.is_none().then_some(job);
                self.consider(Change { nodes: left.iter().cloned().chain([joined]).collect(), starts, stops: None });
            }
        }
    }

    /// Also 8: the GPUs of the node are redistributed, for each GPU type or with one of its jobs waiting.
    fn relieved(&mut self, node: usize) {
        let jobs: Vec<usize> = self.jobs_of(node).collect();
        for gpu in 0..self.board.situation.catalogue.gpu_types().len() {
            let nodes = vec![(node, gpu, self.shared_anew(node, gpu, &jobs))];
            self.consider(Change { nodes, starts: None, stops: None });
        }
        for stops in &jobs {
            let remain: Vec<usize> = jobs.iter().copied().filter(|job| job != stops).collect();
            if !remain.is_empty() {
                let nodes = vec![(node, self.gpu[node], self.shared_anew(node, self.gpu[node], &remain))];
                self.consider(Change { nodes, starts: None, stops: Some(*stops) });
            }
        }
    }

    fn jobs_of(&self, node: usize) -> impl Iterator<Item = usize> {
        self.seats[node].iter().map(|(job, _)| *job)
    }

    /// Distributes the GPUs of a node greedily: to each job as many as it needs at least, then one at a time to the job that it helps most. Returns the cheapest
    /// distribution on the way.
    fn shared_anew(&self, node: usize, gpu: usize, jobs: &[usize]) -> Vec<(usize, usize)> {
        let mut seats: Vec<(usize, usize)> = jobs.iter().map(|job| (*job, self.board.least(*job, gpu))).collect();
        let mut best = (self.board.node_cost(node, gpu, &seats), seats.clone());
        for _ in seats.iter().map(|(_, gpus)| gpus).sum()..self.board.situation.catalogue.most_gpus(gpu) {
            let mut next = (f64::INFINITY, 0);
            for at in 0..seats.len() {
                seats[at].1 += 1;
                let cost = self.board.node_cost(node, gpu, &seats);
                seats[at].1 -= 1;
                if cost < next.0 {
                    next = (cost, at);
                }
            }
            let Some(seat) = seats.get_mut(next.1).filter(|_| next.0.is_finite()) else { break };
            seat.1 += 1;
            if next.0 < best.0 {
                best = (next.0, seats.clone());
            }
        }
        best.1
    }

    /// Returns the node with one job in place of another.
    fn replaced(&self, node: usize, leaves: usize, comes: usize) -> ChangedNode {
        let jobs = self.seats[node].iter().map(|(job, gpus)| (if *job == leaves { comes } else { *job }, *gpus));
        (node, self.gpu[node], jobs.collect())
    }

    fn consider(&mut self, change: Change) {
        let before: f64 = change.nodes.iter().map(|(node, ..)| self.cost[*node]).sum();
        let after: f64 = change.nodes.iter().map(|(node, gpu, jobs)| self.board.node_cost(*node, *gpu, jobs)).sum();
        let waiting = |job: Option<usize>| job.map_or(0.0, |job| self.board.waiting_cost(job));
        let gain = before - after + waiting(change.starts) - waiting(change.stops);
        if gain > self.best.as_ref().map_or(LEAST_GAIN, |(best, _)| *best) {
            self.best = Some((gain, change));
        }
    }

    fn make(&mut self, change: Change) {
        if let Some(stops) = change.stops {
            self.places[stops] = None;
        }
        for (node, gpu, jobs) in change.nodes {
            for (job, gpus) in &jobs {
                self.places[*job] = Some(Assignment { node, gpus: *gpus });
            }
            self.cost[node] = self.board.node_cost(node, gpu, &jobs);
            self.gpu[node] = gpu;
            self.seats[node] = jobs;
        }
    }
}
