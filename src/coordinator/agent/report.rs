//! What `flowcond` knows of the jobs here, under the names that the Swarm has for them. Imports: api, host, model.

use crate::api::client::Client;
use crate::api::wire::{self, Container, Status};
use crate::host::swarm::{Engine, LocalWorker};
use crate::model::swarm::{NodeReport, WorkerReport};
use crate::model::{Estimate, Millis};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// flowcond answers at once, or not at all.
const WITHIN: Duration = Duration::from_secs(5);

/// Where nothing bounds the time that is left, it is at most so many times what is likely.
const UNBOUNDED: f64 = 4.0;

/// How the node is. Cores in use are those of the governed jobs.
pub(super) async fn report(engine: &Engine, flowcond: &Path) -> NodeReport {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut report = NodeReport {
        version: env!("CARGO_PKG_VERSION").into(),
        clock: Millis(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)),
        ..NodeReport::default()
    };
    let Ok(status) = Client::new(flowcond, WITHIN).get::<Status>("/v1/status").await else { return report };
    report.is_governed = true;
    let cores = status.node.cores;
    let used = status.containers.iter().filter_map(|container| container.cpu_used);
    report.used_cores = Some(cores * used.fold(0.0, |sum, part| sum + part));
    // Without the engine's word nobody knows whose a container is; its jobs are then told by nobody.
    let workers = engine.workers().await.unwrap_or_default();
    let known = |container: &Container| workers.iter().find(|worker| *worker.container == *container.id);
    report.workers =
        status.containers.iter().filter_map(|container| Some(told(container, known(container)?, cores))).collect();
    report
}

fn told(container: &Container, worker: &LocalWorker, cores: f64) -> WorkerReport {
    let cores = container.cpu_used.map(|part| part * cores);
    let progress = container.progress.as_ref();
    WorkerReport {
        service: worker.service.clone(),
        task: worker.task.clone(),
        up_s: container.uptime_s,
        units: progress.and_then(|progress| progress.current),
        total: progress.and_then(|progress| progress.total),
        unit_s: progress.and_then(|progress| progress.units_per_s).map(|rate| 1.0 / rate),
        work_left: progress.and_then(|progress| progress.remaining_s.as_ref()).zip(cores).map(work_left),
        cores,
        value: container.metric.as_ref().and_then(|metric| metric.value),
    }
}

/// CPU-seconds: the seconds that are left at the present rate, on the cores that it has now.
fn work_left((left, cores): (&wire::Estimate, f64)) -> Estimate {
    let high = left.high.unwrap_or(UNBOUNDED * left.likely);
    Estimate { low: cores * left.low, likely: cores * left.likely, high: cores * high }
}
