//! Moves whose first proof does not hold, and changes that somebody else was quicker with. Imports: the machine, and the Swarm of the
//! other tests.

use super::*;

#[test]
fn what_lived_or_changed_its_state_after_the_first_proof_is_carried_again() {
    for said in [vec![Attestation::Gone, Attestation::Alive(1)], vec![Attestation::Gone, Attestation::Changed]] {
        let mut bench = running();
        bench.attestations = said.into();
        bench.tell(Event::Asked(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, Asker(1)));
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
fn what_changes_its_state_for_ever_goes_back() {
    let mut bench = running();
    bench.attestations = std::iter::repeat_n(Attestation::Changed, 1000).collect();
    bench.tell(Event::Asked(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, Asker(1)));
    bench.passes(60);
    assert_eq!(bench.did.iter().filter(|did| did.starts_with("carry ")).count(), 4);
    assert_eq!((bench.state("job"), bench.status.jobs[0].node.clone()), (JobState::Running, Some(node("a"))));
}

#[test]
fn while_swarm_has_tasks_of_it_nothing_starts_before_all_has_settled() {
    let (mut bench, mut other) = (running(), running());
    bench.lets_go = false;
    for bench in [&mut bench, &mut other] {
        bench.tell(Event::Asked(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, Asker(1)));
        bench.passes(1);
    }
    let started = "starting 1@b".to_owned();
    assert!(!bench.did.contains(&started) && other.did.contains(&started), "{:?} {:?}", bench.did, other.did);
    bench.passes(CoordinatorSettings::default().settle.0 / 1000 + 1);
    assert!(bench.did.contains(&started), "{:?}", bench.did);
}

#[test]
fn an_answer_that_compared_nothing_is_no_proof_that_the_newest_state_was_carried() {
    let mut bench = running();
    bench.lets_go = false;
    bench.tell(Event::Asked(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, Asker(1)));
    // The target takes nothing, so that the source is asked for the way back; before it answers, all is well again.
    bench.swarm.nodes[1].availability = Availability::Drain;
    bench.withheld = Some(Vec::new());
    bench.passes(CoordinatorSettings::default().settle.0 / 1000 + 5);
    let asked = bench.withheld.replace(Vec::new()).expect("withheld");
    assert!(!asked.is_empty() && asked.iter().all(|question| question.carried.is_none()), "{asked:?}");
    bench.swarm.nodes[1].availability = Availability::Active;
    bench.passes(5);
    asked.into_iter().for_each(|question| bench.tell(Event::Attested(question, Attestation::Gone)));
    bench.passes(1);
    let started = "starting 1@b".to_owned();
    assert!(!bench.did.contains(&started), "{:?}", bench.did);
    let asked = bench.withheld.take().expect("withheld");
    assert!(asked.iter().any(|question| question.carried == Some(1)), "{asked:?}");
    asked.into_iter().for_each(|question| bench.tell(Event::Attested(question, Attestation::Gone)));
    bench.passes(1);
    assert!(bench.did.contains(&started), "{:?}", bench.did);
}

#[test]
fn a_lost_compare_and_swap_is_looked_at_again_and_overwrites_nothing() {
    let mut bench = running();
    // Somebody else, between our last look and our write.
    bench.swarm.services[0].version += 1;
    bench.swarm.services[0].labels.insert(MOVABLE.into(), "false".into());
    let theirs = bench.swarm.services[0].clone();
    bench.tell(Event::Asked(Command::Move { job: "job".to_owned(), node: "b".to_owned() }, Asker(1)));
    bench.passes(30);
    assert_eq!(bench.out_of_date, 1);
    assert_eq!((&bench.swarm.services[0], bench.did.len()), (&theirs, 0));
    assert!(
        matches!(&bench.answers[..], [(Asker(1), Err(Refusal::Refused(why)))] if why.contains("flowcon.movable=false"))
    );
}
