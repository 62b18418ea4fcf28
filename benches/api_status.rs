//! The latency of `/v1/status` with 500 governed containers, compared with the same bytes over a plain Unix socket.
//!
//! Each request opens its own connection, as `flowctl` does. Every tenth request is the first after a new snapshot, so that
//! serialisation is part of the tail. Prints the median, the 99th percentile and the maximum of both.

#[path = "../tests/served/mod.rs"]
mod served;

use served::{Served, busy_node, idle_node};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONTAINERS: usize = 500;
const REQUESTS: usize = 2000;
const REQUESTS_PER_SNAPSHOT: usize = 10;

const REQUEST: &[u8] = b"GET /v1/status HTTP/1.1\r\nHost: flowcond\r\nConnection: close\r\n\r\n";

fn main() {
    let served = Served::new(full_node(0));
    let response = exchange(&served.socket);
    let bytes = response.len();
    let plain_socket = plain_server(response);
    let mut api_times = Vec::new();
    let mut plain_times = Vec::new();
    for request in 0..REQUESTS {
        if request % REQUESTS_PER_SNAPSHOT == 0 {
            served.status.send(Arc::new(full_node(request as u64))).expect("the server listens");
        }
        api_times.push(time_request(&served.socket));
        plain_times.push(time_request(&plain_socket));
    }
    println!(
        "/v1/status, {CONTAINERS} containers, {bytes} bytes, {REQUESTS} requests, a new snapshot every {REQUESTS_PER_SNAPSHOT}"
    );
    report("flowcond's API", &mut api_times);
    report("plain socket, same bytes", &mut plain_times);
}

/// A node of [`CONTAINERS`] jobs, with every kind of job in turn.
fn full_node(tick: u64) -> flowcon::model::NodeStatus {
    let mut node = idle_node();
    node.ticks = tick;
    node.jobs = busy_node().jobs.into_iter().cycle().take(CONTAINERS).collect();
    node
}

fn exchange(socket: &Path) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).expect("connected");
    stream.write_all(REQUEST).expect("the request is sent");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("the response is read");
    response
}

fn time_request(socket: &Path) -> Duration {
    let started = Instant::now();
    let response = exchange(socket);
    let elapsed = started.elapsed();
    assert!(response.starts_with(b"HTTP/1.1 200"), "the request succeeds");
    elapsed
}

/// Reads the request and writes a fixed response: the lower bound for any server.
fn plain_server(response: Vec<u8>) -> std::path::PathBuf {
    let folder = tempfile::tempdir().expect("folder").keep();
    let path = folder.join("plain.sock");
    let listener = UnixListener::bind(&path).expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut request = vec![0; REQUEST.len()];
            stream.read_exact(&mut request).expect("the request");
            stream.write_all(&response).expect("the response");
        }
    });
    path
}

fn report(name: &str, times: &mut [Duration]) {
    times.sort();
    let quantile = |q: f64| times[((times.len() - 1) as f64 * q) as usize].as_secs_f64() * 1000.0;
    println!(
        "{name:<24} median {:6.2} ms   p99 {:6.2} ms   max {:6.2} ms",
        quantile(0.5),
        quantile(0.99),
        quantile(1.0)
    );
}
