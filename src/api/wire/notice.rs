//! Messages for the operator of the node, in `/v1/status` and with their containers.

use super::word;
use model::NoticeLevel;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A message for the operator, with the next step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// `info` or `warning`.
    pub level: String,
    /// Unix time in milliseconds of its first occurrence.
    pub unix_ms: u64,
    /// Message: what happened, where, and what to do.
    pub text: String,
}

impl Notice {
    pub(super) fn of(notice: &model::Notice) -> Notice {
        Notice { level: word(notice.level), unix_ms: notice.unix_ms, text: notice.text.clone() }
    }

    /// Whether it is a warning.
    pub fn is_warning(&self) -> bool {
        self.level == word(NoticeLevel::Warning)
    }
}
