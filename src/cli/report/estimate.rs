//! Estimates completion times under plain sharing: the recorded jobs are replayed with their original weights, and the error is bounded.
//!
//! A job is an amount of work in core-seconds, done at the rate that [weighted max-min fairness](water_fill) gives it among the running
//! jobs. The same replay with the recorded weights shows how well the model fits this machine: its error there is the uncertainty of the
//! estimate for plain sharing. Pure.

use model::sharing::{Claim, water_fill};

/// A job as recorded; times in seconds since the start of the report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Life {
    /// When it started; 0 if that was before the report.
    pub start_s: f64,
    /// Whether it started in the report: otherwise it competes, but its completion time is unknown.
    pub is_whole: bool,
    /// When it ended; `None` if it is still running.
    pub end_s: Option<f64>,
    /// CPU time used since `start_s`: (when, core-seconds), rising.
    pub work: Vec<(f64, f64)>,
    /// CPU weights in force, each until the next: (when, weight).
    pub weights: Vec<(f64, f64)>,
    /// The weight under plain sharing.
    pub plain_weight: f64,
    /// When it reached 95 % of its improvement.
    pub quality_s: Option<f64>,
}

impl Life {
    /// Extrapolates the work from the last sample to the job's end at the rate of the last interval.
    fn to_its_end(&self) -> Life {
        let mut life = self.clone();
        if let (Some(end), [.., (t0, w0), (t1, w1)]) = (self.end_s, self.work.as_slice())
            && end > *t1
            && t1 > t0
        {
            life.work.push((end, w1 + (w1 - w0) / (t1 - t0) * (end - t1)));
        }
        life
    }
}

/// An uncertain quantity between `low` and `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    /// Lower bound.
    pub low: f64,
    /// Most likely value.
    pub likely: f64,
    /// Upper bound.
    pub high: f64,
}

impl Range {
    fn of(likely: f64, others: impl Iterator<Item = f64>, uncertainty: f64) -> Range {
        let (low, high) = others.fold((likely, likely), |(low, high), other| (low.min(other), high.max(other)));
        Range { low: (low - uncertainty).max(0.0), likely, high: high + uncertainty }
    }

    /// Whether it says anything: its ends are at most a factor of [`WIDEST`] apart.
    fn is_meaningful(&self) -> bool {
        self.low > 0.0 && self.high <= WIDEST * self.low
    }
}

/// Estimate for one job that ended under plain sharing, in seconds from its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plain {
    /// Time to its end.
    pub completion_s: Range,
    /// Time to 95 % of its improvement, if known.
    pub quality_s: Option<Range>,
}

/// The whole estimate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Estimate {
    /// One for each job; `None` if it has not ended or started before the report, because its whole work is unknown.
    pub jobs: Vec<Option<Plain>>,
    /// Mean completion time of the jobs that started and ended in the report.
    pub mean_completion_s: Option<Range>,
    /// Cores that the jobs shared.
    pub cores: Range,
    /// Mean relative error of the completion times in the replay with the recorded weights.
    pub error: Option<f64>,
    /// Number of jobs whose estimates were left out as too uncertain.
    pub unclear: usize,
}

impl Estimate {
    /// Leaves out what is too uncertain to say anything.
    pub(super) fn meaningful(mut self) -> Estimate {
        for job in &mut self.jobs {
            let Some(plain) = job else { continue };
            plain.quality_s = plain.quality_s.filter(Range::is_meaningful);
            if !plain.completion_s.is_meaningful() {
                *job = None;
                self.unclear += 1;
            }
        }
        self.mean_completion_s = self.mean_completion_s.filter(Range::is_meaningful);
        self
    }
}

/// Ratio of the ends of the widest range that says anything.
const WIDEST: f64 = 4.0;

/// Smallest relative uncertainty of an estimate: jobs' work is known only at the samples.
const MIN_UNCERTAINTY: f64 = 0.02;

/// Estimates completion times under plain sharing on a node with `node_cores` cores.
pub(super) fn estimate(lives: &[Life], node_cores: f64) -> Estimate {
    let lives: &[Life] = &lives.iter().map(Life::to_its_end).collect::<Vec<_>>();
    let cores = shared_cores(lives, node_cores);
    let seen = caps(lives, cores.likely);
    let open: Vec<f64> = seen.iter().map(|cap| if cap.is_sure { cap.cores } else { node_cores }).collect();
    let likely: Vec<f64> = seen.iter().map(|cap| cap.cores).collect();
    let plain = |cores: f64, caps: &[f64]| replay(lives, cores, caps, Weights::Plain);
    let best = plain(cores.likely, &likely);
    let others = [
        plain(cores.low, &likely),
        plain(cores.high, &likely),
        plain(cores.likely, &open),
        plain(cores.low, &open),
        plain(cores.high, &open),
    ];
    let governed = replay(lives, cores.likely, &likely, Weights::Recorded);
    let took = |job: usize| lives[job].end_s.map(|end| end - lives[job].start_s);
    let ended: Vec<usize> =
        (0..lives.len()).filter(|job| lives[*job].is_whole && lives[*job].end_s.is_some()).collect();
    let mean = |of: &dyn Fn(usize) -> f64| ended.iter().map(|job| of(*job)).sum::<f64>() / ended.len().max(1) as f64;
    let replayed = |run: &Replay| mean(&|job| run.ends[job] - lives[job].start_s);
    let real = mean(&|job| took(job).unwrap_or(0.0));
    let misses = mean(&|job| {
        let real = took(job).unwrap_or(0.0).max(1e-9);
        ((governed.ends[job] - lives[job].start_s) / real - 1.0).abs()
    });
    let least = MIN_UNCERTAINTY + misses;
    let jobs = (0..lives.len()).map(|job| plain_of(job, lives, &best, &others, &governed, least)).collect();
    let uncertainty = (replayed(&governed) - real).abs().max(MIN_UNCERTAINTY * replayed(&best));
    let any = !ended.is_empty();
    Estimate {
        mean_completion_s: any.then(|| Range::of(replayed(&best), others.iter().map(replayed), uncertainty)),
        error: any.then_some(misses),
        jobs,
        cores,
        unclear: 0,
    }
}

fn plain_of(
    job: usize,
    lives: &[Life],
    best: &Replay,
    others: &[Replay],
    governed: &Replay,
    least: f64,
) -> Option<Plain> {
    let life = &lives[job];
    let end = life.end_s.filter(|_| life.is_whole)?;
    let since = |at: f64| at - life.start_s;
    let uncertainty = (governed.ends[job] - end).abs().max(least * since(best.ends[job]));
    let completion_s = Range::of(since(best.ends[job]), others.iter().map(|run| since(run.ends[job])), uncertainty);
    let quality_s = life.quality_s.and_then(|quality| {
        let uncertainty = (governed.quality[job]? - quality).abs().max(least * since(best.quality[job]?));
        let all = others.iter().filter_map(|run| run.quality[job]).map(since);
        Some(Range::of(since(best.quality[job]?), all, uncertainty))
    });
    Some(Plain { completion_s, quality_s })
}

/// Cores used together while two or more jobs ran: the 50th, 80th and 98th percentile.
fn shared_cores(lives: &[Life], node_cores: f64) -> Range {
    let mut together: Vec<(f64, f64)> = Vec::new();
    for (from, to) in steps(lives) {
        let running = lives.iter().filter(|life| runs(life, from, to));
        if running.clone().count() >= 2 {
            together.push((running.map(|life| rate(life, from, to)).sum(), to - from));
        }
    }
    let at = |part| quantile(&mut together.clone(), part).unwrap_or(node_cores).clamp(0.01, node_cores.max(0.01));
    Range { low: at(0.5), likely: at(0.8), high: at(0.98) }
}

/// The most cores that one job can use.
struct Cap {
    cores: f64,
    /// Whether it ran while cores were free, so that it could have used more.
    is_sure: bool,
}

fn caps(lives: &[Life], shared: f64) -> Vec<Cap> {
    let all_steps = steps(lives);
    let totals: Vec<f64> =
        all_steps.iter().map(|(from, to)| lives.iter().map(|life| rate(life, *from, *to)).sum()).collect();
    lives
        .iter()
        .map(|life| {
            let of = |with_room: bool| -> Vec<(f64, f64)> {
                let own = all_steps
                    .iter()
                    .zip(&totals)
                    .filter(|((from, to), total)| runs(life, *from, *to) && (!with_room || **total < 0.85 * shared));
                own.map(|((from, to), _)| (rate(life, *from, *to), to - from)).collect()
            };
            let mut roomy = of(true);
            let is_sure = roomy.iter().map(|(_, time)| time).sum::<f64>() >= 5.0;
            let free = if is_sure { quantile(&mut roomy, 0.9) } else { None };
            let seen = quantile(&mut of(false), 0.95).unwrap_or(0.0);
            Cap { cores: free.unwrap_or(0.0).max(seen).max(0.01), is_sure }
        })
        .collect()
}

/// Intervals of about five seconds over which rates are computed.
fn steps(lives: &[Life]) -> Vec<(f64, f64)> {
    let end = lives.iter().filter_map(|life| life.work.last()).map(|last| last.0).fold(0.0, f64::max);
    let count = (end / 5.0).ceil().clamp(1.0, 2_000.0) as usize;
    let step = end / count as f64;
    (0..count).map(|n| (n as f64 * step, (n + 1) as f64 * step)).filter(|(from, to)| to > from).collect()
}

fn runs(life: &Life, from: f64, to: f64) -> bool {
    life.start_s <= from && life.end_s.is_none_or(|end| end >= to)
}

fn rate(life: &Life, from: f64, to: f64) -> f64 {
    (at(&life.work, to) - at(&life.work, from)) / (to - from)
}

/// Interpolates a curve linearly; it is flat before its first and after its last point.
pub(super) fn at(curve: &[(f64, f64)], x: f64) -> f64 {
    let after = curve.partition_point(|point| point.0 <= x);
    match (after.checked_sub(1).map(|n| curve[n]), curve.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), None) => y,
        (None, first) => first.map_or(0.0, |first| first.1),
    }
}

/// The value below which `part` of the time is spent; `values` are (value, time).
fn quantile(values: &mut [(f64, f64)], part: f64) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = values.iter().map(|(_, time)| time).sum();
    let mut sum = 0.0;
    values.iter().find_map(|(value, time)| {
        sum += time;
        (sum >= part * all).then_some(*value)
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Weights {
    Plain,
    Recorded,
}

/// When each job ended in a replay (infinite if it never did) and when it reached 95 % of its improvement.
struct Replay {
    ends: Vec<f64>,
    quality: Vec<Option<f64>>,
}

/// Runs all jobs on `cores`, each with at most its cap. A job without an end runs forever.
fn replay(lives: &[Life], cores: f64, caps: &[f64], weights: Weights) -> Replay {
    let total: Vec<f64> = lives.iter().map(|life| life.work.last().map_or(0.0, |last| last.1)).collect();
    let goal: Vec<Option<f64>> =
        lives.iter().map(|life| life.quality_s.map(|quality| at(&life.work, quality))).collect();
    let mut changes: Vec<f64> = lives.iter().map(|life| life.start_s).collect();
    if weights == Weights::Recorded {
        changes.extend(lives.iter().flat_map(|life| life.weights.iter().map(|weight| weight.0)));
    }
    changes.sort_by(f64::total_cmp);
    changes.dedup();
    let mut done = vec![0.0; lives.len()];
    let mut run = Replay { ends: vec![f64::INFINITY; lives.len()], quality: vec![None; lives.len()] };
    let (mut now, mut next, mut shares) = (0.0, 0, Vec::new());
    // Each round ends a job or passes a change; twice that leaves room for rounding.
    for _ in 0..2 * (changes.len() + lives.len()) + 8 {
        while changes.get(next).is_some_and(|change| *change <= now) {
            next += 1;
        }
        let active: Vec<usize> =
            (0..lives.len()).filter(|job| lives[*job].start_s <= now && run.ends[*job].is_infinite()).collect();
        let unfinished = lives.iter().zip(&run.ends).any(|(life, end)| life.end_s.is_some() && end.is_infinite());
        if !unfinished {
            return run;
        }
        let claims: Vec<Claim> = active.iter().map(|job| claim(&lives[*job], caps[*job], weights, now)).collect();
        water_fill(cores, &claims, &mut shares);
        let ends = active.iter().zip(&shares).filter(|(job, share)| lives[**job].end_s.is_some() && **share > 0.0);
        let soonest = ends.map(|(job, share)| now + (total[*job] - done[*job]).max(0.0) / share);
        let until = soonest.chain(changes.get(next).copied()).fold(f64::INFINITY, f64::min);
        if until.is_infinite() {
            return run; // no job makes progress any more
        }
        for (job, share) in active.iter().zip(&shares) {
            let before = done[*job];
            done[*job] += share * (until - now);
            if let Some(goal) = goal[*job].filter(|goal| run.quality[*job].is_none() && done[*job] >= *goal - 1e-9) {
                run.quality[*job] = Some(now + ((goal - before) / share).max(0.0));
            }
            if lives[*job].end_s.is_some() && done[*job] >= total[*job] - 1e-9 * total[*job].max(1.0) {
                run.ends[*job] = until;
            }
        }
        now = until;
    }
    run
}

fn claim(life: &Life, cap: f64, weights: Weights, now: f64) -> Claim {
    let recorded = || {
        let after = life.weights.partition_point(|weight| weight.0 <= now);
        let stood = after.checked_sub(1).and_then(|n| life.weights.get(n)).or(life.weights.first());
        stood.map_or(life.plain_weight, |weight| weight.1)
    };
    let weight = if weights == Weights::Plain { life.plain_weight } else { recorded() };
    Claim { weight: weight.max(1.0), cap }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
