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
/// Ends when the container ends; a broken connection is an error and the end: ask again with the last piece's
/// position. A message is repeated or lost only where the engine itself reorders the two streams around that instant.
pub fn logs(
    engine: &Engine,
    id: &ContainerId,
    format: LogFormat,
    from: LogPosition,
) -> impl Stream<Item = Result<LogPiece, EngineError>> + Send + use<> {
    let reading = Reading {
        operation: format!("read the logs of container {id}"),
        path: path(id, from),
        engine: engine.clone(),
        decoder: LogDecoder::new(format, from),
        pieces: VecDeque::new(),
        stage: Stage::Closed,
    };
    futures_util::stream::unfold(reading, |mut reading| async {
        let item = reading.next().await.transpose()?;
        Some((item, reading))
    })
}

fn path(id: &ContainerId, from: LogPosition) -> String {
    let since = format!("{}.{:09}", from.unix_ns / 1_000_000_000, from.unix_ns % 1_000_000_000);
    format!("/containers/{}/logs?follow=1&stdout=1&stderr=1&timestamps=1&since={since}", id.as_str())
}

enum Stage {
    Closed,
    Open(Incoming),
    Over,
}

struct Reading {
    operation: String,
    path: String,
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
                Stage::Closed => {
                    let response = self.engine.open(&self.operation, &self.path).await?;
                    self.stage = Stage::Open(response.into_body());
                }
                Stage::Open(body) => self.read(body).await?,
            }
        }
    }

    /// Takes one piece of the answer; puts the body back unless it ended.
    async fn read(&mut self, mut body: Incoming) -> Result<(), EngineError> {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    self.pieces.extend(self.decoder.push(bytes).map_err(|error| EngineError::Garbled {
                        operation: self.operation.clone(),
                        why: error.to_string(),
                    })?);
                }
                self.stage = Stage::Open(body);
                Ok(())
            }
            Some(Err(error)) => Err(self.engine.unreachable(&self.operation, &error)),
            None => {
                self.pieces.extend(self.decoder.finish());
                Ok(())
            }
        }
    }
}
