//! The files that `systemd/package/build` makes, from the binaries under test.

#![allow(dead_code)] // each test binary needs only a part of the support code
#![allow(clippy::unwrap_used)] // tests fail by panicking

use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages in a private folder.
pub struct Packages(tempfile::TempDir);

impl Packages {
    /// Packs the binaries that are built into these artefacts: `tarball`, `wheel`, `image`, `deb`.
    pub fn of_built(artefacts: &[&str]) -> Packages {
        let folder = tempfile::Builder::new().prefix("flowcon-packages-").tempdir().unwrap();
        let mut build = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/package/build"));
        done(build.args(["--built", "--out"]).arg(folder.path()).args(artefacts));
        Packages(folder)
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The one file whose name begins and ends like this.
    pub fn file(&self, begin: &str, end: &str) -> PathBuf {
        let files = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        let is_wanted = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(begin) && name.ends_with(end)
        };
        let found: Vec<PathBuf> = files.filter(is_wanted).collect();
        assert_eq!(found.len(), 1, "{begin}*{end}: {found:?}");
        found[0].clone()
    }
}

/// Runs a command that must succeed, and returns its standard output.
pub fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {stdout}{}", String::from_utf8_lossy(&output.stderr));
    stdout
}
