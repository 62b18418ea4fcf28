//! The durable state of a job, stored as labels of its service.

use super::labels::{INTERNAL_PREFIX, Labels, bounded, has_internal, invalid, is_queued, number, parsed};
use model::Millis;
use model::swarm::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum characters of a text in a label.
const TEXT_MOST: usize = 200;
/// Maximum number of events in the log of a job, and characters of each.
const LOG_MOST: usize = 8;
const EVENT_MOST: usize = 160;
/// Maximum number of nodes or tasks in one label.
const LIST_MOST: usize = 64;

/// Phase of a job. Each phase is written before it is acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobPhase {
    /// In the queue, proven gone from all nodes.
    Waiting,
    /// Pinned with one replica; not seen training yet.
    Starting,
    /// Seen training at [`Record::home`].
    Running,
    /// Fenced: replicas 0. A container may still live.
    Stopping,
    /// Proven gone; its saved state is being transferred from [`Record::home`] to [`Record::to`].
    Carrying,
    /// Exited.
    Done,
}

/// Purpose of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// To start at [`Record::to`].
    Move,
    /// It failed to start: to return to its source, [`Record::to`].
    Return,
    /// To wait in the queue.
    Queue,
    /// To wait until it is resumed.
    Suspend,
    /// To end, as an operator wants. It stays in the record of the ended job.
    Cancel,
    /// To end, because the workers that it serves have ended.
    End,
}

/// The durable state of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Current phase.
    pub phase: JobPhase,
    /// Number of its transfers so far; identifies the current one.
    pub number: u64,
    /// The node where it runs or last ran, and where its newest saved state is.
    pub home: Option<NodeId>,
    /// Source of a move, to which it returns if it fails to start on the target.
    pub from: Option<NodeId>,
    /// Target of a move.
    pub to: Option<NodeId>,
    /// Purpose of the fence.
    pub goal: Option<Goal>,
    /// Why it was started, moved or stopped last, as text.
    pub why: Option<Arc<str>>,
    /// All nodes where a task of it was placed since it was last proven gone.
    pub placed: BTreeSet<NodeId>,
    /// Tasks of earlier starts, to be ignored.
    pub past: BTreeSet<Arc<str>>,
    /// Units that were done when it was fenced, or at its end.
    pub saved: Option<f64>,
    /// Total units, once it has ended.
    pub total: Option<f64>,
    /// Number of moves.
    pub moves: u32,
    /// Number of failures to start since it last trained.
    pub tries: u32,
    /// Time of the next attempt, on the managers' wall clock since 1970.
    pub retry_at: Option<Millis>,
    /// Nodes where it failed to start since it last trained.
    pub avoid: BTreeSet<NodeId>,
    /// Last failure, as text.
    pub mark: Option<Arc<str>>,
    /// Whether it waits until it is resumed.
    pub suspended: bool,
    /// The node whose agent stops the job when its lease expires.
    pub leased: Option<NodeId>,
    /// Stop grace period of its current start, which its lease includes; `None` = that of Swarm, or it gets no lease.
    pub grace: Option<Millis>,
    /// Exit code, once it has exited.
    pub exit: Option<i64>,
    /// The node that its owner had pinned it to before its first start, which replaces that pin: it starts on no other.
    pub pin: Option<NodeId>,
    /// The alternative in which it runs or last ran.
    pub alternative: Option<usize>,
    /// Time of its current start since 1970, if its costs are counted.
    pub since: Option<Millis>,
    /// What its earlier runs cost, and its lateness once it has ended.
    pub cost: Option<f64>,
    /// CPU-seconds that it used, if it has ended without an error and never moved: what a job of the same program will need.
    pub work: Option<f64>,
    /// Its latest events, oldest first, with their times since 1970.
    pub log: Vec<(Millis, Arc<str>)>,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            phase: JobPhase::Waiting,
            number: 0,
            home: None,
            from: None,
            to: None,
            goal: None,
            why: None,
            placed: BTreeSet::new(),
            past: BTreeSet::new(),
            saved: None,
            total: None,
            moves: 0,
            tries: 0,
            retry_at: None,
            avoid: BTreeSet::new(),
            mark: None,
            suspended: false,
            leased: None,
            grace: None,
            exit: None,
            pin: None,
            alternative: None,
            since: None,
            cost: None,
            work: None,
            log: Vec::new(),
        }
    }
}

const PHASES: [(JobPhase, &str); 6] = [
    (JobPhase::Waiting, "waiting"),
    (JobPhase::Starting, "starting"),
    (JobPhase::Running, "running"),
    (JobPhase::Stopping, "stopping"),
    (JobPhase::Carrying, "carrying"),
    (JobPhase::Done, "done"),
];
/// In the labels of services. A job that an earlier coordinator paused stays suspended, so `pause` and `paused` are as it wrote them.
const GOALS: [(Goal, &str); 6] = [
    (Goal::Move, "move"),
    (Goal::Return, "return"),
    (Goal::Queue, "queue"),
    (Goal::Suspend, "pause"),
    (Goal::Cancel, "cancel"),
    (Goal::End, "end"),
];
const NAMES: [&str; 26] = [
    "phase",
    "number",
    "home",
    "from",
    "to",
    "goal",
    "why",
    "placed",
    "past",
    "saved",
    "total",
    "moves",
    "tries",
    "retry-at",
    "avoid",
    "mark",
    "paused",
    "leased",
    "grace",
    "exit",
    "pin",
    "alternative",
    "since",
    "cost",
    "work",
    "log",
];

impl Record {
    /// Parses the labels. Without any, the job has never been placed.
    ///
    /// # Errors
    /// Names the label, its value, and the expected value.
    pub fn parse(labels: &Labels) -> Result<Record, String> {
        let mut internal = labels
            .range(Arc::from(INTERNAL_PREFIX)..)
            .take_while(|(label, _)| label.starts_with(INTERNAL_PREFIX))
            .peekable();
        if internal.peek().is_none() {
            return Ok(Record::default());
        }
        if let Some((label, value)) = internal.find(|(label, _)| !NAMES.contains(&&label[INTERNAL_PREFIX.len()..])) {
            return Err(invalid(
                label,
                value,
                "no such label; it was written by another version of flowcoord: install the same version on all managers",
            ));
        }
        let read = Reader { labels };
        let record = Record {
            phase: read.word("phase", &PHASES)?.unwrap_or(JobPhase::Waiting),
            number: read.number("number")?.unwrap_or(0),
            home: read.text("home")?.map(NodeId),
            from: read.text("from")?.map(NodeId),
            to: read.text("to")?.map(NodeId),
            goal: read.word("goal", &GOALS)?,
            why: read.text("why")?,
            placed: read.list("placed")?.into_iter().map(NodeId).collect(),
            past: read.list("past")?,
            saved: read.number("saved")?.filter(|saved: &f64| saved.is_finite()),
            total: read.number("total")?.filter(|total: &f64| total.is_finite()),
            moves: read.number("moves")?.unwrap_or(0),
            tries: read.number("tries")?.unwrap_or(0),
            retry_at: read.number("retry-at")?.map(Millis),
            avoid: read.list("avoid")?.into_iter().map(NodeId).collect(),
            mark: read.text("mark")?,
            suspended: read.word("paused", &[(true, "true")])?.unwrap_or(false),
            leased: read.text("leased")?.map(NodeId),
            grace: read.number("grace")?.map(Millis),
            exit: read.number("exit")?,
            pin: read.text("pin")?.map(NodeId),
            alternative: read.number("alternative")?,
            since: read.number("since")?.map(Millis),
            cost: read.number("cost")?.filter(|cost: &f64| cost.is_finite()),
            work: read.number("work")?,
            log: read.text("log")?.map_or_else(Vec::new, |log| log.lines().filter_map(event).collect()),
        };
        record.checked()
    }

    /// Returns the record of a job whose last update removed all internal labels, as `docker stack deploy` does with labels that are not in
    /// the file: it is in the `previous` labels. If those are invalid, they were removed on purpose.
    pub fn lost(labels: &Labels, previous: &Labels) -> Option<Record> {
        if has_internal(labels) || !has_internal(previous) || !is_queued(previous) {
            return None;
        }
        Record::parse(previous).ok()
    }

    /// Checks that the labels required by the phase are present.
    fn checked(self) -> Result<Record, String> {
        let lacks = |name: &str| {
            let phase = written(self.phase, &PHASES);
            Err(format!(
                "label {INTERNAL_PREFIX}phase={phase} requires {INTERNAL_PREFIX}{name}; restore that label, or remove all labels {INTERNAL_PREFIX}* while the service has 0 replicas"
            ))
        };
        let goes = matches!(self.goal, Some(Goal::Move | Goal::Return));
        match self.phase {
            JobPhase::Starting | JobPhase::Running | JobPhase::Stopping if self.home.is_none() => lacks("home"),
            JobPhase::Carrying if self.home.is_none() => lacks("home"),
            JobPhase::Stopping if self.goal.is_none() => lacks("goal"),
            JobPhase::Stopping if goes && self.to.is_none() => lacks("to"),
            JobPhase::Carrying if self.to.is_none() => lacks("to"),
            _ => Ok(self),
        }
    }

    /// Adds an event to the log, which keeps the latest ones.
    pub(super) fn note(&mut self, at: Millis, text: &str) {
        self.log.push((at, bounded(text, EVENT_MOST).into()));
        self.log.drain(..self.log.len().saturating_sub(LOG_MOST));
    }

    /// Returns the label changes that turn the service's labels into this record.
    pub fn changes(&self, labels: &Labels) -> BTreeMap<Arc<str>, Option<Arc<str>>> {
        let wanted = self.values();
        let differs = |(name, value): &(&str, Option<Arc<str>>)| {
            labels.get(format!("{INTERNAL_PREFIX}{name}").as_str()).map(AsRef::as_ref) != value.as_deref()
        };
        let changed = NAMES.into_iter().zip(wanted).filter(differs);
        changed.map(|(name, value)| (Arc::from(format!("{INTERNAL_PREFIX}{name}")), value)).collect()
    }

    /// Returns the label values in the order of [`NAMES`].
    fn values(&self) -> [Option<Arc<str>>; 26] {
        let text = |text: &Option<Arc<str>>| text.as_ref().map(|text| Arc::from(bounded(text, TEXT_MOST)));
        let node = |node: &Option<NodeId>| node.as_ref().map(|node| node.0.clone());
        fn some(number: u64) -> Option<Arc<str>> {
            (number > 0).then(|| number.to_string().into())
        }
        [
            Some(written(self.phase, &PHASES).into()),
            some(self.number),
            node(&self.home),
            node(&self.from),
            node(&self.to),
            self.goal.map(|goal| written(goal, &GOALS).into()),
            text(&self.why),
            list(self.placed.iter().map(|node| &node.0)),
            list(self.past.iter()),
            self.saved.map(|saved| saved.to_string().into()),
            self.total.map(|total| total.to_string().into()),
            some(u64::from(self.moves)),
            some(u64::from(self.tries)),
            self.retry_at.map(|at| at.0.to_string().into()),
            list(self.avoid.iter().map(|node| &node.0)),
            text(&self.mark),
            self.suspended.then(|| "true".into()),
            node(&self.leased),
            self.grace.map(|grace| grace.0.to_string().into()),
            self.exit.map(|exit| exit.to_string().into()),
            node(&self.pin),
            self.alternative.map(|alternative| alternative.to_string().into()),
            self.since.map(|since| since.0.to_string().into()),
            self.cost.map(|cost| cost.to_string().into()),
            self.work.map(|work| work.to_string().into()),
            self.log
                .iter()
                .map(|(at, text)| format!("{} {text}", at.0))
                .reduce(|all, line| all + "\n" + &line)
                .map(Arc::from),
        ]
    }
}

/// Parses a line of the log; an invalid one is left out.
fn event(line: &str) -> Option<(Millis, Arc<str>)> {
    let (at, text) = line.split_once(' ')?;
    Some((Millis(number(at)?), text.into()))
}

fn written<T: PartialEq>(value: T, words: &[(T, &'static str)]) -> &'static str {
    words.iter().find(|(known, _)| *known == value).map_or("", |(_, word)| word)
}

fn list<'a>(parts: impl Iterator<Item = &'a Arc<str>>) -> Option<Arc<str>> {
    let parts: Vec<&str> = parts.map(AsRef::as_ref).collect();
    (!parts.is_empty()).then(|| parts.join(",").into())
}

struct Reader<'a> {
    labels: &'a Labels,
}

impl Reader<'_> {
    fn parsed<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        parsed(self.labels, &format!("{INTERNAL_PREFIX}{name}"), expected, parse)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        self.parsed(name, "a number", number)
    }

    fn text(&self, name: &str) -> Result<Option<Arc<str>>, String> {
        self.parsed(name, "a text", |value| (!value.is_empty()).then(|| value.into()))
    }

    fn word<T: Copy>(&self, name: &str, words: &[(T, &'static str)]) -> Result<Option<T>, String> {
        let expected: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
        self.parsed(name, &expected.join(", "), |value| {
            words.iter().find(|(_, word)| *word == value).map(|(value, _)| *value)
        })
    }

    fn list(&self, name: &str) -> Result<BTreeSet<Arc<str>>, String> {
        let parts = |value: &str| {
            let parts: BTreeSet<Arc<str>> = value.split(',').map(Arc::from).collect();
            (parts.len() <= LIST_MOST && parts.iter().all(|part| !part.trim().is_empty())).then_some(parts)
        };
        Ok(self.parsed(name, "at most 64 ids, separated by commas", parts)?.unwrap_or_default())
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
