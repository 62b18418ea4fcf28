//! The hierarchical method: K controllers, each with a part of the jobs and nodes.
//!
//! Source: thesis §3.1.2. Jobs and nodes are assigned round robin; a job is assigned by its number, so it keeps its controller.

use super::plan::{Assignment, Plan, Situation, SubmittedJob};

/// The part of one controller, as indexes into the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its nodes, in order.
    pub nodes: Vec<usize>,
    /// Its jobs, in order.
    pub jobs: Vec<usize>,
}

/// Splits jobs and nodes among `controllers`, but at most as many as there are nodes.
pub fn split(situation: &Situation<'_>, controllers: usize) -> Vec<Part> {
    let controllers = controllers.clamp(1, situation.nodes.len().max(1));
    let part = |controller: usize| Part {
        nodes: (controller..situation.nodes.len()).step_by(controllers).collect(),
        jobs: (0..situation.jobs.len()).filter(|job| situation.jobs[*job].number % controllers == controller).collect(),
    };
    (0..controllers).map(part).collect()
}

impl Part {
    /// Returns the open types of its nodes.
    pub fn nodes_of(&self, situation: &Situation<'_>) -> Vec<Option<usize>> {
        self.nodes.iter().map(|node| situation.nodes[*node]).collect()
    }

    /// Returns the fixed types of its nodes.
    pub fn fixed_of(&self, situation: &Situation<'_>) -> Vec<usize> {
        self.nodes.iter().filter_map(|node| situation.fixed.get(*node).copied()).collect()
    }

    /// Returns its jobs; their places are indexes into its own nodes.
    pub fn jobs_of<'a>(&self, situation: &Situation<'a>) -> Vec<SubmittedJob<'a>> {
        let own = |place: Assignment| {
            let node = self.nodes.iter().position(|node| *node == place.node)?;
            Some(Assignment { node, ..place })
        };
        let job =
            |at: &usize| SubmittedJob { place: situation.jobs[*at].place.and_then(own), ..situation.jobs[*at].clone() };
        self.jobs.iter().map(job).collect()
    }
}

/// Merges the plans of the parts.
pub fn merge(situation: &Situation<'_>, parts: &[(Part, Plan)]) -> Plan {
    let mut plan = Plan { nodes: vec![None; situation.nodes.len()], places: vec![None; situation.jobs.len()] };
    for (part, own) in parts {
        for (node, node_type) in part.nodes.iter().zip(&own.nodes) {
            plan.nodes[*node] = *node_type;
        }
        for (job, place) in part.jobs.iter().zip(&own.places) {
            plan.places[*job] = place.map(|place| Assignment { node: part.nodes[place.node], ..place });
        }
    }
    plan
}
