//! A random number in every notation: the log is read as the one with plain numbers, and the values are those that were printed. Any other
//! text in place of the number does no harm, and the reading does not depend on where the input is split.
#![no_main]

use flowcon::traininglog::Hints;
use flowcon::traininglog::survey::{LogReading, Survey};
use libfuzzer_sys::fuzz_target;

const LINES: [&str; 6] = [
    "epoch {n} loss: {}\n",
    "{'epoch': {n}, 'loss': {}, 'acc': {}}\n",
    "epoch={n} loss={}\n",
    "Epoch {n}/9 - loss: {} - acc: {}\n",
    "2026-03-04 10:00:05,123 - INFO - step {n} | loss: {} |\n",
    "{\"epoch\": {n}, \"loss\": {}}\n",
];

const WRAPPERS: [&str; 14] = [
    "np.float32({})",
    "np.longdouble('{}')",
    "array([{}], dtype=float32)",
    "tensor({})",
    "tensor([[{}]], device='cuda:0', grad_fn=<NllLossBackward0>)",
    "Array({}, dtype=float32, weak_type=True)",
    "tf.Tensor({}, shape=(), dtype=float32)",
    "<tf.Tensor: shape=(), dtype=float32, numpy={}>",
    "<tf.Variable 'v:0' shape=() dtype=float32, numpy={}>",
    "Tensor(shape=[1], dtype=float32, place=Place(gpu:0), stop_gradient=False, [{}])",
    "Decimal('{}')",
    "Some({})",
    "<Quantity({}, 'dimensionless')>",
    "mpf('{}')",
];

const SEPARATORS: [&str; 7] = ["'", "’", "_", "\u{202f}", "\u{a0}", "\u{2009}", "\u{2007}"];

fn read(parts: &[&[u8]]) -> LogReading {
    let mut survey = Survey::new(&Hints::default());
    parts.iter().for_each(|part| survey.push(part));
    survey.finish();
    LogReading { excerpts: Vec::new(), ..survey.reading() }
}

fn log(line: &str, numbers: &[String]) -> String {
    let lines = numbers.iter().zip(1..);
    lines.map(|(number, n)| line.replace("{n}", &n.to_string()).replace("{}", number)).collect()
}

/// Inserts a separator between groups of three digits before the point.
fn grouped(number: &str, separator: &str) -> String {
    let begin = usize::from(number.starts_with('-'));
    let whole = number.find('.').unwrap_or(number.len());
    let mut text = number.to_owned();
    (begin + 1..whole).rev().filter(|at| (whole - at) % 3 == 0).for_each(|at| text.insert_str(at, separator));
    text
}

/// The number in a notation, or as it is.
fn printed(plain: &str, style: usize) -> String {
    let minus = |number: String| if style % 2 == 0 { number.replace('-', "\u{2212}") } else { number };
    match style % 24 {
        wrapper @ 0..14 => WRAPPERS[wrapper].replace("{}", plain),
        separator @ 14..21 if !plain.contains('e') => minus(grouped(plain, SEPARATORS[separator - 14])),
        21 if plain.contains('.') && !plain.contains('e') => plain.replace('.', ","),
        22 if plain.contains('.') && !plain.contains('e') => {
            let (whole, decimals) = plain.split_once('.').unwrap_or_default();
            format!("{},{decimals}", grouped(whole, "."))
        }
        23 => minus(plain.to_owned()),
        _ => plain.to_owned(),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((head, text)) = data.split_first_chunk::<11>() else { return };
    let [bits @ .., line, style, format] = *head;
    let line = LINES[usize::from(line) % LINES.len()];
    let number = f64::from_le_bytes(bits);
    let values = [1.0, 0.83, 0.71, 0.52, 0.3].map(|factor| number * factor);
    let plain = values.map(|value| match format % 4 {
        0 if value.abs() < 1e15 => format!("{value:.4}"),
        1 if value.abs() < 1e15 => format!("{value:.6}"),
        2 => format!("{value:e}").to_lowercase(),
        _ => format!("{value:?}").to_lowercase(),
    });
    if plain.iter().all(|number| number.len() < 36) {
        let expected = read(&[log(line, &plain).as_bytes()]);
        let styled = plain.clone().map(|number| printed(&number, usize::from(style)));
        let got = read(&[log(line, &styled).as_bytes()]);
        // NaN is not equal to itself: compare the debug output.
        assert_eq!(format!("{got:?}"), format!("{expected:?}"), "{}", log(line, &styled));
        if expected.metric.as_deref() == Some("loss") {
            let parsed: Vec<f64> = plain.iter().filter_map(|number| number.parse().ok()).collect();
            let values: Vec<f64> = got.observations.iter().map(|observation| observation.value).collect();
            assert_eq!(format!("{values:?}"), format!("{parsed:?}"), "{}", log(line, &styled));
        }
    }
    let text = String::from_utf8_lossy(text).into_owned();
    let log = log(line, &vec![text; 3]).into_bytes();
    let cut = usize::from(format).min(log.len());
    assert_eq!(format!("{:?}", read(&[&log])), format!("{:?}", read(&[&log[..cut], &log[cut..]])));
});
