//! `flowcoord run`: feeds events to the machine and executes its effects.
//!
//! One task runs the loop. Each request to the engine or an agent is a separate task with a deadline that ends in one event.

use super::backends::Backends;
use super::hook;
use super::machine::{At, CommandId, Effect, Event, Machine};
use super::publish::Publisher;
use super::settings::{Settings, SettingsError};
use api::cluster::Wanted;
use api::{Access, ApiLimits, BindError, Request};
use model::cluster::Submission;
use model::swarm::{Attestation, ChangeOutcome, ClaimOutcome, TransferOutcome};
use model::{Millis, Refusal};
use node::users;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Maximum number of queued commands; further ones are rejected.
const COMMANDS_AT_MOST: usize = 32;
const TICK: Duration = Duration::from_millis(250);
/// Used while a job waits for the proof that it is gone, because it makes no progress meanwhile.
const TICK_IN_A_MOVE: Duration = Duration::from_millis(50);

/// Control messages of the process.
#[derive(Clone, Copy, Debug)]
pub enum Control {
    /// Reload the configuration.
    Reload,
    /// Stop. Nothing is undone: the next coordinator continues from the labels.
    Stop,
}

/// Fatal errors of a coordinator or agent.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The API socket cannot be created.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// A user named in the configuration does not exist.
    #[error("admins: {0}")]
    User(String),
    /// The engine's address is invalid.
    #[error("{0}")]
    Engine(String),
    /// The agent cannot listen.
    #[error(
        "{address}: the agent cannot listen on this address: {source}; set listen and port in [agent] of flowcoord.toml"
    )]
    Listen {
        /// Address and port.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The API server has stopped.
    #[error("the API server stopped unexpectedly: {0}; restart flowcoord and report this bug")]
    Died(String),
}

/// Reloads the configuration.
pub(crate) type ReloadSettings = Box<dyn Fn() -> Result<Settings, SettingsError> + Send>;

/// Runs the coordinator until it is stopped.
///
/// # Errors
/// It cannot start, or its API server has stopped.
pub async fn run(
    settings: Settings,
    reload_settings: ReloadSettings,
    mut control: mpsc::Receiver<Control>,
) -> Result<(), CoordinatorError> {
    let admins = settings.admins.iter().map(|user| users::uid_of(user)).collect::<Result<Vec<u32>, _>>();
    let admins = admins.map_err(|error| CoordinatorError::User(error.to_string()))?;
    let group = settings.group.as_deref().and_then(|name| users::gid_of(name).ok());
    let access = Access::new(admins, group);
    let socket = api::bind(&settings.socket, group, access.socket_mode())?;
    let (commands, mut requests) = mpsc::channel(COMMANDS_AT_MOST);
    let publisher = Publisher::new(commands);
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async move {
        let _ = stopped.await; // an error means that the loop is gone
    };
    let mut server = tokio::spawn(api::serve_cluster(socket, publisher.feed(), access, ApiLimits::default(), until));
    let mut runner = Runner::new(settings, publisher)?;
    let mut ticked = Instant::now();
    loop {
        let tick = if runner.machine.is_proving() { TICK_IN_A_MOVE } else { TICK };
        tokio::select! {
            control = control.recv() => match control {
                Some(Control::Reload) => runner.reload(&reload_settings),
                Some(Control::Stop) | None => break,
            },
            ended = &mut server => {
                let why = ended.map_or_else(|error| error.to_string(), |()| "unknown reason".to_owned());
                return Err(CoordinatorError::Died(why));
            }
            Some(request) = requests.recv() => runner.accept(request),
            Some(done) = runner.tasks.join_next() => match done {
                Ok(Some(event)) => runner.handle(event),
                Ok(None) => {}
                // The machine continues at its deadline for the request.
                Err(error) => tracing::error!(%error, "the task of a request panicked; please report this bug"),
            },
            () = tokio::time::sleep_until(ticked + tick) => {
                ticked = Instant::now();
                runner.handle(Event::Tick);
            }
        }
    }
    drop(stop);
    // A panic has been reported already.
    let _ = server.await;
    Ok(())
}

/// The machine, its backends and the requests in flight.
struct Runner {
    machine: Machine,
    settings: Settings,
    backends: Arc<Backends>,
    tasks: JoinSet<Option<Event>>,
    replies: BTreeMap<u64, oneshot::Sender<Result<String, Refusal>>>,
    last_command: u64,
    publisher: Publisher,
}

impl Runner {
    fn new(settings: Settings, publisher: Publisher) -> Result<Runner, CoordinatorError> {
        Ok(Runner {
            machine: Machine::new(settings.machine.clone()),
            backends: Arc::new(Backends::new(&settings).map_err(CoordinatorError::Engine)?),
            settings,
            tasks: JoinSet::new(),
            replies: BTreeMap::new(),
            last_command: 0,
            publisher,
        })
    }

    fn reload(&mut self, reload_settings: &ReloadSettings) {
        let read = reload_settings().map_err(|error| error.to_string());
        match read.and_then(|settings| Ok((Backends::new(&settings)?, settings))) {
            Ok((backends, settings)) => {
                self.backends = Arc::new(backends);
                self.settings = settings;
                self.handle(Event::Reconfigured(Box::new(self.settings.machine.clone())));
                tracing::info!("configuration reloaded");
            }
            Err(error) => tracing::error!(%error, "cannot reload the configuration; keeping the current one"),
        }
    }

    fn accept(&mut self, request: Request<Wanted>) {
        let Request { command, requested_by, reply } = request;
        let command = match command {
            Wanted::Submissions(submissions) => {
                for submission in &submissions {
                    tracing::info!(job = %submission.name, requested_by, "submitted");
                }
                return self.create(submissions, reply);
            }
            Wanted::Output { job, after, tail } => return self.output(&job, after, tail, reply),
            Wanted::Command(command) => command,
        };
        tracing::info!(?command, requested_by, "command received");
        self.last_command += 1;
        self.replies.insert(self.last_command, reply);
        self.handle(Event::Command(command, CommandId(self.last_command)));
    }

    fn create(&mut self, mut submissions: Vec<Submission>, reply: oneshot::Sender<Result<String, Refusal>>) {
        let checked = submissions.iter().map(|submission| self.machine.check_saved_state(submission));
        if let Err(refusal) = checked.collect::<Result<(), _>>() {
            let _ = reply.send(Err(refusal)); // fails if the client has disconnected
            return;
        }
        let backends = self.backends.clone();
        let within = self.request_within();
        self.tasks.spawn(async move {
            let done = tokio::time::timeout(within, backends.create(&mut submissions)).await;
            let done = done.unwrap_or_else(|_elapsed| {
                Err(Refusal::Failed(
                    "Swarm did not reply in time; check with `flowctl cluster status` whether the job was created"
                        .to_owned(),
                ))
            });
            // Fails if the client has disconnected.
            let _ = reply.send(done);
            None
        });
    }

    /// Replies with the output of a job, from the agent of its node.
    fn output(&mut self, job: &str, after: Option<String>, tail: u32, reply: oneshot::Sender<Result<String, Refusal>>) {
        let place = self.machine.place_of(job);
        let (backends, within) = (self.backends.clone(), self.request_within());
        self.tasks.spawn(async move {
            let output = match place {
                Ok((node, service)) => {
                    let output = bounded(within, backends.output(&node, &service, after, tail)).await;
                    output.and_then(|output| output).map_err(Refusal::Failed)
                }
                Err(refusal) => Err(refusal),
            };
            let _ = reply.send(output); // fails if the client has disconnected
            None
        });
    }

    fn handle(&mut self, event: Event) {
        for effect in self.machine.handle(event, now()) {
            self.carry_out(effect);
        }
    }

    fn request_within(&self) -> Duration {
        Duration::from_millis(self.settings.machine.request_within.0)
    }

    fn carry_out(&mut self, effect: Effect) {
        let backends = self.backends.clone();
        let within = self.request_within();
        match effect {
            Effect::Publish(status) => self.publisher.publish(*status),
            Effect::Emit { job, text } => self.publisher.emit(job, text),
            Effect::Recall(events) => {
                events.into_iter().for_each(|(at, job, text)| self.publisher.recall(at, job, &text));
            }
            Effect::Reply { command_id, result } => {
                if let Some(reply) = self.replies.remove(&command_id.0) {
                    let _ = reply.send(result); // fails if the client has disconnected
                }
            }
            Effect::Look { look } => self.spawn(async move {
                let swarm = bounded(within, backends.look()).await.unwrap_or_else(Err);
                Event::Looked { look, swarm }
            }),
            Effect::Change(change) => self.spawn(async move {
                let outcome = bounded(within, backends.engine.change(&change)).await;
                let outcome = outcome.unwrap_or_else(ChangeOutcome::Unknown);
                Event::Changed { service: change.service, version: change.version, outcome }
            }),
            Effect::ChangeNode(change) => self.spawn(async move {
                let outcome = bounded(within, backends.engine.change_node(&change)).await;
                let outcome = outcome.unwrap_or_else(ChangeOutcome::Unknown);
                Event::NodeChanged { node: change.node, version: change.version, outcome }
            }),
            Effect::Poll { node, leases, graces, lease, release, asked } => self.spawn(async move {
                let polled = bounded(within, backends.poll(&node, &leases, graces, lease, &release)).await;
                Event::Polled { node, leases, asked, report: polled.unwrap_or_else(Err) }
            }),
            Effect::Attest(question) => self.spawn(async move {
                let attestation = bounded(within, backends.attest(&question)).await;
                Event::Attested(question, attestation.unwrap_or_else(Attestation::Unknown))
            }),
            Effect::Claim { claim, version } => self.spawn(async move {
                let outcome = bounded(within, backends.claim(&claim)).await;
                Event::Claimed { claim, version, outcome: outcome.unwrap_or_else(ClaimOutcome::Unknown) }
            }),
            Effect::RunHook { node, command, within } => self.spawn(async move {
                let outcome = hook::run(&command, &node, Duration::from_millis(within.0)).await;
                Event::HookEnded { node, outcome }
            }),
            Effect::Carry(carriage) => {
                let within = Duration::from_millis(self.settings.machine.carry_within.0);
                self.spawn(async move {
                    let outcome = bounded(within, backends.carry(&carriage)).await;
                    let outcome = outcome.unwrap_or_else(TransferOutcome::Failed);
                    Event::Carried { service: carriage.service, number: carriage.number, outcome }
                });
            }
        }
    }

    fn spawn(&mut self, work: impl Future<Output = Event> + Send + 'static) {
        self.tasks.spawn(async move { Some(work.await) });
    }
}

/// Limits the duration of a request. The request is dropped at its deadline, so it is never sent later.
async fn bounded<T>(within: Duration, work: impl Future<Output = T>) -> Result<T, String> {
    tokio::time::timeout(within, work).await.map_err(|_elapsed| format!("no reply within {} s", within.as_secs()))
}

fn now() -> At {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    At { now: node::now(), unix: Millis(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)) }
}
