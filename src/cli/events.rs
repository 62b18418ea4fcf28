//! `flowctl events`: follows the daemon's events, and resumes when the daemon comes back.

use super::event_line::event_line;
use super::history::events_after;
use api::client::{Client, ClientError, StreamMessage};
use clap::Args;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use term::exit::{Exit, Failure};
use term::message;
use term::screen::{Format, Look, Screen, Tone};
use term::text::{clean, clean_json};
use term::when;

/// Interval between attempts to reconnect.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// Number of recent events that the daemon keeps beside its history.
const RECENT_AT_MOST: usize = 1024;

/// Arguments of `flowctl events`.
#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// Begin with the last COUNT events, at most 1024; --since has no such limit
    #[arg(long, short = 'n', default_value_t = 10, value_name = "COUNT")]
    recent: usize,
    /// Begin after the event with this id, from an earlier `-o json` line
    #[arg(long, value_name = "ID", conflicts_with_all = ["recent", "since"])]
    after: Option<String>,
    /// Begin with the recorded events since TIME: 10m or 2h or 3d (ago), 14:05, or RFC 3339
    #[arg(long, value_parser = when::instant, value_name = "TIME", conflicts_with = "recent")]
    since: Option<u64>,
    /// Exit after the past events instead of waiting for new ones
    #[arg(long)]
    no_follow: bool,
}

/// Prints events until the reader goes away, or only past events with `--no-follow`.
pub(crate) async fn events(client: &Client, args: &EventsArgs, screen: &Screen) -> Result<(), Failure> {
    tokio::select! {
        done = follow(client, args, screen) => done,
        // Otherwise `flowctl events | head -1` would wait for one more event.
        () = screen.reader_gone() => Ok(()),
    }
}

async fn follow(client: &Client, args: &EventsArgs, screen: &Screen) -> Result<(), Failure> {
    let follow = if args.no_follow { "&follow=false" } else { "" };
    let recent = if args.since.is_some() { RECENT_AT_MOST } else { args.recent };
    if recent > RECENT_AT_MOST {
        message::print(format_args!(
            "`-n` shows at most the latest {RECENT_AT_MOST} events; use --since TIME for older ones"
        ));
    }
    let mut query = format!("recent={recent}{follow}");
    let mut last_id = args.after.clone();
    if last_id.is_some() {
        query = follow.trim_start_matches('&').to_owned();
    }
    // The newest events are not in the history yet, and older ones are no longer in the stream. The stream comes second: the daemon closes
    // one that is not read, as while `less` waits for its user.
    let shown = match args.since {
        Some(since) => show_recorded(client, since, screen).await?,
        None => BTreeSet::new(),
    };
    let mut stream = client.events(&query, last_id.as_deref()).await?;
    let is_new = |message: &StreamMessage| match message {
        StreamMessage::Event(event) => {
            args.since.is_none_or(|since| event.unix_ms >= since)
                && !shown.contains(&(event.unix_ms, event.text.clone()))
        }
        StreamMessage::Gap(_) => true,
    };
    loop {
        let ended = loop {
            match stream.next().await {
                Ok(Some(message)) if is_new(&message) => show(&message, stream.last_id(), screen)?,
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        last_id = stream.last_id().map(str::to_owned).or(last_id);
        if args.no_follow {
            return ended.map_or(Ok(()), |error| Err(error.into()));
        }
        message::print("the daemon closed the stream; waiting for it to come back");
        stream = reconnect(client, last_id.as_deref()).await?;
    }
}

/// Prints the recorded events since a time until there are no more, and returns the newest of them.
async fn show_recorded(client: &Client, since: u64, screen: &Screen) -> Result<BTreeSet<(u64, String)>, Failure> {
    let (mut newest, mut after) = (BTreeSet::new(), 0);
    loop {
        let events = events_after(client, since, after).await?;
        let Some(last) = events.last() else { return Ok(newest) };
        after = last.sequence;
        for event in events {
            newest.insert((event.unix_ms, event.text.clone()));
            show(&StreamMessage::Event(event), None, screen)?;
        }
        while newest.len() > 2 * RECENT_AT_MOST {
            newest.pop_first();
        }
    }
}

async fn reconnect(client: &Client, last_id: Option<&str>) -> Result<api::client::EventStream, Failure> {
    loop {
        tokio::time::sleep(RETRY_EVERY).await;
        match client.events("", last_id).await {
            Err(
                ClientError::Unreachable { .. }
                | ClientError::Busy { .. }
                | ClientError::InvalidResponse { .. }
                | ClientError::Timeout { .. },
            ) => {}
            result => return result.map_err(Failure::from),
        }
    }
}

fn show(message: &StreamMessage, id: Option<&str>, screen: &Screen) -> Result<(), Failure> {
    let text = match screen.format {
        Format::Json | Format::Jsonl => format!("{}\n", document(message, id)?),
        Format::Table | Format::Wide => line(message, &screen.look()),
    };
    Ok(screen.print(&text)?)
}

fn document(message: &StreamMessage, id: Option<&str>) -> Result<String, Failure> {
    let document = match message {
        StreamMessage::Event(event) => serde_json::to_value(event).map(|mut event| {
            event["id"] = json!(id);
            event
        }),
        StreamMessage::Gap(gap) => Ok(json!({ "kind": "gap", "lost": gap.lost, "text": gap.text })),
    };
    let text = document.and_then(|document| serde_json::to_string(&document));
    text.map(|text| clean_json(&text))
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot print an event: {error}"), "report this as a bug"))
}

/// Formats a message of the stream as one line.
fn line(message: &StreamMessage, look: &Look) -> String {
    match message {
        StreamMessage::Event(event) => event_line(event, look),
        StreamMessage::Gap(gap) => {
            let lost = gap.lost.map_or_else(String::new, |lost| format!(" ({lost} lost)"));
            format!("{}\n", look.paint(Tone::Warn, &format!("… {}{lost}", clean(&gap.text))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::wire::Event;

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        let event = Event {
            sequence: 1,
            unix_ms: 1_700_000_000_000,
            kind: "list".to_owned(),
            container: None,
            name: Some("a\nb".to_owned()),
            text: "x\u{1b}[2J\ny".to_owned(),
            alert: None,
        };
        let shown = line(&StreamMessage::Event(event), &Look { columns: Some(80), color: false });
        assert_eq!(shown, "2023-11-14 22:13:20 list     ab: x[2Jy\n");
    }
}
