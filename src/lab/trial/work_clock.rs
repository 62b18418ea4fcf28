//! A clock that counts the work of the jobs instead of time: it advances as their logs grow, so it does not depend on the machine's speed.
//!
//! On a machine of constant speed whose cores are never idle it agrees with an ordinary clock.

use std::time::Duration;
use tokio::sync::watch;

/// What the start times of the jobs count.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StartsCount {
    /// Time since the start of the run.
    Time,
    /// The work that the jobs have done together since the start of the run; one entry for each job.
    Work(Vec<LoggedWork>),
}

impl StartsCount {
    /// The unit of the start times.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            StartsCount::Time => "s",
            StartsCount::Work(_) => "s of work",
        }
    }
}

/// The work of a job, spread evenly over the lines of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedWork {
    /// Time that all cores together need for the whole job.
    pub work: Duration,
    /// Number of lines that it prints; at least 1.
    pub lines: u64,
}

/// (Seconds since the start of the run, work done by then in seconds); both never decrease.
pub(crate) type WorkCurve = Vec<(f64, f64)>;

/// The clock of one run.
pub(crate) struct WorkClock {
    jobs: Vec<LoggedWork>,
    done: watch::Sender<Done>,
}

/// What has been done so far.
struct Done {
    jobs: Vec<JobDone>,
    curve: WorkCurve,
}

#[derive(Clone, Copy, Default)]
struct JobDone {
    /// Lines printed so far.
    lines: u64,
    has_ended: bool,
}

impl Done {
    fn work(&self) -> f64 {
        self.curve.last().map_or(0.0, |(_, work)| *work)
    }
}

impl LoggedWork {
    /// Seconds of its work that are done. All of them after its end, also if it failed, so that the others start in any case.
    fn done(&self, JobDone { lines, has_ended }: JobDone) -> f64 {
        let part = if has_ended { 1.0 } else { lines.min(self.lines) as f64 / self.lines as f64 };
        part * self.work.as_secs_f64()
    }
}

/// A log of which less than this was read did not show the progress of its job.
const READ_AT_LEAST: f64 = 0.9;

impl WorkClock {
    /// Creates a clock that shows 0.
    pub(crate) fn new(jobs: Vec<LoggedWork>) -> WorkClock {
        let done = Done { jobs: vec![JobDone::default(); jobs.len()], curve: vec![(0.0, 0.0)] };
        WorkClock { jobs, done: watch::Sender::new(done) }
    }

    /// Takes the next output of a job.
    pub(crate) fn printed(&self, job: usize, output: &[u8], at: Duration) {
        let lines = memchr::memchr_iter(b'\n', output).count() as u64;
        self.advance(at, |jobs| jobs[job].lines += lines);
    }

    /// Takes the end of a job.
    pub(crate) fn ended(&self, job: usize, at: Duration) {
        self.advance(at, |jobs| jobs[job].has_ended = true);
    }

    fn advance(&self, at: Duration, change: impl FnOnce(&mut [JobDone])) {
        self.done.send_modify(|done| {
            change(&mut done.jobs);
            let work: f64 = self.jobs.iter().zip(&done.jobs).map(|(job, done)| job.done(*done)).sum();
            if work > done.work() {
                done.curve.push((at.as_secs_f64(), work));
            }
        });
    }

    /// The jobs that have ended although much of their log was not read.
    pub(crate) fn unread(&self) -> Vec<usize> {
        let done = self.done.borrow();
        let is_unread = |job: &usize| {
            let (planned, done) = (self.jobs[*job], done.jobs[*job]);
            done.has_ended && (done.lines as f64) < READ_AT_LEAST * planned.lines as f64
        };
        (0..self.jobs.len()).filter(is_unread).collect()
    }

    /// Waits until this much work is done.
    pub(crate) async fn reaches(&self, work: Duration) {
        // It fails only without a sender.
        let _ = self.done.subscribe().wait_for(|done| done.work() >= work.as_secs_f64()).await;
    }

    /// The work done at each time so far.
    pub(crate) fn curve(&self) -> WorkCurve {
        self.done.borrow().curve.clone()
    }
}

/// The work done at a time: between two entries it grows evenly.
pub(crate) fn work_at(curve: &[(f64, f64)], seconds: f64) -> f64 {
    let next = curve.partition_point(|(at, _)| *at < seconds);
    match (next.checked_sub(1).map(|before| curve[before]), curve.get(next)) {
        (Some((from, before)), Some((to, after))) => before + (after - before) * (seconds - from) / (to - from),
        (Some((_, work)), None) | (None, Some(&(_, work))) => work,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn clock() -> WorkClock {
        let job = |seconds, lines| LoggedWork { work: Duration::from_secs(seconds), lines };
        WorkClock::new(vec![job(20, 10), job(6, 3)])
    }

    fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_line_is_its_part_of_the_jobs_work() {
        let clock = clock();
        clock.printed(0, b"begin\nepo", second(1));
        clock.printed(0, b"ch", second(2));
        clock.printed(1, b"a\nb\n", second(3));
        assert_eq!(clock.curve(), [(0.0, 0.0), (1.0, 2.0), (3.0, 6.0)]);
        assert_eq!([0.5, 1.0, 2.0, 9.0].map(|at| work_at(&clock.curve(), at)), [1.0, 2.0, 4.0, 6.0]);
    }

    #[test]
    fn an_ended_job_has_done_all_its_work_and_nothing_counts_twice() {
        let clock = clock();
        clock.printed(1, b"a\nb\nc\nd\ne\n", second(1));
        clock.ended(1, second(2));
        clock.printed(0, b"Error\n", second(3));
        assert_eq!(clock.unread(), Vec::<usize>::new());
        clock.ended(0, second(4));
        assert_eq!(clock.curve(), [(0.0, 0.0), (1.0, 6.0), (3.0, 8.0), (4.0, 26.0)]);
        assert_eq!(clock.unread(), [0]);
    }

    #[test]
    fn a_start_waits_for_the_work_of_the_others() {
        let clock = clock();
        let mut start = pin!(clock.reaches(second(3)));
        let mut waker = Context::from_waker(Waker::noop());
        let mut has_started = || start.as_mut().poll(&mut waker) == Poll::Ready(());
        assert!(!has_started());
        clock.printed(0, b"1\n", second(1));
        assert!(!has_started());
        clock.printed(1, b"1\n", second(9));
        assert!(has_started());
    }
}
