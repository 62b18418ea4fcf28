//! Tests of the sweeps of a report: the row, the picture, and hostile names.

use super::super::data::assemble;
use super::*;
use api::wire::{JobRecord, NodeSamples, Parameter, Sample, Trial};

const SINCE: u64 = 1_700_000_000_000;
const HOSTILE: &str = "</h3><script>alert(1)</script>\u{202e}&\"";

/// A trial of the sweep `group` whose loss falls to `last` within 40 epochs and 400 s on one core.
fn trial(number: u64, name: &str, group: &str, last: f64) -> (JobRecord, Vec<Sample>) {
    let parameter = |name: &str, value: String| Parameter { name: name.to_owned(), value };
    let parameters = vec![parameter("epochs", "40".to_owned()), parameter("lr", format!("{last}"))];
    let sample = |epoch: u64| Sample {
        job: number,
        unix_ms: SINCE + epoch * 10_000,
        cpu_s: Some(epoch as f64 * 10.0),
        value: Some(last + (1.0 - last) * (-(epoch as f64) / 8.0).exp()),
        progress: Some(epoch as f64),
        state: "running".to_owned(),
        ..Sample::default()
    };
    let job = JobRecord {
        number,
        id: format!("{number:064x}"),
        short_id: format!("{number:012x}"),
        name: name.to_owned(),
        runtime: "docker".to_owned(),
        started_unix_ms: SINCE,
        first_unix_ms: SINCE,
        last_unix_ms: SINCE + 400_000,
        ended_unix_ms: Some(SINCE + 400_000),
        exit_code: Some(if last > 0.4 { 143 } else { 0 }),
        end: Some(if last > 0.4 { "group-stop" } else { "done" }.to_owned()),
        original_weight: Some(100),
        metric: Some("val_loss".to_owned()),
        direction: Some("down".to_owned()),
        unit: Some("epoch".to_owned()),
        total: Some(40.0),
        user: None,
        lost_cpu_s: None,
        trial: Some(Trial { group: group.to_owned(), parameters, ..Trial::default() }),
        latest: None,
    };
    (job, (1..=40).map(sample).collect())
}

fn data(trials: Vec<(JobRecord, Vec<Sample>)>) -> Data {
    let (jobs, samples): (Vec<JobRecord>, Vec<Vec<Sample>>) = trials.into_iter().unzip();
    let node = NodeSamples { hostname: "a".to_owned(), readings: Vec::new() };
    assemble(node, jobs, &samples.concat(), Vec::new(), &[], SINCE, SINCE + 3_600_000)
}

fn four() -> Vec<(JobRecord, Vec<Sample>)> {
    [0.3, 0.1, 0.5, 0.2]
        .into_iter()
        .enumerate()
        .map(|(n, last)| trial(n as u64 + 1, &format!("lr-{n}"), "g", last))
        .collect()
}

#[test]
fn a_sweep_has_a_row_with_its_cost_and_the_parameters_of_its_best_trial() {
    let section = section(&data(four())).expect("a sweep");
    assert!(
        section.contains("<th scope=\"row\">lr</th><td>4 <small>4 ended, 1 by group-stop</small></td>"),
        "{section}"
    );
    assert!(section.contains("<td>0.44</td>"), "four times 400 CPU-seconds: {section}");
    assert!(section.contains("lr-1 <small>done</small>") && section.contains(">lr=0.1</td>"), "{section}");
    assert!(section.contains("blue: lr-1, the best; grey: the other 3 trials"), "{section}");
}

#[test]
fn a_picture_has_the_curves_of_all_trials_and_the_best_on_top() {
    let section = section(&data(four())).expect("a sweep");
    let lines: Vec<&str> = section.match_indices("<path class=\"").map(|(at, _)| &section[at..at + 45]).collect();
    assert_eq!(lines.iter().filter(|line| line.contains("line plain thin")).count(), 3, "{lines:?}");
    assert!(lines.last().is_some_and(|line| line.contains("line s0 bold")), "{lines:?}");
    for name in ["lr-0", "lr-1", "lr-2", "lr-3"] {
        assert!(section.contains(&format!("<title>{name}</title>")), "{name}");
    }
}

#[test]
fn a_trial_that_diverges_does_not_flatten_the_others() {
    let mut trials = four();
    trials[2].1.iter_mut().for_each(|sample| sample.value = sample.value.map(|value| 1e9 * value));
    let section = section(&data(trials)).expect("a sweep");
    let labels: Vec<&str> = section.split("<text class=\"label end\"").skip(1).collect();
    assert!(labels.iter().all(|label| !label.contains("e9<") && !label.contains("e8<")), "{labels:?}");
}

#[test]
fn jobs_that_are_no_trials_or_alone_have_no_section() {
    let mut single = four();
    single.iter_mut().for_each(|(job, _)| job.trial = None);
    assert_eq!(section(&data(single)), None);
    let apart = (1..4).map(|n| trial(n, &format!("job-{n}"), &format!("g{n}"), 0.2)).collect();
    assert_eq!(section(&data(apart)), None);
}

#[test]
fn without_values_there_is_a_row_and_no_picture() {
    let mut silent = four();
    silent.iter_mut().flat_map(|(_, samples)| samples).for_each(|sample| sample.value = None);
    let section = section(&data(silent)).expect("a sweep");
    assert!(section.contains("<th scope=\"row\">lr</th>") && !section.contains("<svg"), "{section}");
}

#[test]
fn hostile_names_are_escaped_and_long_ones_cut() {
    let mut trials: Vec<_> = (1..4).map(|n| trial(n, &format!("{HOSTILE}{n}"), "g", 0.1 * n as f64)).collect();
    trials[0].0.trial.as_mut().expect("a trial").group_name = Some(format!("{HOSTILE}{}", "x".repeat(500)));
    trials[0].0.metric = Some(HOSTILE.to_owned());
    let section = section(&data(trials)).expect("a sweep");
    assert!(!section.contains("<script>") && !section.contains('\u{202e}'), "{section}");
    let caption = section.split("<h3>").nth(1).and_then(|rest| rest.split("</h3>").next()).expect("a caption");
    assert!(!caption.contains(&"x".repeat(60)), "{caption}");
}

#[test]
fn a_curve_goes_on_to_the_end_of_a_trial_that_gains_no_more() {
    let mut trials = four();
    trials[1].1.iter_mut().skip(20).for_each(|sample| sample.value = Some(0.1));
    let data = data(trials);
    let best = data.jobs.iter().find(|trial| trial.job.name == "lr-1").expect("it is there");
    let points = values_by_progress(best);
    assert_eq!((points.len(), points.last()), (22, Some(&(40.0, 0.1))), "20 that fall, and the ends of the plateau");
}
