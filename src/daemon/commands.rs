//! What an operator may ask, carried out by the loop.

use super::actuator::Order;
use super::adoption::Asker;
use super::governing::Governing;
use super::job::Holds;
use crate::api::{Command, Refusal, Request};
use crate::model::{ContainerId, EventKind, Objective};
use tokio::sync::oneshot;

impl Governing {
    /// Carries out a command; the answer says in words what was done.
    pub(super) async fn obey(&mut self, request: Request) {
        let asker = Asker { asked_by: request.asked_by, reply: request.reply };
        let about = about(&request.command).and_then(|name| self.find(name).ok());
        let done = match request.command {
            // These wait for the engine and the disk, and the loop does not.
            Command::Adopt { name, labels } => return self.adopt(name, labels, asker),
            Command::Disown(name) => return self.disown(&name, asker),
            Command::Pause(None) => Ok(self.pause_all().await),
            Command::Pause(Some(name)) => self.pause(&name).await,
            Command::Resume(None) => Ok(self.resume_all().await),
            Command::Resume(Some(name)) => self.resume(&name).await,
            Command::Pin { name, share } => self.pin(&name, share),
            Command::Unpin(name) => self.unpin(&name),
            Command::Restore => self.restore_all().await,
            Command::SetPolicy { policy, objective } => {
                let mut settings = self.settings.policy;
                settings.policy = policy;
                settings.objective = objective.map_or(settings.objective, |λ| Objective(λ.clamp(0.0, 1.0)));
                self.reconfigure(settings);
                Ok(format!("policy is {policy:?} until the next reload").to_lowercase())
            }
            Command::Reload => self.reload().map_err(Refusal::Failed),
        };
        let named = about.and_then(|id| Some((id.clone(), self.jobs.get(&id)?.target.name.clone())));
        self.answer(asker, named, done);
    }

    /// Tells what was done, or why not, to whoever asked; what was done also to everybody who watches.
    pub(super) fn answer(&mut self, asker: Asker, about: Option<(ContainerId, String)>, done: Result<String, Refusal>) {
        if let Ok(done) = &done {
            let about = about.as_ref().map(|(id, name)| (id.as_str(), name.as_str()));
            self.publisher.tell(EventKind::Command, about, format!("{done} (asked by {})", asker.asked_by));
            self.publish();
        }
        let _ = asker.reply.send(done); // the client hung up
    }

    async fn pause_all(&mut self) -> String {
        self.paused = true;
        let targets = self.jobs.values().map(|job| job.target.clone()).collect();
        self.return_limits(targets).await;
        "paused: every container has its original limits and is left alone".to_owned()
    }

    async fn pause(&mut self, name: &str) -> Result<String, Refusal> {
        let id = self.find(name)?;
        let Some(job) = self.jobs.get_mut(&id) else { return Err(gone(name)) };
        job.holds.operator = true;
        let target = job.target.clone();
        let text = format!("{} is paused: it has its original limits and is left alone", target.name);
        self.return_limits(vec![target]).await;
        Ok(text)
    }

    async fn resume_all(&mut self) -> String {
        self.paused = false;
        let ids: Vec<ContainerId> = self.jobs.keys().cloned().collect();
        for id in ids {
            self.release(&id).await;
        }
        "resumed: every container is governed".to_owned()
    }

    async fn resume(&mut self, name: &str) -> Result<String, Refusal> {
        let id = self.find(name)?;
        if self.paused {
            let text = "everything is paused; `flowctl resume` without a name ends that";
            return Err(Refusal::Refused(text.to_owned()));
        }
        self.release(&id).await;
        Ok(format!("{} is governed", self.jobs.get(&id).map_or(name, |job| &job.target.name)))
    }

    /// Ends every hold. What somebody else set becomes the original, to be restored one day.
    async fn release(&mut self, id: &ContainerId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let foreign = job.holds.foreign.is_some();
        job.holds = Holds::default();
        self.tick_now();
        let Some(job) = self.jobs.get_mut(id).filter(|_| foreign) else { return };
        job.target.ours.clear();
        let stands = job.target.cgroup().limits();
        job.target.original = stands;
        let target = job.target.clone();
        self.remembered.originals.remove(id);
        self.in_flight += 1;
        self.actuator.order_surely(Order::Accept(target)).await;
    }

    async fn restore_all(&mut self) -> Result<String, Refusal> {
        self.paused = true;
        let (reply, restored) = oneshot::channel();
        self.actuator.order_surely(Order::RestoreAll(reply)).await;
        let restored = restored.await.map_err(|_| Refusal::Failed("the daemon is stopping".to_owned()))?;
        for job in self.jobs.values_mut() {
            job.target.ours.clear();
        }
        self.remembered.originals.clear();
        if !restored.failed.is_empty() {
            return Err(Refusal::Failed(restored.failed.join("; ")));
        }
        let left = if restored.left.is_empty() {
            String::new()
        } else {
            format!("; left alone: {}", restored.left.join("; "))
        };
        Ok(format!("restored {} and paused{left}; `flowctl resume` governs again", restored.back.len()))
    }

    /// Reads the configuration again; on an error everything stays as it is.
    pub(super) fn reload(&mut self) -> Result<String, String> {
        match (self.reread)() {
            Ok(settings) => {
                let fixed = self.settings.restart_needed(&settings);
                self.reconfigure(settings.policy);
                self.publisher.reconfigure_history(&settings);
                self.settings = crate::config::Settings {
                    on_exit: settings.on_exit,
                    history: settings.history,
                    ..self.settings.clone()
                };
                if fixed.is_empty() {
                    Ok("configuration reloaded".to_owned())
                } else {
                    Ok(format!("configuration reloaded; {} take effect after a restart", fixed.join(", ")))
                }
            }
            Err(errors) => {
                let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Err(format!("the old configuration stays: {}", texts.join("; ")))
            }
        }
    }

    pub(super) fn find(&self, name: &str) -> Result<ContainerId, Refusal> {
        let exact = |id: &ContainerId| id.as_str() == name;
        if let Some(id) = self.jobs.keys().find(|id| exact(id)) {
            return Ok(id.clone());
        }
        let mut named: Vec<&ContainerId> =
            self.jobs.iter().filter(|(_, job)| job.target.name == name).map(|(id, _)| id).collect();
        if named.is_empty() && name.len() >= 4 {
            named = self.jobs.keys().filter(|id| id.as_str().starts_with(name)).collect();
        }
        match named.as_slice() {
            [id] => Ok((*id).clone()),
            [] => Err(gone(name)),
            many => {
                let ids: Vec<&str> = many.iter().map(|id| id.short()).collect();
                Err(Refusal::Refused(format!("`{name}` names several containers: {}; use an id", ids.join(", "))))
            }
        }
    }
}

/// The container that a command is about, where it is about one.
fn about(command: &Command) -> Option<&str> {
    match command {
        Command::Pause(name) | Command::Resume(name) => name.as_deref(),
        Command::Pin { name, .. } | Command::Unpin(name) => Some(name),
        Command::Adopt { .. } | Command::Disown(_) | Command::Restore | Command::SetPolicy { .. } | Command::Reload => {
            None
        }
    }
}

pub(super) fn gone(name: &str) -> Refusal {
    Refusal::NotFound(format!("no governed container `{name}`; `flowctl ps` lists them"))
}
