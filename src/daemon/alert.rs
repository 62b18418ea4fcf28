//! What is known about a job for messages about it: whose it is, and who is to be told.

use super::job::Job;
use super::subject::Subject;
use config::Settings;
use model::{Alert, AlertKind, JobEnd};

impl Job {
    /// Finds by the settings to whom it belongs, and which of the targets of its label there are.
    pub(super) fn assign(&mut self, settings: &Settings) {
        self.owner.assign(&self.directives, &settings.users);
        let named = self.directives.notify.iter().flatten();
        let unknown: Vec<&str> =
            named.map(String::as_str).filter(|name| !settings.notify.contains_key(*name)).collect();
        let problem = (!unknown.is_empty()).then(|| {
            let known: Vec<&str> = settings.notify.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
            format!(
                "label flowcon.notify ignored for {}: there is no such target of messages (targets: {known}); see `flowctl help \
                 notify`",
                unknown.join(", ")
            )
        });
        self.set_notice(Subject::Notify, problem);
    }

    /// An alert about it.
    pub(super) fn alert(&self, kind: AlertKind, words: String) -> Alert {
        Alert {
            kind,
            words,
            detail: String::new(),
            user: self.owner.user.as_deref().map(str::to_owned),
            notify: self.directives.notify.clone(),
            ran_s: None,
            trials_left: None,
        }
    }

    /// The alert about its end.
    pub(super) fn alert_of_end(&self, end: &JobEnd) -> Alert {
        let kind = AlertKind::of_end(end.end);
        let words = match kind {
            AlertKind::Done => "done".to_owned(),
            _ => end.summary(),
        };
        Alert {
            detail: end.story(&self.target.name, self.target.runtime),
            ran_s: Some(end.unix_ms.saturating_sub(self.target.started_unix_ms) / 1000),
            ..self.alert(kind, words)
        }
    }
}
