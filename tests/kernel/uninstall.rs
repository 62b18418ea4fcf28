//! Tests of uninstalling: the scripts of the packages restore original limits first, and delete no journal that may still contain some.
//!
//! They run in a private root, with a fake `flowcond` and with the real one.

use crate::support::daemon::eventually;
use crate::support::program::install;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

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
        let script = format!("#!/bin/sh\necho \"$@\" >>{}\n{flowcond}\n", root.at("arguments").display());
        fs::write(root.at("script"), script).unwrap();
        install(root.at("script"), &program);
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

    /// Adds a file to the unpacked tarball.
    fn unpack(&self, path: &str, text: &str, mode: u32) {
        let file = self.at("unpacked").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A command that runs the script of the unpacked tarball, with a umask that hides new files from other users.
    fn install(&self, argument: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/package/install.sh");
        self.unpack("install.sh", &fs::read_to_string(script).unwrap(), 0o700);
        let mut command = Command::new("sh");
        command.args(["-c", "umask 077; exec sh \"$0\" $1"]).arg(self.at("unpacked/install.sh")).arg(argument);
        command.env("PREFIX", self.0.path());
        command
    }

    /// Uninstalls the unpacked tarball.
    fn uninstall(&self) -> Output {
        self.unpack("usr/bin/flowcond", "", 0o700);
        self.install("--uninstall").output().unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o777
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_files_of_the_tarball_can_be_used_by_every_user_and_an_edited_configuration_is_kept() {
    let root = Root::with("exit 0");
    // As unpacked with the umask 077.
    root.unpack("usr/bin/flowcond", "new", 0o700);
    root.unpack("usr/share/doc/flowcon/README.md", "new", 0o600);
    root.unpack("etc/flowcon/flowcond.toml", "new", 0o600);
    root.unpack("etc/flowcon/flowcoord.toml", "new", 0o600);
    fs::write(root.at("etc/flowcon/flowcond.toml"), "edited").unwrap();
    let done = root.install("").output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(fs::read_to_string(root.at("usr/bin/flowcond")).unwrap(), "new");
    assert_eq!(fs::read_to_string(root.at("etc/flowcon/flowcond.toml")).unwrap(), "edited");
    assert_eq!(root.mode("usr/bin/flowcond"), 0o755);
    for folder in ["usr/share", "usr/share/doc/flowcon", "etc/flowcon/flowcond.d"] {
        assert_eq!(root.mode(folder), 0o755, "{folder}");
    }
    for file in ["usr/share/doc/flowcon/README.md", "etc/flowcon/flowcoord.toml", "etc/flowcon/flowcond.toml.new"] {
        assert_eq!(root.mode(file), 0o644, "{file}");
    }
}

#[test]
fn a_failed_copy_ends_the_installation_and_names_the_file_and_the_next_step() {
    let root = Root::with("exit 0");
    for program in ["flowcond", "flowctl"] {
        root.unpack(&format!("usr/bin/{program}"), "new", 0o755);
    }
    // The first copy fails, and others would succeed.
    let fake = "#!/bin/sh\n[ -e \"$0.failed\" ] && exec /bin/cp \"$@\"\n: >\"$0.failed\"\necho disk full >&2\nexit 1\n";
    root.unpack("fake/cp", fake, 0o755);
    let path = format!("{}:{}", root.at("unpacked/fake").display(), std::env::var("PATH").unwrap());
    let failed = root.install("").env("PATH", path).output().unwrap();
    let text = stderr(&failed);
    assert_eq!(failed.status.code(), Some(1), "{text}");
    assert!(text.contains("/usr/bin/flowc") && text.contains("next: "), "{text}");
    assert!(fs::read_to_string(root.at("usr/bin/flowcond")).unwrap().contains("arguments"), "the old version");
    assert!(!root.has("usr/bin/flowctl") && !root.has("usr/bin/flowctl.part") && !root.has("usr/bin/flowcond.part"));
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
    assert!(fs::read_to_string(root.at("arguments")).unwrap().starts_with("restore --if-governed"));
}

#[test]
fn the_debian_package_is_not_removed_while_original_limits_cannot_be_restored() {
    let root = Root::with("exit 1");
    let refused = root.deb("prerm", "remove");
    assert!(!refused.status.success() && stderr(&refused).contains("flowcond restore"), "{}", stderr(&refused));
    let root = Root::with("exit 0");
    let done = root.deb("prerm", "remove");
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(fs::read_to_string(root.at("arguments")).unwrap().starts_with("restore --if-governed"));
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
    let command = |state: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcond"));
        command.args(["restore", "--set", "engine.address=/nowhere/engine.sock", "--state-dir"]).arg(state);
        command
    };
    let restore = |state: &Path| command(state).output().unwrap();
    let never = folder.path().join("never");
    assert!(!restore(&never).status.success() && !never.exists());
    assert!(command(&never).arg("--if-governed").output().unwrap().status.success() && !never.exists());
    let state = folder.path().join("state");
    drop(flowcon::host::store::Store::open(&state).unwrap());
    // A process that another test is just starting may hold the released lock for a moment.
    let empty = eventually("its lock is free", Duration::from_secs(10), || {
        Some(restore(&state)).filter(|restored| !stderr(restored).contains("in use by"))
    });
    assert!(empty.status.success(), "an empty journal");
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
    let forgotten = command(&state).arg("--forget-missing").output().unwrap();
    let text = String::from_utf8_lossy(&forgotten.stdout);
    assert!(forgotten.status.success() && text.contains("job: forgotten"), "{text}{}", stderr(&forgotten));
    assert!(restore(&state).status.success(), "it is gone");
}
