//! Accepts connections, authorizes each peer once, and limits the resources that clients can use.
//!
//! A peer without rights, or a peer beyond the maximum number of connections, receives an error and is disconnected. Connections for such
//! rejections are limited separately, so that they cannot exhaust the daemon; beyond, they are closed without an answer. Users with full
//! control and root have places of their own, see `places`.

mod access;
mod bounded;
mod cluster;
mod commands;
mod events;
mod history;
mod metrics;
mod node;
mod openapi;
mod places;
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
use places::Places;
use problem::Fault;
use shared::{Api, Counters};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
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
        let places = [limits.connections, limits.rejections].map(|everyone| limits.places(everyone));
        let mut open = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = socket.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let Some((service, place)) = admit(&stream, &access, &places, &router, &counters) else { continue };
                        open.spawn(serve_connection(stream, service, place, limits.clone(), closed.clone()));
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

/// Returns the service for a connection, or a rejection, with its place. `None` if no place for a rejection is free.
fn admit(
    stream: &UnixStream,
    access: &Access,
    [connections, rejections]: &[Places; 2],
    router: &Router,
    counters: &Counters,
) -> Option<(Router, OwnedSemaphorePermit)> {
    let peer = access.admit(stream.peer_cred().ok()?);
    let fault = if peer.right == Right::Nothing {
        Fault::Denied(format!("{} may not use this daemon", peer.describe()))
    } else if let Some(place) = connections.take(&peer) {
        return Some((router.clone().layer(axum::Extension(peer)), place));
    } else {
        let at_most = connections.at_most(&peer);
        Fault::Busy(format!("busy: too many connections are open (at most {at_most} for {})", peer.describe()))
    };
    counters.refused(&fault);
    Some((rejection(fault), rejections.take(&peer)?))
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
    _place: OwnedSemaphorePermit,
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
