//! A benchmark as text: a table of the policies, a table of the jobs, and what disturbed the comparison.

use super::summary::{Bench, PolicySummary, Summary};
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};

/// Fraction of the CPU below which the cores were so often idle that the jobs hardly competed.
const COMPETES_ABOVE: f64 = 0.70;

impl Bench {
    /// The result as text tables.
    pub(super) fn page(&self, look: &Look) -> String {
        let summary = self.summary();
        let mut page = format!("{}\n\n{}\n{}", self.title(), by_policy(&summary, look), by_job(&summary, look));
        for (number, (variant, run)) in self.runs.iter().enumerate() {
            if let Some(why) = self.spoilt(*variant, run) {
                page.push_str(&format!("\nspoilt: run {} ({}): {why}", number + 1, variant.name));
            }
        }
        if let Some(sentence) = self.idle_cores(&summary.policies[0]) {
            page.push_str(&format!("\n{sentence}"));
        }
        page
    }

    /// A warning if cores were idle under plain sharing: the jobs hardly competed, so that no policy could help. `None` also if the use is
    /// unknown.
    fn idle_cores(&self, fair: &PolicySummary) -> Option<String> {
        let is_busy = fair.cpu_used + fair.foreign_load + fair.stolen >= COMPETES_ABOVE;
        if is_busy || fair.cpu_s <= 0.0 {
            return None;
        }
        let used = percent(fair.cpu_used);
        if self.cores < 2 {
            return Some(format!(
                "The jobs used only {used} of the core under plain sharing and hardly competed; add jobs, or start them closer together"
            ));
        }
        let fewer = ((fair.cpu_used * self.cores as f64) as usize).max(1);
        Some(format!(
            "The jobs used only {used} of the {} cores under plain sharing and hardly competed; compare them on fewer cores: --cores {fewer}",
            self.cores
        ))
    }
}

fn by_policy(summary: &Summary, look: &Look) -> String {
    let titles = [
        "RUNS",
        "COMPLETION",
        "TO 90 %",
        "TO 95 %",
        "TO 99 %",
        "MAKESPAN",
        "WORST",
        "CPU TIME",
        "CPU",
        "FOREIGN",
        "STOLEN",
    ];
    let columns: Vec<Column> =
        std::iter::once(Column::left("POLICY")).chain(titles.into_iter().map(Column::right)).collect();
    let fair = &summary.policies[0];
    let rows: Vec<Vec<Cell>> = summary
        .policies
        .iter()
        .map(|own| {
            let runs = if own.spoilt_runs > 0 {
                format!("{} ({} spoilt)", own.runs, own.spoilt_runs)
            } else {
                own.runs.to_string()
            };
            vec![
                Cell::plain(own.policy),
                Cell::plain(&runs),
                versus(Some(own.mean_completion_s), Some(fair.mean_completion_s)),
                versus(own.mean_t90_s, fair.mean_t90_s),
                versus(own.mean_t95_s, fair.mean_t95_s),
                versus(own.mean_t99_s, fair.mean_t99_s),
                versus(Some(own.makespan_s), Some(fair.makespan_s)),
                Cell::plain(&format!("{:+.0} %", 100.0 * own.worst_vs_fair)),
                versus(Some(own.cpu_s), Some(fair.cpu_s)),
                Cell::plain(&percent(own.cpu_used)),
                Cell::plain(&percent(own.foreign_load)),
                Cell::plain(&percent(own.stolen)),
            ]
        })
        .collect();
    table(&columns, &rows, look)
}

fn by_job(summary: &Summary, look: &Look) -> String {
    let mut columns = vec![Column::left("JOB")];
    columns.extend(summary.policies.iter().map(|policy| Column::right(policy.policy)));
    let fair = &summary.policies[0].completion_s;
    let rows: Vec<Vec<Cell>> = summary
        .jobs
        .iter()
        .enumerate()
        .map(|(job, name)| {
            let own = summary.policies.iter().map(|p| versus(p.completion_s.get(job).copied(), fair.get(job).copied()));
            std::iter::once(Cell::plain(name)).chain(own).collect()
        })
        .collect();
    table(&columns, &rows, look)
}

fn versus(own: Option<f64>, fair: Option<f64>) -> Cell {
    match (own, fair) {
        (Some(own), Some(fair)) if fair > 0.0 && own != fair => {
            let change = own / fair - 1.0;
            let tone = if change < -0.03 {
                Tone::Good
            } else if change > 0.03 {
                Tone::Bad
            } else {
                Tone::Plain
            };
            Cell::new(tone, &format!("{own:.1} s ({:+.0} %)", 100.0 * change))
        }
        (Some(own), _) => Cell::plain(&format!("{own:.1} s")),
        (None, _) => Cell::or_dash(None),
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
