//! Tests of what operators are told: events with names, reasons, progress and its loss.

use super::*;
use model::swarm::EndedWorker;

/// Returns the event that contains these words.
fn event<'a>(bench: &'a Bench, words: &str) -> &'a str {
    let found = bench.emitted.iter().find(|event| event.contains(words));
    found.unwrap_or_else(|| panic!("no event with `{words}`: {:#?}", bench.emitted))
}

/// The current start of the job fails, as Swarm reports it.
fn fails(bench: &mut Bench, error: &str) {
    let task = bench.swarm.tasks.last_mut().expect("a task");
    (task.state, task.is_wanted, task.error) = (TaskState::Failed, false, Some(error.into()));
}

#[test]
fn events_name_the_job_and_the_node_and_the_latest_survive_a_restart_of_the_coordinator() {
    let mut bench = running();
    assert!(event(&bench, "job: starting on a: delays jobs least there").len() > 10);
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    bench.passes(60);
    event(&bench, "job: stopping, then to b: moved by an operator");
    event(&bench, "job: proven gone: transferring its saved state, to b");
    event(&bench, "job: starting on b");
    assert_eq!(bench.status.jobs[0].reason.as_deref(), Some("moved by an operator"));
    let before = bench.status.jobs[0].log.clone();
    assert!((6..=8).contains(&before.len()), "{before:?}");
    let told = std::mem::take(&mut bench.emitted);
    bench.machine = Machine::new(CoordinatorSettings::default());
    bench.passes(5);
    assert_eq!(bench.emitted, told[told.len() - before.len()..]);
    assert_eq!(
        (&bench.status.jobs[0].log, bench.status.jobs[0].reason.as_deref()),
        (&before, Some("moved by an operator"))
    );
    bench.handle(Event::Command(Command::Drain("b".to_owned()), CommandId(2)));
    bench.passes(60);
    event(&bench, "node b is draining");
    event(&bench, "job: stopping, then to a: the node is being drained");
    bench.swarm.services.clear();
    bench.passes(10);
    event(&bench, "service job was removed");
}

#[test]
fn a_job_that_has_ended_has_the_last_progress_that_its_node_reports() {
    let mut bench = running();
    let task = &mut bench.swarm.tasks[0];
    (task.state, task.is_wanted) = (TaskState::Complete, false);
    let task = task.id.clone();
    bench.passes(10);
    assert_eq!((bench.state("job"), bench.status.jobs[0].units), (JobState::Done, Some(3.0)));
    bench.agents.ended = vec![
        EndedWorker { task: "of another".into(), units: Some(99.0), total: None },
        EndedWorker { task, units: Some(10.0), total: Some(10.0) },
    ];
    bench.passes(10);
    let progress = |bench: &Bench| (bench.status.jobs[0].units, bench.status.jobs[0].total);
    assert_eq!(progress(&bench), (Some(10.0), Some(10.0)));
    bench.agents.ended.clear();
    bench.machine = Machine::new(CoordinatorSettings::default());
    bench.passes(10);
    assert_eq!(progress(&bench), (Some(10.0), Some(10.0)), "it is a label");
    assert_eq!(bench.did.iter().filter(|did| *did == "done").count(), 1, "written once: {:?}", bench.did);
}

#[test]
fn a_lost_node_says_how_far_its_job_was_and_what_is_lost() {
    let mut bench = running();
    bench.swarm.nodes[0].is_up = false;
    bench.swarm.tasks[0].is_wanted = false;
    (bench.mute, bench.agents.silent) = (vec![node("a")], Some(node("a")));
    bench.passes(60);
    event(
        &bench,
        "its node a is lost after 3 of 10 units; those since its last save are lost, and its saved state is there",
    );
    assert_eq!((bench.state("job"), bench.status.jobs[0].units), (JobState::Stopping, Some(3.0)));
    // It is back, and its job goes on from its last save.
    bench.agents.units = 1.0;
    bench.swarm.nodes[0].is_up = true;
    bench.mute.clear();
    bench.agents.silent = None;
    bench.passes(60);
    event(&bench, "running; it goes on from unit 1: 2 units of work are lost");
    assert_eq!((bench.state("job"), bench.status.jobs[0].units), (JobState::Running, Some(1.0)));
}

#[test]
fn a_job_that_failed_to_start_waits_with_that_reason() {
    let mut bench = Bench::with(vec![service("job", &[(QUEUE, "true")])]);
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    bench.passes(6);
    fails(&mut bench, "No such image: train:7");
    bench.passes(12);
    let (kind, why) = bench.why("job");
    assert_eq!(kind, WhyKind::NoPlace);
    assert!(why.starts_with("it failed to start on a: No such image: train:7; that node is tried again in "), "{why}");
}

#[test]
fn a_worker_that_was_scaled_down_says_that_its_gang_runs_without_it() {
    let labels = [(QUEUE, "true"), (labels::GANG, "gang"), (labels::WORKERS_MIN, "1")];
    let worker = |name: &str| service(name, &[&labels[..], &[(CHECKPOINT, OWN)]].concat());
    let mut bench = Bench::with(["w1", "w2", "w3", "w4"].map(worker).to_vec());
    bench.passes(60);
    assert_eq!(bench.state("w4"), JobState::Running, "the room of all is free");
    let mut urgent = service("urgent", &[(QUEUE, "true"), (labels::PRIORITY, "90")]);
    urgent.request.cores = 2.0;
    bench.swarm.services.push(urgent);
    bench.passes(60);
    assert_eq!(bench.state("urgent"), JobState::Running);
    let waiting = bench.status.jobs.iter().find(|job| job.state == JobState::Waiting).expect("scaled down");
    let why = waiting.why.clone().expect("a reason");
    assert_eq!(why.kind, WhyKind::Gang);
    assert!(why.text.starts_with("its gang runs with ") && why.text.contains(" of 4 workers"), "{}", why.text);
    let reason = "makes room for a job that is more important or waited too long";
    assert_eq!(waiting.reason.as_deref(), Some(reason));
}
