//! Reads the log of a governed job: the daemon returns its address, and flowctl reads it there.
//!
//! The daemon returns no contents: the permissions of the file or the engine decide who may read a log.

use super::block_on;
use api::client::{Client, ClientError, segment};
use api::wire::{ContainerDetail, LogAddress};
use docker::{Engine, EngineAddress, EngineError, LogFormat, LogPiece, LogPosition, logs, logs_so_far};
use futures_util::{Stream, StreamExt};
use model::{ContainerId, Hints};
use scope::{ScopeError, output};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::pin::pin;
use std::thread;
use std::time::Duration;
use tail::{ContainerFile, TailError};
use term::exit::{Exit, Failure};
use traininglog::LogFile;

/// Polling interval of a followed log.
const POLL_EVERY: Duration = Duration::from_millis(300);

/// Location of a governed job's log.
pub(super) struct JobLog {
    id: ContainerId,
    name: String,
    address: LogAddress,
    /// How its engine or runtime wraps each line, if it does.
    wrapping: Option<LogFile>,
    /// The job's labels that control how the log is parsed.
    pub hints: Hints,
    /// Whether the job has ended, so that its log may be gone.
    ended: bool,
}

/// Asks the daemon for the log of job `name`.
///
/// # Errors
/// The daemon is unreachable, has no such job, or the job has no stored log.
pub(super) fn find(client: &Client, name: &str) -> Result<JobLog, Failure> {
    let path = format!("/v1/containers/{}", segment(name));
    let detail: ContainerDetail = block_on(client.get(&path))?.map_err(|error| not_found(name, error))?;
    let ended = detail.container.ended.is_some();
    let (name, reading) = (detail.container.name, detail.explanation.reading);
    let address = reading.log.ok_or_else(|| {
        let why = format!("{name} has no stored log: {}", reading.source);
        Failure::new(
            Exit::NotFound,
            why,
            "start it with a log driver that stores logs, or with the label flowcon.log=PATH",
        )
    })?;
    let (directives, _) = config::directives(&reading.labels);
    let wrapping = LogFile::named(&reading.source);
    Ok(JobLog { id: ContainerId::new(&detail.container.id), name, address, wrapping, hints: directives.hints, ended })
}

/// The failure for a name that is neither a file nor a known job.
fn not_found(name: &str, error: ClientError) -> Failure {
    let missing = matches!(&error, ClientError::Refused { status: 404, .. } | ClientError::Unreachable { .. });
    let failure = Failure::from(error);
    if !missing {
        return failure;
    }
    if Path::new(name).exists() {
        let message = format!("{name} is a file; only the log of a job is followed, and {}", failure.message);
        return Failure { message, next: format!("`tail -f {name}` follows a file"), ..failure };
    }
    let message = format!("there is no file {name}, and {}", failure.message);
    let next = format!("name a file that exists, or `-` for standard input; for a job: {}", failure.next);
    Failure { message, next, ..failure }
}

/// Source of the bytes.
enum Input {
    /// Oldest first; never empty.
    Files(Vec<File>),
    Engine(Engine, LogFormat),
}

impl JobLog {
    /// Passes the log to `each`, from its beginning to its current end, as stored.
    ///
    /// # Errors
    /// The file or the engine cannot be read by this user, or `each` failed.
    pub(crate) fn pour(&self, each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Failure> {
        match self.open()? {
            Input::Files(files) => files.iter().try_for_each(|file| self.pour_file(file, each)),
            Input::Engine(engine, format) => {
                block_on(self.pour_stream(pin!(logs_so_far(&engine, &self.id, format)), each))?
            }
        }
    }

    /// Passes the log to `each`, from its beginning until the job ends.
    ///
    /// # Errors
    /// As [`JobLog::pour`].
    pub(crate) fn follow(
        &self,
        client: &Client,
        each: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Failure> {
        match self.open()? {
            Input::Files(mut files) => loop {
                let has_ended = block_on(self.has_ended(client))?;
                files.iter().try_for_each(|file| self.pour_file(file, each))?;
                let newest = files.pop();
                files = self.files_since(newest.as_ref()).unwrap_or_default();
                if has_ended && files.is_empty() {
                    return Ok(());
                }
                // Read what was written before the file was renamed.
                if let Some(newest) = &newest {
                    self.pour_file(newest, each)?;
                }
                if files.is_empty() {
                    files.extend(newest);
                    thread::sleep(POLL_EVERY);
                }
            },
            Input::Engine(engine, format) => {
                block_on(self.pour_stream(pin!(logs(&engine, &self.id, format, LogPosition::default())), each))?
            }
        }
    }

    /// Decoder that removes the engine's wrapping of each line.
    pub(crate) fn decoder(&self) -> impl FnMut(&[u8]) -> Vec<u8> + use<> {
        let mut decoder = self.wrapping;
        move |bytes| match &mut decoder {
            Some(decoder) => {
                let mut lines = Vec::new();
                decoder.push(bytes, |text| lines.extend_from_slice(text));
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

    /// The files of the log, oldest first: all of them, or those created after `known`. Engines rotate logs by renaming them.
    fn files_since(&self, known: Option<&File>) -> Result<Vec<File>, Failure> {
        let path = Path::new(&self.address.path);
        let file = match (self.address.kind.as_str(), self.address.pid) {
            ("file", _) => {
                return tail::files_since(path, known).map_err(|error| match error {
                    TailError::Missing { .. } if self.ended => self.gone("its container was removed"),
                    error => self.read_failure(&error.to_string(), error.is_denied()),
                });
            }
            // The number of its process may belong to another process by now.
            ("output", _) if self.ended => return Err(self.gone("its `flowctl run` had its output")),
            ("inside", _) if self.ended => return Err(self.gone("its file was inside the container")),
            ("output", _) => output::open(path).map_err(|error| {
                let denied = matches!(&error, ScopeError::Output { source, .. } if is_denied(source));
                self.read_failure(&error.to_string(), denied)
            })?,
            ("inside", Some(pid)) => ContainerFile::new(Some(pid), &[], path).open().map_err(|error| {
                let next = self.as_root("only root can read files inside a container");
                Failure::new(Exit::Failed, error.to_string(), next)
            })?,
            (other, _) => {
                let message = format!("unknown kind `{other}` of the log of {}", self.name);
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
        rewind_if_truncated(file).map_err(|error| self.unreadable(&error))?;
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
            each(&piece.map_err(|error| self.engine_failure(&error.to_string()))?.bytes)?;
        }
        Ok(())
    }

    async fn has_ended(&self, client: &Client) -> bool {
        let path = format!("/v1/containers/{}", segment(self.id.as_str()));
        match client.get::<ContainerDetail>(&path).await {
            Ok(detail) => detail.container.ended.is_some(),
            Err(error) => matches!(error, ClientError::Refused { status: 404, .. }),
        }
    }

    async fn engine(&self) -> Result<Input, Failure> {
        let address =
            EngineAddress::parse(&self.address.path).map_err(|error| self.engine_failure(&error.to_string()))?;
        let engine = Engine::new(address);
        let info = engine.info().await.map_err(|error| self.engine_failure(&error.to_string()))?;
        let format = engine.log_format(&self.id, info.name).await.map_err(|error| {
            if error.is_missing() {
                self.gone("its container was removed")
            } else {
                self.engine_failure(&error.to_string())
            }
        })?;
        Ok(Input::Engine(engine, format))
    }

    /// The failure for a log that is gone with its job.
    fn gone(&self, why: &str) -> Failure {
        let message = format!("the log of {} is gone: it has ended, and {why}", self.name);
        let next = match self.address.kind.as_str() {
            "output" => "next time, keep it: `flowctl run -- COMMAND 2>&1 | tee FILE`".to_owned(),
            "inside" => format!("while the container exists: `docker cp {}:{} -`", self.name, self.address.path),
            _ => "next time, start it without --rm".to_owned(),
        };
        Failure::new(Exit::NotFound, message, next)
    }

    fn engine_failure(&self, why: &str) -> Failure {
        let next = self.as_root("or join the group of the engine's socket");
        Failure::new(Exit::Failed, why, next)
    }

    /// The next step of a user whose permissions may not suffice; root's do.
    fn as_root(&self, otherwise: &str) -> String {
        if rustix::process::geteuid().is_root() {
            return format!("`flowctl explain {}` shows what the daemon reads", self.name);
        }
        format!("`sudo flowctl logs {}`; {otherwise}", self.name)
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        self.read_failure(&error.to_string(), is_denied(error))
    }

    fn read_failure(&self, why: &str, denied: bool) -> Failure {
        let message = format!("cannot read {}, the log of {}: {why}", self.address.path, self.name);
        let exit = if denied { Exit::Denied } else { Exit::Failed };
        let next = self.as_root(&format!("`flowctl explain {}` shows what the daemon reads", self.name));
        Failure::new(exit, message, next)
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Goes back to the beginning of a file that is shorter than what was read of it: it was truncated in place, as by `max-size` without
/// `max-file`, or by a script that opens its log again.
fn rewind_if_truncated(mut file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() < file.stream_position()? {
        file.rewind()?;
    }
    Ok(())
}

/// Reads to the end, including data appended meanwhile.
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
