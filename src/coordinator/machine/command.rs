//! What operators ask for: each is written by compare-and-swap, tried again while the service changes, and answered exactly once.
//!
//! Imports: event, state, writes, job, labels, record, model.

use super::event::{Asker, At, Command, Effect};
use super::job::{Job, Unfit};
use super::labels::{DRAIN, shown};
use super::record::{Goal, JobPhase};
use super::state::{Ask, Machine, NodeAsk, Seen};
use super::writes::{Spec, Write};
use crate::model::cluster::NodeState;
use crate::model::swarm::{ChangeOutcome, NodeChange, NodeId, ServiceId, SwarmTask};
use crate::model::{Millis, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A command that has not found its service at rest within so long is refused.
const PATIENCE: Millis = Millis::from_secs(60);
/// Commands that wait at once.
const ASKS_MOST: usize = 1000;

/// What is to be done for a command now.
enum Now {
    Write(Box<Write>),
    /// It is so already.
    Nothing(String),
    Refuse(String),
}

impl Machine {
    pub(super) fn asked(&mut self, command: Command, asker: Asker, at: At) {
        if !self.acts(at) {
            let leader = "ask flowcoord on Swarm's leader: `docker node ls` shows which manager that is";
            let why = self.blind.clone().unwrap_or_else(|| "this manager is not Swarm's leader".to_owned());
            return self.answer(asker, Err(Refusal::Refused(format!("{why}; {leader}"))));
        }
        if self.asks.len() + self.node_asks.len() >= ASKS_MOST {
            return self
                .answer(asker, Err(Refusal::Refused("too many commands wait; try again in a minute".to_owned())));
        }
        let until = at.now.after(PATIENCE);
        match &command {
            Command::Drain(node) | Command::Undrain(node) => match self.find_node(node) {
                Err(refusal) => self.answer(asker, Err(refusal)),
                Ok(node) => {
                    let drains = matches!(command, Command::Drain(_));
                    self.node_asks.push(NodeAsk { asker, node, drains, until, asked: None });
                }
            },
            Command::Move { job, .. } | Command::Pause(job) | Command::Resume(job) | Command::NodeIsOff { job, .. } => {
                match self.find_jobs(job) {
                    Err(refusal) => self.answer(asker, Err(refusal)),
                    Ok(left) => {
                        let did = Vec::new();
                        self.asks.push(Ask { asker, left: left.into_iter().collect(), command, did, until });
                    }
                }
            }
        }
        self.serve(at);
    }

    /// Goes on with whatever is asked for.
    pub(super) fn serve(&mut self, at: At) {
        self.serve_nodes(at);
        for mut ask in std::mem::take(&mut self.asks) {
            let mut refused = None;
            for id in ask.left.clone() {
                let Some(seen) = self.seen.get(&id) else {
                    ask.left.remove(&id);
                    ask.did.push("it is gone".to_owned());
                    continue;
                };
                if seen.memory.pending.is_some() {
                    continue;
                }
                match self.now(&ask.command, &id, seen) {
                    Now::Write(write) => self.write(&id, *write, Some(ask.asker), at),
                    Now::Nothing(text) => {
                        ask.left.remove(&id);
                        ask.did.push(text);
                    }
                    Now::Refuse(why) => refused = Some(Refusal::Refused(why)),
                }
            }
            match refused {
                Some(refusal) => self.answer(ask.asker, Err(refusal)),
                None if ask.left.is_empty() => self.answer(ask.asker, Ok(ask.did.join("; "))),
                None => self.asks.push(ask),
            }
        }
    }

    /// A change that somebody asked for stands.
    pub(super) fn command_done(&mut self, id: &ServiceId, asker: Option<Asker>) {
        let Some(at) = asker.and_then(|asker| self.asks.iter().position(|ask| ask.asker == asker)) else { return };
        let name = self.seen.get(id).map_or_else(|| id.0.clone(), |seen| seen.service.name.clone());
        let ask = &mut self.asks[at];
        if ask.left.remove(id) {
            let begun = match &ask.command {
                Command::Move { node, .. } => format!("{name} stops, and then moves to {node}"),
                Command::Pause(_) => format!("{name} is paused"),
                Command::Resume(_) => format!("{name} goes on as soon as there is room"),
                Command::NodeIsOff { node, .. } => format!("{name} no longer waits for {node}"),
                Command::Drain(_) | Command::Undrain(_) => return,
            };
            ask.did.push(begun);
        }
        if ask.left.is_empty() {
            let ask = self.asks.remove(at);
            self.answer(ask.asker, Ok(ask.did.join("; ")));
        }
    }

    /// Who waited for too long is told so.
    pub(super) fn answer_late(&mut self, at: At) {
        let late = |until: Millis| at.now > until;
        let mut askers: Vec<Asker> = self.asks.extract_if(.., |ask| late(ask.until)).map(|ask| ask.asker).collect();
        askers.extend(self.node_asks.extract_if(.., |ask| late(ask.until)).map(|ask| ask.asker));
        for asker in askers {
            let why = "Swarm gave no clear answer in time: it may happen yet; look with `flowctl cluster status`";
            self.answer(asker, Err(Refusal::Failed(why.to_owned())));
        }
    }

    fn now(&self, command: &Command, id: &ServiceId, seen: &Seen) -> Now {
        let name = &seen.service.name;
        let job = match &seen.job {
            Ok(job) => job,
            Err(Unfit(why)) => return Now::Refuse(format!("{name} is left alone: {why}")),
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
            return Now::Nothing(format!("{name} is on {node}, or on its way there"));
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
            return Now::Refuse(format!("node {node} takes no jobs: {why}"));
        }
        Now::Write(Box::new(job.fence(Goal::Move, Some(to), "an operator moves it", self.units_of(id, job))))
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
            _ => job.fence(Goal::Pause, None, "an operator pauses it", self.units_of(id, job)),
        };
        write.text = "an operator pauses it".to_owned();
        Now::Write(Box::new(write))
    }

    /// The operator's word stands for the node's: also that the state that lies there alone is lost.
    fn off_now(&self, seen: &Seen, job: &Job, name: &str, node: &str) -> Now {
        let node = self.find_node(node).unwrap_or_else(|_| NodeId(node.into()));
        let mut record = job.record.clone();
        let was_placed = record.placed.remove(&node);
        let was_home = record.home.as_ref() == Some(&node);
        let is_up = self.nodes.get(&node).is_some_and(|seen| seen.node.is_up || seen.report.is_some());
        if is_up {
            return Now::Refuse(format!("node {} answers: its own agent tells what lives there", self.name_of(&node)));
        }
        if !was_placed && !was_home {
            return Now::Nothing(format!("{name} does not wait for node {}", shown(&node.0)));
        }
        if matches!(record.phase, JobPhase::Starting | JobPhase::Running) {
            return Now::Refuse(format!(
                "{name} runs there as far as Swarm knows; wait until Swarm says that the node is down"
            ));
        }
        if was_home {
            // The next start begins where it finds room, and without the state that lay there.
            (record.home, record.to, record.goal, record.phase) = (None, None, None, JobPhase::Waiting);
        }
        record.leased = None;
        let there = |task: &&SwarmTask| task.node.as_ref() == Some(&node);
        record.past.extend(seen.tasks.iter().filter(there).map(|task| task.id.clone()));
        let text = format!("an operator says that node {} is off for good", self.name_of(&node));
        Now::Write(Box::new(Write { record, spec: Spec::Fence, text }))
    }

    fn serve_nodes(&mut self, at: At) {
        for mut ask in std::mem::take(&mut self.node_asks) {
            let Some(seen) = self.nodes.get(&ask.node) else {
                self.answer(ask.asker, Err(Refusal::NotFound("the node has left the Swarm".to_owned())));
                continue;
            };
            let node = &seen.node;
            let name = node.hostname.clone();
            if node.labels.contains_key(DRAIN) == ask.drains {
                let text = match ask.drains {
                    true => format!("{name} is being emptied: it gets no jobs, and those that can be moved leave it"),
                    false => format!("{name} gets jobs again"),
                };
                self.answer(ask.asker, Ok(text));
                continue;
            }
            if ask.asked != Some(node.version) && at.now <= ask.until {
                ask.asked = Some(node.version);
                let value: Option<Arc<str>> = ask.drains.then(|| "true".into());
                let labels = BTreeMap::from([(Arc::from(DRAIN), value)]);
                let change = NodeChange { node: node.id.clone(), version: node.version, labels, availability: None };
                self.effects.push(Effect::ChangeNode(change));
            }
            self.node_asks.push(ask);
        }
    }

    /// What came of it: the next look tells whether it stands.
    pub(super) fn node_changed(&mut self, node: &NodeId, version: u64, outcome: &ChangeOutcome, at: At) {
        self.looks.due = at.now;
        self.stage_written(node, version, outcome);
        for ask in self.node_asks.iter_mut().filter(|ask| ask.node == *node && ask.asked == Some(version)) {
            if *outcome != ChangeOutcome::Done {
                ask.asked = None;
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
            [] => {
                Err(Refusal::NotFound(format!("no node `{}` in this Swarm; `docker node ls` lists them", shown(name))))
            }
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

    /// The services that a job's name means: one, or all of a gang.
    fn find_jobs(&self, name: &str) -> Result<Vec<ServiceId>, Refusal> {
        let by_name = self.seen.values().find(|seen| &*seen.service.id.0 == name || &*seen.service.name == name);
        if let Some(seen) = by_name {
            return Ok(vec![seen.service.id.clone()]);
        }
        let in_gang = |seen: &&Seen| seen.job.as_ref().is_ok_and(|job| job.wishes.gang.as_deref() == Some(name));
        let gang: Vec<ServiceId> = self.seen.values().filter(in_gang).map(|seen| seen.service.id.clone()).collect();
        match gang.is_empty() {
            true => Err(Refusal::NotFound(format!("no job `{}`; `flowctl cluster queue` lists them", shown(name)))),
            false => Ok(gang),
        }
    }

    fn answer(&mut self, asker: Asker, done: Result<String, Refusal>) {
        self.effects.push(Effect::Answer { asker, done });
    }
}

fn resume_now(job: &Job, name: &str) -> Now {
    let mut record = job.record.clone();
    if record.phase == JobPhase::Done {
        return Now::Refuse(format!("{name} has ended; `docker service scale {name}=1` runs it again"));
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
    Now::Write(Box::new(Write { record, spec: Spec::Keep, text: "an operator resumes it".to_owned() }))
}
