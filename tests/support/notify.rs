//! flowcon-notify, and an HTTP server for its messages.

#![allow(dead_code)] // each test binary needs only a part of it
#![allow(clippy::unwrap_used)] // tests fail by panicking, also in their support code

use super::daemon::{Daemon, eventually_or};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);

/// The name of a job, of which no other run of this test has one.
pub fn full(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Starts a server at a free port, which answers each connection in a thread of its own.
pub fn serving<S: Clone + Send + 'static>(server_at: impl FnOnce(u16) -> S, answer: fn(&S, TcpStream)) -> S {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server_at(listener.local_addr().unwrap().port());
    let serving = server.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serving = serving.clone();
            thread::spawn(move || answer(&serving, stream));
        }
    });
    server
}

/// A request as an HTTP server got it.
#[derive(Clone)]
pub struct Post {
    pub path: String,
    pub authorization: String,
    pub body: Value,
}

/// An HTTP server that keeps what is posted, and answers each path with 200 or the status set for it.
#[derive(Clone)]
pub struct Http {
    port: u16,
    posts: Arc<Mutex<Vec<Post>>>,
    statuses: Arc<Mutex<BTreeMap<String, u16>>>,
}

impl Http {
    pub fn start() -> Http {
        serving(
            |port| Http { port, posts: Arc::default(), statuses: Arc::default() },
            |server, stream| _ = server.answer(stream),
        )
    }

    fn answer(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let header = |name: &str| {
            let found = lines.iter().find_map(|line| {
                line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            });
            found.unwrap_or_default().to_owned()
        };
        let mut body = vec![0; header("content-length").parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        let path = lines.first()?.split(' ').nth(1)?.to_owned();
        let status = self.statuses.lock().unwrap().get(&path).copied().unwrap_or(200);
        let body = serde_json::from_slice(&body).ok()?;
        self.posts.lock().unwrap().push(Post { path, authorization: header("authorization"), body });
        let mut stream = stream;
        write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").ok()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn set(&self, path: &str, status: u16) {
        self.statuses.lock().unwrap().insert(path.to_owned(), status);
    }

    pub fn posts(&self, path: &str) -> Vec<Post> {
        self.posts.lock().unwrap().iter().filter(|post| post.path == path).cloned().collect()
    }

    pub fn clear(&self) {
        self.posts.lock().unwrap().clear();
    }

    /// Job and kind of each message that a webhook got. An end may be unknown, if the cgroup of a command is seen empty before `flowctl`
    /// reports its end, as on a busy machine: it counts as a failure.
    pub fn messages(&self, path: &str) -> Vec<String> {
        self.kinds(path).into_iter().map(|message| message.replace(" ended", " failed")).collect()
    }

    /// Job and kind of each message that a webhook got.
    pub fn kinds(&self, path: &str) -> Vec<String> {
        let posts = self.posts(path);
        let of = |message: &Value| {
            let word = |key: &str| message[key].as_str().unwrap_or("-").to_owned();
            format!("{} {}", word("job").replace(&full(""), ""), word("kind"))
        };
        let mut all: Vec<String> =
            posts.iter().flat_map(|post| post.body["messages"].as_array().unwrap().iter().map(of)).collect();
        all.sort();
        all
    }
}

/// A running flowcon-notify, killed when dropped.
pub struct Notify(Child);

impl Notify {
    pub fn start(daemon: &Daemon) -> Notify {
        let log = fs::File::options().create(true).append(true).open(Notify::log(daemon)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcon-notify"));
        command.arg("--config").arg(daemon.config()).arg("--socket").arg(daemon.socket());
        Notify(command.arg("--state-dir").arg(Notify::state(daemon)).stderr(log).spawn().unwrap())
    }

    pub fn log(daemon: &Daemon) -> PathBuf {
        daemon.config().with_file_name("notify.log")
    }

    pub fn state(daemon: &Daemon) -> PathBuf {
        daemon.config().with_file_name("notify")
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits until it reads the events of the daemon.
    pub fn wait_until_connected(daemon: &Daemon, times: usize) {
        let log = || fs::read_to_string(Notify::log(daemon)).unwrap();
        let probe = || (log().matches("connected to flowcond").count() >= times).then_some(());
        eventually_or("flowcon-notify is connected", SOON, probe, log);
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a webhook got exactly these messages; later ones are not awaited.
pub fn wait_for(daemon: &Daemon, server: &Http, path: &str, expected: &[&str], within: Duration) {
    let probe = || (server.messages(path) == expected).then_some(());
    eventually_or(&format!("{path} gets {expected:?}"), within, probe, || {
        let log = fs::read_to_string(Notify::log(daemon)).unwrap_or_default();
        format!("it got {:?}\n{log}", server.messages(path))
    });
}
