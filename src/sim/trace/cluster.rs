//! Who runs, who has run for how long, and who is done.
//!
//! Imports: nothing of this crate but the trace's parts.

use super::room::{Gpus, Room};
use super::{Span, TraceJob};

/// The cluster at one instant.
pub(super) struct Cluster<'a> {
    jobs: &'a [TraceJob],
    restart_cost_s: u64,
    now: u64,
    room: Room,
    running: Vec<usize>,
    states: Vec<JobState>,
    preemptions: u64,
}

#[derive(Clone, Copy, Default)]
struct JobState {
    remaining_s: u64,
    executed_s: u64,
    running: bool,
    chosen: bool,
    start_s: Option<u64>,
    end_s: Option<u64>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(jobs: &'a [TraceJob], gpus: Gpus, restart_cost_s: u64) -> Self {
        let states = jobs.iter().map(|job| JobState { remaining_s: job.duration_s, ..JobState::default() }).collect();
        Cluster {
            jobs,
            restart_cost_s,
            now: 0,
            room: Room::new(gpus, jobs.len()),
            running: Vec::new(),
            states,
            preemptions: 0,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn gpus(&self, job: usize) -> u64 {
        self.jobs[job].gpus
    }

    pub(super) fn remaining_s(&self, job: usize) -> u64 {
        self.states[job].remaining_s
    }

    pub(super) fn executed_s(&self, job: usize) -> u64 {
        self.states[job].executed_s
    }

    pub(super) fn is_running(&self, job: usize) -> bool {
        self.states[job].running
    }

    pub(super) fn is_done(&self, job: usize) -> bool {
        self.states[job].end_s.is_some()
    }

    pub(super) fn is_full(&self) -> bool {
        self.room.is_full()
    }

    pub(super) fn preemptions(&self) -> u64 {
        self.preemptions
    }

    pub(super) fn next_completion(&self) -> Option<u64> {
        self.running.iter().map(|&job| self.now + self.states[job].remaining_s).min()
    }

    /// Lets the running jobs run until `at`.
    pub(super) fn advance(&mut self, at: u64) {
        let seconds = at - self.now;
        self.now = at;
        for &job in &self.running {
            self.states[job].remaining_s -= seconds;
            self.states[job].executed_s += seconds;
        }
    }

    /// Ends the jobs that have nothing left.
    pub(super) fn complete(&mut self) {
        let Cluster { running, states, room, now, .. } = self;
        running.retain(|&job| {
            let state = &mut states[job];
            if state.remaining_s == 0 {
                state.running = false;
                state.end_s = Some(*now);
                room.release(job);
            }
            state.remaining_s > 0
        });
    }

    /// Starts the job if it fits beside those that run.
    pub(super) fn try_start(&mut self, job: usize) -> bool {
        let fits = self.room.take(job, self.jobs[job].gpus);
        if fits {
            self.begin(job);
        }
        fits
    }

    /// Runs the first of `order` that fit, skipping those that do not; running jobs that are not among them are preempted.
    pub(super) fn run_first_that_fit(&mut self, order: impl Iterator<Item = usize>) {
        for &job in &self.running {
            self.room.release(job);
        }
        let mut chosen = Vec::with_capacity(self.running.len() + 1);
        for job in order {
            if self.room.is_full() {
                break;
            }
            if self.room.take(job, self.jobs[job].gpus) {
                self.states[job].chosen = true;
                chosen.push(job);
            }
        }
        for job in std::mem::take(&mut self.running) {
            if !self.states[job].chosen {
                self.states[job].running = false;
                self.preemptions += 1;
            } else {
                self.running.push(job);
            }
        }
        for job in chosen {
            self.states[job].chosen = false;
            if !self.states[job].running {
                self.begin(job);
            }
        }
    }

    fn begin(&mut self, job: usize) {
        let state = &mut self.states[job];
        if state.start_s.is_some() {
            state.remaining_s += self.restart_cost_s;
        }
        state.start_s.get_or_insert(self.now);
        state.running = true;
        self.running.push(job);
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        let span = |state: &JobState| Span {
            start_s: state.start_s.expect("every job fits the empty cluster, so every job ran"),
            end_s: state.end_s.expect("the run ends when nothing is left to complete"),
        };
        self.states.iter().map(span).collect()
    }
}
