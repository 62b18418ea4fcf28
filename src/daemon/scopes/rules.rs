//! What each user may register as a command of `flowctl run`: names, labels, and processes of their own.

use config::labels;
use node::users;
use scope::ScopeName;
use scope::protocol::Registration;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Size of the labels of one command, in bytes.
const LABEL_BYTES: usize = 32 << 10;

/// Why a request is refused, and the next step.
pub(super) type Refusal = (String, String);

/// Rules for users other than root, the daemon's own user and the admins.
pub(super) struct Rules {
    pub(super) trusted: BTreeSet<u32>,
    pub(super) scopes_per_user: usize,
    pub(super) label_bytes: usize,
}

impl Rules {
    /// Checks that a user, who has this account, may use these labels.
    pub(super) fn check_labels(&self, uid: u32, account: u32, given: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let bytes = bytes_of(given);
        if bytes > LABEL_BYTES {
            let message = format!("the labels of the command have {bytes} bytes; the maximum is {LABEL_BYTES}");
            return Err((message, "remove some labels".to_owned()));
        }
        if self.trusted.contains(&uid) {
            return Ok(());
        }
        labels::for_everybody(given, &users::name_or_number(account))
            .map_err(|message| (message, "leave it out, or ask to be added to api.admins in flowcond.toml".to_owned()))
    }
}

/// The name of a command, if it is valid.
pub(super) fn name_of(registration: &Registration) -> Result<ScopeName, Refusal> {
    ScopeName::new(&registration.name).map_err(|error| parts(&error.to_string()))
}

/// Splits an error message at the semicolon before the next step.
pub(super) fn parts(text: &str) -> Refusal {
    text.rsplit_once("; ").map_or((text.to_owned(), String::new()), |(what, next)| (what.into(), next.into()))
}

/// The size of labels in bytes.
pub(super) fn bytes_of(labels: &BTreeMap<String, String>) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// The real, effective, saved and file system user of a process.
pub(super) fn users_of(pid: u32) -> Option<[u32; 4]> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let users: Vec<u32> = users.split_ascii_whitespace().filter_map(|user| user.parse().ok()).collect();
    users.try_into().ok()
}
