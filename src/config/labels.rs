//! A container's `flowcon.*` labels → directives. Anybody who may start a container writes them: nothing here trusts them.

use super::load::nearest;
use super::value::bytes;
use crate::model::time::duration;
use crate::model::{Bounds, Direction, Directives, Millis, Pattern, Share};
use std::collections::BTreeMap;

/// Labels that begin with this are ours.
pub const LABEL_PREFIX: &str = "flowcon.";

/// A label that a container may have.
pub struct Label {
    /// Without [`LABEL_PREFIX`].
    pub name: &'static str,
    /// What a value looks like.
    pub example: &'static str,
    /// One line for people.
    pub help: &'static str,
}

/// Every label that there is. The one that opts in can be renamed by `engine.label`.
pub const LABELS: &[Label] = &[
    Label { name: "enable", example: "true", help: "govern this container: all that is needed" },
    Label { name: "weight", example: "2", help: "importance relative to other jobs, 0.01 to 100" },
    Label { name: "min-share", example: "25%", help: "never give it less than this part of the node, 0.25 or 25%" },
    Label { name: "max-share", example: "50%", help: "never give it more than this part of the node, at least 1%" },
    Label {
        name: "log",
        example: "/logs/train.txt",
        help: "read this file inside the container (or the newest file of this directory) instead of its output",
    },
    Label { name: "metric", example: "val_loss", help: "the evaluation function's name in the log" },
    Label { name: "direction", example: "down", help: "whether a better evaluation goes down or up" },
    Label {
        name: "pattern",
        example: r"loss=(?P<value>\S+)",
        help: "a regular expression with the group value, and if you like current and total",
    },
    Label { name: "total", example: "90", help: "how many progress units the job will do" },
    Label { name: "unit", example: "epoch", help: "the name of a progress unit" },
    Label { name: "ignore", example: "lr,grad_norm", help: "names that are never the metric, separated by commas" },
    Label {
        name: "deadline",
        example: "90m",
        help: "how long after its start it should be done: a hint, which counts while it can still be met",
    },
    Label { name: "memory-floor", example: "2g", help: "never squeeze its memory below this" },
];

/// A longer value is refused.
const VALUE_LONGEST: usize = 1024;
/// More complaints than this about one container are not kept.
const PROBLEMS_AT_MOST: usize = 8;
/// A year at most.
const DEADLINES_S: std::ops::RangeInclusive<f64> = 1.0..=31_536_000.0;
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// What is wrong with one label, or with two together.
struct Problem {
    labels: String,
    expected: String,
}

/// What the labels ask for, and a clear message for each that cannot be obeyed; those are ignored.
pub fn directives(labels: &BTreeMap<String, String>) -> (Directives, Vec<String>) {
    let (asked, problems) = read(labels);
    let ignored = |Problem { labels, expected }: Problem| format!("{labels} ignored: {expected}");
    (asked, problems.into_iter().map(ignored).collect())
}

/// Labels that an operator gives to a container: what is wrong with each that cannot be obeyed.
///
/// # Errors
/// One message a label, with what is expected.
pub fn obeyable(labels: &BTreeMap<String, String>) -> Result<(), Vec<String>> {
    let foreign = labels.keys().filter(|label| !label.starts_with(LABEL_PREFIX)).take(PROBLEMS_AT_MOST);
    let foreign =
        foreign.map(|label| format!("label {}: expected one that begins with {LABEL_PREFIX}", printable(label)));
    let wrong = read(labels).1.into_iter().map(|Problem { labels, expected }| format!("{labels}: {expected}"));
    let problems: Vec<String> = foreign.chain(wrong).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Labels that somebody gives to a command: what is wrong with each that cannot be obeyed, and those that lack our prefix.
///
/// # Errors
/// One message a label, with what is expected.
pub fn meant(labels: &BTreeMap<String, String>) -> Result<(), Vec<String>> {
    let bare = labels.keys().filter(|label| LABELS.iter().any(|known| known.name == label.as_str()));
    let bare = bare.map(|label| format!("label {label}: did you mean {LABEL_PREFIX}{label}?"));
    let wrong = read(labels).1.into_iter().map(|Problem { labels, expected }| format!("{labels}: {expected}"));
    let problems: Vec<String> = bare.chain(wrong).take(PROBLEMS_AT_MOST).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// What a user who is neither root nor an admin may not ask for, because it could take from others.
///
/// # Errors
/// The label, and what is allowed.
pub fn for_everybody(labels: &BTreeMap<String, String>) -> Result<(), String> {
    let (asked, _) = read(labels);
    if asked.weight > 1.0 {
        return Err(
            "label flowcon.weight: 1 is the most that a user may give; more is for root and api.admins".to_owned()
        );
    }
    if asked.bounds.min > Share::NONE {
        return Err("label flowcon.min-share: only root and api.admins may give it".to_owned());
    }
    Ok(())
}

fn read(labels: &BTreeMap<String, String>) -> (Directives, Vec<Problem>) {
    let mut asked = Directives::default();
    let mut problems = Vec::new();
    for (label, value) in labels.iter().filter(|(label, _)| label.starts_with(LABEL_PREFIX)) {
        let result = if value.len() > VALUE_LONGEST {
            Err(format!("it is longer than {VALUE_LONGEST} bytes"))
        } else {
            obey(&mut asked, &label[LABEL_PREFIX.len()..], value)
        };
        if let Err(expected) = result
            && problems.len() < PROBLEMS_AT_MOST
        {
            problems.push(Problem { labels: format!("label {}", printable(label)), expected });
        }
    }
    if asked.bounds.min.fraction() > asked.bounds.max.fraction() {
        problems.push(Problem {
            labels: "labels flowcon.min-share and flowcon.max-share".to_owned(),
            expected: "the minimum is above the maximum".to_owned(),
        });
        asked.bounds = Bounds::default();
    }
    (asked, problems)
}

fn obey(asked: &mut Directives, name: &str, value: &str) -> Result<(), String> {
    match name {
        // Whether a container is governed was decided before its labels are read; several daemons use several words.
        "enable" => {}
        "min-share" => asked.bounds.min = share(value)?,
        "max-share" => {
            let max = share(value)?;
            if max.fraction() < 0.01 {
                return Err("expected at least 0.01 (1%): a job may be slowed, not stopped".to_owned());
            }
            asked.bounds.max = max;
        }
        "weight" => {
            asked.weight = finite(value)
                .filter(|weight| WEIGHTS.contains(weight))
                .ok_or_else(|| format!("expected a number from {} to {}", WEIGHTS.start(), WEIGHTS.end()))?;
        }
        "log" => {
            let fits = value.starts_with('/') && !value.contains('\0');
            asked.log = Some(fits.then(|| value.to_owned()).ok_or("expected an absolute path inside the container")?);
        }
        "metric" => asked.metric = Some(word(value)?),
        "unit" => asked.unit = Some(word(value)?),
        "direction" => {
            asked.direction = Some(match value {
                "down" => Direction::Down,
                "up" => Direction::Up,
                _ => return Err("expected down or up".to_owned()),
            });
        }
        "pattern" => asked.pattern = Some(pattern(value)?),
        "total" => {
            let total = finite(value).filter(|total| *total > 0.0);
            asked.total = Some(total.ok_or("expected a number above 0: the progress units that the job will do")?);
        }
        "ignore" => {
            asked.ignore =
                value.split(',').map(str::trim).filter(|name| !name.is_empty()).take(32).map(str::to_owned).collect();
        }
        "deadline" => {
            let after = duration(value).filter(|after| DEADLINES_S.contains(&after.as_secs_f64()));
            let expected = "expected a time after the container's start from 1s to 8760h, such as 90m or 36h";
            asked.deadline = Some(Millis(after.ok_or(expected)?.as_millis() as u64));
        }
        "memory-floor" => asked.memory_floor = Some(bytes(value).ok_or("expected a size such as 512m or 2g")?),
        _ => {
            let meant = nearest(name, LABELS.iter().map(|label| label.name));
            let meant = meant.map(|meant| format!("did you mean {LABEL_PREFIX}{meant}? ")).unwrap_or_default();
            return Err(format!("no such label; {meant}`flowctl help labels` lists them"));
        }
    }
    Ok(())
}

/// `0.25` or `25%`.
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

fn pattern(value: &str) -> Result<String, String> {
    let expected = |why: String| why.replace(char::is_control, "?");
    Pattern::new(value).map(|_| value.to_owned()).map_err(expected)
}

/// What a stranger wrote, fit for a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_by(labels: &[(&str, &str)]) -> (Directives, Vec<String>) {
        directives(&labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn labels_say_bounds_weight_and_reading() {
        let (asked, problems) = asked_by(&[
            ("flowcon.enable", "true"),
            ("flowcon.min-share", "10%"),
            ("flowcon.max-share", "0.5"),
            ("flowcon.weight", "2"),
            ("flowcon.metric", "val_loss"),
            ("flowcon.direction", "down"),
            ("flowcon.pattern", r"loss=(?P<value>\S+)"),
            ("flowcon.memory-floor", "2g"),
            ("com.example", "not ours"),
        ]);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!((asked.bounds.min.fraction(), asked.bounds.max.fraction(), asked.weight), (0.1, 0.5, 2.0));
        assert_eq!((asked.metric.as_deref(), asked.direction), (Some("val_loss"), Some(Direction::Down)));
        assert!(asked.pattern.is_some() && asked.memory_floor.is_some());
    }

    #[test]
    fn every_label_that_is_listed_is_obeyed_and_its_example_fits() {
        let examples: Vec<(String, &str)> =
            LABELS.iter().map(|label| (format!("{LABEL_PREFIX}{}", label.name), label.example)).collect();
        let examples: Vec<(&str, &str)> = examples.iter().map(|(label, example)| (label.as_str(), *example)).collect();
        assert_eq!(asked_by(&examples).1, Vec::<String>::new());
        let readme = include_str!("../../README.md");
        assert!(examples.iter().all(|(label, _)| readme.contains(label)), "the README lists every label");
    }

    #[test]
    fn absurd_labels_are_named_and_ignored() {
        let (asked, problems) = asked_by(&[
            ("flowcon.weight", "NaN"),
            ("flowcon.max-share", "0"),
            ("flowcon.min-share", "-3"),
            ("flowcon.total", "-10"),
            ("flowcon.pattern", "(unclosed"),
            ("flowcon.log", "relative/path"),
            ("flowcon.direction", "sideways"),
            ("flowcon.wieght", "2"),
        ]);
        assert_eq!(asked, Directives::default());
        assert_eq!(problems.len(), 8, "{problems:#?}");
        assert!(
            problems.iter().any(|p| p.contains("flowcon.pattern") && p.contains("unclosed group")),
            "{problems:#?}"
        );
    }

    #[test]
    fn labels_that_an_operator_gives_are_refused_with_what_is_expected() {
        let refused = |label: &str, value: &str| {
            obeyable(&[(label.to_owned(), value.to_owned())].into()).expect_err("refused").join("; ")
        };
        assert_eq!(refused("flowcon.weight", "much"), "label flowcon.weight: expected a number from 0.01 to 100");
        assert_eq!(refused("weight", "2"), "label weight: expected one that begins with flowcon.");
        assert!(refused("flowcon.wieght", "2").contains("did you mean flowcon.weight? `flowctl help labels`"));
        assert!(!refused("flowcon.swordfish", "2").contains("did you mean"));
        assert_eq!(obeyable(&[("flowcon.weight".to_owned(), "2".to_owned())].into()), Ok(()));
    }

    #[test]
    fn labels_of_a_command_are_checked_before_it_begins() {
        let refused = |label: &str, value: &str| meant(&[(label.to_owned(), value.to_owned())].into());
        assert_eq!(refused("weight", "2"), Err(vec!["label weight: did you mean flowcon.weight?".to_owned()]));
        assert!(refused("flowcon.weihgt", "2").is_err_and(|why| why[0].contains("did you mean flowcon.weight?")));
        assert!(refused("flowcon.total", "many").is_err());
        assert_eq!(refused("com.example.weight", "2"), Ok(()));
    }

    #[test]
    fn what_could_take_from_others_is_not_for_everybody() {
        let given = |label: &str, value: &str| for_everybody(&[(label.to_owned(), value.to_owned())].into());
        assert!(given("flowcon.weight", "1.01").is_err() && given("flowcon.min-share", "1%").is_err());
        assert_eq!((given("flowcon.weight", "0.5"), given("flowcon.max-share", "50%")), (Ok(()), Ok(())));
    }

    #[test]
    fn a_deadline_is_a_time_after_the_start() {
        assert_eq!(asked_by(&[("flowcon.deadline", "90m")]).0.deadline, Some(Millis::from_secs(5400)));
        for wrong in ["tomorrow", "0s", "-3h", "1e9h", "NaN"] {
            let (asked, problems) = asked_by(&[("flowcon.deadline", wrong)]);
            assert_eq!((asked.deadline, problems.len()), (None, 1), "{wrong}");
        }
    }

    #[test]
    fn a_minimum_above_the_maximum_binds_nobody() {
        let (asked, problems) = asked_by(&[("flowcon.min-share", "0.6"), ("flowcon.max-share", "0.4")]);
        assert_eq!(asked.bounds, Bounds::default());
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn a_bomb_of_labels_is_bounded() {
        let bomb = (0..10_000).map(|n| (format!("flowcon.x{n}\u{1b}[31m"), "y".repeat(500)));
        let (_, problems) = directives(&bomb.collect());
        assert!(problems.len() <= PROBLEMS_AT_MOST);
        assert!(problems.iter().all(|text| text.len() < 300 && !text.contains('\u{1b}')));
    }
}
