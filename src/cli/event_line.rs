//! One event of the daemon as a line.

use api::wire::Event;
use term::screen::{Look, Tone};
use term::text::{self, clean};
use term::when;

/// Formats an event as one line: time, kind, job and text.
pub(crate) fn event_line(event: &Event, look: &Look) -> String {
    let tone = match event.kind.as_str() {
        "started" | "ended" => Tone::Accent,
        "hold" | "notice" => Tone::Warn,
        _ => Tone::Plain,
    };
    let who = event.name.as_deref().or(event.container.as_deref()).map(|name| text::fit(&clean(name), 20));
    let who = who.map_or_else(String::new, |who| format!("{who}: "));
    format!(
        "{} {} {}{}\n",
        look.paint(Tone::Dim, &when::clock(event.unix_ms)),
        look.paint(tone, &format!("{:<8}", clean(&event.kind))),
        look.paint(Tone::Bold, &who),
        clean(&event.text)
    )
}
