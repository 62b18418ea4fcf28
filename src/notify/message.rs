//! A message about one event, and several that are delivered as one.

use model::AlertKind;
use model::time::utc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A message about one event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// Time of the event, Unix time in milliseconds.
    pub unix_ms: u64,
    /// When it was put into the spool.
    pub queued_ms: u64,
    /// What it is about.
    pub kind: AlertKind,
    /// The machine.
    pub host: String,
    /// Name of the job; `None` = it is about the node.
    pub job: Option<String>,
    /// Id of its container.
    pub container: Option<String>,
    /// The user to whom it belongs.
    pub user: Option<String>,
    /// A few words, to follow the name of the job.
    pub words: String,
    /// The evidence and the next step.
    pub detail: String,
}

impl Message {
    /// What messages that are joined have in common: the job, or the node.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.container.as_deref().or(self.job.as_deref())
    }

    fn title(&self) -> String {
        match &self.job {
            Some(job) => format!("{job}: {}", self.words),
            None => format!("{}: {}", self.host, self.words),
        }
    }

    /// The evidence, where and when, and where to read more.
    fn body(&self) -> String {
        let detail = if self.detail.is_empty() { String::new() } else { format!("{}\n", self.detail) };
        let next = self.job.as_ref().map_or_else(String::new, |job| format!("; next: flowctl explain {job}"));
        format!("{detail}{}, {}{next}\n", self.host, utc(self.unix_ms))
    }
}

/// Messages that are delivered as one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delivery {
    /// One line.
    pub title: String,
    /// Lines of text.
    pub body: String,
    /// The messages in it, oldest first; at least one.
    pub messages: Vec<Message>,
}

impl Delivery {
    /// Joins messages, of which there must be one. `left_out`: others that had no room in the spool.
    pub(crate) fn of(messages: Vec<Message>, left_out: u64) -> Delivery {
        let subjects: BTreeSet<Option<&str>> = messages.iter().map(Message::subject).collect();
        let mut body = String::new();
        let title = match messages.as_slice() {
            [only] => {
                body = only.body();
                only.title()
            }
            [first, ..] if subjects.len() == 1 => {
                messages.iter().for_each(|message| line(&mut body, message));
                let words: Vec<&str> = messages.iter().map(|message| message.words.as_str()).collect();
                Message { words: words.join(", then "), ..first.clone() }.title()
            }
            several => {
                several.iter().for_each(|message| line(&mut body, message));
                let host = several.first().map_or("", |message| message.host.as_str());
                format!("{host}: {} messages", several.len())
            }
        };
        if left_out > 0 {
            let _ = write!(body, "\n{left_out} more had no room in the spool; `flowctl events` has them.\n");
        }
        Delivery { title: one_line(&title), body, messages }
    }

    /// The gravest kind in it.
    pub(crate) fn kind(&self) -> AlertKind {
        let gravest = self.messages.iter().map(|message| message.kind).max_by_key(|kind| (kind.is_urgent(), *kind));
        gravest.unwrap_or(AlertKind::Node)
    }

    /// The job, if it is about one.
    pub(crate) fn job(&self) -> Option<&str> {
        let mut jobs = self.messages.iter().map(|message| message.job.as_deref());
        let first = jobs.next().flatten();
        first.filter(|_| jobs.all(|job| job == first))
    }

    /// The machine.
    pub(crate) fn host(&self) -> &str {
        self.messages.first().map_or("", |message| &message.host)
    }
}

/// Writes one of several messages.
fn line(body: &mut String, message: &Message) {
    let separator = if body.is_empty() { "" } else { "\n" };
    let _ = write!(body, "{separator}{}\n{}", message.title(), message.body()); // writing to a String cannot fail
}

/// Without what would begin another header or line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn message(job: &str, kind: AlertKind, queued_ms: u64) -> Message {
        Message {
            unix_ms: queued_ms,
            queued_ms,
            kind,
            host: "gpu-1".to_owned(),
            job: Some(job.to_owned()),
            container: Some(format!("id-of-{job}")),
            user: None,
            words: format!("is {kind:?}"),
            detail: "Because.".to_owned(),
        }
    }

    #[test]
    fn one_message_has_its_own_title_and_a_job_s_are_joined() {
        let at = 1_700_000_000_000;
        let one = Message { words: "NaN since epoch 11".to_owned(), ..message("resnet-a", AlertKind::Nan, at) };
        let alone = Delivery::of(vec![one.clone()], 0);
        assert_eq!(alone.title, "resnet-a: NaN since epoch 11");
        assert_eq!(alone.body, "Because.\ngpu-1, 2023-11-14T22:13:20Z; next: flowctl explain resnet-a\n");
        let failed = Message { words: "failed\nwith 1".to_owned(), ..message("resnet-a", AlertKind::Failed, at) };
        let joined = Delivery::of(vec![one.clone(), failed], 0);
        assert_eq!(joined.title, "resnet-a: NaN since epoch 11, then failed with 1");
        assert_eq!((joined.job(), joined.kind()), (Some("resnet-a"), AlertKind::Nan));
        assert_eq!(joined.body.matches("Because.").count(), 2);
        let node = Message { job: None, container: None, words: "engine lost".to_owned(), ..one };
        assert_eq!(Delivery::of(vec![node], 0).title, "gpu-1: engine lost");
    }

    #[test]
    fn a_digest_lists_every_message() {
        let messages: Vec<Message> =
            (0..5).map(|n| message(&format!("job-{n}"), AlertKind::Failed, 1_700_000_000_000)).collect();
        let digest = Delivery::of(messages, 3);
        assert_eq!((digest.title.as_str(), digest.job()), ("gpu-1: 5 messages", None));
        assert!((0..5).all(|n| digest.body.contains(&format!("job-{n}: is Failed\n"))), "{}", digest.body);
        assert!(digest.body.contains("3 more had no room"), "{}", digest.body);
    }
}
