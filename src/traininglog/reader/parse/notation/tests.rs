//! The forms of printed numbers and what they are in plain notation.

use super::{is_plain, parse, rewrite};
use crate::reader::parse::commas::Commas;
use crate::reader::parse::scan::Scan;
use proptest::prelude::*;

fn plainly(line: &str) -> String {
    let mut plain = Vec::new();
    rewrite(line.as_bytes(), Commas::Guessed, &mut plain);
    String::from_utf8(plain).expect("a line of text stays one")
}

/// A form and its value.
const VALUES: &[(&str, f64)] = &[
    // Python, NumPy 2, PyTorch, JAX, TensorFlow, PaddlePaddle, and whatever else calls a type.
    ("np.float32(0.5)", 0.5),
    ("np.float64(-1.5e-07)", -1.5e-7),
    ("np.int64(3)", 3.0),
    ("np.float32(nan)", f64::NAN),
    ("np.float64(-inf)", f64::NEG_INFINITY),
    ("numpy.longdouble(0.5)", 0.5),
    ("np.longdouble('0.5')", 0.5),
    ("tensor(0.5)", 0.5),
    ("tensor(1.)", 1.0),
    ("tensor(2.3026e-05, device='cuda:0', grad_fn=<NllLossBackward0>)", 2.3026e-5),
    ("tensor([0.5])", 0.5),
    ("tensor([[0.5]], device='cuda:0', dtype=torch.float64)", 0.5),
    ("tensor(-inf)", f64::NEG_INFINITY),
    ("array(0.5, dtype=float32)", 0.5),
    ("array([1.e-05])", 1e-5),
    ("Array(0.5, dtype=float32, weak_type=True)", 0.5),
    ("DeviceArray(0.5, dtype=float32)", 0.5),
    ("tf.Tensor(0.5, shape=(), dtype=float32)", 0.5),
    ("tf.Tensor([0.5], shape=(1,), dtype=float32)", 0.5),
    ("<tf.Tensor: shape=(), dtype=float32, numpy=0.5>", 0.5),
    ("<tf.Tensor: id=31, shape=(1,), dtype=float32, numpy=array([0.5], dtype=float32)>", 0.5),
    ("<tf.Variable 'loss:0' shape=() dtype=float32, numpy=0.5>", 0.5),
    ("Tensor(shape=[1], dtype=float32, place=Place(gpu:0), stop_gradient=False, [0.5])", 0.5),
    ("Decimal('0.5')", 0.5),
    ("variable(0.5)", 0.5),
    ("masked_array(data=0.5, mask=False, fill_value=1e+20)", 0.5),
    ("c_float(0.5)", 0.5),
    // Julia and R.
    ("Float32(0.5)", 0.5),
    ("0.5f0", 0.5),
    ("1.0e-5", 1e-5),
    ("NaN32", f64::NAN),
    ("-Inf32", f64::NEG_INFINITY),
    ("1e+05", 1e5),
    ("Inf", f64::INFINITY),
    // Go, Java, JavaScript, C, Fortran.
    ("+Inf", f64::INFINITY),
    ("1e+06", 1e6),
    ("1.0E-4", 1e-4),
    ("-Infinity", f64::NEG_INFINITY),
    ("1e-7", 1e-7),
    ("-nan", f64::NAN),
    ("-nan(ind)", f64::NAN),
    ("nan(0x8000000000000)", f64::NAN),
    ("1.#INF", f64::INFINITY),
    ("-1.#INF00", f64::NEG_INFINITY),
    ("1.#QNAN", f64::NAN),
    ("-1.#IND", f64::NAN),
    ("0.5D-03", 0.5e-3),
    ("1.e-05", 1e-5),
    (".5", 0.5),
    ("+0.5", 0.5),
    // Signs and groups of digits of many languages.
    ("\u{2212}0.5", -0.5),
    ("\u{ff0d}12", -12.0),
    ("\u{2212}∞", f64::NEG_INFINITY),
    ("2'050'346", 2_050_346.0),
    ("2’050’346.25", 2_050_346.25),
    ("2_050_346", 2_050_346.0),
    ("2,050,346", 2_050_346.0),
    ("2\u{202f}050\u{202f}346,25", 2_050_346.25),
    ("2\u{a0}050\u{a0}346", 2_050_346.0),
    ("2\u{2009}050,346", 2050.346),
    ("\u{2212}12\u{a0}345,6", -12_345.6),
    ("0,3451", 0.3451),
    ("0.345(12)", 0.345),
];

#[test]
fn a_printed_number_has_its_value_in_each_form() {
    for (form, value) in VALUES {
        let read = parse(form.as_bytes()).unwrap_or_else(|| panic!("{form} is {}", plainly(form)));
        assert!(read == *value || read.is_nan() && value.is_nan(), "{form} is {read}, not {value}");
    }
}

#[test]
fn a_name_keeps_its_value_and_loses_the_wrapper_around_it() {
    for (line, plain) in [
        ("{'loss': np.float32(0.5), 'acc': np.float32(0.3)}", "{'loss': 0.5, 'acc': 0.3}"),
        ("loss: tensor(0.5) acc: tensor(0.3)", "loss: 0.5 acc: 0.3"),
        ("Likelihood tensor([-74.9450], grad_fn=<SubBackward>)", "Likelihood -74.9450"),
        ("Train loss: tensor([0.9], device='cuda:0'). Valid loss: 0.3", "Train loss: 0.9. Valid loss: 0.3"),
        ("losses: tensor([0.5, 0.3], device='cuda:0')", "losses: [0.5, 0.3]"),
        ("(np.float64(0.5), np.float64(0.3))", "(0.5, 0.3)"),
        ("{\"loss\": \"tensor(0.5)\"}", "{\"loss\": \"0.5\"}"),
        ("best=Some(0.5), rate: Ratio(0.25)", "best=0.5, rate: Ratio(0.25)"),
        ("loss=mpf('0.5') acc=Measured(0.3, 'unit', n=3)", "loss=0.5 acc=0.3"),
        ("step 1'000/40'000 at 17:05", "step 1000/40000 at 17:05"),
        ("Verlust: 1.234,56; Schritt 5", "Verlust: 1234.56; Schritt 5"),
        ("step 1,00,000/40,00,000", "step 100000/4000000"),
        ("Genauigkeit: 34,51\u{a0}% (beste)", "Genauigkeit: 34,51 % (beste)"),
        ("loss=None acc=0.5", "loss=- acc=0.5"),
        ("reward: \u{2013}5.5", "reward: -5.5"),
        ("mse: 7,64\u{a0}%, f: 0,2048, g", "mse: 7,64 %, f: 0,2048, g"),
        ("Verlust: -2,3 Verlust: \u{2212}2,3", "Verlust: -2.3 Verlust: -2.3"),
        ("Verlust: 2,3; Genauigkeit 34,5 %", "Verlust: 2.3; Genauigkeit 34.5 %"),
    ] {
        assert_eq!(plainly(line), plain, "{line}");
        assert!(!is_plain(line.as_bytes(), Commas::Guessed), "{line}");
    }
}

#[test]
fn what_is_ambiguous_or_no_number_stays_as_it_is() {
    for line in [
        "loss(0.5) acc(0.3)",
        "Epoch 3: rho(0.5) tau(0.3)",
        "train: rho(0.5)",
        "loss: L1(0.5)",
        "best: epoch(3)",
        "(bn1): BatchNorm2d(64, eps=1e-05, momentum=0.1, affine=True)",
        "(fc): Linear(in_features=64, out_features=10, bias=True)",
        "ratio=Fraction(1, 2) point(3)",
        "z: tensor(0.5+0.1j)",
        "tensor([[0.1, 0.2],",
        "<tf.Tensor 'mean:0' shape=() dtype=float32>",
        "range 1\u{2013}5, pages 3\u{2013}4, 7\u{2212}5, x\u{2212}y",
        "1nan(ind) 3float(0.5)",
        "out/100_200.pt 2024_001_a iter_20_000 12_34",
        "gpus: 0,1 3,5 it's 5 o'clock, '5'123'",
        "v1.234.567 10.123.45.67 1.234 56",
        "3.142,2.718 [1.234,56] 5,10,100,1000 [1,00,000]",
        "f(x) = 3 (4) and 0.5 (0.6)",
        "resume from None, banana",
        "\u{e9}\u{a0}x \u{2588}\u{2588}",
    ] {
        assert_eq!(plainly(line), line);
        assert!(is_plain(line.as_bytes(), Commas::Guessed), "{line}");
    }
}

#[test]
fn a_comma_is_a_point_once_the_log_has_decimal_commas() {
    let mut plain = Vec::new();
    for (line, expected) in [
        ("Verlust 1,234 Schritt 12.345,6", "Verlust 1.234 Schritt 12345.6"),
        ("1,5 0,531 [3,4] (1,234) 5,6,7", "1.5 0.531 [3,4] (1,234) 5,6,7"),
    ] {
        rewrite(line.as_bytes(), Commas::Decimal, &mut plain);
        assert_eq!(String::from_utf8_lossy(&plain), expected);
    }
}

#[test]
fn commas_between_columns_are_no_part_of_a_number() {
    let mut plain = Vec::new();
    for row in ["a,12,34,567", "a,1.234,56"] {
        rewrite(row.as_bytes(), Commas::Divide, &mut plain);
        assert_eq!(plain, row.as_bytes());
    }
}

/// Parts of numbers in many notations, and of what is around them.
const PIECES: &[&str] = &[
    "loss",
    ": ",
    "=",
    " ",
    "'",
    "_",
    ",",
    ".",
    "(",
    ")",
    "<",
    ">",
    "[",
    "-",
    "1",
    "0.5",
    "000",
    "34",
    "e-05",
    "%",
    "np.float32(",
    "tensor(",
    "<Tensor: numpy=",
    "rho(",
    "NaN32",
    "nan",
    "nan(ind)",
    "1.#INF",
    "None",
    "NA",
    "null",
    "1'000",
    "2_050",
    "1.234,56",
    "5,3",
    "\u{2212}",
    "\u{ff0d}",
    "\u{fe63}",
    "\u{2013}",
    "∞",
    "\u{a0}",
    "\u{202f}",
    "\u{2009}",
    "’",
    "±",
    "█",
    "│",
    "é",
    "损失",
    "：",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]
    /// A scan decides by a few marks and words whether to look for other notations at all.
    #[test]
    fn a_scan_finds_each_line_that_is_not_in_plain_notation(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..9),
        commas in prop::sample::select(vec![Commas::Guessed, Commas::Divide, Commas::Decimal]),
    ) {
        let line = pieces.concat();
        let mut scan = Scan::default();
        scan.read(line.as_bytes(), commas);
        prop_assert_eq!(scan.is_plain, is_plain(line.as_bytes(), commas), "{}", line);
    }

    #[test]
    fn a_rewritten_line_is_never_longer(line in "([a-z]{0,3}(tensor|np\\.float|<Tensor: numpy=|loss[:=]|NaN3|∞|\u{2212}|\u{a0}|[0-9.,'_]{1,6}|[(\\[<>\\])'\" ]){0,2}){0,12}") {
        let mut plain = Vec::new();
        rewrite(line.as_bytes(), Commas::Guessed, &mut plain);
        prop_assert!(plain.len() <= line.len());
        prop_assert!(std::str::from_utf8(&plain).is_ok());
        prop_assert_eq!(is_plain(line.as_bytes(), Commas::Guessed), plain == line.as_bytes());
    }
}
