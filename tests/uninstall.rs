//! Tests of uninstalling: the scripts of the packages restore original limits first, and delete no journal that may still contain some.
//!
//! They run in a private root, with a fake `flowcond` and with the real one.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An installation in a temporary root.
struct Root(tempfile::TempDir);

impl Root {
    /// Creates an installation with a journal, and a fake `flowcond` that records its arguments and runs this script.
    fn with(flowcond: &str) -> Root {
        let root = Root(tempfile::tempdir().unwrap());
        let program = root.at("usr/bin/flowcond");
        for folder in ["usr/bin", "var/lib/flowcon", "etc/flowcon"] {
            fs::create_dir_all(root.at(folder)).unwrap();
        }
        fs::write(root.at("var/lib/flowcon/flowcon.db"), "").unwrap();
        fs::write(&program, format!("#!/bin/sh\necho \"$@\" >>{}\n{flowcond}\n", root.at("arguments").display()))
            .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        root
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn has(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    /// Runs a script of the Debian package.
    fn deb(&self, script: &str, argument: &str) -> Output {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/package/deb").join(script);
        Command::new("sh").arg(path).arg(argument).env("DPKG_ROOT", self.0.path()).output().unwrap()
    }

    /// Runs the uninstall script of the unpacked tarball.
    fn uninstall(&self) -> Output {
        let unpacked = self.at("unpacked");
        fs::create_dir_all(unpacked.join("usr/bin")).unwrap();
        fs::write(unpacked.join("usr/bin/flowcond"), "").unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/package/install.sh");
        fs::copy(script, unpacked.join("install.sh")).unwrap();
        let mut command = Command::new("sh");
        command.arg(unpacked.join("install.sh")).arg("--uninstall").env("PREFIX", self.0.path());
        command.output().unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_tarball_is_not_uninstalled_while_original_limits_cannot_be_restored() {
    let root = Root::with("echo job: no engine >&2; exit 1");
    let refused = root.uninstall();
    assert!(!refused.status.success() && stderr(&refused).contains("flowcond restore"), "{}", stderr(&refused));
    assert!(root.has("usr/bin/flowcond") && root.has("var/lib/flowcon/flowcon.db"));
    let root = Root::with("exit 0");
    let done = root.uninstall();
    assert!(done.status.success() && !root.has("usr/bin/flowcond"), "{}", stderr(&done));
    assert!(fs::read_to_string(root.at("arguments")).unwrap().starts_with("restore"));
}

#[test]
fn the_debian_package_is_not_removed_while_original_limits_cannot_be_restored() {
    let root = Root::with("exit 1");
    let refused = root.deb("prerm", "remove");
    assert!(!refused.status.success() && stderr(&refused).contains("flowcond restore"), "{}", stderr(&refused));
    let root = Root::with("exit 0");
    let done = root.deb("prerm", "remove");
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(fs::read_to_string(root.at("arguments")).unwrap().starts_with("restore"));
    assert!(root.deb("prerm", "upgrade").status.success());
}

#[test]
fn a_purge_deletes_the_state_only_if_everything_was_restored() {
    let root = Root::with("exit 0");
    let kept = root.deb("postrm", "purge");
    assert!(root.has("var/lib/flowcon/flowcon.db") && stderr(&kept).contains("flowcond restore"), "{}", stderr(&kept));
    assert!(root.deb("prerm", "remove").status.success());
    // After a reinstallation, limits may have been changed again.
    let _ = root.deb("postinst", "triggered");
    root.deb("postrm", "purge");
    assert!(root.has("var/lib/flowcon/flowcon.db"));
    assert!(root.deb("prerm", "remove").status.success());
    let done = root.deb("postrm", "purge");
    assert!(done.status.success() && !root.has("var/lib/flowcon") && !root.has("etc/flowcon"), "{}", stderr(&done));
}

#[test]
fn an_incomplete_restore_fails_and_a_restore_without_a_journal_creates_none() {
    let folder = tempfile::tempdir().unwrap();
    let restore = |state: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.args(["restore", "--set", "engine.address=/nowhere/engine.sock", "--state-dir"]).arg(state);
        command.output().unwrap()
    };
    let never = folder.path().join("never");
    assert!(restore(&never).status.success() && !never.exists());
    let state = folder.path().join("state");
    drop(flowcon::host::store::Store::open(&state).unwrap());
    assert!(restore(&state).status.success(), "an empty journal");
    let journal = rusqlite::Connection::open(state.join("flowcon.db")).unwrap();
    let id = "ab".repeat(32);
    let columns = "id, runtime, name, cgroup, boot_id, started_unix_ms, remembered_unix_ms, cpu_weight";
    let row = format!(
        "INSERT INTO original ({columns}) VALUES ('{id}', 'docker', 'job', '/x', 'an earlier boot', 0, 0, 100)"
    );
    journal.execute(&row, []).unwrap();
    journal.execute("INSERT INTO written VALUES (?1, 'cpu-weight', 40)", [&id]).unwrap();
    drop(journal);
    let failed = restore(&state);
    assert!(!failed.status.success() && stderr(&failed).contains("job: "), "{}", stderr(&failed));
}
