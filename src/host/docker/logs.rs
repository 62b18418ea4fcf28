//! A container's output through the logs API, for drivers whose files are not ours to read. Imports: model, hyper.

use super::engine::Engine;
use super::error::EngineError;
use super::log_pieces::{LogDecoder, LogFormat, LogPiece, LogPosition};
use crate::model::ContainerId;
use futures_util::Stream;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::collections::VecDeque;

/// Follows the output of a container from `from` on.
///
/// Ends when the container ends, after a second look: an engine that follows a log can forget its last lines (Docker
/// 20.10.24 with the `local` driver forgot the last one in three of eight runs). A broken connection is an error and
/// the end: ask again with the last piece's position. No message is lost; those of a time
/// that the clock was set back over are repeated.
pub fn logs(
    engine: &Engine,
    id: &ContainerId,
    format: LogFormat,
    from: LogPosition,
) -> impl Stream<Item = Result<LogPiece, EngineError>> + Send + use<> {
    reading(engine, id, format, from, Stage::Following)
}

fn reading(
    engine: &Engine,
    id: &ContainerId,
    format: LogFormat,
    from: LogPosition,
    begin: fn(LogPosition) -> Stage,
) -> impl Stream<Item = Result<LogPiece, EngineError>> + Send + use<> {
    let reading = Reading {
        operation: format!("read the logs of container {id}"),
        id: id.clone(),
        engine: engine.clone(),
        decoder: LogDecoder::new(format, from),
        pieces: VecDeque::new(),
        stage: begin(from),
    };
    futures_util::stream::unfold(reading, |mut reading| async {
        let item = reading.next().await.transpose()?;
        Some((item, reading))
    })
}

/// What a container has written so far, from its beginning; ends there.
pub fn logs_so_far(
    engine: &Engine,
    id: &ContainerId,
    format: LogFormat,
) -> impl Stream<Item = Result<LogPiece, EngineError>> + Send + use<> {
    reading(engine, id, format, LogPosition::default(), Stage::LookingAgain)
}

fn path(id: &ContainerId, follow: bool, from: LogPosition) -> String {
    let since = from.since();
    let since = format!("{}.{:09}", since / 1_000_000_000, since % 1_000_000_000);
    let follow = u8::from(follow);
    format!("/containers/{}/logs?follow={follow}&stdout=1&stderr=1&timestamps=1&since={since}", id.as_str())
}

enum Stage {
    /// To be asked for, and followed.
    Following(LogPosition),
    /// To be asked for once more, without following.
    LookingAgain(LogPosition),
    /// Being answered; whether a second look comes after it.
    Open(Incoming, bool),
    Over,
}

struct Reading {
    operation: String,
    id: ContainerId,
    engine: Engine,
    decoder: LogDecoder,
    pieces: VecDeque<LogPiece>,
    stage: Stage,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<LogPiece>, EngineError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Over => return Ok(None),
                Stage::Following(from) => self.stage = Stage::Open(self.ask(true, from).await?, true),
                Stage::LookingAgain(from) => match self.ask(false, from).await {
                    Ok(body) => self.stage = Stage::Open(body, false),
                    // Removed as it ended: there is nothing more to see.
                    Err(error) if error.is_gone() => self.pieces.extend(self.decoder.finish()),
                    Err(error) => return Err(error),
                },
                Stage::Open(body, look_again) => self.read(body, look_again).await?,
            }
        }
    }

    async fn ask(&self, follow: bool, from: LogPosition) -> Result<Incoming, EngineError> {
        Ok(self.engine.open(&self.operation, &path(&self.id, follow, from)).await?.into_body())
    }

    /// Takes one piece of the answer; puts the body back unless it ended.
    async fn read(&mut self, mut body: Incoming, look_again: bool) -> Result<(), EngineError> {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    self.pieces.extend(self.decoder.push(bytes).map_err(|error| EngineError::InvalidResponse {
                        operation: self.operation.clone(),
                        why: error.to_string(),
                    })?);
                }
                self.stage = Stage::Open(body, look_again);
                Ok(())
            }
            Some(Err(error)) => Err(self.engine.unreachable(&self.operation, &error)),
            None if look_again => {
                self.stage = Stage::LookingAgain(self.decoder.go_on());
                Ok(())
            }
            None => {
                self.pieces.extend(self.decoder.finish());
                Ok(())
            }
        }
    }
}
