//! Limits for every request: size and time of the body, time of the answer; and answers to unknown routes.

use super::problem::Fault;
use super::services;
use super::shared::{ApiLimits, Counters};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, body};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use std::sync::Arc;

/// Limits of requests, and counters of answers.
#[derive(Clone)]
pub(super) struct Bounds {
    pub(super) limits: ApiLimits,
    pub(super) counters: Arc<Counters>,
}

/// Applies the limits to routes.
pub(super) fn within(bounds: Bounds, routes: Router) -> Router {
    routes
        .fallback(|uri: Uri| async move { Fault::NoRoute(uri.path().to_owned()) })
        .method_not_allowed_fallback(|method: Method| async move { Fault::WrongMethod(method.to_string()) })
        .layer(middleware::from_fn_with_state(bounds, bounded))
}

/// Reads the body within its size and time limits, then runs the handler within its time limit.
async fn bounded(State(bounds): State<Bounds>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let at_most = services::body_at_most(&head).unwrap_or(bounds.limits.body);
    let answer = match collected(body, at_most, &bounds.limits).await {
        Ok(bytes) => {
            let request = Request::from_parts(head, Body::from(bytes));
            match tokio::time::timeout(bounds.limits.request_time, next.run(request)).await {
                Ok(response) => response,
                Err(_elapsed) => Fault::Timeout.into_response(),
            }
        }
        // The rest of the body is not read, so the connection cannot be used again.
        Err(fault) => ([(header::CONNECTION, "close")], fault).into_response(),
    };
    bounds.counters.answered(answer.status());
    answer
}

async fn collected(body: body::Body, at_most: usize, limits: &ApiLimits) -> Result<Bytes, Fault> {
    let collecting = Limited::new(body, at_most).collect();
    match tokio::time::timeout(limits.request_time, collecting).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Fault::TooLarge(at_most)),
        Ok(Err(error)) => Err(Fault::BadRequest(format!("cannot read the request body: {error}"))),
        Err(_elapsed) => Err(Fault::BodyTimeout),
    }
}
