//! The output of a service's container on this node, read through its engine.

use super::{Engine, SERVICE_LABEL};
use crate::http::encoded;
use hyper::Method;
use hyper::body::Bytes;
use model::swarm::ServiceId;
use serde_json::{Value, json};

/// Length of the header of a frame: the stream, three zeros, and the length of the text as a big-endian number.
const HEADER: usize = 8;

impl Engine {
    /// Returns the last lines of the output of a service's newest container here, each with its time in UTC, such as
    /// `2026-01-31T18:00:00.123456789Z`, before it. `after`: only later lines.
    ///
    /// # Errors
    /// A message: there is no container of it, or its output is not stored.
    pub async fn output(&self, service: &ServiceId, after: Option<&str>, tail: u32) -> Result<String, String> {
        let filter = encoded(&json!({"label": [format!("{SERVICE_LABEL}={service}")]}).to_string());
        let containers = self.list(&format!("/containers/json?all=1&filters={filter}")).await?;
        let newest = containers.iter().max_by_key(|container| container["Created"].as_i64());
        let Some(id) = newest.and_then(|container| container["Id"].as_str()) else {
            return Err("its container is gone from this node, and its output with it".to_owned());
        };
        // Whole seconds: earlier lines of the same second are left out below.
        let since = after.and_then(model::time::of_utc).map_or(0, |unix_ms| unix_ms / 1000);
        let path = format!("/containers/{id}/logs?stdout=1&stderr=1&timestamps=1&since={since}&tail={tail}");
        let (status, body) = self.http.exchange(Method::GET, &path, Bytes::new()).await?;
        if status != 200 {
            let document: Value = serde_json::from_slice(&body).unwrap_or_default();
            let why = document["message"].as_str().unwrap_or("no reason given");
            return Err(format!("the engine does not return its output: {why}"));
        }
        let text = text(&body);
        let is_new = |line: &&str| after.is_none_or(|after| line.split(' ').next().is_some_and(|time| time > after));
        Ok(text.lines().filter(is_new).flat_map(|line| [line, "\n"]).collect())
    }
}

/// Returns the text of a log: frames of both streams, or the text itself if the container has a terminal.
fn text(body: &[u8]) -> String {
    let (mut rest, mut text) = (body, Vec::with_capacity(body.len()));
    while let Some((header, after)) = rest.split_at_checked(HEADER) {
        let [0..=2, 0, 0, 0, length @ ..] = header else { break };
        let length = length.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte)).min(after.len());
        let (frame, next) = after.split_at(length);
        text.extend_from_slice(frame);
        rest = next;
    }
    text.extend_from_slice(rest);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_frames_of_both_streams_are_joined_and_text_without_frames_is_kept() {
        let frames =
            [&b"\x01\0\0\0\0\0\0\x06t loss"[..], b"\x01\0\0\0\0\0\0\x01\n", b"\x02\0\0\0\0\0\0\x04t e\n"].concat();
        assert_eq!(text(&frames), "t loss\nt e\n");
        assert_eq!(text(b"2026-01-31T18:00:00Z a terminal\r\n"), "2026-01-31T18:00:00Z a terminal\r\n");
        assert_eq!(text(&frames[..frames.len() - 2]), "t loss\nt ", "cut off");
    }
}
