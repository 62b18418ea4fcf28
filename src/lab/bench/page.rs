//! The numbers of a benchmark for each policy and each job, and what disturbed the comparison; as text, a table of each.

use super::summary::{Bench, PolicySummary, Summary};
use super::variant::FAIR;
use term::screen::{Look, Tone};
use term::table::{Cell, Column, table};

/// Fraction of the CPU below which the cores were so often idle that the jobs hardly competed.
const COMPETES_ABOVE: f64 = 0.70;

impl Bench {
    /// The result as text tables.
    pub(super) fn page(&self, look: &Look) -> String {
        let summary = self.summary();
        let mut page =
            format!("{}\n\n{}\n{}", self.title(), by_policy(&summary).table(look), by_job(&summary).table(look));
        for note in self.notes(&summary) {
            page.push_str(&format!("\n{note}"));
        }
        page
    }

    /// What disturbed the comparison.
    pub(super) fn notes(&self, summary: &Summary) -> Vec<String> {
        let spoilt = self.runs.iter().enumerate().filter_map(|(number, (variant, run))| {
            let why = self.spoilt(*variant, run)?;
            Some(format!("spoilt: run {} ({}): {why}", number + 1, variant.name))
        });
        let governed = summary.policies.iter().filter(|of| of.policy != FAIR.name);
        let forecasts = governed.filter_map(|of| Some(format!("{}: {}", of.policy, of.forecasts?)));
        spoilt.chain(self.idle_cores(&summary.policies[0])).chain(forecasts).collect()
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

/// A number of a policy or a job, and its change compared with plain sharing.
pub(super) struct Figure {
    /// The number with its unit; `None` if it is unknown.
    pub(super) value: Option<String>,
    /// The relative change, unless it is none.
    change: Option<f64>,
}

impl Figure {
    fn plain(value: String) -> Figure {
        Figure { value: Some(value), change: None }
    }

    fn versus(own: Option<f64>, fair: Option<f64>) -> Figure {
        let change = own.zip(fair).filter(|(own, fair)| *fair > 0.0 && own != fair).map(|(own, fair)| own / fair - 1.0);
        Figure { value: own.map(|own| format!("{own:.1} s")), change }
    }

    /// The change in words: `-10 %`.
    pub(super) fn change_text(&self) -> Option<String> {
        self.change.map(percent_more)
    }

    /// Whether it is a gain or a cost beyond the noise.
    pub(super) fn tone(&self) -> Tone {
        match self.change {
            Some(change) if change < -0.03 => Tone::Good,
            Some(change) if change > 0.03 => Tone::Bad,
            _ => Tone::Plain,
        }
    }

    fn cell(&self) -> Cell {
        match (&self.value, self.change_text()) {
            (Some(value), Some(change)) => Cell::new(self.tone(), &format!("{value} ({change})")),
            (value, _) => Cell::or_dash(value.clone()),
        }
    }
}

/// The numbers of a benchmark in rows, each with its name.
pub(super) struct Figures {
    /// What the rows are about, and the name of each number.
    pub(super) titles: Vec<&'static str>,
    /// Name and numbers of each row.
    pub(super) rows: Vec<(String, Vec<Figure>)>,
}

impl Figures {
    fn table(&self, look: &Look) -> String {
        let columns = self.titles.iter().enumerate();
        let columns: Vec<Column> =
            columns.map(|(at, &title)| if at == 0 { Column::left(title) } else { Column::right(title) }).collect();
        let row = |(name, figures): &(String, Vec<Figure>)| -> Vec<Cell> {
            std::iter::once(Cell::plain(name)).chain(figures.iter().map(Figure::cell)).collect()
        };
        table(&columns, &self.rows.iter().map(row).collect::<Vec<_>>(), look)
    }
}

/// The numbers of each policy.
pub(super) fn by_policy(summary: &Summary) -> Figures {
    let has_broken = summary.policies.iter().any(|own| own.mean_healthy_s.is_some());
    let healthy = if has_broken { Some("HEALTHY") } else { None };
    let first = ["POLICY", "RUNS", "COMPLETION"].into_iter().chain(healthy);
    let others = ["TO 90 %", "TO 95 %", "TO 99 %", "MAKESPAN", "WORST", "CPU TIME", "CPU", "FOREIGN", "STOLEN"];
    let fair = &summary.policies[0];
    let row = |own: &PolicySummary| {
        let spoilt = if own.spoilt_runs > 0 { format!(" ({} spoilt)", own.spoilt_runs) } else { String::new() };
        let first = [
            Figure::plain(format!("{}{spoilt}", own.runs)),
            Figure::versus(Some(own.mean_completion_s), Some(fair.mean_completion_s)),
        ];
        let healthy = healthy.map(|_| Figure::versus(own.mean_healthy_s, fair.mean_healthy_s));
        let others = [
            Figure::versus(own.mean_t90_s, fair.mean_t90_s),
            Figure::versus(own.mean_t95_s, fair.mean_t95_s),
            Figure::versus(own.mean_t99_s, fair.mean_t99_s),
            Figure::versus(Some(own.makespan_s), Some(fair.makespan_s)),
            Figure::plain(percent_more(own.worst_vs_fair)),
            Figure::versus(Some(own.cpu_s), Some(fair.cpu_s)),
            Figure::plain(percent(own.cpu_used)),
            Figure::plain(percent(own.foreign_load)),
            Figure::plain(percent(own.stolen)),
        ];
        (own.policy.to_owned(), first.into_iter().chain(healthy).chain(others).collect())
    };
    Figures { titles: first.chain(others).collect(), rows: summary.policies.iter().map(row).collect() }
}

/// The completion time of each job under each policy.
pub(super) fn by_job(summary: &Summary) -> Figures {
    let titles = std::iter::once("JOB").chain(summary.policies.iter().map(|policy| policy.policy)).collect();
    let fair = &summary.policies[0].completion_s;
    let row = |(job, name): (usize, &String)| {
        let of = |own: &PolicySummary| Figure::versus(own.completion_s.get(job).copied(), fair.get(job).copied());
        (name.clone(), summary.policies.iter().map(of).collect())
    };
    Figures { titles, rows: summary.jobs.iter().enumerate().map(row).collect() }
}

fn percent_more(relative: f64) -> String {
    // Adding 0 makes of −0 a 0.
    format!("{:+.0} %", (100.0 * relative).round() + 0.0)
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
