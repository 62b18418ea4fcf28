//! Whether this process sees the processes of its engine's containers. One in a PID namespace of its own sees none, and would take every
//! job for gone. Imports: tokio.

use super::Engine;
use std::fs;
use tokio::net::UnixStream;

/// What every refusal ends with.
const NEXT: &str = "run the agent as the unit flowcoord-agent.service, or its container with --pid=host";

impl Engine {
    /// Whether `/proc` here shows the processes of this engine's containers.
    ///
    /// The kernel tells the number of the process that listens on the engine's socket as it is in our PID namespace, and 0 if it is in
    /// none of ours. The engine's containers are in its namespace or below.
    ///
    /// # Errors
    /// They are not seen, or it cannot be known; in words, with the next step.
    pub async fn shows_its_processes(&self) -> Result<(), String> {
        let socket = self.http.socket().display();
        let peer = UnixStream::connect(self.http.socket()).await.and_then(|stream| stream.peer_cred());
        let peer = peer.map_err(|error| format!("the engine at {socket} does not answer: {error}"))?;
        if peer.pid().is_none_or(|process| process <= 0) {
            return Err(format!(
                "the engine's processes are in another PID namespace: nothing could be said of its containers; {NEXT}"
            ));
        }
        let own = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
        if own != Some(std::process::id()) {
            return Err(format!(
                "/proc is of another PID namespace: nothing could be said of the engine's containers; {NEXT}"
            ));
        }
        match fs::read_to_string("/proc/1/cgroup") {
            Ok(_) => Ok(()),
            Err(error) => Err(format!(
                "/proc/1/cgroup cannot be read ({error}): is /proc mounted with hidepid? The agent needs root and CAP_SYS_PTRACE"
            )),
        }
    }
}
