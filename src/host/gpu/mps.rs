//! NVIDIA's Multi-Process Service: whether its control daemon runs and can be reached. It divides a GPU among the processes that find its
//! pipes, each by what its environment asked for when it began. Nothing of it is started or stopped here.

use rustix::fs::Access;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where processes find the pipes, unless this variable says otherwise.
pub const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// The part of the GPU's processors that a process may use, in percent.
pub const SHARE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

const USUAL_PIPES: &str = "/tmp/nvidia-mps";
/// As the kernel cuts the name `nvidia-cuda-mps-control`.
const CONTROL: &str = "nvidia-cuda-mps";

/// What there is of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mps {
    /// Its control daemon runs, and whoever asks here may use it.
    Reachable(PathBuf),
    /// It runs, and its pipes are not this user's to use.
    Closed(PathBuf),
    /// There are pipes, and nobody who serves them.
    Ended(PathBuf),
    /// There are no pipes.
    Missing(PathBuf),
}

impl Mps {
    /// Looks where a process of this environment would.
    pub fn of_environment() -> Mps {
        let pipes = std::env::var_os(PIPES).filter(|path| !path.is_empty());
        Mps::at(&pipes.map_or_else(|| USUAL_PIPES.into(), PathBuf::from))
    }

    /// Looks in a directory.
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
        // Where its number cannot be read, or belongs to another container, the pipe must do.
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
                write!(f, "the pipes of the MPS control daemon in {} are another user's", path.display())
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
    fn pipes_without_a_daemon_are_told_from_no_pipes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        assert_eq!(Mps::at(dir.path()), Mps::Missing(path.clone()));
        fs::write(dir.path().join("control"), "").unwrap();
        assert_eq!(Mps::at(dir.path()), Mps::Reachable(path.clone()));
        // Its number belongs to a process of another name.
        fs::write(dir.path().join("nvidia-cuda-mps-control.pid"), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(Mps::at(dir.path()), Mps::Ended(path));
    }
}
