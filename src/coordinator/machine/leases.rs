//! Leases: which jobs get one from their node's agent, which leases are released, and whether an agent stopped a job.
//!
//! An agent stops a job whose lease expires, so the job may start elsewhere some time after its node was lost. Invariants:
//! - The label `leased` names the node whose agent holds a lease. That lease is renewed as long as the job is not fenced, even if another
//!   label of the job is invalid; it is released only after the label `leased` was removed.
//! - A lease of a fenced job is neither renewed nor released: it may be the proof that the job is gone.
//! - Swarm reports a job that saves and exits with code 0 on SIGTERM as complete. A job that may have had a lease has ended only if a later
//!   report of its node's agent does not list its task as stopped.

use super::event::{At, Effect};
use super::job::{Job, ManualChange, NOWHERE, Run};
use super::labels::INTERNAL_PREFIX;
use super::record::JobPhase;
use super::state::{Machine, NodeLeases, Seen};
use super::writes::{Spec, Write};
use model::Millis;
use model::swarm::{HeldLease, NodeId, NodeReport, SWARMS_GRACE, ServiceId, ServiceMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of services per node that are remembered as released.
const RELEASED_MOST: usize = 1024;

/// What happens to the lease of a service on a node at the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseAction {
    /// Granted or renewed.
    Renew,
    /// Renewed if the agent holds one: a change is in flight.
    Keep,
    /// Removed: nothing relies on it.
    Release,
    /// Left alone until it expires: the job is fenced, or may have been started elsewhere.
    Expire,
}

impl Job {
    /// Whether it gets leases: it starts elsewhere once its node is lost. A job whose state is only on its node never does.
    pub(super) fn is_leasable(&self) -> bool {
        self.options.restarts_on_loss && self.carries.is_none() && !self.is_tied
    }

    /// Returns the change of the label `leased` of a running job, if it is not as it should be.
    pub(super) fn lease_written(&self, is_renewed: bool) -> Option<Write> {
        let (leased, text) = match (self.is_leasable(), &self.record.leased) {
            (true, leased) if is_renewed && *leased != self.record.home => {
                (self.record.home.clone(), "leased: its node's agent stops it if it loses contact to the managers")
            }
            (false, Some(_)) => (None, "no longer leased: it does not start elsewhere if its node is lost"),
            _ => return None,
        };
        let mut record = self.record.clone();
        record.leased = leased;
        Some(Write { record, spec: Spec::Keep, text: text.to_owned() })
    }
}

impl Seen {
    /// Returns how long its agent gives it to save and stop once its lease has expired. The label counts, also of an invalid job.
    pub(super) fn lease_grace(&self) -> Millis {
        let label = self.service.labels.get(format!("{INTERNAL_PREFIX}grace").as_str());
        label.and_then(|grace| grace.parse().ok()).map_or(SWARMS_GRACE, Millis)
    }

    fn lease_action(&self, node: &NodeId) -> LeaseAction {
        let Ok(job) = &self.job else { return self.lease_action_of_invalid(node) };
        let record = &job.record;
        let is_relied_on = record.leased.as_ref() == Some(node);
        let is_here = record.home.as_ref() == Some(node);
        match record.phase {
            JobPhase::Starting | JobPhase::Running if !is_here => LeaseAction::Expire,
            JobPhase::Starting | JobPhase::Running if is_relied_on || job.is_leasable() => LeaseAction::Renew,
            JobPhase::Starting | JobPhase::Running if self.memory.pending.is_some() => LeaseAction::Keep,
            JobPhase::Starting | JobPhase::Running => LeaseAction::Release,
            JobPhase::Done if self.memory.pending.is_none() => LeaseAction::Release,
            JobPhase::Done if is_here => LeaseAction::Keep,
            // Started by hand: its owner is responsible for it.
            JobPhase::Waiting | JobPhase::Stopping | JobPhase::Carrying
                if !is_relied_on
                    && self.memory.pending.is_none()
                    && ManualChange::of(&self.service, record) == ManualChange::Untracked =>
            {
                LeaseAction::Release
            }
            _ => LeaseAction::Expire,
        }
    }

    /// The labels of an invalid job cannot be changed or relied on, so its lease is kept as it is while it is up on this node.
    fn lease_action_of_invalid(&self, node: &NodeId) -> LeaseAction {
        let is_up = self.service.mode != ServiceMode::Replicated(0);
        let is_here = self.service.pin.as_ref().is_none_or(|pin| pin == node) && is_up;
        let leased = self.service.labels.get(format!("{INTERNAL_PREFIX}leased").as_str());
        match is_here {
            true if leased == Some(&node.0) => LeaseAction::Renew,
            true => LeaseAction::Keep,
            false => LeaseAction::Expire,
        }
    }

    /// Returns the node where it gets a lease, if it gets one.
    fn leased_at(&self) -> Option<&NodeId> {
        let home = match &self.job {
            Ok(job) => job.record.home.as_ref(),
            Err(_) => self.service.pin.as_ref().filter(|pin| &*pin.0 != NOWHERE),
        };
        home.filter(|home| self.lease_action(home) == LeaseAction::Renew)
    }
}

impl NodeLeases {
    /// Takes in a report that was requested at `asked`, with the leases that the request renewed.
    pub(super) fn take_in(&mut self, asked: Millis, renewed: &[ServiceId], report: &NodeReport) {
        for service in renewed {
            self.released.remove(service);
        }
        // Two requests may be in flight at the same time.
        if self.asked.is_none_or(|last| last <= asked) {
            self.asked = Some(asked);
            self.held = report.held.clone();
            self.stopped = report.stopped.iter().cloned().collect();
        }
    }
}

impl Machine {
    /// Polls agents, and renews and releases leases. A started job gets its lease at once: its node's agent may still hold an expired one.
    pub(super) fn poll(&mut self, at: At) {
        let starts = self.starts_without_lease();
        let due = self.nodes.iter().filter(|(id, node)| at.now >= node.poll_due || starts.contains(*id));
        let due: Vec<NodeId> = due.map(|(id, _)| id.clone()).collect();
        if due.is_empty() {
            return;
        }
        let mut leases: BTreeMap<NodeId, Vec<ServiceId>> = BTreeMap::new();
        for (id, seen) in &self.seen {
            if let Some(home) = seen.leased_at() {
                leases.entry(home.clone()).or_default().push(id.clone());
            }
        }
        for node in due {
            let leases = leases.remove(&node).unwrap_or_default();
            self.poll_node(node, leases, at);
        }
    }

    /// Returns the nodes of jobs that were started since the last poll of their node.
    fn starts_without_lease(&self) -> BTreeSet<NodeId> {
        let is_new = |seen: &Seen, home: &NodeId| {
            let renewing = self.nodes.get(home).map(|node| &node.leases.renewing);
            renewing.is_some_and(|renewing| !renewing.contains(&seen.service.id))
        };
        let node = |seen: &Seen| {
            let job = seen.job.as_ref().ok()?;
            let is_starting = job.record.phase == JobPhase::Starting && job.is_leasable();
            job.record.home.clone().filter(|home| is_starting && is_new(seen, home))
        };
        self.seen.values().filter_map(node).collect()
    }

    fn poll_node(&mut self, node: NodeId, mut leases: Vec<ServiceId>, at: At) {
        let (mut release, mut unknown) = (Vec::new(), Vec::new());
        for held in self.held_before_look(&node) {
            let id = &held.service;
            match self.seen.get(id).map(|seen| seen.lease_action(&node)) {
                None => {
                    unknown.push(id.clone());
                    release.push(held);
                }
                Some(LeaseAction::Release) => release.push(held),
                Some(LeaseAction::Renew | LeaseAction::Keep) if !leases.contains(id) => leases.push(id.clone()),
                Some(LeaseAction::Renew | LeaseAction::Keep | LeaseAction::Expire) => {}
            }
        }
        for HeldLease { service, .. } in &release {
            if let Some(seen) = self.seen.get_mut(service).filter(|seen| seen.memory.renewed.as_ref() == Some(&node)) {
                seen.memory.renewed = None;
            }
        }
        let Some(seen) = self.nodes.get_mut(&node) else { return };
        seen.poll_due = at.now.after(self.settings.request_within).after(self.settings.poll_every);
        seen.leases.renewing = leases.iter().cloned().collect();
        for service in unknown {
            seen.leases.released.insert(service);
            if seen.leases.released.len() > RELEASED_MOST {
                seen.leases.released.pop_first();
            }
        }
        let grace = |id: &ServiceId| Some((id.clone(), self.seen.get(id)?.lease_grace()));
        let graces = leases.iter().filter_map(grace).filter(|(_, grace)| *grace != SWARMS_GRACE).collect();
        let lease = self.settings.lease;
        self.effects.push(Effect::Poll { node, leases, graces, lease, release, asked: at.now });
    }

    /// Returns the leases that the agent held before the last look: a service that the look does not show is no job any more.
    fn held_before_look(&self, node: &NodeId) -> Vec<HeldLease> {
        let Some(looked) = self.swarm.as_ref().map(|swarm| swarm.at) else { return Vec::new() };
        let node = self.nodes.get(node).filter(|node| node.report.as_ref().is_some_and(|(heard, _)| *heard <= looked));
        node.map(|node| node.leases.held.clone()).unwrap_or_default()
    }

    /// Returns the tasks of a service that agents stopped because their lease had expired.
    pub(super) fn stopped_by_agents(&self, seen: &Seen) -> BTreeSet<Arc<str>> {
        let tasks = seen.tasks.iter().filter(|task| {
            let node = task.node.as_ref().and_then(|node| self.nodes.get(node));
            node.is_some_and(|node| node.leases.stopped.contains(&task.id))
        });
        tasks.map(|task| task.id.clone()).collect()
    }

    /// Whether a job that has exited did so by itself. If its agent may have stopped it, only a report that was requested later shows this;
    /// false = unknown, because its node is lost.
    ///
    /// # Errors
    /// What it waits for.
    pub(super) fn is_own_end(&mut self, id: &ServiceId, job: &Job, at: At) -> Result<bool, String> {
        if job.record.leased.is_none() && !job.is_leasable() {
            return Ok(true);
        }
        let Some(seen) = self.seen.get(id) else { return Ok(true) };
        let task = match Run::of(&seen.tasks, &job.record.past, &self.stopped_by_agents(seen)) {
            Run::Complete(task) => task,
            Run::Failed(task) if task.exit_code.is_some() => task,
            _ => return Ok(true),
        };
        let Some((node, at_node)) = task.node.as_ref().and_then(|node| self.nodes.get_key_value(node)) else {
            return Ok(true);
        };
        let known = seen.memory.ended.as_ref().filter(|(known, _)| *known == task.id).map(|(_, first)| *first);
        if let Some(first) = known
            && at_node.leases.asked.is_some_and(|asked| asked >= first)
        {
            return Ok(true);
        }
        let (node, task, is_up) = (node.clone(), task.id.clone(), at_node.node.is_up);
        if known.is_none() {
            if let Some(seen) = self.seen.get_mut(id) {
                seen.memory.ended = Some((task, at.now));
            }
            if let Some(seen) = self.nodes.get_mut(&node) {
                seen.poll_due = at.now;
            }
        }
        match is_up {
            true => Err(format!(
                "it has ended; waiting for a report of the agent on node {}, which may have stopped it",
                self.name_of(&node)
            )),
            false => Ok(false),
        }
    }
}
