//! The output of a container through the logs API, for log drivers whose files cannot be read.

use super::engine::Engine;
use super::error::EngineError;
use super::log_pieces::{LogDecoder, LogFormat, LogPiece, LogPosition};
use futures_util::Stream;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use model::ContainerId;
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

/// Follows the output of a container, starting at `from`.
///
/// Ends when the container ends, after a second request: an engine that follows a log can drop its last lines (Docker 20.10.24 with the
/// `local` driver dropped the last one in three of eight runs). A lost connection ends the stream with an error: call again with the
/// position of the last piece. No message is lost; if the clock was set back, messages of the repeated time are sent again.
pub fn logs(
    engine: &Engine,
    id: &ContainerId,
    format: LogFormat,
    from: LogPosition,
) -> impl Stream<Item = Result<LogPiece, EngineError>> + Send + use<> {
    read_from(engine, id, format, from, StreamStage::Following)
}

fn read_from(
    engine: &Engine,
    id: &ContainerId,
    format: LogFormat,
    from: LogPosition,
    begin: fn(LogPosition) -> StreamStage,
) -> impl Stream<Item = Result<LogPiece, EngineError>> + Send + use<> {
    let from = from.not_after(unix_ns());
    let stream = LogStream {
        operation: format!("read the logs of container {id}"),
        id: id.clone(),
        engine: engine.clone(),
        decoder: LogDecoder::new(format, from),
        pieces: VecDeque::new(),
        stage: begin(from),
    };
    futures_util::stream::unfold(stream, |mut stream| async {
        let item = stream.next().await.transpose()?;
        Some((item, stream))
    })
}

/// Returns the output of a container so far, from its beginning, without following it.
pub fn logs_so_far(
    engine: &Engine,
    id: &ContainerId,
    format: LogFormat,
) -> impl Stream<Item = Result<LogPiece, EngineError>> + Send + use<> {
    read_from(engine, id, format, LogPosition::default(), StreamStage::Rereading)
}

/// Returns the time on the clock of the engine's timestamps.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn path(id: &ContainerId, follow: bool, from: LogPosition) -> String {
    let since = from.since();
    let since = format!("{}.{:09}", since / 1_000_000_000, since % 1_000_000_000);
    let follow = u8::from(follow);
    format!("/containers/{}/logs?follow={follow}&stdout=1&stderr=1&timestamps=1&since={since}", id.as_str())
}

enum StreamStage {
    /// To be requested and followed.
    Following(LogPosition),
    /// To be requested once more, without following.
    Rereading(LogPosition),
    /// Receiving a response; the flag says whether a second request follows.
    Open(Incoming, bool),
    Over,
}

struct LogStream {
    operation: String,
    id: ContainerId,
    engine: Engine,
    decoder: LogDecoder,
    pieces: VecDeque<LogPiece>,
    stage: StreamStage,
}

impl LogStream {
    async fn next(&mut self) -> Result<Option<LogPiece>, EngineError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            match std::mem::replace(&mut self.stage, StreamStage::Over) {
                StreamStage::Over => return Ok(None),
                StreamStage::Following(from) => self.stage = StreamStage::Open(self.request(true, from).await?, true),
                StreamStage::Rereading(from) => match self.request(false, from).await {
                    Ok(body) => self.stage = StreamStage::Open(body, false),
                    // The container was removed when it ended: there are no further lines.
                    Err(error) if error.is_gone() => self.pieces.extend(self.decoder.finish()),
                    Err(error) => return Err(error),
                },
                StreamStage::Open(body, reread) => self.read(body, reread).await?,
            }
        }
    }

    async fn request(&self, follow: bool, from: LogPosition) -> Result<Incoming, EngineError> {
        Ok(self.engine.open(&self.operation, &path(&self.id, follow, from)).await?.into_body())
    }

    /// Reads one piece of the response, and keeps the body unless it has ended.
    async fn read(&mut self, mut body: Incoming, reread: bool) -> Result<(), EngineError> {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    self.pieces.extend(self.decoder.push(bytes).map_err(|error| EngineError::InvalidResponse {
                        operation: self.operation.clone(),
                        why: error.to_string(),
                    })?);
                }
                self.stage = StreamStage::Open(body, reread);
                Ok(())
            }
            Some(Err(error)) => Err(self.engine.unreachable(&self.operation, &error)),
            None if reread => {
                self.stage = StreamStage::Rereading(self.decoder.resume());
                Ok(())
            }
            None => {
                self.pieces.extend(self.decoder.finish());
                Ok(())
            }
        }
    }
}
