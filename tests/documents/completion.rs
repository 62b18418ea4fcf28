//! Tests of completion in a real bash, with the script of `flowctl completion bash`.

use crate::served::{Served, busy_node, idle_node};
use crate::support::daemon::eventually;
use flowcon::api::cluster::ClusterFeed;
use flowcon::api::{self, Access, ApiLimits};
use flowcon::model::cluster::{ClusterJobStatus, ClusterNodeStatus, ClusterStatus, JobState, NodeState, Resources};
use flowcon::model::swarm::{NodeId, ServiceId};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// The completions that bash offers for the last of these words. There must be some: a busy server that does not reply within 0.7 s is
/// asked again.
fn offered(socket: &Path, words: &[&str]) -> Vec<String> {
    offered_by("FLOWCON_SOCKET", socket, words)
}

/// Like [`offered`], with the socket in another environment variable.
fn offered_by(variable: &str, socket: &Path, words: &[&str]) -> Vec<String> {
    let some = || Some(offered_once(variable, socket, words)).filter(|offered| !offered.is_empty());
    eventually(&format!("completions of {words:?}"), Duration::from_secs(10), some)
}

/// The completions that bash offers for the last of these words, if any, with the socket in this environment variable.
fn offered_once(variable: &str, socket: &Path, words: &[&str]) -> Vec<String> {
    let flowctl = Path::new(env!("CARGO_BIN_EXE_flowctl"));
    let path = format!("{}:{}", flowctl.parent().expect("a folder").display(), std::env::var("PATH").expect("a PATH"));
    let script = r#"
        source <(flowctl completion bash)
        [[ $(complete -p flowctl) =~ -F\ ([^ ]+) ]] && function=${BASH_REMATCH[1]}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "$function" flowctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).args(words).env("PATH", path).env(variable, socket);
    let output = bash.output().expect("bash runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn job_names_are_completed() {
    let served = Served::new(busy_node());
    let jobs = offered(&served.socket, &["flowctl", "explain", ""]);
    assert_eq!(jobs.len(), 5, "{jobs:?}");
    assert!(jobs.contains(&"mnist-vae".to_owned()), "{jobs:?}");
    for verb in ["explain", "release", "govern", "pin", "unpin", "history", "disown", "logs"] {
        assert_eq!(offered(&served.socket, &["flowctl", verb, "mnist"]), ["mnist-vae"], "{verb}");
    }
    assert_eq!(offered(&served.socket, &["flowctl", "-o", "json", "release", "lstm", "mnist"]), ["mnist-vae"]);
    assert_eq!(offered(&served.socket, &["flowctl", "expl"]), ["explain"]);
    assert!(offered(&served.socket, &["flowctl", "explain", "--wat"]).contains(&"--watch".to_owned()));
    assert_eq!(offered(&served.socket, &["flowctl", "explain", "-o", "jso"]), ["json", "jsonl"]);
}

#[test]
fn a_job_whose_name_has_shell_characters_is_completed_by_its_id() {
    let mut node = idle_node();
    node.jobs = vec![crate::served::job("4f2a9c01d3e7aa55", "$(touch /tmp/x) a")];
    let served = Served::new(node);
    assert_eq!(offered(&served.socket, &["flowctl", "explain", ""]), ["4f2a9c01d3e7"]);
}

fn cluster_job(name: &str, gang: Option<&str>) -> ClusterJobStatus {
    let service = ServiceId(format!("id-of-{}", name.len()).into());
    ClusterJobStatus { gang: gang.map(Into::into), ..ClusterJobStatus::new(service, name.into(), JobState::Running) }
}

/// Serves a coordinator's API at this socket until the test ends.
fn serve_cluster(socket: &Path) {
    let node = |name: &str| ClusterNodeStatus {
        id: NodeId(format!("id-of-{name}").into()),
        name: name.into(),
        state: NodeState::Ready,
        why: None,
        capacity: Resources::default(),
        used_cores: None,
        workers: 0,
        agent: None,
    };
    let status = ClusterStatus {
        nodes: ["gpu-1", "gpu-2", "cpu-1"].map(node).to_vec(),
        jobs: vec![cluster_job("resnet", None), cluster_job("bert-w1", Some("bert")), cluster_job("$(reboot)", None)],
        ..ClusterStatus::default()
    };
    let (ready, bound) = std::sync::mpsc::channel();
    let path = socket.to_owned();
    std::thread::spawn(move || {
        let (status, moves) = (watch::channel(Arc::new(status)), watch::channel(0));
        let feed = ClusterFeed {
            status: status.1,
            recent: Arc::default(),
            moves: moves.1,
            commands: mpsc::channel(1).0, // no commands are sent here
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("runtime").block_on(async move {
            let socket = api::bind(&path, None, 0o666).expect("bound");
            ready.send(()).expect("the test waits");
            api::serve_cluster(socket, feed, Access::new([], None), ApiLimits::default(), std::future::pending()).await;
        });
    });
    bound.recv().expect("the server binds");
}

#[test]
fn jobs_and_nodes_of_the_cluster_are_completed() {
    let folder = tempfile::tempdir().expect("folder");
    let socket = folder.path().join("flowcoord.sock");
    serve_cluster(&socket);
    let offered = |words: &[&str]| offered_by("FLOWCOORD_SOCKET", &socket, &[&["flowctl", "cluster"], words].concat());
    for verb in ["explain", "move", "suspend", "resume", "node-is-off"] {
        assert_eq!(offered(&[verb, ""]), ["bert", "bert-w1", "id-of-9", "resnet"], "{verb}");
        assert_eq!(offered(&[verb, "res"]), ["resnet"], "{verb}");
    }
    for verb in ["drain", "undrain"] {
        assert_eq!(offered(&[verb, ""]), ["cpu-1", "gpu-1", "gpu-2"], "{verb}");
    }
    assert_eq!(offered(&["move", "resnet", "gpu"]), ["gpu-1", "gpu-2"]);
    assert_eq!(offered(&["mov"]), ["move"]);
    assert!(offered(&["status", ""]).iter().all(|word| word.starts_with('-')));
}

#[test]
fn without_a_daemon_completion_quickly_offers_nothing() {
    // A hanging server: connections are queued and never accepted.
    let folder = tempfile::tempdir().expect("folder");
    let socket = folder.path().join("s.sock");
    let _hangs = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    // A busy machine may take longer.
    let mut took = Vec::new();
    let is_quick = (0..5).any(|attempt| {
        let began = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_flowctl"))
            .args(["__jobs", "--socket", "/nonexistent/flowcond.sock"])
            .output()
            .expect("flowctl runs");
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        let output = Command::new(env!("CARGO_BIN_EXE_flowctl")).args(["__jobs", "--socket"]).arg(&socket).output();
        assert!(output.expect("flowctl runs").stdout.is_empty());
        took.push(began.elapsed());
        took[attempt] < Duration::from_secs(10)
    });
    assert!(is_quick, "both took {took:?}");
    let words = ["flowctl", "explain", ""];
    let offered = offered_once("FLOWCON_SOCKET", Path::new("/nonexistent/flowcond.sock"), &words);
    assert_eq!(offered, [] as [String; 0]);
}
