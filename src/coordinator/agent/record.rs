//! What flowcond knows of a job that moves: asked at the source, handed to the target's before the job starts there. A move neither fails nor
//! waits for it: without it the target learns anew. Imports: api, model.

use crate::api::client::{Client, ClientError, segment};
use crate::model::swarm::ServiceId;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// flowcond answers at once, or the job moves without.
const WITHIN: Duration = Duration::from_secs(1);
/// The answer to who asks for what is not there, or not yet: an older flowcond's too.
const NOT_THERE: u16 = 404;

fn path(service: &ServiceId) -> String {
    format!("/v1/services/{}/record", segment(&service.0))
}

/// What this node's flowcond knows of the job.
pub(super) async fn known_of(service: &ServiceId, flowcond: &Path) -> Option<Value> {
    match Client::new(flowcond, WITHIN).get(&path(service)).await {
        Ok(record) => Some(record),
        Err(error) => {
            told(service, "what flowcond knows of it does not go with a job that moves", &error);
            None
        }
    }
}

/// Has this node's flowcond expect the job.
pub(super) async fn expect(service: &ServiceId, record: &Value, flowcond: &Path) {
    match Client::new(flowcond, WITHIN).put(&path(service), record).await {
        Ok(done) => tracing::debug!(%service, "{}", done.done),
        Err(error) => told(service, "flowcond here does not take what is known of a job that comes", &error),
    }
}

fn told(service: &ServiceId, what: &str, error: &ClientError) {
    match error {
        ClientError::Refused { status: NOT_THERE, .. } => tracing::debug!(%service, %error, "{what}"),
        _ => tracing::warn!(%service, %error, "{what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn a_flowcond_that_is_gone_or_hangs_holds_no_move_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let (service, gone, hangs) = (ServiceId("s".into()), folder.path().join("gone"), folder.path().join("hangs"));
        let _listens = std::os::unix::net::UnixListener::bind(&hangs).expect("a socket");
        for socket in [gone, hangs] {
            let began = Instant::now();
            assert_eq!(known_of(&service, &socket).await, None);
            expect(&service, &Value::Null, &socket).await;
            assert!(began.elapsed() < 3 * WITHIN);
        }
    }
}
