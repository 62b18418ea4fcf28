//! Containers that hang, so that the engine lists them but does not answer an inspection.
//!
//! dockerd locks a container while it changes its state, which lasts as long as the container's runtime hangs; it answers all other calls
//! meanwhile. A slow engine looks the same at first, so the first inspection that is not answered in time ends the connection, and the
//! next has more time. If that is too short for the same container again, only this container is taken to hang: one inspection of it goes
//! on beside all else until it is answered.

use crate::container::EngineContainer;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::{EngineName, INSPECTS_AT_ONCE};
use model::ContainerId;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// A container with the result of its inspection.
pub(super) type Inspected = (ContainerId, Result<EngineContainer, EngineError>);

/// The containers that hang or may hang.
pub(super) struct Hung {
    /// Containers about which the engine did not answer in time when it was last asked.
    late: BTreeSet<ContainerId>,
    /// Containers whose inspection goes on.
    asked: BTreeSet<ContainerId>,
    inspections: JoinSet<Inspected>,
    permits: Arc<Semaphore>,
}

impl Hung {
    pub(super) fn new() -> Hung {
        Hung {
            late: BTreeSet::new(),
            asked: BTreeSet::new(),
            inspections: JoinSet::new(),
            permits: Arc::new(Semaphore::new(INSPECTS_AT_ONCE)),
        }
    }

    /// Returns what the engine answered when it was asked about a container, or the error if it shows that the engine itself is lost.
    pub(super) fn judge<T>(
        &mut self,
        id: &ContainerId,
        answer: Result<T, EngineError>,
    ) -> Result<Result<T, EngineError>, EngineError> {
        match answer {
            Err(error @ EngineError::Timeout { .. }) if !self.late.insert(id.clone()) => Ok(Err(error)),
            Err(error) if error.is_engine_lost() => Err(error),
            answer => {
                self.late.remove(id);
                Ok(answer)
            }
        }
    }

    /// Inspects a container until the engine answers.
    pub(super) fn ask(&mut self, engine: &Engine, id: &ContainerId, name: EngineName) {
        if !self.asked.insert(id.clone()) {
            return;
        }
        let (engine, id) = (engine.patient(self.permits.clone()), id.clone());
        let inspection = async move {
            loop {
                match engine.inspect(&id, name).await {
                    Err(EngineError::Timeout { .. }) => {}
                    answer => return (id, answer),
                }
            }
        };
        self.inspections.spawn(inspection);
    }

    /// Returns the containers whose inspection goes on.
    pub(super) fn asked(&self) -> &BTreeSet<ContainerId> {
        &self.asked
    }

    /// Returns the next answer; waits for ever if no inspection goes on. Cancel safe.
    pub(super) async fn next(&mut self) -> Inspected {
        let Some(ended) = self.inspections.join_next().await else { return std::future::pending().await };
        let (id, answer) = ended.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        self.asked.remove(&id);
        if answer.is_ok() {
            self.late.remove(&id);
        }
        (id, answer)
    }

    /// Ends all inspections, with their connection.
    pub(super) fn disconnected(&mut self) {
        self.asked.clear();
        self.inspections = JoinSet::new();
    }

    /// Forgets all containers but these.
    pub(super) fn retain(&mut self, present: &BTreeSet<ContainerId>) {
        self.late.retain(|id| present.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    fn too_late() -> Result<(), EngineError> {
        Err(EngineError::Timeout { operation: "inspect".to_owned(), limit: Duration::from_secs(10) })
    }

    #[test]
    fn only_the_first_late_answer_about_a_container_shows_that_the_engine_is_lost() {
        let (a, b) = (ContainerId::new("a"), ContainerId::new("b"));
        let mut hung = Hung::new();
        assert!(hung.judge(&a, too_late()).is_err());
        assert!(matches!(hung.judge(&a, too_late()), Ok(Err(_))), "it hangs");
        assert!(hung.judge(&b, too_late()).is_err(), "another may not");
        assert!(matches!(hung.judge(&a, Ok(())), Ok(Ok(()))));
        assert!(hung.judge(&a, too_late()).is_err(), "it was answered in between");
        hung.retain(&BTreeSet::from([a]));
        assert!(hung.judge(&b, too_late()).is_err(), "it was removed in between");
    }

    #[test]
    fn a_lost_connection_is_never_taken_for_a_hanging_container() {
        let id = ContainerId::new("a");
        let mut hung = Hung::new();
        for _ in 0..3 {
            let (operation, why) = ("inspect".to_owned(), "connection refused".to_owned());
            let lost: Result<(), _> = Err(EngineError::Unreachable { operation, socket: PathBuf::new(), why });
            assert!(hung.judge(&id, lost).is_err());
        }
    }
}
