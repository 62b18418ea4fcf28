//! Records of the history: jobs, their samples, the node and its events.
//!
//! A sample is kept if it differs from the one before by more than noise, and it is valid until the next one. CPU time and progress are
//! kept as counters, so that sums over any span stay exact however few samples are kept.

use super::{
    Bytes, ContainerId, CpuTime, CpuWeight, Direction, End, Estimate, Event, EventKind, GrowthEfficiency, Hold, List,
    Millis, Parameter, PolicyName, Pressure, ProgressUnit, Reason, RunState, Runtime, Share,
};

/// One run of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Number of the job in the history, in the order in which jobs were found.
    pub number: u64,
    /// Id given by the runtime; a container that was started more than once has several jobs.
    pub id: ContainerId,
    /// Name of the container.
    pub name: String,
    /// Its runtime.
    pub runtime: Runtime,
    /// Start of the job, Unix time in milliseconds.
    pub started_unix_ms: u64,
    /// Time of the first sample.
    pub first_unix_ms: u64,
    /// Time of the last sample.
    pub last_unix_ms: u64,
    /// Time of the end; `None` = it is running, or its end has not been observed.
    pub ended_unix_ms: Option<u64>,
    /// Exit code reported by the runtime; `None` = it is running, or no code was reported.
    pub exit_code: Option<i32>,
    /// How it ended; `None` = it is running, or its end was recorded by an earlier version.
    pub end: Option<End>,
    /// Its CPU weight before the first change.
    pub original_weight: Option<CpuWeight>,
    /// Name of the evaluation function.
    pub metric: Option<String>,
    /// Direction in which it improves.
    pub direction: Option<Direction>,
    /// The unit of its progress.
    pub unit: Option<ProgressUnit>,
    /// Total number of progress units.
    pub total: Option<f64>,
    /// The user to whom it belongs.
    pub user: Option<String>,
    /// CPU-seconds lost beside other jobs, as [`super::WorkForecast::lost_s`].
    pub lost_s: Option<f64>,
    /// What is known of it as a trial of a sweep.
    pub trial: Option<TrialRecord>,
}

/// A job as a trial of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialRecord {
    /// Identifies the sweep on this node.
    pub group: String,
    /// The name given to the sweep by `flowcon.group`.
    pub group_name: Option<String>,
    /// The numbers in its command, in order.
    pub parameters: Vec<Parameter>,
}

/// What the jobs of one user used in a span.
#[derive(Clone, Debug, PartialEq)]
pub struct UserRecord {
    /// The user; [`super::NOBODY`] for jobs that belong to nobody.
    pub name: String,
    /// Number of jobs that lived in the span.
    pub jobs: usize,
    /// Their CPU time in the span.
    pub cpu: CpuTime,
}

/// The values of one job from one instant on.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// [`JobRecord::number`].
    pub job: u64,
    /// Time of the sample, Unix time in milliseconds.
    pub unix_ms: u64,
    /// CPU time used since its start.
    pub cpu: Option<CpuTime>,
    /// Memory charged.
    pub memory: Option<Bytes>,
    /// GPU time used, as a number of whole GPUs: 1.5 = one and a half.
    pub gpus: Option<f64>,
    /// GPU memory held, on all GPUs of the job.
    pub gpu_memory: Option<Bytes>,
    /// Latest evaluation, to six digits; may be NaN or infinite.
    pub value: Option<f64>,
    /// Progress units done.
    pub progress: Option<f64>,
    /// Fraction of the final improvement reached, from the fitted curve, 0 ..= 1.
    pub quality: Option<f64>,
    /// Seconds to its end, as people were told then.
    pub time_left: Option<Estimate>,
    /// Energy used since its start, in joules; `None` where the machine does not tell it.
    pub energy: Option<f64>,
    /// The CPU weight in force.
    pub weight: Option<CpuWeight>,
    /// Whether the job's processes could run.
    pub state: RunState,
    /// Why its limits were left alone, if they were.
    pub hold: Option<Hold>,
    /// The decision in force, once there was one.
    pub decision: Option<DecisionRecord>,
    /// Kept for ever: the decision, the hold or the state changed here, or it is the first or the last sample.
    pub is_turn: bool,
}

/// A decision that was in force.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRecord {
    /// List of the job, under a policy with lists.
    pub list: Option<List>,
    /// Growth efficiency for each resource.
    pub growth: GrowthEfficiency,
    /// The limit L in the policy's own terms: 1 = free competition.
    pub limit: Share,
    /// The part of the node that it got when every container wanted more.
    pub share: Share,
    /// The reason for the decision.
    pub reason: Reason,
}

/// Readings of the node from one instant on.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSample {
    /// Time of the reading, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Usable cores.
    pub cores: f64,
    /// Interval between decisions.
    pub interval: Millis,
    /// Whether an operator had released everything.
    pub released: bool,
    /// Node-wide pressure.
    pub pressure: Pressure,
    /// The policy in force.
    pub policy: PolicyName,
    /// λ of the default policy.
    pub objective: f64,
    /// α of the paper's policy, per node-CPU-second.
    pub growth_threshold: f64,
}

/// A block of time of the holdback experiment, and the CPU time of each job in it after the wash-out.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRecord {
    /// Start of the block, Unix time in milliseconds.
    pub from_unix_ms: u64,
    /// End of the block, Unix time in milliseconds.
    pub until_unix_ms: u64,
    /// Whether it was a control period: every job had its original limits.
    pub plain: bool,
    /// Time measured: from the wash-out to the end.
    pub span: Millis,
    /// The CPU time of each job that was not on hold.
    pub work: Vec<BlockWork>,
}

/// The CPU time of one job in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockWork {
    /// [`JobRecord::number`].
    pub job: u64,
    /// CPU time used while the block was measured.
    pub cpu: CpuTime,
}

/// A span of time in Unix milliseconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub since: u64,
    /// End.
    pub until: u64,
}

/// A query to the history. Answers are pages: each has at most `limit` rows and says whether there are more.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryQuery {
    /// Jobs that lived within a span, each with its last sample, ordered by number.
    Jobs {
        /// The span.
        span: Span,
        /// Name, id, or prefix of an id; `None` = all jobs.
        job: Option<String>,
        /// Only jobs with a larger number.
        after: u64,
        /// Maximum number of rows.
        limit: usize,
    },
    /// Samples within a span and the last sample before it, job by job.
    Samples {
        /// The span.
        span: Span,
        /// Name, id, or prefix of an id: selects the newest match; `None` = all jobs.
        job: Option<String>,
        /// At most one sample per this time.
        every: Option<Millis>,
        /// Only samples after the sample of this job number and time.
        after: Option<(u64, u64)>,
        /// Maximum number of rows.
        limit: usize,
    },
    /// Readings of the node within a span, and the last reading before it.
    Node {
        /// The span.
        span: Span,
        /// Maximum number of rows; more rows are thinned evenly.
        limit: usize,
    },
    /// Blocks of the holdback experiment that lie within a span.
    Blocks {
        /// The span.
        span: Span,
        /// Only blocks that began after this, Unix time in milliseconds.
        after: u64,
        /// Maximum number of blocks.
        limit: usize,
    },
    /// What each user's jobs used within a span.
    Users {
        /// The span.
        span: Span,
    },
    /// Events within a span.
    Events {
        /// The span.
        span: Span,
        /// Name, id, or prefix of an id of a job; `None` = all events.
        job: Option<String>,
        /// Only events of these kinds; empty = all kinds.
        kinds: Vec<EventKind>,
        /// Only events with a larger sequence number.
        after: u64,
        /// Maximum number of rows.
        limit: usize,
    },
    /// The values of a job at one instant.
    At {
        /// Name, id, or prefix of an id: selects the newest job that had started by then.
        job: String,
        /// The instant, Unix time in milliseconds.
        unix_ms: u64,
    },
}

/// The answer to a [`HistoryQuery`].
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryAnswer {
    /// Answers [`HistoryQuery::Jobs`]; the flag says whether there are more.
    Jobs(Vec<(JobRecord, Option<Sample>)>, bool),
    /// Answers [`HistoryQuery::Samples`]; the flag says whether there are more.
    Samples(Vec<Sample>, bool),
    /// Answers [`HistoryQuery::Node`].
    Node(Vec<NodeSample>),
    /// Answers [`HistoryQuery::Blocks`]; the flag says whether there are more.
    Blocks(Vec<BlockRecord>, bool),
    /// Answers [`HistoryQuery::Users`], ordered by name.
    Users(Vec<UserRecord>),
    /// Answers [`HistoryQuery::Events`]; the flag says whether there are more. Sequence numbers count from the start of the history.
    Events(Vec<Event>, bool),
    /// Answers [`HistoryQuery::At`].
    At(Box<JobSnapshot>),
}

/// The values of a job at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSnapshot {
    /// The job.
    pub job: JobRecord,
    /// The sample in force: the last one kept at or before the instant.
    pub sample: Sample,
    /// The sample before that one.
    pub earlier: Option<Sample>,
    /// The sample after it.
    pub later: Option<Sample>,
    /// The reading of the node in force.
    pub node: Option<NodeSample>,
}
