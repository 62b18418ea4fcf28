//! Tests of the README: its first commands are those of cargo. Its commands are run by `tests/documents/docs.rs`.

use serde_json::Value;
use std::process::Command;

/// `cargo run --release -- demo` runs `flowctl`, and `cargo run --release --bin flowcond` the daemon. That they work is tested with the
/// debug programs.
#[test]
fn cargo_runs_flowctl_by_default_and_flowcond_by_its_name() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let package = metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == "flowcon").unwrap();
    assert_eq!(package["default_run"], "flowctl");
    let mut targets = package["targets"].as_array().unwrap().iter();
    assert!(targets.any(|target| target["name"] == "flowcond" && target["kind"][0] == "bin"));
}
