//! A stand-in for NVIDIA's library, compiled from `tests/gpu/nvml.c`, with a script file that defines its results.

#![allow(dead_code)] // each test binary needs only a part of it
#![allow(clippy::unwrap_used)] // tests fail by panicking, also in their support code

use super::daemon::Daemon;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable with the path of the script.
const SCRIPT: &str = "NVML_STAND_IN";

/// The library and its script in a temporary folder.
pub struct StandIn {
    dir: tempfile::TempDir,
}

impl StandIn {
    /// Compiles the library with these compiler options, which select a current or an old driver.
    pub fn of(options: &[&str]) -> StandIn {
        let dir = tempfile::Builder::new().prefix("nvml-").tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/nvml.c");
        let library = dir.path().join("libnvidia-ml.so.1");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC"])
            .args(options)
            .arg("-o")
            .arg(&library)
            .arg(source);
        assert!(compiler.status().expect("a C compiler").success());
        StandIn { dir }
    }

    /// Path of the library.
    pub fn library(&self) -> PathBuf {
        self.dir.path().join("libnvidia-ml.so.1")
    }

    /// Replaces the script.
    pub fn set_script(&self, script: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, script).unwrap();
        fs::rename(new, self.dir.path().join("script")).unwrap();
    }

    /// Starts a daemon that uses the library.
    pub fn daemon(&self, settings: &[&str]) -> Daemon {
        let library = format!("gpu.library={}", self.library().display());
        let settings: Vec<&str> = settings.iter().copied().chain([library.as_str()]).collect();
        let script = self.dir.path().join("script");
        Daemon::start_with(&[(SCRIPT, &script.to_string_lossy())], &settings)
    }
}
