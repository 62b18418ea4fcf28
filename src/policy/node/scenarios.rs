//! Scenarios of several ticks: Algorithms 1 and 2 on a node, and each known fault of the original implementation.

use super::testing::{container, node};
use super::{Governor, check, diff};
use model::{
    ContainerObservation, CpuTime, CpuWeight, Enforcement, Gain, Hold, List, Millis, NodeObservation, NodePlan,
    PolicyName, PolicySettings, Pressure, PrintedMean, Quota, Reason, RunState,
};

/// A node with two cores, whose containers use it equally and gain at given rates.
struct Scenario {
    governor: Governor,
    node: NodeObservation,
}

impl Scenario {
    fn new(names: &[&str]) -> Self {
        let settings = PolicySettings { policy: PolicyName::Flowcon, ..PolicySettings::default() };
        Scenario { governor: Governor::new(settings), node: node(names.iter().map(|name| container(name)).collect()) }
    }

    fn job(&mut self, index: usize) -> &mut ContainerObservation {
        &mut self.node.containers[index]
    }

    /// Lets `seconds` pass; each container uses an equal part of the node and gains at the given rate per node-CPU-second. `None` = it
    /// prints nothing.
    fn pass(&mut self, seconds: u64, growth: &[Option<f64>]) {
        let count = self.node.containers.len() as f64;
        self.node.now = self.node.now.after(Millis::from_secs(seconds));
        let now = self.node.now;
        for (container, growth) in self.node.containers.iter_mut().zip(growth) {
            let node_seconds = seconds as f64 / count;
            let used = container.usage.cpu.unwrap_or_default().0 + (node_seconds * self.node.cores * 1e6) as u64;
            container.usage.cpu = Some(CpuTime(used));
            container.learning.gain = growth.filter(|_| container.learning.evaluations > 0).map(|rate| Gain {
                amount: rate * node_seconds,
                from: now.since(Millis::from_secs(seconds)),
                to: now,
            });
            container.learning.evaluations += u64::from(growth.is_some());
        }
    }

    fn tick(&mut self) -> NodePlan {
        let plan = self.governor.tick(&self.node);
        assert_eq!(check(&plan, &self.node), []);
        for change in diff(&plan, &self.node) {
            let job = self.node.containers.iter_mut().find(|job| job.id == change.id).expect("observed");
            job.limits.set(change.to);
        }
        assert_eq!(diff(&plan, &self.node), [], "written limits are not written again");
        plan
    }

    fn pass_and_tick(&mut self, seconds: u64, growth: &[Option<f64>]) -> NodePlan {
        self.pass(seconds, growth);
        self.tick()
    }
}

fn lists(plan: &NodePlan) -> Vec<List> {
    plan.containers.iter().map(|c| c.list.expect("FlowCon has lists")).collect()
}

fn weights(plan: &NodePlan) -> Vec<u32> {
    let weight = |limits: model::Limits| limits.cpu_weight.map_or(0, CpuWeight::number);
    plan.containers.iter().map(|c| c.limits.map_or(0, weight)).collect()
}

fn seconds(plan: &NodePlan) -> u64 {
    plan.interval.0 / 1000
}

/// α = 0.005, β = 2, itval = 20 s, cap 320 s; every number worked out from the listing.
#[test]
fn algorithms_1_and_2_traced_by_hand() {
    use List::{Completing, New, Watching};
    let mut scenario = Scenario::new(&["vae", "mnist"]);
    let plan = scenario.tick();
    assert_eq!((lists(&plan), weights(&plan), seconds(&plan)), (vec![New, New], vec![100, 100], 20));
    // First evaluations: there is nothing to compare them with yet.
    let plan = scenario.pass_and_tick(20, &[Some(0.0), Some(0.0)]);
    assert_eq!((lists(&plan), weights(&plan)), (vec![New, New], vec![100, 100]));
    assert_eq!(plan.containers[0].reason, Reason::NotMeasured);
    // G = 0.03 and 0.01.
    let plan = scenario.pass_and_tick(20, &[Some(0.03), Some(0.01)]);
    assert_eq!((lists(&plan), weights(&plan)), (vec![New, New], vec![150, 50]));
    // VAE slows down: Watching keeps L = 0.75; MNIST has 0.012/0.016 = 0.75.
    let plan = scenario.pass_and_tick(20, &[Some(0.004), Some(0.012)]);
    assert_eq!((lists(&plan), weights(&plan)), (vec![Watching, New], vec![100, 100]));
    // Again: Completing, 0.001/0.011 lies below 1/(2·2) = 0.25; MNIST has 0.01/0.011, and gets what VAE leaves.
    let plan = scenario.pass_and_tick(20, &[Some(0.001), Some(0.010)]);
    assert_eq!((lists(&plan), weights(&plan)), (vec![Completing, New], vec![50, 150]));
    // A third container starts five seconds later and triggers a tick (Algorithm 2). L = 1/6, 0.909 and 1.
    scenario.pass(5, &[Some(0.0), Some(0.0)]);
    scenario.node.containers.push(container("new"));
    assert!(scenario.governor.is_disturbed(&scenario.node));
    let plan = scenario.tick();
    assert_eq!((lists(&plan), weights(&plan)), (vec![Completing, New, New], vec![50, 125, 125]));
    // It ends; the growth of the others falls.
    scenario.node.containers.pop();
    let plan = scenario.pass_and_tick(15, &[Some(0.001), Some(0.001)]);
    assert_eq!((lists(&plan), seconds(&plan)), (vec![Completing, Watching], 20));
    // All converged: free competition, and the interval doubles up to its cap.
    let mut waits = Vec::new();
    for _ in 0..6 {
        let wait = scenario.governor.tick(&scenario.node.clone()).interval.0 / 1000;
        let plan = scenario.pass_and_tick(wait, &[Some(0.001), Some(0.001)]);
        assert_eq!((lists(&plan), weights(&plan)), (vec![Completing, Completing], vec![100, 100]));
        waits.push(seconds(&plan));
    }
    assert_eq!(waits.last(), Some(&320));
    // Growth rises back over the threshold: New list, initial interval.
    let plan = scenario.pass_and_tick(320, &[Some(0.001), Some(0.02)]);
    assert_eq!((lists(&plan), seconds(&plan)), (vec![Completing, New], 20));
}

#[test]
fn the_end_of_a_container_resets_the_interval_and_releases_its_share() {
    let mut scenario = Scenario::new(&["a", "b", "c"]);
    for _ in 0..6 {
        scenario.pass_and_tick(20, &[Some(0.001); 3]);
    }
    let wait = seconds(&scenario.pass_and_tick(20, &[Some(0.001); 3]));
    assert!(wait > 40, "backing off: {wait} s");
    scenario.node.containers.pop();
    let plan = scenario.pass_and_tick(20, &[Some(0.001); 2]);
    assert_eq!((weights(&plan), seconds(&plan)), (vec![100, 100], 40), "reset to 20, then doubled by Algorithm 1");
}

#[test]
fn fault_no_data_read_as_converged_is_not_repeated() {
    let mut scenario = Scenario::new(&["loads its data", "trains"]);
    for _ in 0..10 {
        let plan = scenario.pass_and_tick(20, &[None, Some(0.02)]);
        assert_eq!(plan.containers[0].list, Some(List::New));
        assert_eq!(weights(&plan), [100, 100]);
    }
}

#[test]
fn fault_threshold_that_depends_on_the_interval_is_not_repeated() {
    for interval in [10, 20, 60] {
        let mut scenario = Scenario::new(&["fast", "slow"]);
        let settings = PolicySettings { interval: Millis::from_secs(interval), ..*scenario.governor.settings() };
        scenario.governor.reconfigure(settings);
        scenario.pass_and_tick(interval, &[Some(0.0); 2]);
        let plan = scenario.pass_and_tick(interval, &[Some(0.006), Some(0.004)]);
        assert_eq!(lists(&plan), [List::New, List::Watching]);
    }
}

#[test]
fn fault_limits_below_one_core_without_effect_are_not_repeated() {
    let mut scenario = Scenario::new(&["a", "b"]);
    let settings =
        PolicySettings { enforcement: Enforcement::Quota, quota_floor: Quota(100), ..*scenario.governor.settings() };
    scenario.governor.reconfigure(settings);
    scenario.pass_and_tick(20, &[Some(0.0); 2]);
    let plan = scenario.pass_and_tick(20, &[Some(0.01), Some(0.03)]);
    let quotas: Vec<_> = plan.containers.iter().map(|c| c.limits.and_then(|l| l.cpu_quota)).collect();
    assert_eq!(quotas, [Some(Some(Quota(500))), Some(Some(Quota(1500)))]);
}

#[test]
fn a_change_of_pressure_ends_the_back_off() {
    let mut scenario = Scenario::new(&["a"]);
    for _ in 0..6 {
        scenario.pass_and_tick(40, &[Some(0.001)]);
    }
    assert!(!scenario.governor.is_disturbed(&scenario.node));
    scenario.node.pressure = Pressure { memory: Some(0.3), ..scenario.node.pressure };
    assert!(scenario.governor.is_disturbed(&scenario.node));
}

#[test]
fn a_change_of_the_allowed_processors_triggers_a_tick() {
    let mut scenario = Scenario::new(&["a", "b"]);
    scenario.pass_and_tick(20, &[Some(0.01); 2]);
    assert!(!scenario.governor.is_disturbed(&scenario.node));
    std::sync::Arc::make_mut(&mut scenario.job(0).place).cpus = Some("0".parse().expect("a list"));
    assert!(scenario.governor.is_disturbed(&scenario.node));
}

#[test]
fn every_policy_maintains_lists_and_backs_off_without_changes() {
    for policy in [PolicyName::Balanced, PolicyName::Fair] {
        let mut scenario = Scenario::new(&["grows", "has converged"]);
        scenario.governor.reconfigure(PolicySettings { policy, ..*scenario.governor.settings() });
        let mut waits = Vec::new();
        for _ in 0..6 {
            let plan = scenario.pass_and_tick(20, &[Some(0.02), Some(0.001)]);
            waits.push(seconds(&plan));
            let listed = lists(&plan);
            assert!(waits.len() < 5 || listed == [List::New, List::Completing], "{policy:?}: {listed:?}");
        }
        assert_eq!(waits, [40, 80, 160, 320, 320, 320], "{policy:?}");
        scenario.node.containers.pop();
        assert_eq!(seconds(&scenario.pass_and_tick(20, &[Some(0.02)])), 40, "an end resets the interval, {policy:?}");
        scenario.job(0).learning.curve =
            Some(model::Curve { phase: model::Phase::Plateau, quality: 0.9, units_to_quality: None });
        scenario.governor.tick(&scenario.node.clone());
        scenario.job(0).learning.curve =
            scenario.job(0).learning.curve.map(|curve| model::Curve { phase: model::Phase::Improving, ..curve });
        assert!(scenario.governor.is_disturbed(&scenario.node), "growth is back, {policy:?}");
    }
}

#[test]
fn a_held_container_is_left_alone_and_still_counts() {
    let mut scenario = Scenario::new(&["a", "b", "c"]);
    scenario.job(1).hold = Some(Hold::Released);
    scenario.job(1).limits.cpu_weight = Some(CpuWeight::clamped(200.0));
    scenario.pass_and_tick(20, &[Some(0.0); 3]);
    let plan = scenario.pass_and_tick(20, &[Some(0.03), Some(0.02), Some(0.01)]);
    // L = 1/2 and 1/6 of the node, of which the held container has one half: 1/3 is left to the first.
    assert_eq!(weights(&plan), [133, 0, 67]);
    assert!(plan.containers[1].limits.is_none());
    assert!((plan.containers[1].share.fraction() - 0.5).abs() < 1e-9);
}

#[test]
fn a_frozen_container_takes_no_share() {
    let mut scenario = Scenario::new(&["a", "b"]);
    scenario.pass_and_tick(20, &[Some(0.0); 2]);
    scenario.job(0).state = RunState::Paused;
    let plan = scenario.pass_and_tick(20, &[None, Some(0.01)]);
    assert_eq!(plan.containers[0].reason, Reason::Paused);
    assert!((plan.containers[1].share.fraction() - 1.0).abs() < 1e-9);
}

#[test]
fn fair_restores_every_original_limit() {
    let mut scenario = Scenario::new(&["a", "b"]);
    scenario.job(0).original.cpu_weight = Some(CpuWeight::clamped(300.0));
    scenario.pass_and_tick(20, &[Some(0.0); 2]);
    scenario.pass_and_tick(20, &[Some(0.01), Some(0.03)]);
    // A quarter and three quarters of the growth, times the original weights 3 and 1: each gets half of the 400.
    assert_eq!(scenario.job(1).limits.cpu_weight, Some(CpuWeight::clamped(200.0)));
    scenario.governor.reconfigure(PolicySettings { policy: PolicyName::Fair, ..*scenario.governor.settings() });
    let plan = scenario.pass_and_tick(20, &[Some(0.01), Some(0.03)]);
    for job in &scenario.node.containers {
        assert_eq!(job.limits, job.original);
    }
    assert!((plan.containers[0].share.fraction() - 0.75).abs() < 1e-9);
}

#[test]
fn a_clock_set_back_changes_no_list() {
    let mut scenario = Scenario::new(&["a", "b"]);
    scenario.pass_and_tick(20, &[Some(0.0); 2]);
    let before = scenario.pass_and_tick(20, &[Some(0.03), Some(0.01)]);
    scenario.node.now = Millis(500);
    let after = scenario.tick();
    assert_eq!((lists(&after), weights(&after)), (lists(&before), weights(&before)));
    assert!(after.next_tick > after.at);
}

/// A node like [`Scenario`]'s under `flowcon-2019`; both jobs print the given mean of each interval, or nothing.
fn to_the_letter(intervals: &[[Option<f64>; 2]]) -> (Scenario, NodePlan) {
    let mut scenario = Scenario::new(&["a", "b"]);
    let settings = PolicySettings { policy: PolicyName::Flowcon2019, ..*scenario.governor.settings() };
    scenario.governor.reconfigure(settings);
    let mut plan = scenario.tick();
    for printed in intervals {
        for (job, mean) in scenario.node.containers.iter_mut().zip(printed) {
            job.learning.printed = mean.map(|mean| PrintedMean { mean, largest: 1.0 });
        }
        let wait = seconds(&plan);
        plan = scenario.pass_and_tick(wait, &[None, None]);
    }
    (scenario, plan)
}

#[test]
fn to_the_letter_a_rising_loss_is_growth_and_silence_is_convergence() {
    use List::{Completing, New};
    let (_, plan) = to_the_letter(&[[Some(0.2), None], [Some(0.5), None], [Some(0.9), None]]);
    assert_eq!(lists(&plan), [New, Completing]);
    // G = 0.04 and 0, so L = 1; the floor of the prototype is 1/(n + 1) = 1/3.
    assert_eq!(weights(&plan), [133, 67]);
    assert!(plan.containers[0].growth.cpu.is_some_and(|growth| (growth - 0.04).abs() < 1e-9));
}

#[test]
fn to_the_letter_the_back_off_has_no_cap_and_only_a_start_or_an_end_ends_it() {
    let (mut scenario, plan) = to_the_letter(&[[None; 2]; 9]);
    assert_eq!(seconds(&plan), 2560, "20 s, doubled seven times");
    scenario.node.pressure = Pressure { memory: Some(0.9), cpu: Some(0.9), ..scenario.node.pressure };
    assert!(!scenario.governor.is_disturbed(&scenario.node));
    scenario.node.containers.pop();
    assert!(scenario.governor.is_disturbed(&scenario.node));
}
