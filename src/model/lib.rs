//! Plain immutable data shared by all modules: what was observed, what is planned, and why.
//!
//! Nothing here decides or acts. Units are types; a value that exists is valid.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod alert;
mod change;
pub mod cluster;
mod container;
mod end;
mod event;
mod forecast;
mod gpu;
mod gpu_memory;
mod health;
mod history;
mod holdback;
mod job_end;
mod name;
mod observation;
mod place;
mod plan;
mod reason;
mod recording;
mod refusal;
mod settings;
pub mod sharing;
mod status;
pub mod swarm;
pub mod time;
mod training;
mod trial;
mod units;
mod unlimited;
mod word;

pub use alert::{Alert, AlertKind};
pub use change::{LimitChange, LimitKind, Setting};
pub use container::{
    Adoption, Bounds, ContainerId, Directives, EngineLimits, EngineMark, Group, Hold, RunState, Runtime,
};
pub use end::{End, EndEvidence};
pub use event::{Event, EventKind};
pub use forecast::{Accuracy, JudgedForecast, WASTEFUL, WorkForecast};
pub use gpu::{Gpu, GpuInstance, GpuUse};
pub use gpu_memory::{NoRoom, nearly_full, no_room};
pub use health::{Activity, Condition, Evidence, Health, Loaders};
pub use history::{
    BlockRecord, BlockWork, DecisionRecord, HistoryAnswer, HistoryQuery, JobRecord, JobSnapshot, NodeSample, Sample,
    Span, TrialRecord, UserRecord,
};
pub use holdback::HoldbackBlock;
pub use job_end::{ENDS_WITHIN, JobEnd, Restarts};
pub use name::{JobName, job_or_gang, named};
pub use observation::{ContainerObservation, Limits, NOBODY, NodeObservation, Pressure, Usage, UserObservation};
pub use place::{InvalidNumbers, Numbers, Place};
pub use plan::{ContainerPlan, Contention, GpuPlan, GrowthEfficiency, List, NodePlan, TrialStop};
pub use reason::{FIRST_REPORTS, Reason};
pub use recording::{RECORDING_VERSION, RecordedTick, RecordingHeader, RecordingLine};
pub use refusal::Refusal;
pub use settings::{Enforcement, FairBetween, FlowconSettings, GrowthThreshold, Objective, PolicyName, PolicySettings};
pub use status::{
    DriftBy, EndedJob, JobStatus, LimitDrift, LogOrigin, NO_EFFECT_BELOW, NodeStatus, Notice, NoticeLevel, ThreadUse,
};
pub use training::{Parameter, TrainingId};
pub use trial::{GroupStop, Trial, TrialStanding};
pub use units::{ByteSeconds, Bytes, CpuTime, CpuWeight, Quota, Share};
pub use word::word;

// The vocabulary of learning is the reader's.
pub use traininglog::claim::{ClaimOrigin, TotalClaim};
pub use traininglog::pattern::{InvalidPattern, Pattern};
pub use traininglog::{
    Curve, Decline, Direction, Estimate, Evaluation, Gain, Hints, Learning, Millis, Phase, PrintedMean, Progress,
    ProgressUnit, Streak,
};
