//! The measurement on blocks that are small enough to be worked out by hand.

use super::*;
use crate::api::wire::BlockWork;

/// The cores of each job.
type Cores<'a> = &'a [(u64, f64)];

/// Blocks of a minute one after the other: whether it is plain, and the cores of each job.
fn blocks(told: &[(bool, Cores)]) -> Vec<BlockRecord> {
    let block = |(place, (plain, jobs)): (usize, &(bool, Cores))| BlockRecord {
        from_unix_ms: place as u64 * 60_000,
        until_unix_ms: (place as u64 + 1) * 60_000,
        plain: *plain,
        span_s: 40.0,
        work: jobs.iter().map(|(job, cores)| BlockWork { job: *job, cpu_s: 40.0 * cores }).collect(),
    };
    told.iter().enumerate().map(block).collect()
}

/// So many control periods, each between two governed ones that no other has: the cores of each job governed and plain.
fn rounds(count: usize, governed: &[(u64, f64)], plain: &[(u64, f64)]) -> Vec<BlockRecord> {
    let round = [(false, governed), (true, plain), (false, governed)];
    blocks(&round.repeat(count))
}

fn works(works: &[(u64, f64)]) -> BTreeMap<u64, f64> {
    works.iter().copied().collect()
}

#[test]
fn a_job_that_is_preferred_and_one_that_waits_are_both_told() {
    let blocks = rounds(8, &[(1, 1.5), (2, 0.5)], &[(1, 1.0), (2, 1.0)]);
    let told = measure(&blocks, &works(&[(1, 100.0), (2, 900.0)]));
    assert_eq!((told.plain_blocks, told.comparisons), (8, 8));
    let likely = |job: u64| told.jobs[&job].1.expect("enough").likely;
    assert!((likely(1) - 1.5).abs() < 1e-9 && (likely(2) - 0.5).abs() < 1e-9);
    assert!((told.cores.expect("enough").likely - 1.0).abs() < 1e-9);
    // 1.5/100 + 0.5/900 jobs a second instead of 1/100 + 1/900.
    let expected = (1.5 / 100.0 + 0.5 / 900.0) / (1.0 / 100.0 + 1.0 / 900.0);
    let work = told.work.expect("enough");
    assert!((work.likely - expected).abs() < 1e-9 && work.low > 1.0, "{work:?}");
}

#[test]
fn too_few_comparisons_say_nothing() {
    let told = measure(&rounds(COMPARISONS_AT_LEAST - 1, &[(1, 1.5)], &[(1, 1.0)]), &works(&[(1, 9.0)]));
    assert_eq!((told.comparisons, told.work, told.cores), (COMPARISONS_AT_LEAST - 1, None, None));
    assert_eq!(told.jobs[&1], (COMPARISONS_AT_LEAST - 1, None));
    assert_eq!(measure(&[], &BTreeMap::new()), Measurement::default());
}

#[test]
fn a_trend_is_no_gain() {
    // A job that speeds up all its life, the same whether it is governed or not.
    let mut told: Vec<(bool, Vec<(u64, f64)>)> = Vec::new();
    for place in 0..60 {
        told.push((place % 6 == 3, vec![(1, 1.0 + 0.05 * f64::from(place))]));
    }
    let told: Vec<(bool, &[(u64, f64)])> = told.iter().map(|(plain, jobs)| (*plain, jobs.as_slice())).collect();
    let range = measure(&blocks(&told), &BTreeMap::new()).cores.expect("enough");
    assert!((range.likely - 1.0).abs() < 1e-9, "{range:?}");
}

#[test]
fn who_ends_counts_until_then_and_what_has_no_neighbour_is_not_compared() {
    let both: &[(u64, f64)] = &[(1, 1.0), (2, 1.0)];
    let one: &[(u64, f64)] = &[(1, 2.0)];
    // Job 2 ends as often in the governed blocks after a plain one as it is new before: no gain of the node, none of a job.
    let told = measure(
        &blocks(&[(false, both), (true, both), (false, one), (false, one), (true, one), (false, both)].repeat(6)),
        &BTreeMap::new(),
    );
    assert!((told.cores.expect("enough").likely - 1.0).abs() < 1e-9);
    // A block that is missing: nothing to compare with.
    let mut gap = rounds(8, &[(1, 1.5)], &[(1, 1.0)]);
    gap.remove(2);
    assert_eq!(measure(&gap, &BTreeMap::new()).comparisons, 7);
    // At either end of what was seen, and where nobody was.
    let ends = blocks(&[(true, both), (false, both), (true, both)]);
    assert_eq!(measure(&ends, &BTreeMap::new()).comparisons, 0);
    assert_eq!(
        measure(&rounds(8, &[], &[]), &BTreeMap::new()),
        Measurement { plain_blocks: 8, ..Measurement::default() }
    );
}

#[test]
fn a_run_of_plain_blocks_is_one_comparison() {
    let (governed, plain): (Cores, Cores) = (&[(1, 2.0)], &[(1, 1.0)]);
    let told =
        measure(&blocks(&[(false, governed), (true, plain), (true, plain), (false, governed)]), &BTreeMap::new());
    assert_eq!((told.plain_blocks, told.comparisons), (2, 1));
}

#[test]
fn what_scatters_is_told_with_a_wide_interval() {
    let interval = |scatter: f64, count: usize| {
        let mut all = Vec::new();
        for round in 0..count {
            let sign = if round % 2 == 0 { scatter } else { -scatter };
            all.push((false, vec![(1, 1.2 + sign)]));
            all.push((true, vec![(1, 1.0)]));
            all.push((false, vec![(1, 1.2 + sign)]));
        }
        let all: Vec<(bool, &[(u64, f64)])> = all.iter().map(|(plain, jobs)| (*plain, jobs.as_slice())).collect();
        measure(&blocks(&all), &BTreeMap::new()).cores.expect("enough")
    };
    let few = interval(0.4, 6);
    assert!(few.low < 1.0 && few.high > 1.5, "no gain can be claimed: {few:?}");
    let many = interval(0.4, 60);
    assert!(many.low > 1.0, "{many:?}");
    let exact = interval(0.0, 6);
    assert!((exact.high / exact.likely - 1.0 - LEAST_DOUBT).abs() < 0.001, "counters are not exact: {exact:?}");
}

#[test]
fn students_t_is_right_to_a_part_in_a_thousand() {
    for (degrees, known) in [(5.0, 2.5706), (8.0, 2.3060), (20.0, 2.0860), (100.0, 1.9840)] {
        assert!((student(degrees) / known - 1.0_f64).abs() < 1.5e-3, "{degrees}: {}", student(degrees));
    }
}
