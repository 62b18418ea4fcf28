//! Learning records of jobs that move: trackers that resume on another clock, and rejection of damaged records.

use super::{LearningRecord, Tracker};
use crate::{Hints, Learning, Millis};
use serde_json::{Value, json};

/// Start of the job on the source node's clock, which has run for months.
const BEGAN: u64 = 10_000_000_000;

fn line(epoch: u64) -> String {
    format!("epoch {epoch}/200 loss {:.5}\n", 0.1 + (-(epoch as f64) / 20.0).exp() + 0.001 * (epoch * 7919 % 13) as f64)
}

/// Pushes a line every two seconds from `began` on, and closes an interval every twenty seconds.
fn read_on(tracker: &mut Tracker, epochs: std::ops::RangeInclusive<u64>, began: u64) -> Millis {
    let mut now = Millis(began);
    for epoch in epochs {
        now = now.after(Millis::from_secs(2));
        tracker.push(line(epoch).as_bytes(), now);
        if epoch % 10 == 0 {
            tracker.close_interval(now);
        }
    }
    now
}

fn trained(epochs: u64) -> (Tracker, Millis) {
    let mut tracker = Tracker::new(&Hints::default());
    let now = read_on(&mut tracker, 1..=epochs, BEGAN);
    (tracker, now)
}

fn record(tracker: &Tracker, now: Millis) -> LearningRecord {
    LearningRecord::of(tracker, None, &Hints::default(), Some(3.0), now).expect("something was read")
}

fn carried(record: &LearningRecord) -> LearningRecord {
    LearningRecord::parse(&record.to_json().expect("plain data")).expect("as it was written")
}

fn known(learning: Learning) -> impl PartialEq + std::fmt::Debug {
    let Learning { metric, direction, evaluations, units_to_completion, curve, .. } = learning;
    let progress = learning.progress.map(|progress| (progress.unit, progress.current, progress.total));
    let value = learning.latest.map(|latest| latest.value);
    (metric, direction, evaluations, units_to_completion, curve, progress, value)
}

#[test]
fn a_job_that_moved_is_known_at_once_whatever_the_clocks_of_the_nodes() {
    let (mut source, left) = trained(80);
    let record = carried(&record(&source, left));
    assert_eq!(record.cpu_per_unit(), Some(3.0));
    for came in [Millis(90_000_000_000), Millis(500_000)] {
        let mut target = record.resume(None, &Hints::default(), came).expect("the same hints");
        let (there, here) = (source.peek(left), target.peek(came));
        assert!(here.is_carried && !there.is_carried && here.curve.is_some());
        assert_eq!(
            (here.units_per_second, here.gain),
            (there.units_per_second, None),
            "the time of the move is not counted"
        );
        assert_eq!(here.progress.map(|progress| progress.at), Some(came));
        assert_eq!(known(here), known(there));

        let now = read_on(&mut target, 81..=90, came.0);
        let here = target.peek(now);
        assert!(!here.is_carried);
        assert_eq!(here.evaluations, 90);
        assert!(here.units_per_second.is_some_and(|rate| (0.4..0.6).contains(&rate)), "{:?}", here.units_per_second);
    }
    // The result is the same as if the job had stayed.
    let mut target = record.resume(None, &Hints::default(), left).expect("the same hints");
    let now = read_on(&mut source, 81..=120, left.0);
    assert_eq!(now, read_on(&mut target, 81..=120, left.0));
    assert_eq!(known(source.peek(now)), known(target.peek(now)));
}

#[test]
fn a_job_that_resumes_before_its_last_printed_line_keeps_the_curve_up_to_that_point() {
    let batch = |epoch: u64, batch: u64| {
        let done = (epoch - 1) as f64 + batch as f64 / 500.0;
        format!("epoch {epoch}/60 batch {batch}/500 loss {:.5}\n", 0.1 + (-done / 6.0).exp())
    };
    let mut source = Tracker::new(&Hints::default());
    let mut now = Millis(BEGAN);
    let mut read = |tracker: &mut Tracker, from: (u64, u64), to: (u64, u64)| {
        for at in from.0 * 500 + from.1..=to.0 * 500 + to.1 {
            if at % 50 == 0 {
                now = now.after(Millis::from_secs(1));
                tracker.push(batch((at - 1) / 500, (at - 1) % 500 + 1).as_bytes(), now);
            }
            if at % 500 == 0 {
                tracker.close_interval(now);
            }
        }
        now
    };
    let left = read(&mut source, (1, 1), (20, 300));
    let forecast = source.peek(left).curve.and_then(|curve| curve.units_to_quality).expect("fitted").likely;
    let record = record(&source, left);
    // The twentieth epoch is repeated, from the saved state.
    for (until, done) in [((20, 100), 19.2), ((20, 350), 19.7), ((21, 100), 20.2)] {
        let mut target = record.resume(None, &Hints::default(), left).expect("the same hints");
        let now = read(&mut target, (20, 1), until);
        let learning = target.peek(now);
        assert!((learning.progress.expect("read").current - done).abs() < 0.01, "{until:?}: {:?}", learning.progress);
        let at = done + learning.curve.and_then(|curve| curve.units_to_quality).expect("still known").likely;
        assert!((at - 19.6 - forecast).abs() < 1.0, "{until:?}: {at} is not {}", 19.6 + forecast);
    }
    let mut target = record.resume(None, &Hints::default(), left).expect("the same hints");
    // A job that starts over has all of its work to do.
    let now = read(&mut target, (1, 1), (1, 400));
    assert_eq!(target.peek(now).units_to_completion.map(|left| left.likely), Some(59.2));

    // Once the job has passed its earlier position, a falling counter begins a new curve.
    let mut target = record.resume(None, &Hints::default(), left).expect("the same hints");
    read(&mut target, (20, 1), (22, 100));
    let now = read(&mut target, (10, 1), (10, 400));
    assert_eq!(target.peek(now).curve.map(|curve| curve.phase), None);
}

#[test]
fn a_record_is_resumed_on_a_machine_that_booted_after_the_recorded_instants() {
    let (source, left) = trained(80);
    let record = record(&source, left);
    for up in [0, 1, 1500, 5000] {
        let mut target = record.resume(None, &Hints::default(), Millis(up)).expect("the same hints");
        let rate = target.peek(Millis(up)).units_per_second;
        assert!(rate.is_none_or(|rate| (0.4..0.6).contains(&rate)), "{up}: {rate:?}");
        let now = read_on(&mut target, 81..=90, up);
        assert!(target.peek(now).units_per_second.is_some_and(|rate| (0.4..0.6).contains(&rate)));
    }
}

#[test]
fn a_record_that_does_not_fit_is_refused_with_a_reason() {
    let (source, left) = trained(30);
    let record = record(&source, left);
    let other = Hints { metric: Some("accuracy".to_owned()), ..Hints::default() };
    assert!(record.resume(None, &other, left).is_none(), "another metric");
    assert!(record.resume(Some("/train.log"), &Hints::default(), left).is_none(), "another log");
    let mut json: Value = serde_json::from_str(&record.to_json().unwrap()).unwrap();
    json["version"] = json!(2);
    assert!(LearningRecord::parse(&json.to_string()).is_err_and(|why| why.contains("version 2")));
    json["version"] = json!(1);
    json["cpu_per_unit"] = Value::Null;
    assert!(LearningRecord::parse(&json.to_string()).is_err_and(|why| why.contains("cost per unit")));
    for text in ["", "{}", "null", "[1]", "{\"version\":1}", "{\"version\":-1}", "{\"version\":1e99}"] {
        assert!(LearningRecord::parse(text).is_err_and(|why| why.contains("not a learning record")), "{text}");
    }
    assert_eq!(LearningRecord::of(&Tracker::new(&Hints::default()), None, &Hints::default(), None, left), None);
}

#[test]
fn a_record_of_a_long_log_is_small() {
    let mut tracker = Tracker::new(&Hints::default());
    for step in 0..20_000u64 {
        let drop = if step > 12_000 { 0.3 } else { 0.0 };
        let loss = 1.0 / (1.0 + step as f64 / 300.0) - drop + 0.001 * (step * 7919 % 13) as f64;
        tracker.push(
            format!("epoch {} step {step}/20000 lr 0.1 train_loss {loss:.7}\n", step / 100).as_bytes(),
            Millis(step),
        );
        if step % 50 == 0 {
            tracker.close_interval(Millis(step));
        }
    }
    let bytes = record(&tracker, Millis(20_000)).to_json().expect("plain data").len();
    assert!(bytes < 24 * 1024, "{bytes} bytes");
}

/// Collects the JSON pointers of all leaves and arrays.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| leaves(value, &format!("{path}/{key}"), found)),
        Value::Array(items) => {
            found.push(path.to_owned());
            // The first items stand for the rest.
            items.iter().take(3).enumerate().for_each(|(at, value)| leaves(value, &format!("{path}/{at}"), found));
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn no_value_in_a_record_breaks_a_tracker() {
    let (source, left) = trained(80);
    let good: Value = serde_json::from_str(&record(&source, left).to_json().unwrap()).unwrap();
    let mut places = Vec::new();
    leaves(&good, "", &mut places);
    let numbers =
        [json!(1e300), json!(-1e300), json!(1e59), json!(-1e59), json!(1e-300), json!(0), json!(-1), json!(0.5)];
    let counts =
        [json!(u64::MAX), json!(u64::MAX - 1), json!(u32::MAX), json!(1u64 << 53), json!(u16::MAX), json!(255)];
    let others = [Value::Null, json!("NaN"), json!("x".repeat(5000)), json!(true), json!({}), json!([])];
    let (mut refused, mut accepted) = (0, 0);
    for place in &places {
        let standing = good.pointer(place).expect("a leaf");
        let again = standing.as_array().map(|items| Value::from([&items[..], &items[..], &items[..]].concat()));
        let longer = standing.as_array().and_then(|items| Some(Value::from(vec![items.first()?.clone(); 1000])));
        let wrong = numbers.iter().chain(&counts).chain(&others).chain(&again).chain(&longer);
        for wrong in wrong {
            let mut bad = good.clone();
            *bad.pointer_mut(place).expect("a leaf") = wrong.clone();
            let Ok(record) = LearningRecord::parse(&bad.to_string()) else {
                refused += 1;
                continue;
            };
            accepted += 1;
            let Some(mut tracker) = record.resume(None, &Hints::default(), Millis(100_000)) else { continue };
            tracker.close_interval(Millis(100_000));
            let now = read_on(&mut tracker, 1..=40, 100_000);
            tracker.push(b"epoch 7/10 loss nan\nepoch 1e300/9 loss 1e308\nepoch 2/9 loss -1e308\n", now);
            tracker.close_interval(now.after(Millis(1)));
            drop((tracker.peek(now), tracker.prior_run(), tracker.recent(), tracker.checkpoint()));
            drop(LearningRecord::of(&tracker, None, &Hints::default(), Some(1.0), now));
        }
    }
    assert!(refused > accepted && accepted > 0, "{refused} refused, {accepted} accepted");
    let numbers = good.to_string().replacen("\"evaluations\":80", "\"evaluations\":NaN", 1);
    assert!(LearningRecord::parse(&numbers).is_err());
}
