//! The report's tables: jobs, decisions, and the numbers of the charts for readers who cannot see them.
//!
//! Names and texts are untrusted: all of them go through [`safe`].

use super::charts::{Drawn, gain, name, signed};
use super::data::{Data, Series};
use super::estimate::Range;
use crate::{cost, history};
use chart::escaped;
use term::text;
use term::when;

/// Maximum number of decisions shown; the newest are kept.
const DECISIONS: usize = 300;
/// Number of instants in the tables beside the charts.
pub(super) const INSTANTS: usize = 9;

/// Escapes untrusted text: removes markup, terminal control sequences and bidirectional overrides.
pub(super) fn safe(text: &str) -> String {
    escaped(&text::clean(text))
}

/// Table of all jobs with their usage and estimated gain.
pub(super) fn jobs_table(data: &Data) -> String {
    let rows: String = data.jobs.iter().enumerate().map(|(place, job)| job_row(data, place, job)).collect();
    let zone = safe(&when::zone_name());
    let lost = if has_lost(data) { "<th scope=\"col\">CPU lost</th>" } else { "" };
    let energy = if has_energy(data) { "<th scope=\"col\">energy</th>" } else { "" };
    let gpus = if has_gpus(data) { "<th scope=\"col\">GPUs</th><th scope=\"col\">peak GPU memory</th>" } else { "" };
    let about_lost = if lost.is_empty() {
        ""
    } else {
        "; \"CPU lost\" is what a job paid in its whole run because its threads waited for each other beside other jobs (flowctl help threads)"
    };
    scrolled(
        "All jobs",
        &format!(
            "<table><caption>Times are {zone}. \"Plain\" and \"change\" are estimates; a coloured change exceeds their uncertainty. \
             CPU and cores count from the start of the report{about_lost}.</caption>\
             <thead><tr><th scope=\"col\">job</th><th scope=\"col\" class=\"left\">started</th><th scope=\"col\">took</th><th scope=\"col\" class=\"left\">end</th>\
             <th scope=\"col\">CPU</th>{lost}{energy}<th scope=\"col\">cores</th>{gpus}<th scope=\"col\" class=\"left\">evaluation</th>\
             <th scope=\"col\">95 % after</th><th scope=\"col\">plain</th><th scope=\"col\">change</th></tr></thead><tbody>{rows}</tbody></table>"
        ),
        true,
    )
}

/// Whether any job used a GPU; otherwise there are no GPU columns.
fn has_gpus(data: &Data) -> bool {
    data.jobs.iter().any(|job| job.gpus.is_some() || job.gpu_memory.is_some())
}

/// Whether the energy of any job is known.
fn has_energy(data: &Data) -> bool {
    data.jobs.iter().any(|job| cost::energy_j(&job.samples).is_some())
}

/// Whether any job lost CPU beside others; otherwise there is no column for it.
fn has_lost(data: &Data) -> bool {
    data.jobs.iter().any(|job| cost::lost_s(job.job.lost_cpu_s).is_some())
}

fn job_row(data: &Data, place: usize, job: &Series) -> String {
    let cpu = job.work.last().map_or(0.0, |last| last.1);
    let open = if job.end_s.is_none() { " so far" } else { "" };
    let metric = safe(job.job.metric.as_deref().unwrap_or("value"));
    let evaluation = match job.values {
        Some((first, _)) if job.diverged => format!("{metric} {} → NaN", text::number_text(first)),
        Some((first, last)) => format!("{metric} {} → {}", text::number_text(first), text::number_text(last)),
        None if job.diverged => format!("{metric} NaN"),
        None => "–".to_owned(),
    };
    let estimated = data.estimate.jobs.get(place).copied().flatten();
    let (plain, change, class) = match estimated {
        Some(plain) => {
            let gain = gain(job, plain.completion_s);
            let Range { low, likely, high } = plain.completion_s;
            let range = format!("{} to {}", text::duration(low), text::duration(high));
            let plain = with_detail(&text::duration(likely), &range);
            let class = if gain.high < 0.0 {
                "better"
            } else if gain.low > 0.0 {
                "worse"
            } else {
                ""
            };
            let range = format!("{} to {}", signed(gain.low), signed(gain.high));
            (plain, with_detail(&signed(gain.likely), &range), class)
        }
        None => ("–".to_owned(), "–".to_owned(), ""),
    };
    let or_dash = |known: Option<String>| known.unwrap_or_else(|| "–".to_owned());
    let lost = if has_lost(data) {
        let lost = or_dash(cost::lost_s(job.job.lost_cpu_s).map(text::duration));
        let whole = job.samples.iter().rev().find_map(|sample| sample.cpu_s);
        let part = cost::disturbed(job.job.lost_cpu_s, whole);
        let marked = part.map(|part| with_detail(&lost, &format!("disturbed: {} of its CPU", text::percent(part))));
        format!("<td>{}</td>", marked.unwrap_or(lost))
    } else {
        String::new()
    };
    let energy = if has_energy(data) {
        format!("<td>{}</td>", or_dash(cost::energy_j(&job.samples).map(cost::energy)))
    } else {
        String::new()
    };
    let gpus = if has_gpus(data) {
        let used = or_dash(job.gpus.map(|gpus| format!("{gpus:.2}")));
        format!("<td>{used}</td><td>{}</td>", or_dash(job.gpu_memory.map(text::bytes)))
    } else {
        String::new()
    };
    format!(
        "<tr><th scope=\"row\">{}</th><td class=\"left\">{}</td><td>{}{open}</td><td class=\"left\">{}</td><td>{}</td>{lost}{energy}<td>{:.2}</td>{gpus}<td class=\"left\">{evaluation}</td>\
         <td>{}</td><td>{plain}</td><td class=\"{class}\">{change}</td></tr>",
        safe(&job.job.name),
        clock(data, job.job.started_unix_ms),
        text::duration(job.took_s),
        history::end(&job.job),
        text::duration(cpu),
        cpu / (job.seen_s - job.start_s).max(1e-9),
        quality(job, estimated.and_then(|plain| plain.quality_s)),
    )
}

/// The time of day, with the date if the report is longer than a day or the time is before its start.
fn clock(data: &Data, unix_ms: u64) -> String {
    let plain = when::clock(unix_ms);
    let is_near = unix_ms >= data.since && data.length_s() < 86_400.0;
    if is_near { plain.get(11..).unwrap_or(&plain).to_owned() } else { plain }
}

/// When the job reached 95 % of its improvement, and when it would have under plain sharing.
fn quality(job: &Series, plain: Option<Range>) -> String {
    let Some(at) = job.quality_s else { return "–".to_owned() };
    let at = text::duration(at - job.start_s);
    plain.map_or(at.clone(), |plain| with_detail(&at, &format!("plain {}", text::duration(plain.likely))))
}

/// A cell's value, with a range or a comparison in small print below it: ten columns fit a page of 1,200 pixels.
fn with_detail(value: &str, detail: &str) -> String {
    format!("{value} <small>{detail}</small>")
}

/// The numbers of a chart over time as a table.
pub(super) fn over_time(
    data: &Data,
    drawn: &Drawn,
    what: &str,
    of: impl Fn(&Series, f64) -> f64,
    is_part: bool,
) -> String {
    let step = data.length_s() / (INSTANTS - 1) as f64;
    let times: Vec<f64> = (0..INSTANTS).map(|n| n as f64 * step).collect();
    let heads: String = times.iter().map(|at| format!("<th scope=\"col\">{}</th>", text::duration(*at))).collect();
    let cell = |job: &Series, at: f64| {
        if at < job.start_s || at > job.seen_s {
            return "<td>–</td>".to_owned();
        }
        let value = of(job, at);
        format!("<td>{}</td>", if is_part { text::percent(value) } else { format!("{value:.2}") })
    };
    let rows: String = drawn
        .jobs()
        .iter()
        .map(|job| {
            let cells: String = times.iter().map(|at| cell(job, *at)).collect();
            format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", safe(&name(job)))
        })
        .collect();
    let table = format!(
        "<table><caption>{what}, by time since the start of the report</caption><thead><tr><th scope=\"col\">job</th>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table>"
    );
    format!("<details><summary>The same as a table</summary>{}</details>", scrolled(what, &table, false))
}

/// The node's pressure over time.
pub(super) fn pressure(data: &Data) -> String {
    let every = data.node.len().div_ceil(INSTANTS).max(1);
    let part = |part: Option<f64>| part.map_or_else(|| "–".to_owned(), text::percent);
    let rows: String = data
        .node
        .iter()
        .step_by(every)
        .map(|node| {
            let pressure = node.pressure;
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                clock(data, node.unix_ms.max(data.since)),
                part(pressure.cpu),
                part(pressure.memory),
                part(pressure.io)
            )
        })
        .collect();
    let table = format!(
        "<table><caption>Pressure</caption><thead><tr><th scope=\"col\">time</th><th scope=\"col\">CPU</th><th scope=\"col\">memory</th>\
         <th scope=\"col\">I/O</th></tr></thead><tbody>{rows}</tbody></table>"
    );
    format!("<details><summary>The same as a table</summary>{}</details>", scrolled("pressure", &table, false))
}

/// Wraps a wide table so that it can be scrolled, also by keyboard.
pub(super) fn scrolled(label: &str, table: &str, is_tall: bool) -> String {
    let class = if is_tall { "scroll tall" } else { "scroll" };
    format!("<div class=\"{class}\" role=\"region\" aria-label=\"{label}\" tabindex=\"0\">{table}</div>")
}

/// Table of changed decisions and of commands, holds and notices.
pub(super) fn decisions(data: &Data) -> String {
    let mut rows: Vec<(u64, String)> = data.jobs.iter().flat_map(|job| changed_decisions(data, job)).collect();
    let events = data.events.iter().map(|event| {
        let who = event.name.as_deref().map_or_else(|| "node".to_owned(), safe);
        (event.unix_ms, row(data, event.unix_ms, &who, "–", "–", &safe(&event.text)))
    });
    rows.extend(events);
    rows.sort_by_key(|(unix_ms, _)| *unix_ms);
    let omitted = rows.len().saturating_sub(DECISIONS);
    let shown: String = rows.into_iter().skip(omitted).map(|(_, row)| row).collect();
    let note = if omitted > 0 {
        format!(
            " Only the newest {DECISIONS} are shown; <code>flowctl history JOB</code> lists the {omitted} older ones."
        )
    } else {
        String::new()
    };
    scrolled(
        "Decisions",
        &format!(
            "<table><caption>Changed decisions, commands and notices.{note}</caption><thead><tr><th scope=\"col\">time</th>\
             <th scope=\"col\" class=\"left\">job</th><th scope=\"col\">share</th><th scope=\"col\">weight</th>\
             <th scope=\"col\" class=\"left\">why</th></tr></thead><tbody>{shown}</tbody></table>"
        ),
        true,
    )
}

/// Rows for the samples at which a job's decision changed.
fn changed_decisions(data: &Data, job: &Series) -> Vec<(u64, String)> {
    let mut rows = Vec::new();
    let mut before: Option<(&str, f64, Option<&str>)> = None;
    for sample in &job.samples {
        let Some(decision) = &sample.decision else { continue };
        let share = sample.share.unwrap_or(0.0);
        let now = (decision.rule.as_str(), share, sample.hold.as_deref());
        let is_new = before.is_none_or(|before| {
            before.0 != now.0 || before.2 != now.2 || (before.1 - share).abs() > 0.1 * before.1.max(share)
        });
        if is_new {
            let weight = sample.cpu_weight.map_or_else(|| "–".to_owned(), |weight| weight.to_string());
            let why = sample.hold.as_ref().map_or_else(|| decision.text.clone(), |hold| format!("left alone: {hold}"));
            let name = safe(&job.job.name);
            rows.push((sample.unix_ms, row(data, sample.unix_ms, &name, &text::percent(share), &weight, &safe(&why))));
            before = Some(now);
        }
    }
    rows
}

fn row(data: &Data, unix_ms: u64, who: &str, share: &str, weight: &str, why: &str) -> String {
    format!(
        "<tr><td class=\"left\">{}</td><td class=\"left name\">{who}</td><td>{share}</td><td>{weight}</td><td class=\"wide\">{why}</td></tr>",
        clock(data, unix_ms)
    )
}
