//! Agents without a Swarm: certificates as Swarm issues them, and an engine that answers what it is told to.

#![allow(dead_code)] // each user takes a part of it
#![allow(clippy::unwrap_used)] // a test fails by panicking, in its support too

use axum::Router;
use axum::body::Bytes;
use axum::http::Uri;
use flowcon::coordinator::CertificateFiles;
use flowcon::host::swarm::{Certificates, Identity};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whoever signs the certificates of one cluster, `c`.
pub struct Authority(PathBuf);

impl Authority {
    /// Its files lie in this folder.
    pub fn in_folder(folder: &Path) -> Authority {
        fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name = names\n[names]\n").unwrap();
        let authority = Authority(folder.to_owned());
        for key in ["ca.key", "node.key"] {
            authority.openssl(&format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out {key}"));
        }
        authority.openssl(
            "req -x509 -new -config openssl.cnf -key ca.key -days 2 -subj /O=c/CN=ca -addext basicConstraints=critical,CA:TRUE -out ca.crt",
        );
        authority
    }

    /// One whose files lie there already.
    pub fn of_folder(folder: &Path) -> Authority {
        Authority(folder.to_owned())
    }

    /// A certificate for a node with the role `swarm-manager` or `swarm-worker`. All nodes have the same key.
    pub fn issue(&self, node: &str, role: &str) {
        self.openssl(&format!(
            "req -x509 -new -config openssl.cnf -key node.key -CA ca.crt -CAkey ca.key -days 2 -subj /O=c/OU={role}/CN={node} \
             -addext subjectAltName=DNS:{node},DNS:{role} -out {node}.crt"
        ));
    }

    pub fn files(&self, node: &str) -> CertificateFiles {
        let file = |name: &str| self.0.join(name);
        CertificateFiles { certificate: file(&format!("{node}.crt")), key: file("node.key"), authority: file("ca.crt") }
    }

    pub fn identity(&self, node: &str) -> Arc<Identity> {
        let CertificateFiles { certificate, key, authority } = self.files(node);
        Arc::new(Certificates::of_files(certificate, key, authority).load().unwrap())
    }

    fn openssl(&self, arguments: &str) {
        let made = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output().unwrap();
        assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
    }
}

/// An engine at this socket, which answers each path with a document, as long as this process lives.
pub fn engine(socket: &Path, answer: impl Fn(&str) -> Bytes + Clone + Send + Sync + 'static) {
    let listener = UnixListener::bind(socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let answered = move |uri: Uri| std::future::ready(answer(uri.path()));
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            axum::serve(listener, Router::new().fallback(answered)).await.unwrap();
        });
    });
}

/// What an engine in the Swarm `c` tells of itself.
pub const INFO: &str = r#"{"DockerRootDir": "/var/lib/docker", "Swarm": {"NodeID": "n0", "NodeAddr": "127.0.0.1",
    "ControlAvailable": true, "Cluster": {"ID": "c"}}}"#;

/// `flowcoord` with its files in a folder; it is killed when dropped.
pub struct Flowcoord(pub Child);

impl Flowcoord {
    /// `flowcoord VERB` as this node, with an engine at `engine.sock` in the folder.
    pub fn start(folder: &Path, verb: &str, files: &CertificateFiles, port: u16) -> Flowcoord {
        let path = |name: &str| folder.join(name).display().to_string();
        let CertificateFiles { certificate, key, authority } = files;
        let text = format!(
            "socket = {:?}\nengine = {:?}\ngroup = \"\"\n[agent]\nport = {port}\nlisten = \"127.0.0.1\"\nflowcond = {:?}\n\
             certificate = {certificate:?}\nkey = {key:?}\nauthority = {authority:?}\n",
            path(&format!("{verb}.sock")),
            path("engine.sock"),
            path("idle.sock"),
        );
        let file = folder.join(format!("{verb}.toml"));
        fs::write(&file, text).unwrap();
        let log = fs::File::create(folder.join(format!("{verb}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcoord"));
        Flowcoord(command.arg(verb).arg("--config").arg(file).stderr(log).spawn().unwrap())
    }
}

impl Drop for Flowcoord {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until there is something.
pub fn eventually<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < within, "not within {} s: {what}", within.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
}
