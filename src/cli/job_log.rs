//! The log of a governed job, by name: the daemon says where it stands, and it is read there by whoever asks.
//!
//! The daemon gives out an address and no bytes: who may read a log is decided by the file's or the engine's own rights.
//! Imports: api, config, host, model.

use super::block_on;
use crate::api::client::{Client, ClientError, segment};
use crate::api::wire::{ContainerDetail, LogAddress};
use crate::config;
use crate::host::docker::{Engine, EngineAddress, EngineError, LogFormat, LogPiece, LogPosition, logs, logs_so_far};
use crate::host::scope::{ScopeError, output};
use crate::host::tail::{self, ContainerFile, JsonLog};
use crate::model::{ContainerId, Directives};
use crate::term::exit::{Exit, Failure};
use futures_util::{Stream, StreamExt};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::pin;
use std::thread;
use std::time::Duration;

/// How often a log that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);

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

/// Where the bytes come from.
enum Input {
    /// Oldest first, and never none.
    Files(Vec<File>),
    Engine(Engine, LogFormat),
}

impl JobLog {
    /// The log from its beginning to where it ends now, in pieces as they are kept.
    ///
    /// # Errors
    /// The file or the engine cannot be read by this user, or `each` failed.
    pub fn pour(&self, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Failure> {
        match self.open()? {
            Input::Files(files) => files.iter().try_for_each(|file| self.pour_file(file, each)),
            Input::Engine(engine, format) => {
                block_on(self.pour_stream(pin!(logs_so_far(&engine, &self.id, format)), each))?
            }
        }
    }

    /// The log from its beginning, and what is added to it until the job ends.
    ///
    /// # Errors
    /// As [`JobLog::pour`].
    pub fn follow(&self, client: &Client, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Failure> {
        match self.open()? {
            Input::Files(mut files) => loop {
                let has_ended = block_on(self.has_ended(client))?;
                files.iter().try_for_each(|file| self.pour_file(file, each))?;
                let newest = files.pop();
                files = self.files_since(newest.as_ref()).unwrap_or_default();
                if has_ended && files.is_empty() {
                    return Ok(());
                }
                // What was written to it before it was renamed.
                if let Some(newest) = &newest {
                    self.pour_file(newest, each)?;
                }
                if files.is_empty() {
                    files.extend(newest);
                    thread::sleep(LOOK_EVERY);
                }
            },
            Input::Engine(engine, format) => {
                block_on(self.pour_stream(pin!(logs(&engine, &self.id, format, LogPosition::default())), each))?
            }
        }
    }

    /// What takes away what the engine put around each line.
    pub fn decoder(&self) -> impl FnMut(&[u8]) -> Vec<u8> + use<> {
        let mut decoder = self.wrapped.then(JsonLog::default);
        move |bytes| match &mut decoder {
            Some(decoder) => {
                let mut lines = Vec::new();
                decoder.push(bytes, &mut lines);
                lines
            }
            None => bytes.to_vec(),
        }
    }

    fn open(&self) -> Result<Input, Failure> {
        match self.address.kind.as_str() {
            "engine" => block_on(self.engine())?,
            _ => self.files_since(None).map(Input::Files),
        }
    }

    /// The files that hold the log, oldest first: all of them, or those that were begun after `known`. Engines rotate logs by
    /// renaming them.
    fn files_since(&self, known: Option<&File>) -> Result<Vec<File>, Failure> {
        let path = Path::new(&self.address.path);
        let file = match (self.address.kind.as_str(), self.address.pid) {
            ("file", _) => {
                return tail::files_since(path, known)
                    .map_err(|error| self.closed(&error.to_string(), error.is_denied()));
            }
            ("output", _) => output::open(path).map_err(|error| {
                let denied = matches!(&error, ScopeError::Output { source, .. } if is_denied(source));
                self.closed(&error.to_string(), denied)
            })?,
            ("inside", Some(pid)) => ContainerFile::new(Some(pid), &[], path).open().map_err(|error| {
                let next = format!("`sudo flowctl logs {}`: what lies inside a container is root's to read", self.name);
                Failure::new(Exit::Failed, error.to_string(), next)
            })?,
            (other, _) => {
                let message = format!("the daemon says that the log of {} is at a place of kind `{other}`", self.name);
                return Err(Failure::new(
                    Exit::Failed,
                    message,
                    "compare `flowctl --version` with `flowcond --version`",
                ));
            }
        };
        Ok(if known.is_some_and(|known| tail::is_same_file(known, &file)) { Vec::new() } else { vec![file] })
    }

    fn pour_file(&self, file: &File, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Failure> {
        let mut unwritten = Ok(());
        let read = read(file, &mut |bytes| {
            if unwritten.is_ok() {
                unwritten = each(bytes);
            }
        });
        read.map_err(|error| self.unreadable(&error))?;
        Ok(unwritten?)
    }

    async fn pour_stream(
        &self,
        mut pieces: impl Stream<Item = Result<LogPiece, EngineError>> + Unpin,
        each: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Failure> {
        while let Some(piece) = pieces.next().await {
            each(&piece.map_err(|error| self.refused(&error.to_string()))?.bytes)?;
        }
        Ok(())
    }

    async fn has_ended(&self, client: &Client) -> bool {
        let path = format!("/v1/containers/{}", segment(self.id.as_str()));
        matches!(client.get::<ContainerDetail>(&path).await, Err(ClientError::Refused { status: 404, .. }))
    }

    async fn engine(&self) -> Result<Input, Failure> {
        let address = EngineAddress::parse(&self.address.path).map_err(|error| self.refused(&error.to_string()))?;
        let engine = Engine::new(address);
        let info = engine.info().await.map_err(|error| self.refused(&error.to_string()))?;
        let container = engine.inspect(&self.id, info.name).await.map_err(|error| self.refused(&error.to_string()))?;
        Ok(Input::Engine(engine, container.log_format))
    }

    fn refused(&self, why: &str) -> Failure {
        let next = format!("`sudo flowctl logs {}`, or join the group that may use the engine", self.name);
        Failure::new(Exit::Failed, why, next)
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
