//! Where jobs run: as containers of an engine, or as commands in cgroups of their own.
//!
//! Imports: the two runtimes beside this file.

mod docker;
pub mod image;
mod scope;

use super::confine::Cores;
use super::job::Job;
use super::temp_dir::TempDir;
use crate::host::docker::EngineAddress;
use crate::term::exit::{Exit, Failure};
use anyhow::Result;
use clap::ValueEnum;
pub use docker::DockerBackend;
pub use scope::ScopeBackend;
use std::time::{Duration, Instant};

/// Where the jobs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RuntimeChoice {
    /// An engine where one answers, scopes elsewhere
    #[default]
    Auto,
    /// Containers of the engine
    Docker,
    /// Commands in cgroups of their own, as `flowctl run -- COMMAND` starts them
    Scope,
}

/// A runtime that is ready to start jobs.
#[derive(Clone)]
pub enum Backend {
    /// An engine.
    Docker(DockerBackend),
    /// `flowctl run`.
    Scope(ScopeBackend),
}

/// A job's end.
pub struct Ended {
    /// 128 + signal when one ended it.
    pub exit_code: i32,
    /// When.
    pub at: Instant,
}

/// After a job's end its output may come for this long.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// A job that was started.
pub enum Started {
    /// The container's name, on its engine.
    Docker(DockerBackend, String),
    /// The command.
    Scope(scope::Command),
}

impl Backend {
    /// Opens the runtime that was asked for, or the best that there is.
    ///
    /// # Errors
    /// Says what is missing and what to do about it.
    pub async fn open(choice: RuntimeChoice, temp_dir: &TempDir, cores: &Cores) -> Result<Backend, Failure> {
        let address = EngineAddress::from_config(None).map_err(anyhow::Error::from)?;
        let engine = address.socket();
        let labels = vec![temp_dir.label()];
        if choice == RuntimeChoice::Docker || (choice == RuntimeChoice::Auto && DockerBackend::answers(engine).await) {
            let opened = DockerBackend::open(engine, &temp_dir.tag(), labels, cores.clone()).await;
            return opened.map(Backend::Docker).map_err(|error| {
                let next = "start the engine and join its group, or `sudo flowctl demo --runtime scope`";
                Failure::new(Exit::Failed, format!("{error:#}"), next)
            });
        }
        let backend = ScopeBackend::open(&temp_dir.tag(), temp_dir.socket(), labels, cores.clone())?;
        backend.try_out().await.map_err(|error| {
            let message = format!("no engine answers at {address}, and a cgroup of its own was refused to a job: {error:#}");
            let next = "`sudo flowctl demo`; or join the engine's group (`sudo usermod -aG docker $USER`) and log in again; \
                        or run it where a cgroup is delegated to you: `systemd-run --user --scope -p Delegate=yes flowctl demo`";
            Failure::new(Exit::Denied, message, next)
        })?;
        Ok(Backend::Scope(backend))
    }

    /// As `--json` names it.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Docker(_) => "docker",
            Backend::Scope(_) => "scope",
        }
    }

    /// The cores that the jobs share.
    pub fn cores(&self) -> &Cores {
        match self {
            Backend::Docker(backend) => backend.cores(),
            Backend::Scope(backend) => backend.cores(),
        }
    }

    /// The name under which the governor knows a job.
    pub fn container_name(&self, job: &Job) -> String {
        match self {
            Backend::Docker(backend) => backend.container_name(job),
            Backend::Scope(backend) => backend.container_name(job),
        }
    }

    /// Starts a job.
    pub async fn start(&self, job: &Job) -> Result<Started> {
        match self {
            Backend::Docker(backend) => Ok(Started::Docker(backend.clone(), backend.start(job).await?)),
            Backend::Scope(backend) => Ok(Started::Scope(backend.start(job)?)),
        }
    }

    /// Ends and removes every job started so far.
    pub async fn clear(&self) {
        match self {
            Backend::Docker(backend) => backend.clear().await,
            Backend::Scope(backend) => backend.clear().await,
        }
    }

    /// Removes everything that was made.
    pub async fn close(self) {
        match self {
            Backend::Docker(backend) => backend.close().await,
            Backend::Scope(backend) => backend.clear().await,
        }
    }
}

impl Started {
    /// Waits for the job's end; `hear` is given its output, both streams, as it comes.
    ///
    /// # Errors
    /// The engine or the operating system does not tell of the end. Output that cannot be had is left out.
    pub async fn wait(self, hear: impl FnMut(&[u8])) -> Result<Ended> {
        match self {
            Started::Docker(backend, name) => backend.wait(&name, hear).await,
            Started::Scope(command) => command.wait(hear).await,
        }
    }
}
