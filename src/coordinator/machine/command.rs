//! Commands of operators: each is written by compare-and-swap, retried while the service changes, and replied to exactly once.
//!
//! A command for a gang is executed for each of its workers.

use super::constraints::{NODE_HOSTNAME, NODE_ID, NODE_ROLE};
use super::event::{At, Command, CommandId, Effect};
use super::job::{Job, Rejection};
use super::labels::{DRAIN, shown};
use super::record::{Goal, JobPhase};
use super::state::{CommandOutcome, Machine, QueuedCommand, QueuedNodeCommand, Seen, SeenNode};
use super::writes::{Spec, Write};
use model::cluster::{Constraint, Resources};
use model::swarm::{ChangeOutcome, NodeChange, NodeId, ServiceId, SwarmTask};
use model::{Millis, Refusal};
use policy::cluster::{allows, holds};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A command fails if its change could not be made within this time.
const COMMAND_WITHIN: Millis = Millis::from_secs(60);
/// Maximum number of queued commands.
const QUEUED_MOST: usize = 1000;

/// Next action for a command.
enum Now {
    Write(Box<Write>),
    /// Nothing is written; with the reply.
    Leave(CommandOutcome, String),
}

impl Now {
    fn nothing(text: String) -> Now {
        Now::Leave(CommandOutcome::Unchanged, text)
    }

    fn refuse(why: String) -> Now {
        Now::Leave(CommandOutcome::Refused, why)
    }
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
            Command::Move { job, .. }
            | Command::Suspend(job)
            | Command::Resume(job)
            | Command::Cancel(job)
            | Command::NodeIsOff { job, .. } => match self.find_jobs(job) {
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
            },
        }
        self.serve(at);
    }

    /// Continues all queued commands.
    pub(super) fn serve(&mut self, at: At) {
        self.serve_nodes(at);
        for mut entry in std::mem::take(&mut self.command_queue) {
            for id in entry.remaining.clone() {
                let Some(seen) = self.seen.get(&id) else {
                    entry.remaining.remove(&id);
                    entry.results.push((CommandOutcome::Unchanged, "the service no longer exists".to_owned()));
                    continue;
                };
                if seen.memory.pending.is_some() {
                    continue;
                }
                match self.now(&entry.command, &id, seen) {
                    Now::Write(write) => self.write(&id, *write, Some(entry.command_id), at),
                    Now::Leave(outcome, text) => {
                        entry.remaining.remove(&id);
                        entry.results.push((outcome, text));
                    }
                }
            }
            match entry.remaining.is_empty() {
                true => self.finish(entry),
                false => self.command_queue.push(entry),
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
                Command::Suspend(_) => format!("{name} is suspended"),
                Command::Resume(_) => format!("{name} starts as soon as there is room"),
                Command::Cancel(_) => format!("{name} is cancelled"),
                Command::NodeIsOff { node, .. } => format!("{name} no longer waits for {node}"),
                Command::Drain(_) | Command::Undrain(_) => return,
            };
            entry.results.push((CommandOutcome::Changed, begun));
        }
        if entry.remaining.is_empty() {
            let entry = self.command_queue.remove(at);
            self.finish(entry);
        }
    }

    /// Replies with the results of all workers. The command succeeds if it changed one of them, or if there was nothing to change.
    fn finish(&mut self, mut entry: QueuedCommand) {
        entry.results.sort_by_key(|(outcome, _)| *outcome);
        let outcomes = || entry.results.iter().map(|(outcome, _)| *outcome);
        let is_changed = outcomes().any(|outcome| outcome == CommandOutcome::Changed);
        let is_refused = outcomes().any(|outcome| outcome == CommandOutcome::Refused);
        let is_over = outcomes().all(|outcome| outcome == CommandOutcome::Ended);
        let texts: Vec<&str> = entry.results.iter().map(|(_, text)| text.as_str()).collect();
        let text = texts.join("; ");
        let result = match !is_changed && (is_refused || is_over) {
            true => Err(Refusal::Refused(text)),
            false => Ok(text),
        };
        self.reply(entry.command_id, result);
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
            Err(Rejection(why)) => return Now::refuse(format!("{name} is not managed: {why}")),
        };
        if job.record.phase == JobPhase::Done {
            let next = match command {
                Command::Resume(_) => format!("; run `docker service scale {name}=1` to run it again"),
                _ => String::new(),
            };
            return Now::Leave(CommandOutcome::Ended, format!("{name} has ended{next}"));
        }
        match command {
            Command::Move { node, .. } => self.move_now(seen, job, node, id),
            Command::Suspend(_) => self.suspend_now(job, name, id),
            Command::Resume(_) => resume_now(job, name),
            Command::Cancel(_) => self.cancel_now(job, name, id),
            Command::NodeIsOff { node, .. } => self.off_now(seen, job, name, node),
            Command::Drain(_) | Command::Undrain(_) => Now::nothing(String::new()),
        }
    }

    fn move_now(&self, seen: &Seen, job: &Job, node: &str, id: &ServiceId) -> Now {
        let name = &seen.service.name;
        let to = match self.find_node(node) {
            Ok(to) => to,
            Err(refusal) => return Now::refuse(refusal.to_string()),
        };
        let record = &job.record;
        let is_going = record.to.as_ref() == Some(&to) && record.goal == Some(Goal::Move);
        if record.home.as_ref() == Some(&to) && record.phase != JobPhase::Waiting || is_going {
            return Now::nothing(format!("{name} is already on {node}, or moving there"));
        }
        if record.phase != JobPhase::Running {
            return Now::refuse(format!("{name} is not running: only a running job can be moved"));
        }
        if !job.is_movable() {
            return Now::refuse(format!("{name} cannot be moved: {}", job.why_unmovable()));
        }
        if let Some(why) = self.nodes.get(&to).and_then(|target| self.why_not_on(target, seen, job)) {
            return Now::refuse(why);
        }
        Now::Write(Box::new(job.fence(Goal::Move, Some(to), "moved by an operator", self.units_of(id, job))))
    }

    /// Returns why a node accepts no jobs or can never run this one; `None` if it can, even if it has no room now.
    fn why_not_on(&self, target: &SeenNode, seen: &Seen, job: &Job) -> Option<String> {
        let (node, name) = (&target.node.hostname, &seen.service.name);
        if let (_, Some(why)) = self.state_of(target) {
            return Some(format!("node {node} accepts no jobs: {why}"));
        }
        let labelled = self.node(target);
        let violated = job.constraints.iter().find(|constraint| !allows(&labelled, std::slice::from_ref(*constraint)));
        if let Some(constraint) = violated {
            return Some(format!("node {node} violates the constraint {} of {name}", in_words(constraint)));
        }
        // What other services reserve there may become free.
        let (whole, wanted) = (target.node.capacity, seen.service.request);
        let is_large_enough = holds(whole, wanted, 1);
        (!is_large_enough).then(|| {
            format!("node {node} is too small: it has {}, and {name} reserves {}", sizes(whole), sizes(wanted))
        })
    }

    fn suspend_now(&self, job: &Job, name: &str, id: &ServiceId) -> Now {
        let record = &job.record;
        let mut write = match record.phase {
            JobPhase::Waiting if record.suspended => return Now::nothing(format!("{name} is suspended")),
            JobPhase::Waiting => {
                let mut record = record.clone();
                record.suspended = true;
                Write { record, spec: Spec::Keep, text: String::new() }
            }
            JobPhase::Stopping if record.goal == Some(Goal::Suspend) => {
                return Now::nothing(format!("{name} is being suspended"));
            }
            _ => job.fence(Goal::Suspend, None, "suspended by an operator", self.units_of(id, job)),
        };
        write.text = "suspended by an operator".to_owned();
        Now::Write(Box::new(write))
    }

    fn cancel_now(&self, job: &Job, name: &str, id: &ServiceId) -> Now {
        let record = &job.record;
        let mut write = match record.phase {
            JobPhase::Waiting => job.cancelled(record.past.iter().cloned()),
            JobPhase::Stopping if record.goal == Some(Goal::Cancel) => {
                return Now::nothing(format!("{name} is being cancelled"));
            }
            _ => job.fence(Goal::Cancel, None, "cancelled by an operator", self.units_of(id, job)),
        };
        write.text = "cancelled by an operator".to_owned();
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
            return Now::refuse(format!("node {} is up: its agent reports which jobs run there", self.name_of(&node)));
        }
        if !was_placed && !was_home {
            return Now::nothing(format!("{name} does not wait for node {}", shown(&node.0)));
        }
        if matches!(record.phase, JobPhase::Starting | JobPhase::Running) {
            return Now::refuse(format!(
                "{name} is still running there according to Swarm; wait until `docker node ls` shows the node as down"
            ));
        }
        if was_home {
            // It stays suspended if it was being suspended. The next start is on any node, without the state of the lost one.
            record.suspended |= record.goal == Some(Goal::Suspend);
            let is_cancelled = record.goal == Some(Goal::Cancel);
            record.phase = if is_cancelled { JobPhase::Done } else { JobPhase::Waiting };
            (record.home, record.to, record.goal) = (None, None, is_cancelled.then_some(Goal::Cancel));
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
                self.emit(None, format!("node {text}"));
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

    fn reply(&mut self, command_id: CommandId, result: Result<String, Refusal>) {
        self.effects.push(Effect::Reply { command_id, result });
    }
}

fn resume_now(job: &Job, name: &str) -> Now {
    let mut record = job.record.clone();
    let was_held = record.suspended || record.tries > 0 || record.goal == Some(Goal::Suspend);
    if record.goal == Some(Goal::Cancel) {
        return Now::refuse(format!("{name} is being cancelled"));
    }
    if !was_held {
        return Now::nothing(format!("{name} is not suspended"));
    }
    (record.suspended, record.tries, record.retry_at, record.mark) = (false, 0, None, None);
    record.avoid.clear();
    if record.goal == Some(Goal::Suspend) {
        record.goal = Some(Goal::Queue);
    }
    Now::Write(Box::new(Write { record, spec: Spec::Keep, text: "resumed by an operator".to_owned() }))
}

/// Formats a constraint as Swarm does.
fn in_words(constraint: &Constraint) -> String {
    let Constraint { label, equal, value } = constraint;
    let is_attribute = [NODE_ID, NODE_HOSTNAME, NODE_ROLE].contains(&&**label);
    let (prefix, sign) = (if is_attribute { "" } else { "node.labels." }, if *equal { "==" } else { "!=" });
    shown(&format!("{prefix}{label}{sign}{value}"))
}

fn sizes(resources: Resources) -> String {
    let Resources { cores, memory, gpus } = resources;
    format!("{cores:.1} cores, {memory} of memory and {gpus} GPUs")
}
