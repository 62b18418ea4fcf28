//! How a job ended, and how often its engine restarted it.

use model::{ContainerObservation, ENDS_WITHIN, EndedJob, JobEnd, NodeStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a run of a job ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// `done`, `failed`, `killed-for-memory`, `signalled`, `stopped`, `unknown` or `group-stop`.
    pub kind: String,
    /// The end in one or two words: `failed 1`, `killed: memory`.
    pub text: String,
    /// The end in sentences, with the next step.
    pub story: String,
    /// Time of the end, Unix time in milliseconds.
    pub unix_ms: u64,
    /// Time since the end, as of this status.
    pub ago_s: f64,
    /// Exit code, as shells report it; null if unknown.
    pub exit_code: Option<i32>,
    /// Memory limit of its cgroup; null if it had none, or it is unknown.
    pub memory_limit_bytes: Option<u64>,
    /// The most memory that it used, as far as it was observed.
    pub memory_peak_bytes: Option<u64>,
    /// How often the container ended within ten minutes, this end included.
    #[serde(default)]
    pub recent_ends: u32,
}

impl Ended {
    /// Converts the end of a job that does not run.
    pub(super) fn of(ended: &EndedJob, status: &NodeStatus) -> Ended {
        let job = &ended.job.observed;
        Ended { recent_ends: ended.recent_ends, ..Ended::of_run(&ended.end, job, status) }
    }

    fn of_run(end: &JobEnd, job: &ContainerObservation, status: &NodeStatus) -> Ended {
        Ended {
            kind: end.end.kind().to_owned(),
            text: end.end.to_string(),
            story: end.story(&job.name, job.runtime),
            unix_ms: end.unix_ms,
            ago_s: status.unix_ms.saturating_sub(end.unix_ms) as f64 / 1000.0,
            exit_code: end.exit_code,
            memory_limit_bytes: end.memory_limit.map(|bytes| bytes.0),
            memory_peak_bytes: end.memory_peak.map(|bytes| bytes.0),
            recent_ends: 0,
        }
    }

    /// Whether the job did not do what its owner wanted, as far as is known.
    pub fn is_failure(&self) -> bool {
        model::End::of_kind(&self.kind, self.exit_code).is_some_and(model::End::is_failure)
    }
}

/// Restarts of a running container by its engine, under its restart policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Restarts {
    /// Restarts that the engine counts since somebody started the container.
    pub count: u32,
    /// How often it ended within `within_s`, as far as it was observed.
    pub recent_ends: u32,
    /// The time in which ends are counted.
    pub within_s: f64,
    /// Its last end; null if it was not observed.
    pub last: Option<Ended>,
    /// The restarts in words.
    pub text: String,
}

impl Restarts {
    pub(super) fn of(restarts: &model::Restarts, job: &ContainerObservation, status: &NodeStatus) -> Restarts {
        Restarts {
            count: restarts.count,
            recent_ends: restarts.recent_ends,
            within_s: ENDS_WITHIN.as_secs_f64(),
            last: restarts.last.as_ref().map(|end| Ended::of_run(end, job, status)),
            text: restarts.to_string(),
        }
    }
}
