//! Server of the agent: TLS, and a closed list of requests.

use super::claim::Claims;
use super::connection_pool::{RENEWED_AFTER, watch};
use super::expiry;
use super::guard::{Denied, Places, guarded};
use super::lease::Leases;
use super::owner;
use super::report::report;
use super::sandbox;
use super::transfer::Carriages;
use super::unpack::{Bounds, Spare};
use super::wire::{
    ATTEST, AttestRequest, CLAIM, FETCH, FetchRequest, OFFER, OUTPUT, OutputRequest, REPORT, ReportRequest, SUM, VOLUME,
};
use crate::settings::Settings;
use crate::{Control, CoordinatorError};
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Json, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use model::Millis;
use model::swarm::{Attestation, Claim, ClaimOutcome, Transfer};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use swarm::{Certificates, Engine, Identity, Peer, Role, peer_of};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

/// Maximum number of connections in a handshake or waiting for a place; further ones are closed, so clients without a certificate cannot
/// block others for long.
const HANDSHAKES: usize = 256;
/// Timeout of a handshake, and of a request's head.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Idle timeout of a manager's connection.
const IDLE_AT_MOST: Duration = Duration::from_secs(60);
/// Maximum time for the last request of a connection that is to be closed because of its age.
const FINISHED_WITHIN: Duration = Duration::from_secs(60);
/// The same if a volume is sent: the longest `carry-within`.
const SENT_WITHIN: Duration = Duration::from_secs(86_400);
/// Interval between checks of certificates.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of attestations that wait for containers to exit; further ones are replied to at once.
const WAITING_MOST: usize = 16;
/// Maximum time that an attestation waits.
const WAIT_AT_MOST: Duration = Duration::from_secs(10);
/// Interval between checks while an attestation waits.
const BETWEEN_ATTESTATIONS: Duration = Duration::from_millis(25);
/// Delay between attempts to find the engine and its Swarm.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// State shared by all requests.
struct Agent {
    engine: Engine,
    flowcond: PathBuf,
    /// The engine's folder of volumes.
    volumes: PathBuf,
    identity: Mutex<Arc<Identity>>,
    claims: Arc<Claims>,
    carriages: Arc<Carriages>,
    leases: Arc<Mutex<Leases>>,
    /// Permits of waiting attestations.
    held: Semaphore,
}

impl Agent {
    fn identity(&self) -> Arc<Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs the agent until it is stopped.
///
/// # Errors
/// It cannot start.
pub async fn run(settings: Settings, mut control: mpsc::Receiver<Control>) -> Result<(), CoordinatorError> {
    let engine = Engine::at(settings.engine.as_deref()).map_err(CoordinatorError::Engine)?;
    let Some(Found { certificates, identity, address, volumes }) = joined(&settings, &engine, &mut control).await
    else {
        return Ok(());
    };
    let own = settings.agent.listen.clone().unwrap_or(address);
    let address = if own.contains(':') {
        format!("[{own}]:{}", settings.agent.port)
    } else {
        format!("{own}:{}", settings.agent.port)
    };
    let listener = TcpListener::bind(&address).await;
    let listener = listener.map_err(|source| CoordinatorError::Listen { address: address.clone(), source })?;
    tracing::info!(node = %identity.own.node, cluster = %identity.own.cluster, address, "listening for managers of this Swarm");
    let folder = settings.socket.parent().map_or_else(|| PathBuf::from("/run/flowcon"), std::path::Path::to_owned);
    let (most, rate) = (settings.agent.volume_most, settings.agent.carry_rate);
    let bounds = Bounds { most, rate, spare: Spare::USUAL };
    let (claims, port) = (Claims::new(engine.clone()), settings.agent.port);
    let agent = Arc::new(Agent {
        carriages: Carriages::new(engine.clone(), claims.clone(), bounds, port, settings.agent.flowcond.clone()),
        claims,
        engine,
        flowcond: settings.agent.flowcond.clone(),
        volumes,
        identity: Mutex::new(Arc::new(identity)),
        leases: Arc::new(Mutex::new(Leases::open(folder.join("flowcoord-leases.json")))),
        held: Semaphore::new(WAITING_MOST),
    });
    let enforcer = tokio::spawn(expiry::enforce(agent.engine.clone(), agent.leases.clone()));
    let (places, handshakes) = (Arc::new(Places::new()), Arc::new(Semaphore::new(HANDSHAKES)));
    let mut stamp = certificates.stamp();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            control = control.recv() => match control {
                Some(Control::Reload) => tracing::info!("an agent reads its configuration only at start; restart it to apply changes"),
                Some(Control::Stop) | None => break,
            },
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let Ok(handshake) = handshakes.clone().try_acquire_owned() else { continue };
                    tokio::spawn(converse(stream, agent.clone(), handshake, places.clone()));
                }
                // Out of file descriptors: retrying at once would spin until one is free.
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
                        // Probably half written: the next tick reads the complete file.
                        Err(error) => tracing::debug!(%error, "the renewed certificate cannot be read yet"),
                    }
                }
            }
        }
    }
    enforcer.abort();
    Ok(())
}

/// What an agent knows once its engine is in a Swarm.
struct Found {
    certificates: Certificates,
    identity: Identity,
    address: String,
    volumes: PathBuf,
}

/// Waits until the engine is in a Swarm; returns `None` if stopped.
async fn joined(settings: &Settings, engine: &Engine, control: &mut mpsc::Receiver<Control>) -> Option<Found> {
    let mut last_logged = String::new();
    loop {
        let why = match found(settings, engine).await {
            Ok(found) => return Some(found),
            Err(why) => why,
        };
        if why != last_logged {
            tracing::warn!("{why}; retrying every {} s", RETRY_AFTER.as_secs());
            last_logged = why;
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_AFTER) => {}
            control = control.recv() => if !matches!(control, Some(Control::Reload)) { return None },
        }
    }
}

async fn found(settings: &Settings, engine: &Engine) -> Result<Found, String> {
    // Required before the first attestation or lease: an agent that cannot see processes would report each job as gone.
    engine.shows_its_processes().await?;
    let info = engine.info().await?;
    if info.node.is_none() {
        return Err("this engine is not part of a Swarm; run `docker swarm join`".to_owned());
    }
    let certificates = match settings.agent.certificates.clone() {
        Some(files) => Certificates::of_files(files.certificate, files.key, files.authority),
        None => Certificates::of_swarm(&info.data),
    };
    let identity = certificates.load().map_err(|error| error.to_string())?;
    identity.server().map_err(|error| error.to_string())?;
    if let Some(problem) = sandbox::problem(&info.data) {
        tracing::warn!("{problem}");
    }
    Ok(Found { certificates, identity, address: info.address.to_string(), volumes: info.data.join("volumes") })
}

/// Start of a lease: an instant before the manager sent its request, however long that was in flight or unread. It is the time of the
/// connection, and for later requests that of the previous response, because a manager sends nothing before it has received that.
#[derive(Clone)]
struct LeaseStart(Arc<AtomicU64>);

/// Whether a volume was requested on the connection.
#[derive(Clone, Default)]
struct SendsVolume(Arc<AtomicBool>);

async fn converse(stream: TcpStream, agent: Arc<Agent>, handshake: OwnedSemaphorePermit, places: Arc<Places>) {
    let since = LeaseStart(Arc::new(node::now().0.into()));
    if watch(&stream).is_err() {
        return; // closed already
    }
    let identity = agent.identity();
    let Ok(config) = identity.server() else { return };
    let accepting = TlsAcceptor::from(config).accept(stream);
    let stream = match tokio::time::timeout(HANDSHAKE_WITHIN, accepting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "rejected a connection without a certificate of this Swarm");
            return;
        }
        Err(_elapsed) => return,
    };
    let peer = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(peer_of);
    let Some(Ok(peer)) = peer else { return };
    if peer.cluster != identity.own.cluster {
        tracing::warn!(cluster = %peer.cluster, node = %peer.node, "rejected a node of another Swarm");
        return;
    }
    let Some(_place) = places.take(peer.role).await else { return };
    drop(handshake);
    let idle = if peer.role == Role::Manager { IDLE_AT_MOST } else { HANDSHAKE_WITHIN };
    let sends_volume = SendsVolume::default();
    let routes = router(agent).layer(Extension(Arc::new(peer))).layer(Extension(since));
    let routes = routes.layer(Extension(sends_volume.clone()));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    // Errors are the client's: it disconnected, or sent invalid HTTP and got an error response.
    if tokio::time::timeout(2 * RENEWED_AFTER, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let within = if sends_volume.0.load(Ordering::Relaxed) { SENT_WITHIN } else { FINISHED_WITHIN };
        let _ = tokio::time::timeout(within, connection).await;
    }
}

fn router(agent: Arc<Agent>) -> Router {
    Router::new()
        .route(REPORT, post(answer_report))
        .route(ATTEST, post(answer_attest))
        .route(CLAIM, post(answer_claim))
        .route(OUTPUT, post(answer_output))
        .route(OFFER, post(answer_offer))
        .route(FETCH, post(answer_fetch))
        .route(VOLUME, post(answer_volume))
        .route(SUM, post(answer_sum))
        .layer(middleware::from_fn(guarded))
        .with_state(agent)
}

type PeerExtension = Extension<Arc<Peer>>;

fn unavailable(why: String) -> Denied {
    (StatusCode::SERVICE_UNAVAILABLE, why)
}

async fn answer_report(
    State(agent): State<Arc<Agent>>,
    Extension(LeaseStart(since)): Extension<LeaseStart>,
    Json(request): Json<ReportRequest>,
) -> Result<Response, Denied> {
    let leases = || agent.leases.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Millis(since.load(Ordering::Relaxed));
    leases().update(&request, now).map_err(unavailable)?;
    let mut report = report(&agent.engine, &agent.flowcond).await;
    let volumes = agent.volumes.clone();
    report.saved = tokio::task::spawn_blocking(move || owner::list(&volumes)).await.unwrap_or_default();
    report.held = leases().held();
    report.stopped = leases().stopped();
    let answer = json(&report);
    since.store(node::now().0, Ordering::Relaxed);
    Ok(answer)
}

async fn answer_attest(
    State(agent): State<Arc<Agent>>,
    Json(request): Json<AttestRequest>,
) -> Result<Response, Denied> {
    let until = Instant::now() + Duration::from_millis(request.patience.0).min(WAIT_AT_MOST);
    let held = agent.held.try_acquire();
    loop {
        let attestation = agent.engine.attest(&request.service).await;
        if held.is_ok() && matches!(attestation, Attestation::Alive(_)) && Instant::now() < until {
            tokio::time::sleep(BETWEEN_ATTESTATIONS).await;
            continue;
        }
        return Ok(json(&match (attestation, request.carried) {
            (Attestation::Gone, Some(number)) => agent.carriages.attest(&request.service, number).await,
            (attestation, _) => attestation,
        }));
    }
}

async fn answer_claim(State(agent): State<Arc<Agent>>, Json(claim): Json<Claim>) -> Response {
    let own = agent.identity().own.node.clone();
    json(&agent.claims.claim(&claim, &own).await.unwrap_or_else(ClaimOutcome::Unknown))
}

async fn answer_output(State(agent): State<Arc<Agent>>, Json(request): Json<OutputRequest>) -> Response {
    json(&agent.engine.output(&request.service, request.after.as_deref(), request.tail).await)
}

async fn answer_offer(State(agent): State<Arc<Agent>>, Json(carriage): Json<Transfer>) -> Result<Response, Denied> {
    let own = agent.identity().own.node.clone();
    let offered = agent.carriages.offer(carriage, &own).await.map_err(unavailable)?;
    Ok(json(&offered))
}

async fn answer_fetch(State(agent): State<Arc<Agent>>, Json(request): Json<FetchRequest>) -> Response {
    json(&agent.carriages.fetch(request.carriage, request.from, agent.identity()).await)
}

/// Sends a volume to the node that it was offered to, which need not be a manager.
async fn answer_volume(
    State(agent): State<Arc<Agent>>,
    Extension(peer): PeerExtension,
    Extension(SendsVolume(sends_volume)): Extension<SendsVolume>,
    Json(carriage): Json<Transfer>,
) -> Result<Response, Denied> {
    let chunks = agent.carriages.volume(&carriage, &peer.node).map_err(|why| (StatusCode::FORBIDDEN, why))?;
    let Some(chunks) = chunks else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    sends_volume.store(true, Ordering::Relaxed);
    let chunks = stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), chunks))
    });
    Ok(Body::from_stream(chunks).into_response())
}

async fn answer_sum(
    State(agent): State<Arc<Agent>>,
    Extension(peer): PeerExtension,
    Json(carriage): Json<Transfer>,
) -> Result<Response, Denied> {
    let sum = agent.carriages.sum(&carriage, &peer.node).await.map_err(|why| (StatusCode::CONFLICT, why))?;
    Ok(json(&sum))
}

fn json(document: &impl Serialize) -> Response {
    Json(document).into_response()
}
