//! Ledgers across two runs of a container and across writes without a reply.

use super::{
    AfterRestore, Ask, Change, End, EngineRecord, Journalled, Ledger, Operation, Outcome, OutcomeReport, Restore, Step,
    StepResult, Verdict, WriteResult,
};
use model::{Bytes, CpuWeight, EngineLimits, Hold, Limits, Millis, Setting};

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
    ledger.begin_write(settings);
    let journalled = Some(Journalled { original: *ledger.original(), engine: None });
    let outcome = Outcome { requested: settings.to_vec(), current: settings.to_vec(), journalled, end: End::Written };
    assert_eq!(ledger.record_outcome(&outcome, NOW, LONGEST), OutcomeReport::Wrote(settings.to_vec()));
}

fn failed(ledger: &mut Ledger, settings: &[Setting]) {
    ledger.begin_write(settings);
    let journalled = Some(Journalled { original: *ledger.original(), engine: None });
    let end = End::Failed("no answer".to_owned());
    ledger.record_outcome(
        &Outcome { requested: settings.to_vec(), current: Vec::new(), journalled, end },
        NOW,
        LONGEST,
    );
}

fn next_run(last: &Ledger, current: Limits) -> Ledger {
    let mut next = Ledger::found(current, None);
    next.continue_after(last.last_run(), NOW);
    next
}

#[test]
fn our_weight_that_the_engine_kept_is_not_taken_for_the_owners() {
    let mut first = Ledger::found(limits(30, 20), None);
    written(&mut first, &[weight(117), low(64)]);
    let second = next_run(&first, limits(117, 20));
    assert_eq!(*second.original(), limits(30, 20));
    assert!(second.may_need_restore());
}

#[test]
fn an_unconfirmed_write_may_take_effect_in_the_next_run() {
    let mut first = Ledger::found(limits(30, 20), None);
    failed(&mut first, &[weight(159)]);
    let mut second = next_run(&first, limits(159, 20));
    assert_eq!(*second.original(), limits(30, 20));
    assert_eq!(second.check(true, NOW, false, INTERVALS), Verdict::Fine, "ours, not the owner's");
}

#[test]
fn a_value_that_the_owner_set_between_two_runs_is_the_new_original() {
    let mut first = Ledger::found(limits(30, 20), None);
    written(&mut first, &[weight(117), low(64)]);
    let mut second = next_run(&first, limits(500, 30));
    assert_eq!(*second.original(), limits(500, 30));
    assert_eq!(second.check(false, NOW, false, INTERVALS), Verdict::Fine);
}

#[test]
fn unconfirmed_values_stay_journalled_and_too_many_are_restored() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    for number in [20, 30, 40, 50] {
        assert!(ledger.has_room_for(weight(number)));
        failed(&mut ledger, &[weight(number)]);
    }
    assert_eq!(ledger.to_journal(&[weight(60)]).len(), 5);
    assert!(!ledger.has_room_for(weight(60)) && ledger.has_room_for(weight(50)) && ledger.has_room_for(low(9)));
    let later = NOW.after(LONGEST);
    assert_eq!(ledger.restore_due(later, false), Some(AfterRestore::Keep), "although nobody released it");
    let (back, ask) = Restore::begin(&ledger, true, AfterRestore::Keep);
    assert_eq!(ask, Ask::Read);
    let Step::Ask(_, ask) = back.answer(StepResult::Read { current: limits(100, 8), runs: true }) else {
        panic!("it writes")
    };
    assert_eq!(
        ask,
        Ask::Write(vec![weight(100)]),
        "although the original is in force: a late write takes effect before it"
    );
}

#[test]
fn nothing_is_written_unless_journalled_nor_over_an_owners_value_nor_to_the_next_run() {
    let ledger = Ledger::found(limits(100, 8), None);
    let begin = || {
        let (change, ask) = Change::begin(&ledger, vec![weight(40)]);
        assert_eq!(ask, Ask::Journal(vec![weight(40)]));
        change
    };
    let end = |step: Step<Change>| match step {
        Step::Done(outcome) => outcome.end,
        Step::Ask(_, ask) => panic!("{ask:?}"),
    };
    let refused = begin().answer(StepResult::Journalled(Err("disk full".to_owned())));
    assert!(matches!(end(refused), End::NotBegun(why) if why.contains("disk full")));
    let journalled = || {
        let durable = Journalled { original: limits(100, 8), engine: None };
        let Step::Ask(change, Ask::Read) = begin().answer(StepResult::Journalled(Ok(durable))) else {
            panic!("it reads")
        };
        change
    };
    let theirs = journalled().answer(StepResult::Read { current: limits(300, 8), runs: true });
    assert_eq!(end(theirs), End::ChangedByOthers(weight(300)));
    let gone = journalled().answer(StepResult::Read { current: Limits::default(), runs: false });
    assert_eq!(end(gone), End::Gone);
    let Step::Ask(change, Ask::Write(settings)) =
        journalled().answer(StepResult::Read { current: limits(100, 8), runs: true })
    else {
        panic!("it writes")
    };
    assert_eq!(settings, [weight(40)]);
    assert!(matches!(end(change.answer(StepResult::Forgot(Ok(())))), End::Failed(_)), "the result of another step");
}

/// I/O weights are equal within 10 to recognise our value, because files have different scales; the original is compared exactly.
#[test]
fn a_value_of_ours_close_to_the_original_is_restored_and_not_taken_for_foreign() {
    let io = |weight: u16| Limits { io_weight: Some(weight), ..limits(100, 8) };
    let mut ledger = Ledger::found(io(100), None);
    written(&mut ledger, &[Setting::IoWeight(97)]);
    ledger.read(io(97));
    ledger.release();
    assert_eq!(ledger.restore_due(NOW, false), Some(AfterRestore::Keep), "97 is not the original");
    let back = |then: u16| {
        let (back, ask) = Restore::begin(&ledger, false, AfterRestore::Keep);
        assert_eq!(ask, Ask::Read);
        let Step::Ask(back, ask) = back.answer(StepResult::Read { current: io(97), runs: true }) else {
            panic!("it writes")
        };
        assert_eq!(ask, Ask::Write(vec![Setting::IoWeight(100)]));
        let Step::Ask(back, Ask::Read) = back.answer(StepResult::Wrote(WriteResult::Done)) else {
            panic!("it reads back")
        };
        match back.answer(StepResult::Read { current: io(then), runs: true }) {
            Step::Done(outcome) => outcome,
            Step::Ask(_, ask) => panic!("{ask:?}"),
        }
    };
    assert!(matches!(back(97).end, End::Failed(_)), "it was not written");
    let restored = back(100);
    assert_eq!(
        restored.end,
        End::Restored { found_ours: true, forgotten: false, kept: Vec::new(), theirs: Vec::new() }
    );
    ledger.record_outcome(&restored, NOW, LONGEST);
    ledger.read(io(100));
    assert!(ledger.govern(false), "its limits are accepted first");
    let accepted = End::Accepted(Journalled { original: io(100), engine: None });
    let outcome = Outcome { requested: Vec::new(), current: Vec::new(), journalled: None, end: accepted };
    assert_eq!(ledger.record_outcome(&outcome, NOW, LONGEST), OutcomeReport::Accepted);
    assert_eq!(ledger.check(false, NOW, false, INTERVALS), Verdict::Fine);
}

#[test]
fn only_a_restore_after_which_the_journal_forgets_needs_the_engines_record_to_forget() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    written(&mut ledger, &[weight(40)]);
    let forgotten = |then: AfterRestore| Restore::begin(&ledger, true, then).0.forgotten().to_vec();
    assert_eq!(forgotten(AfterRestore::Keep), []);
    assert_eq!(forgotten(AfterRestore::Forget), [weight(40)]);
    assert_eq!(forgotten(AfterRestore::Accept), [weight(40)]);
    let (change, _) = Change::begin(&ledger, vec![weight(60)]);
    assert_eq!(change.forgotten(), []);
}

#[test]
fn a_restore_does_not_end_the_wait_after_a_change_that_could_not_be_journalled() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    written(&mut ledger, &[weight(40)]);
    ledger.begin_write(&[weight(60)]);
    let end = End::NotBegun("disk full".to_owned());
    let refused = Outcome { requested: vec![weight(60)], current: Vec::new(), journalled: None, end };
    assert!(matches!(ledger.record_outcome(&refused, NOW, LONGEST), OutcomeReport::Failed(_)));
    let end = End::Restored { found_ours: true, forgotten: false, kept: Vec::new(), theirs: Vec::new() };
    let restored = Outcome { requested: vec![weight(100)], current: vec![weight(100)], journalled: None, end };
    ledger.record_outcome(&restored, NOW, LONGEST);
    assert!(ledger.hold(NOW, false).is_some(), "the disk is still full");
    written(&mut ledger, &[weight(60)]);
    assert!(ledger.hold(NOW, false).is_none());
}

#[test]
fn a_reported_value_without_a_confirmed_result_is_ours_and_a_reported_original_is_the_owners() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    written(&mut ledger, &[weight(60)]);
    failed(&mut ledger, &[weight(40)]);
    ledger.read(limits(40, 8)); // the engine carried it out after all
    assert!(matches!(ledger.check(true, NOW, false, INTERVALS), Verdict::Reverted(..)));
    ledger.read(limits(100, 8));
    assert!(matches!(ledger.check(true, NOW, false, INTERVALS), Verdict::Foreign(_)));
}

#[test]
fn an_original_that_we_requested_and_that_takes_effect_late_is_not_an_owners_reset() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    written(&mut ledger, &[weight(60)]);
    failed(&mut ledger, &[weight(100)]);
    ledger.read(limits(100, 8)); // the engine carried it out after all
    assert!(matches!(ledger.check(true, NOW, false, INTERVALS), Verdict::Reverted(..)));
    written(&mut ledger, &[weight(70)]);
    ledger.read(limits(100, 8));
    assert!(matches!(ledger.check(true, NOW, false, INTERVALS), Verdict::Foreign(_)), "nothing of ours is due");
}

#[test]
fn a_value_that_an_engine_raised_and_that_takes_effect_late_is_not_foreign() {
    let mut ledger = Ledger::found(limits(100, 0), None);
    failed(&mut ledger, &[low(2)]);
    ledger.read(limits(100, 6)); // an engine's least reservation
    assert!(matches!(ledger.check(false, NOW, false, INTERVALS), Verdict::Reverted(..)));
}

#[test]
fn an_owner_who_sets_our_last_value_after_its_restore_keeps_it() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    written(&mut ledger, &[weight(40)]);
    let restored = End::Restored { found_ours: true, forgotten: false, kept: Vec::new(), theirs: Vec::new() };
    let outcome = Outcome { requested: vec![weight(100)], current: vec![weight(100)], journalled: None, end: restored };
    ledger.record_outcome(&outcome, NOW, LONGEST);
    ledger.release();
    assert_eq!(ledger.known(), [weight(40)], "the journal still has it, for the engine's record");
    ledger.read(limits(40, 8));
    assert_eq!(ledger.leftover(), []);
    assert_eq!(ledger.restore_due(NOW, false), None);
    let (restore, Ask::Read) = Restore::begin(&ledger, false, AfterRestore::Forget) else { panic!("it reads first") };
    let read = StepResult::Read { current: limits(40, 8), runs: true };
    assert!(matches!(restore.answer(read), Step::Ask(_, Ask::Forget)), "nothing is written");
}

/// As when its processes were moved, and the limits of another cgroup were read, or none.
#[test]
fn a_limit_of_ours_that_cannot_be_read_is_not_restored_and_stays_in_the_journal() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    written(&mut ledger, &[weight(40), low(16)]);
    let unread = Limits { cpu_weight: None, ..limits(40, 16) };
    for then in [AfterRestore::Keep, AfterRestore::Forget, AfterRestore::Accept] {
        let (restore, Ask::Read) = Restore::begin(&ledger, true, then) else { panic!("it reads first") };
        let step = restore.answer(StepResult::Read { current: unread, runs: true });
        let Step::Ask(restore, Ask::Write(settings)) = step else { panic!("it writes what it can") };
        assert_eq!(settings, [low(8)]);
        let Step::Ask(restore, Ask::Read) = restore.answer(StepResult::Wrote(WriteResult::Done)) else {
            panic!("it reads back")
        };
        let current = Limits { cpu_weight: None, ..limits(40, 8) };
        let Step::Done(outcome) = restore.answer(StepResult::Read { current, runs: true }) else {
            panic!("it forgets")
        };
        assert!(matches!(&outcome.end, End::Failed(why) if why.contains("cannot be read")), "{then:?}: {outcome:?}");
    }
}

#[test]
fn a_limit_that_cannot_be_read_is_neither_changed_nor_counted_as_written() {
    let ledger = Ledger::found(limits(100, 8), None);
    let journalled = || {
        let (change, _) = Change::begin(&ledger, vec![weight(40)]);
        let durable = Journalled { original: limits(100, 8), engine: None };
        let Step::Ask(change, _) = change.answer(StepResult::Journalled(Ok(durable))) else { panic!("it reads") };
        change
    };
    let unread = Limits { cpu_weight: None, ..limits(100, 8) };
    let Step::Done(outcome) = journalled().answer(StepResult::Read { current: unread, runs: true }) else {
        panic!("it writes")
    };
    assert!(matches!(outcome.end, End::Failed(_)), "{outcome:?}");
    let Step::Ask(change, Ask::Write(_)) =
        journalled().answer(StepResult::Read { current: limits(100, 8), runs: true })
    else {
        panic!("it writes")
    };
    let Step::Ask(change, Ask::Read) = change.answer(StepResult::Wrote(WriteResult::Done)) else {
        panic!("it reads back")
    };
    let Step::Done(outcome) = change.answer(StepResult::Read { current: unread, runs: true }) else {
        panic!("it ends")
    };
    assert!(matches!(outcome.end, End::Failed(_)), "{outcome:?}");
}

/// The owner set `--cpus` while the container did not run, and the engine kept a weight of ours for its next run.
#[test]
fn the_next_run_has_the_last_originals_of_our_values_and_the_engines_present_numbers_of_all_others() {
    let last = EngineLimits { cpu_shares: 513, ..EngineLimits::default() };
    let mut first = Ledger::found(limits(50, 20), Some(last));
    written(&mut first, &[weight(117)]);
    let present = EngineLimits { cpu_shares: 1198, nano_cpus: 1_500_000_000, ..EngineLimits::default() };
    let mut second = Ledger::found(limits(117, 20), Some(present));
    second.continue_after(first.last_run(), NOW);
    assert_eq!(*second.original(), limits(50, 20));
    assert_eq!(second.engine(), Some(EngineLimits { cpu_shares: 513, ..present }));
}

#[test]
fn the_engines_numbers_are_renewed_with_the_limits_that_an_operator_accepts() {
    let mut ledger = Ledger::found(limits(100, 8), Some(EngineLimits::default()));
    written(&mut ledger, &[weight(40)]);
    ledger.read(limits(64, 8));
    assert!(matches!(ledger.check(true, NOW, false, INTERVALS), Verdict::Foreign(_)));
    assert!(ledger.govern(false));
    assert_eq!(ledger.restore_due(NOW, false), Some(AfterRestore::Accept), "until it is done");
    let (restore, _) = Restore::begin(&ledger, false, AfterRestore::Accept);
    let step = restore.answer(StepResult::Read { current: limits(64, 8), runs: true });
    let Step::Ask(restore, Ask::ReadRecord(ours)) = step else { panic!("it reads the record") };
    assert_eq!(ours, [weight(40)]);
    let renewed = Some(EngineLimits { cpu_shares: 660, ..EngineLimits::default() });
    let record = EngineRecord { limits: renewed, has_ours: false };
    let Step::Ask(restore, Ask::Forget) = restore.answer(StepResult::ReadRecord(Ok(record))) else {
        panic!("it forgets")
    };
    let Step::Done(outcome) = restore.answer(StepResult::Forgot(Ok(()))) else { panic!("it ends") };
    assert_eq!(ledger.record_outcome(&outcome, NOW, LONGEST), OutcomeReport::Accepted);
    assert_eq!((ledger.original(), ledger.engine()), (&limits(64, 8), renewed));
    assert_eq!((ledger.hold(NOW, false), ledger.restore_due(NOW, false)), (None, None));
}

#[test]
fn a_release_during_the_acceptance_stays() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    ledger.release();
    assert!(ledger.govern(false));
    ledger.release();
    let end = End::Accepted(Journalled { original: limits(100, 8), engine: None });
    let outcome = Outcome { requested: Vec::new(), current: Vec::new(), journalled: None, end };
    ledger.record_outcome(&outcome, NOW, LONGEST);
    assert_eq!(ledger.hold(NOW, false), Some(Hold::Released));
}

#[test]
fn our_update_that_takes_effect_over_an_owners_value_after_a_restore_is_not_the_owners() {
    let mut ledger = Ledger::found(limits(100, 8), None);
    failed(&mut ledger, &[low(12)]); // the engine has not answered yet
    ledger.read(limits(100, 64));
    assert!(matches!(ledger.check(false, NOW, false, INTERVALS), Verdict::Foreign(_)));
    let (restore, _) = Restore::begin(&ledger, true, AfterRestore::Keep);
    let read = |low_mib| StepResult::Read { current: limits(100, low_mib), runs: true };
    let Step::Done(outcome) = restore.answer(read(64)) else { panic!("the owner's value stays") };
    ledger.record_outcome(&outcome, NOW, LONGEST);
    let later = NOW.after(LONGEST); // after the wait for the failed write
    assert_eq!((ledger.leftover(), ledger.restore_due(later, false)), (Vec::new(), None));
    ledger.read(limits(100, 12)); // it carries it out
    assert_eq!(ledger.restore_due(later, false), Some(AfterRestore::Keep));
    assert!(ledger.govern(false));
    let (restore, _) = Restore::begin(&ledger, true, AfterRestore::Accept);
    let Step::Ask(_, ask) = restore.answer(read(12)) else { panic!("it writes first") };
    assert_eq!(ask, Ask::Write(vec![low(8)]), "the original, and not our value, is to be accepted");
}
