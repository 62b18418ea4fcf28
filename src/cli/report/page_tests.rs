//! Tests of the page for a synthetic hour: its content, its escaping, its size and the time to render it.

use super::super::data::Holdback;
use super::super::data::{assemble, sampling_ms};
use super::super::measure::measure;
use super::*;
use api::wire::{BlockRecord, BlockWork, Decision, Event, JobRecord, NodeSample, NodeSamples, Pressure, Sample};
use std::collections::BTreeMap;
use std::time::Instant;

const SINCE: u64 = 1_700_000_000_000;
const HOSTILE: &str = "</title><script>alert(1)</script>\u{202e}\"'&<img src=x onerror=alert(2)>";

fn job(number: u64, name: &str, from_s: u64, to_s: Option<u64>) -> JobRecord {
    let at = |seconds: u64| SINCE + seconds * 1000;
    JobRecord {
        number,
        id: format!("{number:064x}"),
        short_id: format!("{number:012x}"),
        name: name.to_owned(),
        runtime: "docker".to_owned(),
        started_unix_ms: at(from_s),
        first_unix_ms: at(from_s),
        last_unix_ms: at(to_s.unwrap_or(3600)),
        ended_unix_ms: to_s.map(at),
        exit_code: to_s.map(|_| i32::from(number.is_multiple_of(2))),
        end: None,
        original_weight: Some(100),
        metric: Some("loss".to_owned()),
        direction: Some("down".to_owned()),
        unit: Some("epoch".to_owned()),
        total: Some(50.0),
        user: None,
        lost_cpu_s: None,
        trial: None,
        latest: None,
    }
}

fn sample(job: u64, at_s: u64, age_s: u64, cores: f64, why: &str) -> Sample {
    let age = age_s as f64;
    let decision = Decision {
        rule: if age_s < 300 { "unranked" } else { "ranked" }.to_owned(),
        text: why.to_owned(),
        story: why.to_owned(),
        numbers: BTreeMap::new(),
    };
    Sample {
        job,
        unix_ms: SINCE + at_s * 1000,
        cpu_s: Some(age * cores),
        memory_bytes: Some(1 << 30),
        value: Some(0.2 + 2.0 * (-age / 200.0).exp()),
        progress: Some(age / 60.0),
        quality: Some((age / 1000.0).min(1.0)),
        cpu_weight: Some(if age_s < 300 { 100 } else { 300 }),
        state: "running".to_owned(),
        share: Some(cores / 8.0),
        limit: Some(1.0),
        decision: Some(decision),
        ..Sample::default()
    }
}

/// `jobs` jobs within an hour, each with a sample every `every_s` seconds, named `name` and a number.
fn hour(jobs: u64, every_s: u64, name: &str) -> Data {
    let mut past = Vec::new();
    let mut samples = Vec::new();
    for number in 1..=jobs {
        let from = (number - 1) * 120 % 2400;
        let to = (number % 5 != 0).then_some((from + 600 + 97 * number % 1500).min(3599));
        past.push(job(number, &format!("{name}{number}"), from, to));
        let cores = 0.4 + 0.1 * (number % 4) as f64;
        let span = (from..=to.unwrap_or(3600)).step_by(usize::try_from(every_s).expect("small"));
        samples.extend(span.map(|at| sample(number, at, at - from, cores, name)));
    }
    let reading = |at: u64| NodeSample {
        unix_ms: SINCE + at * 1000,
        cores: 8.0,
        interval_s: 20.0,
        released: false,
        pressure: Pressure { cpu: Some(0.3), memory: Some(0.01), io: None },
        policy: "balanced".to_owned(),
        objective: 0.5,
        growth_threshold: 0.005,
    };
    let node = NodeSamples { hostname: name.to_owned(), readings: (0..3600).step_by(60).map(reading).collect() };
    let event = Event {
        sequence: 1,
        unix_ms: SINCE + 5_000,
        kind: "hold".to_owned(),
        container: None,
        name: Some(name.to_owned()),
        text: name.to_owned(),
        alert: None,
    };
    assemble(node, past, &samples, vec![event], &[], SINCE, SINCE + 3_600_000)
}

#[test]
fn the_page_of_an_hour_with_15_jobs_is_small() {
    let began = Instant::now();
    let page = html(&hour(15, 6, "resnet-"));
    eprintln!("15 jobs × 1 hour: {} bytes in {:?} (the page alone, this build)", page.len(), began.elapsed());
    assert!(page.len() <= 2_000_000, "{}", page.len());
    for part in
        ["Completion times", "When each job ran", "Shares of the node", "CPU used", "Evaluation curves", "estimated"]
    {
        assert!(page.contains(part), "{part}");
    }
    for end in ["done", "failed 1", "runs"] {
        assert!(page.contains(&format!("<td class=\"left\">{end}</td>")), "{end}");
    }
    if let Some(file) = std::env::var_os("FLOWCON_KEEP_REPORT") {
        std::fs::write(file, page).expect("written where asked");
    }
}

#[test]
fn lost_cpu_has_a_column_if_a_job_lost_some() {
    let with = |lost: Option<f64>| {
        let jobs = vec![JobRecord { lost_cpu_s: lost, ..job(1, "lgb", 0, Some(600)) }, job(2, "other", 0, Some(900))];
        html(&ten_minutes(jobs, &samples_of(1)))
    };
    assert!(!with(None).contains("CPU lost") && !with(Some(0.5)).contains("CPU lost"));
    assert!(with(Some(20.0)).contains("<td>20s</td>"));
    assert!(with(Some(90.0)).contains("<td>1m30s <small>disturbed: 32% of its CPU</small></td>"), "more than a tenth");
}

#[test]
fn energy_has_a_column_and_the_times_left_are_judged_where_they_are_known() {
    let with = |energy: bool, left: bool| {
        let change = |sample: Sample| Sample {
            energy_j: energy.then_some(50.0 * (sample.unix_ms - SINCE) as f64 / 1000.0),
            // Twice as long as it takes, but not beyond the range.
            remaining_s: left.then(|| {
                let left_s = 600.0 - (sample.unix_ms - SINCE) as f64 / 1000.0;
                api::wire::Estimate { low: 0.9 * left_s, likely: 2.0 * left_s, high: None }
            }),
            ..sample
        };
        let done = JobRecord { end: Some("done".to_owned()), ..job(1, "lgb", 0, Some(600)) };
        html(&ten_minutes(vec![done], &samples_of(1).into_iter().map(change).collect::<Vec<_>>()))
    };
    let page = with(false, false);
    assert!(!page.contains(">energy<") && !page.contains("<dt>Time left</dt>"));
    let page = with(true, true);
    assert!(page.contains(">energy<") && page.contains("<td>7.9 Wh</td>"), "{page}");
    assert!(page.contains("<dt>Time left</dt><dd>100%<small>of "), "{page}");
    assert!(page.contains("had the end in their 80 % range; wrong by 100% at half"), "{page}");
}

#[test]
fn gpus_have_columns_if_a_job_used_one() {
    let page_of = |with: fn(Sample) -> Sample| {
        let samples: Vec<Sample> = (0..=20).map(|n| with(sample(1, n * 60, n * 60, 0.5, "why"))).collect();
        let node = NodeSamples { hostname: "box".to_owned(), readings: Vec::new() };
        let past = vec![job(1, "gpt", 0, Some(1200)), job(2, "forest", 0, Some(1200))];
        html(&assemble(node, past, &samples, Vec::new(), &[], SINCE, SINCE + 1_200_000))
    };
    assert!(!page_of(|sample| sample).contains("GPU"));
    let page = page_of(|sample| {
        let half = sample.unix_ms < SINCE + 600_000;
        let (gpus, memory) = if half { (Some(0.5), 3 << 30) } else { (Some(1.5), 6 << 30) };
        Sample { gpus, gpu_memory_bytes: Some(memory), ..sample }
    });
    assert!(page.contains("<th scope=\"col\">GPUs</th>") && page.contains("<td>1.00</td><td>6.0G</td>"), "{page}");
    assert!(page.contains("<td>–</td><td>–</td>"), "the other job used none");
}

/// A report of ten minutes about these jobs.
fn ten_minutes(jobs: Vec<JobRecord>, samples: &[Sample]) -> Data {
    let node = NodeSamples { hostname: "box".to_owned(), readings: Vec::new() };
    assemble(node, jobs, samples, Vec::new(), &[], SINCE, SINCE + 600_000)
}

/// Samples of a job in a report of ten minutes, one every half minute.
fn samples_of(number: u64) -> Vec<Sample> {
    (0..20).map(|n| sample(number, n * 30, n * 30, 0.5, "why")).collect()
}

#[test]
fn the_sampling_follows_the_jobs_lives_and_not_the_length_of_the_report() {
    let day = SINCE + 86_400_000;
    let brief = job(1, "brief", 0, Some(60));
    assert_eq!(sampling_ms(std::slice::from_ref(&brief), SINCE, day), 1, "all samples of a minute");
    let long = job(2, "long", 0, Some(86_400));
    assert_eq!(sampling_ms(&[brief, long], SINCE, day), 1_441, "60,000 samples together");
}

#[test]
fn a_job_that_started_before_the_report_has_its_whole_duration_and_is_not_in_the_mean() {
    let older = JobRecord { started_unix_ms: SINCE - 36_000_000, ..job(1, "older", 0, Some(600)) };
    let samples = [samples_of(1), samples_of(2)].concat();
    let page = html(&ten_minutes(vec![older, job(2, "newer", 0, Some(540))], &samples));
    assert!(page.contains("<td>10h10m</td>") && page.contains("2 ended"), "{page}");
    assert!(page.contains("<dt>Mean completion</dt><dd>9m00s<small>measured, 1 job</small>"), "{page}");
}

#[test]
fn a_job_that_diverged_ends_with_nan_and_has_not_reached_its_quality() {
    let last = Sample { value: None, value_is_finite: Some(false), ..sample(1, 595, 595, 0.5, "why") };
    let finite = samples_of(1);
    let diverged = [finite.as_slice(), std::slice::from_ref(&last)].concat();
    let with = |samples: &[Sample]| ten_minutes(vec![job(1, "gan", 0, Some(600))], samples);
    assert!(with(&finite).jobs[0].quality_s.is_some() && with(&diverged).jobs[0].quality_s.is_none());
    assert!(html(&with(&diverged)).contains("loss 2.2 → NaN"));
    assert!(html(&with(&[last])).contains("loss NaN"), "it is not shown as unread");
}

#[test]
fn a_repeated_value_is_no_evaluation() {
    let twice =
        |sample: Sample| Sample { value: Some(if sample.unix_ms < SINCE + 60_000 { 2.0 } else { 1.0 }), ..sample };
    let samples: Vec<Sample> = samples_of(1).into_iter().map(twice).collect();
    assert_eq!(ten_minutes(vec![job(1, "two", 0, Some(600))], &samples).jobs[0].quality_s, None);
}

/// Blocks of two minutes, every fifth of them plain: in these, odd jobs get a third less and even ones a third more.
fn with_blocks(mut data: Data, blocks: u64) -> Data {
    let block = |number: u64| {
        let plain = number % 5 == 3;
        let (from_unix_ms, until_unix_ms) = (SINCE + number * 120_000, SINCE + (number + 1) * 120_000);
        let work = (1..=4).map(|job| {
            let part = if job % 2 == 1 { 0.67 } else { 1.33 };
            BlockWork { job, cpu_s: if plain { 30.0 * part } else { 30.0 + 0.01 * number as f64 } }
        });
        BlockRecord { from_unix_ms, until_unix_ms, plain, span_s: 100.0, work: work.collect() }
    };
    let blocks: Vec<BlockRecord> = (0..blocks).map(block).collect();
    let works = (1..=4).map(|job| (job, if job % 2 == 1 { 100.0 } else { 900.0 })).collect();
    data.measured = measure(&blocks, &works);
    data.holdback = Holdback { part: 0.2, block_s: 120.0 };
    data
}

#[test]
fn the_measurement_is_shown_beside_the_estimate() {
    let page = html(&with_blocks(hour(4, 6, "job-"), 40));
    for part in [
        "In 8 control periods, chosen at random",
        "<b class=\"better\">measured gain</b>",
        "Measured against control periods",
        "Under plain sharing",
        "95 % interval",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<td class=\"better\">+5").count(), 2, "jobs 1 and 3 had half as much again: {page}");
    let without = html(&hour(4, 6, "job-"));
    assert!(!without.contains("control period") && without.contains("policy.holdback"), "only how to enable it");
}

#[test]
fn with_too_few_plain_blocks_the_page_says_how_long_to_wait() {
    let data = with_blocks(hour(4, 6, "job-"), 20);
    let page = html(&data);
    // Two more are needed, one every ten minutes.
    assert!(page.contains("Not enough control periods yet to measure the gain: 4 of 6; about 20m more"), "{page}");
    assert!(!page.contains("Work while governed"));
    let off = Data { holdback: Holdback::default(), ..data };
    assert!(html(&off).contains("4 of 6; the holdback is now off"));
}

#[test]
fn a_hostile_name_is_escaped_everywhere() {
    let page = html(&hour(3, 60, HOSTILE));
    assert!(page.contains("&lt;script&gt;alert(1)"), "it is shown");
    for bad in ["<script", "<img", "\u{202e}", "javascript:", "http://", "https://", "src=x onerror=alert(2)>"] {
        assert!(!page.contains(bad), "{bad}");
    }
}

#[test]
fn every_chart_has_a_title_and_a_description_and_every_link_a_target() {
    let page = html(&hour(15, 6, "job-"));
    let pictures = page.matches("<svg viewBox").count();
    assert!(pictures >= 7, "{pictures}");
    assert_eq!(page.matches("role=\"img\" aria-labelledby").count(), pictures);
    assert_eq!(page.matches("<desc ").count(), pictures);
    assert_eq!(page.matches("<h1>").count(), 1);
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.contains(&link), "#{link} has no target");
    }
}

#[test]
fn a_page_of_jobs_without_data_shows_no_nan_or_infinity() {
    let mut silent = vec![job(1, "a", 0, Some(100)), job(2, "b", 0, None)];
    silent[1].original_weight = None;
    let node = NodeSamples { hostname: "h".to_owned(), readings: Vec::new() };
    let page = html(&assemble(node, silent, &[], Vec::new(), &[], SINCE, SINCE + 100_000));
    for bad in ["NaN", "inf", "-0%"] {
        assert!(!page.contains(bad), "{bad}: {page}");
    }
}

#[test]
fn a_gain_is_claimed_only_beyond_the_uncertainty() {
    let plain = Range { low: 100.0, likely: 120.0, high: 150.0 };
    assert!(verdict(90.0, plain).contains("gained"));
    assert!(verdict(110.0, plain).contains("no gain and no cost"));
    let cost = verdict(165.0, plain);
    assert!(cost.contains("cost") && cost.contains("38 %, between 10 % and 65 %"), "{cost}");
}

/// Two jobs of ten minutes: one with samples, the other too uncertain.
#[test]
fn an_estimate_that_says_nothing_is_not_printed_and_the_axis_ends_with_the_bars() {
    let mut data = ten_minutes(vec![job(1, "seen", 0, Some(500)), job(2, "unclear", 10, Some(480))], &samples_of(1));
    let plain = |low, likely, high| {
        let completion_s = super::super::estimate::Range { low, likely, high };
        Some(super::super::estimate::Plain { completion_s, quality_s: None })
    };
    data.estimate.jobs = vec![plain(400.0, 500.0, 1500.0), None];
    data.estimate.unclear = 1;
    let page = html(&data);
    assert!(page.contains("For 1 job there is no estimate"), "{page}");
    assert!(page.contains("unclear: 7m50s") || page.contains("unclear: 7m"), "its measured time is drawn");
    // 1.1 × 500 s: the labels of the axis end before the range does.
    let times = page.split("id=\"completions-t\"").nth(1).expect("the chart").split("</svg>").next().expect("its end");
    assert!(times.contains(">500</text>") && !times.contains(">1000</text>"), "{times}");
}
