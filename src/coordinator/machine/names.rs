//! Names of jobs and nodes in commands of operators.

use super::labels::shown;
use super::state::{Machine, Seen};
use model::swarm::{NodeId, ServiceId};
use model::{JobName, Refusal, job_or_gang};

impl Machine {
    /// Finds a node by id or hostname.
    pub(super) fn find_node(&self, name: &str) -> Result<NodeId, Refusal> {
        let nodes = || self.nodes.values().map(|seen| &seen.node);
        let found: Vec<&NodeId> = match nodes().find(|node| &*node.id.0 == name) {
            Some(node) => vec![&node.id],
            None => nodes().filter(|node| &*node.hostname == name).map(|node| &node.id).collect(),
        };
        match found.as_slice() {
            [node] => Ok((*node).clone()),
            [] => Err(Refusal::NotFound(format!(
                "no node `{}` in this Swarm; list nodes with `docker node ls`",
                shown(name)
            ))),
            several => {
                let ids: Vec<&str> = several.iter().map(|node| &*node.0).collect();
                Err(Refusal::Refused(format!(
                    "several nodes are named `{}`: {}; use an id",
                    shown(name),
                    ids.join(", ")
                )))
            }
        }
    }

    /// Finds the service of a job, and the node where it runs or ran last.
    ///
    /// # Errors
    /// There is no such job, it has several workers, or it has never started.
    pub fn place_of(&self, name: &str) -> Result<(NodeId, ServiceId), Refusal> {
        let found: Vec<&Seen> = self.find_jobs(name)?.iter().filter_map(|id| self.seen.get(id)).collect();
        let [seen] = found.as_slice() else {
            let workers: Vec<String> = found.iter().map(|seen| shown(&seen.service.name)).collect();
            return Err(Refusal::Refused(format!(
                "`{}` has several workers; name one: {}",
                shown(name),
                workers.join(", ")
            )));
        };
        let home = seen.job.as_ref().ok().and_then(|job| job.record.home.clone());
        match home.or_else(|| seen.live_nodes().next().cloned()) {
            Some(node) => Ok((node, seen.service.id.clone())),
            None => Err(Refusal::Refused(format!("{} has not started yet", shown(&seen.service.name)))),
        }
    }

    /// Finds the services of a job: one by its id, name or beginning of its id, or all of a gang.
    pub(super) fn find_jobs(&self, name: &str) -> Result<Vec<ServiceId>, Refusal> {
        let all: Vec<&Seen> = self.seen.values().collect();
        let names = all.iter().map(|seen| JobName {
            id: &seen.service.id.0,
            name: &seen.service.name,
            gang: seen.job.as_ref().ok().and_then(|job| job.options.gang.as_deref()),
        });
        match job_or_gang(&names.collect::<Vec<_>>(), name) {
            Ok(found) if found.is_empty() => {
                Err(Refusal::NotFound(format!("no job `{}`; list jobs with `flowctl cluster status`", shown(name))))
            }
            Ok(found) => Ok(found.into_iter().map(|at| all[at].service.id.clone()).collect()),
            Err(several) => {
                let shown_at = |at: usize| format!("{} ({})", shown(&all[at].service.name), all[at].service.id);
                let jobs: Vec<String> = several.into_iter().map(shown_at).collect();
                Err(Refusal::Refused(format!(
                    "the ids of several jobs begin with `{}`: {}; use a name or more of the id",
                    shown(name),
                    jobs.join(", ")
                )))
            }
        }
    }
}
