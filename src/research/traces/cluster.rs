//! State of the cluster: running jobs, executed seconds, and completed jobs.

use super::free_gpus::{FreeGpus, Gpus};
use super::job::{Span, TraceJob};

/// The cluster at one point in time.
pub(super) struct Cluster<'a> {
    jobs: &'a [TraceJob],
    restart_cost_s: u64,
    now: u64,
    /// For each job the groups on which it can run, fastest first.
    places: Vec<Vec<usize>>,
    free_gpus: FreeGpus,
    running: Vec<usize>,
    states: Vec<JobState>,
    preemptions: u64,
}

#[derive(Clone, Copy, Default)]
struct JobState {
    /// Seconds left on the group `on`.
    remaining_s: u64,
    /// The group on which it runs, ran last, or would run fastest.
    on: usize,
    executed_s: u64,
    running: bool,
    /// The group assigned by the current pass.
    chosen: Option<usize>,
    start_s: Option<u64>,
    end_s: Option<u64>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(jobs: &'a [TraceJob], gpus: &Gpus, restart_cost_s: u64) -> Self {
        let places: Vec<Vec<usize>> = jobs.iter().map(TraceJob::places).collect();
        let state = |(job, places): (&TraceJob, &Vec<usize>)| {
            let on = places.first().copied().unwrap_or(0);
            JobState { remaining_s: job.durations_s[on].unwrap_or(0), on, ..JobState::default() }
        };
        let states = jobs.iter().zip(&places).map(state).collect();
        let free_gpus = FreeGpus::new(gpus, jobs.len());
        Cluster { jobs, restart_cost_s, now: 0, places, free_gpus, running: Vec::new(), states, preemptions: 0 }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn gpus(&self, job: usize) -> u64 {
        self.jobs[job].gpus
    }

    /// Seconds left on the group where the job runs, ran last, or would run fastest.
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
        self.free_gpus.is_full()
    }

    pub(super) fn preemptions(&self) -> u64 {
        self.preemptions
    }

    pub(super) fn next_completion(&self) -> Option<u64> {
        self.running.iter().map(|&job| self.now + self.states[job].remaining_s).min()
    }

    /// Runs the running jobs until `at`.
    pub(super) fn advance(&mut self, at: u64) {
        let seconds = at - self.now;
        self.now = at;
        for &job in &self.running {
            self.states[job].remaining_s -= seconds;
            self.states[job].executed_s += seconds;
        }
    }

    /// Ends the jobs without remaining work.
    pub(super) fn complete(&mut self) {
        let Cluster { running, states, free_gpus, now, .. } = self;
        running.retain(|&job| {
            let state = &mut states[job];
            if state.remaining_s == 0 {
                state.running = false;
                state.end_s = Some(*now);
                free_gpus.release(job);
            }
            state.remaining_s > 0
        });
    }

    /// Starts the job if it fits beside the running ones.
    pub(super) fn try_start(&mut self, job: usize) -> bool {
        let place = self.reserve(job);
        if let Some(place) = place {
            self.begin(job, place);
        }
        place.is_some()
    }

    /// Reserves GPUs for the job in the fastest group with enough free GPUs; returns the group.
    fn reserve(&mut self, job: usize) -> Option<usize> {
        let gpus = self.jobs[job].gpus;
        self.places[job].iter().copied().find(|place| self.free_gpus.reserve(job, gpus, *place))
    }

    /// Runs the first jobs of `order` that fit and skips those that do not; other running jobs are preempted.
    pub(super) fn run_first_that_fit(&mut self, order: impl Iterator<Item = usize>) {
        for &job in &self.running {
            self.free_gpus.release(job);
        }
        let mut chosen = Vec::with_capacity(self.running.len() + 1);
        for job in order {
            if self.free_gpus.is_full() {
                break;
            }
            if let Some(place) = self.reserve(job) {
                self.states[job].chosen = Some(place);
                chosen.push(job);
            }
        }
        for job in std::mem::take(&mut self.running) {
            let state = &mut self.states[job];
            if state.chosen == Some(state.on) {
                self.running.push(job);
            } else {
                state.running = false;
                self.preemptions += 1;
            }
        }
        for job in chosen {
            let place = self.states[job].chosen.take();
            if let Some(place) = place.filter(|_| !self.states[job].running) {
                self.begin(job, place);
            }
        }
    }

    fn begin(&mut self, job: usize, place: usize) {
        let state = &mut self.states[job];
        state.move_to(place, &self.jobs[job].durations_s);
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

impl JobState {
    /// Moves the job to another group, where the same part of its work remains, rounded up to whole seconds.
    fn move_to(&mut self, place: usize, durations_s: &[Option<u64>]) {
        if let (Some(before), Some(after)) = (durations_s[self.on], durations_s[place])
            && before != after
        {
            let left = u128::from(self.remaining_s) * u128::from(after);
            self.remaining_s = u64::try_from(left.div_ceil(u128::from(before))).unwrap_or(u64::MAX);
        }
        self.on = place;
    }
}
