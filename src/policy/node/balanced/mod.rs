//! The default policy: ranks jobs by the CPU time to their next milestone and favours the best.
//!
//! ## Why job X has 62 %
//!
//! A training job has two *milestones*: its model is good (95 % of the improvement that it will ever make), and it is complete. Each has a
//! *credit*: 1 − λ for quality and λ for completion, where λ is the setting `objective` (`balanced` = 0.53, `quality` = 0, `completion` =
//! 1). For each milestone ahead the policy estimates the *work* in CPU-seconds: remaining progress units × CPU per unit. The job's *index*
//! is its best credit per work:
//!
//! ```text
//! index = weight · max( (1 − λ) / work to quality,  credit of all milestones ahead / work to completion )
//! ```
//!
//! This is Smith's rule (shortest weighted work first) over milestones. With λ = 1 it is "shortest remaining work first", which has the
//! least mean completion time on one server. With λ = 0 it is FlowCon's growth efficiency, taken over the whole way to quality instead of
//! the last interval. `flowctl explain` shows the milestone that decided and its work.
//!
//! Of two jobs with about the same work to a known end, the one that is further behind plain sharing comes first: part of its lag is taken
//! off its work ([`milestone`]). Taken off as a whole, jobs would come in the order in which plain sharing completes them, and none would
//! be later than there (the Fair Sojourn Protocol: Friedman and Henderson, SIGMETRICS 2003), at a higher mean.
//!
//! A deadline (`flowcon.deadline`) is a soft hint: while a job needs more than an equal share to meet it, the credit of its completion is
//! multiplied by the number of equal shares that it needs. Once the whole node would not suffice, the job is ranked like the others.
//!
//! The index becomes cores, separately in each contention domain ([`super::domain`], [`pool`]), for the jobs of each user ([`users`]):
//!
//! ```text
//! entitled     = cores · weight / Σ weights                       cores/n where all weights are equal
//! contribution = confidence · reliability · (1 − floor) · entitled
//! given        = entitled − contribution + pool · index⁸ / Σ index⁸
//! ```
//!
//! Every job starts with its equal share, which plain sharing by its owner's weight would give it. It contributes as much of it to the pool
//! as its estimates can be relied on, less the floor, and draws from the pool according to its index: the best job gets nearly all, two
//! equal jobs share. A job with a known [`parallelism`] takes no more cores than it can use, and the rest goes to the next best: two
//! single-threaded jobs run side by side. What an unreliable job would draw is returned to the contributors. A job without known work (no
//! progress in its log) contributes nothing, draws nothing and has its equal share. Shares are soft: what a job cannot use (it waits for
//! I/O, it has one thread) flows to the next.
//!
//! Where a job wastes CPU beside others ([`waste`]), or only a turn of the best one can show it, the exponent is 32: one job at a time gets
//! nearly everything. Where the ranks are about equal nevertheless, jobs take [`turns`]. Where a job wastes CPU, one that has just started and
//! printed nothing counts as a short one ([`newcomer`]).
//!
//! Trials of one training compete by their results instead of their work ([`sweep`]).
//!
//! Jobs with low parallelism have a drawback: the longest of them could run alone in the end on a half idle domain. So such a job is
//! *critical* if its work takes about as long as that of all jobs together: it comes first, with two equal shares at most.
//!
//! A job that needs more seconds of its GPU per unit of progress than of the cores that it is entitled to, waiting for the GPU aside, is
//! ranked by GPU-seconds among the jobs on the same GPU, and has its equal share of the cores ([`gpu`]).
//!
//! A job that is NaN, diverging or stalled ([`model::Condition::is_broken`]) wastes what it gets: it has the floor of its equal share, and
//! the others divide the node as if it were not there, until it recovers. One that overfits has no quality ahead.
//!
//! ## Missing data
//!
//! - Nothing printed yet, but earlier runs of the same training: their units, cost per unit and point of 95 % quality rank the job from its
//!   first second, until it prints.
//! - No unit done yet, but its command claims a total, or its log reports zero units (the heading `Epoch 1/40`): each unit costs at least
//!   what has been used since the end of the start, or half of what has been used since that report ([`work`]). The job keeps a fifth of its
//!   equal share in any case ([`milestone::CONFIDENCE_BEFORE_THE_FIRST_UNIT`]).
//! - One report so far: the cost per unit may include the cost of the start. If it is far too high, it is corrected soon: the next unit is
//!   cheap.
//! - No fitted curve yet: quality is expected at [`milestone::TYPICAL_QUALITY_AT`] of the whole work, as for a typical job.
//! - No total in the log: the claim of the job's command, if it is certain enough. Otherwise slow learning suggests long training, so the
//!   end is expected where a typical job with this point of 95 % quality ends, but after no more than four times the work done; past that
//!   point, the longer a job has run, the longer it is expected to run. With unknown ends no policy beats equal shares by much on
//!   completion, but much can be lost, so CPU is *lent*: a job contributes less the further it is behind plain sharing, and nothing beyond
//!   [`milestone::LAG_AT_MOST`] of its own work; a job that got ahead on the way to a good model returns it afterwards. Good models come
//!   sooner, and ends come when they would have come anyway.
//! - No metric, or an uncertain one: both credits come with completion.
//! - Diverging: the credit for quality is lost.
//! - A job that gets the work forecast for a milestone and does not reach it loses reliability ([`reliability`]), and with it the right to
//!   more than its equal share: whatever a log claims, a job gets little more CPU than it says that it needs.
//!
//! ## Properties
//!
//! - No job gets less than `floor` of an equal share (owners' upper bounds aside), and only a reliable one gets more than an equal share.
//! - Estimates are not smoothed over time: a job's credit ends when its milestone is reached, and smoothing would keep the CPU beyond that
//!   point. Instead, shares are continuous in the index, so that near-equal jobs do not flap.
//! - The next tick comes when the favoured job should be half way to its milestone, a second after a job is favoured for the first time (to
//!   measure its parallelism), or soon while a job that just started has no measured cost per unit: at most ten times per interval.

mod candidate;
mod course;
mod critical;
mod gpu;
mod group_stop;
mod lag;
mod milestone;
mod newcomer;
mod outcome;
mod parallelism;
mod pool;
mod reliability;
mod standing;
mod sweep;
#[cfg(test)]
mod testing;
mod turns;
mod users;
mod wait;
mod waste;
mod work;

use super::allocation;
use super::decision::Decision;
use super::domain::Domain;
use super::gpu_time::GpuUsed;
use candidate::{Candidate, Ranked};
pub(super) use course::{Course, divide};
use lag::Lag;
use milestone::{Measured, Prospect};
use model::{ContainerObservation, List, Millis, NodeObservation, PolicySettings, RunState, TrialStop, WorkForecast};
use newcomer::Newcomer;
use parallelism::Parallelism;
use reliability::Reliability;
use serde::{Deserialize, Serialize};
use standing::Standing;
pub(super) use sweep::Sweeps;
use turns::{Ranks, Turn};
use users::Users;
use waste::Waste;
use work::WorkMeter;

/// State of one container, kept between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    meter: WorkMeter,
    #[serde(rename = "trust")]
    reliability: Reliability,
    lag: Lag,
    #[serde(rename = "width")]
    parallelism: Parallelism,
    /// CPU-seconds from the start to a good model, by the last forecast.
    good_at: Option<f64>,
    #[serde(default)]
    newcomer: Newcomer,
    #[serde(default)]
    waste: Waste,
    #[serde(default)]
    turn: Turn,
    /// Forecast of the last tick.
    #[serde(default)]
    forecast: Option<WorkForecast>,
    /// Its rank at the last tick, and what it depends on; `None` if it was not ranked.
    #[serde(skip)]
    course: Option<Course>,
    #[serde(default)]
    gpu: gpu::Memory,
}

/// Decisions for all containers, and the time to the next tick.
pub(super) struct Decisions {
    /// In the order of the observation.
    pub(super) decisions: Vec<Decision>,
    /// Upper bound.
    pub(super) wait: Millis,
    /// Trials to be stopped.
    pub(super) stops: Vec<TrialStop>,
}

/// One container's input to a decision.
pub(super) struct Entry<'a> {
    pub(super) memory: &'a mut Memory,
    /// Its list; displayed only, this policy does not use it.
    pub(super) list: List,
    /// The part of the last planned capacity that was available.
    pub(super) kept: f64,
    /// What it has used on GPUs so far.
    pub(super) gpu_used: Option<GpuUsed>,
    /// How it stands in its sweep.
    standing: Option<Standing>,
    /// Its candidate on the GPU that limits it.
    on_gpu: Option<Candidate>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(memory: &'a mut Memory, list: List, kept: f64, gpu_used: Option<GpuUsed>) -> Self {
        Entry { memory, list, kept, gpu_used, standing: None, on_gpu: None }
    }
}

/// One domain with its ranked containers, in the order of its members.
struct Contest<'a> {
    domain: &'a Domain,
    candidates: Vec<Option<Candidate>>,
    /// The indices of the ranked members, best first.
    order: Vec<f64>,
    /// Cores for each member under plain sharing, within its user's part.
    entitled: Vec<f64>,
    /// Cores due to each member by its rank.
    due: Vec<f64>,
    /// Cores given to each member, where they come in turns.
    in_turns: Option<Vec<f64>>,
}

/// Decides for every container. `domains` have their measured capacity.
pub(super) fn decide(
    node: &NodeObservation,
    domains: &[Domain],
    entries: &mut [Entry<'_>],
    sweeps: &mut Sweeps,
    settings: &PolicySettings,
) -> Decisions {
    let (standings, stops) = if settings.sweeps { sweeps.standings(node) } else { Default::default() };
    standings.into_iter().for_each(|(index, standing)| entries[index].standing = Some(standing));
    let users = Users::of(node, settings);
    let contests: Vec<Contest<'_>> =
        domains.iter().map(|domain| Contest::new(node, domain, &users, entries, settings)).collect();
    offer(node, domains, &contests, entries);
    gpu::hand_out_sweeps(node, entries);
    let on_gpus = gpu::contests(node, &users, entries, settings);
    let wait = if contests.iter().any(|contest| contest.awaits_cost_per_unit(node, entries, settings.interval)) {
        wait::soonest(settings.interval)
    } else {
        let each = contests.iter().map(|contest| contest.wait(node.now, entries, settings.interval));
        let on_gpus = on_gpus.iter().map(|contest| contest.wait(entries).max(wait::soonest(settings.interval)));
        each.chain(on_gpus).min().unwrap_or(settings.max_interval.max(settings.interval))
    };
    let mut decisions: Vec<Decision> = entries.iter().map(|entry| Decision::listed(entry.list)).collect();
    for (index, plan) in on_gpus.iter().flat_map(|contest| contest.plans(entries)) {
        decisions[index].gpus.push(plan);
    }
    contests.iter().for_each(|contest| contest.decide(node, entries, &mut decisions));
    Decisions { decisions, wait, stops }
}

/// Records the cores that each container may use until the next tick; in a control period these differ from the decision.
fn offer(node: &NodeObservation, domains: &[Domain], contests: &[Contest<'_>], entries: &mut [Entry<'_>]) {
    let plain = node.is_plain().then(|| allocation::plain(node, domains));
    for contest in contests {
        for (member, (&index, given)) in contest.domain.members.iter().zip(contest.given()).enumerate() {
            let cores = match &plain {
                Some(plain) => plain[index].share / contest.domain.part * contest.domain.cores,
                None => *given,
            };
            let (memory, most) = (&mut *entries[index].memory, contest.domain.most(member, &node.containers[index]));
            memory.parallelism.offer(node.now, cores);
            if contest.in_turns.is_some() && plain.is_none() {
                memory.waste.offer_in_turns(node.now, cores, most);
                memory.turn.give(node.now, (contest.due[member], cores, most), contest.is_favoured(member));
            } else {
                memory.waste.offer(node.now, cores, most);
                memory.turn = Turn::default();
            }
        }
    }
}

impl Memory {
    /// Returns the forecast of the last tick.
    pub(super) fn forecast(&self) -> Option<WorkForecast> {
        self.forecast
    }

    /// Returns how its rank stands since the last tick; `None` if it was not ranked among the jobs on the CPU.
    pub(super) fn course(&self) -> Option<&Course> {
        self.course.as_ref()
    }

    /// Ranks the container; `None` if its work is unknown or it is frozen. `equal` and `most` are cores: an equal share, and all it could
    /// use alone; `left` is the part of the domain's cores that neighbours leave to it.
    fn rank(
        &mut self,
        container: &ContainerObservation,
        node: &NodeObservation,
        (kept, gpu_used, standing): (f64, Option<GpuUsed>, Option<Standing>),
        (equal, most, left): (f64, f64, f64),
        settings: &PolicySettings,
    ) -> Option<Ranked> {
        self.course = None;
        let usable = self.parallelism.after(node.now, container, kept).map_or(most, |usable| usable.min(most));
        let behind = self.lag.after(node.now, container, usable.min(equal));
        let competes = container.state == RunState::Running && !is_broken(container);
        let Some(work) = self.meter.measure(node.now, container) else {
            self.forecast = None;
            let newcomer = self.newcomer.candidate(node.now, container, usable.max(equal));
            return newcomer.filter(|_| competes).map(Ranked::Newcomer);
        };
        self.waste.after(work.paid);
        self.good_at = milestone::good_at(&work, container, self.good_at);
        if !competes {
            return None;
        }
        let deadline = container.deadline.map(|deadline| deadline.since(node.now).as_secs_f64());
        let measured = Measured { container, work, good_at: self.good_at, behind, deadline, cores: most, equal };
        let prospect = Prospect::of(&measured, settings.objective);
        let mut milestone = prospect.best()?;
        let is_wasteful = self.waste.is_wasteful();
        let needs_turn = usable >= waste::TURN * most && self.waste.needs_turn(work.per_unit / most);
        if (is_wasteful || needs_turn) && self.waste.has_turn() {
            milestone.log_index += waste::LEAD_TO_TAKE_A_TURN.ln();
        }
        self.forecast = Some(WorkForecast {
            to_end: milestone.to_end,
            used: work.done,
            per_unit: work.per_unit,
            is_known: work.is_known(container),
            usable: Some(usable),
            waste: self.waste.factor(),
            lost_s: self.waste.lost_s(),
        });
        // A job that waits for its GPU uses little CPU; this does not mean low parallelism, nor that neighbours which use the rest would not
        // leave it more.
        let cores = usable.max(1.0).min(equal / left);
        if let Some(on_gpu) = gpu_used.and_then(|used| self.gpu.rank(container, node, used, cores, settings)) {
            return Some(Ranked::OnGpu(Candidate { place: standing.and_then(|trial| trial.place()), ..on_gpu }));
        }
        let reliability = self.reliability.after(&work, &milestone);
        // At least an equal share, even if the measured parallelism is wrong.
        let usable = usable.max(equal);
        let known = Candidate::new(milestone, reliability, usable).in_sweep(standing, work.per_unit);
        let candidate = Candidate {
            is_measured: work.is_measured,
            is_wasteful,
            needs_turn,
            may_wait: container.takes_turns,
            ..known
        };
        self.course = Some(Course { candidate, prospect });
        Some(Ranked::OnCpu(candidate))
    }
}

impl<'a> Contest<'a> {
    fn new(
        node: &NodeObservation,
        domain: &'a Domain,
        users: &Users,
        entries: &mut [Entry<'_>],
        settings: &PolicySettings,
    ) -> Self {
        let floor = settings.floor.fraction();
        let (plain, entitled) = users.entitle(node, domain, (floor, |index| is_broken(&node.containers[index])));
        let mut newcomers: Vec<Option<Candidate>> = domain.members.iter().map(|_| None).collect();
        let mut candidates: Vec<Option<Candidate>> = domain
            .members
            .iter()
            .zip(&entitled)
            .enumerate()
            .map(|(member, (&index, &equal))| {
                let (container, entry) = (&node.containers[index], &mut entries[index]);
                let cores = (equal, domain.most(member, container), domain.left);
                let used = (entry.kept, entry.gpu_used, entry.standing);
                match entry.memory.rank(container, node, used, cores, settings)? {
                    Ranked::OnCpu(candidate) => Some(candidate),
                    Ranked::OnGpu(candidate) => {
                        entry.on_gpu = Some(candidate);
                        None
                    }
                    Ranked::Newcomer(candidate) => {
                        newcomers[member] = Some(candidate);
                        None
                    }
                }
            })
            .collect();
        let is_competing = |&&index: &&usize| {
            let container = &node.containers[index];
            container.state == RunState::Running && !is_broken(container) && entries[index].on_gpu.is_none()
        };
        let running = domain.members.iter().filter(is_competing).count();
        critical::mark(&mut candidates, &entitled, running.max(1) as f64, domain.cores);
        let sharpness =
            if candidate::take_turns(&candidates) { pool::SHARPNESS_AGAINST_WASTE } else { pool::SHARPNESS };
        if candidates.iter().flatten().any(|candidate| candidate.is_wasteful) {
            candidates.iter_mut().zip(newcomers).filter(|(ranked, _)| ranked.is_none()).for_each(|(c, new)| *c = new);
        }
        sweep::hand_out(candidates.iter_mut().flatten(), sharpness);
        let due = pool::divide((domain, users), &candidates, &plain, (floor, sharpness));
        let ranks = Ranks { candidates: &candidates, due: &due, least: &|member| floor * entitled[member] };
        let turn = |member: usize| &entries[domain.members[member]].memory.turn;
        let take = || turns::take((node.now, settings.interval), &ranks, || users.groups(&domain.members), turn);
        let in_turns = if settings.turns { take() } else { None };
        let mut order: Vec<f64> = candidates.iter().flatten().map(|candidate| candidate.milestone.log_index).collect();
        order.sort_unstable_by(|a, b| b.total_cmp(a));
        Contest { domain, candidates, order, entitled, due, in_turns }
    }

    /// Cores given to each member until the next tick.
    fn given(&self) -> &[f64] {
        self.in_turns.as_ref().unwrap_or(&self.due)
    }

    fn is_favoured(&self, member: usize) -> bool {
        self.given()[member] > self.entitled[member]
    }
}

fn is_broken(container: &ContainerObservation) -> bool {
    container.health.condition.is_broken()
}

#[cfg(test)]
mod tests;
