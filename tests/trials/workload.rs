//! Tests of the built-in trainings: losses fall, and results depend only on the seed, not on the number of threads.

use flowcon::lab::workload::{Amount, Kind, train};
use flowcon::traininglog::{Direction, Hints, Learning, Millis, Tracker};

fn log_of(kind: Kind, amount: Amount) -> String {
    let mut log = Vec::new();
    train(kind, amount, &mut log).expect("writing to a Vec succeeds");
    String::from_utf8(log).expect("logs are text")
}

/// A small amount for an unoptimised build, large enough that the loss falls.
fn small(kind: Kind) -> Amount {
    let (size, epochs) = match kind {
        Kind::Mlp => (256, 12),
        Kind::Vae => (128, 4),
        Kind::Boosting => (1500, 15),
        Kind::Gru => (64, 6),
        Kind::Softmax => (4096, 10),
        Kind::Factors => (3000, 4),
    };
    Amount { epochs, size, threads: 1, seed: 11 }
}

/// The number after the last `key` on each line that has it.
fn numbers_after(log: &str, key: &str) -> Vec<f64> {
    log.lines()
        .filter_map(|line| line.rsplit_once(key))
        .map(|(_, rest)| {
            let number: String =
                rest.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | 'e')).collect();
            number.parse().expect("a number after the metric's name")
        })
        .collect()
}

fn without_times(log: &str) -> String {
    log.lines().map(|line| line.split(" - ").filter(|part| !part.ends_with('s')).collect::<String>() + "\n").collect()
}

#[test]
fn every_loss_falls() {
    let metrics = [
        (Kind::Mlp, "loss: "),
        (Kind::Vae, "Average loss: "),
        (Kind::Boosting, "test-rmse:"),
        (Kind::Gru, "\"loss\": "),
        (Kind::Softmax, "'loss': "),
        (Kind::Factors, "rmse = "),
    ];
    for (kind, key) in metrics {
        let losses = numbers_after(&log_of(kind, small(kind)), key);
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert!(last < 0.96 * first, "{kind}: {losses:?}");
        assert!(losses.iter().all(|loss| loss.is_finite()), "{kind}: {losses:?}");
    }
}

#[test]
fn the_accuracy_of_the_digits_classifier_rises() {
    let accuracies = numbers_after(&log_of(Kind::Mlp, small(Kind::Mlp)), "accuracy: ");
    assert!(accuracies[accuracies.len() - 1] > 1.5 * accuracies[0], "{accuracies:?}");
}

#[test]
fn the_log_is_determined_by_the_seed() {
    for kind in Kind::ALL {
        let amount = Amount { epochs: 1, ..small(kind) };
        let log = without_times(&log_of(kind, amount));
        assert_eq!(log, without_times(&log_of(kind, amount)), "{kind}");
        assert_ne!(log, without_times(&log_of(kind, Amount { seed: 12, ..amount })), "{kind}");
    }
}

#[test]
fn the_log_does_not_depend_on_the_number_of_threads() {
    for kind in Kind::ALL {
        let amount = Amount { epochs: 1, ..small(kind) };
        let alone = without_times(&log_of(kind, amount));
        let shared = without_times(&log_of(kind, Amount { threads: 3, ..amount }));
        assert_eq!(alone, shared, "{kind}");
    }
}

#[test]
fn more_epochs_give_a_longer_log() {
    for kind in Kind::ALL {
        let amount = Amount { epochs: 1, ..small(kind) };
        let shorter = log_of(kind, amount).lines().count();
        let longer = log_of(kind, Amount { epochs: 2, ..amount }).lines().count();
        assert!(longer > shorter, "{kind}: {longer} lines compared with {shorter}");
    }
}

#[test]
fn names_can_be_parsed_and_an_unknown_one_lists_the_valid_ones() {
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "resnet".parse::<Kind>().expect_err("there is none");
    assert!(error.contains("mlp, vae, boosting, gru, softmax, factors"), "{error}");
}

/// The reading of a whole log by the governor's reader, without labels.
fn learning_from(log: &str) -> Learning {
    let mut tracker = Tracker::new(&Hints::default());
    for (second, line) in log.lines().enumerate() {
        tracker.push(format!("{line}\n").as_bytes(), Millis::from_secs(second as u64));
    }
    tracker.peek(Millis::from_secs(log.lines().count() as u64))
}

#[test]
fn the_reader_parses_each_log_without_labels() {
    for kind in Kind::ALL {
        let log = log_of(kind, small(kind));
        let learning = learning_from(&log);
        assert_eq!(learning.direction, Some(Direction::Down), "{kind}: {learning:?}");
        let metric = learning.metric.as_deref().unwrap_or_default().to_lowercase();
        assert!(metric.contains("loss") || metric.contains("rmse"), "{kind} reports {metric:?}");
        let latest = learning.latest.expect("evaluations").value;
        let end: Vec<&str> = log.lines().rev().take(2).collect();
        let found = end.iter().flat_map(|line| numbers_in(line)).any(|number| (number - latest).abs() < 1e-9);
        assert!(found, "{kind}: {latest} is not in {end:?}");
    }
}

#[test]
fn the_reader_finds_the_total_if_the_log_contains_one() {
    for kind in [Kind::Mlp, Kind::Vae, Kind::Gru, Kind::Factors] {
        let log = log_of(kind, small(kind));
        let progress = learning_from(&log).progress.unwrap_or_else(|| panic!("{kind}: no progress read"));
        match (kind, progress.total) {
            // The PyTorch example counts epochs without printing a total.
            (Kind::Vae, total) => assert_eq!(total, None, "{kind}: {progress:?}"),
            (_, Some(total)) => {
                let done = progress.current / total;
                assert!((0.9..=1.0).contains(&done), "{kind}: {progress:?}");
            }
            (_, None) => panic!("{kind}: no total in {progress:?}"),
        }
    }
}

fn numbers_in(line: &str) -> Vec<f64> {
    line.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|word| word.parse().ok()).collect()
}
