//! The end of a job and its restarts, for `flowctl explain`.

use super::Page;
use api::wire::{Container, Ended};
use term::screen::Tone;
use term::text::{self, clean};
use term::when;

/// The state in the title, before `for` and a time.
pub(super) fn state(container: &Container) -> String {
    container.ended.as_ref().map_or_else(|| clean(&container.state), |end| format!("{}, ran", clean(&end.text)))
}

/// Writes how often the engine restarted the job, if it did.
pub(super) fn restarts(page: &mut Page<'_>, container: &Container) {
    if let Some(restarts) = &container.restarts {
        page.line("restarts", &restarts.text);
    }
}

/// Writes how the job ended, and what to do.
pub(super) fn section(page: &mut Page<'_>, end: &Ended) {
    page.section("End");
    let tone = if end.is_failure() { Tone::Bad } else { Tone::Plain };
    page.toned(tone, "how", &end.text);
    page.line("what", &end.story);
    page.line("when", &format!("{}, {} ago", when::clock(end.unix_ms), text::duration(end.ago_s)));
    page.line("exit code", &end.exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string()));
    let limit = end.memory_limit_bytes.map(|limit| format!("limit {}", text::bytes(limit)));
    let peak = end.memory_peak_bytes.map(|peak| format!("peak {} as last observed", text::bytes(peak)));
    let memory: Vec<String> = [limit, peak].into_iter().flatten().collect();
    if !memory.is_empty() {
        page.line("memory", &memory.join(", "));
    }
    if end.recent_ends > 1 {
        page.line("ends", &format!("{} within 10 min", end.recent_ends));
    }
}
