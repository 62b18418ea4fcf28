//! The health of a job, with its evidence. Pure.

use super::Page;
use crate::health;
use api::wire::{Container, Explanation};
use term::text;

/// Adds the section, if the daemon judges the job.
pub(super) fn section(page: &mut Page<'_>, container: &Container, explanation: &Explanation) {
    let Some((health, (tone, _))) = container.health.as_ref().zip(health::word(container.health.as_ref())) else {
        return;
    };
    page.section("Health");
    let held = text::duration(health.for_s);
    let words = format!("{}; for {held}, confidence {}", health.words, text::percent(health.confidence));
    page.toned(tone, "condition", &words);
    page.line("evidence", &explanation.health);
}
