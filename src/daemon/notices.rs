//! The messages about a job: what happened, and what holds at present.

use super::job::Job;
use super::publish::notice;
use super::subject::Subject;
use model::NoticeLevel;

const NOTICES_AT_MOST: usize = 16;

impl Job {
    /// Adds a notice, once per text.
    pub(crate) fn add_notice(&mut self, level: NoticeLevel, text: &str) {
        if self.notices.iter().any(|notice| notice.text == text) {
            return;
        }
        tracing::warn!(container = %self.target.id, name = self.target.name, "{text}");
        if self.notices.len() == NOTICES_AT_MOST {
            self.notices.remove(0);
        }
        self.notices.push(notice(level, text));
    }

    /// Replaces the notice about a subject; `None` removes it.
    pub(crate) fn set_notice(&mut self, subject: Subject, text: Option<String>) {
        let before = self.current_notices.remove(&subject);
        if let Some(before) = before.filter(|before| text.as_ref() != Some(before)) {
            self.notices.retain(|notice| notice.text != before);
        }
        if let Some(text) = text {
            self.add_notice(subject.level(), &text);
            self.current_notices.insert(subject, text);
        }
    }

    /// Removes the notice that its log does not answer, because it answers.
    pub(crate) fn log_answers(&mut self, silence: &str) {
        if self.current_notices.get(&Subject::Log).is_some_and(|problem| problem == silence) {
            self.set_notice(Subject::Log, None);
        }
    }
}
