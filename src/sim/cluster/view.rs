//! The coordinator's view of the virtual nodes: the observation from which a plan is made.
//!
//! Remaining work is the forecast of each node's own governor; progress is what each job has printed; categories come from SpeCon's
//! monitors.

use super::fleet::Fleet;
use super::job::{JobRun, Slot, SlotActivity, Training};
use super::submission::Submission;
use super::variant::ClusterVariant;
use crate::node::Resident;
use crate::scenario::NodeShape;
use model::Millis;
use model::cluster::{
    ClusterJob, ClusterNode, ClusterObservation, ClusterSettings, Constraint, MoveRule, NodeState, Phase, Report,
    Resources, Worker,
};
use policy::cluster::Monitor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The current observation, and the state for the next one.
pub(super) struct View {
    observation: ClusterObservation,
    /// Index of each observed job in the schedule.
    numbers: Vec<usize>,
    /// Number of completed jobs, and the sum of their work.
    ended: (f64, f64),
    /// Number of completed jobs of each program, and the sum of their work per unit.
    programs: BTreeMap<usize, (f64, f64)>,
    /// SpeCon's monitors, with the number of printed units that each has read.
    monitors: BTreeMap<usize, (Monitor, usize)>,
    categorised: Millis,
    residents: Vec<Vec<Resident>>,
}

impl View {
    pub(super) fn new(nodes: usize, shape: NodeShape) -> View {
        let node = |number: usize| ClusterNode {
            name: node_name(number),
            state: NodeState::Ready,
            capacity: Resources { cores: shape.cores, memory: shape.memory, gpus: 0 },
            used_cores: Some(0.0),
            labels: BTreeMap::from([(NAME.into(), node_name(number))]),
        };
        View {
            observation: ClusterObservation { nodes: (0..nodes).map(node).collect(), ..ClusterObservation::default() },
            numbers: Vec::new(),
            ended: (0.0, 0.0),
            programs: BTreeMap::new(),
            monitors: BTreeMap::new(),
            categorised: Millis(0),
            residents: Vec::new(),
        }
    }

    pub(super) fn observation(&self) -> &ClusterObservation {
        &self.observation
    }

    /// Returns the index in the schedule of an observed job.
    pub(super) fn job(&self, observed: usize) -> usize {
        self.numbers[observed]
    }

    /// Records a change, which ends a quiet period.
    pub(super) fn changed(&mut self, now: f64) {
        self.observation.quiet_since = millis(now);
    }

    pub(super) fn changed_s(&self) -> f64 {
        self.observation.quiet_since.as_secs_f64()
    }

    /// Records the end of a job.
    pub(super) fn ended(&mut self, submission: &Submission, now: f64) {
        let work = submission.job.whole_work();
        self.ended = (self.ended.0 + 1.0, self.ended.1 + work);
        if let Some(program) = submission.program {
            count(&mut self.programs, program, work / submission.job.plan.units as f64);
        }
        self.observation.usual_work = Some(self.ended.1 / self.ended.0);
        self.changed(now);
    }

    /// Updates the observation.
    pub(super) fn observe(
        &mut self,
        now: f64,
        fleet: &mut Fleet,
        jobs: &mut [JobRun<'_>],
        active: &BTreeSet<usize>,
        variant: &ClusterVariant,
        move_s: f64,
    ) {
        self.observation.now = millis(now);
        self.residents.resize_with(fleet.len(), Vec::new);
        for (node, residents) in self.residents.iter_mut().enumerate() {
            residents.clear();
            residents.extend(fleet.node_mut(node).residents(now));
            self.observation.nodes[node].used_cores = Some(residents.iter().map(|resident| resident.cores).sum());
        }
        if variant.cluster.moves == MoveRule::SpeCon {
            self.categorise(fleet, jobs, active, &variant.cluster);
        }
        let known = self.known_programs(fleet, jobs);
        self.numbers.clear();
        self.numbers.extend(active.iter().copied());
        let View { observation, residents, monitors, .. } = self;
        observation.jobs.clear();
        observation.jobs.extend(active.iter().map(|&number| {
            let run = &jobs[number];
            let submission = run.submission;
            let plan = &submission.job.plan;
            let first_node = submission.first_node.filter(|_| run.slots().is_empty());
            let observe_worker = |(worker, slot): (u32, Slot)| {
                observe_worker(run, worker, slot, residents, monitors.get(&number), move_s)
            };
            ClusterJob {
                name: run.name.clone(),
                arrived: millis(plan.start_s),
                priority: submission.priority,
                request: submission.request,
                workers: submission.workers,
                constraints: first_node.into_iter().map(on_node).collect(),
                work: match plan.before {
                    Some(_) => Some(submission.job.whole_work()),
                    None => submission.program.and_then(|program| {
                        let (count, sum) = known.get(&program)?;
                        Some(sum / count * plan.units as f64)
                    }),
                },
                deadline: None,
                takes_s: None,
                late_cost: None,
                alternatives: Vec::new(),
                movable: true,
                moves: run.moves,
                placed: run.slots().into_iter().map(observe_worker).collect(),
            }
        }));
    }

    /// Returns the work per unit of each program of which a job has ended or is forecast, as their number and sum.
    fn known_programs(&self, fleet: &Fleet, jobs: &[JobRun<'_>]) -> BTreeMap<usize, (f64, f64)> {
        let mut known = self.programs.clone();
        for (node, residents) in self.residents.iter().enumerate() {
            for resident in residents {
                let submission = jobs[fleet.owner(node, resident.number).0].submission;
                let (Some(program), Some(forecast)) = (submission.program, resident.forecast) else { continue };
                let units = submission.job.plan.units as f64;
                let done = submission.job.whole_work() * resident.units as f64 / units;
                count(&mut known, program, (done + forecast.to_end.likely) / units);
            }
        }
        known
    }

    /// Runs SpeCon's Algorithm 1, once per interval.
    fn categorise(&mut self, fleet: &Fleet, jobs: &[JobRun<'_>], active: &BTreeSet<usize>, settings: &ClusterSettings) {
        let now = self.observation.now;
        self.monitors.retain(|number, _| active.contains(number));
        let is_due = now.since(self.categorised) >= settings.specon_interval;
        for (node, residents) in self.residents.iter().enumerate() {
            for resident in residents {
                let (number, _) = fleet.owner(node, resident.number);
                let (monitor, read) = self.monitors.entry(number).or_insert_with(|| (Monitor::new(now), 0));
                let printed = &jobs[number].submission.job.printed;
                let upto = resident.units.min(printed.len());
                printed.get(*read..upto).unwrap_or_default().iter().for_each(|value| monitor.evaluate(*value));
                *read = upto;
                if is_due {
                    monitor.categorise(now, settings.specon_threshold);
                }
            }
        }
        if is_due {
            self.categorised = now;
        }
    }
}

/// Label of each node with its name.
const NAME: &str = "name";

fn node_name(number: usize) -> Arc<str> {
    format!("node-{number}").into()
}

fn on_node(number: usize) -> Constraint {
    Constraint { label: NAME.into(), equal: true, value: node_name(number) }
}

fn observe_worker(
    run: &JobRun<'_>,
    number: u32,
    slot: Slot,
    residents: &[Vec<Resident>],
    monitor: Option<&(Monitor, usize)>,
    move_s: f64,
) -> Worker {
    let resident = match slot.stage {
        SlotActivity::Training(Training { number }) => {
            residents[slot.node].iter().find(|resident| resident.number == number)
        }
        _ => None,
    };
    let plan = &run.submission.job.plan;
    let report = resident.and_then(|resident| {
        let total = run.submission.job.printed_total()?;
        Some(Report { unit_s: resident.unit_s?, units_left: (total - resident.units as f64).max(0.0) })
    });
    Worker {
        number,
        node: slot.node,
        phase: match slot.stage {
            SlotActivity::Idle | SlotActivity::Training(_) | SlotActivity::Done => Phase::Running,
            SlotActivity::MovingTo(to) => Phase::MovingTo(to),
            SlotActivity::Stopping => Phase::Stopping,
        },
        cores: resident.map(|resident| resident.cores),
        work_left: resident.and_then(|resident| resident.forecast).map(|forecast| forecast.to_end),
        report,
        convergence: monitor.map(|(monitor, _)| monitor.convergence()),
        move_s: move_s + plan.startup_s + plan.startup_work / plan.parallelism,
    }
}

fn count(programs: &mut BTreeMap<usize, (f64, f64)>, program: usize, work_per_unit: f64) {
    let (count, sum) = programs.entry(program).or_default();
    (*count, *sum) = (*count + 1.0, *sum + work_per_unit);
}

fn millis(seconds: f64) -> Millis {
    Millis((seconds * 1000.0).max(0.0) as u64)
}
