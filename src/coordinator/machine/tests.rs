//! Tests of the machine on a simulated Swarm that executes requests at once. For failures see `coordinator/disasters`.

use super::labels::{CHECKPOINT, Labels, MOVABLE, QUEUE};
use super::*;
use model::cluster::{ClusterStatus, JobState, Resources, WhyKind};
use model::swarm::{
    Attestation, Availability, ChangeOutcome, MountedVolume, NodeId, NodeReport, RestartCondition, RestartRule,
    ServiceChange, ServiceId, ServiceMode, Swarm, SwarmNode, SwarmService, SwarmTask, TaskState, TransferOutcome,
    WorkerReport,
};
use model::{Bytes, Millis, Refusal};
use std::collections::{BTreeMap, VecDeque};

mod alternatives;
mod claims;
mod commands;
mod known_work;
mod leased;
mod manual;
mod moves;
mod together;
mod told;

use claims::mounted;

/// The machine, a simulated Swarm with agents, and a log of the executed actions.
struct Bench {
    machine: Machine,
    swarm: Swarm,
    at: u64,
    did: Vec<String>,
    /// The events, with the names of their jobs.
    emitted: Vec<String>,
    replies: Vec<(CommandId, Result<String, Refusal>)>,
    status: ClusterStatus,
    /// Nodes whose agents do not reply to questions for a proof.
    mute: Vec<NodeId>,
    agents: leased::Agents,
    volumes: claims::Volumes,
    /// The first attestations of agents; all later ones are `Gone`.
    attestations: VecDeque<Attestation>,
    /// If set, collects questions for a proof instead of replying.
    withheld: Option<Vec<Question>>,
    carries: TransferOutcome,
    /// Whether Swarm removes tasks as soon as they are not wanted.
    lets_go: bool,
    /// Number of changes rejected because of an outdated version.
    out_of_date: usize,
}

const OWN: &str = "own";

fn node(name: &str) -> NodeId {
    NodeId(name.into())
}

/// A service that mounts a volume of its own. That is its checkpoint if the label says [`OWN`].
fn service(name: &str, labels: &[(&str, &str)]) -> SwarmService {
    let own = format!("{name}-saved");
    let value = |value: &str| if value == OWN { own.as_str().into() } else { value.into() };
    let labels: Labels = labels.iter().map(|(label, text)| ((*label).into(), value(text))).collect();
    SwarmService {
        id: ServiceId(name.into()),
        name: name.into(),
        version: 1,
        created: Millis(1),
        labels,
        previous_labels: Labels::new(),
        container_labels: BTreeMap::new(),
        mode: ServiceMode::Replicated(0),
        pin: None,
        constraints: Vec::new(),
        other_constraints: Vec::new(),
        request: Resources { cores: 1.0, ..Resources::default() },
        restart: RestartRule { condition: RestartCondition::OnFailure, attempts: Some(1) },
        stop_grace: Some(Millis::from_secs(10)),
        volumes: vec![mounted(&own)],
        command: vec!["train".into()],
    }
}

fn swarm_node(name: &str) -> SwarmNode {
    SwarmNode {
        id: node(name),
        hostname: name.into(),
        address: "10.0.0.1".into(),
        version: 1,
        is_up: true,
        availability: Availability::Active,
        is_manager: name == "a",
        labels: BTreeMap::new(),
        capacity: Resources { cores: 2.0, memory: Bytes(8 << 30), gpus: 0 },
        reserved: Resources::default(),
        engine: "20.10".into(),
    }
}

impl Bench {
    fn with(services: Vec<SwarmService>) -> Bench {
        let nodes = ["a", "b"].map(swarm_node).to_vec();
        let swarm = Swarm { is_leader: true, nodes, services, ..Swarm::default() };
        Bench {
            machine: Machine::new(CoordinatorSettings::default()),
            swarm,
            at: 0,
            did: Vec::new(),
            emitted: Vec::new(),
            replies: Vec::new(),
            status: ClusterStatus::default(),
            mute: Vec::new(),
            agents: leased::Agents::default(),
            volumes: claims::Volumes::default(),
            attestations: VecDeque::new(),
            withheld: None,
            carries: TransferOutcome::Carried { size: Bytes(1), sha256: "0".into() },
            lets_go: true,
            out_of_date: 0,
        }
    }

    fn handle(&mut self, event: Event) {
        let at = At { now: Millis(self.at), unix: Millis(1_700_000_000_000 + self.at) };
        for effect in self.machine.handle(event, at) {
            if let Some(answer) = self.carry_out(effect) {
                self.handle(answer);
            }
        }
    }

    fn passes(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.at += 1000;
            self.handle(Event::Tick);
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        Some(match effect {
            Effect::Look { look } => Event::Looked { look, swarm: Ok(self.swarm.clone()) },
            Effect::Poll { node, leases, graces, release, asked, .. } => {
                self.polled(node, leases, graces, release, asked)
            }
            Effect::Change(change) => {
                let (service, version) = (change.service.clone(), change.version);
                Event::Changed { service, version, outcome: self.change(change) }
            }
            Effect::ChangeNode(change) => {
                let found = self.swarm.nodes.iter_mut().find(|node| node.id == change.node).expect("a node");
                found.version += 1;
                found.availability = change.availability.unwrap_or(found.availability);
                for (label, value) in change.labels {
                    match value {
                        Some(value) => drop(found.labels.insert(label, value)),
                        None => drop(found.labels.remove(&label)),
                    }
                }
                Event::NodeChanged { node: change.node, version: change.version, outcome: ChangeOutcome::Done }
            }
            Effect::Attest(question) => {
                self.did.push(format!("ask {}", question.node));
                if let Some(withheld) = &mut self.withheld {
                    withheld.push(question);
                    return None;
                }
                let attestation = match self.mute.contains(&question.node) {
                    true => Attestation::Unknown("no reply".to_owned()),
                    false => self.attestations.pop_front().unwrap_or(Attestation::Gone),
                };
                Event::Attested(question, attestation)
            }
            Effect::Claim { claim, version } => {
                let outcome = self.volumes.claim(&claim);
                Event::Claimed { claim, version, outcome }
            }
            Effect::RunHook { node, command, .. } => {
                self.did.push(command.join(" "));
                Event::HookEnded { node, outcome: Ok(()) }
            }
            Effect::Carry(carriage) => {
                self.did.push(format!("carry {} {}>{}", carriage.number, carriage.from, carriage.to));
                let (service, number) = (carriage.service, carriage.number);
                Event::Carried { service, number, outcome: self.carries.clone() }
            }
            Effect::Reply { command_id, result } => {
                self.replies.push((command_id, result));
                return None;
            }
            Effect::Publish(status) => {
                self.status = *status;
                return None;
            }
            Effect::Recall(events) => {
                self.emitted.extend(events.into_iter().map(|(_, job, text)| format!("{job}: {text}")));
                return None;
            }
            Effect::Emit { job, text } => {
                self.emitted.push(job.map_or_else(|| text.clone(), |job| format!("{job}: {text}")));
                return None;
            }
        })
    }

    fn change(&mut self, change: ServiceChange) -> ChangeOutcome {
        let Some(service) = self.swarm.services.iter_mut().find(|service| service.id == change.service) else {
            return ChangeOutcome::Gone;
        };
        if service.version != change.version {
            self.out_of_date += 1;
            return ChangeOutcome::OutOfDate;
        }
        service.version += 1;
        for (label, value) in change.labels {
            match value {
                Some(value) => drop(service.labels.insert(label, value)),
                None => drop(service.labels.remove(&label)),
            }
        }
        if let Some(pin) = change.pin {
            service.pin = pin;
        }
        service.request = change.request.unwrap_or(service.request);
        service.stop_grace = change.stop_grace.or(service.stop_grace);
        let phase = service.labels.get("flowcon.cluster.phase").map(ToString::to_string).unwrap_or_default();
        if let Some(replicas) = change.replicas {
            service.mode = ServiceMode::Replicated(replicas);
            let lets_go = self.lets_go;
            self.swarm.tasks.iter_mut().for_each(|task| task.is_wanted &= task.service != service.id);
            self.swarm.tasks.retain(|task| task.service != service.id || !lets_go);
            let node = service.pin.clone();
            self.did.push(format!("{phase} {replicas}@{}", node.as_ref().map_or("-", |node| &node.0)));
            if replicas == 1 {
                let id = format!("task-{}", service.version).into();
                let service = service.id.clone();
                let (state, changed) = (TaskState::Running, Millis(self.at));
                let task =
                    SwarmTask { id, service, node, state, is_wanted: true, exit_code: None, error: None, changed };
                self.swarm.tasks.push(task);
            }
        } else {
            self.did.push(phase);
        }
        ChangeOutcome::Done
    }

    fn state(&self, name: &str) -> JobState {
        self.status.jobs.iter().find(|job| &*job.name == name).expect("a job").state
    }

    fn why(&self, name: &str) -> (WhyKind, String) {
        let job = self.status.jobs.iter().find(|job| &*job.name == name).expect("a job");
        let why = job.why.clone().expect("a reason");
        (why.kind, why.text)
    }
}

/// Returns a bench with a movable job that runs on `a`.
fn running() -> Bench {
    let mut bench = Bench::with(vec![service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN)])]);
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    bench.passes(30);
    assert_eq!(bench.did, ["starting 1@a", "running"]);
    bench.swarm.nodes[1].labels.clear();
    bench.passes(10);
    bench.did.clear();
    bench
}

#[test]
fn a_waiting_job_is_pinned_and_started_in_one_update_and_verified() {
    let bench = running();
    assert_eq!(bench.state("job"), JobState::Running);
    assert_eq!(bench.status.jobs[0].units, Some(3.0));
}

#[test]
fn a_job_leaves_a_drained_node_in_five_phases() {
    let mut bench = running();
    bench.handle(Event::Command(Command::Drain("a".to_owned()), CommandId(1)));
    bench.passes(60);
    assert_eq!(
        bench.did,
        [
            "stopping 0@flowcon-nowhere",
            "ask a",
            "carrying 0@flowcon-nowhere",
            "carry 1 a>b",
            "ask a",
            "starting 1@b",
            "running"
        ]
    );
    assert_eq!(bench.state("job"), JobState::Running);
    assert_eq!((bench.status.jobs[0].moves, bench.replies.len()), (1, 1));
}

#[test]
fn without_a_proof_a_move_does_not_continue() {
    let mut bench = running();
    bench.mute = vec![node("a")];
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    bench.passes(120);
    assert_eq!(bench.state("job"), JobState::Stopping);
    let (kind, why) = bench.why("job");
    assert_eq!(kind, WhyKind::NoProof);
    assert!(why.contains("node a") && why.contains("no reply"), "{why}");
    assert!(bench.did.iter().all(|did| !did.starts_with("carr") && !did.starts_with("starting")));
    bench.mute.clear();
    bench.passes(60);
    assert_eq!(bench.state("job"), JobState::Running);
    assert_eq!(bench.replies.len(), 1);
}

#[test]
fn a_full_disk_on_the_target_returns_the_job_to_its_source() {
    let mut bench = running();
    bench.carries = TransferOutcome::Impossible("disk full".to_owned());
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    bench.passes(60);
    assert_eq!(bench.did[4..], ["ask a", "starting 1@a", "running"]);
    let job = &bench.status.jobs[0];
    assert_eq!((job.state, job.node.clone(), job.moves), (JobState::Running, Some(node("a")), 0));
    assert!(job.mark.as_ref().is_some_and(|mark| mark.contains("disk full")), "{job:?}");
}

#[test]
fn a_job_that_completes_is_done_and_stays_so() {
    let mut bench = running();
    bench.swarm.tasks[0].state = TaskState::Complete;
    bench.swarm.tasks[0].is_wanted = false;
    bench.passes(60);
    assert_eq!(bench.did, ["done 0@flowcon-nowhere"]);
    assert_eq!((bench.state("job"), bench.status.jobs[0].exit_code), (JobState::Done, Some(0)));
    assert_eq!(bench.machine.usual_work.mean(), Some(4.0), "total CPU time");
}

#[test]
fn an_invalid_service_gets_a_reason_and_is_never_touched() {
    let queued = |name: &str, change: &dyn Fn(&mut SwarmService)| {
        let mut service = service(name, &[(QUEUE, "true")]);
        change(&mut service);
        service
    };
    let mut bench = Bench::with(vec![
        queued("any", &|service| service.restart.condition = RestartCondition::Any),
        queued("global", &|service| service.mode = ServiceMode::Other("global".into())),
        queued("odd", &|service| drop(service.labels.insert(MOVABLE.into(), "perhaps".into()))),
        service("other", &[]),
        queued("three", &|service| service.mode = ServiceMode::Replicated(3)),
        queued("unpinned", &|service| service.mode = ServiceMode::Replicated(1)),
    ]);
    let before = bench.swarm.clone();
    bench.passes(60);
    bench.swarm.services.iter_mut().for_each(|service| {
        // The node of an unpinned service is recorded, so that it is not started twice once it is handed over.
        service.labels.retain(|label, _| !label.starts_with(labels::INTERNAL_PREFIX));
    });
    bench.swarm.services[5].version = before.services[5].version;
    assert_eq!(bench.swarm, before);
    assert_eq!(bench.status.jobs.len(), 5, "a service without the label is no job");
    for (name, expected) in [
        ("any", "--restart-condition on-failure"),
        ("global", "--mode replicated"),
        ("odd", "flowcon.movable=perhaps: expected true or false"),
        ("three", "docker service scale three=0"),
        ("unpinned", "docker service scale unpinned=0"),
    ] {
        let (_, why) = bench.why(name);
        assert!(why.contains(expected), "{name}: {why}");
    }
}

#[test]
fn a_standby_does_nothing_and_says_so() {
    let mut bench = Bench::with(vec![service("job", &[(QUEUE, "true")])]);
    bench.swarm.is_leader = false;
    bench.handle(Event::Tick);
    bench.handle(Event::Command(Command::Suspend("job".to_owned()), CommandId(7)));
    bench.passes(60);
    assert!(bench.did.is_empty());
    assert!(
        matches!(&bench.replies[..], [(CommandId(7), Err(Refusal::Refused(why)))] if why.contains("docker node ls"))
    );
    assert!(!bench.status.acts && bench.status.why.is_some());
}

#[test]
fn a_suspended_job_stops_and_waits_until_it_is_resumed() {
    let mut bench = running();
    bench.handle(Event::Command(Command::Suspend("job".to_owned()), CommandId(1)));
    bench.passes(30);
    assert_eq!((bench.state("job"), bench.why("job").0), (JobState::Suspended, WhyKind::Suspended));
    bench.handle(Event::Command(Command::Resume("job".to_owned()), CommandId(2)));
    bench.passes(30);
    assert_eq!(bench.state("job"), JobState::Running);
    assert_eq!(
        bench.replies.iter().map(|(id, result)| (id.0, result.is_ok())).collect::<Vec<_>>(),
        [(1, true), (2, true)]
    );
}
