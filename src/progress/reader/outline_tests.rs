//! Outlines beside scans of the same lines: what is recognised must be what a scan finds.
//!
//! Imports: its siblings.

use super::outline::{BYTES_MAX, OUTLINES_MAX, Outlines};
use super::scan::{Scan, Span};
use proptest::prelude::*;

/// What a scan of the line alone finds.
fn scanned(line: &str, commas: bool) -> (u64, Vec<Span>) {
    let mut scan = Scan::default();
    scan.read(line.as_bytes(), commas);
    (scan.shape, scan.numbers)
}

fn recognised(outlines: &mut Outlines, line: &str) -> bool {
    let mut numbers = Vec::new();
    let found = outlines.recognise(line.as_bytes(), &mut numbers);
    let (shape, expected) = scanned(line, false);
    match found {
        Some(found) => assert_eq!((found, &numbers), (shape, &expected), "{line}"),
        None => outlines.scanned(shape, line.as_bytes(), &expected),
    }
    found.is_some()
}

#[test]
fn lines_in_turn_are_recognised_from_their_third_print_on() {
    let mut outlines = Outlines::default();
    for step in 0..20 {
        let lines = [
            format!("2026-01-02 03:04:{step:02},{:03} - INFO - epoch {step}/20", step * 37),
            format!("  loss: {:9.4}  acc={}% lr -{step}e-5", 9.0 / f64::from(step + 1), step * 5),
            format!("{}%|{}| {step}/20 loss nan", step * 5, "█".repeat(1 + step as usize) + "▌ "),
        ];
        let found = lines.iter().filter(|line| recognised(&mut outlines, line)).count();
        assert!(found == 3 || step < 4, "{found} of the lines of step {step}");
    }
}

#[test]
fn outlines_take_a_bounded_memory() {
    let mut outlines = Outlines::default();
    let name = |line: usize| "abcdefghij".chars().cycle().skip(line % 10).take(line % 700).collect::<String>();
    for line in (0..3000).flat_map(|line| [line, line]) {
        let text = format!("{} {line} {}: 0.5", "x".repeat(line % 90), name(line));
        recognised(&mut outlines, &text);
        let (outlines, bytes) = outlines.size();
        assert!(bytes <= BYTES_MAX && outlines <= OUTLINES_MAX);
    }
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{1,2}",
        4 => "[0-9]{1,4}",
        3 => "[0-9]{1,2}\\.[0-9]{1,9}",
        1 => "[0-9]\\.?[0-9]?[eEdD][-+]?[0-9]{1,2}",
        4 => "[ ]{1,3}",
        4 => "[-+.,:/@()\\[=|#_]{1,2}",
        1 => "(nan|inf|Infinity|epoch|step|0x1f|top5|s0\\.|mAP@\\.5|é|轮|→)",
        1 => "(█|▌|━|│|\t|\u{1})",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    /// Lines that differ from one another in a piece or two: another number, another blank, another mark.
    #[test]
    fn what_is_recognised_is_what_a_scan_finds(
        template in prop::collection::vec(piece(), 1..12),
        edits in prop::collection::vec((0usize..12, piece(), any::<bool>()), 0..40),
        commas in any::<bool>(),
    ) {
        let mut scan = Scan::default();
        for line in edits.iter().scan(template.clone(), |line, (at, piece, stays)| {
            let mut edited = line.clone();
            let at = at % edited.len();
            edited[at] = piece.clone();
            if *stays {
                *line = edited.clone();
            }
            Some(edited.concat())
        }) {
            for text in [template.concat(), line.clone(), line] {
                scan.read(text.as_bytes(), commas);
                prop_assert_eq!((scan.shape, scan.numbers.clone()), scanned(&text, commas), "{}", text);
            }
        }
    }
}
