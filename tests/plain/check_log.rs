//! Tests of `flowctl check-log` with real files: its JSON, progress bars, NaN, directories, and errors.

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
fn the_json_has_the_metric_observations_progress_and_candidates() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("job.log");
    fs::write(&log, "starting\nepoch 1/4 loss=0.5 acc=0.7\nepoch 2/4 loss=nan acc=0.8\nepoch 3/4 loss=0.25 acc=0.9\n")
        .expect("a log");
    let report = json(&["--json", &log.to_string_lossy()]);
    assert_eq!((report["metric"].as_str(), report["direction"].as_str()), (Some("loss"), Some("down")));
    let observations = report["observations"].as_array().expect("a list");
    assert_eq!(observations[0], serde_json::json!({"line": 2, "value": 0.5, "current": 1, "total": 4}));
    assert_eq!(observations[1]["value"], "nan");
    assert_eq!(report["progress"], serde_json::json!({"unit": "epoch", "current": 3, "total": 4}));
    assert!(report["candidates"].as_array().is_some_and(|candidates| candidates.len() == 2));
    assert!(report["confidence"].as_f64().is_some_and(|confidence| (0.5..=1.0).contains(&confidence)));
}

#[test]
fn other_candidates_are_listed_with_the_label_that_selects_each() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("job.log");
    let epoch = |n: usize| format!("[train] epoch {n}/9 loss 0.{}\n[valid] epoch {n}/9 loss 1.{}\n", 9 - n, 9 - n);
    fs::write(&log, (1..=8).map(epoch).collect::<String>()).expect("a log");
    let path = log.to_string_lossy();
    let output = flowctl(&[&path]).success().get_output().stdout.clone();
    let text = String::from_utf8_lossy(&output);
    let label = text.lines().find_map(|line| line.trim().strip_prefix("flowcon.metric=")).expect("a label");
    let (metric, _) = label.split_once(" (").expect("a remark");
    assert_eq!(metric, "train loss", "{text}");
    let report = json(&["--json", "--metric", metric, &path]);
    let observations = report["observations"].as_array().expect("a list");
    assert_eq!((observations.len(), observations[0]["value"].as_f64()), (8, Some(0.8)));
}

#[test]
fn a_redrawn_bar_counts_every_time_or_only_in_its_final_state() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let log = folder.path().join("bar.log");
    let bar: String = (1..=9).map(|i| format!("\r{i}/9 [==>] loss: 0.{}", 10 - i)).collect();
    fs::write(&log, format!("{bar}\n{bar}\n")).expect("a log");
    let path = log.to_string_lossy();
    let count = |report: Value| report["observations"].as_array().map(Vec::len);
    assert_eq!(count(json(&["--json", &path])), Some(18));
    assert_eq!(count(json(&["--json", "--final-only", &path])), Some(2));
}

#[test]
fn a_directory_is_replaced_by_its_metrics_file() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("hparams.yaml"), "lr: 0.1\n").expect("a file");
    fs::write(folder.path().join("metrics.csv"), "epoch,val_loss\n0,0.5\n1,0.4\n2,0.3\n").expect("a file");
    let report = json(&["--json", &folder.path().to_string_lossy()]);
    assert_eq!(
        (report["metric"].as_str(), report["observations"].as_array().map(Vec::len)),
        (Some("val_loss"), Some(3))
    );
}

#[test]
fn a_missing_log_is_not_found() {
    let output = flowctl(&["/nonexistent/job.log"]).code(4).get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&output).contains("/nonexistent/job.log"));
}

#[test]
fn an_invalid_pattern_is_rejected_with_the_reason() {
    let output = flowctl(&["--pattern", "(unclosed", "-"]).code(2).get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&output).contains("unclosed group"));
}

#[test]
fn a_word_that_is_not_a_file_is_a_job_and_without_a_daemon_the_error_has_a_next_step() {
    let output = flowctl(&["resnet", "--socket", "/nonexistent/s.sock"]).code(3).get_output().stderr.clone();
    let text = String::from_utf8_lossy(&output);
    assert!(text.contains("there is no file resnet") && text.contains("no daemon answers"), "{text}");
    assert!(text.contains("next:") && text.contains("flowcond"), "{text}");
}

#[test]
fn an_engines_json_file_is_decoded() {
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
    let report = json(&["--json", &log.to_string_lossy()]);
    assert_eq!((report["metric"].as_str(), &report["progress"]["current"]), (Some("loss"), &serde_json::json!(3)));
    let seen: Vec<(u64, f64)> = report["observations"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|o| (o["line"].as_u64().unwrap_or(0), o["value"].as_f64().unwrap_or(f64::NAN)))
        .collect();
    assert_eq!(seen, [(1, 0.5), (2, 0.25), (4, 0.2), (4, 0.19)]);
}
