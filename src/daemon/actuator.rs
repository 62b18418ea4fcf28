//! Carries out limit changes: the original durable first, then the engine or the cgroup, then a reading of what stands.
//!
//! A task of its own, one order at a time, so that a slow disk or engine never delays what the loop sees. Guarantees: nothing is
//! written that is not journalled; an order for limits always ends in one [`Event::Actuated`] or [`Event::Restored`]; every call has
//! a time limit.

use super::event::Event;
use super::hands::Hands;
use super::journal::Journal;
use super::piece::{Came, Piece};
use super::restore;
use super::writer::{Connected, Writer};
use crate::host::docker::{Engine, EngineInfo};
use crate::host::store::ReadPosition;
use crate::limits::{Change, End, Outcome, Return};
use crate::model::{Adoption, ContainerId, TrainingId};
use std::sync::PoisonError;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::Instant;

const ORDERS_AT_MOST: usize = 64;

/// What the loop asks for.
pub(super) enum Order {
    /// Write these settings; the first list loosens and goes first.
    Change { loosen: Vec<Piece<Change>>, tighten: Vec<Piece<Change>> },
    /// Put the originals of these back, as far as what stands is still ours.
    Return(Vec<Piece<Return>>),
    /// The container ended: put the engine's record of it back, and forget it.
    Ended(ContainerId),
    /// Remember that this container is governed without the label; answered by [`Event::Adopted`].
    Adopt(ContainerId, Adoption),
    /// Put its originals back, running or not, and forget that it was adopted; answered by [`Event::Disowned`].
    Disown { id: ContainerId, running: Option<Box<Piece<Return>>> },
    /// Save how far these logs were read.
    Positions(Vec<(ContainerId, ReadPosition)>),
    /// Keep the curve of a training that came to its end.
    Learnt(TrainingId, String),
    /// Drop the positions of all containers but these.
    KeepPositions(Vec<ContainerId>),
    /// Put everything in the journal back, as far as it can be done by then; answered by [`Event::Restored`].
    RestoreAll { until: Instant },
}

/// The loop's handle.
pub(super) struct Actuator {
    orders: mpsc::Sender<Order>,
    connected: Connected,
}

impl Actuator {
    /// With the task, which ends after its handle.
    pub fn start(journal: Journal, engine: Option<Engine>, events: mpsc::Sender<Event>) -> (Actuator, JoinHandle<()>) {
        let (orders, inbox) = mpsc::channel(ORDERS_AT_MOST);
        let connected = Connected::default();
        let hands = Hands { journal, writer: Writer::new(engine, connected.clone()) };
        let task = Task { hands, events };
        (Actuator { orders, connected }, tokio::spawn(task.run(inbox)))
    }

    /// Asks; `false` when too much is waiting already, and nothing was asked. The loop never waits for room: the task may be waiting
    /// for the loop.
    pub fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Whether the next order is taken.
    pub fn has_room(&self) -> bool {
        self.orders.capacity() > 0
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
            let outcomes = match order {
                Order::Change { loosen, tighten } => {
                    let loosened = self.hands.carry_out(loosen).await;
                    if !loosened.is_empty() && self.events.send(Event::Written(loosened)).await.is_err() {
                        return;
                    }
                    self.hands.carry_out(tighten).await
                }
                Order::Return(pieces) => self.hands.carry_out(pieces).await,
                Order::Ended(id) => {
                    let mut ended = self.ended(&id).await;
                    // What could not be done is no fault of a run that may have begun since.
                    ended.retain(|came| matches!(came.outcome.end, End::Returned { .. }));
                    ended
                }
                Order::Adopt(id, adoption) => {
                    let done = block_in_place(|| self.hands.journal.adopt(&id, &adoption));
                    if self.events.send(Event::Adopted { id, adoption, problem: done.err() }).await.is_err() {
                        return;
                    }
                    continue;
                }
                Order::Disown { id, running } => {
                    let problem = self.disown(&id, running).await.err();
                    if self.events.send(Event::Disowned { id, problem }).await.is_err() {
                        return;
                    }
                    continue;
                }
                Order::Positions(batch) => {
                    block_in_place(|| self.hands.journal.save_positions(&batch));
                    continue;
                }
                Order::Learnt(training, curve) => {
                    block_in_place(|| self.hands.journal.save_precedent(training, &curve));
                    continue;
                }
                Order::KeepPositions(kept) => {
                    block_in_place(|| self.hands.journal.keep_positions(&kept));
                    continue;
                }
                Order::RestoreAll { until } => {
                    let restored = restore::everything(&mut self.hands, Some(until)).await;
                    if self.events.send(Event::Restored(restored)).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            if self.events.send(Event::Actuated(outcomes)).await.is_err() {
                return;
            }
        }
    }

    /// First the limits, then the memory: whoever is killed between the two finds it adopted still.
    async fn disown(&mut self, id: &ContainerId, running: Option<Box<Piece<Return>>>) -> Result<(), String> {
        let outcomes = match running {
            Some(piece) => self.hands.carry_out(vec![*piece]).await,
            None => self.ended(id).await,
        };
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
