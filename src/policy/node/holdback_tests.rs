//! Tests of the assignment of control periods, and of their effect on a governor.

use super::*;
use crate::node::testing::{container, node};
use crate::{Governor, check, diff};
use model::{Bounds, Hold, Reason, RunState, Share};
use proptest::prelude::*;

const SECOND: u64 = 1000;

fn settings(part: f64, block_s: u64) -> PolicySettings {
    PolicySettings {
        holdback: Share::clamped(part),
        holdback_block: Millis::from_secs(block_s),
        ..PolicySettings::default()
    }
}

fn blocks(part: f64, node: &str) -> Holdback {
    Holdback::new(&settings(part, 60), node).expect("it is on")
}

fn plain_numbers(holdback: &Holdback, blocks: std::ops::Range<u64>) -> Vec<u64> {
    blocks.filter(|number| holdback.is_plain(*number)).collect()
}

#[test]
fn there_are_no_control_periods_by_default_or_under_fair() {
    assert_eq!(Holdback::new(&PolicySettings::default(), "n"), None);
    let fair = PolicySettings { policy: PolicyName::Fair, ..settings(0.2, 60) };
    assert_eq!(Holdback::new(&fair, "n"), None);
}

#[test]
fn the_wash_out_is_one_interval_but_at_most_a_quarter_of_the_block() {
    let at = |block_s| {
        let block =
            Holdback::new(&settings(0.1, block_s), "n").expect("it is on").block_at(1_700_000_000_123, Millis(7));
        (block.washed_unix_ms - block.from_unix_ms, block.until_unix_ms - block.from_unix_ms)
    };
    assert_eq!(at(300), (20 * SECOND, 300 * SECOND));
    assert_eq!(at(40), (10 * SECOND, 40 * SECOND));
}

#[test]
fn every_place_of_a_group_is_drawn_equally_often_and_independently() {
    let holdback = blocks(0.1, "node-1");
    let plain = plain_numbers(&holdback, 0..200_000);
    let mut places = [0_u32; 10];
    plain.iter().for_each(|number| places[(number % 10) as usize] += 1);
    // 2,000 each; five standard deviations are 212.
    assert!(places.iter().all(|count| (1788..2212).contains(count)), "{places:?}");
    // Groups are independent: the same place is drawn again in one of ten.
    let again = plain.windows(2).filter(|pair| pair[0] % 10 == pair[1] % 10).count();
    assert!((1788..2212).contains(&again), "{again}");
}

#[test]
fn nodes_have_independent_control_periods() {
    let (one, other) = (blocks(0.1, "node-1"), blocks(0.1, "node-2"));
    let both = plain_numbers(&one, 0..20_000).into_iter().filter(|number| other.is_plain(*number)).count();
    assert!((130..270).contains(&both), "200 by chance: {both}");
}

proptest! {
    #[test]
    fn any_span_of_time_has_its_part_of_control_periods(part in 0.001..0.5f64, from in 0..2_000_000_000u64, length in 1..3_000u64, name in "[a-z]{1,8}") {
        let holdback = blocks(part, &name);
        let plain = plain_numbers(&holdback, from..from + length).len() as f64;
        let due = length as f64 * holdback.parts as f64 / PARTS as f64;
        // A group cut off at either end may add or lack its control periods.
        prop_assert!((plain - due).abs() <= 4.0, "{plain} of {due}");
        let whole = from / holdback.group();
        for group in whole..whole + 20 {
            let first = group * holdback.group();
            let plain = plain_numbers(&holdback, first..first + holdback.group()).len() as u64;
            prop_assert!(plain == holdback.due(group) && (1..=2).contains(&plain) && plain < holdback.group(), "{plain}");
        }
    }

    #[test]
    fn a_block_is_the_same_at_every_instant_and_for_every_observer(part in 0.001..0.5f64, number in 0..2_000_000_000u64, into in 0..60_000u64, now in 0..1_000_000u64) {
        let from = number * 60_000;
        let begun = blocks(part, "n").block_at(from, Millis(now));
        // Another daemon, in the middle of the block, after a reboot.
        let later = blocks(part, "n").block_at(from + into, Millis(into));
        prop_assert_eq!(HoldbackBlock { until: Millis(0), ..begun }, HoldbackBlock { until: Millis(0), ..later });
        prop_assert_eq!((begun.until, later.until), (Millis(now + 60_000), Millis(60_000)));
        prop_assert_eq!(begun.until_unix_ms, from + 60_000);
    }
}

/// A node with three jobs in a control period or a governed one; the first job has a raised weight.
fn seen(now_s: u64, plain: bool) -> model::NodeObservation {
    let mut node = node(vec![container("a"), container("b"), container("c")]);
    node.now = Millis::from_secs(now_s);
    let until = node.now.after(Millis::from_secs(7));
    node.holdback =
        Some(HoldbackBlock { plain, from_unix_ms: 0, washed_unix_ms: 0, until_unix_ms: 1_700_000_000_000, until });
    node.containers[0].limits.cpu_weight = Some(model::CpuWeight::clamped(250.0));
    node
}

#[test]
fn in_a_control_period_every_limit_is_the_original_and_the_next_tick_is_at_its_end() {
    let mut governor = Governor::new(PolicySettings::default());
    let seen = seen(100, true);
    let plan = governor.tick(&seen);
    assert!(check(&plan, &seen).is_empty());
    assert!(plan.containers.iter().all(|job| job.limits == Some(model::Limits::default())));
    assert!(plan.containers.iter().all(|job| matches!(job.reason, Reason::PlainBlock { .. })), "{plan:?}");
    assert_eq!(plan.next_tick, Millis::from_secs(107));
    let changes = diff(&plan, &seen);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].to, model::Setting::CpuWeight(model::CpuWeight::DEFAULT));
}

#[test]
fn a_control_period_keeps_fixed_shares_and_holds() {
    let mut seen = seen(100, true);
    let half = Share::clamped(0.5);
    seen.containers[0].bounds = Bounds { min: half, max: half };
    seen.containers[2].hold = Some(Hold::Released);
    let plan = Governor::new(PolicySettings::default()).tick(&seen);
    assert!(check(&plan, &seen).is_empty(), "{:?}", check(&plan, &seen));
    // As much as the two others, which have 100 each.
    let weight = plan.containers[0].limits.and_then(|limits| limits.cpu_weight);
    assert_eq!(weight, Some(model::CpuWeight::clamped(200.0)));
    assert!((plan.containers[0].share.fraction() - 0.5).abs() < 0.01);
    assert_eq!(plan.containers[1].limits, Some(model::Limits::default()));
    assert_eq!(plan.containers[2].limits, None);
}

#[test]
fn the_begin_and_end_of_a_control_period_trigger_a_tick() {
    let mut governor = Governor::new(PolicySettings::default());
    governor.tick(&seen(100, false));
    assert!(!governor.is_disturbed(&seen(101, false)));
    assert!(governor.is_disturbed(&seen(101, true)));
    governor.tick(&seen(101, true));
    assert!(!governor.is_disturbed(&seen(102, true)));
    assert!(governor.is_disturbed(&seen(102, false)));
}

#[test]
fn a_frozen_job_has_no_share_in_a_control_period() {
    let mut seen = seen(100, true);
    seen.containers[1].state = RunState::Paused;
    let plan = Governor::new(PolicySettings::default()).tick(&seen);
    assert!(check(&plan, &seen).is_empty());
    assert_eq!(plan.containers[1].share, Share::NONE);
}
