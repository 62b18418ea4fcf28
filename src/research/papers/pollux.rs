//! Pollux: the mean completions of its Tiresias baseline, from the public tables of its artifact.
//!
//! The tables contain the end of each job of 32 schedules, the step times of each application, and the demand of each job, but not the work
//! of a job. That is derived from the published ends: each application has two to four configurations, and most of their jobs never waited.

use super::testbed::{RigidJob, Step, Steps, ends_s};
use super::{Evaluation, Row};
use sim::compare::Change;
use sim::table_file::{Row as TableRow, TableFile};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Application, GPUs, and seconds of training on the fewest nodes: the most frequent published time from the first minute after submission
/// to the end, minus the start. No imagenet job ran undisturbed: its three values are fitted to all published ends.
const SERVICE_S: [(&str, usize, f64); 16] = [
    ("bert", 6, 3_092.0),
    ("bert", 8, 2_459.0),
    ("bert", 12, 1_594.0),
    ("bert", 16, 1_324.0),
    ("cifar10", 6, 910.0),
    ("cifar10", 8, 865.0),
    ("cifar10", 12, 624.0),
    ("cifar10", 16, 482.0),
    ("deepspeech2", 6, 4_142.0),
    ("deepspeech2", 8, 3_530.0),
    ("deepspeech2", 12, 2_477.0),
    ("imagenet", 24, 31_805.0),
    ("imagenet", 32, 27_431.0),
    ("imagenet", 48, 19_689.0),
    ("ncf", 1, 47.0),
    ("yolov3", 4, 14_102.0),
];

/// Maximum samples that a GPU takes at once in the artifact, although more were measured.
const MOST_SAMPLES: [(&str, usize); 1] = [("yolov3", 8)];

/// The policy whose published ends are used.
const POLICY: &str = "tiresias";

/// Load and number of a schedule.
type Schedule = (String, String);

/// Compares the published means with the simulated ones, by load, from the three tables in `directory`.
///
/// # Errors
/// A table that cannot be read, with its line; a job without a published end.
pub fn evaluate(directory: &Path) -> Result<Evaluation, String> {
    let steps = steps(&Table::open(directory, "pollux_throughput.csv")?)?;
    let published = published(&Table::open(directory, "pollux_published_jct.csv")?)?;
    let schedules = schedules(&Table::open(directory, "pollux_workloads.csv")?, &published)?;
    let mut loads: BTreeMap<&str, Figures> = BTreeMap::new();
    for ((load, _), jobs) in &schedules {
        let figures = loads.entry(load).or_default();
        let rigid: Vec<RigidJob> = jobs.iter().map(|(job, _)| job.clone()).collect();
        for ((job, published_s), end) in jobs.iter().zip(ends_s(&rigid, &steps)?) {
            figures.add(*published_s, end - job.submit_s);
        }
    }
    Ok(Evaluation {
        title: "Pollux: the Tiresias baseline of its artifact",
        base: "the published figures, job by job",
        assumed: "the artifact's rules for Tiresias: 16 nodes of four GPUs, a decision a minute, 30 s for a start",
        honest: "not simulated",
        default: "not simulated",
        schedules: 8,
        rows: loads.iter().map(|(load, figures)| figures.row(load)).collect(),
        notes: &[
            "The work of a job is not in the tables; it is derived from the published ends of jobs that never waited (three of sixteen \
             configurations are fitted), so the simulation reproduces the order of the queues, placements and preemptions.",
            "A job that ends some seconds earlier or later changes later preemptions: a few schedules differ from there on, \
             though most jobs end in the same second.",
            "Pollux itself and Optimus change batch sizes by a measured gradient noise, which the tables lack.",
        ],
    })
}

/// Sums over the jobs of one load.
#[derive(Default)]
struct Figures {
    jobs: f64,
    published_s: f64,
    simulated_s: f64,
    /// Number of jobs that end within two seconds of the published end.
    same: f64,
}

impl Figures {
    fn add(&mut self, published_s: f64, simulated_s: f64) {
        self.jobs += 1.0;
        self.published_s += published_s;
        self.simulated_s += simulated_s;
        self.same += f64::from(u8::from((published_s - simulated_s).abs() <= 2.0));
    }

    fn row(&self, load: &str) -> Row {
        let Figures { jobs, published_s, simulated_s, same } = self;
        let change = Change::between(*published_s, *simulated_s);
        Row {
            source: format!("load {load}, {jobs} jobs"),
            what: "mean completion",
            published: format!("{:.0} s", published_s / jobs),
            assumed: format!(
                "{:.0} s ({change}); {:.0} % of the jobs to the second",
                simulated_s / jobs,
                100.0 * same / jobs
            ),
            honest: "–".to_owned(),
            default: "–".to_owned(),
        }
    }
}

/// A file with its text.
struct Table {
    path: String,
    text: String,
}

impl Table {
    fn open(directory: &Path, name: &str) -> Result<Table, String> {
        let path = directory.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}; see --tables", path.display()))?;
        Ok(Table { path: path.display().to_string(), text })
    }

    fn parsed(&self) -> Result<TableFile<'_>, String> {
        TableFile::parse(&self.path, &self.text)
    }
}

fn steps(table: &Table) -> Result<Steps, String> {
    let file = table.parsed()?;
    let column = |name: &str| file.column(&[name]);
    let (application, source, placement) = (column("application")?, column("source")?, column("placement")?);
    let (nodes, gpus, samples) = (column("num_nodes")?, column("num_gpus")?, column("local_bsz")?);
    let (step_s, sync_s) = (column("step_time_s")?, column("sync_time_s")?);
    let mut steps = Steps::default();
    let mut further = Vec::new();
    for row in file.rows() {
        let step = Step { step_s: row.number(step_s)?, sync_s: row.number(sync_s)? };
        let (name, samples) = (row.text(application), row.whole(samples, 1)? as usize);
        if row.text(source) == "placement" {
            let digits = row.text(placement).chars().map(|digit| digit.to_digit(10).filter(|count| *count > 0));
            let nodes: Option<Vec<usize>> = digits.map(|count| count.map(|count| count as usize)).collect();
            let nodes = nodes.ok_or_else(|| row.error(placement, "expected a digit for each node"))?;
            steps.placed(name, &nodes, samples, step);
        } else {
            further.push((name.to_owned(), row.whole(nodes, 1)? as usize, row.whole(gpus, 1)? as usize, samples, step));
        }
    }
    for (name, nodes, gpus, samples, step) in further {
        steps.spread(&name, nodes, gpus, samples, step);
    }
    for (name, samples) in MOST_SAMPLES {
        steps.at_most(name, samples);
    }
    Ok(steps)
}

/// Seconds from submission to end, by schedule and job.
fn published(table: &Table) -> Result<BTreeMap<(Schedule, String), f64>, String> {
    let file = table.parsed()?;
    let column = |name: &str| file.column(&[name]);
    let (policy, load, workload) = (column("policy")?, column("load")?, column("workload")?);
    let (job, jct) = (column("job")?, column("jct_s")?);
    let rows = file.rows().filter(|row| row.text(policy) == POLICY);
    let entry = |row: TableRow<'_, '_>| {
        let schedule = (row.text(load).to_owned(), row.text(workload).to_owned());
        Ok(((schedule, row.text(job).to_owned()), row.number(jct)?))
    };
    rows.map(entry).collect()
}

/// The jobs of each schedule that has published ends, with these ends.
fn schedules(
    table: &Table,
    published: &BTreeMap<(Schedule, String), f64>,
) -> Result<BTreeMap<Schedule, Vec<(RigidJob, f64)>>, String> {
    let file = table.parsed()?;
    let column = |name: &str| file.column(&[name]);
    let (load, workload, job) = (column("load")?, column("workload")?, column("job")?);
    let (submit, application) = (column("submit_s")?, column("application")?);
    let (replicas, batch) = (column("num_replicas")?, column("batch_size")?);
    let mut schedules: BTreeMap<Schedule, Vec<(RigidJob, f64)>> = BTreeMap::new();
    for row in file.rows() {
        let schedule = (row.text(load).to_owned(), row.text(workload).to_owned());
        let Some(published_s) = published.get(&(schedule.clone(), row.text(job).to_owned())) else { continue };
        let (name, gpus) = (row.text(application), row.whole(replicas, 1)? as usize);
        let known = SERVICE_S.iter().find(|(application, count, _)| (*application, *count) == (name, gpus));
        let Some((.., service_s)) = known else {
            return Err(row.error(application, "expected an application and GPUs of the artifact"));
        };
        let job = RigidJob {
            application: name.to_owned(),
            submit_s: row.number(submit)?,
            gpus,
            batch: row.whole(batch, 1)? as usize,
            service_s: *service_s,
        };
        schedules.entry(schedule).or_default().push((job, *published_s));
    }
    Ok(schedules)
}
