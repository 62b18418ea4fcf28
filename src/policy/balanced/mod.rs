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
//! The index becomes a share of the node:
//!
//! ```text
//! entitled = weight / Σ weights                                   1/n where all weights are equal
//! put in   = trust · (1 − floor) · entitled
//! share    = entitled − put in + pool · index⁸ / Σ index⁸
//! ```
//!
//! Every job has its equal share to start with, what plain sharing by its owner's weight would give it. It puts into the pool as
//! much of it as its estimates are trusted, less the floor, and gets out of the pool according to its index: nearly all goes to the
//! best, two equal jobs share. A job that has shown how many cores it can use ([`width`]) takes no more than that, and the rest
//! goes to the next best: two jobs of one thread run beside each other. What a job that has lost its trust would take goes back to
//! those who put it in. A job about which nothing is known (no progress in its log) puts in nothing, takes nothing and has its
//! equal share. Shares are soft: what a job cannot use (it waits for I/O, it has one thread) flows to the next.
//!
//! Narrow jobs have a price: the longest of them would run alone in the end on a node that is half idle. So a narrow job whose work takes about
//! as long as everything together comes first, with two equal shares at most.
//!
//! ## What it does when it does not know
//!
//! - Nothing printed yet: what earlier runs of the same training did, if there were any: units, their price, the point of 95 %. It is ranked by
//!   them from its first second, and by its own as soon as it prints.
//! - One report so far: the price of a unit may hold what the start cost, so the job puts in half ([`milestone::TRUST_IN_FIRST_PRICE`]); on the
//!   floor alone a long first unit would take for ever to prove it wrong.
//! - No fitted curve yet: quality at [`milestone::TYPICAL_QUALITY_AT`] of the whole work, as for a typical job.
//! - No total in the log: who learns slowly is trained for long, so the end is expected where a typical job with this point of 95 %
//!   quality would have it; past that, the longer a job has run, the longer it will. With unknown ends nobody beats equal shares by much on
//!   completion, but much can be lost: the job puts in a part only ([`milestone::TRUST_WITHOUT_TOTAL`]), the less the further it is
//!   behind what plain sharing would have given it, and nothing beyond [`milestone::LAG_AT_MOST`] of its own work.
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

mod lag;
mod milestone;
mod trust;
mod width;
mod work;

use super::allocation;
use super::decision::Decision;
use super::memory::MemoryRole;
use super::sane_weight;
use crate::model::{ContainerObservation, Millis, NodeObservation, PolicySettings, Reason, RunState};
use lag::Lag;
use milestone::{Milestone, Prospect};
use serde::{Deserialize, Serialize};
use trust::Trust;
use width::Width;
use work::WorkMeter;

/// How sharply the pool prefers the best index: twice the index gets 2⁸ times the share.
const SHARPNESS: f64 = 8.0;

/// Comes before every rank.
const CRITICAL_CLAIM: f64 = 1e6;

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
}

/// A ranked container.
struct Candidate {
    milestone: Milestone,
    /// Trust that is left after broken promises, 0 ..= 1.
    honesty: f64,
    /// The part of the node that it can use.
    usable: f64,
    /// Every further delay of it delays the end of all.
    is_critical: bool,
    /// The price of its units was seen between two reports.
    is_measured: bool,
}

/// Decisions for all containers, and how long they hold.
pub(super) struct Answer {
    pub(super) decisions: Vec<Decision>,
    pub(super) wait: Millis,
}

/// Decides for every container.
pub(super) fn decide<'a>(
    node: &NodeObservation,
    memories: impl Iterator<Item = &'a mut Memory>,
    settings: &PolicySettings,
) -> Answer {
    let mut memories: Vec<&mut Memory> = memories.collect();
    let running = node.containers.iter().filter(|container| container.state == RunState::Running).count();
    let running = running.max(1) as f64;
    let entitled = entitled(&node.containers);
    let mut candidates: Vec<Option<Candidate>> = node
        .containers
        .iter()
        .zip(&mut memories)
        .zip(&entitled)
        .map(|((container, memory), entitled)| memory.rank(container, node, node.cores * entitled, settings))
        .collect();
    mark_critical(&mut candidates, &entitled, running, node.cores);
    let shares = shares(&candidates, &entitled, settings.floor.fraction());
    offer(node, &mut memories, &shares);
    let wait = if is_awaiting_a_price(node, &candidates, settings.interval) {
        soonest(settings.interval)
    } else {
        let first_width = first_width(node.now, &memories, &shares, &entitled, settings.interval);
        wait(&candidates, &shares, &entitled, node.cores, settings.interval).min(first_width)
    };
    let decisions = decisions(&node.containers, &candidates, &shares, &entitled);
    Answer { decisions, wait }
}

/// What each may use until the next tick: in a plain block that is not what was decided.
fn offer(node: &NodeObservation, memories: &mut [&mut Memory], shares: &[f64]) {
    let plain: Vec<f64> = match node.is_plain() {
        true => allocation::plain(&node.containers).iter().map(|allocation| allocation.share).collect(),
        false => Vec::new(),
    };
    let offered = if node.is_plain() { plain.as_slice() } else { shares };
    memories.iter_mut().zip(offered).for_each(|(memory, share)| memory.width.offer(node.now, share * node.cores));
}

/// What plain sharing by the owners' weights gives each: parts of the node. A frozen container has the part that it had if it thawed.
fn entitled(containers: &[ContainerObservation]) -> Vec<f64> {
    let weight = |container: &ContainerObservation| sane_weight(container.weight);
    let running = containers.iter().filter(|container| container.state == RunState::Running);
    let whole: f64 = running.map(weight).sum();
    containers.iter().map(|container| weight(container) / whole.max(weight(container))).collect()
}

impl Memory {
    /// `None`: nothing is known about its work, or it is frozen. `equal` is an equal share in cores.
    fn rank(
        &mut self,
        container: &ContainerObservation,
        node: &NodeObservation,
        equal: f64,
        settings: &PolicySettings,
    ) -> Option<Candidate> {
        let width = self.width.after(node.now, container);
        let behind = self.lag.after(node.now, container, width.map_or(equal, |width| width.min(equal)));
        let work = self.meter.measure(node.now, container)?;
        self.good_at = milestone::good_at(&work, container, self.good_at);
        if container.state != RunState::Running {
            return None;
        }
        let deadline = container.deadline.map(|deadline| deadline.since(node.now).as_secs_f64());
        let (good_at, cores) = (self.good_at, node.cores);
        let prospect = Prospect { container, work, good_at, behind, deadline, cores, equal };
        let milestone = milestone::best(&prospect, settings.objective)?;
        let honesty = self.trust.after(&work, &milestone);
        // Whatever is wrong with what it seems to use, it may have an equal share.
        let usable = width.map_or(1.0, |width| width.max(equal) / node.cores);
        Some(Candidate { milestone, honesty, usable, is_critical: false, is_measured: work.is_measured })
    }
}

/// A narrow job whose work alone takes about as long as everything takes together comes first: the node would be half idle in the end.
///
/// A log that claims endless work gains little by it: such a job gets [`CRITICAL_SHARES`] equal shares at most, and none with a broken promise.
fn mark_critical(candidates: &mut [Option<Candidate>], entitled: &[f64], running: f64, cores: f64) {
    let (known, ahead) =
        candidates.iter().flatten().fold((0.0, 0.0), |(n, sum), c| (n + 1.0, sum + c.milestone.to_end));
    // Of those who tell nothing as much is expected as of the others.
    let everything = ahead / known * running / cores;
    let with_part =
        candidates.iter_mut().zip(entitled).filter_map(|(candidate, part)| Some((candidate.as_mut()?, part)));
    for (candidate, entitled) in with_part.filter(|(c, _)| c.usable < 1.0 && c.honesty >= 1.0) {
        let alone = candidate.milestone.to_end / (candidate.usable * cores);
        if alone >= CRITICAL_ABOVE * everything {
            candidate.is_critical = true;
            candidate.usable = candidate.usable.min(CRITICAL_SHARES * entitled);
        }
    }
}

/// The part of the node that each container shall have.
fn shares(candidates: &[Option<Candidate>], entitled: &[f64], floor: f64) -> Vec<f64> {
    let ranked = || candidates.iter().flatten();
    let best = ranked().map(|c| c.milestone.log_index).fold(f64::NEG_INFINITY, f64::max);
    let rank = |c: &Candidate| (SHARPNESS * (c.milestone.log_index - best)).exp();
    let claim = |c: &Candidate| if c.is_critical { CRITICAL_CLAIM } else { rank(c) };
    let claims: f64 = ranked().map(claim).sum();
    if claims.is_nan() || claims <= 0.0 {
        return entitled.to_vec();
    }
    let take = |c: &Candidate| c.honesty * claim(c) / claims;
    let takes: Vec<f64> = candidates.iter().map(|candidate| candidate.as_ref().map_or(0.0, take)).collect();
    let taken: f64 = takes.iter().sum();
    let put_in = |c: &Candidate, entitled: f64| taken * c.honesty * c.milestone.trust * (1.0 - floor) * entitled;
    let puts: Vec<f64> = candidates
        .iter()
        .zip(entitled)
        .map(|(candidate, entitled)| candidate.as_ref().map_or(0.0, |candidate| put_in(candidate, *entitled)))
        .collect();
    let mut shares: Vec<f64> = entitled.iter().zip(&puts).map(|(entitled, put_in)| entitled - put_in).collect();
    hand_out(puts.iter().sum(), &takes, candidates, entitled, &mut shares);
    shares
}

/// Adds `pool` to the shares in proportion to `takes`; what a job cannot use goes to the others in the same proportion.
fn hand_out(pool: f64, takes: &[f64], candidates: &[Option<Candidate>], entitled: &[f64], shares: &mut [f64]) {
    let usable = |index: usize| candidates[index].as_ref().map_or(0.0, |candidate| candidate.usable);
    let mut open: Vec<usize> = (0..takes.len()).filter(|&index| takes[index] > 0.0).collect();
    let mut left = pool;
    while !open.is_empty() {
        let whole: f64 = open.iter().map(|&index| takes[index]).sum();
        let level = left / whole;
        let full = |index: &usize| shares[*index] + level * takes[*index] > usable(*index);
        let (capped, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|index| full(index));
        if capped.is_empty() {
            open.iter().for_each(|&index| shares[index] += level * takes[index]);
            return;
        }
        for index in capped {
            left -= (usable(index) - shares[index]).max(0.0);
            shares[index] = shares[index].max(usable(index));
        }
        open = rest;
    }
    // Nobody can use it: plain sharing of what is left is as good as anything.
    shares.iter_mut().zip(entitled).for_each(|(share, entitled)| *share += left.max(0.0) * entitled);
}

/// Until the first favoured job should be half way to its milestone.
fn wait(candidates: &[Option<Candidate>], shares: &[f64], entitled: &[f64], cores: f64, interval: Millis) -> Millis {
    let seconds = candidates
        .iter()
        .zip(shares.iter().zip(entitled))
        .filter(|(_, (share, entitled))| share > entitled)
        .filter_map(|(candidate, (share, _))| Some(candidate.as_ref()?.milestone.work / (share * cores)))
        .fold(f64::INFINITY, f64::min);
    let millis = (LOOK_AGAIN * seconds * 1000.0).clamp(0.0, interval.0 as f64) as u64;
    Millis(millis).max(soonest(interval))
}

/// A job that is favoured for the first time takes the whole node with it: nobody knows how much of it it can use. Until a look may tell.
fn first_width(now: Millis, memories: &[&mut Memory], shares: &[f64], entitled: &[f64], interval: Millis) -> Millis {
    let mut favoured =
        memories.iter().zip(shares.iter().zip(entitled)).filter(|(_, (share, entitled))| share > entitled);
    let is_near = favoured.any(|(memory, _)| memory.width.is_about_to_show(now));
    if is_near { soonest(interval).max(width::LEAST_INTERVAL) } else { interval }
}

fn soonest(interval: Millis) -> Millis {
    Millis((interval.0 / TICKS_AN_INTERVAL).max(1))
}

/// Whether a job that has just started has not shown yet what its units cost. What it shows soon is used soon; who shows nothing
/// for an interval is looked at like all others.
fn is_awaiting_a_price(node: &NodeObservation, candidates: &[Option<Candidate>], interval: Millis) -> bool {
    node.containers.iter().zip(candidates).any(|(container, candidate)| {
        container.state == RunState::Running
            && node.now.since(container.started) < interval
            && candidate.as_ref().is_none_or(|candidate| !candidate.is_measured)
    })
}

fn decisions(
    containers: &[ContainerObservation],
    candidates: &[Option<Candidate>],
    shares: &[f64],
    entitled: &[f64],
) -> Vec<Decision> {
    let mut indices: Vec<f64> = candidates.iter().flatten().map(|c| c.milestone.log_index).collect();
    indices.sort_by(|a, b| b.total_cmp(a));
    let reason = |candidate: &Option<Candidate>| match candidate {
        Some(Candidate { milestone, .. }) => Reason::Ranked {
            milestone: milestone.name.into(),
            work: milestone.work,
            rank: 1 + indices.partition_point(|index| *index > milestone.log_index),
            of: indices.len(),
        },
        None => Reason::Unranked,
    };
    containers
        .iter()
        .zip(candidates)
        .zip(shares.iter().zip(entitled))
        .map(|((container, candidate), (share, entitled))| {
            let is_favoured = candidate.is_some() && share >= entitled;
            let role = if is_favoured { MemoryRole::Protect } else { MemoryRole::Leave };
            // The allocation multiplies by the owner's weight, which is in the share already.
            let limit = share / sane_weight(container.weight);
            Decision { list: None, limit, role, reason: reason(candidate) }
        })
        .collect()
}

#[cfg(test)]
mod tests;
