//! Chart of the CPU shares over one run.
//!
//! Each band is a job; its height is the fraction of the jobs' cores that it used.

use super::outcome::RunOutcome;
use chart::{Margins, Plot, series};

const LEFT: f64 = 46.0;

/// Size of a panel and length of its time axis, the same for all runs that are compared.
pub(crate) struct PanelSize<'a> {
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    /// Pixels above the plot area.
    pub top: f64,
    /// Length of the time axis in seconds.
    pub longest: f64,
    /// What the axis counts.
    pub unit: &'a str,
}

/// `mean completion 41.2 s, all done after 123.4 s`.
pub(crate) fn summary(run: &RunOutcome) -> String {
    format!("mean completion {:.1} s, all done after {:.1} s", run.mean_completion_s, run.makespan_s)
}

/// Draws the bands with a title above them, for which `size.top` has the room.
pub(crate) fn titled_panel(run: &RunOutcome, title: &str, size: &PanelSize<'_>) -> Plot {
    let mut plot = panel(run, size);
    plot.text(LEFT, 20.0, "strong", &format!("{title}: {}", summary(run)));
    plot
}

/// Draws the bands of one run, and a mark at the end of each job.
pub(crate) fn panel(run: &RunOutcome, size: &PanelSize<'_>) -> Plot {
    let longest = size.longest;
    let margins = Margins { top: size.top, right: 16.0, bottom: 36.0, left: LEFT };
    let mut plot = Plot::new(size.width, size.height, margins, (0.0, longest), (0.0, 1.0));
    let mut lower = steps(run, longest, 0);
    for (job, outcome) in run.jobs.iter().enumerate() {
        let upper = steps(run, longest, job + 1);
        plot.area(&lower, &upper, &series(job), &outcome.name);
        lower = upper;
    }
    plot.x_axis(size.unit, |tick| format!("{tick:.0}"));
    plot.y_axis(|tick| format!("{:.0} %", 100.0 * tick));
    for job in &run.jobs {
        plot.mark(job.start_s + job.completion_s, 1.0, 5.0, &format!("{} ends", job.name));
    }
    plot
}

/// Corners of the stacked usage of the first `jobs` jobs. A sample covers the time since the previous one.
fn steps(run: &RunOutcome, longest: f64, jobs: usize) -> Vec<(f64, f64)> {
    let mut since = 0.0;
    let mut corners = Vec::with_capacity(2 * run.samples.len());
    for sample in &run.samples {
        let at = sample.at.as_secs_f64().min(longest);
        let used = sample.used.iter().take(jobs).sum::<f64>().clamp(0.0, 1.0);
        corners.extend([(since, used), (at, used)]);
        since = at;
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{Foreign, Sample};
    use super::*;
    use std::time::Duration;

    #[test]
    fn bands_are_stacked_and_reach_back_to_the_previous_sample() {
        let samples = (1..=4).map(|s| Sample { at: Duration::from_secs(s), used: vec![0.5, 0.25] }).collect();
        let run = RunOutcome::new(Vec::new(), samples, Foreign::default());
        assert_eq!(steps(&run, 4.0, 1)[..4], [(0.0, 0.5), (1.0, 0.5), (1.0, 0.5), (2.0, 0.5)]);
        assert_eq!(steps(&run, 4.0, 2)[1], (1.0, 0.75));
        assert_eq!(steps(&run, 2.5, 2).last(), Some(&(2.5, 0.75)));
    }
}
