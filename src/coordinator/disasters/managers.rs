//! Swarm's managers: the orchestrator, and the dispatcher that sends tasks to nodes.

use super::job::JOBS;
use super::node::{Container, ContainerState, Ended};
use super::world::{NODES, Task, World, node_of};
use model::swarm::{RestartCondition, ServiceMode, TaskState};

/// Maximum delay of messages to a node, in milliseconds.
pub(super) const LAG: u64 = 2000;

impl World {
    /// Creates, places and drops tasks, as Swarm's orchestrator does.
    pub(super) fn orchestrate(&mut self) {
        for job in 0..JOBS {
            let service = self.services[job].as_ref();
            let wants = service.is_some_and(|service| service.mode == ServiceMode::Replicated(1));
            let pin = service.and_then(|service| service.pin.clone());
            let pinned = pin.as_ref().and_then(node_of);
            let condition = service.map(|service| service.restart);
            for at in 0..self.tasks.len() {
                let task = &mut self.tasks[at];
                if task.service == job && !wants && task.state != TaskState::Complete {
                    task.listed &= task.sent.is_some() && !task.is_over;
                }
                if task.service != job || !task.wanted {
                    continue;
                }
                let task = &self.tasks[at];
                let lost = task.node.is_some_and(|node| !self.is_up(node));
                let closed = task.node.is_some_and(|node| self.nodes[node].closed);
                let misplaced = closed || pin.is_some() && task.node.is_some() && task.node != pinned;
                let now = self.now;
                let task = &mut self.tasks[at];
                if !wants {
                    task.wanted = false;
                } else if lost || misplaced {
                    task.wanted = false;
                    if task.id.is_multiple_of(2) && lost {
                        (task.state, task.changed) = (TaskState::Shutdown, now);
                    }
                }
            }
            let any_wanted = self.tasks.iter().any(|task| task.service == job && task.wanted);
            let attempts = condition.and_then(|rule| rule.attempts).unwrap_or(u64::MAX);
            let may = condition.is_some_and(|rule| rule.condition != RestartCondition::None);
            if wants && !any_wanted && may && self.failed[job] <= attempts {
                self.new_task(job);
            }
            for at in 0..self.tasks.len() {
                let task = &self.tasks[at];
                if task.service == job && task.wanted && task.node.is_none() {
                    let is_open = |node: &usize| self.is_up(*node) && !self.nodes[*node].closed;
                    let free = pinned.filter(is_open);
                    let any = (0..NODES).find(is_open).filter(|_| pin.is_none());
                    self.tasks[at].node = free.or(any);
                }
            }
        }
    }

    /// Switches a node off: tasks in flight never arrive.
    pub(super) fn switch_off(&mut self, node: usize) {
        self.nodes[node].kill_all();
        let on_its_way = |task: &&mut Task| task.node == Some(node) && task.sent.is_some() && !task.arrived;
        for task in self.tasks.iter_mut().filter(on_its_way) {
            task.arrived = true;
            self.nodes[node].unreported.push((task.id, Ended::Failed(None)));
        }
    }

    fn new_task(&mut self, job: usize) {
        let id = self.next();
        let (service, is_manual) = (job, self.is_manual[job]);
        let is_replacement = std::mem::replace(&mut self.has_begun[job], true);
        let is_under_way = |task: &Task| task.sent.is_some() && !task.arrived;
        let is_kept = |task: &Task| task.service != job || task.listed && task.id + 12 > id || is_under_way(task);
        self.tasks.retain(is_kept);
        self.tasks.push(Task {
            id,
            service,
            volume: self.volumes[job],
            node: None,
            state: TaskState::Preparing,
            wanted: true,
            listed: true,
            is_over: false,
            exit: None,
            error: None,
            changed: self.now,
            sent: None,
            arrived: false,
            is_manual,
            is_replacement,
        });
    }

    /// Delivers tasks to nodes. A task in flight arrives even if it is no longer wanted.
    pub(super) fn dispatch(&mut self) {
        let now = self.now;
        for task in &mut self.tasks {
            let Some(at) = task.node.filter(|node| !self.nodes[*node].cut) else { continue };
            if task.wanted && task.sent.is_none() {
                task.sent = Some(now + task.id * 619 % LAG);
            }
            if task.sent.is_none_or(|arrives| now < arrives) || task.arrived {
                continue;
            }
            task.arrived = true;
            if self.nodes[at].no_image {
                (task.state, task.error, task.changed) = (TaskState::Failed, Some("No such image"), now);
                task.is_over = true;
                if task.wanted {
                    task.wanted = false;
                    self.failed[task.service] = self.failed[task.service].saturating_add(1);
                }
                continue;
            }
            let state = ContainerState::Preparing { until: now + task.id * 733 % 4000 };
            let (service, volume, since, stop_from) = (task.service, task.volume, task.id, now + LAG);
            let (is_manual, is_replacement) = (task.is_manual, task.is_replacement);
            self.nodes[at].containers.push(Container {
                task: task.id,
                service,
                volume,
                is_manual,
                is_replacement,
                state,
                since,
                stop_from,
                units: 0,
            });
        }
        let World { nodes, tasks, behaviours, .. } = self;
        for node in nodes.iter_mut().filter(|node| !node.cut) {
            let unwanted = |container: &Container| {
                let is_wanted = tasks.iter().any(|task| task.id == container.task && task.wanted);
                !is_wanted && now >= container.stop_from
            };
            let dropped = node.containers.extract_if(.., |container| !container.writes() && unwanted(container));
            let dropped: Vec<_> = dropped.map(|container| (container.task, Ended::Stopped)).collect();
            node.unreported.extend(dropped);
            for container in node.containers.iter_mut().filter(|container| unwanted(container)) {
                container.stop(now, behaviours[container.service].grace);
            }
        }
    }
}
