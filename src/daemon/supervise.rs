//! Supervision of the tasks beside the loop: if one ends before the daemon does, usually by a panic, the daemon ends.
//!
//! Without its actuator, the loop would wait for outcomes for ever and look alive to the service manager. A daemon that ends with an
//! error is restarted, and its unit restores the original limits before that.

use super::error::DaemonError;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Threads without which the daemon cannot do its work. Other threads report their own end.
const THREADS: [(&str, &str); 1] = [("logs", "the thread that reads logs")];

/// The tasks that run beside the loop.
pub(super) struct Tasks {
    running: FuturesUnordered<BoxFuture<'static, DaemonError>>,
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        let tasks = Tasks { running: FuturesUnordered::new() };
        tasks.running.push(thread_panicked().boxed());
        tasks
    }

    /// Watches a task that must outlive the loop.
    pub(crate) fn watch(&self, task: &'static str, handle: JoinHandle<()>) {
        let ended = async move {
            let why = match handle.await {
                Ok(()) => "it has ended".to_owned(),
                Err(error) if error.is_panic() => format!("it panicked: {}", message_of(&*error.into_panic())),
                Err(error) => error.to_string(),
            };
            DaemonError::Died { task, why }
        };
        self.running.push(ended.boxed());
    }

    /// Returns the error of the first task that ends.
    pub(crate) async fn first_to_end(&mut self) -> DaemonError {
        match self.running.next().await {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }
}

static DAEMONS: Mutex<Vec<mpsc::UnboundedSender<DaemonError>>> = Mutex::new(Vec::new());

/// Returns the error of a thread in [`THREADS`] that panics. A thread has no handle to await, so each daemon of this process is notified.
fn thread_panicked() -> impl Future<Output = DaemonError> + Send + 'static {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            before(panicked);
            notify_daemons(panicked);
        }));
    });
    let (sender, mut panics) = mpsc::unbounded_channel();
    let mut daemons = DAEMONS.lock().unwrap_or_else(PoisonError::into_inner);
    daemons.retain(|daemon| !daemon.is_closed());
    daemons.push(sender);
    async move {
        match panics.recv().await {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }
}

fn notify_daemons(panicked: &PanicHookInfo<'_>) {
    let current = thread::current();
    let Some((_, task)) = THREADS.iter().find(|(name, _)| current.name() == Some(name)) else { return };
    for daemon in DAEMONS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let why = format!("it panicked: {}", message_of(panicked.payload()));
        let _ = daemon.send(DaemonError::Died { task, why }); // that daemon may have ended
    }
}

fn message_of(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use crate::{Control, DaemonError, run};
    use api::client::Client;
    use config::{EngineChoice, HistorySettings, Settings};
    use std::time::Duration;
    use tempfile::TempDir;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;
    use tokio::sync::{Mutex, MutexGuard, mpsc, oneshot};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    type Running = (JoinHandle<Result<(), DaemonError>>, mpsc::Sender<Control>, TempDir, MutexGuard<'static, ()>);

    /// The end may be late on a busy machine.
    const TIME_LIMIT: Duration = Duration::from_secs(60);

    /// Starts a daemon. Only one at a time, because a thread that panics ends all daemons of the process.
    async fn daemon() -> Running {
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let dir = TempDir::new().unwrap();
        let settings = Settings {
            socket: dir.path().join("s.sock"),
            state_dir: dir.path().join("state"),
            engine: EngineChoice::Off,
            scopes: false,
            group: None,
            history: HistorySettings { enabled: false, ..HistorySettings::default() },
            ..Settings::default()
        };
        let (control, signals) = mpsc::channel(1);
        let (ready, is_ready) = oneshot::channel();
        let reread = Box::new(|| Err(Vec::new()));
        let running = tokio::spawn(run(settings, reread, signals, Some(ready)));
        is_ready.await.unwrap();
        (running, control, dir, alone)
    }

    /// With one runtime thread the journal may not block, so the actuator panics at its first request.
    #[tokio::test]
    async fn a_daemon_whose_actuator_panics_ends_with_an_error() {
        let (running, _control, dir, _alone) = daemon().await;
        let mut client = UnixStream::connect(dir.path().join("s.sock")).await.unwrap();
        client.write_all(b"POST /v1/restore HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        let ended = timeout(TIME_LIMIT, running).await.expect("it ends").unwrap();
        let message = ended.unwrap_err().to_string();
        assert!(message.contains("actuator") && message.contains("flowcond restore"), "{message}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_of_the_log_thread_ends_the_daemon_and_one_of_another_thread_does_not() {
        let (running, control, dir, _alone) = daemon().await;
        let panic = |name: &str| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            let _ = thread.spawn(|| panic!("a bad line")).unwrap().join();
        };
        panic("somebody");
        let client = Client::new(&dir.path().join("s.sock"), Duration::from_secs(2));
        assert!(client.get::<serde_json::Value>("/v1/status").await.is_ok());
        panic("logs");
        let ended = timeout(TIME_LIMIT, running).await.expect("it ends").unwrap();
        assert!(ended.unwrap_err().to_string().contains("a bad line"));
        drop(control);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_daemon_that_is_told_to_stop_ends_without_an_error() {
        let (running, control, _dir, _alone) = daemon().await;
        control.send(Control::Stop).await.unwrap();
        assert!(timeout(TIME_LIMIT, running).await.expect("it ends").unwrap().is_ok());
    }
}
