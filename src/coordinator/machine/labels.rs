//! Labels by which users describe a job: names and values. Invalid labels are rejected with the expected value.

use super::alternatives::{self, Alternative, span};
use config::LABELS;
use model::Millis;
use model::cluster::Priority;
use model::time::{duration, of_utc};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// `true`: the service is a job. Services without this label are never touched.
pub const QUEUE: &str = "flowcon.queue";
/// Name of the gang, the same for all workers of a job.
pub const GANG: &str = "flowcon.gang";
/// Minimum number of workers with which the job can train.
pub const WORKERS_MIN: &str = "flowcon.workers-min";
/// Maximum number of workers.
pub const WORKERS_MAX: &str = "flowcon.workers-max";
/// Number of workers with which an elastic job starts; the minimum by default.
pub const WORKERS_INITIAL: &str = "flowcon.workers-initial";
/// `worker` or [`PARAMETER_SERVER`]: what the service is in its gang.
pub const ROLE: &str = "flowcon.role";
/// Value of [`ROLE`] for a service that is not scaled with the workers, and ends with them.
pub const PARAMETER_SERVER: &str = "parameter-server";
/// Priority from 1 to 100, such as `50`, optionally with a decay from 0 to 1, such as `50/0.5`.
pub const PRIORITY: &str = "flowcon.priority";
/// Whether the job may be moved; by default only if it has a [`CHECKPOINT`].
pub const MOVABLE: &str = "flowcon.movable";
/// Time that the job may need to save its state and stop.
pub const STOP_GRACE: &str = "flowcon.stop-grace";
/// The volume that holds the job's saved state.
pub const CHECKPOINT: &str = "flowcon.checkpoint";
/// Name or id of a job that has ended or was removed, and whose saved state in the [`CHECKPOINT`] this job continues; [`UNOWNED`] for files
/// without a recorded owner.
pub const TAKE_OVER: &str = "flowcon.take-over";
/// Value of [`TAKE_OVER`] for files that no job is recorded to own.
pub const UNOWNED: &str = "unknown";
/// `wait` or `restart`: what happens if its node is lost.
pub const ON_NODE_LOSS: &str = "flowcon.on-node-loss";
/// Comma-separated names of services or gangs that must exit with code 0 before the job starts.
pub const AFTER: &str = "flowcon.after";
/// Deadline: a duration from submission, or an RFC 3339 timestamp.
pub const DEADLINE: &str = "flowcon.deadline";
/// The owner's estimate of the run time.
pub const DURATION: &str = "flowcon.duration";
/// The ways to run the job, of which the plan chooses one.
pub const ALTERNATIVES: &str = "flowcon.alternatives";
/// Cost of each hour after the deadline.
pub const LATE_COST: &str = "flowcon.late-cost";
/// Kind of the job in the table of run times; by default the name of the service.
pub const KIND: &str = "flowcon.kind";
/// Prefix of the coordinator's internal labels.
pub const INTERNAL_PREFIX: &str = "flowcon.cluster.";
/// On a node: it is draining. Unlike Swarm's availability `drain`, jobs are stopped only with a proof and with their state.
pub const DRAIN: &str = "flowcon.drain";

/// On a worker node, `true`: the coordinator may close it while it is idle, and open it again.
pub const RENTED: &str = "flowcon.rented";
/// On a rented node, internal: stage of closing or opening it.
pub const STAGE: &str = "flowcon.rented.stage";

/// Labels that users may set on a service.
const USER_LABELS: [&str; 18] = [
    QUEUE,
    GANG,
    WORKERS_MIN,
    WORKERS_MAX,
    WORKERS_INITIAL,
    ROLE,
    PRIORITY,
    MOVABLE,
    STOP_GRACE,
    CHECKPOINT,
    TAKE_OVER,
    ON_NODE_LOSS,
    AFTER,
    DEADLINE,
    DURATION,
    ALTERNATIVES,
    LATE_COST,
    KIND,
];
const PREFIX: &str = "flowcon.";
const WORKERS_MOST: u32 = 1000;
const AFTER_MOST: usize = 64;
const GRACE_LONGEST: Millis = Millis::from_secs(86_400);
/// Default time that a job may need to save its state and stop.
pub(super) const GRACE: Millis = Millis::from_secs(120);
const SHOWN_MOST: usize = 60;

/// Labels of a Swarm service or node.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// Options of a job, set by its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOptions {
    /// Name of the gang, if the job has several workers.
    pub gang: Option<Arc<str>>,
    /// Minimum number of workers of the gang; `None` = all workers.
    pub workers_min: Option<u32>,
    /// Maximum number of workers of the gang; `None` = all workers.
    pub workers_max: Option<u32>,
    /// Number of workers with which the gang starts; `None` = the minimum.
    pub workers_initial: Option<u32>,
    /// What it is in its gang.
    pub role: Role,
    /// Priority.
    pub priority: Priority,
    /// Whether it may be moved; `None` = if it saves its state.
    pub movable: Option<bool>,
    /// Time that it may need to save its state and stop.
    pub stop_grace: Option<Millis>,
    /// The volume that holds its saved state.
    pub checkpoint: Option<Arc<str>>,
    /// Whose saved state it continues.
    pub take_over: Option<Arc<str>>,
    /// Whether it starts elsewhere once its node is certainly lost.
    pub restarts_on_loss: bool,
    /// Jobs that must be done before it starts.
    pub after: Vec<Arc<str>>,
    /// Deadline.
    pub deadline: Option<Deadline>,
    /// Estimated run time of the whole job.
    pub duration: Option<Millis>,
    /// The ways to run it; empty = as the service says.
    pub alternatives: Vec<Alternative>,
    /// Cost of each hour after the deadline.
    pub late_cost: Option<f64>,
    /// Kind of the job in the table of run times.
    pub kind: Option<Arc<str>>,
}

/// What a service is in its gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs as long as its workers, and is not scaled.
    ParameterServer,
    /// Counts for the minimum, initial and maximum number of workers.
    Worker,
}

/// Deadline of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Time after its submission.
    In(Millis),
    /// Wall clock since 1970.
    At(Millis),
}

impl Deadline {
    /// Returns the deadline on the wall clock, given the time of submission.
    pub fn of(self, submitted: Millis) -> Millis {
        match self {
            Deadline::In(span) => submitted.after(span),
            Deadline::At(instant) => instant,
        }
    }
}

/// Whether a service has the label [`QUEUE`].
pub fn is_queued(labels: &Labels) -> bool {
    labels.contains_key(QUEUE)
}

/// Parses the options of a job.
///
/// # Errors
/// Names the label, its value, and the expected value.
pub fn options(labels: &Labels) -> Result<JobOptions, String> {
    if let Some(unknown) = labels.keys().find(|label| is_unknown(label)) {
        return Err(format!("label {}: unknown label; run `flowctl help labels` for a list", shown(unknown)));
    }
    if labels.get(QUEUE).map(AsRef::as_ref) != Some("true") {
        return Err(invalid(QUEUE, labels.get(QUEUE).map_or("", |value| value), "true"));
    }
    let options = JobOptions {
        gang: text(labels, GANG)?,
        workers_min: parsed(labels, WORKERS_MIN, "a number of workers from 1 to 1000", workers)?,
        workers_max: parsed(labels, WORKERS_MAX, "a number of workers from 1 to 1000", workers)?,
        workers_initial: parsed(labels, WORKERS_INITIAL, "a number of workers from 1 to 1000", workers)?,
        role: parsed(labels, ROLE, "worker or parameter-server", |value| match value {
            "worker" => Some(Role::Worker),
            PARAMETER_SERVER => Some(Role::ParameterServer),
            _ => None,
        })?
        .unwrap_or(Role::Worker),
        priority: parsed(
            labels,
            PRIORITY,
            "a number from 1 to 100, optionally with a decay from 0 to 1, such as 50/0.5",
            priority,
        )?
        .unwrap_or_default(),
        movable: parsed(labels, MOVABLE, "true or false", |value| value.parse().ok())?,
        stop_grace: parsed(labels, STOP_GRACE, "a duration up to a day, such as 2m or 90s", grace)?,
        checkpoint: text(labels, CHECKPOINT)?,
        take_over: text(labels, TAKE_OVER)?,
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
            "a duration from submission up to a year, such as 2h, or a timestamp, such as 2026-01-31T18:00Z",
            deadline,
        )?,
        duration: parsed(labels, DURATION, "a duration from 1s to a year, such as 90m", span)?,
        alternatives: parsed(labels, ALTERNATIVES, alternatives::EXPECTED, alternatives::alternatives)?
            .unwrap_or_default(),
        late_cost: parsed(labels, LATE_COST, "a cost per hour, such as 2.50, on the scale of flowcon.price", cost)?,
        kind: text(labels, KIND)?,
    };
    if options.gang.is_some() && !options.alternatives.is_empty() {
        return Err(format!(
            "labels {GANG} and {ALTERNATIVES}: only a job of one worker can have alternatives; remove one of them"
        ));
    }
    if let (Some(min), Some(max)) = (options.workers_min, options.workers_max)
        && min > max
    {
        return Err(format!("labels {WORKERS_MIN}={min} and {WORKERS_MAX}={max}: the minimum exceeds the maximum"));
    }
    Ok(options)
}

/// Parses the value of a label, if present.
///
/// # Errors
/// Names the label, its value, and the expected value.
pub(super) fn parsed<T>(
    labels: &Labels,
    label: &str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(value) = labels.get(label) else { return Ok(None) };
    parse(value).map(Some).ok_or_else(|| invalid(label, value, expected))
}

pub(super) fn number<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

pub(super) fn invalid(label: &str, value: &str, expected: &str) -> String {
    format!("label {label}={}: expected {expected}", shown(value))
}

/// Sanitises untrusted text for a message: one line, bounded length.
pub(super) fn shown(text: &str) -> String {
    bounded(text, SHOWN_MOST)
}

/// Truncates text to `most` characters and replaces control characters by spaces.
pub(super) fn bounded(text: &str, most: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut kept: String = clean.clone().take(most).collect();
    if clean.count() > most {
        kept.push('…');
    }
    kept
}

/// Whether a service has labels of the coordinator's own.
pub fn has_internal(labels: &Labels) -> bool {
    labels.keys().any(|label| label.starts_with(INTERNAL_PREFIX))
}

/// Whether a label has the prefix `flowcon.` but is unknown. Container labels are accepted on a service too.
fn is_unknown(label: &str) -> bool {
    let Some(name) = label.strip_prefix(PREFIX) else { return false };
    !label.starts_with(INTERNAL_PREFIX)
        && !USER_LABELS.contains(&label)
        && !LABELS.iter().any(|known| known.name == name)
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

fn cost(value: &str) -> Option<f64> {
    number(value).filter(|cost: &f64| (0.0..=1e9).contains(cost))
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
    fn all_labels_but_queue_are_optional() {
        let options = options(&labelled(&[(QUEUE, "true"), ("com.docker.stack.namespace", "x")])).unwrap();
        assert_eq!((options.stop_grace, options.movable, options.gang), (None, None, None));
    }

    #[test]
    fn all_labels_are_parsed() {
        let options = options(&labelled(&[
            (QUEUE, "true"),
            (GANG, "resnet"),
            (WORKERS_MIN, "2"),
            (WORKERS_MAX, "8"),
            (WORKERS_INITIAL, "4"),
            (PRIORITY, "50/0.5"),
            (MOVABLE, "true"),
            (STOP_GRACE, "5m"),
            (CHECKPOINT, "saved"),
            (ON_NODE_LOSS, "restart"),
            (DEADLINE, "2026-01-31T18:00+01:00"),
            (DURATION, "1h30m"),
        ]))
        .unwrap();
        assert_eq!(options.priority, Priority { level: 50.0, decay: 0.5 });
        assert_eq!((options.workers_min, options.workers_initial, options.workers_max), (Some(2), Some(4), Some(8)));
        assert!(options.restarts_on_loss && options.movable == Some(true));
        assert_eq!(options.stop_grace, Some(Millis::from_secs(300)));
        assert_eq!(options.deadline.map(|deadline| deadline.of(Millis(7))), Some(Millis(1_769_878_800_000)));
        assert_eq!(options.duration, Some(Millis::from_secs(5400)));
        let soon = super::options(&labelled(&[(QUEUE, "true"), (DEADLINE, "2h")])).unwrap();
        assert_eq!(soon.deadline.map(|deadline| deadline.of(Millis(7))), Some(Millis(7_200_007)), "from submission");
    }

    #[test]
    fn an_invalid_label_is_rejected_with_its_value_and_the_expected_value() {
        for (label, value, expected) in [
            (QUEUE, "yes", "label flowcon.queue=yes: expected true"),
            (WORKERS_MIN, "0", "label flowcon.workers-min=0: expected a number of workers from 1 to 1000"),
            (ROLE, "ps", "label flowcon.role=ps: expected worker or parameter-server"),
            (PRIORITY, "NaN", "label flowcon.priority=NaN: expected a number from 1 to 100"),
            (MOVABLE, "1", "label flowcon.movable=1: expected true or false"),
            (STOP_GRACE, "forever", "label flowcon.stop-grace=forever: expected a duration up to a day"),
            (STOP_GRACE, "25h", "label flowcon.stop-grace=25h: expected"),
            (CHECKPOINT, " ", "label flowcon.checkpoint= : expected a name"),
            (AFTER, "a,,b", "label flowcon.after=a,,b: expected at most 64 names"),
            (DEADLINE, "soon", "label flowcon.deadline=soon: expected a duration from submission"),
            (DEADLINE, "0s", "label flowcon.deadline=0s: expected"),
            (LATE_COST, "-1", "label flowcon.late-cost=-1: expected a cost per hour"),
            (ALTERNATIVES, "2 cores", "label flowcon.alternatives=2 cores: expected up to 16 alternatives"),
            (DURATION, "2026-01-31", "label flowcon.duration=2026-01-31: expected a duration from 1s to a year"),
            (ON_NODE_LOSS, "reboot", "label flowcon.on-node-loss=reboot: expected wait or restart"),
            ("flowcon.movabel", "false", "label flowcon.movabel: unknown label"),
        ] {
            let mut labels = labelled(&[(QUEUE, "true")]);
            labels.insert(label.into(), value.into());
            let why = options(&labels).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        let both = labelled(&[(QUEUE, "true"), (WORKERS_MIN, "3"), (WORKERS_MAX, "2")]);
        assert!(options(&both).unwrap_err().contains("the minimum exceeds the maximum"));
    }

    #[test]
    fn a_long_value_is_truncated_in_the_message() {
        let labels = labelled(&[(QUEUE, "true"), (MOVABLE, &"x".repeat(100_000))]);
        assert!(options(&labels).unwrap_err().len() < 200);
    }
}
