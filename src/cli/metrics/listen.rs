//! HTTP for whoever reaches a port: everything that a client can use up is bounded, so that none keeps the others out.
//!
//! A connection is good for one request, and has a time for its head and for all of it. Where all places are taken, the newcomer gets the
//! place of whoever has been there longest without asking; where all have asked, it waits until one has its answer. Imports: nothing.

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

/// Connections at once.
const PLACES: usize = 16;
/// Time for a request's head.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Time for a connection, from its beginning to the end of the answer.
const WHOLE_TIME: Duration = Duration::from_secs(30);
/// Bytes of a request's head, the least that hyper takes.
const HEAD: usize = 8 << 10;
/// Out of file descriptors: accepting again at once would spin until one is free.
const REST: Duration = Duration::from_millis(100);

struct Place {
    has_asked: Arc<AtomicBool>,
    connection: AbortHandle,
}

/// Serves for ever.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let mut open = JoinSet::new();
    let mut places: VecDeque<Place> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        make_room(&mut places, &mut open).await;
        let has_asked = Arc::new(AtomicBool::new(false));
        let connection = open.spawn(answer(stream, router.clone(), has_asked.clone()));
        places.push_back(Place { has_asked, connection });
    }
}

async fn make_room(places: &mut VecDeque<Place>, open: &mut JoinSet<()>) {
    loop {
        while open.try_join_next().is_some() {}
        places.retain(|place| !place.connection.is_finished());
        if places.len() < PLACES {
            return;
        }
        let silent = places.iter().position(|place| !place.has_asked.load(Ordering::Relaxed));
        match silent.and_then(|oldest| places.remove(oldest)) {
            Some(place) => place.connection.abort(),
            None => drop(open.join_next().await),
        }
    }
}

async fn answer(stream: TcpStream, router: Router, has_asked: Arc<AtomicBool>) {
    let service = service_fn(move |request: Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // What goes wrong is the client's: it went away, was too slow, or did not speak HTTP and was told so by hyper.
    let _ = tokio::time::timeout(WHOLE_TIME, connection).await;
}
