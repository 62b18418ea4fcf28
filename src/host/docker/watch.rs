//! Keeps the daemon's list of labelled and adopted containers true, whatever the engine does. Imports: model, tokio.
//!
//! Guarantees: subscribes before it lists, lists again every 30 s and upon every doubt, so a container is missed for 30 s at most;
//! never ends while somebody listens, never panics. An inspection costs the engine far more than a row of its list: without a
//! doubt, a container is inspected again only when its row or its first process is not what is known. Caveats: events can come
//! twice and late ([`watch`] drops the end of an earlier run of the same container); a list that was sent is older than the events
//! after it.

use super::EngineName;
use super::container::{EngineContainer, Listed};
use super::engine::{Engine, EngineInfo, percent_encoded};
use super::error::EngineError;
use super::events::{Happening, Lines, happening};
use crate::model::ContainerId;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

const RELIST_EVERY: Duration = Duration::from_secs(30);
/// A stream of doubts costs one list a second.
const DOUBT_DELAY: Duration = Duration::from_secs(1);
const BACK_OFF_FIRST: Duration = Duration::from_millis(250);
const BACK_OFF_MOST: Duration = Duration::from_secs(10);
/// A connection that held this long was a good one: the next wait is short again.
const GOOD_CONNECTION: Duration = Duration::from_secs(10);
const INSPECTS_AT_ONCE: usize = 4;

/// What the engine's watcher tells the daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineEvent {
    /// Connected, for the first time or again. A [`EngineEvent::Listed`] follows.
    Connected(EngineInfo),
    /// The connection was lost or could not be made; said once until the next `Connected`. Ends in the next step.
    Lost(String),
    /// All containers that are wanted and run or are paused. Who is not in it has ended.
    Listed(Vec<EngineContainer>),
    /// A container started (again): also with an id that is known.
    Started(EngineContainer),
    /// A container ended, with this exit code where the engine told it.
    Ended(ContainerId, Option<i32>),
    /// A container was paused (`true`) or resumed.
    Paused(ContainerId, bool),
    /// A container has a new name.
    Renamed(ContainerId, String),
    /// A container's limits were changed through the engine: by somebody, or the echo of our own update.
    Updated(ContainerId),
    /// An adopted container does not exist any more.
    Removed(ContainerId),
    /// A wanted container runs that cannot be described; said once. It is not governed.
    Unreadable(ContainerId, String),
}

/// Which containers are watched.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Those with this label, `key=value`.
    pub label: String,
    /// And these, as long as they are in this set.
    pub adopted: watch::Receiver<BTreeSet<ContainerId>>,
}

impl Wanted {
    /// Those with this label, and no others.
    pub fn labelled(label: &str) -> Wanted {
        Wanted { label: label.to_owned(), adopted: watch::channel(BTreeSet::new()).1 }
    }
}

/// Nobody listens any more.
struct NobodyListens;

/// Why a connection is over.
enum Over {
    NobodyListens,
    Lost(EngineError),
}

impl From<NobodyListens> for Over {
    fn from(_: NobodyListens) -> Self {
        Over::NobodyListens
    }
}

impl From<EngineError> for Over {
    fn from(error: EngineError) -> Self {
        Over::Lost(error)
    }
}

/// Watches the wanted containers for as long as `sender`'s receiver lives.
pub async fn watch(engine: Engine, wanted: Wanted, sender: mpsc::Sender<EngineEvent>) {
    let mut watcher = Watcher { engine, wanted, sender, known: BTreeMap::new(), unreadable: BTreeMap::new() };
    let mut loss_said = false;
    let mut back_off = BACK_OFF_FIRST;
    loop {
        let began = Instant::now();
        let mut connected = false;
        let error = match watcher.connection(&mut connected).await {
            Over::NobodyListens => return,
            Over::Lost(error) => error,
        };
        if connected || !loss_said {
            loss_said = true;
            if watcher.tell(EngineEvent::Lost(error.to_string())).await.is_err() {
                return;
            }
        }
        if began.elapsed() >= GOOD_CONNECTION && connected {
            back_off = BACK_OFF_FIRST;
        }
        tokio::select! {
            () = sleep(back_off) => {}
            () = watcher.sender.closed() => return,
        }
        back_off = (back_off * 2).min(BACK_OFF_MOST);
    }
}

struct Watcher {
    engine: Engine,
    wanted: Wanted,
    sender: mpsc::Sender<EngineEvent>,
    /// What was last told of each container, to stand in where one cannot be inspected for a moment.
    known: BTreeMap<ContainerId, Known>,
    /// What was complained about, so that it is said once.
    unreadable: BTreeMap<ContainerId, String>,
}

/// A container as it was last inspected.
struct Known {
    container: EngineContainer,
    /// `/proc/PID/stat` of its first process, which can be read as long as that lives, whoever has its number afterwards; `None` where it
    /// cannot be seen.
    process: Option<File>,
}

impl Known {
    fn new(container: EngineContainer) -> Known {
        Known { process: File::open(format!("/proc/{}/stat", container.pid)).ok(), container }
    }

    /// Whether it is the same run, in the state that is known.
    fn is_still(&self, listed: &Listed) -> bool {
        let lives = |process: &File| process.read_at(&mut [0], 0).is_ok_and(|read| read > 0);
        listed.agrees_with(&self.container) && self.process.as_ref().is_some_and(lives)
    }
}

impl Watcher {
    /// One connection, from subscribing to its loss.
    async fn connection(&mut self, connected: &mut bool) -> Over {
        match self.follow(connected).await {
            Ok(never) => match never {},
            Err(over) => over,
        }
    }

    async fn follow(&mut self, connected: &mut bool) -> Result<std::convert::Infallible, Over> {
        let info = self.engine.info().await?;
        let mut adoptions = self.wanted.adopted.clone();
        adoptions.mark_unchanged();
        let mut events = self.subscribe("label", &[&self.wanted.label]).await?;
        let mut of_adopted = self.subscribe_to_adopted().await?;
        let name = info.name;
        *connected = true;
        self.tell(EngineEvent::Connected(info)).await?;
        let mut next_list = Instant::now();
        let mut doubts_from = next_list;
        let mut trust = Trust::Doubt;
        loop {
            tokio::select! {
                biased;
                () = self.sender.closed() => return Err(Over::NobodyListens),
                () = changed(&mut adoptions) => {
                    of_adopted = self.subscribe_to_adopted().await?;
                    next_list = Instant::now();
                }
                () = sleep_until(next_list) => {
                    self.list(name, std::mem::replace(&mut trust, Trust::Whole)).await?;
                    next_list = Instant::now() + RELIST_EVERY;
                    doubts_from = Instant::now() + DOUBT_DELAY;
                }
                happenings = next_of_either(&mut events, &mut of_adopted) => {
                    for happening in happenings? {
                        if self.carry_on(happening, name).await? == Trust::Doubt {
                            trust = Trust::Doubt;
                            next_list = next_list.min(doubts_from);
                        }
                    }
                }
            }
        }
    }

    /// The adopted containers' own stream: an engine's filters can say "and", not "or".
    async fn subscribe_to_adopted(&self) -> Result<Option<EventStream>, EngineError> {
        let adopted = self.adopted();
        if adopted.is_empty() {
            return Ok(None);
        }
        self.subscribe("container", &adopted.iter().map(ContainerId::as_str).collect::<Vec<_>>()).await.map(Some)
    }

    fn adopted(&self) -> BTreeSet<ContainerId> {
        self.wanted.adopted.borrow().clone()
    }

    async fn subscribe(&self, filter: &str, values: &[&str]) -> Result<EventStream, EngineError> {
        let filters = serde_json::json!({"type": ["container"], filter: values});
        let path = format!("/events?filters={}", percent_encoded(&filters.to_string()));
        let response = self.engine.open(SUBSCRIBE, &path).await?;
        Ok(EventStream { engine: self.engine.clone(), body: response.into_body(), lines: Lines::default() })
    }

    async fn list(&mut self, name: EngineName, trust: Trust) -> Result<(), Over> {
        let mut listed = self.engine.list(&self.wanted.label).await?;
        listed.extend(self.list_adopted(&listed).await?);
        let (mut same, mut doubtful) = (Vec::new(), Vec::new());
        for row in listed {
            let is_same = trust == Trust::Whole && self.known.get(&row.id).is_some_and(|known| known.is_still(&row));
            if is_same { same.push(row.id) } else { doubtful.push(row.id) }
        }
        let engine = &self.engine;
        let inspected: Vec<(ContainerId, Result<EngineContainer, EngineError>)> = futures_util::stream::iter(doubtful)
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
                    self.complain(id, error).await?;
                }
            }
        }
        self.unreadable.retain(|id, _| failed.contains(id));
        self.known = containers;
        self.tell(EngineEvent::Listed(self.known.values().map(|known| known.container.clone()).collect())).await?;
        Ok(())
    }

    /// Those that live and are not listed already; of those that exist no more it is told.
    async fn list_adopted(&self, listed: &[Listed]) -> Result<Vec<Listed>, Over> {
        let adopted = self.adopted();
        if adopted.is_empty() {
            return Ok(Vec::new());
        }
        let mut existing = self.engine.existing(&adopted).await?;
        for id in adopted.iter().filter(|id| !existing.iter().any(|row| row.id == **id)) {
            self.tell(EngineEvent::Removed(id.clone())).await?;
        }
        existing
            .retain(|row| row.lives() && adopted.contains(&row.id) && !listed.iter().any(|other| other.id == row.id));
        Ok(existing)
    }

    async fn carry_on(&mut self, happening: Happening, name: EngineName) -> Result<Trust, Over> {
        match happening {
            Happening::Nothing => {}
            Happening::Doubt => return Ok(Trust::Doubt),
            Happening::Started(id) => return self.started(id, name).await,
            Happening::Ended(id, at_unix_ns, exit_code) => self.ended(id, at_unix_ns, exit_code).await?,
            Happening::Paused(id, paused) => {
                if let Some(known) = self.known.get_mut(&id) {
                    known.container.paused = paused;
                }
                self.tell(EngineEvent::Paused(id, paused)).await?;
            }
            Happening::Renamed(id, name) => {
                if let Some(known) = self.known.get_mut(&id) {
                    known.container.name.clone_from(&name);
                }
                self.tell(EngineEvent::Renamed(id, name)).await?;
            }
            Happening::Updated(id) => self.tell(EngineEvent::Updated(id)).await?,
            Happening::Removed(id) if self.adopted().contains(&id) => self.tell(EngineEvent::Removed(id)).await?,
            Happening::Removed(_) => {}
        }
        Ok(Trust::Whole)
    }

    async fn started(&mut self, id: ContainerId, name: EngineName) -> Result<Trust, Over> {
        match self.engine.inspect(&id, name).await {
            // The list came first.
            Ok(container) if self.known.get(&id).is_some_and(|known| known.container == container) => {}
            Ok(container) => {
                self.known.insert(id, Known::new(container.clone()));
                self.tell(EngineEvent::Started(container)).await?;
            }
            // It ended again at once; its end is the next event.
            Err(error) if error.is_gone() => {}
            Err(error) if error.is_engine_lost() => return Err(error.into()),
            Err(error) => {
                self.complain(id, error).await?;
                return Ok(Trust::Doubt);
            }
        }
        Ok(Trust::Whole)
    }

    /// An end that is older than the start that is known belongs to an earlier run.
    async fn ended(&mut self, id: ContainerId, at_unix_ns: u64, exit_code: Option<i32>) -> Result<(), NobodyListens> {
        let started_later = |known: &Known| at_unix_ns > 0 && known.container.started_unix_ms > at_unix_ns / 1_000_000;
        if self.known.get(&id).is_some_and(started_later) {
            return Ok(());
        }
        self.known.remove(&id);
        self.unreadable.remove(&id);
        self.tell(EngineEvent::Ended(id, exit_code)).await
    }

    async fn complain(&mut self, id: ContainerId, error: EngineError) -> Result<(), NobodyListens> {
        let text = error.to_string();
        if self.unreadable.insert(id.clone(), text.clone()).as_ref() == Some(&text) {
            return Ok(());
        }
        self.tell(EngineEvent::Unreadable(id, text)).await
    }

    async fn tell(&self, event: EngineEvent) -> Result<(), NobodyListens> {
        self.sender.send(event).await.map_err(|_| NobodyListens)
    }
}

/// Whether what is known still holds after an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    Whole,
    Doubt,
}

const SUBSCRIBE: &str = "subscribe to the engine's events";

/// Waits for another set of adopted containers; for ever where there can be none.
async fn changed(adoptions: &mut watch::Receiver<BTreeSet<ContainerId>>) {
    if adoptions.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The happenings in the next piece of either stream. Safe to drop while it waits.
async fn next_of_either(
    labelled: &mut EventStream,
    adopted: &mut Option<EventStream>,
) -> Result<Vec<Happening>, EngineError> {
    let Some(adopted) = adopted else { return labelled.next().await };
    tokio::select! {
        happenings = labelled.next() => happenings,
        happenings = adopted.next() => happenings,
    }
}

struct EventStream {
    engine: Engine,
    body: Incoming,
    lines: Lines,
}

impl EventStream {
    /// The happenings in the next piece of the stream; its end is an error. Safe to drop while it waits.
    async fn next(&mut self) -> Result<Vec<Happening>, EngineError> {
        let frame = match self.body.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(self.engine.unreachable(SUBSCRIBE, &error)),
            None => {
                let ended = std::io::Error::other("the engine ended the stream");
                return Err(self.engine.unreachable(SUBSCRIBE, &ended));
            }
        };
        let mut happenings = Vec::new();
        let Some(bytes) = frame.data_ref() else { return Ok(happenings) };
        self.lines.push(bytes, |line| happenings.push(happening(line))).map_err(|_| EngineError::InvalidResponse {
            operation: SUBSCRIBE.to_owned(),
            why: "an event of more than 1 MiB".to_owned(),
        })?;
        Ok(happenings)
    }
}
