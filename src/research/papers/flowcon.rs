//! FlowCon's evaluation: its four schedules with its parameters.
//!
//! As in the paper, competing jobs slow each other down: each further equal competitor costs [`CONTENTION`] of the speed, which the
//! published figures for the makespan require. Otherwise the makespan of one node would be the same for every policy. The paper's α is the
//! part gained in one interval, so the threshold is α / interval.

use super::{CONTENTION, Evaluation, Experiment, Pair, Row, Run, spread};
use model::{FlowconSettings, GrowthThreshold, Millis, PolicyName, PolicySettings};
use sim::compare::{Change, each_seed, plain_sharing};
use sim::scenario::Scenario;
use sim::variant::{Decider, Variant};
use sim::{JobOutcome, Keep, simulate};

/// The paper's back-off has no cap.
const NO_CAP: Millis = Millis::from_secs(100_000);
const SHARE_FLOOR: f64 = 2.0;

/// Parameters of a run: α as a fraction, and the interval.
#[derive(Clone, Copy)]
struct Setting {
    alpha: f64,
    interval_s: u64,
}

impl Setting {
    fn named(self) -> String {
        format!("α {:.0} %, {} s", 100.0 * self.alpha, self.interval_s)
    }

    fn variant(self) -> Variant {
        let growth_threshold = GrowthThreshold::PerInterval(self.alpha);
        let settings = PolicySettings {
            policy: PolicyName::Flowcon,
            interval: Millis::from_secs(self.interval_s),
            max_interval: NO_CAP,
            flowcon: FlowconSettings { growth_threshold, share_floor: SHARE_FLOOR },
            ..PolicySettings::default()
        };
        Variant { name: "flowcon".to_owned(), decider: Decider::Governor(settings), duty_cycle: false }
    }
}

fn default_policy() -> Variant {
    Variant { name: "balanced".to_owned(), decider: Decider::Governor(PolicySettings::default()), duty_cycle: false }
}

/// Simulates schedules under plain sharing and under another policy: FlowCon on the contended node and on the fluid one, and the default
/// policy on the fluid one.
fn experiment(scenario: &'static str, setting: Setting, seeds: u64) -> Experiment {
    let pairs = |contention: f64, variant: &Variant| {
        let mut scenario = Scenario::built_in(scenario).ok().flatten().expect("a built-in name with known suffixes");
        scenario.node.contention = contention;
        each_seed(seeds, |seed| {
            let jobs = scenario.draw(seed);
            let run = |variant: &Variant| {
                let outcome = simulate(&scenario.node, &jobs, variant, Keep::default());
                let completions = outcome.jobs.iter().map(JobOutcome::completion_s);
                Run { completions_s: completions.collect(), makespan_s: outcome.makespan_s() }
            };
            Pair { base: run(&plain_sharing()), after: run(variant) }
        })
    };
    let flowcon = setting.variant();
    Experiment {
        assumed: pairs(CONTENTION, &flowcon),
        honest: pairs(0.0, &flowcon),
        default: pairs(0.0, &default_policy()),
    }
}

/// Evaluates `seeds` schedules.
pub fn evaluate(seeds: u64) -> Evaluation {
    Evaluation {
        title: "FlowCon: one node",
        base: "plain sharing",
        assumed: "FlowCon; each further competitor costs 3 % of the speed",
        honest: "FlowCon; competitors cost each other nothing",
        default: "balanced, as honest",
        schedules: seeds,
        rows: [fixed_three(seeds), random(seeds)].concat(),
        notes: &NOT_REPRODUCED,
    }
}

/// Figures 3 to 6 and table 2: three jobs at 0, 40 and 80 s.
fn fixed_three(seeds: u64) -> Vec<Row> {
    const PUBLISHED: [(f64, u64, &str, &str); 13] = [
        (0.05, 20, "-21.4 %", "-2.0 %"),
        (0.05, 30, "-31.9 %", "-5.5 %"),
        (0.05, 40, "", "-2.3 %"),
        (0.05, 50, "", "-1.3 %"),
        (0.05, 60, "", "-1.5 %"),
        (0.10, 20, "-26.2 %", ""),
        (0.10, 30, "-32.4 %", ""),
        (0.10, 40, "-14.3 %", ""),
        (0.10, 50, "-15.3 %", ""),
        (0.10, 60, "-3.1 %", ""),
        (0.01, 20, "-32.1 %", ""),
        (0.03, 20, "-31.0 %", ""),
        (0.15, 20, "-19.8 %", ""),
    ];
    let rows = PUBLISHED.iter().flat_map(|&(alpha, interval_s, third, makespan)| {
        let setting = Setting { alpha, interval_s };
        let simulated = experiment("fixed-3", setting, seeds);
        let source = format!("3 jobs, {}", setting.named());
        let third_job = |pairs: &[Pair]| mean(pairs, |pair| pair.changes()[2]);
        let mut rows = Vec::new();
        if !third.is_empty() {
            rows.push(simulated.row(source.clone(), "third job", third, third_job));
        }
        if !makespan.is_empty() {
            rows.push(simulated.row(source, "makespan", makespan, |pairs| mean(pairs, Pair::makespan)));
        }
        rows
    });
    rows.collect()
}

/// Figures 9, 12 and 17: random starts within 200 s.
fn random(seeds: u64) -> Vec<Row> {
    struct Published {
        scenario: &'static str,
        jobs: usize,
        setting: Setting,
        faster: usize,
        best: &'static str,
        worst: &'static str,
        makespan: &'static str,
    }
    let published = |scenario, jobs, alpha, interval_s, faster, best, worst, makespan| Published {
        scenario,
        jobs,
        setting: Setting { alpha, interval_s },
        faster,
        best,
        worst,
        makespan,
    };
    let all = [
        published("random-5-early", 5, 0.03, 30, 4, "-42.06 %", "+0.5 %", "-1 … -5 %"),
        published("random-5-early", 5, 0.03, 60, 5, "", "", ""),
        published("random-5-early", 5, 0.05, 30, 4, "", "", ""),
        published("random-5-early", 5, 0.05, 60, 4, "-19.00 %", "+11.80 %", ""),
        published("random-10-early", 10, 0.10, 20, 9, "-41.2 %", "+1.1 %", "-2.5 %"),
        published("random-15-early", 15, 0.10, 20, 11, "-11.9 %", "+5.7 %", "-1.5 %"),
    ];
    let rows = all.iter().flat_map(|p| {
        let simulated = experiment(p.scenario, p.setting, seeds);
        let source = format!("{} jobs, {}", p.jobs, p.setting.named());
        let figure = |what, published: &str, of: fn(&[Pair]) -> String| {
            (!published.is_empty()).then(|| simulated.row(source.clone(), what, published, of))
        };
        let count = simulated.row(source.clone(), "jobs faster", &format!("{} of {}", p.faster, p.jobs), faster);
        let figures = [
            Some(count),
            figure("best job", p.best, |pairs| spread(pairs, Pair::best)),
            figure("worst job", p.worst, |pairs| spread(pairs, Pair::worst)),
            figure("makespan", p.makespan, |pairs| mean(pairs, Pair::makespan)),
        ];
        figures.into_iter().flatten()
    });
    rows.collect()
}

fn mean(pairs: &[Pair], of: impl Fn(&Pair) -> f64) -> String {
    Change(pairs.iter().map(of).sum::<f64>() / pairs.len() as f64).to_string()
}

fn faster(pairs: &[Pair]) -> String {
    let count = |pair: &Pair| pair.changes().iter().filter(|change| **change < -0.001).count();
    let counts: Vec<usize> = pairs.iter().map(count).collect();
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    let most = counts.iter().max().copied().unwrap_or(0);
    format!("{mean:.1} (most {most})")
}

/// The figures that are not reproduced, with the reasons.
const NOT_REPRODUCED: [&str; 5] = [
    "Makespan: a fluid node does the same work in the same time under every policy, so its makespan cannot change. The published -1 … -5 % \
     needs a cause outside the algorithm. One such cause is contention that is lower when shares are uneven; 3 % per competitor gives \
     about the published size at ten and fifteen jobs, and less at three. The paper measures no such cost.",
    "Nearly all jobs faster: on one work-conserving node, converged jobs lose what young jobs gain. Algorithm 1 makes fewer than half of \
     the jobs faster on the fluid node, and more on the contended one. The published counts lie within the best of the schedules drawn \
     here, on the contended node.",
    "Small losses: a converged job is kept at its floor, half of an equal share, while others grow, and loses accordingly. \
     Published losses below 12 % do not follow from the algorithm as listed.",
    "The third job at intervals of 40 s and more: growth needs two intervals to be measured, and by then \
     it is complete; only the starts and ends of other jobs change its limit. The published gains must come from other tick times.",
    "Starts, sizes and all curves but one are not published, and each published figure is a single run. The simulation uses random schedules \
     as the text describes them, with curves as early as the one that is given in numbers.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn third_job(alpha: f64, interval_s: u64) -> f64 {
        let simulated = experiment("fixed-3", Setting { alpha, interval_s }, 10);
        simulated.honest.iter().map(|pair| pair.changes()[2]).sum::<f64>() / 10.0
    }

    #[test]
    fn the_third_job_completes_sooner_by_about_the_published_change() {
        for (alpha, published) in [(0.01, -0.321), (0.03, -0.310), (0.05, -0.214), (0.10, -0.262)] {
            let simulated = third_job(alpha, 20);
            assert!((simulated - published).abs() < 0.12, "α {alpha}: {simulated} against {published}");
        }
    }

    #[test]
    fn longer_intervals_and_larger_thresholds_gain_less_as_published() {
        assert!(third_job(0.10, 20) < third_job(0.10, 40));
        assert!(third_job(0.01, 20) < third_job(0.10, 20));
    }

    #[test]
    fn the_makespan_improves_only_under_contention() {
        let simulated = experiment("random-10-early", Setting { alpha: 0.10, interval_s: 20 }, 10);
        let mean = |pairs: &[Pair]| pairs.iter().map(Pair::makespan).sum::<f64>() / 10.0;
        assert!(mean(&simulated.honest).abs() < 1e-6);
        assert!((-0.05..-0.002).contains(&mean(&simulated.assumed)), "{}", mean(&simulated.assumed));
    }
}
