//! A simulated Swarm: versioned services, a lagging orchestrator and dispatcher, nodes that can be cut off, and the invariants.
//!
//! Like the real Swarm it drops tasks of a service that is scaled to 0 from its list once their nodes have reported the exits, replaces tasks
//! that failed or are on a lost node, and notifies nodes with a delay.

use super::fault::Fault;
use super::job::{Behaviour, JOBS, behaviours, service};
use super::node::{Container, ContainerState, Ended, HostNode};
use super::volume::Volume;
use crate::machine::labels::DRAIN;
use model::cluster::Resources;
use model::swarm::{
    Availability, NodeId, ServiceId, Swarm, SwarmNode, SwarmService, SwarmTask, TaskState, TransferOutcome,
};
use model::{Bytes, Millis};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const NODES: usize = 3;
/// Swarm reports a node as down after it was cut off for this long, in milliseconds.
const DOWN_AFTER: u64 = 12_000;
const LEASE: u64 = 20_000;

/// A task of Swarm.
pub(super) struct Task {
    pub id: u64,
    pub service: usize,
    /// Number of the volume of the service's spec.
    pub volume: usize,
    pub node: Option<usize>,
    pub state: TaskState,
    pub wanted: bool,
    pub listed: bool,
    /// Whether its node has reported its exit.
    pub is_over: bool,
    pub exit: Option<i64>,
    pub error: Option<&'static str>,
    pub changed: u64,
    /// When it arrives at its node, once it was sent.
    pub sent: Option<u64>,
    pub arrived: bool,
    pub is_manual: bool,
    pub is_replacement: bool,
}

/// A transfer in flight.
pub(super) struct Carrying {
    pub service: usize,
    pub from: usize,
    pub to: usize,
    pub number: u64,
    /// Number of the volume, and its state.
    pub volume: usize,
    pub sent: Volume,
    pub done: u64,
    /// The coordinator that requested it: its node and its `life`.
    pub requester: (usize, u64),
}

pub(super) struct World {
    pub now: u64,
    /// Offset of the wall clocks, in milliseconds.
    pub skew: i64,
    pub nodes: Vec<HostNode>,
    /// `None` = deleted.
    pub services: Vec<Option<SwarmService>>,
    pub behaviours: [Behaviour; JOBS],
    /// The checkpoint volume of each job, by its number.
    pub volumes: [usize; JOBS],
    pub tasks: Vec<Task>,
    pub carryings: Vec<Carrying>,
    /// Completed transfers that are not reported yet.
    pub carried: Vec<(Carrying, TransferOutcome)>,
    /// Whether the last change of replicas or pin was manual.
    pub is_manual: [bool; JOBS],
    /// Number of failed tasks of the current spec.
    pub failed: [u64; JOBS],
    /// Whether the current spec had a task.
    pub has_begun: [bool; JOBS],
    /// Whether a node has reported exit code 0.
    pub is_complete: [bool; JOBS],
    /// The newest state ever saved by each job.
    pub best: [u64; JOBS],
    /// Saved state on shared storage.
    shared: [u64; JOBS],
    pub leader: usize,
    /// Whether a former leader still believes that it leads.
    pub both_lead: bool,
    pub counter: u64,
    pub fault: Fault,
    pub violation: Option<String>,
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId(["n0", "n1", "n2"][node].into())
}

pub(super) fn node_of(id: &NodeId) -> Option<usize> {
    (0..NODES).find(|node| *id.0 == *["n0", "n1", "n2"][*node])
}

pub(super) fn service_of(id: &ServiceId) -> usize {
    id.0[1..].parse().expect("an id of this world")
}

impl World {
    pub(super) fn new(fault: Fault) -> World {
        World {
            now: 1_000_000,
            skew: 0,
            nodes: (0..NODES).map(|_| HostNode::default()).collect(),
            services: (0..JOBS).map(|number| Some(service(number, number as u64))).collect(),
            behaviours: behaviours(),
            volumes: std::array::from_fn(|job| job),
            tasks: Vec::new(),
            carryings: Vec::new(),
            carried: Vec::new(),
            is_manual: [false; JOBS],
            failed: [0; JOBS],
            has_begun: [false; JOBS],
            is_complete: [false; JOBS],
            best: [0; JOBS],
            shared: [0; JOBS],
            leader: 0,
            both_lead: false,
            counter: 100,
            fault,
            violation: None,
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn unix(&self) -> Millis {
        Millis(1_700_000_000_000_u64.saturating_add_signed(self.now as i64 + self.skew))
    }

    pub(super) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Advances the time in steps of at most 4 s.
    pub(super) fn pass(&mut self, milliseconds: u64) {
        let step = if milliseconds > 4000 { 4000 } else { 1000 };
        for _ in 0..milliseconds.div_ceil(step) {
            self.now += step;
            self.tick(step);
        }
    }

    pub(super) fn is_up(&self, node: usize) -> bool {
        self.nodes[node].cut_for < DOWN_AFTER
    }

    fn tick(&mut self, passed: u64) {
        for node in &mut self.nodes {
            node.cut_for = if node.cut { node.cut_for + passed } else { 0 };
        }
        self.orchestrate();
        self.dispatch();
        self.run(passed);
        self.report_tasks();
        self.check_writers();
    }

    /// Runs containers, lease expiry and transfers.
    fn run(&mut self, passed: u64) {
        let World {
            nodes, behaviours, volumes: names, shared, best, now, violation, carryings, carried, fault, ..
        } = self;
        for (number, node) in nodes.iter_mut().enumerate() {
            let lost = |container: &Container, found: u64, best: u64| {
                let is_current = container.volume == names[container.service];
                (found < best && !container.is_manual && is_current).then(|| {
                    format!(
                        "job {} starts on node {number} with saved state {found}, but the newest is {best}",
                        container.service
                    )
                })
            };
            let both = std::cell::RefCell::new((&mut *shared, &mut *best, &mut *violation));
            node.tick(
                *now,
                passed,
                behaviours,
                |volumes, container| {
                    let (job, (shared, best, violation)) = (container.service, &mut *both.borrow_mut());
                    let volume = volumes.0.entry(container.volume).or_default();
                    let is_of_other = volume.writer.is_some_and(|writer| writer != job);
                    if is_of_other && !container.is_manual {
                        violation.get_or_insert(format!("job {job} overwrites the state of another on node {number}"));
                    }
                    if is_of_other {
                        return;
                    }
                    let saved = match behaviours[job].is_shared {
                        true => &mut shared[job],
                        false => {
                            volume.writer = Some(job);
                            &mut volume.saved
                        }
                    };
                    *saved = (*saved).max(container.units);
                    // State saved by a manually started container, or in a volume that the job no longer has, does not count.
                    if !container.is_manual && container.volume == names[job] {
                        best[job] = best[job].max(*saved);
                    }
                },
                |volumes, container| {
                    let (job, (shared, best, violation)) = (container.service, &mut *both.borrow_mut());
                    let volume = volumes.0.get(&container.volume).copied().unwrap_or_default();
                    if volume.writer.is_some_and(|writer| writer != job) && !container.is_manual {
                        violation
                            .get_or_insert(format!("job {job} starts on node {number} with another's saved state"));
                    }
                    let found = if behaviours[job].is_shared { shared[job] } else { volume.saved };
                    if let Some(what) = lost(container, found, best[job]) {
                        violation.get_or_insert(what);
                    }
                    found
                },
            );
            if node.agent_answers(*now) && *fault != Fault::BreaksTheLease {
                for container in &mut node.containers {
                    let renewed = node.leases.get(&container.service).copied();
                    if renewed.is_some_and(|renewed| *now >= renewed + LEASE) && container.writes() {
                        if !node.stopped.contains(&container.task) {
                            node.stopped.push(container.task);
                        }
                        container.stop(*now, behaviours[container.service].grace);
                    }
                }
            }
        }
        let due: Vec<Carrying> = carryings.extract_if(.., |carrying| *now >= carrying.done).collect();
        for carrying in due {
            let (from, to) = (carrying.from, carrying.to);
            let outcome = if nodes[from].cut || nodes[to].cut {
                TransferOutcome::Failed("no reply".to_owned())
            } else if nodes[to].disk_full {
                TransferOutcome::Impossible("disk full".to_owned())
            } else if nodes[to].volumes.is_of_other(carrying.volume, carrying.service)
                && *fault != Fault::CarriesOverOthers
            {
                TransferOutcome::Impossible("the volume is another job's".to_owned())
            } else {
                let twice = *fault == Fault::CarriesTwice;
                match nodes[to].volumes.carry(carrying.volume, carrying.sent, twice) {
                    Ok(()) => TransferOutcome::Carried { size: Bytes(1), sha256: "0".into() },
                    Err(why) => TransferOutcome::Failed(why),
                }
            };
            carried.push((carrying, outcome));
        }
    }

    /// Reports the state of tasks from the nodes to Swarm.
    fn report_tasks(&mut self) {
        for node in 0..NODES {
            if self.nodes[node].cut {
                continue;
            }
            for (id, ended) in std::mem::take(&mut self.nodes[node].unreported) {
                let now = self.now;
                let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else { continue };
                task.is_over = true;
                (task.state, task.exit) = match ended {
                    Ended::Complete => (TaskState::Complete, Some(0)),
                    Ended::Failed(exit) => (TaskState::Failed, exit),
                    // A wanted task that its agent stopped counts as failed.
                    Ended::Stopped if task.wanted => (TaskState::Failed, Some(143)),
                    Ended::Stopped => (TaskState::Shutdown, Some(143)),
                    Ended::Saved if task.wanted => (TaskState::Complete, Some(0)),
                    Ended::Saved => (TaskState::Shutdown, Some(0)),
                };
                task.changed = now;
                let (job, was_wanted) = (task.service, std::mem::take(&mut task.wanted));
                match ended {
                    Ended::Complete => (self.failed[job], self.is_complete[job]) = (u64::MAX, true),
                    // Swarm restarts only tasks that failed.
                    Ended::Saved if was_wanted => self.failed[job] = u64::MAX,
                    _ if was_wanted => self.failed[job] = self.failed[job].saturating_add(1),
                    _ => {}
                }
            }
            for container in &self.nodes[node].containers {
                let task = self.tasks.iter_mut().find(|task| task.id == container.task && task.wanted);
                if let Some(task) = task.filter(|_| container.state == ContainerState::Running) {
                    task.state = TaskState::Running;
                }
            }
        }
    }

    /// Checks that no job has two writers. Excepted are manual starts, and replacements by Swarm on the same node.
    fn check_writers(&mut self) {
        for job in 0..JOBS {
            let writers = || {
                let all =
                    self.nodes.iter().enumerate().flat_map(|(at, node)| node.containers.iter().map(move |c| (at, c)));
                all.filter(move |(_, container)| container.service == job && container.writes())
            };
            if writers().count() < 2 {
                continue;
            }
            let Some((at, youngest)) = writers().max_by_key(|(_, container)| container.since) else { continue };
            let is_only_here = writers().all(|(other, _)| other == at);
            if !(youngest.is_manual || youngest.is_replacement && is_only_here) {
                let nodes: Vec<usize> = writers().map(|(at, _)| at).collect();
                return self.violate(format!("two writers of job {job}, on nodes {nodes:?}"));
            }
        }
    }

    /// Returns the state of the Swarm as reported by the engine of a manager.
    pub(super) fn swarm(&self, reported_by: usize) -> Swarm {
        let node = |number: usize| SwarmNode {
            id: node_id(number),
            hostname: node_id(number).0,
            address: "10.0.0.1".into(),
            version: self.nodes[number].version,
            is_up: self.is_up(number),
            availability: if self.nodes[number].closed { Availability::Drain } else { Availability::Active },
            is_manager: true,
            labels: match self.nodes[number].drained {
                true => BTreeMap::from([(Arc::from(DRAIN), Arc::from("true"))]),
                false => BTreeMap::new(),
            },
            capacity: Resources { cores: JOBS as f64, memory: Bytes(1 << 30), gpus: 0 },
            reserved: Resources::default(),
            engine: "20.10".into(),
        };
        let task = |task: &Task| SwarmTask {
            id: format!("t{}", task.id).into(),
            service: ServiceId(format!("s{}", task.service).into()),
            node: task.node.map(node_id),
            state: task.state,
            is_wanted: task.wanted,
            exit_code: task.exit,
            error: task.error.map(Into::into),
            changed: Millis(task.changed.saturating_add_signed(self.skew)),
        };
        let is_listed = |task: &&Task| task.listed && self.services[task.service].is_some();
        Swarm {
            cluster: "c".into(),
            reported_by: Some(node_id(reported_by)),
            is_leader: self.leader == reported_by || self.both_lead,
            nodes: (0..NODES).map(node).collect(),
            services: self.services.iter().flatten().cloned().collect(),
            tasks: self.tasks.iter().filter(is_listed).map(task).collect(),
        }
    }

    /// Records a change of replicas or pin.
    pub(super) fn respecified(&mut self, job: usize, is_manual: bool) {
        self.is_manual[job] = is_manual;
        let undecided = self.tasks.iter_mut().filter(|task| task.service == job && task.wanted && task.node.is_none());
        undecided.for_each(|task| task.is_manual |= is_manual);
        self.failed[job] = 0;
        // A task that waits for a node belongs to the new spec.
        self.has_begun[job] = self.tasks.iter().any(|task| task.service == job && task.wanted);
    }
}
