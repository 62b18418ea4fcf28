//! Progress display of the demo and the benchmarks: a bar for each job on a terminal, otherwise plain lines.

use super::job::TrialJob;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use term::screen::Screen;
use term::text;

/// One job as seen by the governor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    /// Progress, 0 ..= 1, if known from the log.
    pub done: Option<f64>,
    /// Fraction of the jobs' cores used recently.
    pub used: Option<f64>,
    /// The metric's name and latest value.
    pub metric: Option<(String, f64)>,
    /// `new`, `watching` or `completing`, if the policy has lists.
    pub list: Option<String>,
}

impl View {
    fn describe(&self) -> String {
        let mut parts = Vec::new();
        if let Some(used) = self.used {
            parts.push(format!("{:>3.0} % CPU", used * 100.0));
        }
        if let Some((name, value)) = &self.metric {
            parts.push(format!("{name} {}", text::number_text(*value)));
        }
        if let Some(list) = &self.list {
            parts.push(list.clone());
        }
        parts.join(", ")
    }
}

/// The progress display, on standard output or, if that has only the result as JSON, on standard error.
#[derive(Clone)]
pub(crate) struct ProgressView {
    bars: Option<MultiProgress>,
    is_on_stderr: bool,
    /// The first line that could not be printed. It must not end the program before it has cleaned up.
    problem: Arc<Mutex<Option<io::Error>>>,
}

/// The bars of one run.
pub(crate) struct RunProgress<'a> {
    view: &'a ProgressView,
    bars: Vec<ProgressBar>,
    names: Vec<String>,
    next_line: Duration,
}

/// Time between two lines about a run without bars.
const LINE_EVERY: Duration = Duration::from_secs(10);
const STEPS: u64 = 1000;

impl ProgressView {
    /// Creates a display, with bars if standard output is a terminal that supports them.
    pub(crate) fn on_stdout() -> ProgressView {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let bars = (io::stdout().is_terminal() && !dumb)
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stdout_with_hz(4)));
        ProgressView { bars, is_on_stderr: false, problem: Arc::default() }
    }

    /// Creates a display like [`ProgressView::on_stdout`]; on standard error and without bars, if the result is printed as JSON.
    pub(crate) fn beside(screen: &Screen) -> ProgressView {
        if screen.is_json() {
            return ProgressView { bars: None, is_on_stderr: true, problem: Arc::default() };
        }
        ProgressView::on_stdout()
    }

    /// Prints a line above the bars; [`ProgressView::printed`] returns an error.
    pub(crate) fn print(&self, line: &str) {
        let print = || {
            if self.is_on_stderr { writeln!(io::stderr(), "{line}") } else { writeln!(io::stdout(), "{line}") }
        };
        let printed = match &self.bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        };
        if let Err(error) = printed {
            self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Returns whether all lines were printed; call it last.
    ///
    /// # Errors
    /// Why one was not.
    pub(crate) fn printed(&self) -> io::Result<()> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Prints an error message above the bars, on standard error.
    pub(crate) fn print_error(&self, text: &str) {
        let print = || {
            let _ = writeln!(io::stderr(), "{text}");
        };
        match &self.bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }

    /// Starts the display of a run; `unit` is that of the start times.
    pub(crate) fn run(&self, jobs: &[TrialJob], unit: &str) -> RunProgress<'_> {
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        let bars = self.bars.as_ref().map_or_else(Vec::new, |all| {
            let style = ProgressStyle::with_template("  {prefix:14} {bar:24} {percent:>3} %  {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = |job: &TrialJob| {
                let bar = all.add(ProgressBar::new(STEPS).with_style(style.clone()).with_prefix(job.name.clone()));
                bar.set_message(format!("starts after {:.0} {unit}", job.start.as_secs_f64()));
                bar
            };
            jobs.iter().map(bar).collect()
        });
        RunProgress { view: self, bars, names, next_line: LINE_EVERY }
    }
}

impl RunProgress<'_> {
    /// Shows that a job was started.
    pub(crate) fn started(&self, job: usize, at: Duration) {
        match self.bars.get(job) {
            Some(bar) => bar.set_message("started"),
            None => self.line(at, &format!("{} started", self.names[job])),
        }
    }

    /// Shows that a job ended.
    pub(crate) fn ended(&self, job: usize, at: Duration, took: Duration, exit_code: i32) {
        let how = if exit_code == 0 { String::new() } else { format!(" with exit code {exit_code}") };
        let text = format!("done after {:.1} s{how}", took.as_secs_f64());
        match self.bars.get(job) {
            Some(bar) => {
                if exit_code == 0 {
                    bar.set_position(STEPS);
                }
                bar.abandon_with_message(text);
            }
            None => self.line(at, &format!("{} {text}", self.names[job])),
        }
    }

    /// Updates the display; `None` for jobs that do not run.
    pub(crate) fn update(&mut self, at: Duration, views: &[Option<View>]) {
        for (bar, view) in self.bars.iter().zip(views) {
            let Some(view) = view else { continue };
            if let Some(done) = view.done {
                bar.set_position((done * STEPS as f64) as u64);
            }
            bar.set_message(view.describe());
        }
        if !self.bars.is_empty() || at < self.next_line {
            return;
        }
        self.next_line = at + LINE_EVERY;
        for (name, view) in self.names.iter().zip(views) {
            let Some(view) = view else { continue };
            if *view != View::default() {
                let done = view.done.map_or_else(String::new, |done| format!("{:.0} % done, ", done * 100.0));
                self.line(at, &format!("{name}: {done}{}", view.describe()));
            }
        }
    }

    fn line(&self, at: Duration, text: &str) {
        self.view.print(&format!("  {:>5.1} s  {text}", at.as_secs_f64()));
    }
}

impl Drop for RunProgress<'_> {
    fn drop(&mut self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_shows_only_known_values() {
        assert_eq!(View::default().describe(), "");
        let view = View { used: Some(0.5), metric: Some(("loss".into(), 0.25)), ..View::default() };
        assert_eq!(view.describe(), " 50 % CPU, loss 0.25");
    }
}
