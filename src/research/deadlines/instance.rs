//! Instances from tables: jobs with deadlines, run times, prices.

use policy::cluster::deadlines::{Catalogue, LearnedTime, RunTimes, lower_bound};
use sim::table_file::{Row, TableFile};
use std::collections::BTreeMap;

/// A job of an instance.
#[derive(Clone, Debug)]
pub struct InstanceJob {
    /// Id as in the table.
    pub id: String,
    /// Submission time in seconds.
    pub submit_s: f64,
    /// Deadline in seconds.
    pub deadline_s: f64,
    /// Cost of each second after the deadline.
    pub weight: f64,
    /// Run times.
    pub times: RunTimes,
}

/// A schedule of jobs, the number of nodes, and the types of nodes that can be rented.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Name as in the table.
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Types that each node can have.
    pub catalogue: Catalogue,
    /// Sorted by submission.
    pub jobs: Vec<InstanceJob>,
}

impl Instance {
    /// The least cost of its nodes with every job on time.
    pub fn lower_bound(&self) -> f64 {
        lower_bound(&self.catalogue, self.jobs.iter().map(|job| &job.times))
    }

    /// GPU-seconds that the jobs need at least, as a part of those of all GPUs between the first and the last submission.
    pub fn load(&self) -> f64 {
        let work: f64 = self.jobs.iter().map(|job| job.times.least_gpu_s()).sum();
        let types = 0..self.catalogue.gpu_types().len();
        let gpus = self.nodes * types.map(|gpu| self.catalogue.most_gpus(gpu)).max().unwrap_or(0);
        let first = self.jobs.first().map_or(0.0, |job| job.submit_s);
        let span = self.jobs.last().map_or(0.0, |job| job.submit_s) - first;
        work / (gpus as f64 * span)
    }
}

/// The tables of instances, each with the file's name and its text.
pub struct Tables<'t> {
    /// `job_id`, `job_class`, `submit_s`, `deadline_s`, `tardiness_weight`, and `instance` if the file contains several.
    pub jobs: (&'t str, &'t str),
    /// `job_class`, `gpu_type`, `num_gpus`, `exec_time_s`.
    pub times: (&'t str, &'t str),
    /// Run times learned by nodes, for entries missing in the table of run times.
    pub learned: &'t [LearnedTime],
    /// `VMtype`, `GPUtype`, `nGPUs`, `cost` per hour.
    pub prices: (&'t str, &'t str),
    /// The types of GPU that may be rented; empty: all types with a price.
    pub gpu_types: &'t [String],
    /// Number of nodes of each instance; `None`: from its name, `1-NODES-JOBS-…`.
    pub nodes: Option<usize>,
}

/// Reads the instances of a table, in its order.
///
/// # Errors
/// File, line, column and what is expected.
pub fn read(tables: &Tables<'_>) -> Result<Vec<Instance>, String> {
    let catalogue = prices(tables)?;
    let times = run_times(tables, &catalogue)?;
    let (path, text) = tables.jobs;
    let table = TableFile::parse(path, text)?;
    let group = table.column(&["instance"]).ok();
    let columns = Columns {
        id: table.column(&["job_id"])?,
        class: table.column(&["job_class"])?,
        submit: table.column(&["submit_s"])?,
        deadline: table.column(&["deadline_s"])?,
        weight: table.column(&["tardiness_weight"])?,
    };
    let mut instances: Vec<Instance> = Vec::new();
    for row in table.rows() {
        let name = group.map_or(path, |column| row.text(column));
        let known = instances.iter().rposition(|instance| instance.name == name);
        let at = match known {
            Some(at) => at,
            None => {
                let nodes = tables.nodes.or_else(|| nodes_of(name)).filter(|nodes| *nodes > 0);
                let nodes = nodes.ok_or_else(|| {
                    format!("{path}: the name `{name}` does not contain the number of nodes; give --nodes")
                })?;
                instances.push(Instance {
                    name: name.to_owned(),
                    nodes,
                    catalogue: catalogue.clone(),
                    jobs: Vec::new(),
                });
                instances.len() - 1
            }
        };
        instances[at].jobs.push(columns.job(&row, &times)?);
    }
    if instances.is_empty() {
        return Err(format!("{path}: no job; expected a line for each job below the header"));
    }
    for instance in &mut instances {
        instance.jobs.sort_by(|one, other| one.submit_s.total_cmp(&other.submit_s));
    }
    Ok(instances)
}

/// Parses the second part of names such as `1-10-100-0-high-000`.
fn nodes_of(name: &str) -> Option<usize> {
    name.split('-').nth(1)?.parse().ok()
}

/// Columns of the table of jobs.
struct Columns {
    id: usize,
    class: usize,
    submit: usize,
    deadline: usize,
    weight: usize,
}

impl Columns {
    fn job(&self, row: &Row<'_, '_>, times: &BTreeMap<String, RunTimes>) -> Result<InstanceJob, String> {
        let not_negative = |column: usize| match row.number(column)? {
            number if number >= 0.0 => Ok(number),
            _ => Err(row.error(column, "expected a number that is not negative")),
        };
        let times = times.get(row.text(self.class));
        let times =
            times.ok_or_else(|| row.error(self.class, "no run times; add this class to the table of run times"))?;
        Ok(InstanceJob {
            id: row.text(self.id).to_owned(),
            submit_s: not_negative(self.submit)?,
            deadline_s: row.number(self.deadline)?,
            weight: not_negative(self.weight)?,
            times: times.clone(),
        })
    }
}

fn prices(tables: &Tables<'_>) -> Result<Catalogue, String> {
    let (path, text) = tables.prices;
    let table = TableFile::parse(path, text)?;
    let (name, gpu) = (table.column(&["VMtype", "node_type"])?, table.column(&["GPUtype", "gpu_type"])?);
    let (gpus, cost) = (table.column(&["nGPUs", "num_gpus"])?, table.column(&["cost", "price_per_hour"])?);
    let mut rows = Vec::new();
    let lines: Vec<_> = table.rows().collect();
    for row in &lines {
        let gpu_type = row.text(gpu);
        if tables.gpu_types.is_empty() || tables.gpu_types.iter().any(|wanted| wanted == gpu_type) {
            rows.push((row.text(name), gpu_type, row.whole(gpus, 1)? as usize, row.number(cost)?));
        }
    }
    for wanted in tables.gpu_types {
        if !rows.iter().any(|(_, gpu_type, ..)| gpu_type == wanted) {
            return Err(format!("{path}: no node with GPUs of type `{wanted}`; see --gpu-types"));
        }
    }
    Catalogue::new(&rows).map_err(|error| format!("{path}: {error}"))
}

fn run_times(tables: &Tables<'_>, catalogue: &Catalogue) -> Result<BTreeMap<String, RunTimes>, String> {
    let (path, text) = tables.times;
    let table = TableFile::parse(path, text)?;
    let (class, gpu) = (table.column(&["job_class"])?, table.column(&["gpu_type"])?);
    let (gpus, time) = (table.column(&["num_gpus"])?, table.column(&["exec_time_s"])?);
    let mut rows: BTreeMap<String, Vec<(usize, usize, f64)>> = BTreeMap::new();
    for row in table.rows() {
        let Some(gpu) = catalogue.gpu_types().iter().position(|known| known == row.text(gpu)) else { continue };
        let entry = (gpu, row.whole(gpus, 1)? as usize, row.number(time)?);
        rows.entry(row.text(class).to_owned()).or_default().push(entry);
    }
    for time in tables.learned {
        let Some(gpu) = catalogue.gpu_types().iter().position(|known| *known == time.gpu_type) else { continue };
        let rows = rows.entry(time.class.clone()).or_default();
        if !rows.iter().any(|(type_, gpus, _)| (*type_, *gpus) == (gpu, time.gpus)) {
            rows.push((gpu, time.gpus, time.seconds));
        }
    }
    let table = rows.into_iter().map(|(class, rows)| match RunTimes::new(catalogue, &rows) {
        Ok(times) => Ok((class, times)),
        Err(error) => Err(format!("{path}: {class}: {error}")),
    });
    table.collect()
}
