//! An agent that cannot do its work refuses it and says why.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an agent after `before`, with an engine that is this test: what the engine is asked first, or what the agent complains of.
fn told(before: &[&str]) -> String {
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
    let (tell, told) = mpsc::channel();
    let log = BufReader::new(agent.0.stderr.take().unwrap());
    let complain = tell.clone();
    std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(|line| drop(complain.send(line))));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut asked = [0_u8; 9];
            if stream.read_exact(&mut asked).is_ok() {
                let _ = tell.send(String::from_utf8_lossy(&asked).into_owned());
            }
        }
    });
    told.recv_timeout(SOON).unwrap()
}

#[test]
fn an_agent_that_sees_no_process_of_its_engine_attests_nothing() {
    let complaint = told(&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    assert!(complaint.contains("another PID namespace") && complaint.contains("--pid=host"), "{complaint}");
    // Not even with the /proc of the engine's namespace: it could not end a job whose lease has ended.
    let complaint = told(&["unshare", "--pid", "--fork", "--kill-child"]);
    assert!(complaint.contains("another PID namespace"), "{complaint}");
    assert_eq!(told(&[]), "GET /info");
}
