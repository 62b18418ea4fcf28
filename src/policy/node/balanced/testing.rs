//! Test fixture: a node under the default policy, with jobs set one by one.

use crate::node::testing::{container, node};
use crate::{Governor, check};
use model::{
    ClaimOrigin, ContainerObservation, CpuTime, Curve, Direction, Estimate, Millis, NodeObservation, NodePlan,
    Objective, Phase, PolicyName, PolicySettings, Progress, ProgressUnit, Reason, Share, TotalClaim, Trial,
};

pub(super) const INTERVAL: Millis = Millis::from_secs(20);

/// A node whose jobs report once per CPU-second used.
pub(super) struct Bench {
    pub(super) governor: Governor,
    pub(super) node: NodeObservation,
}

/// A job that has done `done` of `total` units at one CPU-second each, `to_quality` units away from 95 % quality.
pub(super) fn job(id: &str, done: f64, total: Option<f64>, to_quality: Option<f64>) -> ContainerObservation {
    let mut c = container(id);
    c.usage.cpu = Some(CpuTime((done * 1e6) as u64));
    c.usage.pressure.cpu = Some(0.5); // the job wants more than it gets
    c.learning.confidence = 1.0;
    c.learning.evaluations = done as u64;
    c.learning.progress = Some(Progress { unit: ProgressUnit::Step, current: done, total, at: Millis(0) });
    c.learning.units_to_completion = total.map(|total| Estimate::exactly(total - done));
    c.learning.curve = to_quality.map(|units| Curve {
        phase: Phase::Improving,
        quality: if units > 0.0 { 0.5 } else { 0.97 },
        units_to_quality: Some(Estimate::exactly(units)),
    });
    c
}

/// Total of trials, with rungs at 10, 30 and 90 units.
pub(super) const TOTAL: f64 = 270.0;

/// A trial that has done so many units; `loss` gives the value at each unit.
pub(super) fn trial(id: &str, done: f64, loss: impl Fn(f64) -> f64) -> ContainerObservation {
    let mut trial = job(id, done, Some(TOTAL), Some(TOTAL / 2.0 - done));
    let steps = (0..=done as u64).map(|unit| unit as f64);
    trial.learning.metric = Some("loss".to_owned());
    trial.learning.direction = Some(Direction::Down);
    trial.trial = Some(Trial::new("sweep".into(), steps.map(|unit| (unit, loss(unit))).collect()));
    trial
}

/// A trial whose loss falls to this value.
pub(super) fn falling_to(id: &str, done: f64, last: f64) -> ContainerObservation {
    trial(id, done, |unit| last + (1.0 - last) * (-unit / 20.0).exp())
}

/// A job that has used so many CPU-seconds and printed nothing, but whose command states its number of epochs.
pub(super) fn claiming(id: &str, cpu_seconds: u64, total: f64) -> ContainerObservation {
    let mut c = container(id);
    c.usage.cpu = Some(CpuTime(cpu_seconds * 1_000_000));
    c.usage.pressure.cpu = Some(0.0);
    c.learning.units_to_completion = Some(Estimate::exactly(total));
    let (key, origin) = ("--epochs".to_owned(), ClaimOrigin::Command);
    c.learning.claim = Some(TotalClaim { total, key, origin, confidence: 0.9 });
    c
}

/// The same job 20 CPU-seconds ago (an equal share of two cores for one interval), so that its cost per unit can be measured.
fn earlier(job: &ContainerObservation) -> ContainerObservation {
    let mut job = job.clone();
    job.usage.cpu = job.usage.cpu.map(|cpu| CpuTime(cpu.0 - 20_000_000));
    if let Some(progress) = &mut job.learning.progress {
        progress.current -= 20.0;
    }
    job
}

impl Bench {
    /// A node whose jobs have already run for an interval.
    pub(super) fn new(objective: f64, jobs: Vec<ContainerObservation>) -> Self {
        let settings = PolicySettings {
            policy: PolicyName::Balanced,
            objective: Objective(objective),
            floor: Share::clamped(0.1),
            ..PolicySettings::default()
        };
        let mut bench = Bench { governor: Governor::new(settings), node: node(jobs.clone()) };
        jobs.iter().enumerate().for_each(|(index, job)| bench.advance(index, earlier(job)));
        bench.tick();
        jobs.into_iter().enumerate().for_each(|(index, job)| bench.advance(index, job));
        bench
    }

    /// Sets a job as it will be at the next tick, with a report at that time.
    pub(super) fn advance(&mut self, index: usize, mut job: ContainerObservation) {
        if let Some(progress) = &mut job.learning.progress {
            progress.at = self.node.now.after(INTERVAL);
        }
        self.node.containers[index] = job;
    }

    pub(super) fn tick(&mut self) -> NodePlan {
        self.node.now = self.node.now.after(INTERVAL);
        let plan = self.governor.tick(&self.node);
        assert_eq!(check(&plan, &self.node), []);
        plan
    }

    pub(super) fn shares(&mut self) -> Vec<f64> {
        self.tick().containers.iter().map(|planned| (planned.share.fraction() * 100.0).round() / 100.0).collect()
    }
}

pub(super) fn ranked(plan: &NodePlan, index: usize) -> (String, f64, usize) {
    match &plan.containers[index].reason {
        Reason::Ranked { milestone, work, rank, .. } => (milestone.to_string(), *work, *rank),
        other => panic!("not ranked: {other:?}"),
    }
}
