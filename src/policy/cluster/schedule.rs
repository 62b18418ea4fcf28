//! What the solver of jobs with deadlines decides for the jobs of one worker: in which alternative, on which node, or to wait.
//!
//! Source: the thesis of [`super::deadlines`]. A plan is made at each arrival and each completion: the best of greedy and randomised greedy
//! constructions, with the thesis's rule and with ours, improved by the local search; for many nodes, by several controllers. The same
//! observation gives the same plan. How long a job runs, what a node costs and what lateness costs is in [`super::machines`].
//!
//! The solver decides *what*: the planner decides *when*. A running job is stopped only once another would be late without its room, and a
//! node is opened only then ([`super::renting`]), because a job that ends earlier than expected may make both needless.

use super::deadlines::{
    Board, Draft, Plan, Queue, Rule, Situation, SubmittedJob, baseline, check, merge, rollout, split,
};
use super::machines::{Entry, Instance, is_planned};
use model::cluster::{Choice, ClusterObservation, ClusterSettings, Cost, NodeState, QueueRule};
use std::borrow::Cow;

/// Maximum number of nodes of one controller.
const NODES_MOST: usize = 100;
/// Jobs of all controllers times constructions of each, and the maximum number of constructions.
const WORK: usize = 20_000;
const CONSTRUCTIONS: usize = 64;
/// Number of constructions that are improved, in a step of at most this many jobs.
const ELITE: usize = 3;
const IMPROVED_MOST: usize = 64;
const SEED: u64 = 0x7E51;
/// Jobs squared times nodes times plans whose costs are followed to the end, and the maximum number of such plans.
const ROLLOUT_WORK: usize = 200_000;
const ROLLOUTS: usize = 16;
/// Smaller gains do not count.
const LEAST_GAIN: f64 = 1e-9;

/// A decision about one job.
#[derive(Clone, Debug)]
pub(super) struct Scheduled {
    /// The alternative in which it is to run.
    pub alternative: usize,
    /// The node on which it is to run; `None` = it waits.
    pub node: Option<usize>,
    /// Whether it waits although there is room, because it would be late there, and waiting costs less.
    pub waits: bool,
    /// Whether it keeps its node and its alternative.
    pub stays: bool,
    /// Whether it runs in another alternative now.
    pub changes: bool,
    /// What that costs.
    pub cost: Option<Cost>,
    /// What all jobs together cost less if it moves or changes its alternative, with a stop and a start.
    pub saves: f64,
}

/// What became of a job of the schedule.
pub(super) enum Followed {
    /// It starts.
    Starts,
    /// It waits for the room that the schedule gives it.
    Waits,
    /// The schedule gives it no room now.
    No,
}

/// The decisions.
#[derive(Default)]
pub(super) struct Schedule {
    /// By job of the observation; `None` = not the solver's.
    jobs: Vec<Option<Scheduled>>,
    pub choices: Vec<Choice>,
    /// Seconds without progress of a stop and a start.
    pub restart_s: f64,
}

impl Schedule {
    /// Plans all jobs of one worker that wait, and those that may be stopped. Empty with another rule than [`QueueRule::Deadlines`].
    pub(super) fn of(observation: &ClusterObservation, settings: &ClusterSettings) -> Schedule {
        let none = Schedule { jobs: vec![None; observation.jobs.len()], ..Schedule::default() };
        if settings.queue != QueueRule::Deadlines || !observation.jobs.iter().any(is_planned) {
            return none;
        }
        let Some(instance) = Instance::of(observation, settings) else { return none };
        let Solved { plan, saves, waits } = solve(&instance);
        let mut schedule = Schedule { restart_s: instance.restart_s / 2.0, ..none };
        for (at, place) in plan.places.iter().enumerate() {
            let (entry, place) = (&instance.jobs[at], *place);
            let chosen = place.and_then(|place| instance.alternative(entry, place));
            let node = place.filter(|_| chosen.is_some()).map(|place| instance.nodes[place.node]);
            let now = observation.jobs[entry.job].placed.first().map(|worker| worker.node);
            let total = |cost: &Option<Cost>| cost.map_or(f64::INFINITY, |cost| cost.total());
            let cheapest =
                (0..entry.costs.len()).min_by(|a, b| total(&entry.costs[*a]).total_cmp(&total(&entry.costs[*b])));
            let alternative = chosen.or(entry.runs_as).or(cheapest).unwrap_or(0);
            let stays = now.is_some() && now == node && entry.runs_as == Some(alternative);
            let changes = entry.runs_as.is_some_and(|now| now != alternative);
            let restart_s = if now.is_some() && !stays { instance.restart_s } else { 0.0 };
            let cost = node.and_then(|node| instance.cost(observation, entry, alternative, node, restart_s));
            let waits = waits[at];
            schedule.jobs[entry.job] = Some(Scheduled { alternative, node, waits, stays, changes, cost, saves });
            let (job, chosen) = (entry.job, entry.runs_as.unwrap_or(alternative));
            let (costs, late_cost) = (entry.costs.clone(), entry.late_cost);
            schedule.choices.push(Choice { job, chosen, node: node.or(now), costs, late_cost });
        }
        schedule
    }

    pub(super) fn job(&self, job: usize) -> Option<&Scheduled> {
        self.jobs.get(job)?.as_ref()
    }

    /// Returns the observation with each waiting job in its chosen alternative.
    pub(super) fn settled<'o>(&self, observation: &'o ClusterObservation) -> Cow<'o, ClusterObservation> {
        let mut settled = Cow::Borrowed(observation);
        for (at, job) in observation.jobs.iter().enumerate() {
            if job.placed.is_empty() && !job.alternatives.is_empty() {
                let alternative = self.job(at).map_or(0, |scheduled| scheduled.alternative);
                settled.to_mut().jobs[at] = job.settled_on(alternative);
            }
        }
        settled
    }

    /// Returns the waiting jobs that are to start on open nodes.
    pub(super) fn starts(&self, observation: &ClusterObservation) -> Vec<(usize, usize)> {
        let starts = self.jobs.iter().enumerate().filter_map(|(at, scheduled)| Some((at, scheduled.as_ref()?.node?)));
        let is_new = |at: usize| observation.jobs[at].placed.is_empty();
        starts.filter(|(at, node)| is_new(*at) && observation.nodes[*node].state == NodeState::Ready).collect()
    }

    /// Returns the running jobs that leave their nodes.
    pub(super) fn leaving(&self) -> impl Iterator<Item = (usize, &Scheduled)> {
        let jobs = self.jobs.iter().enumerate().filter_map(|(at, scheduled)| Some((at, scheduled.as_ref()?)));
        jobs.filter(|(_, scheduled)| !scheduled.stays)
    }
}

/// A plan of one step.
struct Solved {
    plan: Plan,
    /// What it costs less than if all running jobs stayed as they are; 0 if jobs wait.
    saves: f64,
    /// For each job, whether it waits although there is room.
    waits: Vec<bool>,
}

/// Solves a step.
fn solve(instance: &Instance) -> Solved {
    // A running job has the controller of its node.
    let number_of = |(at, entry): (usize, &Entry)| entry.place.map_or(at, |place| place.node);
    let numbers: Vec<usize> = instance.jobs.iter().enumerate().map(number_of).collect();
    let jobs: Vec<SubmittedJob<'_>> =
        instance.jobs.iter().zip(numbers).map(|(entry, number)| entry.submitted(number)).collect();
    let situation = Situation {
        now_s: 0.0,
        catalogue: &instance.catalogue,
        nodes: &instance.open,
        fixed: &instance.fixed,
        jobs: &jobs,
        restart_s: instance.restart_s,
    };
    let stays: Vec<bool> = instance.jobs.iter().map(|entry| entry.stays).collect();
    let (mut saves, mut waits) = (0.0, vec![false; jobs.len()]);
    let parts = split(&situation, instance.nodes.len().div_ceil(NODES_MOST)).into_iter().map(|part| {
        let (nodes, fixed, jobs) = (part.nodes_of(&situation), part.fixed_of(&situation), part.jobs_of(&situation));
        let own = Situation { nodes: &nodes, fixed: &fixed, jobs: &jobs, ..situation.clone() };
        let stays: Vec<bool> = part.jobs.iter().map(|job| stays[*job]).collect();
        let solved = best(&own, &stays, WORK / instance.jobs.len());
        saves += solved.saves;
        part.jobs.iter().zip(solved.waits).for_each(|(job, is_waiting)| waits[*job] = is_waiting);
        (part, solved.plan)
    });
    let parts: Vec<_> = parts.collect();
    Solved { plan: merge(&situation, &parts), saves, waits }
}

/// Returns the cheapest plan of one controller: by what it costs to the end of all jobs, if there are few, else by the board's estimate. It is
/// the best of at most so many randomised constructions, of what earliest deadline starts, and of plans close to that.
fn best(situation: &Situation<'_>, stays: &[bool], constructions: usize) -> Solved {
    let kept = baseline(situation, Queue::PackedEdf);
    let waits = vec![false; situation.jobs.len()];
    if stays.iter().all(|stays| *stays) {
        return Solved { plan: kept, saves: 0.0, waits };
    }
    let (ours, thesis) = (Board::new(situation, Rule::Scarcity), Board::new(situation, Rule::Thesis));
    let mut drafts: Vec<Draft> = vec![ours.greedy(), thesis.greedy()];
    let numbers = 0..constructions.min(CONSTRUCTIONS) as u64;
    drafts.extend(numbers.map(|number| if number % 2 == 0 { &ours } else { &thesis }.construction(SEED, number / 2)));
    let by_cost = |drafts: Vec<Draft>| {
        let mut costs: Vec<(f64, Draft)> = drafts.into_iter().map(|draft| (ours.cost(&draft), draft)).collect();
        costs.sort_by(|one, other| one.0.total_cmp(&other.0));
        costs.dedup_by(|one, other| one.1 == other.1);
        costs.into_iter().map(|(_, draft)| draft).collect::<Vec<Draft>>()
    };
    let mut drafts = by_cost(drafts);
    if situation.jobs.len() <= IMPROVED_MOST {
        let improved: Vec<Draft> = drafts.iter().take(ELITE).map(|draft| ours.improve(draft)).collect();
        drafts = by_cost(improved.into_iter().chain(drafts).collect());
    }
    let is_kept = |plan: &Plan, job: usize| plan.places[job] == situation.jobs[job].place;
    let all_kept = |plan: &Plan| (0..stays.len()).all(|job| !stays[job] || is_kept(plan, job));
    let mut plans = drafts.iter().map(|draft| ours.plan(draft)).filter(all_kept);
    let step = situation.jobs.len().pow(2) * situation.nodes.len();
    let rollouts = (ROLLOUT_WORK / step.max(1)).min(ROLLOUTS);
    if rollouts == 0 {
        return Solved { plan: plans.next().unwrap_or(kept), saves: 0.0, waits };
    }
    let mut best = (rollout(situation, &kept), kept.clone());
    let before = best.0;
    let consider = |plan: Plan, best: &mut (f64, Plan)| {
        let cost = rollout(situation, &plan);
        let is_better = cost < best.0 - LEAST_GAIN;
        if is_better {
            *best = (cost, plan);
        }
        is_better
    };
    if situation.jobs.iter().all(|job| job.place.is_some()) {
        // One job at a time changes: if several did, they would wait for each other's room.
        for plan in plans.take(rollouts) {
            for job in (0..situation.jobs.len()).filter(|job| !is_kept(&plan, *job)) {
                consider(with_one_changed(situation, &kept, &plan, job), &mut best);
            }
        }
        return Solved { saves: before - best.0, plan: best.1, waits };
    }
    for plan in plans.take(rollouts) {
        consider(plan, &mut best);
    }
    let mut waits = waits;
    for (job, waits) in waits.iter_mut().enumerate() {
        let starts = situation.jobs[job].place.is_none() && is_late(situation, &best.1, job);
        let mut later = best.1.clone();
        later.places[job] = None;
        *waits = starts && later.places.iter().any(Option::is_some) && consider(later, &mut best);
    }
    Solved { plan: best.1, saves: 0.0, waits }
}

/// Whether a job starts in a plan, but would be late there.
fn is_late(situation: &Situation<'_>, plan: &Plan, job: usize) -> bool {
    let seconds = || {
        let place = plan.places[job]?;
        let gpu = situation.catalogue.nodes()[plan.nodes[place.node]?].gpu;
        situation.seconds_left(&situation.jobs[job], gpu, place.gpus, false)
    };
    seconds().is_some_and(|seconds| situation.now_s + seconds > situation.jobs[job].deadline_s)
}

/// Returns a plan with the place of one job taken from another; unchanged if that does not fit there.
fn with_one_changed(situation: &Situation<'_>, kept: &Plan, other: &Plan, job: usize) -> Plan {
    let mut plan = kept.clone();
    plan.places[job] = other.places[job];
    for (node, node_type) in plan.nodes.iter_mut().enumerate() {
        let is_used = plan.places.iter().flatten().any(|place| place.node == node);
        *node_type = node_type.or(other.nodes[node]).filter(|_| is_used);
    }
    if check(situation, &plan).is_empty() { plan } else { kept.clone() }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
