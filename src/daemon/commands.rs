//! Commands of operators, handled by the loop.

use super::event::Component;
use super::governing::{Governing, Waiter};
use super::job::Job;
use api::{Command, Request};
use limits::machine;
use model::{ContainerId, Objective, PolicyName, PolicySettings, Refusal};
use traininglog::LearningRecord;

impl Governing {
    /// Handles a command and sends the reply, which says what was done.
    pub(super) fn handle_request(&mut self, request: Request<Command>) {
        let waiter = Waiter { requested_by: request.requested_by, reply: request.reply };
        let (about, result) = match request.command {
            // These wait for the engine and the disk, and the loop must not.
            Command::Adopt { name, labels } => {
                return match config::check_labels(&labels) {
                    Ok(()) => self.send_limits_command(machine::Command::Adopt { name, labels }, waiter),
                    Err(problems) => self.answer(waiter, None, Err(Refusal::Invalid(problems.join("; ")))),
                };
            }
            Command::Disown(name) => return self.send_limits_command(machine::Command::Disown(name), waiter),
            Command::Release(name) => return self.send_limits_command(machine::Command::Release(name), waiter),
            Command::Govern(name) => return self.send_limits_command(machine::Command::Govern(name), waiter),
            Command::Record { service } => {
                let _ = waiter.reply.send(self.record_of(&service)); // the client hung up
                return;
            }
            Command::Expect { service, record } => (None, self.expect(&service, &record)),
            Command::Restore => return self.send_limits_command(machine::Command::Restore, waiter),
            Command::Pin { name, share } => self.pin(&name, share),
            Command::Unpin(name) => self.unpin(&name),
            Command::SetPolicy { policy, objective } => {
                let mut settings = self.settings.policy;
                settings.policy = policy;
                settings.objective = objective.map_or(settings.objective, |λ| Objective(λ.clamp(0.0, 1.0)));
                if let Err(why) = settings.can_be_fair_between_users() {
                    return self.answer(waiter, None, Err(Refusal::Refused(format!("policy.fair-between: {why}"))));
                }
                self.reconfigure(settings);
                (None, Ok(policy_set(&self.settings.policy)))
            }
            Command::Reload => (None, self.reload().map_err(Refusal::Failed)),
        };
        self.answer(waiter, about, result);
    }

    /// Returns the learning record of a service's job as JSON: of the one that runs, or else of the one that ended last.
    fn record_of(&self, service: &str) -> Result<String, Refusal> {
        let now = node::now();
        let is_of = |job: &&Job| job.service.as_deref() == Some(service);
        let running = self.jobs.values().map(Box::as_ref).filter(is_of).max_by_key(|job| job.started);
        let read = running.or_else(|| self.draining.jobs().filter(is_of).max_by_key(|job| job.started));
        let record = match read {
            Some(job) => job.record(now),
            None => self.carried.of(service).cloned(),
        };
        let nothing = || Refusal::NotFound(format!("no learning record of a job of the service {service}"));
        record.ok_or_else(nothing)?.to_json().map_err(|error| Refusal::Failed(error.to_string()))
    }

    /// Stores another node's learning record of a service's job until its container starts here.
    fn expect(&mut self, service: &str, record: &str) -> Result<String, Refusal> {
        if self.jobs.values().any(|job| job.service.as_deref() == Some(service)) {
            return Err(Refusal::Refused(format!(
                "the service {service} has a container that is governed here already"
            )));
        }
        let record = LearningRecord::parse(record).map_err(Refusal::Invalid)?;
        self.carried.expect(service, record, node::now());
        Ok(format!("the learning record of the service {service} is stored until its container starts"))
    }

    fn pin(&mut self, name: &str, share: Option<f64>) -> Outcome {
        let id = match self.limits.find(name) {
            Ok(id) => id,
            Err(refusal) => return (None, Err(refusal)),
        };
        let held = self.limits.hold(&id, node::now()).is_some();
        let policy = self.settings.policy.policy;
        let Some(job) = self.jobs.get_mut(&id) else { return (None, Err(Refusal::NotFound(name.to_owned()))) };
        let result = job.pin(share, policy, held);
        let about = Some((id, job.target.name.clone()));
        self.tick_now();
        (about, result)
    }

    fn unpin(&mut self, name: &str) -> Outcome {
        let id = match self.limits.find(name) {
            Ok(id) => id,
            Err(refusal) => return (None, Err(refusal)),
        };
        let Some(job) = self.jobs.get_mut(&id) else { return (None, Err(Refusal::NotFound(name.to_owned()))) };
        let result = job.unpin();
        let about = Some((id, job.target.name.clone()));
        self.tick_now();
        (about, result)
    }

    /// Reloads the configuration; on an error nothing changes.
    pub(super) fn reload(&mut self) -> Result<String, String> {
        match (self.reread)() {
            Ok(settings) => {
                let fixed = self.settings.restart_needed(&settings);
                self.reconfigure(settings.policy);
                self.settings = config::Settings {
                    on_exit: settings.on_exit,
                    users: settings.users,
                    notify: settings.notify,
                    history: settings.history,
                    gpu_control: settings.gpu_control,
                    freeze_at_most: settings.freeze_at_most,
                    ..self.settings.clone()
                };
                for job in self.jobs.values_mut() {
                    job.assign(&self.settings);
                }
                self.publisher.reconfigured(&self.settings);
                self.publisher.health(Component::Configuration, None);
                if fixed.is_empty() {
                    Ok("configuration reloaded".to_owned())
                } else {
                    Ok(format!("configuration reloaded; {} take effect after a restart", fixed.join(", ")))
                }
            }
            Err(errors) => {
                let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Err(format!("the configuration was not reloaded: {}", texts.join("; ")))
            }
        }
    }
}

/// Says what was set: `balanced` has an objective, for which operators have words of their own.
fn policy_set(settings: &PolicySettings) -> String {
    let objective = match (settings.policy, settings.objective) {
        (PolicyName::Balanced, Objective::COMPLETION) => " with objective 1 (completion)".to_owned(),
        (PolicyName::Balanced, Objective::QUALITY) => " with objective 0 (quality)".to_owned(),
        (PolicyName::Balanced, Objective(λ)) => format!(" with objective {λ}"),
        _ => String::new(),
    };
    format!("policy is {}{objective} until the next reload", format!("{:?}", settings.policy).to_lowercase())
}

/// The container that a command is about, and its result.
type Outcome = (Option<(ContainerId, String)>, Result<String, Refusal>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_set_the_policy_is_answered_with_what_it_set() {
        let set = |policy, objective| policy_set(&PolicySettings { policy, objective, ..PolicySettings::default() });
        let balanced = |objective| set(PolicyName::Balanced, objective);
        assert_eq!(set(PolicyName::Flowcon, Objective::BALANCED), "policy is flowcon until the next reload");
        assert_eq!(
            balanced(Objective::COMPLETION),
            "policy is balanced with objective 1 (completion) until the next reload"
        );
        assert_eq!(balanced(Objective::QUALITY), "policy is balanced with objective 0 (quality) until the next reload");
        assert_eq!(balanced(Objective(0.25)), "policy is balanced with objective 0.25 until the next reload");
    }
}
