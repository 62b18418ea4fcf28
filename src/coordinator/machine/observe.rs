//! Observation for the policy, from services, nodes and agents' reports.
//!
//! A job is a service, or all services of a gang. Workers that are not placed and cannot start now are left out, so that no plan counts on
//! them. Reservations of other services are subtracted from their nodes.

use super::alternatives::Alternative;
use super::constraints::{NODE_HOSTNAME, NODE_ID, NODE_ROLE};
use super::event::At;
use super::job::Job;
use super::known_work::KnownWork;
use super::labels::{GANG, JobOptions, Role};
use super::record::{Goal, JobPhase};
use super::state::{Machine, Memory, Seen, SeenNode};
use model::cluster::{
    ClusterJob, ClusterNode, ClusterObservation, Constraint, NodeState, Phase, Report, Resources, WhyKind, Worker,
    WorkerRange,
};
use model::swarm::{NodeId, ServiceId, SwarmTask, WorkerReport};
use model::{Estimate, Millis};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a moved job stays before another move that only saves time, in costs of a move: so it spends at most a tenth of its time moving.
const STAYS: f64 = 10.0;

/// Number of a node's latest reports whose cores in use are kept.
const USES_KEPT: usize = 12;

/// An observation, and the ids behind its indexes.
pub(super) struct Observed {
    pub observation: ClusterObservation,
    /// Nodes by index.
    pub nodes: Vec<NodeId>,
    /// Services of each job, by worker number.
    pub jobs: Vec<Vec<ServiceId>>,
}

/// The services of one job.
#[derive(Default)]
struct Members<'a> {
    /// Placed or startable: first the parameter servers, so that scaling starts and stops the workers after them.
    here: Vec<(&'a ServiceId, &'a Seen, &'a Job)>,
    /// Parameter servers that have not ended.
    servers: u32,
    /// Workers that have ended.
    done: u32,
    /// Neither placed nor startable.
    absent: u32,
    /// Rejected because of invalid labels or spec.
    rejected: u32,
}

impl Members<'_> {
    /// Returns an option of the gang, which may be set on any of its services.
    fn option<T>(&self, of: impl Fn(&JobOptions) -> Option<T>) -> Option<T> {
        self.here.iter().find_map(|(_, _, job)| of(&job.options))
    }

    /// Returns the number of workers without which the job cannot start.
    fn least(&self) -> u32 {
        let all = self.here.len() as u32 + self.absent + self.rejected;
        self.option(|options| options.workers_min).map_or(all, |min| self.left(min)).max(1)
    }

    /// Returns the number of services that are left of a gang with this number of workers.
    fn left(&self, workers: u32) -> u32 {
        workers.saturating_sub(self.done) + self.servers
    }

    /// Returns the expected CPU-seconds to the end of all workers; `None` = unknown for one of them.
    fn work(&self, known_work: &KnownWork) -> Option<f64> {
        let of = |(_, seen, job): &(&ServiceId, &Seen, &Job)| match seen.forecast() {
            Some(forecast) => Some(forecast.likely),
            None => Some(known_work.expected(&job.program)? * left_of(self)),
        };
        self.here.iter().map(of).sum()
    }
}

impl Machine {
    /// Builds the observation. Gangs that cannot be complete are left out, with a reason.
    pub(super) fn observe(&mut self, at: At) -> Observed {
        let nodes: Vec<NodeId> = self.nodes.keys().cloned().collect();
        let places: BTreeMap<&NodeId, usize> = nodes.iter().enumerate().map(|(at, node)| (node, at)).collect();
        let quiet = at.now.since(self.quiet_since);
        let mut observation = ClusterObservation {
            now: at.unix,
            quiet_since: Millis(at.unix.0.saturating_sub(quiet.0)),
            usual_work: self.usual_work.mean(),
            ended: Vec::new(),
            nodes: self.nodes.values().map(|node| self.node(node)).collect(),
            jobs: Vec::new(),
        };
        let mut gangs: BTreeMap<Arc<str>, Members> = BTreeMap::new();
        for (id, seen) in &self.seen {
            let Ok(job) = &seen.job else {
                self.occupy(seen, &places, &mut observation.nodes);
                if let Some(gang) = seen.service.labels.get(GANG) {
                    gangs.entry(gang.clone()).or_default().rejected += 1;
                }
                continue;
            };
            let members = gangs.entry(job.options.gang.clone().unwrap_or_else(|| id.0.clone())).or_default();
            match job.record.phase {
                JobPhase::Done => {
                    members.done += u32::from(job.options.role == Role::Worker);
                    observation.ended.push((job.options.priority, seen.service.request));
                }
                JobPhase::Waiting if seen.memory.is_startable => members.here.push((id, seen, job)),
                _ if self.placement(seen, job, &places).is_some() => members.here.push((id, seen, job)),
                _ => members.absent += 1,
            }
            let is_server = job.options.role == Role::ParameterServer;
            members.servers += u32::from(is_server && job.record.phase != JobPhase::Done);
        }
        let known_work = self.known_work();
        let (mut jobs, mut short) = (Vec::new(), Vec::new());
        for mut members in gangs.into_values() {
            members.here.sort_by_key(|(id, seen, job)| (job.options.role, seen.service.name.clone(), *id));
            match self.job(&members, &places, &known_work, at) {
                Some(job) => {
                    observation.jobs.push(job);
                    jobs.push(members.here.iter().map(|(id, _, _)| (*id).clone()).collect());
                }
                None => {
                    let (least, can) = (members.least(), members.here.len());
                    short.extend(members.here.iter().map(|(id, _, _)| ((*id).clone(), least, can)));
                }
            }
        }
        drop(places);
        for (id, least, can) in short {
            let text = format!("its gang needs {least} workers, but only {can} can start now");
            self.set_why(&id, WhyKind::Gang, text);
        }
        Observed { observation, nodes, jobs }
    }

    /// Returns a node as the policy sees it.
    pub(super) fn node(&self, seen: &SeenNode) -> ClusterNode {
        let node = &seen.node;
        let mut labels = node.labels.clone();
        labels.insert(NODE_ID.into(), node.id.0.clone());
        labels.insert(NODE_HOSTNAME.into(), node.hostname.clone());
        labels.insert(NODE_ROLE.into(), if node.is_manager { "manager" } else { "worker" }.into());
        ClusterNode {
            name: node.id.0.clone(),
            state: self.state_of(seen).0,
            capacity: seen.capacity(),
            used_cores: seen.used_cores(),
            labels,
        }
    }

    /// Subtracts what the running tasks of a rejected service reserve.
    fn occupy(&self, seen: &Seen, places: &BTreeMap<&NodeId, usize>, nodes: &mut [ClusterNode]) {
        let there = |task: &SwarmTask| places.get(task.node.as_ref().filter(|_| task.is_wanted)?).copied();
        for place in seen.tasks.iter().filter_map(there) {
            nodes[place].capacity = nodes[place].capacity.without(seen.service.request);
        }
    }

    /// Returns the node and phase of a worker; `None` if it waits or its node is unknown.
    fn placement(&self, seen: &Seen, job: &Job, places: &BTreeMap<&NodeId, usize>) -> Option<(usize, Phase)> {
        let record = &job.record;
        let home = places.get(record.home.as_ref()?).copied();
        let to = record.to.as_ref().and_then(|to| places.get(to).copied());
        let goes = matches!(record.goal, Some(Goal::Move | Goal::Return));
        match record.phase {
            // It has just stopped: whether it can start again is known soon.
            JobPhase::Waiting if seen.is_settling() => Some((home?, Phase::Stopping)),
            JobPhase::Waiting | JobPhase::Done => None,
            JobPhase::Starting => Some((home?, Phase::Starting)),
            JobPhase::Running => Some((home?, Phase::Running)),
            JobPhase::Carrying if !goes => Some((to?, Phase::Starting)),
            JobPhase::Stopping | JobPhase::Carrying => match to.filter(|_| goes) {
                Some(to) => Some((home?, Phase::MovingTo(to))),
                None => Some((home?, Phase::Stopping)),
            },
        }
    }

    /// Builds one job of the observation; `None` if it has too few workers to start.
    fn job(
        &self,
        members: &Members,
        places: &BTreeMap<&NodeId, usize>,
        known_work: &KnownWork,
        at: At,
    ) -> Option<ClusterJob> {
        let (_, first, leader) = members.here.first()?;
        let here = members.here.len() as u32;
        let placed: Vec<Worker> = (0..)
            .zip(&members.here)
            .filter_map(|(number, (id, seen, job))| self.worker(number, id, seen, job, places))
            .collect();
        if placed.is_empty() && here < members.least() {
            return None;
        }
        // A running gang is not stopped because one of its services was rejected.
        let min =
            if placed.is_empty() { members.least() } else { members.least().saturating_sub(members.rejected).max(1) };
        let max = members.option(|options| options.workers_max).map_or(here, |max| members.left(max));
        let max = max.clamp(min.min(here), here);
        let is_elastic = members.option(|options| options.workers_min).is_some() && min < max;
        let initial = members.option(|options| options.workers_initial).map_or(min, |initial| members.left(initial));
        let initial = initial.clamp(min, max.max(min));
        let workers = WorkerRange { min, initial: if is_elastic { initial } else { max }, max };
        let mut constraints: Vec<Constraint> = Vec::new();
        for (_, seen, job) in &members.here {
            let all = job.constraints.iter().cloned().chain(self.own_constraints(seen, job, at));
            for constraint in all {
                if !constraints.contains(&constraint) {
                    constraints.push(constraint);
                }
            }
        }
        let is_movable = |(_, seen, job): &(&ServiceId, &Seen, &Job)| self.is_movable_now(seen, job, at);
        let arrived = members.here.iter().map(|(_, seen, _)| seen.service.created).min().unwrap_or_default();
        Some(ClusterJob {
            name: leader.options.gang.clone().unwrap_or_else(|| first.service.name.clone()),
            arrived,
            priority: leader.options.priority,
            request: members
                .here
                .iter()
                .fold(Resources::default(), |most, (_, seen, _)| larger(most, seen.service.request)),
            workers,
            constraints,
            work: members.work(known_work),
            deadline: members.option(|options| options.deadline).map(|deadline| deadline.of(arrived)),
            takes_s: members
                .option(|options| options.duration)
                .or_else(|| self.tabled(first, leader, &Alternative::of(first.service.request)))
                .map(|whole| whole.as_secs_f64() * left_of(members)),
            late_cost: members.option(|options| options.late_cost),
            alternatives: self.alternatives(members, known_work),
            movable: members.here.iter().all(is_movable),
            moves: members.here.iter().map(|(_, _, job)| job.record.moves).max().unwrap_or(0),
            placed,
        })
    }

    /// Returns the alternatives of a job with what is known about their run times: as earlier runs took, else as its owner or the table says.
    fn alternatives(&self, members: &Members, known_work: &KnownWork) -> Vec<model::cluster::Alternative> {
        let Some((_, seen, job)) = members.here.first() else { return Vec::new() };
        let of = |alternative: &Alternative| {
            let stated =
                || alternative.duration.or_else(|| self.tabled(seen, job, alternative)).map(Millis::as_secs_f64);
            let whole_s = known_work.seconds(&job.program, alternative).or_else(stated);
            model::cluster::Alternative {
                request: alternative.request(seen.service.request),
                constraints: alternative.constraints.clone(),
                takes_s: whole_s.map(|whole_s| whole_s * left_of(members)),
            }
        };
        job.options.alternatives.iter().map(of).collect()
    }

    /// Returns the run time of a whole job by the table.
    fn tabled(&self, seen: &Seen, job: &Job, alternative: &Alternative) -> Option<Millis> {
        let kind = job.options.kind.as_ref().unwrap_or(&seen.service.name);
        self.settings.run_times.of(kind, alternative)
    }

    /// Collects what is known about the programs of jobs without a forecast.
    fn known_work(&self) -> KnownWork {
        let jobs = || self.seen.values().filter_map(|seen| Some((seen, seen.job.as_deref().ok()?)));
        let is_open = |(seen, job): &(&Seen, &Job)| seen.forecast().is_none() || !job.options.alternatives.is_empty();
        let wanted = jobs().filter(|pair| pair.1.record.phase != JobPhase::Done && is_open(pair));
        // A moved job has used CPU time on several nodes, but reports only that on the last one.
        let whole = jobs().filter(|(_, job)| job.record.phase == JobPhase::Running && job.record.moves == 0);
        KnownWork::of(
            wanted.map(|(_, job)| &job.program),
            &self.ended_trainings,
            whole.filter_map(|(seen, job)| Some((&job.program, seen.memory.last_report.as_ref()?))),
        )
    }

    fn worker(
        &self,
        number: u32,
        id: &ServiceId,
        seen: &Seen,
        job: &Job,
        places: &BTreeMap<&NodeId, usize>,
    ) -> Option<Worker> {
        let (node, phase) = self.placement(seen, job, places)?;
        let reported = self.worker_of(id, job).or(seen.memory.last_report.as_ref());
        Some(Worker {
            number,
            node,
            phase,
            cores: reported.and_then(|worker| worker.cores),
            work_left: reported.and_then(|worker| worker.work_left),
            report: reported.and_then(report),
            convergence: seen.memory.monitor.as_ref().map(policy::cluster::Monitor::convergence),
            move_s: self.move_s(),
        })
    }

    /// The seconds without progress that a move is expected to cost.
    fn move_s(&self) -> f64 {
        self.move_s.mean().unwrap_or(self.settings.move_s)
    }

    /// Returns the constraints of a job besides its owner's.
    fn own_constraints(&self, seen: &Seen, job: &Job, at: At) -> Vec<Constraint> {
        let node = |equal: bool, node: &NodeId| Constraint { label: NODE_ID.into(), equal, value: node.0.clone() };
        let home = job.record.home.as_ref().filter(|_| job.is_tied);
        let mut constraints: Vec<Constraint> = home.into_iter().map(|home| node(true, home)).collect();
        if self.is_held(seen, job, at) {
            constraints.extend(job.record.avoid.iter().map(|avoided| node(false, avoided)));
        }
        constraints
    }

    /// Whether a plan may move it now.
    pub(super) fn is_movable_now(&self, seen: &Seen, job: &Job, at: At) -> bool {
        let home = job.record.home.as_ref();
        let is_in_reach =
            home.is_some_and(|home| matches!(self.state_at(home), NodeState::Ready | NodeState::Draining));
        let failed = job.record.tries > 0 && job.record.phase == JobPhase::Running;
        let waits = failed && (self.is_held(seen, job, at) || job.record.tries >= self.settings.tries_most);
        let is_drained = home.is_some_and(|home| self.state_at(home) == NodeState::Draining);
        let seen_for = seen.memory.since.as_ref().map_or(Millis(0), |(_, _, since)| at.now.since(*since));
        let is_settled = job.record.moves == 0 || seen_for.as_secs_f64() >= STAYS * self.move_s();
        job.is_movable() && is_in_reach && !waits && (is_drained || is_settled) && seen.memory.pending.is_none()
    }
}

impl SeenNode {
    pub(super) fn note_use(&mut self, used: Option<f64>) {
        self.used_cores.extend(used);
        self.used_cores.drain(..self.used_cores.len().saturating_sub(USES_KEPT));
    }

    /// Returns the most cores in use by the latest reports: while a job starts or stops, a node that has none to spare looks idle.
    pub(super) fn used_cores(&self) -> Option<f64> {
        self.used_cores.iter().copied().reduce(f64::max)
    }
}

impl Seen {
    /// Returns the latest forecast of its work left.
    fn forecast(&self) -> Option<Estimate> {
        self.memory.last_report.as_ref()?.work_left
    }

    /// Whether a stopped job may soon be able to start: it waits only for its proof, or for a change in flight.
    fn is_settling(&self) -> bool {
        let Memory { pending, is_startable, why, .. } = &self.memory;
        let kind = why.as_ref().map(|why| why.kind);
        !is_startable && (pending.is_some() || matches!(kind, None | Some(WhyKind::InProgress | WhyKind::NoProof)))
    }
}

/// Returns the fraction of a job that is left, by its saved state and last report; 1 if unknown.
fn left_of(members: &Members) -> f64 {
    let left = |(_, seen, job): &(&ServiceId, &Seen, &Job)| {
        let total = seen.memory.last_report.as_ref()?.total.filter(|total| *total > 0.0)?;
        Some((1.0 - job.record.saved? / total).clamp(0.0, 1.0))
    };
    members.here.iter().filter_map(left).reduce(f64::max).unwrap_or(1.0)
}

fn larger(a: Resources, b: Resources) -> Resources {
    Resources { cores: a.cores.max(b.cores), memory: a.memory.max(b.memory), gpus: a.gpus.max(b.gpus) }
}

fn report(worker: &WorkerReport) -> Option<Report> {
    Some(Report { unit_s: worker.unit_s?, units_left: (worker.total? - worker.units?).max(0.0) })
}
