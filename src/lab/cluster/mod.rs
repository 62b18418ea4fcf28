//! `flowcoord demo`: runs the same trainings on a private Docker Swarm on this machine, ungoverned and governed, and compares the results.
//!
//! ```text
//! nodes       the sizes of the nodes, and their CPUs
//! swarm       engines in network namespaces, each a node; the daemons of each node
//! schedule    the trainings, their work and their start times
//! heartbeats  the epochs finished by each container
//! failures    why a job or an engine has ended
//! ```
//! Only the engine must be installed: images and daemons are made from this program.

mod failures;
mod heartbeats;
mod nodes;
mod schedule;
mod swarm;

use super::demo::{picture, verdict};
use super::trial::outcome::{Foreign, RunOutcome};
use super::trial::progress_view::ProgressView;
use super::trial::stat::{CpuParts, CpuTime};
use super::trial::{confine::Cores, interrupted};
use anyhow::{Context, Result, bail};
use clap::Args;
use heartbeats::Heartbeats;
use nodes::LabNode;
use schedule::ClusterJob;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};
use swarm::{Engines, Governed, Swarm};
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::when;

/// Arguments of `flowcoord demo`.
#[derive(Args, Clone, Debug)]
pub struct ClusterDemoArgs {
    /// Number of nodes in the Swarm
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(2..=16))]
    nodes: u16,
    /// Intended length of each run: the work of all trainings divided by all nodes
    #[arg(long, value_name = "SECONDS", default_value = "90", value_parser = work)]
    work: Duration,
    /// Make the first node twice as large as each of the others
    #[arg(long)]
    unequal_nodes: bool,
    /// Seed of the order in which the trainings arrive
    #[arg(long, value_name = "SEED", default_value = "1")]
    seed: u64,
    /// Also run Swarm's placement with governed nodes, to show the effect of the coordinator
    #[arg(long)]
    with_spread: bool,
    /// Run one training of each kind before, with other numbers and half as long, so that the nodes and the coordinator know them
    #[arg(long)]
    seen_before: bool,
    /// File to write the chart to [default: a new file in the temporary directory]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print the result also as one JSON object on the last line
    #[arg(long)]
    json: bool,
}

/// Time between two looks for failed trainings.
const LOOK_EVERY: Duration = Duration::from_secs(5);

fn work(text: &str) -> Result<Duration, String> {
    when::duration_within(text, Duration::from_secs(10), Duration::from_secs(86_400))
}

/// The demo's result as printed with `--json`.
#[derive(Clone, Debug, Serialize)]
struct ClusterComparison {
    nodes: u16,
    /// Seed of the order of arrival.
    seed: u64,
    /// Whether a training of each kind has run before.
    seen_before: bool,
    /// Swarm's placement, plain sharing.
    plain: RunOutcome,
    /// Swarm's placement, governed nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<RunOutcome>,
    /// Placed by the coordinator, governed nodes.
    governed: RunOutcome,
    /// How often a job was moved.
    moves: usize,
    /// How often a container wrote again after another had taken over.
    two_writers: usize,
    /// Number of epochs that were repeated or skipped.
    lost_units: usize,
    plot: String,
}

/// One run: its outcome and its heartbeats.
struct Run {
    outcome: RunOutcome,
    beats: Vec<Heartbeats>,
}

/// The runs to compare.
struct Runs {
    plain: Run,
    spread: Option<Run>,
    governed: Run,
}

/// How the nodes are governed and the jobs are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    Before,
    Plain,
    Spread,
    Governed,
}

impl Setup {
    const fn title(self) -> &'static str {
        match self {
            Setup::Before => "before: one training of each kind, for the records of the nodes and of the coordinator",
            Setup::Plain => "plain Swarm: Swarm's placement, plain sharing",
            Setup::Spread => "governed nodes, Swarm's placement",
            Setup::Governed => "governed nodes, placed by flowcoord",
        }
    }

    const fn is_placed_by_flowcoord(self) -> bool {
        matches!(self, Setup::Before | Setup::Governed)
    }

    const fn tag(self) -> &'static str {
        match self {
            Setup::Before => "before",
            Setup::Plain => "plain",
            Setup::Spread => "spread",
            Setup::Governed => "governed",
        }
    }
}

/// Runs the demo and prints its result.
///
/// # Errors
/// The Swarm did not start, a training failed, or the demo was interrupted. Everything is removed in this case, too.
pub fn run(args: &ClusterDemoArgs, screen: &Screen) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("start the demo's threads")?;
    let ended = runtime.block_on(show(args, screen));
    // An interrupted measurement may still be running; it has nothing to clean up.
    runtime.shutdown_background();
    ended
}

/// Starts the engines, runs the comparison, and waits until the engines are removed in any case, also on Ctrl-C.
async fn show(args: &ClusterDemoArgs, screen: &Screen) -> Result<(), Failure> {
    let view = ProgressView::on_stdout();
    let cores = Cores::all().context("count the cores")?;
    let nodes = nodes::nodes(cores.count(), args.nodes, args.unequal_nodes);
    let mut interruption = pin!(interrupted());
    let jobs = tokio::select! {
        jobs = measure(args, &nodes, &view) => jobs?,
        interruption = &mut interruption => return Err(interruption),
    };
    let mut engines = Engines::start(&nodes, &cores)?;
    let ended = tokio::select! {
        runs = compare(args, &mut engines, &nodes, &jobs, &view) => runs.map_err(Failure::from),
        interruption = &mut interruption => Err(interruption),
    };
    engines.close().await;
    conclude(ended?, args, &view, screen)
}

/// Measures the work on a blocking thread, so that the async threads can handle signals, and prints the schedule.
async fn measure(args: &ClusterDemoArgs, nodes: &[LabNode], view: &ProgressView) -> Result<Vec<ClusterJob>> {
    let (count, length, seed, cores) = (args.nodes, args.work, args.seed, nodes::cores(nodes));
    let sizes = nodes.iter().map(|node| format!("{:.2}", node.cores)).collect::<Vec<_>>().join(", ");
    let lengths = 3.2 + if args.with_spread { 1.3 } else { 0.0 } + if args.seen_before { 0.6 } else { 0.0 };
    let minutes = (lengths * length.as_secs_f64() / 60.0).max(1.0);
    view.print(&format!(
        "{} trainings on a Docker Swarm of {count} nodes with {sizes} cores, first ungoverned, then governed: about {minutes:.0} \
         min.\nMeasuring the work first, so that all runs do the same work.",
        schedule::JOBS_PER_NODE * nodes.len(),
    ));
    let sized = tokio::task::spawn_blocking(move || schedule::sized(length, count, cores, seed));
    let jobs = sized.await.context("measure the work")?.context("measure the work")?;
    for job in &jobs {
        let (start, command) = (job.start.as_secs_f64(), job.command().join(" "));
        view.print(&format!("  {:10} starts after {start:>5.1} s: {command}", job.name));
    }
    Ok(jobs)
}

/// Runs the jobs once in each setup.
async fn compare(
    args: &ClusterDemoArgs,
    engines: &mut Engines,
    nodes: &[LabNode],
    jobs: &[ClusterJob],
    view: &ProgressView,
) -> Result<Runs> {
    let mut swarm = Swarm::on(engines, args.nodes).await?;
    view.print(&format!("\n{} engines form a Swarm", args.nodes));
    if args.seen_before {
        perform(&mut swarm, Setup::Before, nodes, &schedule::before(jobs), view).await?;
    }
    let plain = perform(&mut swarm, Setup::Plain, nodes, jobs, view).await?;
    let spread = match args.with_spread {
        true => Some(perform(&mut swarm, Setup::Spread, nodes, jobs, view).await?),
        false => None,
    };
    let governed = perform(&mut swarm, Setup::Governed, nodes, jobs, view).await?;
    Ok(Runs { plain, spread, governed })
}

fn comparison(runs: Runs, args: &ClusterDemoArgs, plot: &Path) -> ClusterComparison {
    let sum = |of: fn(&Heartbeats) -> usize| runs.governed.beats.iter().map(of).sum();
    ClusterComparison {
        nodes: args.nodes,
        seed: args.seed,
        seen_before: args.seen_before,
        moves: sum(Heartbeats::moves),
        two_writers: sum(Heartbeats::two_writers),
        lost_units: sum(Heartbeats::lost_units),
        plain: runs.plain.outcome,
        spread: runs.spread.map(|run| run.outcome),
        governed: runs.governed.outcome,
        plot: plot.display().to_string(),
    }
}

fn conclude(runs: Runs, args: &ClusterDemoArgs, view: &ProgressView, screen: &Screen) -> Result<(), Failure> {
    let plot = &args.plot.clone().unwrap_or_else(picture::new_path);
    let comparison = &comparison(runs, args, plot);
    let (plain, governed) = (&comparison.plain, &comparison.governed);
    let svg = picture::draw((plain, "plain Swarm"), (governed, "governed by flowcon"), "seconds");
    let written = picture::write(plot, &svg, args.plot.is_none());
    view.print(&format!("\n{}", verdict::page(plain, governed, &screen.look())));
    if let Some(spread) = &comparison.spread {
        let change = |run: &RunOutcome| 100.0 * (run.mean_completion_s / plain.mean_completion_s - 1.0);
        view.print(&format!(
            "Mean completion with governed nodes and Swarm's placement: {:.1} s ({:+.0} %); with flowcoord's placement: {:.1} s ({:+.0} %).",
            spread.mean_completion_s, change(spread), governed.mean_completion_s, change(governed)
        ));
    }
    view.print(&format!(
        "Moves: {}. Jobs with two writers: {}. Epochs lost or repeated: {}.",
        comparison.moves, comparison.two_writers, comparison.lost_units
    ));
    if written.is_ok() {
        view.print(&format!("Shares over time: {}", plot.display()));
    }
    if args.json {
        view.print(&serde_json::to_string(comparison).context("write the result as JSON")?);
    }
    if comparison.two_writers + comparison.lost_units > 0 {
        return Err(Failure::new(
            Exit::Failed,
            "a job had two writers or lost work",
            "please report this bug: it must never happen",
        ));
    }
    written?;
    Ok(view.printed()?)
}

/// Runs all jobs once, with daemons started for this run.
async fn perform(
    swarm: &mut Swarm,
    setup: Setup,
    nodes: &[LabNode],
    jobs: &[ClusterJob],
    view: &ProgressView,
) -> Result<Run> {
    view.print(&format!("\n{}", setup.title()));
    match setup {
        Setup::Plain => {}
        Setup::Spread => swarm.govern(Governed::Nodes).await?,
        Setup::Before | Setup::Governed => swarm.govern(Governed::Cluster).await?,
    }
    let cores = Cores::all().context("count the cores")?;
    let (cpu_before, used_before) = (CpuTime::now(&cores), swarm.cpu_used_s());
    let (began, began_s) = (Instant::now(), heartbeats::now_s());
    let latest = jobs.iter().map(|job| job.start).max().unwrap_or_default();
    let timeout = latest + 8 * jobs.iter().map(|job| job.work).sum::<Duration>() + Duration::from_secs(120);
    let mut waiting: Vec<&ClusterJob> = jobs.iter().collect();
    waiting.sort_by_key(|job| std::cmp::Reverse(job.start));
    let mut starts = vec![0.0; jobs.len()];
    let mut is_done = vec![false; jobs.len()];
    let mut looked = began;
    while is_done.contains(&false) {
        tokio::time::sleep(Duration::from_millis(200)).await;
        while let Some(job) = waiting.pop_if(|job| job.start <= began.elapsed()) {
            starts[job.number] = heartbeats::now_s();
            swarm.submit(job, setup.tag(), setup.is_placed_by_flowcoord()).await?;
            view.print(&format!("  {:>5.1} s  {} starts", began.elapsed().as_secs_f64(), job.name));
        }
        for job in jobs.iter().filter(|job| starts[job.number] > 0.0) {
            let beats = Heartbeats::read(&swarm.heartbeats(job, setup.tag()));
            if !is_done[job.number] && beats.units() >= job.amount.epochs {
                is_done[job.number] = true;
                let text = format!("{} done after {:.1} s", job.name, beats.ended_s() - starts[job.number]);
                view.print(&format!("  {:>5.1} s  {text}", began.elapsed().as_secs_f64()));
            }
        }
        if looked.elapsed() > LOOK_EVERY {
            let running = jobs.iter().filter(|job| starts[job.number] > 0.0 && !is_done[job.number]);
            let running: Vec<&str> = running.map(|job| job.name.as_str()).collect();
            if let Some(failure) = swarm.failure(&running, setup.is_placed_by_flowcoord()).await {
                bail!("a training failed and is not restarted: {failure}");
            }
            looked = Instant::now();
        }
        if began.elapsed() > timeout {
            let late = jobs.iter().filter(|job| !is_done[job.number]).map(|job| job.name.as_str()).collect::<Vec<_>>();
            bail!(
                "these jobs did not finish within {} s: {}\n{}",
                timeout.as_secs(),
                late.join(", "),
                swarm.task_states().await
            );
        }
    }
    let parts = cpu_before.zip(CpuTime::now(&cores)).map(|(before, after)| after.since(&before));
    let used = used_before.zip(swarm.cpu_used_s()).map(|(before, after)| after - before);
    let foreign = foreign(parts, used, began.elapsed(), cores.count());
    if setup == Setup::Before {
        swarm.remember(jobs).await?;
    }
    swarm.clear().await?;
    let beats: Vec<Heartbeats> = jobs.iter().map(|job| Heartbeats::read(&swarm.heartbeats(job, setup.tag()))).collect();
    let outcome = heartbeats::outcome(jobs, &beats, &starts, began_s, foreign, nodes::cores(nodes));
    Ok(Run { outcome, beats })
}

/// Use of all cores by the nodes' containers, the hypervisor, and all others, among them the engines. `used_s`: CPU-seconds of the nodes.
fn foreign(parts: Option<CpuParts>, used_s: Option<f64>, length: Duration, cores: usize) -> Foreign {
    let CpuParts { busy, stolen } = parts.unwrap_or(CpuParts { busy: 0.0, stolen: 0.0 });
    let Some(used_s) = used_s else { return Foreign { stolen, ..Foreign::default() } };
    let ours = used_s / (length.as_secs_f64() * cores as f64).max(1e-3);
    Foreign { ours, stolen, others: (busy - ours).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_nodes_did_not_use_is_foreign_unless_their_use_is_unknown() {
        let parts = Some(CpuParts { busy: 0.9, stolen: 0.02 });
        let found = foreign(parts, Some(120.0), Duration::from_secs(100), 2);
        assert_eq!((found.ours, found.stolen), (0.6, 0.02));
        assert!((found.others - 0.3).abs() < 1e-9, "{found:?}");
        assert_eq!(foreign(parts, None, Duration::from_secs(100), 2).others, 0.0);
        assert_eq!(foreign(None, Some(1.0), Duration::from_secs(100), 2).others, 0.0);
    }
}
