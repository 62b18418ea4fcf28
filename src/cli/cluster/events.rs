//! `flowctl cluster events`: prints the coordinator's events, and follows them across its restarts.

use super::{POLL_EVERY, pages};
use api::client::{Client, ClientError};
use api::wire::{ClusterEvent, ClusterEvents};
use term::exit::Failure;
use term::message;
use term::screen::Screen;

/// Prints the recent events; with `follow`, also all later ones until the process is stopped.
pub(super) async fn events(client: &Client, follow: bool, screen: &Screen) -> Result<(), Failure> {
    let mut last: Option<ClusterEvent> = None;
    let (mut has_answered, mut is_waiting, mut seen_until) = (false, false, 0);
    loop {
        // The last event is requested again, because only its content shows whether the coordinator still counts from the same start.
        let after = last.as_ref().map_or(0, |event| event.number.saturating_sub(1));
        let found = client.get::<ClusterEvents>(&format!("/v1/cluster/events?after={after}")).await;
        let found = match found {
            Err(ClientError::Unreachable { .. } | ClientError::Busy { .. } | ClientError::Timeout { .. })
                if has_answered =>
            {
                if !is_waiting {
                    message::print("the coordinator does not respond; waiting for it to come back");
                }
                is_waiting = true;
                tokio::time::sleep(POLL_EVERY).await;
                continue;
            }
            found => found?.events,
        };
        (has_answered, is_waiting) = (true, false);
        let Some(mut events) = unseen(found, last.as_ref()) else {
            seen_until = last.take().map_or(0, |last| last.unix_ms);
            continue;
        };
        // A restarted coordinator repeats the latest events of each job.
        events.retain(|event| event.unix_ms > seen_until);
        if !events.is_empty() || !follow {
            let new = ClusterEvents { events };
            screen.show(&new, &new.events, |_| pages::events(&new.events))?;
            last = new.events.last().cloned().or(last);
        }
        if !follow {
            return Ok(());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Returns the events after `last`, given those from its number on; `None` = the coordinator was restarted and numbers its events from 1
/// again.
fn unseen(mut found: Vec<ClusterEvent>, last: Option<&ClusterEvent>) -> Option<Vec<ClusterEvent>> {
    let Some(last) = last else { return Some(found) };
    match found.first() {
        Some(first) if first == last => {
            found.remove(0);
            Some(found)
        }
        // The coordinator no longer keeps the last one.
        Some(first) if first.number > last.number && first.unix_ms >= last.unix_ms => Some(found),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterEvent, unseen};

    fn event(number: u64, unix_ms: u64) -> ClusterEvent {
        ClusterEvent { number, unix_ms, job: None, text: format!("event {number}") }
    }

    #[test]
    fn only_events_after_the_last_one_are_shown() {
        assert_eq!(unseen(vec![event(1, 10), event(2, 20)], None), Some(vec![event(1, 10), event(2, 20)]));
        assert_eq!(unseen(vec![event(2, 20), event(3, 30)], Some(&event(2, 20))), Some(vec![event(3, 30)]));
        assert_eq!(unseen(vec![event(2, 20)], Some(&event(2, 20))), Some(vec![]));
        assert_eq!(unseen(vec![event(9, 90)], Some(&event(2, 20))), Some(vec![event(9, 90)]), "2 to 8 are not kept");
    }

    #[test]
    fn a_restarted_coordinator_is_recognised_however_many_events_it_has() {
        assert_eq!(unseen(vec![], Some(&event(2, 20))), None);
        assert_eq!(unseen(vec![event(2, 50), event(3, 60)], Some(&event(2, 20))), None);
    }
}
