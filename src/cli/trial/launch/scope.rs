//! Jobs as commands of `flowctl run`, each in a cgroup of its own, exactly as an operator would start them.
//!
//! Imports: tokio, rustix.

use super::super::confine::Cores;
use super::super::job::Job;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// `flowctl run` gets this long to end its command and remove the cgroup before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of what `flowctl run` says on its error output, this much is kept for a message.
const COMPLAINT_AT_MOST: u64 = 4096;

/// Starts commands on this machine.
#[derive(Clone)]
pub struct ScopeStage {
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
    end: oneshot::Receiver<(ExitStatus, String)>,
}

impl ScopeStage {
    /// Every scope will carry `labels`, stay on `cores` and be registered with the governor at `socket`.
    ///
    /// # Errors
    /// The running program's file is unknown.
    pub fn open(tag: &str, socket: PathBuf, labels: Vec<(String, String)>, cores: Cores) -> Result<ScopeStage> {
        let program = std::env::current_exe().context("find the running program's file")?;
        let stop = Arc::new(watch::Sender::new(()));
        Ok(ScopeStage { program, tag: tag.to_owned(), socket, labels, cores, stop, running: Arc::default() })
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
            (status, _) if status.success() => Ok(()),
            (_, complaint) => {
                let first = complaint.lines().next().unwrap_or("no reason was given");
                bail!("{}", first.trim_start_matches("flowctl: "))
            }
        }
    }

    /// Starts the job.
    pub fn start(&self, job: &Job) -> Result<Command> {
        let name = self.container_name(job);
        let what = job.work.command_line(&self.program.to_string_lossy());
        self.spawn(self.command(&name, &job.labels, &what), &name)
    }

    /// `flowctl run … -- …`, out of the terminal's process group: Ctrl-C is for the caller to handle.
    fn command(&self, name: &str, labels: &[(String, String)], what: &[String]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.arg("--socket").arg(&self.socket).arg("run").arg("--name").arg(name);
        for (key, value) in self.labels.iter().chain(labels) {
            command.arg("--label").arg(format!("{key}={value}"));
        }
        command.arg("--").args(what);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
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
        let task = tokio::spawn(look_after(child, self.stop.subscribe(), tell));
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        Ok(Command { name: name.to_owned(), end })
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
async fn look_after(mut child: Child, mut stop: watch::Receiver<()>, tell: oneshot::Sender<(ExitStatus, String)>) {
    let complaint = child.stderr.take().map(|stderr| {
        tokio::spawn(async move {
            let mut text = Vec::new();
            let mut stderr = BufReader::new(stderr);
            let _ = (&mut stderr).take(COMPLAINT_AT_MOST).read_to_end(&mut text).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            String::from_utf8_lossy(&text).trim().to_owned()
        })
    });
    let ended_by_itself = tokio::select! {
        status = child.wait() => Some(status),
        _ = stop.changed() => None,
    };
    let status = match ended_by_itself {
        Some(status) => status,
        None => end(&mut child).await,
    };
    let complaint = match complaint {
        Some(text) => text.await.unwrap_or_default(),
        None => String::new(),
    };
    if let Ok(status) = status {
        // Nobody may be waiting any more.
        let _ = tell.send((status, complaint));
    }
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
    /// Waits for its end; the exit code, 128 + signal when one ended it.
    pub async fn wait(self) -> Result<i32> {
        let (status, complaint) = self.end.await.with_context(|| format!("wait for {}", self.name))?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        if code != 0 && !complaint.is_empty() {
            eprintln!("flowctl: {} ended with {code}: {complaint}", self.name);
        }
        Ok(code)
    }
}
