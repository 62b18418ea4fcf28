//! Tests that no client of `flowctl metrics --listen` can block others: its port is open to all.

use crate::support::daemon::{Daemon, eventually};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Far longer than the timeouts of the exporter.
const SOON: Duration = Duration::from_secs(120);

/// The exporter of a daemon without an engine; killed when dropped.
struct Exporter {
    child: Child,
    address: String,
    _daemon: Daemon,
}

impl Exporter {
    fn start() -> Exporter {
        let daemon = Daemon::start("off", &[]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.arg("--socket").arg(daemon.socket()).args(["metrics", "--listen", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Exporter { child, address, _daemon: daemon }
    }

    /// Connects a client that sends this text.
    fn client(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Requests the metrics and reads the reply up to the end of the connection.
    fn scrape(&self) -> String {
        let mut reply = String::new();
        self.client("GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\n").read_to_string(&mut reply).unwrap();
        reply
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the server closes the connection, possibly with an error.
fn wait_until_closed(mut client: TcpStream) {
    let mut rest = Vec::new();
    if let Err(error) = client.read_to_end(&mut rest) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it is still open");
    }
}

#[test]
fn unfinished_requests_use_bounded_resources_and_do_not_block_others() {
    let exporter = Exporter::start();
    let before = exporter.descriptors();
    let silent: Vec<TcpStream> = (0..100).map(|_| exporter.client("")).collect();
    let slow: Vec<TcpStream> = (0..100).map(|_| exporter.client("GET /metrics HTTP/1.1\r\nX-Slow: ")).collect();
    let reply = exporter.scrape();
    assert!(reply.starts_with("HTTP/1.1 200 ") && reply.contains("flowcon_"), "{reply}");
    eventually("the number of connections is bounded", SOON, || (exporter.descriptors() <= before + 20).then_some(()));
    silent.into_iter().chain(slow).for_each(wait_until_closed);
    eventually("all connections are closed", SOON, || (exporter.descriptors() <= before + 1).then_some(()));
}

#[test]
fn a_connection_serves_one_request() {
    let exporter = Exporter::start();
    let request = "GET /metrics HTTP/1.1\r\nHost: exporter\r\nConnection: keep-alive\r\n\r\n";
    let mut reply = String::new();
    exporter.client(request).read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    wait_until_closed(
        exporter.client("GET / HTTP/1.1\r\nHost: exporter\r\nContent-Length: 1000000\r\n\r\nno more than this"),
    );
    wait_until_closed(exporter.client("this is not HTTP\r\n\r\n"));
}
