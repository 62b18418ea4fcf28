//! Errors of requests as HTTP answers: a closed set in one JSON form, each with a suggested next step.

use crate::Refusal;
use crate::wire::{Problem, ProblemDetail};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

// Next steps that several errors suggest, or that are long.
const PATHS: &str = "`GET /openapi.json` lists all paths and methods";
const REQUESTS: &str = "`GET /openapi.json` describes each request";
const CONTAINERS: &str = "`flowctl ps` lists the governed containers: those started with `--label flowcon.enable=true`";
const ACCESS: &str = "run it as root (sudo); for read-only access, join the group `flowcon` (`sudo usermod -aG flowcon \
                      USER`, then log in again); for full control, add the user to `api.admins` in flowcond.toml, or for \
                      flowcoord to `admins` in flowcoord.toml";
const CLUSTER: &str = "`flowctl cluster status` shows nodes and jobs; `flowctl help cluster` describes the commands";

/// An error of a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Fault {
    /// No such path.
    #[error("no such path: {0}")]
    NoRoute(String),
    /// The path exists, the method does not.
    #[error("this path does not support the method {0}")]
    WrongMethod(String),
    /// The peer lacks the right.
    #[error("{0}")]
    Denied(String),
    /// No governed container has this name.
    #[error("no governed container is called {0}")]
    NoContainer(String),
    /// The history does not contain the job or the time.
    #[error("{0}")]
    NotInHistory(String),
    /// Several containers match this name; their ids are separated by commas.
    #[error("{name} is ambiguous; it matches {ids}")]
    Ambiguous { name: String, ids: String },
    /// The request is invalid.
    #[error("{0}")]
    BadRequest(String),
    /// The body is larger than this many bytes.
    #[error("the request body is larger than {0} bytes")]
    TooLarge(usize),
    /// The body did not arrive in time.
    #[error("the request body did not arrive in time")]
    BodyTimeout,
    /// The daemon did not answer in time.
    #[error("the daemon did not answer in time; it may still run the command")]
    Timeout,
    /// Too many concurrent connections, streams or commands.
    #[error("{0}")]
    Busy(String),
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Stopping,
    /// The daemon refused the command.
    #[error("{0}")]
    Refused(Refusal),
    /// The coordinator refused the command.
    #[error("{0}")]
    OfACluster(Refusal),
}

impl From<QueryRejection> for Fault {
    fn from(rejection: QueryRejection) -> Fault {
        Fault::BadRequest(rejection.body_text())
    }
}

impl From<PathRejection> for Fault {
    fn from(rejection: PathRejection) -> Fault {
        Fault::BadRequest(rejection.body_text())
    }
}

impl Fault {
    /// Returns the status, the code and the next step.
    fn parts(&self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Fault::NoRoute(_) => (StatusCode::NOT_FOUND, "no-route", PATHS),
            Fault::WrongMethod(_) => (StatusCode::METHOD_NOT_ALLOWED, "wrong-method", PATHS),
            Fault::Denied(_) => (StatusCode::FORBIDDEN, "denied", ACCESS),
            Fault::NoContainer(_) => (StatusCode::NOT_FOUND, "not-found", CONTAINERS),
            Fault::NotInHistory(_) => {
                (StatusCode::NOT_FOUND, "not-found", "`flowctl history` lists the recorded jobs and times")
            }
            Fault::Ambiguous { .. } => (StatusCode::CONFLICT, "ambiguous", "use one of these ids"),
            Fault::BadRequest(_) => (StatusCode::BAD_REQUEST, "bad-request", REQUESTS),
            Fault::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", REQUESTS),
            Fault::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "timeout", "send the whole request at once"),
            Fault::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout", "`flowctl status` shows whether it was done"),
            Fault::Busy(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "try again in a second; `ss -xp` lists the programs that are connected",
            ),
            Fault::Stopping => (
                StatusCode::SERVICE_UNAVAILABLE,
                "stopping",
                "try again when it is running: `systemctl status flowcond`",
            ),
            Fault::Refused(refusal) => parts_of(refusal),
            Fault::OfACluster(refusal) => {
                let (status, code, _) = parts_of(refusal);
                (status, code, CLUSTER)
            }
        }
    }
}

/// Returns the status and the code of a refused command, and the next step if the daemon refused it.
fn parts_of(refusal: &Refusal) -> (StatusCode, &'static str, &'static str) {
    match refusal {
        Refusal::NotFound(_) => (StatusCode::NOT_FOUND, "not-found", CONTAINERS),
        Refusal::NotOnEngine(_) => {
            (StatusCode::NOT_FOUND, "not-found", "`docker ps` (`podman ps`) lists the running containers")
        }
        Refusal::Invalid(_) => (StatusCode::BAD_REQUEST, "bad-request", "`flowctl help labels` lists the labels"),
        Refusal::Refused(_) => (StatusCode::CONFLICT, "refused", "`flowctl status` shows the current state"),
        Refusal::Failed(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "failed",
            "`flowctl doctor` looks for the cause; the daemon's log has the details",
        ),
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, code, next) = self.parts();
        let error = ProblemDetail { code: code.to_owned(), message: self.to_string(), next: next.to_owned() };
        let mut response = (status, Json(Problem { error })).into_response();
        if matches!(self, Fault::Busy(_)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
