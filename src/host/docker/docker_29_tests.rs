//! The client on Docker 29, as its answers stand in the documentation of its API: requests without a version, older than 1.44 or newer than
//! 1.52 are refused, events have no `status`, `id` and `from`, and the default log driver is `local`.

use super::*;
use futures_util::StreamExt;
use model::{ContainerId, CpuWeight, Setting};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

const ID: &str = "449e1d56655b86cfb98f8a89e3609ecfab2019fc1609fbc25ceea3c54f9cbd3c";

const VERSION: &str = r#"{"Platform":{"Name":"Docker Engine - Community"},"Components":[
    {"Name":"Engine","Version":"29.0.1","Details":{"ApiVersion":"NEWEST","MinAPIVersion":"OLDEST","Os":"linux"}},
    {"Name":"containerd","Version":"v2.1.5"},{"Name":"runc","Version":"1.3.3"},{"Name":"docker-init","Version":"0.19.0"}],
    "Version":"29.0.1","ApiVersion":"NEWEST","MinAPIVersion":"OLDEST","GitCommit":"198b5e3","Os":"linux","Arch":"amd64"}"#;

const INFO: &str = r#"{"ID":"8b2b1b3a","Containers":1,"ContainersRunning":1,"Driver":"overlayfs",
    "DriverStatus":[["driver-type","io.containerd.snapshotter.v1"]],"LoggingDriver":"local","CgroupDriver":"systemd","CgroupVersion":"2",
    "LiveRestoreEnabled":false,"SecurityOptions":["name=seccomp,profile=builtin","name=rootless","name=cgroupns"],
    "FirewallBackend":{"Driver":"iptables"},"ContainerdCommit":{"ID":"fcd43222"},"Warnings":null}"#;

const LIST: &str = r#"[{"Id":"CONTAINER","Names":["/bert"],"State":"running","Status":"Up 2 seconds","Health":{"Status":"none","FailingStreak":0}}]"#;

const INSPECT: &str = r#"{"Id":"CONTAINER","Created":"2025-11-20T10:00:00Z","Path":"python","Args":["train.py"],
    "State":{"Status":"running","Running":true,"Paused":false,"Restarting":false,"OOMKilled":false,"Dead":false,"Pid":4711,"ExitCode":0,
        "StartedAt":"2025-11-20T10:00:01Z"},
    "Name":"/bert","RestartCount":0,"LogPath":"","ImageManifestDescriptor":{"mediaType":"application/vnd.oci.image.manifest.v1+json",
        "digest":"sha256:00","size":1,"platform":{"architecture":"amd64","os":"linux"}},
    "HostConfig":{"LogConfig":{"Type":"local","Config":{}},"NanoCpus":1500000000,"CpuShares":512,"CgroupnsMode":"private"},
    "Mounts":[],"Config":{"Image":"python","Tty":false,"Labels":{"flowcon.enable":"true"}},
    "NetworkSettings":{"SandboxID":"","SandboxKey":"","Ports":{},"Networks":{}}}"#;

const EVENT: &str = r#"{"Type":"container","Action":"ACTION","Actor":{"ID":"CONTAINER","Attributes":{"image":"python","name":"bert",
    "flowcon.enable":"true","exitCode":"0"}},"scope":"local","time":1763632801,"timeNano":1763632801500000000}"#;

/// An engine that accepts these versions, and the lines of the requests that it accepted.
struct Docker {
    _dir: TempDir,
    engine: Engine,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Docker {
    fn start(oldest: &'static str, newest: &'static str) -> Docker {
        let dir = TempDir::new().unwrap();
        let socket = dir.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let accepted = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, oldest, newest, accepted.clone()));
            }
        });
        Docker { _dir: dir, engine: client(&socket), requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn client(socket: &Path) -> Engine {
    Engine::new(EngineAddress::of_sockets(vec![socket.to_owned()]))
}

fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("1.")?.parse().ok()
}

async fn answer(mut stream: UnixStream, oldest: &str, newest: &str, accepted: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let line = head.lines().next().unwrap_or("").trim_end_matches(" HTTP/1.1").to_owned();
    let (method, path) = line.split_once(' ').unwrap();
    let (status, body) = match path.strip_prefix("/v").and_then(|path| path.split_once('/')) {
        None if path == "/version" => {
            accepted.lock().unwrap().push(line.clone());
            ("200 OK", VERSION.replace("NEWEST", newest).replace("OLDEST", oldest))
        }
        Some((version, rest)) if minor(version).is_some() => {
            let message = |text: String| ("400 Bad Request", serde_json::json!({ "message": text }).to_string());
            if minor(version) < minor(oldest) {
                message(format!("client version {version} is too old. Minimum supported API version is {oldest}"))
            } else if minor(version) > minor(newest) {
                message(format!("client version {version} is too new. Maximum supported API version is {newest}"))
            } else {
                accepted.lock().unwrap().push(line.clone());
                match endless(rest) {
                    Some(first) => return stream_of(stream, first, accepted).await,
                    None => ("200 OK", document(method, rest)),
                }
            }
        }
        _ => ("404 Not Found", r#"{"message":"page not found"}"#.to_owned()),
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await; // the client may be gone
}

fn document(method: &str, path: &str) -> String {
    let text = match path {
        "info" => INFO,
        path if path.starts_with("containers/json?") => LIST,
        path if method == "POST" && path.ends_with("/update") => r#"{"Warnings":[]}"#,
        _ => INSPECT,
    };
    text.replace("CONTAINER", ID)
}

/// The beginning of an endless response.
fn endless(path: &str) -> Option<Vec<u8>> {
    if path.starts_with("events?") {
        let event = |action: &str| EVENT.replace("ACTION", action).replace("CONTAINER", ID).replace('\n', "");
        return Some(format!("{}\n{}\n", event("start"), event("die")).into_bytes());
    }
    path.contains("/logs?").then(|| {
        let text = "2025-11-20T10:00:02.000000000Z loss: 0.5\n";
        let head = [1, 0, 0, 0, 0, 0, 0, text.len() as u8];
        [&head[..], text.as_bytes()].concat()
    })
}

/// Begins the response; nothing happens before the first inspection.
async fn stream_of(mut stream: UnixStream, first: Vec<u8>, accepted: Arc<Mutex<Vec<String>>>) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).await; // the client may be gone
    while !accepted.lock().unwrap().iter().any(|line| line.ends_with("/json")) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let chunk = [format!("{:x}\r\n", first.len()).as_bytes(), &first, b"\r\n"].concat();
    let _ = stream.write_all(&chunk).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn containers_of_docker_29_are_found_with_their_logs_and_limits() {
    let docker = Docker::start("1.44", "1.52");
    let (sender, mut events) = mpsc::channel(16);
    tokio::spawn(watch(docker.engine.clone(), Wanted::labelled("flowcon.enable=true"), sender));
    let Some(EngineEvent::Connected(info)) = events.recv().await else { panic!("not connected") };
    assert_eq!((info.name, info.version.as_str(), info.api), (EngineName::Docker, "29.0.1", ApiVersion(1, 52)));
    assert_eq!((info.cgroup_driver.as_str(), info.cgroup_version, info.log_driver.as_str()), ("systemd", 2, "local"));
    assert_eq!((info.runtime.as_deref(), info.rootless), (Some("runc 1.3.3"), true));

    let listed = events.recv().await;
    let Some(EngineEvent::Listed(found)) = listed else { panic!("{listed:?}") };
    let [job] = &found[..] else { panic!("{found:?}") };
    assert_eq!((job.name.as_str(), job.pid, job.limits.cpu_shares), ("bert", 4711, 512));
    assert_eq!(job.log, LogSource::Api { driver: "local".to_owned() });
    let id = ContainerId::new(ID);
    assert_eq!(events.recv().await, Some(EngineEvent::Ended(id.clone(), Some(0))), "the start was known from the list");

    let mut log = Box::pin(logs(&docker.engine, &id, job.log_format, LogPosition::default()));
    let piece = log.next().await.unwrap().unwrap();
    assert_eq!(piece.bytes, b"loss: 0.5\n");

    let half = [Setting::CpuWeight(CpuWeight::clamped(50.0))];
    let update = docker.engine.update(&id, info.name, &job.limits, Conversion::Quadratic, &half);
    assert_eq!(update.await.unwrap(), []);
    let requests = docker.requests();
    assert_eq!(requests.iter().filter(|line| *line == "GET /version").count(), 1, "{requests:?}");
    assert!(requests[1..].iter().all(|line| line.contains(" /v1.52/")), "{requests:?}");
    assert!(requests.contains(&format!("POST /v1.52/containers/{ID}/update")), "{requests:?}");
}

#[tokio::test]
async fn each_engine_is_spoken_to_in_a_version_that_it_accepts() {
    for (oldest, newest, spoken) in [("1.12", "1.41", "1.41"), ("1.24", "1.48", "1.48"), ("1.44", "1.60", "1.52")] {
        let docker = Docker::start(oldest, newest);
        // Without a watcher and a description, as `flowctl logs` and a restore call it.
        let found = docker.engine.find("bert", EngineName::Docker).await.unwrap();
        assert_eq!(found.name, "bert");
        assert_eq!(docker.requests(), ["GET /version".to_owned(), format!("GET /v{spoken}/containers/bert/json")]);
    }
}

#[tokio::test]
async fn an_engine_without_a_common_version_is_refused_with_what_to_do() {
    for (oldest, newest, said) in [("1.12", "1.40", "update the engine"), ("1.60", "1.70", "update flowcon")] {
        let docker = Docker::start(oldest, newest);
        let error = docker.engine.info().await.unwrap_err();
        assert!(matches!(error, EngineError::Unsupported { .. }) && error.is_engine_lost(), "{error}");
        let text = error.to_string();
        assert!(text.contains("Docker 29.0.1") && text.contains("1.41") && text.contains(said), "{text}");
        let (sender, mut events) = mpsc::channel(16);
        tokio::spawn(watch(docker.engine.clone(), Wanted::labelled("flowcon.enable=true"), sender));
        assert_eq!(events.recv().await, Some(EngineEvent::Lost(text)));
    }
}

#[tokio::test]
async fn an_engine_that_was_updated_is_spoken_to_in_its_new_version() {
    let (old, new) = (Docker::start("1.12", "1.41"), Docker::start("1.44", "1.52"));
    let (first, second) = (old.engine.socket(), new.engine.socket());
    assert_eq!(old.engine.info().await.unwrap().api, ApiVersion(1, 41));
    std::fs::rename(second, first).unwrap();
    assert_eq!(old.engine.info().await.unwrap().api, ApiVersion(1, 52));
    assert!(old.engine.list("flowcon.enable=true").await.is_ok());
}
