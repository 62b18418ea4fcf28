//! A Unix socket between a client and the engine that loses, delays and adds what it is told: connections break on
//! real machines too, but not when a test wants it.

#![allow(dead_code)] // each test binary uses a part of it
#![allow(clippy::unwrap_used)] // a test fails by panicking, in its support too

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

/// Sees each request's first line before the engine does; what it returns is answered in the engine's place.
type Before = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What happens to the connections that are open.
#[derive(Clone, Debug)]
enum Meddle {
    Cut,
    Swallow,
    Inject(String),
}

/// The proxy; it ends when dropped.
pub struct Proxy {
    path: PathBuf,
    meddle: broadcast::Sender<Meddle>,
    requests: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens at `path` and passes everything on to `engine`.
    pub fn start(path: &Path, engine: &Path) -> Proxy {
        Self::start_with(path, engine, Arc::new(|_| None))
    }

    /// The same, and shows each request's first line to `before` first.
    pub fn start_with(path: &Path, engine: &Path, before: Before) -> Proxy {
        let listener = UnixListener::bind(path).unwrap();
        let (meddle, _) = broadcast::channel(256);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (engine, sender, seen) = (engine.to_owned(), meddle.clone(), requests.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (engine, orders) = (engine.clone(), sender.subscribe());
                let (before, seen) = (before.clone(), seen.clone());
                tokio::spawn(async move { pass(client, &engine, orders, &before, &seen).await });
            }
        });
        Proxy { path: path.to_owned(), meddle, requests, accepting }
    }

    /// Breaks all open connections.
    pub fn cut(&self) {
        let _ = self.meddle.send(Meddle::Cut);
    }

    /// What the engine says from now on in open connections never arrives; they stay open.
    pub fn swallow(&self) {
        let _ = self.meddle.send(Meddle::Swallow);
    }

    /// Adds one chunk to what the engine says in open connections: answers without end are chunked.
    pub fn inject(&self, line: &str) {
        let _ = self.meddle.send(Meddle::Inject(format!("{:x}\r\n{line}\n\r\n", line.len() + 1)));
    }

    /// First lines of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Where it listens, as `DOCKER_HOST` names it.
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

async fn pass(
    mut client: UnixStream,
    engine: &Path,
    mut orders: broadcast::Receiver<Meddle>,
    before: &Before,
    seen: &Mutex<Vec<String>>,
) {
    let mut request = vec![0; 64 << 10];
    let Ok(length) = client.read(&mut request).await else { return };
    let first = String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or("").to_owned();
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
    let mut swallowing = false;
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Ok(Meddle::Swallow) => swallowing = true,
                Ok(Meddle::Inject(chunk)) => if client.write_all(chunk.as_bytes()).await.is_err() { return },
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
