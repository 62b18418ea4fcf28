//! Scenario files: TOML in which all keys except a job's `work` are optional. Every error names line, column and what is expected.
//!
//! `config/scenarios/example.toml` shows all keys.

mod check;
mod curve;
mod text;

use super::NodeShape;
use crate::curve::LearningCurve;
use crate::job::{GpuLoad, JobPlan, Reports, Waits};
use crate::random::Stream;
use check::Checker;
use model::{Bounds, CpuWeight, Numbers, Share};
use text::{FileText, JobText, Range, ReportsText};

/// With fewer cores a job would practically never end.
const LEAST_CORES: f64 = 0.01;

/// Least length of a kernel, since every kernel is an event.
const LEAST_KERNEL_S: f64 = 1e-4;
const MOST_DEVICE: f64 = 1023.0;

/// A job as described in the file: ranges are drawn for each seed.
#[derive(Clone, Debug)]
pub(super) struct JobTemplate {
    name: String,
    count: usize,
    start_s: Range,
    /// Node-CPU-seconds.
    work: Range,
    startup_work: Range,
    cores: Option<Range>,
    waste: f64,
    cpus: Option<Numbers>,
    parent: Option<String>,
    cpu_weight: CpuWeight,
    user: Option<String>,
    weight: f64,
    bounds: Bounds,
    deadline_s: Option<Range>,
    memory: u64,
    startup_s: Range,
    /// Node-CPU-seconds between waits, and the seconds of each wait.
    waits: Option<(f64, f64)>,
    gpu: Option<GpuTemplate>,
    units: Range,
    unit_spread: f64,
    curve: LearningCurve,
    shown: Option<LearningCurve>,
    before: Option<LearningCurve>,
    reports: Reports,
}

/// A job's load on a GPU.
#[derive(Clone, Copy, Debug)]
struct GpuTemplate {
    device: usize,
    /// GPU-seconds of each unit, and of each kernel.
    unit_s: f64,
    kernel_s: f64,
}

impl GpuTemplate {
    fn load(self, plan: &JobPlan) -> GpuLoad {
        let kernels = plan.units as f64 * (self.unit_s / self.kernel_s).max(1.0);
        GpuLoad { device: self.device, every: plan.work / kernels, kernel_s: self.kernel_s.min(self.unit_s) }
    }
}

impl JobTemplate {
    pub(super) fn uses_gpu(&self) -> bool {
        self.gpu.is_some()
    }
}

/// Parses a scenario file into name, node and jobs.
pub(super) fn parse(path: &str, text: &str) -> Result<(String, NodeShape, Vec<JobTemplate>), String> {
    let check = Checker { path, text };
    let file: FileText = toml::from_str(text).map_err(|error| check.syntax(&error))?;
    if file.job.is_empty() {
        return Err(check.at(0..0, "no job; expected at least one [[job]] table with a `work`"));
    }
    let node = NodeShape {
        cores: check.positive("cores", &file.node.cores)?,
        memory: model::Bytes(check.bytes("memory", &file.node.memory)?),
        contention: check.within("contention", &file.node.contention, 0.0, 1.0)?,
        speed: check.positive("speed", &file.node.speed)?,
    };
    let jobs: Result<Vec<_>, _> = file.job.iter().enumerate().map(|(n, job)| template(&check, &node, n, job)).collect();
    Ok((file.name.unwrap_or_else(|| path.to_owned()), node, jobs?))
}

fn template(check: &Checker, node: &NodeShape, number: usize, job: &JobText) -> Result<JobTemplate, String> {
    let bounds = Bounds {
        min: Share::clamped(check.within("min_share", &job.min_share, 0.0, 1.0)?),
        max: Share::clamped(check.within("max_share", &job.max_share, 0.0, 1.0)?),
    };
    if bounds.min > bounds.max {
        return Err(check.at(job.min_share.span(), "min_share is larger than max_share; expected min ≤ max"));
    }
    let count = check.count("count", &job.count, 10_000)?;
    let waits = match &job.io {
        Some(io) => Some((check.positive("every", &io.every)?, check.at_least("wait_s", &io.wait_s, 0.0)?)),
        None => None,
    };
    let gpu = match &job.gpu {
        Some(gpu) => Some(GpuTemplate {
            device: check.within("device", &gpu.device, 0.0, MOST_DEVICE)? as usize,
            unit_s: check.positive("unit_s", &gpu.unit_s)?,
            kernel_s: check.at_least("kernel_s", &gpu.kernel_s, LEAST_KERNEL_S)?,
        }),
        None => None,
    };
    Ok(JobTemplate {
        name: job.name.clone().unwrap_or_else(|| format!("job-{}", number + 1)),
        count,
        start_s: check.range("start_s", &job.start_s, 0.0)?,
        work: check.positive_range("work", &job.work)?,
        cores: job.cores.as_ref().map(|cores| check.range("cores", cores, LEAST_CORES)).transpose()?,
        waste: check.within("waste", &job.waste, 0.0, 10.0)?,
        cpus: job.cpus.as_ref().map(|cpus| check.processors(cpus, node)).transpose()?,
        parent: job.parent.clone(),
        cpu_weight: CpuWeight::clamped(check.within("cpu_weight", &job.cpu_weight, 1.0, 10_000.0)?),
        user: job.user.clone(),
        weight: check.within("weight", &job.weight, 0.01, 100.0)?,
        bounds,
        deadline_s: job.deadline_s.as_ref().map(|range| check.range("deadline_s", range, 0.0)).transpose()?,
        memory: check.bytes("memory", &job.memory)?,
        startup_work: check.range("startup_work", &job.startup_work, 0.0)?,
        startup_s: check.range("startup_s", &job.startup_s, 0.0)?,
        waits,
        gpu,
        units: check.units(&job.units, count)?,
        unit_spread: check.within("unit_spread", &job.unit_spread, 0.0, 0.5)?,
        curve: curve::parse(check, &job.curve)?,
        shown: job.shown.as_ref().map(|shown| curve::parse(check, shown)).transpose()?,
        before: job.before.as_ref().map(|before| curve::parse(check, before)).transpose()?,
        reports: reports(check, &job.reports)?,
    })
}

fn reports(check: &Checker, text: &ReportsText) -> Result<Reports, String> {
    Ok(Reports {
        metric: text.metric,
        progress: text.progress,
        total: text.total,
        total_factor: check.positive("total_factor", &text.total_factor)?,
        claimed: text.claimed.as_ref().map(|factor| check.positive("claimed", factor)).transpose()?,
        delay_s: check.at_least("delay_s", &text.delay_s, 0.0)?,
        unit: text.unit,
        deadline: text.deadline,
    })
}

/// Draws the plans of one seed, `count` of each template.
pub(super) fn plans(templates: &[JobTemplate], node: &NodeShape, draws: &mut Stream) -> Vec<JobPlan> {
    let copies = templates.iter().flat_map(|template| (0..template.count).map(move |copy| (template, copy)));
    copies.map(|(template, copy)| plan(template, copy, node, draws)).collect()
}

fn plan(template: &JobTemplate, copy: usize, node: &NodeShape, draws: &mut Stream) -> JobPlan {
    let mut draw = |range: &Range| draws.uniform(range.low, range.high);
    let name = &template.name;
    let reach = template.cpus.as_ref().map_or(node.cores, |cpus| cpus.count() as f64);
    let plan = JobPlan {
        name: if template.count == 1 { name.clone() } else { format!("{name}-{}", copy + 1) },
        start_s: draw(&template.start_s),
        work: draw(&template.work) * node.cores,
        parallelism: template.cores.as_ref().map_or(node.cores, &mut draw).min(reach),
        waste: template.waste,
        cpus: template.cpus.clone(),
        parent: template.parent.clone(),
        cpu_weight: template.cpu_weight,
        user: template.user.clone(),
        weight: template.weight,
        bounds: template.bounds,
        deadline_s: template.deadline_s.as_ref().map(&mut draw),
        memory: model::Bytes(template.memory),
        startup_work: draw(&template.startup_work) * node.cores,
        startup_s: draw(&template.startup_s),
        waits: template.waits.map(|(every, seconds)| Waits { every: every * node.cores, seconds }),
        units: (draw(&template.units).round() as usize).max(1),
        unit_spread: template.unit_spread,
        curve: template.curve.clone(),
        shown: template.shown.clone(),
        before: template.before.clone(),
        fault: None,
        sweep: None,
        reports: template.reports,
        gpu: None,
    };
    JobPlan { gpu: template.gpu.map(|gpu| gpu.load(&plan)), ..plan }
}
