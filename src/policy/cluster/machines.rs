//! The jobs and nodes of a cluster as an instance of [`super::deadlines`].
//!
//! The thesis divides a node among jobs by its GPUs. Here a node is divided into equal *units* of all its resources: a job gets as many as
//! the resource needs of which it reserves the largest part, so jobs whose units fit together fit in every resource. Nodes that are equal in
//! resources, price, and all constraints in question are of one kind, which takes the place of a type of GPU. What cannot be changed (gangs,
//! jobs that do not save their state) only makes its node smaller.

use super::capacity::{FreeCapacity, allows, holds};
use super::deadlines::{Assignment, Catalogue, RunTimes, SubmittedJob};
use super::due;
use super::price::{FREE, late_cost_of, parts, price};
use model::cluster::{
    Alternative, ClusterJob, ClusterNode, ClusterObservation, ClusterSettings, Constraint, Cost, NodeState, Phase,
    Resources, Worker,
};
use std::collections::BTreeMap;

/// Bounds of the number of units of a node: fewer divide it too coarsely, more take too long.
const UNITS: (usize, usize) = (8, 32);
/// Maximum number of waiting jobs that are planned, the most pressing first.
const WAITING_MOST: usize = 128;
/// Weight of a job that has waited for too long, relative to others: it goes first.
const OVERDUE: f64 = 1e3;
const HOUR_S: f64 = 3600.0;
const ROUNDING: f64 = 1e-6;

/// An instance of the solver. Times are relative to now.
pub(super) struct Instance {
    pub catalogue: Catalogue,
    /// The cluster's number of each node.
    pub nodes: Vec<usize>,
    /// The type of each node: its kind, with the units that are left.
    pub fixed: Vec<usize>,
    /// The same for open nodes.
    pub open: Vec<Option<usize>>,
    pub jobs: Vec<Entry>,
    /// Seconds without progress of a stop and a start.
    pub restart_s: f64,
    kinds: Vec<Kind>,
}

/// One job of one worker.
pub(super) struct Entry {
    /// The cluster's number of the job.
    pub job: usize,
    pub times: RunTimes,
    pub deadline_s: f64,
    /// Cost of each second after the deadline.
    pub weight: f64,
    /// Where it is running.
    pub place: Option<Assignment>,
    /// The alternative in which it is running.
    pub runs_as: Option<usize>,
    /// Each alternative where it is cheapest.
    pub costs: Vec<Option<Cost>>,
    /// The best alternative by kind and number of units less one.
    by_units: Vec<Vec<Option<usize>>>,
}

/// Nodes that are equal for the jobs in question.
struct Kind {
    /// One of them.
    node: usize,
    units: usize,
    price: f64,
}

impl Instance {
    /// Returns the jobs and nodes that a plan can decide about; `None` if there are none.
    pub(super) fn of(observation: &ClusterObservation, settings: &ClusterSettings) -> Option<Instance> {
        let waits = |job: &ClusterJob| job.placed.is_empty();
        let may_stop = |job: &ClusterJob| {
            let is_known = |node: &ClusterNode| {
                let is_one = |way: &Alternative| way.request == job.request && allows(node, &way.constraints);
                node.state == NodeState::Ready
                    && holds(node.capacity, job.request, 1)
                    && allows(node, &job.constraints)
                    && job.ways().iter().any(is_one)
            };
            let is_up = |worker: &Worker| worker.phase == Phase::Running && is_known(&observation.nodes[worker.node]);
            settings.reclaim && job.movable && job.placed.iter().all(is_up)
        };
        let mut jobs: Vec<usize> = (0..observation.jobs.len()).collect();
        jobs.retain(|at| is_planned(&observation.jobs[*at]) && (waits(&observation.jobs[*at]) || may_stop(&observation.jobs[*at])));
        let mut waiting: Vec<usize> = jobs.iter().copied().filter(|at| waits(&observation.jobs[*at])).collect();
        if waiting.len() > WAITING_MOST {
            waiting.sort_by(|a, b| due_in(observation, settings, *a).total_cmp(&due_in(observation, settings, *b)).then(a.cmp(b)));
            let left_out = &waiting[WAITING_MOST..];
            jobs.retain(|at| !left_out.contains(at));
        }
        let ways: Vec<Vec<Alternative>> = jobs.iter().map(|at| observation.jobs[*at].ways()).collect();
        let (kinds, kind_of) = kinds(observation, &jobs, &ways);
        let running = || jobs.iter().zip(&ways).filter(|(at, _)| !waits(&observation.jobs[**at]));
        let mut free = FreeCapacity::of(observation);
        let mut stays = vec![false; observation.nodes.len()];
        for (at, _) in running() {
            let job = &observation.jobs[*at];
            job.placed.iter().for_each(|worker| free.give_back(worker.node, job.request));
        }
        // A node whose jobs fit only because they are smaller than their units is left as it is.
        let mut used = vec![0; observation.nodes.len()];
        for (at, _) in running() {
            let job = &observation.jobs[*at];
            let node = job.placed[0].node;
            let kind = kind_of[node].map(|kind| &kinds[kind]);
            used[node] += kind.and_then(|kind| kind.units_of(observation, job.request)).unwrap_or(usize::MAX / 2);
            stays[node] |= kind.is_none_or(|kind| used[node] > kind.units_left(observation, free.left(node)));
        }
        let is_kept = |at: usize| observation.jobs[at].placed.first().is_some_and(|worker| stays[worker.node]);
        for (at, _) in running().filter(|(at, _)| is_kept(**at)) {
            free.take(observation.jobs[*at].placed[0].node, observation.jobs[*at].request);
        }
        let mut nodes = Nodes::default();
        for (node, kind) in kind_of.iter().enumerate() {
            let Some(kind) = kind else { continue };
            let units = kinds[*kind].units_left(observation, free.left(node));
            let is_open = observation.nodes[node].state == NodeState::Ready;
            nodes.add(node, *kind, units, is_open);
        }
        let catalogue = nodes.catalogue(&kinds)?;
        let dearest = kinds.iter().map(|kind| kind.price).fold(0.0, f64::max);
        let place = |node: usize| nodes.numbers.iter().position(|known| *known == node);
        let entry = |(at, ways): (&usize, &Vec<Alternative>)| {
            if is_kept(*at) {
                return None;
            }
            Entry::of(*at, ways, observation, settings, &kinds, &kind_of, &catalogue, dearest, place)
        };
        let jobs: Vec<Entry> = jobs.iter().zip(&ways).filter_map(entry).collect();
        let moves = observation.jobs.iter().flat_map(|job| &job.placed).map(|worker| worker.move_s);
        let Nodes { numbers, fixed, open, .. } = nodes;
        // A change pays if it gains twice its cost, like a move.
        let restart_s = 2.0 * moves.fold(0.0, f64::max);
        (!jobs.is_empty()).then_some(Instance { catalogue, nodes: numbers, fixed, open, jobs, restart_s, kinds })
    }

    /// Returns the alternative in which a job runs with these units of a node.
    pub(super) fn alternative(&self, entry: &Entry, place: Assignment) -> Option<usize> {
        let kind = self.catalogue.nodes()[self.fixed[place.node]].gpu;
        *entry.by_units.get(kind)?.get(place.gpus.checked_sub(1)?)?
    }

    /// Returns what the rest of a job costs in an alternative on a node, `restart_s` later.
    pub(super) fn cost(
        &self,
        observation: &ClusterObservation,
        entry: &Entry,
        alternative: usize,
        node: usize,
        restart_s: f64,
    ) -> Option<Cost> {
        let place = self.nodes.iter().position(|known| *known == node)?;
        let kind = self.catalogue.nodes()[self.fixed[place]].gpu;
        let request = observation.jobs[entry.job].ways().get(alternative)?.request;
        let units = self.kinds[kind].units_of(observation, request)?;
        let seconds = entry.times.seconds(kind, units)? + restart_s;
        Some(self.kinds[kind].cost(units, seconds, entry, &observation.jobs[entry.job]))
    }
}

/// The nodes of an instance, and their types: kind, and number of units that are left.
#[derive(Default)]
struct Nodes {
    numbers: Vec<usize>,
    fixed: Vec<usize>,
    open: Vec<Option<usize>>,
    types: Vec<(usize, usize)>,
}

impl Nodes {
    fn add(&mut self, node: usize, kind: usize, units: usize, is_open: bool) {
        if units == 0 {
            return;
        }
        let known = self.types.iter().position(|known| *known == (kind, units));
        let node_type = known.unwrap_or_else(|| {
            self.types.push((kind, units));
            self.types.len() - 1
        });
        self.numbers.push(node);
        self.fixed.push(node_type);
        self.open.push(is_open.then_some(node_type));
    }

    /// Returns the types, with all kinds in their order: one without a node that has room left gets an empty row.
    fn catalogue(&mut self, kinds: &[Kind]) -> Option<Catalogue> {
        let names: Vec<String> = (0..kinds.len()).map(|kind| kind.to_string()).collect();
        // A type that no node has keeps the numbers of the kinds in order.
        let first: Vec<(usize, usize)> = kinds.iter().enumerate().map(|(kind, of)| (kind, of.units)).collect();
        self.fixed.iter_mut().chain(self.open.iter_mut().flatten()).for_each(|node_type| *node_type += first.len());
        let rows = first.iter().chain(&self.types).map(|(kind, units)| {
            let of = &kinds[*kind];
            (&*names[*kind], &*names[*kind], *units, of.price * *units as f64 / of.units as f64)
        });
        Catalogue::new(&rows.collect::<Vec<_>>()).ok()
    }
}

impl Kind {
    /// Returns how many units a request takes; `None` if the node is too small even when empty.
    fn units_of(&self, observation: &ClusterObservation, request: Resources) -> Option<usize> {
        let capacity = observation.nodes[self.node].capacity;
        let part = parts(request, capacity).into_iter().flatten().fold(0.0, f64::max);
        holds(capacity, request, 1).then(|| ((part * self.units as f64 - ROUNDING).ceil() as usize).clamp(1, self.units))
    }

    fn units_left(&self, observation: &ClusterObservation, left: Resources) -> usize {
        let part = parts(left, observation.nodes[self.node].capacity).into_iter().flatten().fold(1.0, f64::min);
        (part * self.units as f64 + ROUNDING) as usize
    }

    fn cost(&self, units: usize, seconds: f64, entry: &Entry, job: &ClusterJob) -> Cost {
        let price = if self.price > FREE { self.price } else { 0.0 };
        let late_s = job.deadline.map_or(0.0, |_| (seconds - entry.deadline_s).max(0.0));
        let node = price * units as f64 / self.units as f64 * seconds / HOUR_S;
        Cost { seconds, node, lateness: entry.weight * late_s }
    }
}

impl Entry {
    #[expect(clippy::too_many_arguments, reason = "what the cluster looks like, computed once for all jobs")]
    fn of(
        at: usize,
        ways: &[Alternative],
        observation: &ClusterObservation,
        settings: &ClusterSettings,
        kinds: &[Kind],
        kind_of: &[Option<usize>],
        catalogue: &Catalogue,
        dearest: f64,
        place: impl Fn(usize) -> Option<usize>,
    ) -> Option<Entry> {
        let job = &observation.jobs[at];
        let runs_on = job.placed.first().map(|worker| worker.node);
        let runs_as = runs_on.and_then(|node| {
            ways.iter().position(|way| way.request == job.request && allows(&observation.nodes[node], &way.constraints))
        });
        let seconds: Vec<f64> = (0..ways.len()).map(|way| seconds_in(job, ways, way, runs_as, observation, settings)).collect();
        let mut by_units: Vec<Vec<Option<usize>>> = kinds.iter().map(|kind| vec![None; kind.units]).collect();
        let mut needs = vec![vec![None; ways.len()]; kinds.len()];
        for (number, kind) in kinds.iter().enumerate() {
            let node = &observation.nodes[kind.node];
            for (at, way) in ways.iter().enumerate() {
                if !allows(node, &job.constraints) || !allows(node, &way.constraints) {
                    continue;
                }
                let Some(units) = kind.units_of(observation, way.request) else { continue };
                needs[number][at] = Some(units);
                for best in &mut by_units[number][units - 1..] {
                    if best.is_none_or(|best: usize| seconds[at] < seconds[best]) {
                        *best = Some(at);
                    }
                }
            }
        }
        let row = |(kind, row): (usize, &Vec<Option<usize>>)| -> Vec<(usize, usize, f64)> {
            let cell = |(at, way): (usize, &Option<usize>)| way.map(|way| (kind, at + 1, seconds[way]));
            row.iter().enumerate().filter_map(cell).collect()
        };
        let rows: Vec<(usize, usize, f64)> = by_units.iter().enumerate().flat_map(row).collect();
        let times = RunTimes::new(catalogue, &rows).ok()?;
        let place = match runs_on {
            Some(node) => Some(Assignment { node: place(node)?, gpus: needs[kind_of[node]?][runs_as?]? }),
            None => None,
        };
        let is_overdue = due::is_long_overdue(job, observation, settings) && runs_on.is_none();
        let weight = late_cost_of(job, dearest) / HOUR_S * if is_overdue { OVERDUE } else { 1.0 };
        let takes_s = runs_as.map_or(times.fastest_s(), |way| seconds[way]);
        let deadline_s = due_in(observation, settings, at) + if job.deadline.is_none() { takes_s } else { 0.0 };
        let mut entry = Entry { job: at, times, deadline_s, weight, place, runs_as, costs: Vec::new(), by_units };
        entry.costs = (0..ways.len())
            .map(|way| {
                let at_kind = |(kind, needs): (&Kind, &Vec<Option<usize>>)| Some(kind.cost(needs[way]?, seconds[way], &entry, job));
                let costs = kinds.iter().zip(&needs).filter_map(at_kind);
                costs.min_by(|one, other| one.total().total_cmp(&other.total()))
            })
            .collect();
        Some(entry)
    }
}

impl Entry {
    /// Returns the job as the solver sees it.
    pub(super) fn submitted(&self, number: usize) -> SubmittedJob<'_> {
        SubmittedJob {
            times: &self.times,
            left: 1.0,
            number,
            deadline_s: self.deadline_s,
            weight: self.weight,
            place: self.place,
            started: self.place.is_some(),
            owed_s: 0.0,
        }
    }
}

/// Whether the solver decides about a job: it has one worker and reserves something.
pub(super) fn is_planned(job: &ClusterJob) -> bool {
    let reserves = |request: Resources| request != Resources::default();
    job.workers.max.max(job.workers.min) <= 1
        && job.placed.len() <= 1
        && if job.alternatives.is_empty() { reserves(job.request) } else { job.alternatives.iter().all(|way| reserves(way.request)) }
}

/// Returns the seconds until a job should have ended, or should have started if it has no deadline. A running one has nothing to start.
fn due_in(observation: &ClusterObservation, settings: &ClusterSettings, at: usize) -> f64 {
    let job = &observation.jobs[at];
    let now = observation.now.as_secs_f64();
    let start = job.arrived.after(settings.overtaken_for).as_secs_f64() - now;
    match job.deadline {
        Some(deadline) => deadline.as_secs_f64() - now,
        None if job.placed.is_empty() => start,
        None => start.max(0.0),
    }
}

/// Returns the seconds that the rest of a job takes in an alternative. A forecast of the node counts for the others in proportion.
fn seconds_in(
    job: &ClusterJob,
    ways: &[Alternative],
    way: usize,
    runs_as: Option<usize>,
    observation: &ClusterObservation,
    settings: &ClusterSettings,
) -> f64 {
    let seconds = match runs_as {
        None => due::takes(&job.settled_on(way), observation, settings),
        Some(now) => {
            let left = due::takes(job, observation, settings);
            match (ways[way].takes_s, ways[now].takes_s) {
                _ if way == now => left,
                (Some(there), Some(here)) if here > 0.0 => left * there / here,
                (there, _) => there.unwrap_or(left),
            }
        }
    };
    seconds.clamp(1.0, 1e9)
}

/// Returns the kinds of nodes that can run jobs, and the kind of each node.
fn kinds(observation: &ClusterObservation, jobs: &[usize], ways: &[Vec<Alternative>]) -> (Vec<Kind>, Vec<Option<usize>>) {
    let mut constraints: Vec<&Constraint> = Vec::new();
    let own = jobs.iter().flat_map(|at| &observation.jobs[*at].constraints);
    for constraint in own.chain(ways.iter().flatten().flat_map(|way| &way.constraints)) {
        if !constraints.contains(&constraint) {
            constraints.push(constraint);
        }
    }
    let (mut kinds, mut known) = (Vec::new(), BTreeMap::new());
    let mut kind_of = vec![None; observation.nodes.len()];
    for (node, seen) in observation.nodes.iter().enumerate() {
        if !matches!(seen.state, NodeState::Ready | NodeState::Closed) {
            continue;
        }
        let Resources { cores, memory, gpus } = seen.capacity;
        let price = price(observation, node).max(FREE);
        let holds: Vec<bool> =
            constraints.iter().map(|constraint| allows(seen, std::slice::from_ref(*constraint))).collect();
        kind_of[node] = Some(*known.entry((cores.to_bits(), memory.0, gpus, price.to_bits(), holds)).or_insert_with(|| {
            kinds.push(Kind { node, units: units(seen.capacity), price });
            kinds.len() - 1
        }));
    }
    (kinds, kind_of)
}

/// Returns the number of units of a node: a multiple of its GPUs, or of its cores if it has none.
fn units(capacity: Resources) -> usize {
    let whole = if capacity.gpus > 0 { capacity.gpus as usize } else { capacity.cores as usize };
    let whole = whole.clamp(1, UNITS.1);
    whole * UNITS.0.div_ceil(whole)
}
