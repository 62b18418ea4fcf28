//! A ledger over two runs of a container, and over writes that nobody answers.

use super::{
    Answer, Ask, Change, End, Ledger, Noted, Operation, Outcome, Promised, Return, Step, Then, Verdict, Wrote,
};
use crate::model::{Bytes, CpuWeight, Limits, Millis, Setting};

const NOW: Millis = Millis::from_secs(1000);
const LONGEST: Millis = Millis::from_secs(320);
const INTERVALS: (Millis, Millis) = (Millis::from_secs(20), LONGEST);

fn weight(number: u32) -> Setting {
    Setting::CpuWeight(CpuWeight::clamped(f64::from(number)))
}

fn low(mib: u64) -> Setting {
    Setting::MemoryLow(Bytes(mib << 20))
}

fn limits(weight_number: u32, low_mib: u64) -> Limits {
    [weight(weight_number), low(low_mib)].into_iter().collect()
}

fn written(ledger: &mut Ledger, settings: &[Setting]) {
    ledger.asked(settings);
    let promised = Some(Promised { original: *ledger.original(), engine: None });
    let outcome = Outcome { asked: settings.to_vec(), stands: settings.to_vec(), promised, end: End::Written };
    assert_eq!(ledger.note(&outcome, NOW, LONGEST), Noted::Wrote(settings.to_vec()));
}

fn failed(ledger: &mut Ledger, settings: &[Setting]) {
    ledger.asked(settings);
    let promised = Some(Promised { original: *ledger.original(), engine: None });
    let end = End::Failed("no answer".to_owned());
    ledger.note(&Outcome { asked: settings.to_vec(), stands: Vec::new(), promised, end }, NOW, LONGEST);
}

fn next_run(last: &Ledger, stands: Limits) -> Ledger {
    let mut next = Ledger::found(stands, None);
    next.begin_after(last.last_run(), NOW);
    next
}

#[test]
fn a_weight_that_the_engine_kept_of_ours_is_not_taken_for_the_owners() {
    let mut first = Ledger::found(limits(30, 20), None);
    written(&mut first, &[weight(117), low(64)]);
    let second = next_run(&first, limits(117, 20));
    assert_eq!(*second.original(), limits(30, 20));
    assert!(second.owes_anything());
}

#[test]
fn what_was_asked_of_an_engine_that_went_down_may_stand_in_the_next_run_too() {
    let mut first = Ledger::found(limits(30, 20), None);
    failed(&mut first, &[weight(159)]);
    let mut second = next_run(&first, limits(159, 20));
    assert_eq!(*second.original(), limits(30, 20));
    assert_eq!(second.check(true, NOW, false, INTERVALS), Verdict::Fine, "ours, and no owner's");
}

#[test]
fn what_the_owner_set_between_two_runs_is_the_new_original() {
    let mut first = Ledger::found(limits(30, 20), None);
    written(&mut first, &[weight(117), low(64)]);
    let mut second = next_run(&first, limits(500, 30));
    assert_eq!(*second.original(), limits(500, 30));
    assert_eq!(second.check(false, NOW, false, INTERVALS), Verdict::Fine);
}

#[test]
fn what_nobody_answered_is_promised_again_with_every_new_value_and_goes_back_before_too_much_is_in_doubt() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    for number in [20, 30, 40, 50] {
        assert!(ledger.has_room_for(weight(number)));
        failed(&mut ledger, &[weight(number)]);
    }
    assert_eq!(ledger.promise(&[weight(60)]).len(), 5);
    assert!(!ledger.has_room_for(weight(60)) && ledger.has_room_for(weight(50)) && ledger.has_room_for(low(9)));
    let later = NOW.after(LONGEST);
    assert!(ledger.wants_back(later, false), "though nobody said to leave it alone");
    let (back, ask) = Return::begin(&ledger, true, Then::Keep);
    assert_eq!(ask, Ask::Read);
    let Step::Ask(_, ask) = back.answer(Answer::Read { stands: limits(100, 8), runs: true }) else {
        panic!("it goes on")
    };
    assert_eq!(ask, Ask::Write(vec![weight(100)]), "though the original stands: what comes late comes before it");
}

#[test]
fn nothing_is_written_without_a_promise_nor_over_what_an_owner_just_set_nor_to_a_next_run() {
    let ledger = Ledger::found(limits(100, 8), None);
    let begin = || {
        let (change, ask) = Change::begin(&ledger, vec![weight(40)]);
        assert_eq!(ask, Ask::Promise(vec![weight(40)]));
        change
    };
    let end = |step: Step<Change>| match step {
        Step::Done(outcome) => outcome.end,
        Step::Ask(_, ask) => panic!("{ask:?}"),
    };
    let refused = begin().answer(Answer::Promised(Err("disk full".to_owned())));
    assert!(matches!(end(refused), End::NotBegun(why) if why.contains("disk full")));
    let promised = || {
        let durable = Promised { original: limits(100, 8), engine: None };
        let Step::Ask(change, Ask::Read) = begin().answer(Answer::Promised(Ok(durable))) else { panic!("it looks") };
        change
    };
    let theirs = promised().answer(Answer::Read { stands: limits(300, 8), runs: true });
    assert_eq!(end(theirs), End::Theirs(weight(300)));
    let gone = promised().answer(Answer::Read { stands: Limits::default(), runs: false });
    assert_eq!(end(gone), End::Gone);
    let Step::Ask(change, Ask::Write(settings)) =
        promised().answer(Answer::Read { stands: limits(100, 8), runs: true })
    else {
        panic!("it writes")
    };
    assert_eq!(settings, [weight(40)]);
    assert!(matches!(end(change.answer(Answer::Forgot(Ok(())))), End::Failed(_)), "an answer to another question");
}

/// I/O weights are the same within 10, as far as files of several scales round: that says what is ours, not what is the original.
#[test]
fn what_of_ours_is_nearly_the_original_goes_back_too_and_is_not_taken_for_somebody_elses() {
    let io = |weight: u16| Limits { io_weight: Some(weight), ..limits(100, 8) };
    let mut ledger = Ledger::found(io(100), None);
    written(&mut ledger, &[Setting::IoWeight(97)]);
    ledger.read(io(97));
    ledger.leave_alone();
    assert!(ledger.wants_back(NOW, false), "97 is not the original");
    let back = |then: u16| {
        let (back, ask) = Return::begin(&ledger, false, Then::Keep);
        assert_eq!(ask, Ask::Read);
        let Step::Ask(back, ask) = back.answer(Answer::Read { stands: io(97), runs: true }) else {
            panic!("it writes")
        };
        assert_eq!(ask, Ask::Write(vec![Setting::IoWeight(100)]));
        let Step::Ask(back, Ask::Read) = back.answer(Answer::Wrote(Wrote::Done)) else { panic!("it reads back") };
        match back.answer(Answer::Read { stands: io(then), runs: true }) {
            Step::Done(outcome) => outcome,
            Step::Ask(_, ask) => panic!("{ask:?}"),
        }
    };
    assert!(matches!(back(97).end, End::Failed(_)), "it was not written");
    let returned = back(100);
    assert_eq!(returned.end, End::Returned { stood: true, forgotten: false, left: Vec::new() });
    ledger.note(&returned, NOW, LONGEST);
    ledger.read(io(100));
    ledger.release();
    assert_eq!(ledger.check(false, NOW, false, INTERVALS), Verdict::Fine);
}
