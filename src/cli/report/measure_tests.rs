//! Tests of the measurement with blocks small enough to be computed by hand.

use super::*;
use api::wire::BlockWork;

/// The cores of each job.
type Cores<'a> = &'a [(u64, f64)];

/// Successive blocks of a minute: whether a block is plain, and the cores of each job.
fn blocks(measured: &[(bool, Cores)]) -> Vec<BlockRecord> {
    let block = |(place, (plain, jobs)): (usize, &(bool, Cores))| BlockRecord {
        from_unix_ms: place as u64 * 60_000,
        until_unix_ms: (place as u64 + 1) * 60_000,
        plain: *plain,
        span_s: 40.0,
        work: jobs.iter().map(|(job, cores)| BlockWork { job: *job, cpu_s: 40.0 * cores }).collect(),
    };
    measured.iter().enumerate().map(block).collect()
}

/// `count` control periods, each between two governed blocks; with the cores of each job governed and plain.
fn rounds(count: usize, governed: &[(u64, f64)], plain: &[(u64, f64)]) -> Vec<BlockRecord> {
    let round = [(false, governed), (true, plain), (false, governed)];
    blocks(&round.repeat(count))
}

fn works(works: &[(u64, f64)]) -> BTreeMap<u64, f64> {
    works.iter().copied().collect()
}

#[test]
fn the_gain_of_a_preferred_job_and_the_loss_of_a_waiting_one_are_measured() {
    let blocks = rounds(8, &[(1, 1.5), (2, 0.5)], &[(1, 1.0), (2, 1.0)]);
    let measured = measure(&blocks, &works(&[(1, 100.0), (2, 900.0)]));
    assert_eq!((measured.plain_blocks, measured.comparisons), (8, 8));
    let likely = |job: u64| measured.jobs[&job].1.expect("enough").likely;
    assert!((likely(1) - 1.5).abs() < 1e-9 && (likely(2) - 0.5).abs() < 1e-9);
    assert!((measured.cores.expect("enough").likely - 1.0).abs() < 1e-9);
    // 1.5/100 + 0.5/900 jobs a second instead of 1/100 + 1/900.
    let expected = (1.5 / 100.0 + 0.5 / 900.0) / (1.0 / 100.0 + 1.0 / 900.0);
    let work = measured.work.expect("enough");
    assert!((work.likely - expected).abs() < 1e-9 && work.low > 1.0, "{work:?}");
}

#[test]
fn too_few_comparisons_give_no_result() {
    let measured = measure(&rounds(MIN_COMPARISONS - 1, &[(1, 1.5)], &[(1, 1.0)]), &works(&[(1, 9.0)]));
    assert_eq!((measured.comparisons, measured.work, measured.cores), (MIN_COMPARISONS - 1, None, None));
    assert_eq!(measured.jobs[&1], (MIN_COMPARISONS - 1, None));
    assert_eq!(measure(&[], &BTreeMap::new()), Measurement::default());
}

#[test]
fn a_trend_is_not_a_gain() {
    // A job whose speed grows steadily, governed or not.
    let mut measured: Vec<(bool, Vec<(u64, f64)>)> = Vec::new();
    for place in 0..60 {
        measured.push((place % 6 == 3, vec![(1, 1.0 + 0.05 * f64::from(place))]));
    }
    let measured: Vec<(bool, &[(u64, f64)])> = measured.iter().map(|(plain, jobs)| (*plain, jobs.as_slice())).collect();
    let range = measure(&blocks(&measured), &BTreeMap::new()).cores.expect("enough");
    assert!((range.likely - 1.0).abs() < 1e-9, "{range:?}");
}

#[test]
fn a_job_counts_until_it_ends_and_a_block_without_neighbours_is_not_compared() {
    let both: &[(u64, f64)] = &[(1, 1.0), (2, 1.0)];
    let one: &[(u64, f64)] = &[(1, 2.0)];
    // Job 2 ends after plain blocks as often as it starts before them: no gain for the node or for a job.
    let measured = measure(
        &blocks(&[(false, both), (true, both), (false, one), (false, one), (true, one), (false, both)].repeat(6)),
        &BTreeMap::new(),
    );
    assert!((measured.cores.expect("enough").likely - 1.0).abs() < 1e-9);
    // A missing block: nothing to compare with.
    let mut gap = rounds(8, &[(1, 1.5)], &[(1, 1.0)]);
    gap.remove(2);
    assert_eq!(measure(&gap, &BTreeMap::new()).comparisons, 7);
    // Control periods at either end of the record, and blocks without jobs.
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
    let measured =
        measure(&blocks(&[(false, governed), (true, plain), (true, plain), (false, governed)]), &BTreeMap::new());
    assert_eq!((measured.plain_blocks, measured.comparisons), (2, 1));
}

#[test]
fn scattered_values_give_a_wide_interval() {
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
    assert!((exact.high / exact.likely - 1.0 - MIN_UNCERTAINTY).abs() < 0.001, "counters are not exact: {exact:?}");
}

#[test]
fn students_t_is_accurate_to_a_part_in_a_thousand() {
    for (degrees, known) in [(5.0, 2.5706), (8.0, 2.3060), (20.0, 2.0860), (100.0, 1.9840)] {
        assert!((student(degrees) / known - 1.0_f64).abs() < 1.5e-3, "{degrees}: {}", student(degrees));
    }
}
