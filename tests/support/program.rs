//! Programs for a test, at another place.

#![allow(dead_code)] // each test binary needs only a part of the support code
#![allow(clippy::unwrap_used)] // tests fail by panicking

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies `flowctl` to this folder and lets every user run it there.
pub fn public_flowctl(folder: &Path) -> PathBuf {
    let copy = folder.join("flowctl");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    install(env!("CARGO_BIN_EXE_flowctl"), &copy);
    copy
}

/// Copies a program to a path at which every user can run it at once. The copy is written by another process: one that a test starts at the
/// same time could inherit an open file of this one, and what is open for writing cannot be run.
pub fn install(program: impl AsRef<Path>, at: &Path) {
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(program.as_ref()).arg(at);
    assert!(install.status().unwrap().success(), "{}", at.display());
}
