//! The command `flowsim deadlines`.

use crate::options::seconds_up_to;
use crate::output::{self, read_text};
use clap::Args;
use deadlines::{Comparison, Instance, NodeHistory, Solver, Tables, compare, read};
use policy::cluster::deadlines::LearnedTime;
use std::path::{Path, PathBuf};

/// Default names of the files with run times and prices, in the directory of the jobs and in `../traces`.
const TIMES: [&str; 2] = ["exec_times.csv", "polimi_exec_times.csv"];
const NO_TIMES: &str = "job_class,gpu_type,num_gpus,exec_time_s\n";
const PRICES: [&str; 2] = ["vm_costs.csv", "polimi_vm_costs_azure.csv"];

/// `flowsim deadlines`.
#[derive(Args)]
pub(crate) struct DeadlinesArguments {
    /// A CSV file with the columns job_id, job_class, submit_s, deadline_s, tardiness_weight (cost of each second after the deadline), and
    /// instance if it contains several.
    pub file: PathBuf,
    /// A CSV file with the columns job_class, gpu_type, num_gpus, exec_time_s; by default exec_times.csv or polimi_exec_times.csv beside
    /// FILE or in ../traces.
    #[arg(long, value_name = "FILE")]
    pub times: Option<PathBuf>,
    /// The history of a node with this type of GPU, as written by `flowctl history --since 30d --json` there: run times that are missing in
    /// the table, by the jobs' names; can be given for several nodes.
    #[arg(long, value_name = "TYPE=FILE", value_parser = learned)]
    pub learned: Vec<(String, PathBuf)>,
    /// A CSV file with the columns VMtype, GPUtype, nGPUs, cost (per hour); by default vm_costs.csv or polimi_vm_costs_azure.csv beside
    /// FILE or in ../traces.
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Types of GPU that may be rented, or all; the published instances use these two.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', default_value = "K80,M60")]
    pub gpu_types: Vec<String>,
    /// Policies to compare, separated by commas (see `flowsim list`).
    #[arg(
        long,
        short,
        value_delimiter = ',',
        default_value = "greedy,random,local,hierarchical,fifo,edf,edf-packed,priority"
    )]
    pub policy: Vec<String>,
    /// Number of nodes, if an instance's name does not have the form 1-NODES-JOBS.
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<usize>,
    /// Runs only these instances of FILE.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub instance: Vec<String>,
    /// Randomised constructions per step.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub constructions: u64,
    /// Number of controllers of the hierarchical policy.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub controllers: u32,
    /// Seconds without progress when a job is moved, stopped or resized.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds_up_to(1e9))]
    pub restart_cost: f64,
    /// The seed of the randomised policies.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Prints each cost also as a multiple of the lower bound: every job alone and on time.
    #[arg(long)]
    pub lower_bound: bool,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    pub json: bool,
}

fn learned(text: &str) -> Result<(String, PathBuf), String> {
    let (gpu_type, file) = text
        .split_once('=')
        .filter(|(gpu_type, file)| !gpu_type.is_empty() && !file.is_empty())
        .ok_or_else(|| "expected TYPE=FILE, as in K80=node-1.json".to_owned())?;
    Ok((gpu_type.to_owned(), file.into()))
}

/// Runs `flowsim deadlines` and returns its output.
///
/// # Errors
/// File, line, column and what is expected; an unknown policy or instance.
pub(crate) fn run(arguments: &DeadlinesArguments) -> Result<String, String> {
    let solvers = solvers(arguments)?;
    let instances = instances(arguments)?;
    let comparison = compare(&instances, &solvers, arguments.restart_cost)?;
    if !arguments.json {
        return Ok(table(&comparison, &instances, &arguments.policy, arguments.lower_bound));
    }
    let mut json =
        serde_json::to_value(&comparison).map_err(|error| format!("cannot write the result as JSON: {error}"))?;
    if !arguments.lower_bound
        && let Some(object) = json.as_object_mut()
    {
        object.retain(|key, _| key == "policies");
        for figures in
            object.values_mut().filter_map(|policies| policies.as_object_mut()).flat_map(|map| map.values_mut())
        {
            figures.as_object_mut().map(|figures| figures.remove("over_lower_bound"));
        }
    }
    Ok(format!("{json}\n"))
}

fn solvers(arguments: &DeadlinesArguments) -> Result<Vec<(String, Solver)>, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let solver = |name: &String| {
        Ok((
            name.clone(),
            Solver {
                policy: name.parse()?,
                constructions: arguments.constructions,
                controllers: arguments.controllers as usize,
                seed: arguments.seed,
                threads,
            },
        ))
    };
    arguments.policy.iter().map(solver).collect()
}

fn instances(arguments: &DeadlinesArguments) -> Result<Vec<Instance>, String> {
    let jobs = read_text(&arguments.file, "the jobs")?;
    let times = beside(arguments.times.as_deref(), &arguments.file, &TIMES, "--times");
    let times = match times {
        // The learned run times may be the only ones.
        Err(_) if !arguments.learned.is_empty() => ("--learned".to_owned(), NO_TIMES.to_owned()),
        found => read_text(&found?, "the run times")?,
    };
    let learned = learned_times(&arguments.learned)?;
    let prices = beside(arguments.prices.as_deref(), &arguments.file, &PRICES, "--prices")?;
    let prices = read_text(&prices, "the prices")?;
    let all = arguments.gpu_types.iter().any(|name| name == "all");
    let tables = Tables {
        jobs: (&jobs.0, &jobs.1),
        times: (&times.0, &times.1),
        learned: &learned,
        prices: (&prices.0, &prices.1),
        gpu_types: if all { &[] } else { &arguments.gpu_types },
        nodes: arguments.nodes,
    };
    let mut instances = read(&tables)?;
    for wanted in &arguments.instance {
        if !instances.iter().any(|instance| instance.name == *wanted) {
            let known: Vec<&str> = instances.iter().map(|instance| instance.name.as_str()).collect();
            return Err(format!("{}: no instance `{wanted}`; expected one of {}", jobs.0, known.join(", ")));
        }
    }
    instances.retain(|instance| arguments.instance.is_empty() || arguments.instance.contains(&instance.name));
    Ok(instances)
}

fn learned_times(nodes: &[(String, PathBuf)]) -> Result<Vec<LearnedTime>, String> {
    let read = nodes.iter().map(|(gpu_type, file)| Ok((read_text(file, "the node's history")?, gpu_type)));
    let read: Vec<((String, String), &String)> = read.collect::<Result<_, String>>()?;
    let nodes: Vec<NodeHistory<'_>> =
        read.iter().map(|((path, text), gpu_type)| (path.as_str(), text.as_str(), gpu_type.as_str())).collect();
    deadlines::learned(&nodes)
}

/// Returns the given file, or the first of these names that exists.
fn beside(given: Option<&Path>, jobs: &Path, names: &[&str], option: &str) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let folder = jobs.parent().unwrap_or(Path::new("."));
    let places = [folder.to_owned(), folder.join("../traces")];
    let found = places.iter().flat_map(|place| names.iter().map(|name| place.join(name))).find(|path| path.is_file());
    found.ok_or_else(|| {
        let (jobs, names) = (jobs.display(), names.join(" nor "));
        format!("{jobs}: found neither {names} beside it or in ../traces; give the file with {option}")
    })
}

fn table(comparison: &Comparison, instances: &[Instance], order: &[String], bound: bool) -> String {
    let mut titles = vec!["policy", "cost", "nodes", "lateness", "late jobs", "ms per step"];
    titles.extend(bound.then_some("over bound"));
    let rows = order.iter().filter_map(|name| {
        let figures = comparison.policies.get(name)?;
        let mut row = vec![
            name.clone(),
            format!("{:.2}", figures.cost),
            format!("{:.2}", figures.vm_cost),
            format!("{:.2}", figures.tardiness_cost),
            figures.late_jobs.to_string(),
            format!("{:.3}", figures.ms_a_step),
        ];
        row.extend(bound.then(|| format!("{:.3}", figures.over_lower_bound)));
        Some(row)
    });
    let table = output::table(&titles, 1, rows);
    let jobs: usize = instances.iter().map(|instance| instance.jobs.len()).sum();
    let loads = || comparison.load.values().copied();
    let (least, most) = (loads().fold(f64::INFINITY, f64::min), loads().fold(0.0, f64::max));
    let mut text = format!("{} instances, {jobs} jobs, load {least:.2} to {most:.2}", instances.len());
    if bound {
        text += &format!(", lower bound {:.2}; over bound: geometric mean", comparison.lower_bound);
    }
    format!("{text}\n{table}")
}
