//! Tests of services that were started manually.

use super::*;

/// Returns a bench with a job that was started without a pin and runs on `b`.
fn unpinned(change: impl FnOnce(&mut SwarmService)) -> Bench {
    let mut job = service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN)]);
    job.mode = ServiceMode::Replicated(1);
    change(&mut job);
    let mut bench = Bench::with(vec![job]);
    bench.swarm.tasks.push(SwarmTask {
        id: "theirs".into(),
        service: ServiceId("job".into()),
        node: Some(node("b")),
        state: TaskState::Running,
        is_wanted: true,
        exit_code: None,
        error: None,
        changed: Millis(1),
    });
    bench.passes(30);
    let (kind, why) = bench.why("job");
    assert!(kind == WhyKind::Foreign && why.contains("docker service scale job=0"), "{why}");
    assert_eq!((bench.swarm.tasks.len(), bench.status.nodes[1].workers), (1, 1));
    bench
}

fn scale_to_0(bench: &mut Bench) {
    (bench.swarm.services[0].mode, bench.swarm.services[0].version) = (ServiceMode::Replicated(0), 100);
    bench.swarm.tasks.clear();
    bench.passes(60);
    assert_eq!(bench.state("job"), JobState::Running);
}

#[test]
fn the_saved_state_of_a_job_that_ran_without_a_pin_is_transferred() {
    let mut bench = unpinned(|_| {});
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    scale_to_0(&mut bench);
    assert!(bench.did.contains(&"carry 1 b>a".to_owned()), "{:?}", bench.did);
    assert_eq!(bench.status.jobs[0].node, Some(node("a")));
}

#[test]
fn a_job_with_other_local_volumes_starts_where_it_ran_without_a_pin() {
    let mut bench = unpinned(|job| job.volumes.push(mounted("data")));
    scale_to_0(&mut bench);
    assert!(bench.did.contains(&"starting 1@b".to_owned()), "{:?}", bench.did);
    assert_eq!(bench.status.jobs[0].node, Some(node("b")));
}

#[test]
fn a_job_that_its_owner_pins_to_the_node_where_it_runs_is_taken_over() {
    let mut bench = unpinned(|_| {});
    (bench.swarm.services[0].pin, bench.swarm.services[0].version) = (Some(node("b")), 100);
    bench.passes(60);
    assert_eq!((bench.state("job"), bench.swarm.tasks.len()), (JobState::Running, 1));
    assert!(bench.did.iter().all(|did| !did.contains('@')), "it is not restarted: {:?}", bench.did);
}

/// `docker stack deploy`: the service is as in its file again, without the internal labels.
fn redeploys(bench: &mut Bench) {
    let service = &mut bench.swarm.services[0];
    service.previous_labels = service.labels.clone();
    service.labels.retain(|label, _| !label.starts_with(labels::INTERNAL_PREFIX));
    (service.mode, service.pin, service.version) = (ServiceMode::Replicated(0), None, 100);
    bench.swarm.tasks.clear();
}

#[test]
fn a_job_whose_stack_is_deployed_again_goes_back_to_the_queue_and_keeps_its_saved_state() {
    let mut bench = running();
    // It may start on b only, so its state must be transferred.
    bench.swarm.nodes[0].labels.insert(labels::DRAIN.into(), "true".into());
    redeploys(&mut bench);
    bench.passes(60);
    assert_eq!(bench.did[0], "stopping 0@flowcon-nowhere");
    assert!(bench.did.contains(&"carry 1 a>b".to_owned()), "{:?}", bench.did);
    assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Running, Some(node("b"))));
}

#[test]
fn a_job_that_has_ended_is_not_run_again_when_its_stack_is_deployed_again() {
    let mut bench = running();
    (bench.swarm.tasks[0].state, bench.swarm.tasks[0].is_wanted) = (TaskState::Complete, false);
    bench.passes(10);
    redeploys(&mut bench);
    bench.passes(60);
    assert_eq!((bench.state("job"), bench.status.jobs[0].exit_code), (JobState::Done, Some(0)));
    assert_eq!(bench.did, ["done 0@flowcon-nowhere", "done 0@flowcon-nowhere"]);
}

#[test]
fn the_labels_of_a_running_job_are_restored_without_stopping_it() {
    let mut bench = running();
    let service = &mut bench.swarm.services[0];
    service.previous_labels = service.labels.clone();
    service.labels.retain(|label, _| !label.starts_with(labels::INTERNAL_PREFIX));
    service.version = 100;
    bench.passes(30);
    assert_eq!((bench.state("job"), bench.swarm.tasks.len()), (JobState::Running, 1));
    assert_eq!(bench.did, ["running"]);
    let service = &mut bench.swarm.services[0];
    let log = service.labels.remove("flowcon.cluster.log").expect("the log of its events");
    let before = service.previous_labels.remove("flowcon.cluster.log").expect("the log before");
    assert!(log.starts_with(&*before) && log.ends_with("; restored"), "{log}");
    assert_eq!(service.labels, service.previous_labels);
}
