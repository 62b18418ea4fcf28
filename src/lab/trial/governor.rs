//! A governor of one's own: the daemon, in this process, on a private socket, blind to every container but ours.
//!
//! Imports: api's client, config, daemon.

use super::backend::Backend;
use super::temp_dir::TempDir;
use crate::api::client::Client;
use crate::api::wire::Status;
use crate::config::{EngineChoice, GpuControl, HistorySettings, OnExit, Settings};
use crate::daemon::{self, Control, DaemonError};
use crate::model::{Bytes, Millis, PolicySettings};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A look at the status that takes longer is given up.
const LOOK_AT_MOST: Duration = Duration::from_secs(2);
/// Starting and stopping take milliseconds; an engine that hangs must not hang us.
const CHANGE_AT_MOST: Duration = Duration::from_secs(15);

/// Where a governor is kept while it governs, so that it can be stopped whatever became of the run.
#[derive(Default)]
pub struct Governing {
    running: Mutex<Option<Running>>,
}

struct Running {
    control: mpsc::Sender<Control>,
    task: JoinHandle<Result<(), DaemonError>>,
}

/// A client of the governor that governs now.
pub struct Governor {
    client: Client,
}

impl Governing {
    /// Starts a governor that knows what is kept in `state_dir` and will see the backend's jobs only.
    ///
    /// # Errors
    /// It cannot listen, keep its journal, or use the engine's address.
    pub async fn start(
        &self,
        temp_dir: &TempDir,
        state_dir: PathBuf,
        policy: PolicySettings,
        backend: &Backend,
    ) -> Result<Governor> {
        let settings = settings(temp_dir, state_dir, policy, backend);
        let socket = settings.socket.clone();
        let same = settings.clone();
        let (control, orders) = mpsc::channel(4);
        let (ready, is_ready) = oneshot::channel();
        let task = tokio::spawn(daemon::run(settings, Box::new(move || Ok(same.clone())), orders, Some(ready)));
        let mut running = Running { control, task };
        match timeout(CHANGE_AT_MOST, is_ready).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => bail!(
                (&mut running.task)
                    .await
                    .context("the governor ended while it started")?
                    .map_or_else(anyhow::Error::from, |()| anyhow::anyhow!("the governor ended while it started"))
            ),
            Err(_) => {
                running.stop().await;
                bail!("the governor was not ready within {} s", CHANGE_AT_MOST.as_secs());
            }
        }
        *self.running.lock().await = Some(running);
        Ok(Governor { client: Client::new(&socket, LOOK_AT_MOST) })
    }

    /// Stops the governor, if one runs; it puts original limits back where jobs still live.
    pub async fn stop(&self) {
        if let Some(running) = self.running.lock().await.take() {
            running.stop().await;
        }
    }
}

impl Running {
    async fn stop(mut self) {
        // A governor that has ended already takes no orders.
        let _ = self.control.send(Control::Stop).await;
        match timeout(CHANGE_AT_MOST, &mut self.task).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => eprintln!("flowctl: the governor: {error}"),
            Ok(Err(error)) => eprintln!("flowctl: the governor ended unexpectedly: {error}"),
            Err(_) => self.task.abort(),
        }
    }
}

fn settings(temp_dir: &TempDir, state_dir: PathBuf, policy: PolicySettings, backend: &Backend) -> Settings {
    let (key, value) = temp_dir.label();
    Settings {
        socket: temp_dir.socket(),
        state_dir,
        on_exit: OnExit::Restore,
        policy,
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
        // A measured run does nothing that it need not.
        gpu_library: None,
        gpu_control: GpuControl::Off,
        freeze_at_most: Millis(500),
        history: HistorySettings { enabled: false, ..HistorySettings::default() },
    }
}

impl Governor {
    /// What the governor sees now; `None` when it does not answer.
    pub async fn status(&self) -> Option<Status> {
        self.client.get("/v1/status").await.ok()
    }
}
