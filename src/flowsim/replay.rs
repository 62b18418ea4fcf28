//! The command `flowsim replay`: repeats recorded decisions and compares them bit for bit.
//!
//! Given the same observations, this code must make the same plans as the daemon.
//! The format is [`RecordingLine`]. Plans are compared in their serialized form, so that equality is exact and NaN equals NaN.

use clap::Args;
use model::{PolicySettings, RECORDING_VERSION, RecordedTick, RecordingHeader, RecordingLine};
use policy::Governor;
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// `flowsim replay`.
#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// A recording: JSON lines, written by a daemon or by `flowsim run SCENARIO --record FILE`.
    pub file: PathBuf,
}

/// Result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    /// Number of repeated ticks.
    pub ticks: u64,
    /// The first tick with a different plan.
    pub difference: Option<Difference>,
}

/// A difference between two plans.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// Line of the recording.
    pub line: usize,
    /// Time of the tick in seconds.
    pub at_s: f64,
    /// Path in the plan: `containers[2].share`.
    pub place: String,
    /// The recorded value.
    pub recorded: String,
    /// The value decided now.
    pub decided: String,
}

/// Runs `flowsim replay` and returns its output.
///
/// # Errors
/// A recording that cannot be read or has no ticks, or the first tick that is decided differently.
pub(crate) fn run(arguments: &ReplayArguments) -> Result<String, String> {
    let path = arguments.file.display().to_string();
    let file = File::open(&arguments.file)
        .map_err(|error| format!("{path}: cannot open the recording: {error}; check the path and its permissions"))?;
    let replay = replay(&path, BufReader::new(file))?;
    if replay.ticks == 0 {
        return Err(format!(
            "{path}: it has no ticks, so nothing was compared; record for longer than an interval: `flowctl record FILE --for 5m`"
        ));
    }
    match replay.difference {
        None => Ok(format!("{path}: {} ticks, all decided the same, bit for bit\n", replay.ticks)),
        Some(Difference { line, at_s, place, recorded, decided }) => Err(format!(
            "{path}:{line}:1: the tick at {at_s} s differs: {place} was {recorded} and is now {decided}; \
             replay it with the version that recorded it",
        )),
    }
}

/// Replays a recording; `path` names it in errors.
///
/// # Errors
/// Names file, line and column of invalid input, and what is expected there.
pub(crate) fn replay(path: &str, recording: impl BufRead) -> Result<Replay, String> {
    let mut lines = recording.lines().enumerate().map(|(number, line)| {
        let number = number + 1;
        line.map(|line| (number, line)).map_err(|error| format!("{path}:{number}:1: cannot read: {error}"))
    });
    let expected =
        || format!("{path}:1:1: expected a recording's header; write one with `flowsim run … --record FILE`");
    let (_, first) = lines.next().ok_or_else(expected)??;
    let mut governor =
        begin(parse(path, 1, &first)?).ok_or_else(expected)?.map_err(|what| format!("{path}:1:1: {what}"))?;
    let mut ticks = 0;
    for line in lines {
        let (number, line) = line?;
        if line.trim().is_empty() {
            continue;
        }
        match parse(path, number, &line)? {
            RecordingLine::Header(_) => {
                return Err(format!("{path}:{number}:1: second header; expected a tick or settings"));
            }
            RecordingLine::Settings(settings) => governor.reconfigure(settings),
            RecordingLine::Tick(tick) => {
                ticks += 1;
                let difference = repeat_tick(&mut governor, &tick, number)?;
                if difference.is_some() {
                    return Ok(Replay { ticks, difference });
                }
            }
        }
    }
    Ok(Replay { ticks, difference: None })
}

fn parse(path: &str, number: usize, line: &str) -> Result<RecordingLine<Governor>, String> {
    serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text);
        format!(
            "{path}:{number}:{}: {what}; expected a line of a recording, version {RECORDING_VERSION}",
            error.column().max(1)
        )
    })
}

/// Returns the governor of a header; `None` if the line is not a header.
fn begin(line: RecordingLine<Governor>) -> Option<Result<Governor, String>> {
    let RecordingLine::Header(header) = line else { return None };
    if header.version != RECORDING_VERSION {
        let what = format!(
            "recording version {}; expected {RECORDING_VERSION}: use the flowsim that came with the daemon",
            header.version
        );
        return Some(Err(what));
    }
    Some(Ok(header.governor.unwrap_or_else(|| Governor::new(header.settings))))
}

fn repeat_tick(governor: &mut Governor, tick: &RecordedTick, line: usize) -> Result<Option<Difference>, String> {
    let plan = governor.tick(&tick.observation);
    let written =
        |plan| serde_json::to_value(plan).map_err(|error| format!("line {line}: cannot compare plans: {error}"));
    let (recorded, decided) = (written(&tick.plan)?, written(&plan)?);
    Ok(first_difference("", &recorded, &decided).map(|(place, recorded, decided)| Difference {
        line,
        at_s: tick.observation.now.as_secs_f64(),
        place: place.trim_start_matches('.').to_owned(),
        recorded,
        decided,
    }))
}

fn first_difference(place: &str, recorded: &Value, decided: &Value) -> Option<(String, String, String)> {
    match (recorded, decided) {
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => a.iter().find_map(|(key, value)| {
            first_difference(&format!("{place}.{key}"), value, b.get(key).unwrap_or(&Value::Null))
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(at, (a, b))| first_difference(&format!("{place}[{at}]"), a, b))
        }
        _ => (recorded != decided).then(|| (place.to_owned(), recorded.to_string(), decided.to_string())),
    }
}

/// Writes a recording of ticks, starting with a governor without any observations.
///
/// # Errors
/// If a tick cannot be written as JSON.
pub(crate) fn write(settings: &PolicySettings, ticks: Vec<RecordedTick>) -> Result<String, String> {
    let header = RecordingHeader::<Governor> { version: RECORDING_VERSION, settings: *settings, governor: None };
    let mut text = line(&RecordingLine::Header(header))?;
    for tick in ticks {
        text += &line(&RecordingLine::<Governor>::Tick(Box::new(tick)))?;
    }
    Ok(text)
}

fn line(line: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(line).map(|line| line + "\n").map_err(|error| format!("cannot write a tick as JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Objective, PolicyName};
    use sim::scenario::Scenario;
    use sim::variant::{Decider, Variant};
    use sim::{Keep, simulate};

    fn settings(policy: PolicyName) -> PolicySettings {
        PolicySettings { policy, objective: Objective::BALANCED, ..PolicySettings::default() }
    }

    fn ticks(policy: PolicyName) -> Vec<RecordedTick> {
        let scenario = Scenario::built_in("random-5-mixed-io").unwrap().unwrap();
        let variant =
            Variant { name: "recorded".to_owned(), decider: Decider::Governor(settings(policy)), duty_cycle: false };
        let keep = Keep { recording: true, ..Keep::default() };
        simulate(&scenario.node, &scenario.draw(4), &variant, keep).recording
    }

    fn replayed(text: &str) -> Result<Replay, String> {
        replay("r.jsonl", text.as_bytes())
    }

    #[test]
    fn replaying_a_simulated_recording_finds_no_difference() {
        for policy in [PolicyName::Flowcon, PolicyName::Balanced, PolicyName::Fair] {
            let ticks = ticks(policy);
            let count = ticks.len() as u64;
            assert!(count > 20);
            let text = write(&settings(policy), ticks).unwrap();
            assert_eq!(replayed(&text).unwrap(), Replay { ticks: count, difference: None }, "{policy:?}");
        }
    }

    #[test]
    fn a_recording_may_start_with_the_state_of_a_running_governor() {
        let settings = settings(PolicyName::Flowcon);
        let mut ticks = ticks(PolicyName::Flowcon);
        let later = ticks.split_off(ticks.len() / 2);
        let mut governor = Governor::new(settings);
        for tick in &ticks {
            governor.tick(&tick.observation);
        }
        let header = RecordingHeader { version: RECORDING_VERSION, settings, governor: Some(&governor) };
        let mut text = line(&RecordingLine::Header(header)).unwrap();
        for tick in later {
            text += &line(&RecordingLine::<Governor>::Tick(Box::new(tick))).unwrap();
        }
        assert_eq!(replayed(&text).unwrap().difference, None);
    }

    #[test]
    fn a_difference_in_one_digit_is_found_and_located() {
        let settings = settings(PolicyName::Flowcon);
        let mut ticks = ticks(PolicyName::Flowcon);
        let share = &mut ticks[7].plan.containers[1].share;
        *share = model::Share::clamped(f64::from_bits(share.fraction().to_bits() - 1));
        let difference = replayed(&write(&settings, ticks).unwrap()).unwrap().difference.unwrap();
        assert_eq!((difference.line, difference.place.as_str()), (9, "containers[1].share"));
    }

    #[test]
    fn changed_settings_within_a_recording_are_applied() {
        let (from, to) = (settings(PolicyName::Flowcon), settings(PolicyName::Fair));
        let mut governor = Governor::new(from);
        let mut text = write(&from, Vec::new()).unwrap();
        for (number, mut tick) in ticks(PolicyName::Flowcon).into_iter().enumerate() {
            if number == 5 {
                governor.reconfigure(to);
                text += &line(&RecordingLine::<Governor>::Settings(to)).unwrap();
            }
            tick.plan = governor.tick(&tick.observation);
            text += &line(&RecordingLine::<Governor>::Tick(Box::new(tick))).unwrap();
        }
        assert_eq!(replayed(&text).unwrap().difference, None);
    }

    #[test]
    fn invalid_recordings_are_rejected_with_line_and_column() {
        assert!(replayed("").unwrap_err().starts_with("r.jsonl:1:1: expected a recording's header"));
        assert!(replayed("{\"tick\"").unwrap_err().starts_with("r.jsonl:1:7: "));
        let good = write(&settings(PolicyName::Fair), Vec::new()).unwrap();
        let error = replayed(&format!("{good}{{\"tick\":{{\"observation\":3}}}}\n")).unwrap_err();
        assert!(error.starts_with("r.jsonl:2:"), "{error}");
        let newer = good.replace("\"version\":2", "\"version\":3");
        assert!(replayed(&newer).unwrap_err().contains("version 3; expected 2"));
    }
}
