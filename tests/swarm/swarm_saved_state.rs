//! Tests on a real Swarm of the rule that saved state has exactly one writer: who may start with a checkpoint volume.

use crate::support::swarm::{IMAGE, TestSwarm, assert_one_writer, has_progress};
use serde_json::Value;

const LONG: u32 = 100_000;

/// Submits a job and returns the message with which it is refused.
fn refused(swarm: &TestSwarm, name: &str, checkpoint: &str) -> String {
    let refused = swarm.flowctl(&["submit", "--name", name, "--image", IMAGE, "--checkpoint", checkpoint]);
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    String::from_utf8(refused.stderr).unwrap()
}

fn taken(swarm: &TestSwarm, name: &str, text: &str) -> Value {
    let is_taken = |job: &Value| job["why"]["kind"] == "volume-taken";
    let job = swarm.wait(name, "kept waiting", is_taken);
    assert!(job["why"]["text"].as_str().unwrap().contains(text), "{job}");
    assert_eq!(job["state"], "waiting");
    job
}

fn suspended(swarm: &TestSwarm, name: &str) {
    swarm.stdout_of(&["suspend", name]);
    swarm.wait(name, "suspended", |job| job["state"] == "suspended");
}

#[test]
fn a_second_job_with_the_same_checkpoint_volume_is_refused_at_submission_and_at_its_start() {
    let mut swarm = TestSwarm::start(1);
    let beats = swarm.submit("p1", LONG, &[]);
    // Made by hand before any coordinator ran, with another path in the container.
    let of_p1 = ["--mount", "type=volume,source=p1,target=/elsewhere"];
    let second = swarm.submit_with("p4", LONG, &["flowcon.checkpoint=p1"], &of_p1);
    swarm.coordinate();
    swarm.wait("p1", "running, with progress", has_progress);
    taken(&swarm, "p4", "volume p1 holds the saved state of job p1");
    let why = refused(&swarm, "p5", "p1:/saved");
    assert!(why.contains("volume p1 holds the saved state of job p1") && why.contains("--take-over p1"), "{why}");
    suspended(&swarm, "p1");
    taken(&swarm, "p4", "job p1");
    swarm.stdout_of(&["resume", "p1"]);
    swarm.wait("p1", "running again", has_progress);
    assert!(assert_one_writer(&beats) > 0 && !second.exists(), "p4 never ran");

    // Without the name of a volume, each job gets its own.
    swarm.stdout_of(&["submit", "--name", "p6", "--image", IMAGE, "--checkpoint", "/saved", "--", "sleep", "1000"]);
    let mount = "{{range .Spec.TaskTemplate.ContainerSpec.Mounts}}{{.Source}}:{{.Target}}{{end}}";
    assert_eq!(swarm.docker(1, &["service", "inspect", "p6", "--format", mount]), "p6-checkpoint:/saved");
    swarm.wait("p6", "running", |job| job["state"] == "running");
}

#[test]
fn the_saved_state_of_a_removed_job_waits_for_a_job_that_takes_it_over() {
    let mut swarm = TestSwarm::start(2);
    let beats = swarm.submit("train", LONG, &[]);
    swarm.coordinate();
    let placed = swarm.wait("train", "running, with progress", has_progress);
    let node = placed["node"].as_str().unwrap().to_owned();
    suspended(&swarm, "train");
    let (number, removed) = (node.trim_start_matches("node-").parse().unwrap(), placed["id"].as_str().unwrap());
    let record = swarm.folder(number).join("data/volumes/train/.flowcon-of");
    assert!(std::fs::read_to_string(&record).unwrap().contains(removed));
    swarm.docker(1, &["service", "rm", "train"]);
    swarm.wait_for_all("train is removed", |jobs| jobs.is_empty());

    let why = refused(&swarm, "train", "train:/saved");
    let expected =
        format!("volume train on node {node} holds the saved state of job train ({removed}), which was removed");
    assert!(why.contains(&expected) && why.contains("docker volume rm train"), "{why}");
    // Made by hand, with the same name; a coordinator that knows nothing of the first one refuses it, too.
    swarm.submit("train", LONG, &[]);
    taken(&swarm, "train", &expected);
    swarm.kill_coordinator();
    swarm.coordinate();
    taken(&swarm, "train", &expected);
    let before = assert_one_writer(&beats);
    assert!(std::fs::read_to_string(&record).unwrap().contains(removed));

    // It continues from that state, also on another node.
    swarm.stdout_of(&["drain", &node]);
    swarm.docker(1, &["service", "update", "--detach", "--label-add", "flowcon.take-over=train", "train"]);
    let taken_over = swarm.wait("train", "running, with progress", has_progress);
    assert!(taken_over["node"] != node.as_str() && assert_one_writer(&beats) > before, "{taken_over}");
    let owner = std::fs::read_to_string(&record).unwrap();
    assert!(owner.contains(taken_over["id"].as_str().unwrap()) && !owner.contains(removed), "{owner}");
}
