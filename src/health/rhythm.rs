//! A job's own rhythm: how long it usually takes from one report to the next, in time and in CPU time.
//!
//! A report is any change of the progress counter or of the number of evaluations; several may have come since the last look at the log.
//! Jobs evaluate, save and load between reports, some of them rarely and for long; so the longest interval so far counts besides the usual
//! one.
//!
//! ## Asleep or busy
//!
//! A job is *asleep* if it leaves most of the CPU that it is due and usually uses, moves no data and does not use its GPU: four intervals
//! suffice. It is *busy* if it has used the CPU of four reports without one: the time alone would accuse a job that the policy has
//! slowed down. In between it is slow, and nothing is said; likewise if it is busy and prints lines, which are of something else.
//!
//! At the end of one of its first passes, or once it has printed another line when the next report was due, a busy job may be in an
//! evaluation that it has not shown yet, so more is needed.

use model::{Activity, ContainerObservation, CpuTime, GpuUse, Millis, ProgressUnit, RunState};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of latest intervals whose mean is the usual one.
const INTERVALS: usize = 16;

/// Reports after the first that are needed for a rhythm.
const LEAST_REPORTS: u64 = 3;

/// A silence is long from this multiple of the usual interval, and this multiple of the longest one.
const USUAL: f64 = 3.5;
const LONGEST: f64 = 1.5;

/// Least silence of a job that is asleep, and of one that is busy.
const ASLEEP_AFTER: Millis = Millis::from_secs(60);
const BUSY_AFTER: Millis = Millis::from_secs(110);

/// A job is asleep if it uses less than this part of the CPU that it would usually use and is due.
const ASLEEP_BELOW: f64 = 0.25;

/// Cores that a sleeping process uses at most: timers, heartbeats.
const HEARTBEAT_CORES: f64 = 0.002;

/// Patience with jobs that may do something that they have not shown yet: that move data, print lines, or are at the end of a pass.
const PATIENCE: f64 = 6.0;

/// Within this part of a pass over the data from its end, and after it, an evaluation may run.
const END_OF_PASS: f64 = 0.1;

/// Bytes per second of a job that moves data.
const MOVES_DATA: f64 = 10_000.0;

/// A GPU that is used for more than this part of the time is at work.
const GPU_WORKS: f64 = 0.02;

/// Pressure of block I/O above which a quiet job waits for a disk.
const DISK_PRESSURE: f64 = 0.5;

/// The reports of one job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Rhythm {
    last: Option<Report>,
    intervals: VecDeque<Interval>,
    /// Reports after the first.
    reports: u64,
    longest: Interval,
    /// Time of the last observation, for the time in which the job could not run.
    looked: Millis,
}

/// The latest report, and the counters then.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Report {
    current: Option<f64>,
    evaluations: u64,
    /// When it came; later by the time in which the job was frozen since.
    at: Millis,
    cpu: Option<CpuTime>,
    /// Bytes moved by then.
    moved: u64,
    /// CPU-seconds that it was due since then; `None` = unknown.
    due: Option<f64>,
}

/// From one report to the next.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Interval {
    seconds: f64,
    cpu_seconds: f64,
}

/// A job has been quiet for too long.
pub(super) struct Silence {
    /// The last report.
    pub(super) since: Millis,
    pub(super) quiet: Millis,
    pub(super) usual: Millis,
    pub(super) activity: Activity,
}

impl Rhythm {
    /// Takes an observation. `due`: cores that the job gets at least if it wants them.
    pub(super) fn look(&mut self, now: Millis, job: &ContainerObservation, due: Option<f64>) {
        let runs = job.state == RunState::Running;
        let learning = &job.learning;
        let current = learning.progress.map(|progress| progress.current);
        let before = self.last;
        let looked = std::mem::replace(&mut self.looked, now);
        let is_new = before.is_none_or(|last| last.current != current || last.evaluations != learning.evaluations);
        let has_reported = current.is_some() || learning.evaluations > 0;
        if is_new && has_reported {
            let read = [learning.progress.map(|progress| progress.at), learning.latest.map(|latest| latest.at)];
            let at =
                read.into_iter().flatten().max().unwrap_or(now).min(now).max(before.map_or(Millis(0), |last| last.at));
            let (evaluations, cpu) = (learning.evaluations, job.usage.cpu);
            if let Some(last) = before {
                let cpu_seconds = cpu.zip(last.cpu).map_or(0.0, |(now, then)| now.since(then).as_secs_f64());
                self.reports += evaluations.saturating_sub(last.evaluations).max(1);
                self.take(Interval { seconds: at.since(last.at).as_secs_f64(), cpu_seconds });
            }
            self.last = Some(Report { current, evaluations, at, cpu, moved: moved(job), due: Some(0.0) });
        } else if let Some(last) = &mut self.last {
            let passed = now.since(looked);
            if runs {
                last.due = last.due.zip(due).map(|(sum, due)| sum + due * passed.as_secs_f64());
            } else {
                last.at = last.at.after(passed);
            }
        }
    }

    fn take(&mut self, interval: Interval) {
        if self.intervals.len() == INTERVALS {
            self.intervals.pop_front();
        }
        self.intervals.push_back(interval);
        // The second longest would forget a hang that was survived, but also the only evaluation so far.
        self.longest.seconds = self.longest.seconds.max(interval.seconds);
        self.longest.cpu_seconds = self.longest.cpu_seconds.max(interval.cpu_seconds);
    }

    /// Returns the silence, if it is longer than the rhythm explains.
    pub(super) fn silence(&self, now: Millis, job: &ContainerObservation) -> Option<Silence> {
        let last = self.last.filter(|_| self.reports >= LEAST_REPORTS)?;
        let quiet = now.since(last.at);
        let count = self.intervals.len() as f64;
        let sum = |part: fn(&Interval) -> f64| self.intervals.iter().map(part).sum::<f64>();
        let usual = Interval {
            seconds: sum(|interval| interval.seconds) / count,
            cpu_seconds: sum(|interval| interval.cpu_seconds) / count,
        };
        let long = |usual: f64, longest: f64| (USUAL * usual).max(LONGEST * longest);
        let used = job.usage.cpu?.since(last.cpu?).as_secs_f64();
        let seconds = quiet.as_secs_f64();
        let moves_data = moved(job).saturating_sub(last.moved) as f64 > MOVES_DATA * seconds;
        let gpu = GpuUse::sum(&job.gpus).0.is_some_and(|share| share > GPU_WORKS);
        let recently = long(usual.seconds, self.longest.seconds).max(ASLEEP_AFTER.as_secs_f64());
        let printed = job.learning.log_grew.filter(|at| *at > last.at);
        let prints = printed.is_some_and(|at| now.since(at).as_secs_f64() < recently);
        // A line when the next report was due, such as "starting evaluation"; "checkpoint saved" comes at once.
        let began_other = printed.is_some_and(|at| at.since(last.at).as_secs_f64() > 0.5 * usual.seconds);
        let may_work = moves_data || gpu || prints;
        let asleep_after = if may_work { PATIENCE * recently } else { recently };
        let usually = usual.cpu_seconds / usual.seconds;
        let expected = last.due.map_or(usually * seconds, |due| due.min(usually * seconds));
        let is_asleep =
            used < ASLEEP_BELOW * expected || (usually < HEARTBEAT_CORES && used < HEARTBEAT_CORES * seconds);
        let patience = if may_work || began_other || self.may_evaluate(job) { PATIENCE } else { 1.0 };
        let is_busy = !prints
            && used >= patience * long(usual.cpu_seconds, self.longest.cpu_seconds)
            && seconds >= patience * BUSY_AFTER.as_secs_f64()
            && seconds >= patience * long(usual.seconds, self.longest.seconds);
        let activity = match () {
            () if seconds >= asleep_after && is_asleep && !gpu => {
                let disk = job.usage.pressure.io.is_some_and(|pressure| pressure > DISK_PRESSURE);
                if disk { Activity::WaitingForDisk } else { Activity::Asleep }
            }
            () if is_busy => Activity::Busy,
            () => return None,
        };
        let usual = Millis((usual.seconds * 1000.0) as u64);
        Some(Silence { since: last.at, quiet, usual, activity })
    }

    /// Whether one of its first passes over the data is at its end, so that an evaluation may run that it has not shown yet.
    fn may_evaluate(&self, job: &ContainerObservation) -> bool {
        let of_epochs = job.learning.progress.filter(|progress| progress.unit == ProgressUnit::Epoch);
        of_epochs.is_some_and(|progress| {
            let part = progress.current.fract();
            progress.current < 2.5 && !(END_OF_PASS..1.0 - END_OF_PASS).contains(&part)
        })
    }
}

fn moved(job: &ContainerObservation) -> u64 {
    let counters = [job.usage.block_io, job.usage.network_io];
    counters.into_iter().flatten().fold(0, |sum, bytes| sum.saturating_add(bytes.0))
}
