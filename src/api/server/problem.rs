//! Why a request was not done, as an HTTP answer: one closed set, one JSON form, each with the next thing to do.
//!
//! Imports: wire types and the contract with the daemon.

use crate::api::wire::{Problem, ProblemDetail};
use crate::api::{Command, Refusal};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Everything that can be wrong with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// No such path.
    NoRoute(String),
    /// The path exists, the method does not.
    WrongMethod(String),
    /// The peer may not do this.
    Denied(String),
    /// No governed container answers to this name.
    NoContainer(String),
    /// The history does not reach there, or does not know the job.
    NotInHistory(String),
    /// Several containers answer to this name; these are their short ids.
    Ambiguous(String, Vec<String>),
    /// The request cannot be understood.
    BadRequest(String),
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The body did not arrive in time.
    BodyTimeout,
    /// The daemon did not answer in time.
    Timeout,
    /// Too many connections, streams or commands at once.
    Busy(String),
    /// The daemon is going down.
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
            Fault::NoRoute(path) => format!("there is nothing at {path}"),
            Fault::WrongMethod(method) => format!("this path does not take {method}"),
            Fault::Denied(why) => why.clone(),
            Fault::NoContainer(name) => format!("no governed container is called {name}"),
            Fault::Ambiguous(name, ids) => format!("{name} may be any of {}", ids.join(", ")),
            Fault::BadRequest(why) | Fault::NotInHistory(why) => why.clone(),
            Fault::TooLarge(limit) => format!("the request's body is larger than {limit} bytes"),
            Fault::BodyTimeout => "the request's body did not arrive in time".to_owned(),
            Fault::Timeout => "the daemon did not answer in time; the command may still be carried out".to_owned(),
            Fault::Busy(why) => why.clone(),
            Fault::Stopping => "the daemon is stopping".to_owned(),
            Fault::Refused(refusal) | Fault::OfACluster(refusal) => refusal.to_string(),
        }
    }

    fn next(&self) -> &'static str {
        match self {
            Fault::NoRoute(_) | Fault::WrongMethod(_) => "`GET /openapi.json` lists what there is",
            Fault::Denied(_) => {
                "run it as root (sudo); to read, join the group `flowcon` (`sudo usermod -aG flowcon USER`, then log in again); to change, be listed in `api.admins` of flowcond.toml"
            }
            Fault::NoContainer(_) | Fault::Refused(Refusal::NotFound(_)) => {
                "`flowctl ps` lists the governed containers; one is governed when it was started with `--label flowcon.enable=true`"
            }
            Fault::Refused(Refusal::NotOnEngine(_)) => "`docker ps` (`podman ps`) lists the running containers",
            Fault::Refused(Refusal::Invalid(_)) => "`flowctl help labels` lists the labels",
            Fault::OfACluster(_) => {
                "`flowctl cluster status` shows nodes and jobs; `flowctl help cluster` tells what may be asked"
            }
            Fault::NotInHistory(_) => "`flowctl history` lists the jobs and times that are kept",
            Fault::Ambiguous(..) => "use one of the ids",
            Fault::BadRequest(_) | Fault::TooLarge(_) => "`GET /openapi.json` describes each request",
            Fault::BodyTimeout => "send the whole request at once",
            Fault::Timeout => "`flowctl status` shows whether it was done",
            Fault::Busy(_) => "try again in a second; close streams that are not needed",
            Fault::Stopping => "try again when it is up: `systemctl status flowcond`",
            Fault::Refused(Refusal::Refused(_)) => "`flowctl status` shows how things stand",
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

/// What the command is called in a message to somebody who may not give it.
pub(super) fn describe(command: &Command) -> &'static str {
    match command {
        Command::Pause(_) => "releasing",
        Command::Resume(_) => "resuming",
        Command::Pin { .. } => "pinning a share",
        Command::Unpin(_) => "unpinning a share",
        Command::Adopt { .. } => "adopting a container",
        Command::Disown(_) => "disowning a container",
        Command::Record { .. } => "taking a record of what is known of a job",
        Command::Expect { .. } => "leaving a record of what is known of a job",
        Command::Restore => "restoring the original limits",
        Command::SetPolicy { .. } => "changing the policy",
        Command::Reload => "reloading the configuration",
    }
}
