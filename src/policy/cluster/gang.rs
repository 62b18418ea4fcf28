//! Gang scheduling: all workers of a job are placed or none, on one node if it has room for all, else on several.
//!
//! Source: weighted DRAGON, section III-B. Resources are reserved only for whole gangs, so two gangs never deadlock on each other's
//! resources.

use super::capacity::{FreeCapacity, When};
use super::placement::{Placer, work_of};
use model::cluster::{ClusterJob, ClusterReason};

/// Placement of a gang: a node and the reason for each worker.
pub(super) type Seats = Vec<(usize, ClusterReason)>;

/// Finds and reserves room for all of `workers`. Returns `None` and reserves nothing if they do not fit. `open`: whether a node may be used.
pub(super) fn seat(
    job: &ClusterJob,
    workers: u32,
    free: &mut FreeCapacity<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
    when: When,
) -> Option<Seats> {
    let seats = find(job, workers, free, placer, open, when)?;
    for (node, _) in &seats {
        free.take(*node, job.request);
        placer.place(*node, work_of(job, workers));
    }
    Some(seats)
}

fn find(
    job: &ClusterJob,
    workers: u32,
    free: &mut FreeCapacity<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
    when: When,
) -> Option<Seats> {
    let work = work_of(job, workers);
    let may = |free: &FreeCapacity<'_>, node: usize, workers: u32| {
        open(node) && free.fits(node, job.request, workers, when) && free.admits(node, job)
    };
    if let Some((node, reason)) = placer.choose(work, |node| may(free, node, workers)) {
        let reason = if workers > 1 { ClusterReason::GangTogether } else { reason };
        return Some((0..workers).map(|_| (node, reason.clone())).collect());
    }
    if workers < 2 {
        return None;
    }
    let mut seats: Seats = Vec::new();
    while seats.len() < workers as usize {
        let Some(seat) = placer.choose(work, |node| may(free, node, 1)) else { break };
        // As many as fit on each node: fewer nodes mean less network traffic between workers.
        while seats.len() < workers as usize && free.fits(seat.0, job.request, 1, when) {
            free.take(seat.0, job.request);
            seats.push(seat.clone());
        }
    }
    seats.iter().for_each(|(node, _)| free.give_back(*node, job.request));
    (seats.len() == workers as usize).then_some(seats)
}

/// Places the initial number of workers, or as many as fit, but at least the minimum.
pub(super) fn seat_most(
    job: &ClusterJob,
    free: &mut FreeCapacity<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
) -> Option<Seats> {
    let least = job.workers.min.max(1);
    let most = job.workers.initial.clamp(least, job.workers.max.max(least));
    (least..=most).rev().find_map(|workers| seat(job, workers, free, placer, open, When::Now))
}
