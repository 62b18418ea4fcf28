//! Backends that run jobs: containers of an engine, or commands in separate cgroups.
//!
//! Imports: the two backends in this folder, host's cgroups.

mod docker;
pub mod image;
mod scope;

use super::confine::Cores;
use super::job::Job;
use super::temp_dir::TempDir;
use crate::host::cgroup::Cgroup;
use crate::host::docker::EngineAddress;
use crate::term::exit::{Exit, Failure};
use anyhow::Result;
use clap::ValueEnum;
pub use docker::DockerBackend;
pub use scope::ScopeBackend;
use std::time::{Duration, Instant};

/// The requested runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RuntimeChoice {
    /// A container engine if one is available, otherwise scopes
    #[default]
    Auto,
    /// Containers of an engine
    Docker,
    /// Commands in separate cgroups, as started by `flowctl run -- COMMAND`
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
    /// Exit code; 128 + signal if a signal killed it.
    pub exit_code: i32,
    /// When it ended.
    pub at: Instant,
}

/// Where the cgroup of a job can be found while it runs.
pub enum Whereabouts {
    /// A container, by name.
    Container(DockerBackend, String),
    /// The process that started a command, and the scope's name.
    Scope(u32, String),
}

/// How long to wait for output after a job's end.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// A started job.
pub enum Started {
    /// The container's name, on its engine.
    Docker(DockerBackend, String),
    /// The command.
    Scope(scope::Command),
}

impl Backend {
    /// Opens the requested runtime, or the best available one.
    ///
    /// # Errors
    /// The runtime is not available; the message says what is missing and what to do.
    pub async fn open(choice: RuntimeChoice, temp_dir: &TempDir, cores: &Cores) -> Result<Backend, Failure> {
        let address = EngineAddress::from_config(None).map_err(anyhow::Error::from)?;
        let engine = address.socket();
        let labels = vec![temp_dir.label()];
        if choice == RuntimeChoice::Docker || (choice == RuntimeChoice::Auto && DockerBackend::replies(engine).await) {
            let opened = DockerBackend::open(engine, &temp_dir.tag(), labels, cores.clone()).await;
            return opened.map(Backend::Docker).map_err(|error| {
                let next = "start the engine and join its group, or run `sudo flowctl demo --runtime scope`";
                Failure::new(Exit::Failed, format!("{error:#}"), next)
            });
        }
        let backend = ScopeBackend::open(&temp_dir.tag(), temp_dir.socket(), labels, cores.clone())?;
        backend.check().await.map_err(|error| {
            let message = format!("no engine replies at {address}, and a cgroup for a job could not be created: {error:#}");
            let next = "run `sudo flowctl demo`; or join the engine's group (`sudo usermod -aG docker $USER`) and log in again; \
                        or run it in a delegated cgroup: `systemd-run --user --scope -p Delegate=yes flowctl demo`";
            Failure::new(Exit::Denied, message, next)
        })?;
        Ok(Backend::Scope(backend))
    }

    /// Its name in the JSON output.
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

    /// The name of a job in the governor's status.
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

    /// Stops and removes every job started so far.
    pub async fn clear(&self) {
        match self {
            Backend::Docker(backend) => backend.clear().await,
            Backend::Scope(backend) => backend.clear().await,
        }
    }

    /// Removes everything that the backend created.
    pub async fn close(self) {
        match self {
            Backend::Docker(backend) => backend.close().await,
            Backend::Scope(backend) => backend.clear().await,
        }
    }
}

impl Whereabouts {
    /// Opens the job's cgroup; `None` before the job is in it, after its end, or if it is not visible here.
    pub async fn cgroup(&self) -> Option<Cgroup> {
        match self {
            Whereabouts::Container(backend, name) => backend.cgroup(name).await,
            Whereabouts::Scope(starter, name) => scope::cgroup(*starter, name),
        }
    }
}

impl Started {
    /// Where the job's cgroup can be found; `None` if the job has already ended.
    pub fn whereabouts(&self) -> Option<Whereabouts> {
        match self {
            Started::Docker(backend, name) => Some(Whereabouts::Container(backend.clone(), name.clone())),
            Started::Scope(command) => Some(Whereabouts::Scope(command.starter()?, command.name().to_owned())),
        }
    }

    /// Waits until the job exits; passes its output, both streams, to `on_output` as it arrives.
    ///
    /// # Errors
    /// The engine or the operating system does not report the end. Missing output is not an error.
    pub async fn wait(self, on_output: impl FnMut(&[u8])) -> Result<Ended> {
        match self {
            Started::Docker(backend, name) => backend.wait(&name, on_output).await,
            Started::Scope(command) => command.wait(on_output).await,
        }
    }
}
