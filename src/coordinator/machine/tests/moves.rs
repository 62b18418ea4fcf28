//! Tests of moves whose first proof does not hold, and of lost compare-and-swaps.

use super::*;

#[test]
fn the_state_is_transferred_again_if_a_container_lived_or_the_state_changed_after_the_first_proof() {
    for attestations in [vec![Attestation::Gone, Attestation::Alive(1)], vec![Attestation::Gone, Attestation::Changed]]
    {
        let mut bench = running();
        bench.attestations = attestations.into();
        bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
        bench.passes(60);
        bench.did.retain(|did| !did.starts_with("ask"));
        assert_eq!(
            bench.did,
            [
                "stopping 0@flowcon-nowhere",
                "carrying 0@flowcon-nowhere",
                "carry 1 a>b",
                "carrying 0@flowcon-nowhere",
                "carry 2 a>b",
                "starting 1@b",
                "running"
            ]
        );
    }
}

#[test]
fn a_job_whose_state_keeps_changing_returns_to_its_source() {
    let mut bench = running();
    bench.attestations = std::iter::repeat_n(Attestation::Changed, 1000).collect();
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    bench.passes(60);
    assert_eq!(bench.did.iter().filter(|did| did.starts_with("carry ")).count(), 4);
    assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Running, Some(node("a"))));
}

#[test]
fn while_swarm_lists_tasks_of_a_job_it_does_not_start_before_the_time_to_settle() {
    let (mut bench, mut other) = (running(), running());
    bench.lets_go = false;
    for bench in [&mut bench, &mut other] {
        bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
        bench.passes(1);
    }
    let started = "starting 1@b".to_owned();
    assert!(!bench.did.contains(&started) && other.did.contains(&started), "{:?} {:?}", bench.did, other.did);
    bench.passes(CoordinatorSettings::default().settle.0 / 1000 + 1);
    assert!(bench.did.contains(&started), "{:?}", bench.did);
}

#[test]
fn an_attestation_without_comparison_does_not_prove_that_the_newest_state_was_transferred() {
    let mut bench = running();
    bench.lets_go = false;
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    // The target accepts no jobs, so the source is asked for the return; before it replies, the target is ready again.
    bench.swarm.nodes[1].availability = Availability::Drain;
    bench.withheld = Some(Vec::new());
    bench.passes(CoordinatorSettings::default().settle.0 / 1000 + 5);
    let asked = bench.withheld.replace(Vec::new()).expect("withheld");
    assert!(!asked.is_empty() && asked.iter().all(|question| question.carried.is_none()), "{asked:?}");
    bench.swarm.nodes[1].availability = Availability::Active;
    bench.passes(5);
    asked.into_iter().for_each(|question| bench.handle(Event::Attested(question, Attestation::Gone)));
    bench.passes(1);
    let started = "starting 1@b".to_owned();
    assert!(!bench.did.contains(&started), "{:?}", bench.did);
    let asked = bench.withheld.take().expect("withheld");
    assert!(asked.iter().any(|question| question.carried == Some(1)), "{asked:?}");
    asked.into_iter().for_each(|question| bench.handle(Event::Attested(question, Attestation::Gone)));
    bench.passes(1);
    assert!(bench.did.contains(&started), "{:?}", bench.did);
}

#[test]
fn after_a_lost_compare_and_swap_the_service_is_read_again_and_nothing_is_overwritten() {
    let mut bench = running();
    // Another client changes the service between the last look and the write.
    bench.swarm.services[0].version += 1;
    bench.swarm.services[0].labels.insert(MOVABLE.into(), "false".into());
    let theirs = bench.swarm.services[0].clone();
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    bench.passes(30);
    assert_eq!(bench.out_of_date, 1);
    assert_eq!((&bench.swarm.services[0], bench.did.len()), (&theirs, 0));
    assert!(
        matches!(&bench.replies[..], [(CommandId(1), Err(Refusal::Refused(why)))] if why.contains("flowcon.movable=false"))
    );
}

#[test]
fn the_cost_of_a_move_does_not_include_waiting_for_the_cpu_of_a_full_node() {
    let cost = |used_cores: Option<f64>| {
        let mut bench = running();
        bench.agents.used_cores = used_cores;
        bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
        bench.passes(60);
        assert_eq!(bench.status.jobs[0].node, Some(node("b")));
        bench.machine.move_s.mean().expect("a finished move")
    };
    let cores = running().swarm.nodes[0].capacity.cores;
    // The worker has been up for 5 s, with 4 s of CPU time.
    assert_eq!(cost(None) - cost(Some(cores)), 1.0);
    assert_eq!(cost(None), cost(Some(0.5 * cores)));
}

#[test]
fn a_node_that_looks_idle_for_a_moment_has_no_cpu_to_spare() {
    let mut bench = running();
    let mut used = |cores: f64, seconds: u64| {
        bench.agents.used_cores = Some(cores);
        bench.passes(seconds);
        let at = At { now: Millis(bench.at), unix: Millis(1_700_000_000_000 + bench.at) };
        bench.machine.observe(at).observation.nodes[0].used_cores
    };
    assert_eq!(used(2.0, 30), Some(2.0));
    assert_eq!(used(0.5, 15), Some(2.0), "one of its jobs starts");
    assert_eq!(used(0.5, 90), Some(0.5), "its jobs need no more");
}

#[test]
fn a_moved_job_stays_for_ten_times_the_cost_of_a_move() {
    let is_movable = |bench: &mut Bench| {
        let at = At { now: Millis(bench.at), unix: Millis(1_700_000_000_000 + bench.at) };
        bench.machine.observe(at).observation.jobs[0].movable
    };
    let mut bench = running();
    assert!(is_movable(&mut bench), "it was never moved");
    bench.handle(Event::Command(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, CommandId(1)));
    while bench.machine.move_s.mean().is_none() {
        bench.passes(1);
    }
    let (cost, arrived) = (bench.machine.move_s.mean().expect("measured"), bench.at);
    while !is_movable(&mut bench) {
        bench.passes(1);
    }
    let stayed = (bench.at - arrived) as f64 / 1000.0;
    assert!(cost > 1.0 && (10.0 * cost..10.0 * cost + 3.0).contains(&stayed), "{stayed} s at {cost} s");
}

#[test]
fn a_job_that_swarm_stopped_for_the_availability_of_its_node_leaves_at_once() {
    for availability in [Availability::Drain, Availability::Pause] {
        let mut bench = running();
        bench.swarm.nodes[0].availability = availability;
        bench.passes(60);
        assert_eq!((bench.state("job"), bench.did.len()), (JobState::Running, 0), "as long as its task runs");
        // Swarm has stopped the task, and finds no node for its replacement.
        let task = &mut bench.swarm.tasks[0];
        (task.id, task.node, task.state) = ("replacement".into(), None, TaskState::Preparing);
        bench.passes(20);
        assert!(bench.did.contains(&"carry 1 a>b".to_owned()), "{:?}", bench.did);
        assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Running, Some(node("b"))));
        assert_eq!(bench.status.jobs[0].mark, None, "that is no failure of the job");
    }
}

#[test]
fn a_running_job_that_swarm_cannot_place_again_goes_back_to_the_queue() {
    let mut bench = running();
    // Its node has become too small for it, so Swarm finds no node for a replacement of its task.
    bench.swarm.nodes[0].capacity.cores = 0.5;
    let task = &mut bench.swarm.tasks[0];
    (task.id, task.node, task.state) = ("replacement".into(), None, TaskState::Preparing);
    task.error = Some("no suitable node (scheduling constraints not satisfied on 2 nodes)".into());
    bench.mute = vec![node("a")];
    let start_within = CoordinatorSettings::default().start_within.0 / 1000;
    bench.passes(start_within - 10);
    assert_eq!((bench.state("job"), bench.did.len()), (JobState::Running, 0), "{:?}", bench.did);
    bench.passes(20);
    assert_eq!(bench.state("job"), JobState::Stopping);
    let why = &bench.swarm.services[0].labels[format!("{}why", labels::INTERNAL_PREFIX).as_str()];
    assert!(why.contains("no suitable node"), "{why}");
    bench.mute.clear();
    bench.passes(60);
    assert!(bench.did.contains(&"carry 1 a>b".to_owned()), "{:?}", bench.did);
    assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Running, Some(node("b"))));
}
