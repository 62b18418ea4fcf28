//! The chart of two runs as one SVG: shares over time or work, plain sharing above, governed below, on the same axis; and its file.
//!
//! Each band is a job; its height is the fraction that it used of the jobs' cores, or of their CPU time if the axis counts work.

use super::comparison::change;
use super::verdict::percent_more;
use crate::trial::outcome::RunOutcome;
use crate::trial::picture::{PanelSize, titled_panel};
use anyhow::{Context, Result};
use chart::{Margins, Plot, STYLE, series};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const WIDTH: f64 = 940.0;
const PLOT_WIDTH: f64 = 660.0;
const PLOT_HEIGHT: f64 = 230.0;
const LEGEND_TOP: f64 = 48.0;
const LEGEND_ROW: f64 = 36.0;

/// Draws the chart as a complete SVG document; `unit` is what the times count.
pub(crate) fn draw(plain: (&RunOutcome, &str), governed: (&RunOutcome, &str), unit: &str) -> String {
    let runs = [plain, governed];
    let longest = runs.iter().map(|(run, _)| run.makespan_s).fold(1.0, f64::max);
    let height = 2.0 * PLOT_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\
         <style>{STYLE}</style><rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (number, (run, title)) in runs.into_iter().enumerate() {
        let size = PanelSize { width: PLOT_WIDTH, height: PLOT_HEIGHT, top: 34.0, longest, unit };
        let panel = titled_panel(run, title, &size).inline(title);
        place(&mut svg, &panel, (0.0, number as f64 * PLOT_HEIGHT), (PLOT_WIDTH, PLOT_HEIGHT));
    }
    let legend = legend(plain.0, governed.0).inline("Jobs and their completion times");
    place(&mut svg, &legend, (PLOT_WIDTH, 0.0), (WIDTH - PLOT_WIDTH, height));
    svg.push_str("</svg>\n");
    svg
}

/// Places an SVG inside a larger one.
fn place(svg: &mut String, inner: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
    let open = format!("<svg x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
    let _ = writeln!(svg, "{}", inner.replacen("<svg", &open, 1));
}

/// Draws the legend at the right of both panels: each job with its colour and completion times.
fn legend(plain: &RunOutcome, governed: &RunOutcome) -> Plot {
    let width = WIDTH - PLOT_WIDTH;
    let nothing = Margins { top: 0.0, right: 0.0, bottom: 0.0, left: 0.0 };
    let height = 2.0 * PLOT_HEIGHT;
    let mut plot = Plot::new(width, height, nothing, (0.0, width), (0.0, height));
    plot.text(8.0, 20.0, "strong", "completion, plain → governed");
    let pairs = plain.jobs.iter().zip(&governed.jobs);
    for (job, (plain, governed)) in pairs.enumerate() {
        let y = LEGEND_TOP + LEGEND_ROW * job as f64;
        // Bars are placed by values, which grow upwards; texts by pixels.
        plot.bar((8.0, 18.0), (height - y - 1.0, height - y + 9.0), &series(job), "");
        plot.text(24.0, y, "", &plain.name);
        let (before, after) = (plain.completion_s, governed.completion_s);
        let times = format!("{before:.1} s → {after:.1} s ({})", percent_more(change(before, after)));
        plot.text(24.0, y + 14.0, "label", &times);
    }
    let below = LEGEND_TOP + LEGEND_ROW * plain.jobs.len() as f64;
    plot.text(8.0, below, "label", "height: part of the CPU that a job used");
    plot.text(8.0, below + 14.0, "label", "mark above: a job ends");
    plot
}

/// Path of a new file in the temporary directory; the process id makes the name unique.
pub(crate) fn new_path() -> PathBuf {
    std::env::temp_dir().join(format!("flowcon-demo-{}.svg", std::process::id()))
}

/// Writes the chart; with `must_be_new`, for a shared directory, only to a file that did not exist.
pub(crate) fn write(path: &Path, text: &str, must_be_new: bool) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if must_be_new {
        options.create_new(true)
    } else {
        options.create(true).truncate(true)
    };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("write the picture to {} (choose another file with --plot)", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::outcome::{Foreign, JobOutcome, Sample};
    use std::time::Duration;

    fn run(completion_s: f64) -> RunOutcome {
        let job = |name: &str, start_s| JobOutcome { name: name.into(), start_s, completion_s, exit_code: 0 };
        let samples = (1..=4).map(|s| Sample { at: Duration::from_secs(s), used: vec![0.5, 0.25] }).collect();
        RunOutcome::new(vec![job("a<b", 0.0), job("c", 1.0)], samples, Foreign::default())
    }

    #[test]
    fn each_run_has_a_band_and_an_end_mark_for_each_job() {
        let svg = draw((&run(4.0), "plain"), (&run(3.0), "governed"), "seconds of work");
        assert_eq!(svg.matches("class=\"area ").count(), 4);
        assert_eq!(svg.matches("class=\"mark\"").count(), 4);
        assert!(svg.contains("4.0 s → 3.0 s (-25 %)"), "{svg}");
        assert_eq!(svg.matches("seconds of work").count(), 2);
        // Each name has its colour beside it.
        assert!(svg.contains(r#"<rect class="bar s0" x="8.0" y="39.0" width="10.0" height="10.0""#), "{svg}");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn names_cannot_break_the_document() {
        let svg = draw((&run(4.0), "plain"), (&run(3.0), "a & b"), "seconds");
        assert!(svg.contains("a&lt;b") && svg.contains("a &amp; b") && !svg.contains("a<b"), "{svg}");
    }
}
