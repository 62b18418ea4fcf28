//! Tests of the coordinator on a real Docker Swarm of three nodes: place, move, drain, and failures.

use crate::support::daemon::eventually_or;
use crate::support::swarm::{IMAGE, TestSwarm, assert_one_writer, has_progress};
use flowcon::coordinator::{PORT, agent::Client};
use flowcon::host::swarm::{Certificates, Identity};
use flowcon::model::Millis;
use flowcon::model::swarm::{Attestation, NodeId, ServiceId};
use rustix::thread::LinkNameSpaceType;
use serde_json::Value;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LONG: u32 = 100_000;
const SOON: Duration = Duration::from_secs(30);

fn other(node: &str) -> &'static str {
    if node == "node-2" { "node-3" } else { "node-2" }
}

#[test]
fn jobs_are_placed_moved_with_their_state_and_drained() {
    let mut swarm = TestSwarm::start(3);
    let beats = swarm.submit("train", LONG, &[]);
    swarm.docker(
        1,
        &["service", "create", "--detach", "--no-resolve-image", "--name", "theirs", "--replicas", "0", IMAGE],
    );
    let theirs = swarm.docker(1, &["service", "inspect", "theirs"]);
    swarm.coordinate();
    let placed = swarm.wait("train", "running", |job| job["state"] == "running");
    let mut source = placed["node"].as_str().unwrap();
    // A job moves without its record if flowcond takes more than a second, as on a busy machine: then it moves again.
    let carried = (1..=3).find(|moves| {
        let target = other(source);
        let evaluations_before = swarm.evaluations("train", source, 50);
        let moved = swarm.move_to("train", target);
        assert_eq!((moved["moves"].as_u64(), moved["mark"].as_str()), (Some(*moves), None));
        assert!(assert_one_writer(&beats) > moved["units"].as_f64().unwrap_or(1.0) as u32 / 2);
        source = target;
        // The target has its evaluations from before the move in addition to those printed there.
        let known = swarm.evaluations("train", target, evaluations_before + 1);
        known > last_writers_beats(&beats)
    });
    let (moves, target) = (carried.expect("a move carries the job record"), source);

    swarm.stdout_of(&["drain", target, "--wait"]);
    let away = swarm.wait("train", "elsewhere", |job| job["state"] == "running" && job["node"] != target);
    assert_eq!(away["moves"].as_u64(), Some(moves + 1));
    assert_one_writer(&beats);
    let refused = swarm.flowctl(&["move", "train", target]);
    assert_eq!(refused.status.code(), Some(6), "{}", String::from_utf8_lossy(&refused.stderr));
    swarm.stdout_of(&["undrain", target]);

    swarm.stdout_of(&["suspend", "train"]);
    swarm.wait("train", "suspended", |job| job["state"] == "suspended");
    swarm.stdout_of(&["resume", "train"]);
    swarm.wait("train", "running again", |job| job["state"] == "running");
    assert_one_writer(&beats);

    // A short job ends, the job that depends on it starts, and an invalid job is rejected with a reason.
    let short = swarm.submit("short", 5, &[]);
    swarm.submit("next", 5, &["flowcon.after=short"]);
    let done = swarm.wait("next", "done", |job| job["state"] == "done");
    assert_eq!((done["exit_code"].as_i64(), assert_one_writer(&short)), (Some(0), 5));
    swarm.wait("short", "done, with its last progress", |job| {
        (&job["units"], &job["total"]) == (&5.0.into(), &5.0.into())
    });
    swarm.submit("odd", 5, &["flowcon.priority=high"]);
    let odd = swarm.wait("odd", "refused", |job| job["state"] == "refused");
    assert!(odd["why"]["text"].as_str().unwrap().contains("expected a number from 1 to 100"), "{odd}");
    assert_eq!(swarm.docker(1, &["service", "inspect", "theirs"]), theirs);
    assert!(swarm.stdout_of(&["history"]).contains("short"));

    let submission =
        ["submit", "--name", "report", "--image", IMAGE, "--checkpoint", "report:/saved", "--", "sh", "-c", "exit 3"];
    assert!(swarm.stdout_of(&submission).contains("report is queued"));
    let failed = swarm.wait("report", "failed", |job| job["state"] == "failed");
    assert_eq!(failed["exit_code"].as_i64(), Some(3));
    assert!(swarm.stdout_of(&["explain", "train"]).contains("progress"));
    assert!(swarm.stdout_of(&["events"]).contains("train"));
}

#[test]
fn a_job_leaves_a_node_that_docker_drains_and_goes_on_elsewhere() {
    let mut swarm = TestSwarm::start(3);
    let beats = swarm.submit("train", LONG, &[]);
    swarm.coordinate();
    let placed = swarm.wait("train", "running, with progress", has_progress);
    let source = placed["node"].as_str().unwrap();
    swarm.docker(1, &["node", "update", "--availability", "drain", source]);
    let away = swarm.wait("train", "running elsewhere", |job| has_progress(job) && job["node"] != source);
    assert_eq!((away["mark"].as_str(), away["why"].as_str()), (None, None), "{away}");
    assert!(assert_one_writer(&beats) > placed["units"].as_f64().unwrap() as u32);
}

/// Number of units done by the last writer.
fn last_writers_beats(beats: &std::path::Path) -> u64 {
    let text = std::fs::read_to_string(beats).unwrap();
    let writers = text.lines().rev().filter_map(|line| line.split_once(' ')).map(|(writer, _)| writer);
    let last = writers.clone().next();
    writers.take_while(|writer| Some(*writer) == last).count() as u64
}

#[test]
fn reservations_of_other_services_are_not_free() {
    let mut swarm = TestSwarm::start(2);
    let nanos = swarm.docker(1, &["node", "inspect", "self", "--format", "{{.Description.Resources.NanoCPUs}}"]);
    let cores = nanos.parse::<f64>().unwrap() / 1e9;
    let reserve = |part: f64| format!("--reserve-cpu={:.2}", part * cores);
    // A service that runs forever, and one that completes.
    for (mode, part) in [("global", 0.5), ("global-job", 0.4)] {
        let options = ["--detach", "--no-resolve-image", "--name", mode, "--mode", mode, &reserve(part)];
        swarm.docker(1, &[&["service", "create"][..], &options, &[IMAGE, "sleep", "1000"]].concat());
    }
    for node in [1, 2] {
        let run = || (swarm.docker(node, &["ps", "--quiet"]).lines().count() == 2).then_some(());
        eventually_or("both reserve on this node", SOON, run, || swarm.docker(node, &["ps", "--all"]));
    }
    let beats = swarm.submit_with("train", LONG, &[], &[&reserve(0.2)]);
    swarm.coordinate();
    let waits = swarm.wait("train", "waiting for room", |job| job["why"]["kind"] == "no-place");
    assert_eq!(waits["state"], "waiting");
    // Docker 20.10 leaves the task of a removed global-job running, so its reservation stays in use.
    swarm.docker(1, &["service", "rm", "global"]);
    swarm.wait("train", "running, with progress", has_progress);
    assert!(assert_one_writer(&beats) > 0);
}

/// Creates a job that takes 14 s to save, longer than Swarm's default grace period of 10 s.
fn create_slow_saver(swarm: &TestSwarm, options: &[&str]) -> std::path::PathBuf {
    let beats = swarm.dir.join("beats");
    std::fs::create_dir_all(&beats).unwrap();
    let script = "trap 'sleep 14; echo saved >/beats/slow; exit 143' TERM; i=0; \
        while true; do i=$((i+1)); echo \"epoch $i/100000 loss $((100000-i))\"; sleep 0.2; done";
    let shared = format!("type=bind,source={},target=/beats", beats.display());
    let common = ["--detach", "--no-resolve-image", "--name", "slow", "--replicas", "0", "--mount", &shared];
    let labels = ["--label", "flowcon.queue=true", "--label", "flowcon.stop-grace=90s"];
    let rest = ["--restart-condition", "on-failure", "--container-label", "flowcon.enable=true", IMAGE];
    swarm.docker(1, &[&["service", "create"][..], &common, &labels, options, &rest, &["sh", "-c", script]].concat());
    beats.join("slow")
}

#[test]
fn a_manually_created_service_gets_the_stop_grace_of_its_label() {
    let mut swarm = TestSwarm::start(1);
    let saved = create_slow_saver(&swarm, &[]);
    swarm.coordinate();
    swarm.wait("slow", "running", |job| job["state"] == "running");
    swarm.stdout_of(&["suspend", "slow"]);
    swarm.wait("slow", "suspended", |job| job["state"] == "suspended");
    assert_eq!(std::fs::read_to_string(saved).unwrap(), "saved\n");
}

#[test]
fn the_agent_of_a_lost_node_gives_a_job_its_stop_grace_to_save() {
    let mut swarm = TestSwarm::start(2);
    let restarts = ["--label", "flowcon.on-node-loss=restart", "--label", "flowcon.movable=true"];
    let saved = create_slow_saver(&swarm, &[&restarts[..], &["--constraint", "node.hostname==node-2"]].concat());
    swarm.coordinate_with("lease = \"5s\"\n");
    swarm.wait("slow", "running, with progress", has_progress);
    let leased = || {
        let label = "{{index .Spec.Labels \"flowcon.cluster.leased\"}}";
        (!swarm.docker(1, &["service", "inspect", "slow", "--format", label]).is_empty()).then_some(())
    };
    eventually_or("its agent holds a lease", SOON, leased, || swarm.end_of_log());
    swarm.cut(2, true);
    let has_saved = || std::fs::read_to_string(&saved).ok().filter(|text| text == "saved\n");
    eventually_or("it has saved", SOON * 2, has_saved, || swarm.end_of_log());
    let lost = swarm.wait("slow", "stopping", |job| job["state"] == "stopping");
    let told = lost["log"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap();
    assert!(
        told.contains("its node node-2 is lost after ") && told.contains("without a checkpoint, all of them are lost"),
        "{told}"
    );
}

#[test]
fn a_move_is_continued_after_the_coordinator_dies_in_any_phase() {
    let mut swarm = TestSwarm::start(3);
    let beats = swarm.submit("train", LONG, &[]);
    swarm.coordinate();
    swarm.wait("train", "running, with progress", has_progress);
    for phase in ["stopping", "carrying", "starting"] {
        let at = swarm.wait("train", "running", |job| job["state"] == "running");
        let target = other(at["node"].as_str().unwrap());
        let moves = || swarm.flowctl(&["move", "train", target]).status.success().then_some(());
        eventually_or("the target accepts the job", SOON, moves, || swarm.end_of_log());
        swarm.wait("train", phase, |job| job["state"] == phase || job["node"] == target);
        swarm.kill_coordinator();
        std::thread::sleep(Duration::from_secs(1));
        swarm.coordinate();
        swarm.move_to("train", target);
        assert_one_writer(&beats);
    }
    swarm.kill_coordinator();
    swarm.coordinate();
    let told = || swarm.flowctl(&["events"]).stdout;
    let is_told = || String::from_utf8_lossy(&told()).contains("train: stopping, then to node-").then_some(());
    eventually_or("the events survive", SOON, is_told, || swarm.end_of_log());
    assert!(swarm.stdout_of(&["explain", "train"]).contains("moved by an operator"));
}

/// Waits until the checks of `flowctl cluster doctor` on a node satisfy the condition, and returns them.
fn doctor(swarm: &TestSwarm, node: usize, what: &str, condition: impl Fn(bool, &[Value]) -> bool) -> Vec<Value> {
    let probe = || {
        let (succeeds, checks) = swarm.doctor(node);
        condition(succeeds, &checks).then_some(checks)
    };
    eventually_or(&format!("the doctor of node {node} {what}"), SOON, probe, || format!("{:#?}", swarm.doctor(node)))
}

#[test]
fn a_disconnected_node_keeps_its_job_and_no_other_node_gets_it() {
    let mut swarm = TestSwarm::start(3);
    let beats = swarm.submit("train", LONG, &["flowcon.priority=10"]);
    assert!(!swarm.doctor(1).0, "no coordinator runs yet");
    swarm.coordinate();
    swarm.wait("train", "placed", has_progress);
    let checks = doctor(&swarm, 1, "succeeds", |succeeds, _| succeeds);
    let names: Vec<&str> = checks.iter().filter_map(|check| check["name"].as_str()).collect();
    assert_eq!(names, ["swarm", "coordinator", "certificate", "agent", "agent", "agent"]);
    doctor(&swarm, 2, "finds its own agent", |_, checks| {
        checks.last().is_some_and(|check| check["found"] == "running here; replies only to managers")
    });
    let placed = swarm.wait("train", "running", |job| job["state"] == "running");
    let mut node = placed["node"].as_str().unwrap().to_owned();
    if node == "node-1" {
        node = swarm.move_to("train", "node-2")["node"].as_str().unwrap().to_owned();
    }
    let number = node.trim_start_matches("node-").parse().unwrap();
    swarm.cut(number, true);
    let lost = swarm.wait("train", "waiting for its node", |job| {
        job["state"] != "running" && job["why"]["text"].as_str().is_some_and(|why| why.contains(&node))
    });
    assert!(lost["to"].is_null() || lost["to"] == node.as_str(), "{lost}");
    doctor(&swarm, 1, "finds the lost node", |succeeds, checks| {
        let failed = checks.iter().find(|check| check["verdict"] == "fail");
        !succeeds && failed.and_then(|check| check["found"].as_str()).is_some_and(|found| found.contains(&node))
    });
    // node-is-off is rejected for a node that replies.
    let off = || swarm.flowctl(&["node-is-off", "train", "node-1"]);
    eventually_or("it is refused", SOON, || (off().status.code() == Some(6)).then_some(()), || format!("{:?}", off()));
    swarm.cut(number, false);
    swarm.wait("train", "running again", |job| job["state"] == "running");
    assert_one_writer(&beats);
}

/// A certificate with Swarm's names, signed by another authority.
fn forged(folder: &std::path::Path, cluster: &str) -> Certificates {
    let subject = format!("/O={cluster}/OU=swarm-manager/CN=forged");
    let (key, certificate) = (folder.join("key.pem"), folder.join("crt.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", &subject, "-addext", "subjectAltName=DNS:swarm-manager,DNS:forged"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Certificates::of_files(certificate.clone(), key, certificate)
}

/// Sends a request to an agent from the manager's network namespace.
fn request<T: Send>(
    swarm: &TestSwarm,
    identity: Identity,
    node: NodeId,
    address: &str,
    what: impl AsyncFnOnce(Client) -> T + Send,
) -> T {
    let manager = std::fs::File::open(swarm.folder(1).join("netns")).unwrap();
    let send = || {
        rustix::thread::move_into_link_name_space(manager.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let client = Client::new(Arc::new(identity), node, address, PORT);
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what(client))
    };
    std::thread::scope(|scope| scope.spawn(send).join().unwrap())
}

#[test]
fn a_job_that_ignores_sigterm_is_attested_as_alive_until_it_is_killed() {
    const GRACE: Duration = Duration::from_secs(8);
    let swarm = TestSwarm::start(1);
    let beats = swarm.dir.join("deaf");
    std::fs::create_dir_all(&beats).unwrap();
    let shared = format!("type=bind,source={},target=/beats", beats.display());
    let grace = format!("{}s", GRACE.as_secs());
    let script = "trap '' TERM; while :; do echo beat >>/beats/deaf; sleep 0.05; done";
    let create = ["service", "create", "--detach", "--no-resolve-image", "--name", "deaf", "--mount", &shared];
    let deaf = [&create[..], &["--stop-grace-period", &grace, IMAGE, "sh", "-c", script]].concat();
    let service = ServiceId(swarm.docker(1, &deaf).into());
    let length = || std::fs::metadata(beats.join("deaf")).map_or(0, |found| found.len());
    let node = NodeId(swarm.docker(1, &["info", "--format", "{{.Swarm.NodeID}}"]).into());
    let attest = |patience| {
        let identity = Certificates::of_swarm(&swarm.folder(1).join("data")).load().unwrap();
        let (service, node) = (service.clone(), node.clone());
        request(&swarm, identity, node, "10.213.0.1", async move |client| client.attest(&service, None, patience).await)
    };
    let lives = || (length() > 0 && attest(Millis(0)) == Ok(Attestation::Alive(1))).then_some(());
    eventually_or("it lives", SOON, lives, || format!("{:?}", attest(Millis(0))));
    // Taken before the request, whose return may be late: the grace period cannot begin earlier.
    let stopped = Instant::now();
    swarm.docker(1, &["service", "scale", "--detach", "deaf=0"]);
    loop {
        let attested = attest(Millis(0)); // an agent that does not reply attests nothing
        let lives = attested.is_err() || attested == Ok(Attestation::Alive(1));
        assert!(lives || stopped.elapsed() >= GRACE, "{attested:?} {:?} after the stop request", stopped.elapsed());
        if stopped.elapsed() >= GRACE / 4 {
            break;
        }
    }
    // The agent waits for the end of the job.
    let gone = || (attest(Millis::from_secs(5)) == Ok(Attestation::Gone)).then_some(());
    eventually_or("it is gone", SOON, gone, || format!("{:?}", attest(Millis(0))));
    let (waited, written) = (stopped.elapsed(), length());
    assert!(waited >= GRACE, "{waited:?}");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(length(), written, "it wrote after it was attested as gone");
}

#[test]
fn agents_reply_only_to_managers_of_their_swarm() {
    let swarm = TestSwarm::start(2);
    let id = |node: usize| NodeId(swarm.docker(node, &["info", "--format", "{{.Swarm.NodeID}}"]).into());
    let of = |node: usize| Certificates::of_swarm(&swarm.folder(node).join("data")).load().unwrap();
    let report = |identity, node: NodeId, address: &str| {
        request(&swarm, identity, node, address, async |client| client.report(&[], Millis::from_secs(60)).await)
    };
    for (node, address) in [(1, "10.213.0.1"), (2, "10.213.0.2")] {
        let replies = || report(of(1), id(node), address).ok().filter(|report| report.is_governed);
        eventually_or("the agent replies", SOON, replies, || format!("{:?}", report(of(1), id(node), address)));
    }

    let refused = || report(of(2), id(1), "10.213.0.1").expect_err("of a worker");
    eventually_or("a worker is refused", SOON, || refused().contains("is a worker").then_some(()), refused);
    // The node that replies is not the intended one.
    assert!(report(of(1), id(1), "10.213.0.2").is_err());
    let folder = tempfile::tempdir().unwrap();
    let cluster = of(1).own.cluster.to_string();
    assert!(report(forged(folder.path(), &cluster).load().unwrap(), id(2), "10.213.0.2").is_err());
}
