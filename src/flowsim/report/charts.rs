//! The report's charts, one function each.

use super::SimulationReport;
use chart::{Margins, Plot, series};
use sim::Outcome;
use sim::compare::Change;

const WIDTH: f64 = 560.0;
const FIELD: f64 = 190.0;
/// Width reserved for the names of jobs.
const NAMES: f64 = 120.0;
const MOST_PRINTS: usize = 120;

fn margins(left: f64) -> Margins {
    Margins { top: 8.0, right: 14.0, bottom: 34.0, left }
}

fn seconds(value: f64) -> String {
    format!("{value:.0}")
}

fn percent(value: f64) -> String {
    format!("{:.0} %", 100.0 * value)
}

fn signed_percent(value: f64) -> String {
    format!("{:+.0} %", 100.0 * value)
}

/// Completion times of each job, one bar per policy.
pub(super) fn completions(report: &SimulationReport) -> String {
    let (jobs, policies) = (report.jobs.len() as f64, report.runs.len() as f64);
    let row = 9.0 * policies + 10.0;
    let longest = report.runs.iter().flat_map(|(_, run)| &run.jobs).map(|job| job.completion_s()).fold(1.0, f64::max);
    let field = jobs * row;
    let mut plot = Plot::new(2.0 * WIDTH, field + 42.0, margins(NAMES), (0.0, longest * 1.02), (0.0, jobs));
    plot.x_axis("seconds from start to end", seconds);
    for (number, job) in report.jobs.iter().enumerate() {
        let middle = jobs - number as f64 - 0.5;
        plot.text(NAMES - 8.0, plot.y.at(middle) + 4.0, "end", &job.plan.name);
        let thickness = (1.0 - 10.0 / row) / policies;
        for (place, (policy, run)) in report.runs.iter().enumerate() {
            let upper = jobs - number as f64 - 5.0 / row - place as f64 * thickness;
            let took = run.jobs[number].completion_s();
            let title = format!("{}, {policy}: {took:.1} s", job.plan.name);
            plot.bar((0.0, took), (upper, upper - 0.88 * thickness), &series(place), &title);
        }
    }
    plot.inline("Completion time of each job under each policy")
}

/// Change of each job's completion time against plain sharing.
pub(super) fn changes(report: &SimulationReport, run: &Outcome) -> String {
    let changes: Vec<f64> = run
        .jobs
        .iter()
        .zip(&report.fair.jobs)
        .map(|(job, fair)| job.completion_s() / fair.completion_s() - 1.0)
        .collect();
    let mut order: Vec<usize> = (0..changes.len()).collect();
    order.sort_by(|a, b| changes[*a].total_cmp(&changes[*b]));
    let widest = changes.iter().fold(0.1f64, |widest, change| widest.max(change.abs())) * 1.25;
    let rows = order.len() as f64;
    let mut plot = Plot::new(WIDTH, rows * 17.0 + 42.0, margins(NAMES), (-widest, widest), (0.0, rows));
    plot.x_axis("completion time against fair", signed_percent);
    plot.rule(0.0);
    for (place, &number) in order.iter().enumerate() {
        let (change, y) = (changes[number], rows - place as f64 - 0.5);
        let name = &report.jobs[number].plan.name;
        let class = if change > 0.0 { "bad" } else { "good" };
        plot.bar((0.0, change), (y - 0.33, y + 0.33), class, &format!("{name}: {}", Change(change)));
        plot.text(NAMES - 8.0, plot.y.at(y) + 4.0, "end", name);
        let (x, side) = (plot.x.at(change), if change > 0.0 { "label" } else { "label end" });
        let beside = if change > 0.0 { x + 4.0 } else { x - 4.0 };
        plot.text(beside, plot.y.at(y) + 4.0, side, &Change(change).to_string());
    }
    plot.inline("Change of each job's completion time against plain sharing")
}

/// Cumulative part of the jobs of all seeds by change of completion time against plain sharing.
pub(super) fn changes_of_all_seeds(report: &SimulationReport) -> String {
    let runs: Vec<_> = report.comparison.policies.iter().filter(|run| run.name != "fair").collect();
    let all = runs.iter().flat_map(|run| &run.ratios);
    let (low, high) = all.fold((0.9f64, 1.1f64), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    let x = (low - 1.0, (high - 1.0).min(2.0));
    let mut plot = Plot::new(2.0 * WIDTH, FIELD + 100.0, margins(46.0), x, (0.0, 1.0));
    plot.x_axis("completion time against fair", signed_percent);
    plot.y_axis(percent);
    plot.rule(0.0);
    for run in runs {
        let mut sorted = run.ratios.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len().max(1) as f64;
        let mut points = vec![(x.0, 0.0)];
        for (number, change) in sorted.iter().map(|ratio| ratio - 1.0).enumerate().filter(|(_, change)| *change <= x.1)
        {
            points.extend([(change, number as f64 / count), (change, (number as f64 + 1.0) / count)]);
        }
        if points.last().is_some_and(|last| last.1 == 1.0) {
            points.push((x.1, 1.0));
        }
        plot.line(&points, &series(policy_number(report, &run.name)), &run.name);
    }
    plot.inline("Share of all jobs by change of completion time")
}

fn policy_number(report: &SimulationReport, name: &str) -> usize {
    report.runs.iter().position(|(policy, _)| policy == name).unwrap_or(0)
}

/// The run of each job, with a mark at 95 % of its final improvement.
pub(super) fn gantt(report: &SimulationReport, run: &Outcome) -> String {
    let rows = run.jobs.len() as f64;
    let mut plot = Plot::new(WIDTH, rows * 17.0 + 42.0, margins(NAMES), (0.0, report.end_s()), (0.0, rows));
    plot.x_axis("seconds", seconds);
    for (number, job) in run.jobs.iter().enumerate() {
        let y = rows - number as f64 - 0.5;
        let title = format!("{}: {:.1} s to {:.1} s", job.name, job.start_s, job.end_s);
        plot.bar((job.start_s, job.end_s), (y - 0.33, y + 0.33), &series(number), &title);
        plot.mark(job.start_s + job.quality_s, y, 7.0, &format!("95 % quality after {:.1} s", job.quality_s));
        plot.text(NAMES - 8.0, plot.y.at(y) + 4.0, "end", &job.name);
    }
    plot.inline("Run of each job")
}

/// Shares of the node over time, stacked.
pub(super) fn shares(report: &SimulationReport, run: &Outcome) -> String {
    let samples: Vec<(f64, Vec<f64>)> = run
        .history
        .iter()
        .flat_map(|history| &history.shares)
        .map(|(at, cores)| (*at, cores.iter().map(|c| c / report.cores).collect()))
        .collect();
    shares_over_time(&report.job_names(), &samples, report.end_s()).inline("Share of the node over time")
}

/// Draws parts of a whole over time, stacked: each sample holds until the next and has a part of 0 ..= 1 for each series.
pub(super) fn shares_over_time(names: &[String], samples: &[(f64, Vec<f64>)], end_s: f64) -> Plot {
    let mut plot = Plot::new(WIDTH, FIELD + 42.0, margins(46.0), (0.0, end_s), (0.0, 1.0));
    let mut lower: Vec<(f64, f64)> = steps(samples, end_s, |_| 0.0);
    for (number, name) in names.iter().enumerate() {
        let upper = steps(samples, end_s, |parts| parts[..=number].iter().sum());
        plot.area(&lower, &upper, &series(number), name);
        lower = upper;
    }
    plot.x_axis("seconds", seconds);
    plot.y_axis(percent);
    plot
}

/// Each job's use of the node's CPU, as drawn in the papers.
pub(super) fn cpu_use(report: &SimulationReport, run: &Outcome) -> String {
    let mut plot = Plot::new(WIDTH, FIELD + 42.0, margins(46.0), (0.0, report.end_s()), (0.0, 1.0));
    plot.x_axis("seconds", seconds);
    plot.y_axis(percent);
    let samples = run.history.as_ref().map_or(&[][..], |history| &history.shares);
    for (number, job) in run.jobs.iter().enumerate() {
        let present: Vec<(f64, f64)> = steps(samples, report.end_s(), |cores| cores[number] / report.cores)
            .into_iter()
            .filter(|(at, _)| (job.start_s..=job.end_s).contains(at))
            .collect();
        plot.line(&present, &series(number), &job.name);
    }
    plot.inline("CPU use of each job over time")
}

/// Printed evaluations, as parts of each job's final improvement.
pub(super) fn evaluations(report: &SimulationReport, run: &Outcome) -> String {
    let mut plot = Plot::new(WIDTH, FIELD + 42.0, margins(46.0), (0.0, report.end_s()), (0.0, 1.08));
    plot.x_axis("seconds", seconds);
    plot.y_axis(percent);
    let prints = run.history.as_ref().map_or(&[][..], |history| &history.prints);
    for (number, job) in report.jobs.iter().enumerate() {
        let curve = &job.plan.curve;
        let improvement = |value: f64| ((value - curve.from) / (curve.to - curve.from)).clamp(0.0, 1.08);
        let own: Vec<(f64, f64)> =
            prints.iter().filter(|print| print.1 == number).map(|print| (print.0, improvement(print.2))).collect();
        let every = own.len().div_ceil(MOST_PRINTS).max(1);
        let thinned: Vec<(f64, f64)> = own.into_iter().step_by(every).collect();
        plot.line(&thinned, &series(number), &job.plan.name);
    }
    plot.inline("Evaluation curves over time")
}

/// The corners of a step function in which each sample holds until the next.
fn steps(samples: &[(f64, Vec<f64>)], end_s: f64, of: impl Fn(&[f64]) -> f64) -> Vec<(f64, f64)> {
    let ends = samples.iter().skip(1).map(|sample| sample.0).chain([end_s]);
    samples.iter().zip(ends).flat_map(|((at, parts), end)| [(*at, of(parts)), (end.max(*at), of(parts))]).collect()
}
