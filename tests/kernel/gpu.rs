//! Tests of the GPU usage of jobs, with a real daemon and a stand-in for NVIDIA's library: two GPUs, a MIG GPU, a lost GPU, clocks that
//! go backwards, ended processes, clients of MPS, old drivers, a hanging driver. Needs root, cgroups and a C compiler.

use crate::support::daemon::{Daemon, eventually, eventually_or, unwrapped};
use crate::support::gpu::StandIn;
use flowcon::host::cgroup::{ProcessCgroups, remove_empty};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

/// Two GPUs without processes: one busy for 80 % of the time, one idle.
const TWO: &str = "\
gpu 0 GPU-aaaa 80 34359738368 42949672960 212500 400000 61 1410 1215 0 NVIDIA A100-SXM4-40GB
gpu 1 GPU-bbbb 0 1073741824 42949672960 55000 400000 34 210 1215 0 NVIDIA A100-SXM4-40GB
";

/// A command under `flowctl run` with two processes.
struct Job {
    run: Child,
    name: String,
    pids: Vec<u32>,
    /// Nested cgroups created by the test, each before its parent, which `flowctl run` cannot remove.
    nested: Vec<PathBuf>,
}

impl Job {
    fn start(daemon: &Daemon, name: &str) -> Job {
        let name = format!("{name}-{}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pids");
        let script = "sleep 600 & echo $$ $! > \"$1.new\"; mv \"$1.new\" \"$1\"; wait; exec sleep 600";
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(daemon.socket()).args(["run", "--name", &name, "--", "sh", "-c", script, "job"]);
        let run = command.arg(&pid_file).stdout(Stdio::null()).spawn().unwrap();
        daemon.wait_for_job(&name, "is governed", SOON, |_| true);
        let pids = eventually("its processes", SOON, || fs::read_to_string(&pid_file).ok());
        let pids = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        Job { run, name, pids, nested: Vec::new() }
    }

    /// Moves its second process into a nested cgroup, in each hierarchy in which the job has a cgroup.
    fn nest(&mut self) {
        let homes = ProcessCgroups::of_host().unwrap().of(self.pids[1]).unwrap().directories;
        for home in homes.into_iter().filter(|home| home.to_string_lossy().contains(&self.name)) {
            let inside = home.join("inside");
            fs::create_dir(&inside).unwrap();
            fs::write(inside.join("cgroup.procs"), self.pids[1].to_string()).unwrap();
            self.nested.extend([inside, home]);
        }
        assert!(!self.nested.is_empty());
    }

    /// Waits until its GPU usage satisfies the condition, and returns it.
    fn wait_for_gpus(&self, daemon: &Daemon, what: &str, mut condition: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
        let job = daemon.wait_for_job(&self.name, what, SOON * 2, |job| condition(&gpus(job)));
        gpus(&job)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for pid in &self.pids {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
        }
        let _ = self.run.wait();
        remove_empty(&self.nested);
    }
}

fn gpus(of: &Value) -> Vec<Value> {
    of["gpus"].as_array().cloned().unwrap_or_default()
}

fn status(daemon: &Daemon) -> Value {
    serde_json::from_str(&daemon.stdout_of(&["status", "-o", "json"])).unwrap()
}

/// Waits until the node's GPUs satisfy the condition, and returns them.
fn node_gpus(daemon: &Daemon, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    eventually(what, SOON, || Some(gpus(&status(daemon)["node"])).filter(|gpus| condition(gpus)))
}

/// Waits until the output of a command satisfies the condition: the GPUs are missing for a moment if a reading is late.
fn wait_for_output(daemon: &Daemon, arguments: &[&str], what: &str, condition: impl Fn(&str) -> bool) {
    let probe = || condition(&daemon.stdout_of(arguments)).then_some(());
    eventually_or(what, SOON, probe, || daemon.stdout_of(arguments));
}

fn notices(daemon: &Daemon) -> String {
    status(daemon)["notices"].to_string()
}

fn near(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() < 0.001)
}

#[test]
fn each_job_has_the_shares_and_memory_of_its_processes() {
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    let (mut first, second) = (Job::start(&daemon, "first"), Job::start(&daemon, "second"));
    first.nest();
    // The driver reports 100 % for processes on a GPU that was busy for 80 %; a tenth belongs to an unrelated process.
    let stranger = std::process::id();
    stand_in.set_script(&format!(
        "{TWO}process 0 {} 30 3221225472\nprocess 0 {} 20 1073741824\nprocess 0 {} 40 8589934592\nprocess 0 {stranger} 10 1048576\n\
         process 1 {} 0 536870912\n",
        first.pids[0], first.pids[1], second.pids[0], second.pids[0]
    ));
    let of_first =
        first.wait_for_gpus(&daemon, "both of its processes", |gpus| gpus.len() == 1 && gpus[0]["processes"] == 2);
    assert!(near(&of_first[0]["share"], 0.8 * 0.5), "{of_first:?}");
    assert_eq!(of_first[0]["memory_bytes"], 4_u64 << 30, "compute and graphics usage is added");
    assert_eq!(of_first[0]["uuid"], "GPU-aaaa");
    let of_second = second.wait_for_gpus(&daemon, "two GPUs", |gpus| gpus.len() == 2);
    assert!(near(&of_second[0]["share"], 0.8 * 0.4) && near(&of_second[1]["share"], 0.0), "{of_second:?}");

    let gpus = node_gpus(&daemon, "both", |gpus| gpus.len() == 2);
    assert!(near(&gpus[0]["busy"], 0.8) && near(&gpus[0]["power_watts"], 212.5), "{gpus:?}");
    assert_eq!((&gpus[0]["temperature_celsius"], &gpus[0]["sm_clock_mhz"]), (&61.0.into(), &1410.0.into()));
    assert!(gpus[0]["age_s"].as_f64().is_some_and(|age| age < 60.0));

    wait_for_output(&daemon, &["status", "-o", "wide"], "the shares of both jobs", |wide| {
        wide.contains("GPU-MEM") && wide.contains("0 40%") && wide.contains("0 32%, 1 0%")
    });
    wait_for_output(&daemon, &["explain", &first.name], "its GPU", |explained| {
        unwrapped(explained).contains("40% of its time, 4.0G of its memory, by 2 processes (GPU-aaaa)")
    });
    wait_for_output(&daemon, &["top", "--batch", "-n", "1"], "the GPU", |top| {
        top.contains("GPU 0 ████████░░  80% · 32.0G of 40.0G · 61 C · 212 of 400 W · 1410 MHz")
    });
    for line in [
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-aaaa\",device=\"nvidia0\",modelName=\"NVIDIA A100-SXM4-40GB\"} 80",
        "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-aaaa\",device=\"nvidia0\",modelName=\"NVIDIA A100-SXM4-40GB\"} 32768",
        // 512 MiB are reserved.
        "DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-aaaa\",device=\"nvidia0\",modelName=\"NVIDIA A100-SXM4-40GB\"} 7680",
        &format!("name=\"{}\",gpu=\"0\",UUID=\"GPU-aaaa\"}} {}", first.name, 4_u64 << 30),
    ] {
        wait_for_output(&daemon, &["metrics"], line, |metrics| metrics.contains(line));
    }
    // It is not in the history before its first rows are written.
    let past = eventually("its GPUs in the history", Duration::from_secs(30), || {
        let page = String::from_utf8(daemon.flowctl(&["history", &first.name, "-o", "json"]).stdout).unwrap();
        let page: String = page.split_whitespace().collect();
        page.contains(&format!("\"gpu_memory_bytes\":{}", 4_u64 << 30)).then_some(page)
    });
    assert!(past.contains("\"gpus\":0.4"), "{past}");
    eventually("the past is explained", SOON, || {
        let past = daemon.stdout_of(&["explain", &first.name, "--at", "1s ago"]);
        past.contains("0.40 GPUs, 4.0G GPU memory").then_some(())
    });
    let listed = unwrapped(&daemon.stdout_of(&["history", &first.name]));
    assert!(listed.contains("GPUS GPU-MEM SHARE") && listed.contains(" 0.40 4.0G 50% "), "{listed}");
    eventually("doctor sees both", SOON, || {
        let doctor = String::from_utf8(daemon.flowctl(&["doctor"]).stdout).unwrap();
        doctor.contains("2 GPUs").then_some(())
    });
}

#[test]
fn an_ended_process_is_not_counted() {
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    let job = Job::start(&daemon, "half");
    stand_in.set_script(&format!("{TWO}process 0 {} 10 1024\nprocess 0 {} 20 1024\n", job.pids[0], job.pids[1]));
    job.wait_for_gpus(&daemon, "both", |gpus| gpus.first().is_some_and(|gpu| gpu["processes"] == 2));
    // The driver still reports the process.
    Command::new("kill").args(["-KILL", &job.pids[1].to_string()]).status().unwrap();
    // The share is a mean over the interval, in which the process may have lived.
    let is_left = |gpu: &Value| gpu["processes"] == 1 && near(&gpu["share"], 0.1);
    job.wait_for_gpus(&daemon, "one is left, with its own share", |gpus| gpus.first().is_some_and(is_left));
}

#[test]
fn on_a_mig_gpu_each_job_has_its_instance() {
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    let (first, second) = (Job::start(&daemon, "small"), Job::start(&daemon, "large"));
    stand_in.set_script(&format!(
        "{TWO}instance 1 0 MIG-one 1073741824 5368709120\ninstance 1 2 MIG-two 2147483648 21474836480\n\
         member 1 0 {} 1048576\nmember 1 2 {} 2097152\n",
        first.pids[0], second.pids[0]
    ));
    let part = first.wait_for_gpus(&daemon, "an instance", |gpus| !gpus.is_empty());
    assert_eq!((&part[0]["gpu"], &part[0]["instance"], &part[0]["uuid"]), (&1.into(), &0.into(), &"MIG-one".into()));
    assert!(part[0]["share"].is_null(), "the driver does not report it: {part:?}");
    let part = second.wait_for_gpus(&daemon, "another", |gpus| !gpus.is_empty());
    assert_eq!((&part[0]["instance"], &part[0]["memory_bytes"]), (&2.into(), &(2_u64 << 20).into()));
    let gpus = node_gpus(&daemon, "two instances", |gpus| gpus.len() == 2);
    assert_eq!(gpus[1]["instances"].as_array().unwrap().len(), 2);
    assert!(gpus[1]["busy"].is_null());
    wait_for_output(&daemon, &["status", "-o", "wide"], "both instances", |wide| {
        wide.contains("1:0 ?") && wide.contains("1:2 ?")
    });
    wait_for_output(&daemon, &["explain", &second.name], "its instance", |explained| {
        unwrapped(explained).contains("an unknown share of its time, 2.0M of its memory, by 1 process (MIG-two)")
    });
}

#[test]
fn a_lost_gpu_is_reported_once_and_can_come_back() {
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    let job = Job::start(&daemon, "stays");
    let script = format!("{TWO}process 0 {} 50 1024\nprocess 1 {} 0 2048\n", job.pids[0], job.pids[0]);
    stand_in.set_script(&script);
    job.wait_for_gpus(&daemon, "both", |gpus| gpus.len() == 2);
    stand_in.set_script(&format!("{script}lost 1\n"));
    let left = job.wait_for_gpus(&daemon, "the remaining GPU", |gpus| gpus.len() == 1);
    assert!(left[0]["gpu"] == 0 && near(&left[0]["share"], 0.5), "{left:?}");
    node_gpus(&daemon, "one GPU", |gpus| gpus.len() == 1);
    let reports = || {
        daemon.stdout_of(&["events", "--no-follow", "-n", "1000"]).matches("GPU-bbbb) does not answer any more").count()
    };
    eventually("a notice", SOON, || notices(&daemon).contains("GPU-bbbb) does not answer any more").then_some(()));
    std::thread::sleep(Duration::from_secs(5)); // two more readings
    assert_eq!(reports(), 1);
    stand_in.set_script(&script);
    job.wait_for_gpus(&daemon, "both again", |gpus| gpus.len() == 2);
    eventually("the notice is removed", SOON, || (!notices(&daemon).contains("GPU-bbbb")).then_some(()));
}

#[test]
fn a_gpu_that_does_not_answer_at_the_start_is_reported() {
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(&format!("{TWO}lost 1\n"));
    let daemon = stand_in.daemon(&[]);
    eventually("a notice", SOON, || notices(&daemon).contains("GPU 1 does not answer: ").then_some(()));
    node_gpus(&daemon, "the other GPU", |gpus| gpus.len() == 1);
    stand_in.set_script(TWO);
    node_gpus(&daemon, "both", |gpus| gpus.len() == 2);
    eventually("the notice is removed", SOON, || (!notices(&daemon).contains("GPU 1 does not")).then_some(()));
}

#[test]
fn clocks_and_counters_that_go_backwards_give_no_number() {
    let stand_in = StandIn::of(&[]);
    let with_errors = |errors: u32| TWO.replacen(" 0 NVIDIA", &format!(" {errors} NVIDIA"), 1);
    stand_in.set_script(&with_errors(7));
    let daemon = stand_in.daemon(&[]);
    let job = Job::start(&daemon, "clock");
    let script = |percent: u32, errors: u32, rest: &str| {
        format!("{}process 0 {} {percent} 1024\n{rest}", with_errors(errors), job.pids[0])
    };
    stand_in.set_script(&script(50, 7, ""));
    job.wait_for_gpus(&daemon, "a share", |gpus| gpus.first().is_some_and(|gpu| near(&gpu["share"], 0.5)));
    // The clock goes back by an hour, and the error counter decreases. The driver has no sample after the last one from then on.
    // Since a clock that stays is soon accepted, before a slow daemon has published anything, it goes on backwards until the share is unknown.
    let mut back_us = 3_600_000_000_i64;
    let unknown = job.wait_for_gpus(&daemon, "no share", |gpus| {
        stand_in.set_script(&script(60, 3, &format!("shift -{back_us}\n")));
        back_us += 20_000_000;
        gpus.first().is_some_and(|gpu| gpu["share"].is_null())
    });
    assert_eq!(unknown[0]["memory_bytes"], 1024, "the memory is known");
    assert!(!notices(&daemon).contains("memory errors"), "{}", notices(&daemon));
    // The driver's clock stays there: it is accepted after a while.
    job.wait_for_gpus(&daemon, "the new clock", |gpus| gpus.first().is_some_and(|gpu| near(&gpu["share"], 0.6)));
    stand_in.set_script(&script(60, 5, "shift -3600000000\n"));
    eventually("two more errors", SOON, || notices(&daemon).contains("2 uncorrectable memory errors").then_some(()));
    stand_in.set_script(&script(60, 5, "shift -3600000000\nxid 0 79 1\n"));
    eventually("an Xid error", SOON, || notices(&daemon).contains("Xid error 79").then_some(()));
}

#[test]
fn an_old_driver_gives_fewer_but_correct_values() {
    let stand_in = StandIn::of(&["-DOLD"]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    let job = Job::start(&daemon, "old");
    stand_in.set_script(&format!("{TWO}process 0 {} 50 4096\n", job.pids[0]));
    let part = job.wait_for_gpus(&daemon, "its memory", |gpus| !gpus.is_empty());
    assert!(part[0]["share"].is_null() && part[0]["memory_bytes"] == 4096, "{part:?}");
    let gpus = node_gpus(&daemon, "both", |gpus| gpus.len() == 2);
    assert!(near(&gpus[0]["busy"], 0.8), "without samples, the driver's current value is used: {gpus:?}");
    assert!(gpus[0]["memory_used_bytes"].is_null() && gpus[0]["uncorrected_errors"] == 0, "{gpus:?}");
    eventually("no notice", SOON, || (notices(&daemon) == "[]").then_some(()));
}

#[test]
fn clients_of_mps_are_counted() {
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    let job = Job::start(&daemon, "mps");
    stand_in.set_script(&format!("{TWO}mps 0 {} -1 4096\n", job.pids[0]));
    let part = job.wait_for_gpus(&daemon, "its memory", |gpus| !gpus.is_empty());
    assert_eq!((&part[0]["memory_bytes"], &part[0]["processes"]), (&4096.into(), &1.into()));
}

#[test]
fn larger_entries_of_early_535_drivers_are_not_misread() {
    let stand_in = StandIn::of(&["-DEARLY_535"]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    let job = Job::start(&daemon, "early");
    // So many that their entries would exceed the daemon's buffer.
    let strangers: String = (1..=40).map(|pid| format!("process 0 {} -1 1024\n", 5_000_000 + pid)).collect();
    let (first, second) = (job.pids[0], job.pids[1]);
    stand_in.set_script(&format!("{TWO}{strangers}process 0 {first} -1 4096\nprocess 0 {second} -1 8192\n"));
    let part = job.wait_for_gpus(&daemon, "both of its processes", |gpus| gpus.len() == 1 && gpus[0]["processes"] == 2);
    assert_eq!(part[0]["memory_bytes"], 12288);
}

#[test]
fn a_hanging_driver_does_not_block_the_daemon_and_its_values_are_missing() {
    let stand_in = StandIn::of(&[]);
    stand_in.set_script(TWO);
    let daemon = stand_in.daemon(&[]);
    node_gpus(&daemon, "both", |gpus| gpus.len() == 2);
    stand_in.set_script(&format!("{TWO}hang\n"));
    node_gpus(&daemon, "no GPUs", |gpus| gpus.is_empty());
    let began = Instant::now();
    let job = Job::start(&daemon, "governed");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    eventually("a notice", SOON, || notices(&daemon).contains("the NVIDIA driver does not answer").then_some(()));
    stand_in.set_script(&format!("{TWO}process 0 {} 50 4096\n", job.pids[0]));
    job.wait_for_gpus(&daemon, "a GPU", |gpus| gpus.len() == 1);
    eventually("the notice is removed", SOON, || (!notices(&daemon).contains("does not answer")).then_some(()));
}

#[test]
fn without_a_driver_or_a_gpu_nothing_about_gpus_is_shown_or_logged() {
    let stand_in = StandIn::of(&[]);
    for nothing in ["driver none\n", ""] {
        stand_in.set_script(nothing);
        let daemon = stand_in.daemon(&[]);
        let job = Job::start(&daemon, "plain");
        let shown = [
            vec!["status", "-o", "wide"],
            vec!["top", "--batch", "-n", "1"],
            vec!["metrics"],
            vec!["explain", &job.name],
        ];
        for arguments in shown {
            let shown = daemon.stdout_of(&arguments).to_lowercase();
            assert!(!shown.contains("gpu"), "{arguments:?}: {shown}");
        }
        assert!(!daemon.log().to_lowercase().contains("gpu"), "{}", daemon.log());
        assert!(!status(&daemon).to_string().contains("gpu"));
    }
}

#[test]
fn a_configured_library_that_cannot_be_loaded_is_reported() {
    let daemon = Daemon::start("off", &["gpu.library=/nowhere/libnvidia-ml.so.1"]);
    eventually("a notice", SOON, || {
        notices(&daemon).contains("/nowhere/libnvidia-ml.so.1 is not installed").then_some(())
    });
    let job = Job::start(&daemon, "governed-all-the-same");
    assert!(daemon.job(&job.name).is_some());
}

#[test]
fn a_command_gets_its_mps_share_if_the_control_daemon_runs_and_doctor_reports_it() {
    let pipes = tempfile::tempdir().unwrap();
    let daemon = Daemon::start("off", &["gpu.library=off", "gpu.control=mps"]);
    let flowctl = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(daemon.socket()).args(words).env("CUDA_MPS_PIPE_DIRECTORY", pipes.path());
        let output = command.output().unwrap();
        (
            output.status.code(),
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        )
    };
    let run = ["run", "--gpu-share", "40%", "--", "sh", "-c", "echo it has ${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE-all}"];
    let (code, output) = flowctl(&run);
    assert!(code == Some(1) && output.contains("no MPS control daemon runs"), "{code:?} {output}");
    assert!(unwrapped(&flowctl(&["doctor"]).1).contains("no MPS control daemon runs"));
    fs::write(pipes.path().join("control"), "").unwrap();
    assert_eq!(flowctl(&run), (Some(0), "it has 40\n".to_owned()));
    assert!(unwrapped(&flowctl(&["doctor"]).1).contains("the MPS control daemon runs"));
    let (code, output) = flowctl(&["run", "--gpu-share", "400%", "--", "true"]);
    assert!(code == Some(2) && output.contains("from 1% to 100%"), "{code:?} {output}");
    let plain = ["run", "--", "sh", "-c", "echo it has ${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE-all}"];
    assert_eq!(flowctl(&plain), (Some(0), "it has all\n".to_owned()));
}
