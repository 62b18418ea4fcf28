//! The node's report: the status of `flowcond`, by Swarm service.

use api::client::Client;
use api::wire::{self, Container, Status};
use model::swarm::{EndedWorker, NodeReport, WorkerReport};
use model::{Estimate, Millis};
use std::path::Path;
use std::time::{Duration, SystemTime};
use swarm::{Engine, LocalWorker};

/// Timeout of requests to flowcond.
const WITHIN: Duration = Duration::from_secs(5);

/// High estimate of the remaining time as a multiple of the likely one, if it has no upper bound.
const UNBOUNDED: f64 = 4.0;

/// Returns the node's report without its leases. `used_cores` counts the governed jobs only.
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
    report.cores = Some(cores);
    let used = status.containers.iter().filter_map(|container| container.cpu_used);
    report.used_cores = Some(cores * used.fold(0.0, |sum, part| sum + part));
    // Without a reply of the engine the services of the containers are unknown: no jobs are reported, and all containers are others.
    let workers = engine.workers().await.unwrap_or_default();
    add_containers(&mut report, &status.containers, &workers, cores);
    report.ended = status.ended.iter().filter_map(ended).collect();
    report
}

/// Adds the governed containers: those of services as workers, and the number of all others.
fn add_containers(report: &mut NodeReport, containers: &[Container], workers: &[LocalWorker], cores: f64) {
    let known = |container: &Container| workers.iter().find(|worker| *worker.container == *container.id);
    let worker = |container: &Container| Some(worker_report(container, known(container)?, cores));
    report.workers = containers.iter().filter_map(worker).collect();
    let others = containers.len().saturating_sub(report.workers.len());
    report.others = u32::try_from(others).unwrap_or(u32::MAX);
}

/// Returns the last progress of a container of Swarm, whose name ends with its task: the engine may have removed it.
fn ended(container: &Container) -> Option<EndedWorker> {
    let (_, task) = container.name.rsplit_once('.')?;
    let progress = container.progress.as_ref()?;
    Some(EndedWorker { task: task.into(), units: progress.current, total: progress.total })
}

fn worker_report(container: &Container, worker: &LocalWorker, cores: f64) -> WorkerReport {
    let cores = container.cpu_used.map(|part| part * cores);
    let progress = container.progress.as_ref();
    // Progress on the previous node does not count: a move is complete once the job makes progress here.
    let read_here = progress.filter(|_| !container.is_carried);
    WorkerReport {
        service: worker.service.clone(),
        task: worker.task.clone(),
        up_s: container.uptime_s,
        units: read_here.and_then(|progress| progress.current),
        total: progress.and_then(|progress| progress.total),
        unit_s: progress.and_then(|progress| progress.units_per_s).map(|rate| 1.0 / rate),
        work_left: work_left(container, cores),
        cores,
        cpu_time_s: container.cpu_time_s,
        value: container.metric.as_ref().filter(|_| !container.is_carried).and_then(|metric| metric.value),
    }
}

/// Returns the remaining work in CPU-seconds as forecast by flowcond. Without a forecast (older versions, other policies): the remaining time
/// at the current rate, times the cores in use.
fn work_left(container: &Container, cores: Option<f64>) -> Option<Estimate> {
    if let Some(forecast) = &container.work_left_cpu_s {
        return Some(estimate(forecast, 1.0));
    }
    let progress = container.progress.as_ref()?;
    let left = progress.remaining_s.as_ref()?;
    // Other jobs may end before it, so the time that it will take says less than its present speed; before that is known, it is a guess.
    let rate = progress.units_per_s.filter(|rate| *rate > 0.0)?;
    let by_rate = || Some((progress.total? - progress.current?) / rate);
    let slower = by_rate().filter(|_| left.likely > 0.0).map_or(1.0, |seconds| seconds / left.likely);
    Some(estimate(left, slower * cores?))
}

fn estimate(left: &wire::Estimate, scale: f64) -> Estimate {
    let high = left.high.unwrap_or(UNBOUNDED * left.likely);
    Estimate { low: scale * left.low, likely: scale * left.likely, high: scale * high }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::swarm::ServiceId;
    use serde_json::{Value, json};

    fn container(document: Value) -> Container {
        serde_json::from_value(document).expect("a container of flowcond's status")
    }

    fn worker() -> LocalWorker {
        let service = ServiceId("s".into());
        LocalWorker { service, task: "t".into(), container: "c".into(), has_started: true, has_ended: false }
    }

    fn reported(document: Value) -> WorkerReport {
        worker_report(&container(document), &worker(), 8.0)
    }

    /// Status of the first flowcond version with a coordinator: 100 s left at the current rate, on a quarter of 8 cores.
    fn older_status() -> Value {
        json!({
            "id": "c", "short_id": "c", "name": "a", "runtime": "docker", "state": "running", "uptime_s": 60.0, "list": null, "metric": null,
            "progress": {
                "unit": "epoch", "current": 10.0, "total": 30.0, "fraction": 0.3, "units_per_s": 0.2,
                "remaining_s": {"low": 80.0, "likely": 100.0, "high": null}
            },
            "share": null, "limit": null, "growth": null, "cpu_used": 0.25, "memory_bytes": null, "cpu_weight": null, "rule": null,
            "why": "", "hold": null, "notices": []
        })
    }

    #[test]
    fn containers_without_a_service_are_counted_and_all_are_if_the_services_are_unknown() {
        let mut by_hand = older_status();
        by_hand["id"] = json!("by-hand");
        let containers = [container(older_status()), container(by_hand)];
        let counts = |workers: &[LocalWorker]| {
            let mut report = NodeReport::default();
            add_containers(&mut report, &containers, workers, 8.0);
            (report.workers.len(), report.others)
        };
        assert_eq!((counts(&[worker()]), counts(&[])), ((1, 1), (0, 2)));
    }

    #[test]
    fn the_last_progress_of_an_ended_container_is_that_of_the_task_in_its_name() {
        let mut document = older_status();
        assert_eq!(ended(&container(document.clone())), None, "not of Swarm");
        document["name"] = json!("train.1.k3v9");
        let last = EndedWorker { task: "k3v9".into(), units: Some(10.0), total: Some(30.0) };
        assert_eq!(ended(&container(document)), Some(last));
    }

    #[test]
    fn progress_of_another_node_is_not_reported_but_its_remaining_work_is() {
        let mut container = older_status();
        assert_eq!(reported(container.clone()).units, Some(10.0));
        container["is_carried"] = json!(true);
        let report = reported(container);
        assert_eq!((report.units, report.value, report.work_left.map(|left| left.likely)), (None, None, Some(200.0)));
    }

    #[test]
    fn the_forecast_of_flowcond_is_used_and_without_it_the_current_rate() {
        let mut container = older_status();
        assert_eq!(reported(container.clone()).work_left, Some(Estimate { low: 160.0, likely: 200.0, high: 800.0 }));
        container["work_left_cpu_s"] = json!({"low": 30.0, "likely": 50.0, "high": 90.0});
        assert_eq!(reported(container.clone()).work_left, Some(Estimate { low: 30.0, likely: 50.0, high: 90.0 }));
        let mut young = older_status();
        young["progress"]["units_per_s"] = Value::Null;
        assert_eq!(reported(young).work_left, None, "a guess, before its first units");
        (container["progress"], container["cpu_used"]) = (Value::Null, Value::Null);
        assert_eq!(
            reported(container.clone()).work_left.map(|left| left.likely),
            Some(50.0),
            "even before a rate is known"
        );
        container["work_left_cpu_s"] = Value::Null;
        assert_eq!(reported(container).work_left, None);
    }
}
