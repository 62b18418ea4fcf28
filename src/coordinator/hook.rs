//! The commands of whoever rents nodes: run without a shell, for a bounded time, with the node's name as last argument. Imports: model.

use crate::model::swarm::NodeId;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// So much of what a command says on standard error is read; its last line is kept.
const SAID_MOST: u64 = 64 << 10;
/// Its last line, in characters.
const LINE_MOST: usize = 160;

/// What it said last is waited for no longer than this after its end.
const LISTEN: Duration = Duration::from_secs(1);

/// A command's process group, killed with all that it started if it is left before its end.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL); // it has ended by itself
        }
    }
}

/// Runs a command and waits for its end; it is killed when its time is over. It finds the node's id as FLOWCON_NODE_ID.
///
/// # Errors
/// It could not be started, failed, or took too long; with the last line that it said.
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
        .map_err(|error| format!("{program}: it cannot be started: {error}; check [nodes] of flowcoord.toml"))?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let mut group = Group(pid);
    let said = tokio::spawn(last_line(child.stderr.take()));
    let Ok(ended) = tokio::time::timeout(within, child.wait()).await else {
        return Err(format!("{program}: killed, for it took longer than {} s", within.as_secs()));
    };
    group.0 = None;
    let status = ended.map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    // Who still holds its standard error is not waited for.
    let said = tokio::time::timeout(LISTEN, said).await.ok().and_then(Result::ok).unwrap_or_default();
    Err(format!("{program}: {status}: {said}"))
}

/// The last line of a stream that is read to its end, so that nobody waits to write.
async fn last_line(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut said = Vec::new();
    // What cannot be read is not shown; the exit status tells.
    let _ = (&mut stream).take(SAID_MOST).read_to_end(&mut said).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    let said = String::from_utf8_lossy(&said);
    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(LINE_MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sh(script: &str, within: Duration) -> Result<(), String> {
        let command = ["sh", "-c", script, "sh", "node-2"].map(str::to_owned);
        run(&command, &NodeId("id".into()), within).await
    }

    #[tokio::test]
    async fn a_command_is_told_its_node_and_its_failure_is_told_with_its_last_line() {
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
