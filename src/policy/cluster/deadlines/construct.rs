//! The greedy construction and its randomised form.
//!
//! Source: thesis §3.1.3 (pre-processing, scheduling, post-processing) and §3.1.4 (jobs swapped in the order, restricted candidate
//! lists for the configuration and the node). In the order of pressure, each job takes its preferred way on the open node that it fills
//! best, else on a new node, else the next way that fits. Finally, idle GPUs of rented nodes go to the jobs that they help most.

use super::board::{Board, Choice};
use super::draft::Draft;
use super::draw::Draw;
use super::plan::Assignment;

/// Greatest probability of swapping two neighbours in the order; heavier jobs are swapped less often.
const SWAP: f64 = 0.3;

/// Ways that cost up to this factor more than the best are candidates, at most [`CANDIDATES`].
const DEARER: f64 = 1.3;
const CANDIDATES: usize = 4;

/// Variant of a construction; by default it starts over.
#[derive(Clone, Copy, Default)]
struct Style {
    /// Running jobs stay where they are.
    keeps: bool,
    /// No job waits by choice.
    hurries: bool,
}

/// Free GPUs of the nodes.
struct FreeGpus {
    gpu: Vec<usize>,
    free: Vec<usize>,
    /// Open nodes by GPU type and number of free GPUs.
    open: Vec<Vec<Vec<usize>>>,
    /// Closed nodes in descending order; the last one is opened first.
    closed: Vec<usize>,
    /// GPU type and number of GPUs of each node, if that is fixed.
    fixed: Vec<(usize, usize)>,
    /// Number of GPUs of the largest node, by GPU type.
    most: Vec<usize>,
    total: usize,
}

impl Board<'_> {
    /// Returns the greedy plan. If a restart costs time: the cheaper of starting over and keeping running jobs in place.
    pub fn greedy(&self) -> Draft {
        let anew = self.build(&self.order, None, Style::default());
        if self.situation.restart_s <= 0.0 {
            return anew;
        }
        let kept = self.build(&self.order, None, Style { keeps: true, hurries: false });
        if self.cost(&kept) <= self.cost(&anew) { kept } else { anew }
    }

    /// Returns randomised construction `number` of a seed. If a restart costs time, half of them keep running jobs in place; in half of
    /// them no job waits by choice.
    pub fn construction(&self, seed: u64, number: u64) -> Draft {
        let mut draw = Draw::new(seed, number);
        let mut order = self.order.clone();
        for at in 1..order.len() {
            let weight = self.situation.jobs[order[at - 1]].weight / self.most_weight.max(f64::MIN_POSITIVE);
            if draw.uniform() < SWAP * (1.0 - 0.9 * weight) {
                order.swap(at - 1, at);
            }
        }
        let style = Style {
            keeps: self.situation.restart_s > 0.0 && number.is_multiple_of(2),
            hurries: (number / 2).is_multiple_of(2),
        };
        self.build(&order, Some(&mut draw), style)
    }

    fn build(&self, order: &[usize], mut draw: Option<&mut Draw>, style: Style) -> Draft {
        let mut gpus_left = FreeGpus::new(self);
        let mut places = vec![None; order.len()];
        if style.keeps {
            self.keep(&mut gpus_left, &mut places);
        }
        for job in order {
            if gpus_left.total == 0 {
                break;
            }
            if places[*job].is_none() {
                places[*job] = self.seat(*job, &mut gpus_left, draw.as_deref_mut(), style);
            }
        }
        // No job waits while GPUs would remain idle.
        for job in order {
            if gpus_left.total > 0 && places[*job].is_none() {
                places[*job] = self.choices(*job).iter().find_map(|choice| gpus_left.take(*choice, None));
            }
        }
        let mut draft = Draft { gpu: gpus_left.gpu, places };
        self.fill_idle(&mut draft, style.keeps);
        draft
    }

    fn keep(&self, gpus_left: &mut FreeGpus, places: &mut [Option<Assignment>]) {
        for (job, place) in self.situation.jobs.iter().zip(places) {
            let Some(now) = job.place else { continue };
            let Some(open) = self.situation.nodes.get(now.node).copied().flatten() else { continue };
            let open = &self.situation.catalogue.nodes()[open];
            if gpus_left.take_at(now.node, open.gpu, now.gpus, open.gpus) {
                *place = Some(now);
            }
        }
    }

    /// Finds a place for a job; `None` if nothing fits or waiting costs less.
    fn seat(
        &self,
        job: usize,
        gpus_left: &mut FreeGpus,
        mut draw: Option<&mut Draw>,
        style: Style,
    ) -> Option<Assignment> {
        let choices = self.choices(job);
        let patience = if style.hurries { f64::INFINITY } else { self.patience[job] };
        let first = draw.as_deref_mut().map_or(0, |draw| candidate(choices, draw));
        let order = std::iter::once(first).chain((0..choices.len()).filter(|at| *at != first));
        for choice in order.map(|at| choices[at]).take_while(|choice| choice.cost <= patience) {
            if let Some(place) = gpus_left.take(choice, draw.as_deref_mut()) {
                return Some(place);
            }
        }
        None
    }

    /// Post-processing: gives each idle GPU of a node to the job whose lateness, then whose run time, it reduces most.
    fn fill_idle(&self, draft: &mut Draft, keeps: bool) {
        for (node, mut jobs) in draft.seats(self.situation.nodes.len()).into_iter().enumerate() {
            let gpu = draft.gpu[node];
            let Some(node_type) = self.type_for(node, gpu, &jobs) else { continue };
            let used: usize = jobs.iter().map(|(_, gpus)| gpus).sum();
            for _ in used..self.situation.catalogue.nodes()[node_type].gpus {
                let gains = jobs.iter().enumerate().filter_map(|(at, (job, gpus))| {
                    let moves = keeps && self.situation.jobs[*job].place == Some(Assignment { node, gpus: *gpus });
                    let (less, more) = (self.cell(*job, gpu, *gpus)?, self.cell(*job, gpu, gpus + 1)?);
                    let gain = (less.lateness - more.lateness, less.seconds - more.seconds);
                    (!moves && gain > (0.0, 0.0)).then_some((at, gain))
                });
                let best =
                    gains.max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
                let Some((at, _)) = best else { break };
                jobs[at].1 += 1;
                draft.places[jobs[at].0] = Some(Assignment { node, gpus: jobs[at].1 });
            }
        }
    }
}

/// Draws one of the best ways with a probability inverse to its cost.
fn candidate(choices: &[Choice], draw: &mut Draw) -> usize {
    let Some(best) = choices.first() else { return 0 };
    let mut weights = [0.0; CANDIDATES];
    let mut count = 0;
    for choice in choices.iter().take(CANDIDATES).take_while(|choice| choice.cost <= best.cost * DEARER) {
        weights[count] = 1.0 / choice.cost.max(f64::MIN_POSITIVE.sqrt());
        count += 1;
    }
    if count > 1 { draw.weighted(&weights[..count]) } else { 0 }
}

impl FreeGpus {
    fn new(board: &Board<'_>) -> FreeGpus {
        let catalogue = board.situation.catalogue;
        let nodes = board.situation.nodes.len();
        let most: Vec<usize> = (0..catalogue.gpu_types().len()).map(|gpu| catalogue.most_gpus(gpu)).collect();
        let type_of = |node_type: &usize| (catalogue.nodes()[*node_type].gpu, catalogue.nodes()[*node_type].gpus);
        let mut free = FreeGpus {
            gpu: vec![0; nodes],
            free: vec![0; nodes],
            open: most.iter().map(|most| vec![Vec::new(); most + 1]).collect(),
            closed: (0..nodes).rev().collect(),
            fixed: board.situation.fixed.iter().map(type_of).collect(),
            most,
            total: super::scarcity::gpus(board.situation),
        };
        // A machine that is open stays so for a while, whether it is used or not.
        let is_open = |node: &usize| board.situation.nodes[*node].is_some();
        for node in (0..free.fixed.len()).rev().filter(is_open) {
            (free.gpu[node], free.free[node]) = free.fixed[node];
            free.open[free.gpu[node]][free.free[node]].push(node);
        }
        if !free.fixed.is_empty() {
            free.closed.retain(|node| !is_open(node));
        }
        free
    }

    /// Takes GPUs on the open node where fewest remain idle, else on a new node. With `draw`: on one of the two best fits, with a
    /// probability inverse to the GPUs that remain idle.
    fn take(&mut self, choice: Choice, draw: Option<&mut Draw>) -> Option<Assignment> {
        let levels = &self.open[choice.gpu];
        let fits = |from: usize| (from..levels.len()).find(|free| !levels[*free].is_empty());
        let Some(mut level) = fits(choice.gpus) else { return self.open_one(choice) };
        if let (Some(draw), Some(next)) = (draw, fits(level + 1)) {
            let idle = |level: usize| 1.0 / (1 + level - choice.gpus) as f64;
            if draw.weighted(&[idle(level), idle(next)]) == 1 {
                level = next;
            }
        }
        let node = self.open[choice.gpu][level].pop()?;
        self.occupy(node, choice.gpus);
        Some(Assignment { node, gpus: choice.gpus })
    }

    fn open_one(&mut self, choice: Choice) -> Option<Assignment> {
        let size = |node: usize| match self.fixed.get(node) {
            Some((gpu, gpus)) => (*gpu == choice.gpu && *gpus >= choice.gpus).then_some(*gpus),
            None => Some(self.most[choice.gpu]),
        };
        let (at, size) = self.closed.iter().enumerate().rev().find_map(|(at, node)| Some((at, size(*node)?)))?;
        let node = self.closed.remove(at);
        (self.gpu[node], self.free[node]) = (choice.gpu, size);
        self.occupy(node, choice.gpus);
        Some(Assignment { node, gpus: choice.gpus })
    }

    /// Takes GPUs of a given node; false if it has too few or is of another type.
    fn take_at(&mut self, node: usize, gpu: usize, gpus: usize, size: usize) -> bool {
        if let Some(at) = self.closed.iter().position(|closed| *closed == node) {
            self.closed.remove(at);
            (self.gpu[node], self.free[node]) = (gpu, size);
        } else if self.gpu[node] != gpu || self.free[node] < gpus {
            return false;
        } else {
            let free = self.free[node];
            self.open[gpu][free].retain(|open| *open != node);
        }
        self.occupy(node, gpus);
        true
    }

    fn occupy(&mut self, node: usize, gpus: usize) {
        self.free[node] -= gpus;
        self.total -= gpus;
        if self.free[node] > 0 {
            self.open[self.gpu[node]][self.free[node]].push(node);
        }
    }
}
