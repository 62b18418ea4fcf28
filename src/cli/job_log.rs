//! The log of a governed job, by name: the daemon says where it stands, and it is read there by whoever asks.
//!
//! The daemon gives out an address and no bytes: who may read a log is decided by the file's or the engine's own rights.
//! Imports: api, config, host, model.

use super::block_on;
use crate::api::client::{Client, ClientError, segment};
use crate::api::wire::{ContainerDetail, LogAddress};
use crate::config;
use crate::host::docker::{Engine, EngineAddress, logs_so_far};
use crate::host::scope::{ScopeError, output};
use crate::host::tail::{self, ContainerFile, JsonLog};
use crate::model::{ContainerId, Directives};
use crate::term::exit::{Exit, Failure};
use futures_util::StreamExt;
use std::io::{self, Read};
use std::path::Path;

/// A governed job's log, found but not read.
pub(super) struct JobLog {
    id: ContainerId,
    name: String,
    address: LogAddress,
    /// The engine wraps each line.
    wrapped: bool,
    /// What its labels ask of the reading.
    pub directives: Directives,
}

/// Asks the daemon where the log of `name` stands.
///
/// # Errors
/// No daemon answers, it knows no such job, or the job keeps no log.
pub(super) fn find(client: &Client, name: &str) -> Result<JobLog, Failure> {
    let path = format!("/v1/containers/{}", segment(name));
    let detail: ContainerDetail = block_on(client.get(&path))?.map_err(|error| neither(name, error))?;
    let (name, reading) = (detail.container.name, detail.explanation.reading);
    let address = reading.log.ok_or_else(|| {
        let why = format!("{name} keeps no log: {}", reading.source);
        Failure::new(
            Exit::NotFound,
            why,
            "start it with a log driver that keeps something, or label it flowcon.log=PATH",
        )
    })?;
    let (directives, _) = config::directives(&reading.labels);
    let wrapped = reading.source == "json-file";
    Ok(JobLog { id: ContainerId::new(&detail.container.id), name, address, wrapped, directives })
}

/// Neither a file nor a job that the daemon told of.
fn neither(name: &str, error: ClientError) -> Failure {
    let missing = matches!(&error, ClientError::Refused { status: 404, .. } | ClientError::Unreachable { .. });
    let failure = Failure::from(error);
    if !missing {
        return failure;
    }
    let message = format!("there is no file {name}, and {}", failure.message);
    let next = format!("name a file that exists, or `-` for standard input; for a job: {}", failure.next);
    Failure { message, next, ..failure }
}

impl JobLog {
    /// The log from its beginning, in pieces.
    ///
    /// # Errors
    /// The file or the engine cannot be read by this user.
    pub fn pour(&self, mut each: impl FnMut(&[u8])) -> Result<(), Failure> {
        let path = Path::new(&self.address.path);
        match (self.address.kind.as_str(), self.address.pid) {
            ("file", _) => {
                let file =
                    tail::open_on_host(path).map_err(|error| self.closed(&error.to_string(), error.is_denied()))?;
                read(file, &mut each).map_err(|error| self.unreadable(&error))
            }
            ("output", _) => {
                let file = output::open(path).map_err(|error| {
                    let denied = matches!(&error, ScopeError::Output { source, .. } if is_denied(source));
                    self.closed(&error.to_string(), denied)
                })?;
                read(file, &mut each).map_err(|error| self.unreadable(&error))
            }
            ("inside", Some(pid)) => {
                let file = ContainerFile::new(Some(pid), &[], path).open().map_err(|error| {
                    let next =
                        format!("`sudo flowctl logs {}`: what lies inside a container is root's to read", self.name);
                    Failure::new(Exit::Failed, error.to_string(), next)
                })?;
                read(file, &mut each).map_err(|error| self.unreadable(&error))
            }
            ("engine", _) => block_on(self.ask_engine(&mut each))?,
            (other, _) => {
                let message = format!("the daemon says that the log of {} is at a place of kind `{other}`", self.name);
                Err(Failure::new(Exit::Failed, message, "compare `flowctl --version` with `flowcond --version`"))
            }
        }
    }

    /// The same, without what the engine put around each line.
    ///
    /// # Errors
    /// As [`JobLog::pour`].
    pub fn pour_decoded(&self, mut each: impl FnMut(&[u8])) -> Result<(), Failure> {
        let mut decoder = self.wrapped.then(JsonLog::default);
        self.pour(|bytes| match &mut decoder {
            Some(decoder) => {
                let mut lines = Vec::new();
                decoder.push(bytes, &mut lines);
                each(&lines);
            }
            None => each(bytes),
        })
    }

    async fn ask_engine(&self, each: &mut impl FnMut(&[u8])) -> Result<(), Failure> {
        let failed = |message: String| {
            let next = format!("`sudo flowctl logs {}`, or join the group that may use the engine", self.name);
            Failure::new(Exit::Failed, message, next)
        };
        let address = EngineAddress::parse(&self.address.path).map_err(|error| failed(error.to_string()))?;
        let engine = Engine::new(address);
        let info = engine.info().await.map_err(|error| failed(error.to_string()))?;
        let container = engine.inspect(&self.id, info.name).await.map_err(|error| failed(error.to_string()))?;
        let mut pieces = Box::pin(logs_so_far(&engine, &self.id, container.log_format));
        while let Some(piece) = pieces.next().await {
            each(&piece.map_err(|error| failed(error.to_string()))?.bytes);
        }
        Ok(())
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        self.closed(&error.to_string(), is_denied(error))
    }

    fn closed(&self, why: &str, denied: bool) -> Failure {
        let message = format!("cannot read {}, the log of {}: {why}", self.address.path, self.name);
        let exit = if denied { Exit::Denied } else { Exit::Failed };
        let next = format!("`sudo flowctl logs {0}`; `flowctl explain {0}` says what the daemon read", self.name);
        Failure::new(exit, message, next)
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Reads to the end, whatever grows meanwhile.
pub(super) fn read(mut input: impl Read, each: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let mut chunk = vec![0; 256 * 1024];
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
