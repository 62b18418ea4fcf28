//! Runs jobs as commands of `flowctl run`, each in a separate cgroup, exactly as an operator would start them.

use super::super::confine::Cores;
use super::super::job::TrialJob;
use super::{Ended, LAST_OUTPUT};
use anyhow::{Context, Result, bail};
use cgroup::Cgroup;
use rustix::process::{Pid, Signal, kill_process};
use scope::ScopeName;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};

/// Time for `flowctl run` to stop its command and remove the cgroup before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of its error output kept for a message.
const MAX_STDERR: usize = 4096;

/// Starts commands on this machine.
#[derive(Clone)]
pub(crate) struct ScopeBackend {
    program: PathBuf,
    /// Prefix of the scopes' names.
    tag: String,
    /// The governor's socket; scopes are registered in the same directory.
    socket: PathBuf,
    labels: Vec<(String, String)>,
    cores: Cores,
    /// Every value stops all running commands; after `true`, no other is started. A command has a receiver until it has ended.
    stop: Arc<watch::Sender<bool>>,
}

/// A started command.
pub(crate) struct Command {
    name: String,
    /// The process of `flowctl run`.
    starter: Option<u32>,
    end: oneshot::Receiver<End>,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
}

/// The end of a command.
struct End {
    status: ExitStatus,
    at: Instant,
    /// The beginning of its error output.
    stderr: String,
}

impl ScopeBackend {
    /// Creates a backend whose scopes get `labels`, are confined to `cores` and are registered with the governor at `socket`.
    ///
    /// # Errors
    /// The path of the running program is unknown.
    pub(crate) fn open(
        tag: &str,
        socket: PathBuf,
        labels: Vec<(String, String)>,
        cores: Cores,
    ) -> Result<ScopeBackend> {
        let program = std::env::current_exe().context("find the running program's file")?;
        let stop = Arc::new(watch::Sender::new(false));
        Ok(ScopeBackend { program, tag: tag.to_owned(), socket, labels, cores, stop })
    }

    /// The name of a job's scope.
    pub(crate) fn container_name(&self, job: &TrialJob) -> String {
        format!("{}-{}", self.tag, job.name)
    }

    /// The cores that the jobs share.
    pub(crate) fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Checks that a cgroup can be created, by running a command that does nothing.
    ///
    /// # Errors
    /// The first line of the error output of `flowctl run`.
    pub(crate) async fn check(&self) -> Result<()> {
        let nothing = [self.program.to_string_lossy().into_owned(), "--version".to_owned()];
        let name = format!("{}-trial", self.tag);
        let command = self.command(&name, &[], &nothing);
        let child = self.spawn(command, &name)?;
        match child.end.await.context("wait for a command that does nothing")? {
            End { status, .. } if status.success() => Ok(()),
            End { stderr, .. } => {
                let first = stderr.lines().next().unwrap_or("no error message");
                bail!("{}", first.trim_start_matches("flowctl: "))
            }
        }
    }

    /// Starts the job.
    pub(crate) fn start(&self, job: &TrialJob) -> Result<Command> {
        let name = self.container_name(job);
        let what = job.work.command_line(&self.program.to_string_lossy());
        let mut command = self.command(&name, &job.labels, &what);
        command.envs(job.work.environment());
        self.spawn(command, &name)
    }

    /// Builds `flowctl run … -- …` in a separate process group, so that only the caller receives Ctrl-C. The environment is the one that the
    /// job would have in a container.
    fn command(&self, name: &str, labels: &[(String, String)], what: &[String]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.arg("--socket").arg(&self.socket).args(["run", "--keep-env", "--require-cgroup", "--name"]).arg(name);
        for (key, value) in self.labels.iter().chain(labels) {
            command.arg("--label").arg(format!("{key}={value}"));
        }
        command.arg("--").args(what);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }

    fn spawn(&self, mut command: tokio::process::Command, name: &str) -> Result<Command> {
        // Received from now on, so that a command is also stopped if it starts while the others are being stopped.
        let stop = self.stop.subscribe();
        if *stop.borrow() {
            bail!("{name} was not started: all jobs are being removed");
        }
        let runtime = tokio::runtime::Handle::current();
        let spawned = self.cores.run_confined(|| {
            let _inside = runtime.enter();
            command.spawn()
        });
        let child = spawned
            .and_then(|spawned| spawned)
            .with_context(|| format!("start {} run for {name}", self.program.display()))?;
        let (end_sender, end) = oneshot::channel();
        let (output_sender, output) = mpsc::unbounded_channel();
        let starter = child.id();
        tokio::spawn(supervise(child, name.to_owned(), stop, end_sender, output_sender));
        Ok(Command { name: name.to_owned(), starter, end, output })
    }

    /// Stops all running commands and waits until they have exited.
    pub(crate) async fn clear(&self) {
        self.stop.send_replace(false);
        self.stop.closed().await;
    }

    /// Like [`ScopeBackend::clear`]; no other command is started.
    pub(crate) async fn close(self) {
        self.stop.send_replace(true);
        self.stop.closed().await;
    }
}

/// Waits for the child, or stops it on request; the child is reaped in both cases. `name` is that of its scope.
async fn supervise(
    mut child: Child,
    name: String,
    mut stop: watch::Receiver<bool>,
    end_sender: oneshot::Sender<End>,
    output_sender: mpsc::UnboundedSender<Vec<u8>>,
) {
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(drain(stdout, output_sender.clone()));
    }
    let stderr = child.stderr.take().map(|stderr| tokio::spawn(drain(stderr, output_sender)));
    let exited = tokio::select! {
        status = child.wait() => Some(status),
        _ = stop.changed() => None,
    };
    let status = match exited {
        Some(status) => status,
        None => end(&mut child, &name).await,
    };
    let at = Instant::now();
    let stderr = match stderr {
        // A process that it left running may keep its error output open.
        Some(beginning) => tokio::time::timeout(LAST_OUTPUT, beginning).await.ok().and_then(Result::ok),
        None => None,
    };
    let stderr = String::from_utf8_lossy(&stderr.unwrap_or_default()).trim().to_owned();
    if let Ok(status) = status {
        // The receiver may be gone.
        let _ = end_sender.send(End { status, at, stderr });
    }
}

/// Reads a stream to its end, also without a receiver, so that its writer never blocks; returns its beginning.
async fn drain(mut from: impl AsyncRead + Unpin, output_sender: mpsc::UnboundedSender<Vec<u8>>) -> Vec<u8> {
    let mut beginning = Vec::new();
    let mut piece = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let kept = count.min(MAX_STDERR.saturating_sub(beginning.len()));
        beginning.extend_from_slice(&piece[..kept]);
        let _ = output_sender.send(piece[..count].to_vec());
    }
    beginning
}

async fn end(child: &mut Child, name: &str) -> std::io::Result<ExitStatus> {
    // Found only while the command runs.
    let scope = child.id().and_then(|starter| cgroup(starter, name));
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Fails only if it has already exited; it is not reaped yet, so its id has not been reused.
        let _ = kill_process(pid, Signal::TERM);
    }
    if let Ok(status) = tokio::time::timeout(STOP_TIMEOUT, child.wait()).await {
        return status;
    }
    // `flowctl run` does not outlive its command for long, and removes the cgroup.
    scope.iter().for_each(kill_processes);
    if let Ok(status) = tokio::time::timeout(STOP_TIMEOUT, child.wait()).await {
        return status;
    }
    child.start_kill()?;
    child.wait().await
}

/// Kills all processes in a cgroup.
fn kill_processes(cgroup: &Cgroup) {
    let mut pids = BTreeSet::new();
    for directory in cgroup.directories() {
        let listed = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        pids.extend(listed.lines().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    for pid in pids.into_iter().filter_map(Pid::from_raw) {
        // Fails only if it has just ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Opens the scope of the command that process `starter` runs; `None` before the command is in it and after its end.
pub(super) fn cgroup(starter: u32, name: &str) -> Option<Cgroup> {
    let name = ScopeName::new(name).ok()?;
    let children = std::fs::read_to_string(format!("/proc/{starter}/task/{starter}/children")).ok()?;
    let pids: Vec<u32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    [name.cgroup(), name.unit()]
        .iter()
        .find_map(|cgroup| pids.iter().find_map(|&pid| Cgroup::of_scope(pid, None, cgroup).ok()))
}

impl Command {
    /// The name of its scope.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The process that started it; `None` if that has ended.
    pub(crate) fn starter(&self) -> Option<u32> {
        self.starter
    }

    /// Waits until the command exits; passes its output to `on_output`.
    pub(crate) async fn wait(self, mut on_output: impl FnMut(&[u8])) -> Result<Ended> {
        let Command { name, mut end, mut output, .. } = self;
        let ended = loop {
            tokio::select! {
                ended = &mut end => break ended,
                Some(piece) = output.recv() => on_output(&piece),
            }
        };
        let End { status, at, .. } = ended.with_context(|| format!("wait for {name}"))?;
        let rest = async {
            while let Some(piece) = output.recv().await {
                on_output(&piece);
            }
        };
        // Output that does not arrive in time is lost.
        let _ = tokio::time::timeout(LAST_OUTPUT, rest).await;
        let exit_code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Ended { exit_code, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend() -> ScopeBackend {
        let cores = Cores::all().expect("readable affinity");
        ScopeBackend::open("trial", PathBuf::from("/nonexistent"), Vec::new(), cores).expect("this program has a path")
    }

    fn shell(script: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[tokio::test]
    async fn close_waits_for_a_command_that_an_interrupted_clear_was_stopping() {
        let backend = backend();
        let mut job = backend.spawn(shell("trap '' TERM; echo ready; sleep 5"), "job").expect("a shell");
        assert_eq!(job.output.recv().await.as_deref(), Some(&b"ready\n"[..]));
        let cleared = tokio::time::timeout(Duration::from_millis(100), backend.clear()).await;
        assert!(cleared.is_err(), "the command ignores SIGTERM");
        assert!(job.end.try_recv().is_err(), "it still runs");
        backend.close().await;
        assert!(job.end.try_recv().is_ok(), "it has ended");
    }

    #[tokio::test]
    async fn nothing_starts_after_close() {
        let backend = backend();
        backend.clear().await;
        drop(backend.spawn(shell("exit 0"), "next").expect("a cleared backend starts others"));
        backend.clone().close().await;
        assert!(backend.spawn(shell("exit 0"), "late").is_err());
    }

    #[tokio::test]
    async fn a_command_that_ignores_sigterm_is_killed_through_its_cgroup() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut child = shell("trap '' TERM; exec sleep 600").kill_on_drop(true).spawn().expect("a shell");
        let pid = child.id().expect("it was not waited for");
        std::fs::write(folder.path().join("cgroup.procs"), format!("0\n{pid}\n")).expect("a file");
        kill_processes(&Cgroup::of_folder(folder.path()));
        let ended = tokio::time::timeout(Duration::from_secs(60), child.wait()).await.expect("it ends soon");
        assert_eq!(ended.expect("its end").signal(), Some(Signal::KILL.as_raw()));
    }

    #[tokio::test]
    async fn a_process_left_running_by_a_command_does_not_delay_its_end() {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", "exec 3<&0; cat <&3 & exit 3"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let held_open = child.stdin.take();
        let (end_sender, end) = oneshot::channel();
        let (output_sender, output) = mpsc::unbounded_channel();
        let stop = watch::Sender::new(false);
        tokio::spawn(supervise(child, "job".to_owned(), stop.subscribe(), end_sender, output_sender));
        let ended = Command { name: "job".into(), starter: None, end, output }.wait(|_| ()).await.expect("its end");
        assert_eq!(ended.exit_code, 3);
        drop(held_open);
    }
}
