//! The report's page, with its texts and tables.

use super::{SimulationReport, charts};
use chart::{document, escaped, legend, section};
use sim::Outcome;
use sim::compare::{Change, Summary};

/// The whole report as one HTML document.
pub(crate) fn html(report: &SimulationReport) -> String {
    let scenario = escaped(&report.comparison.scenario);
    let body = [
        format!("<header><h1>{scenario}</h1><p>{}</p></header>", introduction(report)),
        section("Summary", &means(report)),
        section("Changes of completion times, all seeds", &all_seeds(report)),
        section(&format!("Completion times side by side, seed {}", report.seed), &side_by_side(report)),
        policies(report),
        "<footer>Simulated by flowsim in virtual time with the policy code of the daemon; the same command gives the same figures.</footer>"
            .to_owned(),
    ]
    .concat();
    document(&format!("flowsim: {}", report.comparison.scenario), &format!("<main>{body}</main>"))
}

fn introduction(report: &SimulationReport) -> String {
    let (jobs, cores, seeds) = (report.jobs.len(), report.cores, report.comparison.seeds);
    let best = report.comparison.policies.iter().filter(|run| run.name != "fair").map(|run| {
        let part = |of: fn(&Summary) -> f64| Change::between(of(&report.comparison.fair), of(&run.summary));
        (run, part(|summary| summary.mean_completion_s), part(|summary| summary.mean_t95_s))
    });
    let best = best.min_by(|a, b| (a.1.0 + a.2.0).total_cmp(&(b.1.0 + b.2.0)));
    let headline = best.map_or_else(String::new, |(run, completion, quality)| {
        format!(
            " Best on both means together: <b>{}</b>, with mean completion {completion} and mean time to 95 % quality {quality} against plain sharing.",
            escaped(&run.name),
        )
    });
    format!("{jobs} jobs on {cores} cores, {seeds} random schedules (seeds).{headline}")
}

/// The table of means.
fn means(report: &SimulationReport) -> String {
    let fair = &report.comparison.fair;
    let rows = report.comparison.policies.iter().map(|run| {
        let cell = |of: fn(&Summary) -> f64| match run.name.as_str() {
            "fair" => format!("<td>{:.1}</td>", of(fair)),
            _ => cell_against(of(fair), of(&run.summary)),
        };
        format!(
            "<tr><th>{}</th>{}{}{}{}<td>{}</td><td>{:.1}</td></tr>",
            escaped(&run.name),
            cell(|summary| summary.mean_completion_s),
            cell(|summary| summary.p95_completion_s),
            cell(|summary| summary.mean_t95_s),
            cell(|summary| summary.makespan_s),
            Change(run.summary.worst_vs_fair),
            run.summary.jobs_faster,
        )
    });
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>policy</th><th>mean completion, s</th><th>p95 completion, s</th>\
         <th>mean to 95 % quality, s</th><th>makespan, s</th><th>worst job against fair</th><th>jobs faster</th></tr></thead>\
         <tbody>{}</tbody></table></div>",
        rows.collect::<String>()
    )
}

/// A table cell with a time and its change from the baseline, coloured beyond half a per cent.
pub(crate) fn cell_against(base: f64, value: f64) -> String {
    let change = Change::between(base, value);
    let class = if change.0 < -0.005 {
        "better"
    } else if change.0 > 0.005 {
        "worse"
    } else {
        ""
    };
    format!("<td>{value:.1} <small class=\"{class}\">{change}</small></td>")
}

fn policy_names(report: &SimulationReport) -> Vec<String> {
    report.runs.iter().map(|(name, _)| name.clone()).collect()
}

fn all_seeds(report: &SimulationReport) -> String {
    let note = "<p>For each policy, the part of all jobs (upwards) whose completion time changed by at most the value below: left of the line is faster \
                than plain sharing, right of it slower.</p>";
    format!("{note}{}{}", legend(&policy_names(report)), charts::changes_of_all_seeds(report))
}

fn side_by_side(report: &SimulationReport) -> String {
    legend(&policy_names(report)) + &charts::completions(report)
}

/// One section of charts for each policy.
fn policies(report: &SimulationReport) -> String {
    let legend = legend(&report.job_names());
    report.runs.iter().map(|(name, run)| section(name, &format!("{legend}{}", charts_of(report, name, run)))).collect()
}

fn charts_of(report: &SimulationReport, name: &str, run: &Outcome) -> String {
    let mut figures = vec![
        ("Share of the node", charts::shares(report, run)),
        ("CPU use of each job", charts::cpu_use(report, run)),
        ("Evaluations, as parts of the final improvement", charts::evaluations(report, run)),
        ("Run of each job, with a mark at 95 % quality", charts::gantt(report, run)),
    ];
    if name != "fair" {
        figures.push(("Completion times against plain sharing", charts::changes(report, run)));
    }
    let figure = |(title, svg): (&str, String)| format!("<figure><figcaption>{title}</figcaption>{svg}</figure>");
    format!("<div class=\"grid2\">{}</div>", figures.into_iter().map(figure).collect::<String>())
}
