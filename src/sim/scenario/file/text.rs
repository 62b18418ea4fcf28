//! The TOML structure of a scenario file. Values keep their position in the file for error messages.

use crate::scenario::NodeShape;
use model::ProgressUnit;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::ops::Range as Place;
use toml::Spanned;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileText {
    pub name: Option<String>,
    #[serde(default)]
    pub node: NodeText,
    #[serde(default)]
    pub job: Vec<JobText>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NodeText {
    pub cores: Spanned<Number>,
    pub memory: Spanned<Amount>,
    pub contention: Spanned<Number>,
    pub speed: Spanned<Number>,
}

impl Default for NodeText {
    fn default() -> Self {
        let node = NodeShape::default();
        NodeText {
            cores: plain(node.cores),
            memory: amount(node.memory.0),
            contention: plain(node.contention),
            speed: plain(node.speed),
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobText {
    pub name: Option<String>,
    #[serde(default = "one")]
    pub count: Spanned<Number>,
    #[serde(default = "zero_range")]
    pub start_s: Spanned<Range>,
    pub work: Spanned<Range>,
    pub cores: Option<Spanned<Range>>,
    #[serde(default = "zero")]
    pub waste: Spanned<Number>,
    pub cpus: Option<Spanned<String>>,
    pub parent: Option<String>,
    #[serde(default = "hundred")]
    pub cpu_weight: Spanned<Number>,
    pub user: Option<String>,
    #[serde(default = "one")]
    pub weight: Spanned<Number>,
    #[serde(default = "zero")]
    pub min_share: Spanned<Number>,
    #[serde(default = "one")]
    pub max_share: Spanned<Number>,
    pub deadline_s: Option<Spanned<Range>>,
    #[serde(default = "gibibyte")]
    pub memory: Spanned<Amount>,
    #[serde(default = "zero_range")]
    pub startup_work: Spanned<Range>,
    #[serde(default = "zero_range")]
    pub startup_s: Spanned<Range>,
    pub io: Option<IoText>,
    pub gpu: Option<GpuText>,
    #[serde(default = "fifty_units")]
    pub units: Spanned<Range>,
    #[serde(default = "three_percent")]
    pub unit_spread: Spanned<Number>,
    #[serde(default)]
    pub curve: CurveText,
    pub shown: Option<CurveText>,
    pub before: Option<CurveText>,
    #[serde(default)]
    pub reports: ReportsText,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IoText {
    pub every: Spanned<Number>,
    pub wait_s: Spanned<Number>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuText {
    #[serde(default = "zero")]
    pub device: Spanned<Number>,
    pub unit_s: Spanned<Number>,
    #[serde(default = "ten_milliseconds")]
    pub kernel_s: Spanned<Number>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReportsText {
    pub metric: bool,
    pub progress: bool,
    pub total: bool,
    pub total_factor: Spanned<Number>,
    pub claimed: Option<Spanned<Number>>,
    pub delay_s: Spanned<Number>,
    pub unit: ProgressUnit,
    pub deadline: bool,
}

impl Default for ReportsText {
    fn default() -> Self {
        ReportsText {
            metric: true,
            progress: true,
            total: true,
            total_factor: one(),
            claimed: None,
            delay_s: zero(),
            unit: ProgressUnit::Epoch,
            deadline: false,
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CurveText {
    pub kind: Spanned<String>,
    pub from: Spanned<Number>,
    pub to: Spanned<Number>,
    pub noise: Spanned<Number>,
    pub rate: Option<Spanned<Number>>,
    pub exponent: Option<Spanned<Number>>,
    pub knee: Option<Spanned<Number>>,
    /// `[[until, level], …]`: parts of the work and of the improvement at the end of each plateau except the last.
    pub drops: Option<Spanned<Vec<[f64; 2]>>>,
    pub file: Option<Spanned<String>>,
    pub x: Option<String>,
    pub y: Option<String>,
    /// `column=value`: use only these rows.
    pub only: Option<Spanned<String>>,
}

impl Default for CurveText {
    fn default() -> Self {
        CurveText {
            kind: Spanned::new(0..0, "exponential".to_owned()),
            from: plain(2.3),
            to: plain(0.1),
            noise: plain(0.01),
            rate: None,
            exponent: None,
            knee: None,
            drops: None,
            file: None,
            x: None,
            y: None,
            only: None,
        }
    }
}

/// A number: a TOML integer or float.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub f64);

/// A number, or a pair `[low, high]` from which each seed draws uniformly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub low: f64,
    pub high: f64,
}

/// A number of bytes, as a number or as text with a unit.
#[derive(Clone, Debug)]
pub(super) enum Amount {
    Plain(u64),
    Text(String),
}

fn without_position<T>(value: T) -> Spanned<T> {
    let nowhere: Place<usize> = 0..0;
    Spanned::new(nowhere, value)
}

fn plain(number: f64) -> Spanned<Number> {
    without_position(Number(number))
}

fn range(number: f64) -> Spanned<Range> {
    without_position(Range { low: number, high: number })
}

fn amount(bytes: u64) -> Spanned<Amount> {
    without_position(Amount::Plain(bytes))
}

fn zero() -> Spanned<Number> {
    plain(0.0)
}

fn hundred() -> Spanned<Number> {
    plain(100.0)
}

fn one() -> Spanned<Number> {
    plain(1.0)
}

fn ten_milliseconds() -> Spanned<Number> {
    plain(0.01)
}

fn three_percent() -> Spanned<Number> {
    plain(0.03)
}

fn zero_range() -> Spanned<Range> {
    range(0.0)
}

fn fifty_units() -> Spanned<Range> {
    range(50.0)
}

fn gibibyte() -> Spanned<Amount> {
    amount(1 << 30)
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ranges;
        impl<'de> Visitor<'de> for Ranges {
            type Value = Range;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number or a pair [low, high]")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Range, E> {
                self.visit_f64(number as f64)
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Range, E> {
                Ok(Range { low: number, high: number })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Range, A::Error> {
                let mut next = |at| pair.next_element::<Number>()?.ok_or_else(|| A::Error::invalid_length(at, &self));
                let range = Range { low: next(0)?.0, high: next(1)?.0 };
                match pair.next_element::<Number>()? {
                    Some(_) => Err(A::Error::invalid_length(3, &self)),
                    None => Ok(range),
                }
            }
        }
        deserializer.deserialize_any(Ranges)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amounts;
        impl Visitor<'_> for Amounts {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number of bytes or text such as \"4 GiB\"")
            }
            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Amount, E> {
                u64::try_from(bytes)
                    .map(Amount::Plain)
                    .map_err(|_| E::custom("expected a number of bytes that is not negative"))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
                Ok(Amount::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Amounts)
    }
}
