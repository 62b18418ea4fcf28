//! What somebody may want a message about: the part of an event that `flowcon-notify` reads.

use super::{Condition, End};
use serde::{Deserialize, Serialize};

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// A job exited with code 0.
    Done,
    /// A job exited with another code.
    Failed,
    /// The kernel killed a job for memory.
    KilledForMemory,
    /// A signal killed a job.
    Killed,
    /// A job was stopped on request.
    Stopped,
    /// A job ended, and nobody reported how.
    Ended,
    /// A job failed for the second time within a short while and is restarted by its engine.
    Restarting,
    /// The last running trial of a sweep ended.
    Sweep,
    /// The GPU of a job is idle for want of CPU.
    StarvingGpu,
    /// A job gets worse on held-out data.
    Overfitting,
    /// A job missed its deadline, or will.
    Late,
    /// The memory of a job will soon reach its limit.
    ShortOfMemory,
    /// A job makes no progress.
    Stalled,
    /// The metric of a job is far worse than it ever was.
    Diverging,
    /// The metric of a job is not a number any more.
    Nan,
    /// The trouble of a job is over.
    Recovered,
    /// A warning about the node: its engine was lost, a disk is full, flowcond does not answer.
    Node,
}

impl AlertKind {
    /// All kinds.
    pub const ALL: [AlertKind; 17] = [
        AlertKind::Done,
        AlertKind::Failed,
        AlertKind::KilledForMemory,
        AlertKind::Killed,
        AlertKind::Stopped,
        AlertKind::Ended,
        AlertKind::Restarting,
        AlertKind::Sweep,
        AlertKind::StarvingGpu,
        AlertKind::Overfitting,
        AlertKind::Late,
        AlertKind::ShortOfMemory,
        AlertKind::Stalled,
        AlertKind::Diverging,
        AlertKind::Nan,
        AlertKind::Recovered,
        AlertKind::Node,
    ];

    /// Whether a person wants to be told at night, unless the configuration says otherwise: none of these is about a healthy job.
    pub fn is_urgent(self) -> bool {
        !matches!(
            self,
            AlertKind::Done
                | AlertKind::Stopped
                | AlertKind::Ended
                | AlertKind::Sweep
                | AlertKind::StarvingGpu
                | AlertKind::Overfitting
                | AlertKind::Recovered
        )
    }

    /// Whether it is about the end of a run.
    pub fn is_end(self) -> bool {
        self <= AlertKind::Ended
    }

    /// The kind for a condition; `None` if it is no trouble.
    pub fn of_condition(condition: Condition) -> Option<AlertKind> {
        Some(match condition {
            Condition::Starting | Condition::Learning | Condition::Plateau | Condition::Done => return None,
            Condition::StarvingGpu => AlertKind::StarvingGpu,
            Condition::Overfitting => AlertKind::Overfitting,
            Condition::Late => AlertKind::Late,
            Condition::ShortOfMemory => AlertKind::ShortOfMemory,
            Condition::Stalled => AlertKind::Stalled,
            Condition::Diverging => AlertKind::Diverging,
            Condition::Nan => AlertKind::Nan,
        })
    }

    /// The kind for an end.
    pub fn of_end(end: End) -> AlertKind {
        match end {
            End::Done => AlertKind::Done,
            End::Failed { .. } => AlertKind::Failed,
            End::KilledForMemory => AlertKind::KilledForMemory,
            End::Signalled { .. } => AlertKind::Killed,
            End::Stopped | End::GroupStop => AlertKind::Stopped,
            End::Unknown => AlertKind::Ended,
        }
    }
}

/// What a message about an event says, and to whom. It never contains a command line or an environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// What it is about.
    pub kind: AlertKind,
    /// A few words, to follow the name of the job: `NaN since epoch 11`.
    pub words: String,
    /// The evidence and the next step, in sentences.
    pub detail: String,
    /// The user to whom the job belongs.
    pub user: Option<String>,
    /// Names of targets by the label `flowcon.notify`; `None` = it has none.
    pub notify: Option<Vec<String>>,
    /// Of an end: how long the job ran, in seconds.
    pub ran_s: Option<u64>,
    /// Of the end of a trial: trials of its sweep that still run.
    pub trials_left: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_has_its_kind_and_nothing_healthy_is_urgent() {
        for condition in Condition::ALL {
            assert_eq!(AlertKind::of_condition(condition).is_some(), condition.is_trouble(), "{condition}");
        }
        let broken = Condition::ALL.into_iter().filter(|condition| condition.is_broken());
        assert!(broken.filter_map(AlertKind::of_condition).all(AlertKind::is_urgent));
        assert!(!AlertKind::of_end(End::Done).is_urgent() && !AlertKind::of_end(End::Stopped).is_urgent());
        assert!(AlertKind::of_end(End::Failed { code: 1 }).is_urgent());
    }
}
