//! Tests of `flowctl demo` with little work: its output, its exit code, and that it leaves nothing behind. The effect of governing is
//! measured by a benchmark (`integration/bench/demo-medians`), not by tests.

use crate::support::engine::Engine;
use crate::support::program::public_flowctl;
use crate::support::proxy::Proxy;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A demo with a private temporary directory, to detect files that are left behind.
struct Demo {
    tmp: tempfile::TempDir,
    child: Child,
}

fn demo(arguments: &[&str], docker_host: &str) -> Demo {
    let tmp = tempfile::tempdir().expect("a directory");
    let child = Command::new(env!("CARGO_BIN_EXE_flowctl"))
        .arg("demo")
        .args(arguments)
        .env("TMPDIR", tmp.path())
        .env("DOCKER_HOST", docker_host)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("flowctl starts");
    Demo { tmp, child }
}

/// An engine's address at which nothing listens.
const NO_ENGINE: &str = "unix:///nonexistent/docker.sock";
/// The address of an engine on another machine, which cannot be used.
const OTHER_MACHINE: &str = "ssh://root@elsewhere";

impl Demo {
    fn tag(&self) -> String {
        format!("flowcon-demo-{}", self.child.id())
    }

    fn finish(self) -> (tempfile::TempDir, String, Output) {
        let tag = self.tag();
        (self.tmp, tag, self.child.wait_with_output().expect("flowctl can be waited for"))
    }
}

/// Directories below the cgroup mount whose name contains `tag`.
fn cgroups_of(tag: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, tag: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains(tag) {
                    found.push(entry.path());
                }
                walk(&entry.path(), tag, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), tag, &mut found);
    found
}

fn json_of(output: &Output) -> serde_json::Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&stdout)
        .unwrap_or_else(|error| panic!("{error} in\n{stdout}\nerrors:\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// Checks the documented object: five successful jobs, consistent sums, in work and by the clock, and an existing chart.
fn assert_complete(result: &serde_json::Value, runtime: &str) {
    assert_eq!(result["runtime"], runtime);
    let [plain, governed] = ["plain", "governed"].map(|run| &result[run]);
    for run in [plain, &plain["clock"], governed, &governed["clock"]] {
        let jobs = run["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), 5, "{run}");
        assert!(jobs.iter().all(|job| job["exit_code"] == 0), "{run}");
        let times: Vec<f64> = jobs.iter().map(|job| job["completion_s"].as_f64().expect("a time")).collect();
        let mean = times.iter().sum::<f64>() / 5.0;
        assert!((run["mean_completion_s"].as_f64().expect("a mean") - mean).abs() < 1e-6, "{run}");
        let makespan = run["makespan_s"].as_f64().expect("a makespan");
        assert!(times.iter().all(|time| *time > 0.0 && *time <= makespan + 1e-6), "{run}");
    }
    // The work is the same; the plain run defines how much of it is a second.
    let makespan = |run: &serde_json::Value| run["makespan_s"].as_f64().expect("a makespan");
    assert!((makespan(plain) / makespan(&plain["clock"]) - 1.0).abs() < 0.05, "{plain}");
    assert!((makespan(governed) / makespan(plain) - 1.0).abs() < 0.05, "{result}");
    // A job starts when the others have done as much work as planned: later only by their next line.
    for job in 0..5 {
        let [one, other] = [plain, governed].map(|run| run["jobs"][job]["start_s"].as_f64().expect("a start"));
        assert!((one - other).abs() < 0.25 * makespan(plain), "{result}");
    }
    let plot = fs::read_to_string(result["plot"].as_str().expect("a path")).expect("the chart exists");
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"), "{plot}");
    assert!(plot.matches("class=\"area ").count() == 10, "a band for each job and run");
}

fn interrupt(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a readable directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn with_scopes_it_compares_two_runs_and_leaves_only_the_chart() {
    let demo = demo(&["--runtime", "scope", "--work", "2", "--interval", "1", "--json"], OTHER_MACHINE);
    let (tmp, tag, output) = demo.finish();
    let result = json_of(&output);
    assert!(output.status.success(), "{output:?}");
    assert_complete(&result, "scope");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("container engine"), "none was looked for: {output:?}");
    assert_eq!(names_in(tmp.path()), [format!("{tag}.svg")]);
    assert_eq!(cgroups_of(&tag), Vec::<PathBuf>::new());
}

#[test]
fn with_an_engine_it_uses_containers_and_removes_them_and_the_image() {
    let engine = Engine::start();
    let demo = demo(&["--work", "2", "--interval", "1", "--json"], &engine.address());
    let (tmp, tag, output) = demo.finish();
    let result = json_of(&output);
    assert!(output.status.success(), "{output:?}");
    assert_complete(&result, "docker");
    assert_eq!(names_in(tmp.path()), [format!("{tag}.svg")]);
    assert!(!engine.docker(&["ps", "-a", "--format", "{{.Names}}"]).contains(&tag));
    assert!(!engine.docker(&["images", "--format", "{{.Repository}}"]).contains(&tag));
}

#[test]
fn ctrl_c_during_a_run_removes_everything() {
    let mut demo = demo(&["--runtime", "scope", "--work", "60", "--interval", "1"], NO_ENGINE);
    let stdout = BufReader::new(demo.child.stdout.take().expect("piped"));
    let mut lines = stdout.lines();
    let started = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("auto-encoder started")));
    assert!(started.is_some(), "the first job starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while cgroups_of(&demo.tag()).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!cgroups_of(&demo.tag()).is_empty(), "the job has a cgroup");
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    interrupt(demo.child.id());

    let (tmp, tag, output) = demo.finish();
    rest.join().expect("the output ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted by Ctrl-C"), "{output:?}");
    assert_eq!(names_in(tmp.path()), Vec::<String>::new());
    assert_eq!(cgroups_of(&tag), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_during_the_second_import_removes_the_first_image_too() {
    let engine = Engine::start();
    let (child, imports) = (Arc::new(OnceLock::new()), AtomicUsize::new(0));
    let pid = Arc::clone(&child);
    let before = move |request: &str| {
        if request.contains("/images/create") && imports.fetch_add(1, Ordering::Relaxed) == 1 {
            interrupt(*pid.get().expect("the demo was started"));
            std::thread::sleep(Duration::from_millis(500));
        }
        None
    };
    let proxy = Proxy::start_with(&engine.dir().join("proxy.sock"), &engine.socket(), Arc::new(before));
    let demo = demo(&["--work", "2", "--interval", "1"], &proxy.address());
    child.set(demo.child.id()).expect("it is set once");
    let (tmp, tag, output) = demo.finish();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted by Ctrl-C"), "{output:?}");
    assert_eq!(names_in(tmp.path()), Vec::<String>::new());
    assert!(!engine.docker(&["images", "--format", "{{.Repository}}"]).contains(&tag));
}

#[test]
fn an_unprivileged_user_gets_an_error_with_the_next_step() {
    let tmp = tempfile::tempdir().expect("a directory");
    let program = public_flowctl(&fs::canonicalize(tmp.path()).expect("it exists"));
    rustix::fs::chmod(tmp.path(), rustix::fs::Mode::from_raw_mode(0o777)).expect("own directory");
    const NOBODY: u32 = 65534;
    let output = Command::new(&program)
        .args(["demo", "--work", "4"])
        .env("TMPDIR", tmp.path())
        .env("DOCKER_HOST", NO_ENGINE)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("flowctl starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("no engine replies at unix:///nonexistent/docker.sock"), "{stderr}");
    // Nothing is installed, so the program is named by its path.
    assert!(stderr.contains(&format!("`sudo {} demo --work 4`", program.display())), "{stderr}");
    assert_eq!(names_in(tmp.path()), ["flowctl"]);
}

#[test]
fn invalid_arguments_are_usage_errors() {
    for arguments in [["--policy", "greedy"], ["--interval", "0"], ["--work", "soon"], ["--runtime", "vm"]] {
        let (_, _, output) = demo(&arguments, NO_ENGINE).finish();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
}
