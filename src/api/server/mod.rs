//! Accepts connections, authorizes each peer once, and limits the resources that clients can use.
//!
//! A peer without rights, or a peer beyond the maximum number of connections, receives an error and is disconnected. Connections for such
//! rejections are limited separately, so that they cannot exhaust the daemon. Imports: siblings, hyper.

mod access;
mod bounded;
mod cluster;
mod commands;
mod events;
mod history;
mod metrics;
mod node;
mod openapi;
mod problem;
mod recording;
mod routes;
mod services;
mod shared;
mod snapshot;
mod socket;
mod write_timeout;

pub use access::{Access, Peer, Right};
pub use shared::ApiLimits;
pub use socket::{BindError, Socket, bind};

use super::Feed;
use super::cluster::ClusterFeed;
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use problem::Fault;
use shared::{Api, Counters};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use write_timeout::WriteTimeout;

/// Serves a daemon until `shutdown` completes, then removes the socket's file, lets open requests finish, and returns.
pub async fn serve(socket: Socket, feed: Feed, access: Access, limits: ApiLimits, shutdown: impl Future<Output = ()>) {
    let (closing, closed) = watch::channel(false);
    let api = Api::new(feed, limits.clone(), closed.clone());
    let counters = api.counters.clone();
    let server = Server { socket, access, limits, counters, router: routes::router(api) };
    server.run(closing, closed, shutdown).await;
}

/// Like [`serve`], for a coordinator.
pub async fn serve_cluster(
    socket: Socket,
    feed: ClusterFeed,
    access: Access,
    limits: ApiLimits,
    shutdown: impl Future<Output = ()>,
) {
    let (closing, closed) = watch::channel(false);
    let counters = Arc::new(Counters::default());
    let router = cluster::router(feed, limits.clone(), counters.clone());
    Server { socket, access, limits, counters, router }.run(closing, closed, shutdown).await;
}

/// A socket with its access rules, limits and routes.
struct Server {
    socket: Socket,
    access: Access,
    limits: ApiLimits,
    counters: Arc<Counters>,
    router: Router,
}

impl Server {
    async fn run(
        self,
        closing: watch::Sender<bool>,
        closed: watch::Receiver<bool>,
        shutdown: impl Future<Output = ()>,
    ) {
        let Server { socket, access, limits, counters, router } = self;
        let slots = Slots::new(&limits);
        let mut open = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = socket.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let Some((service, slot)) = admit(&stream, &access, &slots, &router, &counters) else { continue };
                        open.spawn(serve_connection(stream, service, slot, limits.clone(), closed.clone()));
                    }
                    Err(error) => back_off(&error).await,
                },
                Some(_) = open.join_next() => {}
            }
        }
        drop(socket);
        // Fails only if there is no receiver, that is, no stream and no connection.
        let _ = closing.send(true);
        let _ = tokio::time::timeout(limits.close_time, async { while open.join_next().await.is_some() {} }).await;
        open.shutdown().await;
    }
}

/// Waits after a failed accept: without free file descriptors, accepting again at once would spin.
async fn back_off(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection on the API socket");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Connections that may be open at once.
struct Slots {
    everyone: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
}

impl Slots {
    fn new(limits: &ApiLimits) -> Slots {
        Slots {
            everyone: Arc::new(Semaphore::new(limits.connections)),
            reserved: Arc::new(Semaphore::new(limits.reserved)),
            rejections: Arc::new(Semaphore::new(limits.rejections)),
        }
    }

    fn take(&self, right: Right) -> Option<OwnedSemaphorePermit> {
        let slot = self.everyone.clone().try_acquire_owned().ok();
        match right {
            Right::Change => slot.or_else(|| self.reserved.clone().try_acquire_owned().ok()),
            _ => slot,
        }
    }
}

/// Returns the service for a connection, or a rejection, with its slot. `None` if no slot for a rejection is free.
fn admit(
    stream: &UnixStream,
    access: &Access,
    slots: &Slots,
    router: &Router,
    counters: &Counters,
) -> Option<(Router, OwnedSemaphorePermit)> {
    let peer = access.admit(stream.peer_cred().ok()?);
    let fault = if peer.right == Right::Nothing {
        Fault::Denied(format!("{} may not use this daemon", peer.describe()))
    } else if let Some(slot) = slots.take(peer.right) {
        return Some((router.clone().layer(axum::Extension(peer)), slot));
    } else {
        Fault::Busy("too many connections are open".to_owned())
    };
    counters.refused(&fault);
    let slot = slots.rejections.clone().try_acquire_owned().ok()?;
    Some((rejection(fault), slot))
}

fn rejection(fault: Fault) -> Router {
    let close = [(axum::http::header::CONNECTION, "close")];
    Router::new().fallback(move || {
        let fault = fault.clone();
        async move { (close, fault) }
    })
}

async fn serve_connection(
    stream: UnixStream,
    service: Router,
    _slot: OwnedSemaphorePermit,
    limits: ApiLimits,
    mut closed: watch::Receiver<bool>,
) {
    let stream = WriteTimeout::new(TokioIo::new(stream), limits.request_time);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head.max(8192))
        .serve_connection(stream, TowerToHyperService::new(service));
    let mut connection = pin!(connection);
    // An error here is caused by the client: it disconnected, was too slow, or sent invalid HTTP, which hyper has answered.
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = closed.wait_for(|closed| *closed) => None,
    };
    if ended.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
