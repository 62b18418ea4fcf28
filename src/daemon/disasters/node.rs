//! The daemon of the simulation: the real machine of limits, with the events that wait for it.

use super::host::{Host, mark_of};
use super::modes::{EngineId, EngineMode, Processes};
use super::planted_bug::PlantedBug;
use super::values::{KINDS, in_turns, planned, raised};
use super::work::{Actuator, Finished};
use limits::End;
use limits::machine::{Candidate, Command, Effect, Event, Found, Intervals, Machine, Memory, Remembered, RequestId};
use model::{ContainerId, Hold, LimitChange, LimitKind, Limits, Millis, Refusal, Runtime, Setting};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Intervals among which a reload chooses.
const INTERVALS: [Intervals; 2] = [
    Intervals { usual: Millis::from_secs(20), longest: Millis::from_secs(320) },
    Intervals { usual: Millis::from_secs(5), longest: Millis::from_secs(60) },
];

/// An event that waits for the machine; its data is read when it is handled.
#[derive(Debug)]
enum Message {
    Connected(EngineId),
    Started(usize),
    Ended(usize),
    Updated(usize),
    Removed(usize),
    Candidate(Result<Candidate, Refusal>, RequestId),
    Finished(Finished),
}

/// A running daemon.
pub(super) struct SimulatedDaemon {
    pub machine: Machine,
    /// The run in which each governed container was found.
    runs: BTreeMap<usize, u32>,
    inbox: VecDeque<Message>,
    actuator: Actuator,
    /// Commands without a reply, with the container that is to be governed, and the number of commands so far.
    unanswered: BTreeMap<RequestId, Option<usize>>,
    last_request: u64,
    /// Containers of which an operator was told that they are governed, and when, until the next decision.
    said_governed: BTreeMap<usize, u64>,
    pub is_stopping: bool,
    pub has_stopped: bool,
}

impl SimulatedDaemon {
    /// Starts a daemon, which finds all running containers.
    pub(super) fn start(host: &mut Host) -> SimulatedDaemon {
        let mut memory = Memory::default();
        for (original, written) in host.journal.everything().unwrap_or_default() {
            let journalled = super::super::journal::journalled_of(&original);
            let (runtime, mark) = (original.runtime, original.mark);
            memory.originals.insert(original.id, Remembered { runtime, mark, original: journalled, written });
        }
        memory.adopted = host.journal.adopted().unwrap_or_default();
        let mut node = SimulatedDaemon {
            machine: Machine::new(memory, INTERVALS[0]),
            runs: BTreeMap::new(),
            inbox: VecDeque::new(),
            actuator: Actuator::default(),
            unanswered: BTreeMap::new(),
            said_governed: BTreeMap::new(),
            last_request: 0,
            is_stopping: false,
            has_stopped: false,
        };
        node.notify_connected(host);
        node.inbox
            .extend((0..host.containers.len()).filter(|container| host.is_seen(*container)).map(Message::Started));
        node
    }

    pub(super) fn notify_connected(&mut self, host: &Host) {
        self.inbox.push_back(Message::Connected(host.engine));
    }

    /// Reports the state of a container, possibly late or twice.
    pub(super) fn notify(&mut self, host: &Host, container: usize) {
        let is_seen = host.is_seen(container);
        self.inbox.push_back(if is_seen { Message::Started(container) } else { Message::Ended(container) });
    }

    pub(super) fn notify_updated(&mut self, container: usize) {
        self.inbox.push_back(Message::Updated(container));
    }

    pub(super) fn notify_removed(&mut self, container: usize) {
        self.inbox.push_back(Message::Removed(container));
    }

    /// Reports the complete list of wanted containers.
    pub(super) fn listed(&mut self, host: &mut Host) -> Result<(), String> {
        let mut present = BTreeSet::new();
        for container in 0..host.containers.len() {
            if host.is_seen(container) {
                if self.wants(host, container) {
                    present.insert(host.containers[container].id.clone());
                }
                self.found(host, container)?;
            } else {
                self.ended(host, container)?;
            }
        }
        self.handle_limits(host, Event::Listed(present))
    }

    fn wants(&self, host: &Host, container: usize) -> bool {
        let container = &host.containers[container];
        container.has_label || self.machine.adoption(&container.id).is_some()
    }

    fn found(&mut self, host: &mut Host, container: usize) -> Result<(), String> {
        let (id, run) = (host.containers[container].id.clone(), host.containers[container].run);
        let is_wanted = self.wants(host, container);
        if !host.is_seen(container) || !is_wanted || self.runs.get(&container) == Some(&run) {
            return Ok(());
        }
        self.ended(host, container)?;
        if host.containers[container].processes == Processes::Elsewhere {
            return self.handle_limits(host, Event::CannotGovern(id));
        }
        let (current, _) = host.read(container, Some(run));
        let runtime = host.containers[container].runtime;
        let mark = (runtime == Runtime::Docker).then(|| mark_of(host.containers[container].engine));
        let found = Found {
            name: id.short().to_owned(),
            id: id.clone(),
            runtime,
            run: (run, 0),
            mark,
            is_deferred: true,
            ran_before: false,
            existed_at_loss: false,
            current,
            engine: host.numbers(container),
        };
        self.runs.insert(container, run);
        self.handle_limits(host, Event::Found(Box::new(found)))?;
        if let Some(ledger) = self.machine.ledger(&id) {
            host.containers[container].agreed(ledger.original());
        }
        Ok(())
    }

    fn ended(&mut self, host: &mut Host, container: usize) -> Result<(), String> {
        self.runs.remove(&container);
        self.handle_limits(host, Event::Ended(host.containers[container].id.clone()))
    }

    /// Reads the current limits of all governed containers.
    fn readings(&self, host: &mut Host) -> Vec<(ContainerId, Limits)> {
        let read = |(container, run): (&usize, &u32)| {
            let current = host.read(*container, Some(*run)).0;
            (host.containers[*container].id.clone(), current)
        };
        self.runs.iter().map(read).collect()
    }

    /// Handles the oldest waiting event. Returns whether there was one.
    pub(super) fn handle(&mut self, host: &mut Host) -> Result<bool, String> {
        let Some(message) = self.inbox.pop_front() else { return Ok(false) };
        match message {
            Message::Connected(which) => self.handle_limits(host, Event::Connected(mark_of(which)))?,
            Message::Started(container) => self.found(host, container)?,
            Message::Ended(container) => self.ended(host, container)?,
            Message::Removed(container) => {
                self.ended(host, container)?;
                self.handle_limits(host, Event::Removed(host.containers[container].id.clone()))?;
            }
            Message::Updated(container) => {
                if let Some(run) = self.runs.get(&container).copied() {
                    let current = host.read(container, Some(run)).0;
                    self.handle_limits(host, Event::Updated(host.containers[container].id.clone(), current))?;
                }
            }
            Message::Finished(Finished::Outcomes { mut outcomes, is_last }) => {
                for done in &mut outcomes {
                    if matches!(done.outcome.end, End::Failed(_)) && host.planted_bug == PlantedBug::ForgetsAFailedWrite
                    {
                        done.outcome.journalled = None;
                        done.outcome.end = End::Gone;
                    }
                }
                for done in &mut outcomes {
                    let (End::Accepted(accepted), Some(ledger)) =
                        (&mut done.outcome.end, self.machine.ledger(&done.id))
                    else {
                        continue;
                    };
                    if host.planted_bug == PlantedBug::RenewsOnlyTheLimits {
                        accepted.engine = ledger.engine();
                    }
                }
                let accepted: Vec<ContainerId> = outcomes
                    .iter()
                    .filter(|done| matches!(done.outcome.end, End::Accepted(_)))
                    .map(|done| done.id.clone())
                    .collect();
                let no_look = host.planted_bug == PlantedBug::GovernsWithoutALook && !accepted.is_empty();
                let readings = if no_look { Vec::new() } else { self.readings(host) };
                self.handle_limits(host, Event::Outcomes { outcomes, readings, is_last })?;
                for id in accepted {
                    if let Some((container, ledger)) = host.container(&id).zip(self.machine.ledger(&id)) {
                        host.containers[container].agreed(ledger.original());
                    }
                }
            }
            Message::Finished(Finished::Restored(mut restored)) => {
                if host.planted_bug == PlantedBug::ClearsOursOfAll {
                    restored.settled.extend(host.containers.iter().map(|container| container.id.clone()));
                }
                let readings = self.readings(host);
                self.handle_limits(host, Event::Restored(restored, readings))?;
            }
            Message::Candidate(found, request) => {
                self.handle_limits(host, Event::Candidate { found, labels: BTreeMap::new(), request })?;
            }
            Message::Finished(Finished::Adopted { container, adoption, problem }) => {
                let id = host.containers[container].id.clone();
                self.handle_limits(host, Event::Adopted { id, adoption, problem })?;
            }
            Message::Finished(Finished::Disowned { container, problem }) => {
                self.handle_limits(host, Event::Disowned { id: host.containers[container].id.clone(), problem })?;
            }
        }
        Ok(true)
    }

    fn handle_limits(&mut self, host: &mut Host, event: Event) -> Result<(), String> {
        for effect in self.machine.handle(event, host.moment()) {
            match effect {
                Effect::Do(work) => self.actuator.ask(work),
                Effect::Reply { request, result, .. } => {
                    let Some(governed) = self.unanswered.remove(&request) else {
                        return Err(format!("a command got two replies: {result:?}"));
                    };
                    // While limits are being written, changes by others cannot be told yet.
                    let is_known = result.is_ok() && self.machine.is_at_rest();
                    self.said_governed.extend(governed.filter(|_| is_known).map(|container| (container, host.at)));
                }
                Effect::AskEngine { name, request, .. } => {
                    let found = host.containers.iter().position(|container| container.id.as_str() == name);
                    let found = found.filter(|container| host.is_seen(*container) && host.mode == EngineMode::Answers);
                    let candidate = found.map(|container| {
                        let container = &host.containers[container];
                        let label = container.has_label.then(|| "label".to_owned());
                        Candidate { id: container.id.clone(), name: container.id.short().to_owned(), label }
                    });
                    let candidate = candidate.ok_or(Refusal::NotOnEngine(name));
                    self.inbox.push_back(Message::Candidate(candidate, request));
                }
                Effect::Watch(adopted) => {
                    let found = (0..host.containers.len()).filter(|container| {
                        adopted.contains(&host.containers[*container].id) && host.is_seen(*container)
                    });
                    self.inbox.extend(found.map(Message::Started));
                }
                Effect::Dismiss(id) => {
                    self.runs.retain(|container, _| host.containers[*container].id != id);
                }
                Effect::Stopped => self.has_stopped = true,
                Effect::Emit { .. } | Effect::Notice(..) | Effect::RestoreProblem(_) | Effect::DecideNow => {}
            }
        }
        Ok(())
    }

    /// Decides on these values for every container and kind. Returns whether anything was to be changed.
    pub(super) fn tick(&mut self, host: &mut Host, plan: u32) -> Result<bool, String> {
        self.decide(host, |container, kind| Some(planned(kind, plan + container as u32)))
    }

    /// Decides that it is the turn of one container.
    pub(super) fn turn(&mut self, host: &mut Host, favoured: usize) -> Result<bool, String> {
        self.decide(host, |container, kind| in_turns(kind, container == favoured))
    }

    /// Decides on these values.
    fn decide(
        &mut self,
        host: &mut Host,
        wanted: impl Fn(usize, LimitKind) -> Option<Setting>,
    ) -> Result<bool, String> {
        if !self.machine.is_at_rest() || self.is_stopping {
            return Ok(false);
        }
        self.look_for_drift(host)?;
        for (container, said_at) in std::mem::take(&mut self.said_governed) {
            if self.is_left_to_others(host, container) && host.containers[container].disturbed_at < said_at {
                return Err(format!("container {container} is left alone, although it was said to be governed"));
            }
        }
        let mut changes = Vec::new();
        for container in self.runs.keys() {
            let id = &host.containers[*container].id;
            if self.machine.hold(id, host.now).is_some() {
                continue;
            }
            let Some(ledger) = self.machine.ledger(id) else { continue };
            for to in KINDS.into_iter().filter_map(|kind| wanted(*container, kind)) {
                let from = ledger.current().get(to.kind());
                if let Some(from) = from.filter(|from| *from != raised(to) && ledger.has_room_for(to)) {
                    changes.push(LimitChange { id: id.clone(), from, to });
                }
            }
        }
        let any = !changes.is_empty();
        self.handle_limits(host, Event::Decided(changes))?;
        Ok(any)
    }

    /// Reads what others may have done to the limits.
    fn look_for_drift(&mut self, host: &mut Host) -> Result<(), String> {
        let is_moved = |container: &&usize| host.containers[**container].processes != Processes::InItsCgroup;
        let moved = self.runs.keys().filter(is_moved);
        let moved = moved.map(|container| (host.containers[*container].id.clone(), "/another".to_owned())).collect();
        self.handle_limits(host, Event::Moved(moved))?;
        let readings = self.readings(host);
        self.handle_limits(host, Event::LimitsRead(readings))
    }

    /// Lets the machine look. Returns whether it started to restore anything.
    pub(super) fn look(&mut self, host: &mut Host) -> Result<bool, String> {
        let was_at_rest = self.machine.is_at_rest();
        self.handle_limits(host, Event::TimePassed)?;
        Ok(was_at_rest && !self.machine.is_at_rest())
    }

    pub(super) fn command(&mut self, host: &mut Host, command: Command) -> Result<(), String> {
        self.last_request += 1;
        let request = RequestId(self.last_request);
        let governed = match &command {
            Command::Govern(Some(name)) => host.container(&ContainerId::new(name)),
            _ => None,
        };
        self.unanswered.insert(request, governed);
        self.look_for_drift(host)?;
        self.handle_limits(host, Event::Command(command, request))
    }

    pub(super) fn reload(&mut self, host: &mut Host, which: usize) -> Result<(), String> {
        self.handle_limits(host, Event::Reconfigured(INTERVALS[which % INTERVALS.len()]))
    }

    pub(super) fn stop(&mut self, host: &mut Host) -> Result<(), String> {
        if std::mem::replace(&mut self.is_stopping, true) {
            return Ok(());
        }
        self.handle_limits(host, Event::Stop { restore: true })
    }

    /// Returns the number of commands without a reply.
    pub(super) fn unanswered_count(&self) -> usize {
        self.unanswered.len()
    }

    /// Whether a governed container is left alone by decision; `None` if it is not governed.
    pub(super) fn is_left_alone(&self, host: &Host, container: usize) -> Option<bool> {
        let id = &host.containers[container].id;
        self.machine.ledger(id)?;
        Some(self.machine.hold(id, host.now).is_some())
    }

    /// Whether it leaves a container alone because of a change by others.
    pub(super) fn is_left_to_others(&self, host: &Host, container: usize) -> bool {
        matches!(self.machine.hold(&host.containers[container].id, host.now), Some(Hold::Foreign(_)))
    }

    /// Lets the actuator execute one step. Returns whether it had work.
    pub(super) fn step(&mut self, host: &mut Host) -> Result<bool, String> {
        let is_busy = self.actuator.is_busy();
        self.inbox.extend(self.actuator.step(host)?.map(Message::Finished));
        Ok(is_busy)
    }
}
