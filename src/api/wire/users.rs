//! `/v1/users`: the users of the node, with what their jobs have together.

use super::{finite, finite_option, word};
use model::{FairBetween, JobStatus, NOBODY, NodeStatus, UserObservation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of `/v1/users`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    /// Between whom the node is divided first at present: `jobs` or `users`.
    pub fair_between: String,
    /// The users who have jobs or used CPU lately, ordered by name.
    pub users: Vec<User>,
}

impl UserList {
    /// Converts a snapshot.
    pub fn of(status: &NodeStatus) -> UserList {
        let users = status.users.iter().map(|user| User::of(user, status)).collect();
        // A dry run divides nothing.
        let is_between_users = status.settings.divides_between_users();
        let fair_between = word(if is_between_users { FairBetween::Users } else { FairBetween::Jobs });
        UserList { fair_between, users }
    }
}

/// One user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Name; `-` is the user of all jobs that belong to nobody.
    pub name: String,
    /// Number of governed jobs.
    pub jobs: usize,
    /// Weight, 1 by default (`users.weights`).
    pub weight: f64,
    /// Part of the node that these jobs have together under contention; null before the first decision about any.
    pub part: Option<f64>,
    /// Fraction of the node's CPU that they used over the last few seconds.
    pub cpu_used: Option<f64>,
    /// CPU-seconds used, of which earlier ones count less (`users.half-life`).
    pub used_cpu_s: f64,
}

impl User {
    fn of(user: &UserObservation, status: &NodeStatus) -> User {
        let own = || status.jobs.iter().filter(|job| of(job) == user.name);
        let sum = |of_job: &dyn Fn(&JobStatus) -> Option<f64>| own().filter_map(of_job).reduce(|sum, next| sum + next);
        User {
            name: user.name.clone(),
            jobs: own().count(),
            weight: finite(user.weight).unwrap_or(1.0),
            part: finite_option(sum(&|job| job.plan.as_ref().map(|plan| plan.share.fraction()))),
            cpu_used: finite_option(sum(&|job| job.cpu_used)),
            used_cpu_s: finite(user.used).unwrap_or(0.0),
        }
    }

    /// The user of a job.
    pub(super) fn of_job(job: &JobStatus, status: &NodeStatus) -> Option<User> {
        let user = status.users.iter().find(|user| user.name == of(job))?;
        Some(User::of(user, status))
    }
}

fn of(job: &JobStatus) -> &str {
    job.observed.user.as_deref().unwrap_or(NOBODY)
}
