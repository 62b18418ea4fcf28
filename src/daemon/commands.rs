//! What an operator may ask, carried out by the loop.

use super::adoption::Asker;
use super::governing::Governing;
use crate::api::{Command, Refusal, Request};
use crate::model::{ContainerId, EventKind, Objective};

impl Governing {
    /// Carries out a command; the answer says in words what was done.
    pub(super) fn obey(&mut self, request: Request) {
        let asker = Asker { asked_by: request.asked_by, reply: request.reply };
        let about = about(&request.command).and_then(|name| self.find(name).ok());
        let done = match request.command {
            // These wait for the engine and the disk, and the loop does not.
            Command::Adopt { name, labels } => return self.adopt(name, labels, asker),
            Command::Disown(name) => return self.disown(&name, asker),
            Command::Pause(name) => return self.pause(name.as_deref(), asker),
            Command::Resume(name) => return self.resume(name.as_deref(), asker),
            Command::Restore => return self.restore_all(asker),
            Command::Pin { name, share } => self.pin(&name, share),
            Command::Unpin(name) => self.unpin(&name),
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

/// The container that a command is about, where it is about one and is answered at once.
fn about(command: &Command) -> Option<&str> {
    match command {
        Command::Pin { name, .. } | Command::Unpin(name) => Some(name),
        _ => None,
    }
}

pub(super) fn gone(name: &str) -> Refusal {
    Refusal::NotFound(format!("no governed container `{name}`; `flowctl ps` lists them"))
}
