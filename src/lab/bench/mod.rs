//! `flowctl bench`: runs the same schedule of real jobs repeatedly under each policy and compares the results.
//!
//! Each repeat runs all policies in turn, plain sharing first, so that a machine that slows down affects all of them. Runs disturbed by
//! other processes or the hypervisor are marked.

mod list;
mod page;
mod placeholder;
mod quality;
mod report;
mod summary;
mod variant;

use crate::trial::backend::{Backend, RuntimeChoice};
use crate::trial::confine::Cores;
use crate::trial::governor::GovernorSlot;
use crate::trial::job::TrialJob;
use crate::trial::outcome::RunOutcome;
use crate::trial::progress_view::ProgressView;
use crate::trial::temp_dir::TempDir;
use crate::trial::work_clock::StartsCount;
use crate::trial::{self, JobFailed, OnFailure};
use anyhow::{Context, Result};
use clap::Args;
use list::RunParams;
use model::Millis;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use summary::Bench;
use term::exit::{Exit, Failure};
use term::screen::Screen;
use variant::{FAIR, Variant};

/// Arguments of `flowctl bench`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = include_str!("list_help.txt"))]
pub struct BenchArgs {
    /// The list of jobs, for example config/examples/bench.toml
    jobs: PathBuf,
    /// Policies to compare; plain sharing (fair) always runs first
    #[arg(long, value_delimiter = ',', default_value = "fair,flowcon,balanced,completion", value_parser = Variant::named)]
    policy: Vec<Variant>,
    /// Run each policy N times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Run each training once before with another seed, so that the governors know it; this run is not counted
    #[arg(long)]
    seen_before: bool,
    /// Where the jobs run
    #[arg(long, value_enum, default_value_t, value_name = "RUNTIME")]
    runtime: RuntimeChoice,
    /// Cores that the jobs share [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Time between two decisions
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = trial::interval)]
    interval: Duration,
    /// Multiply epochs and start times of the list, for example by 0.1 for a quick test
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = scale)]
    scale: f64,
    /// Write a report as an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn scale(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.001..=1000.0).contains(&factor) { Ok(factor) } else { Err("between 0.001 and 1000".to_owned()) }
}

/// Runs the benchmark and prints its tables; with `-o json`, its result as JSON, and the rest on standard error.
pub fn run(args: &BenchArgs, screen: &Screen) -> Result<(), Failure> {
    let most = args.cores.map_or(usize::MAX, |cores| cores as usize);
    let cores = Cores::at_most(most).context("determine the available cores")?;
    let list = List::read(args, cores.count())?;
    if let Some(path) = &args.report {
        report::check_writable(path)?;
    }
    let runtime = tokio::runtime::Runtime::new().context("start the benchmark's threads")?;
    runtime.block_on(measure(args, screen, &cores, &list))
}

/// The jobs of each repeat.
struct List {
    repeats: Vec<Vec<TrialJob>>,
    /// Jobs of the preliminary run, with seeds that no repeat uses.
    before: Option<Vec<TrialJob>>,
}

impl List {
    fn read(args: &BenchArgs, cores: usize) -> Result<List, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message, "`flowctl help bench` lists every key");
        let path = &args.jobs;
        let text = std::fs::read_to_string(path).map_err(|error| usage(format!("{}: {error}", path.display())))?;
        let repeats = u64::from(args.repeats);
        let jobs = |repeat| list::parse(path, &text, RunParams { scale: args.scale, cores, repeat }).map_err(usage);
        let before = args.seen_before.then(|| jobs(repeats)).transpose()?;
        Ok(List { repeats: (0..repeats).map(jobs).collect::<Result<_, _>>()?, before })
    }
}

/// Opens the backend, runs all policies, and cleans up in any case, also on Ctrl-C.
async fn measure(args: &BenchArgs, screen: &Screen, cores: &Cores, list: &List) -> Result<(), Failure> {
    let mut interruption = pin!(trial::interrupted());
    let temp_dir = TempDir::new()?;
    let backend = Backend::open(args.runtime, &temp_dir, cores, interruption.as_mut()).await?;
    let governing = GovernorSlot::default();
    let view = ProgressView::beside(screen);
    let ended = tokio::select! {
        runs = run_all(args, list, &temp_dir, &backend, &governing, &view) => runs.map_err(ended_early),
        interruption = interruption => Err(interruption),
    };
    let runtime = backend.name();
    backend.close().await;
    governing.stop().await;
    let (path, jobs) = (args.jobs.display().to_string(), &list.repeats[0]);
    let bench = Bench::new(&path, runtime, args.seen_before, jobs, cores.count(), ended?);
    conclude(args, screen, &view, &bench)?;
    Ok(view.printed()?)
}

fn ended_early(error: anyhow::Error) -> Failure {
    if error.chain().any(|cause| cause.is::<JobFailed>()) {
        let next = "all jobs were removed; fix the job, then try the list with --repeats 1 --policy fair --scale 0.01";
        return Failure::new(Exit::Failed, format!("{error:#}"), next);
    }
    error.into()
}

async fn run_all(
    args: &BenchArgs,
    list: &List,
    temp_dir: &TempDir,
    backend: &Backend,
    governing: &GovernorSlot,
    view: &ProgressView,
) -> Result<Vec<(Variant, RunOutcome)>> {
    let mut variants = vec![FAIR];
    for variant in &args.policy {
        if !variants.contains(variant) {
            variants.push(*variant);
        }
    }
    let interval = Millis(args.interval.as_millis() as u64);
    let run = async |variant: Variant, jobs: &[TrialJob], state_dir: PathBuf| {
        let governor = governing.start(temp_dir, state_dir, variant.settings(interval), backend).await?;
        let outcome = trial::run(backend, &governor, jobs, StartsCount::Time, view, OnFailure::Stop).await;
        backend.clear().await;
        governing.stop().await;
        outcome
    };
    let known = match &list.before {
        Some(jobs) => {
            view.print("preliminary run of each training with another seed: fair");
            let state_dir = temp_dir.new_state_dir();
            run(FAIR, jobs, state_dir.clone()).await?;
            Some(state_dir)
        }
        None => None,
    };
    let mut runs = Vec::new();
    for (repeat, jobs) in list.repeats.iter().enumerate() {
        for &variant in &variants {
            let which = || format!("repeat {} of {}: {}", repeat + 1, args.repeats, variant.name);
            view.print(&which());
            let state_dir =
                known.as_ref().map_or_else(|| Ok(temp_dir.new_state_dir()), |known| temp_dir.state_dir_like(known))?;
            let outcome = run(variant, jobs, state_dir).await.with_context(which)?;
            view.print(&summary::line(variant, &outcome));
            runs.push((variant, outcome));
        }
    }
    Ok(runs)
}

fn conclude(args: &BenchArgs, screen: &Screen, view: &ProgressView, bench: &Bench) -> Result<()> {
    view.print(&format!("\n{}", bench.page(&screen.look())));
    let written = args.report.as_deref().map_or(Ok(()), |path| report::write(path, bench));
    if let (Some(path), Ok(())) = (&args.report, &written) {
        view.print(&format!("Report: {}", path.display()));
    }
    if screen.is_json() {
        screen.print_json(&bench.summary()).context("write the result as JSON")?;
    }
    written
}
