//! Events of the engine and of scopes, turned into jobs and warnings.

use super::event::{Component, ScopeEvent};
use super::governing::Governing;
use super::job::Job;
use config::EngineChoice;
use docker::{EngineAddress, EngineContainer, EngineEvent, EngineInfo, EngineName};
use limits::machine;
use model::{ContainerId, EventKind, RunState, Runtime};
use std::collections::BTreeSet;

const NO_ENGINE: &str = "engine: none found";

impl Governing {
    pub(super) fn on_engine_event(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Connected(info) => self.engine_connected(info),
            EngineEvent::Lost(text) => self.engine_lost(&text),
            EngineEvent::Listed(containers) => self.listed(&containers),
            EngineEvent::Started(container) => self.found(&container),
            EngineEvent::Ended(id, exit_code) => self.end(&id, exit_code),
            EngineEvent::Removed(id) => {
                self.end(&id, None);
                self.handle_limits(machine::Event::Removed(id));
            }
            EngineEvent::Paused(id, paused) => self.pause_changed(&id, paused),
            EngineEvent::Renamed(id, name) => self.renamed(&id, &name),
            EngineEvent::Updated(id) => {
                if let Some(current) = self.jobs.get(&id).map(|job| job.target.cgroup().limits()) {
                    self.handle_limits(machine::Event::Updated(id, current));
                }
            }
            EngineEvent::Sign(id, sign) => self.sign_of_end(&id, sign),
            EngineEvent::Unreadable(id, text) => {
                let problem = match self.jobs.get(&id) {
                    Some(job) => {
                        format!("{} is governed as it was when its engine last described it: {text}", job.target.name)
                    }
                    None => format!("container {id} is not governed: {text}"),
                };
                self.publisher.readable(&id, Some(problem));
            }
            EngineEvent::Readable(id) => self.publisher.readable(&id, None),
            EngineEvent::Mislabelled(container) => {
                let docker::Mislabelled { id, name, labels } = container;
                let text = format!(
                    "{name} is not governed: it has {labels}, not flowcon.enable=true; next: flowctl adopt {name}, or start it \
                     with that label"
                );
                self.publisher.emit(EventKind::Notice, Some((id.as_str(), &name)), text);
            }
        }
    }

    pub(super) fn on_scope_event(&mut self, event: ScopeEvent) {
        match event {
            ScopeEvent::Started(scope, output) => {
                self.begin(Job::of_scope(&scope, output), &ContainerId::new(&scope.id));
            }
            ScopeEvent::Output(id, output) => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    let feed = job.output_feed(output);
                    self.logs.follow(&id, feed, job.place);
                }
            }
            ScopeEvent::Ended(id, exit_code, memory) => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.ending.read_at_end(memory, None);
                }
                self.end(&id, exit_code);
            }
        }
    }

    /// Handles a complete list of containers: jobs that are missing from it have ended.
    fn listed(&mut self, containers: &[EngineContainer]) {
        let present: BTreeSet<ContainerId> = containers.iter().map(|container| container.id.clone()).collect();
        self.end_missing(Runtime::Docker, &present);
        for container in containers {
            self.found(container);
            self.pause_changed(&container.id, container.paused);
        }
        self.all_listed(present);
    }

    /// Ends the jobs of a runtime that are not `present` any more.
    pub(super) fn end_missing(&mut self, runtime: Runtime, present: &BTreeSet<ContainerId>) {
        let of_runtime = self.jobs.values().filter(|job| job.target.runtime == runtime);
        let gone: Vec<ContainerId> =
            of_runtime.map(|job| job.id()).filter(|id| !present.contains(id)).cloned().collect();
        gone.iter().for_each(|id| self.end(id, None));
    }

    /// Handles the end of a complete list: everything in it that is wanted is governed now.
    pub(super) fn all_listed(&mut self, present: BTreeSet<ContainerId>) {
        if self.jobs.len() < self.jobs_at_most {
            self.publisher.health(Component::Capacity, None); // all of the list are governed
        }
        self.handle_limits(machine::Event::Listed(present));
        self.engine_reported = true;
    }

    /// Begins to govern a container if it has the label or was adopted. A known one may have another name.
    fn found(&mut self, container: &EngineContainer) {
        let this_run = (container.pid, container.started_unix_ms);
        if self.jobs.get(&container.id).is_some_and(|job| job.run == this_run) {
            return self.renamed(&container.id, &container.name);
        }
        let adoption = self.limits.adoption(&container.id);
        if adoption.is_none() && !container.has_label(&self.settings.label) {
            return;
        }
        if let Some(info) = &self.engine {
            let job = Job::of_container(container, info, adoption);
            self.begin(job, &container.id);
        }
    }

    fn pause_changed(&mut self, id: &ContainerId, paused: bool) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let state = if paused { RunState::Paused } else { RunState::Running };
        if job.state != state {
            job.state = state;
            self.tick_now();
            self.paused_by_engine(id, paused);
        }
    }

    /// Gives a job its new name everywhere. Each list of the engine reports the name again.
    fn renamed(&mut self, id: &ContainerId, name: &str) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.target.name != name) else { return };
        let before = std::mem::replace(&mut job.target.name, name.to_owned());
        self.handle_limits(machine::Event::Renamed(id.clone(), name.to_owned()));
        self.publisher.emit(EventKind::Runtime, Some((id.as_str(), name)), format!("{before} was renamed to {name}"));
        self.publish();
    }

    fn engine_connected(&mut self, info: EngineInfo) {
        let word = match info.name {
            EngineName::Docker => "docker",
            EngineName::Podman => "podman",
        };
        self.runtime_connected(format!("{word}: connected ({})", info.version));
        self.actuator.connected(info.clone());
        self.handle_limits(machine::Event::Connected(info.mark.clone()));
        self.engine = Some(info);
    }

    /// Publishes the connection to the engine or the runtime of pods.
    pub(super) fn runtime_connected(&mut self, state: String) {
        self.engine_state = state;
        self.publisher.emit(EventKind::Runtime, None, self.engine_state.clone());
        if let Some(text) = self.lost.take() {
            self.publisher.unwarn(&text);
        }
    }

    fn engine_lost(&mut self, text: &str) {
        self.engine_reported = true;
        if self.engine.is_none() && self.settings.engine == EngineChoice::Auto && EngineAddress::no_local_engine() {
            // A host without an engine only governs commands, and needs no warning.
            if self.engine_state != NO_ENGINE {
                self.engine_state = NO_ENGINE.to_owned();
                self.publisher.emit(EventKind::Runtime, None, format!("{NO_ENGINE}; commands are governed: {text}"));
            }
            return;
        }
        self.runtime_lost(text);
    }

    /// Publishes the loss of the connection to the engine or the runtime of pods.
    pub(super) fn runtime_lost(&mut self, text: &str) {
        self.engine_reported = true;
        self.engine_state = "engine: not reachable".to_owned();
        self.publisher.warn(text);
        self.lost = Some(text.to_owned());
    }
}
