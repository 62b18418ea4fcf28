//! The node daemon: wires the pure rooms to the host.
//!
//! ```text
//! engine, scopes, logs, commands, signals ──► Event ──► one loop (governing)
//!     observe ─► Governor::tick ─► diff ─► limits::Machine ─► Effect (effects) ─► actuator (a task: `piece` ─► `hands`) ─► Event
//!                                                    publish ─► API, metrics, systemd
//! ```
//!
//! The loop owns the governor, the jobs and the machine of limits, and never blocks: files are tailed on a thread, limits are journalled
//! and written by the actuator, clients read published snapshots. Its parts are files that import [`governing`] and not each other. Imports: every room but `sim`, `cli` and `workload`.

mod actuator;
mod asking;
mod carried;
#[cfg(test)]
mod carried_tests;
mod claims;
mod commands;
mod departed;
#[cfg(test)]
mod disasters;
mod duty;
mod effects;
mod error;
mod event;
mod governing;
mod gpus;
mod hands;
mod history;
mod holdback;
mod job;
mod journal;
mod library;
mod lifecycle;
#[cfg(test)]
mod limits_tests;
mod logs;
mod observe;
mod piece;
mod pin;
mod positions;
mod publish;
mod pulse;
mod record;
mod restore;
mod runtimes;
mod scopes;
mod share_gpus;
mod snapshots;
mod stop;
mod supervise;
mod target;
#[cfg(test)]
mod testing;
mod thaw;
mod writer;

pub use crate::limits::machine::Restored;
pub use error::DaemonError;
pub use governing::{Control, Reread};
pub use restore::{restore, thaw};

use crate::api::{self, Access, ApiLimits};
use crate::config::{EngineChoice, Settings};
use crate::host::docker::{AddressError, Engine, EngineAddress};
use crate::host::scope;
use crate::host::{docker, node, users};
use actuator::{Actuator, Order};
use claims::ClaimReader;
use event::Event;
use governing::{Asked, Asks, Governing};
use gpus::Gpus;
use history::History;
use journal::Journal;
use logs::LogReader;
use publish::Publisher;
use scopes::Keeper;
use supervise::Tasks;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle};

/// How many events may wait for the loop; beyond, their sources wait.
const EVENTS_AT_MOST: usize = 1024;
/// How many commands may wait; beyond, a client is told to come again.
const COMMANDS_AT_MOST: usize = 32;
const SOCKET_MODE: u32 = 0o660;
/// Everybody may ask for a command to be governed: who asks is judged, not who can connect.
const RUN_SOCKET_MODE: u32 = 0o666;
/// Questions that wait at the socket for commands; beyond, their callers wait.
const CALLS_AT_MOST: usize = 16;

/// Governs until told to stop. Needs a multi-threaded tokio runtime, because the journal blocks on the disk.
pub async fn run(
    settings: Settings,
    reread: Reread,
    mut control: mpsc::Receiver<Control>,
    ready: Option<oneshot::Sender<()>>,
) -> Result<(), DaemonError> {
    node::raise_open_files();
    let admins = settings.admins.iter().map(|user| users::uid_of(user)).collect::<Result<Vec<u32>, _>>()?;
    let access = access(&settings, &admins);
    let (journal, remembered) = Journal::open(&settings.state_dir)?;
    let group = settings.group.as_deref().and_then(|name| users::gid_of(name).ok());
    let socket = api::bind(&settings.socket, group, SOCKET_MODE)?;

    let (events, mut inbox) = mpsc::channel(EVENTS_AT_MOST);
    let (commands, requests) = mpsc::channel(COMMANDS_AT_MOST);
    let (recordings, recorders) = mpsc::channel(COMMANDS_AT_MOST);
    let (questions, asked_of_history) = mpsc::channel(COMMANDS_AT_MOST);
    let engine = engine_of(&settings)?;
    let (watched, follows) = watch::channel(remembered.limits.adopted.keys().cloned().collect());
    let asks = Asks { engine: engine.clone(), events: events.clone(), watched };
    let mut tasks = Tasks::new();
    if let Some(engine) = &engine {
        let (found, mut told) = mpsc::channel(64);
        let wanted = docker::Wanted { label: settings.label.clone(), adopted: follows };
        tasks.watch("the engine's watcher", tokio::spawn(docker::watch(engine.clone(), wanted, found)));
        let events = events.clone();
        let telling = tokio::spawn(async move {
            while let Some(event) = told.recv().await {
                if events.send(Event::Engine(event)).await.is_err() {
                    return;
                }
            }
        });
        tasks.watch("the engine's watcher", telling);
    }
    let (actuator, acting) = Actuator::start(journal, engine.clone(), events.clone());
    tasks.watch("the actuator", acting);
    if remembered.may_be_frozen {
        actuator.order(Order::Thaw); // an earlier daemon's
    }
    let claims = ClaimReader::new(events.clone());
    let logs = LogReader::start(engine);
    let gpus = Gpus::start(settings.gpu_library.as_deref(), events.clone());
    let history = History::start(&settings, events.clone(), asked_of_history);
    let publisher = Publisher::new(commands, recordings, questions, history);
    let listener = listen(&settings, admins, &publisher, &events)?;
    let listener_closes: Vec<AbortHandle> = listener.iter().map(JoinHandle::abort_handle).collect();
    listener.into_iter().for_each(|task| tasks.watch("the registration of commands", task));
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async move {
        let _ = stopped.await; // told, or the daemon is gone
    };
    let mut server = tokio::spawn(api::serve(socket, publisher.feed(), access, ApiLimits::default(), until));
    let mut governing = Governing::new(settings, reread, remembered, actuator, (logs, claims, gpus), asks, publisher);
    let mut asked = Asked { requests, recorders };
    let ended = tokio::select! {
        ended = governing.run(&mut inbox, &mut asked, &mut control, ready) => ended,
        died = tasks.first_to_end() => Err(died),
        ended = &mut server => {
            let why = ended.map_or_else(|error| error.to_string(), |()| "it has ended".to_owned());
            return Err(DaemonError::Died { task: "the API's server", why });
        }
    };
    drop(stop);
    listener_closes.iter().for_each(AbortHandle::abort);
    // A server that panicked has told why; there is nothing left to do but end.
    let _ = server.await;
    ended
}

fn access(settings: &Settings, admins: &[u32]) -> Access {
    let group = settings.group.as_deref().and_then(|name| users::gid_of(name).ok());
    Access::new(admins.iter().copied(), group)
}

/// Takes commands of `flowctl run`, if they are governed here: the task that listens and the one that decides.
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
    let keeper = Keeper::new(settings, admins, publisher.feed().status, events.clone());
    let (calls, listener) = mpsc::channel(CALLS_AT_MOST);
    let per_user = settings.scopes_per_user;
    let listening =
        tokio::spawn(async move { scope::serve(socket.listener(), users::account_of, per_user, calls).await });
    Ok(vec![listening, tokio::spawn(keeper.run(listener))])
}

fn engine_of(settings: &Settings) -> Result<Option<Engine>, AddressError> {
    let address = match &settings.engine {
        EngineChoice::Off => return Ok(None),
        EngineChoice::Auto => EngineAddress::from_config(None)?,
        EngineChoice::At(address) => EngineAddress::from_config(Some(address))?,
    };
    Ok(Some(Engine::new(address)))
}
