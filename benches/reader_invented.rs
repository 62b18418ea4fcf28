//! Accuracy of the log reader on invented training programs, kind by kind, with new seeds in each run.
//!
//! `cargo bench --bench reader_invented [-- SEED]` reads 2,100 programs (`FLOWCON_BENCH_PROGRAMS` sets the total). It prints the first
//! seed, so that a fault can be reproduced. Target: 98.5 % fully right, and no program misread with high confidence.

#[path = "../tests/invented/mod.rs"]
mod invented;

use invented::{KINDS, invent, judge};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of faults printed for each kind.
const SHOWN: usize = 3;

fn main() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let first = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(now >> 8 << 16);
    let wanted = std::env::var("FLOWCON_BENCH_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(2100);
    let each = (wanted / KINDS.len() as u64).max(1);
    println!("seeds from {first}, {each} programs of each kind");
    let (mut all, mut right, mut confidently_wrong) = (0, 0, 0);
    for kind in KINDS {
        let verdicts: Vec<_> = (first..first + each).map(|seed| (seed, judge(&invent(kind, seed)))).collect();
        let faults: Vec<_> = verdicts.iter().filter(|(_, verdict)| !verdict.faults.is_empty()).collect();
        let confident = faults.iter().filter(|(_, verdict)| verdict.confidently_wrong).count();
        let good = verdicts.len() - faults.len();
        println!(
            "{:14} {:6.1} % fully right, {confident} confidently wrong",
            format!("{kind:?}"),
            100.0 * good as f64 / each as f64
        );
        for (seed, verdict) in faults.into_iter().take(SHOWN) {
            println!("{:14} seed {seed}: {}", "", verdict.faults.join("; "));
        }
        (all, right, confidently_wrong) = (all + verdicts.len(), right + good, confidently_wrong + confident);
    }
    let share = 100.0 * right as f64 / all as f64;
    println!(
        "{right} of {all} fully right ({share:.1} %, target: at least 98.5), {confidently_wrong} confidently wrong (target: 0)"
    );
}
