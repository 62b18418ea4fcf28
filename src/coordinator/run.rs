//! `flowcoord run`: tells the machine what happens, and carries out what it asks for.
//!
//! One task loops; each request to the engine or an agent is a task of its own with a deadline, and ends in one event. Imports: api, host,
//! machine.

use super::hook;
use super::machine::{Asker, At, Effect, Event, Machine};
use super::outside::Outside;
use super::publish::Publisher;
use super::settings::{Settings, SettingsError};
use crate::api::cluster::{ClusterRequest, Wanted};
use crate::api::{self, Access, ApiLimits, BindError};
use crate::host::users;
use crate::model::cluster::Submission;
use crate::model::swarm::{Attestation, CarriageOutcome, ChangeOutcome};
use crate::model::{Millis, Refusal};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Commands that may wait; beyond, a client is told to come again.
const COMMANDS_AT_MOST: usize = 32;
const SOCKET_MODE: u32 = 0o660;
const TICK: Duration = Duration::from_millis(250);
/// While a job waits for the proof that it is gone, which is time without progress.
const TICK_IN_A_MOVE: Duration = Duration::from_millis(50);

/// What a coordinator is told from outside.
#[derive(Debug)]
pub enum Control {
    /// Read the configuration again.
    Reload,
    /// End. Nothing is undone: the next coordinator goes on from the labels.
    Stop,
}

/// Why a coordinator cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The API's socket cannot be made.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// A user of the configuration does not exist.
    #[error("admins: {0}")]
    User(String),
    /// The engine's address cannot be understood.
    #[error("{0}")]
    Engine(String),
    /// The agent cannot listen.
    #[error("{address}: the agent cannot listen there: {source}; give listen and port in [agent] of flowcoord.toml")]
    Listen {
        /// Where.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The API's server has ended.
    #[error("the API's server has ended: {0}; start flowcoord again, and report it")]
    Died(String),
}

/// Reads the configuration again.
pub type Reread = Box<dyn Fn() -> Result<Settings, SettingsError> + Send>;

/// Coordinates until told to stop.
///
/// # Errors
/// What keeps it from beginning.
pub async fn run(
    settings: Settings,
    reread: Reread,
    mut control: mpsc::Receiver<Control>,
) -> Result<(), CoordinatorError> {
    let admins = settings.admins.iter().map(|user| users::uid_of(user)).collect::<Result<Vec<u32>, _>>();
    let admins = admins.map_err(|error| CoordinatorError::User(error.to_string()))?;
    let group = settings.group.as_deref().and_then(|name| users::gid_of(name).ok());
    let socket = api::bind(&settings.socket, group, SOCKET_MODE)?;
    let (commands, mut requests) = mpsc::channel(COMMANDS_AT_MOST);
    let publisher = Publisher::new(commands);
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async move {
        let _ = stopped.await; // told, or the loop is gone
    };
    let access = Access::new(admins, group);
    let mut server = tokio::spawn(api::serve_cluster(socket, publisher.feed(), access, ApiLimits::default(), until));
    let mut runner = Runner::new(settings, publisher)?;
    let mut ticked = Instant::now();
    loop {
        let tick = if runner.machine.proves() { TICK_IN_A_MOVE } else { TICK };
        tokio::select! {
            told = control.recv() => match told {
                Some(Control::Reload) => runner.reload(&reread),
                Some(Control::Stop) | None => break,
            },
            ended = &mut server => {
                let why = ended.map_or_else(|error| error.to_string(), |()| "without a reason".to_owned());
                return Err(CoordinatorError::Died(why));
            }
            Some(request) = requests.recv() => runner.asked(request),
            Some(done) = runner.tasks.join_next() => match done {
                Ok(Some(event)) => runner.tell(event),
                Ok(None) => {}
                // The machine goes on by its own deadlines.
                Err(error) => tracing::error!(%error, "a request has died; please report it"),
            },
            () = tokio::time::sleep_until(ticked + tick) => {
                ticked = Instant::now();
                runner.tell(Event::Passed);
            }
        }
    }
    drop(stop);
    // A server that panicked has told why; there is nothing left to do but end.
    let _ = server.await;
    Ok(())
}

/// The machine and its hands.
struct Runner {
    machine: Machine,
    settings: Settings,
    outside: Arc<Outside>,
    tasks: JoinSet<Option<Event>>,
    askers: BTreeMap<u64, oneshot::Sender<Result<String, Refusal>>>,
    asked: u64,
    publisher: Publisher,
}

impl Runner {
    fn new(settings: Settings, publisher: Publisher) -> Result<Runner, CoordinatorError> {
        Ok(Runner {
            machine: Machine::new(settings.machine.clone()),
            outside: Arc::new(Outside::new(&settings).map_err(CoordinatorError::Engine)?),
            settings,
            tasks: JoinSet::new(),
            askers: BTreeMap::new(),
            asked: 0,
            publisher,
        })
    }

    fn reload(&mut self, reread: &Reread) {
        let read = reread().map_err(|error| error.to_string());
        match read.and_then(|settings| Ok((Outside::new(&settings)?, settings))) {
            Ok((outside, settings)) => {
                self.outside = Arc::new(outside);
                self.settings = settings;
                self.tell(Event::Reconfigured(Box::new(self.settings.machine.clone())));
                tracing::info!("the configuration was read again");
            }
            Err(error) => tracing::error!(%error, "the configuration was not read again; the old one holds"),
        }
    }

    fn asked(&mut self, request: ClusterRequest) {
        let ClusterRequest { wanted, asked_by, reply } = request;
        let command = match wanted {
            Wanted::Submission(submission) => {
                tracing::info!(job = %submission.name, asked_by, "submitted");
                return self.create(*submission, reply);
            }
            Wanted::Command(command) => command,
        };
        tracing::info!(?command, asked_by, "asked");
        self.asked += 1;
        self.askers.insert(self.asked, reply);
        self.tell(Event::Asked(command, Asker(self.asked)));
    }

    fn create(&mut self, submission: Submission, reply: oneshot::Sender<Result<String, Refusal>>) {
        let outside = self.outside.clone();
        let within = self.request_within();
        self.tasks.spawn(async move {
            let done = tokio::time::timeout(within, outside.engine.create(&submission)).await;
            let done = done.unwrap_or_else(|_elapsed| {
                Err(Refusal::Failed(
                    "Swarm did not answer in time; `flowctl cluster status` shows whether it was done".to_owned(),
                ))
            });
            // Who asked has gone: there is nobody to tell.
            let _ = reply.send(done.map(|_id| format!("{} waits in the queue", submission.name)));
            None
        });
    }

    fn tell(&mut self, event: Event) {
        for effect in self.machine.handle(event, now()) {
            self.carry_out(effect);
        }
    }

    fn request_within(&self) -> Duration {
        Duration::from_millis(self.settings.machine.request_within.0)
    }

    fn carry_out(&mut self, effect: Effect) {
        let outside = self.outside.clone();
        let within = self.request_within();
        match effect {
            Effect::Publish(status) => self.publisher.publish(*status),
            Effect::Emit { service, text } => self.publisher.emit(service.as_ref(), text),
            Effect::Answer { asker, done } => {
                if let Some(reply) = self.askers.remove(&asker.0) {
                    let _ = reply.send(done); // who asked has gone: there is nobody to tell
                }
            }
            Effect::Look { look } => self.spawn(async move {
                let swarm = bounded(within, outside.look()).await.unwrap_or_else(Err);
                Event::Looked { look, swarm }
            }),
            Effect::Change(change) => self.spawn(async move {
                let outcome = bounded(within, outside.engine.change(&change)).await;
                let outcome = outcome.unwrap_or_else(ChangeOutcome::Unknown);
                Event::Changed { service: change.service, version: change.version, outcome }
            }),
            Effect::ChangeNode(change) => self.spawn(async move {
                let outcome = bounded(within, outside.engine.change_node(&change)).await;
                let outcome = outcome.unwrap_or_else(ChangeOutcome::Unknown);
                Event::NodeChanged { node: change.node, version: change.version, outcome }
            }),
            Effect::Poll { node, leases, lease } => self.spawn(async move {
                let report = bounded(within, outside.poll(&node, &leases, lease)).await.unwrap_or_else(Err);
                Event::Polled { node, leases, report }
            }),
            Effect::Attest(question) => self.spawn(async move {
                let said = bounded(within, outside.attest(&question)).await;
                Event::Attested(question, said.unwrap_or_else(Attestation::Unknown))
            }),
            Effect::RunHook { node, command, within } => self.spawn(async move {
                let outcome = hook::run(&command, &node, Duration::from_millis(within.0)).await;
                Event::HookEnded { node, outcome }
            }),
            Effect::Carry(carriage) => {
                let within = Duration::from_millis(self.settings.machine.carry_within.0);
                self.spawn(async move {
                    let outcome = bounded(within, outside.carry(&carriage)).await;
                    let outcome = outcome.unwrap_or_else(CarriageOutcome::Failed);
                    Event::Carried { service: carriage.service, number: carriage.number, outcome }
                });
            }
        }
    }

    fn spawn(&mut self, work: impl Future<Output = Event> + Send + 'static) {
        self.tasks.spawn(async move { Some(work.await) });
    }
}

/// Dropped when its time is over, so that nothing is sent later.
async fn bounded<T>(within: Duration, work: impl Future<Output = T>) -> Result<T, String> {
    tokio::time::timeout(within, work).await.map_err(|_elapsed| format!("no answer within {} s", within.as_secs()))
}

fn now() -> At {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot = Duration::new(u64::try_from(boot.tv_sec).unwrap_or(0), u32::try_from(boot.tv_nsec).unwrap_or(0));
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = |duration: Duration| Millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    At { now: millis(boot), unix: millis(unix) }
}
