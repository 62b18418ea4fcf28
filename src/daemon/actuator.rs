//! Carries out limit changes: the original durable first, then the engine or the cgroup, then a reading of what stands.
//!
//! A task of its own, one order at a time, so that a slow disk or engine never delays what the loop sees. Guarantees: nothing is
//! written that is not journalled; an order always ends in one [`Event::Actuated`]; every call has a time limit.

use super::event::Event;
use super::journal::{Journal, back_to};
use super::restore::{self, Restored};
use super::target::{Target, same, standing, stands_in};
use crate::host::docker::{Conversion, Engine, EngineInfo, EngineName};
use crate::host::store::ReadPosition;
use crate::host::systemd::Systemd;
use crate::model::{Adoption, ContainerId, Limits, Runtime, Setting, TrainingId};
use futures_util::{StreamExt, stream};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Containers whose limits are written at the same time.
const WRITES_AT_ONCE: usize = 4;
const ORDERS_AT_MOST: usize = 64;

/// What the loop asks for.
pub(super) enum Order {
    /// Write these settings; the first list loosens and goes first.
    Change { loosen: Vec<(Target, Vec<Setting>)>, tighten: Vec<(Target, Vec<Setting>)> },
    /// Put the originals of these back, as far as what stands is still ours.
    Return(Vec<Target>),
    /// What stands is the new original of this container: somebody set it on purpose.
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
    /// Put everything in the journal back and answer.
    RestoreAll(oneshot::Sender<Restored>),
}

/// What became of one container's settings.
#[derive(Debug)]
pub(super) struct Outcome {
    pub id: ContainerId,
    /// What stands afterwards, of the kinds that were asked for.
    pub stands: Vec<Setting>,
    /// The original that the journal holds; `None` = it is no longer in the journal.
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
    pub fn start(journal: Journal, engine: Option<Engine>, events: mpsc::Sender<Event>) -> Actuator {
        let (orders, inbox) = mpsc::channel(ORDERS_AT_MOST);
        let connected = Connected::default();
        let task = Task { journal, writer: Writer { engine, connected: connected.clone(), systemd: None }, events };
        tokio::spawn(task.run(inbox));
        Actuator { orders, connected }
    }

    /// Asks; `false` when too much is waiting already, and nothing was asked.
    pub fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Waits for room and asks.
    pub async fn order_surely(&self, order: Order) {
        // The task ends with its handle only.
        let _ = self.orders.send(order).await;
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
                Order::Accept(target) => vec![self.accept(&target)],
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
                Order::RestoreAll(reply) => {
                    let restored = restore::everything(&mut self.journal, &mut self.writer).await;
                    let _ = reply.send(restored); // nobody waits: it is done all the same
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

    fn accept(&mut self, target: &Target) -> Outcome {
        let forgotten = tokio::task::block_in_place(|| self.journal.forget(&target.id));
        Outcome { original: None, error: forgotten.err(), ..untouched(target) }
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
        if original.runtime == Runtime::Docker && !self.writer.return_record(&original, &written).await {
            return; // the journal keeps it: the next start or restore tries again
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

/// Writes limits by whichever way belongs to the container.
pub(super) struct Writer {
    pub engine: Option<Engine>,
    pub connected: Connected,
    pub systemd: Option<Systemd>,
}

impl Writer {
    /// The engine's description, where it is connected.
    pub fn info(&self) -> Option<EngineInfo> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub async fn connect_systemd(&mut self, targets: impl Iterator<Item = &Target>) {
        if self.systemd.is_none() && targets.into_iter().any(|target| target.unit.is_some()) {
            self.systemd = Systemd::connect().await.map_err(|error| tracing::warn!(%error, "no D-Bus")).ok();
        }
    }

    /// Writes `settings` and reads back what stands.
    pub async fn write(&self, target: &Target, settings: Vec<Setting>) -> Outcome {
        let mut error = None;
        let mut gone = false;
        match self.by_owner(target, &settings).await {
            Ok(rest) => {
                for setting in rest {
                    error = self.by_cgroup(target, setting).await.err().or(error);
                }
            }
            Err(failed) => {
                gone = failed.is_gone();
                error = (!gone).then(|| failed.to_string());
            }
        }
        if error.is_none() && !gone {
            self.correct_weight(target, &settings).await;
        }
        let limits = target.cgroup().limits();
        let stands: Vec<Setting> = settings.iter().filter_map(|setting| standing(&limits, *setting)).collect();
        gone |= !target.cgroup().populated();
        let error = error.filter(|_| !gone);
        Outcome { id: target.id.clone(), stands, original: Some(target.original), asked: settings, error, gone }
    }

    /// Through the engine where it may be; what is left must be written to the cgroup.
    async fn by_owner(
        &self,
        target: &Target,
        settings: &[Setting],
    ) -> Result<Vec<Setting>, crate::host::docker::EngineError> {
        let (Runtime::Docker, false) = (target.runtime, target.gpu_hook) else { return Ok(settings.to_vec()) };
        let Some(engine) = &self.engine else { return Ok(settings.to_vec()) };
        let conversion = self.info().map_or(Conversion::expected(1, None), |info| info.conversion);
        let original = target.engine_limits.unwrap_or_default();
        let (mut rest, by_engine): (Vec<Setting>, Vec<Setting>) =
            settings.iter().partition(|setting| self.is_systemds(target, **setting));
        if !by_engine.is_empty() {
            rest.extend(engine.update(&target.id, &original, conversion, &by_engine).await?.not_by_engine);
        }
        Ok(rest)
    }

    /// Engines write the block I/O weight behind systemd's back, and it is reverted by the next change of any property.
    fn is_systemds(&self, target: &Target, setting: Setting) -> bool {
        self.systemd.is_some() && target.unit.is_some() && matches!(setting, Setting::IoWeight(_))
    }

    async fn by_cgroup(&self, target: &Target, setting: Setting) -> Result<(), String> {
        if let (Some(systemd), Some(unit)) = (&self.systemd, &target.unit) {
            match systemd.set(unit, setting).await {
                Ok(()) => return Ok(()),
                // The file is reverted by the next daemon-reload, and written again then.
                Err(error) => tracing::debug!(%error, "written to the cgroup instead"),
            }
        }
        target.cgroup().write(setting).map(drop).map_err(|error| error.to_string())
    }

    /// Engines turn `cpu_shares` into a weight in one of two ways; what was read back tells which, and it is asked once more.
    async fn correct_weight(&self, target: &Target, settings: &[Setting]) {
        let Some(Setting::CpuWeight(wanted)) = settings.iter().find(|s| matches!(s, Setting::CpuWeight(_))) else {
            return;
        };
        let Some(mut info) = self.info() else { return };
        let stands = target.cgroup().limits().cpu_weight;
        let Some(stands) = stands.filter(|now| !same(Setting::CpuWeight(*now), Setting::CpuWeight(*wanted))) else {
            return;
        };
        let detected = Conversion::detect(info.conversion.shares(*wanted), stands.number());
        let Some(conversion) = detected.filter(|found| *found != info.conversion) else { return };
        tracing::info!(?conversion, "the engine converts CPU shares differently than expected");
        info.conversion = conversion;
        *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
        if let Err(error) = self.by_owner(target, &[Setting::CpuWeight(*wanted)]).await {
            tracing::debug!(%error, "the weight is corrected at the next tick");
        }
    }

    /// Puts the engine's record of a container that does not run back; `true` when it is back or the container is gone.
    pub async fn return_record(&self, original: &crate::host::store::Original, written: &[Setting]) -> bool {
        let (Some(engine), Some(info)) = (&self.engine, self.info()) else { return false };
        let mut settings = back_to(&original.limits, written);
        // Where systemd has the cgroups, this one was never put into the record.
        settings.retain(|setting| info.cgroup_driver != "systemd" || !matches!(setting, Setting::IoWeight(_)));
        if settings.is_empty() {
            return true;
        }
        let limits = original.engine.unwrap_or_default();
        match engine.update(&original.id, &limits, info.conversion, &settings).await {
            Ok(_) => true,
            // One that ends at this moment refuses, and its record stays as we left it.
            Err(error) => error.is_missing() || info.name == EngineName::Podman && !error.is_engine_lost(),
        }
    }
}
