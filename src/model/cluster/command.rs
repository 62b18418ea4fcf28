//! The closed set of operator commands for the coordinator; every request is parsed into one of them or rejected.

use super::Resources;
use crate::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Minimum length of a prefix of an id that names a service.
const PREFIX_LEAST: usize = 6;

/// A command. A job is named by its service or gang, see [`named`]; a node by its hostname or id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterCommand {
    /// Drains a node for maintenance.
    Drain(String),
    /// Makes a drained node available again.
    Undrain(String),
    /// Moves a job to a node.
    Move {
        /// The job.
        job: String,
        /// The target node.
        node: String,
    },
    /// Stops a job until it is resumed.
    Suspend(String),
    /// Resumes a job that was suspended or given up.
    Resume(String),
    /// Confirms that a node is switched off for good, so that nothing of this job is running there.
    NodeIsOff {
        /// The job.
        job: String,
        /// The node.
        node: String,
    },
}

/// A training to be queued; the coordinator creates a service with 0 replicas from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// Name of the service, unique in the cluster.
    pub name: Arc<str>,
    /// The image.
    pub image: Arc<str>,
    /// Command and arguments; empty = those of the image.
    pub command: Vec<String>,
    /// Environment of the process, `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Reserved resources.
    pub request: Resources,
    /// Labels of the service; `flowcon.queue` is added automatically.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Labels of its containers, for `flowcond`; `flowcon.enable` is added automatically.
    pub container_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Swarm constraints, such as `node.labels.gpu==a100`.
    pub constraints: Vec<String>,
    /// Volumes: name and mount point.
    pub volumes: Vec<(Arc<str>, Arc<str>)>,
    /// Networks by name.
    pub networks: Vec<String>,
    /// Stop grace period.
    pub stop_grace: Millis,
    /// Maximum number of restarts after a failure.
    pub restarts: u64,
}

/// The names of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerNames<'a> {
    /// Id of its service.
    pub id: &'a str,
    /// Name of its service.
    pub name: &'a str,
    /// Name of its gang.
    pub gang: Option<&'a str>,
}

/// Finds the workers that an operator means, and returns their indexes; none = there is no such job. In this order: the service with that
/// name, the service with that id, all workers of the gang with that name, or the service whose id begins with it. Such a prefix has at
/// least 6 characters.
///
/// # Errors
/// It is a prefix of several ids; their indexes.
pub fn named(workers: &[WorkerNames<'_>], wanted: &str) -> Result<Vec<usize>, Vec<usize>> {
    let all = |is_meant: &dyn Fn(&WorkerNames<'_>) -> bool| -> Vec<usize> {
        workers.iter().enumerate().filter(|(_, worker)| is_meant(worker)).map(|(at, _)| at).collect()
    };
    let exact = [
        all(&|worker| worker.name == wanted),
        all(&|worker| worker.id == wanted),
        all(&|worker| worker.gang.is_some_and(|gang| gang == wanted)),
    ];
    if let Some(found) = exact.into_iter().find(|found| !found.is_empty()) {
        return Ok(found);
    }
    if wanted.len() < PREFIX_LEAST {
        return Ok(Vec::new());
    }
    let found = all(&|worker| worker.id.starts_with(wanted));
    if found.len() > 1 { Err(found) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_its_service_its_gang_or_a_unique_prefix_of_its_id() {
        let worker = |id, name, gang| WorkerNames { id, name, gang };
        let workers = [
            worker("k3v9x0aaaaaa", "resnet", None),
            worker("k3v9x0bbbbbb", "bert-1", Some("bert")),
            worker("p7q2m4cccccc", "bert-2", Some("bert")),
            worker("k3v9x0aaaaab", "k3v9x0", None),
        ];
        for (wanted, expected) in [
            ("resnet", Ok(vec![0])),
            ("p7q2m4cccccc", Ok(vec![2])),
            ("bert", Ok(vec![1, 2])),
            ("p7q2m4", Ok(vec![2])),
            ("p7q2m", Ok(vec![])),
            ("p7q2m5", Ok(vec![])),
            ("k3v9x0", Ok(vec![3])),
            ("k3v9x0a", Err(vec![0, 3])),
            ("k3v9x0aaaaaa", Ok(vec![0])),
            ("", Ok(vec![])),
        ] {
            assert_eq!(named(&workers, wanted), expected, "{wanted}");
        }
    }
}
