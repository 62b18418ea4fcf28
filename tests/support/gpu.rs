//! A stand-in for NVIDIA's library, compiled from `tests/gpu/nvml.c`, and the file that says what it says.

#![allow(dead_code)] // each test binary uses a part of it
#![allow(clippy::unwrap_used)] // a test fails by panicking, in its support too

use super::daemon::Daemon;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the file.
const SCRIPT: &str = "NVML_STAND_IN";

/// The library and its file in a folder of their own.
pub struct StandIn {
    dir: tempfile::TempDir,
}

impl StandIn {
    /// The library of a present driver, or of an old one.
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

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.dir.path().join("libnvidia-ml.so.1")
    }

    /// What it says from now on.
    pub fn says(&self, script: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, script).unwrap();
        fs::rename(new, self.dir.path().join("script")).unwrap();
    }

    /// A daemon that looks at these GPUs.
    pub fn daemon(&self, settings: &[&str]) -> Daemon {
        let library = format!("gpu.library={}", self.library().display());
        let settings: Vec<&str> = settings.iter().copied().chain([library.as_str()]).collect();
        let script = self.dir.path().join("script");
        Daemon::start_with(&[(SCRIPT, &script.to_string_lossy())], &settings)
    }
}
