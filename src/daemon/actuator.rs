//! Carries out limit changes: the original durable first, then the engine or the cgroup, then a reading of what stands.
//!
//! A task of its own, one order at a time, so that a slow disk or engine never delays what the loop sees. Guarantees: nothing is
//! written that is not journalled; an order for limits always ends in one [`Event::Actuated`] or [`Event::Restored`]; every call has
//! a time limit.

use super::event::{Event, Part};
use super::hands::Hands;
use super::journal::Journal;
use super::piece::Piece;
use super::pulse::Pulse;
use super::restore;
use super::target::Target;
use super::thaw;
use super::writer::{Connected, Writer};
use crate::host::docker::{Engine, EngineInfo};
use crate::host::node;
use crate::host::store::{Freezable, ReadPosition};
use crate::limits::machine::{self, Came, WORK_AT_MOST, Work};
use crate::limits::{End, Outcome, Return};
use crate::model::{ContainerId, TrainingId};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::Instant;

/// Orders that may wait, besides those for limits; one of these may come when the daemon ends.
const ORDERS_AT_MOST: usize = 64;
const KEPT_FREE: usize = WORK_AT_MOST + 1;

/// What the loop asks for.
pub(super) enum Order {
    /// What the machine of limits wants done, with the handles on those containers that run.
    Limits { work: Work, targets: Targets },
    /// Save how far these logs were read.
    Positions(Vec<(ContainerId, ReadPosition)>),
    /// Keep the curve of a training that came to its end.
    Learnt(TrainingId, String),
    /// Drop the positions of all containers but these.
    KeepPositions(Vec<ContainerId>),
    /// Make it durable that a job may be frozen, or that its engine has paused it.
    MayFreeze(Freezable),
    /// It is thawed and will not be frozen.
    Thawed(ContainerId),
    /// Thaw whatever the journal says may be frozen: an earlier daemon's.
    Thaw,
}

/// Handles on cgroups.
pub(super) type Targets = BTreeMap<ContainerId, Target>;

/// The loop's handle.
pub(super) struct Actuator {
    orders: mpsc::Sender<Order>,
    connected: Connected,
    /// Whether the task gets on.
    pub pulse: Pulse,
}

impl Actuator {
    /// With the task, which ends after its handle.
    pub fn start(journal: Journal, engine: Option<Engine>, events: mpsc::Sender<Event>) -> (Actuator, JoinHandle<()>) {
        let (orders, inbox) = mpsc::channel(KEPT_FREE + ORDERS_AT_MOST);
        let connected = Connected::default();
        let pulse = Pulse::default();
        let hands = Hands { journal, writer: Writer::new(engine, connected.clone()), pulse: pulse.clone() };
        let task = Task { hands, events };
        (Actuator { orders, connected, pulse }, tokio::spawn(task.run(inbox)))
    }

    /// Asks; `false` when too much is waiting already, and nothing was asked. The loop never waits for room: the task may be waiting
    /// for the loop. For limits there is always room, because the machine has no more work open than that.
    pub fn order(&self, order: Order) -> bool {
        let has_room = matches!(order, Order::Limits { .. }) || self.orders.capacity() > KEPT_FREE;
        has_room && self.orders.try_send(order).is_ok()
    }

    /// For whoever may wait for room.
    pub fn orders(&self) -> mpsc::Sender<Order> {
        self.orders.clone()
    }

    /// Tells who the engine is, after each connection.
    pub fn connected(&self, info: EngineInfo) {
        *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
    }
}

struct Task {
    hands: Hands,
    events: mpsc::Sender<Event>,
}

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Order>) {
        while let Some(order) = inbox.recv().await {
            self.hands.pulse.beat();
            let journal = &mut self.hands.journal;
            let event = match order {
                Order::Limits { work, targets } => Some(self.limits(work, targets).await),
                Order::Positions(batch) => {
                    block_in_place(|| journal.save_positions(&batch));
                    None
                }
                Order::Learnt(training, curve) => {
                    block_in_place(|| journal.save_prior_run(training, &curve));
                    None
                }
                Order::KeepPositions(kept) => {
                    block_in_place(|| journal.keep_positions(&kept));
                    None
                }
                Order::MayFreeze(job) => {
                    let problem = block_in_place(|| journal.note_freezable(&job)).err();
                    Some(Event::MayFreeze(job, problem))
                }
                Order::Thawed(id) => {
                    // Noted in vain, it is thawed once more at the end.
                    let _ = block_in_place(|| journal.forget_freezable(&id));
                    None
                }
                Order::Thaw => {
                    let failed = thaw::everything(&mut self.hands).await;
                    Some(Event::Health(Part::Thaw, (!failed.is_empty()).then(|| failed.join("; "))))
                }
            };
            self.hands.pulse.rests(); // the loop may take its time
            if let Some(event) = event
                && self.events.send(event).await.is_err()
            {
                return;
            }
        }
    }

    /// Does what is to be done about limits, as far as it can be done.
    async fn limits(&mut self, work: Work, targets: Targets) -> Event {
        let came = match work {
            Work::Change { loosen, tighten } => {
                let loosened = self.hands.carry_out(aimed(loosen, &targets)).await;
                if !loosened.is_empty() {
                    let _ = self.events.send(Event::Written(loosened)).await; // the loop ended: so does this task
                }
                self.hands.carry_out(aimed(tighten, &targets)).await
            }
            Work::Return(pieces) => self.hands.carry_out(aimed(pieces, &targets)).await,
            Work::Ended(id) => self.ended(&id).await,
            Work::Adopt(id, adoption) => {
                let problem = block_in_place(|| self.hands.journal.adopt(&id, &adoption)).err();
                return Event::Adopted { id, adoption, problem };
            }
            Work::Disown { id, running } => {
                let problem = self.disown(&id, aimed(running.map(|piece| *piece), &targets)).await.err();
                return Event::Disowned { id, problem };
            }
            Work::RestoreAll { until } => {
                let until = Instant::now() + Duration::from_millis(until.since(node::now()).0);
                return Event::Restored(restore::everything(&mut self.hands, Some(until)).await);
            }
        };
        Event::Actuated(came)
    }

    /// First the limits, then the memory: whoever is killed between the two finds it adopted still.
    async fn disown(&mut self, id: &ContainerId, running: Vec<Piece<Return>>) -> Result<(), String> {
        let outcomes = if running.is_empty() { self.ended(id).await } else { self.hands.carry_out(running).await };
        why_not_disowned(outcomes.into_iter().next().map(|came| came.outcome.end))?;
        block_in_place(|| self.hands.journal.disown(id))
    }

    /// Puts back what an engine keeps of one that ended, and forgets it. Nothing comes of a row that cannot be read.
    async fn ended(&mut self, id: &ContainerId) -> Vec<Came> {
        let journal = &self.hands.journal;
        let original = match block_in_place(|| journal.original(id)) {
            Ok(Some(original)) => original,
            Ok(None) => return vec![Came { id: id.clone(), run: None, outcome: Box::new(Outcome::forgotten()) }],
            Err(_) => return Vec::new(),
        };
        let written = block_in_place(|| journal.written(id)).unwrap_or_default();
        let ended = self.hands.carry_out(vec![restore::returning(original, written, None)]).await;
        for Came { outcome, .. } in &ended {
            match &outcome.end {
                // The journal keeps it: the next list of containers, start or restore tries again.
                End::Failed(why) => tracing::info!(%id, why, "the record of an ended container is not back yet"),
                End::Returned { left, .. } => left.iter().for_each(|text| tracing::info!(%id, "{text}: left alone")),
                _ => {}
            }
        }
        ended
    }
}

fn aimed<T>(pieces: impl IntoIterator<Item = machine::Piece<T>>, targets: &Targets) -> Vec<Piece<T>> {
    pieces.into_iter().map(|of| Piece { target: targets.get(&of.id).cloned(), of }).collect()
}

/// Whether nothing of ours is left in a container, so that it can be forgotten.
pub(super) fn why_not_disowned(end: Option<End>) -> Result<(), String> {
    match end {
        Some(End::Failed(why) | End::NotBegun(why)) => Err(why),
        Some(End::Gone) => Err("it ended or started just now".to_owned()),
        Some(End::Returned { forgotten: false, left, .. }) => {
            Err(format!("{}, and its engine keeps a value of ours for its next run; stop it first", left.join("; ")))
        }
        _ => Ok(()),
    }
}
