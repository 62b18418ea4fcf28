//! `/openapi.json`: the API described from the same wire types and handlers that serve it. Imports: siblings, utoipa.

use super::routes::json_response;
use super::snapshot::json;
use super::{events, history, metrics, recording, routes, wire};
use axum::response::Response;
use hyper::body::Bytes;
use std::sync::LazyLock;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "flowcond",
        description = "Status and commands of the node governor, on a Unix socket. Root and configured users change; members of the group `flowcon` read."
    ),
    paths(
        routes::status,
        routes::containers,
        routes::container,
        routes::pause_container,
        routes::resume_container,
        routes::pin_container,
        routes::unpin_container,
        routes::adopt_container,
        routes::disown_container,
        routes::pause,
        routes::resume,
        routes::restore,
        routes::reload,
        routes::policy,
        routes::set_policy,
        events::stream,
        history::jobs,
        history::moments,
        history::node,
        history::blocks,
        history::events,
        history::at,
        recording::stream,
        metrics::scrape,
        document
    ),
    components(schemas(wire::Gap))
)]
struct Description;

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| json(&Description::openapi()));

/// This description.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json")))]
pub(super) async fn document() -> Response {
    json_response(DOCUMENT.clone())
}
