//! `/v1/recording`: the daemon's ticks from now on, as JSON lines for `flowsim replay`.

use super::access::Peer;
use super::problem::Fault;
use super::shared::Api;
use crate::RecordingRequest;
use crate::wire::Problem;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Maximum lines that a reader may lag behind: eight ticks.
const LINES_AHEAD: usize = 8;

/// Observations and decisions of each tick from now on. The first line is the state of the governor.
#[utoipa::path(get, path = "/v1/recording",
    responses((status = 200, body = String, content_type = "application/x-ndjson"), (status = 503, body = Problem)))]
pub(super) async fn stream(State(api): State<Arc<Api>>, Extension(peer): Extension<Peer>) -> Result<Response, Fault> {
    let slot = api.stream_place(&peer)?;
    let (lines, mut queue) = mpsc::channel(LINES_AHEAD);
    api.feed.recordings.try_send(RecordingRequest { lines }).map_err(|error| match error {
        TrySendError::Full(_) => Fault::Busy("too many recordings are requested at once".to_owned()),
        TrySendError::Closed(_) => Fault::Stopping,
    })?;
    let header = queue.recv().await.ok_or_else(|| Fault::Busy("too many recordings are open".to_owned()))?;
    let mut closed = api.closed.clone();
    let rest = stream::unfold((queue, slot), |(mut queue, slot)| async move {
        queue.recv().await.map(|line| (line, (queue, slot)))
    })
    .take_until(async move {
        // An error means that the server has stopped, which also ends the stream.
        let _ = closed.wait_for(|closed| *closed).await;
    });
    let lines = stream::iter([header]).chain(rest).map(Ok::<_, Infallible>);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}
