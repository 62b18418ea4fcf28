//! HTTP server for untrusted clients: all resources are bounded, so that no client can lock out the others.
//!
//! A connection serves one request, with a timeout for its head and one for the whole. If all slots are taken, a new connection replaces
//! the oldest one that has not sent a request; if all have, it waits until one is finished.

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tower::ServiceExt;

/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 16;
/// Timeout of a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a connection, from its beginning to the end of the response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request's head in bytes: the minimum that hyper accepts.
const HEAD_BYTES: usize = 8 << 10;
/// Pause after a failed accept: if file descriptors are exhausted, retrying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct Slot {
    has_request: Arc<AtomicBool>,
    connection: AbortHandle,
}

/// Serves forever.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let mut open = JoinSet::new();
    let mut slots: VecDeque<Slot> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        free_slot(&mut slots, &mut open).await;
        let has_request = Arc::new(AtomicBool::new(false));
        let connection = open.spawn(respond(stream, router.clone(), has_request.clone()));
        slots.push_back(Slot { has_request, connection });
    }
}

/// Waits until a slot is free, or closes the oldest idle connection.
async fn free_slot(slots: &mut VecDeque<Slot>, open: &mut JoinSet<()>) {
    loop {
        while open.try_join_next().is_some() {}
        slots.retain(|slot| !slot.connection.is_finished());
        if slots.len() < MAX_CONNECTIONS {
            return;
        }
        let idle = slots.iter().position(|slot| !slot.has_request.load(Ordering::Relaxed));
        match idle.and_then(|oldest| slots.remove(oldest)) {
            Some(slot) => slot.connection.abort(),
            None => drop(open.join_next().await),
        }
    }
}

async fn respond(stream: TcpStream, router: Router, has_request: Arc<AtomicBool>) {
    let service = service_fn(move |request: Request<Incoming>| {
        has_request.store(true, Ordering::Relaxed);
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // Errors are the client's fault: it went away, was too slow, or did not speak HTTP, which hyper has reported to it.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}
