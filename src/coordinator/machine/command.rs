//! Commands of operators: each is written by compare-and-swap, retried while the service changes, and replied to exactly once.
//!
//! Imports: event, state, writes, job, labels, record, model.

use super::event::{At, Command, CommandId, Effect};
use super::job::{Job, Rejection};
use super::labels::{DRAIN, shown};
use super::record::{Goal, JobPhase};
use super::state::{Machine, QueuedCommand, QueuedNodeCommand, Seen};
use super::writes::{Spec, Write};
use crate::model::cluster::NodeState;
use crate::model::swarm::{ChangeOutcome, NodeChange, NodeId, ServiceId, SwarmTask};
use crate::model::{Millis, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A command fails if its change could not be made within this time.
const COMMAND_WITHIN: Millis = Millis::from_secs(60);
/// Maximum number of queued commands.
const QUEUED_MOST: usize = 1000;

/// Next action for a command.
enum Now {
    Write(Box<Write>),
    /// The command has no effect; with the reply.
    Nothing(String),
    Refuse(String),
}

impl Machine {
    pub(super) fn command(&mut self, command: Command, command_id: CommandId, at: At) {
        if !self.acts(at) {
            let leader = "send the command to flowcoord on Swarm's leader, shown by `docker node ls`";
            let why = self.look_error.clone().unwrap_or_else(|| "this manager is not Swarm's leader".to_owned());
            return self.reply(command_id, Err(Refusal::Refused(format!("{why}; {leader}"))));
        }
        if self.command_queue.len() + self.node_command_queue.len() >= QUEUED_MOST {
            return self.reply(
                command_id,
                Err(Refusal::Refused("too many queued commands; try again in a minute".to_owned())),
            );
        }
        let until = at.now.after(COMMAND_WITHIN);
        match &command {
            Command::Drain(node) | Command::Undrain(node) => match self.find_node(node) {
                Err(refusal) => self.reply(command_id, Err(refusal)),
                Ok(node) => {
                    let drains = matches!(command, Command::Drain(_));
                    self.node_command_queue.push(QueuedNodeCommand { command_id, node, drains, until, asked: None });
                }
            },
            Command::Move { job, .. } | Command::Pause(job) | Command::Resume(job) | Command::NodeIsOff { job, .. } => {
                match self.find_jobs(job) {
                    Err(refusal) => self.reply(command_id, Err(refusal)),
                    Ok(remaining) => {
                        let results = Vec::new();
                        self.command_queue.push(QueuedCommand {
                            command_id,
                            remaining: remaining.into_iter().collect(),
                            command,
                            results,
                            until,
                        });
                    }
                }
            }
        }
        self.serve(at);
    }

    /// Continues all queued commands.
    pub(super) fn serve(&mut self, at: At) {
        self.serve_nodes(at);
        for mut entry in std::mem::take(&mut self.command_queue) {
            let mut refused = None;
            for id in entry.remaining.clone() {
                let Some(seen) = self.seen.get(&id) else {
                    entry.remaining.remove(&id);
                    entry.results.push("the service no longer exists".to_owned());
                    continue;
                };
                if seen.memory.pending.is_some() {
                    continue;
                }
                match self.now(&entry.command, &id, seen) {
                    Now::Write(write) => self.write(&id, *write, Some(entry.command_id), at),
                    Now::Nothing(text) => {
                        entry.remaining.remove(&id);
                        entry.results.push(text);
                    }
                    Now::Refuse(why) => refused = Some(Refusal::Refused(why)),
                }
            }
            match refused {
                Some(refusal) => self.reply(entry.command_id, Err(refusal)),
                None if entry.remaining.is_empty() => self.reply(entry.command_id, Ok(entry.results.join("; "))),
                None => self.command_queue.push(entry),
            }
        }
    }

    /// Records that a change for a command was made.
    pub(super) fn command_done(&mut self, id: &ServiceId, command_id: Option<CommandId>) {
        let Some(at) = command_id
            .and_then(|command_id| self.command_queue.iter().position(|entry| entry.command_id == command_id))
        else {
            return;
        };
        let name = self.seen.get(id).map_or_else(|| id.0.clone(), |seen| seen.service.name.clone());
        let entry = &mut self.command_queue[at];
        if entry.remaining.remove(id) {
            let begun = match &entry.command {
                Command::Move { node, .. } => format!("{name} is stopping, then moves to {node}"),
                Command::Pause(_) => format!("{name} is paused"),
                Command::Resume(_) => format!("{name} starts as soon as there is room"),
                Command::NodeIsOff { node, .. } => format!("{name} no longer waits for {node}"),
                Command::Drain(_) | Command::Undrain(_) => return,
            };
            entry.results.push(begun);
        }
        if entry.remaining.is_empty() {
            let entry = self.command_queue.remove(at);
            self.reply(entry.command_id, Ok(entry.results.join("; ")));
        }
    }

    /// Fails the commands that have exceeded their deadline.
    pub(super) fn expire_commands(&mut self, at: At) {
        let late = |until: Millis| at.now > until;
        let mut command_ids: Vec<CommandId> =
            self.command_queue.extract_if(.., |entry| late(entry.until)).map(|entry| entry.command_id).collect();
        command_ids
            .extend(self.node_command_queue.extract_if(.., |entry| late(entry.until)).map(|entry| entry.command_id));
        for command_id in command_ids {
            let why =
                "Swarm did not confirm the change in time; check with `flowctl cluster status` whether it was made";
            self.reply(command_id, Err(Refusal::Failed(why.to_owned())));
        }
    }

    fn now(&self, command: &Command, id: &ServiceId, seen: &Seen) -> Now {
        let name = &seen.service.name;
        let job = match &seen.job {
            Ok(job) => job,
            Err(Rejection(why)) => return Now::Refuse(format!("{name} is not managed: {why}")),
        };
        match command {
            Command::Move { node, .. } => self.move_now(job, name, node, id),
            Command::Pause(_) => self.pause_now(job, name, id),
            Command::Resume(_) => resume_now(job, name),
            Command::NodeIsOff { node, .. } => self.off_now(seen, job, name, node),
            Command::Drain(_) | Command::Undrain(_) => Now::Nothing(String::new()),
        }
    }

    fn move_now(&self, job: &Job, name: &str, node: &str, id: &ServiceId) -> Now {
        let to = match self.find_node(node) {
            Ok(to) => to,
            Err(refusal) => return Now::Refuse(refusal.to_string()),
        };
        let record = &job.record;
        let is_going = record.to.as_ref() == Some(&to) && record.goal == Some(Goal::Move);
        if record.home.as_ref() == Some(&to) && record.phase != JobPhase::Waiting || is_going {
            return Now::Nothing(format!("{name} is already on {node}, or moving there"));
        }
        if record.phase != JobPhase::Running {
            return Now::Refuse(format!("{name} is not running: only a running job can be moved"));
        }
        if !job.is_movable() {
            return Now::Refuse(format!("{name} cannot be moved: {}", job.why_unmovable()));
        }
        if let Some(seen) = self.nodes.get(&to)
            && let (state, Some(why)) = self.state_of(seen)
            && state != NodeState::Ready
        {
            return Now::Refuse(format!("node {node} accepts no jobs: {why}"));
        }
        Now::Write(Box::new(job.fence(Goal::Move, Some(to), "moved by an operator", self.units_of(id, job))))
    }

    fn pause_now(&self, job: &Job, name: &str, id: &ServiceId) -> Now {
        let record = &job.record;
        let mut write = match record.phase {
            JobPhase::Done => return Now::Refuse(format!("{name} has ended")),
            JobPhase::Waiting if record.paused => return Now::Nothing(format!("{name} is paused")),
            JobPhase::Waiting => {
                let mut record = record.clone();
                record.paused = true;
                Write { record, spec: Spec::Keep, text: String::new() }
            }
            JobPhase::Stopping if record.goal == Some(Goal::Pause) => {
                return Now::Nothing(format!("{name} is being paused"));
            }
            _ => job.fence(Goal::Pause, None, "paused by an operator", self.units_of(id, job)),
        };
        write.text = "paused by an operator".to_owned();
        Now::Write(Box::new(write))
    }

    /// Accepts the operator's word that a node is off as proof for it. State that exists only there is given up.
    fn off_now(&self, seen: &Seen, job: &Job, name: &str, node: &str) -> Now {
        let node = self.find_node(node).unwrap_or_else(|_| NodeId(node.into()));
        let mut record = job.record.clone();
        let was_placed = record.placed.remove(&node);
        let was_home = record.home.as_ref() == Some(&node);
        let is_up = self.nodes.get(&node).is_some_and(|seen| seen.node.is_up || seen.report.is_some());
        if is_up {
            return Now::Refuse(format!("node {} is up: its agent reports which jobs run there", self.name_of(&node)));
        }
        if !was_placed && !was_home {
            return Now::Nothing(format!("{name} does not wait for node {}", shown(&node.0)));
        }
        if matches!(record.phase, JobPhase::Starting | JobPhase::Running) {
            return Now::Refuse(format!(
                "{name} is still running there according to Swarm; wait until `docker node ls` shows the node as down"
            ));
        }
        if was_home {
            // The next start is on any node, without the state of the lost one.
            (record.home, record.to, record.goal, record.phase) = (None, None, None, JobPhase::Waiting);
        }
        record.leased = None;
        let there = |task: &&SwarmTask| task.node.as_ref() == Some(&node);
        record.past.extend(seen.tasks.iter().filter(there).map(|task| task.id.clone()));
        let text = format!("an operator confirmed that node {} is off for good", self.name_of(&node));
        Now::Write(Box::new(Write { record, spec: Spec::Fence, text }))
    }

    fn serve_nodes(&mut self, at: At) {
        for mut entry in std::mem::take(&mut self.node_command_queue) {
            let Some(seen) = self.nodes.get(&entry.node) else {
                self.reply(entry.command_id, Err(Refusal::NotFound("the node has left the Swarm".to_owned())));
                continue;
            };
            let node = &seen.node;
            let name = node.hostname.clone();
            if node.labels.contains_key(DRAIN) == entry.drains {
                let text = match entry.drains {
                    true => format!("{name} is draining: it gets no new jobs, and its movable jobs are moved"),
                    false => format!("{name} accepts jobs again"),
                };
                self.reply(entry.command_id, Ok(text));
                continue;
            }
            if entry.asked != Some(node.version) && at.now <= entry.until {
                entry.asked = Some(node.version);
                let value: Option<Arc<str>> = entry.drains.then(|| "true".into());
                let labels = BTreeMap::from([(Arc::from(DRAIN), value)]);
                let change = NodeChange { node: node.id.clone(), version: node.version, labels, availability: None };
                self.effects.push(Effect::ChangeNode(change));
            }
            self.node_command_queue.push(entry);
        }
    }

    /// Handles the reply to a change of a node. The next look shows the outcome.
    pub(super) fn node_changed(&mut self, node: &NodeId, version: u64, outcome: &ChangeOutcome, at: At) {
        self.looks.due = at.now;
        self.stage_written(node, version, outcome);
        for entry in
            self.node_command_queue.iter_mut().filter(|entry| entry.node == *node && entry.asked == Some(version))
        {
            if *outcome != ChangeOutcome::Done {
                entry.asked = None;
            }
        }
    }

    fn find_node(&self, name: &str) -> Result<NodeId, Refusal> {
        let nodes = || self.nodes.values().map(|seen| &seen.node);
        let found: Vec<&NodeId> = match nodes().find(|node| &*node.id.0 == name) {
            Some(node) => vec![&node.id],
            None => nodes().filter(|node| &*node.hostname == name).map(|node| &node.id).collect(),
        };
        match found.as_slice() {
            [node] => Ok((*node).clone()),
            [] => Err(Refusal::NotFound(format!(
                "no node `{}` in this Swarm; list nodes with `docker node ls`",
                shown(name)
            ))),
            several => {
                let ids: Vec<&str> = several.iter().map(|node| &*node.0).collect();
                Err(Refusal::Refused(format!(
                    "several nodes are named `{}`: {}; use an id",
                    shown(name),
                    ids.join(", ")
                )))
            }
        }
    }

    /// Finds the services of a job by name or id: one, or all of a gang.
    fn find_jobs(&self, name: &str) -> Result<Vec<ServiceId>, Refusal> {
        let by_name = self.seen.values().find(|seen| &*seen.service.id.0 == name || &*seen.service.name == name);
        if let Some(seen) = by_name {
            return Ok(vec![seen.service.id.clone()]);
        }
        let in_gang = |seen: &&Seen| seen.job.as_ref().is_ok_and(|job| job.options.gang.as_deref() == Some(name));
        let gang: Vec<ServiceId> = self.seen.values().filter(in_gang).map(|seen| seen.service.id.clone()).collect();
        match gang.is_empty() {
            true => Err(Refusal::NotFound(format!("no job `{}`; list jobs with `flowctl cluster queue`", shown(name)))),
            false => Ok(gang),
        }
    }

    fn reply(&mut self, command_id: CommandId, result: Result<String, Refusal>) {
        self.effects.push(Effect::Reply { command_id, result });
    }
}

fn resume_now(job: &Job, name: &str) -> Now {
    let mut record = job.record.clone();
    if record.phase == JobPhase::Done {
        return Now::Refuse(format!("{name} has ended; run `docker service scale {name}=1` to run it again"));
    }
    let was_held = record.paused || record.tries > 0 || record.goal == Some(Goal::Pause);
    if !was_held {
        return Now::Nothing(format!("{name} is not paused"));
    }
    (record.paused, record.tries, record.retry_at, record.mark) = (false, 0, None, None);
    record.avoid.clear();
    if record.goal == Some(Goal::Pause) {
        record.goal = Some(Goal::Queue);
    }
    Now::Write(Box::new(Write { record, spec: Spec::Keep, text: "resumed by an operator".to_owned() }))
}
