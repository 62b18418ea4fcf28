//! A coordinator: the real machine, its requests in flight and its inbox of events.

use super::fault::Fault;
use super::managers::LAG;
use super::report::report;
use super::volume::volume_of;
use super::world::{Carrying, World, node_id, node_of, service_of};
use crate::machine::labels::{AFTER, INTERNAL_PREFIX};
use crate::machine::{At, Command, CommandId, CoordinatorSettings, Effect, Event, Machine, Question};
use model::cluster::ClusterStatus;
use model::swarm::{
    Attestation, ChangeOutcome, Claim, ClaimOutcome, HeldLease, NodeChange, NodeId, ServiceChange, ServiceId,
    ServiceMode, TaskState, Transfer, TransferOutcome,
};
use model::{Bytes, Millis};
use std::collections::{BTreeSet, VecDeque};

/// A request in flight.
enum Request {
    Effect(Effect),
    /// Labels that a planted fault writes later than the rest.
    Labels(ServiceChange),
}

pub(super) struct Coordinator {
    /// Number of the node that it runs on.
    pub node: usize,
    /// Number of restarts.
    pub life: u64,
    machine: Machine,
    requests: Vec<(u64, Request)>,
    inbox: VecDeque<Event>,
    awaiting: BTreeSet<CommandId>,
    last_command: u64,
    pub status: ClusterStatus,
}

pub(super) fn settings() -> CoordinatorSettings {
    let secs = Millis::from_secs;
    CoordinatorSettings {
        look_every: secs(3),
        poll_every: secs(8),
        start_within: secs(60),
        verify_within: secs(60),
        carry_within: secs(120),
        lease: secs(20),
        lease_margin: secs(45),
        settle: Millis(LAG),
        retry_after: secs(10),
        retry_most: secs(80),
        tries_most: 4,
        ..CoordinatorSettings::default()
    }
}

impl Coordinator {
    pub(super) fn start(node: usize, life: u64, fault: Fault) -> Coordinator {
        let settle = if fault == Fault::DoesNotSettle { Millis(0) } else { settings().settle };
        Coordinator {
            node,
            life,
            machine: Machine::new(CoordinatorSettings { settle, ..settings() }),
            requests: Vec::new(),
            inbox: VecDeque::new(),
            awaiting: BTreeSet::new(),
            last_command: 0,
            status: ClusterStatus::default(),
        }
    }

    /// Kills and restarts it; requests in flight are executed if `arrives`.
    pub(super) fn killed(&mut self, world: &mut World, arrives: bool) {
        for (_, request) in std::mem::take(&mut self.requests) {
            if arrives && let Request::Effect(Effect::Change(_) | Effect::Carry(_) | Effect::Claim { .. }) = &request {
                self.carry_out(world, request, 1);
            }
        }
        *self = Coordinator::start(self.node, self.life + 1, world.fault);
    }

    pub(super) fn tick(&mut self, world: &mut World) -> Result<(), String> {
        self.handle(world, Event::Tick)
    }

    pub(super) fn command(&mut self, world: &mut World, command: Command) -> Result<(), String> {
        self.last_command += 1;
        let command_id = CommandId(self.last_command);
        self.awaiting.insert(command_id);
        self.handle(world, Event::Command(command, command_id))
    }

    pub(super) fn unanswered(&self) -> usize {
        self.awaiting.len()
    }

    fn handle(&mut self, world: &mut World, event: Event) -> Result<(), String> {
        let at = At { now: Millis(world.now), unix: world.unix() };
        for effect in self.machine.handle(event, at) {
            match effect {
                Effect::Reply { command_id, result } => {
                    if !self.awaiting.remove(&command_id) {
                        return Err(format!("second reply to a command: {result:?}"));
                    }
                }
                Effect::Emit { text, .. } if text.starts_with("invalid plan") => return Err(text),
                Effect::Emit { .. } | Effect::Recall(_) => {}
                Effect::Publish(status) => self.status = *status,
                request => self.requests.push((world.now, Request::Effect(request))),
            }
        }
        Ok(())
    }

    /// Handles one event of the inbox or executes one request; false if there was none.
    pub(super) fn step(&mut self, world: &mut World, pick: usize) -> Result<bool, String> {
        let (node, life) = (self.node, self.life);
        for (carrying, outcome) in world.carried.extract_if(.., |(carrying, _)| carrying.requester.0 == node) {
            if carrying.requester.1 == life {
                let service = ServiceId(format!("s{}", carrying.service).into());
                self.inbox.push_back(Event::Carried { service, number: carrying.number, outcome });
            }
        }
        if !self.inbox.is_empty() && (pick.is_multiple_of(2) || self.requests.is_empty()) {
            let event = self.inbox.pop_front().expect("the inbox is not empty");
            self.handle(world, event)?;
            return Ok(true);
        }
        if self.requests.is_empty() {
            return Ok(false);
        }
        let (sent, request) = self.requests.remove(pick / 2 % self.requests.len());
        let answer = match world.now - sent > settings().request_within.0 {
            true => late(request),
            false => self.carry_out(world, request, pick),
        };
        self.inbox.extend(answer);
        Ok(true)
    }

    fn carry_out(&mut self, world: &mut World, request: Request, pick: usize) -> Option<Event> {
        let is_cut = world.nodes[self.node].cut;
        Some(match request {
            Request::Labels(_) if pick.is_multiple_of(4) => return None,
            Request::Labels(change) => {
                if let Some(service) = world.services[service_of(&change.service)].as_mut() {
                    set(&mut service.labels, change.labels);
                }
                return None;
            }
            Request::Effect(Effect::Look { look }) => {
                let swarm = if is_cut { Err("no leader".to_owned()) } else { Ok(world.swarm(self.node)) };
                Event::Looked { look, swarm }
            }
            Request::Effect(Effect::Change(change)) => {
                let (service, version) = (change.service.clone(), change.version);
                let mut outcome = match is_cut {
                    true => ChangeOutcome::Unknown("no leader".to_owned()),
                    false => self.change(world, change),
                };
                if pick.is_multiple_of(23) {
                    outcome = ChangeOutcome::Unknown("no reply".to_owned());
                }
                Event::Changed { service, version, outcome }
            }
            Request::Effect(Effect::ChangeNode(change)) => {
                let (node, version) = (change.node.clone(), change.version);
                let outcome = match is_cut {
                    true => ChangeOutcome::Unknown("no leader".to_owned()),
                    false => change_node(world, &change),
                };
                Event::NodeChanged { node, version, outcome }
            }
            Request::Effect(Effect::Poll { node, leases, release, asked, .. }) => {
                let at = node_of(&node).expect("a node");
                if !self.reaches(world, at) {
                    return Some(Event::Polled { node, leases, asked, report: Err("no reply".to_owned()) });
                }
                let (now, held) = (world.now, &mut world.nodes[at].leases);
                for HeldLease { service, until } in release {
                    let service = service_of(&service);
                    if held.get(&service) == Some(&until.0) {
                        held.remove(&service);
                    }
                }
                held.extend(leases.iter().map(|id| (service_of(id), now)));
                Event::Polled { report: Ok(report(world, at)), node, leases, asked }
            }
            Request::Effect(Effect::Attest(question)) => {
                let attestation = self.attest(world, &question);
                Event::Attested(question, attestation)
            }
            Request::Effect(Effect::Claim { claim, version }) => {
                let outcome = self.claim(world, &claim);
                Event::Claimed { claim, version, outcome }
            }
            Request::Effect(Effect::Carry(carriage)) => return self.carry(world, carriage, pick),
            Request::Effect(_) => return None,
        })
    }

    fn reaches(&self, world: &World, node: usize) -> bool {
        let is_near = node == self.node || !world.nodes[node].cut && !world.nodes[self.node].cut;
        is_near && world.nodes[node].agent_answers(world.now)
    }

    fn change(&mut self, world: &mut World, change: ServiceChange) -> ChangeOutcome {
        let job = service_of(&change.service);
        let version = world.next();
        let Some(service) = world.services[job].as_mut() else { return ChangeOutcome::Gone };
        if service.version != change.version && world.fault != Fault::IgnoresVersions {
            return ChangeOutcome::OutOfDate;
        }
        service.version = version;
        service.previous_labels = service.labels.clone();
        let is_respecified = change.replicas.is_some() || change.pin.is_some();
        let gives_up = change.labels.get(format!("{INTERNAL_PREFIX}home").as_str()).is_some_and(Option::is_none);
        if gives_up && !world.behaviours[job].is_shared {
            // An operator has given up the state on a node that is off.
            world.best[job] = 0;
        }
        // A job that was started manually no longer waits for its dependency.
        let is_first = !service.labels.contains_key(format!("{INTERNAL_PREFIX}home").as_str());
        let comes_after = is_first && service.labels.contains_key(AFTER);
        let has_claimed = |node: &NodeId| {
            let node = &world.nodes[node_of(node).expect("a node")];
            node.volumes.0.get(&world.volumes[job]).is_some_and(|volume| volume.owner == Some(job))
        };
        let is_unclaimed = world.behaviours[job].saves
            && !world.behaviours[job].is_shared
            && change.replicas == Some(1)
            && change.pin.iter().flatten().any(|node| !has_claimed(node));
        let comes_too_soon = change.replicas == Some(1) && comes_after && !world.is_complete[0];
        if let Some(replicas) = change.replicas {
            service.mode = ServiceMode::Replicated(replicas);
        }
        if let Some(pin) = change.pin.clone() {
            service.pin = pin;
        }
        if is_respecified && world.fault == Fault::ActsBeforeTheLabels {
            self.requests.push((world.now, Request::Labels(change.clone())));
        } else {
            set(&mut service.labels, change.labels);
        }
        if is_respecified {
            world.respecified(job, false);
        }
        if is_unclaimed {
            world.violate(format!("job {job} is started before it is the owner of its volume"));
        }
        if comes_too_soon {
            world.violate(format!("job {job} is started before its dependency is done"));
        }
        if change.replicas == Some(1)
            && let Some(node) = (0..world.nodes.len()).find(|node| world.nodes[*node].alive(job) > 0)
        {
            world.violate(format!("job {job} is started while a container of it lives on node {node}"));
        }
        ChangeOutcome::Done
    }

    fn attest(&self, world: &World, question: &Question) -> Attestation {
        let (job, node) = (service_of(&question.service), node_of(&question.node).expect("a node"));
        let is_second = question.carried.is_some();
        if world.fault == Fault::SkipsTheProof || is_second && world.fault == Fault::SkipsTheSecondProof {
            return Attestation::Gone;
        }
        if world.fault == Fault::TrustsSwarmsList {
            let runs = |task: &&super::world::Task| {
                task.service == job && task.listed && task.wanted && task.state <= TaskState::Running
            };
            let count = world.tasks.iter().filter(runs).count();
            return if count == 0 { Attestation::Gone } else { Attestation::Alive(count) };
        }
        if !self.reaches(world, node) {
            return Attestation::Unknown("no reply".to_owned());
        }
        let state = &world.nodes[node];
        match state.alive(job) {
            0 => match question.carried.map(|number| state.still_has(world.volumes[job], job, number)) {
                Some(false) if world.fault != Fault::StartsWithAnEarlierState => Attestation::Changed,
                _ => Attestation::Gone,
            },
            alive => Attestation::Alive(alive),
        }
    }

    fn claim(&self, world: &mut World, claim: &Claim) -> ClaimOutcome {
        let (job, node) = (service_of(&claim.owner.service), node_of(&claim.node).expect("a node"));
        let volume = volume_of(&claim.volume);
        if world.fault == Fault::SkipsTheClaim {
            return ClaimOutcome::Granted;
        }
        if !self.reaches(world, node) {
            return ClaimOutcome::Unknown("no reply".to_owned());
        }
        if world.fault == Fault::StealsVolumes {
            world.nodes[node].volumes.0.entry(volume).or_default().owner = Some(job);
            return ClaimOutcome::Granted;
        }
        let is_other = |container: &&super::node::Container| container.service != job && container.volume == volume;
        match world.nodes[node].containers.iter().find(is_other) {
            Some(other) => ClaimOutcome::InUse(format!("t{}", other.task).into()),
            None => world.nodes[node].volumes.claim(volume, job, claim),
        }
    }

    fn carry(&self, world: &mut World, carriage: Transfer, pick: usize) -> Option<Event> {
        let Transfer { service, from, to, number, volume, .. } = carriage;
        let volume = volume_of(&volume);
        let (job, from, to) = (service_of(&service), node_of(&from)?, node_of(&to)?);
        if !self.reaches(world, from) || !self.reaches(world, to) {
            let outcome = TransferOutcome::Failed("no reply".to_owned());
            return Some(Event::Carried { service, number, outcome });
        }
        if world.nodes[from].volumes.is_of_other(volume, job) && world.fault != Fault::CarriesOverOthers {
            let outcome = TransferOutcome::Impossible("the volume is another job's".to_owned());
            return Some(Event::Carried { service, number, outcome });
        }
        // Sometimes the reply is lost while the transfer continues.
        let is_lost = pick.is_multiple_of(5);
        let requester = (self.node, if is_lost { u64::MAX } else { self.life });
        let twice = world.fault == Fault::CarriesTwice;
        let is_same = |other: &&mut Carrying| !twice && (other.service, other.to, other.number) == (job, to, number);
        match world.carryings.iter_mut().find(is_same) {
            Some(same) => same.requester = requester,
            // A repeated request for a completed transfer succeeds at once.
            None if !twice && world.nodes[to].volumes.has_arrived(volume, job, number) => {
                let outcome = TransferOutcome::Carried { size: Bytes(1), sha256: "0".into() };
                return Some(Event::Carried { service, number, outcome });
            }
            None => {
                let sent = world.nodes[from].send(volume, job, number);
                let done = world.now + 1000 * (pick as u64 % 40);
                world.carryings.push(Carrying { service: job, from, to, number, volume, sent, done, requester });
            }
        }
        let outcome = TransferOutcome::Failed("no reply".to_owned());
        is_lost.then_some(Event::Carried { service, number, outcome })
    }
}

fn set(
    labels: &mut crate::machine::labels::Labels,
    changes: std::collections::BTreeMap<std::sync::Arc<str>, Option<std::sync::Arc<str>>>,
) {
    for (label, value) in changes {
        match value {
            Some(value) => drop(labels.insert(label, value)),
            None => drop(labels.remove(&label)),
        }
    }
}

fn change_node(world: &mut World, change: &NodeChange) -> ChangeOutcome {
    let version = world.next();
    let Some(node) = node_of(&change.node).map(|node| &mut world.nodes[node]) else { return ChangeOutcome::Gone };
    if node.version != change.version {
        return ChangeOutcome::OutOfDate;
    }
    node.version = version;
    node.drained = change.labels.values().any(Option::is_some);
    ChangeOutcome::Done
}

/// Returns the event of a request that was not sent in time.
fn late(request: Request) -> Option<Event> {
    let why = || "no reply in time".to_owned();
    Some(match request {
        Request::Effect(Effect::Look { look }) => Event::Looked { look, swarm: Err(why()) },
        Request::Effect(Effect::Change(ServiceChange { service, version, .. })) => {
            Event::Changed { service, version, outcome: ChangeOutcome::Unknown(why()) }
        }
        Request::Effect(Effect::ChangeNode(NodeChange { node, version, .. })) => {
            Event::NodeChanged { node, version, outcome: ChangeOutcome::Unknown(why()) }
        }
        Request::Effect(Effect::Poll { node, leases, asked, .. }) => {
            Event::Polled { node, leases, asked, report: Err(why()) }
        }
        Request::Effect(Effect::Attest(question)) => Event::Attested(question, Attestation::Unknown(why())),
        Request::Effect(Effect::Claim { claim, version }) => {
            Event::Claimed { claim, version, outcome: ClaimOutcome::Unknown(why()) }
        }
        Request::Effect(Effect::Carry(Transfer { service, number, .. })) => {
            Event::Carried { service, number, outcome: TransferOutcome::Failed(why()) }
        }
        Request::Effect(_) | Request::Labels(_) => return None,
    })
}

pub(super) fn name(node: usize) -> String {
    node_id(node).to_string()
}
