//! Updates of containers that were sent and may not be answered yet.
//!
//! An update that is not answered in time goes on: an engine carries it out all the same. The next update of its container waits for it,
//! so that updates neither overtake each other nor queue up at a slow engine, which would make it slower still. A repetition gets its
//! answer, which is as good as its own: the caller reads the result back in any case.

use super::CALL_TIMEOUT_MOST;
use super::update::UpdateBody;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use hyper::StatusCode;
use hyper::body::Bytes;
use model::ContainerId;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time after which an answer that nobody has waited for is forgotten.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// Status and body of an answer, or why there is none.
type Answered = Result<(StatusCode, Bytes), Arc<io::Error>>;

/// The last update of each container, until its answer was received.
#[derive(Clone, Default)]
pub(super) struct SentUpdates(Arc<Mutex<BTreeMap<ContainerId, SentUpdate>>>);

#[derive(Clone)]
struct SentUpdate {
    body: UpdateBody,
    sent: Instant,
    answer: Shared<BoxFuture<'static, Answered>>,
}

impl SentUpdates {
    /// Sends an update and returns its answer. `exchange` sends `body`; it is not polled before the last update of this container is
    /// answered, nor if that was the same and succeeded. Can be dropped at any time: the next call goes on from there.
    pub(crate) async fn send(
        &self,
        id: &ContainerId,
        body: UpdateBody,
        exchange: impl Future<Output = io::Result<(StatusCode, Bytes)>> + Send + 'static,
    ) -> Answered {
        if let Some(earlier) = self.last_of(id) {
            let answered = self.answer_of(id, earlier.answer).await;
            let succeeded = answered.as_ref().is_ok_and(|(status, _)| status.is_success());
            if succeeded && earlier.body == body {
                return answered;
            }
        }
        let sent = SentUpdate { body, sent: Instant::now(), answer: start(exchange) };
        self.lock().insert(id.clone(), sent.clone());
        self.answer_of(id, sent.answer).await
    }

    fn last_of(&self, id: &ContainerId) -> Option<SentUpdate> {
        let mut sent = self.lock();
        sent.retain(|_, update| update.sent.elapsed() < KEPT_FOR);
        sent.get(id).cloned()
    }

    async fn answer_of(&self, id: &ContainerId, answer: Shared<BoxFuture<'static, Answered>>) -> Answered {
        let answered = answer.await;
        self.lock().remove(id);
        answered
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, SentUpdate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts an exchange, which goes on if nobody waits for it.
fn start(
    exchange: impl Future<Output = io::Result<(StatusCode, Bytes)>> + Send + 'static,
) -> Shared<BoxFuture<'static, Answered>> {
    let running = tokio::spawn(timeout(CALL_TIMEOUT_MOST, exchange));
    let answer = async {
        let in_time = running.await.map_err(io::Error::other).and_then(|done| done.map_err(io::Error::from));
        in_time.and_then(|answer| answer).map_err(Arc::new)
    };
    answer.boxed().shared()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    fn shares(shares: i64) -> UpdateBody {
        UpdateBody { cpu_shares: Some(shares), ..UpdateBody::default() }
    }

    /// An engine that answers one update for each permit.
    #[derive(Clone)]
    struct Engine {
        updates: SentUpdates,
        received: Arc<AtomicUsize>,
        answers: Arc<Semaphore>,
    }

    impl Engine {
        fn new() -> Engine {
            Engine { updates: SentUpdates::default(), received: Arc::default(), answers: Arc::new(Semaphore::new(0)) }
        }

        /// Sends an update, and waits up to `limit` for the answer: the number of updates that the engine had received.
        async fn update(&self, id: &str, body: UpdateBody, limit: Duration) -> Option<u8> {
            let Engine { updates, received, answers } = self.clone();
            let exchange = async move {
                let number = received.fetch_add(1, Ordering::Relaxed) as u8 + 1;
                answers.acquire().await.unwrap().forget();
                Ok((StatusCode::OK, Bytes::from(vec![number])))
            };
            let answered = timeout(limit, updates.send(&ContainerId::new(id), body, exchange)).await.ok()?;
            Some(answered.unwrap().1[0])
        }

        fn received(&self) -> usize {
            self.received.load(Ordering::Relaxed)
        }
    }

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_slow_engine_has_one_update_of_a_container_at_a_time_and_a_repetition_gets_its_answer() {
        let engine = Engine::new();
        for _ in 0..3 {
            assert_eq!(engine.update("a", shares(40), SHORT).await, None);
        }
        assert_eq!(engine.update("b", shares(40), SHORT).await, None);
        assert_eq!(engine.received(), 2, "one for each container");

        engine.answers.add_permits(1);
        assert_eq!(engine.update("a", shares(40), LONG).await, Some(1));
        assert_eq!(engine.received(), 2);
        engine.answers.add_permits(2);
        assert_eq!(engine.update("a", shares(40), LONG).await, Some(3), "what was answered is sent anew");
    }

    #[tokio::test]
    async fn another_update_of_a_container_waits_for_the_last_one() {
        let engine = Engine::new();
        for shares_of_us in [40, 1024] {
            assert_eq!(engine.update("a", shares(shares_of_us), SHORT).await, None);
        }
        assert_eq!(engine.received(), 1);
        engine.answers.add_permits(2);
        assert_eq!(engine.update("a", shares(1024), LONG).await, Some(2));
    }

    #[tokio::test]
    async fn what_failed_is_sent_again() {
        let (updates, id) = (SentUpdates::default(), ContainerId::new("a"));
        let lost = async { Err(io::Error::from(io::ErrorKind::ConnectionReset)) };
        let failed = updates.send(&id, shares(40), lost).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::ConnectionReset);
        let answered = updates.send(&id, shares(40), async { Ok((StatusCode::OK, Bytes::new())) }).await;
        assert_eq!(answered.unwrap().0, StatusCode::OK);
    }
}
