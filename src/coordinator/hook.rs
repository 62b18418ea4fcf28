//! The configured commands that open and close nodes: run without a shell, with a time limit and the node's name as last argument.

use model::swarm::NodeId;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Maximum bytes of standard error that are kept to find its last line.
const STDERR_MOST: u64 = 64 << 10;
/// Maximum characters of that line.
const LINE_MOST: usize = 160;

/// How long to wait for standard error after the command has exited.
const STDERR_WITHIN: Duration = Duration::from_secs(1);

/// Process group of a command; killed with all its processes if the command is abandoned before it exits.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL); // fails if it has exited meanwhile
        }
    }
}

/// Runs a command, with the node's id in FLOWCON_NODE_ID, and waits for its exit. It is killed after `within`.
///
/// # Errors
/// The command cannot be started, failed (with the last line of its standard error), or took too long.
pub(super) async fn run(command: &[String], node: &NodeId, within: Duration) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mut child = Command::new(program)
        .args(arguments)
        .env("FLOWCON_NODE_ID", node.0.as_ref())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{program}: cannot start: {error}; check [nodes] of flowcoord.toml"))?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let mut group = Group(pid);
    let stderr = tokio::spawn(last_line(child.stderr.take()));
    let Ok(ended) = tokio::time::timeout(within, child.wait()).await else {
        return Err(format!("{program}: killed because it took longer than {} s", within.as_secs()));
    };
    group.0 = None;
    let status = ended.map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    // A background process may hold standard error open.
    let line = tokio::time::timeout(STDERR_WITHIN, stderr).await.ok().and_then(Result::ok).unwrap_or_default();
    Err(format!("{program}: {status}: {line}"))
}

/// Returns the last line of a stream. Reads it to its end, so that the writer never blocks.
async fn last_line(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut text = Vec::new();
    // Read errors are ignored: the exit status is reported in any case.
    let _ = (&mut stream).take(STDERR_MOST).read_to_end(&mut text).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(LINE_MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sh(script: &str, within: Duration) -> Result<(), String> {
        let command = ["sh", "-c", script, "sh", "node-2"].map(str::to_owned);
        run(&command, &NodeId("id".into()), within).await
    }

    #[tokio::test]
    async fn a_command_gets_its_node_and_a_failure_is_reported_with_its_last_line() {
        let minute = Duration::from_secs(60);
        assert_eq!(sh("[ \"$1 $FLOWCON_NODE_ID\" = 'node-2 id' ]", minute).await, Ok(()));
        let failed = sh("echo trying >&2; echo 'no such machine' >&2; exit 3", minute).await.unwrap_err();
        assert!(failed.contains("exit status: 3: no such machine"), "{failed}");
        let started = tempfile::NamedTempFile::new().unwrap();
        let endless = format!("sleep 60 & echo $! >{}; wait", started.path().display());
        let endless = sh(&endless, Duration::from_secs(1)).await.unwrap_err();
        assert!(endless.contains("took longer"), "{endless}");
        let pid = std::fs::read_to_string(started.path()).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !is_gone() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let missing = run(&["/no/such/program".to_owned()], &NodeId("id".into()), minute).await.unwrap_err();
        assert!(missing.contains("/no/such/program") && missing.contains("flowcoord.toml"), "{missing}");
    }
}
