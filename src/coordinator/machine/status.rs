//! The published status, for the API, `flowctl cluster status` and `explain`.

use super::event::{At, Effect};
use super::job::{Job, Rejection};
use super::record::{Goal, JobPhase};
use super::state::{Machine, Seen};
use model::cluster::{ClusterJobStatus, ClusterNodeStatus, ClusterStatus, JobState, NodeState, Why, WhyKind};
use model::swarm::{NodeId, ServiceId, SwarmTask, TaskState};
use std::collections::{BTreeMap, BTreeSet};

impl Machine {
    pub(super) fn publish(&mut self, at: At) {
        let status = self.status(at);
        self.effects.push(Effect::Publish(Box::new(status)));
    }

    /// Returns the current status.
    pub fn status(&self, at: At) -> ClusterStatus {
        let acts = self.acts(at);
        let why = match (&self.look_error, &self.swarm) {
            (Some(why), _) => {
                Some(format!("cannot read Swarm's state: {why}; check with `docker node ls` that this engine is a manager"))
            }
            (None, None) => Some("Swarm's state has not been read yet".to_owned()),
            (None, Some(_)) if !acts => Some(
                "standby: this manager is not Swarm's leader; `docker node ls` shows the leader, whose flowcoord is active"
                    .to_owned(),
            ),
            _ => None,
        };
        let mut workers: BTreeMap<&NodeId, usize> = BTreeMap::new();
        for node in self.seen.values().flat_map(Seen::occupied) {
            *workers.entry(node).or_default() += 1;
        }
        let nodes = self.nodes.values().map(|seen| {
            let (state, why) = self.state_of(seen);
            let report = seen.report.as_ref().map(|(_, report)| report);
            ClusterNodeStatus {
                id: seen.node.id.clone(),
                name: seen.node.hostname.clone(),
                state,
                why,
                capacity: seen.capacity(),
                used_cores: report.and_then(|report| report.used_cores),
                workers: workers.get(&seen.node.id).copied().unwrap_or(0),
                agent: report.map(|report| report.version.clone()),
            }
        });
        let mut jobs: Vec<ClusterJobStatus> =
            self.seen.iter().map(|(id, seen)| self.job_status(id, seen, at)).collect();
        jobs.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.service.cmp(&b.service)));
        ClusterStatus { at: at.unix, acts, why, nodes: nodes.collect(), jobs }
    }

    fn job_status(&self, id: &ServiceId, seen: &Seen, at: At) -> ClusterJobStatus {
        let blank = ClusterJobStatus::new(id.clone(), seen.service.name.clone(), JobState::Refused);
        let job = match &seen.job {
            Ok(job) => job,
            Err(Rejection(why)) => {
                let (node, kind) = (seen.live_nodes().next().cloned(), WhyKind::Invalid);
                return ClusterJobStatus { node, why: Some(Why { kind, text: why.clone() }), ..blank };
            }
        };
        let reported = self.worker_of(id, job);
        let last = reported.or(seen.memory.last_report.as_ref());
        let state = state_of(job);
        // A job that waits may have been started manually. Else it is on a node only by its saved state.
        let waits = job.record.phase == JobPhase::Waiting;
        let live = seen.live_nodes().next().filter(|_| waits);
        let home = job.record.home.as_ref().filter(|_| !waits || job.has_local_state());
        ClusterJobStatus {
            gang: job.options.gang.clone(),
            state,
            node: live.or(home).cloned(),
            to: job.record.to.clone(),
            why: seen.memory.why.clone(),
            reason: job.record.why.clone(),
            log: job.record.log.clone(),
            mark: job.record.mark.as_ref().map(ToString::to_string),
            moves: job.record.moves,
            units: reported.and_then(|worker| worker.units).or_else(|| seen.last_units(job)).or(job.record.saved),
            total: last.and_then(|worker| worker.total).or(job.record.total),
            last_move_s: seen.memory.last_move_s,
            deadline: job.options.deadline.map(|deadline| deadline.of(seen.service.created)),
            expected_end: seen.memory.expected_end.filter(|_| !matches!(job.record.phase, JobPhase::Done)),
            alternatives: self.compared(seen, job),
            cost: self.cost_so_far(seen, job, at),
            exit_code: job.record.exit,
            ..blank
        }
    }

    /// Returns why a running job is still on its node although that is draining, and how to stop it.
    pub(super) fn why_it_stays(&self, id: &ServiceId, job: &Job) -> Option<String> {
        let home = job.record.home.as_ref().filter(|home| self.state_at(home) == NodeState::Draining)?;
        let (node, name) = (self.name_of(home), &self.seen.get(id)?.service.name);
        let why = match job.is_movable() {
            true => "no other node has room for it yet, or other moves go first",
            false => job.why_unmovable(),
        };
        let again = match job.options.checkpoint {
            Some(_) => "",
            None => " (without a checkpoint, it begins again when it is resumed)",
        };
        Some(format!(
            "it stays on draining node {node}: {why}; to stop it, run `flowctl cluster suspend {name}`{again}"
        ))
    }
}

impl Seen {
    /// Returns the units of the last report on a job that runs on a node that does not report now.
    pub(super) fn last_units(&self, job: &Job) -> Option<f64> {
        let is_up = matches!(job.record.phase, JobPhase::Running);
        let last = self.memory.last_report.as_ref().filter(|_| is_up)?;
        last.units.filter(|units| units.is_finite())
    }

    /// Returns the nodes of its tasks that have not ended. A rejected service, and one that was started manually, may have some too.
    pub(super) fn live_nodes(&self) -> impl Iterator<Item = &NodeId> {
        let past = self.job.as_ref().ok().map(|job| &job.record.past);
        let is_past = move |task: &SwarmTask| past.is_some_and(|past| past.contains(&task.id));
        let is_live =
            move |task: &&SwarmTask| matches!(task.state, TaskState::Preparing | TaskState::Running) && !is_past(task);
        self.tasks.iter().filter(is_live).filter_map(|task| task.node.as_ref())
    }

    /// Returns the nodes on which a worker of it is, or to which it moves.
    fn occupied(&self) -> BTreeSet<&NodeId> {
        let mut nodes: BTreeSet<&NodeId> = self.live_nodes().collect();
        if let Ok(job) = &self.job
            && !matches!(job.record.phase, JobPhase::Waiting | JobPhase::Done)
        {
            nodes.extend(job.record.home.iter().chain(&job.record.to));
        }
        nodes
    }
}

fn state_of(job: &Job) -> JobState {
    match job.record.phase {
        JobPhase::Waiting if job.record.suspended => JobState::Suspended,
        JobPhase::Waiting => JobState::Waiting,
        JobPhase::Starting => JobState::Starting,
        JobPhase::Running => JobState::Running,
        JobPhase::Stopping => JobState::Stopping,
        JobPhase::Carrying => JobState::Carrying,
        JobPhase::Done if job.record.goal == Some(Goal::Cancel) => JobState::Cancelled,
        JobPhase::Done if job.record.exit == Some(0) => JobState::Done,
        JobPhase::Done => JobState::Failed,
    }
}
