//! State of the machine, and what all its parts do with it. All of it may be lost: durable state is in the services' labels.

use super::event::{At, Command, CommandId, CoordinatorSettings, Effect, LOOKS_VALID};
use super::job::{Job, Rejection};
use super::known_work::EndedTrainings;
use super::record::JobPhase;
use super::rented_node::Rental;
use model::Millis;
use model::cluster::{Choice, NodeState, Resources, Why, WhyKind};
use model::swarm::{
    Availability, HeldLease, NodeId, NodeReport, ServiceId, SwarmNode, SwarmService, SwarmTask, WorkerReport,
};
use policy::cluster::Monitor;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The coordinator of one cluster.
#[derive(Debug)]
pub struct Machine {
    pub(super) settings: CoordinatorSettings,
    /// State of the Swarm at the last successful look.
    pub(super) swarm: Option<SwarmState>,
    /// Error of the last look.
    pub(super) look_error: Option<String>,
    pub(super) nodes: BTreeMap<NodeId, SeenNode>,
    /// The services with the label `flowcon.queue`.
    pub(super) seen: BTreeMap<ServiceId, Seen>,
    /// Services that write to the same volume, by its name.
    pub(super) shared_volumes: BTreeMap<Arc<str>, Vec<ServiceId>>,
    pub(super) looks: Looks,
    pub(super) command_queue: Vec<QueuedCommand>,
    pub(super) node_command_queue: Vec<QueuedNodeCommand>,
    /// When a service was last changed.
    pub(super) quiet_since: Millis,
    /// CPU-seconds of completed trainings.
    pub(super) usual_work: Mean,
    pub(super) ended_trainings: EndedTrainings,
    /// Seconds without progress per move.
    pub(super) move_s: Mean,
    pub(super) categorised: Millis,
    /// Whether the state has changed since the last plan. Without changes, plans are made every `plan_every`.
    pub(super) has_news: bool,
    pub(super) planned: Millis,
    pub(super) effects: Vec<Effect>,
}

/// State of the Swarm as a whole.
#[derive(Clone, Debug)]
pub(super) struct SwarmState {
    pub is_leader: bool,
    /// Time of the look.
    pub at: Millis,
    /// Since when this manager has been the leader without interruption.
    pub acts_since: Millis,
}

/// Schedule of looks; a look reads the Swarm's nodes, services and tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    /// Number of the last requested look.
    pub last: u64,
    /// Deadline of the look in flight.
    pub until: Option<Millis>,
    /// When the next look is due.
    pub due: Millis,
}

/// A node at the last look.
#[derive(Clone, Debug)]
pub(super) struct SeenNode {
    pub node: SwarmNode,
    /// Last report of its agent, and when it arrived.
    pub report: Option<(Millis, NodeReport)>,
    /// Cores in use by the latest reports.
    pub used_cores: VecDeque<f64>,
    /// Error of the last poll of its agent.
    pub poll_error: Option<String>,
    /// When its agent is polled next.
    pub poll_due: Millis,
    pub leases: NodeLeases,
    pub rental: Rental,
}

/// Leases of one node's agent.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeLeases {
    /// When the last report was requested.
    pub asked: Option<Millis>,
    /// Leases that the agent held then.
    pub held: Vec<HeldLease>,
    /// Tasks that the agent had stopped until then because their lease had expired.
    pub stopped: BTreeSet<Arc<str>>,
    /// Services whose leases the last poll was to renew.
    pub renewing: BTreeSet<ServiceId>,
    /// Services without the label `flowcon.queue` whose leases were released. If one gets the label again, its internal labels do not prove
    /// that it has a lease.
    pub released: BTreeSet<ServiceId>,
}

impl SeenNode {
    /// Returns the resources for jobs: the cores that its `flowcond` manages, less what services that are not jobs reserve.
    pub(super) fn capacity(&self) -> Resources {
        let managed = self.report.as_ref().and_then(|(_, report)| report.cores).unwrap_or(f64::INFINITY);
        Resources { cores: self.node.capacity.cores.min(managed), ..self.node.capacity }.without(self.node.reserved)
    }
}

/// A service at the last look.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Includes the change in flight.
    pub service: SwarmService,
    pub tasks: Vec<SwarmTask>,
    pub job: Result<Arc<Job>, Rejection>,
    pub memory: Memory,
}

/// Volatile state of a service.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// A change in flight, or not confirmed by a look yet.
    pub pending: Option<Pending>,
    pub proof: Option<Proof>,
    /// Phase, home, and since when the service has been in this phase at this home.
    pub since: Option<(JobPhase, Option<NodeId>, Millis)>,
    /// Since when its task has been running.
    pub runs_since: Option<Millis>,
    /// Since when Swarm has not run it although it should.
    pub down_since: Option<Millis>,
    pub carrying: Option<Carrying>,
    pub why: Option<Why>,
    pub monitor: Option<Monitor>,
    /// Last report on it. Kept while it moves: otherwise moving would seem to pay for all other jobs.
    pub last_report: Option<WorkerReport>,
    /// When this machine fenced it for a move.
    pub fenced: Option<Millis>,
    pub last_move_s: Option<f64>,
    /// Expected end of its job.
    pub expected_end: Option<Millis>,
    /// What the last plan compared for it.
    pub compared: Option<Choice>,
    /// Whether it waits for the plan alone.
    pub is_startable: bool,
    /// The node whose agent has renewed its lease.
    pub renewed: Option<NodeId>,
    pub claim: Option<ClaimState>,
    /// A task that has ended, perhaps because its agent stopped it, and when that was first seen.
    pub ended: Option<(Arc<str>, Millis)>,
}

/// Claim of a checkpoint volume on a node, for one version of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimState {
    pub volume: Arc<str>,
    pub node: NodeId,
    pub version: u64,
    /// Earliest time of the next request.
    pub next: Millis,
    pub is_granted: bool,
    /// Why it was refused.
    pub refused: Option<String>,
    /// Why there was no answer.
    pub detail: Option<String>,
    /// A removed job without saved state that may be replaced as the owner.
    pub replaces: Option<ServiceId>,
}

impl ClaimState {
    pub(super) fn new(volume: Arc<str>, node: NodeId, version: u64, next: Millis) -> ClaimState {
        ClaimState { volume, node, version, next, is_granted: false, refused: None, detail: None, replaces: None }
    }
}

/// Proof that one version of a fenced service is gone.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub version: u64,
    /// When this machine first saw the fenced version.
    pub since: Millis,
    /// When a look first showed no tasks of it.
    pub tasks_removed: Option<Millis>,
    pub nodes: BTreeMap<NodeId, NodeProof>,
}

/// Attestations of one node for a proof.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeProof {
    /// Time of the latest question to which the reply was that no container is left.
    pub gone: Option<Millis>,
    /// The same, for questions that also compared the saved state with what was transferred.
    pub compared: Option<Millis>,
    /// Whether a container lived there, or the saved state changed, since this version was seen.
    pub is_stale: bool,
    /// Why the node has not attested yet.
    pub detail: Option<String>,
    /// Earliest time of the next question.
    pub next: Millis,
}

/// A change of a service in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The service version of the decision.
    pub version: u64,
    /// Deadline of the reply.
    pub until: Millis,
    /// The command that caused it.
    pub command_id: Option<CommandId>,
    /// Number of the last look before the reply: later looks show the outcome.
    pub answered: Option<u64>,
}

/// A transfer of saved state.
#[derive(Clone, Debug)]
pub(super) struct Carrying {
    pub number: u64,
    pub failures: u32,
    /// Deadline of the transfer in flight, or earliest time of the next attempt.
    pub next: Millis,
    pub is_under_way: bool,
    /// When it completed, or why it is impossible.
    pub came: Option<Result<Millis, String>>,
    /// Error of the last attempt.
    pub error: Option<String>,
}

/// A command about jobs without a reply yet.
#[derive(Clone, Debug)]
pub(super) struct QueuedCommand {
    pub command_id: CommandId,
    pub command: Command,
    pub remaining: BTreeSet<ServiceId>,
    pub results: Vec<(CommandOutcome, String)>,
    pub until: Millis,
}

/// Outcome of a command for one of its services. The reply lists them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CommandOutcome {
    /// The service was changed.
    Changed,
    /// There was nothing to change.
    Unchanged,
    /// The job has ended, so the command does not apply to it.
    Ended,
    Refused,
}

/// A command about a node without a reply yet.
#[derive(Clone, Debug)]
pub(super) struct QueuedNodeCommand {
    pub command_id: CommandId,
    pub node: NodeId,
    pub drains: bool,
    pub until: Millis,
    /// The node version whose change is in flight.
    pub asked: Option<u64>,
}

/// A running mean with exponential decay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    pub(super) fn add(&mut self, value: f64) {
        if value.is_finite() && value >= 0.0 {
            // About the latest 32 values count.
            let keep = if self.count >= 32.0 { 31.0 / 32.0 } else { 1.0 };
            (self.sum, self.count) = (self.sum * keep + value, self.count * keep + 1.0);
        }
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Machine {
    /// Creates a machine without any state: the first [`Event::Tick`](super::Event::Tick) requests a look.
    pub fn new(settings: CoordinatorSettings) -> Machine {
        Machine {
            settings,
            swarm: None,
            look_error: None,
            nodes: BTreeMap::new(),
            seen: BTreeMap::new(),
            shared_volumes: BTreeMap::new(),
            looks: Looks::default(),
            command_queue: Vec::new(),
            node_command_queue: Vec::new(),
            quiet_since: Millis(0),
            usual_work: Mean::default(),
            ended_trainings: EndedTrainings::default(),
            move_s: Mean::default(),
            categorised: Millis(0),
            has_news: true,
            planned: Millis(0),
            effects: Vec::new(),
        }
    }

    /// Whether this machine is active: its node was Swarm's leader at a recent look.
    pub(super) fn acts(&self, at: At) -> bool {
        let fresh = Millis(self.settings.look_every.0 * LOOKS_VALID).after(self.settings.request_within);
        self.swarm.as_ref().is_some_and(|swarm| swarm.is_leader && at.now.since(swarm.at) <= fresh)
    }

    /// Returns the host name of a node, or its id if the node is unknown.
    pub(super) fn name_of(&self, node: &NodeId) -> Arc<str> {
        self.nodes.get(node).map_or_else(|| node.0.clone(), |seen| seen.node.hostname.clone())
    }

    /// Returns the state of a node, and the reason if it may not get jobs.
    pub(super) fn state_of(&self, node: &SeenNode) -> (NodeState, Option<String>) {
        let name = &node.node.hostname;
        if let Some(why) = node.rental.why_closed(&node.node) {
            return (NodeState::Closed, Some(why));
        }
        if !node.node.is_up {
            return (NodeState::Unreachable, Some(format!("Swarm reports it as down; check Docker on node {name}")));
        }
        let Some((_, report)) = &node.report else {
            let error = node.poll_error.as_deref().unwrap_or("not polled yet");
            return (
                NodeState::Unreachable,
                Some(format!("its agent does not respond ({error}); run `systemctl status flowcoord-agent` on {name}")),
            );
        };
        if node.node.labels.contains_key(super::labels::DRAIN) {
            let why = format!("it is draining; run `flowctl cluster undrain {name}` to use it for jobs again");
            return (NodeState::Draining, Some(why));
        }
        match node.node.availability {
            Availability::Active => {}
            Availability::Pause => {
                let why = format!("its availability is pause; run `docker node update --availability active {name}`");
                return (NodeState::Ungoverned, Some(why));
            }
            Availability::Drain => {
                let why = format!(
                    "its availability is drain, with which Swarm stops jobs without saving their state; run `docker node update --availability active {name}`, then `flowctl cluster drain {name}`"
                );
                return (NodeState::Ungoverned, Some(why));
            }
        }
        if !report.is_governed {
            let why = format!("its flowcond does not respond; run `systemctl status flowcond` on {name}");
            return (NodeState::Ungoverned, Some(why));
        }
        (NodeState::Ready, None)
    }

    pub(super) fn state_at(&self, node: &NodeId) -> NodeState {
        self.nodes.get(node).map_or(NodeState::Unreachable, |node| self.state_of(node).0)
    }

    /// Whether the first report of the node's agent may still arrive: a coordinator that has just started has none.
    pub(super) fn awaits_first_report(&self, node: &NodeId, at: At) -> bool {
        let began = self.swarm.as_ref().map_or(at.now, |swarm| swarm.acts_since);
        let is_silent = self.nodes.get(node).is_some_and(|seen| seen.report.is_none());
        is_silent && at.now.since(began) < self.settings.heard_within
    }

    /// Whether a job may return to this node.
    pub(super) fn may_keep(&self, node: &NodeId) -> bool {
        let is_active = self.nodes.get(node).is_some_and(|seen| seen.node.availability == Availability::Active);
        is_active && self.state_at(node) != NodeState::Unreachable
    }

    pub(super) fn set_why(&mut self, id: &ServiceId, kind: WhyKind, text: impl Into<String>) {
        let why = Why { kind, text: text.into() };
        if let Some(seen) = self.seen.get_mut(id).filter(|seen| seen.memory.why.as_ref() != Some(&why)) {
            seen.memory.why = Some(why);
            self.has_news = true;
        }
    }

    pub(super) fn emit(&mut self, service: Option<&ServiceId>, text: String) {
        let job = service.and_then(|id| self.seen.get(id)).map(|seen| seen.service.name.clone());
        self.effects.push(Effect::Emit { job, text });
    }

    /// Returns the number of changes in flight.
    pub(super) fn in_flight(&self) -> usize {
        let is_open = |seen: &&Seen| seen.memory.pending.is_some_and(|pending| pending.answered.is_none());
        self.seen.values().filter(is_open).count()
    }
}
