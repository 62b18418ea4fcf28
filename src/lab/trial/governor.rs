//! A private governor: the daemon in this process, on a private socket, restricted to the trial's containers.

use super::backend::Backend;
use super::temp_dir::TempDir;
use anyhow::{Context, Result, bail};
use api::client::Client;
use api::wire::Status;
use config::{EngineChoice, GpuControl, HistorySettings, OnExit, Settings, UserSettings};
use daemon::{Control, DaemonError};
use model::{Bytes, Millis, PolicySettings};
use std::path::PathBuf;
use std::time::Duration;
use term::message;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Timeout of a status request.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for starting and stopping, which normally take milliseconds, and longer on a busy disk; a hanging engine must not block the
/// trial.
const START_STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Owns the running governor, so that it can be stopped however the run ends.
#[derive(Default)]
pub(crate) struct GovernorSlot {
    running: Mutex<Option<Running>>,
}

struct Running {
    control: mpsc::Sender<Control>,
    task: JoinHandle<Result<(), DaemonError>>,
}

/// A client of the running governor.
pub(crate) struct Governor {
    client: Client,
}

impl GovernorSlot {
    /// Starts a governor with the state in `state_dir` that sees only the backend's jobs.
    ///
    /// # Errors
    /// The governor cannot listen, open its journal, or use the engine's address.
    pub(crate) async fn start(
        &self,
        temp_dir: &TempDir,
        state_dir: PathBuf,
        policy: PolicySettings,
        backend: &Backend,
    ) -> Result<Governor> {
        let settings = settings(temp_dir, state_dir, policy, backend);
        let socket = settings.socket.clone();
        let same = settings.clone();
        let (control, commands) = mpsc::channel(4);
        let (ready, is_ready) = oneshot::channel();
        let task = tokio::spawn(daemon::run(settings, Box::new(move || Ok(same.clone())), commands, Some(ready)));
        let mut running = Running { control, task };
        match timeout(START_STOP_TIMEOUT, is_ready).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => bail!(
                (&mut running.task)
                    .await
                    .context("the governor ended while it started")?
                    .map_or_else(anyhow::Error::from, |()| anyhow::anyhow!("the governor ended while it started"))
            ),
            Err(_) => {
                running.stop().await;
                bail!("the governor was not ready within {} s", START_STOP_TIMEOUT.as_secs());
            }
        }
        *self.running.lock().await = Some(running);
        Ok(Governor { client: Client::new(&socket, STATUS_TIMEOUT) })
    }

    /// Stops the governor, if one runs; it restores the original limits of jobs that still run.
    pub(crate) async fn stop(&self) {
        if let Some(running) = self.running.lock().await.take() {
            running.stop().await;
        }
    }
}

impl Running {
    async fn stop(mut self) {
        // Sending fails if the governor has already ended.
        let _ = self.control.send(Control::Stop).await;
        match timeout(START_STOP_TIMEOUT, &mut self.task).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => message::print(format_args!("the governor: {error}")),
            Ok(Err(error)) => message::print(format_args!("the governor ended unexpectedly: {error}")),
            Err(_) => self.task.abort(),
        }
    }
}

/// The policy without limits that only root can write: a failed write would leave the job ungoverned for half a minute.
fn writable(policy: PolicySettings, is_root: bool) -> PolicySettings {
    let (govern_memory, govern_io) = (policy.govern_memory && is_root, policy.govern_io && is_root);
    PolicySettings { govern_memory, govern_io, ..policy }
}

fn settings(temp_dir: &TempDir, state_dir: PathBuf, policy: PolicySettings, backend: &Backend) -> Settings {
    let (key, value) = temp_dir.label();
    Settings {
        socket: temp_dir.socket(),
        state_dir,
        on_exit: OnExit::Restore,
        policy: writable(policy, rustix::process::geteuid().is_root()),
        users: UserSettings::default(),
        engine: match backend {
            Backend::Docker(docker) => EngineChoice::At(format!("unix://{}", docker.socket().display())),
            Backend::Scope(_) => EngineChoice::Off,
        },
        label: format!("{key}={value}"),
        scopes: matches!(backend, Backend::Scope(_)),
        scopes_per_user: usize::MAX,
        scope_label_bytes: Bytes(u64::MAX),
        group: None,
        admins: Vec::new(),
        // Features that a measurement does not need are off.
        gpu_library: None,
        gpu_control: GpuControl::Off,
        freeze_at_most: Millis(500),
        history: HistorySettings { enabled: false, ..HistorySettings::default() },
        notify: Default::default(),
    }
}

impl Governor {
    /// Returns the governor's current status; `None` if it does not reply.
    pub(crate) async fn status(&self) -> Option<Status> {
        self.client.get("/v1/status").await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_governs_memory_and_io() {
        let governed = |is_root| {
            let policy = writable(PolicySettings::default(), is_root);
            (policy.govern_memory, policy.govern_io)
        };
        assert_eq!((governed(true), governed(false)), ((true, true), (false, false)));
    }
}
