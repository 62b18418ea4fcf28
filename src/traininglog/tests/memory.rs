//! Test of the reader's memory per log, for any content: measured as the growth of this process's resident set.
//!
//! Only one test, because tests in the same process would affect each other's measurement.

use std::fs;
use traininglog::{Hints, Millis, Tracker};

/// The reader's bound, plus the bounded history and the allocator's metadata.
const MAX_KIB: u64 = 64 + 16;
const STREAMS: u64 = 40;

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("readable status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the resident set");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("in KiB")
}

fn word(mut number: usize) -> String {
    let mut word = String::new();
    while number > 0 || word.is_empty() {
        word.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    word
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| line(i) + "\n").collect()
}

#[test]
fn a_stream_takes_bounded_memory_for_any_content() {
    let name = |i: usize| format!("{}{}", word(i * 7919 + 123_456_789), "x".repeat(40));
    let many = |i: usize| (0..90).map(|k| format!("{}_loss={k}.5, ", name(i * 90 + k))).collect::<String>();
    let keys = |i: usize| (0..6).map(|k| format!("{{\"{}\": ", name(i * 6 + k))).collect::<String>();
    let columns = |i: usize| (0..60).map(|k| word(i * 60 + k) + "\t").collect::<String>();
    let cells: String = (0..60).map(|k| format!("{k}.5\t")).collect();
    let hostile: [(&str, String); 10] = [
        ("an ordinary log", lines(3000, |i| format!("epoch {i} loss {:.4} acc 0.5", 9.0 / (i as f64 + 1.0)))),
        ("a new name on each line", lines(5000, |i| format!("step {i} {}_loss: {}.5", name(i), i % 7))),
        ("ninety new names on each line", lines(60, |i| format!("step {i} {}", many(i)))),
        ("a new template on each line", lines(9000, |i| format!("{} {} {}", word(i * 31), word(i * 77), word(i * 5)))),
        ("a line without end", "loss 0.5 blah ".repeat(30_000)),
        ("a bar without end", (0..9000).map(|i| format!("\r{i}/9000 [==>] loss: 0.{}", i % 97)).collect()),
        ("a new table on each line", lines(300, |i| format!("epoch\t{}loss\n{i}\t{cells}0.5", columns(i)))),
        ("long names within braces", lines(900, |i| format!("{{\"step\": {i}, {}{{\"loss\": 0.5}}", keys(i)))),
        ("nested braces", "{\"a\":".repeat(60_000)),
        ("an entry without end", format!("{{\"log\":\"{}", "x\\u001b[2J\\r".repeat(30_000))),
    ];
    let mut kept = Vec::new();
    for (what, log) in &hostile {
        let before = resident_kib();
        for stream in 0..STREAMS {
            let mut tracker = Tracker::new(&Hints::default());
            for piece in log.as_bytes().chunks(64 * 1024) {
                tracker.push(piece, Millis(stream));
                tracker.close_interval(Millis(stream + 1));
            }
            kept.push(tracker); // kept alive, so that no tracker reuses freed memory
        }
        let each = resident_kib().saturating_sub(before) / STREAMS;
        assert!(each <= MAX_KIB, "{what}: {each} KiB per stream");
    }
}
