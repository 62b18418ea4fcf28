//! Rented nodes: opened for waiting jobs, and closed when they have been idle for long.
//!
//! ```text
//! open ──idle──► closing (drain) ──close-command──► closed ──a job waits──► opening ──open-command──► open (active)
//! ```
//!
//! Each stage is a label of the node. It is written by compare-and-swap, together with the availability, before its command runs. A command
//! whose result was lost is run again. Only worker nodes with the label `flowcon.rented=true` are touched.

use super::event::{At, Effect};
use super::labels::{STAGE, bounded};
use super::observe::Observed;
use super::record::JobPhase;
use super::rented_node::{RentalStage, STAGES, stage};
use super::state::{Machine, SeenNode};
use model::cluster::{ClusterPlan, NodeState};
use model::swarm::{Availability, ChangeOutcome, NodeChange, NodeId, NodeReport};
use policy::cluster::{RentalState, Times, rent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Machine {
    /// Opens and closes nodes after a plan.
    pub(super) fn rent(&mut self, observed: &Observed, plan: &ClusterPlan, at: At) {
        let Some(settings) = self.settings.rent.clone() else { return };
        let used = self.used_nodes();
        let states: Vec<NodeState> = observed.observation.nodes.iter().map(|node| node.state).collect();
        let mut rentals = Vec::new();
        for (id, state) in observed.nodes.iter().zip(states) {
            let rental = match self.nodes.get_mut(id) {
                Some(SeenNode { node, rental, .. }) => {
                    rental.rental(node, state, used.contains(id), self.settings.start_within, at)
                }
                None => RentalState::Ineligible,
            };
            rentals.push(rental);
        }
        let times = Times { opens_within: settings.command_within, close_after: settings.close_after };
        let decided = rent(&observed.observation, plan, &rentals, times);
        for (node, job) in decided.opens {
            let text = format!("opening for {}", observed.observation.jobs[job].name);
            self.write_stage(&observed.nodes[node], Some(RentalStage::Opening), None, &text);
        }
        if let Some(node) = decided.closes {
            let text = format!("closing: idle for {:.0} s", settings.close_after.as_secs_f64());
            self.write_stage(&observed.nodes[node], Some(RentalStage::Closing), Some(Availability::Drain), &text);
        }
    }

    /// Returns the nodes in use: by workers, tasks, reported workers or other governed work, or the saved state of jobs that are not done.
    fn used_nodes(&self) -> BTreeSet<NodeId> {
        let mut used = BTreeSet::new();
        for seen in self.seen.values() {
            used.extend(seen.tasks.iter().filter(|task| task.is_wanted).filter_map(|task| task.node.clone()));
            let Ok(job) = &seen.job else { continue };
            let record = &job.record;
            if record.phase == JobPhase::Done {
                continue;
            }
            used.extend(record.placed.iter().cloned());
            if record.phase != JobPhase::Waiting || job.carries.is_some() || job.is_tied {
                used.extend(record.home.iter().chain(&record.to).cloned());
            }
        }
        let is_busy = |report: &NodeReport| !report.workers.is_empty() || report.others > 0;
        let works = |node: &&SeenNode| node.report.as_ref().is_some_and(|(_, report)| is_busy(report));
        used.extend(self.nodes.values().filter(works).map(|node| node.node.id.clone()));
        used
    }

    /// Runs the next step of each rented node: its command, or the following stage.
    pub(super) fn step_nodes(&mut self, at: At) {
        let Some(settings) = self.settings.rent.clone() else { return };
        let staged: Vec<(NodeId, RentalStage)> =
            self.nodes.iter().filter_map(|(id, seen)| Some((id.clone(), stage(&seen.node)?))).collect();
        for (id, stage) in staged {
            let Some(seen) = self.nodes.get_mut(&id) else { continue };
            let is_drained = seen.node.availability == Availability::Drain;
            let command = match stage {
                RentalStage::Opening => &settings.open_command,
                RentalStage::Closing if is_drained => &settings.close_command,
                RentalStage::Closed if is_drained => continue,
                RentalStage::Closing | RentalStage::Closed => {
                    self.write_stage(&id, None, None, "opened manually");
                    continue;
                }
            };
            let hook = &mut seen.rental.hook;
            if hook.is_done || command.is_empty() {
                match stage {
                    RentalStage::Opening => self.write_stage(&id, None, Some(Availability::Active), "opened"),
                    _ => self.write_stage(&id, Some(RentalStage::Closed), None, "closed"),
                }
            } else if !hook.is_under_way && at.now >= hook.next {
                hook.is_under_way = true;
                let command = command.iter().cloned().chain([seen.node.hostname.to_string()]).collect();
                self.effects.push(Effect::RunHook { node: id, command, within: settings.command_within });
            }
        }
    }

    pub(super) fn hook_ended(&mut self, id: &NodeId, outcome: Result<(), String>, at: At) {
        let retry_after = |failures| self.backoff(failures);
        let next = self.nodes.get(id).map(|seen| at.now.after(retry_after(seen.rental.hook.failures)));
        let (Some(seen), Some(next)) = (self.nodes.get_mut(id), next) else { return };
        let name = seen.node.hostname.clone();
        let hook = &mut seen.rental.hook;
        hook.is_under_way = false;
        match outcome {
            Ok(()) => (hook.is_done, hook.error) = (true, None),
            Err(why) => {
                let why = bounded(&why, 200);
                (hook.failures, hook.next, hook.error) = (hook.failures + 1, next, Some(why.clone()));
                self.has_news = true;
                self.emit(None, format!("node {name}: command of [nodes] in flowcoord.toml failed, will retry: {why}"));
            }
        }
        // It may have lost the leadership while the command ran.
        if self.acts(at) {
            self.step_nodes(at);
        }
    }

    /// Writes a stage and its availability in one update.
    fn write_stage(&mut self, id: &NodeId, stage: Option<RentalStage>, availability: Option<Availability>, text: &str) {
        let Some(seen) = self.nodes.get_mut(id) else { return };
        let version = seen.node.version;
        if seen.rental.asked == Some(version) {
            return; // in flight
        }
        seen.rental.asked = Some(version);
        let word = stage.and_then(|stage| STAGES.iter().find(|(known, _)| *known == stage)).map(|(_, word)| *word);
        let labels = BTreeMap::from([(Arc::from(STAGE), word.map(Arc::from))]);
        let name = seen.node.hostname.clone();
        self.has_news = true;
        self.emit(None, format!("node {name}: {text}"));
        self.effects.push(Effect::ChangeNode(NodeChange { node: id.clone(), version, labels, availability }));
    }

    /// Handles the reply to a change of a stage. The next look shows the outcome.
    pub(super) fn stage_written(&mut self, id: &NodeId, version: u64, outcome: &ChangeOutcome) {
        let Some(seen) = self.nodes.get_mut(id).filter(|seen| seen.rental.asked == Some(version)) else { return };
        if *outcome != ChangeOutcome::Done {
            seen.rental.asked = None;
        }
    }
}
