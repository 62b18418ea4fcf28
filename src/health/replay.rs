//! Judges recorded trainings: `cargo run --release -p health --example replay -- [--faults SEED] FILE…`
//!
//! A log is replayed with one line every two seconds, a CSV file of curves (columns with the curve's name first, the step, and the value
//! last) with one report every ten. Each healthy file should show no trouble but overfitting: what it shows is printed. With `--faults`, a
//! fault is put into each series at a random place, and the number of reports until it was found is printed by kind.

use health::{HealthMeter, Prospects};
use model::{Condition, ContainerObservation, CpuTime, Evaluation, Hints, Millis, Progress, ProgressUnit};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use traininglog::survey::Survey;
use traininglog::{Direction, Tracker};

/// Time between two lines of a log, and between two reports of a curve.
const LINE_S: u64 = 2;
const REPORT_S: u64 = 10;
/// Time between two decisions, which fit the curve.
const INTERVAL_S: u64 = 20;

/// A job that is replayed at one core.
struct Replay {
    tracker: Tracker,
    meter: HealthMeter,
    now_s: u64,
}

impl Replay {
    fn new(hints: &Hints) -> Replay {
        Replay { tracker: Tracker::new(hints), meter: HealthMeter::default(), now_s: 0 }
    }

    fn look(&mut self, cpu_s: u64) -> Condition {
        let now = Millis::from_secs(self.now_s);
        let mut seen = ContainerObservation::new("job");
        let is_tick = self.now_s.is_multiple_of(INTERVAL_S);
        seen.learning = if is_tick { self.tracker.close_interval(now) } else { self.tracker.peek(now) };
        seen.usage.cpu = Some(CpuTime(cpu_s * 1_000_000));
        let prospects = Prospects { due_cores: Some(1.0), most_cores: 1.0, forecast: None };
        self.meter.look(now, &seen, &prospects).condition
    }
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut seed = None;
    if let Some(at) = arguments.iter().position(|argument| argument == "--faults") {
        seed = arguments.get(at + 1).and_then(|seed| seed.parse::<u64>().ok());
        arguments.drain(at..arguments.len().min(at + 2));
    }
    let mut series = Vec::new();
    let (mut files, mut troubled) = (0, 0);
    for path in &arguments {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                eprintln!("replay: {path}: {error}");
                return ExitCode::FAILURE;
            }
        };
        if Path::new(path).extension().is_some_and(|extension| extension == "csv") {
            series.extend(curves(&String::from_utf8_lossy(&bytes)));
            continue;
        }
        series.extend(series_of(&bytes).map(|values| (path.clone(), values)));
        files += 1;
        for trouble in replay_log(&bytes) {
            troubled += 1;
            println!("{path}: {trouble}");
        }
    }
    for (name, values) in &series {
        for (at, condition) in replay_values(values, None).into_iter().filter(|(_, condition)| condition.is_broken()) {
            troubled += 1;
            println!("{name}: {condition} at report {at} of {}", values.1.len());
        }
    }
    println!("{files} logs and {} series without a fault: {troubled} troubles", series.len());
    if let Some(seed) = seed {
        put_faults_in(&series, seed);
    }
    ExitCode::SUCCESS
}

/// Direction and values.
type Series = (Direction, Vec<f64>);

fn series_of(bytes: &[u8]) -> Option<Series> {
    let mut survey = Survey::new(&Hints::default());
    survey.push(bytes);
    survey.finish();
    let reading = survey.reading();
    let values: Vec<f64> = reading.observations.iter().filter(|seen| seen.last).map(|seen| seen.value).collect();
    (reading.confidence >= health::LEAST_CONFIDENCE && values.len() >= 20).then_some((reading.direction?, values))
}

/// The curves of a CSV file; rows of one curve have the same first two columns.
fn curves(text: &str) -> Vec<(String, Series)> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let value_at = header.iter().position(|name| matches!(*name, "loss" | "metric")).unwrap_or(0);
    let mut curves: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for fields in lines.map(|line| line.split(',').collect::<Vec<_>>()) {
        let (Some(value), [first, second, ..]) =
            (fields.get(value_at).and_then(|value| value.parse().ok()), &fields[..])
        else {
            continue;
        };
        curves.entry(format!("{first} {second}")).or_default().push(value);
    }
    let falls = |name: &str| header[value_at] == "loss" || name.starts_with("yolo") || name.starts_with("deepspeech");
    let direction = |name: &str| if falls(name) { Direction::Down } else { Direction::Up };
    let long = curves.into_iter().filter(|(_, values)| values.len() >= 20);
    long.map(|(name, values)| (name.clone(), (direction(&name), values))).collect()
}

fn replay_log(bytes: &[u8]) -> Vec<String> {
    let mut replay = Replay::new(&Hints::default());
    let mut troubles = Vec::new();
    let mut before = Condition::Starting;
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        replay.now_s += LINE_S;
        replay.tracker.push(line, Millis::from_secs(replay.now_s));
        let condition = replay.look(replay.now_s);
        if condition.is_trouble() && condition != before {
            troubles.push(format!("line {}: {condition}", number + 1));
        }
        before = condition;
    }
    troubles
}

/// What goes wrong after a number of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Nan,
    /// The loss explodes: each report is further from the first value by twice the range.
    Explodes,
    /// The value gets worse by this part of a percent of the range per report.
    Overfits,
    Sleeps,
    Spins,
}

/// Replays a series; returns each condition that began, with the number of reports by then. After a fault at most two dozen reports
/// follow.
fn replay_values((direction, values): &Series, fault: Option<(Fault, usize)>) -> Vec<(usize, Condition)> {
    let hints = Hints { direction: Some(*direction), metric: Some("loss".to_owned()), ..Hints::default() };
    let mut replay = Replay::new(&hints);
    let (mut begun, mut before, mut cpu_s) = (Vec::new(), Condition::Starting, 0);
    let reports = fault.map_or(values.len(), |(_, at)| at + 24);
    let range = {
        let upto = &values[..fault.map_or(values.len(), |(_, at)| at)];
        upto.iter().copied().fold(f64::MIN, f64::max) - upto.iter().copied().fold(f64::MAX, f64::min)
    };
    let worse = if *direction == Direction::Down { range } else { -range };
    for number in 0..reports {
        for _ in 0..REPORT_S / LINE_S {
            replay.now_s += LINE_S;
            let is_over = fault.filter(|(_, at)| number >= *at);
            cpu_s += if matches!(is_over, Some((Fault::Sleeps, _))) { 0 } else { LINE_S };
            let now = Millis::from_secs(replay.now_s);
            let last = values[(number).min(values.len() - 1)];
            let value = match is_over {
                None => Some(values[number]),
                Some((Fault::Nan, _)) => Some(f64::NAN),
                Some((Fault::Explodes, at)) => Some(values[at] + 2.0 * worse * (number - at + 1) as f64),
                Some((Fault::Overfits, at)) => {
                    let noise = last - values[number.saturating_sub(1).min(values.len() - 1)];
                    Some(values[at] + 0.02 * worse * (number - at + 1) as f64 + 0.5 * noise)
                }
                Some((Fault::Sleeps | Fault::Spins, _)) => None,
            };
            if let Some(value) = value.filter(|_| replay.now_s.is_multiple_of(REPORT_S)) {
                let current = (number + 1) as f64;
                replay.tracker.report(Progress { unit: ProgressUnit::Step, current, total: None, at: now });
                replay.tracker.evaluate(Evaluation { at: now, value, current: Some(current), total: None });
            }
            let condition = replay.look(cpu_s);
            if condition != before {
                begun.push((number + 1, condition));
            }
            before = condition;
        }
    }
    begun
}

fn put_faults_in(series: &[(String, Series)], seed: u64) {
    let mut found: BTreeMap<Fault, (Vec<usize>, usize)> = BTreeMap::new();
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for (name, values) in series {
        for fault in [Fault::Nan, Fault::Explodes, Fault::Overfits, Fault::Sleeps, Fault::Spins] {
            // xorshift64*
            random ^= random >> 12;
            random ^= random << 25;
            random ^= random >> 27;
            let least = values.1.len() / 4;
            let at =
                (least + (random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % (values.1.len() - least)).max(8);
            let wanted: &[Condition] = match fault {
                Fault::Nan => &[Condition::Nan],
                Fault::Explodes => &[Condition::Diverging],
                Fault::Overfits => &[Condition::Overfitting, Condition::Diverging],
                Fault::Sleeps | Fault::Spins => &[Condition::Stalled],
            };
            let conditions = replay_values(values, Some((fault, at.min(values.1.len() - 1))));
            let first = conditions.iter().find(|(report, condition)| *report > at && wanted.contains(condition));
            let (after, missed) = found.entry(fault).or_default();
            match first {
                Some((report, _)) => after.push(report - at),
                None => {
                    *missed += 1;
                    println!("{name}: {fault:?} at report {at} not found: {conditions:?}");
                }
            }
        }
    }
    println!("fault      found  missed  reports until found: median, 90 %, most");
    for (fault, (mut after, missed)) in found {
        after.sort_unstable();
        let at = |part: f64| after.get(((after.len() as f64 - 1.0) * part).round() as usize).copied().unwrap_or(0);
        println!("{fault:<10?} {:>5} {missed:>7}  {:>30} {:>5} {:>5}", after.len(), at(0.5), at(0.9), at(1.0));
    }
}
