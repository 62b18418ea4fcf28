//! Tests of the connection between a manager and an agent: it is kept, replaced when it breaks silently, and a late request does not
//! extend a lease.

use crate::support::agents::{Authority, Flowcoord, INFO, engine, eventually};
use axum::body::Bytes;
use flowcon::coordinator::agent::{Client, ConnectionPool};
use flowcon::host::swarm::Identity;
use flowcon::model::Millis;
use flowcon::model::swarm::{NodeId, NodeReport, ServiceId};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{TcpListener as Listener, TcpStream as Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LEASE: Millis = Millis(60_000);
/// Timeout on a machine that runs other tests.
const SOON: Duration = Duration::from_secs(60);
/// A kept connection whose response takes longer is replaced, as after an agent stalled on a busy machine.
const KEPT_RESPONSE_WITHIN: Duration = Duration::from_secs(5);
/// How often something is tried that fails if the agent stalls meanwhile.
const TRIES: usize = 5;

/// A real agent behind a proxy that breaks connections silently.
struct Node {
    agent: Flowcoord,
    folder: tempfile::TempDir,
    identity: Arc<Identity>,
    proxy: u16,
    connections: Arc<AtomicUsize>,
    cut: Arc<AtomicUsize>,
    kept: Arc<ConnectionPool>,
}

impl Node {
    async fn start() -> Node {
        // The agent writes its leases before it answers, and a busy disk would delay it.
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let authority = Authority::in_folder(folder.path());
        authority.issue("n0", "swarm-manager");
        engine(&folder.path().join("engine.sock"), |path| {
            Bytes::from_static(if path == "/info" { INFO } else { "[]" }.as_bytes())
        });
        let port = Listener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let agent = Flowcoord::start(folder.path(), "agent", &authority.files("n0"), port);
        eventually("the agent listens", SOON, || Stream::connect(("127.0.0.1", port)).ok());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap().port();
        let (connections, cut) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        tokio::spawn(forward(listener, port, connections.clone(), cut.clone()));
        Node { agent, identity: authority.identity("n0"), folder, proxy, connections, cut, kept: Arc::default() }
    }

    async fn report(&self, leases: &[ServiceId]) -> Result<NodeReport, String> {
        let client = Client::new(self.identity.clone(), NodeId("n0".into()), "127.0.0.1", self.proxy);
        let client = client.with_pool(self.kept.clone());
        tokio::time::timeout(SOON, client.report(leases, LEASE)).await.unwrap()
    }

    /// Like [`Node::report`] without leases, repeated until it succeeds.
    async fn report_at_last(&self) -> NodeReport {
        let mut reported = self.report(&[]).await;
        for _ in 1..TRIES {
            if reported.is_ok() {
                break;
            }
            reported = self.report(&[]).await;
        }
        reported.unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Forwards connections; the first `cut` connections stay open but carry no data.
async fn forward(listener: TcpListener, port: u16, connections: Arc<AtomicUsize>, cut: Arc<AtomicUsize>) {
    while let Ok((from, _)) = listener.accept().await {
        let (number, cut) = (connections.fetch_add(1, Ordering::SeqCst), cut.clone());
        tokio::spawn(async move {
            let (from_read, from_write) = from.into_split();
            let (to_read, to_write) = TcpStream::connect(("127.0.0.1", port)).await.unwrap().into_split();
            let is_cut = || number < cut.load(Ordering::SeqCst);
            tokio::join!(pass(from_read, to_write, is_cut), pass(to_read, from_write, is_cut));
        });
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, is_cut: impl Fn() -> bool) {
    let mut bytes = [0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if !is_cut() && to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_kept_until_it_breaks_silently() {
    let node = Node::start().await;
    let began = Instant::now();
    for _ in 0..3 {
        assert!(!node.report_at_last().await.is_governed);
    }
    if began.elapsed() < KEPT_RESPONSE_WITHIN {
        assert_eq!(node.connections(), 1);
    }
    // The connection is silently broken: the same request is sent over a new one.
    let before = node.connections();
    node.cut.store(before, Ordering::SeqCst);
    let began = Instant::now();
    node.report_at_last().await;
    // It waits for the broken connection first; a second new one follows only if the first takes as long.
    if began.elapsed() < KEPT_RESPONSE_WITHIN * 2 {
        assert_eq!(node.connections(), before + 1);
    }
    // All connections are broken: the node is unreachable.
    node.cut.store(usize::MAX, Ordering::SeqCst);
    let error = node.report(&[]).await.unwrap_err();
    assert!(error.contains("does not respond"), "{error}");
    // The connection works again.
    node.cut.store(0, Ordering::SeqCst);
    node.report_at_last().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_read_late_extends_no_lease_beyond_what_its_manager_assumes() {
    let service = ServiceId("s".into());
    for _ in 0..TRIES {
        let node = Node::start().await;
        node.report_at_last().await;
        tokio::time::sleep(Duration::from_millis(500)).await; // a coordinator polls every few seconds
        let process = Pid::from_child(&node.agent.0);
        kill_process(process, Signal::STOP).unwrap();
        let sent = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec as u64 * 1000 + 1000;
        let continue_later = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            kill_process(process, Signal::CONT).unwrap();
        };
        let (reported, ()) = tokio::join!(node.report(std::slice::from_ref(&service)), continue_later);
        if node.connections() > 1 {
            continue; // the agent stalled for longer: the request was repeated, and its lease rightly begins later
        }
        assert!(reported.is_ok(), "{reported:?}");
        let leases = std::fs::read(node.folder.path().join("flowcoord-leases.json")).unwrap();
        let until = serde_json::from_slice::<Value>(&leases).unwrap()["until"]["s"].as_u64().unwrap();
        assert!(until <= sent + LEASE.0, "{} ms too long", until - sent - LEASE.0);
        return;
    }
    panic!("the request was repeated over a second connection, each time");
}
