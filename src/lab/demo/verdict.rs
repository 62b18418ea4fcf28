//! The demo's result as text: the completion times of both runs, means, slower jobs, and disturbances of the comparison.

use super::comparison::{NOISE, change, failures, losers};
use super::timed_run::TimedRun;
use crate::trial::outcome::{Foreign, JobOutcome, RunOutcome};
use std::ops::RangeInclusive;
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};
use term::text;

/// Fraction of foreign load above which a comparison is inconclusive.
const SPOILT_ABOVE: f64 = 0.10;
/// CPU time of the governed run as a multiple of the plain run's: outside of this range, the machine was not equally fast in both runs.
const EQUALLY_FAST: RangeInclusive<f64> = 0.87..=1.15;
/// Idle time of the cores in the governed run above that of the plain run, as a fraction, above which governing may have wasted it.
const IDLE_ABOVE: f64 = 0.05;
/// Maximum number of the governor's warnings shown.
const WARNINGS_AT_MOST: usize = 3;

/// The table and the sentences below it, for runs whose times are by the clock.
pub(crate) fn page(plain: &RunOutcome, governed: &RunOutcome, look: &Look) -> String {
    let makespan = row("makespan", None, (plain.makespan_s, 0), (governed.makespan_s, 0));
    let disturbances = [("plain", plain.foreign), ("governed", governed.foreign)].into_iter();
    let sentences = disturbances.filter_map(|(name, foreign)| spoilt(name, foreign)).collect();
    compose(plain, governed, vec![makespan], sentences, look)
}

/// The table and the sentences below it, for runs whose times count work.
pub(super) fn page_in_work(plain: &TimedRun, governed: &TimedRun, look: &Look) -> String {
    let (clock, governed_clock) = (&plain.clock, &governed.clock);
    let figures = [
        ("mean by the clock", clock.mean_completion_s, governed_clock.mean_completion_s),
        ("makespan by the clock", clock.makespan_s, governed_clock.makespan_s),
        ("CPU time", plain.cpu_s, governed.cpu_s),
    ];
    let known = figures.into_iter().filter(|(_, before, after)| *before > 0.0 && *after > 0.0);
    let rows = known.map(|(name, before, after)| figure(name, before, after)).collect();
    let mut sentences = vec![
        "Times count work, which is the same in both runs: 1 s is what the jobs did in an average second of the plain run."
            .to_owned(),
    ];
    sentences.extend(speed(plain, governed));
    sentences.extend(unknown_cost(plain.cpu_s, governed.cpu_s));
    sentences.extend(idle(clock.foreign, governed_clock.foreign));
    // Plain sharing needs no governor.
    let warnings = governed_clock.warnings.iter().take(WARNINGS_AT_MOST);
    sentences.extend(warnings.map(|text| format!("Inconclusive: {}.", text::clean(text).trim_end_matches('.'))));
    compose(&plain.work, &governed.work, rows, sentences, look)
}

/// The table, with `rows` at its end, and the sentences: only the failures, if a job failed.
fn compose(
    plain: &RunOutcome,
    governed: &RunOutcome,
    rows: Vec<Vec<Cell>>,
    sentences: Vec<String>,
    look: &Look,
) -> String {
    let columns = [
        Column::left("JOB"),
        Column::right("STARTS"),
        Column::right("PLAIN"),
        Column::right("GOVERNED"),
        Column::right("CHANGE"),
    ];
    let jobs = plain.jobs.iter().zip(&governed.jobs);
    let job_row = |(plain, governed): (&JobOutcome, &JobOutcome)| {
        let (before, after) = ((plain.completion_s, plain.exit_code), (governed.completion_s, governed.exit_code));
        row(&plain.name, Some(plain.start_s), before, after)
    };
    let mut table_rows: Vec<Vec<Cell>> = jobs.map(job_row).collect();
    // A job that failed ended early, so its time and the means would look like a gain.
    let failures = failures(plain, governed);
    let sentences = if failures.is_empty() {
        table_rows.push(row("mean completion", None, (plain.mean_completion_s, 0), (governed.mean_completion_s, 0)));
        table_rows.extend(rows);
        [vec![slower_jobs(plain, governed)], sentences].concat()
    } else {
        vec![format!("No comparison: {}.", failures.join(", "))]
    };
    format!("{}\n{}\n", table(&columns, &table_rows, look), sentences.join("\n"))
}

/// A row from (seconds, exit code) of both runs.
fn row(name: &str, start: Option<f64>, plain: (f64, i32), governed: (f64, i32)) -> Vec<Cell> {
    let relative = change(plain.0, governed.0);
    let tone = match relative {
        worse if worse > NOISE => Tone::Bad,
        better if better < -NOISE => Tone::Good,
        _ => Tone::Plain,
    };
    let has_failed = plain.1 != 0 || governed.1 != 0;
    vec![
        Cell::plain(name),
        Cell::plain(&start.map_or_else(String::new, seconds)),
        Cell::plain(&with_code(plain)),
        Cell::plain(&with_code(governed)),
        if has_failed { Cell::or_dash(None) } else { Cell::new(tone, &percent_more(relative)) },
    ]
}

/// A row that is neither good nor bad: the machine's speed is part of it.
fn figure(name: &str, before: f64, after: f64) -> Vec<Cell> {
    let change = percent_more(change(before, after));
    [name.to_owned(), String::new(), seconds(before), seconds(after), change].map(|text| Cell::plain(&text)).into()
}

pub(super) fn percent_more(relative: f64) -> String {
    // Adding 0 makes of −0 a 0.
    format!("{:+.0} %", (100.0 * relative).round() + 0.0)
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn with_code((time, code): (f64, i32)) -> String {
    if code == 0 { seconds(time) } else { format!("{} (exit code {code})", seconds(time)) }
}

fn slower_jobs(plain: &RunOutcome, governed: &RunOutcome) -> String {
    let losers = losers(plain, governed);
    let noise = 100.0 * NOISE;
    if losers.is_empty() {
        format!("No job took more than {noise:.0} % longer than with plain sharing.")
    } else {
        format!("These jobs took more than {noise:.0} % longer: {}.", losers.join(", "))
    }
}

/// Why the governed run took longer or shorter by the clock; `None` if it did not.
fn speed(plain: &TimedRun, governed: &TimedRun) -> Option<String> {
    let longer = change(plain.clock.makespan_s, governed.clock.makespan_s);
    let [before, after] = [plain, governed].map(|run| run.clock.foreign);
    let percent = |part: f64| format!("{:.0} %", 100.0 * part.abs());
    let parts = |of: fn(&Foreign) -> f64| format!("{} (plain: {})", percent(of(&after)), percent(of(&before)));
    (longer.abs() > NOISE).then(|| {
        format!(
            "By the clock, the governed run took {} {}: other processes used {} of the CPU, the hypervisor took {}.",
            percent(longer),
            if longer > 0.0 { "longer" } else { "less" },
            parts(|foreign| foreign.others),
            parts(|foreign| foreign.stolen)
        )
    })
}

/// A warning if the same work took another amount of CPU time; 0 means that it was not measured.
fn unknown_cost(plain_s: f64, governed_s: f64) -> Option<String> {
    let more = change(plain_s, governed_s);
    let is_measured = plain_s > 0.0 && governed_s > 0.0;
    (is_measured && !EQUALLY_FAST.contains(&(1.0 + more))).then(|| {
        format!(
            "Inconclusive is what governing itself costs: the same work took {:.0} % {} CPU time in the governed run, so the \
             machine's speed changed. Repeat the demo on a quiet machine to see it.",
            100.0 * more.abs(),
            if more > 0.0 { "more" } else { "less" }
        )
    })
}

/// A warning if cores were idle in the governed run: times in work do not show that.
fn idle(plain: Foreign, governed: Foreign) -> Option<String> {
    let [before, after] = [plain, governed].map(|run| 1.0 - run.ours - run.stolen - run.others);
    let is_known = plain.ours > 0.0 && governed.ours > 0.0;
    (is_known && after > before + IDLE_ABOVE).then(|| {
        format!(
            "Inconclusive: the cores were idle for {:.0} % of the governed run and {:.0} % of the plain run.",
            100.0 * after,
            100.0 * before.max(0.0)
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

    /// The page of runs in work, with the governed run changed.
    fn page_in_work_of(change: impl FnOnce(&mut RunOutcome)) -> String {
        let measured = RunOutcome {
            cpu_s: 15.0,
            work: vec![(0.0, 0.0), (20.0, 30.0)],
            ..run([20.0, 10.0], Foreign { ours: 0.95, stolen: 0.0, others: 0.03 })
        };
        let mut governed = measured.clone();
        change(&mut governed);
        let (plain, governed) = TimedRun::both(measured, governed);
        page_in_work(&plain, &governed, &Look { columns: None, color: false })
    }

    #[test]
    fn times_count_work_and_those_by_the_clock_are_below() {
        let page = page_in_work_of(|governed| {
            // Half as fast: the same times in work.
            let slow = run([40.0, 20.0], Foreign { ours: 0.5, stolen: 0.02, others: 0.47 });
            let jobs = slow.jobs.into_iter().map(|job| JobOutcome { start_s: 2.0 * job.start_s, ..job }).collect();
            *governed = RunOutcome {
                cpu_s: 15.3,
                work: vec![(0.0, 0.0), (40.0, 30.0)],
                ..RunOutcome::new(jobs, Vec::new(), slow.foreign)
            };
        });
        let lines: Vec<&str> = page.lines().collect();
        let ends = ["CHANGE", "+0 %", "+0 %", "+0 %", "+100 %", "+100 %", "+2 %"];
        assert!(lines.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{page}");
        assert!(lines[1].contains(" 20.0 s    20.0 s ") && lines[5].contains("makespan by the clock"), "{page}");
        assert!(page.contains("Times count work"), "{page}");
        let longer = "By the clock, the governed run took 100 % longer: other processes used 47 % (plain: 3 %) of the CPU, \
                      the hypervisor took 2 % (plain: 0 %).";
        assert!(page.contains(longer), "{page}");
        assert!(!page.contains("Inconclusive"), "{page}");
    }

    #[test]
    fn what_governing_costs_is_inconclusive_if_the_machines_speed_changed() {
        let more =
            "Inconclusive is what governing itself costs: the same work took 20 % more CPU time in the governed run";
        assert!(page_in_work_of(|governed| governed.cpu_s = 18.0).contains(more));
        assert!(page_in_work_of(|governed| governed.cpu_s = 12.0).contains("took 20 % less CPU time"));
        for cpu_s in [15.0, 17.1, 13.2, 0.0] {
            let page = page_in_work_of(|governed| governed.cpu_s = cpu_s);
            assert!(!page.contains("Inconclusive") && page.contains("CPU time") == (cpu_s > 0.0), "{page}");
        }
    }

    #[test]
    fn cores_that_governing_leaves_idle_are_reported() {
        let idle = |ours, others| Foreign { ours, stolen: 0.0, others };
        let page = page_in_work_of(|governed| governed.foreign = idle(0.85, 0.05));
        assert!(
            page.contains("Inconclusive: the cores were idle for 10 % of the governed run and 2 % of the plain run.")
        );
        let page = page_in_work_of(|governed| governed.foreign = idle(0.55, 0.40));
        assert!(!page.contains("idle"), "{page}");
    }

    #[test]
    fn at_most_three_warnings_about_the_governed_run_are_shown() {
        let page = page_in_work_of(|governed| {
            governed.warnings = (1..=4).map(|number| format!("problem {number}")).collect();
        });
        assert!(page.contains("Inconclusive: problem 1.\n") && page.contains("Inconclusive: problem 3.\n"), "{page}");
        assert!(!page.contains("problem 4"), "{page}");
    }
}
