//! `flowctl metrics --listen` is reached by whoever reaches its port: nobody keeps it from answering the others.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::daemon::{Daemon, eventually};

/// Far longer than any time that the exporter gives a client.
const SOON: Duration = Duration::from_secs(120);

/// The exporter of a daemon without an engine. Ended when dropped.
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
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Exporter { child, address, _daemon: daemon }
    }

    /// A client that has said so much.
    fn client(&self, says: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(says.as_bytes()).unwrap();
        stream
    }

    /// What a client that asks for the metrics is answered, up to the end of the connection.
    fn answer(&self) -> String {
        let mut told = String::new();
        self.client("GET /metrics HTTP/1.1\r\nHost: exporter\r\n\r\n").read_to_string(&mut told).unwrap();
        told
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

/// Waits until the other side has closed: an error is an end too.
fn closed(mut client: TcpStream) {
    let mut rest = Vec::new();
    if let Err(error) = client.read_to_end(&mut rest) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it is still open");
    }
}

#[test]
fn clients_that_do_not_finish_their_requests_take_bounded_room_and_keep_nobody_out() {
    let exporter = Exporter::start();
    let before = exporter.descriptors();
    let silent: Vec<TcpStream> = (0..100).map(|_| exporter.client("")).collect();
    let slow: Vec<TcpStream> = (0..100).map(|_| exporter.client("GET /metrics HTTP/1.1\r\nX-Slow: ")).collect();
    let told = exporter.answer();
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("flowcon_"), "{told}");
    eventually("no more than the places are taken", SOON, || (exporter.descriptors() <= before + 20).then_some(()));
    silent.into_iter().chain(slow).for_each(closed);
    eventually("all places are free", SOON, || (exporter.descriptors() <= before + 1).then_some(()));
}

#[test]
fn a_connection_is_good_for_one_answer() {
    let exporter = Exporter::start();
    let asked = "GET /metrics HTTP/1.1\r\nHost: exporter\r\nConnection: keep-alive\r\n\r\n";
    let mut told = String::new();
    exporter.client(asked).read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    closed(exporter.client("GET / HTTP/1.1\r\nHost: exporter\r\nContent-Length: 1000000\r\n\r\nno more than this"));
    closed(exporter.client("what is no HTTP\r\n\r\n"));
}
