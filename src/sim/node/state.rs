//! State of one job: work done, current rate, and its next event.

use crate::job::Job;

/// The activity of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activity {
    /// Not started yet, or ended.
    Away,
    /// Needs no CPU until then: loading, reading.
    Waiting { until: f64 },
    /// Wants CPU.
    Computing,
    /// Its kernel is in the queue of a GPU, with this many GPU-seconds left.
    Queued { left: f64 },
}

/// One job's progress. `done` and `cpu` are valid at the time `since`; from then on the rates apply.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(super) stage: Activity,
    since: f64,
    /// Core-seconds of work done.
    pub done: f64,
    /// Core-seconds used; more than the work done where jobs slow each other down.
    pub cpu: f64,
    /// Work done per second.
    rate: f64,
    /// Cores used.
    cores: f64,
    /// Work at which the next event happens.
    stop: f64,
    next_unit: usize,
    next_wait: f64,
    next_kernel: f64,
    has_hung: bool,
    /// GPU-seconds used.
    pub gpu: f64,
    /// Core-seconds used while it waited for its GPU. The waiting process keeps a core busy, which no other job lacks in this model.
    pub(super) spun: f64,
    /// Part of the GPU's time for its kernel.
    gpu_rate: f64,
    /// Its processes are frozen. Kernels in the queue still run.
    pub(super) is_frozen: bool,
    /// Seconds waited for I/O so far.
    pub waited: f64,
    /// Time at which the quality was reached; NaN before.
    pub quality_at: f64,
    /// End time; NaN before.
    pub ended_at: f64,
    /// Start time on this node.
    pub started_at: f64,
    /// Times of its last two lines; NaN before.
    reported: [f64; 2],
}

impl State {
    pub(super) fn new(job: &Job) -> State {
        State {
            stage: Activity::Away,
            since: 0.0,
            done: 0.0,
            cpu: 0.0,
            rate: 0.0,
            cores: 0.0,
            stop: 0.0,
            next_unit: 0,
            next_wait: job.plan.waits.map_or(f64::INFINITY, |waits| waits.every),
            // Half of the work of a step prepares the batch, half processes the result.
            next_kernel: job.plan.gpu.map_or(f64::INFINITY, |load| job.plan.startup_work + 0.5 * load.every),
            has_hung: false,
            gpu: 0.0,
            spun: 0.0,
            gpu_rate: 0.0,
            is_frozen: false,
            waited: 0.0,
            quality_at: f64::NAN,
            ended_at: f64::NAN,
            started_at: f64::NAN,
            reported: [f64::NAN; 2],
        }
    }

    pub(super) fn start(&mut self, job: &Job, now: f64) {
        (self.since, self.started_at) = (now, now);
        // A job that continues from a checkpoint imports and compiles again.
        let again = if self.done > 0.0 { job.plan.startup_work / job.plan.parallelism } else { 0.0 };
        let loading = job.plan.startup_s + again;
        if loading > 0.0 {
            self.wait(now, loading);
        } else {
            self.resume(job, now);
        }
    }

    fn wait(&mut self, now: f64, seconds: f64) {
        self.stage = Activity::Waiting { until: now + seconds };
        self.waited += seconds;
        self.set_rate(0.0, 0.0);
    }

    pub(super) fn resume(&mut self, job: &Job, now: f64) {
        self.since = now;
        self.stage = Activity::Computing;
        self.aim(job);
    }

    /// Updates `done` and `cpu` to `now`.
    pub(super) fn settle(&mut self, now: f64) {
        let seconds = now - self.since;
        self.done = (self.done + self.rate * seconds).min(self.stop);
        self.cpu += self.cores * seconds;
        if let Activity::Queued { left } = &mut self.stage {
            let had = (self.gpu_rate * seconds).min(*left);
            *left -= had;
            self.gpu += had;
            self.spun += if self.is_frozen { 0.0 } else { seconds };
        }
        self.since = now;
    }

    /// Sets the work done to exactly the stop.
    pub(super) fn reach_stop(&mut self, now: f64) {
        self.settle(now);
        self.done = self.stop;
    }

    pub(super) fn set_rate(&mut self, cores: f64, rate: f64) {
        self.cores = cores;
        self.rate = rate;
    }

    /// Freezes or thaws it at `now`.
    pub(super) fn freeze(&mut self, is_frozen: bool, now: f64) {
        self.settle(now);
        self.set_rate(0.0, 0.0);
        self.is_frozen = is_frozen;
    }

    /// Sets the part of the GPU's time for its kernel.
    pub(super) fn set_gpu_rate(&mut self, rate: f64) {
        self.gpu_rate = rate;
    }

    pub(super) fn cores(&self) -> f64 {
        self.cores
    }

    /// Records that the quality is reached; returns whether this happened at this stop.
    pub(super) fn note_quality(&mut self, job: &Job, now: f64) -> bool {
        let reached = self.quality_at.is_nan() && self.done >= job.quality_work;
        if reached {
            self.quality_at = now;
        }
        reached
    }

    /// Returns the state for another node: the work is kept, the counters of the cgroup are not.
    pub(super) fn saved(&self) -> State {
        State {
            stage: Activity::Away,
            cpu: 0.0,
            gpu: 0.0,
            spun: 0.0,
            waited: 0.0,
            rate: 0.0,
            cores: 0.0,
            ..self.clone()
        }
    }

    /// Marks the job as gone from this node.
    pub(super) fn leave(&mut self) {
        self.stage = Activity::Away;
        self.is_frozen = false;
        self.set_rate(0.0, 0.0);
    }

    /// Records that a line is printed.
    pub(super) fn note_report(&mut self, now: f64) {
        self.reported = [self.reported[1], now];
    }

    /// Number of units printed in its log.
    pub(super) fn units(&self) -> usize {
        self.next_unit
    }

    /// Seconds between the last two lines.
    pub(super) fn unit_s(&self) -> Option<f64> {
        Some(self.reported[1] - self.reported[0]).filter(|seconds| seconds.is_finite())
    }

    /// Returns the unit that ends at the current work, if any.
    pub(super) fn finish_unit(&mut self, job: &Job) -> Option<usize> {
        let unit = self.next_unit;
        let ends = job.marks.get(unit).is_some_and(|mark| *mark <= self.done);
        self.next_unit += usize::from(ends);
        ends.then_some(unit)
    }

    pub(super) fn is_done(&self, job: &Job) -> bool {
        self.next_unit >= job.marks.len()
    }

    pub(super) fn end(&mut self, now: f64) {
        self.leave();
        self.ended_at = now;
    }

    /// Starts a wait if one is due.
    pub(super) fn wait_if_due(&mut self, job: &Job, now: f64) -> bool {
        if let Some(hang) = job.hang.filter(|hang| !self.has_hung && self.done >= hang.at) {
            self.has_hung = true;
            self.stage = Activity::Waiting { until: now + hang.seconds };
            self.set_rate(0.0, 0.0);
            return true;
        }
        let Some(waits) = job.plan.waits.filter(|_| self.done >= self.next_wait) else { return false };
        self.next_wait += waits.every;
        self.wait(now, waits.seconds);
        true
    }

    /// Queues a kernel if one is due.
    pub(super) fn queue_if_due(&mut self, job: &Job) -> bool {
        let Some(load) = job.plan.gpu.filter(|_| self.done >= self.next_kernel) else { return false };
        self.next_kernel += load.every;
        self.stage = Activity::Queued { left: load.kernel_s };
        self.set_rate(0.0, 0.0);
        true
    }

    /// Computes the work at which the next event happens.
    pub(super) fn aim(&mut self, job: &Job) {
        let mark = job.marks.get(self.next_unit).copied().unwrap_or(job.whole_work());
        let quality = if self.quality_at.is_nan() { job.quality_work } else { f64::INFINITY };
        self.stop = mark.min(quality).min(self.next_wait).min(self.next_kernel);
    }

    /// Time of the job's next event at its current rate.
    pub(super) fn due(&self) -> f64 {
        match self.stage {
            Activity::Away => f64::INFINITY,
            Activity::Waiting { until } => until,
            Activity::Queued { left } if self.gpu_rate > 0.0 => self.since + left / self.gpu_rate,
            Activity::Computing if self.rate > 0.0 => self.since + (self.stop - self.done) / self.rate,
            Activity::Computing | Activity::Queued { .. } => f64::INFINITY,
        }
    }
}
