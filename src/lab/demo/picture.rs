//! Shares over time as one SVG: plain sharing above, governed below, on the same clock.
//!
//! Each band is a job; its height is the part of the jobs' cores that it used. Imports: sim's drawing primitives.

use super::comparison::{Comparison, change};
use crate::chart::{Margins, Plot, STYLE, series};
use crate::lab::trial::picture::{PanelSize, panel};
use std::fmt::Write;

const WIDTH: f64 = 940.0;
const PLOT_WIDTH: f64 = 660.0;
const PLOT_HEIGHT: f64 = 230.0;
const LEGEND_TOP: f64 = 48.0;
const LEGEND_ROW: f64 = 36.0;

/// The picture, a complete SVG document.
pub fn draw(comparison: &Comparison, governed_title: &str) -> String {
    let runs = [(&comparison.plain, "plain sharing"), (&comparison.governed, governed_title)];
    let longest = runs.iter().map(|(run, _)| run.makespan_s).fold(1.0, f64::max);
    let height = 2.0 * PLOT_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\
         <style>{STYLE}</style><rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (number, (run, title)) in runs.into_iter().enumerate() {
        let size = PanelSize { width: PLOT_WIDTH, height: PLOT_HEIGHT, longest };
        let panel = panel(run, title, &size).inline(title);
        place(&mut svg, &panel, (0.0, number as f64 * PLOT_HEIGHT), (PLOT_WIDTH, PLOT_HEIGHT));
    }
    let legend = legend(comparison).inline("Jobs and their completion times");
    place(&mut svg, &legend, (PLOT_WIDTH, 0.0), (WIDTH - PLOT_WIDTH, height));
    svg.push_str("</svg>\n");
    svg
}

/// Puts a picture into a larger one.
fn place(svg: &mut String, inner: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
    let open = format!("<svg x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
    let _ = writeln!(svg, "{}", inner.replacen("<svg", &open, 1));
}

/// Each job with its colour and its completion times, at the right of both panels.
fn legend(comparison: &Comparison) -> Plot {
    let width = WIDTH - PLOT_WIDTH;
    let nothing = Margins { top: 0.0, right: 0.0, bottom: 0.0, left: 0.0 };
    let mut plot = Plot::new(width, 2.0 * PLOT_HEIGHT, nothing, (0.0, width), (2.0 * PLOT_HEIGHT, 0.0));
    plot.text(8.0, 20.0, "strong", "completion, plain → governed");
    let pairs = comparison.plain.jobs.iter().zip(&comparison.governed.jobs);
    for (job, (plain, governed)) in pairs.enumerate() {
        let y = LEGEND_TOP + LEGEND_ROW * job as f64;
        plot.bar((8.0, 18.0), (y - 9.0, y + 1.0), &series(job), "");
        plot.text(24.0, y, "", &plain.name);
        let (before, after) = (plain.completion_s, governed.completion_s);
        let times = format!("{before:.1} s → {after:.1} s ({:+.0} %)", 100.0 * change(before, after));
        plot.text(24.0, y + 14.0, "label", &times);
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::trial::outcome::{Foreign, JobOutcome, RunOutcome, Sample};
    use std::time::Duration;

    fn run(completion_s: f64) -> RunOutcome {
        let job = |name: &str, start_s| JobOutcome { name: name.into(), start_s, completion_s, exit_code: 0 };
        let samples = (1..=4).map(|s| Sample { at: Duration::from_secs(s), used: vec![0.5, 0.25] }).collect();
        RunOutcome::new(vec![job("a<b", 0.0), job("c", 1.0)], samples, Foreign::default())
    }

    fn comparison() -> Comparison {
        Comparison { runtime: "scope", plain: run(4.0), governed: run(3.0), plot: String::new() }
    }

    #[test]
    fn each_run_has_a_band_and_an_end_for_each_job() {
        let svg = draw(&comparison(), "governed");
        assert_eq!(svg.matches("class=\"area ").count(), 4);
        assert_eq!(svg.matches("class=\"mark\"").count(), 4);
        assert!(svg.contains("4.0 s → 3.0 s (-25 %)"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn names_cannot_break_the_document() {
        let svg = draw(&comparison(), "a & b");
        assert!(svg.contains("a&lt;b") && svg.contains("a &amp; b") && !svg.contains("a<b"), "{svg}");
    }
}
