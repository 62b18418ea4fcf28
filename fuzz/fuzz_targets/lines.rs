//! Arbitrary bytes as a log: the reader does not panic, and the reading does not depend on where the input is split.
#![no_main]

use flowcon::traininglog::Hints;
use flowcon::traininglog::survey::{LogReading, Survey};
use libfuzzer_sys::fuzz_target;

fn read(parts: &[&[u8]]) -> LogReading {
    let mut survey = Survey::new(&Hints::default());
    parts.iter().for_each(|part| survey.push(part));
    survey.finish();
    survey.reading()
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, log)) = data.split_first() else { return };
    let cut = usize::from(cut).min(log.len());
    // NaN is not equal to itself: compare the debug output.
    assert_eq!(format!("{:?}", read(&[log])), format!("{:?}", read(&[&log[..cut], &log[cut..]])));
});
