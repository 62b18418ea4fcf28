//! Completion in a real bash: the script that `flowctl completion bash` prints, asked as bash asks it.

mod served;

use served::{Served, busy_node, idle_node};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What bash would offer for the last of these words.
fn offered(socket: &Path, words: &[&str]) -> Vec<String> {
    let flowctl = Path::new(env!("CARGO_BIN_EXE_flowctl"));
    let path = format!("{}:{}", flowctl.parent().expect("a folder").display(), std::env::var("PATH").expect("a PATH"));
    let script = r#"
        source <(flowctl completion bash)
        [[ $(complete -p flowctl) =~ -F\ ([^ ]+) ]] && function=${BASH_REMATCH[1]}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "$function" flowctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).args(words).env("PATH", path).env("FLOWCON_SOCKET", socket);
    let output = bash.output().expect("bash runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn a_job_is_completed_where_a_job_is_expected() {
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
fn a_name_that_means_something_to_a_shell_is_offered_as_its_id() {
    let mut node = idle_node();
    node.jobs = vec![served::job("4f2a9c01d3e7aa55", "$(touch /tmp/x) a")];
    let served = Served::new(node);
    assert_eq!(offered(&served.socket, &["flowctl", "explain", ""]), ["4f2a9c01d3e7"]);
}

#[test]
fn without_a_daemon_nothing_is_offered_within_a_second() {
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_flowctl"))
        .args(["__jobs", "--socket", "/nonexistent/flowcond.sock"])
        .output()
        .expect("flowctl runs");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    // A socket whose owner hangs: connections are queued and never answered.
    let folder = tempfile::tempdir().expect("folder");
    let socket = folder.path().join("s.sock");
    let _hangs = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let output = Command::new(env!("CARGO_BIN_EXE_flowctl")).args(["__jobs", "--socket"]).arg(&socket).output();
    assert!(output.expect("flowctl runs").stdout.is_empty());
    assert!(began.elapsed() < Duration::from_secs(10), "both took {:?}", began.elapsed());
    assert_eq!(offered(Path::new("/nonexistent/flowcond.sock"), &["flowctl", "explain", ""]), [] as [String; 0]);
}
