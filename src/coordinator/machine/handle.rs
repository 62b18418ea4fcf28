//! Handles events: updates the state and runs the steps that follow.

use super::event::{At, Effect, Event};
use super::job::Job;
use super::known_work::Training;
use super::labels::{bounded, is_queued};
use super::record::JobPhase;
use super::rented_node::Rental;
use super::state::{Machine, Memory, NodeLeases, Seen, SeenNode, SwarmState};
use model::Millis;
use model::swarm::{NodeId, NodeReport, ServiceId, Swarm, SwarmService, SwarmTask};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Machine {
    /// Handles an event and returns the effects to execute, in order. Never blocks and does no I/O.
    #[must_use]
    pub fn handle(&mut self, event: Event, at: At) -> Vec<Effect> {
        match event {
            Event::Looked { look, swarm } => self.looked(look, swarm, at),
            Event::Polled { node, leases, asked, report } => self.polled(&node, &leases, asked, report, at),
            Event::Changed { service, version, outcome } => self.changed(&service, version, &outcome, at),
            Event::NodeChanged { node, version, outcome } => self.node_changed(&node, version, &outcome, at),
            Event::Attested(question, attestation) => {
                self.attested(&question, attestation, at);
                self.act_on(&question.service, at);
            }
            Event::Claimed { claim, version, outcome } => {
                self.claimed(&claim, version, outcome, at);
                self.act_on(&claim.owner.service, at);
            }
            Event::HookEnded { node, outcome } => self.hook_ended(&node, outcome, at),
            Event::Carried { service, number, outcome } => {
                self.carried(&service, number, outcome, at);
                self.act_on(&service, at);
            }
            Event::Command(command, command_id) => self.command(command, command_id, at),
            Event::Tick => self.tick(at),
            Event::Reconfigured(settings) => self.settings = *settings,
        }
        if self.acts(at) {
            self.poll(at);
        }
        self.look_if_due(at);
        std::mem::take(&mut self.effects)
    }

    /// Whether a stopped job waits for its proof. Ticks should then be more frequent.
    #[must_use]
    pub fn is_proving(&self) -> bool {
        self.seen.values().any(is_to_prove)
    }

    fn looked(&mut self, look: u64, swarm: Result<Swarm, String>, at: At) {
        if look != self.looks.last || self.looks.until.take().is_none() {
            return; // too late: another look is in flight
        }
        match swarm {
            Err(why) => {
                self.has_news |= self.look_error.is_none();
                self.look_error = Some(bounded(&why, 200));
            }
            Ok(swarm) => {
                self.has_news |= self.look_error.take().is_some();
                self.take_in(look, swarm, at);
                if self.acts(at) {
                    self.act(at);
                }
            }
        }
        if self.has_news || at.now.since(self.planned) >= self.settings.plan_every {
            (self.has_news, self.planned) = (false, at.now);
            if self.look_error.is_none() && self.acts(at) {
                self.plan(at);
            }
            self.publish(at);
        }
    }

    fn take_in(&mut self, look: u64, swarm: Swarm, at: At) {
        let acts_since = match &self.swarm {
            Some(before) if before.is_leader && swarm.is_leader => before.acts_since,
            _ => at.now,
        };
        self.has_news |= self.swarm.as_ref().is_none_or(|before| before.is_leader != swarm.is_leader);
        let is_first = self.swarm.is_none();
        let begins = swarm.is_leader && self.swarm.as_ref().is_none_or(|before| !before.is_leader);
        self.swarm = Some(SwarmState { is_leader: swarm.is_leader, at: at.now, acts_since });
        let mut before = std::mem::take(&mut self.nodes);
        for node in swarm.nodes {
            let known = before.remove(&node.id);
            self.has_news |= known.as_ref().is_none_or(|known| known.node != node);
            let seen = match known {
                Some(mut seen) => {
                    let before = std::mem::replace(&mut seen.node, node);
                    seen.rental.remember_stage(&before, &seen.node, at);
                    seen
                }
                None => SeenNode {
                    node,
                    report: None,
                    used_cores: VecDeque::new(),
                    poll_error: None,
                    poll_due: at.now,
                    leases: NodeLeases::default(),
                    rental: Rental::default(),
                },
            };
            self.nodes.insert(seen.node.id.clone(), seen);
        }
        let mut tasks: BTreeMap<ServiceId, Vec<SwarmTask>> = BTreeMap::new();
        for task in swarm.tasks {
            tasks.entry(task.service.clone()).or_default().push(task);
        }
        let mut before = std::mem::take(&mut self.seen);
        for service in swarm.services.into_iter().filter(|service| is_queued(&service.labels)) {
            let tasks = tasks.remove(&service.id).unwrap_or_default();
            let known = before.remove(&service.id);
            self.has_news |= known.as_ref().is_none_or(|known| known.service.version != service.version);
            let seen = take_in_service(known, service, tasks, look);
            self.seen.insert(seen.service.id.clone(), seen);
        }
        self.shared_volumes = self.find_shared_volumes();
        if begins {
            self.learn_from_ended();
        }
        if is_first {
            self.recall();
        }
        for (id, gone) in before {
            self.has_news = true;
            if let Some(command_id) = gone.memory.pending.and_then(|pending| pending.command_id) {
                self.command_done(&id, Some(command_id));
            }
            self.emit(None, format!("service {} was removed or is no longer a job", gone.service.name));
        }
    }

    /// Learns from the labels how much work trainings need, when another coordinator has acted until now.
    fn learn_from_ended(&mut self) {
        (self.usual_work, self.ended_trainings) = Default::default();
        let jobs = self.seen.values().filter_map(|seen| seen.job.as_ref().ok());
        for training in jobs.filter_map(|job| Training::recorded(&job.program, &job.record)) {
            self.usual_work.add(training.work());
            self.ended_trainings.add(training);
        }
    }

    /// Publishes what the labels say about the past.
    fn recall(&mut self) {
        let jobs = self.seen.values().filter_map(|seen| Some((&seen.service.name, seen.job.as_ref().ok()?)));
        let event = |name: &Arc<str>, (at, text): &(Millis, Arc<str>)| (*at, name.clone(), text.clone());
        let events = jobs.flat_map(|(name, job)| job.record.log.iter().map(move |past| event(name, past)));
        let mut events: Vec<_> = events.collect();
        events.sort_by_key(|(at, ..)| *at);
        if !events.is_empty() {
            self.effects.push(Effect::Recall(events));
        }
    }

    fn polled(
        &mut self,
        node: &NodeId,
        leases: &[ServiceId],
        asked: Millis,
        mut report: Result<NodeReport, String>,
        at: At,
    ) {
        if let Ok(report) = &mut report {
            report.saved.sort();
        }
        let due = at.now.after(self.settings.poll_every);
        if let Ok(report) = &report {
            self.evaluate(node, report, at);
            for worker in &report.workers {
                if let Some(seen) = self.seen.get_mut(&worker.service) {
                    seen.memory.last_report = Some(worker.clone());
                }
            }
            for id in leases {
                if let Some(seen) = self.seen.get_mut(id) {
                    seen.memory.renewed = Some(node.clone());
                }
            }
        }
        let Some(seen) = self.nodes.get_mut(node) else { return };
        seen.poll_due = due;
        let governed = |seen: &SeenNode| seen.report.as_ref().map(|(_, report)| report.is_governed);
        let was_governed = governed(seen);
        match report {
            Ok(report) => {
                seen.leases.take_in(asked, leases, &report);
                seen.note_use(report.used_cores);
                (seen.report, seen.poll_error) = (Some((at.now, report)), None);
            }
            Err(why) => seen.poll_error = Some(bounded(&why, 120)),
        }
        self.has_news |= governed(seen) != was_governed;
    }

    fn tick(&mut self, at: At) {
        let heard_within = self.settings.heard_within;
        for node in self.nodes.values_mut() {
            if node.report.as_ref().is_some_and(|(heard, _)| at.now.since(*heard) > heard_within) {
                node.report = None;
                self.has_news = true;
            }
        }
        for seen in self.seen.values_mut() {
            if let Some(pending) = &mut seen.memory.pending
                && pending.answered.is_none()
                && at.now > pending.until
            {
                // Without a reply the change may have been made or not. A look from now on shows which.
                pending.answered = Some(self.looks.last);
                self.looks.due = at.now;
            }
        }
        if self.acts(at) {
            self.categorise(at);
            self.serve(at);
            let waits = |seen: &Seen| is_to_prove(seen) && seen.memory.pending.is_none();
            let waiting: Vec<ServiceId> =
                self.seen.iter().filter(|(_, seen)| waits(seen)).map(|(id, _)| id.clone()).collect();
            waiting.iter().for_each(|id| self.step(id, at));
        }
        self.expire_commands(at);
    }

    /// Runs queued commands, and the next step of each node and job.
    fn act(&mut self, at: At) {
        self.serve(at);
        self.step_nodes(at);
        let ids: Vec<ServiceId> = self.seen.keys().cloned().collect();
        ids.iter().for_each(|id| self.step(id, at));
    }

    fn act_on(&mut self, id: &ServiceId, at: At) {
        if self.acts(at) {
            self.step(id, at);
        }
    }

    fn look_if_due(&mut self, at: At) {
        if self.looks.until.is_some_and(|until| at.now <= until) || at.now < self.looks.due {
            return;
        }
        self.looks.last += 1;
        self.looks.until = Some(at.now.after(Millis(self.settings.request_within.0 * 2)));
        // A standby only needs to notice when it becomes the leader.
        let is_standby = self.swarm.as_ref().is_some_and(|swarm| !swarm.is_leader);
        let every = self.settings.look_every.0 * if is_standby { 3 } else { 1 };
        self.looks.due = at.now.after(Millis(every));
        self.effects.push(Effect::Look { look: self.looks.last });
    }
}

fn is_to_prove(seen: &Seen) -> bool {
    let phase = seen.job.as_ref().ok().map(|job| job.record.phase);
    matches!(phase, Some(JobPhase::Stopping | JobPhase::Carrying))
}

/// Updates a service by a look. While a change is in flight, the decided state is kept until a later look shows the outcome.
fn take_in_service(before: Option<Seen>, service: SwarmService, tasks: Vec<SwarmTask>, look: u64) -> Seen {
    let Some(before) = before else {
        let job = Job::of(&service).map(Arc::new);
        return Seen { job, service, tasks, memory: Memory::default() };
    };
    let Seen { service: known, job, mut memory, .. } = before;
    if let Some(pending) = memory.pending {
        if pending.answered.is_none_or(|last| look <= last) {
            return Seen { service: known, tasks, job, memory };
        }
        memory.pending = None;
    } else if known.version == service.version {
        return Seen { service, tasks, job, memory };
    }
    Seen { job: Job::of(&service).map(Arc::new), service, tasks, memory }
}
