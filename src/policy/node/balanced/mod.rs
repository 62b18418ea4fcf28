//! The default policy: CPU goes where the next good thing costs the least of it.
//!
//! ## Why job X has 62 %
//!
//! Two things about a training job are worth waiting for: that its model is good (95 % of the improvement that it will ever make) and that it
//! is done. Each is a *milestone* with a *credit*: 1 − λ for quality and λ for completion, λ being the setting `objective`
//! (`balanced` = 0.53, `quality` = 0, `completion` = 1). For each milestone ahead the policy estimates the *work*, in CPU-seconds:
//! progress units to go × CPU per unit. The job's *index* is its best credit per work, over either horizon:
//!
//! ```text
//! index = weight · max( (1 − λ) / work to quality,  credit of all milestones ahead / work to completion )
//! ```
//!
//! This is Smith's rule (shortest weighted work first) over milestones. With λ = 1 it is "shortest remaining work first", which has the least
//! mean completion time there is on one server; λ = 0 is FlowCon's growth efficiency looked at over the whole way to quality instead of the
//! last interval. `flowctl explain` shows which milestone decided and what it costs.
//!
//! A deadline (`flowcon.deadline`) is a soft hint: while a job needs more than an equal share to end in time, the credit of its completion counts
//! as many times as it needs equal shares. When the whole node would not be enough any more, it is ranked like the others.
//!
//! The index becomes cores, in each contention domain by itself ([`super::domain`], [`pool`]):
//!
//! ```text
//! entitled = cores · weight / Σ weights                           cores/n where all weights are equal
//! put in   = trust · (1 − floor) · entitled
//! given    = entitled − put in + pool · index⁸ / Σ index⁸
//! ```
//!
//! Every job has its equal share to start with, what plain sharing by its owner's weight would give it. It puts into the pool as
//! much of it as its estimates are trusted, less the floor, and gets out of the pool according to its index: nearly all goes to the
//! best, two equal jobs share. A job that has shown how many cores it can use ([`width`]) takes no more than that, and the rest
//! goes to the next best: two jobs of one thread run beside each other. What a job that has lost its trust would take goes back to
//! those who put it in. A job about which nothing is known (no progress in its log) puts in nothing, takes nothing and has its
//! equal share. Shares are soft: what a job cannot use (it waits for I/O, it has one thread) flows to the next.
//!
//! Narrow jobs have a price: the longest of them would run alone in the end on a domain that is half idle. So a narrow job whose work takes
//! about as long as everything together comes first, with two equal shares at most.
//!
//! A job whose GPU takes longer for a unit of progress than the cores that it is entitled to is ranked by GPU-seconds among those on the same
//! GPU, and has its equal share of the cores ([`gpu`]).
//!
//! ## What it does when it does not know
//!
//! - Nothing printed yet: what earlier runs of the same training did, if there were any: units, their price, the point of 95 %. It is ranked by
//!   them from its first second, and by its own as soon as it prints.
//! - Nothing printed, but a total that its command claims: each unit costs at least what has been used since the start was over ([`work`]). It
//!   keeps a fifth of its equal share whatever that comes to ([`milestone::TRUST_BEFORE_THE_FIRST_LINE`]).
//! - One report so far: the price of a unit may hold what the start cost. A price that is far too high is corrected soon: the next unit is cheap.
//! - No fitted curve yet: quality at [`milestone::TYPICAL_QUALITY_AT`] of the whole work, as for a typical job.
//! - No total in the log: what the job's command claims, as far as that is sure. Else who learns slowly is trained for long, so the end is
//!   expected where a typical job with this point of 95 % quality would have it; past that, the longer a job has run, the longer it will.
//!   With unknown ends nobody beats equal shares by much on completion, but much can be lost, so CPU is *lent*: a job puts in the less the
//!   further it is behind what plain sharing would have given it, and nothing beyond [`milestone::LAG_AT_MOST`] of its own work; whoever got
//!   ahead on the way to a good model gives it back afterwards. Good models come sooner, and ends when they would have come anyway.
//! - No metric, or one that the reader is not sure of: both credits come with completion.
//! - Diverging: the credit for quality is lost.
//! - A job that promises a milestone, gets the work for it and does not arrive loses trust ([`trust`]), and with it the right to more than
//!   its equal share: whatever a log claims, it is worth no more CPU than it says that it needs, and a little more.
//!
//! ## Properties
//!
//! - No job gets less than `floor` of an equal share (owners' upper bounds aside), and only a trusted one more than an equal share.
//! - Estimates are not smoothed over time: a job's credit ends when its milestone is reached, and smoothing would hold the CPU past that
//!   point. Shares are continuous in the index instead, so that near-equal jobs do not flap.
//! - It looks again when the favoured job should be half way to its milestone, or a second after a job is favoured for the first time, to see
//!   how wide it is, or while a job that just started has not shown what its work costs: at most ten times in an interval.

mod gpu;
mod lag;
mod milestone;
mod pool;
#[cfg(test)]
mod testing;
mod trust;
mod width;
mod work;

use super::allocation;
use super::decision::Decision;
use super::domain::Domain;
use super::importance;
use super::memory::MemoryRole;
use crate::model::{
    ContainerObservation, CpuTime, List, Millis, NodeObservation, PolicySettings, Reason, RunState, WorkForecast,
};
use lag::Lag;
use milestone::{Milestone, Prospect};
use serde::{Deserialize, Serialize};
use trust::Trust;
use width::Width;
use work::WorkMeter;

/// Part of the time that everything takes together from which on a narrow job is critical.
const CRITICAL_ABOVE: f64 = 0.9;

/// Equal shares that a critical job gets at most.
const CRITICAL_SHARES: f64 = 2.0;

/// Part of the way to the favoured job's milestone after which to look again.
const LOOK_AGAIN: f64 = 0.5;

/// Ticks in an interval at most.
const TICKS_AN_INTERVAL: u64 = 10;

/// What is remembered of one container between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    meter: WorkMeter,
    trust: Trust,
    lag: Lag,
    width: Width,
    /// CPU-seconds from the start to a good model, as last foreseen.
    good_at: Option<f64>,
    /// What is ahead of it, as last foreseen.
    #[serde(default)]
    forecast: Option<WorkForecast>,
    #[serde(default)]
    gpu: gpu::Memory,
}

/// A ranked container.
struct Candidate {
    milestone: Milestone,
    /// Trust that is left after broken promises, 0 ..= 1.
    honesty: f64,
    /// Cores that it can use.
    usable: f64,
    /// Every further delay of it delays the end of all.
    is_critical: bool,
    /// The price of its units was seen between two reports.
    is_measured: bool,
}

/// By what a container is ranked: by what limits it.
enum Ranked {
    OnCpu(Candidate),
    OnGpu(Candidate),
}

/// Decisions for all containers, and how long they hold.
pub(super) struct Answer {
    /// In the order of the observation.
    pub(super) decisions: Vec<Decision>,
    /// At most so long.
    pub(super) wait: Millis,
}

/// One container's part in a decision.
pub(super) struct Entry<'a> {
    pub(super) memory: &'a mut Memory,
    /// Its list, which this policy shows and does not act on.
    pub(super) list: List,
    /// What there was of the capacity that was last planned with.
    pub(super) kept: f64,
    /// GPU time that it has used.
    pub(super) gpu_time: Option<CpuTime>,
    /// Its part in the contest for the GPU that limits it.
    on_gpu: Option<Candidate>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(memory: &'a mut Memory, list: List, kept: f64, gpu_time: Option<CpuTime>) -> Self {
        Entry { memory, list, kept, gpu_time, on_gpu: None }
    }
}

/// One domain with its ranked containers, in the order of its members.
struct Contest<'a> {
    domain: &'a Domain,
    candidates: Vec<Option<Candidate>>,
    /// The indices of those that are ranked, best first.
    order: Vec<f64>,
    /// Cores that plain sharing gives each.
    entitled: Vec<f64>,
    /// Cores that are given to each.
    given: Vec<f64>,
}

/// Decides for every container. `domains` have the capacity to plan with.
pub(super) fn decide(
    node: &NodeObservation,
    domains: &[Domain],
    entries: &mut [Entry<'_>],
    settings: &PolicySettings,
) -> Answer {
    let contests: Vec<Contest<'_>> =
        domains.iter().map(|domain| Contest::new(node, domain, entries, settings)).collect();
    offer(node, domains, &contests, entries);
    let on_gpus = gpu::contests(node, entries, settings);
    let wait = if contests.iter().any(|contest| contest.is_awaiting_a_price(node, entries, settings.interval)) {
        soonest(settings.interval)
    } else {
        let each = contests.iter().map(|contest| contest.wait(node.now, entries, settings.interval));
        let on_gpus = on_gpus.iter().map(|contest| contest.wait(entries).max(soonest(settings.interval)));
        each.chain(on_gpus).min().unwrap_or(settings.max_interval.max(settings.interval))
    };
    let mut decisions: Vec<Decision> = entries.iter().map(|entry| Decision::listed(entry.list)).collect();
    for (index, plan) in on_gpus.iter().flat_map(|contest| contest.plans(entries)) {
        decisions[index].gpus.push(plan);
    }
    for contest in &contests {
        for (member, &index) in contest.domain.members.iter().enumerate() {
            contest.decide(member, &node.containers[index], entries[index].on_gpu.as_ref(), &mut decisions[index]);
        }
    }
    Answer { decisions, wait }
}

/// What each may use until the next tick: in a control period that is not what was decided.
fn offer(node: &NodeObservation, domains: &[Domain], contests: &[Contest<'_>], entries: &mut [Entry<'_>]) {
    let plain = node.is_plain().then(|| allocation::plain(node, domains));
    for contest in contests {
        for (&index, given) in contest.domain.members.iter().zip(&contest.given) {
            let cores = match &plain {
                Some(plain) => plain[index].share / contest.domain.part * contest.domain.cores,
                None => *given,
            };
            entries[index].memory.width.offer(node.now, cores);
        }
    }
}

impl Memory {
    /// What is ahead of the container, as last foreseen.
    pub(super) fn forecast(&self) -> Option<WorkForecast> {
        self.forecast
    }

    /// `None`: nothing is known about its work, or it is frozen. `equal` and `most` are cores: an equal share, and what it could use alone.
    fn rank(
        &mut self,
        container: &ContainerObservation,
        node: &NodeObservation,
        (kept, gpu_time): (f64, Option<CpuTime>),
        (equal, most): (f64, f64),
        settings: &PolicySettings,
    ) -> Option<Ranked> {
        let width = self.width.after(node.now, container, kept).map_or(most, |width| width.min(most));
        let behind = self.lag.after(node.now, container, width.min(equal));
        let Some(work) = self.meter.measure(node.now, container) else {
            self.forecast = None;
            return None;
        };
        self.good_at = milestone::good_at(&work, container, self.good_at);
        if container.state != RunState::Running {
            return None;
        }
        let deadline = container.deadline.map(|deadline| deadline.since(node.now).as_secs_f64());
        let prospect = Prospect { container, work, good_at: self.good_at, behind, deadline, cores: most, equal };
        let milestone = milestone::best(&prospect, settings.objective)?;
        self.forecast = Some(WorkForecast { to_end: milestone.to_end, used: work.done, per_unit: work.per_unit });
        // Who waits for its GPU uses little CPU, and is not narrow for that.
        let on_entitled_cores = work.per_unit / width.max(1.0).min(equal);
        if let Some(on_gpu) = self.gpu.rank(container, node.now, gpu_time, on_entitled_cores, settings) {
            return Some(Ranked::OnGpu(on_gpu));
        }
        let honesty = self.trust.after(&work, &milestone);
        // Whatever is wrong with what it seems to use, it may have an equal share.
        let usable = width.max(equal);
        let is_measured = work.is_measured;
        Some(Ranked::OnCpu(Candidate { milestone, honesty, usable, is_critical: false, is_measured }))
    }
}

impl<'a> Contest<'a> {
    fn new(node: &NodeObservation, domain: &'a Domain, entries: &mut [Entry<'_>], settings: &PolicySettings) -> Self {
        let plain = domain.plain_sharing(node);
        let mut entitled = vec![0.0; domain.members.len()];
        for (atom, given) in domain.atoms.iter().zip(&plain) {
            atom.members.iter().zip(given).for_each(|(&member, cores)| entitled[member] += cores);
        }
        let mut candidates: Vec<Option<Candidate>> = domain
            .members
            .iter()
            .zip(&entitled)
            .enumerate()
            .map(|(member, (&index, &equal))| {
                let (container, entry) = (&node.containers[index], &mut entries[index]);
                let cores = (equal, domain.most(member, container));
                match entry.memory.rank(container, node, (entry.kept, entry.gpu_time), cores, settings)? {
                    Ranked::OnCpu(candidate) => Some(candidate),
                    Ranked::OnGpu(candidate) => {
                        entry.on_gpu = Some(candidate);
                        None
                    }
                }
            })
            .collect();
        let is_competing =
            |&&index: &&usize| node.containers[index].state == RunState::Running && entries[index].on_gpu.is_none();
        let running = domain.members.iter().filter(is_competing).count();
        mark_critical(&mut candidates, &entitled, running.max(1) as f64, domain.cores);
        let given = pool::divide(domain, &candidates, &plain, settings.floor.fraction());
        let mut order: Vec<f64> = candidates.iter().flatten().map(|candidate| candidate.milestone.log_index).collect();
        order.sort_by(|a, b| b.total_cmp(a));
        Contest { domain, candidates, order, entitled, given }
    }

    fn is_favoured(&self, member: usize) -> bool {
        self.given[member] > self.entitled[member]
    }

    /// Whether a job that has just started has not shown yet what its units cost. What it shows soon is used soon; who shows nothing
    /// for an interval is looked at like all others.
    fn is_awaiting_a_price(&self, node: &NodeObservation, entries: &[Entry<'_>], interval: Millis) -> bool {
        self.domain.members.iter().zip(&self.candidates).any(|(&index, candidate)| {
            let container = &node.containers[index];
            container.state == RunState::Running
                && entries[index].on_gpu.is_none()
                && node.now.since(container.started) < interval
                && candidate.as_ref().is_none_or(|candidate| !candidate.is_measured)
        })
    }

    /// Until the first favoured job should be half way to its milestone, or shows how wide it is.
    fn wait(&self, now: Millis, entries: &[Entry<'_>], interval: Millis) -> Millis {
        let favoured = || (0..self.given.len()).filter(|&member| self.is_favoured(member));
        let seconds = favoured()
            .filter_map(|member| Some(self.candidates[member].as_ref()?.milestone.work / self.given[member]))
            .fold(f64::INFINITY, f64::min);
        // Nobody knows how much of the node a job can use that is favoured for the first time. Until a look may tell.
        let shows = |member: usize| entries[self.domain.members[member]].memory.width.is_about_to_show(now);
        let first_width =
            if favoured().any(shows) { soonest(interval).max(width::LEAST_INTERVAL) } else { Millis(u64::MAX) };
        let half_way = (LOOK_AGAIN * seconds * 1000.0).clamp(0.0, u64::MAX as f64) as u64;
        Millis(half_way).max(soonest(interval)).min(first_width)
    }

    fn decide(
        &self,
        member: usize,
        container: &ContainerObservation,
        on_gpu: Option<&Candidate>,
        decision: &mut Decision,
    ) {
        let candidate = self.candidates[member].as_ref();
        let is_favoured = candidate.is_some() && self.given[member] >= self.entitled[member];
        decision.role = if is_favoured { MemoryRole::Protect } else { MemoryRole::Leave };
        // The allocation multiplies by what the container matters, which is in what it is given already.
        decision.limit = self.given[member] / self.domain.cores / importance(container);
        decision.reason = match (candidate, on_gpu) {
            (_, Some(on_gpu)) => gpu::reason(on_gpu, &decision.gpus),
            (Some(Candidate { milestone, .. }), None) => Reason::Ranked {
                milestone: milestone.name.into(),
                work: milestone.work,
                rank: 1 + self.order.partition_point(|index| *index > milestone.log_index),
                of: self.order.len(),
            },
            (None, None) => Reason::Unranked,
        };
    }
}

/// A narrow job whose work alone takes about as long as everything takes together comes first: the node would be half idle in the end.
///
/// A log that claims endless work gains little by it: such a job gets [`CRITICAL_SHARES`] equal shares at most, and none with a broken promise.
fn mark_critical(candidates: &mut [Option<Candidate>], entitled: &[f64], running: f64, cores: f64) {
    let (known, ahead) =
        candidates.iter().flatten().fold((0.0, 0.0), |(n, sum), c| (n + 1.0, sum + c.milestone.to_end.likely));
    // Of those who tell nothing as much is expected as of the others.
    let everything = ahead / known * running / cores;
    let with_part =
        candidates.iter_mut().zip(entitled).filter_map(|(candidate, part)| Some((candidate.as_mut()?, part)));
    for (candidate, entitled) in with_part.filter(|(c, _)| c.usable < cores && c.honesty >= 1.0) {
        if candidate.milestone.to_end.likely / candidate.usable >= CRITICAL_ABOVE * everything {
            candidate.is_critical = true;
            candidate.usable = candidate.usable.min(CRITICAL_SHARES * entitled);
        }
    }
}

fn soonest(interval: Millis) -> Millis {
    Millis((interval.0 / TICKS_AN_INTERVAL).max(1))
}

#[cfg(test)]
mod tests;
