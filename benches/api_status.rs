//! How long `/v1/status` takes with 500 governed containers, beside the same bytes over a bare Unix socket.
//!
//! Each request is a connection of its own, as `flowctl` makes it; every tenth one is the first after a new snapshot, so that
//! serialising is part of the tail. Prints median, 99th percentile and maximum of both.

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
const REQUESTS_A_SNAPSHOT: usize = 10;

const REQUEST: &[u8] = b"GET /v1/status HTTP/1.1\r\nHost: flowcond\r\nConnection: close\r\n\r\n";

fn main() {
    let served = Served::new(full_node(0));
    let answer = exchange(&served.socket);
    let bytes = answer.len();
    let bare = bare_server(answer);
    let mut with_api = Vec::new();
    let mut without = Vec::new();
    for request in 0..REQUESTS {
        if request % REQUESTS_A_SNAPSHOT == 0 {
            served.status.send(Arc::new(full_node(request as u64))).expect("the server listens");
        }
        with_api.push(timed(&served.socket));
        without.push(timed(&bare));
    }
    println!(
        "/v1/status, {CONTAINERS} containers, {bytes} bytes, {REQUESTS} requests, a new snapshot every {REQUESTS_A_SNAPSHOT}"
    );
    report("flowcond's API", &mut with_api);
    report("bare socket, same bytes", &mut without);
}

/// As many jobs of each sort as a large machine has.
fn full_node(tick: u64) -> flowcon::model::NodeStatus {
    let mut node = idle_node();
    node.ticks = tick;
    let sorts = busy_node().jobs;
    node.jobs = sorts.into_iter().cycle().take(CONTAINERS).collect();
    node
}

fn exchange(socket: &Path) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).expect("connected");
    stream.write_all(REQUEST).expect("asked");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    answer
}

fn timed(socket: &Path) -> Duration {
    let begun = Instant::now();
    let answer = exchange(socket);
    let took = begun.elapsed();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "the answer is whole and good");
    took
}

/// Reads a request's bytes and writes the answer's: what no server can be faster than.
fn bare_server(answer: Vec<u8>) -> std::path::PathBuf {
    let folder = tempfile::tempdir().expect("folder").keep();
    let path = folder.join("bare.sock");
    let listener = UnixListener::bind(&path).expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut request = vec![0; REQUEST.len()];
            stream.read_exact(&mut request).expect("the request");
            stream.write_all(&answer).expect("the answer");
        }
    });
    path
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
    println!("{what:<24} median {:6.2} ms   p99 {:6.2} ms   max {:6.2} ms", at(0.5), at(0.99), at(1.0));
}
