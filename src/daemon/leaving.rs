//! Leaving containers alone and taking them back: pause, resume, restore, and the end of the daemon.
//!
//! Each of these asks the actuator, which may wait for an engine, and the loop goes on meanwhile. Whoever asked is answered when it is
//! known what came of it, or soon, with what is not done yet; what failed is tried again as long as the container is left alone.
//! Imports: the actuator, api's commands, host, model.

use super::actuator::Order;
use super::adoption::Asker;
use super::event::Event;
use super::governing::Governing;
use super::restore::Restored;
use crate::api::Refusal;
use crate::config::OnExit;
use crate::host::systemd;
use crate::limits::Then;
use crate::model::{ContainerId, EventKind};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, sleep_until};

/// Whoever asks over the API is told within its time limit how far it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// What is not restored by then is told, and tried again later.
const RESTORE_WITHIN: Duration = Duration::from_secs(50);
/// Restoring at the end must fit in the time that systemd gives a service to stop.
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// Somebody waits for what came of a command.
pub(super) struct Waiting {
    asker: Asker,
    about: About,
    until: Instant,
}

/// What they asked for.
#[derive(Clone, Debug, PartialEq)]
enum About {
    Pause(Option<ContainerId>),
    Resume(Option<ContainerId>),
    Restore,
}

impl Governing {
    /// Leaves a container alone, or all.
    pub(super) fn pause(&mut self, name: Option<&str>, asker: Asker) {
        let id = match name.map(|name| self.find(name)).transpose() {
            Ok(id) => id,
            Err(refusal) => return self.answer(asker, None, Err(refusal)),
        };
        match &id {
            None => self.paused = true,
            Some(id) => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.ledger.leave_alone();
                }
            }
        }
        let is_meant = |job: &ContainerId| id.as_ref().is_none_or(|id| id == job);
        let meant = self.jobs.values().filter(|job| is_meant(job.id()) && job.ledger.owes_anything());
        let pieces = meant.map(|job| job.returning(Then::Keep)).collect();
        self.return_limits(pieces);
        self.wait(asker, About::Pause(id));
    }

    /// Governs a container again, or all. What somebody else set becomes the original, to be restored one day.
    pub(super) fn resume(&mut self, name: Option<&str>, asker: Asker) {
        let id = match name.map(|name| self.find(name)).transpose() {
            Ok(id) => id,
            Err(refusal) => return self.answer(asker, None, Err(refusal)),
        };
        if id.is_some() && self.paused {
            let text = "everything is paused; `flowctl resume --all` ends that";
            return self.answer(asker, None, Err(Refusal::Refused(text.to_owned())));
        }
        if self.restoring > 0 {
            let text = "everything is being restored; try again when that has ended (`flowctl watch` tells)";
            return self.answer(asker, None, Err(Refusal::Refused(text.to_owned())));
        }
        if id.is_none() {
            self.paused = false;
        }
        let ids: Vec<ContainerId> =
            id.as_ref().map_or_else(|| self.jobs.keys().cloned().collect(), |id| vec![id.clone()]);
        ids.iter().for_each(|id| self.release(id));
        self.wait(asker, About::Resume(id));
    }

    /// Ends every hold; that of somebody else's limits when it is known that nothing but theirs stands.
    fn release(&mut self, id: &ContainerId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.ledger.release() {
            let piece = job.returning(Then::Accept);
            self.return_limits(vec![piece]);
        }
        self.tick_now();
    }

    /// Puts everything in the journal back, and leaves it.
    pub(super) fn restore_all(&mut self, asker: Asker) {
        self.paused = true;
        if self.restoring > 0 {
            let text = "everything is being restored already".to_owned();
            return self.answer(asker, None, Err(Refusal::Refused(text)));
        }
        if !self.actuator.order(Order::RestoreAll { until: Instant::now() + RESTORE_WITHIN }) {
            let text = "too many limits wait to be written; everything is paused: try again".to_owned();
            return self.answer(asker, None, Err(Refusal::Failed(text)));
        }
        self.in_flight += 1;
        self.restoring += 1;
        self.wait(asker, About::Restore);
    }

    /// Only what really went back is forgotten.
    pub(super) fn restored(&mut self, restored: Restored) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.restoring = self.restoring.saturating_sub(1);
        for id in &restored.settled {
            self.remembered.originals.remove(id);
            if let Some(job) = self.jobs.get_mut(id) {
                job.ledger.settle();
            }
        }
        self.jobs.values_mut().for_each(|job| job.read_limits());
        let Restored { back, left, failed, .. } = restored;
        let done = if failed.is_empty() {
            let left = if left.is_empty() { String::new() } else { format!("; left alone: {}", left.join("; ")) };
            Ok(format!("restored {} and paused{left}; `flowctl resume --all` governs again", back.len()))
        } else {
            let text = format!("{}; everything is paused, and what failed is tried again", failed.join("; "));
            Err(Refusal::Failed(text))
        };
        let asked = self.waiting.iter().position(|waiting| waiting.about == About::Restore);
        match (asked, done) {
            (Some(asked), done) => {
                let waiting = self.waiting.remove(asked);
                self.answer(waiting.asker, None, done);
            }
            // Whoever asked was told that it takes long.
            (None, Ok(text)) => self.publisher.tell(EventKind::Command, None, text),
            (None, Err(refusal)) => self.publisher.warn(&format!("not everything is restored: {refusal}")),
        }
        self.answer_waiting();
        self.publish();
    }

    fn wait(&mut self, asker: Asker, about: About) {
        self.waiting.push(Waiting { asker, about, until: Instant::now() + ANSWER_WITHIN });
        self.answer_waiting();
    }

    /// When the next of those that wait has waited long enough.
    pub(super) fn answer_at(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// Answers those of whom it is known what came of their commands, and those that have waited long enough.
    pub(super) fn answer_waiting(&mut self) {
        let now = Instant::now();
        for waiting in std::mem::take(&mut self.waiting) {
            let is_known = match &waiting.about {
                About::Pause(_) => self.in_flight == 0,
                About::Resume(id) => self.in_flight == 0 || self.undone(id.as_ref(), &waiting.about).is_empty(),
                About::Restore => false,
            };
            if !is_known && now < waiting.until {
                self.waiting.push(waiting);
                continue;
            }
            let done = self.came_of(&waiting.about);
            let about = match &waiting.about {
                About::Pause(Some(id)) | About::Resume(Some(id)) => {
                    self.jobs.get(id).map(|job| (id.clone(), job.target.name.clone()))
                }
                _ => None,
            };
            self.answer(waiting.asker, about, done);
        }
    }

    fn came_of(&self, about: &About) -> Result<String, Refusal> {
        let failed = |text: String| Err(Refusal::Failed(text));
        let undone = match about {
            About::Pause(id) | About::Resume(id) => self.undone(id.as_ref(), about),
            About::Restore => self.undone(None, about),
        };
        let name = |id: &ContainerId| self.jobs.get(id).map_or(id.short(), |job| &job.target.name).to_owned();
        match (about, undone) {
            (About::Restore, undone) => failed(format!(
                "it takes longer than {} s, and goes on{}; everything is paused; `flowctl status` and `flowctl watch` tell the rest",
                ANSWER_WITHIN.as_secs(),
                if undone.is_empty() { String::new() } else { format!("; not back yet: {undone}") }
            )),
            (About::Pause(None), undone) if undone.is_empty() => {
                Ok("paused: every container has its original limits and is left alone".to_owned())
            }
            (About::Pause(Some(id)), undone) if undone.is_empty() => {
                Ok(format!("{} is paused: it has its original limits and is left alone", name(id)))
            }
            (About::Pause(_), undone) => failed(format!(
                "paused: nothing is changed any more, but original limits are not back yet and will be put back: {undone}"
            )),
            (About::Resume(None), undone) if undone.is_empty() => Ok("resumed: every container is governed".to_owned()),
            (About::Resume(Some(id)), undone) if undone.is_empty() => Ok(format!("{} is governed", name(id))),
            (About::Resume(_), undone) => failed(format!(
                "not governed yet, because limits of ours still stand beside somebody else's: {undone}; try again"
            )),
        }
    }

    /// Which containers are not as they should be after a command, and why, in words.
    fn undone(&self, id: Option<&ContainerId>, about: &About) -> String {
        let jobs = self.jobs.values().filter(|job| id.is_none_or(|id| id == job.id()));
        let is_undone = |job: &super::job::Job| match about {
            About::Resume(_) => job.ledger.holds().foreign.is_some(),
            _ => !job.ledger.leftover().is_empty() || self.in_flight > 0 && job.ledger.owes_anything(),
        };
        let undone = jobs.filter(|job| is_undone(job));
        let words = undone.map(|job| match &job.ledger.holds().unwritable {
            Some((why, _)) => format!("{} ({why})", job.target.name),
            None => job.target.name.clone(),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Saves what was read and restores, as configured. Whoever has something to tell is heard meanwhile, and nothing is done about it.
    pub(super) async fn stop(&mut self, inbox: &mut mpsc::Receiver<Event>, alive: &mut Interval) {
        systemd::notify(&systemd::Notice::Stopping);
        self.learn_from_departed(|_, _| true);
        let mut orders = self.last_positions();
        let restores = self.settings.on_exit == OnExit::Restore;
        if restores {
            orders.push(Order::RestoreAll { until: Instant::now() + RESTORE_WITHIN });
        }
        let room = self.actuator.orders();
        let asking = async move {
            for order in orders {
                let _ = room.send(order).await; // the task ends after its handle
            }
        };
        tokio::pin!(asking);
        let (mut asked, deadline) = (false, Instant::now() + STOP_WITHIN);
        let mut restoring = self.restoring + usize::from(restores);
        loop {
            tokio::select! {
                () = &mut asking, if !asked => {
                    asked = true;
                    if !restores {
                        return;
                    }
                }
                event = inbox.recv() => if let Some(Event::Restored(restored)) = event {
                    let Restored { back, left, failed, .. } = restored;
                    tracing::info!(back = back.len(), ?left, ?failed, "restored");
                    restoring -= 1;
                    if restoring == 0 && asked {
                        return;
                    }
                },
                _ = alive.tick() => systemd::notify(&systemd::Notice::Alive),
                () = sleep_until(deadline) => {
                    return tracing::error!("not everything was restored in time; run `flowcond restore`");
                }
            }
        }
    }
}
