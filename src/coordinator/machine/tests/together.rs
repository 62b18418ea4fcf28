//! Tests of gangs, rented nodes, reservations, grace periods and deadlines.

use super::*;

#[test]
fn a_gang_that_lacks_a_worker_stops_as_a_whole_and_resumes_as_a_whole() {
    let worker = |name: &str| service(name, &[(QUEUE, "true"), (labels::GANG, "gang"), (CHECKPOINT, OWN)]);
    let mut bench = Bench::with(["w1", "w2", "w3"].map(worker).to_vec());
    let states = |bench: &Bench| ["w1", "w2", "w3"].map(|name| bench.state(name));
    bench.passes(30);
    assert_eq!(states(&bench), [JobState::Running; 3]);
    bench.handle(Event::Command(Command::Suspend("w2".to_owned()), CommandId(1)));
    bench.passes(60);
    assert_eq!(states(&bench), [JobState::Waiting, JobState::Suspended, JobState::Waiting]);
    assert_eq!(bench.why("w1"), (WhyKind::Gang, "its gang needs 3 workers, but only 2 can start now".into()));
    bench.handle(Event::Command(Command::Resume("w2".to_owned()), CommandId(2)));
    bench.passes(60);
    assert_eq!(states(&bench), [JobState::Running; 3]);
    // A worker with an invalid label is left alone, and so are the others, which still run.
    bench.swarm.services[0].labels.insert(MOVABLE.into(), "perhaps".into());
    bench.swarm.services[0].version += 1;
    bench.passes(60);
    assert_eq!(states(&bench), [JobState::Refused, JobState::Running, JobState::Running]);
}

#[test]
fn an_incomplete_gang_does_not_start() {
    let worker = |name: &str| service(name, &[(QUEUE, "true"), (labels::GANG, "gang"), (labels::WORKERS_MIN, "5")]);
    let mut bench = Bench::with(["w1", "w2", "w3", "w4"].map(worker).to_vec());
    bench.passes(30);
    assert_eq!((bench.did.len(), bench.why("w1").0), (0, WhyKind::Gang));
    bench.swarm.services.push(worker("w5"));
    bench.passes(30);
    assert_eq!((bench.did.len(), bench.why("w1").0), (0, WhyKind::NoPlace), "two nodes of two cores hold four");
    bench.swarm.nodes[0].capacity.cores = 3.0;
    bench.passes(30);
    assert_eq!(bench.did.iter().filter(|did| did.starts_with("starting")).count(), 5);
}

#[test]
fn a_parameter_server_is_not_scaled_and_ends_with_its_workers() {
    let member = |name: &str, role: &str| {
        let labels = [(QUEUE, "true"), (labels::GANG, "gang"), (labels::ROLE, role), (CHECKPOINT, OWN)];
        service(name, &[&labels[..], &[(labels::WORKERS_MIN, "1"), (labels::WORKERS_MAX, "3")]].concat())
    };
    let workers = ["w1", "w2", "w3"].map(|name| member(name, "worker"));
    let mut bench = Bench::with([&workers[..], &[member("z-ps", "parameter-server")]].concat());
    let states = |bench: &Bench| ["z-ps", "w1", "w2", "w3"].map(|name| bench.state(name));
    bench.passes(60);
    assert_eq!(bench.did[..2], ["starting 1@a", "starting 1@a"], "the minimum: the server and one worker");
    assert_eq!(states(&bench), [JobState::Running; 4], "four cores are free");
    let mut urgent = service("urgent", &[(QUEUE, "true"), (labels::PRIORITY, "90")]);
    urgent.request.cores = 2.0;
    bench.swarm.services.push(urgent);
    bench.passes(60);
    assert_eq!(bench.state("urgent"), JobState::Running);
    assert_eq!(states(&bench)[..2], [JobState::Running; 2], "only the workers above the minimum make room");
    for service in ["w1", "w2", "w3"] {
        let task = bench.swarm.tasks.iter_mut().find(|task| &*task.service.0 == service && task.is_wanted);
        if let Some(task) = task {
            (task.state, task.is_wanted, task.exit_code) = (TaskState::Complete, false, Some(0));
        }
        bench.handle(Event::Command(Command::Cancel(service.to_owned()), CommandId(1)));
    }
    bench.passes(60);
    assert_eq!(bench.state("z-ps"), JobState::Done);
    assert!(bench.emitted.iter().any(|event| event.contains("the workers that it serves have ended")));
}

/// A machine that opens and closes rented nodes.
pub(super) fn renting() -> Machine {
    let command = |word: &str| vec![word.to_owned()];
    Machine::new(CoordinatorSettings {
        rent: Some(RentSettings {
            close_after: Millis::from_secs(60),
            open_command: command("open"),
            close_command: command("close"),
            command_within: Millis::from_secs(5),
        }),
        ..CoordinatorSettings::default()
    })
}

#[test]
fn an_idle_rented_node_is_closed_and_a_waiting_job_opens_it_again() {
    let mut bench = Bench::with(vec![service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN)])]);
    bench.machine = renting();
    bench.swarm.nodes[1].labels.insert(labels::RENTED.into(), "true".into());
    bench.swarm.nodes[0].labels.insert(labels::RENTED.into(), "true".into());
    bench.passes(200);
    assert_eq!(bench.did, ["starting 1@a", "running", "close b"], "managers are never closed");
    assert_eq!(bench.swarm.nodes[1].availability, Availability::Drain);
    bench.swarm.services.push(service("next", &[(QUEUE, "true")]));
    bench.swarm.services[1].request.cores = 2.0;
    bench.passes(60);
    assert_eq!(bench.did[3..], ["open b", "starting 1@b", "running"]);
    assert!(!bench.swarm.nodes[1].labels.contains_key(labels::STAGE));
}

#[test]
fn a_rented_node_with_governed_work_that_is_no_service_is_not_closed() {
    let mut bench = Bench::with(vec![service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN)])]);
    bench.machine = renting();
    bench.swarm.nodes[1].labels.insert(labels::RENTED.into(), "true".into());
    bench.agents.others = vec![node("b")];
    bench.passes(200);
    assert_eq!(bench.did, ["starting 1@a", "running"]);
    bench.agents.others.clear();
    bench.passes(200);
    assert_eq!(bench.did[2..], ["close b"]);
}

#[test]
fn reservations_of_services_that_are_not_jobs_are_not_free() {
    let mut bench = Bench::with(vec![service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN)])]);
    for node in &mut bench.swarm.nodes {
        node.reserved = Resources { cores: 1.5, memory: Bytes(1 << 30), gpus: 0 };
    }
    bench.passes(30);
    assert_eq!((bench.did.len(), bench.why("job").0), (0, WhyKind::NoPlace), "half a core is free on each node");
    assert!(bench.status.nodes.iter().all(|node| node.capacity.cores == 0.5));
    // The other service has ended on b.
    bench.swarm.nodes[1].reserved = Resources::default();
    bench.passes(30);
    assert_eq!(bench.did, ["starting 1@b", "running"]);
    assert_eq!(bench.status.nodes[1].capacity.cores, 2.0);
}

#[test]
fn the_stop_grace_of_a_service_is_raised_before_its_start_and_never_shortened() {
    let secs = Millis::from_secs;
    let job = |name: &str, label: Option<&str>, configured: Option<Millis>, saves: bool| {
        let mut labels = vec![(QUEUE, "true")];
        labels.extend(label.map(|label| (labels::STOP_GRACE, label)));
        labels.extend(saves.then_some((CHECKPOINT, OWN)));
        SwarmService { stop_grace: configured, volumes: Vec::new(), ..service(name, &labels) }
    };
    for (label, configured, saves, expected) in [
        (Some("5m"), None, false, Some(secs(300))),
        (Some("5m"), Some(secs(10)), false, Some(secs(300))),
        (Some("5s"), Some(secs(10)), false, Some(secs(10))),
        (None, None, true, Some(secs(120))),
        (None, Some(secs(30)), true, Some(secs(30))),
        (None, None, false, None),
    ] {
        let mut service = job("job", label, configured, saves);
        service.volumes = vec![MountedVolume { is_local: false, ..mounted("job-saved") }];
        let other =
            SwarmService { labels: [(labels::STOP_GRACE.into(), "9m".into())].into(), ..job("x", None, None, false) };
        let mut bench = Bench::with(vec![service, other]);
        bench.passes(30);
        assert_eq!(bench.did, ["starting 1@a", "running"]);
        assert_eq!(bench.swarm.services[0].stop_grace, expected, "{label:?} {configured:?}");
        assert_eq!((bench.swarm.services[1].stop_grace, bench.swarm.services[1].version), (None, 1));
    }
}

#[test]
fn the_earlier_deadline_goes_first_and_expected_ends_are_reported() {
    const BEGAN: u64 = 1_700_000_000_000;
    let job = |name: &str, created: u64, deadline: &str| {
        let labels = [(QUEUE, "true"), (labels::DEADLINE, deadline), (labels::DURATION, "1h")];
        let mut service = service(name, &labels);
        (service.created, service.request.cores) = (Millis(BEGAN + created), 2.0);
        service
    };
    let jobs = vec![job("a-far", 1, "10h"), job("b-near", 2, "2h"), job("c-past", 3, "2023-11-14T22:00Z")];
    let mut bench = Bench::with(jobs);
    let mut settings = CoordinatorSettings::default();
    settings.cluster.queue = model::cluster::QueueRule::Deadlines;
    bench.machine = Machine::new(settings);
    bench.passes(30);
    assert_eq!(
        ["a-far", "b-near", "c-past"].map(|name| bench.state(name)),
        [JobState::Waiting, JobState::Running, JobState::Running]
    );
    let status = |name: &str| bench.status.jobs.iter().find(|job| &*job.name == name).expect("a job");
    let (far, near) = (status("a-far"), status("b-near"));
    assert_eq!(far.deadline, Some(Millis(BEGAN + 1 + 36_000_000)));
    // Running jobs have seven units of a minute left; the waiting one then takes an hour.
    let ends = [near, far].map(|job| job.expected_end.expect("a forecast").0 / 60_000);
    let now = bench.status.at.0 / 60_000;
    assert!((now + 6..=now + 7).contains(&ends[0]) && (now + 66..=now + 67).contains(&ends[1]), "{ends:?} at {now}");
    let is_late = |name: &str| status(name).is_late(bench.status.at);
    assert_eq!(["a-far", "b-near", "c-past"].map(is_late), [Some(false), Some(false), Some(true)]);
    let started: Vec<_> =
        bench.did.iter().filter(|did| did.starts_with("starting") || did.contains("stopping")).collect();
    assert_eq!(started.len(), 2, "{started:?}");
}
