//! The cost of a plan to the end of all its jobs: it is carried out, and at each completion the waiting jobs start by earliest deadline.
//!
//! [`super::Board::cost`] prices waiting and idle GPUs, which is quick but looks no further than the present work. Of two plans, this finds
//! the one with which the jobs known now really cost less. Since what earliest deadline would start now can be one of the plans, the best of
//! them costs no more than earliest deadline does, as long as no job arrives.

use super::baseline::{Queue, baseline};
use super::plan::{Plan, Situation, SubmittedJob};

/// Returns the price of all nodes in use, and of lateness, until all jobs have ended.
pub fn rollout(situation: &Situation<'_>, plan: &Plan) -> f64 {
    let catalogue = situation.catalogue;
    let mut jobs: Vec<SubmittedJob<'_>> = situation.jobs.to_vec();
    let mut ends = vec![f64::INFINITY; jobs.len()];
    let mut has_ended = vec![false; jobs.len()];
    let (mut now_s, mut cost) = (situation.now_s, 0.0);
    let mut next = plan.clone();
    loop {
        for (at, job) in jobs.iter_mut().enumerate() {
            if has_ended[at] || ends[at].is_finite() {
                continue;
            }
            let Some(place) = next.places[at] else {
                job.place = None;
                continue;
            };
            let Some(node_type) = next.nodes[place.node] else { continue };
            let stays = now_s == situation.now_s && plan.stays(situation, at);
            let seconds = situation.seconds_left(job, catalogue.nodes()[node_type].gpu, place.gpus, stays);
            (job.place, ends[at]) = (Some(place), now_s + seconds.unwrap_or(f64::MAX));
        }
        let Some(end_s) = ends.iter().copied().filter(|end| end.is_finite()).reduce(f64::min) else { break };
        let used = |(node, node_type): (usize, &Option<usize>)| {
            let is_used = jobs.iter().any(|job| job.place.is_some_and(|place| place.node == node));
            node_type.filter(|_| is_used)
        };
        let used: Vec<Option<usize>> = next.nodes.iter().enumerate().map(used).collect();
        cost += used.iter().flatten().map(|used| catalogue.price_per_s(*used)).sum::<f64>() * (end_s - now_s);
        now_s = end_s;
        for (at, job) in jobs.iter_mut().enumerate() {
            if ends[at] > end_s {
                continue;
            }
            cost += job.weight * (now_s - job.deadline_s).max(0.0);
            (ends[at], has_ended[at], job.place) = (f64::INFINITY, true, None);
        }
        let waiting: Vec<usize> = (0..jobs.len()).filter(|at| !has_ended[*at]).collect();
        let list: Vec<SubmittedJob<'_>> = waiting.iter().map(|at| jobs[*at].clone()).collect();
        let nodes: Vec<Option<usize>> = used.iter().zip(situation.nodes).map(|(used, open)| used.or(*open)).collect();
        let then = baseline(&Situation { now_s, nodes: &nodes, jobs: &list, ..situation.clone() }, Queue::PackedEdf);
        next = Plan { nodes: then.nodes, places: vec![None; jobs.len()] };
        for (at, place) in waiting.into_iter().zip(then.places) {
            next.places[at] = place;
        }
    }
    // Jobs for which there is no room on any node are late until the others have ended, whatever the plan.
    let stuck = jobs.iter().zip(&has_ended).filter(|(_, has_ended)| !**has_ended);
    cost + stuck.map(|(job, _)| job.weight * (now_s + job.times.fastest_s() - job.deadline_s).max(0.0)).sum::<f64>()
}
