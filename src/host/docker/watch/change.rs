//! The event stream of the engine: bytes → lines of limited length → a closed set of events. Pure.

use super::event::EndSign;
use crate::container::{is_container_id, plain_name};
use model::ContainerId;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Maximum length of a line in bytes. An event contains the labels of a container, which Docker limits only by the size of a request.
const LONGEST_LINE: usize = 1 << 20;

/// The meaning of an event for a list of running containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The container started: inspect it.
    Started(ContainerId),
    /// The container ended, at this engine time in Unix nanoseconds, with this exit code if the engine reported it.
    Ended(ContainerId, u64, Option<i32>),
    /// The container was paused (`true`) or resumed.
    Paused(ContainerId, bool),
    /// The container was renamed.
    Renamed(ContainerId, String),
    /// Its limits were changed through the engine.
    Updated(ContainerId),
    /// A sign of its end, or of how it ended.
    Sign(ContainerId, EndSign),
    /// The container was removed.
    Removed(ContainerId),
    /// Known, and irrelevant for the list.
    Irrelevant,
    /// Not understood: list the containers again.
    Unknown,
}

/// Events of Docker and Podman that change neither the set of running containers nor what is known about them.
const IRRELEVANT: [&str; 26] = [
    "archive-path",
    "attach",
    "auto-update",
    "checkpoint",
    "cleanup",
    "commit",
    "copy",
    "create",
    "detach",
    "exec",
    "exec_create",
    "exec_detach",
    "exec_die",
    "exec_died",
    "exec_start",
    "export",
    "extract-to-dir",
    "health_status",
    "init",
    "mount",
    "prune",
    "resize",
    "restart",
    "sync",
    "top",
    "unmount",
];

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "Type", default)]
    kind: String,
    #[serde(rename = "Action", default)]
    action: String,
    #[serde(rename = "Actor", default)]
    actor: Actor,
    #[serde(rename = "timeNano", default)]
    time_nano: u64,
}

#[derive(Default, Deserialize)]
struct Actor {
    #[serde(rename = "ID", default)]
    id: String,
    #[serde(rename = "Attributes", default)]
    attributes: BTreeMap<String, String>,
}

impl Actor {
    /// Returns the number of the signal that was sent.
    fn signal(&self) -> Option<i32> {
        self.attributes.get("signal")?.parse().ok()
    }

    /// Returns the exit code, by the attribute name of Docker or Podman.
    fn exit_code(&self) -> Option<i32> {
        ["exitCode", "containerExitCode"].into_iter().find_map(|name| self.attributes.get(name)?.parse().ok())
    }
}

/// Parses one line of the event stream. Never fails: an unknown event is [`Change::Unknown`].
pub(super) fn parse(line: &[u8]) -> Change {
    let Ok(event) = serde_json::from_slice::<Wire>(line) else { return Change::Unknown };
    if event.kind != "container" {
        return Change::Unknown;
    }
    // For example `exec_start: sh -c …` or `health_status: healthy`.
    let action = event.action.split(':').next().unwrap_or("");
    if IRRELEVANT.contains(&action) {
        return Change::Irrelevant;
    }
    if !is_container_id(&event.actor.id) {
        return Change::Unknown;
    }
    let id = ContainerId::new(&event.actor.id);
    match action {
        "start" => Change::Started(id),
        "die" | "died" => Change::Ended(id, event.time_nano, event.actor.exit_code()),
        "pause" => Change::Paused(id, true),
        "unpause" => Change::Paused(id, false),
        "update" => Change::Updated(id),
        "kill" => Change::Sign(id, EndSign::Signal(event.actor.signal())),
        "stop" => Change::Sign(id, EndSign::Stopped),
        "oom" => Change::Sign(id, EndSign::OutOfMemory),
        "destroy" | "remove" => Change::Removed(id),
        "rename" => match event.actor.attributes.get("name") {
            Some(name) => Change::Renamed(id, plain_name(name)),
            None => Change::Unknown,
        },
        _ => Change::Unknown,
    }
}

/// Splits a byte stream into lines, and fails if a line is too long.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
}

/// A line is longer than an event can be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineTooLong;

impl Lines {
    /// Adds bytes and calls `each` with every line that they complete, without its end.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), LineTooLong> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.keep(&rest[..end])?;
            let line = self.unfinished.trim_ascii();
            if !line.is_empty() {
                each(line);
            }
            self.unfinished.clear();
            rest = &rest[end + 1..];
        }
        self.keep(rest)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), LineTooLong> {
        if self.unfinished.len() + bytes.len() > LONGEST_LINE {
            return Err(LineTooLong);
        }
        self.unfinished.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "449e1d56655b86cfb98f8a89e3609ecfab2019fc1609fbc25ceea3c54f9cbd3c";

    fn of(action: &str) -> Change {
        parse(
            serde_json::json!({
                "Type": "container", "Action": action, "scope": "local", "time": 1, "timeNano": 1_000_000_001u64,
                "Actor": {"ID": ID, "Attributes": {"name": "new", "oldName": "/old", "flowcon.enable": "true"}},
            })
            .to_string()
            .as_bytes(),
        )
    }

    #[test]
    fn the_exit_code_is_parsed_for_both_engines() {
        let ended = |attributes: serde_json::Value| {
            let actor = serde_json::json!({"ID": ID, "Attributes": attributes});
            parse(serde_json::json!({"Type": "container", "Action": "die", "Actor": actor}).to_string().as_bytes())
        };
        let with = |code| Change::Ended(ContainerId::new(ID), 0, code);
        assert_eq!(ended(serde_json::json!({"exitCode": "137"})), with(Some(137)));
        assert_eq!(ended(serde_json::json!({"containerExitCode": "0"})), with(Some(0)));
        assert_eq!(ended(serde_json::json!({"exitCode": "much"})), with(None));
    }

    #[test]
    fn the_signal_is_parsed() {
        let actor = serde_json::json!({"ID": ID, "Attributes": {"signal": "15"}});
        let event = serde_json::json!({"Type": "container", "Action": "kill", "Actor": actor}).to_string();
        assert_eq!(parse(event.as_bytes()), Change::Sign(ContainerId::new(ID), EndSign::Signal(Some(15))));
    }

    #[test]
    fn events_that_change_the_list_are_distinguished() {
        let id = ContainerId::new(ID);
        assert_eq!(of("start"), Change::Started(id.clone()));
        assert_eq!(of("die"), Change::Ended(id.clone(), 1_000_000_001, None));
        assert_eq!(of("pause"), Change::Paused(id.clone(), true));
        assert_eq!(of("unpause"), Change::Paused(id.clone(), false));
        assert_eq!(of("rename"), Change::Renamed(id.clone(), "new".into()));
        assert_eq!(of("update"), Change::Updated(id.clone()));
        assert_eq!(of("kill"), Change::Sign(id.clone(), EndSign::Signal(None)));
        assert_eq!(of("stop"), Change::Sign(id.clone(), EndSign::Stopped));
        assert_eq!(of("oom"), Change::Sign(id.clone(), EndSign::OutOfMemory));
        assert_eq!((of("destroy"), of("remove")), (Change::Removed(id.clone()), Change::Removed(id)));
    }

    #[test]
    fn health_checks_and_execs_are_irrelevant() {
        for action in ["exec_start: sh -c true", "exec_die", "health_status: healthy", "restart"] {
            assert_eq!(of(action), Change::Irrelevant, "{action}");
        }
    }

    #[test]
    fn an_invalid_event_is_unknown() {
        assert_eq!(of("teleport"), Change::Unknown);
        assert_eq!(of(""), Change::Unknown);
        assert_eq!(parse(b"{\"Type\":\"wormhole\",\"Action\":\"start\"}"), Change::Unknown);
        assert_eq!(
            parse(b"{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"../x\"}}"),
            Change::Unknown
        );
        assert_eq!(parse(b"HTTP/1.1 200 OK"), Change::Unknown);
        assert_eq!(parse(b"{\"timeNano\":-1}"), Change::Unknown);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }

        #[test]
        fn lines_do_not_depend_on_how_the_stream_is_split(text in "[a-c\n]{0,80}", cuts in proptest::collection::vec(0usize..80, 0..8)) {
            let mut pieces = Vec::new();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).chain([text.len()]).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            let (mut lines, mut cut_up) = (Lines::default(), Vec::new());
            for piece in pieces {
                lines.push(piece, |line| cut_up.push(line.to_vec())).unwrap();
            }
            let whole: Vec<Vec<u8>> = match text.rsplit_once('\n') {
                Some((finished, _)) => finished.split('\n').filter(|l| !l.is_empty()).map(|l| l.as_bytes().to_vec()).collect(),
                None => Vec::new(),
            };
            prop_assert_eq!(cut_up, whole);
        }
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 64 << 10];
        let pushed = (0..1_000).take_while(|_| lines.push(&chunk, |_| ()).is_ok()).count();
        assert_eq!(pushed, LONGEST_LINE / chunk.len());
    }
}
