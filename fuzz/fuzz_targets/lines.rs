//! Any bytes as a log: nothing panics, and wherever the input is cut the same is understood.
#![no_main]

use flowcon::model::Directives;
use flowcon::progress::{LogReading, Survey};
use libfuzzer_sys::fuzz_target;

fn read(parts: &[&[u8]]) -> LogReading {
    let mut survey = Survey::new(&Directives::default());
    parts.iter().for_each(|part| survey.push(part));
    survey.finish();
    survey.reading()
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, log)) = data.split_first() else { return };
    let cut = usize::from(cut).min(log.len());
    // NaN is unequal to itself: compare what is shown.
    assert_eq!(format!("{:?}", read(&[log])), format!("{:?}", read(&[&log[..cut], &log[cut..]])));
});
