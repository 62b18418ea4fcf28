//! Failures of transfers: which of them a retry may not repeat, and what they say.

use super::claim::other_owner;
use super::sandbox;
use model::swarm::{Transfer, TransferOutcome};
use std::io;
use std::path::Path;

/// Returns the outcome if the target's volume is another job's.
pub(super) fn owned_by_other(data: &Path, carriage: &Transfer) -> Option<TransferOutcome> {
    match other_owner(data, carriage) {
        Ok(why) => why.map(TransferOutcome::Impossible),
        Err(error) => Some(failed(&error, None)),
    }
}

/// Returns the outcome of an error while a volume was written. `broken`: why the stream from the source ended early.
pub(super) fn failed(error: &io::Error, broken: Option<String>) -> TransferOutcome {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            TransferOutcome::Impossible(format!("no space on the target: {}", cause(error)))
        }
        io::ErrorKind::ReadOnlyFilesystem => TransferOutcome::Impossible(sandbox::explained(error)),
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidData => TransferOutcome::Impossible(cause(error)),
        _ => TransferOutcome::Failed(broken.unwrap_or_else(|| error.to_string())),
    }
}

/// Returns the innermost error as text: those of `tar` say only which file they are about.
fn cause(error: &io::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
