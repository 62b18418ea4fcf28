//! On a node whose weights decide, nothing says that they have no effect.

use super::*;
use limits::EffectMeter;
use model::{ContainerObservation, CpuTime, NodeObservation, Place};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Policies that set weights, and schedules with jobs that wait for data or their GPU, have few threads, their own processors, or end early.
const POLICIES: [&str; 3] = ["flowcon", "balanced", "flowcon-2019"];
const SCHEDULES: [&str; 10] = [
    "fixed-3",
    "random-10-io",
    "random-10-threads",
    "random-15-sockets",
    "random-15-threads-io",
    "random-10-broken-mixed",
    "gpu-4",
    "threads-10",
    "threads-mixed-10",
    "sweep-16",
];
const SEEDS: u64 = 15;
const DAY_S: f64 = 86_400.0;
/// Counters are read one after the other, each up to so late.
const LATE_S: f64 = 0.2;

/// A host's readings of what the simulator knows exactly: all jobs are below one parent, and their counters are not read at one instant.
struct Readings {
    random: Stream,
    cpu: BTreeMap<ContainerId, (f64, f64)>,
    before: f64,
}

impl Readings {
    fn of(&mut self, node: &NodeObservation) -> Vec<ContainerObservation> {
        let passed = node.now.as_secs_f64() - std::mem::replace(&mut self.before, node.now.as_secs_f64());
        let all = format!("0-{}", node.cores as usize - 1);
        let mut seen = node.containers.clone();
        for job in &mut seen {
            let cpus = job.place.cpus.clone().or_else(|| all.parse().ok());
            let parent = job.place.parent.clone().or(Some("/jobs".into()));
            job.place = Arc::new(Place { cpus, parent, ..Place::default() });
            let exact = job.usage.cpu.unwrap().as_secs_f64();
            let (last, read) = self.cpu.get(&job.id).copied().unwrap_or((0.0, 0.0));
            let rate = if passed > 0.0 { (exact - last) / passed } else { 0.0 };
            let late = (exact + rate * self.random.uniform(0.0, LATE_S)).max(read);
            job.usage.cpu = Some(CpuTime((late * 1e6) as u64));
            // Here, unlike on a host, a job that waits for its GPU or for data seems to wait for CPU all the time.
            job.usage.pressure.cpu = job.usage.pressure.cpu.filter(|part| *part < 1.0);
            self.cpu.insert(job.id.clone(), (exact, late));
        }
        seen
    }
}

#[test]
fn in_a_week_of_healthy_nodes_weights_are_never_said_to_have_no_effect() {
    let runs: Vec<(&str, &str)> =
        SCHEDULES.iter().flat_map(|schedule| POLICIES.map(|policy| (*schedule, policy))).collect();
    let results = crate::compare::each_seed(SEEDS * runs.len() as u64, |number| {
        let (schedule, policy) = runs[number as usize % runs.len()];
        let scenario = Scenario::open(schedule).unwrap();
        let variant = Variant::named(policy, &PolicySettings::default()).unwrap();
        let keep = Keep { recording: true, ..Keep::default() };
        let outcome = simulate(&scenario.node, &scenario.draw(number), &variant, keep);
        let mut meter = EffectMeter::default();
        let mut readings = Readings { random: Stream::new(number, 7), cpu: BTreeMap::new(), before: 0.0 };
        let mut judged = 0;
        for tick in &outcome.recording {
            let seen = readings.of(&tick.observation);
            meter.look(tick.observation.now, seen.iter(), |_| None);
            judged += u32::from(meter.effect().is_some());
            assert_eq!(meter.problem(), None, "{schedule}, {policy}, {number}, {:?}", tick.observation.now);
        }
        (outcome.makespan_s(), judged)
    });
    let days = results.iter().map(|(seconds, _)| seconds).sum::<f64>() / DAY_S;
    let judged = results.iter().filter(|(_, judged)| *judged > 0).count();
    assert!(days >= 7.0 && judged > results.len() / 2, "{days} days, judged in {judged} of {} runs", results.len());
}
