//! The health of a job in tables: one word and its tone; and the mark of a metric's trend.
//!
//! Pure.

use api::wire::{Health, Metric, Trend};
use model::Condition;
use term::screen::Tone;
use term::text::clean;

/// The condition in one or two words, with its tone.
pub(super) fn word(health: Option<&Health>) -> Option<(Tone, String)> {
    let health = health?;
    let known: Option<Condition> = serde_json::from_value(health.condition.as_str().into()).ok();
    let tone = match (health.severity.as_str(), known) {
        ("broken", _) => Tone::Bad,
        ("trouble", _) => Tone::Warn,
        (_, Some(Condition::Learning)) => Tone::Good,
        _ => Tone::Dim,
    };
    Some((tone, known.map_or_else(|| clean(&health.condition), |known| known.to_string())))
}

/// How bad the condition is, for sorting: the worst first.
pub(super) fn rank(health: Option<&Health>) -> Option<f64> {
    let known: Condition = serde_json::from_value(health?.condition.as_str().into()).ok()?;
    Condition::ALL.iter().rev().position(|condition| *condition == known).map(|rank| rank as f64)
}

/// The trend of a metric: `↗` better, `↘` worse, `→` flat, whichever direction is better for it.
pub(super) fn trend(metric: &Metric) -> (Tone, &'static str) {
    match metric.trend {
        _ if metric.value.is_none() => (Tone::Bad, " "),
        Trend::Improving => (Tone::Good, "↗"),
        Trend::Diverging => (Tone::Bad, "↘"),
        Trend::Plateau => (Tone::Plain, "→"),
        Trend::Unknown => (Tone::Plain, " "),
    }
}
