//! The page's words about what was measured in control periods: in short, in a section of its own, and how.
//!
//! Names come from strangers: all of them go through [`safe`]. Imports: the measurement, tables.

use super::data::{Data, Told};
use super::estimate::Range;
use super::measure::COMPARISONS_AT_LEAST;
use super::tables::{safe, scrolled};
use crate::term::text;

/// Whether there is anything to say: control periods were seen, or will be.
pub fn is_told(data: &Data) -> bool {
    data.measured.plain_blocks > 0 || data.holdback.part > 0.0
}

/// The figure for the facts at the top: its name, its value and a note.
pub fn fact(data: &Data) -> Option<(&'static str, String, String)> {
    let work = data.measured.work?;
    let note = format!("measured, jobs' worth a second: {}", range(work));
    Some(("Work while governed", change(work.likely), note))
}

/// What it means, in two sentences.
pub fn story(data: &Data) -> String {
    let measured = &data.measured;
    let Some(work) = measured.work else { return missing(data) };
    let verdict = match class(work) {
        "better" => "<b class=\"better\">measured gain</b>",
        "worse" => "<b class=\"worse\">measured cost</b>",
        _ => "<b>no gain and no cost can be claimed</b>",
    };
    let all = measured.cores.map_or_else(String::new, |cores| {
        format!(" The CPU that all jobs used together: {} ({}).", change(cores.likely), range(cores))
    });
    format!(
        "<p>In {}, which chance picked, every job had its original limits. Against these, the work done a second while governed, counted in \
         whole jobs: {} (95 % interval {}): {verdict}.{all}</p>",
        text::count(measured.plain_blocks, "control period"),
        change(work.likely),
        range(work),
    )
}

/// Why there is no figure, and when there will be one.
fn missing(data: &Data) -> String {
    let compared = data.measured.comparisons;
    let Told { part, block_s } = data.holdback;
    let lacking = COMPARISONS_AT_LEAST.saturating_sub(compared);
    let when = if lacking == 0 {
        "too few of them have a job whose whole work is known".to_owned()
    } else if part > 0.0 {
        format!("about {} more of jobs that run", text::duration(lacking as f64 * block_s / part))
    } else {
        "and the holdback is off now (policy.holdback)".to_owned()
    };
    format!("<p>Not enough control periods yet to measure the gain: {compared} of {COMPARISONS_AT_LEAST}; {when}.</p>")
}

/// The section of its own.
pub fn section(data: &Data) -> String {
    let rows: String = data.jobs.iter().filter_map(|job| row(data, job.job.number, &job.job.name)).collect();
    let table = if rows.is_empty() {
        String::new()
    } else {
        scrolled(
            "Measured, job by job",
            &format!(
                "<table><caption>CPU that each job got while governed, against its control periods; a change in colour is beyond its 95 % \
                 interval. Of twenty such intervals one may miss.</caption><thead><tr><th scope=\"col\">job</th>\
                 <th scope=\"col\">control periods</th><th scope=\"col\">CPU</th><th scope=\"col\">interval</th></tr></thead>\
                 <tbody>{rows}</tbody></table>"
            ),
            true,
        )
    };
    format!("{}{table}{METHOD}", story(data))
}

fn row(data: &Data, number: u64, name: &str) -> Option<String> {
    let (blocks, ratio) = data.measured.jobs.get(&number)?;
    let (class, told, interval) = match ratio {
        Some(ratio) => (class(*ratio), change(ratio.likely), range(*ratio)),
        None => ("", "–".to_owned(), format!("too few: {COMPARISONS_AT_LEAST} are needed")),
    };
    let name = safe(name);
    Some(format!(
        "<tr><th scope=\"row\">{name}</th><td>{blocks}</td><td class=\"{class}\">{told}</td><td>{interval}</td></tr>"
    ))
}

const METHOD: &str = "<p>This is <b>measured</b>: the daemon switches governing off for a part of the time (<code>policy.holdback</code>), in \
    blocks that a keyed hash of the clock picks, whatever the jobs do. The beginning of each block is left out, until a switch has come \
    through. A job of W core-seconds that uses c cores goes through c/W jobs' worth of work a second; the sum over the jobs in governed blocks \
    next to plain ones is divided by the sum in these. A job's own figure is the CPU that it got while governed, divided by what it got in \
    its control periods.</p>\
    <p>The interval says how far chance could have moved the figure with another choice of blocks (Student's t on the scatter of the \
    blocks). On simulated jobs, for which the truth is known, it holds it in at least nine cases of ten. These are rates of the sample: who \
    gets more now ends sooner, and the others have more from then on. What that makes of completion times is estimated below.</p>";

/// The colour of a ratio whose whole interval lies on one side.
fn class(ratio: Range) -> &'static str {
    if ratio.low > 1.0 {
        "better"
    } else if ratio.high < 1.0 {
        "worse"
    } else {
        ""
    }
}

/// `+21%`.
fn change(ratio: f64) -> String {
    let change = 100.0 * (ratio - 1.0);
    if change.abs() < 0.5 { "±0%".to_owned() } else { format!("{change:+.0}%") }
}

/// `+12% to +31%`.
fn range(ratio: Range) -> String {
    format!("{} to {}", change(ratio.low), change(ratio.high))
}
