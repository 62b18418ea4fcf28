//! All runs of a benchmark and what they come to, policy by policy.
//!
//! Imports: the trial's outcomes, cli's tables.

use super::super::screen::{Look, Tone};
use super::super::table::{Cell, Column, table};
use super::super::trial::job::Job;
use super::super::trial::outcome::RunOutcome;
use super::super::trial::policy_word;
use super::quality::{PARTS, time_to};
use crate::model::PolicyName;
use serde::Serialize;

/// Foreign load or stolen time above this part of the node spoils a run.
const SPOILT_ABOVE: f64 = 0.05;

/// A whole benchmark.
pub struct Bench {
    list: String,
    runtime: &'static str,
    job_names: Vec<String>,
    /// In the order in which they ran.
    pub runs: Vec<(PolicyName, RunOutcome)>,
}

/// One policy's means over its repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicySummary {
    /// `fair`, `flowcon`, `balanced`.
    pub policy: String,
    /// How often it ran.
    pub runs: usize,
    /// Runs that foreign load spoiled.
    pub spoilt_runs: usize,
    /// Mean completion over jobs and repeats, seconds.
    pub mean_completion_s: f64,
    /// Mean time to 90, 95 and 99 % of the final improvement, seconds; null where no job improved.
    pub mean_t90_s: Option<f64>,
    /// 95 %.
    pub mean_t95_s: Option<f64>,
    /// 99 %.
    pub mean_t99_s: Option<f64>,
    /// Mean makespan, seconds.
    pub makespan_s: f64,
    /// Largest ratio of a job's mean completion to its mean completion under plain sharing, less one.
    pub worst_vs_fair: f64,
    /// Part of the node's CPU that the jobs used.
    pub cpu_used: f64,
    /// Part of the node's CPU that other processes used.
    pub foreign_load: f64,
    /// Part of the node's CPU that the hypervisor took.
    pub stolen: f64,
    /// Each job's mean completion, in the list's order, seconds.
    pub completion_s: Vec<f64>,
}

/// What `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The list's path.
    pub list: String,
    /// `docker` or `scope`.
    pub runtime: &'static str,
    /// The jobs' names.
    pub jobs: Vec<String>,
    /// Plain sharing first.
    pub policies: Vec<PolicySummary>,
}

impl Bench {
    /// The runs of `list` on `runtime`.
    pub fn new(list: &str, runtime: &'static str, jobs: &[Job], runs: Vec<(PolicyName, RunOutcome)>) -> Bench {
        let job_names = jobs.iter().map(|job| job.name.clone()).collect();
        Bench { list: list.to_owned(), runtime, job_names, runs }
    }

    /// The list's path and the runtime, for a title.
    pub fn title(&self) -> String {
        format!("{} on {}", self.list, self.runtime)
    }

    fn policies(&self) -> Vec<PolicyName> {
        let mut seen = Vec::new();
        for (policy, _) in &self.runs {
            if !seen.contains(policy) {
                seen.push(*policy);
            }
        }
        seen
    }

    fn runs_of(&self, policy: PolicyName) -> Vec<&RunOutcome> {
        self.runs.iter().filter(|(of, _)| *of == policy).map(|(_, run)| run).collect()
    }

    /// The means.
    pub fn summary(&self) -> Summary {
        let fair = completions(&self.runs_of(PolicyName::Fair));
        let policies = self.policies().into_iter().map(|policy| self.policy_summary(policy, &fair)).collect();
        Summary { list: self.list.clone(), runtime: self.runtime, jobs: self.job_names.clone(), policies }
    }

    fn policy_summary(&self, policy: PolicyName, fair: &[f64]) -> PolicySummary {
        let runs = self.runs_of(policy);
        let completion_s = completions(&runs);
        let ratios = completion_s.iter().zip(fair).map(|(own, plain)| own / plain - 1.0);
        let [mean_t90_s, mean_t95_s, mean_t99_s] = PARTS.map(|part| mean_quality_time(&runs, part));
        PolicySummary {
            policy: policy_word(policy).to_owned(),
            runs: runs.len(),
            spoilt_runs: runs.iter().filter(|run| is_spoilt(run)).count(),
            mean_completion_s: mean(completion_s.iter().copied()).unwrap_or(0.0),
            mean_t90_s,
            mean_t95_s,
            mean_t99_s,
            makespan_s: mean(runs.iter().map(|run| run.makespan_s)).unwrap_or(0.0),
            worst_vs_fair: ratios.fold(f64::NEG_INFINITY, f64::max),
            cpu_used: mean(runs.iter().map(|run| run.foreign.ours)).unwrap_or(0.0),
            foreign_load: mean(runs.iter().map(|run| run.foreign.others)).unwrap_or(0.0),
            stolen: mean(runs.iter().map(|run| run.foreign.stolen)).unwrap_or(0.0),
            completion_s,
        }
    }

    /// The tables, for people.
    pub fn page(&self, look: &Look) -> String {
        let summary = self.summary();
        let mut page = format!("{}\n\n{}\n{}", self.title(), means(&summary, look), by_job(&summary, look));
        for (number, (policy, run)) in self.runs.iter().enumerate() {
            if is_spoilt(run) {
                let (others, stolen) = (100.0 * run.foreign.others, 100.0 * run.foreign.stolen);
                page.push_str(&format!(
                    "\nspoilt: run {} ({}): other processes used {others:.0} % of the CPU, the hypervisor took {stolen:.0} %",
                    number + 1,
                    policy_word(*policy)
                ));
            }
        }
        page
    }
}

/// Whether something else had a noticeable part of the machine.
pub fn is_spoilt(run: &RunOutcome) -> bool {
    run.foreign.others + run.foreign.stolen > SPOILT_ABOVE
}

fn means(summary: &Summary, look: &Look) -> String {
    let titles =
        ["RUNS", "COMPLETION", "TO 90 %", "TO 95 %", "TO 99 %", "MAKESPAN", "WORST", "CPU", "FOREIGN", "STOLEN"];
    let columns: Vec<Column> =
        std::iter::once(Column::left("POLICY")).chain(titles.into_iter().map(Column::right)).collect();
    let fair = &summary.policies[0];
    let rows: Vec<Vec<Cell>> = summary
        .policies
        .iter()
        .map(|own| {
            let runs = if own.spoilt_runs > 0 {
                format!("{} ({} spoilt)", own.runs, own.spoilt_runs)
            } else {
                own.runs.to_string()
            };
            vec![
                Cell::plain(&own.policy),
                Cell::plain(&runs),
                versus(Some(own.mean_completion_s), Some(fair.mean_completion_s)),
                versus(own.mean_t90_s, fair.mean_t90_s),
                versus(own.mean_t95_s, fair.mean_t95_s),
                versus(own.mean_t99_s, fair.mean_t99_s),
                versus(Some(own.makespan_s), Some(fair.makespan_s)),
                Cell::plain(&format!("{:+.0} %", 100.0 * own.worst_vs_fair)),
                Cell::plain(&percent(own.cpu_used)),
                Cell::plain(&percent(own.foreign_load)),
                Cell::plain(&percent(own.stolen)),
            ]
        })
        .collect();
    table(&columns, &rows, look)
}

fn by_job(summary: &Summary, look: &Look) -> String {
    let mut columns = vec![Column::left("JOB")];
    columns.extend(summary.policies.iter().map(|policy| Column::right(word_of(&policy.policy))));
    let fair = &summary.policies[0].completion_s;
    let rows: Vec<Vec<Cell>> = summary
        .jobs
        .iter()
        .enumerate()
        .map(|(job, name)| {
            let own = summary.policies.iter().map(|p| versus(p.completion_s.get(job).copied(), fair.get(job).copied()));
            std::iter::once(Cell::plain(name)).chain(own).collect()
        })
        .collect();
    table(&columns, &rows, look)
}

/// Column titles live as long as the program.
fn word_of(policy: &str) -> &'static str {
    match policy {
        "flowcon" => "FLOWCON",
        "balanced" => "BALANCED",
        _ => "FAIR",
    }
}

fn versus(own: Option<f64>, fair: Option<f64>) -> Cell {
    match (own, fair) {
        (Some(own), Some(fair)) if fair > 0.0 && own != fair => {
            let change = own / fair - 1.0;
            let tone = if change < -0.03 {
                Tone::Good
            } else if change > 0.03 {
                Tone::Bad
            } else {
                Tone::Plain
            };
            Cell::new(tone, &format!("{own:.1} s ({:+.0} %)", 100.0 * change))
        }
        (Some(own), _) => Cell::plain(&format!("{own:.1} s")),
        (None, _) => Cell::or_dash(None),
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// Each job's completion, mean over the runs.
fn completions(runs: &[&RunOutcome]) -> Vec<f64> {
    let jobs = runs.first().map_or(0, |run| run.jobs.len());
    (0..jobs).map(|job| mean(runs.iter().map(|run| run.jobs[job].completion_s)).unwrap_or(0.0)).collect()
}

/// Time to a part of the final improvement, mean over the runs and the jobs that improved.
fn mean_quality_time(runs: &[&RunOutcome], part: f64) -> Option<f64> {
    mean(runs.iter().flat_map(|run| {
        run.jobs.iter().zip(&run.curves).filter_map(move |(job, curve)| Some(time_to(curve, part)? - job.start_s))
    }))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::super::super::trial::outcome::{Foreign, JobOutcome};
    use super::*;

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
        RunOutcome { curves, ..RunOutcome::new(jobs, Vec::new(), foreign) }
    }

    fn bench() -> Bench {
        let busy = Foreign { others: 0.3, ..Foreign::default() };
        let runs = vec![
            (PolicyName::Fair, run([40.0, 20.0], Foreign::default())),
            (PolicyName::Flowcon, run([44.0, 10.0], Foreign::default())),
            (PolicyName::Fair, run([40.0, 20.0], Foreign::default())),
            (PolicyName::Flowcon, run([40.0, 10.0], busy)),
        ];
        Bench { list: "x.toml".into(), runtime: "scope", job_names: vec!["job-0".into(), "job-1".into()], runs }
    }

    #[test]
    fn means_are_over_repeats_and_the_worst_job_is_against_plain_sharing() {
        let summary = bench().summary();
        let flowcon = &summary.policies[1];
        assert_eq!(flowcon.completion_s, [42.0, 10.0]);
        assert_eq!((flowcon.mean_completion_s, flowcon.runs, flowcon.spoilt_runs), (26.0, 2, 1));
        assert!((flowcon.worst_vs_fair - 0.05).abs() < 1e-9);
        assert_eq!(summary.policies[0].mean_t90_s, Some(15.0));
        assert_eq!(summary.policies[0].mean_t95_s, Some(30.0));
    }

    #[test]
    fn the_page_marks_spoilt_runs() {
        let page = bench().page(&Look { columns: None, color: false });
        assert!(page.contains("2 (1 spoilt)") && page.contains("26.0 s (-13 %)"), "{page}");
        assert!(page.contains("spoilt: run 4 (flowcon): other processes used 30 %"), "{page}");
    }
}
