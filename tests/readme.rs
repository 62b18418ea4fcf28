//! Tests of the README: its commands exist, its simulation runs, and its installation works.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("a README")
}

/// The commands of `program` in code, such as `` `flowctl status` ``.
fn verbs(program: &str) -> BTreeSet<String> {
    let text = readme();
    let mut verbs = BTreeSet::new();
    for code in text.split('`').skip(1).step_by(2) {
        let mut words = code.split_whitespace();
        if words.next() == Some(program)
            && let Some(verb) = words.next().filter(|verb| verb.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        {
            verbs.insert(verb.to_owned());
        }
    }
    verbs
}

fn has_help(binary: &str, verb: &str) -> bool {
    let status = Command::new(binary).args([verb, "--help"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.expect("the binary runs").success()
}

#[test]
fn every_documented_command_exists() {
    let named = verbs("flowctl");
    assert!(named.len() >= 8, "{named:?}");
    for verb in named {
        assert!(has_help(env!("CARGO_BIN_EXE_flowctl"), &verb), "flowctl {verb}");
    }
    for verb in verbs("flowcond").into_iter().filter(|verb| !verb.starts_with("--")) {
        assert!(has_help(env!("CARGO_BIN_EXE_flowcond"), &verb), "flowcond {verb}");
    }
}

#[test]
fn the_documented_simulation_runs() {
    let text = readme();
    let line = text.split('`').find(|code| code.starts_with("flowsim run")).expect("a simulation");
    let arguments: Vec<&str> = line.split_whitespace().skip(1).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_flowsim")).args(&arguments).args(["--seeds", "1"]).output();
    let output = output.expect("flowsim runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_documented_installation_works() {
    let root = tempfile::tempdir().expect("a folder");
    for folder in ["usr/bin", "etc/systemd/system"] {
        fs::create_dir_all(root.path().join(folder)).expect("existing folders");
    }
    let binaries = Path::new(env!("CARGO_BIN_EXE_flowctl")).parent().expect("a folder of binaries").to_string_lossy();
    let text = readme();
    let installs: Vec<&str> = text.lines().filter(|line| line.starts_with("install ")).collect();
    assert!(installs.len() >= 4);
    for line in installs {
        let line = line.split(" && ").next().unwrap_or(line);
        let line = line.replace(" /", &format!(" {}/", root.path().display())).replace("target/release", &binaries);
        let status = Command::new("sh").args(["-ec", &line]).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(status.expect("sh runs").success(), "{line}");
    }
    for file in
        ["usr/bin/flowcond", "usr/bin/flowctl", "etc/flowcon/flowcond.toml", "etc/systemd/system/flowcond.service"]
    {
        assert!(root.path().join(file).exists(), "{file}");
    }
    let check = Command::new(root.path().join("usr/bin/flowcond"))
        .args(["check-config", "--config"])
        .arg(root.path().join("etc/flowcon/flowcond.toml"))
        .status();
    assert!(check.expect("the installed daemon runs").success());
}
