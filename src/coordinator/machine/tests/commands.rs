//! Tests of commands: ended and suspended jobs, gangs, names, targets of moves, drained and rented nodes.

use super::together::renting;
use super::*;
use model::cluster::Constraint;

fn off(job: &str) -> Command {
    Command::NodeIsOff { job: job.to_owned(), node: "a".to_owned() }
}

fn move_to(node: &str) -> Command {
    Command::Move { job: "job".to_owned(), node: node.to_owned() }
}

impl Bench {
    /// Sends a command, lets time pass, and returns the reply.
    fn answer(&mut self, command: Command) -> Result<String, Refusal> {
        let command_id = CommandId(self.replies.len() as u64 + 1);
        self.handle(Event::Command(command, command_id));
        self.passes(10);
        let found = self.replies.iter().find(|(id, _)| *id == command_id);
        found.expect("a reply").1.clone()
    }

    /// Node `a` and its tasks are lost; it no longer attests anything.
    fn loses_a(&mut self) {
        self.mute.push(node("a"));
        self.swarm.nodes.retain(|known| known.id != node("a"));
        self.swarm.tasks.retain(|task| task.node != Some(node("a")));
        self.passes(10);
    }

    fn completes(&mut self, name: &str) {
        let task = self.swarm.tasks.iter_mut().find(|task| *task.service.0 == *name).expect("a task");
        (task.state, task.is_wanted) = (TaskState::Complete, false);
        self.passes(10);
        assert_eq!(self.state(name), JobState::Done);
    }
}

/// Returns a bench with a gang of two workers on `a`, of which the first has ended.
fn half_done() -> Bench {
    let worker = |name: &str| service(name, &[(QUEUE, "true"), (labels::GANG, "gang"), (CHECKPOINT, OWN)]);
    let mut bench = Bench::with(["w1", "w2"].map(worker).to_vec());
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    bench.passes(30);
    bench.swarm.nodes[1].labels.clear();
    bench.completes("w1");
    bench.did.clear();
    bench
}

#[test]
fn a_job_that_has_ended_is_not_run_again_because_its_node_is_off() {
    let mut bench = running();
    bench.completes("job");
    bench.did.clear();
    bench.loses_a();
    assert_eq!(bench.answer(off("job")), Err(Refusal::Refused("job has ended".to_owned())));
    bench.passes(60);
    assert_eq!((bench.state("job"), bench.did.len()), (JobState::Done, 0), "{:?}", bench.did);

    let mut bench = half_done();
    bench.loses_a();
    assert_eq!(bench.answer(off("gang")), Ok("w2 no longer waits for a; w1 has ended".to_owned()));
    bench.passes(60);
    assert_eq!(["w1", "w2"].map(|name| bench.state(name)), [JobState::Done, JobState::Running]);
}

#[test]
fn a_job_that_was_being_suspended_stays_suspended_if_its_node_is_off() {
    let mut bench = running();
    bench.mute = vec![node("a")];
    assert_eq!(bench.answer(Command::Suspend("job".to_owned())), Ok("job is suspended".to_owned()));
    assert_eq!(bench.state("job"), JobState::Stopping, "without a proof");
    bench.loses_a();
    assert!(bench.answer(off("job")).is_ok());
    bench.passes(60);
    assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Suspended, None));
    assert!(bench.answer(Command::Resume("job".to_owned())).is_ok());
    bench.passes(60);
    assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Running, Some(node("b"))));
}

#[test]
fn a_command_for_a_gang_replies_with_what_it_changed() {
    let mut bench = half_done();
    let suspend = || Command::Suspend("gang".to_owned());
    assert_eq!(bench.answer(suspend()), Ok("w2 is suspended; w1 has ended".to_owned()));
    bench.passes(30);
    assert_eq!(bench.state("w2"), JobState::Suspended);
    assert_eq!(bench.answer(suspend()), Ok("w2 is suspended; w1 has ended".to_owned()), "there is nothing to change");
    let resumed = bench.answer(Command::Resume("gang".to_owned())).unwrap();
    assert!(resumed.starts_with("w2 starts as soon as there is room; w1 has ended"), "{resumed}");
    bench.passes(30);
    assert_eq!(bench.state("w2"), JobState::Running);
    assert_eq!(bench.answer(Command::Suspend("w1".to_owned())), Err(Refusal::Refused("w1 has ended".to_owned())));
    bench.completes("w2");
    assert!(matches!(bench.answer(suspend()), Err(Refusal::Refused(_))), "all of them have ended");
}

#[test]
fn a_job_is_named_by_a_unique_prefix_of_its_id() {
    let mut jobs = ["resnet", "bert"].map(|name| service(name, &[(QUEUE, "true")])).to_vec();
    (jobs[0].id, jobs[1].id) = (ServiceId("k3v9x0aaaaaa".into()), ServiceId("k3v9x0bbbbbb".into()));
    let mut bench = Bench::with(jobs);
    bench.passes(30);
    let mut suspend = |name: &str| bench.answer(Command::Suspend(name.to_owned()));
    assert_eq!(suspend("k3v9x0b"), Ok("bert is suspended".to_owned()));
    assert!(matches!(suspend("k3v"), Err(Refusal::NotFound(_))), "too short");
    let Err(Refusal::Refused(why)) = suspend("k3v9x0") else { panic!("it is ambiguous") };
    assert!(why.contains("resnet (k3v9x0aaaaaa), bert (k3v9x0bbbbbb)"), "{why}");
}

/// A change of the cluster, and the expected refusal.
type Case<'a> = (&'a dyn Fn(&mut Bench), &'a str);

#[test]
fn a_move_to_a_node_that_can_never_run_the_job_is_refused_at_once() {
    let mut bench = running();
    let cases: [Case<'_>; 4] = [
        (
            &|bench| {
                let (label, value) = ("gpu".into(), "a100".into());
                bench.swarm.services[0].constraints.push(Constraint { label, equal: true, value });
            },
            "node b violates the constraint node.labels.gpu==a100 of job",
        ),
        (
            &|bench| bench.swarm.services[0].other_constraints.push("node.hostname != b".into()),
            "node b violates the constraint node.hostname!=b of job",
        ),
        (
            &|bench| bench.swarm.nodes[1].capacity.cores = 0.5,
            "node b is too small: it has 0.5 cores, 8.0 GiB of memory and 0 GPUs, and job reserves 1.0 cores",
        ),
        (&|bench| bench.swarm.nodes[1].is_up = false, "node b accepts no jobs: Swarm reports it as down"),
    ];
    for (change, expected) in cases {
        let before = bench.swarm.clone();
        bench.swarm.nodes[0].labels.insert("gpu".into(), "a100".into());
        change(&mut bench);
        bench.swarm.services[0].version += 1;
        bench.passes(10);
        let Err(Refusal::Refused(why)) = bench.answer(move_to("b")) else { panic!("not refused: {expected}") };
        assert!(why.contains(expected), "{why}");
        assert_eq!((bench.state("job"), bench.did.len()), (JobState::Running, 0), "{:?}", bench.did);
        let version = bench.swarm.services[0].version;
        bench.swarm = before;
        bench.swarm.services[0].version = version + 1;
        bench.passes(10);
    }
    // A node without room is no reason.
    bench.swarm.nodes[1].reserved = bench.swarm.nodes[1].capacity;
    bench.passes(10);
    assert_eq!(bench.answer(move_to("b")), Ok("job is stopping, then moves to b".to_owned()));
}

#[test]
fn a_node_is_not_empty_while_a_rejected_service_runs_there() {
    let mut bench = running();
    bench.swarm.services[0].labels.insert(MOVABLE.into(), "perhaps".into());
    bench.swarm.services[0].version += 1;
    assert!(bench.answer(Command::Drain("a".to_owned())).is_ok());
    bench.passes(30);
    let workers = |bench: &Bench| bench.status.nodes.iter().map(|node| node.workers).collect::<Vec<_>>();
    assert_eq!((bench.state("job"), workers(&bench)), (JobState::Refused, vec![1, 0]));
    assert_eq!(bench.status.jobs[0].node, Some(node("a")));
    bench.swarm.tasks.clear();
    bench.passes(30);
    assert_eq!(workers(&bench), [0, 0]);
}

#[test]
fn a_former_leader_runs_no_command_of_a_rented_node() {
    let mut bench = Bench::with(Vec::new());
    bench.machine = renting();
    bench.swarm.nodes[1].labels.insert(labels::STAGE.into(), "opening".into());
    bench.swarm.is_leader = false;
    bench.passes(30);
    bench.handle(Event::HookEnded { node: node("a"), outcome: Ok(()) });
    assert_eq!(bench.did, Vec::<String>::new());
    bench.swarm.is_leader = true;
    bench.passes(30);
    assert_eq!(bench.did, ["open b"]);
}

#[test]
fn a_job_that_stays_on_a_draining_node_says_why_and_how_to_stop_it() {
    let mut bench = running();
    bench.swarm.nodes[1].reserved = bench.swarm.nodes[1].capacity;
    assert!(bench.answer(Command::Drain("a".to_owned())).is_ok());
    bench.passes(30);
    let (kind, why) = bench.why("job");
    assert!(kind == WhyKind::NoPlace && why.contains("no other node has room for it"), "{why}");
    bench.swarm.services[0].labels.insert(MOVABLE.into(), "false".into());
    bench.swarm.services[0].version += 1;
    bench.passes(10);
    let (_, why) = bench.why("job");
    let next = "its label flowcon.movable=false forbids it; to stop it, run `flowctl cluster suspend job`";
    assert!(why.ends_with(next), "{why}");
    assert!(bench.answer(Command::Undrain("a".to_owned())).is_ok());
    assert_eq!((bench.state("job"), &bench.status.jobs[0].why), (JobState::Running, &None));
}

#[test]
fn a_suspended_job_is_on_a_node_only_if_its_saved_state_is_there_alone() {
    for (is_local, expected) in [(true, Some(node("a"))), (false, None)] {
        let mut bench = running();
        bench.swarm.services[0].volumes[0].is_local = is_local;
        bench.swarm.services[0].version += 1;
        bench.passes(10);
        assert!(bench.answer(Command::Suspend("job".to_owned())).is_ok());
        bench.passes(30);
        assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Suspended, expected));
        assert_eq!(bench.status.nodes[0].workers, 0);
    }
}

#[test]
fn the_node_to_which_the_owner_pinned_a_job_before_its_first_start_stays_the_only_one() {
    let mut job = service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN)]);
    job.pin = Some(node("b"));
    let mut bench = Bench::with(vec![job]);
    bench.passes(30);
    assert_eq!(bench.did, ["starting 1@b", "running"]);
    let Err(Refusal::Refused(why)) = bench.answer(move_to("a")) else { panic!("not refused") };
    assert!(why.contains("node a violates the constraint node.id==b of job"), "{why}");
    assert!(bench.answer(Command::Suspend("job".to_owned())).is_ok());
    bench.passes(30);
    bench.swarm.nodes[1].labels.insert(labels::DRAIN.into(), "true".into());
    assert!(bench.answer(Command::Resume("job".to_owned())).is_ok());
    bench.passes(30);
    assert_eq!((bench.state("job"), bench.why("job").0), (JobState::Waiting, WhyKind::NoPlace));
}

#[test]
fn a_cancelled_job_stops_with_a_proof_and_starts_again_only_if_it_is_scaled_up() {
    let mut jobs = vec![service("job", &[(QUEUE, "true"), (CHECKPOINT, OWN)])];
    jobs.push(service("next", &[(QUEUE, "true"), (labels::AFTER, "job")]));
    let mut bench = Bench::with(jobs);
    bench.passes(30);
    bench.mute = vec![node("a"), node("b")];
    assert_eq!(bench.answer(Command::Cancel("job".to_owned())), Ok("job is cancelled".to_owned()));
    assert_eq!((bench.state("job"), bench.why("job").0), (JobState::Stopping, WhyKind::NoProof));
    assert!(matches!(bench.answer(Command::Resume("job".to_owned())), Err(Refusal::Refused(_))));
    bench.mute.clear();
    bench.passes(60);
    assert_eq!((bench.state("job"), bench.status.jobs[0].exit_code), (JobState::Cancelled, None));
    assert_eq!(bench.why("next"), (WhyKind::After, "it depends on job, which was cancelled".to_owned()));
    assert_eq!(bench.answer(Command::Cancel("next".to_owned())), Ok("next is cancelled".to_owned()));
    assert_eq!(bench.state("next"), JobState::Cancelled, "it never started");
    let ended = Err(Refusal::Refused("job has ended; run `docker service scale job=1` to run it again".to_owned()));
    assert_eq!(bench.answer(Command::Resume("job".to_owned())), ended);
    bench.swarm.services[0].mode = ServiceMode::Replicated(1);
    bench.swarm.services[0].version += 1;
    bench.passes(60);
    assert_eq!(bench.state("job"), JobState::Running);
}

#[test]
fn a_job_that_was_being_cancelled_is_cancelled_if_its_node_is_off() {
    let mut bench = running();
    bench.mute = vec![node("a")];
    assert!(bench.answer(Command::Cancel("job".to_owned())).is_ok());
    bench.loses_a();
    assert!(bench.answer(off("job")).is_ok());
    bench.passes(60);
    assert_eq!(bench.state("job"), JobState::Cancelled);
}

#[test]
fn the_output_of_a_job_is_on_its_node() {
    let bench = half_done();
    let place = |name: &str| bench.machine.place_of(name).map(|(at, of)| (at.to_string(), of.to_string()));
    assert_eq!(place("w1"), Ok(("a".to_owned(), "w1".to_owned())), "also after its end");
    assert!(matches!(place("gang"), Err(Refusal::Refused(why)) if why.contains("name one: w1, w2")));
    assert!(matches!(place("none"), Err(Refusal::NotFound(_))));
    let never = Bench::with(vec![service("job", &[(QUEUE, "true")])]);
    assert!(matches!(never.machine.place_of("job"), Err(Refusal::NotFound(_))), "before the first look");
}
