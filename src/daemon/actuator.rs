//! Carries out limit changes: the original durable first, then the engine or the cgroup, then a reading of what stands.
//!
//! A task of its own, one order at a time, so that a slow disk or engine never delays what the loop sees. Guarantees: nothing is
//! written that is not journalled; an order for limits always ends in one [`Event::Actuated`] or [`Event::Restored`]; every call has
//! a time limit.

use super::event::Event;
use super::journal::{Journal, back_to};
use super::restore;
use super::target::{Target, same, standing, stands_in};
use super::writer::{Record, Writer};
use crate::host::docker::{Engine, EngineInfo};
use crate::host::store::ReadPosition;
use crate::model::{Adoption, ContainerId, Limits, Runtime, Setting, TrainingId};
use futures_util::{StreamExt, stream};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Containers whose limits are written at the same time.
const WRITES_AT_ONCE: usize = 4;
const ORDERS_AT_MOST: usize = 64;

/// What the loop asks for.
pub(super) enum Order {
    /// Write these settings; the first list loosens and goes first.
    Change { loosen: Vec<(Target, Vec<Setting>)>, tighten: Vec<(Target, Vec<Setting>)> },
    /// Put the originals of these back, as far as what stands is still ours.
    Return(Vec<Target>),
    /// What stands is the new original of this container, once nothing of ours does: somebody set it on purpose.
    Accept(Target),
    /// The container ended: put the engine's record of it back, and forget it.
    Ended(ContainerId),
    /// Remember that this container is governed without the label; answered by [`Event::Adopted`].
    Adopt(ContainerId, Adoption),
    /// Put its originals back, running (with its target) or not, and forget that it was adopted; answered by [`Event::Disowned`].
    Disown { id: ContainerId, running: Option<Target> },
    /// Save how far these logs were read.
    Positions(Vec<(ContainerId, ReadPosition)>),
    /// Keep the curve of a training that came to its end.
    Learnt(TrainingId, String),
    /// Drop the positions of all containers but these.
    KeepPositions(Vec<ContainerId>),
    /// Put everything in the journal back, as far as it can be done by then; answered by [`Event::Restored`].
    RestoreAll { until: Instant },
}

/// What became of one container's settings.
#[derive(Debug)]
pub(super) struct Outcome {
    pub id: ContainerId,
    /// What stands afterwards by this write, of the kinds that were asked for.
    pub stands: Vec<Setting>,
    /// The original that the journal holds; `None` = it is no longer in the journal, or there is no journal to ask.
    pub original: Option<Limits>,
    /// What was asked for, and may still come into force where it failed.
    pub asked: Vec<Setting>,
    /// Why it failed, with the next step.
    pub error: Option<String>,
    /// The container ended meanwhile: no fault.
    pub gone: bool,
}

/// The engine as last connected, with what was learnt of its weights.
pub(super) type Connected = Arc<Mutex<Option<EngineInfo>>>;

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
        let task = Task { journal, writer: Writer::new(engine, connected.clone()), events };
        (Actuator { orders, connected }, tokio::spawn(task.run(inbox)))
    }

    /// Asks; `false` when too much is waiting already, and nothing was asked. The loop never waits for room: the task may be waiting
    /// for the loop.
    pub fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
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
    journal: Journal,
    writer: Writer,
    events: mpsc::Sender<Event>,
}

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Order>) {
        while let Some(order) = inbox.recv().await {
            let outcomes = match order {
                Order::Change { loosen, tighten } => {
                    let loosened = self.change(loosen).await;
                    if !loosened.is_empty() && self.events.send(Event::Written(loosened)).await.is_err() {
                        return;
                    }
                    self.change(tighten).await
                }
                Order::Return(targets) => self.give_back(targets).await,
                Order::Accept(target) => vec![self.accept(target).await],
                Order::Ended(id) => {
                    self.ended(&id).await;
                    continue;
                }
                Order::Adopt(id, adoption) => {
                    let done = tokio::task::block_in_place(|| self.journal.adopt(&id, &adoption));
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
                    tokio::task::block_in_place(|| self.journal.save_positions(&batch));
                    continue;
                }
                Order::Learnt(training, curve) => {
                    tokio::task::block_in_place(|| self.journal.save_precedent(training, &curve));
                    continue;
                }
                Order::KeepPositions(kept) => {
                    tokio::task::block_in_place(|| self.journal.keep_positions(&kept));
                    continue;
                }
                Order::RestoreAll { until } => {
                    let restored = restore::everything(&mut self.journal, &mut self.writer, Some(until)).await;
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

    async fn change(&mut self, changes: Vec<(Target, Vec<Setting>)>) -> Vec<Outcome> {
        let mut journalled = Vec::new();
        let mut outcomes = Vec::new();
        let originals = tokio::task::block_in_place(|| self.journal.before_writing(&changes));
        for ((mut target, settings), original) in changes.into_iter().zip(originals) {
            match original {
                Ok(original) => {
                    target.original = original.limits;
                    target.engine_limits = original.engine;
                    match somebody_elses(&target, &settings, &self.journal.ours(&target)) {
                        Some(theirs) => {
                            tracing::info!(container = %target.id, name = target.name, %theirs, "set just now by somebody else: not overwritten");
                            outcomes.push(untouched(&target));
                        }
                        None => journalled.push((target, settings)),
                    }
                }
                Err(why) => outcomes.push(Outcome {
                    id: target.id,
                    stands: Vec::new(),
                    original: None,
                    asked: Vec::new(),
                    error: Some(format!("nothing is changed without a journal: {why}")),
                    gone: false,
                }),
            }
        }
        self.writer.connect_systemd(journalled.iter().map(|(target, _)| target)).await;
        let writer = &self.writer;
        let written = stream::iter(journalled)
            .map(|(target, settings)| async move { writer.write(&target, settings).await })
            .buffer_unordered(WRITES_AT_ONCE);
        outcomes.extend(written.collect::<Vec<_>>().await);
        outcomes
    }

    async fn give_back(&mut self, targets: Vec<Target>) -> Vec<Outcome> {
        let mut back = Vec::new();
        for target in targets {
            let stands = target.cgroup().limits();
            let ours: Vec<Setting> =
                self.journal.ours(&target).into_iter().filter(|ours| stands_in(&stands, *ours)).collect();
            back.push((target.clone(), back_to(&target.original, &ours)));
        }
        self.change(back).await
    }

    /// First whatever still stands of ours goes back: it must never be taken for what the owner wants.
    async fn accept(&mut self, target: Target) -> Outcome {
        let limits = target.cgroup().limits();
        let is_ours = |ours: &Setting| stands_in(&limits, *ours) && !stands_in(&target.original, *ours);
        if self.journal.ours(&target).iter().any(is_ours) {
            let returned = self.give_back(vec![target.clone()]).await;
            if let Some(failed) = returned.into_iter().find(|outcome| outcome.error.is_some() || outcome.gone) {
                return failed;
            }
        }
        match tokio::task::block_in_place(|| self.journal.forget(&target.id)) {
            Ok(()) => Outcome { original: None, ..untouched(&target) },
            Err(why) => Outcome { error: Some(why), ..untouched(&target) },
        }
    }

    /// First the limits, then the memory: whoever is killed between the two finds it adopted still.
    async fn disown(&mut self, id: &ContainerId, running: Option<Target>) -> Result<(), String> {
        let outcomes = self.give_back(running.into_iter().collect()).await;
        if let Some(why) = outcomes.iter().find_map(|outcome| outcome.error.clone()) {
            return Err(why);
        }
        if outcomes.iter().any(|outcome| !outcome.gone) {
            tokio::task::block_in_place(|| self.journal.forget(id))?;
        } else {
            self.ended(id).await;
        }
        tokio::task::block_in_place(|| self.journal.disown(id))
    }

    /// An engine keeps our update over a restart of the container, so its record is put back now.
    async fn ended(&mut self, id: &ContainerId) {
        let everything = tokio::task::block_in_place(|| self.journal.everything()).unwrap_or_default();
        let Some((original, written)) = everything.into_iter().find(|(original, _)| original.id == *id) else { return };
        if original.runtime == Runtime::Docker {
            match self.writer.return_record(&original, &written).await {
                Record::Back(theirs) => theirs.iter().for_each(|text| tracing::info!(%id, "{text}: left alone")),
                // The journal keeps it: the next start or restore tries again.
                Record::NotNow(why) => {
                    return tracing::info!(%id, why, "the record of an ended container is not back yet");
                }
            }
        }
        if let Err(error) = tokio::task::block_in_place(|| self.journal.forget(id)) {
            tracing::warn!(%id, %error, "an ended container is not forgotten");
        }
    }
}

/// A last look before writing: what stands of these kinds and is neither the original nor one of `ours`. Its owner set it since the
/// decision was made; the next tick sees it and yields. A change in the few milliseconds between this look and the write is lost
/// to us: kernels and engines have no write that compares.
fn somebody_elses(target: &Target, settings: &[Setting], ours: &[Setting]) -> Option<Setting> {
    let stands = target.cgroup().limits();
    settings.iter().filter_map(|setting| standing(&stands, *setting)).find(|now| {
        let is_original = standing(&target.original, *now).is_none_or(|original| original == *now);
        !is_original && !ours.iter().any(|known| same(*known, *now))
    })
}

/// Nothing was asked of this container.
fn untouched(target: &Target) -> Outcome {
    let (id, original) = (target.id.clone(), Some(target.original));
    Outcome { id, stands: Vec::new(), original, asked: Vec::new(), error: None, gone: false }
}
