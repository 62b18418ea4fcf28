//! Listens for managers of this Swarm: TLS, who asks, and a closed list of requests. Imports: host, siblings.

use super::carry::Carriages;
use super::connection::{RENEWED_AFTER, watch};
use super::lease::{self, Leases};
use super::report::report;
use super::unpack::Bounds;
use super::wire::{ATTEST, AttestRequest, FETCH, FetchRequest, OFFER, REPORT, ReportRequest, SUM, VOLUME};
use crate::coordinator::settings::Settings;
use crate::coordinator::{Control, CoordinatorError};
use crate::host::swarm::{Certificates, Engine, Identity, Peer, Role, peer_of};
use crate::model::Millis;
use crate::model::swarm::{Attestation, Carriage};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Extension, Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

/// Connections of nodes of this Swarm at once; beyond, they wait.
const PLACES: usize = 64;
/// Handshakes at once; beyond, a connection is closed: whoever has no certificate keeps nobody else out for long.
const HANDSHAKES: usize = 256;
/// A handshake and a request's head take no longer.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// A manager asks again within this, or its place is free.
const IDLE_AT_MOST: Duration = Duration::from_secs(60);
/// A request's body: leases of a thousand jobs are a tenth of it.
const BODY_AT_MOST: usize = 1024 * 1024;
/// Between two looks at leases and certificates.
const TICK: Duration = Duration::from_secs(1);
/// Questions for a proof that wait for the end of what lives; further ones are answered at once.
const HELD: usize = 16;
const HOLD_AT_MOST: Duration = Duration::from_secs(10);
const BETWEEN_ATTESTATIONS: Duration = Duration::from_millis(25);
/// Between two tries to find the engine and its Swarm.
const AGAIN: Duration = Duration::from_secs(5);

/// What every request shares.
struct Agent {
    engine: Engine,
    flowcond: PathBuf,
    identity: Mutex<Arc<Identity>>,
    carriages: Arc<Carriages>,
    leases: Mutex<Leases>,
    /// Places for questions that wait.
    held: Semaphore,
}

impl Agent {
    fn identity(&self) -> Arc<Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers for this node until told to stop.
///
/// # Errors
/// What keeps it from beginning.
pub async fn run(settings: Settings, mut control: mpsc::Receiver<Control>) -> Result<(), CoordinatorError> {
    let engine = Engine::at(settings.engine.as_deref()).map_err(CoordinatorError::Engine)?;
    let Some((certificates, identity, address)) = joined(&settings, &engine, &mut control).await else { return Ok(()) };
    let own = settings.agent.listen.clone().unwrap_or(address);
    let address = if own.contains(':') {
        format!("[{own}]:{}", settings.agent.port)
    } else {
        format!("{own}:{}", settings.agent.port)
    };
    let listener = TcpListener::bind(&address).await;
    let listener = listener.map_err(|source| CoordinatorError::Listen { address: address.clone(), source })?;
    tracing::info!(node = %identity.own.node, cluster = %identity.own.cluster, address, "answers managers of this Swarm");
    let folder = settings.socket.parent().map_or_else(|| PathBuf::from("/run/flowcon"), std::path::Path::to_owned);
    let bounds = Bounds { most: settings.agent.volume_most, rate: settings.agent.carry_rate };
    let agent = Arc::new(Agent {
        carriages: Carriages::new(engine.clone(), bounds, settings.agent.port, settings.agent.flowcond.clone()),
        engine,
        flowcond: settings.agent.flowcond.clone(),
        identity: Mutex::new(Arc::new(identity)),
        leases: Mutex::new(Leases::open(folder.join("flowcoord-leases.json"))),
        held: Semaphore::new(HELD),
    });
    let keeper = tokio::spawn(keep_leases(agent.clone()));
    let (places, handshakes) = (Arc::new(Semaphore::new(PLACES)), Arc::new(Semaphore::new(HANDSHAKES)));
    let mut stamp = certificates.stamp();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            told = control.recv() => match told {
                Some(Control::Reload) => tracing::info!("an agent reads its configuration when it starts"),
                Some(Control::Stop) | None => break,
            },
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let Ok(handshake) = handshakes.clone().try_acquire_owned() else { continue };
                    tokio::spawn(converse(stream, agent.clone(), handshake, places.clone()));
                }
                // Out of file descriptors: accepting again at once would spin until one is free.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            _ = tick.tick() => {
                let now = certificates.stamp();
                if now != stamp {
                    match certificates.load() {
                        Ok(renewed) => {
                            *agent.identity.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(renewed);
                            stamp = now;
                        }
                        // Half written: the next look sees the whole.
                        Err(error) => tracing::debug!(%error, "the renewed certificate cannot be read yet"),
                    }
                }
            }
        }
    }
    keeper.abort();
    Ok(())
}

/// Waits until the engine is in a Swarm; `None` = told to stop.
async fn joined(
    settings: &Settings,
    engine: &Engine,
    control: &mut mpsc::Receiver<Control>,
) -> Option<(Certificates, Identity, String)> {
    let mut told_before = String::new();
    loop {
        let why = match found(settings, engine).await {
            Ok(found) => return Some(found),
            Err(why) => why,
        };
        if why != told_before {
            tracing::warn!("{why}; trying again until it is");
            told_before = why;
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            told = control.recv() => if !matches!(told, Some(Control::Reload)) { return None },
        }
    }
}

async fn found(settings: &Settings, engine: &Engine) -> Result<(Certificates, Identity, String), String> {
    // Before anything is attested or a lease promised: who sees no process would take each for gone.
    engine.shows_its_processes().await?;
    let info = engine.info().await?;
    if info.node.is_none() {
        return Err("this engine is in no Swarm; `docker swarm join` makes it one".to_owned());
    }
    let certificates = match settings.agent.certificates.clone() {
        Some(files) => Certificates::of_files(files.certificate, files.key, files.authority),
        None => Certificates::of_swarm(&info.data),
    };
    let identity = certificates.load().map_err(|error| error.to_string())?;
    identity.server().map_err(|error| error.to_string())?;
    Ok((certificates, identity, info.address.to_string()))
}

/// What a lease counts from: an instant before its request was sent, however long that was on its way or lay here unread. That is when the
/// connection came, and later when the answer before was given, because a manager sends nothing until it has that.
#[derive(Clone)]
struct Since(Arc<AtomicU64>);

async fn converse(stream: TcpStream, agent: Arc<Agent>, handshake: OwnedSemaphorePermit, places: Arc<Semaphore>) {
    let since = Since(Arc::new(boot_clock().0.into()));
    if watch(&stream).is_err() {
        return; // it has gone already
    }
    let identity = agent.identity();
    let Ok(config) = identity.server() else { return };
    let accepting = TlsAcceptor::from(config).accept(stream);
    let stream = match tokio::time::timeout(HELLO_WITHIN, accepting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "somebody without a certificate of this Swarm was refused");
            return;
        }
        Err(_elapsed) => return,
    };
    let peer = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(peer_of);
    let Some(Ok(peer)) = peer else { return };
    if peer.cluster != identity.own.cluster {
        tracing::warn!(cluster = %peer.cluster, node = %peer.node, "a node of another Swarm was refused");
        return;
    }
    drop(handshake);
    let Ok(_place) = places.acquire_owned().await else { return };
    let idle = if peer.role == Role::Manager { IDLE_AT_MOST } else { HELLO_WITHIN };
    let routes = router(agent).layer(Extension(Arc::new(peer))).layer(Extension(since));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    // An error here is the client's: it went away, or did not speak HTTP and was told so.
    if tokio::time::timeout(2 * RENEWED_AFTER, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

fn router(agent: Arc<Agent>) -> Router {
    Router::new()
        .route(REPORT, post(answer_report))
        .route(ATTEST, post(answer_attest))
        .route(OFFER, post(answer_offer))
        .route(FETCH, post(answer_fetch))
        .route(VOLUME, post(answer_volume))
        .route(SUM, post(answer_sum))
        .layer(DefaultBodyLimit::max(BODY_AT_MOST))
        .with_state(agent)
}

/// Why a request is not answered: status and words.
type Denied = (StatusCode, String);

type Asks = Extension<Arc<Peer>>;

fn managers_only(peer: &Peer) -> Result<(), Denied> {
    match peer.role {
        Role::Manager => Ok(()),
        Role::Worker => Err((StatusCode::FORBIDDEN, format!("{} is a worker; managers ask this", peer.node))),
    }
}

fn unavailable(why: String) -> Denied {
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

async fn answer_report(
    State(agent): State<Arc<Agent>>,
    Extension(peer): Asks,
    Extension(Since(since)): Extension<Since>,
    Json(asked): Json<ReportRequest>,
) -> Result<Response, Denied> {
    managers_only(&peer)?;
    let renewed = {
        let mut leases = agent.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.renew(&asked.leases, asked.lease, Millis(since.load(Ordering::Relaxed)))
    };
    renewed.map_err(unavailable)?;
    let answer = json(&report(&agent.engine, &agent.flowcond).await);
    since.store(boot_clock().0, Ordering::Relaxed);
    Ok(answer)
}

async fn answer_attest(
    State(agent): State<Arc<Agent>>,
    Extension(peer): Asks,
    Json(asked): Json<AttestRequest>,
) -> Result<Response, Denied> {
    managers_only(&peer)?;
    let until = Instant::now() + Duration::from_millis(asked.patience.0).min(HOLD_AT_MOST);
    let held = agent.held.try_acquire();
    loop {
        let said = agent.engine.attest(&asked.service).await;
        if held.is_ok() && matches!(said, Attestation::Alive(_)) && Instant::now() < until {
            tokio::time::sleep(BETWEEN_ATTESTATIONS).await;
            continue;
        }
        return Ok(json(&match (said, asked.carried) {
            (Attestation::Gone, Some(number)) => agent.carriages.attest(&asked.service, number).await,
            (said, _) => said,
        }));
    }
}

async fn answer_offer(
    State(agent): State<Arc<Agent>>,
    Extension(peer): Asks,
    Json(carriage): Json<Carriage>,
) -> Result<Response, Denied> {
    managers_only(&peer)?;
    let own = agent.identity().own.node.clone();
    let offered = agent.carriages.offer(carriage, &own).await.map_err(unavailable)?;
    Ok(json(&offered))
}

async fn answer_fetch(
    State(agent): State<Arc<Agent>>,
    Extension(peer): Asks,
    Json(asked): Json<FetchRequest>,
) -> Result<Response, Denied> {
    managers_only(&peer)?;
    Ok(json(&agent.carriages.fetch(asked.carriage, asked.from, agent.identity()).await))
}

/// For whom the volume was offered to: no manager is needed for that.
async fn answer_volume(
    State(agent): State<Arc<Agent>>,
    Extension(peer): Asks,
    Json(carriage): Json<Carriage>,
) -> Result<Response, Denied> {
    let chunks = agent.carriages.volume(&carriage, &peer.node).map_err(|why| (StatusCode::FORBIDDEN, why))?;
    let chunks = stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), chunks))
    });
    Ok(Body::from_stream(chunks).into_response())
}

async fn answer_sum(
    State(agent): State<Arc<Agent>>,
    Extension(peer): Asks,
    Json(carriage): Json<Carriage>,
) -> Result<Response, Denied> {
    let sum = agent.carriages.sum(&carriage, &peer.node).await.map_err(|why| (StatusCode::CONFLICT, why))?;
    Ok(json(&sum))
}

fn json(document: &impl Serialize) -> Response {
    Json(document).into_response()
}

/// Stops jobs whose lease has ended.
async fn keep_leases(agent: Arc<Agent>) {
    let mut known = Vec::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        let ended = {
            let leases = agent.leases.lock().unwrap_or_else(PoisonError::into_inner);
            if leases.is_empty() {
                continue;
            }
            leases.ended(boot_clock())
        };
        if let Ok(Ok(workers)) = tokio::time::timeout(AGAIN, agent.engine.workers()).await {
            known = workers;
        }
        for service in ended {
            if known.iter().any(|worker| worker.service == service && !worker.has_ended) {
                tracing::warn!(%service, "no manager was heard within its lease: it is stopped, because it may start elsewhere");
            }
            if lease::stop(&agent.engine, &service, &known).await {
                agent.leases.lock().unwrap_or_else(PoisonError::into_inner).forget(&service);
            }
        }
    }
}

/// CLOCK_BOOTTIME: a machine that was suspended has slept through its leases.
fn boot_clock() -> Millis {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(boot.tv_sec).unwrap_or(0), u64::try_from(boot.tv_nsec).unwrap_or(0));
    Millis(seconds * 1000 + nanos / 1_000_000)
}
