//! Runs jobs as containers of an engine, from images created on the fly; everything is removed afterwards.

use super::super::confine::Cores;
use super::super::job::{TrialJob, Work};
use super::{Ended, LAST_OUTPUT, image};
use anyhow::{Context, Result, bail};
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveImageOptionsBuilder, StartContainerOptions, WaitContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker, body_full};
use cgroup::Cgroup;
use futures_util::StreamExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use term::message;

/// Timeout of requests that wait for the end of a job.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
const QUICK_CALL: Duration = Duration::from_secs(10);
/// Time for an engine to create a container, also if the request was interrupted.
const CREATION: Duration = Duration::from_secs(1);
/// The image of this program, for the built-in trainings.
const TRAININGS: &str = "trainings";
/// The image that the host's own programs are mounted into.
const HOST: &str = "host";

/// An engine with the trial's images.
#[derive(Clone)]
pub(crate) struct DockerBackend {
    engine: Docker,
    socket: PathBuf,
    /// Prefix of the containers' names, and name of the images.
    tag: String,
    labels: Vec<(String, String)>,
    cores: Cores,
    /// Containers that exist, or may exist.
    containers: Arc<Mutex<Vec<String>>>,
}

impl DockerBackend {
    /// Whether an engine replies at `socket`.
    pub(crate) async fn replies(socket: &Path) -> bool {
        let Some(path) = socket.to_str() else { return false };
        let Ok(engine) = Docker::connect_with_socket(path, QUICK_CALL.as_secs(), API_DEFAULT_VERSION) else {
            return false;
        };
        tokio::time::timeout(QUICK_CALL, engine.ping()).await.is_ok_and(|reply| reply.is_ok())
    }

    /// Connects to the engine. Images and containers get names that begin with `tag`; every container gets `labels` and is confined to
    /// `cores`.
    ///
    /// # Errors
    /// There is no socket.
    pub(crate) fn connect(
        socket: &Path,
        tag: &str,
        labels: Vec<(String, String)>,
        cores: Cores,
    ) -> Result<DockerBackend> {
        let path = socket.to_str().context("the path of the engine's socket is not valid UTF-8")?;
        let engine = Docker::connect_with_socket(path, LONGEST_WAIT.as_secs(), API_DEFAULT_VERSION)
            .with_context(|| format!("connect to the engine at {path}"))?;
        Ok(DockerBackend {
            engine,
            socket: socket.to_owned(),
            tag: tag.to_owned(),
            labels,
            cores,
            containers: Arc::default(),
        })
    }

    /// The engine's socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The cores that the jobs share.
    pub(crate) fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Imports the images.
    ///
    /// # Errors
    /// The engine does not reply or rejects an image.
    pub(crate) async fn import_images(&self) -> Result<()> {
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
    pub(crate) fn container_name(&self, job: &TrialJob) -> String {
        format!("{}-{}", self.tag, job.name)
    }

    /// Creates and starts a container for `job`; returns its name.
    pub(crate) async fn start(&self, job: &TrialJob) -> Result<String> {
        let name = self.container_name(job);
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        // Recorded first: if this future is dropped, the engine may create the container nevertheless.
        self.names().push(name.clone());
        let created = self
            .engine
            .create_container(Some(options), self.body(job))
            .await
            .with_context(|| format!("create the container {name}"))?;
        if let Some(warning) = created.warnings.iter().find(|warning| discards_cores(warning)) {
            bail!("the engine cannot confine the jobs to the same cores ({warning}); use `--runtime scope`");
        }
        self.engine
            .start_container(&name, None::<StartContainerOptions>)
            .await
            .with_context(|| format!("start the container {name}"))?;
        Ok(name)
    }

    fn body(&self, job: &TrialJob) -> ContainerCreateBody {
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
    pub(crate) async fn cgroup(&self, name: &str) -> Option<Cgroup> {
        let found = self.engine.inspect_container(name, None).await.ok()?;
        let pid = found.state?.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0)?;
        Cgroup::of_container(pid, &found.id?).ok()
    }

    /// Waits until a container exits; passes its output to `on_output`.
    pub(crate) async fn wait(&self, name: &str, mut on_output: impl FnMut(&[u8])) -> Result<Ended> {
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

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self) -> Option<String> {
        self.names().last().cloned()
    }

    /// Removes the containers started so far, running or not.
    pub(crate) async fn clear(&self) {
        // A name is kept until its container is removed: this future may be dropped in between.
        while let Some(name) = self.newest() {
            if let Err(error) = self.remove(&name).await {
                message::print(format_args!(
                    "could not remove the container {name}: {error:#}; run `docker rm -f {name}`"
                ));
            }
            self.names().retain(|other| *other != name);
        }
    }

    /// Removes a container if it exists, also if it is only being created.
    async fn remove(&self, name: &str) -> Result<()> {
        for wait in [Duration::ZERO, CREATION] {
            tokio::time::sleep(wait).await;
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            if existed(self.engine.remove_container(name, Some(options)).await)? {
                break;
            }
        }
        Ok(())
    }

    /// Removes the containers and the images.
    pub(crate) async fn close(self) {
        self.clear().await;
        for variant in [TRAININGS, HOST] {
            let name = format!("{}:{variant}", self.tag);
            if let Err(error) = self.remove_image(&name).await {
                message::print(format_args!("could not remove the image {name}: {error:#}; run `docker rmi {name}`"));
            }
        }
    }

    /// Removes an image if it exists.
    async fn remove_image(&self, name: &str) -> Result<()> {
        let options = RemoveImageOptionsBuilder::new().force(true).build();
        existed(self.engine.remove_image(name, Some(options), None).await)?;
        Ok(())
    }
}

/// Whether what was to be removed existed.
fn existed<T>(removed: Result<T, Error>) -> Result<bool> {
    match removed {
        Ok(_) => Ok(true),
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a warning of the engine says that it ignores the cores, as without root: "Cpuset discarded".
fn discards_cores(warning: &str) -> bool {
    let warning = warning.to_lowercase();
    warning.contains("cpuset") && warning.contains("discarded")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Amount, Kind};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;
    use tokio::time::timeout;

    /// A backend whose engine listens, but does not respond.
    fn backend(folder: &tempfile::TempDir) -> (UnixListener, DockerBackend) {
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).expect("a new socket");
        let backend = DockerBackend::connect(&socket, "trial", Vec::new(), Cores::of(&[0])).expect("a socket");
        (listener, backend)
    }

    /// Gives the same response to every request.
    async fn respond(listener: UnixListener, status: &'static str, body: &'static str) {
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        let response = format!("{head}\r\n\r\n{body}");
        while let Ok((mut client, _)) = listener.accept().await {
            let response = response.clone();
            tokio::spawn(async move {
                let mut request = [0; 16 << 10];
                while let Ok(1..) = client.read(&mut request).await {
                    // Fails once the client has the response and is gone.
                    let _ = client.write_all(response.as_bytes()).await;
                }
            });
        }
    }

    fn job() -> TrialJob {
        let work = Work::Training(Kind::Mlp, Amount { epochs: 1, size: 64, threads: 1, seed: 1 });
        TrialJob { name: "a".into(), start: Duration::ZERO, is_broken: false, labels: Vec::new(), work }
    }

    #[tokio::test]
    async fn an_engine_that_ignores_the_cores_is_an_error_with_the_next_step() {
        let folder = tempfile::tempdir().expect("a directory");
        let (listener, backend) = backend(&folder);
        let body = r#"{"Id":"x","Warnings":["Your kernel does not support cpuset. Cpuset discarded."]}"#;
        tokio::spawn(respond(listener, "201 Created", body));
        let error = backend.start(&job()).await.expect_err("the jobs would not share the cores");
        assert!(error.to_string().contains("use `--runtime scope`"), "{error:#}");
    }

    #[test]
    fn only_a_warning_that_the_cores_are_ignored_is_an_error() {
        assert!(discards_cores("Your kernel does not support cpuset or the cgroup is not mounted. CPUset discarded."));
        assert!(!discards_cores("Your kernel does not support swap limit capabilities. Memory limited without swap."));
    }

    #[tokio::test]
    async fn a_container_is_known_before_its_creation_and_until_its_removal() {
        let folder = tempfile::tempdir().expect("a directory");
        let (_silent, backend) = backend(&folder);
        let soon = Duration::from_millis(100);
        assert!(timeout(soon, backend.start(&job())).await.is_err(), "its creation is interrupted");
        assert_eq!(backend.newest().as_deref(), Some("trial-a"));
        assert!(timeout(soon, backend.clear()).await.is_err(), "its removal is interrupted");
        assert_eq!(backend.newest().as_deref(), Some("trial-a"));
    }

    #[tokio::test]
    async fn what_was_never_created_needs_no_removal() {
        let folder = tempfile::tempdir().expect("a directory");
        let (listener, backend) = backend(&folder);
        tokio::spawn(respond(listener, "404 Not Found", r#"{"message":"no such thing"}"#));
        assert!(backend.remove("trial-a").await.is_ok());
        assert!(backend.remove_image("trial:host").await.is_ok());
    }
}
