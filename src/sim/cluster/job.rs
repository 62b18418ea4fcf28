//! Where a submitted job is: its workers, their nodes, and what is left of it.
//!
//! Imports: nothing of this crate but the simulator's parts.

use super::submission::Submission;
use crate::sim::node::Carried;
use std::sync::Arc;

/// One job of the schedule.
pub(super) struct JobRun<'a> {
    pub(super) submission: &'a Submission,
    pub(super) name: Arc<str>,
    /// Part of the training that is left, as of the last time when its workers were counted anew.
    pub(super) left: f64,
    pub(super) moves: u32,
    /// When its quality was reached and when it ended; NaN before.
    pub(super) quality_s: f64,
    pub(super) end_s: f64,
    seats: Vec<(u32, Place)>,
}

/// A worker's place, with what it carries if it is on its way.
struct Place {
    seat: Seat,
    carried: Option<Carried>,
}

/// A worker's node and what it does there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seat {
    pub(super) node: usize,
    pub(super) stage: Stage,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// Reserved its room.
    Idle,
    /// A container of its node's.
    Training(Training),
    /// On its way to that node.
    MovingTo(usize),
    /// Its room is still taken.
    Stopping,
    /// It has done its part.
    Done,
}

/// A container: its number on the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Training {
    pub(super) number: usize,
}

impl<'a> JobRun<'a> {
    pub(super) fn new(submission: &'a Submission) -> JobRun<'a> {
        JobRun {
            submission,
            name: submission.job.plan.name.as_str().into(),
            left: 1.0,
            moves: 0,
            quality_s: f64::NAN,
            end_s: f64::NAN,
            seats: Vec::new(),
        }
    }

    /// All workers with their seats.
    pub(super) fn seats(&self) -> Vec<(u32, Seat)> {
        self.seats.iter().map(|(worker, place)| (*worker, place.seat)).collect()
    }

    /// Workers that are not stopping.
    pub(super) fn workers(&self) -> u32 {
        self.seats.iter().filter(|(_, place)| place.seat.stage != Stage::Stopping).count() as u32
    }

    fn place(&mut self, worker: u32) -> Option<&mut Place> {
        self.seats.iter_mut().find(|(number, _)| *number == worker).map(|(_, place)| place)
    }

    fn set(&mut self, worker: u32, stage: Stage) {
        if let Some(place) = self.place(worker) {
            place.seat.stage = stage;
        }
    }

    pub(super) fn seat(&mut self, worker: u32, node: usize) {
        self.seats.push((worker, Place { seat: Seat { node, stage: Stage::Idle }, carried: None }));
    }

    pub(super) fn idle(&mut self, worker: u32) {
        self.set(worker, Stage::Idle);
    }

    pub(super) fn is_at(&mut self, worker: u32, node: usize, number: usize) {
        if let Some(place) = self.place(worker) {
            place.seat = Seat { node, stage: Stage::Training(Training { number }) };
        }
    }

    pub(super) fn stop(&mut self, worker: u32) {
        self.set(worker, Stage::Stopping);
    }

    pub(super) fn leave(&mut self, worker: u32, to: usize, carried: Carried) {
        if let Some(place) = self.place(worker) {
            place.seat.stage = Stage::MovingTo(to);
            place.carried = Some(carried);
        }
    }

    /// The end of a move: where to and with what. A worker that was stopped is gone.
    pub(super) fn arrive(&mut self, worker: u32) -> Option<(usize, Carried)> {
        let place = self.place(worker)?;
        match place.seat.stage {
            Stage::MovingTo(to) => place.carried.take().map(|carried| (to, carried)),
            Stage::Stopping => {
                self.seats.retain(|(number, _)| *number != worker);
                None
            }
            Stage::Idle | Stage::Training(_) | Stage::Done => None,
        }
    }

    /// A worker has done its part; whether all have.
    pub(super) fn worker_ended(&mut self, worker: u32) -> bool {
        self.set(worker, Stage::Done);
        self.seats.iter().all(|(_, place)| matches!(place.seat.stage, Stage::Done | Stage::Stopping))
    }

    pub(super) fn note_quality(&mut self, at: f64) {
        if self.quality_s.is_nan() {
            self.quality_s = at;
        }
    }

    pub(super) fn end(&mut self, now: f64) {
        self.end_s = now;
        self.seats.clear();
    }
}
