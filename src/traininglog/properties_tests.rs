//! Property test: the result does not depend on how the bytes of a log are cut.

use super::Tracker;
use super::survey::Survey;
use crate::{Hints, Millis};
use proptest::prelude::*;
use proptest::sample::select;

/// Pieces of progress reports, complete and partial, with separators and control characters for redrawing.
const PIECES: &[&str] = &[
    "epoch",
    "Epoch 3/9",
    "step ",
    "iter",
    "loss",
    "loss: ",
    "val_loss=",
    "acc",
    "reward",
    "lr",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    "\t",
    ":",
    "=",
    ",",
    "|",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "\"",
    "/",
    "%",
    "0.25",
    "1",
    "12/100",
    "3.2e-4",
    "nan",
    "-",
    "1,234.5",
    "\u{8}",
    "\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}",
    "\x1b[2K",
    "\x1b[A",
    "\x1b[32m",
    "█▌",
    "损失",
    "é",
    "epoch,loss,lr\n",
    "3,0.5,0.1\n",
    "Eval begin...\n",
    "INFO:",
    "2026-01-01 10:00:00 ",
    "\u{0}",
    "\u{FFFD}",
];

fn log() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(select(PIECES), 0..120).prop_map(|pieces| pieces.concat().into_bytes());
    let lines = (
        select(&["epoch {i} loss {v}", "{i}", "{v} {i}", "step {i}/90 | loss {v} | acc {v}", "{i},{v},{v}"][..]),
        0u32..60,
    )
        .prop_map(|(line, count)| {
            let line =
                |i: u32| line.replace("{i}", &i.to_string()).replace("{v}", &format!("{}", 9.0 / f64::from(i + 1)));
            (0..count).map(|i| line(i) + "\n").collect::<String>().into_bytes()
        });
    let mixed = prop::collection::vec(prop_oneof![pieces, lines], 0..5).prop_map(|parts| parts.concat());
    let wrapped = mixed.clone().prop_map(|log| {
        let entry = |line: &str| serde_json::json!({ "log": line }).to_string() + "\n";
        String::from_utf8_lossy(&log).split_inclusive('\n').map(entry).collect::<String>().into_bytes()
    });
    prop_oneof![4 => mixed, 1 => wrapped, 1 => prop::collection::vec(any::<u8>(), 0..300)]
}

/// A log and the positions of cuts.
fn cut_log() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    log().prop_flat_map(|log| {
        let cuts = prop::collection::vec(0..=log.len(), 0..8);
        (Just(log), cuts).prop_map(|(log, mut cuts)| {
            cuts.sort_unstable();
            (log, cuts)
        })
    })
}

fn parts<'a>(log: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let ends = cuts.iter().copied().chain([log.len()]);
    let begins = [0].into_iter().chain(cuts.iter().copied());
    begins.zip(ends).map(|(begin, end)| &log[begin..end]).collect()
}

/// Returns the debug output, because NaN is unequal to itself.
fn surveyed(parts: &[&[u8]]) -> String {
    let mut survey = Survey::new(&Hints::default());
    parts.iter().for_each(|part| survey.push(part));
    survey.finish();
    format!("{:#?}", survey.reading())
}

fn tracked(parts: &[&[u8]]) -> String {
    let mut tracker = Tracker::new(&Hints::default());
    parts.iter().for_each(|part| tracker.push(part, Millis(5)));
    let learning = tracker.close_interval(Millis(9));
    format!("{learning:#?} {:#?} {:?}", tracker.checkpoint(), tracker.line())
}

proptest! {
    #[test]
    fn cuts_do_not_change_how_any_bytes_are_read((log, cuts) in cut_log()) {
        let pieces = parts(&log, &cuts);
        prop_assert_eq!(surveyed(&[&log]), surveyed(&pieces));
        prop_assert_eq!(tracked(&[&log]), tracked(&pieces));
    }
}
