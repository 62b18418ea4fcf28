//! Renders a benchmark as one HTML page: the tables, and for each run the CPU shares and the evaluations as inline SVG, with a legend.

use super::page::{Figure, Figures, by_job, by_policy};
use super::summary::Bench;
use crate::trial::outcome::RunOutcome;
use crate::trial::picture::{PanelSize, panel, summary as summary_of};
use anyhow::{Context, Result};
use chart::{Margins, Plot, document, escaped, legend, section, series};
use std::fs;
use std::path::Path;
use term::exit::{Exit, Failure};
use term::screen::Tone;

/// The charts are drawn for the width of a phone and scaled up on larger screens.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 12.0;
const MARGINS: Margins = Margins { top: TOP, right: 16.0, bottom: 36.0, left: 46.0 };

const COLUMNS: &str = "<p class=\"note\">Completion: mean of all jobs. To 90 %: mean time to 90 % of a job's final improvement. \
    Makespan: time until the last job ended. Worst: change of the job that lost most. CPU: part used by the jobs; foreign: by other processes; \
    stolen: by the hypervisor.</p>";
const BANDS: &str = "<p class=\"note\">The height of a band is the part of the cores that a job used; a mark above the bands is the end of a job.</p>";

/// Checks that the report can be written, before runs that may take hours. An existing file is not changed.
///
/// # Errors
/// The file cannot be created or opened.
pub(super) fn check_writable(path: &Path) -> Result<(), Failure> {
    let is_new = fs::symlink_metadata(path).is_err();
    let opened = fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|error| {
        let message = format!("--report {}: {error}", path.display());
        Failure::new(Exit::Usage, message, "name a file that this user may create, in a directory that exists")
    })?;
    if is_new {
        // An empty file that stays is written after the runs.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Writes the page to a file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, bench: &Bench) -> Result<()> {
    fs::write(path, html(bench)).with_context(|| format!("write the report to {}", path.display()))
}

/// Renders the page.
pub(super) fn html(bench: &Bench) -> String {
    let summary = bench.summary();
    let notes: String = bench.notes(&summary).iter().map(|note| format!("<p>{}</p>", escaped(note))).collect();
    let policies = table("The policies; below a number, its change compared with plain sharing", &by_policy(&summary));
    let jobs = table("Completion times of the jobs", &by_job(&summary));
    let longest = bench.runs.iter().map(|(_, run)| run.makespan_s).fold(1.0, f64::max);
    let pictures: String = bench
        .runs
        .iter()
        .enumerate()
        .map(|(number, (variant, run))| {
            let spoilt = if bench.spoilt(*variant, run).is_some() { " (spoilt)" } else { "" };
            let name = format!("run {}: {}{spoilt}", number + 1, variant.name);
            let size = PanelSize { width: WIDTH, height: HEIGHT, top: TOP, longest, unit: "seconds" };
            let shares = figure(&name, &summary_of(run), &panel(run, &size).inline(&name));
            let evaluations = evaluations(run, longest).inline("evaluations");
            let evaluations = figure("Evaluations", "fraction of the final improvement", &evaluations);
            format!("<div class=\"grid2\">{shares}{evaluations}</div>\n")
        })
        .collect();
    let title = format!("flowcon bench: {}", bench.title());
    let body = [
        format!("<h1>{}</h1>", escaped(&title)),
        section("Results", &format!("{policies}{COLUMNS}{jobs}{notes}")),
        section("The runs", &format!("{BANDS}{}{pictures}", legend(&summary.jobs))),
    ];
    document(&title, &format!("<main>{}</main>", body.concat()))
}

fn figure(title: &str, note: &str, picture: &str) -> String {
    let (title, note) = (escaped(title), escaped(note));
    format!("<figure><figcaption><h3>{title}</h3><p>{note}</p></figcaption>{picture}</figure>")
}

fn table(caption: &str, figures: &Figures) -> String {
    let titles: String =
        figures.titles.iter().map(|title| format!("<th scope=\"col\">{}</th>", escaped(title))).collect();
    let row = |(name, figures): &(String, Vec<Figure>)| {
        let cells: String = figures.iter().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(name))
    };
    let rows: String = figures.rows.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table><caption>{caption}</caption>\
         <thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn cell(figure: &Figure) -> String {
    let class = match figure.tone() {
        Tone::Good => " class=\"better\"",
        Tone::Bad => " class=\"worse\"",
        _ => "",
    };
    let change = figure.change_text().map_or_else(String::new, |change| format!(" <small>{change}</small>"));
    format!("<td{class}>{}{change}</td>", figure.value.as_deref().map_or_else(|| "–".to_owned(), escaped))
}

/// Draws each job's evaluations as fractions of its final improvement.
fn evaluations(run: &RunOutcome, longest: f64) -> Plot {
    let mut plot = Plot::new(WIDTH, HEIGHT, MARGINS, (0.0, longest), (0.0, 1.0));
    plot.x_axis("seconds", |tick| format!("{tick:.0}"));
    plot.y_axis(|tick| format!("{:.0} %", 100.0 * tick));
    for (job, (outcome, curve)) in run.jobs.iter().zip(&run.curves).enumerate() {
        let (Some((_, first)), Some((_, last))) = (curve.first(), curve.last()) else { continue };
        if first == last {
            continue;
        }
        let points: Vec<(f64, f64)> =
            curve.iter().map(|(at, value)| (*at, ((first - value) / (first - last)).clamp(0.0, 1.0))).collect();
        plot.line(&points, &series(job), &outcome.name);
    }
    plot
}
