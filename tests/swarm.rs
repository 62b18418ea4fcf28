//! The coordinator on a real Docker Swarm of three nodes: place, move, drain, and what must hold when things break.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use flowcon::coordinator::{PORT, agent::Client};
use flowcon::host::swarm::Certificates;
use flowcon::model::Millis;
use flowcon::model::swarm::NodeId;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use support::swarm::{IMAGE, TestSwarm, assert_one_writer};

const LONG: u32 = 100_000;

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
    let target = other(placed["node"].as_str().unwrap());
    swarm.done(&["move", "train", target]);
    let moved = swarm.running_on("train", target);
    assert_eq!((moved["moves"].as_u64(), moved["mark"].as_str()), (Some(1), None));
    assert!(assert_one_writer(&beats) > moved["units"].as_f64().unwrap_or(1.0) as u32 / 2);

    swarm.done(&["drain", target, "--wait"]);
    let away = swarm.wait("train", "elsewhere", |job| job["state"] == "running" && job["node"] != target);
    assert_eq!(away["moves"].as_u64(), Some(2));
    assert_one_writer(&beats);
    let refused = swarm.flowctl(&["move", "train", target]);
    assert_eq!(refused.status.code(), Some(6), "{}", String::from_utf8_lossy(&refused.stderr));
    swarm.done(&["undrain", target]);

    swarm.done(&["pause", "train"]);
    swarm.wait("train", "paused", |job| job["state"] == "paused");
    swarm.done(&["resume", "train"]);
    swarm.wait("train", "running again", |job| job["state"] == "running");
    assert_one_writer(&beats);

    // A short one ends, what comes after it begins, and what can be no job is told why.
    let short = swarm.submit("short", 5, &[]);
    swarm.submit("next", 5, &["flowcon.after=short"]);
    let done = swarm.wait("next", "done", |job| job["state"] == "done");
    assert_eq!((done["exit_code"].as_i64(), assert_one_writer(&short)), (Some(0), 5));
    swarm.submit("odd", 5, &["flowcon.priority=high"]);
    let odd = swarm.wait("odd", "refused", |job| job["state"] == "refused");
    assert!(odd["why"]["text"].as_str().unwrap().contains("expected a number from 1 to 100"), "{odd}");
    assert_eq!(swarm.docker(1, &["service", "inspect", "theirs"]), theirs);
    assert!(swarm.done(&["history"]).contains("short"));

    let submission =
        ["submit", "--name", "asked", "--image", IMAGE, "--checkpoint", "asked:/saved", "--", "sh", "-c", "exit 3"];
    assert!(swarm.done(&submission).contains("asked waits"));
    let failed = swarm.wait("asked", "failed", |job| job["state"] == "failed");
    assert_eq!(failed["exit_code"].as_i64(), Some(3));
    assert!(swarm.done(&["explain", "train"]).contains("progress"));
    assert!(swarm.done(&["events"]).contains("train"));
}

#[test]
fn a_coordinator_that_dies_in_any_phase_is_continued_by_the_next() {
    let mut swarm = TestSwarm::start(3);
    let beats = swarm.submit("train", LONG, &[]);
    swarm.coordinate();
    swarm.wait("train", "running", |job| job["state"] == "running");
    for phase in ["stopping", "carrying", "starting"] {
        let at = swarm.wait("train", "running", |job| job["state"] == "running");
        let target = other(at["node"].as_str().unwrap());
        swarm.done(&["move", "train", target]);
        swarm.wait("train", phase, |job| job["state"] == phase || job["node"] == target);
        swarm.kill_coordinator();
        std::thread::sleep(Duration::from_secs(1));
        swarm.coordinate();
        swarm.running_on("train", target);
        assert_one_writer(&beats);
    }
}

#[test]
fn a_node_that_is_cut_off_keeps_its_job_and_nobody_else_gets_it() {
    let mut swarm = TestSwarm::start(3);
    let beats = swarm.submit("train", LONG, &["flowcon.priority=10"]);
    swarm.coordinate();
    let placed = swarm.wait("train", "running", |job| job["state"] == "running");
    let mut node = placed["node"].as_str().unwrap().to_owned();
    if node == "node-1" {
        swarm.done(&["move", "train", "node-2"]);
        node = swarm.running_on("train", "node-2")["node"].as_str().unwrap().to_owned();
    }
    let number = node.trim_start_matches("node-").parse().unwrap();
    swarm.cut(number, true);
    let lost = swarm.wait("train", "waiting for its node", |job| {
        job["state"] != "running" && job["why"]["text"].as_str().is_some_and(|why| why.contains(&node))
    });
    assert!(lost["to"].is_null() || lost["to"] == node.as_str(), "{lost}");
    // An operator's word that a node is off is not taken for one that answers.
    assert_eq!(swarm.flowctl(&["node-is-off", "train", "node-1"]).status.code(), Some(6));
    swarm.cut(number, false);
    swarm.wait("train", "running again", |job| job["state"] == "running");
    assert_one_writer(&beats);
}

/// A certificate with Swarm's names, signed by somebody else.
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

#[test]
fn agents_answer_managers_of_their_own_swarm_only() {
    let swarm = TestSwarm::start(2);
    let id = |node: usize| NodeId(swarm.docker(node, &["info", "--format", "{{.Swarm.NodeID}}"]).into());
    let of = |node: usize| Certificates::of_swarm(&swarm.folder(node).join("data")).load().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let asked = |identity, node: NodeId, address: &str| {
        let client = Client::new(Arc::new(identity), node, address, PORT);
        runtime.block_on(client.report(&[], Millis::from_secs(60)))
    };
    let answered = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(200));
        asked(of(1), id(2), "10.213.0.2").ok().filter(|report| report.is_governed)
    });
    assert!(answered.is_some(), "{:?}", asked(of(1), id(2), "10.213.0.2"));

    let worker = asked(of(2), id(1), "10.213.0.1").unwrap_err();
    assert!(worker.contains("is a worker"), "{worker}");
    // The node that answers is not the one that was meant.
    assert!(asked(of(1), id(1), "10.213.0.2").is_err());
    let folder = tempfile::tempdir().unwrap();
    let cluster = of(1).own.cluster.to_string();
    assert!(asked(forged(folder.path(), &cluster).load().unwrap(), id(2), "10.213.0.2").is_err());
}
