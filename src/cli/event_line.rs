//! One event of the daemon as a line.

use api::wire::Event;
use term::screen::{Look, Tone};
use term::text::clean;
use term::when;

/// Formats an event as one line: time, kind, job and text, which often begins with the job. Nothing is cut off.
pub(crate) fn event_line(event: &Event, look: &Look) -> String {
    let tone = match event.kind.as_str() {
        "started" | "ended" => Tone::Accent,
        "hold" | "notice" => Tone::Warn,
        _ => Tone::Plain,
    };
    let text = clean(&event.text);
    let who = event.name.as_deref().or(event.container.as_deref()).map(clean).unwrap_or_default();
    let of_job = text.strip_prefix(&who).filter(|rest| rest.starts_with([' ', ':']));
    let (who, text) = match of_job {
        Some(rest) => (who, rest),
        None if who.is_empty() => (who, text.as_str()),
        None => (who + ": ", text.as_str()),
    };
    format!(
        "{} {} {}{text}\n",
        look.paint(Tone::Dim, &when::clock(event.unix_ms)),
        look.paint(tone, &format!("{:<8}", clean(&event.kind))),
        look.paint(Tone::Bold, &who),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: Option<&str>, text: &str) -> String {
        let event = Event {
            sequence: 1,
            unix_ms: 1_700_000_000_000,
            kind: "ended".to_owned(),
            container: name.map(|_| "4f2a9c01d3e7".to_owned()),
            name: name.map(str::to_owned),
            text: text.to_owned(),
            alert: None,
        };
        let line = event_line(&event, &Look { columns: Some(80), color: false });
        line.split_once("ended    ").expect("the kind").1.trim_end().to_owned()
    }

    #[test]
    fn the_name_of_the_job_is_not_repeated() {
        assert_eq!(line(Some("lroom"), "lroom ended: exit code 0"), "lroom ended: exit code 0");
        assert_eq!(line(Some("lroom"), "lroom: New list, no evaluation yet"), "lroom: New list, no evaluation yet");
        assert_eq!(line(Some("lroom"), "lroom2 waits for it"), "lroom: lroom2 waits for it");
        assert_eq!(line(Some("lroom"), "reads the log again"), "lroom: reads the log again");
        assert_eq!(line(None, "the configuration was reloaded"), "the configuration was reloaded");
    }

    #[test]
    fn nothing_is_cut_off() {
        let (name, text) = ("n".repeat(60), "words ".repeat(40));
        assert_eq!(line(Some(&name), &text), format!("{name}: {}", text.trim_end()));
    }
}
