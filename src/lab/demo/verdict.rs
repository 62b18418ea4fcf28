//! The demo's result as text: the completion times of both runs, means, slower jobs, and disturbances of the comparison.

use super::comparison::{NOISE, change, failures, losers};
use crate::trial::outcome::{Foreign, RunOutcome};
use std::ops::RangeInclusive;
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};
use term::text;

/// Fraction of foreign load above which a comparison is inconclusive.
const SPOILT_ABOVE: f64 = 0.10;
/// CPU time of the governed run as a multiple of the plain run's: outside of this range, the machine was not equally fast in both runs.
const EQUALLY_FAST: RangeInclusive<f64> = 0.87..=1.15;
/// Maximum number of the governor's warnings shown.
const WARNINGS_AT_MOST: usize = 3;

/// The table and the sentences below it.
pub(crate) fn page(plain: &RunOutcome, governed: &RunOutcome, look: &Look) -> String {
    let columns = [
        Column::left("JOB"),
        Column::right("STARTS"),
        Column::right("PLAIN"),
        Column::right("GOVERNED"),
        Column::right("CHANGE"),
    ];
    let jobs = plain.jobs.iter().zip(&governed.jobs);
    let mut rows: Vec<Vec<Cell>> = jobs
        .map(|(plain, governed)| {
            row(
                &plain.name,
                Some(plain.start_s),
                plain.completion_s,
                governed.completion_s,
                plain.exit_code,
                governed.exit_code,
            )
        })
        .collect();
    if failures(plain, governed).is_empty() {
        rows.push(row("mean completion", None, plain.mean_completion_s, governed.mean_completion_s, 0, 0));
        rows.push(row("makespan", None, plain.makespan_s, governed.makespan_s, 0, 0));
    }
    let mut page = table(&columns, &rows, look);
    page.push('\n');
    for sentence in sentences(plain, governed) {
        page.push_str(&sentence);
        page.push('\n');
    }
    page
}

fn row(name: &str, start: Option<f64>, plain: f64, governed: f64, plain_code: i32, governed_code: i32) -> Vec<Cell> {
    let relative = change(plain, governed);
    let tone = match relative {
        worse if worse > NOISE => Tone::Bad,
        better if better < -NOISE => Tone::Good,
        _ => Tone::Plain,
    };
    let has_failed = plain_code != 0 || governed_code != 0;
    vec![
        Cell::plain(name),
        Cell::plain(&start.map_or_else(String::new, seconds)),
        Cell::plain(&with_code(plain, plain_code)),
        Cell::plain(&with_code(governed, governed_code)),
        if has_failed { Cell::or_dash(None) } else { Cell::new(tone, &format!("{:+.0} %", 100.0 * relative)) },
    ]
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn with_code(time: f64, code: i32) -> String {
    if code == 0 { seconds(time) } else { format!("{} (exit code {code})", seconds(time)) }
}

fn sentences(plain: &RunOutcome, governed: &RunOutcome) -> Vec<String> {
    // A job that failed ended early, so its time and the means would look like a gain.
    let failures = failures(plain, governed);
    if !failures.is_empty() {
        return vec![format!("No comparison: {}.", failures.join(", "))];
    }
    let losers = losers(plain, governed);
    let noise = 100.0 * NOISE;
    let mut sentences = vec![if losers.is_empty() {
        format!("No job took more than {noise:.0} % longer than with plain sharing.")
    } else {
        format!("These jobs took more than {noise:.0} % longer: {}.", losers.join(", "))
    }];
    for (name, foreign) in [("plain", plain.foreign), ("governed", governed.foreign)] {
        sentences.extend(spoilt(name, foreign));
    }
    sentences.extend(other_speed(plain.cpu_s, governed.cpu_s));
    // Plain sharing needs no governor.
    let warnings = governed.warnings.iter().take(WARNINGS_AT_MOST);
    let warning = |text: &String| format!("Inconclusive: {}.", text::clean(text).trim_end_matches('.'));
    sentences.extend(warnings.map(warning));
    sentences
}

/// A warning if the same work took another amount of CPU time; 0 means that it was not measured.
fn other_speed(plain_s: f64, governed_s: f64) -> Option<String> {
    let more = change(plain_s, governed_s);
    let is_measured = plain_s > 0.0 && governed_s > 0.0;
    (is_measured && !EQUALLY_FAST.contains(&(1.0 + more))).then(|| {
        format!(
            "Inconclusive: the same work took {:.0} % {} CPU time in the governed run than in the plain run, so the \
             machine's speed changed. Repeat the demo on a quiet machine.",
            100.0 * more.abs(),
            if more > 0.0 { "more" } else { "less" }
        )
    })
}

/// A warning if the machine had other load during a run.
fn spoilt(name: &str, foreign: Foreign) -> Option<String> {
    (foreign.others + foreign.stolen > SPOILT_ABOVE).then(|| {
        format!(
            "Inconclusive: during the {name} run other processes used {:.0} % of the CPU and the hypervisor took {:.0} %. \
             Repeat the demo on a quiet machine.",
            100.0 * foreign.others,
            100.0 * foreign.stolen
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::outcome::JobOutcome;

    fn run(completion_s: [f64; 2], foreign: Foreign) -> RunOutcome {
        let job = |n: usize, completion_s| JobOutcome {
            name: format!("job-{n}"),
            start_s: n as f64,
            completion_s,
            exit_code: 0,
        };
        let jobs = completion_s.into_iter().enumerate().map(|(n, time)| job(n, time)).collect();
        RunOutcome::new(jobs, Vec::new(), foreign)
    }

    fn page_of(governed: [f64; 2], foreign: Foreign) -> String {
        let plain = run([20.0, 10.0], Foreign::default());
        page(&plain, &run(governed, foreign), &Look { columns: None, color: false })
    }

    #[test]
    fn each_job_the_mean_and_the_makespan_have_a_line() {
        let page = page_of([20.2, 5.0], Foreign::default());
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines[1].contains("job-0") && lines[1].contains("20.0 s") && lines[1].ends_with("+1 %"), "{page}");
        assert!(
            lines[2].ends_with("-50 %") && lines[3].contains("15.0 s") && lines[4].starts_with("makespan"),
            "{page}"
        );
        assert!(page.contains("No job took more"), "{page}");
    }

    #[test]
    fn slower_jobs_and_disturbed_runs_are_reported() {
        let busy = Foreign { ours: 0.5, stolen: 0.02, others: 0.4 };
        let page = page_of([30.0, 5.0], busy);
        assert!(page.contains("These jobs took more than 3 % longer: job-0."), "{page}");
        assert!(page.contains("Inconclusive: during the governed run other processes used 40 %"), "{page}");
    }

    #[test]
    fn runs_with_a_failed_job_are_not_compared() {
        let plain = run([20.0, 10.0], Foreign::default());
        let mut governed = run([20.0, 0.1], Foreign::default());
        governed.jobs[1].exit_code = 3;
        let page = page(&plain, &governed, &Look { columns: None, color: false });
        assert!(page.contains("No comparison: job-1 failed (exit code 3) in the governed run."), "{page}");
        for absent in ["mean completion", "makespan", "No job took more", "-99 %"] {
            assert!(!page.contains(absent), "{absent}: {page}");
        }
    }

    #[test]
    fn a_change_of_the_machines_speed_is_reported() {
        let more = other_speed(50.0, 60.0).expect("20 % more is too much");
        assert!(more.starts_with("Inconclusive: the same work took 20 % more CPU time in the governed run"), "{more}");
        assert!(other_speed(50.0, 40.0).is_some_and(|less| less.contains("took 20 % less CPU time")));
        for cpu_s in [(50.0, 50.0), (50.0, 57.0), (50.0, 44.0), (50.0, 0.0), (0.0, 50.0)] {
            assert_eq!(other_speed(cpu_s.0, cpu_s.1), None, "{cpu_s:?}");
        }
        let (plain, mut governed) = (run([20.0, 10.0], Foreign::default()), run([20.0, 10.0], Foreign::default()));
        governed.cpu_s = 60.0;
        let plain = RunOutcome { cpu_s: 50.0, ..plain };
        assert!(page(&plain, &governed, &Look { columns: None, color: false }).contains(&more));
    }

    #[test]
    fn at_most_three_warnings_about_the_governed_run_are_shown() {
        let mut runs = [run([20.0, 10.0], Foreign::default()), run([20.0, 10.0], Foreign::default())];
        runs[0].warnings = vec!["the plain run has no governor".to_owned()];
        runs[1].warnings = (1..=4).map(|number| format!("problem {number}")).collect();
        let page = page(&runs[0], &runs[1], &Look { columns: None, color: false });
        assert!(page.contains("Inconclusive: problem 1.\n") && page.contains("Inconclusive: problem 3.\n"), "{page}");
        assert!(!page.contains("problem 4") && !page.contains("plain run has"), "{page}");
    }
}
