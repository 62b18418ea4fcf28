//! What is known of a Swarm service's job, which the agents of a cluster carry along when the job moves. Imports: siblings, axum.

use super::access::{Peer, Right};
use super::commands;
use super::problem::Fault;
use super::shared::{Api, json_response};
use crate::api::Command;
use crate::api::wire::{Done, Problem};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{Method, request};
use axum::response::Response;
use hyper::body::Bytes;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Bytes of a record; that of a long log has an eighth of it.
const RECORD_AT_MOST: usize = 64 * 1024;
/// Swarm's ids have 25 letters and digits.
const ID_LONGEST: usize = 64;

/// How large the body of this request may be, if that is another size than usual: whoever may leave a record.
pub(super) fn body_at_most(head: &request::Parts) -> Option<usize> {
    let may_change = head.extensions.get::<Peer>().is_some_and(|peer| peer.right == Right::Change);
    let leaves_one = head.method == Method::PUT && head.uri.path().starts_with("/v1/services/");
    (may_change && leaves_one).then_some(RECORD_AT_MOST)
}

type Service = Result<Path<String>, PathRejection>;

fn id(service: Service) -> Result<String, Fault> {
    let Path(id) = service?;
    let is_one = (1..=ID_LONGEST).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_one { Ok(id) } else { Err(Fault::BadRequest("this is not the id of a Swarm service".to_owned())) }
}

/// What is known of the learning of a service's job, also when it ended a while ago: for the daemon of the node to which it moves.
#[utoipa::path(get, path = "/v1/services/{service}/record", params(("service" = String, Path, description = "id of a Swarm service")),
    responses((status = 200, body = Object), (status = 400, body = Problem), (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn record(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    service: Service,
) -> Result<Response, Fault> {
    let service = id(service)?;
    Ok(json_response(commands::answered(&api, &peer, Command::Record { service }).await?.into()))
}

/// Keep what the daemon of another node told until a container of the service begins here, an hour at most. Its job goes on with that.
#[utoipa::path(put, path = "/v1/services/{service}/record", params(("service" = String, Path, description = "id of a Swarm service")),
    request_body(content = Object, description = "as another daemon of the same version told it, at most 64 KiB"),
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
