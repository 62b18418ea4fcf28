//! `flowctl check-log` on real files: the JSON that scripts rely on, bars, NaN, directories, and errors.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;

fn flowctl(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("flowctl").expect("the binary is built").arg("check-log").args(args).assert()
}

fn json(args: &[&str]) -> Value {
    let output = flowctl(args).success().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("one JSON object")
}

#[test]
fn the_json_tells_metric_observations_progress_and_candidates() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("job.log");
    fs::write(&log, "starting\nepoch 1/4 loss=0.5 acc=0.7\nepoch 2/4 loss=nan acc=0.8\nepoch 3/4 loss=0.25 acc=0.9\n")
        .expect("a log");
    let told = json(&["--json", &log.to_string_lossy()]);
    assert_eq!((told["metric"].as_str(), told["direction"].as_str()), (Some("loss"), Some("down")));
    let observations = told["observations"].as_array().expect("a list");
    assert_eq!(observations[0], serde_json::json!({"line": 2, "value": 0.5, "current": 1, "total": 4}));
    assert_eq!(observations[1]["value"], "nan");
    assert_eq!(told["progress"], serde_json::json!({"unit": "epoch", "current": 3, "total": 4}));
    assert!(told["candidates"].as_array().is_some_and(|candidates| candidates.len() == 2));
    assert!(told["confidence"].as_f64().is_some_and(|confidence| (0.5..=1.0).contains(&confidence)));
}

#[test]
fn the_other_readings_are_listed_with_the_label_that_chooses_each() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("job.log");
    let epoch = |n: usize| format!("[train] epoch {n}/9 loss 0.{}\n[valid] epoch {n}/9 loss 1.{}\n", 9 - n, 9 - n);
    fs::write(&log, (1..=8).map(epoch).collect::<String>()).expect("a log");
    let path = log.to_string_lossy();
    let output = flowctl(&[&path]).success().get_output().stdout.clone();
    let said = String::from_utf8_lossy(&output);
    let label = said.lines().find_map(|line| line.trim().strip_prefix("flowcon.metric=")).expect("a label");
    let (metric, _) = label.split_once(" (").expect("what stands behind it");
    assert_eq!(metric, "train loss", "{said}");
    let told = json(&["--json", "--metric", metric, &path]);
    let observations = told["observations"].as_array().expect("a list");
    assert_eq!((observations.len(), observations[0]["value"].as_f64()), (8, Some(0.8)));
}

#[test]
fn a_redrawn_bar_counts_each_time_or_once() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("bar.log");
    let bar: String = (1..=9).map(|i| format!("\r{i}/9 [==>] loss: 0.{}", 10 - i)).collect();
    fs::write(&log, format!("{bar}\n{bar}\n")).expect("a log");
    let path = log.to_string_lossy();
    let count = |told: Value| told["observations"].as_array().map(Vec::len);
    assert_eq!(count(json(&["--json", &path])), Some(18));
    assert_eq!(count(json(&["--json", "--final-only", &path])), Some(2));
}

#[test]
fn a_directory_stands_for_its_file_of_metrics() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("hparams.yaml"), "lr: 0.1\n").expect("a file");
    fs::write(folder.path().join("metrics.csv"), "epoch,val_loss\n0,0.5\n1,0.4\n2,0.3\n").expect("a file");
    let told = json(&["--json", &folder.path().to_string_lossy()]);
    assert_eq!((told["metric"].as_str(), told["observations"].as_array().map(Vec::len)), (Some("val_loss"), Some(3)));
}

#[test]
fn a_log_that_is_not_there_is_not_found() {
    let output = flowctl(&["/nonexistent/job.log"]).code(4).get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&output).contains("/nonexistent/job.log"));
}

#[test]
fn a_word_that_is_no_file_is_a_job_and_without_a_daemon_the_next_step_is_told() {
    let output = flowctl(&["resnet", "--socket", "/nonexistent/s.sock"]).code(3).get_output().stderr.clone();
    let said = String::from_utf8_lossy(&output);
    assert!(said.contains("there is no file resnet") && said.contains("no daemon answers"), "{said}");
    assert!(said.contains("next:") && said.contains("flowcond"), "{said}");
}

#[test]
fn an_engines_json_file_is_read_as_what_the_container_wrote() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("abc-json.log");
    let entry = |text: &str| {
        format!("{}\n", serde_json::json!({"log": text, "stream": "stdout", "time": "2026-01-01T00:00:00Z"}))
    };
    let long = format!("{}; epoch 2/4 \"loss\": 0.", "x".repeat(16 * 1024 - 40));
    let written = [
        entry("epoch 1/4 \"loss\": 0.5\n"),
        entry(&long),
        entry("25\n"),
        entry("\repoch 3/4 loss: 0.2\repoch 3/4 loss: 0.19\n"),
    ];
    fs::write(&log, written.concat()).expect("a log");
    let told = json(&["--json", &log.to_string_lossy()]);
    assert_eq!((told["metric"].as_str(), &told["progress"]["current"]), (Some("loss"), &serde_json::json!(3)));
    let seen: Vec<(u64, f64)> = told["observations"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|o| (o["line"].as_u64().unwrap_or(0), o["value"].as_f64().unwrap_or(f64::NAN)))
        .collect();
    assert_eq!(seen, [(1, 0.5), (2, 0.25), (4, 0.2), (4, 0.19)]);
}
