//! Tests that an agent that cannot work refuses to start with a reason.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// A process, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an agent under the command `before`, with this test as its engine; returns the first request to the engine or line of the log.
fn first_output(before: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("docker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = Command::new(before.first().copied().unwrap_or(env!("CARGO_BIN_EXE_flowcoord")));
    if !before.is_empty() {
        command.args(&before[1..]).arg(env!("CARGO_BIN_EXE_flowcoord"));
    }
    command.arg("agent").arg("--engine").arg(format!("unix://{}", socket.display()));
    command.arg("--socket").arg(folder.path().join("coord.sock")).stderr(Stdio::piped());
    let mut agent = Running(command.spawn().unwrap());
    let (sender, receiver) = mpsc::channel();
    let log = BufReader::new(agent.0.stderr.take().unwrap());
    let log_sender = sender.clone();
    std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(|line| drop(log_sender.send(line))));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0_u8; 9];
            if stream.read_exact(&mut request).is_ok() {
                let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
            }
        }
    });
    receiver.recv_timeout(SOON).unwrap()
}

#[test]
fn an_agent_in_another_pid_namespace_than_its_engine_refuses_to_start() {
    let error = first_output(&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    assert!(error.contains("another PID namespace") && error.contains("--pid=host"), "{error}");
    // Also with the /proc of the engine's namespace: it could not kill a job whose lease has expired.
    let error = first_output(&["unshare", "--pid", "--fork", "--kill-child"]);
    assert!(error.contains("another PID namespace"), "{error}");
    assert_eq!(first_output(&[]), "GET /info");
}
