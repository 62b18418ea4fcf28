//! The jobs and nodes of a cluster as an instance of [`super::deadlines`].
//!
//! The thesis divides a node among jobs by its GPUs. Here a node is divided into equal *units* of all its resources: a job gets as many as
//! the resource needs of which it reserves the largest part, so jobs whose units fit together fit in every resource. Nodes that are equal in
//! resources, price, and all constraints in question are of one kind, which takes the place of a type of GPU. What cannot be changed (gangs,
//! jobs that do not save their state) only makes its node smaller.

use super::capacity::{FreeCapacity, allows, holds};
use super::deadlines::{Assignment, Catalogue, RunTimes, SubmittedJob};
use super::due;
use super::kinds::{HOUR_S, Kind, Nodes, kinds};
use super::price::late_cost;
use model::cluster::{
    Alternative, ClusterJob, ClusterNode, ClusterObservation, ClusterSettings, Cost, NodeState, Phase, Resources,
};
use std::collections::BTreeSet;

/// Maximum number of waiting jobs that are planned, the most pressing first.
const WAITING_MOST: usize = 128;
/// Weight of a job that has waited for too long, relative to others: it goes first.
const OVERDUE: f64 = 1e3;

/// An instance of the solver. Times are relative to now.
pub(super) struct Instance {
    pub catalogue: Catalogue,
    /// The cluster's number of each node, and the reverse.
    pub nodes: Vec<usize>,
    places: Vec<Option<usize>>,
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
    /// Weight of each second after the deadline: its cost, or more if the job has waited for too long.
    pub weight: f64,
    /// Cost of each hour after the deadline.
    pub late_cost: f64,
    /// Where it is running.
    pub place: Option<Assignment>,
    /// Whether it keeps its place.
    pub stays: bool,
    /// The alternative in which it is running.
    pub runs_as: Option<usize>,
    /// Each alternative where it is cheapest.
    pub costs: Vec<Option<Cost>>,
    /// The best alternative by kind and number of units less one.
    by_units: Vec<Vec<Option<usize>>>,
}

impl Instance {
    /// Returns the jobs and nodes that a plan can decide about; `None` if there are none. Running jobs may be stopped only if the operator
    /// allows that, and if there is a reason: a job is about to be late, or no job waits and one may run at less cost.
    pub(super) fn of(observation: &ClusterObservation, settings: &ClusterSettings) -> Option<Instance> {
        let waits = |job: &ClusterJob| job.placed.is_empty();
        let queue = || observation.jobs.iter().filter(|job| is_planned(job) && waits(job));
        let reclaims = settings.reclaim
            && (queue().next().is_none() || queue().any(|job| due::must_start_soon(job, observation, settings)));
        let runs = |job: &ClusterJob| {
            let is_known = |node: &ClusterNode| {
                let is_one = |way: &Alternative| way.request == job.request && allows(node, &way.constraints);
                node.state == NodeState::Ready
                    && holds(node.capacity, job.request, 1)
                    && allows(node, &job.constraints)
                    && job.ways().iter().any(is_one)
            };
            let is_up = |phase: Phase| matches!(phase, Phase::Starting | Phase::Running);
            job.placed.iter().all(|worker| is_up(worker.phase) && is_known(&observation.nodes[worker.node]))
        };
        let mut jobs: Vec<usize> = (0..observation.jobs.len()).collect();
        jobs.retain(|at| {
            is_planned(&observation.jobs[*at]) && (waits(&observation.jobs[*at]) || runs(&observation.jobs[*at]))
        });
        let mut waiting: Vec<usize> = jobs.iter().copied().filter(|at| waits(&observation.jobs[*at])).collect();
        if waiting.len() > WAITING_MOST {
            waiting.sort_by(|a, b| {
                due_in(observation, settings, *a).total_cmp(&due_in(observation, settings, *b)).then(a.cmp(b))
            });
            let left_out: BTreeSet<usize> = waiting[WAITING_MOST..].iter().copied().collect();
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
        let mut places = vec![None; observation.nodes.len()];
        nodes.numbers.iter().enumerate().for_each(|(place, node)| places[*node] = Some(place));
        let entry = |(at, ways): (&usize, &Vec<Alternative>)| {
            if is_kept(*at) {
                return None;
            }
            let job = &observation.jobs[*at];
            let stays = !(reclaims && job.movable && job.placed.iter().all(|worker| worker.phase == Phase::Running));
            let entry = Entry::of(*at, ways, observation, settings, &kinds, &kind_of, &catalogue, dearest, &places)?;
            Some(Entry { stays: stays && entry.place.is_some(), ..entry })
        };
        let jobs: Vec<Entry> = jobs.iter().zip(&ways).filter_map(entry).collect();
        let moves = observation.jobs.iter().flat_map(|job| &job.placed).map(|worker| worker.move_s);
        let Nodes { numbers, fixed, open, .. } = nodes;
        // A change pays if it gains twice its cost, like a move.
        let restart_s = 2.0 * moves.fold(0.0, f64::max);
        (!jobs.is_empty()).then_some(Instance {
            catalogue,
            nodes: numbers,
            places,
            fixed,
            open,
            jobs,
            restart_s,
            kinds,
        })
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
        let place = (*self.places.get(node)?)?;
        let kind = self.catalogue.nodes()[self.fixed[place]].gpu;
        let request = observation.jobs[entry.job].ways().get(alternative)?.request;
        let units = self.kinds[kind].units_of(observation, request)?;
        let seconds = entry.times.seconds(kind, units)? + restart_s;
        Some(entry.cost(&self.kinds[kind], units, seconds, &observation.jobs[entry.job]))
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
        places: &[Option<usize>],
    ) -> Option<Entry> {
        let job = &observation.jobs[at];
        let runs_on = job.placed.first().map(|worker| worker.node);
        let runs_as = runs_on.and_then(|node| {
            ways.iter().position(|way| way.request == job.request && allows(&observation.nodes[node], &way.constraints))
        });
        let seconds: Vec<f64> =
            (0..ways.len()).map(|way| seconds_in(job, ways, way, runs_as, observation, settings)).collect();
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
            Some(node) => Some(Assignment { node: places[node]?, gpus: needs[kind_of[node]?][runs_as?]? }),
            None => None,
        };
        let is_overdue = due::is_long_overdue(job, observation, settings) && runs_on.is_none();
        let late_cost = late_cost(job, dearest);
        let weight = late_cost / HOUR_S * if is_overdue { OVERDUE } else { 1.0 };
        let takes_s = runs_as.map_or(times.fastest_s(), |way| seconds[way]);
        let deadline_s = due_in(observation, settings, at) + if job.deadline.is_none() { takes_s } else { 0.0 };
        let mut entry = Entry {
            job: at,
            times,
            deadline_s,
            weight,
            late_cost,
            place,
            stays: false,
            runs_as,
            costs: Vec::new(),
            by_units,
        };
        entry.costs = (0..ways.len())
            .map(|way| {
                let at_kind = |(kind, needs): (&Kind, &Vec<Option<usize>>)| {
                    Some(entry.cost(kind, needs[way]?, seconds[way], job))
                };
                let costs = kinds.iter().zip(&needs).filter_map(at_kind);
                costs.min_by(|one, other| one.total().total_cmp(&other.total()))
            })
            .collect();
        Some(entry)
    }
}

impl Entry {
    fn cost(&self, kind: &Kind, units: usize, seconds: f64, job: &ClusterJob) -> Cost {
        let late_s = job.deadline.map_or(0.0, |_| (seconds - self.deadline_s).max(0.0));
        kind.cost(units, seconds, late_s, self.late_cost)
    }

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
        && if job.alternatives.is_empty() {
            reserves(job.request)
        } else {
            job.alternatives.iter().all(|way| reserves(way.request))
        }
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
