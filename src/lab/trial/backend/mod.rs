//! Backends that run jobs: containers of an engine, or commands in separate cgroups.

mod docker;
pub(crate) mod image;
mod scope;

use super::confine::Cores;
use super::job::TrialJob;
use super::temp_dir::TempDir;
use ::docker::EngineAddress;
use anyhow::Result;
use cgroup::Cgroup;
use clap::ValueEnum;
pub(crate) use docker::DockerBackend;
pub(crate) use scope::ScopeBackend;
use std::fmt::Display;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};
use term::exit::{Exit, Failure};

/// The requested runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeChoice {
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
pub(crate) enum Backend {
    /// An engine.
    Docker(DockerBackend),
    /// `flowctl run`.
    Scope(ScopeBackend),
}

/// A job's end.
pub(crate) struct Ended {
    /// Exit code; 128 + signal if a signal killed it.
    pub exit_code: i32,
    /// When it ended.
    pub at: Instant,
}

/// Where the cgroup of a job can be found while it runs.
pub(crate) enum Whereabouts {
    /// A container, by name.
    Container(DockerBackend, String),
    /// The process that started a command, and the scope's name.
    Scope(u32, String),
}

/// How long to wait for an import that is under way after an interruption.
const LAST_IMPORT: Duration = Duration::from_secs(10);
/// How long to wait for output after a job's end.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// A started job.
pub(crate) enum Started {
    /// The container's name, on its engine.
    Docker(DockerBackend, String),
    /// The command.
    Scope(scope::Command),
}

impl Backend {
    /// Opens the requested runtime, or the best available one. It waits for the `interruption` itself, because a runtime that is being
    /// opened must be closed, too: do not drop the future.
    ///
    /// # Errors
    /// The runtime is not available; the message says what is missing and what to do. Or it was interrupted.
    pub(crate) async fn open(
        choice: RuntimeChoice,
        temp_dir: &TempDir,
        cores: &Cores,
        mut interruption: Pin<&mut impl Future<Output = Failure>>,
    ) -> Result<Backend, Failure> {
        let engine = tokio::select! {
            engine = engine_for(choice) => engine?,
            interruption = &mut interruption => return Err(interruption),
        };
        let (tag, labels) = (temp_dir.tag(), vec![temp_dir.label()]);
        let backend = match engine {
            Some(socket) => {
                let connected = DockerBackend::connect(&socket, &tag, labels, cores.clone());
                Backend::Docker(connected.map_err(no_engine)?)
            }
            None => Backend::Scope(ScopeBackend::open(&tag, temp_dir.socket(), labels, cores.clone())?),
        };
        match backend.prepare(choice, interruption).await {
            Ok(()) => Ok(backend),
            Err(failure) => {
                backend.close().await;
                Err(failure)
            }
        }
    }

    /// Imports the images, or checks that a cgroup can be created.
    async fn prepare(&self, choice: RuntimeChoice, interruption: impl Future<Output = Failure>) -> Result<(), Failure> {
        let mut preparation = pin!(async {
            match self {
                Backend::Docker(docker) => docker.import_images().await.map_err(no_engine),
                Backend::Scope(scope) => scope.check().await.map_err(|error| no_cgroup(choice, &error)),
            }
        });
        tokio::select! {
            prepared = &mut preparation => prepared,
            interruption = interruption => {
                // The engine completes an import that is under way, also after the removal of the image.
                let _ = tokio::time::timeout(LAST_IMPORT, preparation).await;
                Err(interruption)
            }
        }
    }

    /// Its name in the JSON output.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Backend::Docker(_) => "docker",
            Backend::Scope(_) => "scope",
        }
    }

    /// The cores that the jobs share.
    pub(crate) fn cores(&self) -> &Cores {
        match self {
            Backend::Docker(backend) => backend.cores(),
            Backend::Scope(backend) => backend.cores(),
        }
    }

    /// The name of a job in the governor's status.
    pub(crate) fn container_name(&self, job: &TrialJob) -> String {
        match self {
            Backend::Docker(backend) => backend.container_name(job),
            Backend::Scope(backend) => backend.container_name(job),
        }
    }

    /// Starts a job.
    pub(crate) async fn start(&self, job: &TrialJob) -> Result<Started> {
        match self {
            Backend::Docker(backend) => Ok(Started::Docker(backend.clone(), backend.start(job).await?)),
            Backend::Scope(backend) => Ok(Started::Scope(backend.start(job)?)),
        }
    }

    /// Stops and removes every job started so far.
    pub(crate) async fn clear(&self) {
        match self {
            Backend::Docker(backend) => backend.clear().await,
            Backend::Scope(backend) => backend.clear().await,
        }
    }

    /// Removes everything that the backend created.
    pub(crate) async fn close(self) {
        match self {
            Backend::Docker(backend) => backend.close().await,
            Backend::Scope(backend) => backend.close().await,
        }
    }
}

/// Returns the socket of the engine to use; `None`: jobs are commands.
async fn engine_for(choice: RuntimeChoice) -> Result<Option<PathBuf>, Failure> {
    if choice == RuntimeChoice::Scope {
        return Ok(None);
    }
    let is_required = choice == RuntimeChoice::Docker;
    let address = match EngineAddress::from_config(None) {
        Ok(address) => address,
        Err(error) if is_required => return Err(no_engine(error)),
        // An engine of another machine is none.
        Err(_) => return Ok(None),
    };
    let socket = address.socket().to_owned();
    let replies = DockerBackend::replies(&socket).await;
    if is_required && !replies {
        return Err(no_engine(format!("no engine replies at {address}")));
    }
    Ok(replies.then_some(socket))
}

fn no_engine(error: impl Display) -> Failure {
    let next = "start the engine and join its group, or use `--runtime scope` as root";
    Failure::new(Exit::Failed, format!("{error:#}"), next)
}

fn no_cgroup(choice: RuntimeChoice, error: &anyhow::Error) -> Failure {
    let no_cgroup = format!("a cgroup for a job could not be created: {error:#}");
    let message = match (choice, EngineAddress::from_config(None)) {
        (RuntimeChoice::Auto, Ok(address)) => format!("no engine replies at {address}, and {no_cgroup}"),
        (RuntimeChoice::Auto, Err(_)) => format!("DOCKER_HOST names no engine of this machine, and {no_cgroup}"),
        _ => no_cgroup,
    };
    let next = match (rustix::process::geteuid().is_root(), choice) {
        (true, _) => format!("run `{} doctor` to find the cause", program()),
        (false, RuntimeChoice::Auto) => format!(
            "run `{}`; or join the engine's group (`sudo usermod -aG docker $USER`) and log in again",
            with_sudo()
        ),
        (false, _) => format!("run `{}`", with_sudo()),
    };
    Failure::new(Exit::Denied, message, next)
}

/// The path of this program, which need not be installed.
fn program() -> String {
    std::env::current_exe().map_or_else(|_| "flowctl".to_owned(), |path| path.display().to_string())
}

/// The command line of this process with `sudo`.
fn with_sudo() -> String {
    let arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    ["sudo".to_owned(), program()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

impl Whereabouts {
    /// Opens the job's cgroup; `None` before the job is in it, after its end, or if it is not visible here.
    pub(crate) async fn cgroup(&self) -> Option<Cgroup> {
        match self {
            Whereabouts::Container(backend, name) => backend.cgroup(name).await,
            Whereabouts::Scope(starter, name) => scope::cgroup(*starter, name),
        }
    }
}

impl Started {
    /// Where the job's cgroup can be found; `None` if the job has already ended.
    pub(crate) fn whereabouts(&self) -> Option<Whereabouts> {
        match self {
            Started::Docker(backend, name) => Some(Whereabouts::Container(backend.clone(), name.clone())),
            Started::Scope(command) => Some(Whereabouts::Scope(command.starter()?, command.name().to_owned())),
        }
    }

    /// Waits until the job exits; passes its output, both streams, to `on_output` as it arrives.
    ///
    /// # Errors
    /// The engine or the operating system does not report the end. Missing output is not an error.
    pub(crate) async fn wait(self, on_output: impl FnMut(&[u8])) -> Result<Ended> {
        match self {
            Started::Docker(backend, name) => backend.wait(&name, on_output).await,
            Started::Scope(command) => command.wait(on_output).await,
        }
    }
}
