//! Test of the README: its installation works. Its commands are run by `tests/documents/docs.rs`.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_documented_installation_works() {
    let root = tempfile::tempdir().expect("a folder");
    for folder in ["usr/bin", "etc/systemd/system"] {
        fs::create_dir_all(root.path().join(folder)).expect("existing folders");
    }
    let binaries = Path::new(env!("CARGO_BIN_EXE_flowctl")).parent().expect("a folder of binaries").to_string_lossy();
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("a README");
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
