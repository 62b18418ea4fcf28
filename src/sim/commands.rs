//! The subcommands of `flowsim`: each reads its input, runs and returns the text to print.

use super::args::{Arguments, Command, ReplayArguments, RunArguments, TraceArguments};
use super::compare::{Change, Comparison, PolicyRuns, Summary, compare};
use super::node::{Keep, simulate};
use super::output::{json, read_text, table, write_whole};
use super::replay::{self, Difference};
use super::report::{self, Report};
use super::scenario::{BUILT_IN, Scenario, VARIATIONS};
use super::trace::{TraceJob, TraceOutcome};
use super::variant::{Decider, VARIANTS, Variant};
use super::{cluster, deadlines, overrides, paper, trace};
use clap::{CommandFactory, Parser};
use model::PolicySettings;
use std::io::Write;
use std::process::ExitCode;
use term::exit;

/// The policies that are compared by default.
const BY_DEFAULT: [&str; 5] = ["fair", "flowcon", "las", "srpt", "balanced"];

/// Returns the command line, for the manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs `flowsim` with the process's arguments. Exit codes: 0 success, 1 failure, 2 wrong usage.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(rejection) => return exit::rejected("flowsim", &rejection),
    };
    let done = match arguments.command {
        Command::Run(arguments) => run_scenario(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Trace(arguments) => run_trace(&arguments),
        Command::Deadlines(arguments) => deadlines::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Replay(arguments) => run_replay(&arguments),
        Command::List => Ok(list()),
    };
    match done.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "flowsim: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A closed pipe (`| head`) is not an error.
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

fn run_scenario(arguments: &RunArguments) -> Result<String, String> {
    let mut scenario = Scenario::open(&arguments.scenario)?;
    let mut settings = PolicySettings::default();
    let options = &arguments.options;
    for assignment in &options.set {
        overrides::apply(assignment, &mut settings, &mut scenario.node)?;
    }
    let variants: Result<Vec<_>, _> =
        policy_names(arguments, scenario.uses_gpus()).into_iter().map(|name| Variant::named(name, &settings)).collect();
    let variants = variants?;
    if let Some(path) = &arguments.record {
        write_whole(path, recording(&scenario, &variants)?.as_bytes())?;
    }
    let comparison = compare(&scenario, &variants, options.seeds);
    if let Some(path) = &options.report {
        let report = Report::of_seed(&scenario, &variants, &comparison, options.report_seed);
        write_whole(path, report::html(&report).as_bytes())?;
    }
    if options.json { json(&comparison) } else { Ok(comparison_table(&comparison)) }
}

fn policy_names(arguments: &RunArguments, uses_gpus: bool) -> Vec<&str> {
    if arguments.compare {
        return VARIANTS.iter().map(|(name, _)| *name).collect();
    }
    if arguments.policy.is_empty() {
        let duty_cycle = uses_gpus.then_some("duty-cycle");
        return BY_DEFAULT.into_iter().chain(duty_cycle).collect();
    }
    arguments.policy.iter().map(String::as_str).collect()
}

fn recording(scenario: &Scenario, variants: &[Variant]) -> Result<String, String> {
    let governed = variants.iter().find_map(|variant| match &variant.decider {
        Decider::Governor(settings) => Some((variant, settings)),
        Decider::Rule(_) => None,
    });
    let (variant, settings) = governed
        .ok_or("--record: only product policies have ticks to record; add flowcon, balanced, completion or quality")?;
    let keep = Keep { recording: true, ..Keep::default() };
    replay::write(settings, simulate(&scenario.node, &scenario.draw(0), variant, keep).recording)
}

fn run_replay(arguments: &ReplayArguments) -> Result<String, String> {
    let path = arguments.file.display().to_string();
    let file = std::fs::File::open(&arguments.file)
        .map_err(|error| format!("{path}: cannot open the recording: {error}; check the path and its permissions"))?;
    let replay = replay::replay(&path, std::io::BufReader::new(file))?;
    if replay.ticks == 0 {
        return Err(format!(
            "{path}: it has no ticks, so nothing was compared; record for longer than an interval: `flowctl record FILE --for 5m`"
        ));
    }
    match replay.difference {
        None => Ok(format!("{path}: {} ticks, all decided the same, bit for bit\n", replay.ticks)),
        Some(Difference { line, at_s, place, recorded, decided }) => Err(format!(
            "{path}:{line}:1: the tick at {at_s} s differs: {place} was {recorded} and is now {decided}; \
             replay it with the version that recorded it",
        )),
    }
}

fn run_trace(arguments: &TraceArguments) -> Result<String, String> {
    let gpus = &arguments.gpus;
    let speeds = arguments.speeds.as_ref().map(|file| {
        let (path, text) = read_text(file, "the speeds")?;
        let speeds = trace::Speeds::parse(&path, &text)?;
        speeds.check(gpus).map(|()| speeds)
    });
    let speeds = speeds.transpose()?;
    let (path, text) = read_text(&arguments.file, "the trace")?;
    let jobs = trace::read(&path, &text, gpus, speeds.as_ref())?;
    let outcome = trace::run(&jobs, gpus, arguments.policy, arguments.restart_cost);
    let result = if arguments.per_job { trace_lines(&jobs, &outcome) } else { trace_summary(&jobs, &outcome) };
    match &arguments.out {
        Some(out) => write_whole(out, result.as_bytes()).map(|()| String::new()),
        None => Ok(result),
    }
}

fn trace_lines(jobs: &[TraceJob], outcome: &TraceOutcome) -> String {
    let mut lines = String::from("job_id,start_s,end_s\n");
    for (job, span) in jobs.iter().zip(&outcome.spans) {
        lines += &format!("{},{},{}\n", job.id, span.start_s, span.end_s);
    }
    lines
}

fn trace_summary(jobs: &[TraceJob], outcome: &TraceOutcome) -> String {
    let mut waits: Vec<u64> = jobs.iter().zip(&outcome.spans).map(|(job, span)| span.end_s - job.submit_s).collect();
    waits.sort_unstable();
    let mean = waits.iter().map(|wait| *wait as f64).sum::<f64>() / waits.len().max(1) as f64;
    let quantile = |part: f64| waits.get((part * waits.len() as f64) as usize).or(waits.last()).copied().unwrap_or(0);
    let end = outcome.spans.iter().map(|span| span.end_s).max().unwrap_or(0);
    format!(
        "{} jobs, {} events, {} preemptions\nmean completion {mean:.4} s, median {} s, p95 {} s, last end {end} s\n",
        jobs.len(),
        outcome.events,
        outcome.preemptions,
        quantile(0.5),
        quantile(0.95),
    )
}

fn comparison_table(comparison: &Comparison) -> String {
    let titles = ["policy", "completion", "p95", "to 95 % quality", "makespan", "worst vs fair", "faster"];
    let rows = comparison.policies.iter().map(|PolicyRuns { name, summary, .. }| {
        let fair = Some(&comparison.fair).filter(|_| name != "fair");
        let seconds = |of: fn(&Summary) -> f64| with_change(of(summary), fair.map(of));
        vec![
            name.clone(),
            seconds(|summary| summary.mean_completion_s),
            seconds(|summary| summary.p95_completion_s),
            seconds(|summary| summary.mean_t95_s),
            seconds(|summary| summary.makespan_s),
            Change(summary.worst_vs_fair).to_string(),
            format!("{:.1}", summary.jobs_faster),
        ]
    });
    let table = table(&titles, 1, rows);
    let (name, seeds) = (&comparison.scenario, comparison.seeds);
    format!("{name}, means over {seeds} seeds, seconds; in brackets: change against fair\n{table}")
}

fn with_change(seconds: f64, fair: Option<f64>) -> String {
    match fair {
        Some(fair) => format!("{seconds:.1} ({})", Change::between(fair, seconds)),
        None => format!("{seconds:.1}"),
    }
}

fn list() -> String {
    let mut text = String::from("scenarios (built in)\n");
    for name in BUILT_IN {
        text += &format!("  {name}\n");
    }
    text += "suffixes of a scenario's name, which can be combined\n";
    for (suffix, meaning) in VARIATIONS {
        text += &format!("  {:<16} {meaning}\n", format!("-{suffix}"));
    }
    text += "policies\n";
    for (name, meaning) in VARIANTS {
        text += &format!("  {name:<16} {meaning}\n");
    }
    text += "scenarios of flowsim cluster, with the same suffixes\n";
    for name in cluster::CLUSTER_SCENARIOS {
        text += &format!("  {name}\n");
    }
    text += "policies of flowsim cluster\n";
    for (name, meaning) in cluster::CLUSTER_VARIANTS {
        text += &format!("  {name:<16} {meaning}\n");
    }
    text += "policies of flowsim deadlines\n";
    for (name, meaning) in deadlines::POLICIES {
        text += &format!("  {name:<16} {meaning}\n");
    }
    text
}
