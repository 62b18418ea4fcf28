//! An open stream of events of one engine.

use super::change::{Change, Lines, parse};
use crate::engine::{Engine, percent_encoded};
use crate::error::EngineError;
use http_body_util::BodyExt;
use hyper::body::Incoming;

const SUBSCRIBE: &str = "subscribe to the engine's events";

/// The changes of the containers that a filter selects, as the engine reports them.
pub(super) struct EventStream {
    engine: Engine,
    body: Incoming,
    lines: Lines,
}

impl EventStream {
    /// Subscribes to events of containers for which `filter` has one of these values.
    pub(super) async fn subscribe(engine: &Engine, filter: &str, values: &[&str]) -> Result<EventStream, EngineError> {
        let filters = serde_json::json!({"type": ["container"], filter: values});
        let path = format!("/events?filters={}", percent_encoded(&filters.to_string()));
        let response = engine.open(SUBSCRIBE, &path).await?;
        Ok(EventStream { engine: engine.clone(), body: response.into_body(), lines: Lines::default() })
    }

    /// Returns the changes in the next piece of the stream; its end is an error. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Vec<Change>, EngineError> {
        let frame = match self.body.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(self.engine.unreachable(SUBSCRIBE, &error)),
            None => {
                let ended = std::io::Error::other("the engine closed the stream");
                return Err(self.engine.unreachable(SUBSCRIBE, &ended));
            }
        };
        let mut changes = Vec::new();
        let Some(bytes) = frame.data_ref() else { return Ok(changes) };
        self.lines.push(bytes, |line| changes.push(parse(line))).map_err(|_| EngineError::InvalidResponse {
            operation: SUBSCRIBE.to_owned(),
            why: "an event is larger than 1 MiB".to_owned(),
        })?;
        Ok(changes)
    }
}

/// Returns the changes in the next piece of either stream. Cancel safe.
pub(super) async fn next_of_either(
    labelled: &mut EventStream,
    adopted: &mut Option<EventStream>,
) -> Result<Vec<Change>, EngineError> {
    let Some(adopted) = adopted else { return labelled.next().await };
    tokio::select! {
        changes = labelled.next() => changes,
        changes = adopted.next() => changes,
    }
}
