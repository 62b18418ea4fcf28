//! What the worst `flowcon.pattern` costs on the worst line: `cargo bench --bench pattern`.
//!
//! Each row is a family of patterns that are known to be dear, grown to the largest that is accepted, and matched against lines made
//! to be dear for it, as long as the reader hands them on (16 KiB), each another: what was learnt from one helps little with the next. The
//! time is the median over the worst kind of lines. At most 1 ms a line is wanted. The last rows are what people write, on lines as
//! trainings print them.

use flowcon::model::Pattern;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The longest text that the reader hands on.
const LINE: usize = 16 << 10;
/// Lines of each kind.
const TRIES: usize = 31;
/// No label is longer.
const LABEL: usize = 1024;

type Family = fn(usize) -> String;

const FAMILIES: &[(&str, Family)] = &[
    ("optional, then required", |n| format!("(?P<value>(?:a?){{{n}}}a{{{n}}})")),
    ("a long way back", |n| format!("(?:a|b)*a(?:a|b){{{n}}}(?P<value>x)")),
    ("a long way back, found", |n| format!("(?P<value>(?:a|b)*a(?:a|b){{{n}}})")),
    ("nested repetitions", |n| format!("(?P<value>(?:(?:a{{0,{n}}}){{0,{n}}})*x)")),
    ("many gaps", |n| format!("{}(?P<value>x)", ".*a".repeat(n))),
    ("many lazy gaps", |n| format!("(?P<value>{})x", "a.*?".repeat(n))),
    ("gaps of anything", |n| format!("(?s)(?:.*?){{{n}}}(?P<value>x)")),
    ("overlapping words", |n| {
        let words: Vec<String> = (1..=n).map(|length| "a".repeat(length)).collect();
        format!("(?P<value>(?:{})*b)", words.join("|"))
    }),
    ("words without order", |n| {
        let words: Vec<String> = (0..n).map(|word| format!("{}b", "a".repeat(word % 9))).collect();
        format!("(?P<value>(?:{})+x)", words.join("|"))
    }),
    ("digits, counted", |n| format!(r"(?P<value>(?:\d{{1,{n}}}\.?)+)x")),
    ("boundaries", |n| format!(r"(?P<value>(?:\b.?){{{n}}}x)")),
    ("letters of all scripts", |n| format!(r"(?u)(?P<value>\pL{{{n}}})x")),
    ("one class of a script", |n| format!(r"(?u)(?P<value>(?:[α-ω]|a){{{n}}})x")),
    ("groups in groups", |n| format!("(?P<value>{}a{}x)", "(".repeat(n), ")*".repeat(n))),
    ("numbers in groups", |n| format!("(?P<value>(?:(?P<current>a)|(?P<total>b)|.){{{n}}})x")),
    ("ends of lines", |n| format!("(?m)(?P<value>(?:a|b|$|^){{{n}}}x)")),
    ("repetitions of repetitions", |n| format!(r"(^)(?P<value>(?:(?:\w)*){{0,{n}}})x")),
    ("optional beginnings", |n| format!("(?:[^x]|\\b){{{n}}}(?P<value>(?:[ab]){{0,{n}}})+?x")),
];

const HONEST: &[(&str, &str)] = &[
    (r"loss=(?P<value>\S+)", "2026-01-01 10:00:00,123 INFO step 3/90 loss=0.412 lr=0.001"),
    (
        r"(?i)epoch\s+(?P<current>\d+)\s*/\s*(?P<total>\d+).*?val[_ ]loss\s*[:=]\s*(?P<value>[-+]?\d+(?:\.\d+)?)",
        "Epoch 3/90: 100%|██████████| 391/391 [00:12<00:00, 31.4it/s, loss=0.412, val_loss=0.437]",
    ),
    (r"损失[:：]\s*(?P<value>\S+)", "第3轮 损失：0.25"),
];

fn main() {
    println!("{:<26} {:>8} {:>9} {:>12} {:>11}", "pattern", "largest", "bytes", "compiling", "a line");
    let mut worst = Duration::ZERO;
    let kinds = dear_lines();
    for (name, family) in FAMILIES {
        match largest(*family) {
            None => println!("{name:<26} {:>8}", "refused"),
            Some(n) => {
                let (compiling, line) = cost(&family(n), &kinds);
                worst = worst.max(line);
                println!("{name:<26} {n:>8} {:>9} {:>12} {:>11}", family(n).len(), micros(compiling), micros(line));
            }
        }
    }
    println!("worst {}, at most 1000 µs wanted", micros(worst));
    println!();
    for (expression, line) in HONEST {
        let (compiling, line) = cost(expression, &[vec![line.as_bytes().to_vec(); TRIES]]);
        println!("compiled in {:>9}, a line in {:>9}: {expression}", micros(compiling), micros(line));
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// The largest member of a family that is accepted.
fn largest(family: Family) -> Option<usize> {
    let is_accepted = |n: usize| {
        let expression = family(n);
        expression.len() <= LABEL && Pattern::new(&expression).is_ok()
    };
    (1..=LABEL).rev().find(|n| is_accepted(*n))
}

/// How long compiling takes, and matching a line of the worst of these kinds.
fn cost(expression: &str, kinds: &[Vec<Vec<u8>>]) -> (Duration, Duration) {
    let begun = Instant::now();
    let pattern = Pattern::new(expression).expect("an accepted pattern");
    let compiling = begun.elapsed();
    let median = |lines: &Vec<Vec<u8>>| {
        let time = |line: &Vec<u8>| {
            let begun = Instant::now();
            black_box(pattern.find(black_box(line)));
            begun.elapsed()
        };
        let mut times: Vec<Duration> = lines.iter().map(time).collect();
        times.sort();
        times[times.len() / 2]
    };
    (compiling, kinds.iter().map(median).max().unwrap_or_default())
}

/// One letter, two in all orders, digits and points, words, letters of another script, any bytes; bare, with what many patterns end with at
/// the end of their first 1000 bytes, and with it here and there.
fn dear_lines() -> Vec<Vec<Vec<u8>>> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let kinds: &[&[&str]] = &[
        &["a"],
        &["ab"],
        &["a", "b"],
        &["a", "a", "a", "b"],
        &["a", "a", "a", "a", "a", "a", "a", "a", "a", "b"],
        &["1", "2", "."],
        &["a", "b", " ", "ab ", "a b"],
        &["α", "ω", "a", "ß"],
        &["aaaaaaaab", "ab", "b", "aab"],
        &["\u{0}", "\u{1}", "~", "é", "z", "\t", "€"],
    ];
    let mut line = |letters: &[&str], seldom: usize| {
        let mut line = Vec::new();
        while line.len() < LINE {
            let seldom = seldom > 0 && random.random_range(0..seldom) == 0;
            let letter = if seldom { "x" } else { letters[random.random_range(0..letters.len())] };
            line.extend_from_slice(letter.as_bytes());
        }
        line.truncate(LINE);
        line
    };
    let mut all = Vec::new();
    for letters in kinds {
        let bare: Vec<Vec<u8>> = (0..TRIES).map(|_| line(letters, 0)).collect();
        let ended = bare.iter().map(|line| [&line[..1000], b"xb", &line[1000..]].concat()).collect();
        all.extend([bare, ended, (0..TRIES).map(|_| line(letters, 300)).collect()]);
    }
    all
}
