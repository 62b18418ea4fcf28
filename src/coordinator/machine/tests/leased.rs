//! Tests of leases, and of jobs that their agents stopped.

use super::labels::{INTERNAL_PREFIX, ON_NODE_LOSS};
use super::*;
use model::swarm::{EndedWorker, HeldLease};
use std::sync::Arc;

/// The leases of all agents. Each renewal gets the next number as its expiry.
pub(super) struct Agents {
    held: BTreeMap<(NodeId, ServiceId), u64>,
    renewals: u64,
    /// The stop grace periods that the last renewal contained.
    pub graces: BTreeMap<ServiceId, Millis>,
    stopped: Vec<Arc<str>>,
    are_silent: bool,
    /// A node whose agent does not reply.
    pub silent: Option<NodeId>,
    /// The last progress of tasks, as all nodes report it.
    pub ended: Vec<EndedWorker>,
    /// Units done by each worker.
    pub units: f64,
    /// Cores in use on each node.
    pub used_cores: Option<f64>,
    /// Nodes with governed work that is no service.
    pub others: Vec<NodeId>,
}

impl Default for Agents {
    fn default() -> Agents {
        Agents {
            held: BTreeMap::new(),
            renewals: 0,
            graces: BTreeMap::new(),
            stopped: Vec::new(),
            are_silent: false,
            silent: None,
            ended: Vec::new(),
            units: 3.0,
            used_cores: None,
            others: Vec::new(),
        }
    }
}

impl Bench {
    pub(super) fn polled(
        &mut self,
        node: NodeId,
        leases: Vec<ServiceId>,
        graces: BTreeMap<ServiceId, Millis>,
        release: Vec<HeldLease>,
        asked: Millis,
    ) -> Event {
        if !leases.is_empty() {
            self.agents.graces = graces;
        }
        if self.agents.are_silent || self.agents.silent.as_ref() == Some(&node) {
            return Event::Polled { node, leases, asked, report: Err("no reply".to_owned()) };
        }
        for HeldLease { service, until } in release {
            let lease = (node.clone(), service);
            if self.agents.held.get(&lease) == Some(&until.0) {
                self.agents.held.remove(&lease);
            }
        }
        for service in &leases {
            self.agents.renewals += 1;
            self.agents.held.insert((node.clone(), service.clone()), self.agents.renewals);
        }
        let workers = self.swarm.tasks.iter().filter(|task| task.is_wanted && task.node.as_ref() == Some(&node));
        let worker = |task: &SwarmTask| WorkerReport {
            service: task.service.clone(),
            task: task.id.clone(),
            up_s: 5.0,
            units: Some(self.agents.units),
            total: Some(10.0),
            unit_s: Some(60.0),
            work_left: None,
            cores: None,
            cpu_time_s: Some(4.0),
            value: None,
        };
        let held = self.agents.held.iter().filter(|((at, _), _)| *at == node);
        let lease = |((_, service), until): (&(NodeId, ServiceId), &u64)| HeldLease {
            service: service.clone(),
            until: Millis(*until),
        };
        let report = NodeReport {
            is_governed: true,
            used_cores: self.agents.used_cores,
            workers: workers.map(worker).collect(),
            ended: self.agents.ended.clone(),
            others: self.agents.others.contains(&node).into(),
            held: held.map(lease).collect(),
            stopped: self.agents.stopped.clone(),
            saved: self.volumes.saved_on(&node),
            ..NodeReport::default()
        };
        Event::Polled { node, leases, asked, report: Ok(report) }
    }

    /// The latest renewal of the job's lease on a node.
    fn lease(&self, at: &str) -> Option<u64> {
        self.agents.held.get(&(node(at), ServiceId("job".into()))).copied()
    }

    /// The internal label `leased`.
    fn leased(&self) -> Option<&str> {
        self.swarm.services[0].labels.get(format!("{INTERNAL_PREFIX}leased").as_str()).map(AsRef::as_ref)
    }

    fn label(&mut self, label: &str, value: &str) {
        let service = &mut self.swarm.services[0];
        service.labels.insert(label.into(), value.into());
        service.version += 1;
    }
}

/// Returns a bench with a job that runs on `a`, has its state on shared storage, and may start elsewhere if its node is lost.
fn leased() -> Bench {
    let mut job = service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN), (ON_NODE_LOSS, "restart")]);
    job.volumes[0].is_local = false;
    let mut bench = Bench::with(vec![job]);
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    bench.passes(30);
    assert_eq!((bench.state("job"), bench.leased()), (JobState::Running, Some("a")));
    bench.swarm.nodes[1].labels.clear();
    bench.passes(10);
    bench.did.clear();
    bench
}

/// The agent stops the job's task, which exits with code 0 or fails.
fn stopped_by_agent(bench: &mut Bench, state: TaskState) {
    let task = &mut bench.swarm.tasks[0];
    (task.state, task.is_wanted) = (state, false);
    task.exit_code = Some(if state == TaskState::Complete { 0 } else { 143 });
    bench.agents.stopped.push(task.id.clone());
}

#[test]
fn a_job_that_its_agent_stopped_goes_back_to_the_queue_and_resumes() {
    for state in [TaskState::Complete, TaskState::Failed] {
        let mut bench = leased();
        bench.lets_go = false;
        stopped_by_agent(&mut bench, state);
        bench.passes(60);
        assert_eq!(bench.did.iter().filter(|did| did.starts_with("done")).count(), 0, "{:?}", bench.did);
        assert_eq!(bench.did[0], "stopping 0@flowcon-nowhere");
        assert_eq!((bench.state("job"), &bench.status.jobs[0].mark), (JobState::Running, &None), "{:?}", bench.did);
    }
}

#[test]
fn a_leased_job_that_has_exited_is_done_once_its_agent_says_that_it_did_not_stop_it() {
    let mut bench = leased();
    bench.agents.are_silent = true;
    let task = &mut bench.swarm.tasks[0];
    (task.state, task.is_wanted, task.exit_code) = (TaskState::Complete, false, Some(0));
    bench.passes(10);
    assert!(bench.did.is_empty(), "{:?}", bench.did);
    assert!(bench.why("job").1.contains("waiting for a report of the agent on node a"));
    bench.agents.are_silent = false;
    bench.passes(20);
    assert_eq!((bench.did[0].as_str(), bench.state("job")), ("done 0@flowcon-nowhere", JobState::Done));
}

#[test]
fn a_fenced_job_is_stopped_by_its_agent_although_swarm_reports_it_as_complete() {
    let mut bench = leased();
    bench.lets_go = false;
    bench.mute = vec![node("a")];
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    bench.passes(5);
    let before = bench.lease("a");
    stopped_by_agent(&mut bench, TaskState::Complete);
    bench.passes(30);
    assert_eq!((bench.state("job"), bench.lease("a")), (JobState::Stopping, before), "neither renewed nor released");
    bench.mute.clear();
    bench.passes(30);
    assert_eq!((bench.state("job"), bench.leased()), (JobState::Running, Some("b")), "{:?}", bench.did);
}

#[test]
fn the_lease_of_an_invalid_job_is_renewed() {
    for (label, value) in [(ON_NODE_LOSS, "reboot"), ("flowcon.movabel", "true"), ("flowcon.cluster.colour", "red")] {
        let mut bench = leased();
        bench.label(label, value);
        bench.passes(10);
        let before = bench.lease("a");
        bench.passes(20);
        assert_eq!(bench.state("job"), JobState::Refused);
        assert!(bench.lease("a") > before, "{label}");
    }
}

#[test]
fn a_lease_is_released_after_its_label_was_removed() {
    let mut bench = leased();
    bench.label(ON_NODE_LOSS, "wait");
    bench.passes(30);
    assert_eq!((bench.lease("a"), bench.leased(), bench.state("job")), (None, None, JobState::Running));
    bench.label(ON_NODE_LOSS, "restart");
    bench.passes(30);
    assert!(bench.lease("a").is_some() && bench.leased() == Some("a"));
}

#[test]
fn the_lease_of_a_service_that_is_no_job_any_more_is_released() {
    let mut bench = leased();
    let other = bench.swarm.services[0].clone();
    bench.swarm.services.clear();
    bench.passes(30);
    assert_eq!(bench.lease("a"), None);
    // It gets the label again while its node is lost: its internal labels do not prove that it has a lease.
    bench.swarm.services.push(other);
    bench.swarm.nodes[0].is_up = false;
    bench.swarm.tasks[0].is_wanted = false;
    (bench.agents.are_silent, bench.mute) = (true, vec![node("a")]);
    bench.passes(1000);
    assert_eq!(bench.state("job"), JobState::Stopping, "{:?}", bench.did);
}

#[test]
fn a_leased_job_starts_elsewhere_after_its_node_was_lost_for_long_enough() {
    let mut bench = leased();
    bench.swarm.nodes[0].is_up = false;
    bench.swarm.tasks[0].is_wanted = false;
    bench.mute = vec![node("a")];
    bench.passes(100);
    assert_eq!(bench.state("job"), JobState::Stopping);
    bench.passes(200);
    assert_eq!((bench.state("job"), bench.leased()), (JobState::Running, Some("b")), "{:?}", bench.did);
}

#[test]
fn a_job_whose_state_is_only_on_its_node_gets_no_lease() {
    let job = service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN), (ON_NODE_LOSS, "restart")]);
    let mut bench = Bench::with(vec![job]);
    bench.passes(60);
    assert_eq!((bench.state("job"), bench.leased(), bench.agents.held.len()), (JobState::Running, None, 0));
}

#[test]
fn a_started_job_gets_its_lease_at_once() {
    let mut bench = leased();
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    let started = "starting 1@b".to_owned();
    while !bench.did.contains(&started) {
        assert_eq!(bench.lease("b"), None);
        bench.passes(1);
    }
    assert!(bench.lease("b").is_some());
}

#[test]
fn a_leased_job_is_given_the_stop_grace_of_its_start_and_waited_for_as_long() {
    for (grace, expected) in [(None, 10), (Some(300), 300)] {
        let mut job = service("job", &[(QUEUE, "true"), (MOVABLE, "true"), (ON_NODE_LOSS, "restart")]);
        (job.volumes, job.stop_grace) = (Vec::new(), grace.map(Millis::from_secs));
        let mut bench = Bench::with(vec![job]);
        bench.passes(30);
        let told = bench.agents.graces.get(&ServiceId("job".into())).copied();
        assert_eq!(told.map_or(10, |grace| grace.0 / 1000), expected);
        // It counts for the task that runs, whatever its owner changes meanwhile.
        bench.swarm.services[0].stop_grace = Some(Millis::from_secs(1));
        bench.swarm.services[0].version += 1;
        bench.passes(10);
        bench.swarm.nodes[0].is_up = false;
        bench.swarm.tasks[0].is_wanted = false;
        (bench.mute, bench.agents.silent) = (vec![node("a")], Some(node("a")));
        let settings = CoordinatorSettings::default();
        let whole = settings.lease.after(settings.lease_margin).0 / 1000 + expected;
        bench.passes(whole - 10);
        assert_eq!(bench.state("job"), JobState::Stopping, "{grace:?}");
        bench.passes(40);
        assert_eq!((bench.state("job"), bench.leased()), (JobState::Running, Some("b")), "{:?}", bench.did);
    }
}
