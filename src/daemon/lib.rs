//! The node daemon: connects the pure modules to the host.
//!
//! ```text
//! engine, scopes, logs, commands, signals ──► Event ──► one loop (governing)
//!     observe ─► Governor::tick ─► diff ─► limits::Machine ─► Effect (effects) ─► actuator (a task: `operation` ─► `executor`) ─► Event
//!                                                    publish ─► API, metrics, systemd
//! ```
//!
//! The loop owns the governor, the jobs and the machine of limits, and never blocks: files are tailed on a thread, the actuator journals
//! and writes limits, and clients read published snapshots. The parts of the loop are files that import [`governing`] and not each
//! other.

mod actuator;
mod alert;
mod claim_schedule;
mod claims;
mod commands;
#[cfg(test)]
mod disasters;
mod draining;
mod effect;
mod effects;
mod ended;
#[cfg(test)]
mod ended_tests;
mod ending;
mod energy;
mod error;
mod event;
mod exact;
mod executor;
mod find;
mod governing;
mod gpu_duty_cycle;
mod gpu_duty_state;
mod gpu_means;
mod gpus;
mod group_stop;
mod health;
mod history;
mod holdback;
mod job;
mod journal;
mod learning_records;
#[cfg(test)]
mod learning_records_tests;
mod library;
mod lifecycle;
#[cfg(test)]
mod limits_tests;
mod logs;
mod notices;
#[cfg(test)]
mod notices_tests;
mod observe;
mod operation;
mod owner;
mod pin;
mod positions;
mod publish;
mod pulse;
mod record;
mod reported;
mod restore;
mod runtimes;
mod scopes;
mod snapshots;
mod stop;
mod subject;
mod supervise;
mod target;
#[cfg(test)]
mod testing;
mod thaw;
mod threads;
mod trial;
mod unknown_limits;
mod uses;
mod workloads;
mod writer;
#[cfg(test)]
mod writer_tests;

pub use error::DaemonError;
pub use governing::{Control, Reread};
pub use limits::machine::Restored;
pub use restore::{Undone, restore, thaw};

use actuator::{Actuator, Request};
use api::{Access, ApiLimits};
use claims::ClaimReader;
use config::{EngineChoice, Settings};
use cri::Cri;
use docker::{AddressError, Engine, EngineAddress};
use event::Event;
use governing::{EngineLink, Governing, Requests};
use gpus::Gpus;
use history::History;
use journal::Journal;
use logs::LogReader;
use node::users;
use publish::Publisher;
use scopes::Registry;
use std::path::Path;
use std::sync::Arc;
use supervise::Tasks;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle};

/// Events that may wait for the loop; beyond, their sources wait.
const EVENTS_AT_MOST: usize = 1024;
/// Commands that may wait; beyond, clients are asked to retry.
const COMMANDS_AT_MOST: usize = 32;
/// Every user may connect to register a command; the daemon then checks who the caller is.
const RUN_SOCKET_MODE: u32 = 0o666;
/// Registrations that may wait at the socket; beyond, their callers wait.
const CALLS_AT_MOST: usize = 16;

/// Runs the daemon until it is told to stop. Needs a multi-threaded tokio runtime, because the journal blocks on the disk.
pub async fn run(
    settings: Settings,
    reread: Reread,
    mut control: mpsc::Receiver<Control>,
    ready: Option<oneshot::Sender<()>>,
) -> Result<(), DaemonError> {
    node::raise_open_files();
    let admins: Vec<u32> = settings.admins.iter().filter_map(|user| known_user(user)).collect();
    let access = access(&settings, &admins);
    let (journal, remembered) = Journal::open(&settings.state_dir)?;
    let group = settings.group.as_deref().and_then(|name| users::gid_of(name).ok());
    let socket = api::bind(&settings.socket, group, access.socket_mode())?;

    let (events, mut inbox) = mpsc::channel(EVENTS_AT_MOST);
    let (commands, requests) = mpsc::channel(COMMANDS_AT_MOST);
    let (recordings, recorders) = mpsc::channel(COMMANDS_AT_MOST);
    let (history_queries, history_requests) = mpsc::channel(COMMANDS_AT_MOST);
    let engine = engine_of(&settings)?;
    let (watched, follows) = watch::channel(remembered.limits.adopted.keys().cloned().collect());
    let engine_link = EngineLink { engine: engine.clone(), events: events.clone(), watched };
    let mut tasks = Tasks::new();
    if let Some(engine) = &engine {
        let (found, mut watched_events) = mpsc::channel(64);
        let wanted = docker::Wanted { label: settings.label.clone(), adopted: follows };
        tasks.watch("the engine's watcher", tokio::spawn(docker::watch(engine.clone(), wanted, found)));
        let events = events.clone();
        let forwarding = tokio::spawn(async move {
            while let Some(event) = watched_events.recv().await {
                if events.send(Event::Engine(event)).await.is_err() {
                    return;
                }
            }
        });
        tasks.watch("the queue of engine events", forwarding);
    }
    if let EngineChoice::Pods(socket) = &settings.engine {
        watch_workloads(&settings, socket, &events, &tasks);
    }
    let (actuator, acting) = Actuator::start(journal, engine.clone(), events.clone());
    tasks.watch("the actuator", acting);
    if remembered.may_be_frozen {
        actuator.request(Request::Thaw); // frozen by an earlier daemon
    }
    let claims = ClaimReader::new(events.clone());
    let logs = LogReader::start(engine);
    let gpus = Gpus::start(settings.gpu_library.as_deref(), events.clone());
    let history = History::start(&settings, events.clone(), history_requests);
    let publisher = Publisher::new(commands, recordings, history_queries, history);
    let listener = listen(&settings, admins, &publisher, &events)?;
    let listener_closes: Vec<AbortHandle> = listener.iter().map(JoinHandle::abort_handle).collect();
    listener.into_iter().for_each(|task| tasks.watch("the registration of commands", task));
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async move {
        let _ = stopped.await; // told to stop, or the daemon is gone
    };
    let mut server = tokio::spawn(api::serve(socket, publisher.feed(), access, ApiLimits::default(), until));
    let mut governing =
        Governing::new(settings, reread, remembered, actuator, (logs, claims, gpus), engine_link, publisher);
    let mut client_requests = Requests { requests, recorders };
    let ended = tokio::select! {
        ended = governing.run(&mut inbox, &mut client_requests, &mut control, ready) => ended,
        died = tasks.first_to_end() => Err(died),
        ended = &mut server => {
            let why = ended.map_or_else(|error| error.to_string(), |()| "it has ended".to_owned());
            return Err(DaemonError::Died { task: "the API's server", why });
        }
    };
    drop(stop);
    listener_closes.iter().for_each(AbortHandle::abort);
    // A server that panicked has logged why; the daemon ends in any case.
    let _ = server.await;
    ended
}

/// A configured user that does not exist, or no longer, is not an admin; the daemon starts in any case.
fn known_user(user: &str) -> Option<u32> {
    users::uid_of(user).inspect_err(|unknown| tracing::warn!("api.admins: {unknown}; it is ignored")).ok()
}

fn access(settings: &Settings, admins: &[u32]) -> Access {
    let group = settings.group.as_deref().and_then(|name| users::gid_of(name).ok());
    Access::new(admins.iter().copied(), group)
}

/// Starts the tasks that accept and register commands of `flowctl run`, if that is configured.
fn listen(
    settings: &Settings,
    admins: Vec<u32>,
    publisher: &Publisher,
    events: &mpsc::Sender<Event>,
) -> Result<Vec<JoinHandle<()>>, DaemonError> {
    if !settings.scopes {
        return Ok(Vec::new());
    }
    let socket = api::bind(&scope::socket_of(&settings.socket), None, RUN_SOCKET_MODE)?;
    let registry = Registry::new(settings, admins, publisher.feed().status, events.clone());
    let (calls, listener) = mpsc::channel(CALLS_AT_MOST);
    let per_user = settings.scopes_per_user;
    let listening =
        tokio::spawn(async move { scope::serve(socket.listener(), users::account_of, per_user, calls).await });
    Ok(vec![listening, tokio::spawn(registry.run(listener))])
}

/// Starts the tasks that find pods and containers of a container runtime.
fn watch_workloads(settings: &Settings, socket: &Path, events: &mpsc::Sender<Event>, tasks: &Tasks) {
    let (found, mut watched) = mpsc::channel(64);
    tasks.watch(
        "the watcher of pods and containers",
        tokio::spawn(cri::watch(Cri::new(socket), settings.label.clone(), found)),
    );
    let (events, socket) = (events.clone(), Arc::<Path>::from(socket));
    let forwarding = tokio::spawn(async move {
        while let Some(event) = watched.recv().await {
            if events.send(Event::Workloads(event, socket.clone())).await.is_err() {
                return;
            }
        }
    });
    tasks.watch("the queue of pods and containers", forwarding);
}

fn engine_of(settings: &Settings) -> Result<Option<Engine>, AddressError> {
    let address = match &settings.engine {
        EngineChoice::Off | EngineChoice::Pods(_) => return Ok(None),
        EngineChoice::Auto => EngineAddress::from_config(None)?,
        EngineChoice::At(address) => EngineAddress::from_config(Some(address))?,
    };
    Ok(Some(Engine::new(address)))
}
