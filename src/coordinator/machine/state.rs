//! What the machine knows, and what all its parts do with it. All of it can be lost: what lasts is in the services' labels.
//!
//! Imports: event, job, record, rental, model, policy.

use super::event::{Asker, At, Command, CoordinatorSettings, Effect};
use super::job::{Job, Unfit};
use super::record::JobPhase;
use super::rental::Rental;
use crate::model::Millis;
use crate::model::cluster::{ClusterReason, NodeState, Resources, Why, WhyKind};
use crate::model::swarm::{
    Availability, NodeId, NodeReport, ServiceId, SwarmNode, SwarmService, SwarmTask, WorkerReport,
};
use crate::policy::cluster::Monitor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The coordinator of one cluster.
#[derive(Debug)]
pub struct Machine {
    pub(super) settings: CoordinatorSettings,
    /// What the last look said of the Swarm as a whole.
    pub(super) swarm: Option<Whole>,
    /// Why the last look failed.
    pub(super) blind: Option<String>,
    pub(super) nodes: BTreeMap<NodeId, SeenNode>,
    /// The services that want to be jobs.
    pub(super) seen: BTreeMap<ServiceId, Seen>,
    pub(super) looks: Looks,
    pub(super) asks: Vec<Ask>,
    pub(super) node_asks: Vec<NodeAsk>,
    /// Since when nothing was started, stopped or moved.
    pub(super) quiet_since: Millis,
    /// CPU-seconds of the trainings that ended: their mean and number.
    pub(super) usual_work: Mean,
    /// Seconds without progress that moves cost.
    pub(super) move_s: Mean,
    pub(super) categorised: Millis,
    /// Something changed that the next plan and the status should know of; without any they are made anew now and then.
    pub(super) has_news: bool,
    pub(super) planned: Millis,
    pub(super) effects: Vec<Effect>,
}

/// The Swarm as a whole.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub is_leader: bool,
    /// When it was looked at.
    pub at: Millis,
    /// Since when this machine acts without a break.
    pub acts_since: Millis,
}

/// Looks at the Swarm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    /// Number of the last one that was asked for.
    pub last: u64,
    /// One is under way until then.
    pub until: Option<Millis>,
    /// The next one is due then.
    pub due: Millis,
}

/// A node as it was seen.
#[derive(Clone, Debug)]
pub(super) struct SeenNode {
    pub node: SwarmNode,
    /// What its agent told last, and when.
    pub report: Option<(Millis, NodeReport)>,
    /// Why its agent tells nothing.
    pub silence: Option<String>,
    /// Its agent is asked again then.
    pub poll_due: Millis,
    pub rental: Rental,
}

impl SeenNode {
    /// What jobs can have of it: of the machine's cores those that its `flowcond` may plan with, less what services that are no jobs reserve.
    pub(super) fn capacity(&self) -> Resources {
        let told = self.report.as_ref().and_then(|(_, report)| report.cores).unwrap_or(f64::INFINITY);
        Resources { cores: self.node.capacity.cores.min(told), ..self.node.capacity }.without(self.node.reserved)
    }
}

/// A service as it was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// With the changes that are under way.
    pub service: SwarmService,
    pub tasks: Vec<SwarmTask>,
    pub job: Result<Arc<Job>, Unfit>,
    pub memory: Memory,
}

/// What is remembered of a service; nothing of it lasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// A change that is under way, or not seen yet.
    pub pending: Option<Pending>,
    pub proof: Option<Proof>,
    /// Since when it is in this phase at this home.
    pub since: Option<(JobPhase, Option<NodeId>, Millis)>,
    /// Since when its task runs.
    pub runs_since: Option<Millis>,
    pub carrying: Option<Carrying>,
    pub why: Option<Why>,
    pub reason: Option<ClusterReason>,
    pub monitor: Option<Monitor>,
    /// What was told of it last, also while it moves: without it, all others would seem to gain by moving.
    pub told: Option<WorkerReport>,
    /// When it was fenced for a move by this machine.
    pub fenced: Option<Millis>,
    pub last_move_s: Option<f64>,
    /// When its job is expected to end.
    pub expected_end: Option<Millis>,
    /// It waits, and nothing but the plan keeps it from starting.
    pub is_startable: bool,
    /// The node whose agent has renewed its lease.
    pub renewed: Option<NodeId>,
}

/// What is known for one version of a fenced service.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub version: u64,
    /// When this machine first saw it fenced so.
    pub since: Millis,
    /// When it saw that Swarm has let go of all its tasks.
    pub let_go: Option<Millis>,
    pub nodes: BTreeMap<NodeId, Asked>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// Nothing of it lived there when this was asked.
    pub gone: Option<Millis>,
    /// The same, and its saved state was compared with what was carried.
    pub compared: Option<Millis>,
    /// Something of it lived there, or changed its saved state, since this version was seen.
    pub is_stale: bool,
    pub said: Option<String>,
    /// Not to be asked again before.
    pub next: Millis,
}

/// A change of a service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The version that was decided on.
    pub version: u64,
    /// No answer comes after that.
    pub until: Millis,
    /// Who asked for it.
    pub asker: Option<Asker>,
    /// It was answered: looks after this one show what came of it.
    pub answered: Option<u64>,
}

/// A carriage under way.
#[derive(Clone, Debug)]
pub(super) struct Carrying {
    pub number: u64,
    pub failures: u32,
    /// Under way, or not to be tried again before.
    pub next: Millis,
    pub is_under_way: bool,
    /// When it came, or why it cannot.
    pub came: Option<Result<Millis, String>>,
    pub said: Option<String>,
}

/// A command about jobs that is not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub asker: Asker,
    pub command: Command,
    pub left: BTreeSet<ServiceId>,
    pub did: Vec<String>,
    pub until: Millis,
}

/// A command about a node that is not answered yet.
#[derive(Clone, Debug)]
pub(super) struct NodeAsk {
    pub asker: Asker,
    pub node: NodeId,
    pub drains: bool,
    pub until: Millis,
    /// The version whose change is under way.
    pub asked: Option<u64>,
}

/// A mean that grows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    pub(super) fn add(&mut self, value: f64) {
        if value.is_finite() && value >= 0.0 {
            // The latest dozens count.
            let keep = if self.count >= 32.0 { 31.0 / 32.0 } else { 1.0 };
            (self.sum, self.count) = (self.sum * keep + value, self.count * keep + 1.0);
        }
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Machine {
    /// Knows nothing yet: the first [`Event::Passed`](super::Event::Passed) makes it look.
    pub fn new(settings: CoordinatorSettings) -> Machine {
        Machine {
            settings,
            swarm: None,
            blind: None,
            nodes: BTreeMap::new(),
            seen: BTreeMap::new(),
            looks: Looks::default(),
            asks: Vec::new(),
            node_asks: Vec::new(),
            quiet_since: Millis(0),
            usual_work: Mean::default(),
            move_s: Mean::default(),
            categorised: Millis(0),
            has_news: true,
            planned: Millis(0),
            effects: Vec::new(),
        }
    }

    /// Whether this machine acts: its node was Swarm's leader a moment ago.
    pub(super) fn acts(&self, at: At) -> bool {
        let fresh = Millis(self.settings.look_every.0 * 3).after(self.settings.request_within);
        self.swarm.as_ref().is_some_and(|swarm| swarm.is_leader && at.now.since(swarm.at) <= fresh)
    }

    /// A node's name for people.
    pub(super) fn name_of(&self, node: &NodeId) -> Arc<str> {
        self.nodes.get(node).map_or_else(|| node.0.clone(), |seen| seen.node.hostname.clone())
    }

    /// Whether a node may get jobs, and why not.
    pub(super) fn state_of(&self, node: &SeenNode) -> (NodeState, Option<String>) {
        let name = &node.node.hostname;
        if let Some(why) = node.rental.why_closed(&node.node) {
            return (NodeState::Closed, Some(why));
        }
        if !node.node.is_up {
            return (
                NodeState::Unreachable,
                Some(format!("its engine does not answer Swarm's managers; look at node {name}")),
            );
        }
        let Some((_, report)) = &node.report else {
            let said = node.silence.as_deref().unwrap_or("it was not asked yet");
            return (
                NodeState::Unreachable,
                Some(format!("its agent does not answer ({said}); run `systemctl status flowcoord-agent` on {name}")),
            );
        };
        if node.node.labels.contains_key(super::labels::DRAIN) {
            let why = format!("it is being emptied; `flowctl cluster undrain {name}` gives it jobs again");
            return (NodeState::Draining, Some(why));
        }
        match node.node.availability {
            Availability::Active => {}
            Availability::Pause => {
                let why = format!("its availability is pause: `docker node update --availability active {name}`");
                return (NodeState::Ungoverned, Some(why));
            }
            Availability::Drain => {
                let why = format!(
                    "its availability is drain, with which Swarm stops jobs without their state: `docker node update --availability active {name}`, then `flowctl cluster drain {name}`"
                );
                return (NodeState::Ungoverned, Some(why));
            }
        }
        if !report.is_governed {
            let why = format!("flowcond does not answer there; run `systemctl status flowcond` on {name}");
            return (NodeState::Ungoverned, Some(why));
        }
        (NodeState::Ready, None)
    }

    pub(super) fn state_at(&self, node: &NodeId) -> NodeState {
        self.nodes.get(node).map_or(NodeState::Unreachable, |node| self.state_of(node).0)
    }

    /// Whether its agent may still be heard for the first time: a coordinator that has just begun knows no node yet.
    pub(super) fn is_unheard(&self, node: &NodeId, at: At) -> bool {
        let began = self.swarm.as_ref().map_or(at.now, |swarm| swarm.acts_since);
        let is_silent = self.nodes.get(node).is_some_and(|seen| seen.report.is_none());
        is_silent && at.now.since(began) < self.settings.heard_within
    }

    /// Whether a job that comes back may start there: it was there before.
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
        self.effects.push(Effect::Emit { service: service.cloned(), text });
    }

    /// Changes under way.
    pub(super) fn in_flight(&self) -> usize {
        let is_open = |seen: &&Seen| seen.memory.pending.is_some_and(|pending| pending.answered.is_none());
        self.seen.values().filter(is_open).count()
    }
}
