//! The sweeps of a report: one row for each, and a picture with the curves of all its trials, the best emphasised.
//!
//! Names are untrusted: all of them go through [`safe`], and titles within pictures are escaped where they are drawn.

use super::charts::{Picture, curves_of_sweep, name};
use super::data::{Data, Series};
use super::tables::{safe, scrolled};
use crate::history;
use crate::sweep::parameters::{differing, shown};
use crate::sweep::past::{PastSweep, parameters_of, past_sweeps};
use term::text;

/// Fewer trials have nothing to compare.
const TRIALS_AT_LEAST: usize = 2;
/// Maximum number of sweeps with a picture: those that used the most CPU.
const DRAWN: usize = 6;
/// Characters of a long name.
const NAME_LONGEST: usize = 48;

/// One sweep with the curves of its trials.
struct Sweep<'a> {
    name: String,
    trials: Vec<&'a Series>,
    /// The trial with the best value, and the value.
    best: Option<(&'a Series, f64)>,
    /// Core-seconds in the report.
    cpu_s: f64,
}

impl<'a> Sweep<'a> {
    fn of(past: &PastSweep<'_>, data: &'a Data) -> Option<Sweep<'a>> {
        let numbers: Vec<u64> = past.trials.iter().map(|job| job.number).collect();
        let trials: Vec<&Series> = data.jobs.iter().filter(|job| numbers.contains(&job.job.number)).collect();
        if trials.len() < TRIALS_AT_LEAST {
            return None;
        }
        let best = trials.iter().filter_map(|trial| Some((*trial, best_value(trial)?)));
        let is_up = trials.iter().any(|trial| is_up(trial));
        let best = best.reduce(|a, b| if (b.1 > a.1) == is_up && a.1 != b.1 { b } else { a });
        let cpu_s = trials.iter().filter_map(|trial| trial.work.last()).map(|last| last.1).sum();
        Some(Sweep { name: past.name.clone(), trials, best, cpu_s })
    }

    fn row(&self) -> String {
        let ended = self.trials.iter().filter(|trial| trial.end_s.is_some()).count();
        let stopped = self.trials.iter().filter(|trial| trial.job.end.as_deref() == Some("group-stop")).count();
        let mut detail = format!("{ended} ended");
        if stopped > 0 {
            detail += &format!(", {stopped} by group-stop");
        }
        let (value, best, parameters) = match self.best {
            Some((best, value)) => {
                let metric = best.job.metric.as_deref().unwrap_or("value");
                let all: Vec<_> = self.trials.iter().map(|trial| parameters_of(&trial.job)).collect();
                let parameters = shown(parameters_of(&best.job), &differing(&all));
                let how = history::end(&best.job);
                let best = format!("{} <small>{}</small>", cut(&name(best)), safe(&how));
                (format!("{} {}", safe(metric), text::number_text(value)), best, safe(&parameters))
            }
            None => ("–".to_owned(), "–".to_owned(), String::new()),
        };
        let parameters = if parameters.is_empty() { "–".to_owned() } else { parameters };
        format!(
            "<tr><th scope=\"row\">{}</th><td>{} <small>{detail}</small></td><td>{:.2}</td><td class=\"left\">{value}</td>\
             <td class=\"left name\">{best}</td><td class=\"wide\">{parameters}</td></tr>",
            cut(&self.name),
            self.trials.len(),
            self.cpu_s / 3600.0,
        )
    }

    fn figure(&self, number: usize) -> Option<String> {
        let (best, _) = self.best?;
        let curves = self.trials.iter().map(|trial| (name(trial), values_by_progress(trial)));
        let best_at = self.trials.iter().position(|trial| trial.job.number == best.job.number)?;
        let unit = best.job.unit.as_deref().unwrap_or("progress");
        let picture = Picture { number, curves: curves.collect(), best: best_at, unit, is_up: is_up(best) };
        let picture = curves_of_sweep(&picture)?;
        let metric = best.job.metric.as_deref().unwrap_or("value");
        Some(format!(
            "<figure><figcaption><h3>{}: {}</h3><p>blue: {}, the best; grey: the other {}</p></figcaption>{picture}</figure>",
            cut(&self.name),
            cut(metric),
            cut(&name(best)),
            match self.trials.len() - 1 {
                1 => "trial".to_owned(),
                others => format!("{others} trials"),
            },
        ))
    }
}

/// The section about sweeps; `None` if there are none.
pub(super) fn section(data: &Data) -> Option<String> {
    let past = past_sweeps(data.jobs.iter().map(|series| &series.job));
    let mut sweeps: Vec<Sweep<'_>> = past.iter().filter_map(|past| Sweep::of(past, data)).collect();
    if sweeps.is_empty() {
        return None;
    }
    sweeps.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
    let rows: String = sweeps.iter().map(Sweep::row).collect();
    let table = format!(
        "<table><caption>CPU-hours count from the start of the report. The best value is the best that any trial printed in this \
         time.</caption><thead><tr><th scope=\"col\">sweep</th><th scope=\"col\">trials</th><th scope=\"col\">CPU-hours</th>\
         <th scope=\"col\" class=\"left\">best value</th><th scope=\"col\" class=\"left\">best trial</th>\
         <th scope=\"col\" class=\"left\">its parameters</th></tr></thead><tbody>{rows}</tbody></table>"
    );
    let figures: String = sweeps.iter().take(DRAWN).enumerate().filter_map(|(n, sweep)| sweep.figure(n)).collect();
    let pictures =
        if figures.is_empty() { String::new() } else { format!("<div class=\"grid2 below\">{figures}</div>") };
    Some(scrolled("Sweeps", &table, true) + &pictures)
}

fn cut(name: &str) -> String {
    safe(&text::fit(name, NAME_LONGEST))
}

fn is_up(trial: &Series) -> bool {
    trial.job.direction.as_deref() == Some("up")
}

/// The best value that a trial printed.
fn best_value(trial: &Series) -> Option<f64> {
    let values = trial.samples.iter().filter_map(|sample| sample.value).filter(|value| value.is_finite());
    if is_up(trial) { values.reduce(f64::max) } else { values.reduce(f64::min) }
}

/// Its values by progress, rising, to its end; a sample repeats the value of the one before if there was no evaluation in between.
fn values_by_progress(trial: &Series) -> Vec<(f64, f64)> {
    let known = trial.samples.iter().filter_map(|sample| sample.progress.zip(sample.value));
    let known = || known.clone().filter(|(progress, value)| progress.is_finite() && value.is_finite());
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (progress, value) in known() {
        if points.last().is_none_or(|last| progress > last.0 && value != last.1) {
            points.push((progress, value));
        }
    }
    let end = known().next_back().filter(|end| points.last().is_some_and(|last| end.0 > last.0));
    points.extend(end);
    points
}

#[cfg(test)]
#[path = "sweeps_tests.rs"]
mod tests;
