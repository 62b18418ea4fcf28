//! What the machine is told and what it asks for. Imports: model.

pub use crate::model::cluster::ClusterCommand as Command;
use crate::model::cluster::{ClusterSettings, ClusterStatus};
use crate::model::swarm::{
    Attestation, Carriage, CarriageOutcome, ChangeOutcome, NodeChange, NodeId, NodeReport, ServiceChange, ServiceId,
    Swarm,
};
use crate::model::{Millis, Refusal};

/// The moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// On a clock of this process that only goes forward and counts suspended time (CLOCK_BOOTTIME).
    pub now: Millis,
    /// The wall clock since 1970, which may jump.
    pub unix: Millis,
}

/// Who waits for an answer to a command; the runner knows the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asker(pub u64);

/// Whether anything of a service lives on a node, and whether what was carried from there is still its newest state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which service.
    pub service: ServiceId,
    /// Which node.
    pub node: NodeId,
    /// The version of the service for which it is asked.
    pub version: u64,
    /// When it is asked, on the machine's clock: no answer tells of anything earlier.
    pub asked: Millis,
    /// Number of the carriage from there.
    pub carried: Option<u64>,
}

/// Something happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What [`Effect::Look`] found, or why it found nothing.
    Looked {
        /// Of which look.
        look: u64,
        /// Nodes, services and tasks.
        swarm: Result<Swarm, String>,
    },
    /// What came of [`Effect::Poll`].
    Polled {
        /// Which node's agent.
        node: NodeId,
        /// The services whose leases it renewed, as they were asked for.
        leases: Vec<ServiceId>,
        /// What it told, or why it did not.
        report: Result<NodeReport, String>,
    },
    /// What came of [`Effect::Change`].
    Changed {
        /// Which service.
        service: ServiceId,
        /// The version that was decided on.
        version: u64,
        /// What came of it.
        outcome: ChangeOutcome,
    },
    /// What came of [`Effect::ChangeNode`].
    NodeChanged {
        /// Which node.
        node: NodeId,
        /// The version that was decided on.
        version: u64,
        /// What came of it.
        outcome: ChangeOutcome,
    },
    /// What came of [`Effect::Attest`]. No answer is [`Attestation::Unknown`].
    Attested(Question, Attestation),
    /// What came of [`Effect::RunHook`].
    HookEnded {
        /// For which node.
        node: NodeId,
        /// Why it failed.
        outcome: Result<(), String>,
    },
    /// What came of [`Effect::Carry`].
    Carried {
        /// Which service.
        service: ServiceId,
        /// Number of the carriage.
        number: u64,
        /// What came of it.
        outcome: CarriageOutcome,
    },
    /// An operator wants something.
    Asked(Command, Asker),
    /// Time has passed: told about once a second.
    Passed,
    /// Other settings hold from now on.
    Reconfigured(Box<CoordinatorSettings>),
}

/// What the runner has to do. Each ends in one event, also when there is no answer within [`CoordinatorSettings::request_within`]
/// ([`CoordinatorSettings::carry_within`] for a carriage); a request that was not sent by then must not be sent any more.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read the Swarm again: answered by [`Event::Looked`].
    Look {
        /// Its number.
        look: u64,
    },
    /// Ask a node's agent how it is, and renew the leases of these services there: answered by [`Event::Polled`].
    Poll {
        /// Which node.
        node: NodeId,
        /// The agent stops each of them by itself when it has not heard of it for the time of a lease.
        leases: Vec<ServiceId>,
        /// How long it may hear nothing.
        lease: Millis,
    },
    /// Change a service: answered by [`Event::Changed`].
    Change(ServiceChange),
    /// Run a command for a node, no longer than `within`: answered by [`Event::HookEnded`].
    RunHook {
        /// Which node.
        node: NodeId,
        /// Program and arguments, the last of them the node's name.
        command: Vec<String>,
        /// It is killed after that.
        within: Millis,
    },
    /// Change a node's labels and availability: answered by [`Event::NodeChanged`].
    ChangeNode(NodeChange),
    /// Ask a node's agent whether anything of a service lives there: answered by [`Event::Attested`].
    Attest(Question),
    /// Carry a volume: answered by [`Event::Carried`].
    Carry(Carriage),
    /// Answer a command, once each.
    Answer {
        /// To whom.
        asker: Asker,
        /// What was done, in words.
        done: Result<String, Refusal>,
    },
    /// Tell whoever watches.
    Emit {
        /// About which service.
        service: Option<ServiceId>,
        /// In words.
        text: String,
    },
    /// How everything is now.
    Publish(Box<ClusterStatus>),
}

/// How rented nodes are opened and closed.
#[derive(Clone, Debug, PartialEq)]
pub struct RentSettings {
    /// A node that was idle for so long is closed.
    pub close_after: Millis,
    /// Program and arguments that open a node; empty = none.
    pub open_command: Vec<String>,
    /// Program and arguments that close a node; empty = none.
    pub close_command: Vec<String>,
    /// A command takes no longer.
    pub command_within: Millis,
}

/// Everything that the coordinator may be told.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinatorSettings {
    /// What the policy may be told.
    pub cluster: ClusterSettings,
    /// Between two looks at the Swarm.
    pub look_every: Millis,
    /// Between two plans while nothing changes.
    pub plan_every: Millis,
    /// Between two questions to one agent.
    pub poll_every: Millis,
    /// An agent that has told nothing for so long is unreachable.
    pub heard_within: Millis,
    /// A request to the engine or an agent takes no longer.
    pub request_within: Millis,
    /// A carriage takes no longer.
    pub carry_within: Millis,
    /// What was on its way to a node at a fence has arrived by now, if Swarm does not tell it earlier: nothing starts on an earlier proof.
    pub settle: Millis,
    /// Between two questions for the same proof.
    pub attest_every: Millis,
    /// A job that was started runs within this time, its image pulled, or has failed to start.
    pub start_within: Millis,
    /// A job that told progress before tells it again within this time after it runs; then it is believed to train.
    pub verify_within: Millis,
    /// How long an agent that hears nothing lets a job run with `flowcon.on-node-loss=restart`.
    pub lease: Millis,
    /// Longer than its lease and grace by so much, such a job is believed to run on.
    pub lease_margin: Millis,
    /// Wait before a second try; each further one doubles it.
    pub retry_after: Millis,
    /// The longest wait before a try.
    pub retry_most: Millis,
    /// After so many tries in a row it is not tried again until an operator resumes it.
    pub tries_most: u32,
    /// Carriages that fail so often in a row are given up.
    pub carries_most: u32,
    /// Changes of services under way at once.
    pub changes_most: usize,
    /// A job that was moved stays so long before another move that only gains time.
    pub stays: Millis,
    /// Seconds without progress that a move costs, before one was measured.
    pub move_s: f64,
    /// Rented nodes are opened and closed; `None` = they are left as they are.
    pub rent: Option<RentSettings>,
    /// SpeCon: between two categorisations.
    pub categorise_every: Millis,
    /// SpeCon [α].
    pub categorise_threshold: f64,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        CoordinatorSettings {
            cluster: ClusterSettings::default(),
            look_every: Millis::from_secs(2),
            plan_every: Millis::from_secs(10),
            poll_every: Millis::from_secs(5),
            heard_within: Millis::from_secs(20),
            request_within: Millis::from_secs(15),
            carry_within: Millis::from_secs(3600),
            settle: Millis::from_secs(2),
            attest_every: Millis(250),
            start_within: Millis::from_secs(600),
            verify_within: Millis::from_secs(300),
            lease: Millis::from_secs(60),
            lease_margin: Millis::from_secs(60),
            retry_after: Millis::from_secs(30),
            retry_most: Millis::from_secs(1800),
            tries_most: 6,
            carries_most: 4,
            changes_most: 32,
            stays: Millis::from_secs(600),
            move_s: 30.0,
            rent: None,
            categorise_every: Millis::from_secs(60),
            categorise_threshold: 0.05,
        }
    }
}
