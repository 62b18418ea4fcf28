//! Tests of `flowctl history`.

use super::{end as end_of, *};

#[test]
fn records_of_earlier_versions_have_an_end_too() {
    let record = |ended_unix_ms, exit_code, end: Option<&str>| {
        let job = serde_json::json!({
            "number": 1, "id": "a", "short_id": "a", "name": "a", "runtime": "docker", "started_unix_ms": 0, "first_unix_ms": 0,
            "last_unix_ms": 0, "ended_unix_ms": ended_unix_ms, "exit_code": exit_code, "original_weight": null, "metric": null,
            "direction": null, "unit": null, "total": null, "latest": null, "end": end,
        });
        end_of(&serde_json::from_value(job).expect("a record"))
    };
    assert_eq!(record(None, None, None), "runs");
    assert_eq!(record(Some(9), Some(0), None), "done");
    assert_eq!(record(Some(9), Some(3), None), "failed 3");
    assert_eq!(record(Some(9), None, None), "ended");
    assert_eq!(record(Some(9), Some(137), None), "killed: signal 9");
    assert_eq!(record(Some(9), Some(137), Some("killed-for-memory")), "killed: memory");
    assert_eq!(record(Some(9), Some(137), Some("stopped")), "stopped");
    assert_eq!(record(Some(9), Some(7), Some("of a later version")), "failed 7");
}

#[test]
fn the_page_of_a_job_draws_its_evaluations() {
    let job = serde_json::json!({
        "number": 1, "id": "a", "short_id": "a", "name": "a", "runtime": "docker", "started_unix_ms": 0, "first_unix_ms": 0,
        "last_unix_ms": 0, "ended_unix_ms": null, "exit_code": null, "original_weight": null, "metric": "val_loss",
        "direction": null, "unit": null, "total": null, "latest": null, "end": null,
    });
    let job: JobRecord = serde_json::from_value(job).expect("a record");
    let sample = |n: u64, value| Sample { unix_ms: n * 60_000, value: Some(value), ..Sample::default() };
    let look = Look { columns: Some(80), color: false };
    let falling: Vec<Sample> = (0..30).map(|n| sample(n, 1.0 / (n + 1) as f64)).collect();
    let drawn = curve_of(&job, &falling, &look);
    assert!(drawn.starts_with("\nval_loss\n") && drawn.lines().count() > 10, "{drawn}");
    assert!(drawn.lines().all(|line| text::width(line) <= 80), "{drawn}");
    assert!(drawn.contains("00:00:00") && drawn.contains("00:29:00") && !drawn.contains("1970"), "{drawn}");
    assert_eq!(curve_of(&job, &[sample(0, 0.5), sample(1, 0.5)], &look), "", "one evaluation");
    assert_eq!(curve_of(&job, &[], &look), "");
}

#[test]
fn a_value_that_is_not_finite_is_shown_as_nan_and_a_missing_one_is_not() {
    let diverged = Sample { value_is_finite: Some(false), ..Sample::default() };
    assert_eq!(value_text(&diverged).as_deref(), Some("NaN"));
    assert_eq!(value_text(&Sample { value: Some(0.25), ..Sample::default() }).as_deref(), Some("0.25"));
    assert_eq!(value_text(&Sample::default()), None);
}

fn trial(number: u64, name: &str, group: &str, user: Option<&str>) -> JobRecord {
    let job = serde_json::json!({
        "number": number, "id": format!("id-{number}"), "short_id": format!("id-{number}"), "name": name, "runtime": "docker",
        "started_unix_ms": 0, "first_unix_ms": 0, "last_unix_ms": 0, "ended_unix_ms": 9, "exit_code": 143, "original_weight": null,
        "metric": null, "direction": null, "unit": null, "total": null, "latest": null, "end": "group-stop", "user": user,
        "trial": { "group": group, "group_name": null, "parameters": [], "expected": null },
    });
    serde_json::from_value(job).expect("a record")
}

#[test]
fn a_sweep_is_selected_by_its_name_or_that_of_a_trial_and_shown_in_wide_tables() {
    let all = || {
        vec![trial(1, "lr-1", "a", Some("alice")), trial(2, "net-1", "b", None), trial(3, "lr-2", "a", Some("alice"))]
    };
    for name in ["lr", "lr-2", "id-1"] {
        let found = of_sweep(all(), name, 0).expect("it is there");
        assert_eq!(found.iter().map(|job| job.number).collect::<Vec<_>>(), [1, 3], "{name}");
    }
    let missing = of_sweep(all(), "other", 0).expect_err("there is none");
    assert!(missing.to_string().contains("no sweep called other ran since"), "{missing}");
    let wide = jobs_page(&all(), 0, &Look { columns: None, color: false });
    let lines: Vec<Vec<&str>> = wide.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][7..], ["SWEEP", "USER", "END"], "{wide}");
    assert_eq!(lines[1][lines[1].len() - 4..], ["lr", "alice", "stopped:", "group-stop"], "{wide}");
    assert!(wide.lines().nth(2).is_some_and(|line| line.contains("net-1") && line.contains("–")), "{wide}");
    let narrow = jobs_page(&all(), 0, &Look { columns: Some(100), color: false });
    assert!(!narrow.contains("SWEEP"), "{narrow}");
}

#[test]
fn a_run_whose_speed_others_disturbed_is_marked() {
    let ran = |number, lost_cpu_s| JobRecord {
        lost_cpu_s,
        latest: Some(Sample { cpu_s: Some(100.0), ..Sample::default() }),
        ..trial(number, "lgb", "a", None)
    };
    let page = |lost| jobs_page(&[ran(1, lost), ran(2, None)], 0, &Look { columns: None, color: false });
    let disturbed = page(Some(38.0));
    assert!(disturbed.lines().next().is_some_and(|titles| titles.contains("DISTURBED")), "{disturbed}");
    assert!(disturbed.lines().nth(1).is_some_and(|row| row.contains("38%")) && disturbed.matches("38%").count() == 1);
    assert!(!page(Some(5.0)).contains("DISTURBED"), "little");
}
