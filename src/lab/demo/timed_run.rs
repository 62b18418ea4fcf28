//! A run whose times count work instead of seconds, so that two runs can be compared although the machine was faster in one of them.
//!
//! Both runs do the same work. The time of a job is the work that all jobs together did from its start to its end. What this leaves out,
//! the machine's speed and what governing itself costs, is in the times by the clock and in the CPU time.

use crate::trial::outcome::{JobOutcome, RunOutcome, Sample};
use crate::trial::work_clock::work_at;
use serde::Serialize;
use std::time::Duration;

/// One run, in work and by the clock.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TimedRun {
    /// All times in seconds of work. The samples are fractions of the CPU time of all jobs.
    #[serde(flatten)]
    pub work: RunOutcome,
    /// CPU-seconds used by the jobs; 0 if unknown.
    pub cpu_s: f64,
    /// All times by the clock.
    pub clock: RunOutcome,
}

impl TimedRun {
    /// Times a plain and a governed run of the same jobs. A second of work is what the jobs did in an average second of the plain run.
    pub(super) fn both(plain: RunOutcome, governed: RunOutcome) -> (TimedRun, TimedRun) {
        let done = plain.work.last().map_or(0.0, |(_, work)| *work);
        let speed = if done > 0.0 { done / plain.makespan_s.max(1e-3) } else { 1.0 };
        (TimedRun::new(plain, speed), TimedRun::new(governed, speed))
    }

    fn new(clock: RunOutcome, speed: f64) -> TimedRun {
        let work = |seconds: f64| work_at(&clock.work, seconds) / speed;
        let job = |job: &JobOutcome| {
            let start_s = work(job.start_s);
            JobOutcome { start_s, completion_s: work(job.start_s + job.completion_s) - start_s, ..job.clone() }
        };
        let sample = |sample: &Sample| {
            let all: f64 = sample.used.iter().sum();
            let used = sample.used.iter().map(|used| if all > 0.0 { used / all } else { 0.0 });
            Sample { at: Duration::from_secs_f64(work(sample.at.as_secs_f64())), used: used.collect() }
        };
        let (jobs, samples) = (clock.jobs.iter().map(job).collect(), clock.samples.iter().map(sample).collect());
        let work = RunOutcome::new(jobs, samples, clock.foreign);
        TimedRun { work, cpu_s: clock.cpu_s, clock }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::planned;
    use super::*;
    use crate::trial::outcome::Foreign;
    use crate::trial::work_clock::{LoggedWork, WorkClock};

    /// Who gets the core of the simulated machine.
    #[derive(Clone, Copy, PartialEq)]
    enum Sharing {
        Equal,
        /// Three quarters for the job with the least work left: what a good policy does.
        ShortestFirst,
    }

    /// Runs the demo's mix on a simulated core that does `speed` seconds of work per second at each time; `by_work`: jobs start when the
    /// others have done their work, as in the demo, otherwise at fixed times.
    fn simulated(sharing: Sharing, by_work: bool, speed: impl Fn(f64) -> f64) -> RunOutcome {
        const STEP: f64 = 0.01;
        let mix = planned(Duration::from_secs(46));
        let plans = mix.iter().map(|(_, work)| LoggedWork { work: *work, lines: work.as_millis() as u64 / 40 });
        let plans: Vec<LoggedWork> = plans.collect();
        let clock = WorkClock::new(plans.clone());
        let mut left: Vec<f64> = plans.iter().map(|plan| plan.work.as_secs_f64()).collect();
        let (mut started, mut ended) = (vec![None; mix.len()], vec![None; mix.len()]);
        let mut printed = vec![0; mix.len()];
        let mut samples = Vec::new();
        let mut time = 0.0;
        while ended.contains(&None) {
            let now = if by_work { work_at(&clock.curve(), time) } else { time };
            for (job, (start, _)) in mix.iter().enumerate() {
                if started[job].is_none() && now >= start.as_secs_f64() {
                    started[job] = Some(time);
                }
            }
            let running: Vec<usize> =
                (0..mix.len()).filter(|&job| started[job].is_some() && ended[job].is_none()).collect();
            let shortest = running.iter().copied().min_by(|&one, &other| left[one].total_cmp(&left[other]));
            let others = running.len().saturating_sub(1).max(1) as f64;
            let work = STEP * speed(time);
            time += STEP;
            let mut used = vec![0.0; mix.len()];
            for &job in &running {
                used[job] = match sharing {
                    _ if running.len() == 1 => 1.0,
                    Sharing::Equal => 1.0 / running.len() as f64,
                    Sharing::ShortestFirst if shortest == Some(job) => 0.75,
                    Sharing::ShortestFirst => 0.25 / others,
                };
                left[job] -= work * used[job];
                let at = Duration::from_secs_f64(time);
                let done = plans[job].work.as_secs_f64() - left[job];
                let lines = (done / plans[job].work.as_secs_f64() * plans[job].lines as f64) as usize;
                clock.printed(job, "line\n".repeat(lines.saturating_sub(printed[job])).as_bytes(), at);
                printed[job] = lines.max(printed[job]);
                if left[job] <= 0.0 {
                    ended[job] = Some(time);
                    clock.ended(job, at);
                }
            }
            samples.push(Sample { at: Duration::from_secs_f64(time), used });
        }
        let jobs = started.iter().zip(&ended).enumerate().map(|(job, (start, end))| {
            let (start_s, end_s) = (start.expect("it started"), end.expect("it ended"));
            JobOutcome { name: format!("job-{job}"), start_s, completion_s: end_s - start_s, exit_code: 0 }
        });
        RunOutcome { work: clock.curve(), ..RunOutcome::new(jobs.collect(), samples, Foreign::default()) }
    }

    /// A machine that is fast and slow in turns of some seconds.
    fn restless(time: f64) -> f64 {
        const SPEEDS: [f64; 7] = [0.5, 1.4, 0.6, 1.9, 0.4, 1.1, 0.8];
        SPEEDS[(time / 5.3) as usize % SPEEDS.len()]
    }

    fn gain(plain: &RunOutcome, governed: &RunOutcome) -> f64 {
        governed.mean_completion_s / plain.mean_completion_s - 1.0
    }

    #[test]
    fn on_a_machine_of_constant_speed_work_and_clock_agree() {
        let plain = simulated(Sharing::Equal, true, |_| 1.0);
        let (timed, _) = TimedRun::both(plain.clone(), plain.clone());
        assert!((timed.work.makespan_s - plain.makespan_s).abs() < 0.1, "{timed:?}");
        for (work, clock) in timed.work.jobs.iter().zip(&plain.jobs) {
            assert!((work.start_s - clock.start_s).abs() < 0.1, "{work:?} {clock:?}");
            assert!((work.completion_s - clock.completion_s).abs() < 0.2, "{work:?} {clock:?}");
        }
        let by_time = simulated(Sharing::Equal, false, |_| 1.0);
        for (work, time) in plain.jobs.iter().zip(&by_time.jobs) {
            assert!((work.start_s - time.start_s).abs() < 0.2, "{work:?} {time:?}");
        }
    }

    #[test]
    fn the_gain_does_not_depend_on_the_machines_speed() {
        let [steady_plain, steady] =
            [Sharing::Equal, Sharing::ShortestFirst].map(|sharing| simulated(sharing, true, |_| 1.0));
        let (plain, governed) = TimedRun::both(steady_plain, steady);
        let expected = gain(&plain.work, &governed.work);
        assert!((-0.40..-0.25).contains(&expected), "{expected}");
        for shift in [0.0, 7.0, 13.0, 24.0] {
            let plain = simulated(Sharing::Equal, true, restless);
            let governed = simulated(Sharing::ShortestFirst, true, |time| 0.7 * restless(time + shift));
            let by_clock = gain(&plain, &governed);
            let (plain, governed) = TimedRun::both(plain, governed);
            assert!((gain(&plain.work, &governed.work) - expected).abs() < 0.01, "{shift}: {plain:?}\n{governed:?}");
            assert!((by_clock - expected).abs() > 0.05, "by the clock, the speed counts: {by_clock}");
            for (one, other) in plain.work.jobs.iter().zip(&governed.work.jobs) {
                assert!((one.start_s - other.start_s).abs() < 0.1, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn samples_become_fractions_of_the_jobs_cpu_time() {
        let sample = |second, used: [f64; 2]| Sample { at: Duration::from_secs(second), used: used.to_vec() };
        let samples = vec![sample(2, [0.25, 0.25]), sample(4, [0.0, 0.0])];
        let job = JobOutcome { name: "a".into(), start_s: 0.0, completion_s: 4.0, exit_code: 0 };
        let run = RunOutcome::new(vec![job], samples, Foreign::default());
        let run = RunOutcome { work: vec![(0.0, 0.0), (1.0, 3.0), (4.0, 6.0)], ..run };
        let (timed, _) = TimedRun::both(run.clone(), run);
        let milliseconds = |sample: &Sample| sample.at.as_millis();
        assert_eq!(timed.work.samples.iter().map(milliseconds).collect::<Vec<_>>(), [2666, 4000]);
        assert_eq!(timed.work.samples[0].used, [0.5, 0.5]);
        assert_eq!(timed.work.samples[1].used, [0.0, 0.0]);
    }
}
