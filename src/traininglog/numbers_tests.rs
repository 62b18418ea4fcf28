//! Logs whose numbers are printed in the ways of many languages and libraries are read exactly like the log with plain numbers.

use super::Tracker;
use super::survey::{LogReading, Survey};
use crate::{Direction, Hints, Learning, Millis};

const STEPS: usize = 30;

fn loss(i: usize) -> f64 {
    0.1 + 2.3 * 0.93f64.powi(i as i32)
}

/// Thirty lines: `{n}` is 1, 2, …; `{L}` a falling loss; `{A}` a rising accuracy; `{R}` a rising negative reward. `print` prints these.
fn log(template: &str, print: impl Fn(String) -> String) -> String {
    let line = |i: usize| {
        template
            .replace("{n}", &(i + 1).to_string())
            .replace("{L}", &print(format!("{:.4}", loss(i))))
            .replace("{A}", &print(format!("0.{}", 50 + i)))
            .replace("{R}", &print(format!("{:.2}", 12.5 * i as f64 - 400.0)))
    };
    (0..STEPS).map(|i| line(i) + "\n").collect()
}

/// The reading without the excerpts, which show the lines as they are.
fn reading(log: &str) -> LogReading {
    let mut survey = Survey::new(&Hints::default());
    survey.push(log.as_bytes());
    survey.finish();
    LogReading { excerpts: Vec::new(), ..survey.reading() }
}

/// How numbers are printed inside of their types; `{}` is the number.
const WRAPPERS: &[&str] = &[
    "np.float32({})",
    "np.float64({})",
    "numpy.float16({})",
    "np.longdouble('{}')",
    "array({}, dtype=float32)",
    "array([{}])",
    "tensor({})",
    "tensor([{}])",
    "tensor({}, device='cuda:0')",
    "tensor({}, device='cuda:0', dtype=torch.float64, grad_fn=<NllLossBackward0>)",
    "tensor([[{}]], grad_fn=<MulBackward0>)",
    "Array({}, dtype=float32)",
    "Array({}, dtype=float32, weak_type=True)",
    "DeviceArray({}, dtype=float32)",
    "tf.Tensor({}, shape=(), dtype=float32)",
    "<tf.Tensor: shape=(), dtype=float32, numpy={}>",
    "<tf.Variable 'Variable:0' shape=() dtype=float32, numpy={}>",
    "Tensor(shape=[1], dtype=float32, place=Place(gpu:0), stop_gradient=False, [{}])",
    "variable({})",
    "Decimal('{}')",
    "Float32({})",
    "c_double({})",
];

const LINES: &[&str] = &[
    "Epoch {n}/30 loss: {L} acc: {A}",
    "Epoch {n}/30, loss {L}, acc {A}",
    "Epoch [{n}/30] - loss={L} - acc={A}",
    "{'epoch': {n}, 'loss': {L}, 'acc': {A}}",
    "{\"epoch\": {n}, \"loss\": {L}, \"train\": {\"acc\": {A}}}",
    "2026-03-04 10:00:05,123 - INFO - epoch {n} | Train loss: {L} | Valid acc: {A}",
    "epoch {n} loss {L}",
    "Cost after iteration {n}: {L}",
    "Epoch {n}/30: [('loss', {L}), ('acc', {A})]",
];

#[test]
fn a_log_of_wrapped_numbers_is_read_as_the_plain_one() {
    for line in LINES {
        let plain = reading(&log(line, |number| number));
        assert_eq!((plain.observations.len(), plain.direction), (STEPS, Some(Direction::Down)), "{line}");
        for wrapper in WRAPPERS {
            let wrapped = reading(&log(line, |number| wrapper.replace("{}", &number)));
            assert_eq!(wrapped, plain, "{wrapper} in {line}");
        }
    }
}

#[test]
fn a_line_is_shown_as_it_was_printed() {
    let text = log("{'epoch': {n}, 'loss': {L}}", |number| format!("np.float32({number})"));
    let mut tracker = Tracker::new(&Hints::default());
    tracker.push(text.as_bytes(), Millis(0));
    assert_eq!(tracker.line(), text.lines().last());
}

#[test]
fn an_unknown_call_behind_a_name_is_a_wrapper() {
    for line in ["Epoch {n}/30 loss: {L} acc: {A}", "{'epoch': {n}, 'loss': {L}}", "epoch={n} loss={L}"] {
        let plain = reading(&log(line, |number| number));
        for wrapper in
            ["mpf('{}')", "Measured({})", "Some({})", "<Quantity({}, 'dimensionless')>", "units.Amount({}, n=3)"]
        {
            assert_eq!(reading(&log(line, |number| wrapper.replace("{}", &number))), plain, "{wrapper} in {line}");
        }
    }
    let named = reading(&log("Epoch {n}/30: loss({L}) acc({A})", |number| number));
    assert_eq!((named.metric.as_deref(), named.observations.len()), (Some("loss"), STEPS));
}

#[test]
fn three_equal_jobs_have_equal_learning_however_they_print_their_numbers() {
    let line = "{'epoch': {n}, 'loss': {L}, 'acc': {A}}";
    let logs = ["{}", "np.float32({})", "tensor({}, device='cuda:0')"]
        .map(|wrapper| log(line, |number| wrapper.replace("{}", &number)));
    let mut trackers = [(); 3].map(|()| Tracker::new(&Hints::default()));
    for minute in 1..=10_u64 {
        let now = Millis(minute * 60_000);
        let learnings: Vec<Learning> = trackers
            .iter_mut()
            .zip(&logs)
            .map(|(tracker, log)| {
                let lines = log.split_inclusive('\n').skip(minute as usize * 3 - 3).take(3);
                lines.for_each(|line| tracker.push(line.as_bytes(), now));
                tracker.close_interval(now)
            })
            .collect();
        assert_eq!(learnings[0].metric.as_deref(), Some("loss"));
        assert!(minute < 3 || learnings[0].gain.is_some_and(|gain| gain.amount > 0.0), "minute {minute}");
        // Their shares depend on nothing else.
        assert_eq!([&learnings[1], &learnings[2]], [&learnings[0]; 2], "minute {minute}");
    }
}

#[test]
fn counts_with_groups_of_digits_are_read_in_each_language() {
    let steps = |separator: &str, i: usize| {
        let digits = (i * 137_250).to_string();
        let first = (digits.len() - 1) % 3 + 1;
        let mut grouped = digits[..first].to_owned();
        for at in (first..digits.len()).step_by(3) {
            grouped += separator;
            grouped += &digits[at..at + 3];
        }
        grouped
    };
    let log = |separator: &str| -> String {
        let line = |i| format!("step {}/{} loss: {:.4}\n", steps(separator, i), steps(separator, 40), loss(i));
        (1..=STEPS).map(line).collect()
    };
    let plain = reading(&log(""));
    assert_eq!(plain.progress.map(|p| (p.current, p.total)), Some((4_117_500.0, Some(5_490_000.0))));
    for separator in ["'", "’", "_", ",", "\u{202f}", "\u{a0}", "\u{2009}", "\u{2007}"] {
        assert_eq!(reading(&log(separator)), plain, "{separator:?}");
    }
    assert_eq!(reading(&log("").replace("/5490000", "/54,90,000")), plain, "lakhs");
}

#[test]
fn a_rising_reward_with_minus_signs_of_any_kind_rises() {
    let plain = reading(&log("episode {n}/30 reward: {R}", |number| number));
    assert_eq!((plain.direction, plain.observations[0].value), (Some(Direction::Up), -400.0));
    for minus in ["\u{2212}", "\u{ff0d}", "\u{2013}"] {
        let printed = reading(&log("episode {n}/30 reward: {R}", |number| number.replace('-', minus)));
        assert_eq!(printed, plain, "{minus:?}");
    }
    // Groups of digits after a sign.
    let grouped = reading(&log("episode {n}/30 reward: {R}", |number| number.replace('-', "\u{2212}1\u{202f}")));
    assert_eq!(grouped.observations[0].value, -1400.0);
}

#[test]
fn an_infinity_keeps_its_sign_and_is_no_improvement() {
    for (printed, value) in [
        ("-inf", f64::NEG_INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        ("+Inf", f64::INFINITY),
        ("inf", f64::INFINITY),
        ("np.float64(-inf)", f64::NEG_INFINITY),
        ("tensor(-inf, grad_fn=<MeanBackward0>)", f64::NEG_INFINITY),
        ("-Inf32", f64::NEG_INFINITY),
        ("-1.#INF", f64::NEG_INFINITY),
        ("\u{2212}∞", f64::NEG_INFINITY),
    ] {
        for name in ["loss", "loglik"] {
            let text = |first: &str| {
                log(&format!("epoch {{n}}/30 {name}: {{R}}"), |number| number).replacen("-400.00", first, 1)
            };
            let read = reading(&text(printed));
            assert_eq!(read.observations[0].value, value, "{name} {printed}");
            // The finite values alone decide.
            let mut tracker = Tracker::new(&Hints::default());
            tracker.push(text(printed).as_bytes(), Millis(60_000));
            assert_eq!(tracker.recent().len(), STEPS - 1, "{name} {printed}");
            assert_eq!(tracker.recent().first(), Some(&-387.5), "{name} {printed}");
        }
    }
}

#[test]
fn a_value_that_is_missing_or_not_a_number_does_not_hide_the_next_name() {
    let plain = reading(&log("Epoch {n}/30 loss={L}", |number| number));
    for missing in ["None", "NA", "null"] {
        let printed = reading(&log(&format!("Epoch {{n}}/30 best={missing} loss={{L}}"), |number| number));
        assert_eq!((&printed.metric, &printed.observations.len()), (&plain.metric, &STEPS), "{missing}");
    }
    for nan in
        ["nan", "-nan", "-nan(ind)", "NaN32", "1.#QNAN", "nan(0x8000000000000)", "tensor(nan)", "np.float32(nan)"]
    {
        let printed = reading(&log(&format!("Epoch {{n}}/30 loss: {nan} acc: {{A}}"), |number| number));
        let of_loss = printed.candidates.iter().find(|candidate| candidate.metric == "loss");
        assert_eq!(of_loss.map(|candidate| candidate.count), Some(30), "{nan}");
    }
}

#[test]
fn a_loss_that_never_was_a_number_is_still_the_metric() {
    for line in
        ["epoch {n}/30 loss nan", "Epoch {n}/30 train_loss: nan val_loss: nan acc: 0.1", "step {n} loss=inf lr=0.1"]
    {
        let printed = reading(&log(line, |number| number));
        assert!(printed.confidence > 0.7, "{line}: {} of {:?}", printed.confidence, printed.metric);
    }
    let setting = reading(&log("epoch {n}/30 loss 3", |number| number));
    assert!(setting.confidence < 0.5, "a constant may be a setting: {}", setting.confidence);
}

#[test]
fn spreads_and_uncertainties_are_no_part_of_a_value() {
    let plain = reading(&log("Epoch {n}/30 loss: {L} acc: 0.5", |number| number));
    for spread in ["±0.0123", " ± 0.0123", "+/-0.0123", " +/- 0.0123", "+-0.0123", "(12)", " (0.6123)"] {
        let printed = reading(&log(&format!("Epoch {{n}}/30 loss: {{L}}{spread} acc: 0.5"), |number| number));
        assert_eq!((&printed.metric, printed.direction), (&plain.metric, plain.direction), "{spread}");
        let values = |read: &LogReading| read.observations.iter().map(|o| o.value).collect::<Vec<_>>();
        assert_eq!(values(&printed), values(&plain), "{spread}");
    }
}

#[test]
fn decimal_commas_are_read_as_points() {
    let comma = |number: String| number.replace('.', ",");
    for line in
        ["Epoche {n}/30 Verlust: {L} Genauigkeit: {A}", "Epoche {n}/30 Belohnung: {R}", "Schritt {n} Verlust {L}"]
    {
        assert_eq!(reading(&log(line, comma)), reading(&log(line, |number| number)), "{line}");
    }
    let percent = |mark: &str| log(&format!("Epoche {{n}}/30 Genauigkeit: {{n}}{mark}5 %"), |number| number);
    assert_eq!(reading(&percent(",")), reading(&percent(".")));
    assert_eq!(reading(&percent(",").replace(" %", "\u{a0}%")), reading(&percent(".")));
}

#[test]
fn a_comma_before_three_digits_is_a_point_once_the_log_shows_it() {
    let line = |i: usize| format!("Epoche {i}/40 Verlust: {:.3}\n", 3.0 * 0.93f64.powi(i as i32)).replace('.', ",");
    let text: String = (1..=40).map(line).collect();
    let read = reading(&text);
    assert!(text.contains("2,790") && read.observations.len() > 20, "{}", read.observations.len());
    assert!(read.observations.iter().all(|o| o.value < 1.0), "{:?}", read.observations[0]);
    assert_eq!((read.metric.as_deref(), read.direction), (Some("Verlust"), Some(Direction::Down)));
    // The log of an American program shows thousands, too.
    let american = log("step 1,{n}00,000 of 9,000,000 loss: 1,234.5 ratio 0,531", |number| number);
    assert_eq!(reading(&american).observations.last().map(|o| o.value), Some(1234.5));
}
