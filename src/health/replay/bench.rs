//! How right the health of recorded trainings is: `cargo bench -p health --bench replay -- [--seed N] PATH…`
//!
//! The files, or all below a folder, are replayed at their own pace. Each is taken for healthy: what is called stalled, NaN or diverging is
//! printed, and how many overfit. Then each fault is put into each curve at a random place, with a fresh seed, which is printed. Targets: 0
//! healthy ones broken; NaN and diverging within two reports, stalled within four intervals or two minutes, in all; overfitting within ten
//! reports of its best in 90 %; short of memory a minute before the kill.

#[path = "mod.rs"]
mod replay;

use health::{HealthMeter, LEAST_CONFIDENCE, Prospects};
use model::Condition;
use replay::faults::{FAULTS, Fault, Found, least_warning_s, put_into};
use replay::recorded::Recorded;
use replay::{troubles_of_log, troubles_of_series};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ramps of memory.
const RAMPS: u64 = 1000;
/// Late findings that are printed for each fault.
const SHOWN: usize = 8;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::from(since.subsec_nanos()));
    let mut seed = now;
    if let Some(at) = arguments.iter().position(|argument| argument == "--seed") {
        seed = arguments.get(at + 1).and_then(|seed| seed.parse().ok()).unwrap_or(now);
        arguments.drain(at..arguments.len().min(at + 2));
    }
    if arguments.is_empty() {
        arguments.push(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/scenarios").to_owned());
    }
    let mut recorded = Recorded::default();
    for path in &arguments {
        if let Err(error) = recorded.read(Path::new(path)) {
            eprintln!("replay: {path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    healthy(&recorded);
    println!("\nfaults with seed {seed}   in time  reports (or seconds of silence) until found: median, 90 %, most");
    let curves = recorded.all_curves();
    for fault in FAULTS {
        with_fault(fault, &put_into(&curves, fault, seed));
    }
    let warnings: Vec<Option<u64>> = (seed..seed + RAMPS).map(least_warning_s).collect();
    let good = warnings.iter().filter(|warning| warning.is_some_and(|seconds| seconds >= 60)).count();
    let least = warnings.iter().flatten().min();
    println!("memory fills              {good} of {RAMPS} a minute before, least {least:?} s");
    ExitCode::SUCCESS
}

fn healthy(Recorded { logs, curves }: &Recorded) {
    let of_logs = logs.iter().flat_map(|log| troubles_of_log(log).into_iter().map(|found| (&log.name, "line", found)));
    let of_series = curves
        .iter()
        .flat_map(|series| troubles_of_series(series).into_iter().map(|found| (&series.name, "report", found)));
    let all: Vec<_> = of_logs.chain(of_series).collect();
    let broken = || all.iter().filter(|(_, _, (_, condition))| condition.is_broken());
    for (name, what, (number, condition)) in broken() {
        println!("{name}: {condition} at {what} {number}");
    }
    let overfit = all.iter().filter(|(_, _, (_, condition))| *condition == Condition::Overfitting).count();
    println!(
        "{} logs and {} curves without a fault: {} times broken (target: 0), {overfit} times overfitting",
        logs.len(),
        curves.len(),
        broken().count()
    );
}

fn with_fault(fault: Fault, all: &[Found]) {
    let good = all.iter().filter(|found| found.is_in_time(fault)).count();
    let is_silent = matches!(fault, Fault::Sleeps | Fault::Spins);
    let measure = |(reports, seconds)| if is_silent { seconds } else { reports as f64 };
    let mut after: Vec<f64> = all.iter().filter_map(|found| found.after.map(measure)).collect();
    after.sort_by(f64::total_cmp);
    let at = |part: f64| after.get(((after.len() as f64 - 1.0) * part).round() as usize).copied().unwrap_or(f64::NAN);
    let (percent, name) = (100.0 * good as f64 / all.len() as f64, format!("{fault:?}"));
    println!("{name:<24} {percent:>6.1} %  {:>6.0} {:>6.0} {:>6.0}", at(0.5), at(0.9), at(1.0));
    for found in all.iter().filter(|found| !found.is_in_time(fault)).take(SHOWN) {
        let when = found.after.map_or("never".to_owned(), |(reports, s)| format!("after {reports} reports, {s:.0} s"));
        println!("    {} after report {} (longest interval {:.0} s): {when}", found.name, found.at, found.longest_s);
    }
}
