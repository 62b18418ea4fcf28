//! Labels of a service that say what job it is: names, and what their values mean.
//!
//! People write them; what cannot be obeyed is refused with what is expected. Imports: config, model.

use crate::config::LABELS;
use crate::model::Millis;
use crate::model::cluster::Priority;
use crate::model::time::{duration, of_utc};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// `true`: the service is a job. Without it nothing of a service is ever touched.
pub const QUEUE: &str = "flowcon.queue";
/// Its job's name, the same for all workers of a job.
pub const GANG: &str = "flowcon.gang";
/// With fewer workers the job cannot train.
pub const WORKERS_MIN: &str = "flowcon.workers-min";
/// More workers than so many are not started.
pub const WORKERS_MAX: &str = "flowcon.workers-max";
/// 1 ..= 100, as `50`; or with the part that is lost with time, as `50/0.5`.
pub const PRIORITY: &str = "flowcon.priority";
/// Whether it may be moved; without it, if it has a [`CHECKPOINT`].
pub const MOVABLE: &str = "flowcon.movable";
/// How long it may take to save and stop.
pub const STOP_GRACE: &str = "flowcon.stop-grace";
/// The volume that it saves its state in.
pub const CHECKPOINT: &str = "flowcon.checkpoint";
/// `wait` or `restart`: what becomes of it when its node is lost.
pub const ON_NODE_LOSS: &str = "flowcon.on-node-loss";
/// Jobs that must be done with exit code 0 before it starts, by the names of services or gangs, separated by commas.
pub const AFTER: &str = "flowcon.after";
/// When it should have ended: a duration from its submission, or an instant as RFC 3339 has it.
pub const DEADLINE: &str = "flowcon.deadline";
/// How long it takes as its owner believes.
pub const DURATION: &str = "flowcon.duration";
/// Labels that begin so are the coordinator's own.
pub const OURS: &str = "flowcon.cluster.";
/// On a node: it is being emptied. Not Swarm's availability `drain`, which stops jobs without a proof and without their state.
pub const DRAIN: &str = "flowcon.drain";

/// On a node that is no manager, `true`: it may be closed when nobody needs it, and opened again.
pub const RENTED: &str = "flowcon.rented";
/// On a rented node, the coordinator's own: how far it is with closing or opening it.
pub const STAGE: &str = "flowcon.rented.stage";

/// What people may set on a service.
const THEIRS: [&str; 12] = [
    QUEUE,
    GANG,
    WORKERS_MIN,
    WORKERS_MAX,
    PRIORITY,
    MOVABLE,
    STOP_GRACE,
    CHECKPOINT,
    ON_NODE_LOSS,
    AFTER,
    DEADLINE,
    DURATION,
];
const PREFIX: &str = "flowcon.";
const WORKERS_MOST: u32 = 1000;
const AFTER_MOST: usize = 64;
const SPANS: std::ops::RangeInclusive<Millis> = Millis::from_secs(1)..=Millis::from_secs(31_536_000);
const GRACE_LONGEST: Millis = Millis::from_secs(86_400);
/// How long a job may take to save and stop unless told.
pub(super) const GRACE: Millis = Millis::from_secs(120);
const SHOWN_MOST: usize = 60;

/// The labels of an object of Swarm's.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// What people say of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Wishes {
    /// Its job's name, if it has several workers.
    pub gang: Option<Arc<str>>,
    /// Least workers of the gang; `None` = all that there are.
    pub workers_min: Option<u32>,
    /// Most workers of the gang; `None` = all that there are.
    pub workers_max: Option<u32>,
    /// How important it is.
    pub priority: Priority,
    /// It may be moved, or must not be; `None` = as it saves its state or not.
    pub movable: Option<bool>,
    /// How long it may take to save and stop; `None` = nobody said.
    pub stop_grace: Option<Millis>,
    /// The volume that it saves its state in.
    pub checkpoint: Option<Arc<str>>,
    /// It starts elsewhere when its node is lost for certain.
    pub restarts_on_loss: bool,
    /// Jobs that must be done before.
    pub after: Vec<Arc<str>>,
    /// When it should have ended.
    pub deadline: Option<Deadline>,
    /// How long the whole of it takes.
    pub duration: Option<Millis>,
}

/// When a job should have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// So long after its submission.
    In(Millis),
    /// At this instant.
    At(Millis),
}

impl Deadline {
    /// The instant, for a job that was submitted then.
    pub fn of(self, submitted: Millis) -> Millis {
        match self {
            Deadline::In(span) => submitted.after(span),
            Deadline::At(instant) => instant,
        }
    }
}

/// Whether a service wants to be a job.
pub fn is_queued(labels: &Labels) -> bool {
    labels.contains_key(QUEUE)
}

/// What people say of a job.
///
/// # Errors
/// Names the label, its value, and what is expected.
pub fn wishes(labels: &Labels) -> Result<Wishes, String> {
    if let Some(unknown) = labels.keys().find(|label| is_unknown(label)) {
        return Err(format!("label {}: there is no such label; `flowctl help labels` lists them", shown(unknown)));
    }
    if labels.get(QUEUE).map(AsRef::as_ref) != Some("true") {
        return Err(odd(QUEUE, labels.get(QUEUE).map_or("", |value| value), "true"));
    }
    let wishes = Wishes {
        gang: text(labels, GANG)?,
        workers_min: parsed(labels, WORKERS_MIN, "a number of workers from 1 to 1000", workers)?,
        workers_max: parsed(labels, WORKERS_MAX, "a number of workers from 1 to 1000", workers)?,
        priority: parsed(
            labels,
            PRIORITY,
            "a number from 1 to 100, or with its decay from 0 to 1 as 50/0.5",
            priority,
        )?
        .unwrap_or_default(),
        movable: parsed(labels, MOVABLE, "true or false", |value| value.parse().ok())?,
        stop_grace: parsed(labels, STOP_GRACE, "a duration up to a day, as 2m or 90s", grace)?,
        checkpoint: text(labels, CHECKPOINT)?,
        restarts_on_loss: parsed(labels, ON_NODE_LOSS, "wait or restart", |value| match value {
            "wait" => Some(false),
            "restart" => Some(true),
            _ => None,
        })?
        .unwrap_or(false),
        after: parsed(labels, AFTER, "at most 64 names of jobs, separated by commas", names)?.unwrap_or_default(),
        deadline: parsed(
            labels,
            DEADLINE,
            "a duration from its submission up to a year, as 2h, or an instant, as 2026-01-31T18:00Z",
            deadline,
        )?,
        duration: parsed(labels, DURATION, "a duration from 1s to a year, as 90m", span)?,
    };
    if let (Some(min), Some(max)) = (wishes.workers_min, wishes.workers_max)
        && min > max
    {
        return Err(format!("labels {WORKERS_MIN}={min} and {WORKERS_MAX}={max}: the least is more than the most"));
    }
    Ok(wishes)
}

/// The value of a label of ours or theirs, if it is there.
///
/// # Errors
/// Names the label, its value, and what is expected.
pub(super) fn parsed<T>(
    labels: &Labels,
    label: &str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(value) = labels.get(label) else { return Ok(None) };
    parse(value).map(Some).ok_or_else(|| odd(label, value, expected))
}

/// A number that is written as itself.
pub(super) fn number<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

pub(super) fn odd(label: &str, value: &str, expected: &str) -> String {
    format!("label {label}={}: expected {expected}", shown(value))
}

/// Text of somebody else's, bounded, on one line.
pub(super) fn shown(text: &str) -> String {
    bounded(text, SHOWN_MOST)
}

/// At most so many characters, none of them a control character.
pub(super) fn bounded(text: &str, most: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut kept: String = clean.clone().take(most).collect();
    if clean.count() > most {
        kept.push('…');
    }
    kept
}

/// A label of ours by name that nobody knows. Those of a container do no harm on its service.
fn is_unknown(label: &str) -> bool {
    let Some(name) = label.strip_prefix(PREFIX) else { return false };
    !label.starts_with(OURS) && !THEIRS.contains(&label) && !LABELS.iter().any(|known| known.name == name)
}

fn text(labels: &Labels, label: &str) -> Result<Option<Arc<str>>, String> {
    parsed(labels, label, "a name", |value| (!value.trim().is_empty()).then(|| Arc::from(value)))
}

fn names(value: &str) -> Option<Vec<Arc<str>>> {
    let names: Vec<&str> = value.split(',').map(str::trim).collect();
    (names.len() <= AFTER_MOST && names.iter().all(|name| !name.is_empty()))
        .then(|| names.into_iter().map(Arc::from).collect())
}

fn workers(value: &str) -> Option<u32> {
    number(value).filter(|workers| (1..=WORKERS_MOST).contains(workers))
}

fn priority(value: &str) -> Option<Priority> {
    let (level, decay) = value.split_once('/').unwrap_or((value, "0"));
    let (level, decay): (f64, f64) = (number(level)?, number(decay)?);
    ((1.0..=100.0).contains(&level) && (0.0..=1.0).contains(&decay)).then_some(Priority { level, decay })
}

fn span(value: &str) -> Option<Millis> {
    let span = Millis(u64::try_from(duration(value)?.as_millis()).ok()?);
    SPANS.contains(&span).then_some(span)
}

fn deadline(value: &str) -> Option<Deadline> {
    span(value).map(Deadline::In).or_else(|| of_utc(value).map(|at| Deadline::At(Millis(at))))
}

fn grace(value: &str) -> Option<Millis> {
    let grace = Millis(u64::try_from(duration(value)?.as_millis()).ok()?);
    (grace <= GRACE_LONGEST).then_some(grace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(labels: &[(&str, &str)]) -> Labels {
        labels.iter().map(|(label, value)| (Arc::from(*label), Arc::from(*value))).collect()
    }

    #[test]
    fn a_job_may_say_nothing_but_that_it_is_one() {
        let wishes = wishes(&labelled(&[(QUEUE, "true"), ("com.docker.stack.namespace", "x")])).unwrap();
        assert_eq!((wishes.stop_grace, wishes.movable, wishes.gang), (None, None, None));
    }

    #[test]
    fn a_job_may_say_all() {
        let wishes = wishes(&labelled(&[
            (QUEUE, "true"),
            (GANG, "resnet"),
            (WORKERS_MIN, "2"),
            (WORKERS_MAX, "8"),
            (PRIORITY, "50/0.5"),
            (MOVABLE, "true"),
            (STOP_GRACE, "5m"),
            (CHECKPOINT, "saved"),
            (ON_NODE_LOSS, "restart"),
            (DEADLINE, "2026-01-31T18:00+01:00"),
            (DURATION, "1h30m"),
        ]))
        .unwrap();
        assert_eq!(wishes.priority, Priority { level: 50.0, decay: 0.5 });
        assert_eq!((wishes.workers_min, wishes.workers_max), (Some(2), Some(8)));
        assert!(wishes.restarts_on_loss && wishes.movable == Some(true));
        assert_eq!(wishes.stop_grace, Some(Millis::from_secs(300)));
        assert_eq!(wishes.deadline.map(|deadline| deadline.of(Millis(7))), Some(Millis(1_769_878_800_000)));
        assert_eq!(wishes.duration, Some(Millis::from_secs(5400)));
        let soon = super::wishes(&labelled(&[(QUEUE, "true"), (DEADLINE, "2h")])).unwrap();
        assert_eq!(
            soon.deadline.map(|deadline| deadline.of(Millis(7))),
            Some(Millis(7_200_007)),
            "from its submission"
        );
    }

    #[test]
    fn an_odd_label_is_refused_with_its_value_and_what_is_expected() {
        for (label, value, expected) in [
            (QUEUE, "yes", "label flowcon.queue=yes: expected true"),
            (WORKERS_MIN, "0", "label flowcon.workers-min=0: expected a number of workers from 1 to 1000"),
            (PRIORITY, "NaN", "label flowcon.priority=NaN: expected a number from 1 to 100"),
            (MOVABLE, "1", "label flowcon.movable=1: expected true or false"),
            (STOP_GRACE, "forever", "label flowcon.stop-grace=forever: expected a duration up to a day"),
            (STOP_GRACE, "25h", "label flowcon.stop-grace=25h: expected"),
            (CHECKPOINT, " ", "label flowcon.checkpoint= : expected a name"),
            (AFTER, "a,,b", "label flowcon.after=a,,b: expected at most 64 names"),
            (DEADLINE, "soon", "label flowcon.deadline=soon: expected a duration from its submission"),
            (DEADLINE, "0s", "label flowcon.deadline=0s: expected"),
            (DURATION, "2026-01-31", "label flowcon.duration=2026-01-31: expected a duration from 1s to a year"),
            (ON_NODE_LOSS, "reboot", "label flowcon.on-node-loss=reboot: expected wait or restart"),
            ("flowcon.movabel", "false", "label flowcon.movabel: there is no such label"),
        ] {
            let mut labels = labelled(&[(QUEUE, "true")]);
            labels.insert(label.into(), value.into());
            let why = wishes(&labels).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        let both = labelled(&[(QUEUE, "true"), (WORKERS_MIN, "3"), (WORKERS_MAX, "2")]);
        assert!(wishes(&both).unwrap_err().contains("the least is more than the most"));
    }

    #[test]
    fn a_long_value_is_not_shown_whole() {
        let labels = labelled(&[(QUEUE, "true"), (MOVABLE, &"x".repeat(100_000))]);
        assert!(wishes(&labels).unwrap_err().len() < 200);
    }
}
