//! A proxy on a Unix socket between a client and the engine that drops, delays and injects data on request, to test broken
//! connections.

#![allow(dead_code)] // each test binary needs only a part of it
#![allow(clippy::unwrap_used)] // tests fail by panicking, also in their support code

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

/// Called with each request's first line before the engine; if it returns a body, this is the reply instead of the engine's.
type Before = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A fault sent to all open connections.
#[derive(Clone, Debug)]
enum Fault {
    Cut,
    Swallow,
    Inject(String),
}

/// The proxy; stops when dropped.
pub struct Proxy {
    path: PathBuf,
    faults: broadcast::Sender<Fault>,
    requests: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens at `path` and forwards everything to `engine`.
    pub fn start(path: &Path, engine: &Path) -> Proxy {
        Self::start_with(path, engine, Arc::new(|_| None))
    }

    /// Like [`Proxy::start`], but calls `before` with each request's first line.
    pub fn start_with(path: &Path, engine: &Path, before: Before) -> Proxy {
        let listener = UnixListener::bind(path).unwrap();
        let (faults, _) = broadcast::channel(256);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (engine, sender, seen) = (engine.to_owned(), faults.clone(), requests.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (engine, faults) = (engine.clone(), sender.subscribe());
                let (before, seen) = (before.clone(), seen.clone());
                tokio::spawn(async move { pass(client, &engine, faults, &before, &seen).await });
            }
        });
        Proxy { path: path.to_owned(), faults, requests, accepting }
    }

    /// Closes all open connections.
    pub fn cut(&self) {
        let _ = self.faults.send(Fault::Cut);
    }

    /// Discards all further data from the engine on open connections, which stay open.
    pub fn swallow(&self) {
        let _ = self.faults.send(Fault::Swallow);
    }

    /// Injects a chunk into the engine's replies on open connections for events; these endless replies are chunked.
    pub fn inject(&self, line: &str) {
        let _ = self.faults.send(Fault::Inject(format!("{:x}\r\n{line}\n\r\n", line.len() + 1)));
    }

    /// The first lines of all requests so far, without the API version: `GET /info HTTP/1.1`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The address of its socket for `DOCKER_HOST`.
    pub fn address(&self) -> String {
        format!("unix://{}", self.path.display())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.accepting.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

fn without_version(line: &str) -> String {
    match line.split_once(" /v1.") {
        Some((method, versioned)) => format!("{method} {}", versioned.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => line.to_owned(),
    }
}

async fn pass(
    mut client: UnixStream,
    engine: &Path,
    mut faults: broadcast::Receiver<Fault>,
    before: &Before,
    seen: &Mutex<Vec<String>>,
) {
    let mut request = vec![0; 64 << 10];
    let Ok(length) = client.read(&mut request).await else { return };
    let first = without_version(String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or(""));
    seen.lock().unwrap().push(first.clone());
    if let Some(body) = tokio::task::block_in_place(|| before(&first)) {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let _ = client.write_all(answer.as_bytes()).await;
        return;
    }
    let Ok(mut server) = UnixStream::connect(engine).await else { return };
    if server.write_all(&request[..length]).await.is_err() {
        return;
    }
    let (mut swallowing, follows_events) = (false, first.contains("/events"));
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            // A fault precedes data that arrives after it.
            biased;
            fault = faults.recv() => match fault {
                Ok(Fault::Swallow) => swallowing = true,
                Ok(Fault::Inject(chunk)) => {
                    if follows_events && client.write_all(chunk.as_bytes()).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            read = server.read(&mut down) => match read {
                Ok(length) if length > 0 => {
                    if !swallowing && client.write_all(&down[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            read = client.read(&mut up) => match read {
                Ok(length) if length > 0 => if server.write_all(&up[..length]).await.is_err() { return },
                _ => return,
            },
        }
    }
}
