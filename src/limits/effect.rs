//! Whether CPU weights have an effect: something else may decide who runs.
//!
//! A scheduler of `sched_ext` may ignore weights, threads with real-time priority do not take part in them, and a kernel may have faults.
//! Nothing fails then: each value is written, reads back, and changes nothing.
//!
//! Jobs below one parent, on the same processors, divide the CPU that they receive together by weight, and none receives more than it asks
//! for. So from what they received (u), and what those asked for that received little for their weight, follows the division by weight
//! (d, water-filling) and the one that ignores weights (e). The effect is how far u is on the way from e to d:
//! Σ (u−e)(d−e) / Σ (d−e)², 1 where weights decide and 0 where they do not. What a job asks for is never set higher than it is, and what
//! others than these jobs take does not count; so in a fluid model, weights that decide are never taken for others. Kernels divide less
//! exactly, for example one thread more among few processors, hence the bounds below.

use model::sharing::{Claim, water_fill};
use model::{ContainerId, ContainerObservation, CpuTime, Millis, NO_EFFECT_BELOW, Place, Quota, RunState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Time between two readings: long beside the kernel's balancing, and beside the ten seconds over which pressure is averaged.
const WINDOW: Millis = Millis::from_secs(10);

/// Weights are judged by this much time in which they should have had an effect; older windows count half.
const EVIDENCE_S: f64 = 60.0;

/// Evidence is this much time at most, so that a change is seen.
const REMEMBERED_S: f64 = 120.0;

/// A problem without new evidence is forgotten: whether it still holds is unknown.
const FORGOTTEN_AFTER: Millis = Millis::from_secs(600);

/// Above this effect a problem is over.
const SOME_ABOVE: f64 = 0.6;

/// Windows count in which weights make a difference of this many cores for some job, and of this part of what all received: measurements
/// and kernels are not exact.
const CORES_AT_LEAST: f64 = 0.2;
const PART_AT_LEAST: f64 = 0.1;

/// Nobody is deprived who received this part of what is due.
const ENOUGH: f64 = 0.75;

/// A job waits for CPU that received at most this part, for its weight, of what the best served one received.
const SHORT: f64 = 0.6;

/// Jobs at most whose waiting is measured thread by thread, because their kernel has no pressure by cgroup.
const ASKED_AT_MOST: usize = 4;

/// A weight counts as the same if it changed by less than this part.
const SAME_WEIGHT: f64 = 0.1;

/// Judges the effect of CPU weights from what jobs received.
#[derive(Clone, Debug, Default)]
pub struct EffectMeter {
    read_at: Millis,
    readings: BTreeMap<ContainerId, Reading>,
    groups: Vec<Group>,
}

/// A division of CPU that weights do not explain.
#[derive(Clone, Debug, PartialEq)]
pub struct NoEffect {
    /// The job that waits although its weight entitles it to more.
    pub deprived: Received,
    /// The job that received most of what it should not have.
    pub favoured: Received,
}

/// What one job received, in cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The job.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Its CPU weight in force.
    pub weight: u32,
    /// Cores due to it by weight.
    pub due: f64,
    /// Cores received.
    pub used: f64,
}

/// Counters and limits of a job at one instant.
#[derive(Clone, Debug)]
struct Reading {
    place: Arc<Place>,
    weight: u32,
    quota: Option<f64>,
    cpu: CpuTime,
    throttled: CpuTime,
    /// Time for which its threads waited; read only of jobs that received little, where there is no pressure.
    waited: Option<CpuTime>,
    /// Whether it received little for its weight in the last window.
    is_short: bool,
}

/// The jobs below one parent, on the same processors.
#[derive(Clone, Debug)]
struct Group {
    place: Arc<Place>,
    /// Sums of (u−e)(d−e) and of (d−e)², by time.
    toward: f64,
    possible: f64,
    seconds: f64,
    judged_at: Millis,
    /// As it began.
    problem: Option<NoEffect>,
}

/// A job within a window.
struct Member<'a> {
    job: &'a ContainerObservation,
    weight: f64,
    used: f64,
    /// Cores that it asked for at most; at least those that it used.
    asked: f64,
}

impl EffectMeter {
    /// Takes the observed jobs if the last reading is old enough. `waited`: the time for which the threads of a job waited for CPU so far.
    pub fn look<'a>(
        &mut self,
        now: Millis,
        jobs: impl Iterator<Item = &'a ContainerObservation>,
        mut waited: impl FnMut(&ContainerId) -> Option<CpuTime>,
    ) {
        let passed = now.since(self.read_at);
        if passed < WINDOW {
            return;
        }
        let mut before = std::mem::take(&mut self.readings);
        let mut groups: Vec<(Arc<Place>, Vec<Member<'a>>)> = Vec::new();
        for job in jobs {
            let Some(mut reading) = Reading::of(job) else { continue };
            let last = before.remove(&job.id);
            if last.as_ref().is_some_and(|last| last.is_short) && job.usage.pressure.cpu.is_none() {
                reading.waited = waited(&job.id);
            }
            if let Some(member) = last.and_then(|last| reading.since(&last, job, passed.as_secs_f64())) {
                match groups.iter_mut().find(|(place, _)| compete(place, &reading.place)) {
                    Some((_, members)) => members.push(member),
                    None => groups.push((Arc::clone(&reading.place), vec![member])),
                }
            }
            self.readings.insert(job.id.clone(), reading);
        }
        self.read_at = now;
        for (place, members) in groups {
            for short in short(&members) {
                if let Some(reading) = self.readings.get_mut(&short) {
                    reading.is_short = true;
                }
            }
            self.judge(now, passed.as_secs_f64(), place, &members);
        }
        self.groups.retain(|group| now.since(group.judged_at) < FORGOTTEN_AFTER);
    }

    /// The least effect among the groups that were judged: about 1 where weights decide, 0 where they do not; `None` while unknown.
    pub fn effect(&self) -> Option<f64> {
        self.groups.iter().filter_map(Group::effect).min_by(f64::total_cmp)
    }

    /// A division that weights do not explain, while there is one.
    pub fn problem(&self) -> Option<&NoEffect> {
        self.groups.iter().find_map(|group| group.problem.as_ref())
    }

    fn judge(&mut self, now: Millis, seconds: f64, place: Arc<Place>, members: &[Member<'_>]) {
        let capacity: f64 = members.iter().map(|member| member.used).sum();
        let divided = |weight: &dyn Fn(&Member<'_>) -> f64| {
            let claims: Vec<Claim> =
                members.iter().map(|member| Claim { weight: weight(member), cap: member.asked }).collect();
            let mut shares = Vec::new();
            water_fill(capacity, &claims, &mut shares);
            shares
        };
        let (due, equal) = (divided(&|member| member.weight), divided(&|_| 1.0));
        let matters = CORES_AT_LEAST.max(PART_AT_LEAST * capacity);
        if !due.iter().zip(&equal).any(|(due, equal)| (due - equal).abs() >= matters) {
            return;
        }
        let found = self.groups.iter().position(|group| compete(&group.place, &place));
        let at = found.unwrap_or_else(|| {
            let (toward, possible, seconds) = (0.0, 0.0, 0.0);
            self.groups.push(Group { place, toward, possible, seconds, judged_at: now, problem: None });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        let lacks = members.iter().zip(&due).any(|(member, due)| member.used < ENOUGH * due);
        for ((member, due), equal) in members.iter().zip(&due).zip(&equal) {
            let used = if lacks { member.used } else { *due };
            group.toward += (used - equal) * (due - equal) * seconds;
            group.possible += (due - equal) * (due - equal) * seconds;
        }
        group.seconds += seconds;
        group.judged_at = now;
        group.conclude(members, &due);
    }
}

impl Group {
    fn effect(&self) -> Option<f64> {
        (self.seconds >= EVIDENCE_S).then(|| self.toward / self.possible)
    }

    fn conclude(&mut self, members: &[Member<'_>], due: &[f64]) {
        let Some(effect) = self.effect() else { return };
        if self.seconds > REMEMBERED_S {
            self.toward /= 2.0;
            self.possible /= 2.0;
            self.seconds /= 2.0;
        }
        if effect > SOME_ABOVE {
            self.problem = None;
        } else if effect < NO_EFFECT_BELOW && self.problem.is_none() {
            let lack = |(member, due): &(&Member<'_>, &f64)| **due - member.used;
            let by_lack = |one: &(&Member<'_>, &f64), other: &(&Member<'_>, &f64)| lack(one).total_cmp(&lack(other));
            let received = |(member, due): (&Member<'_>, &f64)| Received {
                id: member.job.id.clone(),
                name: member.job.name.clone(),
                weight: member.weight as u32,
                due: *due,
                used: member.used,
            };
            let all = || members.iter().zip(due);
            self.problem = all()
                .max_by(by_lack)
                .map(received)
                .zip(all().min_by(by_lack).map(received))
                .map(|(deprived, favoured)| NoEffect { deprived, favoured });
        }
    }
}

impl Reading {
    /// `None` for a job that does not compete, or of which too little is known.
    fn of(job: &ContainerObservation) -> Option<Reading> {
        let is_known = job.place.cpus.is_some() && job.place.parent.is_some();
        let quota = job.limits.cpu_quota.flatten().map(|Quota(millis)| millis as f64 / 1000.0);
        (job.state == RunState::Running && is_known).then_some(())?;
        Some(Reading {
            place: Arc::clone(&job.place),
            weight: job.limits.cpu_weight?.number(),
            quota,
            cpu: job.usage.cpu?,
            throttled: job.usage.throttled.unwrap_or_default(),
            waited: None,
            is_short: false,
        })
    }

    /// What the job did since an earlier reading; `None` if its limits or its place changed meanwhile.
    fn since<'a>(&self, last: &Reading, job: &'a ContainerObservation, seconds: f64) -> Option<Member<'a>> {
        let weight = f64::from(self.weight);
        let is_same = (weight - f64::from(last.weight)).abs() <= SAME_WEIGHT * weight;
        if !is_same || self.quota != last.quota || !compete(&self.place, &last.place) {
            return None;
        }
        let rate = |now: CpuTime, before: CpuTime| now.as_secs_f64() - before.as_secs_f64();
        let used = rate(self.cpu, last.cpu) / seconds;
        if used < 0.0 || weight <= 0.0 {
            return None;
        }
        let waited = self.waited.zip(last.waited).map(|(now, before)| (rate(now, before) / seconds).max(0.0));
        let waiting = job.usage.pressure.cpu.or(waited).unwrap_or(0.0);
        let is_throttled = self.throttled > last.throttled;
        let asked = if is_throttled { used } else { (used + waiting).min(self.quota.unwrap_or(f64::INFINITY)) };
        Some(Member { job, weight, used, asked: asked.max(used) })
    }
}

/// The jobs that received little for their weight, those of the largest weights first, limited in number.
fn short(members: &[Member<'_>]) -> Vec<ContainerId> {
    let level = |member: &Member<'_>| member.used / member.weight;
    let busy = members.iter().filter(|member| member.used >= CORES_AT_LEAST);
    let best = busy.map(level).fold(0.0, f64::max);
    let mut short: Vec<&Member<'_>> = members.iter().filter(|member| level(member) <= SHORT * best).collect();
    short.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    short.into_iter().take(ASKED_AT_MOST).map(|member| member.job.id.clone()).collect()
}

/// Whether weights are compared between the two places.
fn compete(one: &Place, other: &Place) -> bool {
    one.parent == other.parent && one.cpus == other.cpus
}
