//! The recordings of this repository, with and without faults, at fixed seeds.

use super::replay::faults::{FAULTS, Fault, Found, least_warning_s, put_into};
use super::replay::recorded::Recorded;
use super::replay::{troubles_of_log, troubles_of_series};
use std::collections::BTreeSet;
use std::path::Path;

/// The recordings of this repository: ten trainings of as many kinds, ten with frameworks, and the trials of sweeps.
fn recorded() -> Recorded {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files =
        ["unseen-curves", "frameworks-curves", "sweep-curves"].map(|name| format!("config/scenarios/{name}.csv"));
    let log = "src/traininglog/examples/train.log".to_owned();
    let mut recorded = Recorded::default();
    files.iter().chain([&log]).for_each(|file| recorded.read(&root.join(file)).expect("a recording"));
    recorded
}

#[test]
fn only_the_recorded_training_that_exploded_is_called_broken() {
    let Recorded { logs, curves } = recorded();
    assert!(logs.len() == 1 && curves.len() >= 200, "{} curves", curves.len());
    let of_logs = logs.iter().flat_map(|log| troubles_of_log(log).into_iter().map(|found| (&log.name, found)));
    let of_series =
        curves.iter().flat_map(|series| troubles_of_series(series).into_iter().map(|found| (&series.name, found)));
    let broken: BTreeSet<&str> = of_logs
        .chain(of_series)
        .filter(|(_, (_, condition))| condition.is_broken())
        .map(|(name, _)| name.as_str())
        .collect();
    // Its loss rises from 0.048 to 0.4: the learning rate of this trial is too high.
    assert_eq!(broken, ["sweep 9, row 143"].into());
}

#[test]
fn what_goes_wrong_at_a_random_place_is_found_in_time() {
    let curves = recorded().all_curves();
    for fault in FAULTS {
        let found: Vec<Found> = put_into(&curves, fault, 52);
        let good = found.iter().filter(|found| found.is_in_time(fault)).count();
        let all_but = if fault == Fault::Overfits { found.len() / 10 } else { 0 };
        let late: Vec<&Found> = found.iter().filter(|found| !found.is_in_time(fault)).collect();
        assert!(good + all_but >= found.len(), "{fault:?}: {good} of {}: {late:?}", found.len());
    }
}

#[test]
fn memory_that_fills_within_ten_minutes_is_told_a_minute_before() {
    for seed in 0..100 {
        let warned_s = least_warning_s(seed).expect("a warning");
        assert!(warned_s >= 60, "seed {seed}: {warned_s} s before the kill");
    }
}
