//! Enforces leases: stops all jobs whose lease has expired, each at once.

use super::lease::Leases;
use crate::settings::STOPPED_WITHIN;
use model::Millis;
use model::swarm::ServiceId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use swarm::{Engine, LocalWorker};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Interval between checks.
const TICK: Duration = Duration::from_secs(1);
/// Timeout of the engine for the list of containers; then the last list is used.
const LIST_WITHIN: Duration = Duration::from_secs(5);
/// Timeout of the engine for stopping a container, after its stop grace period; after that its processes are killed directly.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time that [`Engine::kill_processes`] takes.
const KILL_WITHIN: Duration = Duration::from_secs(1);

const _: () = assert!(
    (TICK.as_millis() + LIST_WITHIN.as_millis() + STOP_WITHIN.as_millis() + KILL_WITHIN.as_millis()) as u64
        <= STOPPED_WITHIN.0,
    "the coordinator starts a job elsewhere before its agent has stopped it"
);

/// Checks the leases until it is aborted. Each container is stopped by a task of its own: one that stops slowly does not delay others.
pub(super) async fn enforce(engine: Engine, leases: Arc<Mutex<Leases>>) {
    let mut known = Vec::new();
    let mut stopping: BTreeMap<Arc<str>, JoinHandle<()>> = BTreeMap::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        if lock(&leases).is_empty() {
            continue;
        }
        if let Ok(Ok(workers)) = tokio::time::timeout(LIST_WITHIN, engine.workers()).await {
            known = workers;
        }
        let expired: Vec<(LocalWorker, Millis)> = {
            let mut leases = lock(&leases);
            let now = node::now();
            let expired = running(&known, |service| leases.has_expired(service, now));
            leases.remember(expired.iter().map(|worker| worker.task.clone()));
            let graces: Vec<Millis> = expired.iter().map(|worker| leases.grace(&worker.service)).collect();
            expired.into_iter().zip(graces).collect()
        };
        stopping.retain(|container, _| expired.iter().any(|(worker, _)| worker.container == *container));
        for (LocalWorker { container, service, .. }, grace) in expired {
            match stopping.get(&container) {
                Some(stop) if !stop.is_finished() => continue,
                Some(_) => {}
                None => {
                    tracing::warn!(%service, %container, "lease expired without contact to a manager: stopping the job, because it may be started on another node");
                }
            }
            stopping.insert(container.clone(), tokio::spawn(stop(engine.clone(), container, grace)));
        }
    }
}

/// Returns the running containers of these services. A container that is only created is not stopped, because it would start nevertheless.
fn running(known: &[LocalWorker], is_meant: impl Fn(&ServiceId) -> bool) -> Vec<LocalWorker> {
    let runs = |worker: &&LocalWorker| worker.has_started && !worker.has_ended && is_meant(&worker.service);
    known.iter().filter(runs).cloned().collect()
}

/// Stops a container, by the engine within its stop grace period, or by killing its processes.
async fn stop(engine: Engine, container: Arc<str>, grace: Millis) {
    let within = Duration::from_millis(grace.0) + STOP_WITHIN;
    if let Ok(Ok(())) = tokio::time::timeout(within, engine.stop(&container, grace.0.div_ceil(1000))).await {
        return;
    }
    tracing::warn!(%container, "the engine did not stop the container; killing its processes");
    let killed = {
        let container = container.clone();
        tokio::task::spawn_blocking(move || engine.kill_processes(&container)).await
    };
    if !matches!(killed, Ok(true)) {
        tracing::error!(%container, "cannot kill all processes of the container; trying again");
    }
}

fn lock(leases: &Mutex<Leases>) -> MutexGuard<'_, Leases> {
    leases.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::wire::ReportRequest;
    use axum::Router;
    use axum::http::Uri;

    fn worker(service: &str, has_started: bool, has_ended: bool) -> LocalWorker {
        let (service, container) = (ServiceId(service.into()), service.into());
        LocalWorker { service, task: "t".into(), container, has_started, has_ended }
    }

    #[test]
    fn only_running_containers_of_expired_leases_are_stopped() {
        let known =
            [worker("a", true, false), worker("b", false, false), worker("c", true, true), worker("d", true, false)];
        let stopped = running(&known, |service| &*service.0 != "d");
        assert_eq!(stopped.iter().map(|worker| &*worker.service.0).collect::<Vec<_>>(), ["a"]);
    }

    /// An engine with three running containers that takes a minute to stop each.
    #[tokio::test]
    async fn jobs_whose_leases_expire_together_are_stopped_at_the_same_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("engine.sock");
        let stops = Arc::<Mutex<Vec<String>>>::default();
        let counted = stops.clone();
        let reply = move |uri: Uri| {
            let counted = counted.clone();
            async move {
                if uri.path().ends_with("/stop") {
                    counted.lock().expect("no panic").push(uri.to_string());
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
                let container = |name: &str| {
                    format!(
                        r#"{{"Id": "{name}", "State": "running", "Labels": {{"com.docker.swarm.service.id": "{name}", "com.docker.swarm.task.id": "{name}"}}}}"#
                    )
                };
                format!("[{}]", ["a", "b", "c"].map(container).join(","))
            }
        };
        let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(reply)).await });
        let mut leases = Leases::open(folder.path().join("leases.json"));
        let services = ["a", "b", "c"].map(|name| ServiceId(name.into()));
        let graces = [(services[1].clone(), Millis::from_secs(90))].into();
        let request = ReportRequest { leases: services.to_vec(), lease: Millis(0), graces, release: Vec::new() };
        leases.update(&request, node::now()).expect("written");
        let leases = Arc::new(Mutex::new(leases));
        let engine = Engine::at(Some(&socket.display().to_string())).expect("an address");
        let enforcing = tokio::spawn(enforce(engine, leases.clone()));
        let all = async {
            while stops.lock().expect("no panic").len() < 3 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), all).await.expect("all are being stopped at the same time");
        assert_eq!(lock(&leases).stopped(), ["a", "b", "c"].map(Arc::<str>::from));
        let mut asked = stops.lock().expect("no panic").clone();
        asked.sort();
        let ends = |at: usize, end: &str| asked[at].ends_with(end);
        assert!(ends(0, "/a/stop?t=10") && ends(1, "/b/stop?t=90") && ends(2, "/c/stop?t=10"), "{asked:?}");
        enforcing.abort();
    }
}
