//! Reads recordings: logs, and CSV files of curves.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use traininglog::survey::Survey;
use traininglog::{Direction, Hints};

/// Time between two lines of a log, and between two reports of a curve, if the recording does not say.
const LINE_MS: u64 = 2_000;
pub(super) const REPORT_MS: u64 = 10_000;
/// A curve needs so many reports.
const LEAST_REPORTS: usize = 20;
/// Columns that name a curve, its value, and its time in seconds.
const NAMES: [&str; 5] = ["curve_id", "model", "application", "global_batch", "job"];
const VALUES: [&str; 2] = ["loss", "metric"];
const TIMES: [&str; 2] = ["elapsed_s", "cpu_s"];
/// Part of the lines of a log that must have a time of day, for these to be its pace.
const LINES_WITH_TIME: f64 = 0.6;
/// A longer silence in a log is taken for one between two runs of a job.
const LONGEST_MS: u64 = 3_600_000;

/// A log.
pub(crate) struct Log {
    pub(crate) name: String,
    bytes: Vec<u8>,
    lines: Vec<(u64, Range<usize>)>,
}

impl Log {
    fn new(name: String, bytes: Vec<u8>) -> Log {
        let mut end = 0;
        let ranges: Vec<Range<usize>> = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| {
                end += line.len();
                end - line.len()..end
            })
            .collect();
        let times: Vec<Option<u64>> = ranges.iter().map(|range| time_of_day_ms(&bytes[range.clone()])).collect();
        let with_time = times.iter().flatten().count();
        let has_pace = with_time as f64 >= LINES_WITH_TIME * ranges.len() as f64;
        let (mut at_ms, mut before) = (0, None);
        let mut lines = Vec::new();
        for (range, time) in ranges.into_iter().zip(times) {
            at_ms += match (has_pace, before, time) {
                (false, ..) => LINE_MS,
                (true, Some(before), Some(time)) => {
                    let passed = (time + DAY_MS - before) % DAY_MS;
                    if passed <= LONGEST_MS { passed } else { 0 }
                }
                (true, ..) => 0,
            };
            before = time.or(before);
            lines.push((at_ms, range));
        }
        Log { name, bytes, lines }
    }

    /// Number of lines.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Each line with its time.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.lines.iter().map(|(at, range)| (*at, &self.bytes[range.clone()]))
    }

    /// The curve that is read from it; `None` if there is none, or it is short.
    pub(crate) fn series(&self) -> Option<Series> {
        let mut survey = Survey::new(&Hints::default());
        survey.push(&self.bytes);
        survey.finish();
        let reading = survey.reading();
        let direction = reading.direction.filter(|_| reading.confidence >= super::super::LEAST_CONFIDENCE)?;
        let last = reading.observations.iter().filter(|seen| seen.last);
        let at = |line: u64| self.lines.get(line.saturating_sub(1) as usize).map(|(at, _)| *at);
        let reports: Vec<(u64, f64)> = last.filter_map(|seen| Some((at(seen.line)?, seen.value))).collect();
        (reports.len() >= LEAST_REPORTS).then(|| Series { name: self.name.clone(), direction, reports })
    }
}

const DAY_MS: u64 = 86_400_000;

/// The first time of day near the beginning of a line, such as 14:03:59.
fn time_of_day_ms(line: &[u8]) -> Option<u64> {
    let begin = &line[..line.len().min(48)];
    let number = |at: &[u8]| match at {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some(u64::from(tens - b'0') * 10 + u64::from(ones - b'0')),
        _ => None,
    };
    (0..begin.len().saturating_sub(7)).find_map(|at| {
        let is_begun = at > 0 && (begin[at - 1].is_ascii_digit() || begin[at - 1] == b':');
        let [h, m, s] = [0, 3, 6].map(|from| number(&begin[at + from..at + from + 2]));
        let is_time = !is_begun && begin[at + 2] == b':' && begin[at + 5] == b':';
        let (h, m, s) = (h?, m?, s?);
        (is_time && h < 24 && m < 60 && s < 60).then_some(((h * 60 + m) * 60 + s) * 1000)
    })
}

/// A curve: the values that a job reported, each with its time.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) direction: Direction,
    pub(crate) reports: Vec<(u64, f64)>,
}

/// All recordings.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) logs: Vec<Log>,
    pub(crate) curves: Vec<Series>,
}

impl Recorded {
    /// The curves, and those in the logs.
    pub(crate) fn all_curves(&self) -> Vec<Series> {
        self.curves.iter().cloned().chain(self.logs.iter().filter_map(Log::series)).collect()
    }

    /// Reads a file, or all files below a folder but JSON and Markdown.
    pub(crate) fn read(&mut self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            let mut entries: Vec<_> =
                fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
            entries.sort();
            return entries.iter().try_for_each(|entry| self.read(entry));
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => self.curves.extend(curves(&fs::read_to_string(path)?)),
            Some("json" | "md") => {}
            _ => {
                self.logs.push(Log::new(path.display().to_string(), fs::read(path)?));
            }
        }
        Ok(())
    }
}

/// The curves of a CSV file: either one in each row, with its direction, or rows of values with the name of the curve.
fn curves(text: &str) -> Vec<Series> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let find = |names: &[&str]| header.iter().position(|name| names.contains(name));
    if let Some(first) = find(&["v1"]) {
        return rows.enumerate().map(|(number, row)| curve_in(&row, first, number + 1)).collect();
    }
    let mut curves: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
    let (value_at, time_at) = (find(&VALUES), find(&TIMES));
    for row in rows {
        let Some(value) = value_at.and_then(|at| row.get(at)?.parse().ok()) else { continue };
        let named = header.iter().zip(&row).filter(|(name, _)| NAMES.contains(name));
        let reports = curves.entry(named.map(|(_, value)| *value).collect::<Vec<_>>().join(" ")).or_default();
        let before = reports.last().map_or(0, |(at, _)| *at);
        let time = time_at.and_then(|at| row.get(at)?.parse::<f64>().ok());
        reports.push((time.map_or(before + REPORT_MS, |time| (time * 1000.0) as u64), value));
    }
    curves.values_mut().for_each(|reports| put_in_order(reports));
    let long = curves.into_iter().filter(|(_, reports)| reports.len() >= LEAST_REPORTS);
    long.map(|(name, reports)| Series { name, direction: direction(&reports), reports }).collect()
}

/// The curve in a row such as `3,val_loss,min,1.37,1.36`: the name of its sweep, its metric and direction, and its values.
fn curve_in(row: &[&str], first: usize, number: usize) -> Series {
    let values = row[first..].iter().filter_map(|value| value.parse().ok());
    let reports = values.enumerate().map(|(number, value)| ((number as u64 + 1) * REPORT_MS, value)).collect();
    let direction = if row[first - 1] == "max" { Direction::Up } else { Direction::Down };
    Series { name: format!("sweep {}, row {number}", row[0]), direction, reports }
}

/// Some recordings have single times of another clock: no report comes after the next one.
fn put_in_order(reports: &mut [(u64, f64)]) {
    let mut next = u64::MAX;
    for (at_ms, _) in reports.iter_mut().rev() {
        *at_ms = (*at_ms).min(next);
        next = *at_ms;
    }
}

/// The direction in which the values went from the first fifth to the last.
fn direction(reports: &[(u64, f64)]) -> Direction {
    let fifth = reports.len() / 5;
    let sum = |part: &[(u64, f64)]| part.iter().map(|(_, value)| value).sum::<f64>();
    let rises = sum(&reports[reports.len() - fifth..]) > sum(&reports[..fifth]);
    if rises { Direction::Up } else { Direction::Down }
}
