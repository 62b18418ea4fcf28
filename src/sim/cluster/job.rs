//! State of a submitted job: its workers, their nodes, and the remaining work.

use super::submission::Submission;
use crate::node::Carried;
use std::sync::Arc;

/// One job of the schedule.
pub(super) struct JobRun<'a> {
    pub(super) submission: &'a Submission,
    pub(super) name: Arc<str>,
    /// Remaining part of the training when its workers last changed.
    pub(super) left: f64,
    pub(super) moves: u32,
    /// Time at which the quality was reached, and end time; NaN before.
    pub(super) quality_s: f64,
    pub(super) end_s: f64,
    slots: Vec<(u32, WorkerSlot)>,
}

/// A worker's slot, with its saved work during a move.
struct WorkerSlot {
    slot: Slot,
    carried: Option<Carried>,
}

/// A worker's node and activity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) node: usize,
    pub(super) stage: SlotActivity,
}

/// A worker's activity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SlotActivity {
    /// Its resources are reserved.
    Idle,
    /// Runs in a container of its node.
    Training(Training),
    /// Moving to that node.
    MovingTo(usize),
    /// Stopping; its resources are still reserved.
    Stopping,
    /// It has completed its part.
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
            slots: Vec::new(),
        }
    }

    /// Returns all workers with their slots.
    pub(super) fn slots(&self) -> Vec<(u32, Slot)> {
        self.slots.iter().map(|(worker, place)| (*worker, place.slot)).collect()
    }

    /// Number of workers that are not stopping.
    pub(super) fn workers(&self) -> u32 {
        self.slots.iter().filter(|(_, place)| place.slot.stage != SlotActivity::Stopping).count() as u32
    }

    fn place(&mut self, worker: u32) -> Option<&mut WorkerSlot> {
        self.slots.iter_mut().find(|(number, _)| *number == worker).map(|(_, place)| place)
    }

    fn set(&mut self, worker: u32, stage: SlotActivity) {
        if let Some(place) = self.place(worker) {
            place.slot.stage = stage;
        }
    }

    pub(super) fn reserve(&mut self, worker: u32, node: usize) {
        self.slots.push((worker, WorkerSlot { slot: Slot { node, stage: SlotActivity::Idle }, carried: None }));
    }

    pub(super) fn idle(&mut self, worker: u32) {
        self.set(worker, SlotActivity::Idle);
    }

    pub(super) fn is_at(&mut self, worker: u32, node: usize, number: usize) {
        if let Some(place) = self.place(worker) {
            place.slot = Slot { node, stage: SlotActivity::Training(Training { number }) };
        }
    }

    pub(super) fn stop(&mut self, worker: u32) {
        self.set(worker, SlotActivity::Stopping);
    }

    pub(super) fn leave(&mut self, worker: u32, to: usize, carried: Carried) {
        if let Some(place) = self.place(worker) {
            place.slot.stage = SlotActivity::MovingTo(to);
            place.carried = Some(carried);
        }
    }

    /// Ends a move and returns its target and the saved work; or removes a worker that has stopped.
    pub(super) fn arrive(&mut self, worker: u32) -> Option<(usize, Carried)> {
        let place = self.place(worker)?;
        match place.slot.stage {
            SlotActivity::MovingTo(to) => place.carried.take().map(|carried| (to, carried)),
            SlotActivity::Stopping => {
                self.slots.retain(|(number, _)| *number != worker);
                None
            }
            SlotActivity::Idle | SlotActivity::Training(_) | SlotActivity::Done => None,
        }
    }

    /// Records that a worker has completed its part; returns whether all have.
    pub(super) fn worker_ended(&mut self, worker: u32) -> bool {
        self.set(worker, SlotActivity::Done);
        self.slots.iter().all(|(_, place)| matches!(place.slot.stage, SlotActivity::Done | SlotActivity::Stopping))
    }

    pub(super) fn note_quality(&mut self, at: f64) {
        if self.quality_s.is_nan() {
            self.quality_s = at;
        }
    }

    pub(super) fn end(&mut self, now: f64) {
        self.end_s = now;
        self.slots.clear();
    }
}
