//! Tracker tests with logs in the formats of common frameworks.

use super::{Checkpoint, Tracker};
use crate::pattern::Pattern;
use crate::survey::Survey;
use crate::{Direction, Hints, Millis};
use std::fmt::Write as _;

fn tracker_of(log: &str) -> Tracker {
    let mut tracker = Tracker::new(&Hints::default());
    for (at, line) in log.split_inclusive('\n').enumerate() {
        tracker.push(line.as_bytes(), Millis(at as u64 * 100));
    }
    tracker
}

fn printed(count: usize, mut line: impl FnMut(usize, f64) -> String) -> String {
    (0..count).fold(String::new(), |mut log, i| {
        let _ = writeln!(log, "{}", line(i, 2.0 * 0.9f64.powi(i as i32) + 0.1));
        log
    })
}

#[test]
fn common_frameworks_are_understood_without_labels() {
    let cases: Vec<(&str, String, &str, f64, Option<f64>)> = vec![
        (
            "keras",
            printed(10, |i, l| format!("Epoch {}/40\n80/80 - 1s - 12ms/step - accuracy: 0.9{i} - loss: {l:.4}", i + 1)),
            "loss",
            10.0,
            Some(40.0),
        ),
        (
            "mnist",
            printed(10, |i, l| format!("Train Epoch: 1 [{}/60000 ({i}%)]\tLoss: {l:.6}", i * 640)),
            "Loss",
            5760.0,
            Some(60_000.0),
        ),
        (
            "trainer",
            printed(10, |i, l| {
                format!("{{'loss': {l:.4}, 'grad_norm': 1.{i}, 'learning_rate': 4.{i}e-05, 'epoch': {}.0}}", i + 1)
            }),
            "loss",
            10.0,
            None,
        ),
        (
            "lightning",
            printed(10, |i, l| {
                format!("Epoch {i}: 100%|██████████| 100/100 [00:0{i}<00:00, 33.1it/s, v_num=0, train_loss={l:.3}]")
            }),
            "train_loss",
            10.0,
            None,
        ),
        (
            "xgboost",
            printed(10, |i, l| format!("[{i}]\ttrain-rmse:{l:.5}\ttest-rmse:{:.5}", l * 1.1)),
            "train-rmse",
            9.0,
            None,
        ),
        (
            "lightgbm",
            printed(10, |i, l| format!("[{}]\tvalid_0's l2: 0.{i}\tvalid_0's binary_logloss: {l:.6}", i + 1)),
            "valid_0's binary_logloss",
            10.0,
            None,
        ),
        (
            "brackets",
            printed(10, |i, l| format!("[{}/400] loss: {l:.2} acc: 0.8{i}", i + 1)),
            "loss",
            10.0,
            Some(400.0),
        ),
        (
            "blanks",
            printed(10, |i, l| format!("step {} of 2000 train_loss {l:.2}", i * 10)),
            "train_loss",
            90.0,
            Some(2000.0),
        ),
    ];
    for (name, log, metric, done, total) in cases {
        let learning = tracker_of(&log).peek(Millis(2000));
        assert_eq!(learning.metric.as_deref(), Some(metric), "{name}");
        assert_eq!(learning.direction, Some(Direction::Down), "{name}");
        assert_eq!(learning.evaluations, 10, "{name}: every value counts, the first included");
        assert!(learning.confidence > 0.8, "{name}: {}", learning.confidence);
        let progress = learning.progress.expect(name);
        assert!((progress.current - done).abs() < 1e-9, "{name}: {} units done", progress.current);
        assert_eq!(progress.total, total, "{name}");
    }
}

#[test]
fn a_log_without_an_evaluation_function_is_not_understood() {
    let log = printed(50, |i, l| {
        format!("Downloading part {i} of 50: {:.1} MB at {:.1} MB/s, eta 0:00:{:02}", l * 100.0, l * 10.0, 50 - i)
    });
    let learning = tracker_of(&log).peek(Millis(0));
    assert_eq!((learning.metric, learning.latest), (None, None));
}

#[test]
fn hints_override_what_would_be_chosen() {
    let hints = Hints { metric: Some("val_acc".to_owned()), total: Some(20.0), ..Hints::default() };
    let mut tracker = Tracker::new(&hints);
    tracker.push(printed(10, |i, l| format!("epoch {i} loss {l:.3} val_acc 0.5{i}")).as_bytes(), Millis(0));
    let learning = tracker.peek(Millis(0));
    assert_eq!((learning.metric.as_deref(), learning.direction), (Some("val_acc"), Some(Direction::Up)));
    assert_eq!(learning.progress.and_then(|progress| progress.total), Some(20.0));
    let hints = Hints { ignore: vec!["loss".to_owned()], ..Hints::default() };
    let mut tracker = Tracker::new(&hints);
    tracker.push(printed(10, |i, l| format!("epoch {i} loss {l:.3} val_acc 0.5{i}")).as_bytes(), Millis(0));
    assert_eq!(tracker.peek(Millis(0)).metric.as_deref(), Some("val_acc"));
}

#[test]
fn a_pattern_is_followed() {
    let log = printed(10, |i, l| format!("phase alpha {i}:40 badness <{l:.3}> loss 7.5"));
    let pattern = Pattern::new(r"alpha (?<current>\d+):(?<total>\d+) badness <(?<value>[^>]+)>").expect("valid");
    let pattern = Some(pattern);
    let mut tracker = Tracker::new(&Hints { pattern, direction: Some(Direction::Down), ..Hints::default() });
    tracker.push(log.as_bytes(), Millis(0));
    let learning = tracker.peek(Millis(0));
    assert_eq!(learning.latest.map(|latest| latest.value), Some(0.875));
    assert_eq!((learning.evaluations, learning.confidence), (10, 1.0));
    assert_eq!(learning.progress.map(|p| (p.current, p.total)), Some((9.0, Some(40.0))));
}

#[test]
fn the_choice_survives_a_restart_in_the_middle_of_a_table() {
    let rows = printed(12, |i, l| format!("{:>6} {l:>11.5} {:>11.5} 00:0{}", i, l * 1.2, i % 10));
    let log = format!(" epoch  train_loss  valid_loss  time\n{rows}");
    let cut = log.match_indices('\n').nth(7).map_or(0, |(at, _)| at + 1);
    let mut before = Tracker::new(&Hints::default());
    before.push(&log.as_bytes()[..cut], Millis(0));
    let json = serde_json::to_string(&before.checkpoint()).expect("a checkpoint is plain data");
    assert!(json.len() < 8192, "{} bytes", json.len());
    let checkpoint: Checkpoint = serde_json::from_str(&json).expect("it reads back");
    let mut after = Tracker::resume(&Hints::default(), &checkpoint);
    after.push(&log.as_bytes()[cut..], Millis(1));
    let learning = after.peek(Millis(1));
    assert_eq!((learning.metric.as_deref(), learning.evaluations), (Some("valid_loss"), 12));
    assert_eq!(learning.progress.map(|progress| progress.current), Some(12.0));
}

#[test]
fn evaluations_under_a_heading_are_another_series_and_training_goes_on_after_them() {
    let by_epochs = printed(6, |i, l| {
        format!(
            "Epoch {}/6\nstep 50/100 - loss: {l:.4}\nstep 100/100 - loss: {l:.4}\nEval begin...\nstep 25/25 - loss: 9.0\nEval samples: 800",
            i + 1
        )
    });
    assert_eq!(tracker_of(&by_epochs).peek(Millis(0)).evaluations, 12);
    // The evaluation itself prints many steps.
    let by_long_evaluations = printed(6, |i, l| {
        let evaluation: String = (1..=9).map(|step| format!("\nstep {step}0/88 - loss: 9.0")).collect();
        format!("Epoch {}/6\nstep 50/100 - loss: {l:.4}\nstep 100/100 - loss: {l:.4}\nEval begin...{evaluation}", i + 1)
    });
    assert_eq!(tracker_of(&by_long_evaluations).peek(Millis(0)).evaluations, 12);
    let by_steps = printed(12, |i, l| {
        let evaluation = if i % 4 == 3 { "\nEvaluating...\nloss: 9.0" } else { "" };
        format!("step {} loss: {l:.4}{evaluation}", (i + 1) * 10)
    });
    let learning = tracker_of(&by_steps).peek(Millis(0));
    assert_eq!((learning.evaluations, learning.metric.as_deref()), (12, Some("loss")));
}

#[test]
fn files_of_metrics_are_read_like_logs() {
    let csv = format!(
        "epoch,step,train_loss,val_loss\n{}",
        printed(10, |i, l| format!("{i},{},{l:.4},\n{i},{},,{l:.4}", i * 50 + 49, i * 50 + 49))
    );
    let trainer_state = format!(
        "{{\n  \"best_metric\": null,\n  \"global_step\": 100,\n  \"log_history\": [\n{}  ],\n  \"max_steps\": 100,\n  \"num_train_epochs\": 1\n}}\n",
        printed(10, |i, l| format!(
            "    {{\n      \"epoch\": 0.{i},\n      \"learning_rate\": 5e-05,\n      \"loss\": {l:.4},\n      \"step\": {}\n    }},",
            i * 10
        ))
    );
    let keras = format!(
        "epoch,accuracy,loss,val_accuracy,val_loss\n{}",
        printed(10, |i, l| format!("{i},0.{},{l},0.5,{l}", 50 + i))
    );
    for (name, log, metric) in
        [("lightning", csv, "val_loss"), ("trainer_state", trainer_state, "loss"), ("keras", keras, "val_loss")]
    {
        let learning = tracker_of(&log).peek(Millis(0));
        assert_eq!((learning.metric.as_deref(), learning.evaluations), (Some(metric), 10), "{name}");
        assert!(learning.progress.is_some(), "{name}");
    }
}

#[test]
fn a_name_of_any_metric_follows_the_trend_of_its_values() {
    let direction = |value: fn(u32) -> u32| {
        let log: String =
            (0..30).map(|i| format!("{i}:\tlearn: 0.{}\ttotal: 3.2ms\tremaining: 1.2s\n", value(i))).collect();
        let mut survey = Survey::new(&Hints::default());
        survey.push(log.as_bytes());
        survey.finish();
        survey.reading().direction
    };
    assert_eq!(direction(|i| 650 + 9 * i), Some(Direction::Up), "CatBoost with AUC");
    assert_eq!(direction(|i| 650 - 9 * i), Some(Direction::Down), "CatBoost with Logloss");
}

#[test]
fn a_validation_that_a_bar_draws_again_is_one_value() {
    let mut log = String::new();
    for epoch in 0..4 {
        for batch in 1..=50 {
            let validation = if epoch > 0 { format!(", val_loss=0.{}", 9 - epoch) } else { String::new() };
            log += &format!(
                "\rEpoch {epoch}: {batch}/50 [00:01<00:00, train_loss=0.{}{validation}]",
                900 - 50 * epoch - batch / 2
            );
        }
    }
    let mut survey = Survey::new(&Hints::default());
    survey.push(log.as_bytes());
    survey.finish();
    let candidates = survey.reading().candidates;
    let count = |metric: &str| candidates.iter().find(|candidate| candidate.metric == metric).map(|found| found.count);
    assert_eq!((count("train_loss"), count("val_loss")), (Some(200), Some(3)));
}

#[test]
fn progress_never_falls_while_a_run_goes_on() {
    let headed = |epoch: usize| {
        let bars: String = (1..=4).map(|i| format!("\r{i}/4 [==>] - loss: 0.{}", 9 - epoch)).collect();
        format!("Epoch {epoch}/5\n{bars}\n")
    };
    let summed = |epoch: usize| {
        let batches: String = (1..=4).map(|i| format!("batch {i}/4 loss 0.{}\n", 9 - epoch)).collect();
        format!("{batches}Epoch {epoch} done, mean loss 0.5\n")
    };
    let beside = |epoch: usize| (1..=4).map(|i| format!("epoch {epoch}/5 [{i}/4] loss 0.{}\n", 9 - epoch)).collect();
    let in_parts = |epoch: usize| {
        (1..=4).map(|i| format!("{{'loss': 0.5, 'epoch': {}}}\n", epoch as f64 - 1.0 + f64::from(i) / 4.0)).collect()
    };
    let kinds: [(&str, &dyn Fn(usize) -> String); 4] =
        [("headed", &headed), ("summed", &summed), ("beside", &beside), ("in parts", &in_parts)];
    for (name, epoch) in kinds {
        let mut tracker = Tracker::new(&Hints::default());
        let mut done = Vec::new();
        for piece in (1..=5).flat_map(|n| epoch(n).split_inclusive(['\n', '\r']).map(str::to_owned).collect::<Vec<_>>())
        {
            tracker.push(piece.as_bytes(), Millis(done.len() as u64 * 1000));
            done.extend(tracker.peek(Millis(0)).progress.map(|progress| progress.current));
        }
        assert!(done.iter().skip(8).is_sorted(), "{name}: {done:?}");
        assert_eq!(done.last(), Some(&5.0), "{name}: {done:?}");
    }
}

#[test]
fn a_direction_that_is_inferred_from_the_values_is_found_late_and_then_followed() {
    let log = printed(30, |i, l| format!("step {i} quux {:.4}", 5.0 - l));
    let learning = tracker_of(&log).peek(Millis(0));
    assert_eq!((learning.direction, learning.evaluations), (Some(Direction::Up), 30));
}

#[test]
fn a_resumed_tracker_follows_the_same_metric_after_any_line() {
    let mut log = printed(17, |i, l| format!("Epoch: {i:03}, Train: {:.4}, Val: 0.5{i}, Test: 0.4{i}", 1.0 - l / 3.0));
    let late = printed(400, |i, _| format!("Iteration: {i} / 2000 (Warmup)"))
        + &printed(20, |i, l| format!("step {i} loss {l:.4}"));
    log += "3,4,0.5,0.25\n{\"step\": 2, \"loss\": 0.25}\n{\"step\": 3, \"loss\": 0.24}\n";
    assert_eq!(tracker_of(&late).peek(Millis(0)).metric.as_deref(), Some("loss"), "within twenty lines");
    log += &late;
    let mut tracker = Tracker::new(&Hints::default());
    for line in log.split_inclusive('\n') {
        tracker.push(line.as_bytes(), Millis(0));
        let resumed = Tracker::resume(&Hints::default(), &tracker.checkpoint());
        assert_eq!(resumed.peek(Millis(0)).metric, tracker.peek(Millis(0)).metric, "{line}");
    }
}
