//! Tests of the queue on a real Docker Swarm of three nodes: gangs, elastic workers and priorities, with jobs that write heartbeats.

use crate::support::daemon::eventually;
use crate::support::swarm::{IMAGE, TestSwarm, assert_one_writer, has_progress};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const LONG: u32 = 100_000;
const SOON: Duration = Duration::from_secs(30);

/// Submits the workers of a gang, each a service that reserves `memory` bytes.
fn gang(swarm: &TestSwarm, name: &str, workers: u32, units: u32, memory: u64, labels: &[&str]) -> Vec<PathBuf> {
    let all: Vec<String> =
        [format!("flowcon.gang={name}")].into_iter().chain(labels.iter().map(|l| l.to_string())).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let memory = memory.to_string();
    let submit = |worker| swarm.submit_with(&format!("{name}-{worker}"), units, &all, &["--reserve-memory", &memory]);
    (1..=workers).map(submit).collect()
}

/// Number of workers of a gang in this state.
fn count(jobs: &[Value], gang: &str, state: &str) -> usize {
    jobs.iter().filter(|job| job["gang"] == gang && job["state"] == state).count()
}

/// A fraction of the memory of a node; each node has all memory of the machine.
fn memory(swarm: &TestSwarm, part: f64) -> u64 {
    let whole: u64 = swarm.docker(1, &["info", "--format", "{{.MemTotal}}"]).parse().unwrap();
    (whole as f64 * part) as u64
}

fn assert_all_one_writer(beats: &[PathBuf]) -> u32 {
    beats.iter().map(|beats| assert_one_writer(beats)).sum()
}

#[test]
fn elastic_workers_are_scaled_down_for_a_gang_and_up_again() {
    let mut swarm = TestSwarm::start(3);
    let most = memory(&swarm, 0.6);
    // The elastic gang uses all three nodes while no other job needs them.
    let elastic = gang(&swarm, "elastic", 3, LONG, most, &["flowcon.workers-min=1", "flowcon.workers-max=3"]);
    swarm.coordinate();
    swarm.wait_for_all("scaled up, with progress that can be saved", |jobs| {
        count(jobs, "elastic", "running") == 3 && jobs.iter().all(has_progress)
    });
    let release = swarm.hold(&["two-1", "two-2"]);
    let two = gang(&swarm, "two", 2, 25, most, &["flowcon.priority=50", "flowcon.workers-min=2"]);
    swarm.wait_for_all("scaled down for a gang", |jobs| {
        count(jobs, "two", "running") == 2 && count(jobs, "elastic", "running") == 1
    });
    let down =
        swarm.wait("elastic-3", "waiting with a reason", |job| job["state"] == "waiting" && job["why"].is_object());
    assert!(down["units"].as_f64().unwrap() >= 1.0, "its saved progress is known: {down}");
    release();
    swarm.wait_for_all("scaled up again", |jobs| {
        count(jobs, "two", "done") == 2 && count(jobs, "elastic", "running") == 3
    });
    let events = swarm.stdout_of(&["events"]);
    assert!(events.contains("stopping: makes room for a job that is more important"), "{events}");
    assert_eq!(events.matches("no job waits for these resources: another worker").count(), 4, "{events}");
    assert_eq!(assert_all_one_writer(&two), 50);
    assert!(assert_all_one_writer(&elastic) > 0);
}

#[test]
fn two_gangs_that_do_not_fit_together_run_in_turn_and_are_never_partly_placed() {
    let mut swarm = TestSwarm::start(3);
    let most = memory(&swarm, 0.6);
    let release = swarm.hold(&["one-1", "one-2"]);
    let beats = ["one", "other"].map(|name| gang(&swarm, name, 2, 25, most, &["flowcon.workers-min=2"]));
    swarm.coordinate();
    let is_up =
        |job: &Value| ["starting", "running", "stopping", "carrying"].iter().any(|state| job["state"] == *state);
    let up = |jobs: &[Value], gang: &str| jobs.iter().filter(|job| job["gang"] == gang && is_up(job)).count();
    let waiting = swarm.wait("other-1", "waiting while the first runs", |job| {
        job["state"] == "waiting" && job["why"]["text"].as_str().is_some_and(|why| why.contains("no node has room"))
    });
    assert!(waiting["node"].is_null(), "{waiting}");
    release();
    swarm.wait_for_all("done, one after the other", |jobs| {
        // As soon as one worker is done, two of the three nodes have room for the other gang.
        let is_one_done = count(jobs, "one", "done") + count(jobs, "other", "done") > 0;
        let is_one_up = up(jobs, "one") == 0 || up(jobs, "other") == 0;
        assert!(is_one_up || is_one_done, "two gangs that do not fit both: {jobs:?}");
        count(jobs, "one", "done") == 2 && count(jobs, "other", "done") == 2
    });
    for beats in beats {
        assert_eq!(assert_all_one_writer(&beats), 50);
    }
}

#[test]
fn a_gang_with_higher_priority_reclaims_a_whole_gang_that_later_continues_without_loss() {
    let mut swarm = TestSwarm::start(3);
    let most = memory(&swarm, 0.6);
    swarm.coordinate_with("[cluster]\nreclaim = true\n");
    let low = gang(&swarm, "low", 3, LONG, most, &["flowcon.workers-min=3"]);
    swarm.wait_for_all("running, with progress", |jobs| {
        count(jobs, "low", "running") == 3 && jobs.iter().all(has_progress)
    });
    let release = swarm.hold(&["high-1", "high-2"]);
    let high = gang(&swarm, "high", 2, 25, most, &["flowcon.priority=90", "flowcon.workers-min=2"]);
    swarm.wait_for_all("reclaimed as a whole", |jobs| {
        count(jobs, "high", "running") == 2 && count(jobs, "low", "waiting") == 3
    });
    let before = assert_all_one_writer(&low);
    release();
    swarm.wait_for_all("continued", |jobs| count(jobs, "high", "done") == 2 && count(jobs, "low", "running") == 3);
    assert_eq!(assert_all_one_writer(&high), 50);
    swarm.wait("low-1", "further", |_| assert_all_one_writer(&low) > before + 3);
    // Suspending one worker stops the whole gang; it continues as a whole.
    swarm.stdout_of(&["suspend", "low-2"]);
    swarm.wait_for_all("stopped as a whole", |jobs| {
        count(jobs, "low", "waiting") == 2 && count(jobs, "low", "suspended") == 1
    });
    swarm.stdout_of(&["resume", "low"]);
    swarm.wait_for_all("running again", |jobs| count(jobs, "low", "running") == 3);
    assert_all_one_writer(&low);
}

#[test]
fn a_gang_is_submitted_in_one_call_followed_and_cancelled() {
    let mut swarm = TestSwarm::start(2);
    swarm.coordinate();
    let submit = |name: &str, options: &[&str], command: &str| {
        let common = ["submit", "--name", name, "--image", IMAGE];
        swarm.flowctl(&[&common[..], options, &["--", "sh", "-c", command]].concat())
    };
    let refused = |name: &str, options: &[&str], expected: &str| {
        let output = submit(name, options, "exit 0");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(expected), "{text}");
    };
    eventually("the coordinator replies", SOON, || swarm.flowctl(&["status"]).status.success().then_some(()));
    refused("high", &["--priority", "200"], "flowcon.priority=200: expected a number from 1 to 100");
    refused("alone", &["--gang", "alone"], "--workers");
    let script = "trap 'exit 143' TERM; i=0; while :; do i=$((i+1)); echo \"epoch $i/100000 loss $((100000-i)) worker $FLOWCON_WORKER of $FLOWCON_WORKERS\"; sleep 0.2; done";
    let gang = submit("wide", &["--workers", "2..3", "--workers-initial", "3", "--checkpoint", "/saved"], script);
    let reply = String::from_utf8_lossy(&gang.stdout).into_owned();
    assert!(reply.starts_with("wide-1, wide-2, wide-3 are queued\n"), "{reply}");
    swarm.wait_for_all("all workers run", |jobs| count(jobs, "wide", "running") == 3);
    // Nothing is created of a gang of which one name is in use.
    swarm.docker(
        1,
        &["service", "create", "--detach", "--no-resolve-image", "--name", "odd-2", "--replicas", "0", IMAGE],
    );
    refused("odd", &["--workers", "2"], "a service called odd-2 already");
    assert!(swarm.job("odd-1").is_none());

    let printed = || {
        let text = swarm.stdout_of(&["logs", "wide-2", "--tail", "3"]);
        let lines: Vec<&str> = text.lines().collect();
        (lines.len() == 3 && lines.iter().all(|line| line.ends_with("worker 2 of 3"))).then_some(())
    };
    eventually("the output is printed", SOON, printed);
    let coordinator = swarm.folder(1).join("coord.sock");
    let follow = Command::new(env!("CARGO_BIN_EXE_flowctl"))
        .args(["cluster", "--socket"])
        .arg(coordinator)
        .args(["logs", "-f", "wide-1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    swarm.stdout_of(&["cancel", "wide"]);
    swarm.wait_for_all("cancelled", |jobs| count(jobs, "wide", "cancelled") == 3);
    // It ends with the job, and has printed each line once.
    let followed = String::from_utf8(follow.wait_with_output().unwrap().stdout).unwrap();
    let epochs: Vec<u32> =
        followed.lines().map(|line| line.split(['/', ' ']).nth(1).unwrap().parse().unwrap()).collect();
    assert!(epochs.len() > 1 && epochs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{epochs:?}");
    assert!(swarm.stdout_of(&["history"]).contains("cancelled"));
    assert_workers_meet(&swarm);
}

/// Runs a gang of two workers and a parameter server on two nodes: the workers find each other by their variables alone, the server ends with
/// them, and the network of the gang with their services.
fn assert_workers_meet(swarm: &TestSwarm) {
    // A program that meets as torch.distributed does: rank 0 listens at the master address, the other connects. Each exits with code 0 only if
    // it hears the other.
    let script = "trap 'exit 143' TERM; if [ -z \"$RANK\" ]; then \
        case $TF_CONFIG in *'\"type\":\"ps\"'*) while :; do sleep 0.2; done;; esac; exit 1; fi; \
        hello=\"from rank $RANK of $WORLD_SIZE\"; while [ -z \"$heard\" ]; do \
        if [ $RANK = 0 ]; then heard=$(echo \"$hello\" | nc -l -p $MASTER_PORT); \
        else heard=$(echo \"$hello\" | nc $MASTER_ADDR $MASTER_PORT); sleep 0.2; fi; done; \
        [ \"$heard\" = \"from rank $((1-RANK)) of 2\" ]";
    let memory = memory(swarm, 0.45).to_string();
    let gang = ["--workers", "2", "--parameter-servers", "1", "--memory", &memory];
    let submission = [&["submit", "--name", "pair", "--image", IMAGE][..], &gang, &["--", "sh", "-c", script]].concat();
    assert!(swarm.stdout_of(&submission).contains("pair-1, pair-2, pair-ps-1 are queued"));
    swarm.wait_for_all("the workers have met, and the server has ended with them", |jobs| {
        count(jobs, "pair", "done") == 3
    });
    let ends = ["pair-1", "pair-2", "pair-ps-1"].map(|name| swarm.job(name).unwrap());
    assert!(ends.iter().all(|job| job["exit_code"] == 0), "{ends:?}");
    assert_ne!(ends[0]["node"], ends[1]["node"]);
    assert!(swarm.stdout_of(&["events"]).contains("the workers that it serves have ended"));
    let networks = || swarm.docker(1, &["network", "ls", "--format", "{{.Name}} {{.Driver}}"]);
    assert!(networks().contains("flowcon-pair overlay"), "{}", networks());
    swarm.docker(1, &["service", "rm", "pair-1", "pair-2", "pair-ps-1"]);
    eventually("the network is gone", SOON, || (!networks().contains("flowcon-pair")).then_some(()));
}

#[test]
fn an_idle_rented_node_is_closed_and_opened_again_for_a_waiting_job() {
    let mut swarm = TestSwarm::start(3);
    let most = memory(&swarm, 0.6);
    let ran = swarm.dir.join("ran");
    let hook =
        |word: &str| format!("{word}-command = [\"sh\", \"-c\", \"echo {word} $1 >>{}\", \"sh\"]\n", ran.display());
    // The first node is a manager, which is never closed; the third is not rented.
    for node in ["node-1", "node-2"] {
        swarm.docker(1, &["node", "update", "--label-add", "flowcon.rented=true", node]);
    }
    swarm.coordinate_with(&format!("[nodes]\nclose-after = \"4s\"\n{}{}", hook("open"), hook("close")));
    let availability = |node: &str| swarm.docker(1, &["node", "inspect", node, "--format", "{{.Spec.Availability}}"]);
    swarm.wait_for_nodes("one closed", |nodes| nodes.iter().filter(|node| node["state"] == "closed").count() == 1);
    assert_eq!(["node-1", "node-2", "node-3"].map(availability), ["active", "drain", "active"]);
    let beats = gang(&swarm, "wide", 3, 15, most, &["flowcon.workers-min=3"]);
    swarm.wait_for_all("done on all three", |jobs| count(jobs, "wide", "done") == 3);
    assert_eq!(assert_all_one_writer(&beats), 45);
    // The node has the only copy of a saved state until the job is done; then it can be closed.
    swarm.wait_for_nodes("closed again", |nodes| nodes.iter().any(|node| node["state"] == "closed"));
    // The state is shown before the command has run.
    let all_ran = || std::fs::read_to_string(&ran).ok().filter(|ran| ran.lines().count() >= 3);
    let ran = eventually("the commands have run", SOON, all_ran);
    assert_eq!(ran.lines().collect::<Vec<_>>()[..3], ["close node-2", "open node-2", "close node-2"]);
}

#[test]
fn of_two_waiting_jobs_the_one_with_the_earlier_deadline_runs_first() {
    let mut swarm = TestSwarm::start(1);
    swarm.coordinate_with("[cluster]\nqueue = \"deadlines\"\n");
    let most = memory(&swarm, 0.6).to_string();
    let submit = |name: &str, units: u32, deadline: &str| {
        let labels = [deadline, "flowcon.duration=10m"];
        swarm.submit_with(name, units, &labels, &["--reserve-memory", &most])
    };
    let first = submit("first", LONG, "flowcon.deadline=1h");
    swarm.wait("first", "running", |job| job["state"] == "running");
    let later = submit("later", 10, "flowcon.deadline=10h");
    let sooner = submit("sooner", 10, "flowcon.deadline=1s");
    let odd = submit("odd", 10, "flowcon.deadline=soon");
    let refused = swarm.wait("odd", "refused", |job| job["state"] == "refused");
    assert!(refused["why"]["text"].as_str().unwrap().contains("label flowcon.deadline=soon: expected"), "{refused}");
    swarm.wait("sooner", "late", |job| job["state"] == "waiting" && job["late"] == true);
    assert!(swarm.stdout_of(&["explain", "sooner"]).contains("in time    no: "));
    swarm.wait("later", "waiting", |job| job["state"] == "waiting" && job["deadline_unix_ms"].is_u64());
    swarm.stdout_of(&["suspend", "first"]);
    swarm.wait_for_all("done, the nearer deadline first", |jobs| {
        let is = |name: &str, state: &str| jobs.iter().any(|job| job["name"] == name && job["state"] == state);
        assert!(jobs.is_empty() || is("later", "waiting") || is("sooner", "done"), "{jobs:#?}");
        is("sooner", "done") && is("later", "done")
    });
    assert_eq!([&sooner, &later].map(|beats| assert_one_writer(beats)), [10, 10]);
    assert!(assert_one_writer(&first) > 0 && !odd.exists(), "a rejected job is not started");
}
