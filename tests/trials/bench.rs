//! Tests of `flowctl bench` with custom lists: the environment of a job, its CPU time, and that a failing job ends the benchmark, on both
//! runtimes; and that a report that cannot be written is reported first.

use crate::support::engine::Engine;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// An engine's address at which nothing listens.
const NO_ENGINE: &str = "unix:///nonexistent/docker.sock";

/// The other job in a list with a failing job; it is not waited for.
const LONG: &str = "[[job]]\nname = \"patient\"\ncommand = [\"sleep\", \"600\"]\n";

fn bench(list: &str, folder: &Path, docker_host: &str) -> Output {
    let path = folder.join("list.toml");
    fs::write(&path, list).unwrap();
    let temporary = folder.join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    command.arg("bench").arg(&path).args(["--policy", "fair", "--repeats", "2", "--interval", "1", "--json"]);
    let output = command.env("TMPDIR", &temporary).env("DOCKER_HOST", docker_host).output().unwrap();
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "no files are left: {output:?}");
    output
}

fn assert_failure_reported(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("repeat 1 of 2: fair"), "{stderr}");
    assert!(stderr.contains("the job hasty exited with code 3; its last lines"), "{stderr}");
    let lines_shown: Vec<&str> =
        stderr.lines().map(str::trim).skip_while(|line| !line.ends_with("its last lines:")).collect();
    let lines = (6..=24).map(|line| format!("line {line}")).chain(["no such data set".to_owned()]);
    assert_eq!(lines_shown[1..21], lines.collect::<Vec<_>>(), "{stderr}");
}

/// Twenty-four lines on one stream, then one on the other, so much later that also a busy machine reads them in this order.
const HASTY: &str = "[[job]]\nname = \"hasty\"\nstart_s = 0.5\ncommand = [\"sh\", \"-c\", \
    \"i=0; while [ $i -lt 24 ]; do i=$((i+1)); echo line $i; done; sleep 10; \
    echo no such data set >&2; sleep 3; exit 3\"]\n";

#[test]
fn a_failed_job_in_a_scope_ends_the_bench_with_its_last_lines() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    assert_failure_reported(&bench(&format!("{LONG}{HASTY}"), folder.path(), NO_ENGINE));
    assert!(began.elapsed() < Duration::from_secs(500), "the other job was not waited for");
}

#[test]
fn a_failed_job_in_a_container_ends_the_bench_with_its_last_lines() {
    let engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();
    assert_failure_reported(&bench(&format!("{LONG}{HASTY}"), folder.path(), &engine.address()));
    assert!(!engine.docker(&["ps", "-a", "--format", "{{.Names}}"]).contains("patient"));
}

#[test]
fn a_job_that_cannot_start_ends_the_bench_immediately() {
    let folder = tempfile::tempdir().unwrap();
    let list = format!("{LONG}[[job]]\nname = \"missing\"\ncommand = [\"/nonexistent/train\"]\n");
    let output = bench(&list, folder.path(), NO_ENGINE);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the job missing exited with") && stderr.contains("/nonexistent/train"), "{stderr}");
}

/// Otherwise an hour's result would be lost at its end.
#[test]
fn a_report_that_cannot_be_written_is_rejected_before_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    let (list, report) = (folder.path().join("list.toml"), folder.path().join("missing/report.html"));
    fs::write(&list, LONG).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    command.arg("bench").arg(&list).args(["--runtime", "scope", "--report"]).arg(&report);
    let began = Instant::now();
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(&format!("--report {}", report.display())), "{stderr}");
    assert!(began.elapsed() < Duration::from_secs(60), "the job was not started");
}

/// A job that fails unless its arguments, variables and mounts are as in the list.
const PARTICULAR: &str = "[[job]]\nname = \"particular\"\nepochs = 6\nseed = 4\nenv = { EPOCHS = \"n={epochs}\" }\nmounts = [\"./\"]\n\
    command = [\"sh\", \"-c\", \"[ $EPOCHS = n=6 ] && [ $1 = --epochs=6 ] && [ $PYTHONUNBUFFERED = 1 ] && [ -f $2 ] && \
    { [ $3 = 4 ] || [ $3 = 1004 ]; } || { echo $EPOCHS $*; exit 9; }\", \"x\", \"--epochs={epochs}\", \"./list.toml\", \"{seed}\"]\n";

#[test]
fn a_job_gets_its_arguments_and_variables_on_both_runtimes() {
    let engine = Engine::start();
    for address in [NO_ENGINE.to_owned(), engine.address()] {
        let folder = tempfile::tempdir().unwrap();
        let output = bench(PARTICULAR, folder.path(), &address);
        assert!(output.status.success(), "{address}: {output:?}");
    }
}

/// A job that ends once it has used 1.5 CPU-seconds, long before the governor's second decision.
const MEASURED: &str = "[[job]]\nname = \"measured\"\n\
    command = [\"python3\", \"-c\", \"import time\\nwhile time.process_time() < 1.5: pass\"]\n";

/// Otherwise a quiet machine would seem to run something else, and its measurement would be called inconclusive.
#[test]
fn the_cpu_time_of_a_short_job_is_counted_on_both_runtimes() {
    let engine = Engine::start();
    for address in [NO_ENGINE.to_owned(), engine.address()] {
        let used = || {
            let folder = tempfile::tempdir().unwrap();
            let output = bench(MEASURED, folder.path(), &address);
            let stdout = String::from_utf8_lossy(&output.stdout);
            let result: serde_json::Value = serde_json::from_str(&stdout).expect("only JSON");
            result["policies"][0]["cpu_s"].as_f64().unwrap()
        };
        // At most 0.1 s are missed at the end, where the reader gets its turn; starting the container adds a little. On a busy machine the
        // reader may get its turn late, but not every time.
        let mut tried = Vec::new();
        let is_counted = (0..3).any(|_| {
            tried.push(used());
            tried.last().is_some_and(|used| (1.0..2.5).contains(used))
        });
        assert!(is_counted, "{address}: {tried:?} CPU-seconds");
    }
}
