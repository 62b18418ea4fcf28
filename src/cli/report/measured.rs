//! Text of the page about the measurement against control periods: the summary, the section and the method.
//!
//! Names are untrusted: all of them go through [`safe`].

use super::data::{Data, Holdback};
use super::estimate::Range;
use super::measure::MIN_COMPARISONS;
use super::tables::{safe, scrolled};
use term::text;

/// Whether the page has this section: there were control periods, or there will be.
pub(super) fn is_shown(data: &Data) -> bool {
    data.measured.plain_blocks > 0 || data.holdback.part > 0.0
}

/// The figure for the summary at the top: its name, value and note.
pub(super) fn fact(data: &Data) -> Option<(&'static str, String, String)> {
    let work = data.measured.work?;
    let note = format!("measured in whole jobs a second: {}", range(work));
    Some(("Work while governed", change(work.likely), note))
}

/// Explains the result in two sentences.
pub(super) fn story(data: &Data) -> String {
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
        "<p>In {}, chosen at random, every job had its original limits. Compared with these, the work done a second while governed, counted \
                 in whole jobs, changed by {} (95 % interval {}): {verdict}.{all}</p>",
        text::count(measured.plain_blocks, "control period"),
        change(work.likely),
        range(work),
    )
}

/// Explains why there is no figure, and when to expect one.
fn missing(data: &Data) -> String {
    let compared = data.measured.comparisons;
    let Holdback { part, block_s } = data.holdback;
    let lacking = MIN_COMPARISONS.saturating_sub(compared);
    let when = if lacking == 0 {
        "too few of them have a job whose total work is known".to_owned()
    } else if part > 0.0 {
        format!("about {} more with running jobs", text::duration(lacking as f64 * block_s / part))
    } else {
        "the holdback is now off (policy.holdback)".to_owned()
    };
    format!("<p>Not enough control periods yet to measure the gain: {compared} of {MIN_COMPARISONS}; {when}.</p>")
}

/// The whole section.
pub(super) fn section(data: &Data) -> String {
    let rows: String = data.jobs.iter().filter_map(|job| row(data, job.job.number, &job.job.name)).collect();
    let table = if rows.is_empty() {
        String::new()
    } else {
        scrolled(
            "Measured, job by job",
            &format!(
                "<table><caption>CPU that each job got while governed, compared with its control periods; a coloured change has a 95 % interval \
                                 that excludes zero. One in twenty such intervals may miss the true value.</caption><thead><tr><th scope=\"col\">job</th>\
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
    let (class, change, interval) = match ratio {
        Some(ratio) => (class(*ratio), change(ratio.likely), range(*ratio)),
        None => ("", "–".to_owned(), format!("too few: {MIN_COMPARISONS} are needed")),
    };
    let name = safe(name);
    Some(format!(
        "<tr><th scope=\"row\">{name}</th><td>{blocks}</td><td class=\"{class}\">{change}</td><td>{interval}</td></tr>"
    ))
}

const METHOD: &str = "<p>This is <b>measured</b>: the daemon switches governing off for a fraction of the time \
    (<code>policy.holdback</code>), in blocks chosen by a keyed hash of the clock, independent of the jobs. The beginning of each block is \
    left out, until the switch has taken effect. A job of W core-seconds that uses c cores does c/W jobs' worth of work a second; the sum \
    over the jobs in governed blocks next to plain ones is divided by the sum in the plain ones. A job's figure is the CPU that it got \
    while governed, divided by the CPU that it got in its control periods.</p>\
    <p>The interval shows how far another random choice of blocks could have moved the figure (Student's t on the scatter of the blocks). \
    On simulated jobs, for which the true value is known, it contains the true value in at least nine cases of ten. These are current \
    rates: a job that gets more now ends sooner, and the others have more from then on. The effect on completion times is estimated \
    below.</p>";

/// CSS class of a ratio: coloured if its whole interval lies on one side of 1.
fn class(ratio: Range) -> &'static str {
    if ratio.low > 1.0 {
        "better"
    } else if ratio.high < 1.0 {
        "worse"
    } else {
        ""
    }
}

/// Formats a ratio as `+21%`.
fn change(ratio: f64) -> String {
    let change = 100.0 * (ratio - 1.0);
    if change.abs() < 0.5 { "±0%".to_owned() } else { format!("{change:+.0}%") }
}

/// Formats an interval as `+12% to +31%`.
fn range(ratio: Range) -> String {
    format!("{} to {}", change(ratio.low), change(ratio.high))
}
