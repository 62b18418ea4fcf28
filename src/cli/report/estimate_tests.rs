//! Tests of the estimate with jobs small enough to be computed by hand.

use super::*;

/// A job whose work and weights are given in pieces: (seconds, cores, weight).
fn life(start_s: f64, pieces: &[(f64, f64, f64)]) -> Life {
    let (mut now, mut done) = (start_s, 0.0);
    let mut life = Life {
        start_s,
        is_whole: true,
        end_s: None,
        work: vec![(now, done)],
        weights: Vec::new(),
        plain_weight: 100.0,
        quality_s: None,
    };
    for (seconds, cores, weight) in pieces {
        life.weights.push((now, *weight));
        now += seconds;
        done += seconds * cores;
        life.work.push((now, done));
    }
    life.end_s = Some(now);
    life
}

#[test]
fn a_preferred_job_would_have_taken_longer_and_the_other_equally_long() {
    // Two cores: the short job had 1.5 of them for 100 s, the long one 0.5 and then both.
    let short = life(0.0, &[(100.0, 1.5, 300.0)]);
    let long = life(0.0, &[(100.0, 0.5, 100.0), (100.0, 2.0, 100.0)]);
    let estimate = estimate(&[short, long], 2.0);
    let plain: Vec<Plain> = estimate.jobs.iter().map(|job| job.expect("ended")).collect();
    assert!((plain[0].completion_s.likely - 150.0).abs() < 1.0, "{plain:?}");
    assert!((plain[1].completion_s.likely - 200.0).abs() < 1.0, "{plain:?}");
    assert!(estimate.error.is_some_and(|error| error < 0.01), "{estimate:?}");
    assert!(plain[0].completion_s.low > 120.0, "a gain beyond the uncertainty: {plain:?}");
}

#[test]
fn no_gain_is_claimed_if_sharing_was_plain() {
    let lives = [life(0.0, &[(100.0, 1.0, 100.0), (50.0, 2.0, 100.0)]), life(0.0, &[(100.0, 1.0, 100.0)])];
    let estimate = estimate(&lives, 2.0);
    for (life, plain) in lives.iter().zip(&estimate.jobs) {
        let real = life.end_s.expect("it ended") - life.start_s;
        let Range { low, likely, high } = plain.expect("ended").completion_s;
        assert!((likely - real).abs() < 0.01 * real && low <= real + 1e-6 && real <= high + 1e-6, "{plain:?} {real}");
    }
}

#[test]
fn a_job_with_one_thread_gets_no_second_core() {
    let alone = life(0.0, &[(60.0, 1.0, 100.0)]);
    let later = life(100.0, &[(60.0, 1.0, 100.0)]);
    let estimate = estimate(&[alone, later], 8.0);
    for plain in estimate.jobs {
        let Range { low, likely, .. } = plain.expect("ended").completion_s;
        assert!((likely - 60.0).abs() < 1.0 && low > 55.0, "{low} {likely}");
    }
}

#[test]
fn a_running_job_is_not_estimated_but_competes() {
    let mut goes_on = life(0.0, &[(100.0, 0.5, 100.0)]);
    goes_on.end_s = None;
    let short = life(0.0, &[(100.0, 1.5, 300.0)]);
    let estimate = estimate(&[goes_on, short], 2.0);
    assert!(estimate.jobs[0].is_none());
    let plain = estimate.jobs[1].expect("ended").completion_s;
    assert!(plain.high >= 145.0, "{plain:?}");
}

#[test]
fn a_job_that_started_before_the_report_is_not_estimated_but_competes() {
    let mut older = life(0.0, &[(100.0, 0.5, 100.0), (100.0, 2.0, 100.0)]);
    older.is_whole = false;
    let short = life(0.0, &[(100.0, 1.5, 300.0)]);
    let estimate = estimate(&[older, short], 2.0);
    assert!(estimate.jobs[0].is_none());
    let plain = estimate.jobs[1].expect("ended").completion_s;
    assert!((plain.likely - 150.0).abs() < 1.0, "{plain:?}");
    let mean = estimate.mean_completion_s.expect("one ended");
    assert_eq!(mean.likely, plain.likely, "only the whole job");
}

#[test]
fn without_records_there_is_no_estimate() {
    let empty = estimate(&[], 4.0);
    assert_eq!((empty.jobs.len(), empty.mean_completion_s, empty.error), (0, None, None));
    let mut idle = life(0.0, &[(10.0, 0.0, 100.0)]);
    idle.work = vec![(0.0, 0.0)];
    assert!(estimate(&[idle], 4.0).jobs[0].is_some());
}

#[test]
fn quality_is_reached_when_its_work_is_done() {
    let mut short = life(0.0, &[(100.0, 1.5, 300.0)]);
    short.quality_s = Some(50.0);
    let long = life(0.0, &[(100.0, 0.5, 100.0), (100.0, 2.0, 100.0)]);
    let plain = estimate(&[short, long], 2.0).jobs[0].expect("ended");
    assert!(plain.quality_s.is_some_and(|quality| (quality.likely - 75.0).abs() < 1.0), "{plain:?}");
}

#[test]
fn an_estimate_whose_range_says_nothing_is_left_out() {
    let plain = |low, likely, high| Some(Plain { completion_s: Range { low, likely, high }, quality_s: None });
    let all = Estimate {
        // The first is 4h03m, from 0s to 3d21h.
        jobs: vec![plain(0.0, 14_580.0, 334_800.0), plain(80.0, 100.0, 200.0), plain(10.0, 20.0, 41.0), None],
        mean_completion_s: Some(Range { low: 0.0, likely: 100.0, high: 110.0 }),
        cores: Range { low: 1.0, likely: 2.0, high: 2.0 },
        error: Some(0.5),
        unclear: 0,
    };
    let kept = all.meaningful();
    assert_eq!(kept.jobs, [None, plain(80.0, 100.0, 200.0), None, None]);
    assert_eq!((kept.mean_completion_s, kept.unclear), (None, 2));
}
