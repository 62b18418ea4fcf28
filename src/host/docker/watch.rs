//! Keeps the daemon's list of labelled and adopted containers correct. Imports: model, tokio.
//!
//! Guarantees: it subscribes before it lists, and lists again every 30 s and after every unknown event, so a container is missed for at
//! most 30 s. It runs until the receiver is dropped, and never panics. Because an inspection costs the engine far more than an entry of its
//! list, a known container is inspected again only after an unknown event, or if its entry or its first process differs. A connection keeps
//! to the engine that it began with, and only the engine in which an adopted container was seen reports that it was removed. Caveats:
//! events can be repeated and late ([`watch`] drops the end of an earlier run of the same container); a list is older than the events
//! that follow it.

use super::container::{EngineContainer, Listed};
use super::engine::{Engine, EngineInfo};
use super::error::EngineError;
use super::event_stream::{EventStream, next_of_either};
use super::events::Change;
use super::seen_on::SeenOn;
use super::{CALL_TIMEOUT_MOST, EngineName};
use crate::model::{ContainerId, EngineMark};
use futures_util::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

const RELIST_EVERY: Duration = Duration::from_secs(30);
/// Minimum time between two lists that are caused by unknown events.
const UNCERTAIN_RELIST_AFTER: Duration = Duration::from_secs(1);
const BACK_OFF_FIRST: Duration = Duration::from_millis(250);
const BACK_OFF_MOST: Duration = Duration::from_secs(10);
/// A connection that lasted this long resets the back-off.
const GOOD_CONNECTION: Duration = Duration::from_secs(10);
const INSPECTS_AT_ONCE: usize = 4;

/// Events from the engine's watcher to the daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineEvent {
    /// Connected or reconnected. A [`EngineEvent::Listed`] follows.
    Connected(EngineInfo),
    /// The connection was lost or could not be established; sent once until the next `Connected`. The message includes the next step.
    Lost(String),
    /// All wanted containers that are running or paused. A container that is missing has ended.
    Listed(Vec<EngineContainer>),
    /// A container started, possibly again with a known id.
    Started(EngineContainer),
    /// A container ended, with this exit code if the engine reported it.
    Ended(ContainerId, Option<i32>),
    /// A container was paused (`true`) or resumed.
    Paused(ContainerId, bool),
    /// A container was renamed.
    Renamed(ContainerId, String),
    /// A container's limits were changed through the engine, by someone else or by our own update.
    Updated(ContainerId),
    /// The engine sent a signal to a container, as it does before it stops one. Podman may report only the end.
    Signalled(ContainerId),
    /// An adopted container does not exist any more.
    Removed(ContainerId),
    /// A wanted container is running but cannot be inspected; sent once per error. A list still has it as it was last inspected.
    Unreadable(ContainerId, String),
    /// A container that could not be inspected can be inspected again, or has ended.
    Readable(ContainerId),
}

/// Selects the containers to watch.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Containers with this label, `key=value`.
    pub label: String,
    /// Additional containers, as long as they are in this set.
    pub adopted: watch::Receiver<BTreeSet<ContainerId>>,
}

impl Wanted {
    /// Selects containers with this label only.
    pub fn labelled(label: &str) -> Wanted {
        Wanted { label: label.to_owned(), adopted: watch::channel(BTreeSet::new()).1 }
    }
}

/// The receiver was dropped.
struct ReceiverDropped;

/// Why a connection ended.
enum ConnectionEnd {
    ReceiverDropped,
    Lost(EngineError),
}

impl From<ReceiverDropped> for ConnectionEnd {
    fn from(_: ReceiverDropped) -> Self {
        ConnectionEnd::ReceiverDropped
    }
}

impl From<EngineError> for ConnectionEnd {
    fn from(error: EngineError) -> Self {
        ConnectionEnd::Lost(error)
    }
}

/// Watches the wanted containers until the receiver of `sender` is dropped.
///
/// After a call that took too long, the time limit is doubled for the next connection: Podman's service ends five seconds after its last
/// request, so an engine that is slower than the limit would do the same work for each connection, in vain.
pub async fn watch(engine: Engine, wanted: Wanted, sender: mpsc::Sender<EngineEvent>) {
    let (current, seen) = (engine.resolved(), SeenOn::default());
    let (known, unreadable) = (BTreeMap::new(), BTreeMap::new());
    let mut watcher = Watcher { engine, current, wanted, sender, known, unreadable, seen };
    let (mut loss_reported, mut back_off) = (false, BACK_OFF_FIRST);
    let first_limit = watcher.engine.time_limit;
    loop {
        let began = Instant::now();
        let mut connected = false;
        let error = match watcher.connection(&mut connected).await {
            ConnectionEnd::ReceiverDropped => return,
            ConnectionEnd::Lost(error) => error,
        };
        if connected || !loss_reported {
            loss_reported = true;
            if watcher.send(EngineEvent::Lost(error.to_string())).await.is_err() {
                return;
            }
        }
        if began.elapsed() >= GOOD_CONNECTION && connected {
            (back_off, watcher.engine.time_limit) = (BACK_OFF_FIRST, first_limit);
        }
        if let EngineError::Timeout { limit, .. } = error {
            watcher.engine.time_limit = (limit * 2).min(CALL_TIMEOUT_MOST);
        }
        tokio::select! {
            () = sleep(back_off) => {}
            () = watcher.sender.closed() => return,
        }
        back_off = (back_off * 2).min(BACK_OFF_MOST);
    }
}

struct Watcher {
    /// The client whose clones others have.
    engine: Engine,
    /// The engine of the current connection.
    current: Engine,
    wanted: Wanted,
    sender: mpsc::Sender<EngineEvent>,
    /// The last known state of each container, used while a container cannot be inspected.
    known: BTreeMap<ContainerId, Known>,
    /// Errors that were reported, so that each is reported once.
    unreadable: BTreeMap<ContainerId, String>,
    seen: SeenOn,
}

/// A container as last inspected.
struct Known {
    container: EngineContainer,
    /// `/proc/PID/stat` of its first process, which stays readable as long as the process exists, even if its id is reused; `None` if the
    /// process is not visible.
    process: Option<File>,
}

impl Known {
    fn new(container: EngineContainer) -> Known {
        Known { process: File::open(format!("/proc/{}/stat", container.pid)).ok(), container }
    }

    /// Whether it is the same run in the known state.
    fn is_still(&self, listed: &Listed) -> bool {
        let lives = |process: &File| process.read_at(&mut [0], 0).is_ok_and(|read| read > 0);
        listed.agrees_with(&self.container) && self.process.as_ref().is_some_and(lives)
    }
}

impl Watcher {
    /// Runs one connection, from subscribing to its loss.
    async fn connection(&mut self, connected: &mut bool) -> ConnectionEnd {
        match self.follow(connected).await {
            Ok(never) => match never {},
            Err(over) => over,
        }
    }

    async fn follow(&mut self, connected: &mut bool) -> Result<std::convert::Infallible, ConnectionEnd> {
        self.current = self.engine.resolved();
        let info = self.current.info().await?;
        let mut adoptions = self.wanted.adopted.clone();
        adoptions.mark_unchanged();
        let mut events = EventStream::subscribe(&self.current, "label", &[&self.wanted.label]).await?;
        let mut of_adopted = self.subscribe_to_adopted().await?;
        let (name, mark) = (info.name, info.mark.clone());
        *connected = true;
        self.engine.pin(&self.current);
        self.seen.connected(&mark);
        self.send(EngineEvent::Connected(info)).await?;
        let mut next_list = Instant::now();
        let mut earliest_relist = next_list;
        let mut certainty = Certainty::Uncertain;
        loop {
            tokio::select! {
                biased;
                () = self.sender.closed() => return Err(ConnectionEnd::ReceiverDropped),
                () = changed(&mut adoptions) => {
                    of_adopted = self.subscribe_to_adopted().await?;
                    next_list = Instant::now();
                }
                () = sleep_until(next_list) => {
                    self.list(name, &mark, std::mem::replace(&mut certainty, Certainty::Certain)).await?;
                    next_list = Instant::now() + RELIST_EVERY;
                    earliest_relist = Instant::now() + UNCERTAIN_RELIST_AFTER;
                }
                changes = next_of_either(&mut events, &mut of_adopted) => {
                    for change in changes? {
                        if self.handle(change, name).await? == Certainty::Uncertain {
                            certainty = Certainty::Uncertain;
                            next_list = next_list.min(earliest_relist);
                        }
                    }
                }
            }
        }
    }

    /// Subscribes to events of the adopted containers separately: an engine combines filters with "and", not "or".
    async fn subscribe_to_adopted(&self) -> Result<Option<EventStream>, EngineError> {
        let adopted = self.adopted();
        if adopted.is_empty() {
            return Ok(None);
        }
        let ids: Vec<&str> = adopted.iter().map(ContainerId::as_str).collect();
        EventStream::subscribe(&self.current, "container", &ids).await.map(Some)
    }

    fn adopted(&self) -> BTreeSet<ContainerId> {
        self.wanted.adopted.borrow().clone()
    }

    async fn list(&mut self, name: EngineName, mark: &EngineMark, certainty: Certainty) -> Result<(), ConnectionEnd> {
        let mut listed = self.current.list(&self.wanted.label).await?;
        listed.extend(self.list_adopted(&listed, mark).await?);
        let (mut same, mut to_inspect) = (Vec::new(), Vec::new());
        for row in listed {
            let is_same =
                certainty == Certainty::Certain && self.known.get(&row.id).is_some_and(|known| known.is_still(&row));
            if is_same { same.push(row.id) } else { to_inspect.push(row.id) }
        }
        let engine = &self.current;
        let inspected: Vec<(ContainerId, Result<EngineContainer, EngineError>)> =
            futures_util::stream::iter(to_inspect)
                .map(|id| async move { (id.clone(), engine.inspect(&id, name).await) })
                .buffered(INSPECTS_AT_ONCE)
                .collect()
                .await;
        let mut containers: BTreeMap<ContainerId, Known> =
            same.into_iter().filter_map(|id| self.known.remove_entry(&id)).collect();
        let mut failed = BTreeSet::new();
        for (id, result) in inspected {
            match result {
                Ok(container) => {
                    containers.insert(id, Known::new(container));
                }
                Err(error) if error.is_gone() => {}
                Err(error) if error.is_engine_lost() => return Err(error.into()),
                Err(error) => {
                    if let Some(before) = self.known.remove(&id) {
                        containers.insert(id.clone(), before);
                    }
                    failed.insert(id.clone());
                    self.report_unreadable(id, error).await?;
                }
            }
        }
        let readable: Vec<ContainerId> = self.unreadable.keys().filter(|id| !failed.contains(*id)).cloned().collect();
        for id in readable {
            self.report_readable(id).await?;
        }
        self.report_exit_codes(|id| !containers.contains_key(id)).await?;
        self.known = containers;
        self.send(EngineEvent::Listed(self.known.values().map(|known| known.container.clone()).collect())).await?;
        Ok(())
    }

    /// Reports the ends of known containers that are `gone` from the list, with the exit codes. Their events may have been sent while there
    /// was no connection.
    async fn report_exit_codes(&self, gone: impl Fn(&ContainerId) -> bool) -> Result<(), ConnectionEnd> {
        for id in self.known.keys().filter(|id| gone(id)) {
            match self.current.exit_code(id).await {
                Ok(Some(exit_code)) => self.send(EngineEvent::Ended(id.clone(), Some(exit_code))).await?,
                Err(error) if error.is_engine_lost() => return Err(error.into()),
                Ok(None) | Err(_) => {} // it has started again or was removed
            }
        }
        Ok(())
    }

    /// Lists adopted containers that are alive and not listed yet, and reports those of this engine that do not exist any more.
    async fn list_adopted(&mut self, listed: &[Listed], mark: &EngineMark) -> Result<Vec<Listed>, ConnectionEnd> {
        let adopted = self.adopted();
        if adopted.is_empty() {
            return Ok(Vec::new());
        }
        let mut existing = self.current.existing(&adopted).await?;
        let exist = existing.iter().map(|row| row.id.clone()).collect();
        for id in self.seen.removed(&adopted, &exist, mark) {
            self.send(EngineEvent::Removed(id)).await?;
        }
        existing
            .retain(|row| row.lives() && adopted.contains(&row.id) && !listed.iter().any(|other| other.id == row.id));
        Ok(existing)
    }

    async fn handle(&mut self, change: Change, name: EngineName) -> Result<Certainty, ConnectionEnd> {
        match change {
            Change::Irrelevant => {}
            Change::Unknown => return Ok(Certainty::Uncertain),
            Change::Started(id) => return self.started(id, name).await,
            Change::Ended(id, at_unix_ns, exit_code) => self.ended(id, at_unix_ns, exit_code).await?,
            Change::Paused(id, paused) => {
                if let Some(known) = self.known.get_mut(&id) {
                    known.container.paused = paused;
                }
                self.send(EngineEvent::Paused(id, paused)).await?;
            }
            Change::Renamed(id, name) => {
                if let Some(known) = self.known.get_mut(&id) {
                    known.container.name.clone_from(&name);
                }
                self.send(EngineEvent::Renamed(id, name)).await?;
            }
            Change::Updated(id) => self.send(EngineEvent::Updated(id)).await?,
            Change::Signalled(id) if self.known.contains_key(&id) => self.send(EngineEvent::Signalled(id)).await?,
            Change::Signalled(_) => {}
            Change::Removed(id) if self.adopted().contains(&id) => self.send(EngineEvent::Removed(id)).await?,
            Change::Removed(_) => {}
        }
        Ok(Certainty::Certain)
    }

    async fn started(&mut self, id: ContainerId, name: EngineName) -> Result<Certainty, ConnectionEnd> {
        match self.current.inspect(&id, name).await {
            // It was already listed.
            Ok(container) if self.known.get(&id).is_some_and(|known| known.container == container) => {}
            Ok(container) => {
                self.report_readable(id.clone()).await?;
                self.known.insert(id, Known::new(container.clone()));
                self.send(EngineEvent::Started(container)).await?;
            }
            // It has ended already; its end is the next event.
            Err(error) if error.is_gone() => {}
            Err(error) if error.is_engine_lost() => return Err(error.into()),
            Err(error) => {
                self.report_unreadable(id, error).await?;
                return Ok(Certainty::Uncertain);
            }
        }
        Ok(Certainty::Certain)
    }

    /// An end before the known start belongs to an earlier run.
    async fn ended(&mut self, id: ContainerId, at_unix_ns: u64, exit_code: Option<i32>) -> Result<(), ReceiverDropped> {
        let started_later = |known: &Known| at_unix_ns > 0 && known.container.started_unix_ms > at_unix_ns / 1_000_000;
        if self.known.get(&id).is_some_and(started_later) {
            return Ok(());
        }
        self.known.remove(&id);
        self.report_readable(id.clone()).await?;
        self.send(EngineEvent::Ended(id, exit_code)).await
    }

    async fn report_unreadable(&mut self, id: ContainerId, error: EngineError) -> Result<(), ReceiverDropped> {
        let text = error.to_string();
        if self.unreadable.insert(id.clone(), text.clone()).as_ref() == Some(&text) {
            return Ok(());
        }
        self.send(EngineEvent::Unreadable(id, text)).await
    }

    /// Reports that the last error of an inspection does not hold any more, if there was one.
    async fn report_readable(&mut self, id: ContainerId) -> Result<(), ReceiverDropped> {
        match self.unreadable.remove(&id) {
            Some(_) => self.send(EngineEvent::Readable(id)).await,
            None => Ok(()),
        }
    }

    async fn send(&self, event: EngineEvent) -> Result<(), ReceiverDropped> {
        self.sender.send(event).await.map_err(|_| ReceiverDropped)
    }
}

/// Whether the known state is still valid after an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    Certain,
    Uncertain,
}

/// Waits for a change of the set of adopted containers; for ever if there can be none.
async fn changed(adoptions: &mut watch::Receiver<BTreeSet<ContainerId>>) {
    if adoptions.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
