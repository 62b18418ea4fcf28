//! Keeps the daemon's list of labelled and adopted containers correct.
//!
//! Guarantees: it subscribes before it lists, and lists again every 30 s and after every unknown event, so a container is missed for at
//! most 30 s. It runs until the receiver is dropped, and never panics. Because an inspection costs the engine far more than an entry of its
//! list, a known container is inspected again only after an unknown event, or if its entry or its first process differs. A connection keeps
//! to the engine that it began with, and only the engine in which an adopted container was seen reports that it was removed. A container
//! that hangs holds up the others only until it is known to hang. Caveats: events can be repeated and late ([`watch`] drops the end of an
//! earlier run of the same container); a list is older than the events that follow it.

mod change;
mod event;
mod event_stream;
mod hung;
mod known;
mod misled;
mod seen_on;
#[cfg(test)]
mod tests;

pub use event::{EndSign, EngineEvent};

use super::container::{EngineContainer, Listed};
use super::engine::Engine;
use super::error::EngineError;
use super::{CALL_TIMEOUT_MOST, EngineName, INSPECTS_AT_ONCE};
use change::Change;
use event_stream::{EventStream, next_of_either};
use futures_util::StreamExt;
use hung::{Hung, Inspected};
use known::Known;
use model::{ContainerId, EngineMark};
use seen_on::SeenOn;
use std::collections::{BTreeMap, BTreeSet};
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
    let (known, unreadable, hung, misled) = (BTreeMap::new(), BTreeMap::new(), Hung::new(), BTreeSet::new());
    let mut watcher = Watcher { engine, current, wanted, sender, known, unreadable, misled, hung, seen };
    let (mut loss_reported, mut back_off) = (false, BACK_OFF_FIRST);
    let first_limit = watcher.engine.time_limit;
    loop {
        let began = Instant::now();
        let mut connected = false;
        let error = match watcher.connection(&mut connected).await {
            ConnectionEnd::ReceiverDropped => return,
            ConnectionEnd::Lost(error) => error,
        };
        watcher.hung.disconnected();
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
    misled: BTreeSet<ContainerId>,
    hung: Hung,
    seen: SeenOn,
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
                answered = self.hung.next() => {
                    if let (id, Ok(container)) = answered {
                        self.inspected(id, container).await?;
                    }
                    next_list = next_list.min(earliest_relist);
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
        let mut unread = self.hung.asked().clone();
        let (mut present, mut to_inspect) = (unread.clone(), Vec::new());
        for row in listed {
            let is_same = || self.known.get(&row.id).is_some_and(|known| known.is_still(&row));
            if !unread.contains(&row.id) && (certainty == Certainty::Uncertain || !is_same()) {
                to_inspect.push(row.id.clone());
            }
            present.insert(row.id);
        }
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        for (id, answer) in self.inspect(to_inspect, name).await? {
            match answer {
                Ok(container) => found.push((id, container)),
                Err(error) if error.is_gone() => {
                    present.remove(&id);
                }
                Err(error) => failed.push((id, error)),
            }
        }
        failed.extend(self.report_exit_codes(&present).await?);
        present.extend(failed.iter().map(|(id, _)| id.clone()));
        self.known.retain(|id, _| present.contains(id));
        self.known.extend(found.into_iter().map(|(id, container)| (id, Known::new(container))));
        for (id, error) in failed {
            unread.insert(id.clone());
            self.report_unreadable(id, error, name).await?;
        }
        let readable: Vec<ContainerId> = self.unreadable.keys().filter(|id| !unread.contains(*id)).cloned().collect();
        for id in readable {
            self.report_readable(id).await?;
        }
        self.hung.retain(&present);
        self.send(EngineEvent::Listed(self.known.values().map(|known| known.container.clone()).collect())).await?;
        Ok(self.report_mislabelled().await?)
    }

    /// Inspects containers. All answers are judged before one of them ends the connection.
    async fn inspect(&mut self, ids: Vec<ContainerId>, name: EngineName) -> Result<Vec<Inspected>, EngineError> {
        let engine = &self.current;
        let answers: Vec<Inspected> = futures_util::stream::iter(ids)
            .map(|id| async move { (id.clone(), engine.inspect(&id, name).await) })
            .buffered(INSPECTS_AT_ONCE)
            .collect()
            .await;
        let judged: Vec<Result<Inspected, EngineError>> =
            answers.into_iter().map(|(id, answer)| Ok((id.clone(), self.hung.judge(&id, answer)?))).collect();
        judged.into_iter().collect()
    }

    /// Reports the ends of known containers that are not `present` any more, with the exit codes. Their events may have been sent while
    /// there was no connection. Returns those about which the engine did not answer, with the errors.
    async fn report_exit_codes(
        &mut self,
        present: &BTreeSet<ContainerId>,
    ) -> Result<Vec<(ContainerId, EngineError)>, ConnectionEnd> {
        let gone: Vec<ContainerId> = self.known.keys().filter(|id| !present.contains(*id)).cloned().collect();
        let mut unanswered = Vec::new();
        for id in gone {
            let end = self.current.end(&id).await;
            match self.hung.judge(&id, end)? {
                Ok(Some(end)) => self.send(EngineEvent::Ended(id, Some(end.exit_code))).await?,
                Err(error @ EngineError::Timeout { .. }) => unanswered.push((id, error)),
                Ok(None) | Err(_) => {} // it has started again or was removed
            }
        }
        Ok(unanswered)
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
            Change::Sign(id, sign) => self.send(EngineEvent::Sign(id, sign)).await?,
            Change::Removed(id) if self.adopted().contains(&id) => self.send(EngineEvent::Removed(id)).await?,
            Change::Removed(_) => {}
        }
        Ok(Certainty::Certain)
    }

    async fn started(&mut self, id: ContainerId, name: EngineName) -> Result<Certainty, ConnectionEnd> {
        let answer = self.current.inspect(&id, name).await;
        match self.hung.judge(&id, answer)? {
            Ok(container) => self.inspected(id, container).await?,
            // It has ended already; its end is the next event.
            Err(error) if error.is_gone() => {}
            Err(error) => {
                self.report_unreadable(id, error, name).await?;
                return Ok(Certainty::Uncertain);
            }
        }
        Ok(Certainty::Certain)
    }

    /// Reports a container that is running, unless it was already listed as it is.
    async fn inspected(&mut self, id: ContainerId, container: EngineContainer) -> Result<(), ReceiverDropped> {
        if self.known.get(&id).is_some_and(|known| known.container == container) {
            return Ok(());
        }
        self.report_readable(id.clone()).await?;
        self.known.insert(id, Known::new(container.clone()));
        self.send(EngineEvent::Started(container)).await
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

    /// Reports why a container cannot be inspected. One that hangs is inspected until the engine answers.
    async fn report_unreadable(
        &mut self,
        id: ContainerId,
        error: EngineError,
        name: EngineName,
    ) -> Result<(), ReceiverDropped> {
        if matches!(error, EngineError::Timeout { .. }) {
            self.hung.ask(&self.current, &id, name);
        }
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
