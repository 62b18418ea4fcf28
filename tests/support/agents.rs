//! Agents without a Swarm: certificates like those issued by Swarm, and a fake engine with scripted replies.

#![allow(dead_code)] // each user needs only a part of it
#![allow(clippy::unwrap_used)] // tests fail by panicking, also in their support code

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

/// The certificate authority of one cluster, `c`.
pub struct Authority(PathBuf);

impl Authority {
    /// Creates an authority with its files in this folder.
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

    /// An authority whose files are already in this folder.
    pub fn of_folder(folder: &Path) -> Authority {
        Authority(folder.to_owned())
    }

    /// Issues a certificate for a node with the role `swarm-manager` or `swarm-worker`. All nodes have the same key.
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

/// Starts a fake engine at this socket that replies to each path with a document, until this process ends.
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

/// Reply to `/info` of an engine in the Swarm `c`.
pub const INFO: &str = r#"{"DockerRootDir": "/var/lib/docker", "Swarm": {"NodeID": "n0", "NodeAddr": "127.0.0.1",
    "ControlAvailable": true, "Cluster": {"ID": "c"}}}"#;

/// A running `flowcoord` with its files in a folder; killed when dropped.
pub struct Flowcoord(pub Child);

impl Flowcoord {
    /// Starts `flowcoord VERB` as this node, with an engine at `engine.sock` in the folder.
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

/// Polls until `probe` returns a value; panics after `within`.
pub fn eventually<T>(what: &str, within: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(began.elapsed() < within, "not within {} s: {what}", within.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
}
