//! Limits of connections and requests: places by role, who may send what, and a body in time. The role is checked before the body is read,
//! so a worker cannot occupy the agent with requests that it may not send.

use super::wire::{SUM, VOLUME};
use axum::body::Body;
use axum::extract::{Extension, Request};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use std::sync::Arc;
use std::time::Duration;
use swarm::{Peer, Role};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections of managers; further ones wait.
const MANAGERS_MOST: usize = 64;
/// Maximum number of connections of workers, which fetch volumes; further ones are closed.
const WORKERS_MOST: usize = 32;
/// Maximum time that a connection of a manager waits for a place.
const PLACE_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of a request. The leases of a thousand jobs take a tenth of it.
const BODY_AT_MOST: usize = 1024 * 1024;
/// Timeout of a request's body.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// End of the message to a worker that sends a request, such as one that checks its own agent.
pub const WORKER_REFUSED: &str = "is a worker; only managers may send this request";

/// Rejection of a request: status and message.
pub(super) type Denied = (StatusCode, String);

/// Places for connections. Workers have their own, so a manager always finds one.
pub(super) struct Places {
    managers: Arc<Semaphore>,
    workers: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new() -> Places {
        Places { managers: Arc::new(Semaphore::new(MANAGERS_MOST)), workers: Arc::new(Semaphore::new(WORKERS_MOST)) }
    }

    /// Returns a place for a connection; `None` = close it.
    pub(super) async fn take(&self, role: Role) -> Option<OwnedSemaphorePermit> {
        match role {
            Role::Manager => tokio::time::timeout(PLACE_WITHIN, self.managers.clone().acquire_owned()).await.ok()?.ok(),
            Role::Worker => self.workers.clone().try_acquire_owned().ok(),
        }
    }
}

/// Rejects requests that the peer may not send, and reads the bodies of the others within their limits.
pub(super) async fn guarded(Extension(peer): Extension<Arc<Peer>>, request: Request, next: Next) -> Response {
    if !may_send(peer.role, request.uri().path()) {
        return (StatusCode::FORBIDDEN, format!("{} {WORKER_REFUSED}", peer.node)).into_response();
    }
    let (head, body) = request.into_parts();
    match collected(body, BODY_WITHIN).await {
        Ok(bytes) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        // The rest of the body is not read, so the connection cannot be used again.
        Err(denied) => ([(header::CONNECTION, "close")], denied).into_response(),
    }
}

/// Managers may send all requests; a worker fetches the volumes that were offered to it.
fn may_send(role: Role, path: &str) -> bool {
    role == Role::Manager || [VOLUME, SUM].contains(&path)
}

async fn collected(body: Body, within: Duration) -> Result<Bytes, Denied> {
    match tokio::time::timeout(within, Limited::new(body, BODY_AT_MOST).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the request is larger than {BODY_AT_MOST} bytes")))
        }
        Ok(Err(error)) => Err((StatusCode::BAD_REQUEST, format!("cannot read the request: {error}"))),
        Err(_elapsed) => Err((StatusCode::REQUEST_TIMEOUT, "the request was not complete in time".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{ATTEST, CLAIM, FETCH, OFFER, OUTPUT, REPORT};
    use super::*;
    use axum::Router;
    use axum::middleware;
    use axum::routing::post;
    use futures_util::stream;
    use model::swarm::NodeId;
    use std::convert::Infallible;
    use tower::ServiceExt;

    const SOON: Duration = Duration::from_secs(30);

    /// A body that never arrives.
    fn pending() -> Body {
        Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())
    }

    #[test]
    fn a_worker_may_only_fetch_volumes() {
        for path in [REPORT, ATTEST, CLAIM, OUTPUT, OFFER, FETCH, "/"] {
            assert!(may_send(Role::Manager, path) && !may_send(Role::Worker, path), "{path}");
        }
        for path in [VOLUME, SUM] {
            assert!(may_send(Role::Manager, path) && may_send(Role::Worker, path), "{path}");
        }
    }

    #[tokio::test]
    async fn a_worker_is_refused_before_its_body_is_read() {
        let peer = Peer { cluster: "c".into(), node: NodeId("w".into()), role: Role::Worker };
        let routes = Router::new().route(REPORT, post(|_: Bytes| async {})).layer(middleware::from_fn(guarded));
        let routes: Router = routes.layer(Extension(Arc::new(peer)));
        let request = Request::post(REPORT).body(pending()).expect("a request");
        let response = tokio::time::timeout(SOON, routes.oneshot(request)).await.expect("at once").expect("a response");
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        let text = response.into_body().collect().await.expect("a body").to_bytes();
        assert!(text.ends_with(WORKER_REFUSED.as_bytes()), "{text:?}");
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_or_never_arrives_is_rejected() {
        let late = collected(pending(), Duration::from_millis(10)).await.expect_err("late");
        let large = collected(Body::from(vec![b' '; BODY_AT_MOST + 1]), SOON).await.expect_err("large");
        assert_eq!((late.0, large.0), (StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(collected(Body::from("{}"), SOON).await, Ok(Bytes::from_static(b"{}")));
    }

    #[tokio::test]
    async fn workers_do_not_take_the_places_of_managers() {
        let (places, mut taken) = (Places::new(), Vec::new());
        while let Some(place) = places.take(Role::Worker).await {
            taken.push(place);
        }
        assert_eq!(taken.len(), WORKERS_MOST);
        assert!(places.take(Role::Manager).await.is_some());
    }
}
