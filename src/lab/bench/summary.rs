//! Summarises the runs of a benchmark for each policy as medians over the repeats, so that one disturbed run does not decide.

use super::quality::{PARTS, time_to};
use super::variant::{FAIR, Variant};
use crate::trial::job::TrialJob;
use crate::trial::outcome::RunOutcome;
use model::Accuracy;
use serde::Serialize;

/// Fraction of foreign load or stolen time above which a run counts as spoilt. On two quiet cores 2 to 4 % are foreign already: the engine
/// that handles each log line, the governor, and the writes of limits.
const SPOILT_ABOVE: f64 = 0.08;

/// A run counts as spoilt if its jobs used this many times the CPU-seconds of the cheapest run of the same policy: the work is the same, so
/// the machine was slower (a host can slow its guests without reporting stolen time). Policies are not compared with each other, because
/// jobs that run one after the other disturb each other's caches less than jobs that run at once.
const SLOW_ABOVE: f64 = 1.10;

/// CPU-seconds of a job that may be missed at its end.
const MISSED_S: f64 = 0.1;

/// A whole benchmark.
pub(super) struct Bench {
    list: String,
    runtime: &'static str,
    seen_before: bool,
    job_names: Vec<String>,
    /// Which of the jobs are broken, in the same order.
    broken: Vec<bool>,
    /// Number of cores that the jobs share.
    pub cores: usize,
    /// In the order in which they ran.
    pub runs: Vec<(Variant, RunOutcome)>,
}

/// Summary of one policy: the median of each quantity over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PolicySummary {
    /// `fair`, `flowcon`, `flowcon-2019`, `balanced`, `completion`, `quality`, `no-turns`.
    pub policy: &'static str,
    /// Number of runs.
    pub runs: usize,
    /// Number of spoilt runs.
    pub spoilt_runs: usize,
    /// Mean completion time of a run's jobs, seconds.
    pub mean_completion_s: f64,
    /// The same of the jobs that are not broken; `None` if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_healthy_s: Option<f64>,
    /// Mean time of a run's jobs to 90 % of their final improvement, seconds, without jobs whose time is unknown or that did not improve;
    /// `None` if there is no other.
    pub mean_t90_s: Option<f64>,
    /// Mean time to 95 %.
    pub mean_t95_s: Option<f64>,
    /// Mean time to 99 %.
    pub mean_t99_s: Option<f64>,
    /// Time from the first start to the last end, seconds.
    pub makespan_s: f64,
    /// Largest ratio of a job's completion time to that under plain sharing, minus one.
    pub worst_vs_fair: f64,
    /// CPU-seconds used by the jobs.
    pub cpu_s: f64,
    /// Fraction of the node's CPU used by the jobs.
    pub cpu_used: f64,
    /// Fraction of the node's CPU used by other processes.
    pub foreign_load: f64,
    /// Fraction of the node's CPU taken by the hypervisor.
    pub stolen: f64,
    /// How right its forecasts of the time left were; `None` if it made none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecasts: Option<Accuracy>,
    /// Completion time of each job in the order of the list, seconds.
    pub completion_s: Vec<f64>,
}

/// The result as printed with `-o json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    /// The list's path.
    pub list: String,
    /// `docker` or `scope`.
    pub runtime: &'static str,
    /// Whether each training ran once before with another seed, so that the governors knew it.
    pub seen_before: bool,
    /// The jobs' names.
    pub jobs: Vec<String>,
    /// One summary per policy, plain sharing first.
    pub policies: Vec<PolicySummary>,
}

impl Bench {
    /// Creates a benchmark from its runs.
    pub(super) fn new(
        list: &str,
        runtime: &'static str,
        seen_before: bool,
        jobs: &[TrialJob],
        cores: usize,
        runs: Vec<(Variant, RunOutcome)>,
    ) -> Bench {
        let job_names = jobs.iter().map(|job| job.name.clone()).collect();
        let broken = jobs.iter().map(|job| job.is_broken).collect();
        Bench { list: list.to_owned(), runtime, seen_before, job_names, broken, cores, runs }
    }

    /// The list's path and the runtime, for a title.
    pub(super) fn title(&self) -> String {
        let seen = if self.seen_before { ", each training run once before with another seed" } else { "" };
        format!("{} on {}{seen}", self.list, self.runtime)
    }

    fn variants(&self) -> Vec<Variant> {
        let mut seen = Vec::new();
        for (variant, _) in &self.runs {
            if !seen.contains(variant) {
                seen.push(*variant);
            }
        }
        seen
    }

    fn runs_of(&self, variant: Variant) -> Vec<&RunOutcome> {
        self.runs.iter().filter(|(of, _)| *of == variant).map(|(_, run)| run).collect()
    }

    /// Computes the medians.
    pub(super) fn summary(&self) -> Summary {
        let fair = completions(&self.runs_of(FAIR));
        let policies = self.variants().into_iter().map(|variant| self.policy_summary(variant, &fair)).collect();
        let (list, runtime, seen_before) = (self.list.clone(), self.runtime, self.seen_before);
        Summary { list, runtime, seen_before, jobs: self.job_names.clone(), policies }
    }

    fn policy_summary(&self, variant: Variant, fair: &[f64]) -> PolicySummary {
        let runs = self.runs_of(variant);
        let completion_s = completions(&runs);
        let healthy = |run: &RunOutcome| {
            let jobs = run.jobs.iter().zip(&self.broken).filter(|(_, is_broken)| !**is_broken);
            mean(jobs.map(|(job, _)| job.completion_s))
        };
        let has_broken = self.broken.contains(&true);
        let ratios = completion_s.iter().zip(fair).map(|(own, plain)| own / plain - 1.0);
        let [mean_t90_s, mean_t95_s, mean_t99_s] = PARTS.map(|part| mean_quality_time(&runs, part));
        PolicySummary {
            policy: variant.name,
            runs: runs.len(),
            spoilt_runs: runs.iter().filter(|run| self.spoilt(variant, run).is_some()).count(),
            mean_completion_s: median(runs.iter().map(|run| run.mean_completion_s)).unwrap_or(0.0),
            mean_healthy_s: median(runs.iter().filter_map(|run| healthy(run))).filter(|_| has_broken),
            mean_t90_s,
            mean_t95_s,
            mean_t99_s,
            makespan_s: median(runs.iter().map(|run| run.makespan_s)).unwrap_or(0.0),
            worst_vs_fair: ratios.fold(f64::NEG_INFINITY, f64::max),
            cpu_s: median(runs.iter().map(|run| run.cpu_s)).unwrap_or(0.0),
            cpu_used: median(runs.iter().map(|run| run.foreign.ours)).unwrap_or(0.0),
            foreign_load: median(runs.iter().map(|run| run.foreign.others)).unwrap_or(0.0),
            stolen: median(runs.iter().map(|run| run.foreign.stolen)).unwrap_or(0.0),
            forecasts: Accuracy::of(&runs.iter().flat_map(|run| run.forecasts.clone()).collect::<Vec<_>>()),
            completion_s,
        }
    }

    /// The reason why a run is spoilt: other load on the machine, or a slow machine. `None` if it is not.
    pub(super) fn spoilt(&self, variant: Variant, run: &RunOutcome) -> Option<String> {
        let known = self.runs_of(variant).into_iter().map(|run| run.cpu_s).filter(|used| *used > 0.0);
        let least = known.fold(f64::INFINITY, f64::min);
        let missed = MISSED_S * self.job_names.len() as f64;
        let (others, stolen) = (100.0 * run.foreign.others, 100.0 * run.foreign.stolen);
        if run.foreign.others + run.foreign.stolen > SPOILT_ABOVE {
            Some(format!("other processes used {others:.0} % of the CPU, the hypervisor took {stolen:.0} %"))
        } else if run.cpu_s > SLOW_ABOVE * least + missed {
            let more = 100.0 * (run.cpu_s / least - 1.0);
            Some(format!(
                "the same work took {more:.0} % more CPU-seconds than in another run of this policy: the machine was slower"
            ))
        } else {
            // Plain sharing needs no governor, so its warnings do not matter there.
            run.warnings.first().filter(|_| variant != FAIR).cloned()
        }
    }
}

/// One run as a line, printed when it ends, so that an aborted benchmark still shows its results.
pub(super) fn line(variant: Variant, run: &RunOutcome) -> String {
    let quality = mean_quality_time(&[run], 0.95).map_or_else(|| "unknown".to_owned(), |time| format!("{time:.1} s"));
    format!(
        "  {}: mean completion {:.1} s, to 95 % {quality}, makespan {:.1} s, {:.0} CPU-seconds, {:.0} % of the CPU foreign, {:.0} % stolen",
        variant.name,
        run.mean_completion_s,
        run.makespan_s,
        run.cpu_s,
        100.0 * run.foreign.others,
        100.0 * run.foreign.stolen
    )
}

/// Completion time of each job, as the median over the runs.
fn completions(runs: &[&RunOutcome]) -> Vec<f64> {
    let jobs = runs.first().map_or(0, |run| run.jobs.len());
    (0..jobs).map(|job| median(runs.iter().map(|run| run.jobs[job].completion_s)).unwrap_or(0.0)).collect()
}

/// Time to a fraction of the final improvement: the median over the runs of the mean over the jobs that improved.
fn mean_quality_time(runs: &[&RunOutcome], part: f64) -> Option<f64> {
    median(runs.iter().filter_map(|run| {
        mean(run.jobs.iter().zip(&run.curves).filter_map(|(job, curve)| Some(time_to(curve, part)? - job.start_s)))
    }))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// The middle value, or the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::outcome::{Foreign, JobOutcome};
    use term::screen::Look;

    fn run(times: [f64; 2], foreign: Foreign) -> RunOutcome {
        let job = |(n, time): (usize, f64)| JobOutcome {
            name: format!("job-{n}"),
            start_s: 10.0 * n as f64,
            completion_s: time,
            exit_code: 0,
        };
        let curve = |start: f64, time: f64| vec![(start, 1.0), (start + time / 2.0, 0.06), (start + time, 0.0)];
        let curves = vec![curve(0.0, times[0]), curve(10.0, times[1])];
        let jobs = times.into_iter().enumerate().map(job).collect();
        RunOutcome { curves, cpu_s: 50.0, ..RunOutcome::new(jobs, Vec::new(), foreign) }
    }

    fn bench() -> Bench {
        let busy = Foreign { others: 0.3, ..Foreign::default() };
        let flowcon = Variant::named("flowcon").unwrap();
        let runs = vec![
            (FAIR, run([40.0, 20.0], Foreign::default())),
            (flowcon, run([44.0, 10.0], Foreign::default())),
            (FAIR, run([40.0, 20.0], Foreign::default())),
            (flowcon, run([40.0, 10.0], Foreign::default())),
            (FAIR, run([40.0, 20.0], Foreign::default())),
            (flowcon, run([90.0, 14.0], busy)),
        ];
        Bench {
            list: "x.toml".into(),
            runtime: "scope",
            seen_before: false,
            job_names: vec!["job-0".into(), "job-1".into()],
            broken: vec![false; 2],
            cores: 4,
            runs,
        }
    }

    #[test]
    fn medians_are_over_repeats_and_the_worst_job_is_relative_to_plain_sharing() {
        let summary = bench().summary();
        let flowcon = &summary.policies[1];
        assert_eq!(flowcon.completion_s, [44.0, 10.0]);
        assert_eq!((flowcon.mean_completion_s, flowcon.runs, flowcon.spoilt_runs), (27.0, 3, 1));
        assert!((flowcon.worst_vs_fair - 0.1).abs() < 1e-9);
        assert_eq!(summary.policies[0].mean_t90_s, Some(15.0));
        assert_eq!(summary.policies[0].mean_t95_s, Some(30.0));
    }

    #[test]
    fn the_page_marks_spoilt_runs() {
        let page = bench().page(&Look { columns: None, color: false });
        assert!(page.contains("3 (1 spoilt)") && page.contains("27.0 s (-10 %)"), "{page}");
        assert!(page.contains("spoilt: run 6 (flowcon): other processes used 30 %"), "{page}");
    }

    #[test]
    fn where_a_job_is_broken_the_mean_of_the_others_has_a_column() {
        let page = |broken| Bench { broken, ..bench() }.page(&Look { columns: None, color: false });
        assert!(!page(vec![false; 2]).contains("HEALTHY"));
        let page = page(vec![true, false]);
        assert!(page.contains("COMPLETION  ") && page.contains("HEALTHY") && page.contains("10.0 s (-50 %)"), "{page}");
    }

    #[test]
    fn the_html_page_has_tables_a_legend_and_no_wide_text() {
        let page = super::super::report::html(&bench());
        for part in
            ["<ul class=\"legend\"", "<i class=\"s1\"></i>job-1", "27.0 s <small>-10 %</small>", "spoilt: run 6"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.contains("class=\"better\"") && !page.contains("<pre"), "{page}");
    }

    #[test]
    fn more_cpu_seconds_for_the_same_work_mark_a_run_as_spoilt() {
        let mut bench = bench();
        bench.runs.iter_mut().filter(|(variant, _)| *variant == FAIR).for_each(|(_, run)| run.cpu_s = 70.0);
        bench.runs[1].1.cpu_s = 60.0;
        bench.runs[3].1.cpu_s = 54.0;
        let summary = bench.summary();
        assert_eq!([summary.policies[0].spoilt_runs, summary.policies[1].spoilt_runs], [0, 2]);
        let page = bench.page(&Look { columns: None, color: false });
        assert!(page.contains("spoilt: run 2 (flowcon): the same work took 20 % more CPU-seconds"), "{page}");
    }

    #[test]
    fn short_jobs_and_unknown_use_are_no_slow_machine() {
        let mut bench = bench();
        for (at, cpu_s) in [(1, 0.1), (3, 0.25), (0, 0.0), (2, 0.0)] {
            bench.runs[at].1.cpu_s = cpu_s;
        }
        let summary = bench.summary();
        assert_eq!([summary.policies[0].spoilt_runs, summary.policies[1].spoilt_runs], [0, 1], "only by foreign load");
    }

    #[test]
    fn jobs_that_leave_cores_idle_under_plain_sharing_hardly_compete() {
        let page_with = |cores: usize, foreign: Foreign, cpu_s: f64| {
            let mut bench = Bench { cores, ..bench() };
            for (_, run) in bench.runs.iter_mut().filter(|(variant, _)| *variant == FAIR) {
                (run.foreign, run.cpu_s) = (foreign, cpu_s);
            }
            bench.page(&Look { columns: None, color: false })
        };
        let half = Foreign { ours: 0.55, ..Foreign::default() };
        let page = page_with(4, half, 50.0);
        let sentence = "The jobs used only 55 % of the 4 cores under plain sharing and hardly competed; \
                        compare them on fewer cores: --cores 2";
        assert!(page.ends_with(sentence), "{page}");
        assert!(page_with(2, Foreign { ours: 0.2, ..half }, 50.0).ends_with("--cores 1"));
        let page = page_with(1, half, 50.0);
        assert!(page.contains("55 % of the core under plain sharing") && !page.contains("--cores"), "{page}");
        let unknown = Foreign::default();
        let competing =
            [(Foreign { others: 0.2, ..half }, 50.0), (Foreign { ours: 0.9, ..half }, 50.0), (unknown, 0.0)];
        for (foreign, cpu_s) in competing {
            assert!(!page_with(4, foreign, cpu_s).contains("hardly competed"), "{foreign:?}");
        }
    }

    #[test]
    fn a_run_is_summarised_in_one_line() {
        let text = line(FAIR, &run([40.0, 20.0], Foreign::default()));
        assert!(
            text.contains("fair: mean completion 30.0 s, to 95 % 30.0 s, makespan 40.0 s, 50 CPU-seconds"),
            "{text}"
        );
    }
}
