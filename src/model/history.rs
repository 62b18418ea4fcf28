//! What was: jobs, samples of theirs, the node and its events, as the history keeps them and gives them out.
//!
//! A sample is kept when it differs from the one before beyond noise; until the next one it stands. Counters (CPU time, progress) are
//! kept as counters, so that sums over any span stay exact however few samples are kept.

use super::{
    Bytes, ContainerId, CpuTime, CpuWeight, Direction, Event, Hold, List, Millis, PolicyName, Pressure, ProgressUnit,
    Reason, RunState, Runtime, Share,
};

/// One run of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// The history's own number, counted up in the order in which jobs were found.
    pub number: u64,
    /// The runtime's identifier; a container that was started again has several jobs.
    pub id: ContainerId,
    /// As its user knew it.
    pub name: String,
    /// What ran it.
    pub runtime: Runtime,
    /// When it started, Unix time in milliseconds.
    pub started_unix_ms: u64,
    /// When the first sample was kept.
    pub first_unix_ms: u64,
    /// When the last sample was kept.
    pub last_unix_ms: u64,
    /// When it ended; `None` = it runs, or nobody saw it end yet.
    pub ended_unix_ms: Option<u64>,
    /// The exit code that its runtime told; `None` = it runs, or nobody told.
    pub exit_code: Option<i32>,
    /// Its CPU weight before the first change.
    pub original_weight: Option<CpuWeight>,
    /// The evaluation function's name.
    pub metric: Option<String>,
    /// Which way it improves.
    pub direction: Option<Direction>,
    /// What its progress counts.
    pub unit: Option<ProgressUnit>,
    /// How many units it is to do.
    pub total: Option<f64>,
}

/// What stood for one job from one instant on.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// [`JobRecord::number`].
    pub job: u64,
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// CPU time used since its start.
    pub cpu: Option<CpuTime>,
    /// Memory charged.
    pub memory: Option<Bytes>,
    /// GPU time had, as a number of whole GPUs: 1.5 = one and a half.
    pub gpus: Option<f64>,
    /// GPU memory held, on all its GPUs.
    pub gpu_memory: Option<Bytes>,
    /// The latest evaluation, six digits; may be NaN or infinite.
    pub value: Option<f64>,
    /// Progress units done.
    pub progress: Option<f64>,
    /// Part of the final improvement had, from the fitted curve, 0 ..= 1.
    pub quality: Option<f64>,
    /// The CPU weight that stood.
    pub weight: Option<CpuWeight>,
    /// Whether its processes could run.
    pub state: RunState,
    /// Why its limits were left alone, if they were.
    pub hold: Option<Hold>,
    /// The decision in force, once there was one.
    pub decision: Option<DecisionRecord>,
    /// Kept for ever: the decision, the hold or the state changed here, or it is the first or the last one.
    pub is_turn: bool,
}

/// A decision that was in force.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRecord {
    /// The list, under a policy with lists.
    pub list: Option<List>,
    /// Growth efficiency per node-CPU-second.
    pub growth: Option<f64>,
    /// The limit L in the policy's own terms: 1 = free competition.
    pub limit: Share,
    /// The part of the node that it got when every container wanted more.
    pub share: Share,
    /// Why.
    pub reason: Reason,
}

/// The node from one instant on.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSample {
    /// When, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Cores that might be used.
    pub cores: f64,
    /// The interval between decisions.
    pub interval: Millis,
    /// Whether an operator had paused everything.
    pub paused: bool,
    /// Node-wide pressure.
    pub pressure: Pressure,
    /// The policy in force.
    pub policy: PolicyName,
    /// λ of the default policy.
    pub objective: f64,
    /// α of the paper's policy, per node-CPU-second.
    pub growth_threshold: f64,
}

/// A block of time with a holdback, and what the jobs got in it from its wash-out to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRecord {
    /// When it began, Unix time in milliseconds.
    pub from_unix_ms: u64,
    /// When it ended.
    pub until_unix_ms: u64,
    /// Whether every job had its original limits.
    pub plain: bool,
    /// How long it was looked at, from the wash-out on.
    pub span: Millis,
    /// What each job got that nobody held.
    pub work: Vec<BlockWork>,
}

/// What one job got in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockWork {
    /// [`JobRecord::number`].
    pub job: u64,
    /// The CPU time that it used while the block was looked at.
    pub cpu: CpuTime,
}

/// A span of time, Unix milliseconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From here.
    pub since: u64,
    /// To here.
    pub until: u64,
}

/// What may be asked of the history. Answers are pages: each has so many rows at most and says where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryQuery {
    /// Jobs that lived within a span, with their last sample, in the order of their numbers.
    Jobs {
        /// When.
        span: Span,
        /// Name, id, or the beginning of an id; `None` = all.
        job: Option<String>,
        /// Only numbers above this.
        after: u64,
        /// Rows at most.
        limit: usize,
    },
    /// Samples within a span, and the last one before it, job by job.
    Samples {
        /// When.
        span: Span,
        /// Name, id, or the beginning of an id: the newest that fits; `None` = all.
        job: Option<String>,
        /// One sample for each so long a time is enough.
        every: Option<Millis>,
        /// Only what comes after this job's sample of this time.
        after: Option<(u64, u64)>,
        /// Rows at most.
        limit: usize,
    },
    /// The node within a span, and the last reading before it.
    Node {
        /// When.
        span: Span,
        /// Rows at most: what is more is thinned evenly.
        limit: usize,
    },
    /// Blocks of time that lie within a span, with a holdback.
    Blocks {
        /// When.
        span: Span,
        /// Only what began after this, Unix milliseconds.
        after: u64,
        /// Blocks at most.
        limit: usize,
    },
    /// What happened within a span.
    Events {
        /// When.
        span: Span,
        /// The container's name, id or the beginning of its id; `None` = all.
        job: Option<String>,
        /// Only sequences above this.
        after: u64,
        /// Rows at most.
        limit: usize,
    },
    /// What stood for a job at one instant.
    At {
        /// Name, id, or the beginning of an id: the newest that had started by then.
        job: String,
        /// When.
        unix_ms: u64,
    },
}

/// The answer to a [`HistoryQuery`].
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryAnswer {
    /// To [`HistoryQuery::Jobs`]; whether there are more.
    Jobs(Vec<(JobRecord, Option<Sample>)>, bool),
    /// To [`HistoryQuery::Samples`]; whether there are more.
    Samples(Vec<Sample>, bool),
    /// To [`HistoryQuery::Node`].
    Node(Vec<NodeSample>),
    /// To [`HistoryQuery::Blocks`]; whether there are more.
    Blocks(Vec<BlockRecord>, bool),
    /// To [`HistoryQuery::Events`]; whether there are more. Their sequences count since the history began.
    Events(Vec<Event>, bool),
    /// To [`HistoryQuery::At`].
    At(Box<JobSnapshot>),
}

/// What stood for a job at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSnapshot {
    /// Whose.
    pub job: JobRecord,
    /// What stood then: kept at that instant or before it.
    pub sample: Sample,
    /// The sample kept before that.
    pub earlier: Option<Sample>,
    /// The sample that took its place.
    pub later: Option<Sample>,
    /// The node then.
    pub node: Option<NodeSample>,
}
