//! `flowsim cluster --report`: an HTML page with the results over all seeds and charts of one seed.

use crate::report::cell_against;
use chart::{Margins, Plot, document, escaped, legend, section, series};
use sim::cluster::{
    ClusterComparison, ClusterOutcome, ClusterScenario, ClusterSummary, ClusterVariant, Stay, Submission, run,
};
use sim::compare::Change;

const WIDTH: f64 = 1120.0;
const FIELD: f64 = 220.0;
/// Height of one job on a node.
const LANE: f64 = 9.0;
/// Larger numbers are not drawn.
const NODES_SHOWN: usize = 64;
const JOBS_SHOWN: usize = 400;

/// One seed in detail.
struct Shown<'a> {
    submissions: &'a [Submission],
    runs: Vec<(&'a str, ClusterOutcome)>,
}

/// Renders the page: the comparison, and `seed` again under every policy.
///
/// # Errors
/// As for the comparison.
pub(super) fn html(
    comparison: &ClusterComparison,
    scenario: &ClusterScenario,
    variants: &[ClusterVariant],
    move_s: f64,
    seed: u64,
) -> Result<String, String> {
    let submissions = scenario.draw(seed);
    let runs = variants.iter().map(|variant| Ok((&*variant.name, run(scenario, variant, &submissions, move_s, seed)?)));
    let shown = Shown { submissions: &submissions, runs: runs.collect::<Result<_, String>>()? };
    let ClusterComparison { scenario: name, nodes, seeds, .. } = comparison;
    let jobs = submissions.len();
    let body = [
        format!("<header><h1>{}</h1><p>{jobs} jobs on {nodes} nodes, {seeds} random schedules (seeds).</p></header>", escaped(name)),
        section("Summary", &means(comparison)),
        section(&format!("Completion, seed {seed}"), &completions(&shown)),
        nodes_over_time(&shown, *nodes),
        "<footer>Simulated by flowsim in virtual time with the policy code of the coordinator and the daemon; the same command gives the same \
         figures.</footer>"
            .to_owned(),
    ];
    Ok(document(&format!("flowsim: {name}"), &format!("<main>{}</main>", body.concat())))
}

/// The table of means over all seeds, against the baseline.
fn means(comparison: &ClusterComparison) -> String {
    let row = |(name, summary): &(String, ClusterSummary)| {
        let cell = |of: fn(&ClusterSummary) -> f64| cell_against(of(&comparison.base), of(summary));
        format!(
            "<tr><th>{}</th>{}{}{}<td>{}</td><td>{:.1}</td></tr>",
            escaped(name),
            cell(|summary| summary.mean_completion_s),
            cell(|summary| summary.mean_t95_s),
            cell(|summary| summary.makespan_s),
            Change(summary.worst_vs_base),
            summary.moves,
        )
    };
    let rows: String = comparison.policies.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>policy</th><th>mean completion, s</th><th>mean to 95 % quality, s</th>\
         <th>makespan, s</th><th>worst job against swarm</th><th>moves</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// Cumulative part of the jobs by completion time, one line per policy.
fn completions(shown: &Shown) -> String {
    let longest =
        shown.runs.iter().flat_map(|(_, run)| &run.completions_s).fold(1.0_f64, |longest, took| longest.max(*took));
    let margins = Margins { top: 8.0, right: 14.0, bottom: 34.0, left: 46.0 };
    let mut plot = Plot::new(WIDTH, FIELD + 42.0, margins, (0.0, longest), (0.0, 1.0));
    plot.x_axis("seconds from submission to end", |value| format!("{value:.0}"));
    plot.y_axis(|value| format!("{:.0} %", 100.0 * value));
    for (number, (policy, run)) in shown.runs.iter().enumerate() {
        let mut sorted = run.completions_s.clone();
        sorted.sort_by(f64::total_cmp);
        let part = |jobs: usize| jobs as f64 / sorted.len().max(1) as f64;
        let steps =
            sorted.iter().enumerate().flat_map(|(before, took)| [(*took, part(before)), (*took, part(before + 1))]);
        let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0)).chain(steps).chain([(longest, 1.0)]).collect();
        plot.line(&points, &series(number), policy);
    }
    let names: Vec<String> = shown.runs.iter().map(|(policy, _)| (*policy).to_owned()).collect();
    let note =
        "<p>The part of the jobs (upwards) that had ended the given number of seconds after their submission.</p>";
    format!("{note}{}{}", legend(&names), plot.inline("Part of the jobs by seconds from submission to end"))
}

/// Stays of jobs on nodes, one chart per policy.
fn nodes_over_time(shown: &Shown, nodes: usize) -> String {
    if nodes > NODES_SHOWN || shown.submissions.len() > JOBS_SHOWN {
        let note = format!("<p>The nodes are drawn only for at most {NODES_SHOWN} nodes and {JOBS_SHOWN} jobs.</p>");
        return section("Nodes", &note);
    }
    let end_s = shown.runs.iter().flat_map(|(_, run)| &run.stays).map(|stay| stay.span_s.1).fold(1.0, f64::max);
    let chart = |(policy, run): &(&str, ClusterOutcome)| {
        let note = format!(
            "<p>Moves: {}. A bar is a job on a node; all bars of a job have the same colour and edge.</p>",
            run.moves
        );
        section(policy, &(note + &timeline(shown, run, nodes, end_s)))
    };
    shown.runs.iter().map(chart).collect()
}

fn timeline(shown: &Shown, run: &ClusterOutcome, nodes: usize, end_s: f64) -> String {
    let lanes = lanes(&run.stays, nodes);
    let count = |node: usize| {
        lanes.iter().zip(&run.stays).filter(|(_, stay)| stay.node == node).map(|(lane, _)| lane + 1).max()
    };
    // Half a lane below each node's lanes is left free.
    let mut tops = vec![0.0];
    for node in 0..nodes {
        tops.push(tops[node] + count(node).unwrap_or(1) as f64 + 0.5);
    }
    let rows = tops[nodes];
    let margins = Margins { top: 8.0, right: 14.0, bottom: 34.0, left: 70.0 };
    let mut plot = Plot::new(WIDTH, rows * LANE + 42.0, margins, (0.0, end_s), (0.0, rows));
    plot.x_axis("seconds", |value| format!("{value:.0}"));
    for (node, top) in tops[..nodes].iter().enumerate() {
        plot.text(62.0, plot.y.at(rows - top) + LANE, "label end", &format!("node {}", node + 1));
    }
    for (lane, Stay { job, node, span_s: (from, to), .. }) in lanes.iter().zip(&run.stays) {
        let y = rows - tops[*node] - *lane as f64;
        let name = shown.submissions[*job].job.plan.name.as_str();
        plot.bar((*from, *to), (y - 0.08, y - 0.92), &series(*job), &format!("{name}: {from:.0} s to {to:.0} s"));
    }
    plot.inline("Jobs on each node over time")
}

/// Assigns each stay the first free lane of its node; stays must be sorted by start.
fn lanes(stays: &[Stay], nodes: usize) -> Vec<usize> {
    let mut ends: Vec<Vec<f64>> = vec![Vec::new(); nodes];
    let lane = |stay: &Stay| {
        let ends = &mut ends[stay.node];
        let lane = ends.iter().position(|end| *end <= stay.span_s.0).unwrap_or(ends.len());
        ends.resize(ends.len().max(lane + 1), 0.0);
        ends[lane] = stay.span_s.1;
        lane
    };
    stays.iter().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_stays_have_separate_lanes_and_free_lanes_are_reused() {
        let stay = |node: usize, from: f64, to: f64| Stay { job: 0, worker: 0, node, span_s: (from, to) };
        let stays = [stay(0, 0.0, 5.0), stay(0, 1.0, 3.0), stay(1, 1.0, 9.0), stay(0, 3.0, 4.0), stay(0, 4.0, 6.0)];
        assert_eq!(lanes(&stays, 2), [0, 1, 0, 1, 1]);
    }
}
