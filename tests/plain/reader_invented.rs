//! Tests of the reader on logs of invented training programs: most are read correctly, and none wrongly with high confidence.

use crate::invented::{KINDS, Kind, Verdict, invent, judge};

/// Number of programs of each kind. The benchmark `reader_invented` uses new ones.
const EACH: u64 = 40;

fn verdicts(kind: Kind) -> Vec<(u64, Verdict)> {
    (0..EACH).map(|seed| (seed, judge(&invent(kind, seed)))).collect()
}

#[test]
fn logs_of_invented_programs_are_read_and_none_is_confidently_misread() {
    let mut right = 0;
    for kind in KINDS {
        let verdicts = verdicts(kind);
        let faults: Vec<_> = verdicts.iter().filter(|(_, verdict)| !verdict.faults.is_empty()).collect();
        assert!(faults.iter().all(|(_, verdict)| !verdict.confidently_wrong), "{kind:?}: {faults:?}");
        // At most one in ten is wrong in the hardest kind, where no name is known.
        assert!(faults.len() as u64 * 10 <= EACH, "{kind:?}: {faults:?}");
        right += verdicts.len() - faults.len();
    }
    let all = KINDS.len() * EACH as usize;
    assert!(right * 1000 >= all * 985, "{right} of {all} fully right");
}

#[test]
fn a_seed_determines_the_program() {
    let log = |seed| invent(Kind::Steps, seed).log;
    assert_eq!(log(1), log(1));
    assert_ne!(log(1), log(2));
}

#[test]
fn the_judge_detects_a_wrong_series_and_wrong_progress() {
    let mut invented = invent(Kind::Plain, 3);
    assert_eq!(judge(&invented).faults, Vec::<String>::new());
    invented.progress[0].current += 1.0;
    assert!(judge(&invented).faults.iter().any(|fault| fault.starts_with("progress")));
    for series in &mut invented.series {
        series.values.iter_mut().chain(&mut series.redrawn).for_each(|value| *value += 1.0);
    }
    assert!(judge(&invented).confidently_wrong);
}
