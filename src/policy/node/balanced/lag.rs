//! Lag of a job behind plain sharing, in CPU-seconds.
//!
//! Plain sharing gives each running job a part of the node by its owner's weight, here its equal share. A job that uses less, for whatever
//! reason, falls behind; one that uses more gets ahead. Time in which the job is frozen does not count.

use model::{ContainerObservation, CpuTime, Millis, RunState};
use serde::{Deserialize, Serialize};

/// Lag of one container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lag {
    mark: Option<(Millis, CpuTime)>,
    /// Equal shares minus CPU used, so far.
    behind: f64,
}

impl Lag {
    /// Takes one tick's observation; `equal` is an equal share in cores. Returns the CPU-seconds behind; negative = ahead.
    pub(super) fn after(&mut self, now: Millis, container: &ContainerObservation, equal: f64) -> f64 {
        let Some(cpu) = container.usage.cpu else { return self.behind };
        if let Some((at, used)) = self.mark.replace((now, cpu))
            && container.state == RunState::Running
            && at <= now
            && used <= cpu
        {
            self.behind += now.since(at).as_secs_f64() * equal - cpu.since(used).as_secs_f64();
        }
        self.behind
    }
}
