//! `/openapi.json`: a description of the API, generated from its wire types and handlers.

use super::shared::json_response;
use super::snapshot::json;
use super::{events, history, metrics, node, recording, services};
use crate::wire;
use axum::response::Response;
use hyper::body::Bytes;
use std::sync::LazyLock;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "flowcond",
        description = "Status and commands of the node governor, on a Unix socket. Root and configured users have full control; members of the group `flowcon` have read-only access."
    ),
    paths(
        node::status,
        node::containers,
        node::container,
        node::release_container,
        node::govern_container,
        node::pin_container,
        node::unpin_container,
        node::adopt_container,
        node::disown_container,
        node::users,
        node::release,
        node::govern,
        node::restore,
        node::reload,
        node::policy,
        node::configuration,
        node::set_policy,
        events::stream,
        history::jobs,
        history::samples,
        history::node,
        history::blocks,
        history::users,
        history::events,
        history::at,
        services::record,
        services::expect,
        recording::stream,
        metrics::scrape,
        document
    ),
    components(schemas(wire::Gap))
)]
struct Description;

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| json(&Description::openapi()));

/// The description of this API.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json")))]
pub(super) async fn document() -> Response {
    json_response(DOCUMENT.clone())
}
