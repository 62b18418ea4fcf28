//! The events of the daemon, each once, also over restarts of the daemon and of this process.
//!
//! The history has what happened while there was no connection, but its newest events only after a moment; the stream has those. Both are
//! read at each connection, so most events come twice, and [`Cursor`] lets each pass once.

use api::client::{Client, ClientError, StreamMessage};
use api::wire::{Event, EventRecords};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Events may come late by this time.
const LATE_BY_MS: u64 = 600_000;
/// Older events are no news.
const NEWS_FOR_MS: u64 = 72 * 3_600_000;
/// Events that are remembered.
const SEEN_AT_MOST: usize = 4096;
/// Bytes of a text by which an event is recognised; the history shortens longer ones.
const RECOGNISED_BY: usize = 200;
const RETRY_EVERY: Duration = Duration::from_secs(2);
/// After this time without an answer somebody should look.
const SILENT_FOR: Duration = Duration::from_secs(300);

/// Which events were handled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    /// Events before this were before the first start.
    from_ms: u64,
    /// Time of the newest event.
    newest_ms: u64,
    /// The events of the last minutes.
    seen: BTreeSet<(u64, String)>,
}

impl Cursor {
    /// A cursor for events from now on.
    pub(crate) fn begin(now_ms: u64) -> Cursor {
        Cursor { from_ms: now_ms, newest_ms: now_ms, ..Cursor::default() }
    }

    /// Since when events may be new.
    pub(crate) fn since_ms(&self, now_ms: u64) -> u64 {
        // A clock that was set back must not make the future old.
        let newest = self.newest_ms.min(now_ms);
        newest.saturating_sub(LATE_BY_MS).max(self.from_ms.min(now_ms)).max(now_ms.saturating_sub(NEWS_FOR_MS))
    }

    /// Whether an event is new; it is not any more afterwards.
    pub(crate) fn is_new(&mut self, event: &Event, now_ms: u64) -> bool {
        if event.unix_ms < self.since_ms(now_ms) {
            return false;
        }
        let mut end = event.text.len().min(RECOGNISED_BY);
        while !event.text.is_char_boundary(end) {
            end -= 1;
        }
        let id = format!("{} {}", event.container.as_deref().unwrap_or_default(), &event.text[..end]);
        let is_new = self.seen.insert((event.unix_ms, id));
        self.newest_ms = self.newest_ms.min(now_ms).max(event.unix_ms);
        let since = self.since_ms(now_ms);
        while self.seen.len() > SEEN_AT_MOST || self.seen.first().is_some_and(|(at, _)| *at < since) {
            self.seen.pop_first();
        }
        is_new
    }
}

/// Whether somebody may want a message about an event.
pub(crate) fn may_matter(event: &Event) -> bool {
    event.alert.is_some() || event.kind == "notice"
}

/// Sends the events since a time that may matter, until the receiver is gone.
pub(crate) async fn follow(client: Client, since_ms: u64, events: mpsc::Sender<Event>, now_ms: fn() -> u64) {
    let (mut since_ms, mut silent_since, mut is_told, mut said) = (since_ms, None::<Instant>, false, String::new());
    loop {
        let connected = connect(&client, &mut since_ms, &events).await;
        if events.is_closed() {
            return;
        }
        match connected {
            Ok(()) => (silent_since, is_told) = (None, false),
            Err(error) => {
                let text = error.to_string();
                if text != said {
                    tracing::warn!("waiting for flowcond: {text}");
                    said = text;
                }
                let silent = silent_since.get_or_insert_with(Instant::now).elapsed();
                if silent >= SILENT_FOR && !is_told {
                    is_told = events.send(silence(now_ms())).await.is_ok();
                }
            }
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// Reads what happened meanwhile, then what happens, until the daemon ends the stream or events are missing in it.
async fn connect(client: &Client, since_ms: &mut u64, events: &mpsc::Sender<Event>) -> Result<(), ClientError> {
    let mut after = 0;
    loop {
        let path = format!("/v1/history/events?since={since_ms}&kind=health,ended,notice&after={after}&limit=2000");
        let page: EventRecords = match client.get(&path).await {
            // Without a history the stream must do.
            Err(ClientError::Refused { .. }) => break,
            page => page?,
        };
        for event in page.events.into_iter().filter(may_matter) {
            if events.send(event).await.is_err() {
                return Ok(());
            }
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let mut stream = client.events("recent=1024", None).await?;
    tracing::info!("connected to flowcond at {}", client.socket().display());
    loop {
        match stream.next().await {
            Ok(Some(StreamMessage::Event(event))) => {
                *since_ms = (*since_ms).max(event.unix_ms.saturating_sub(LATE_BY_MS));
                if may_matter(&event) && events.send(event).await.is_err() {
                    return Ok(());
                }
            }
            // The history has what is missing.
            Ok(Some(StreamMessage::Gap(_)) | None) | Err(_) => return Ok(()),
        }
    }
}

/// The event that the daemon does not answer, which it cannot report itself.
fn silence(unix_ms: u64) -> Event {
    let minutes = SILENT_FOR.as_secs() / 60;
    Event {
        sequence: 0,
        unix_ms,
        kind: "notice".to_owned(),
        container: None,
        name: None,
        text: format!("flowcond has not answered for {minutes} minutes; next: flowctl doctor"),
        alert: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn event(unix_ms: u64, text: &str) -> Event {
        Event { unix_ms, text: text.to_owned(), ..silence(0) }
    }

    #[test]
    fn each_event_is_new_once_also_after_a_restart_and_in_any_order() {
        let start = 100 * HOUR;
        let mut cursor = Cursor::begin(start);
        assert!(!cursor.is_new(&event(start - 1, "before the first start"), start));
        let now = start + HOUR;
        assert!(cursor.is_new(&event(now, "b"), now));
        assert!(cursor.is_new(&event(now - 1000, "a"), now), "the history comes late");
        let mut again: Cursor = serde_json::from_str(&serde_json::to_string(&cursor).unwrap()).unwrap();
        assert_eq!(again, cursor);
        assert!(!again.is_new(&event(now, "b"), now) && !again.is_new(&event(now - 1000, "a"), now));
        assert!(again.is_new(&event(now, "c"), now), "another event at the same time");
        let long = "x".repeat(300);
        assert!(again.is_new(&event(now, &long), now));
        assert!(!again.is_new(&event(now, &long[..250]), now), "as the history shortens it");
    }

    #[test]
    fn neither_old_news_nor_a_clock_in_the_future_is_kept() {
        let mut cursor = Cursor::begin(0);
        let now = 1000 * HOUR;
        assert!(!cursor.is_new(&event(now - 73 * HOUR, "old"), now));
        assert!(cursor.is_new(&event(now - 71 * HOUR, "while this process was off"), now));
        assert!(cursor.is_new(&event(now + 100 * HOUR, "from the future"), now));
        assert!(cursor.is_new(&event(now + 1000, "after the clock was corrected"), now + 1000));
        for n in 0..2 * SEEN_AT_MOST as u64 {
            cursor.is_new(&event(now + n, "many"), now + n);
        }
        assert!(cursor.seen.len() <= SEEN_AT_MOST);
    }
}
