//! Runs jobs as containers of an engine, from images created on the fly; everything is removed afterwards.
//!
//! Imports: host's cgroups, bollard, tokio.

use super::super::confine::Cores;
use super::super::job::{Job, Work};
use super::{Ended, LAST_OUTPUT, image};
use crate::host::cgroup::Cgroup;
use anyhow::{Context, Result, bail};
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveImageOptionsBuilder, StartContainerOptions, WaitContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker, body_full};
use futures_util::StreamExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Timeout of requests that wait for the end of a job.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
const QUICK_CALL: Duration = Duration::from_secs(10);
/// The image of this program, for the built-in trainings.
const TRAININGS: &str = "trainings";
/// The image that the host's own programs are mounted into.
const HOST: &str = "host";

/// An engine with the trial's images.
#[derive(Clone)]
pub struct DockerBackend {
    engine: Docker,
    socket: PathBuf,
    /// Prefix of the containers' names, and name of the images.
    tag: String,
    labels: Vec<(String, String)>,
    cores: Cores,
    containers: Arc<Mutex<Vec<String>>>,
}

impl DockerBackend {
    /// Whether an engine replies at `socket`.
    pub async fn replies(socket: &Path) -> bool {
        let Some(path) = socket.to_str() else { return false };
        let Ok(engine) = Docker::connect_with_socket(path, QUICK_CALL.as_secs(), API_DEFAULT_VERSION) else {
            return false;
        };
        tokio::time::timeout(QUICK_CALL, engine.ping()).await.is_ok_and(|reply| reply.is_ok())
    }

    /// Imports the images under the name `tag`. Every container gets `labels` and is confined to `cores`.
    ///
    /// # Errors
    /// The engine does not reply or rejects an image.
    pub async fn open(socket: &Path, tag: &str, labels: Vec<(String, String)>, cores: Cores) -> Result<DockerBackend> {
        let path = socket.to_str().context("the path of the engine's socket is not valid UTF-8")?;
        let engine = Docker::connect_with_socket(path, LONGEST_WAIT.as_secs(), API_DEFAULT_VERSION)
            .with_context(|| format!("connect to the engine at {path}"))?;
        let backend = DockerBackend {
            engine,
            socket: socket.to_owned(),
            tag: tag.to_owned(),
            labels,
            cores,
            containers: Arc::default(),
        };
        match backend.import_images().await {
            Ok(()) => Ok(backend),
            Err(error) => {
                backend.close().await;
                Err(error)
            }
        }
    }

    /// The engine's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The cores that the jobs share.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    async fn import_images(&self) -> Result<()> {
        self.import(TRAININGS, image::root_file_system()?).await?;
        self.import(HOST, image::host_root()?).await
    }

    async fn import(&self, variant: &str, tar: Vec<u8>) -> Result<()> {
        let options = CreateImageOptionsBuilder::new().from_src("-").repo(&self.tag).tag(variant).build();
        let mut progress = self.engine.create_image(Some(options), Some(body_full(tar.into())), None);
        while let Some(step) = progress.next().await {
            step.with_context(|| format!("import the image {}:{variant} into the engine", self.tag))?;
        }
        Ok(())
    }

    /// The name of a job's container.
    pub fn container_name(&self, job: &Job) -> String {
        format!("{}-{}", self.tag, job.name)
    }

    /// Creates and starts a container for `job`; returns its name.
    pub async fn start(&self, job: &Job) -> Result<String> {
        let name = self.container_name(job);
        let body = self.body(job);
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        self.engine
            .create_container(Some(options), body)
            .await
            .with_context(|| format!("create the container {name}"))?;
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        self.engine
            .start_container(&name, None::<StartContainerOptions>)
            .await
            .with_context(|| format!("start the container {name}"))?;
        Ok(name)
    }

    fn body(&self, job: &Job) -> ContainerCreateBody {
        let own = job.work.environment().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (variant, environment, binds) = match &job.work {
            Work::Training(..) => (TRAININGS, vec![image::ENVIRONMENT.to_owned()], None),
            Work::Command { mounts, .. } => {
                let all = ["/usr", "/etc"].into_iter().chain(mounts.iter().map(String::as_str));
                (HOST, own, Some(all.map(|path| format!("{path}:{path}:ro")).collect()))
            }
        };
        ContainerCreateBody {
            image: Some(format!("{}:{variant}", self.tag)),
            cmd: Some(job.work.command_line(image::PROGRAM)),
            env: Some(environment),
            labels: Some(self.labels.iter().chain(&job.labels).cloned().collect()),
            host_config: Some(HostConfig {
                network_mode: Some("none".into()),
                cpuset_cpus: Some(self.cores.list()),
                binds,
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    /// Opens the cgroup of a running container; `None` if it is not visible here, as on an engine in a virtual machine.
    pub async fn cgroup(&self, name: &str) -> Option<Cgroup> {
        let found = self.engine.inspect_container(name, None).await.ok()?;
        let pid = found.state?.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0)?;
        Cgroup::of_container(pid, &found.id?).ok()
    }

    /// Waits until a container exits; passes its output to `on_output`.
    pub async fn wait(&self, name: &str, mut on_output: impl FnMut(&[u8])) -> Result<Ended> {
        let options = LogsOptionsBuilder::new().follow(true).stdout(true).stderr(true).build();
        let mut pieces = Box::pin(self.engine.logs(name, Some(options)));
        let mut output = Box::pin(async {
            while let Some(Ok(piece)) = pieces.next().await {
                on_output(piece.as_ref());
            }
        });
        let mut end = Box::pin(self.exit_code(name));
        let (exit_code, is_complete) = tokio::select! {
            exit_code = &mut end => (exit_code?, false),
            () = &mut output => (end.await?, true),
        };
        let at = Instant::now();
        if !is_complete {
            // Output that does not arrive in time is lost.
            let _ = tokio::time::timeout(LAST_OUTPUT, output).await;
        }
        Ok(Ended { exit_code, at })
    }

    async fn exit_code(&self, name: &str) -> Result<i32> {
        let mut replies = self.engine.wait_container(name, None::<WaitContainerOptions>);
        match replies.next().await {
            Some(Ok(reply)) => Ok(reply.status_code as i32),
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code as i32),
            Some(Err(error)) => Err(error).with_context(|| format!("wait for the container {name}")),
            None => bail!("wait for the container {name}: the engine closed the connection"),
        }
    }

    /// Removes the containers started so far, running or not.
    pub async fn clear(&self) {
        let names = std::mem::take(&mut *self.containers.lock().unwrap_or_else(PoisonError::into_inner));
        for name in names {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            if let Err(error) = self.engine.remove_container(&name, Some(options)).await {
                eprintln!("flowctl: could not remove the container {name}: {error}; run `docker rm -f {name}`");
            }
        }
    }

    /// Removes the containers and the images.
    pub async fn close(self) {
        self.clear().await;
        for variant in [TRAININGS, HOST] {
            let name = format!("{}:{variant}", self.tag);
            let options = RemoveImageOptionsBuilder::new().force(true).build();
            if let Err(error) = self.engine.remove_image(&name, Some(options), None).await {
                eprintln!("flowctl: could not remove the image {name}: {error}; run `docker rmi {name}`");
            }
        }
    }
}
