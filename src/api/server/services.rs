//! Learning records of Swarm services' jobs, which the agents of a cluster transfer when a job moves.

use super::access::{Peer, Right};
use super::commands;
use super::problem::Fault;
use super::shared::{Api, json_response};
use crate::Command;
use crate::wire::{Done, Problem};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{Method, request};
use axum::response::Response;
use hyper::body::Bytes;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Maximum bytes of a record; that of a long log has about an eighth.
const MAX_RECORD: usize = 64 * 1024;
/// Maximum characters of a service id; Swarm's ids have 25.
const MAX_ID: usize = 64;

/// Returns the size limit of a request that stores a record, if the peer has the right; `None` for the default limit.
pub(super) fn body_at_most(head: &request::Parts) -> Option<usize> {
    let may_change = head.extensions.get::<Peer>().is_some_and(|peer| peer.right == Right::Change);
    let stores_record = head.method == Method::PUT && head.uri.path().starts_with("/v1/services/");
    (may_change && stores_record).then_some(MAX_RECORD)
}

type Service = Result<Path<String>, PathRejection>;

fn id(service: Service) -> Result<String, Fault> {
    let Path(id) = service?;
    let is_id = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_id { Ok(id) } else { Err(Fault::BadRequest(format!("`{id}` is not the id of a Swarm service"))) }
}

/// The learning record of a service's job, also after its end, for the daemon of the node to which it moves.
#[utoipa::path(get, path = "/v1/services/{service}/record", params(("service" = String, Path, description = "id of a Swarm service")),
    responses((status = 200, body = Object), (status = 400, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn record(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    service: Service,
) -> Result<Response, Fault> {
    let command = Command::Record { service: id(service)? };
    let record = commands::answered(&api.feed.commands, &peer, command, Fault::Refused).await?;
    Ok(json_response(record.into()))
}

/// Keep the learning record from another node, at most for one hour, until a container of the service starts here and continues from it.
#[utoipa::path(put, path = "/v1/services/{service}/record", params(("service" = String, Path, description = "id of a Swarm service")),
    request_body(content = Object, description = "record from another daemon of the same version, at most 64 KiB"),
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 403, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn expect(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    service: Service,
    body: Bytes,
) -> Result<Response, Fault> {
    let service = id(service)?;
    let record = Value::from(commands::object::<Map<String, Value>>(&body, "a record")?).to_string();
    commands::carry_out(&api, &peer, Command::Expect { service, record }).await
}
