//! Jobs as commands of `flowctl run`, each in a cgroup of its own, exactly as an operator would start them.
//!
//! Imports: tokio, rustix.

use super::super::confine::Cores;
use super::super::job::Job;
use super::{Ended, LAST_OUTPUT};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// `flowctl run` gets this long to end its command and remove the cgroup before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of what `flowctl run` says on its error output, this much is kept for a message.
const COMPLAINT_AT_MOST: usize = 4096;

/// Starts commands on this machine.
#[derive(Clone)]
pub struct ScopeBackend {
    program: PathBuf,
    /// Prefix of the scopes' names.
    tag: String,
    /// The governor's socket; scopes are registered beside it.
    socket: PathBuf,
    labels: Vec<(String, String)>,
    cores: Cores,
    /// Every change ends what runs.
    stop: Arc<watch::Sender<()>>,
    running: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// A command that was started.
pub struct Command {
    name: String,
    end: oneshot::Receiver<End>,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
}

/// How a command ended.
struct End {
    status: ExitStatus,
    at: Instant,
    /// The beginning of its error output.
    complaint: String,
}

impl ScopeBackend {
    /// Every scope will carry `labels`, stay on `cores` and be registered with the governor at `socket`.
    ///
    /// # Errors
    /// The running program's file is unknown.
    pub fn open(tag: &str, socket: PathBuf, labels: Vec<(String, String)>, cores: Cores) -> Result<ScopeBackend> {
        let program = std::env::current_exe().context("find the running program's file")?;
        let stop = Arc::new(watch::Sender::new(()));
        Ok(ScopeBackend { program, tag: tag.to_owned(), socket, labels, cores, stop, running: Arc::default() })
    }

    /// The scope's name for a job.
    pub fn container_name(&self, job: &Job) -> String {
        format!("{}-{}", self.tag, job.name)
    }

    /// The cores that the jobs share.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Runs a command that does nothing, to see whether it can be given a cgroup.
    ///
    /// # Errors
    /// What `flowctl run` complained about.
    pub async fn try_out(&self) -> Result<()> {
        let nothing = [self.program.to_string_lossy().into_owned(), "--version".to_owned()];
        let command = self.command(&format!("{}-trial", self.tag), &[], &nothing);
        let child = self.spawn(command, "nothing")?;
        match child.end.await.context("wait for a command that does nothing")? {
            End { status, .. } if status.success() => Ok(()),
            End { complaint, .. } => {
                let first = complaint.lines().next().unwrap_or("no reason was given");
                bail!("{}", first.trim_start_matches("flowctl: "))
            }
        }
    }

    /// Starts the job.
    pub fn start(&self, job: &Job) -> Result<Command> {
        let name = self.container_name(job);
        let what = job.work.command_line(&self.program.to_string_lossy());
        let mut command = self.command(&name, &job.labels, &what);
        command.envs(job.work.environment());
        self.spawn(command, &name)
    }

    /// `flowctl run … -- …`, out of the terminal's process group: Ctrl-C is for the caller to handle.
    fn command(&self, name: &str, labels: &[(String, String)], what: &[String]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.arg("--socket").arg(&self.socket).arg("run").arg("--name").arg(name);
        for (key, value) in self.labels.iter().chain(labels) {
            command.arg("--label").arg(format!("{key}={value}"));
        }
        command.arg("--").args(what);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }

    fn spawn(&self, mut command: tokio::process::Command, name: &str) -> Result<Command> {
        let runtime = tokio::runtime::Handle::current();
        let spawned = self.cores.on_them(|| {
            let _inside = runtime.enter();
            command.spawn()
        });
        let child = spawned
            .and_then(|spawned| spawned)
            .with_context(|| format!("start {} run for {name}", self.program.display()))?;
        let (tell, end) = oneshot::channel();
        let (pour, output) = mpsc::unbounded_channel();
        let task = tokio::spawn(look_after(child, self.stop.subscribe(), tell, pour));
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        Ok(Command { name: name.to_owned(), end, output })
    }

    /// Ends what still runs and waits until it is gone.
    pub async fn clear(&self) {
        self.stop.send_replace(());
        let tasks = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            let _ = task.await;
        }
    }
}

/// Waits for the child, or ends it when told to; either way the child is reaped here.
async fn look_after(
    mut child: Child,
    mut stop: watch::Receiver<()>,
    tell: oneshot::Sender<End>,
    pour: mpsc::UnboundedSender<Vec<u8>>,
) {
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(drain(stdout, pour.clone()));
    }
    let complaint = child.stderr.take().map(|stderr| tokio::spawn(drain(stderr, pour)));
    let ended_by_itself = tokio::select! {
        status = child.wait() => Some(status),
        _ = stop.changed() => None,
    };
    let status = match ended_by_itself {
        Some(status) => status,
        None => end(&mut child).await,
    };
    let at = Instant::now();
    let complaint = match complaint {
        // What it left running may hold its error output open.
        Some(beginning) => tokio::time::timeout(LAST_OUTPUT, beginning).await.ok().and_then(Result::ok),
        None => None,
    };
    let complaint = String::from_utf8_lossy(&complaint.unwrap_or_default()).trim().to_owned();
    if let Ok(status) = status {
        // Nobody may be waiting any more.
        let _ = tell.send(End { status, at, complaint });
    }
}

/// Reads a stream to its end, whether anybody listens or not, so that its writer never waits; its beginning.
async fn drain(mut from: impl AsyncRead + Unpin, pour: mpsc::UnboundedSender<Vec<u8>>) -> Vec<u8> {
    let mut beginning = Vec::new();
    let mut piece = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let kept = count.min(COMPLAINT_AT_MOST.saturating_sub(beginning.len()));
        beginning.extend_from_slice(&piece[..kept]);
        let _ = pour.send(piece[..count].to_vec());
    }
    beginning
}

async fn end(child: &mut Child) -> std::io::Result<ExitStatus> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Fails only when it has ended by itself; it is not reaped yet, so the id is still its own.
        let _ = kill_process(pid, Signal::TERM);
    }
    match tokio::time::timeout(PATIENCE, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            child.start_kill()?;
            child.wait().await
        }
    }
}

impl Command {
    /// Waits for its end; `hear` is given its output.
    pub async fn wait(self, mut hear: impl FnMut(&[u8])) -> Result<Ended> {
        let Command { name, mut end, mut output } = self;
        let ended = loop {
            tokio::select! {
                ended = &mut end => break ended,
                Some(piece) = output.recv() => hear(&piece),
            }
        };
        let End { status, at, .. } = ended.with_context(|| format!("wait for {name}"))?;
        let rest = async {
            while let Some(piece) = output.recv().await {
                hear(&piece);
            }
        };
        // Whatever does not come is not heard.
        let _ = tokio::time::timeout(LAST_OUTPUT, rest).await;
        let exit_code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Ended { exit_code, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_command_leaves_running_does_not_keep_it_from_its_end() {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", "exec 3<&0; cat <&3 & exit 3"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let held_open = child.stdin.take();
        let (tell, end) = oneshot::channel();
        let (pour, output) = mpsc::unbounded_channel();
        let stop = watch::Sender::new(());
        tokio::spawn(look_after(child, stop.subscribe(), tell, pour));
        let ended = Command { name: "job".into(), end, output }.wait(|_| ()).await.expect("its end");
        assert_eq!(ended.exit_code, 3);
        drop(held_open);
    }
}
