//! Executes limit changes: journals the original, writes through the engine or the cgroup, and reads the result back.
//!
//! A task that handles one request at a time, so that a slow disk or engine never delays the loop's observations. Guarantees: nothing is
//! written that is not journalled; a request for limits always ends in one [`Event::Actuated`] or [`Event::Restored`]; every call has a
//! time limit.

use super::event::{Component, Event};
use super::executor::Executor;
use super::journal::Journal;
use super::operation::Piece;
use super::pulse::Pulse;
use super::restore;
use super::target::Target;
use super::thaw;
use super::writer::{Connected, Writer};
use docker::{Engine, EngineInfo};
use limits::machine::{self, ContainerOutcome, WORK_AT_MOST, Work};
use limits::{End, Outcome, Restore};
use model::{ContainerId, TrainingId};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;
use store::{Freezable, ReadPosition, UserUse};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::Instant;

/// Requests that may wait besides those for limits; one of the latter may be added when the daemon ends.
const REQUESTS_AT_MOST: usize = 64;
const KEPT_FREE: usize = WORK_AT_MOST + 1;

/// A request of the loop.
pub(super) enum Request {
    /// Carry out work on limits, with the handles on the running containers.
    Limits { work: Work, targets: Targets },
    /// Save these log positions.
    SavePositions(Vec<(ContainerId, ReadPosition)>),
    /// Save the curve of a completed training.
    SavePriorRun(TrainingId, String),
    /// Save what users have used.
    SaveUses(Vec<UserUse>),
    /// Drop the log positions of all other containers.
    KeepPositions(Vec<ContainerId>),
    /// Record durably that a job may be frozen, or that its engine has paused it.
    MayFreeze(Freezable),
    /// The job is thawed and will not be frozen.
    Thawed(ContainerId),
    /// Thaw everything that the journal says may be frozen.
    Thaw,
}

/// Handles on cgroups.
pub(super) type Targets = BTreeMap<ContainerId, Target>;

/// The loop's handle.
pub(super) struct Actuator {
    requests: mpsc::Sender<Request>,
    connected: Connected,
    /// Progress of the task.
    pub pulse: Pulse,
}

impl Actuator {
    /// Starts the task; it ends after its handle is dropped.
    pub(crate) fn start(
        journal: Journal,
        engine: Option<Engine>,
        events: mpsc::Sender<Event>,
    ) -> (Actuator, JoinHandle<()>) {
        let (requests, inbox) = mpsc::channel(KEPT_FREE + REQUESTS_AT_MOST);
        let connected = Connected::default();
        let pulse = Pulse::default();
        let executor = Executor { journal, writer: Writer::new(engine, connected.clone()), pulse: pulse.clone() };
        let task = Task { executor, events };
        (Actuator { requests, connected, pulse }, tokio::spawn(task.run(inbox)))
    }

    /// Sends a request; returns `false` if the queue is full. The loop never waits for room, because the task may be waiting for the loop.
    /// For limits there is always room: the machine has no more work open than that.
    pub(crate) fn request(&self, request: Request) -> bool {
        let has_room = matches!(request, Request::Limits { .. }) || self.requests.capacity() > KEPT_FREE;
        has_room && self.requests.try_send(request).is_ok()
    }

    /// Returns the sender, for callers that may wait for room.
    pub(crate) fn requests(&self) -> mpsc::Sender<Request> {
        self.requests.clone()
    }

    /// Stores the engine's description, after each connection.
    pub(crate) fn connected(&self, info: EngineInfo) {
        *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
    }
}

struct Task {
    executor: Executor,
    events: mpsc::Sender<Event>,
}

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        while let Some(request) = inbox.recv().await {
            self.executor.pulse.beat();
            let journal = &mut self.executor.journal;
            let event = match request {
                Request::Limits { work, targets } => Some(self.limits(work, targets).await),
                Request::SavePositions(batch) => {
                    block_in_place(|| journal.save_positions(&batch));
                    None
                }
                Request::SavePriorRun(training, curve) => {
                    block_in_place(|| journal.save_prior_run(training, &curve));
                    None
                }
                Request::SaveUses(uses) => {
                    block_in_place(|| journal.save_uses(&uses));
                    None
                }
                Request::KeepPositions(kept) => {
                    block_in_place(|| journal.keep_positions(&kept));
                    None
                }
                Request::MayFreeze(job) => {
                    let problem = block_in_place(|| journal.record_freezable(&job)).err();
                    Some(Event::MayFreeze(job, problem))
                }
                Request::Thawed(id) => {
                    // If it stays recorded, it is thawed once more at the end.
                    let _ = block_in_place(|| journal.forget_freezable(&id));
                    None
                }
                Request::Thaw => {
                    let failed = thaw::thaw_all(&mut self.executor).await;
                    Some(Event::Health(Component::Thaw, (!failed.is_empty()).then(|| failed.join("; "))))
                }
            };
            self.executor.pulse.rest(); // sending to the loop may take any time
            if let Some(event) = event
                && self.events.send(event).await.is_err()
            {
                return;
            }
        }
    }

    /// Carries out work on limits.
    async fn limits(&mut self, work: Work, targets: Targets) -> Event {
        let outcomes = match work {
            Work::Change { loosen, tighten } => {
                let loosened = self.executor.carry_out(with_targets(loosen, &targets)).await;
                if !loosened.is_empty() {
                    let _ = self.events.send(Event::Written(loosened)).await; // the loop may have ended
                }
                self.executor.carry_out(with_targets(tighten, &targets)).await
            }
            Work::Restore(pieces) => self.executor.carry_out(with_targets(pieces, &targets)).await,
            Work::Ended(id) => self.forget(&id, true).await,
            Work::Unlisted(id) => self.forget(&id, false).await,
            Work::Adopt(id, adoption) => {
                let problem = block_in_place(|| self.executor.journal.adopt(&id, &adoption)).err();
                return Event::Adopted { id, adoption, problem };
            }
            Work::Disown { id, running } => {
                let problem = self.disown(&id, with_targets(running.map(|piece| *piece), &targets)).await.err();
                return Event::Disowned { id, problem };
            }
            Work::RestoreAll { until } => {
                let until = Instant::now() + Duration::from_millis(until.since(node::now()).0);
                return Event::Restored(restore::restore_all(&mut self.executor, Some(until)).await);
            }
        };
        Event::Actuated(outcomes)
    }

    /// Restores the limits before the adoption is removed: after a crash in between, the container is still adopted.
    async fn disown(&mut self, id: &ContainerId, running: Vec<Piece<Restore>>) -> Result<(), String> {
        let outcomes =
            if running.is_empty() { self.forget(id, true).await } else { self.executor.carry_out(running).await };
        disown_result(outcomes.into_iter().next().map(|done| done.outcome.end))?;
        block_in_place(|| self.executor.journal.disown(id))
    }

    /// Restores a container that is not governed, and forgets it. If it `has_ended`, that is the engine's record of it: after another start
    /// its limits belong to the new run. A row that cannot be read has no outcome.
    async fn forget(&mut self, id: &ContainerId, has_ended: bool) -> Vec<ContainerOutcome> {
        let journal = &self.executor.journal;
        let original = match block_in_place(|| journal.original(id)) {
            Ok(Some(original)) => original,
            Ok(None) => {
                return vec![ContainerOutcome { id: id.clone(), run: None, outcome: Box::new(Outcome::forgotten()) }];
            }
            Err(_) => return Vec::new(),
        };
        let written = block_in_place(|| journal.written(id)).unwrap_or_default();
        let restored = if has_ended {
            restore::restore_found(&mut self.executor, original, written, None).await
        } else {
            restore::restore_one(&mut self.executor, original, written).await
        };
        match restored {
            Ok(outcome) => {
                log_forgotten(id, &outcome.end);
                vec![ContainerOutcome { id: id.clone(), run: None, outcome: Box::new(outcome) }]
            }
            Err(why) => {
                tracing::info!(%id, why, "a container that is not governed is not restored yet");
                Vec::new()
            }
        }
    }
}

fn log_forgotten(id: &ContainerId, end: &End) {
    match end {
        // The journal keeps it: the next list of containers, start or restore tries again.
        End::Failed(why) => tracing::info!(%id, why, "a container that is not governed is not restored yet"),
        End::Restored { forgotten: true, kept, .. } => {
            kept.iter().for_each(|text| tracing::info!(%id, "{text}: left alone"));
        }
        _ => {}
    }
}

fn with_targets<T>(pieces: impl IntoIterator<Item = machine::Piece<T>>, targets: &Targets) -> Vec<Piece<T>> {
    pieces.into_iter().map(|of| Piece { target: targets.get(&of.id).cloned(), of }).collect()
}

/// Checks that nothing of ours is left in a container, so that it can be forgotten.
pub(super) fn disown_result(end: Option<End>) -> Result<(), String> {
    match end {
        Some(End::Failed(why) | End::NotBegun(why)) => Err(why),
        Some(End::Gone) => Err("it has just ended or started".to_owned()),
        Some(End::Restored { forgotten: false, kept, .. }) => Err(format!("{}; stop it first", kept.join("; "))),
        _ => Ok(()),
    }
}
