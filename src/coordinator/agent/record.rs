//! The job record of flowcond for a job that moves: read at the source, and passed to the target's flowcond before the job starts there. A
//! move does not fail or wait without it: the target then learns from scratch.

use api::client::{Client, ClientError, segment};
use hyper::Method;
use model::swarm::ServiceId;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Timeout of requests to flowcond; without a reply the job moves without its record.
const WITHIN: Duration = Duration::from_secs(1);
/// Status if there is no record, or if an older flowcond does not know the path.
const NOT_THERE: u16 = 404;

fn path(service: &ServiceId) -> String {
    format!("/v1/services/{}/record", segment(&service.0))
}

/// Reads the job record from this node's flowcond.
pub(super) async fn read(service: &ServiceId, flowcond: &Path) -> Option<Value> {
    match Client::new(flowcond, WITHIN).get(&path(service)).await {
        Ok(record) => Some(record),
        Err(error) => {
            log_failure(service, "cannot read the job record from flowcond; the job moves without it", &error);
            None
        }
    }
}

/// Passes the job record to this node's flowcond, which then expects the job.
pub(super) async fn hand_over(service: &ServiceId, record: &Value, flowcond: &Path) {
    match Client::new(flowcond, WITHIN).send_json(Method::PUT, &path(service), record).await {
        Ok(done) => tracing::debug!(%service, "{}", done.done),
        Err(error) => log_failure(service, "cannot pass the job record to flowcond; it learns from scratch", &error),
    }
}

fn log_failure(service: &ServiceId, what: &str, error: &ClientError) {
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
    async fn a_flowcond_that_is_stopped_or_hangs_does_not_delay_a_move() {
        let folder = tempfile::tempdir().expect("a folder");
        let (service, gone, hangs) = (ServiceId("s".into()), folder.path().join("gone"), folder.path().join("hangs"));
        let _listens = std::os::unix::net::UnixListener::bind(&hangs).expect("a socket");
        for socket in [gone, hangs] {
            let began = Instant::now();
            assert_eq!(read(&service, &socket).await, None);
            hand_over(&service, &Value::Null, &socket).await;
            assert!(began.elapsed() < 20 * WITHIN); // two timeouts, on a busy machine
        }
    }
}
