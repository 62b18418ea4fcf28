//! The cost of the worst `flowcon.pattern` on the worst line: `cargo bench --bench pattern`.
//!
//! Each row is a family of patterns known to be expensive, at the largest size that is accepted. It is matched against lines designed to
//! be expensive, of the maximal length that the reader passes on (16 KiB). All lines differ, so that a cache filled by one helps little
//! with the next. The time is the median over the worst kind of lines; the target is at most 1 ms per line. The last rows are realistic patterns
//! on lines that training programs print.

use flowcon::traininglog::pattern::Pattern;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The longest text that the reader passes on, in bytes.
const MAX_LINE: usize = 16 << 10;
/// The number of lines of each kind.
const LINES_PER_KIND: usize = 31;
/// The longest label, in bytes.
const MAX_LABEL: usize = 1024;

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

const REALISTIC: &[(&str, &str)] = &[
    (r"loss=(?P<value>\S+)", "2026-01-01 10:00:00,123 INFO step 3/90 loss=0.412 lr=0.001"),
    (
        r"(?i)epoch\s+(?P<current>\d+)\s*/\s*(?P<total>\d+).*?val[_ ]loss\s*[:=]\s*(?P<value>[-+]?\d+(?:\.\d+)?)",
        "Epoch 3/90: 100%|██████████| 391/391 [00:12<00:00, 31.4it/s, loss=0.412, val_loss=0.437]",
    ),
    (r"损失[:：]\s*(?P<value>\S+)", "第3轮 损失：0.25"),
];

fn main() {
    println!("{:<26} {:>8} {:>9} {:>12} {:>11}", "pattern", "largest", "bytes", "compiling", "per line");
    let mut worst = Duration::ZERO;
    let kinds = expensive_lines();
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
    println!("worst {} (target: at most 1000 µs)", micros(worst));
    println!();
    for (expression, line) in REALISTIC {
        let (compiling, line) = cost(expression, &[vec![line.as_bytes().to_vec(); LINES_PER_KIND]]);
        println!("compiled in {:>9}, one line in {:>9}: {expression}", micros(compiling), micros(line));
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// The largest member of a family that is accepted.
fn largest(family: Family) -> Option<usize> {
    let is_accepted = |n: usize| {
        let expression = family(n);
        expression.len() <= MAX_LABEL && Pattern::new(&expression).is_ok()
    };
    (1..=MAX_LABEL).rev().find(|n| is_accepted(*n))
}

/// The time to compile the pattern, and to match one line of the worst kind.
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

/// Lines of one letter, of two letters in any order, of digits and points, of words, of letters of another script and of arbitrary
/// characters. Each kind comes three times: plain, with the final letters of many patterns after the first 1000 bytes, and with the final
/// letter at random places.
fn expensive_lines() -> Vec<Vec<Vec<u8>>> {
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
    let mut line = |letters: &[&str], letters_per_x: usize| {
        let mut line = Vec::new();
        while line.len() < MAX_LINE {
            let is_x = letters_per_x > 0 && random.random_range(0..letters_per_x) == 0;
            let letter = if is_x { "x" } else { letters[random.random_range(0..letters.len())] };
            line.extend_from_slice(letter.as_bytes());
        }
        line.truncate(MAX_LINE);
        line
    };
    let mut all = Vec::new();
    for letters in kinds {
        let plain: Vec<Vec<u8>> = (0..LINES_PER_KIND).map(|_| line(letters, 0)).collect();
        let with_end = plain.iter().map(|line| [&line[..1000], b"xb", &line[1000..]].concat()).collect();
        all.extend([plain, with_end, (0..LINES_PER_KIND).map(|_| line(letters, 300)).collect()]);
    }
    all
}
