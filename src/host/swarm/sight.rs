//! Whether this process can see the processes of its engine's containers. A process in another PID namespace sees none of them, and would
//! conclude that every job has ended.

use super::Engine;
use std::fs;
use tokio::net::UnixStream;

/// The next step in every error message.
const NEXT: &str = "run the agent as the unit flowcoord-agent.service, or its container with --pid=host";

impl Engine {
    /// Checks that `/proc` shows the processes of this engine's containers.
    ///
    /// The kernel reports the id of the process that listens on the engine's socket as seen in our PID namespace, and 0 if it is not
    /// visible there. The containers of the engine are in its PID namespace or below it.
    ///
    /// # Errors
    /// A message with the next step: the processes are not visible, or this cannot be determined.
    pub async fn shows_its_processes(&self) -> Result<(), String> {
        let socket = self.http.socket().display();
        let peer = UnixStream::connect(self.http.socket()).await.and_then(|stream| stream.peer_cred());
        let peer = peer.map_err(|error| format!("cannot reach the engine at {socket}: {error}"))?;
        if peer.pid().is_none_or(|process| process <= 0) {
            return Err(format!(
                "the engine is in another PID namespace, so the processes of its containers are not visible; {NEXT}"
            ));
        }
        let own = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
        if own != Some(std::process::id()) {
            return Err(format!(
                "/proc belongs to another PID namespace, so the processes of the engine's containers are not visible; {NEXT}"
            ));
        }
        match fs::read_to_string("/proc/1/cgroup") {
            Ok(_) => Ok(()),
            Err(error) => Err(format!(
                "cannot read /proc/1/cgroup: {error}; check whether /proc is mounted with hidepid; the agent needs root and CAP_SYS_PTRACE"
            )),
        }
    }
}
