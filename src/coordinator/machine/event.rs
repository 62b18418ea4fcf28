//! Events and effects of the machine, and its settings.

use super::alternatives::RunTimes;
pub use model::cluster::ClusterCommand as Command;
use model::cluster::{ClusterSettings, ClusterStatus};
use model::swarm::{
    Attestation, ChangeOutcome, Claim, ClaimOutcome, HeldLease, NodeChange, NodeId, NodeReport, ServiceChange,
    ServiceId, Swarm, Transfer, TransferOutcome,
};
use model::{Millis, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A machine acts for this many intervals between looks, and the time limit of a request, after its last successful look.
pub const LOOKS_VALID: u64 = 3;

/// Time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Monotonic clock that counts suspended time (CLOCK_BOOTTIME).
    pub now: Millis,
    /// Wall clock since 1970, which may jump.
    pub unix: Millis,
}

/// Number of a command, chosen by the runner to route the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// Question to an agent: whether any container of a service lives on its node, and whether the state transferred from there is still the
/// newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The service.
    pub service: ServiceId,
    /// The node.
    pub node: NodeId,
    /// The version of the service that the question is about.
    pub version: u64,
    /// Time of the question on the machine's clock: the reply describes a later instant.
    pub asked: Millis,
    /// Number of the transfer from there.
    pub carried: Option<u64>,
}

/// Input of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Result of [`Effect::Look`].
    Looked {
        /// Number of the look.
        look: u64,
        /// Nodes, services and tasks, or the error.
        swarm: Result<Swarm, String>,
    },
    /// Result of [`Effect::Poll`].
    Polled {
        /// The node of the agent.
        node: NodeId,
        /// The services whose leases were to be renewed.
        leases: Vec<ServiceId>,
        /// Time of the request on the machine's clock: the report describes a later instant.
        asked: Millis,
        /// The report, or the error.
        report: Result<NodeReport, String>,
    },
    /// Result of [`Effect::Change`].
    Changed {
        /// The service.
        service: ServiceId,
        /// The service version of the decision.
        version: u64,
        /// The outcome.
        outcome: ChangeOutcome,
    },
    /// Result of [`Effect::ChangeNode`].
    NodeChanged {
        /// The node.
        node: NodeId,
        /// The node version of the decision.
        version: u64,
        /// The outcome.
        outcome: ChangeOutcome,
    },
    /// Result of [`Effect::Attest`]; [`Attestation::Unknown`] without a reply.
    Attested(Question, Attestation),
    /// Result of [`Effect::Claim`]; [`ClaimOutcome::Unknown`] without a reply.
    Claimed {
        /// The claim.
        claim: Claim,
        /// The service version of the decision.
        version: u64,
        /// The outcome.
        outcome: ClaimOutcome,
    },
    /// Result of [`Effect::RunHook`].
    HookEnded {
        /// The node.
        node: NodeId,
        /// Success, or the error.
        outcome: Result<(), String>,
    },
    /// Result of [`Effect::Carry`].
    Carried {
        /// The service.
        service: ServiceId,
        /// Number of the transfer.
        number: u64,
        /// The outcome.
        outcome: TransferOutcome,
    },
    /// A command of an operator.
    Command(Command, CommandId),
    /// Time has passed; sent several times per second.
    Tick,
    /// New settings.
    Reconfigured(Box<CoordinatorSettings>),
}

/// Output of the machine, executed by the runner. Each request ends in one event, also without a reply within
/// [`CoordinatorSettings::request_within`] ([`CoordinatorSettings::carry_within`] for a transfer). A request that was not sent by then must
/// not be sent later.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read nodes, services and tasks of the Swarm. Ends in [`Event::Looked`].
    Look {
        /// Number of the look.
        look: u64,
    },
    /// Request a report from a node's agent, and renew and release leases there. Ends in [`Event::Polled`].
    Poll {
        /// The node.
        node: NodeId,
        /// Services whose leases are renewed. The agent stops a service whose lease expires.
        leases: Vec<ServiceId>,
        /// How long each of them may take to save and stop once its lease has expired; [`SWARMS_GRACE`](model::swarm::SWARMS_GRACE) if it is
        /// not listed.
        graces: BTreeMap<ServiceId, Millis>,
        /// Duration of the leases.
        lease: Millis,
        /// Leases that are removed there without stopping their jobs, unless renewed since the last report.
        release: Vec<HeldLease>,
        /// Time of the request on the machine's clock.
        asked: Millis,
    },
    /// Change a service. Ends in [`Event::Changed`].
    Change(ServiceChange),
    /// Run a command for a node. Ends in [`Event::HookEnded`].
    RunHook {
        /// The node.
        node: NodeId,
        /// Program and arguments; the last argument is the node's name.
        command: Vec<String>,
        /// The command is killed after this time.
        within: Millis,
    },
    /// Change a node's labels and availability. Ends in [`Event::NodeChanged`].
    ChangeNode(NodeChange),
    /// QueuedCommand a node's agent whether any container of a service lives there. Ends in [`Event::Attested`].
    Attest(Question),
    /// Have a node's agent record a job as the owner of its checkpoint volume there. Ends in [`Event::Claimed`].
    Claim {
        /// The claim.
        claim: Claim,
        /// The service version of the decision.
        version: u64,
    },
    /// Transfer a volume. Ends in [`Event::Carried`].
    Carry(Transfer),
    /// Reply to a command, exactly once.
    Reply {
        /// The command.
        command_id: CommandId,
        /// Text for the operator: what was done, or why not.
        result: Result<String, Refusal>,
    },
    /// Emit an event to the log and the API.
    Emit {
        /// Name of the job concerned, if any.
        job: Option<Arc<str>>,
        /// Text for the operator.
        text: String,
    },
    /// Publish the events of earlier coordinators, before all others: time since 1970, name of the job, and text; oldest first.
    Recall(Vec<(Millis, Arc<str>, Arc<str>)>),
    /// Publish the current status.
    Publish(Box<ClusterStatus>),
}

/// Settings for opening and closing rented nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct RentSettings {
    /// A node is closed after it was idle for this long.
    pub close_after: Millis,
    /// Program and arguments that open a node; empty = none.
    pub open_command: Vec<String>,
    /// Program and arguments that close a node; empty = none.
    pub close_command: Vec<String>,
    /// Time limit of a command.
    pub command_within: Millis,
}

/// Settings of the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinatorSettings {
    /// Settings of the policy.
    pub cluster: ClusterSettings,
    /// Interval between looks at the Swarm.
    pub look_every: Millis,
    /// Interval between plans while nothing changes.
    pub plan_every: Millis,
    /// Interval between polls of an agent.
    pub poll_every: Millis,
    /// A node without a report for this long is unreachable.
    pub heard_within: Millis,
    /// Time limit of a request to the engine or an agent.
    pub request_within: Millis,
    /// Time limit of a transfer.
    pub carry_within: Millis,
    /// Time for tasks in flight to reach their nodes after a fence, unless Swarm confirms it earlier. No job starts on an earlier proof.
    pub settle: Millis,
    /// Interval between questions for the same proof.
    pub attest_every: Millis,
    /// Time limit for a started job to run, image pull included; after that it has failed to start.
    pub start_within: Millis,
    /// How long to wait for a started job to report progress, if it did before; after that it counts as running.
    pub verify_within: Millis,
    /// How long an agent without contact to a manager lets a job with `flowcon.on-node-loss=restart` run.
    pub lease: Millis,
    /// Safety margin: such a job counts as stopped this long after its lease and stop grace have expired. It covers renewals in flight and the
    /// time that the agent needs to stop the job.
    pub lease_margin: Millis,
    /// Delay before a second attempt; each further attempt doubles it.
    pub retry_after: Millis,
    /// Maximum delay before an attempt.
    pub retry_most: Millis,
    /// Number of consecutive failures to start after which a job waits until an operator resumes it.
    pub tries_most: u32,
    /// Number of consecutive failures after which a transfer is abandoned.
    pub carries_most: u32,
    /// Maximum number of service changes in flight.
    pub changes_most: usize,
    /// Assumed seconds without progress per move, until one was measured.
    pub move_s: f64,
    /// How long kinds of jobs take in their alternatives.
    pub run_times: RunTimes,
    /// Opening and closing of rented nodes; `None` = disabled.
    pub rent: Option<RentSettings>,
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
            move_s: 30.0,
            run_times: RunTimes::default(),
            rent: None,
        }
    }
}
