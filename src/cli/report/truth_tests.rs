//! Tests of the estimate against the simulator, which runs the same jobs governed and under plain sharing; the estimate sees only the
//! governed run, as the history would have recorded it.

use super::estimate::{Life, at, estimate};
use model::PolicySettings;
use sim::scenario::Scenario;
use sim::variant::Variant;
use sim::{Keep, Outcome, simulate};

/// The history of a governed run: CPU counters every few seconds, and the weights in force.
fn recorded(run: &Outcome) -> Vec<Life> {
    let history = run.history.as_ref().expect("kept");
    let ends = history.shares.iter().skip(1).map(|sample| sample.0).chain([f64::INFINITY]);
    let spans: Vec<(f64, f64, &Vec<f64>)> =
        history.shares.iter().zip(ends).map(|((from, cores), to)| (*from, to, cores)).collect();
    run.jobs
        .iter()
        .enumerate()
        .map(|(number, job)| {
            let mut exact = vec![(job.start_s, 0.0)];
            let mut done = 0.0;
            for (from, to, cores) in &spans {
                let (from, to) = (from.max(job.start_s), to.min(job.end_s));
                if to > from {
                    done += cores[number] * (to - from);
                    exact.push((to, done));
                }
            }
            // Sampled every two seconds, stored every hundredth of the job's age; the last sample before the end is stored too.
            let mut work = vec![(job.start_s, 0.0)];
            let mut now = job.start_s;
            while now < job.end_s {
                work.push((now, at(&exact, now)));
                now += ((now - job.start_s) / 100.0).max(2.0);
            }
            let last = job.end_s - 1.7;
            if work.last().is_some_and(|kept| last > kept.0) {
                work.push((last, at(&exact, last)));
            }
            let weights = run.recording.iter().filter_map(|tick| {
                let id = format!("{number:012}");
                let plan = tick.plan.containers.iter().find(|plan| plan.id.as_str() == id)?;
                Some((tick.plan.at.as_secs_f64(), f64::from(plan.limits?.cpu_weight?.number())))
            });
            Life {
                start_s: job.start_s,
                is_whole: true,
                end_s: Some(job.end_s),
                work,
                weights: weights.collect(),
                plain_weight: 100.0,
                quality_s: None,
            }
        })
        .collect()
}

/// Counts: jobs; jobs whose true value is within the range; gains and costs claimed; wrong claims.
fn judge(scenario: &str, policy: &str, seeds: u64) -> [usize; 4] {
    let scenario = Scenario::built_in(scenario).expect("a name").expect("built in");
    let variant = |name: &str| Variant::named(name, &PolicySettings::default()).expect("a policy");
    let mut counts = [0; 4];
    for seed in 0..seeds {
        let jobs = scenario.draw(seed);
        let kept = simulate(&scenario.node, &jobs, &variant(policy), Keep { history: true, recording: true });
        let plain = simulate(&scenario.node, &jobs, &variant("fair"), Keep { history: false, recording: false });
        let estimate = estimate(&recorded(&kept), scenario.node.cores);
        for ((job, truth), plain) in kept.jobs.iter().zip(&plain.jobs).zip(&estimate.jobs) {
            let range = plain.expect("it ended").completion_s;
            let (real, truth) = (job.completion_s(), truth.completion_s());
            // Sampling every two seconds allows no better accuracy.
            let within = (range.low - 2.0..=range.high + 2.0).contains(&truth);
            let claimed = real < range.low || real > range.high;
            let wrong = claimed && (real < range.low) != (real < truth + 0.01 * truth);
            for (count, is) in counts.iter_mut().zip([true, within, claimed, wrong]) {
                *count += usize::from(is);
            }
        }
    }
    counts
}

#[test]
fn the_true_value_is_within_the_range_and_claims_are_right() {
    let cases = [
        ("random-10", "balanced"),
        ("random-10", "flowcon"),
        ("random-15", "balanced"),
        // Jobs that cannot use all cores, and jobs that wait for I/O: the cores that they could have used must be inferred.
        ("random-10-threads", "balanced"),
        ("random-10-io", "balanced"),
    ];
    for (scenario, policy) in cases {
        let [jobs, within, claimed, wrong] = judge(scenario, policy, 10);
        eprintln!(
            "{scenario}, {policy}: {jobs} jobs, {within} within the range, {claimed} gains or costs claimed, {wrong} wrong"
        );
        // A range covers at least four jobs of five.
        assert!(within * 5 >= jobs * 4, "{scenario} {policy}: {within} of {jobs}");
        assert!(wrong * 20 <= claimed, "{scenario} {policy}: {wrong} of {claimed}");
    }
}
