//! Stops a container as its owner would: with the signal and the stop timeout that it was created with.

use super::engine::{Engine, checked_id};
use super::error::EngineError;
use hyper::{Method, StatusCode};
use model::ContainerId;
use std::sync::Arc;
use tokio::sync::Semaphore;

impl Engine {
    /// Stops a container, and returns when it has ended. After a timeout the engine goes on: the container's own stop timeout may be longer.
    ///
    /// # Errors
    /// [`EngineError::Gone`] if it does not exist any more.
    pub async fn stop(&self, id: &ContainerId) -> Result<(), EngineError> {
        let operation = format!("stop container {id}");
        checked_id(&operation, id)?;
        // With a permit of its own, because it takes as long as the container wants, and other calls need theirs meanwhile.
        let patient = self.patient(Arc::new(Semaphore::new(1)));
        let exchange = self.exchange(Method::POST, &format!("/containers/{}/stop", id.as_str()), Vec::new());
        let answered = patient.in_turn(&operation, exchange).await?;
        let (status, body) = answered.map_err(|error| self.unreachable(&operation, &error))?;
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(()); // the latter: it had ended before
        }
        Err(EngineError::from_status(&operation, status.as_u16(), &body))
    }
}
