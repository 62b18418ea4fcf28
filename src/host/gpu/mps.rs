//! NVIDIA's Multi-Process Service: whether its control daemon is running and reachable. MPS divides a GPU among the processes that find its
//! pipes, according to their environment at start-up. Nothing is started or stopped here.

use rustix::fs::Access;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Environment variable with the directory of the pipes.
pub const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Environment variable with the fraction of the GPU's processors that a process may use, in percent.
pub const SHARE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

const DEFAULT_PIPES: &str = "/tmp/nvidia-mps";
/// The name `nvidia-cuda-mps-control` as truncated by the kernel.
const CONTROL: &str = "nvidia-cuda-mps";

/// State of the control daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mps {
    /// It is running, and this process may use it.
    Reachable(PathBuf),
    /// It is running, but this user may not use its pipes.
    Closed(PathBuf),
    /// There are pipes, but the daemon has ended.
    Ended(PathBuf),
    /// There are no pipes.
    Missing(PathBuf),
}

impl Mps {
    /// Checks the directory given by the environment of this process.
    pub fn of_environment() -> Mps {
        let pipes = std::env::var_os(PIPES).filter(|path| !path.is_empty());
        Mps::at(&pipes.map_or_else(|| DEFAULT_PIPES.into(), PathBuf::from))
    }

    /// Checks the given directory.
    pub fn at(pipes: &Path) -> Mps {
        let path = pipes.to_owned();
        let control = pipes.join("control");
        if fs::symlink_metadata(&control).is_err() {
            return Mps::Missing(path);
        }
        let pid = fs::read_to_string(pipes.join("nvidia-cuda-mps-control.pid")).ok();
        let pid = pid.and_then(|text| text.trim().parse::<u32>().ok());
        let is_control = |pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.starts_with(CONTROL))
        };
        // If the process id cannot be read, only the pipe is checked.
        if pid.is_some_and(|pid| !is_control(pid)) {
            return Mps::Ended(path);
        }
        let is_ours = rustix::fs::access(&control, Access::READ_OK | Access::WRITE_OK).is_ok();
        if is_ours { Mps::Reachable(path) } else { Mps::Closed(path) }
    }
}

impl fmt::Display for Mps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mps::Reachable(path) => write!(f, "the MPS control daemon runs, its pipes are in {}", path.display()),
            Mps::Closed(path) => {
                write!(f, "the pipes of the MPS control daemon in {} belong to another user", path.display())
            }
            Mps::Ended(path) => write!(f, "the MPS control daemon of the pipes in {} has ended", path.display()),
            Mps::Missing(path) => write!(f, "no MPS control daemon runs: there are no pipes in {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mps;
    use std::fs;

    #[test]
    fn pipes_without_a_daemon_and_missing_pipes_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        assert_eq!(Mps::at(dir.path()), Mps::Missing(path.clone()));
        fs::write(dir.path().join("control"), "").unwrap();
        assert_eq!(Mps::at(dir.path()), Mps::Reachable(path.clone()));
        // The process id belongs to a process with another name.
        fs::write(dir.path().join("nvidia-cuda-mps-control.pid"), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(Mps::at(dir.path()), Mps::Ended(path));
    }
}
