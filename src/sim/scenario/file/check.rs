//! Validates values of a scenario file; errors have the form `FILE:LINE:COLUMN: problem; expected …`.

use super::super::NodeShape;
use super::text::{Amount, Number, Range};
use model::Numbers;
use std::ops::Range as Place;
use toml::Spanned;

/// The file that is being checked.
pub(super) struct Checker<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

/// Maximum number of lines that the jobs of one schedule print together; each is kept in memory.
const MOST_UNITS: f64 = 2e7;

/// Maximum of seconds, core-seconds and the like; larger values are mistakes.
const MOST: f64 = 1e9;

impl Checker<'_> {
    /// Returns an error at `place` in the text.
    pub(super) fn at(&self, place: Place<usize>, what: &str) -> String {
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        format!("{}:{line}:{column}: {what}", self.path)
    }

    /// Converts an error of the TOML parser.
    pub(super) fn syntax(&self, error: &toml::de::Error) -> String {
        self.at(error.span().unwrap_or(0..0), error.message())
    }

    pub(super) fn at_least(&self, key: &str, value: &Spanned<Number>, least: f64) -> Result<f64, String> {
        self.within(key, value, least, MOST)
    }

    pub(super) fn within(&self, key: &str, value: &Spanned<Number>, least: f64, most: f64) -> Result<f64, String> {
        let number = value.get_ref().0;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(self.at(value.span(), &format!("{key} = {number}; expected a number from {least} to {most}")))
    }

    pub(super) fn positive(&self, key: &str, value: &Spanned<Number>) -> Result<f64, String> {
        let number = value.get_ref().0;
        if number > 0.0 && number <= MOST {
            return Ok(number);
        }
        Err(self.at(value.span(), &format!("{key} = {number}; expected a number above 0, at most {MOST}")))
    }

    /// Parses processors of the node, as in `0-3,8`.
    pub(super) fn processors(&self, value: &Spanned<String>, node: &NodeShape) -> Result<Numbers, String> {
        let cpus: Numbers =
            value.get_ref().parse().map_err(|error| self.at(value.span(), &format!("cpus: {error}")))?;
        let processors = node.cores.ceil() as usize;
        if cpus.is_empty() || cpus.iter().last().is_some_and(|last| last >= processors) {
            return Err(self.at(
                value.span(),
                &format!("cpus = \"{cpus}\"; expected processors of the node, 0-{}", processors - 1),
            ));
        }
        Ok(cpus)
    }

    pub(super) fn count(&self, key: &str, value: &Spanned<Number>, most: usize) -> Result<usize, String> {
        let number = self.within(key, value, 1.0, most as f64)?;
        if number.fract() == 0.0 {
            return Ok(number as usize);
        }
        Err(self.at(value.span(), &format!("{key} = {number}; expected a whole number")))
    }

    pub(super) fn range(&self, key: &str, value: &Spanned<Range>, least: f64) -> Result<Range, String> {
        let range = *value.get_ref();
        if range.low >= least && range.low <= range.high && range.high <= MOST {
            return Ok(range);
        }
        let what = format!("{key} = {}; expected {least} to {MOST}, and low ≤ high", displayed(range));
        Err(self.at(value.span(), &what))
    }

    pub(super) fn positive_range(&self, key: &str, value: &Spanned<Range>) -> Result<Range, String> {
        let range = *value.get_ref();
        if range.low > 0.0 && range.low <= range.high && range.high <= MOST {
            return Ok(range);
        }
        Err(self.at(
            value.span(),
            &format!("{key} = {}; expected above 0, at most {MOST}, and low ≤ high", displayed(range)),
        ))
    }

    /// Checks the progress units of each of `count` jobs.
    pub(super) fn units(&self, value: &Spanned<Range>, count: usize) -> Result<Range, String> {
        let range = self.range("units", value, 1.0)?;
        if range.high * count as f64 <= MOST_UNITS {
            return Ok(range);
        }
        let what = format!("units = {} in {count} jobs; expected at most {MOST_UNITS} in total", displayed(range));
        Err(self.at(value.span(), &what))
    }

    pub(super) fn bytes(&self, key: &str, value: &Spanned<Amount>) -> Result<u64, String> {
        let parsed = match value.get_ref() {
            Amount::Plain(bytes) => Some(*bytes),
            Amount::Text(text) => parse_bytes(text),
        };
        let expected =
            || self.at(value.span(), &format!("{key}: expected bytes as a number or as in \"512 MiB\", \"4 GiB\""));
        parsed.filter(|bytes| *bytes > 0).ok_or_else(expected)
    }
}

fn displayed(range: Range) -> String {
    if range.low == range.high { range.low.to_string() } else { format!("[{}, {}]", range.low, range.high) }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * scale) as u64)
}
