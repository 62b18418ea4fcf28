//! Test of `flowcoord demo` at its smallest size: both runs end, no job has two writers or loses work, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn both_runs_end_without_lost_work_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("demo.svg");
    let output = Command::new(env!("CARGO_BIN_EXE_flowcoord"))
        .args(["demo", "--nodes", "2", "--work", "10", "--json", "--plot"])
        .arg(&plot)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    for run in ["plain", "governed"] {
        let jobs = result[run]["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 8);
        assert!(
            jobs.iter().all(|job| job["exit_code"] == 0 && job["completion_s"].as_f64().unwrap() > 0.0),
            "{result}"
        );
        assert!(result[run]["mean_completion_s"].as_f64().unwrap() > 0.0);
    }
    assert_eq!((&result["nodes"], &result["two_writers"], &result["lost_units"]), (&2.into(), &0.into(), &0.into()));
    assert!(result["moves"].is_u64() && fs::read_to_string(plot).unwrap().starts_with("<svg"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the chart is left");
    let here = folder.path().to_str().unwrap();
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(here));
    let processes = Command::new("pgrep").args(["--full", here]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&processes.stdout), "");
}
