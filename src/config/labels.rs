//! Parses the `flowcon.*` labels of a container into directives. Every user who may start a container can write labels, so they are
//! untrusted.

use super::load::nearest;
use super::notify::names;
use super::value::{WEIGHTS, bytes, user_name};
use model::time::duration;
use model::{Bounds, Direction, Directives, Group, InvalidPattern, Millis, Pattern, ProgressUnit, Share};
use std::collections::BTreeMap;

/// Prefix of the labels of flowcon.
pub const LABEL_PREFIX: &str = "flowcon.";

/// The label that asks for a trial to be stopped.
const GROUP_STOP: &str = "flowcon.group-stop";

/// A supported label.
pub struct Label {
    /// Name without [`LABEL_PREFIX`].
    pub name: &'static str,
    /// Example of a value.
    pub example: &'static str,
    /// One line of help.
    pub help: &'static str,
}

/// All supported labels. The opt-in label can be renamed with `engine.label`.
pub const LABELS: &[Label] = &[
    Label { name: "enable", example: "true", help: "govern this container; no other label is needed" },
    Label { name: "weight", example: "2", help: "importance relative to other jobs, 0.01 to 100" },
    Label { name: "user", example: "alice", help: "user to whom it belongs, with policy.fair-between = \"users\"" },
    Label { name: "min-share", example: "25%", help: "never give it less than this part of the node, 0.25 or 25%" },
    Label { name: "max-share", example: "50%", help: "never give it more than this part of the node, at least 1%" },
    Label {
        name: "log",
        example: "/logs/train.txt",
        help: "read this file inside the container (or the newest file of this directory) instead of its output",
    },
    Label { name: "metric", example: "val_loss", help: "name of the evaluation function in the log" },
    Label { name: "direction", example: "down", help: "direction in which the evaluation improves: down or up" },
    Label {
        name: "pattern",
        example: r"loss=(?P<value>\S+)",
        help: "a regular expression with the group value and the optional groups current and total",
    },
    Label { name: "total", example: "90", help: "total number of progress units of the job" },
    Label { name: "unit", example: "epoch", help: "name of a progress unit" },
    Label {
        name: "ignore",
        example: "lr,grad_norm",
        help: "names that are never used as the metric, separated by commas",
    },
    Label {
        name: "deadline",
        example: "90m",
        help: "time after its start by which it should be done: a hint, considered while it can still be met",
    },
    Label {
        name: "group",
        example: "lr-sweep",
        help: "the sweep of which it is a trial, or none; by default, that of the jobs with the same image and command, numbers aside",
    },
    Label {
        name: "group-stop",
        example: "rung 3",
        help: "stop this container if it is not among the best third of its sweep at rung 1, 2 or 3: a 27th, 9th or third of its work",
    },
    Label {
        name: "notify",
        example: "ops,alice",
        help: "who gets messages about it: names of targets of the configuration, separated by commas, or none",
    },
    Label {
        name: "turns",
        example: "false",
        help: "whether it takes turns where threads of jobs wait for each other; not so if others wait for it, as workers of one training do",
    },
    Label { name: "memory-floor", example: "2g", help: "under policy flowcon: never squeeze its memory below this" },
];

/// Maximum length of a value, in bytes.
const VALUE_LONGEST: usize = 1024;
/// Maximum number of problems reported per container.
const PROBLEMS_AT_MOST: usize = 8;
/// Allowed deadlines, in seconds: at most one year.
const DEADLINES_S: std::ops::RangeInclusive<f64> = 1.0..=31_536_000.0;

/// Rungs of a training of known length.
const RUNGS: u8 = 3;

/// A problem with one label, or with two labels together.
struct Problem {
    labels: String,
    expected: String,
}

/// Parses labels. Invalid labels are ignored; one message is returned for each.
pub fn directives(labels: &BTreeMap<String, String>) -> (Directives, Vec<String>) {
    let (parsed, problems) = read(labels);
    let ignored = |Problem { labels, expected }: Problem| format!("{labels} ignored: {expected}");
    (parsed, problems.into_iter().map(ignored).collect())
}

/// Checks labels that an operator gives to a container.
///
/// # Errors
/// One message per invalid label, with what is expected.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Vec<String>> {
    let foreign = labels.keys().filter(|label| !label.starts_with(LABEL_PREFIX)).take(PROBLEMS_AT_MOST);
    let foreign =
        foreign.map(|label| format!("label {}: expected one that begins with {LABEL_PREFIX}", printable(label)));
    let wrong = read(labels).1.into_iter().map(|Problem { labels, expected }| format!("{labels}: {expected}"));
    let problems: Vec<String> = foreign.chain(wrong).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Checks labels that a user gives to a command, including labels that lack our prefix.
///
/// # Errors
/// One message per invalid label, with what is expected.
pub fn meant(labels: &BTreeMap<String, String>) -> Result<(), Vec<String>> {
    let bare = labels.keys().filter(|label| LABELS.iter().any(|known| known.name == label.as_str()));
    let bare = bare.map(|label| format!("label {label}: did you mean {LABEL_PREFIX}{label}?"));
    let wrong = read(labels).1.into_iter().map(|Problem { labels, expected }| format!("{labels}: {expected}"));
    let of_engines = labels.contains_key(GROUP_STOP).then(|| {
        format!("label {GROUP_STOP}: only for containers, which an engine can stop; end a command yourself, with kill")
    });
    let problems: Vec<String> = bare.chain(wrong).chain(of_engines).take(PROBLEMS_AT_MOST).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Rejects labels that could take resources from others, for users who are neither root nor admins. `own` is the user's name.
///
/// # Errors
/// The label, and what is allowed.
pub fn for_everybody(labels: &BTreeMap<String, String>, own: &str) -> Result<(), String> {
    let (parsed, _) = read(labels);
    if parsed.weight > 1.0 {
        return Err(
            "label flowcon.weight: the maximum is 1; only root and api.admins may set a larger value".to_owned()
        );
    }
    if parsed.bounds.min > Share::NONE {
        return Err("label flowcon.min-share: only root and api.admins may set it".to_owned());
    }
    if let Some(user) = parsed.user.filter(|user| user != own) {
        return Err(format!("label flowcon.user: it is {own}; only root and api.admins may name {user}"));
    }
    Ok(())
}

fn read(labels: &BTreeMap<String, String>) -> (Directives, Vec<Problem>) {
    let mut parsed = Directives::default();
    let mut problems = Vec::new();
    for (label, value) in labels.iter().filter(|(label, _)| label.starts_with(LABEL_PREFIX)) {
        let result = if value.len() > VALUE_LONGEST {
            Err(format!("it is longer than {VALUE_LONGEST} bytes"))
        } else {
            apply(&mut parsed, &label[LABEL_PREFIX.len()..], value)
        };
        if let Err(expected) = result
            && problems.len() < PROBLEMS_AT_MOST
        {
            problems.push(Problem { labels: format!("label {}", printable(label)), expected });
        }
    }
    if parsed.bounds.min.fraction() > parsed.bounds.max.fraction() {
        problems.push(Problem {
            labels: "labels flowcon.min-share and flowcon.max-share".to_owned(),
            expected: "the minimum is above the maximum".to_owned(),
        });
        parsed.bounds = Bounds::default();
    }
    (parsed, problems)
}

fn apply(parsed: &mut Directives, name: &str, value: &str) -> Result<(), String> {
    match name {
        // Opting in is decided before labels are parsed, and each of several daemons has its own value.
        "enable" => {}
        "min-share" => parsed.bounds.min = share(value)?,
        "max-share" => {
            let max = share(value)?;
            if max.fraction() < 0.01 {
                return Err("expected at least 0.01 (1%): a job may be slowed down, but not stopped".to_owned());
            }
            parsed.bounds.max = max;
        }
        "weight" => {
            parsed.weight = finite(value)
                .filter(|weight| WEIGHTS.contains(weight))
                .ok_or_else(|| format!("expected a number from {} to {}", WEIGHTS.start(), WEIGHTS.end()))?;
        }
        "user" => {
            let expected = "expected a name of letters, digits and . _ - @, at most 64 bytes";
            parsed.user = Some(user_name(value).ok_or(expected)?.to_owned());
        }
        "log" => {
            let fits = value.starts_with('/') && !value.contains('\0');
            parsed.log = Some(fits.then(|| value.to_owned()).ok_or("expected an absolute path inside the container")?);
        }
        "metric" => parsed.hints.metric = Some(word(value)?),
        "unit" => {
            parsed.hints.unit = Some(unit(value).ok_or("expected epoch, step, iteration, percent, round or sample")?)
        }
        "direction" => {
            parsed.hints.direction = Some(match value {
                "down" => Direction::Down,
                "up" => Direction::Up,
                _ => return Err("expected down or up".to_owned()),
            });
        }
        "pattern" => parsed.hints.pattern = Some(pattern(value).map_err(|why| why.replace(char::is_control, "?"))?),
        "total" => {
            let total = finite(value).filter(|total| *total > 0.0);
            parsed.hints.total = Some(total.ok_or("expected a number above 0: the total number of progress units")?);
        }
        "ignore" => {
            parsed.hints.ignore =
                value.split(',').map(str::trim).filter(|name| !name.is_empty()).take(32).map(str::to_owned).collect();
        }
        "deadline" => {
            let after = duration(value).filter(|after| DEADLINES_S.contains(&after.as_secs_f64()));
            let expected = "expected a time after the container's start from 1s to 8760h, such as 90m or 36h";
            parsed.deadline = Some(Millis(after.ok_or(expected)?.as_millis() as u64));
        }
        "group" if value.trim() == "none" => parsed.group = Group::Single,
        "group" => parsed.group = Group::Named(word(value)?),
        "group-stop" => parsed.group_stop = Some(rung(value).ok_or("expected rung 1, rung 2 or rung 3")?),
        "notify" => parsed.notify = Some(names(value)?),
        "turns" => parsed.takes_turns = value.trim().parse().map_err(|_| "expected true or false")?,
        "memory-floor" => parsed.memory_floor = Some(bytes(value).ok_or("expected a size such as 512m or 2g")?),
        _ => {
            let meant = nearest(name, LABELS.iter().map(|label| label.name));
            let meant = meant.map(|meant| format!("did you mean {LABEL_PREFIX}{meant}? ")).unwrap_or_default();
            return Err(format!("unknown label; {meant}see `flowctl help labels`"));
        }
    }
    Ok(())
}

/// Parses `rung 3`.
fn rung(value: &str) -> Option<u8> {
    match value.split_whitespace().collect::<Vec<_>>()[..] {
        ["rung", number] => number.parse().ok().filter(|number| (1..=RUNGS).contains(number)),
        _ => None,
    }
}

/// Parses `0.25` or `25%`.
fn share(value: &str) -> Result<Share, String> {
    let (number, scale) = value.trim().strip_suffix('%').map_or((value, 1.0), |number| (number, 100.0));
    finite(number)
        .map(|number| number / scale)
        .filter(|fraction| (0.0..=1.0).contains(fraction))
        .map(Share::clamped)
        .ok_or_else(|| "expected a share of the node from 0 to 1, or a percentage".to_owned())
}

fn finite(value: &str) -> Option<f64> {
    value.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn word(value: &str) -> Result<String, String> {
    let trimmed = value.trim();
    let fits = !trimmed.is_empty() && trimmed.len() <= 128 && !trimmed.chars().any(char::is_control);
    fits.then(|| trimmed.to_owned()).ok_or_else(|| "expected a name of at most 128 bytes".to_owned())
}

/// Compiles a pattern that a user gives as a label or an option.
///
/// # Errors
/// What is wrong with it, and the next step.
pub fn pattern(expression: &str) -> Result<Pattern, String> {
    Pattern::new(expression).map_err(|error| match error {
        InvalidPattern::TooLarge => format!("{error}, or name the metric with {LABEL_PREFIX}metric instead"),
        InvalidPattern::NoValue | InvalidPattern::Syntax(_) => error.to_string(),
    })
}

/// Parses the name of a progress unit, in singular or plural.
fn unit(value: &str) -> Option<ProgressUnit> {
    match value.trim().to_ascii_lowercase().trim_end_matches('s') {
        "epoch" => Some(ProgressUnit::Epoch),
        "step" | "batch" | "batche" => Some(ProgressUnit::Step),
        "iteration" | "iter" => Some(ProgressUnit::Iteration),
        "percent" | "%" => Some(ProgressUnit::Percent),
        "round" => Some(ProgressUnit::Round),
        "sample" => Some(ProgressUnit::Sample),
        _ => None,
    }
}

/// Makes untrusted text safe for a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(80).collect()
}

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
