//! Which counter is the progress of the job, and its total.

use super::*;

fn plain(count: Count) -> Counted {
    Counted { count, label: 0 }
}

#[test]
fn the_outermost_counter_that_moves_is_the_counter_of_the_job() {
    let mut counters = Counters::default();
    counters.advance(plain(Count::Pair), 5000.0, Some(5000.0), 1, false);
    let mut line = 2;
    for epoch in 1..=3 {
        for batch in (0..100).step_by(10) {
            counters.advance(plain(Count::Epoch), f64::from(epoch), Some(10.0), line, true);
            counters.advance(plain(Count::Pair), f64::from(batch), Some(100.0), line, true);
            line += 1;
        }
    }
    let outer = counters.outermost(Beside { first_line: 2, counters: 0 }).expect("counters were seen");
    assert_eq!((outer.count, outer.current, counters.total_of(outer)), (Count::Epoch, 3.0, Some(10.0)));
    assert_eq!(counters.folded(outer), 2.9);
}

#[test]
fn a_counter_that_restarts_again_and_again_counts_rounds_and_has_no_total() {
    let mut counters = Counters::default();
    let mut latest = 0.0;
    for round in 0..4 {
        for batch in (0..1000).step_by(50) {
            counters.advance(plain(Count::Pair), f64::from(batch), Some(1000.0), 1, false);
        }
        let outer = counters.outermost(Beside::default()).expect("it moves");
        let (done, total) = (counters.folded(outer), counters.total_of(outer));
        match round {
            0 | 1 => assert_eq!((done, total), (950.0, Some(1000.0)), "a second fit is possible"),
            _ => assert_eq!((done, total), (f64::from(round) * 1000.0 + 950.0, None)),
        }
        assert!(done >= latest);
        latest = done;
    }
}

#[test]
fn steps_that_start_again_count_rounds_only_if_the_metric_goes_on() {
    for goes_on in [true, false] {
        let mut counters = Counters::default();
        for step in (0..4).flat_map(|_| (0..500).step_by(50)) {
            let beside = counters.advance(plain(Count::Step), f64::from(step), Some(500.0), 1, false);
            let fell = counters.fell() & beside;
            counters.go_on(if goes_on { fell } else { 0 });
        }
        let outer = counters.outermost(Beside::default()).expect("it moves");
        let expected = if goes_on { (1950.0, None) } else { (450.0, Some(500.0)) };
        assert_eq!((counters.folded(outer), counters.total_of(outer)), expected, "the metric goes on: {goes_on}");
    }
}

#[test]
fn a_total_that_moves_is_none() {
    let mut counters = Counters::default();
    for at in 0..10 {
        counters.advance(plain(Count::Batch), f64::from(at), Some(f64::from(203_800 + at)), 1, false);
    }
    let outer = counters.outermost(Beside::default()).expect("it moves");
    assert_eq!((outer.current, counters.total_of(outer)), (9.0, None));
}

#[test]
fn counters_that_do_not_move_are_evicted_first() {
    let mut counters = Counters::default();
    counters.advance(plain(Count::Step), 1.0, None, 1, false);
    counters.advance(plain(Count::Step), 2.0, None, 2, false);
    for label in 0..100 {
        counters.advance(Counted { count: Count::Tally, label }, 7.0, None, u64::from(label) + 3, false);
    }
    assert_eq!(counters.outermost(Beside::default()).map(|counter| counter.current), Some(2.0));
}

#[test]
fn a_full_bar_is_over_once_a_longer_one_moves() {
    let mut counters = Counters::default();
    for (total, until) in [(2.0, 3), (400.0, 10), (20.0, 5)] {
        for at in 0..until {
            counters.advance(plain(Count::Pair), f64::from(at).min(total), Some(total), 1, false);
        }
        let whole = counters.outermost(Beside::default()).and_then(|counter| counter.total);
        assert_eq!(whole, Some(total.max(if total == 20.0 { 400.0 } else { 0.0 })), "a shorter one does not count");
    }
}

#[test]
fn batches_on_the_line_of_an_epoch_are_inside_it_even_if_the_bar_was_printed_before() {
    let mut counters = Counters::default();
    counters.advance(plain(Count::Pair), 0.0, Some(400.0), 1, false);
    let mut latest = |epoch: f64| {
        for batch in [0.0, 100.0, 200.0, 300.0] {
            counters.advance(plain(Count::Epoch), epoch, None, 1, true);
            counters.advance(plain(Count::Pair), batch, Some(400.0), 1, true);
        }
        let outer = counters.outermost(Beside::default()).expect("it counts");
        (outer.count, counters.folded(outer), counters.total_of(outer))
    };
    assert_eq!(latest(0.0), (Count::Pair, 300.0, Some(400.0)), "a single epoch without a total says nothing");
    assert_eq!(latest(1.0), (Count::Epoch, 1.75, None));
}

#[test]
fn a_single_lower_value_is_ignored_and_a_second_one_is_a_restart() {
    let mut counters = Counters::default();
    for epoch in [0.0, 1.0, 2.0, 49.0, 0.0] {
        counters.advance(plain(Count::Epoch), epoch, None, 1, true);
    }
    assert_eq!(counters.outermost(Beside::default()).map(|c| c.current), Some(49.0));
    counters.advance(plain(Count::Epoch), 1.0, None, 1, true);
    assert_eq!(counters.outermost(Beside::default()).map(|c| c.current), Some(1.0));
}

#[test]
fn a_declared_total_is_used_until_the_counter_exceeds_it() {
    let mut counters = Counters::default();
    counters.declare(Count::Epoch, 30.0, 1);
    counters.advance(plain(Count::Epoch), 1.0, None, 2, false);
    let total =
        |counters: &Counters| counters.outermost(Beside::default()).and_then(|counter| counters.total_of(counter));
    assert_eq!(total(&counters), Some(30.0));
    counters.advance(plain(Count::Epoch), 31.0, None, 3, false);
    assert_eq!(total(&counters), None);
}

#[test]
fn a_counter_that_restarts_in_each_epoch_is_inside_it_and_one_that_continues_is_not() {
    let named = |name: u16, total: f64| (Counted { count: Count::Step, label: name }, Some(total));
    let ((inner, length), (global, whole)) = (named(1, 100.0), named(2, 500.0));
    let mut counters = Counters::default();
    for epoch in 0..5 {
        counters.advance(plain(Count::Epoch), f64::from(epoch), None, 10, false);
        for batch in 0..10 {
            let at = f64::from(epoch * 100 + batch * 10);
            counters.advance(inner, f64::from(batch * 10), length, 11, false);
            counters.advance(global, at, whole, 11, false);
        }
        let outer = counters.outermost(Beside { first_line: 0, counters: 0b110 }).map(|counter| counter.label);
        assert!(outer == Some(2) || epoch == 0, "epoch {epoch}: at first the two cannot be distinguished");
    }
}

#[test]
fn a_number_with_an_unknown_name_is_a_counter_if_it_grows_evenly_beside_the_evaluation() {
    let beside = Beside { first_line: 0, counters: 1 };
    let mut counters = Counters::default();
    for value in [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] {
        assert_eq!(counters.outermost(beside), None, "at {value}");
        counters.advance(plain(Count::Tally), value, None, 1, false);
    }
    assert_eq!(counters.outermost(beside).map(|counter| counter.current), Some(6.0));
    counters.advance(plain(Count::Tally), 60.0, None, 1, false);
    counters.advance(plain(Count::Tally), 61.0, None, 1, false);
    counters.advance(plain(Count::Tally), 99.0, None, 1, false);
    assert_eq!(counters.outermost(beside), None);
}

#[test]
fn a_score_of_n_of_m_is_no_progress() {
    let mut counters = Counters::default();
    for (epoch, right) in (0u32..).zip([9100, 9250, 9240, 9310, 9300, 9350, 9320, 9400]) {
        counters.advance(plain(Count::Epoch), f64::from(epoch), None, u64::from(epoch), false);
        counters.advance(plain(Count::Pair), f64::from(right), Some(10_000.0), u64::from(epoch), true);
    }
    let outer = counters.outermost(Beside::default()).expect("epochs advance");
    assert_eq!(outer.count, Count::Epoch);
}
