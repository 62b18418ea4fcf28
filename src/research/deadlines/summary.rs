//! Comparison of policies over one or several instances.

use super::engine::simulate;
use super::instance::Instance;
use super::policy::Solver;
use serde::Serialize;
use std::collections::BTreeMap;

/// Results of one policy: costs and late jobs are sums over the instances.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Total cost.
    pub cost: f64,
    /// Cost of the nodes while they were open.
    pub vm_cost: f64,
    /// Cost of lateness.
    pub tardiness_cost: f64,
    /// Jobs that ended after their deadline.
    pub late_jobs: usize,
    /// Mean time of a decision on this machine, in milliseconds.
    pub ms_a_step: f64,
    /// Geometric mean over the instances of cost over lower bound.
    pub over_lower_bound: f64,
}

/// Results of all policies.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Results by policy.
    pub policies: BTreeMap<String, Figures>,
    /// The least cost of nodes with every job on time, summed over the instances.
    pub lower_bound: f64,
    /// For each instance: the GPU-seconds that its jobs need at least, as a part of those available while jobs arrive.
    pub load: BTreeMap<String, f64>,
    /// Each instance's cost under each policy.
    pub cost: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Runs each instance under each solver.
///
/// # Errors
/// As for [`simulate`].
pub fn compare(instances: &[Instance], solvers: &[(String, Solver)], restart_s: f64) -> Result<Comparison, String> {
    let load = instances.iter().map(|instance| (instance.name.clone(), instance.load()));
    let mut comparison = Comparison {
        policies: BTreeMap::new(),
        lower_bound: instances.iter().map(Instance::lower_bound).sum(),
        load: load.collect(),
        cost: BTreeMap::new(),
    };
    for (name, solver) in solvers {
        let mut figures = Figures {
            cost: 0.0,
            vm_cost: 0.0,
            tardiness_cost: 0.0,
            late_jobs: 0,
            ms_a_step: 0.0,
            over_lower_bound: 0.0,
        };
        let (mut milliseconds, mut steps) = (0.0, 0);
        for instance in instances {
            let outcome = simulate(instance, solver, restart_s)?;
            let cost = outcome.vm_cost + outcome.tardiness_cost;
            figures.cost += cost;
            figures.vm_cost += outcome.vm_cost;
            figures.tardiness_cost += outcome.tardiness_cost;
            figures.late_jobs += outcome.late_jobs;
            figures.over_lower_bound += (cost / instance.lower_bound()).ln() / instances.len() as f64;
            milliseconds += outcome.deciding.as_secs_f64() * 1e3;
            steps += outcome.steps;
            comparison.cost.entry(instance.name.clone()).or_default().insert(name.clone(), cost);
        }
        figures.ms_a_step = milliseconds / steps.max(1) as f64;
        figures.over_lower_bound = figures.over_lower_bound.exp();
        comparison.policies.insert(name.clone(), figures);
    }
    Ok(comparison)
}
