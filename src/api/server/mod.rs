//! Accepts connections, judges each peer once, and keeps everything that a client can use up within limits.
//!
//! A peer that may do nothing, and whoever comes when all places are taken, gets an answer that says so and is let go. Such
//! rejections have few places of their own, so that refusing cannot be used to exhaust the daemon. Imports: siblings, hyper.

mod access;
mod bounded;
mod cluster;
mod commands;
mod events;
mod history;
mod metrics;
mod node;
mod openapi;
mod patient;
mod problem;
mod recording;
mod routes;
mod services;
mod shared;
mod snapshot;
mod socket;

pub use access::{Access, Peer, Right};
pub use shared::ApiLimits;
pub use socket::{BindError, Socket, bind};

use super::Feed;
use super::cluster::ClusterFeed;
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use patient::Patient;
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

/// Serves a daemon until `shutdown` completes, then lets open requests finish, takes the socket's file away and returns.
pub async fn serve(socket: Socket, feed: Feed, access: Access, limits: ApiLimits, shutdown: impl Future<Output = ()>) {
    let (closing, closed) = watch::channel(false);
    let api = Api::new(feed, limits.clone(), closed.clone());
    let counters = api.counters.clone();
    let door = Door { socket, access, limits, counters, router: routes::router(api) };
    door.keep(closing, closed, shutdown).await;
}

/// The same for a coordinator.
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
    Door { socket, access, limits, counters, router }.keep(closing, closed, shutdown).await;
}

/// A socket, who may come in, and what they find.
struct Door {
    socket: Socket,
    access: Access,
    limits: ApiLimits,
    counters: Arc<Counters>,
    router: Router,
}

impl Door {
    async fn keep(
        self,
        closing: watch::Sender<bool>,
        closed: watch::Receiver<bool>,
        shutdown: impl Future<Output = ()>,
    ) {
        let Door { socket, access, limits, counters, router } = self;
        let places = Places::new(&limits);
        let mut open = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = socket.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let Some((service, place)) = admit(&stream, &access, &places, &router, &counters) else { continue };
                        open.spawn(converse(stream, service, place, limits.clone(), closed.clone()));
                    }
                    Err(error) => rest_after(&error).await,
                },
                Some(_) = open.join_next() => {}
            }
        }
        drop(socket);
        // The receivers live in streams and in the connections; without any there is nobody to tell.
        let _ = closing.send(true);
        let _ = tokio::time::timeout(limits.close_time, async { while open.join_next().await.is_some() {} }).await;
        open.shutdown().await;
    }
}

/// Out of file descriptors: accepting again at once would spin until one is free.
async fn rest_after(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection on the API socket");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

struct Places {
    everyone: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
}

impl Places {
    fn new(limits: &ApiLimits) -> Places {
        Places {
            everyone: Arc::new(Semaphore::new(limits.connections)),
            reserved: Arc::new(Semaphore::new(limits.reserved)),
            rejections: Arc::new(Semaphore::new(limits.rejections)),
        }
    }

    fn take(&self, right: Right) -> Option<OwnedSemaphorePermit> {
        let place = self.everyone.clone().try_acquire_owned().ok();
        match right {
            Right::Change => place.or_else(|| self.reserved.clone().try_acquire_owned().ok()),
            _ => place,
        }
    }
}

/// The service that this connection deserves, with its place; `None` = not even a rejection is left.
fn admit(
    stream: &UnixStream,
    access: &Access,
    places: &Places,
    router: &Router,
    counters: &Counters,
) -> Option<(Router, OwnedSemaphorePermit)> {
    let peer = access.admit(stream.peer_cred().ok()?);
    let fault = if peer.right == Right::Nothing {
        Fault::Denied(format!("{} may not use this daemon", peer.describe()))
    } else if let Some(place) = places.take(peer.right) {
        return Some((router.clone().layer(axum::Extension(peer)), place));
    } else {
        Fault::Busy("too many connections are open".to_owned())
    };
    counters.refused(&fault);
    let place = places.rejections.clone().try_acquire_owned().ok()?;
    Some((rejection(fault), place))
}

fn rejection(fault: Fault) -> Router {
    let close = [(axum::http::header::CONNECTION, "close")];
    Router::new().fallback(move || {
        let fault = fault.clone();
        async move { (close, fault) }
    })
}

async fn converse(
    stream: UnixStream,
    service: Router,
    _place: OwnedSemaphorePermit,
    limits: ApiLimits,
    mut closed: watch::Receiver<bool>,
) {
    let stream = Patient::new(TokioIo::new(stream), limits.request_time);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head.max(8192))
        .serve_connection(stream, TowerToHyperService::new(service));
    let mut connection = pin!(connection);
    // An error here is the client's: it went away, was too slow, or did not speak HTTP and was told so by hyper.
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = closed.wait_for(|closed| *closed) => None,
    };
    if ended.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
