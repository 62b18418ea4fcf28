//! The demo's result as text: the completion times of both runs, means, slower jobs, and disturbances of the comparison.
//!
//! Imports: term's tables.

use super::comparison::{NOISE, change, losers};
use crate::lab::trial::outcome::{Foreign, RunOutcome};
use crate::term::screen::{Look, Tone};
use crate::term::table::{Cell, Column, table};

/// Fraction of foreign load above which a comparison is inconclusive.
const SPOILT_ABOVE: f64 = 0.10;

/// The table and the sentences below it.
pub fn page(plain: &RunOutcome, governed: &RunOutcome, look: &Look) -> String {
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
    rows.push(row("mean completion", None, plain.mean_completion_s, governed.mean_completion_s, 0, 0));
    rows.push(row("makespan", None, plain.makespan_s, governed.makespan_s, 0, 0));
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
    vec![
        Cell::plain(name),
        Cell::plain(&start.map_or_else(String::new, seconds)),
        Cell::plain(&with_code(plain, plain_code)),
        Cell::plain(&with_code(governed, governed_code)),
        Cell::new(tone, &format!("{:+.0} %", 100.0 * relative)),
    ]
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn with_code(time: f64, code: i32) -> String {
    if code == 0 { seconds(time) } else { format!("{} (exit code {code})", seconds(time)) }
}

fn sentences(plain: &RunOutcome, governed: &RunOutcome) -> Vec<String> {
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
    sentences
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
    use crate::lab::trial::outcome::JobOutcome;

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
}
