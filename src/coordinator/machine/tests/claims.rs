//! Tests of the rule that saved state has exactly one writer: which jobs may start with a checkpoint volume.

use super::labels::{AFTER, GANG, PRIORITY, TAKE_OVER, WORKERS_MIN};
use super::*;
use model::cluster::Submission;
use model::swarm::{Claim, ClaimOutcome, Owner, SavedState};

/// The recorded owners of volumes on nodes, as their agents see them.
#[derive(Default)]
pub(super) struct Volumes {
    owners: BTreeMap<(NodeId, Box<str>), Owner>,
    /// Whether no volume has files yet.
    are_empty: bool,
    /// Answers before all others.
    first: VecDeque<ClaimOutcome>,
}

impl Volumes {
    pub(super) fn claim(&mut self, claim: &Claim) -> ClaimOutcome {
        if let Some(first) = self.first.pop_front() {
            return first;
        }
        let place = (claim.node.clone(), Box::from(&*claim.volume));
        match self.owners.get(&place).map(|owner| (owner.clone(), &owner.service)) {
            Some((_, recorded)) if claim.gang.contains(recorded) => ClaimOutcome::Granted,
            Some((owner, recorded)) if *recorded != claim.owner.service && !claim.replaces.contains(recorded) => {
                ClaimOutcome::Owned { owner, is_empty: self.are_empty }
            }
            _ => {
                self.owners.insert(place, claim.owner.clone());
                ClaimOutcome::Granted
            }
        }
    }

    pub(super) fn saved_on(&self, node: &NodeId) -> Vec<SavedState> {
        let here = self.owners.iter().filter(|((at, _), _)| at == node && !self.are_empty);
        here.map(|((_, volume), owner)| SavedState { volume: (&**volume).into(), owner: owner.clone() }).collect()
    }

    fn leave(&mut self, at: &str, volume: &str, service: &str, name: &str, number: u64) {
        let owner = Owner { service: ServiceId(service.into()), name: name.into(), number };
        self.owners.insert((node(at), volume.into()), owner);
    }

    fn owner(&self, at: &str, volume: &str) -> Option<&str> {
        self.owners.get(&(node(at), volume.into())).map(|owner| &*owner.service.0)
    }
}

/// A local volume that is mounted by a service.
pub(super) fn mounted(volume: &str) -> MountedVolume {
    MountedVolume {
        name: volume.into(),
        target: "/saved".into(),
        is_local: true,
        is_read_only: false,
        labels: BTreeMap::new(),
    }
}

/// A job whose checkpoint is this volume.
fn job(name: &str, volume: &str, labels: &[(&str, &str)]) -> SwarmService {
    let labels = [&[(QUEUE, "true"), (CHECKPOINT, volume)], labels].concat();
    SwarmService { volumes: vec![mounted(volume)], ..service(name, &labels) }
}

fn taken(bench: &Bench, name: &str, contains: &[&str]) {
    let (kind, why) = bench.why(name);
    assert_eq!(kind, WhyKind::VolumeTaken, "{why}");
    contains.iter().for_each(|part| assert!(why.contains(part), "{why}: {part}"));
}

fn edit(bench: &mut Bench, name: &str, change: impl FnOnce(&mut SwarmService)) {
    let service = bench.swarm.services.iter_mut().find(|service| *service.name == *name).expect("a service");
    service.version += 1000;
    change(service);
}

fn ends(bench: &mut Bench, name: &str) {
    let task = bench.swarm.tasks.iter_mut().find(|task| *task.service.0 == *name).expect("a task");
    (task.state, task.is_wanted) = (TaskState::Complete, false);
    bench.passes(30);
    assert_eq!(bench.state(name), JobState::Done);
}

fn started(bench: &Bench) -> usize {
    bench.did.iter().filter(|did| did.starts_with("starting 1@")).count()
}

#[test]
fn of_two_jobs_with_the_same_checkpoint_volume_only_one_ever_starts() {
    let mut bench = Bench::with(vec![job("p1", "saved", &[]), job("p4", "saved", &[])]);
    bench.passes(60);
    assert_eq!(bench.state("p1"), JobState::Running);
    taken(&bench, "p4", &["volume saved", "job p1", "--after p1 --take-over p1", "use another volume"]);
    bench.handle(Event::Command(Command::Suspend("p1".to_owned()), CommandId(1)));
    bench.passes(60);
    taken(&bench, "p4", &["job p1"]);
    bench.handle(Event::Command(Command::Resume("p1".to_owned()), CommandId(2)));
    bench.passes(60);
    assert_eq!((bench.state("p1"), started(&bench)), (JobState::Running, 2));
    // A volume of its own lets it start.
    edit(&mut bench, "p4", |p4| {
        p4.labels.insert(CHECKPOINT.into(), "p4-checkpoint".into());
        p4.volumes = vec![mounted("p4-checkpoint")];
    });
    bench.passes(60);
    assert_eq!((bench.state("p4"), bench.volumes.owner("a", "saved")), (JobState::Running, Some("p1")));
}

#[test]
fn a_stopped_job_whose_volume_became_that_of_another_is_not_resumed() {
    let mut bench = Bench::with(vec![job("p1", "saved", &[]), job("p4", "mine", &[])]);
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    bench.passes(60);
    bench.handle(Event::Command(Command::Suspend("p4".to_owned()), CommandId(1)));
    bench.passes(30);
    edit(&mut bench, "p4", |p4| {
        p4.labels.insert(CHECKPOINT.into(), "saved".into());
        p4.volumes = vec![mounted("saved")];
    });
    bench.handle(Event::Command(Command::Resume("p4".to_owned()), CommandId(2)));
    bench.passes(60);
    taken(
        &bench,
        "p4",
        &["volume saved on node a holds the saved state of job p1 (p1), which is still in the cluster"],
    );
    assert_eq!(started(&bench), 2);
}

#[test]
fn a_running_job_that_got_the_volume_of_another_by_hand_says_so_and_is_not_stopped() {
    let mut bench = Bench::with(vec![job("p1", "saved", &[]), job("p4", "mine", &[])]);
    bench.passes(60);
    bench.volumes.leave("a", "saved", "p1", "p1", 0);
    bench.volumes.leave("b", "saved", "p1", "p1", 0);
    edit(&mut bench, "p4", |p4| {
        p4.labels.insert(CHECKPOINT.into(), "saved".into());
        p4.volumes = vec![mounted("saved")];
    });
    bench.passes(60);
    taken(&bench, "p4", &["holds the saved state of job p1"]);
    assert_eq!((bench.state("p4"), started(&bench)), (JobState::Running, 2));
}

#[test]
fn the_state_of_a_removed_job_is_left_alone_until_it_is_taken_over_on_its_node() {
    let mut bench = Bench::with(vec![job("new", "saved", &[])]);
    bench.volumes.leave("a", "saved", "k3v9", "old", 1);
    bench.volumes.leave("b", "saved", "k3v9", "old", 2);
    bench.passes(30);
    taken(&bench, "new", &["saved on node a", "job old (k3v9), which was removed", "--take-over old"]);
    edit(&mut bench, "new", |new| drop(new.labels.insert(TAKE_OVER.into(), "other".into())));
    bench.passes(30);
    taken(&bench, "new", &["job old"]);
    // The newest copy is on b, which is being drained: it is transferred.
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    edit(&mut bench, "new", |new| drop(new.labels.insert(TAKE_OVER.into(), "old".into())));
    // That of another worker of a gang that was removed.
    bench.volumes.leave("a", "saved", "z8y7", "old-2", 3);
    bench.passes(60);
    assert_eq!(bench.volumes.owner("b", "saved"), Some("new"));
    assert!(bench.did.contains(&"carry 1 b>a".to_owned()), "{:?}", bench.did);
}

#[test]
fn of_several_states_none_is_taken_over_if_the_newest_is_unknown() {
    let mut bench = Bench::with(vec![job("new", "saved", &[(TAKE_OVER, "old")])]);
    bench.volumes.leave("a", "saved", "k3v9", "old", 2);
    bench.volumes.leave("b", "saved", "k3v9", "old", 2);
    bench.passes(30);
    taken(&bench, "new", &["nodes a and b", "docker volume rm saved"]);
    assert_eq!(started(&bench), 0);
}

#[test]
fn a_node_that_does_not_respond_may_hold_the_newest_state() {
    let mut bench = Bench::with(vec![job("new", "saved", &[(TAKE_OVER, "old")])]);
    bench.volumes.leave("a", "saved", "k3v9", "old", 2);
    bench.swarm.nodes.push(SwarmNode { is_up: false, ..swarm_node("c") });
    bench.agents.silent = Some(node("c"));
    bench.passes(30);
    assert_eq!((bench.why("new").0, started(&bench)), (WhyKind::StateOutOfReach, 0));
    bench.swarm.nodes.pop();
    bench.passes(30);
    assert_eq!((bench.state("new"), bench.volumes.owner("a", "saved")), (JobState::Running, Some("new")));
}

#[test]
fn without_a_state_to_take_over_the_job_starts_if_all_nodes_respond() {
    let mut bench = Bench::with(vec![job("new", "saved", &[(TAKE_OVER, "new")])]);
    bench.passes(30);
    assert_eq!(bench.state("new"), JobState::Running);
}

#[test]
fn the_state_of_a_job_that_has_ended_is_taken_over_and_it_cannot_start_again() {
    let mut bench = Bench::with(vec![
        job("first", "saved", &[]),
        job("second", "saved", &[(TAKE_OVER, "first"), (AFTER, "first")]),
        job("third", "saved", &[]),
    ]);
    bench.passes(30);
    assert_eq!(bench.why("second").0, WhyKind::After);
    ends(&mut bench, "first");
    bench.passes(30);
    assert_eq!((bench.state("second"), bench.volumes.owner("a", "saved")), (JobState::Running, Some("second")));
    taken(&bench, "third", &["job"]);
    edit(&mut bench, "first", |first| first.mode = ServiceMode::Replicated(1));
    bench.passes(60);
    taken(&bench, "first", &["holds the saved state of job second"]);
}

#[test]
fn a_volume_that_a_removed_job_never_wrote_to_is_free() {
    let mut bench = Bench::with(vec![job("new", "saved", &[])]);
    bench.volumes.leave("a", "saved", "k3v9", "old", 0);
    bench.volumes.leave("b", "saved", "k3v9", "old", 0);
    bench.volumes.are_empty = true;
    bench.passes(30);
    assert_eq!(bench.state("new"), JobState::Running);
}

#[test]
fn files_of_unknown_origin_and_a_container_started_by_hand_keep_a_job_waiting() {
    let mut bench = Bench::with(vec![job("new", "saved", &[])]);
    bench.volumes.first = vec![ClaimOutcome::Unowned; 9].into();
    bench.passes(30);
    taken(&bench, "new", &["no job is recorded as their owner", "flowcon.take-over=unknown"]);
    bench.volumes.first = vec![ClaimOutcome::InUse("by-hand".into()); 9].into();
    bench.passes(30);
    taken(&bench, "new", &["container by-hand on node a can write to volume saved"]);
    bench.volumes.first.clear();
    bench.passes(30);
    assert_eq!(bench.state("new"), JobState::Running, "the agent is asked again");
}

#[test]
fn an_agent_that_does_not_answer_delays_a_start() {
    let mut bench = Bench::with(vec![job("new", "saved", &[])]);
    bench.volumes.first = [ClaimOutcome::Unknown("no reply".to_owned())].into();
    bench.passes(4);
    assert_eq!((started(&bench), bench.why("new").0), (0, WhyKind::InProgress));
    bench.passes(60);
    assert_eq!((started(&bench), bench.state("new")), (1, JobState::Running));
}

#[test]
fn workers_of_a_gang_share_a_volume_and_the_first_is_its_owner() {
    let worker = |name| job(name, "saved", &[(GANG, "gang")]);
    let mut bench = Bench::with(vec![worker("w1"), worker("w2"), worker("w3")]);
    bench.passes(60);
    assert!(["w1", "w2", "w3"].iter().all(|name| bench.state(name) == JobState::Running), "{:?}", bench.did);
    assert!(bench.volumes.owner("a", "saved").is_some_and(|owner| owner.starts_with('w')));
    let mut other = Bench::with(vec![worker("w1"), worker("w2"), job("x", "saved", &[])]);
    other.passes(60);
    taken(&other, "x", &["job w1"]);
}

#[test]
fn another_job_may_read_a_checkpoint_volume_but_writes_to_it_only_after_the_end() {
    let reader = |name, is_read_only| {
        let mut service = service(name, &[(QUEUE, "true")]);
        service.volumes = vec![MountedVolume { is_read_only, target: "/in".into(), ..mounted("saved") }];
        service
    };
    let mut bench = Bench::with(vec![job("a", "saved", &[]), reader("reads", true), reader("writes", false)]);
    bench.passes(60);
    assert_eq!((bench.state("a"), bench.state("reads")), (JobState::Running, JobState::Running));
    taken(&bench, "writes", &["holds the saved state of job a: mount it read-only"]);
    ends(&mut bench, "a");
    bench.passes(30);
    assert_eq!(bench.state("writes"), JobState::Running);
}

#[test]
fn a_submission_is_refused_if_a_service_or_a_removed_job_has_its_volume() {
    let submission = |name: &str, labels: &[(&str, &str)]| Submission {
        name: name.into(),
        labels: job("x", "saved", labels).labels,
        volumes: vec![("saved".into(), "/saved".into())],
        ..Submission::default()
    };
    let mut by_hand = service("by-hand", &[]);
    by_hand.volumes = vec![mounted("saved")];
    for (service, labels, expected) in [
        (job("p1", "saved", &[]), &[][..], Some("volume saved holds the saved state of job p1")),
        (job("p1", "saved", &[]), &[(TAKE_OVER, "p1")][..], None),
        (job("p1", "other", &[]), &[][..], None),
        (job("w1", "saved", &[(GANG, "g")]), &[(GANG, "g"), (WORKERS_MIN, "2")][..], None),
        (job("w1", "saved", &[(GANG, "g")]), &[(GANG, "h"), (WORKERS_MIN, "2")][..], Some("job w1")),
        (job("p1", "other", &[]), &[(GANG, "g")][..], Some("its first worker would start alone")),
        (
            job("p1", "other", &[]),
            &[(PRIORITY, "200")][..],
            Some("flowcon.priority=200: expected a number from 1 to 100"),
        ),
        (job("p4", "other", &[]), &[][..], Some("there is a service called p4 already")),
        (by_hand, &[][..], Some("service by-hand can write to volume saved, too")),
    ] {
        let found = check_submission(&submission("p4", labels), &[service]).map_err(|why| why.to_string()).err();
        assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()));
    }
    let mut started = job("p1", "saved", &[]);
    started.labels.insert("flowcon.cluster.home".into(), "a".into());
    let found = check_submission(&submission("p5", &[]), &[job("p4", "saved", &[]), started]).expect_err("refused");
    assert!(found.to_string().contains("job p1"), "the one that has started: {found}");
    let mut bench = Bench::with(vec![job("p1", "p1-checkpoint", &[])]);
    bench.volumes.leave("b", "saved", "k3v9", "old", 0);
    bench.passes(10);
    let found = bench.machine.check_saved_state(&submission("p4", &[])).expect_err("refused").to_string();
    assert!(found.contains("on node b holds the saved state of job old (k3v9), which was removed"), "{found}");
    assert_eq!(bench.machine.check_saved_state(&submission("p4", &[(TAKE_OVER, "old")])), Ok(()));
}
