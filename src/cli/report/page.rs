//! The page: summary, charts, tables and method of the estimate. Plain HTML and SVG, without scripts or external resources.
//!
//! Names and texts are untrusted: all of them go through [`safe`].

use super::charts::{Drawn, PRESSURES, held};
use super::data::{Data, Series};
use super::estimate::Range;
use super::forecasts;
use super::measured;
use super::sweeps;
use super::tables::{INSTANTS, decisions, jobs_table, over_time, pressure, safe};
use chart::{document, legend};
use term::text;
use term::when;

/// Maximum number of jobs in the charts; all jobs are in the table.
const DRAWN: usize = 24;

/// The whole report as one HTML document.
pub(super) fn html(data: &Data) -> String {
    let drawn = Drawn::new(data, DRAWN);
    let sections = [
        Some(("summary", "Summary", summary(data))),
        Some(("jobs", "The jobs", jobs_table(data))),
        measured::is_shown(data).then(|| ("measured", "Measured against control periods", measured::section(data))),
        sweeps::section(data).map(|section| ("sweeps", "Sweeps", section)),
        Some(("times", "Completion", completion(data, &drawn))),
        Some(("charts", "Charts", charts(data, &drawn))),
        Some(("decisions", "Decisions", decisions(data))),
        Some(("method", "How the estimate is made", method(data))),
    ];
    let sections: Vec<_> = sections.into_iter().flatten().collect();
    let links: String =
        sections.iter().map(|(id, title, _)| format!("<li><a href=\"#{id}\">{title}</a></li>")).collect();
    let body = [
        header(data),
        format!("<nav aria-label=\"Sections\"><ul>{links}</ul></nav>"),
        sections.iter().map(|(id, title, content)| section(id, title, content)).collect(),
        format!(
            "<footer>Made by flowctl {} from the history that flowcond keeps. The page needs no network and sends nothing.</footer>",
            env!("CARGO_PKG_VERSION")
        ),
    ]
    .concat();
    let body = format!("<a class=\"skip\" href=\"#summary\">Skip to the figures</a><main>{body}</main>");
    document(&format!("flowcon report: {}", text::clean(&data.hostname)), &body)
}

fn section(id: &str, title: &str, content: &str) -> String {
    format!("<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2>{content}</section>")
}

fn header(data: &Data) -> String {
    let mut policies: Vec<&str> = data.node.iter().map(|node| node.policy.as_str()).collect();
    policies.dedup();
    let policies = safe(&policies.join(", then "));
    format!(
        "<header><h1>flowcon report: {}</h1><p>{} to {}, {} · {} cores · policy {policies}</p></header>",
        safe(&data.hostname),
        when::clock(data.since),
        when::clock(data.until),
        text::duration(data.length_s()),
        text::number_text(data.cores()),
    )
}

fn summary(data: &Data) -> String {
    let ended = data.jobs.iter().filter(|job| job.end_s.is_some());
    // The estimate leaves out the same jobs.
    let whole: Vec<f64> = ended.clone().filter(|job| job.began_here).map(|job| job.took_s).collect();
    let cpu: f64 = data.jobs.iter().filter_map(|job| job.work.last()).map(|last| last.1).sum();
    let used = cpu / (data.length_s() * data.cores()).max(1e-9);
    let mean = whole.iter().sum::<f64>() / whole.len().max(1) as f64;
    let fact = |name: &str, value: &str, note: &str| {
        format!("<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>")
    };
    let mut facts = fact("Jobs", &data.jobs.len().to_string(), &format!("{} ended", ended.count()));
    facts += &fact("CPU time", &text::duration(cpu), &format!("{} of the node", text::percent(used)));
    let mut story = String::new();
    if !whole.is_empty() {
        let of = format!("measured, {}", text::count(whole.len(), "job"));
        facts += &fact("Mean completion", &text::duration(mean), &of);
    }
    if let Some(plain) = data.estimate.mean_completion_s {
        let doubt = format!("estimated: {} to {}", text::duration(plain.low), text::duration(plain.high));
        facts += &fact("Under plain sharing", &text::duration(plain.likely), &doubt);
        story = format!("<p>{}</p>", verdict(mean, plain));
    }
    if let Some(found) = forecasts::accuracy(&data.jobs) {
        let error = found
            .error_at_half
            .map_or_else(String::new, |error| format!("; wrong by {} at half", text::percent(error)));
        let note = format!("of {} had the end in their 80 % range{error}", text::count(found.forecasts, "forecast"));
        facts += &fact("Time left", &text::percent(found.inside), &note);
    }
    if let Some((name, value, note)) = measured::fact(data) {
        facts += &fact(name, &value, &note);
    }
    if measured::is_shown(data) {
        story = measured::story(data) + &story;
    }
    format!("<dl class=\"facts\">{facts}</dl>{story}")
}

/// Compares the mean completion times; claims a gain or cost only outside the range of the estimate.
fn verdict(mean: f64, plain: Range) -> String {
    let part = |plain: f64| 100.0 * (1.0 - mean / plain.max(1e-9));
    let gain = format!(
        "an estimated {:.0} %, between {:.0} % and {:.0} %",
        part(plain.likely).abs(),
        part(plain.low),
        part(plain.high)
    );
    if mean < plain.low {
        format!(
            "<b class=\"better\">Governing gained</b> on the mean completion time: {gain} less than plain sharing would have taken."
        )
    } else if mean > plain.high {
        let cost = format!(
            "an estimated {:.0} %, between {:.0} % and {:.0} %",
            part(plain.likely).abs(),
            -part(plain.high),
            -part(plain.low)
        );
        format!(
            "<b class=\"worse\">Governing cost</b> mean completion time: {cost} more than plain sharing would have taken."
        )
    } else {
        "The mean completion time differs from the estimate for plain sharing by less than its uncertainty: \
         <b>no gain and no cost can be claimed</b>."
            .to_owned()
    }
}

fn completion(data: &Data, drawn: &Drawn) -> String {
    if !data.jobs.iter().any(|job| job.began_here && job.end_s.is_some()) {
        return "<p>No job started and ended in this time, so there is nothing to compare.</p>".to_owned();
    }
    let is_any_estimated = data.estimate.jobs.iter().any(Option::is_some);
    let note = if is_any_estimated {
        "coloured: measured; grey: estimate for plain sharing, with its uncertainty"
    } else {
        "measured"
    };
    let times = figure("Completion times", note, &drawn.completions(), "");
    let gains = is_any_estimated.then(|| {
        let note = "left is faster than plain sharing; grey is within the uncertainty";
        figure("Estimated gain or cost", note, &drawn.gains(), "")
    });
    let left_out = match data.estimate.unclear {
        0 => String::new(),
        jobs => format!(
            " For {} there is no estimate: it could be wrong by a factor of two or more.",
            text::count(jobs, "job")
        ),
    };
    format!(
        "<div class=\"grid2\">{times}{}</div><p class=\"note\">The table of jobs above has the same numbers.{left_out}</p>",
        gains.unwrap_or_default()
    )
}

fn charts(data: &Data, drawn: &Drawn) -> String {
    let names = drawn.names();
    let others = data.jobs.len() - names.len();
    let omitted = if others > 0 {
        format!(
            "<p class=\"note\">The {} jobs that used the most CPU are drawn; {others} more are in the table.</p>",
            names.len()
        )
    } else {
        String::new()
    };
    let share = |job: &Series, at: f64| held(&job.shares, at);
    let step = data.length_s() / (INSTANTS - 1) as f64;
    let cores = move |job: &Series, at: f64| {
        let from = (at - step).max(0.0);
        let used = super::estimate::at(&job.work, at) - super::estimate::at(&job.work, from);
        used / (at - from).max(1e-9)
    };
    let improvement = |job: &Series, at: f64| held(&job.improvement, at);
    let figures = [
        figure("When each job ran", "the mark is 95 % of its improvement", &drawn.gantt(), ""),
        figure(
            "Shares of the node",
            "as planned for the case that all jobs want more",
            &drawn.shares(),
            &over_time(data, drawn, "share", share, true),
        ),
        figure(
            "CPU used",
            "cores",
            &drawn.cpu(),
            &over_time(data, drawn, "cores, mean since the previous column", cores, false),
        ),
        figure(
            "Evaluation curves",
            "fractions of each job's improvement",
            &drawn.evaluations(),
            &over_time(data, drawn, "fraction of its improvement", improvement, true),
        ),
        figure(
            "Pressure on the node",
            "fraction of time in which some task waited",
            &(legend(&PRESSURES.map(str::to_owned)) + &drawn.pressure()),
            &pressure(data),
        ),
    ];
    format!("{omitted}{}<div class=\"grid2\">{}</div>", legend(&names), figures.concat())
}

fn figure(title: &str, note: &str, picture: &str, table: &str) -> String {
    format!("<figure><figcaption><h3>{title}</h3><p>{note}</p></figcaption>{picture}{table}</figure>")
}

fn method(data: &Data) -> String {
    let estimate = &data.estimate;
    let error = estimate.error.map_or_else(
        || "No job started and ended in this time, so the model could not be tested.".to_owned(),
        |error| format!("Here its mean error is {}.", text::percent(error)),
    );
    format!(
        "<p>Completion times under plain sharing are <b>estimated</b>: the jobs were not run a second time.</p>\
         <p>Each job that ended is modelled as the CPU time that it used, in core-seconds, with its recorded start. These jobs are replayed \
         under plain sharing: at each instant the cores are divided by the weights that the jobs had before the governor's first \
         change, no job gets more than it can use, and what one job leaves goes to the others (weighted max-min fairness, as in the \
         kernel's scheduler). Jobs that are still running, and jobs that started before the report, compete but are not estimated. A job \
         that started before the report is replayed from the start of the report.</p>\
         <p>Two inputs are uncertain: the cores that were available to the jobs ({:.2}, between {:.2} and {:.2}, from what they used together), \
         and the most cores that each job can use (what it used while cores were free; if there never were any, up to all cores). \
         The range of the estimate covers the replays with each of these.</p>\
         <p>The same replay with the recorded weights should give the measured completion times. {error} For each job, the larger of its own \
         error and 2 % plus that average is added to both ends of its range. A gain or a cost is claimed only if the whole range \
         agrees. On simulated jobs, for which the true value is known, the range contains it for nine jobs of ten; a real machine is less \
         predictable.</p>\
         <p>\"Time left\" judges the times to the end that <code>flowctl status</code> showed, for jobs that ran to their end: how many had the \
         end within their range, in which four of five should be, and the median error at half of a job's time.</p>\
         <p>Not modelled: work that depends on timing, caches, memory and I/O limits, and jobs that users would have started at other \
         times. To measure instead, set <code>policy.holdback</code>, or run the same list of jobs both ways with \
         <code>flowctl bench</code>.</p>",
        estimate.cores.likely, estimate.cores.low, estimate.cores.high,
    )
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
