//! The benchmark as one HTML page with inline SVG: the tables, and for each run who had the CPU and how the evaluations fell.
//!
//! Imports: sim's drawing primitives.

use super::super::trial::outcome::RunOutcome;
use super::super::trial::picture::{PanelSize, panel};
use super::summary::Bench;
use crate::cli::screen::Look;
use crate::sim::report::svg::{Margins, Plot, STYLE, escaped, series};

const WIDTH: f64 = 660.0;
const HEIGHT: f64 = 230.0;
const MARGINS: Margins = Margins { top: 30.0, right: 16.0, bottom: 36.0, left: 46.0 };

/// The page.
pub fn html(bench: &Bench) -> String {
    let title = escaped(&bench.title());
    let tables = escaped_lines(&bench.page(&Look { columns: None, color: false }));
    let longest = bench.runs.iter().map(|(_, run)| run.makespan_s).fold(1.0, f64::max);
    let pictures: String = bench
        .runs
        .iter()
        .enumerate()
        .map(|(number, (contender, run))| {
            let spoilt = if bench.spoilt(*contender, run).is_some() { " (spoilt)" } else { "" };
            let name = format!("run {}: {}{spoilt}", number + 1, contender.name);
            let size = PanelSize { width: WIDTH, height: HEIGHT, longest };
            let shares = panel(run, &name, &size).inline(&name);
            format!("<section>{shares}{}</section>\n", evaluations(run, longest).inline("evaluations"))
        })
        .collect();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE} body{{font:14px system-ui,sans-serif;max-width:1400px;margin:2em auto;padding:0 1em;color-scheme:light dark}}\
         pre{{overflow-x:auto}} section{{display:grid;grid-template-columns:1fr 1fr;gap:1em}}</style>\
         <h1>{title}</h1><pre>{tables}</pre>\n{pictures}</html>\n"
    )
}

fn escaped_lines(text: &str) -> String {
    text.lines().map(|line| escaped(line) + "\n").collect()
}

/// Each job's evaluations as parts of its final improvement.
fn evaluations(run: &RunOutcome, longest: f64) -> Plot {
    let mut plot = Plot::new(WIDTH, HEIGHT, MARGINS, (0.0, longest), (0.0, 1.0));
    plot.text(MARGINS.left, 18.0, "strong", "part of the final improvement");
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
