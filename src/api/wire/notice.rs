//! A message for whoever runs the node: in `/v1/status`, and beside the container that it is about. Imports: model.

use super::word;
use crate::model::{self, NoticeLevel};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A message said once, with the next step in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// `info` or `warning`.
    pub level: String,
    /// When it was first said.
    pub unix_ms: u64,
    /// What, where, and what to do.
    pub text: String,
}

impl Notice {
    pub(super) fn of(notice: &model::Notice) -> Notice {
        Notice { level: word(notice.level), unix_ms: notice.unix_ms, text: notice.text.clone() }
    }

    /// Whether something does not work as asked.
    pub fn is_warning(&self) -> bool {
        self.level == word(NoticeLevel::Warning)
    }
}
