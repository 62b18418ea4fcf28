//! `flowctl demo`: runs real trainings on this machine, first under plain sharing, then governed, and compares the results.
//!
//! Starts and times count work, not seconds, so that the result is the same on a machine whose speed changes.
//!
//! Nothing needs to be installed: the governor runs in this process on a private socket, and the jobs are this program, in
//! containers if an engine is available, otherwise as `flowctl run` commands.

mod comparison;
pub(super) mod picture;
pub(super) mod schedule;
mod timed_run;
pub(super) mod verdict;

use crate::trial::backend::{Backend, RuntimeChoice};
use crate::trial::confine::Cores;
use crate::trial::governor::GovernorSlot;
use crate::trial::job::TrialJob;
use crate::trial::outcome::RunOutcome;
use crate::trial::progress_view::ProgressView;
use crate::trial::temp_dir::TempDir;
use crate::trial::work_clock::{LoggedWork, StartsCount};
use crate::trial::{self, OnFailure};
use anyhow::{Context, Result};
use clap::Args;
use comparison::Comparison;
use model::{Millis, PolicyName, PolicySettings};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::when;
use timed_run::TimedRun;

/// Shown below the options of `flowctl demo`.
const TIMES_HELP: &str = "\
    A training starts when the others have done a certain amount of work, read from the lines of their logs, and its time is the work \
    that all of them did until its end, in seconds of the plain run. So other load and changes of the machine's speed change no result. \
    They are visible in the last rows of the table: the times by the clock and the CPU time of both runs.";

/// Arguments of `flowctl demo`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = TIMES_HELP)]
pub struct DemoArgs {
    /// Where the jobs run
    #[arg(long, value_enum, default_value_t, value_name = "RUNTIME")]
    runtime: RuntimeChoice,
    /// Policy of the second run: flowcon, balanced or fair
    #[arg(long, value_name = "NAME", value_parser = str::parse::<PolicyName>)]
    policy: Option<PolicyName>,
    /// Time between two decisions
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = trial::interval)]
    interval: Duration,
    /// Number of cores that the trainings share, so that they compete on a large machine, too
    #[arg(long, value_name = "N", default_value = "1", value_parser = cores)]
    cores: usize,
    /// Intended length of each run: the work of all trainings divided by these cores
    #[arg(long, value_name = "SECONDS", default_value = "46", value_parser = work)]
    work: Duration,
    /// File to write the chart to [default: a new file in the temporary directory]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn cores(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|cores| *cores > 0).ok_or_else(|| "expected a number of cores, 1 or more".to_owned())
}

fn work(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_secs(1), Duration::from_secs(86_400))
}

/// Runs the demo and prints its result; with `-o json`, as JSON on standard output, and for people on standard error.
pub fn run(args: &DemoArgs, screen: &Screen) -> Result<(), Failure> {
    let cores = Cores::at_most(args.cores).context("choose the cores for the demo")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the demo's threads")?;
    let ended = runtime.block_on(show(args, screen, &cores));
    // An interrupted measurement may still be running; it has nothing to clean up.
    runtime.shutdown_background();
    ended
}

/// Resources of a running demo.
struct Demo<'a> {
    args: &'a DemoArgs,
    screen: &'a Screen,
    cores: &'a Cores,
    temp_dir: &'a TempDir,
    view: ProgressView,
    backend: Backend,
    governing: GovernorSlot,
}

/// Opens the backend, runs the comparison, and cleans up in any case, also on Ctrl-C.
async fn show(args: &DemoArgs, screen: &Screen, cores: &Cores) -> Result<(), Failure> {
    let mut interruption = pin!(trial::interrupted());
    let temp_dir = TempDir::new()?;
    let backend = Backend::open(args.runtime, &temp_dir, cores, interruption.as_mut()).await?;
    let demo = Demo {
        args,
        screen,
        cores,
        temp_dir: &temp_dir,
        view: ProgressView::beside(screen),
        backend,
        governing: GovernorSlot::default(),
    };
    let ended = tokio::select! {
        ended = demo.play() => ended,
        interruption = interruption => Err(interruption),
    };
    demo.backend.close().await;
    demo.governing.stop().await;
    ended
}

impl Demo<'_> {
    async fn play(&self) -> Result<(), Failure> {
        self.introduce();
        let (jobs, work) = self.measure().await?;
        self.announce(&jobs);
        let plain = self.perform("plain sharing", PolicyName::Fair, &jobs, &work).await?;
        let governed = self.perform("governed", self.policy(), &jobs, &work).await?;
        let (plain, governed) = TimedRun::both(plain, governed);
        let plot = self.args.plot.clone().unwrap_or_else(picture::new_path);
        let comparison = Comparison { runtime: self.backend.name(), plain, governed, plot: plot.display().to_string() };
        self.conclude(&comparison, &plot)?;
        let failed_jobs = comparison.failed_jobs();
        if failed_jobs.is_empty() {
            return Ok(self.view.printed()?);
        }
        let message = format!("these trainings failed: {}", failed_jobs.join(", "));
        Err(Failure::new(Exit::Failed, message, "see the last lines of their output above"))
    }

    fn policy(&self) -> PolicyName {
        self.args.policy.unwrap_or(PolicySettings::default().policy)
    }

    fn introduce(&self) {
        let count = self.cores.count();
        let minutes = (2.6 * self.args.work.as_secs_f64() / 60.0).max(1.0);
        self.view.print(&format!(
            "Five trainings share {} as {}, first under plain sharing, then governed by {}: about {minutes:.0} min.\n\
             Measuring the work first, so that both runs do the same work.",
            if count == 1 { "one core".to_owned() } else { format!("{count} cores") },
            match (&self.backend, self.args.runtime) {
                (Backend::Docker(_), _) => "containers",
                (Backend::Scope(_), RuntimeChoice::Auto) => {
                    "commands in separate cgroups (no container engine of this machine replies)"
                }
                (Backend::Scope(_), _) => "commands in separate cgroups",
            },
            self.policy()
        ));
    }

    /// Measures the work on a blocking thread, so that the async threads can handle signals.
    async fn measure(&self) -> Result<(Vec<TrialJob>, Vec<LoggedWork>)> {
        let (length, cores) = (self.args.work, self.cores.clone());
        let measured =
            tokio::task::spawn_blocking(move || cores.run_confined(|| schedule::sized(length, cores.count())));
        Ok(measured.await.context("measure the work")???)
    }

    fn announce(&self, jobs: &[TrialJob]) {
        for job in jobs {
            let start = job.start.as_secs_f64();
            let line = job.work.command_line("flowctl").join(" ");
            let labels: String = job.labels.iter().map(|(key, value)| format!(" ({key}={value})")).collect();
            self.view.print(&format!("  {:14} starts after {start:>4.1} s of work: {line}{labels}", job.name));
        }
    }

    async fn perform(
        &self,
        title: &str,
        policy: PolicyName,
        jobs: &[TrialJob],
        work: &[LoggedWork],
    ) -> Result<RunOutcome> {
        let settings = PolicySettings {
            policy,
            interval: Millis(self.args.interval.as_millis() as u64),
            ..PolicySettings::default()
        };
        let interval = self.args.interval.as_secs_f64();
        self.view.print(&format!("\n{title}: policy {}, one decision every {interval} s", policy));
        let governor =
            self.governing.start(self.temp_dir, self.temp_dir.new_state_dir(), settings, &self.backend).await?;
        let starts = StartsCount::Work(work.to_vec());
        let outcome = trial::run(&self.backend, &governor, jobs, starts, &self.view, OnFailure::Continue).await;
        self.backend.clear().await;
        self.governing.stop().await;
        outcome
    }

    fn conclude(&self, comparison: &Comparison, plot: &Path) -> Result<()> {
        let title = format!("governed by {}", self.policy());
        let (plain, governed) = (&comparison.plain, &comparison.governed);
        let svg = picture::draw((&plain.work, "plain sharing"), (&governed.work, &title), "seconds of work");
        let written = picture::write(plot, &svg, self.args.plot.is_none());
        self.view.print(&format!("\n{}", verdict::page_in_work(plain, governed, &self.screen.look())));
        if written.is_ok() {
            self.view.print(&format!("Shares over time: {}", plot.display()));
        }
        if self.screen.is_json() {
            self.screen.print_json(comparison).context("write the result as JSON")?;
        }
        written
    }
}
