//! The engine's event stream: bytes → lines of bounded length → a closed set of happenings. Pure. Imports: model.

use super::container::{is_container_id, plain_name};
use crate::model::ContainerId;
use serde::Deserialize;
use std::collections::BTreeMap;

/// An event holds a container's labels; Docker bounds those by the size of a request only.
const LONGEST_LINE: usize = 1 << 20;

/// What an event means for whoever keeps a list of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// It started: inspect it.
    Started(ContainerId),
    /// It ended, at this engine time in Unix nanoseconds, with this exit code where the engine told it.
    Ended(ContainerId, u64, Option<i32>),
    /// It was paused (`true`) or resumed.
    Paused(ContainerId, bool),
    /// It has a new name.
    Renamed(ContainerId, String),
    /// Its limits were changed through the engine.
    Updated(ContainerId),
    /// It was removed for good.
    Removed(ContainerId),
    /// Known, and nothing to the list.
    Nothing,
    /// Not understood: list again.
    Doubt,
}

/// Docker's and Podman's happenings that change neither the set of running containers nor what is known of them.
const NOTHING: [&str; 29] = [
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
    "kill",
    "mount",
    "oom",
    "prune",
    "resize",
    "restart",
    "stop",
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
    /// Docker's word for it, or Podman's.
    fn exit_code(&self) -> Option<i32> {
        ["exitCode", "containerExitCode"].into_iter().find_map(|name| self.attributes.get(name)?.parse().ok())
    }
}

/// Reads one line of the event stream. Never fails: what is not understood is [`Happening::Doubt`].
pub(super) fn happening(line: &[u8]) -> Happening {
    let Ok(event) = serde_json::from_slice::<Wire>(line) else { return Happening::Doubt };
    if event.kind != "container" {
        return Happening::Doubt;
    }
    // `exec_start: sh -c …`, `health_status: healthy`.
    let action = event.action.split(':').next().unwrap_or("");
    if NOTHING.contains(&action) {
        return Happening::Nothing;
    }
    if !is_container_id(&event.actor.id) {
        return Happening::Doubt;
    }
    let id = ContainerId::new(&event.actor.id);
    match action {
        "start" => Happening::Started(id),
        "die" | "died" => Happening::Ended(id, event.time_nano, event.actor.exit_code()),
        "pause" => Happening::Paused(id, true),
        "unpause" => Happening::Paused(id, false),
        "update" => Happening::Updated(id),
        "destroy" | "remove" => Happening::Removed(id),
        "rename" => match event.actor.attributes.get("name") {
            Some(name) => Happening::Renamed(id, plain_name(name)),
            None => Happening::Doubt,
        },
        _ => Happening::Doubt,
    }
}

/// Cuts a byte stream into lines and gives up on one that is too long.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
}

/// A line was longer than an event can be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineTooLong;

impl Lines {
    /// Adds bytes and hands each line that they complete to `each`, without its end.
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

    fn of(action: &str) -> Happening {
        happening(
            serde_json::json!({
                "Type": "container", "Action": action, "scope": "local", "time": 1, "timeNano": 1_000_000_001u64,
                "Actor": {"ID": ID, "Attributes": {"name": "new", "oldName": "/old", "flowcon.enable": "true"}},
            })
            .to_string()
            .as_bytes(),
        )
    }

    #[test]
    fn an_end_has_its_exit_code_in_the_words_of_both_engines() {
        let ended = |attributes: serde_json::Value| {
            let actor = serde_json::json!({"ID": ID, "Attributes": attributes});
            happening(serde_json::json!({"Type": "container", "Action": "die", "Actor": actor}).to_string().as_bytes())
        };
        let with = |code| Happening::Ended(ContainerId::new(ID), 0, code);
        assert_eq!(ended(serde_json::json!({"exitCode": "137"})), with(Some(137)));
        assert_eq!(ended(serde_json::json!({"containerExitCode": "0"})), with(Some(0)));
        assert_eq!(ended(serde_json::json!({"exitCode": "much"})), with(None));
    }

    #[test]
    fn what_changes_the_list_is_told_apart() {
        let id = ContainerId::new(ID);
        assert_eq!(of("start"), Happening::Started(id.clone()));
        assert_eq!(of("die"), Happening::Ended(id.clone(), 1_000_000_001, None));
        assert_eq!(of("pause"), Happening::Paused(id.clone(), true));
        assert_eq!(of("unpause"), Happening::Paused(id.clone(), false));
        assert_eq!(of("rename"), Happening::Renamed(id.clone(), "new".into()));
        assert_eq!(of("update"), Happening::Updated(id.clone()));
        assert_eq!((of("destroy"), of("remove")), (Happening::Removed(id.clone()), Happening::Removed(id)));
    }

    #[test]
    fn health_checks_and_execs_are_nothing() {
        for action in ["exec_start: sh -c true", "exec_die", "health_status: healthy", "kill", "stop"] {
            assert_eq!(of(action), Happening::Nothing, "{action}");
        }
    }

    #[test]
    fn what_is_not_understood_is_a_doubt() {
        assert_eq!(of("teleport"), Happening::Doubt);
        assert_eq!(of(""), Happening::Doubt);
        assert_eq!(happening(b"{\"Type\":\"wormhole\",\"Action\":\"start\"}"), Happening::Doubt);
        assert_eq!(
            happening(b"{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"../x\"}}"),
            Happening::Doubt
        );
        assert_eq!(happening(b"HTTP/1.1 200 OK"), Happening::Doubt);
        assert_eq!(happening(b"{\"timeNano\":-1}"), Happening::Doubt);
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_happening(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            happening(&bytes);
        }

        #[test]
        fn lines_are_the_same_however_the_stream_is_cut(text in "[a-c\n]{0,80}", cuts in proptest::collection::vec(0usize..80, 0..8)) {
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
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 64 << 10];
        let pushed = (0..1_000).take_while(|_| lines.push(&chunk, |_| ()).is_ok()).count();
        assert_eq!(pushed, LONGEST_LINE / chunk.len());
    }
}
