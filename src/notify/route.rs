//! Which event makes which messages, and for whom.

use crate::message::Message;
use api::wire::{Alert, Event};
use config::TargetSettings;
use model::{AlertKind, word};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Failures of one container within this time are restarts.
const RESTARTS_WITHIN_MS: u64 = 600_000;
/// A container that is restarted again and again is reported at most so often.
const RESTARTS_EVERY_MS: u64 = 3_600_000;
/// Jobs that are remembered; beyond, the one of which nothing was heard for longest is forgotten.
const JOBS_AT_MOST: usize = 4096;

/// What was told about jobs, so that a restart of the daemon does not tell it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    jobs: BTreeMap<String, Told>,
}

/// What was told about one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Told {
    /// Its present trouble.
    trouble: Option<AlertKind>,
    /// Its last failure.
    failed_ms: Option<u64>,
    /// When its restarts were last reported.
    restarts_ms: Option<u64>,
    /// When it was last heard of.
    heard_ms: u64,
}

/// Returns the messages about an event, each with the name of its target.
pub(crate) fn route(
    event: &Event,
    memory: &mut Memory,
    targets: &BTreeMap<String, TargetSettings>,
    host: &str,
    now_ms: u64,
) -> Vec<(String, Message)> {
    let Some(alert) = alert_of(event) else { return Vec::new() };
    let kind = AlertKind::ALL.into_iter().find(|kind| word(*kind) == alert.kind);
    let Some(kind) = kind.and_then(|kind| memory.news(event, kind)) else { return Vec::new() };
    let message = Message {
        unix_ms: event.unix_ms,
        queued_ms: now_ms,
        kind,
        host: host.to_owned(),
        job: event.name.clone(),
        container: event.container.clone(),
        user: alert.user.clone(),
        words: match kind {
            AlertKind::Restarting => format!("{}, and is restarted again and again", alert.words),
            _ => alert.words.clone(),
        },
        detail: alert.detail.clone(),
    };
    let sweep = (alert.trials_left == Some(0)).then(|| Message {
        kind: AlertKind::Sweep,
        words: "was the last running trial of its sweep".to_owned(),
        detail: "All of its trials have ended; `flowctl sweep` shows their results.".to_owned(),
        ..message.clone()
    });
    let receivers = receivers(&alert, kind, targets);
    let wanted = |message: &Message| {
        let of_kind = |target: &TargetSettings| wants(target, message.kind, alert.ran_s);
        let names = receivers.iter().filter(|(_, target)| of_kind(target)).map(|(name, _)| (*name).clone());
        names.map(|name| (name, message.clone())).collect::<Vec<_>>()
    };
    std::iter::once(&message).chain(&sweep).flat_map(wanted).collect()
}

/// The facts of a message about an event. A notice about the node has only its text.
fn alert_of(event: &Event) -> Option<Alert> {
    let is_about_node = event.kind == "notice" && event.container.is_none();
    event.alert.as_deref().cloned().or_else(|| {
        is_about_node.then(|| Alert {
            kind: word(AlertKind::Node),
            words: event.text.clone(),
            detail: String::new(),
            user: None,
            notify: None,
            ran_s: None,
            trials_left: None,
        })
    })
}

/// The targets that the label of the job names; without one, or if there are none of these, those for all jobs.
fn receivers<'a>(
    alert: &Alert,
    kind: AlertKind,
    targets: &'a BTreeMap<String, TargetSettings>,
) -> Vec<(&'a String, &'a TargetSettings)> {
    if let Some(names) = &alert.notify {
        let named: Vec<_> = targets.iter().filter(|(name, _)| names.contains(name)).collect();
        if names.is_empty() || !named.is_empty() {
            return named;
        }
    }
    let is_for = |target: &TargetSettings| {
        let is_of_user = || alert.user.as_ref().is_some_and(|user| target.users.contains(user));
        target.all_jobs && (target.users.is_empty() || (kind != AlertKind::Node && is_of_user()))
    };
    targets.iter().filter(|(_, target)| is_for(target)).collect()
}

fn wants(target: &TargetSettings, kind: AlertKind, ran_s: Option<u64>) -> bool {
    let is_long = target.done_after.zip(ran_s).is_some_and(|(after, ran_s)| ran_s * 1000 >= after.0);
    target.events.contains(&kind) || (kind.is_end() && is_long)
}

impl Memory {
    /// Returns what an event is news of: nothing, if it was told before.
    fn news(&mut self, event: &Event, kind: AlertKind) -> Option<AlertKind> {
        let Some(container) = &event.container else { return Some(kind) };
        let told = self.jobs.entry(container.clone()).or_default();
        told.heard_ms = event.unix_ms;
        let recent = |at: Option<u64>, within| at.is_some_and(|at| event.unix_ms.saturating_sub(at) < within);
        let news = match kind {
            AlertKind::Recovered => told.trouble.take().map(|_| kind),
            kind if kind.is_end() => {
                told.trouble = None;
                let failed = kind.is_urgent().then_some(event.unix_ms);
                let is_restart = failed.is_some() && recent(told.failed_ms, RESTARTS_WITHIN_MS);
                told.failed_ms = failed;
                if !is_restart {
                    Some(kind)
                } else if recent(told.restarts_ms, RESTARTS_EVERY_MS) {
                    None
                } else {
                    told.restarts_ms = Some(event.unix_ms);
                    Some(AlertKind::Restarting)
                }
            }
            kind => (told.trouble.replace(kind) != Some(kind)).then_some(kind),
        };
        if self.jobs.len() > JOBS_AT_MOST
            && let Some(oldest) =
                self.jobs.iter().min_by_key(|(_, told)| told.heard_ms).map(|(container, _)| container.clone())
        {
            self.jobs.remove(&oldest);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Millis;

    const MINUTE: u64 = 60_000;

    fn event(kind: &str, unix_ms: u64) -> Event {
        Event {
            sequence: 1,
            unix_ms,
            kind: "health".to_owned(),
            container: Some("abc".to_owned()),
            name: Some("resnet-a".to_owned()),
            text: "text".to_owned(),
            alert: Some(Box::new(Alert {
                kind: kind.to_owned(),
                words: "words".to_owned(),
                detail: "Detail.".to_owned(),
                user: Some("alice".to_owned()),
                notify: None,
                ran_s: None,
                trials_left: None,
            })),
        }
    }

    fn with(kind: &str, change: impl FnOnce(&mut Alert)) -> Event {
        let mut event = event(kind, 0);
        change(event.alert.as_mut().unwrap());
        event
    }

    /// The kinds that a target with these settings gets for the events.
    fn kinds(target: TargetSettings, events: &[Event]) -> Vec<AlertKind> {
        let targets = BTreeMap::from([("ops".to_owned(), target)]);
        let mut memory = Memory::default();
        let routed = events.iter().flat_map(|event| route(event, &mut memory, &targets, "gpu-1", 7));
        routed.map(|(_, message)| message.kind).collect()
    }

    fn everything() -> TargetSettings {
        TargetSettings { events: AlertKind::ALL.to_vec(), ..TargetSettings::default() }
    }

    #[test]
    fn nothing_is_told_about_healthy_jobs_unless_they_ran_long_or_it_is_wanted() {
        for kind in ["done", "stopped", "ended", "recovered", "overfitting", "starving-gpu"] {
            assert_eq!(kinds(TargetSettings::default(), &[event(kind, 0)]), [], "{kind}");
        }
        let long = with("done", |alert| alert.ran_s = Some(7200));
        let short = with("done", |alert| alert.ran_s = Some(7199));
        assert_eq!(kinds(TargetSettings::default(), &[short, long.clone()]), [AlertKind::Done]);
        assert_eq!(kinds(TargetSettings { done_after: None, ..TargetSettings::default() }, &[long]), []);
        let done = TargetSettings { done_after: Some(Millis(0)), ..TargetSettings::default() };
        assert_eq!(kinds(done, &[with("stopped", |alert| alert.ran_s = Some(0))]), [AlertKind::Stopped]);
        for kind in ["failed", "killed-for-memory", "killed", "nan", "diverging", "stalled", "late", "short-of-memory"]
        {
            assert_eq!(kinds(TargetSettings::default(), &[event(kind, 0)]).len(), 1, "{kind}");
        }
        let plain = Event { alert: None, ..event("nan", 0) };
        assert_eq!(kinds(everything(), &[plain]), []);
    }

    #[test]
    fn a_trouble_is_told_once_until_it_is_over() {
        let told = kinds(everything(), &[event("nan", 1), event("nan", 2), event("diverging", 3), event("nan", 4)]);
        assert_eq!(told, [AlertKind::Nan, AlertKind::Diverging, AlertKind::Nan]);
        let told = kinds(everything(), &[event("stalled", 1), event("recovered", 2), event("stalled", 3)]);
        assert_eq!(told, [AlertKind::Stalled, AlertKind::Recovered, AlertKind::Stalled]);
        assert_eq!(kinds(everything(), &[event("recovered", 1)]), [], "nobody was told of the trouble");
    }

    #[test]
    fn a_container_that_fails_again_and_again_is_told_twice() {
        let failures: Vec<Event> = (0..20).map(|n| event("failed", 1 + n * MINUTE)).collect();
        assert_eq!(kinds(everything(), &failures), [AlertKind::Failed, AlertKind::Restarting]);
        let rare = [event("failed", 1), event("failed", 11 * MINUTE)];
        assert_eq!(kinds(everything(), &rare), [AlertKind::Failed, AlertKind::Failed]);
    }

    #[test]
    fn the_last_trial_of_a_sweep_is_told_beside_its_end() {
        let last = with("failed", |alert| alert.trials_left = Some(0));
        assert_eq!(kinds(everything(), &[last]), [AlertKind::Failed, AlertKind::Sweep]);
        let other = with("failed", |alert| alert.trials_left = Some(1));
        assert_eq!(kinds(everything(), &[other]), [AlertKind::Failed]);
    }

    #[test]
    fn the_label_decides_and_otherwise_the_configuration() {
        let targets = BTreeMap::from([
            ("all".to_owned(), TargetSettings::default()),
            ("alice".to_owned(), TargetSettings { users: vec!["alice".to_owned()], ..TargetSettings::default() }),
            ("bob".to_owned(), TargetSettings { users: vec!["bob".to_owned()], ..TargetSettings::default() }),
            ("named".to_owned(), TargetSettings { all_jobs: false, ..TargetSettings::default() }),
        ]);
        let to = |event: &Event| {
            let routed = route(event, &mut Memory::default(), &targets, "gpu-1", 7);
            routed.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
        };
        let label = |names: &[&str]| {
            with("nan", |alert| alert.notify = Some(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert_eq!(to(&event("nan", 0)), "alice all");
        assert_eq!(to(&label(&["named", "bob"])), "bob named");
        assert_eq!(to(&label(&[])), "", "flowcon.notify=none");
        assert_eq!(to(&label(&["unknown"])), "alice all", "a wrong label loses nothing");
        assert_eq!(to(&label(&["unknown", "named"])), "named");
        let notice = Event { kind: "notice".to_owned(), container: None, name: None, alert: None, ..event("nan", 0) };
        assert_eq!(to(&notice), "all");
    }
}
