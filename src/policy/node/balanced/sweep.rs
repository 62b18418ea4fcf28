//! Sweeps: one training, started several times with other parameters. Everybody waits for its best trial.
//!
//! A sweep draws what its trials would draw together as single jobs, and hands it out by their results: trials are compared at equal
//! progress, on *rungs* at parts of their whole work, as in asynchronous successive halving (Li et al., MLSys 2020). The order is:
//!
//! 1. promoted trials, on the highest rung first: those among the best third of all trials that have reached the rung;
//! 2. trials that have not reached the first rung, equally;
//! 3. all others, on the highest rung first, the better one first.
//!
//! Nobody is stopped, unless a label asks for it ([`super::group_stop`]): every trial keeps the floor, and when the best ones are complete
//! the next ones go on. A trial that was behind and is now as good as the promoted ones had been at its progress counts as promoted again:
//! a warm-up, or a drop of the learning rate, is late and not bad.
//!
//! Trials that end stay on their rungs, so that a trial that starts later is compared with them too. A trial without a metric, or with
//! another metric or another length than the others, is a single job.

use super::candidate::Candidate;
use super::group_stop::{Case, Verdicts};
use super::milestone::Milestone;
use super::standing::{Place, Standing};
use model::{
    ContainerId, ContainerObservation, Direction, Millis, NodeObservation, RunState, Trial, TrialStanding, TrialStop,
};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// [η] One of so many trials is promoted from each rung.
const REDUCTION: usize = 3;

/// Fewer runs of one training are no sweep.
const TRIALS_AT_LEAST: usize = REDUCTION;

/// Number of rungs where the whole work is known: at 1/27, 1/9 and 1/3 of it.
const RUNGS: u32 = 3;

/// Where it is not known, the first rung is at the last of so many evaluations, and there are so many rungs.
const EVALUATIONS_TO_THE_FIRST_RUNG: usize = 3;
const RUNGS_WITHOUT_END: u32 = 12;

/// Part of the gain since half of its progress that counts in addition. Measured on `sweep-16`: without it the best trial is complete after
/// 0.41 of its time under plain sharing, with it 0.39, with the whole gain 0.47.
const PROMISE: f64 = 0.5;

/// Metrics that are read with less confidence do not count, except that a trial has begun: after its first value a metric is unsure.
const LEAST_CONFIDENCE: f64 = 0.5;

/// A sweep without trials is forgotten after this time.
const KEPT_FOR: Millis = Millis::from_secs(1800);

/// Bounds of what is remembered.
const SWEEPS_AT_MOST: usize = 64;
const TRIALS_AT_MOST: usize = 1024;

/// The sweeps of a node, by what their trials have in common, kept between ticks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::node) struct Sweeps(BTreeMap<String, Sweep>);

/// One sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sweep {
    /// Progress units of each rung, rising.
    rungs: Vec<f64>,
    /// For each trial, also of those that ended: what it had achieved at each rung, larger = better.
    scores: BTreeMap<ContainerId, Vec<Option<f64>>>,
    #[serde(default)]
    verdicts: Verdicts,
    /// When a trial of it was last observed.
    at: Millis,
}

impl Sweeps {
    /// Records what each trial has achieved. Returns how it stands in its sweep, with its index in the observation, and the trials to be stopped.
    pub(super) fn standings(&mut self, node: &NodeObservation) -> (Vec<(usize, Standing)>, Vec<TrialStop>) {
        let mut groups: BTreeMap<String, Vec<(usize, Contender<'_>)>> = BTreeMap::new();
        for (index, container) in node.containers.iter().enumerate() {
            if let Some((in_common, contender)) = Contender::of(container) {
                groups.entry(in_common).or_default().push((index, contender));
            }
        }
        self.0.retain(|in_common, sweep| groups.contains_key(in_common) || node.now.since(sweep.at) < KEPT_FOR);
        let (mut standings, mut stops) = (Vec::new(), Vec::new());
        for (number, (in_common, mut trials)) in groups.into_iter().enumerate() {
            let Some(sweep) = self.sweep(in_common, &trials) else { continue };
            sweep.at = node.now;
            trials.retain(|(_, trial)| sweep.compares(trial));
            trials.iter().for_each(|(_, trial)| sweep.record(trial));
            if sweep.scores.len() >= TRIALS_AT_LEAST && !sweep.rungs.is_empty() {
                let order = sweep.order(number, &trials);
                stops.extend(sweep.stops(node, &trials, &order));
                standings.extend(order);
            }
        }
        (standings, stops)
    }

    /// The sweep of these trials; `None` while its rungs are unknown.
    fn sweep(&mut self, in_common: String, trials: &[(usize, Contender<'_>)]) -> Option<&mut Sweep> {
        if !self.0.contains_key(&in_common) && self.0.len() >= SWEEPS_AT_MOST {
            return None;
        }
        match self.0.entry(in_common) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) => Some(free.insert(Sweep::begin(trials)?)),
        }
    }
}

/// A container that can be compared with others of its group.
struct Contender<'a> {
    container: &'a ContainerObservation,
    trial: &'a Trial,
    direction: Direction,
    is_sure: bool,
    units: f64,
    total: Option<f64>,
}

impl<'a> Contender<'a> {
    /// What it has in common with the trials that it can be compared with, and its progress: they belong to the same group and user, print the
    /// same metric, and count the same units up to the same total. `None` if it cannot be compared.
    fn of(container: &'a ContainerObservation) -> Option<(String, Contender<'a>)> {
        let (trial, learning) = (container.trial.as_ref()?, &container.learning);
        let (metric, direction, progress) = (learning.metric.as_ref()?, learning.direction?, learning.progress?);
        if !progress.current.is_finite() {
            return None;
        }
        let is_sure = learning.confidence >= LEAST_CONFIDENCE;
        let expected = learning.units_to_completion.map(|left| progress.current + left.likely);
        let total = progress.total.or(expected).filter(|total| total.is_finite() && *total > 0.0);
        let end = total.map_or(String::new(), |total| format!("{total:.0}"));
        let user = container.user.as_deref().unwrap_or_default();
        let in_common = format!("{} {user} {:?} {direction:?} {end} {metric}", trial.group, progress.unit);
        Some((in_common, Contender { container, trial, direction, is_sure, units: progress.current, total }))
    }

    /// Where to compare trials first if nobody knows how long they will be.
    fn first_rung(&self) -> Option<f64> {
        let (units, _) = self.trial.curve.get(EVALUATIONS_TO_THE_FIRST_RUNG - 1)?;
        (units.is_finite() && *units > 0.0).then_some(*units)
    }

    fn competes(&self) -> bool {
        self.container.state == RunState::Running && !self.container.health.condition.is_broken()
    }

    /// Its score at this progress: what it had achieved, and a part of what it gained over the second half of the way there, because it is
    /// still learning.
    fn promise_at(&self, units: f64) -> Option<f64> {
        let score = self.score_at(units)?;
        let gained = self.score_at(units / 2.0).map_or(0.0, |before| score - before);
        Some(score + PROMISE * gained)
    }

    /// What it had achieved at this progress, larger = better; between two evaluations, on the line between them.
    fn score_at(&self, units: f64) -> Option<f64> {
        let after = self.trial.curve.partition_point(|(x, _)| *x < units);
        let &(x1, y1) = self.trial.curve.get(after)?;
        let value = if x1 > units {
            let &(x0, y0) = self.trial.curve.get(after.checked_sub(1)?)?;
            y0 + (y1 - y0) * (units - x0) / (x1 - x0)
        } else {
            y1
        };
        let score = self.direction.improvement(0.0, value);
        score.is_finite().then_some(score)
    }
}

impl Sweep {
    /// A new sweep of these trials; `None` while the rungs are unknown.
    fn begin(trials: &[(usize, Contender<'_>)]) -> Option<Sweep> {
        let rungs = match trials.first()?.1.total {
            Some(whole) => parts_of(whole),
            None => {
                let first_rung = trials.iter().find_map(|(_, trial)| trial.first_rung())?;
                (0..RUNGS_WITHOUT_END).map(|rung| first_rung * (REDUCTION as f64).powi(rung as i32)).collect()
            }
        };
        Some(Sweep { rungs, scores: BTreeMap::new(), verdicts: Verdicts::default(), at: Millis(0) })
    }

    /// Whether it can be compared with the other trials: a metric that is unsure says only that the trial has begun.
    fn compares(&self, contender: &Contender<'_>) -> bool {
        contender.is_sure || self.rungs.first().is_some_and(|first| contender.units <= *first)
    }

    /// The other container as a trial of the same group and user that cannot be compared, perhaps only not yet.
    fn incomparable<'a>(&self, one: &Contender<'_>, other: &'a ContainerObservation) -> Option<&'a Trial> {
        let trial = other.trial.as_ref().filter(|trial| trial.group == one.trial.group)?;
        let is_compared = Contender::of(other).is_some_and(|(_, contender)| self.compares(&contender));
        (other.user == one.container.user && !is_compared).then_some(trial)
    }

    /// Records the scores at the rungs that the trial has reached. What is recorded stays: a trial may forget the begin of its curve.
    fn record(&mut self, contender: &Contender<'_>) {
        self.verdicts.note(contender.trial.ran_before);
        if self.scores.len() >= TRIALS_AT_MOST && !self.scores.contains_key(&contender.container.id) {
            return;
        }
        let scores = self.scores.entry(contender.container.id.clone()).or_insert_with(|| vec![None; self.rungs.len()]);
        for (score, rung) in scores.iter_mut().zip(&self.rungs) {
            *score = score.or_else(|| contender.promise_at(*rung).filter(|_| contender.is_sure));
        }
    }

    /// The standings of the trials that compete, with their indices.
    fn order(&self, sweep: usize, trials: &[(usize, Contender<'_>)]) -> Vec<(usize, Standing)> {
        let mut ranked: Vec<(usize, Rank)> = trials
            .iter()
            .filter(|(_, contender)| contender.competes())
            .filter_map(|(index, contender)| Some((*index, self.rank(contender)?)))
            .collect();
        ranked.sort_by(|(_, a), (_, b)| a.cmp(b));
        let of = counted(ranked.len());
        let first_like = |rank: &Rank| ranked.partition_point(|(_, other)| other.cmp(rank).is_lt());
        let standing = |(index, rank): &(usize, Rank)| {
            let next = rank.reached.map_or(0, |reached| reached + 1);
            let units = trials.iter().find(|(of, _)| of == index).map_or(0.0, |(_, contender)| contender.units);
            let to_next_rung = self.rungs.get(next).map_or(f64::INFINITY, |rung| (rung - units).max(0.0));
            let rung = self.rungs.get(rank.reached.unwrap_or(0)).copied().unwrap_or(0.0);
            let place = Place { sweep: counted(sweep), at: counted(first_like(rank)) };
            (*index, Standing { place, of, standing: rank.standing, rung, to_next_rung })
        };
        ranked.iter().map(standing).collect()
    }

    /// The trials that have lost, of those whose labels ask to stop them then.
    fn stops(
        &mut self,
        node: &NodeObservation,
        trials: &[(usize, Contender<'_>)],
        order: &[(usize, Standing)],
    ) -> Vec<TrialStop> {
        let Some((_, one)) = trials.iter().find(|(_, contender)| contender.trial.stop_at.is_some()) else {
            return Vec::new();
        };
        let silent: Vec<_> = node.containers.iter().filter_map(|other| self.incomparable(one, other)).collect();
        silent.iter().for_each(|trial| self.verdicts.note(trial.ran_before));
        let mut stops = Vec::new();
        for (index, contender) in trials {
            let Some(at) = contender.trial.stop_at else { continue };
            let Some((_, standing)) = order.iter().find(|(of, _)| of == index) else { continue };
            if let Some(case) = self.case(trials, silent.len(), contender, standing, at)
                && let Some(why) = self.verdicts.judge(&case, REDUCTION)
            {
                stops.push(TrialStop { id: contender.container.id.clone(), why });
            }
        }
        stops
    }

    /// What decides about a trial at this rung, counted from 1; `None` if it has no result there.
    fn case<'a>(
        &self,
        trials: &[(usize, Contender<'_>)],
        silent: usize,
        contender: &Contender<'a>,
        standing: &'a Standing,
        at: u8,
    ) -> Option<Case<'a>> {
        let rung = usize::from(at).checked_sub(1)?;
        let units = *self.rungs.get(rung)?;
        let result = |scores: &Vec<Option<f64>>| *scores.get(rung)?;
        let recorded = self.scores.get(&contender.container.id).and_then(result)?;
        // Another run of the container may have done better.
        let score = contender.promise_at(units).map_or(recorded, |now| now.max(recorded));
        let is_coming = |trial: &Contender<'_>| {
            let rank = self.rank(trial).filter(|rank| rank.standing != TrialStanding::Behind);
            rank.is_some() && self.scores.get(&trial.container.id).and_then(result).is_none()
        };
        let coming = trials.iter().filter(|(_, trial)| is_coming(trial)).count();
        Some(Case {
            container: contender.container,
            standing,
            is_behind: self.is_behind_the_promoted(contender),
            rung: at,
            is_on_its_way: contender.units >= units && contender.total.is_none_or(|total| contender.units < total),
            score,
            results: self.scores.values().filter_map(result).collect(),
            coming: coming + silent,
        })
    }

    /// Whether it was not among the best third at the highest rung that it has reached, and has not caught up with those since.
    fn is_behind_the_promoted(&self, contender: &Contender<'_>) -> bool {
        let Some(Rank { standing, reached: Some(rung), .. }) = self.rank(contender) else { return false };
        let is_promoted = |score| self.is_among_the_best(rung, score);
        standing != TrialStanding::Promoted && !self.has_caught_up(contender, rung, is_promoted)
    }

    fn rank(&self, contender: &Contender<'_>) -> Option<Rank> {
        let scores = self.scores.get(&contender.container.id)?;
        let reached = scores.iter().rposition(Option::is_some);
        let Some((rung, score)) = reached.and_then(|rung| Some((rung, scores[rung]?))) else {
            return Some(Rank { standing: TrialStanding::Starting, reached: None, score: 0.0 });
        };
        let standing = if self.is_among_the_best(rung, score) {
            TrialStanding::Promoted
        } else if self.has_caught_up(contender, rung, |_| true) {
            TrialStanding::CaughtUp
        } else {
            TrialStanding::Behind
        };
        Some(Rank { standing, reached, score })
    }

    /// Whether fewer than a third of the trials that have reached the rung were better there.
    fn is_among_the_best(&self, rung: usize, score: f64) -> bool {
        let at_rung = || self.scores.values().filter_map(|scores| *scores.get(rung)?);
        let better = at_rung().filter(|other| *other > score).count();
        better < at_rung().count() / REDUCTION
    }

    /// Whether it is now at least as good as half of those that have gone on from its rung to the next had been at its progress; `with`: only
    /// those with such a score at the rung.
    fn has_caught_up(&self, contender: &Contender<'_>, rung: usize, with: impl Fn(f64) -> bool) -> bool {
        let (Some(&from), Some(&to)) = (self.rungs.get(rung), self.rungs.get(rung + 1)) else { return false };
        let Some(score) = contender.trial.curve.last().and_then(|(units, _)| contender.promise_at(*units)) else {
            return false;
        };
        let part = ((contender.units - from) / (to - from)).clamp(0.0, 1.0);
        let had = |scores: &Vec<Option<f64>>| {
            let (from, to) = ((*scores.get(rung)?)?, (*scores.get(rung + 1)?)?);
            with(from).then_some(from + part * (to - from))
        };
        let others: Vec<f64> = self.scores.values().filter_map(had).collect();
        let not_better = others.iter().filter(|other| **other <= score).count();
        !others.is_empty() && 2 * not_better >= others.len()
    }
}

/// Decides the order within a sweep.
#[derive(Clone, Copy, Debug)]
struct Rank {
    standing: TrialStanding,
    /// The highest rung that it has reached.
    reached: Option<usize>,
    score: f64,
}

impl Rank {
    fn cmp(&self, other: &Rank) -> Ordering {
        let class = |rank: &Rank| match rank.standing {
            TrialStanding::Promoted | TrialStanding::CaughtUp => 0,
            TrialStanding::Starting => 1,
            TrialStanding::Behind => 2,
        };
        class(self).cmp(&class(other)).then(other.reached.cmp(&self.reached)).then(other.score.total_cmp(&self.score))
    }
}

fn counted(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// The rungs of trials with so much work, in whole units.
fn parts_of(whole: f64) -> Vec<f64> {
    let mut rungs: Vec<f64> =
        (1..=RUNGS).rev().map(|rung| (whole / (REDUCTION as f64).powi(rung as i32)).ceil()).collect();
    rungs.dedup();
    rungs.retain(|rung| *rung < whole);
    rungs
}

/// Hands out the indices of each sweep by its order. In sum the trials draw as much as before: `sharpness` is the exponent on the index.
pub(super) fn hand_out<'a>(candidates: impl IntoIterator<Item = &'a mut Candidate>, sharpness: f64) {
    let mut sweeps: BTreeMap<u16, Vec<(u16, &mut Milestone)>> = BTreeMap::new();
    for candidate in candidates.into_iter().filter(|candidate| !candidate.is_critical) {
        if let Some(Place { sweep, at }) = candidate.place {
            sweeps.entry(sweep).or_default().push((at, &mut candidate.milestone));
        }
    }
    for trials in sweeps.values_mut().filter(|trials| trials.len() > 1) {
        trials.sort_by_key(|(at, _)| *at);
        // The index halves from each place to the next.
        let mut places: Vec<u16> = trials.iter().map(|(at, _)| *at).collect();
        places.dedup();
        let falls = |at: u16| -std::f64::consts::LN_2 * places.partition_point(|place| *place < at) as f64;
        let best = trials.iter().map(|(_, milestone)| milestone.log_index).fold(f64::NEG_INFINITY, f64::max);
        let drawn: f64 = trials.iter().map(|(_, milestone)| (sharpness * (milestone.log_index - best)).exp()).sum();
        let parts: f64 = trials.iter().map(|(at, _)| (sharpness * falls(*at)).exp()).sum();
        for (at, milestone) in trials {
            milestone.log_index = best + (drawn / parts).ln() / sharpness + falls(*at);
        }
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
