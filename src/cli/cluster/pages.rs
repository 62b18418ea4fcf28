//! The pages of `flowctl cluster`. Pure.

use api::wire::{Alternative, Cluster, ClusterEvent, ClusterJob, ClusterNode};
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};
use term::{text, when};

/// The nodes, then the jobs.
pub(super) fn status(cluster: &Cluster, look: &Look) -> String {
    let mut page = String::new();
    if let Some(why) = cluster.why.as_deref().filter(|_| !cluster.acts) {
        page.push_str(&format!("{}\n\n", look.wrapped(&text::clean(why), 0)));
    }
    let columns = [
        Column::elastic("NODE", 8),
        Column::left("STATE"),
        Column::right("CPU"),
        Column::right("MEMORY"),
        Column::right("GPUS"),
        Column::right("JOBS"),
        Column::elastic("WHY", 20),
    ];
    let rows: Vec<Vec<Cell>> = cluster.nodes.iter().map(node).collect();
    page.push_str(&table(&columns, &rows, look));
    page.push('\n');
    page.push_str(&jobs(&cluster.jobs, look));
    page
}

fn node(node: &ClusterNode) -> Vec<Cell> {
    let tone = match node.state.as_str() {
        "ready" => Tone::Good,
        "draining" => Tone::Plain,
        _ => Tone::Bad,
    };
    let cores = match (node.used_cores, node.cores) {
        (Some(used), Some(cores)) => Some(format!("{used:.1} of {}", text::number_text(cores))),
        (None, Some(cores)) => Some(text::number_text(cores)),
        (_, None) => None,
    };
    vec![
        Cell::plain(&node.name),
        Cell::new(tone, &node.state),
        Cell::or_dash(cores),
        Cell::plain(&text::bytes(node.memory_bytes)),
        Cell::or_dash((node.gpus > 0).then(|| node.gpus.to_string())),
        Cell::plain(&node.workers.to_string()),
        Cell::or_dash(node.why.clone()),
    ]
}

/// One line per worker.
fn jobs(jobs: &[ClusterJob], look: &Look) -> String {
    if jobs.is_empty() {
        return "No jobs yet. Submit one: `flowctl cluster submit --name NAME --image IMAGE -- COMMAND`\n".to_owned();
    }
    let columns = [
        Column::elastic("JOB", 8),
        Column::left("STATE"),
        Column::elastic("NODE", 8),
        Column::left("PROGRESS"),
        Column::right("MOVES"),
        Column::elastic("WHY", 20),
    ];
    let rows: Vec<Vec<Cell>> = jobs.iter().map(job).collect();
    table(&columns, &rows, look)
}

fn job(job: &ClusterJob) -> Vec<Cell> {
    let place = match (&job.node, &job.to) {
        (Some(node), Some(to)) if node != to => Some(format!("{node} → {to}")),
        (None, Some(to)) => Some(format!("→ {to}")),
        (node, _) => node.clone(),
    };
    vec![
        Cell::plain(&job.name),
        Cell::new(tone_of(job), &job.state),
        Cell::or_dash(place),
        Cell::or_dash(progress(job)),
        Cell::or_dash((job.moves > 0).then(|| job.moves.to_string())),
        Cell::or_dash(why(job)),
    ]
}

fn tone_of(job: &ClusterJob) -> Tone {
    match job.state.as_str() {
        "running" | "done" => Tone::Good,
        "failed" | "refused" => Tone::Bad,
        _ => Tone::Plain,
    }
}

fn progress(job: &ClusterJob) -> Option<String> {
    let units = text::number_text(job.units?);
    Some(job.total.map_or(units.clone(), |total| format!("{units} of {}", text::number_text(total))))
}

/// The exit code, or what the job waits for, or the reason for its placement.
fn why(job: &ClusterJob) -> Option<String> {
    match job.exit_code {
        Some(code) => Some(format!("exit code {code}")),
        None => job.why.as_ref().map(|why| why.text.clone()).or_else(|| job.reason.clone()),
    }
}

/// The waiting jobs.
pub(super) fn queue(jobs: &[ClusterJob], look: &Look) -> String {
    if jobs.is_empty() {
        return "No jobs are waiting\n".to_owned();
    }
    let columns = [Column::elastic("JOB", 8), Column::left("STATE"), Column::elastic("WAITS FOR", 30)];
    let rows: Vec<Vec<Cell>> = jobs
        .iter()
        .map(|job| vec![Cell::plain(&job.name), Cell::new(tone_of(job), &job.state), Cell::or_dash(why(job))])
        .collect();
    table(&columns, &rows, look)
}

/// The jobs that ended.
pub(super) fn ended(jobs: &[ClusterJob], look: &Look) -> String {
    if jobs.is_empty() {
        return "No jobs have ended yet\n".to_owned();
    }
    let columns = [
        Column::elastic("JOB", 8),
        Column::left("STATE"),
        Column::right("EXIT CODE"),
        Column::left("NODE"),
        Column::left("PROGRESS"),
        Column::right("MOVES"),
    ];
    let rows: Vec<Vec<Cell>> = jobs
        .iter()
        .map(|job| {
            vec![
                Cell::plain(&job.name),
                Cell::new(tone_of(job), &job.state),
                Cell::or_dash(job.exit_code.map(|code| code.to_string())),
                Cell::or_dash(job.node.clone()),
                Cell::or_dash(progress(job)),
                Cell::plain(&job.moves.to_string()),
            ]
        })
        .collect();
    table(&columns, &rows, look)
}

/// All details of the given workers. `cost`: what all jobs of the cluster have cost so far.
pub(super) fn explain(jobs: &[ClusterJob], cost: f64, look: &Look) -> String {
    jobs.iter().map(|job| explained(job, cost, look)).collect::<Vec<_>>().join("\n")
}

fn explained(job: &ClusterJob, all_cost: f64, look: &Look) -> String {
    let mut page = format!("{}\n", look.paint(Tone::Bold, &text::clean(&job.name)));
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            page.push_str(&format!("  {name:<11}{}\n", look.wrapped(&text::clean(&value), 13)));
        }
    };
    line("gang", job.gang.clone());
    line("state", Some(job.state.clone()));
    line("node", job.node.clone());
    line("moving to", job.to.clone());
    line("why", job.why.as_ref().map(|why| why.text.clone()));
    line("decision", job.reason.clone());
    line("problem", job.mark.clone());
    line("deadline", job.deadline_unix_ms.map(when::clock));
    line("ends", job.expected_end_unix_ms.map(|end| format!("{} (estimate)", when::clock(end))));
    line("in time", job.late.map(|late| in_time(job, late)));
    for (at, alternative) in job.alternatives.iter().enumerate() {
        line(if at == 0 { "ways" } else { "" }, Some(way(alternative)));
    }
    line("cost", job.cost.map(|cost| format!("{cost:.2} so far, {all_cost:.2} for all jobs")));
    line("progress", progress(job));
    line("moves", Some(job.moves.to_string()));
    line("last move", job.last_move_s.map(|seconds| format!("{} without progress", text::duration(seconds))));
    line("exit code", job.exit_code.map(|code| code.to_string()));
    for (at, event) in job.log.iter().enumerate() {
        let name = if at == 0 { "events" } else { "" };
        line(name, Some(format!("{}  {}", when::clock(event.unix_ms), event.text)));
    }
    page
}

/// One alternative: what it costs from now on, and whether it is the chosen one.
fn way(alternative: &Alternative) -> String {
    let chosen = if alternative.chosen { "chosen: " } else { "" };
    let Some(((seconds, node), late)) = alternative.seconds.zip(alternative.node_cost).zip(alternative.late_cost)
    else {
        return format!("{chosen}{}: no node can run it", alternative.text);
    };
    let late = if late > 0.0 { format!(" and {late:.2} for lateness") } else { String::new() };
    format!("{chosen}{}: {node:.2}{late}, {}", alternative.text, text::duration(seconds))
}

fn in_time(job: &ClusterJob, late: bool) -> String {
    match (late, job.deadline_unix_ms.zip(job.expected_end_unix_ms)) {
        (true, Some((deadline, end))) if end > deadline => {
            format!("no: {} late", text::duration((end - deadline) as f64 / 1000.0))
        }
        (true, _) => "no: the deadline has passed".to_owned(),
        (false, _) => "yes".to_owned(),
    }
}

/// The jobs that are still on a node that is being drained.
pub(super) fn left_on(cluster: &Cluster, node: &str) -> String {
    let there = cluster.jobs.iter().filter(|job| job.node.as_deref() == Some(node) && job.exit_code.is_none());
    let each = |job: &ClusterJob| {
        let why = why(job).map_or_else(String::new, |why| format!(": {}", text::clean(&why)));
        format!("{} is {}{why}\n", text::clean(&job.name), job.state)
    };
    there.map(each).collect()
}

/// One line per event.
pub(super) fn events(events: &[ClusterEvent]) -> String {
    let line = |event: &ClusterEvent| {
        let job = event.job.as_deref().map_or_else(String::new, |job| format!("{}: ", text::clean(job)));
        format!("{}  {job}{}\n", when::clock(event.unix_ms), text::clean(&event.text))
    };
    events.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alternative_says_what_it_costs_and_whether_it_is_chosen() {
        let mut alternative = Alternative {
            text: "gpus=1".to_owned(),
            chosen: true,
            seconds: Some(1200.0),
            node_cost: Some(0.5),
            late_cost: Some(0.0),
        };
        assert_eq!(way(&alternative), format!("chosen: gpus=1: 0.50, {}", text::duration(1200.0)));
        (alternative.chosen, alternative.late_cost) = (false, Some(12.5));
        assert_eq!(way(&alternative), format!("gpus=1: 0.50 and 12.50 for lateness, {}", text::duration(1200.0)));
        alternative.seconds = None;
        assert_eq!(way(&alternative), "gpus=1: no node can run it");
    }
}
