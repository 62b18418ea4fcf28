//! All workers of a job or none: together on one node if one has room for all of them, else spread over several.
//!
//! Source: weighted DRAGON, section III-B. Nothing is taken unless the whole gang is placed, so no two gangs ever hold half of what each
//! other needs. Imports: model.

use super::placement::{Placer, work_of};
use super::rooms::{Rooms, When};
use crate::model::cluster::{ClusterJob, ClusterReason};

/// Where a gang goes: a node and the reason for each worker.
pub(super) type Seats = Vec<(usize, ClusterReason)>;

/// Finds and takes room for `workers` workers at once; `None` takes nothing. `open` says which nodes may be used at all.
pub(super) fn seat(
    job: &ClusterJob,
    workers: u32,
    rooms: &mut Rooms<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
    when: When,
) -> Option<Seats> {
    let seats = find(job, workers, rooms, placer, open, when)?;
    for (node, _) in &seats {
        rooms.take(*node, job.request);
        placer.place(*node, work_of(job, workers));
    }
    Some(seats)
}

fn find(
    job: &ClusterJob,
    workers: u32,
    rooms: &mut Rooms<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
    when: When,
) -> Option<Seats> {
    let work = work_of(job, workers);
    let may = |rooms: &Rooms<'_>, node: usize, workers: u32| {
        open(node) && rooms.fits(node, job.request, workers, when) && rooms.admits(node, job)
    };
    if let Some((node, reason)) = placer.choose(work, |node| may(rooms, node, workers)) {
        let reason = if workers > 1 { ClusterReason::GangTogether } else { reason };
        return Some((0..workers).map(|_| (node, reason.clone())).collect());
    }
    if workers < 2 {
        return None;
    }
    let mut seats: Seats = Vec::new();
    while seats.len() < workers as usize {
        let Some(seat) = placer.choose(work, |node| may(rooms, node, 1)) else { break };
        // As many as fit there: the fewer nodes, the less the workers have to talk over the network.
        while seats.len() < workers as usize && rooms.fits(seat.0, job.request, 1, when) {
            rooms.take(seat.0, job.request);
            seats.push(seat.clone());
        }
    }
    seats.iter().for_each(|(node, _)| rooms.give_back(*node, job.request));
    (seats.len() == workers as usize).then_some(seats)
}

/// The same with as many workers as the job starts with, or fewer, but no fewer than it needs.
pub(super) fn seat_most(
    job: &ClusterJob,
    rooms: &mut Rooms<'_>,
    placer: &mut Placer,
    open: &impl Fn(usize) -> bool,
) -> Option<Seats> {
    let least = job.workers.min.max(1);
    let most = job.workers.initial.clamp(least, job.workers.max.max(least));
    (least..=most).rev().find_map(|workers| seat(job, workers, rooms, placer, open, When::Now))
}
