//! Errors of requests as HTTP answers: a closed set in one JSON form, each with a suggested next step.
//!
//! Imports: wire types and the interface with the daemon.

use crate::api::wire::{Problem, ProblemDetail};
use crate::api::{Command, Refusal};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// An error of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// No such path.
    NoRoute(String),
    /// The path exists, the method does not.
    WrongMethod(String),
    /// The peer lacks the right.
    Denied(String),
    /// No governed container has this name.
    NoContainer(String),
    /// The history does not contain the job or the time.
    NotInHistory(String),
    /// Several containers match this name; the list has their ids.
    Ambiguous(String, Vec<String>),
    /// The request is invalid.
    BadRequest(String),
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The body did not arrive in time.
    BodyTimeout,
    /// The daemon did not answer in time.
    Timeout,
    /// Too many concurrent connections, streams or commands.
    Busy(String),
    /// The daemon is stopping.
    Stopping,
    /// The daemon refused the command.
    Refused(Refusal),
    /// The coordinator refused the command.
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
    fn status(&self) -> StatusCode {
        match self {
            Fault::OfACluster(refusal) => Fault::Refused(refusal.clone()).status(),
            Fault::NoRoute(_)
            | Fault::NoContainer(_)
            | Fault::NotInHistory(_)
            | Fault::Refused(Refusal::NotFound(_) | Refusal::NotOnEngine(_)) => StatusCode::NOT_FOUND,
            Fault::WrongMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Fault::Denied(_) => StatusCode::FORBIDDEN,
            Fault::Ambiguous(..) | Fault::Refused(Refusal::Refused(_)) => StatusCode::CONFLICT,
            Fault::BadRequest(_) | Fault::Refused(Refusal::Invalid(_)) => StatusCode::BAD_REQUEST,
            Fault::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Fault::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Fault::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Fault::Busy(_) | Fault::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Fault::Refused(Refusal::Failed(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Fault::OfACluster(refusal) => Fault::Refused(refusal.clone()).code(),
            Fault::NoRoute(_) => "no-route",
            Fault::WrongMethod(_) => "wrong-method",
            Fault::Denied(_) => "denied",
            Fault::NoContainer(_)
            | Fault::NotInHistory(_)
            | Fault::Refused(Refusal::NotFound(_) | Refusal::NotOnEngine(_)) => "not-found",
            Fault::Ambiguous(..) => "ambiguous",
            Fault::BadRequest(_) | Fault::Refused(Refusal::Invalid(_)) => "bad-request",
            Fault::TooLarge(_) => "too-large",
            Fault::BodyTimeout | Fault::Timeout => "timeout",
            Fault::Busy(_) => "busy",
            Fault::Stopping => "stopping",
            Fault::Refused(Refusal::Refused(_)) => "refused",
            Fault::Refused(Refusal::Failed(_)) => "failed",
        }
    }

    fn message(&self) -> String {
        match self {
            Fault::NoRoute(path) => format!("no such path: {path}"),
            Fault::WrongMethod(method) => format!("this path does not support the method {method}"),
            Fault::Denied(why) => why.clone(),
            Fault::NoContainer(name) => format!("no governed container is called {name}"),
            Fault::Ambiguous(name, ids) => format!("{name} is ambiguous; it matches {}", ids.join(", ")),
            Fault::BadRequest(why) | Fault::NotInHistory(why) => why.clone(),
            Fault::TooLarge(limit) => format!("the request body is larger than {limit} bytes"),
            Fault::BodyTimeout => "the request body did not arrive in time".to_owned(),
            Fault::Timeout => "the daemon did not answer in time; it may still run the command".to_owned(),
            Fault::Busy(why) => why.clone(),
            Fault::Stopping => "the daemon is stopping".to_owned(),
            Fault::Refused(refusal) | Fault::OfACluster(refusal) => refusal.to_string(),
        }
    }

    fn next(&self) -> &'static str {
        match self {
            Fault::NoRoute(_) | Fault::WrongMethod(_) => "`GET /openapi.json` lists all paths and methods",
            Fault::Denied(_) => {
                "run it as root (sudo); for read-only access, join the group `flowcon` (`sudo usermod -aG flowcon USER`, then log in again); for full control, add the user to `api.admins` in flowcond.toml"
            }
            Fault::NoContainer(_) | Fault::Refused(Refusal::NotFound(_)) => {
                "`flowctl ps` lists the governed containers: those started with `--label flowcon.enable=true`"
            }
            Fault::Refused(Refusal::NotOnEngine(_)) => "`docker ps` (`podman ps`) lists the running containers",
            Fault::Refused(Refusal::Invalid(_)) => "`flowctl help labels` lists the labels",
            Fault::OfACluster(_) => {
                "`flowctl cluster status` shows nodes and jobs; `flowctl help cluster` describes the commands"
            }
            Fault::NotInHistory(_) => "`flowctl history` lists the recorded jobs and times",
            Fault::Ambiguous(..) => "use one of these ids",
            Fault::BadRequest(_) | Fault::TooLarge(_) => "`GET /openapi.json` describes each request",
            Fault::BodyTimeout => "send the whole request at once",
            Fault::Timeout => "`flowctl status` shows whether it was done",
            Fault::Busy(_) => "try again in a second; close streams that are not needed",
            Fault::Stopping => "try again when it is running: `systemctl status flowcond`",
            Fault::Refused(Refusal::Refused(_)) => "`flowctl status` shows the current state",
            Fault::Refused(Refusal::Failed(_)) => {
                "`flowctl doctor` looks for the cause; the daemon's log has the details"
            }
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let detail =
            ProblemDetail { code: self.code().to_owned(), message: self.message(), next: self.next().to_owned() };
        let mut response = (self.status(), Json(Problem { error: detail })).into_response();
        if matches!(self, Fault::Busy(_)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Returns the action of a command for the error message of a peer without the right.
pub(super) fn describe(command: &Command) -> &'static str {
    match command {
        Command::Pause(_) => "releasing containers",
        Command::Resume(_) => "resuming containers",
        Command::Pin { .. } => "pinning a share",
        Command::Unpin(_) => "unpinning a share",
        Command::Adopt { .. } => "adopting a container",
        Command::Disown(_) => "disowning a container",
        Command::Record { .. } => "reading a job's learning record",
        Command::Expect { .. } => "storing a job's learning record",
        Command::Restore => "restoring the original limits",
        Command::SetPolicy { .. } => "changing the policy",
        Command::Reload => "reloading the configuration",
    }
}
