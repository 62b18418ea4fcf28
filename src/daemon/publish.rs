//! Publication: status snapshots, numbered events, and notices (each text once).

use super::event::Component;
use super::history::{History, Pace, SLOW};
use super::journal::unix_ms;
use api::{Command, Feed, HistoryRequest, RecordingRequest, Request};
use config::Settings;
use model::{Alert, ContainerId, Event, EventKind, JobEnd, JobStatus, Learning, NodeStatus, Notice, NoticeLevel};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{broadcast, mpsc, watch};

/// Events from which a client may resume.
const EVENTS_KEPT: usize = 1024;
/// Events that a slow client may be behind before it gets a gap.
const EVENTS_AHEAD: usize = 256;
const NOTICES_KEPT: usize = 32;

/// The sending side of the API's feed.
pub(super) struct Publisher {
    status: watch::Sender<Arc<NodeStatus>>,
    configuration: watch::Sender<Arc<str>>,
    recent: Arc<Mutex<VecDeque<Event>>>,
    events: broadcast::Sender<Event>,
    commands: mpsc::Sender<Request<Command>>,
    recordings: mpsc::Sender<RecordingRequest>,
    history_queries: mpsc::Sender<HistoryRequest>,
    history: History,
    /// Current problems of components of the daemon.
    problems: BTreeMap<Component, String>,
    /// Current problems of containers that their engine cannot describe.
    unreadable: BTreeMap<ContainerId, String>,
    sequence: u64,
    notices: VecDeque<Notice>,
}

impl Publisher {
    pub(crate) fn new(
        commands: mpsc::Sender<Request<Command>>,
        recordings: mpsc::Sender<RecordingRequest>,
        history_queries: mpsc::Sender<HistoryRequest>,
        history: History,
    ) -> Publisher {
        let (status, _) = watch::channel(Arc::new(NodeStatus { unix_ms: unix_ms(), ..NodeStatus::default() }));
        let (events, _) = broadcast::channel(EVENTS_AHEAD);
        Publisher {
            status,
            configuration: watch::channel(Arc::from("")).0,
            recent: Arc::default(),
            events,
            commands,
            recordings,
            history_queries,
            history,
            problems: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            sequence: 0,
            notices: VecDeque::new(),
        }
    }

    /// Returns the receiving side, for the API.
    pub(crate) fn feed(&self) -> Feed {
        Feed {
            status: self.status.subscribe(),
            configuration: self.configuration.subscribe(),
            recent: self.recent.clone(),
            events: self.events.clone(),
            commands: self.commands.clone(),
            recordings: self.recordings.clone(),
            history: self.history_queries.clone(),
        }
    }

    pub(crate) fn publish(&mut self, status: NodeStatus) {
        let status = Arc::new(status);
        self.status.send_replace(status.clone());
        match self.history.snapshot(&status) {
            None => {}
            Some(Pace::Behind) => self.warn(SLOW),
            Some(Pace::CaughtUp(left_out)) => {
                self.unwarn(SLOW);
                tracing::info!(left_out, "the history is written again; snapshots were left out");
            }
        }
    }

    /// Replaces the problem of a component; `None` clears it.
    pub(crate) fn health(&mut self, component: Component, problem: Option<String>) {
        if self.problems.get(&component) == problem.as_ref() {
            return;
        }
        let before = self.problems.remove(&component);
        self.replace_warning(before, problem.as_deref());
        self.problems.extend(problem.map(|text| (component, text)));
    }

    /// Replaces the problem of a container that its engine cannot describe; `None` clears it.
    pub(crate) fn readable(&mut self, id: &ContainerId, problem: Option<String>) {
        // Each list of the engine reports it again. There may be more problems than notices are kept, so `warn` would repeat some.
        if self.unreadable.get(id) == problem.as_ref() {
            return;
        }
        let before = self.unreadable.remove(id);
        self.replace_warning(before, problem.as_deref());
        self.unreadable.extend(problem.map(|text| (id.clone(), text)));
    }

    fn replace_warning(&mut self, before: Option<String>, problem: Option<&str>) {
        if let Some(text) = before {
            self.unwarn(&text);
        }
        if let Some(text) = problem {
            self.warn(text);
        }
    }

    /// Returns the status of a job in the last snapshot.
    pub(crate) fn last_status(&self, id: &ContainerId) -> Option<JobStatus> {
        self.status.borrow().jobs.iter().find(|job| job.observed.id == *id).cloned()
    }

    /// Reports to the history how a job ended; must precede the event.
    pub(crate) fn ended(&mut self, id: &ContainerId, end: &JobEnd) {
        self.history.ended(id, end);
    }

    /// Reports to the history what was read from the log after the container ended.
    pub(crate) fn read_to_end(&mut self, id: &ContainerId, learning: Learning) {
        self.history.read_to_end(id, learning);
    }

    /// Publishes the settings in force.
    pub(crate) fn reconfigured(&mut self, settings: &Settings) {
        self.configuration.send_replace(config::shown(settings).trim_start().into());
        self.history.reconfigure(settings);
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.notices.iter().cloned().collect()
    }

    /// Publishes an event, and logs it.
    pub(crate) fn emit(&mut self, kind: EventKind, about: Option<(&str, &str)>, text: String) {
        self.emit_with(kind, about, text, None);
    }

    /// Publishes an event that somebody may want a message about.
    pub(crate) fn alert(&mut self, kind: EventKind, (id, name): (&ContainerId, &str), text: String, alert: Alert) {
        self.emit_with(kind, Some((id.as_str(), name)), text, Some(Box::new(alert)));
    }

    fn emit_with(&mut self, kind: EventKind, about: Option<(&str, &str)>, text: String, alert: Option<Box<Alert>>) {
        let (id, name) = about.unzip();
        match kind {
            EventKind::Notice => tracing::warn!(container = id, name, "{text}"),
            _ => tracing::info!(event = ?kind, container = id, name, "{text}"),
        }
        self.sequence += 1;
        let event = Event {
            sequence: self.sequence,
            unix_ms: unix_ms(),
            kind,
            container: id.map(str::to_owned),
            name: name.map(str::to_owned),
            text,
            alert,
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == EVENTS_KEPT {
            recent.pop_front();
        }
        recent.push_back(event.clone());
        drop(recent);
        self.history.event(&event);
        let _ = self.events.send(event); // there may be no receiver
    }

    /// Adds a warning about the node, once per text.
    pub(crate) fn warn(&mut self, text: &str) {
        if self.notices.iter().any(|notice| notice.text == text) {
            return;
        }
        if self.notices.len() == NOTICES_KEPT {
            self.notices.pop_front();
        }
        self.notices.push_back(notice(NoticeLevel::Warning, text));
        self.emit(EventKind::Notice, None, text.to_owned());
    }

    /// Removes a warning whose cause is gone.
    pub(crate) fn unwarn(&mut self, text: &str) {
        self.notices.retain(|notice| notice.text != text);
    }
}

/// Creates a notice with the current time.
pub(super) fn notice(level: NoticeLevel, text: &str) -> Notice {
    Notice { level, unix_ms: unix_ms(), text: text.to_owned() }
}
