//! The address of the engine.

use std::fmt;
use std::path::{Path, PathBuf};

/// Standard sockets of engines, in the order in which they are tried.
const STANDARD_SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/// The Unix socket of an engine on this machine, or the standard sockets to try.
///
/// Only Unix sockets are supported: limits are written and read back through the cgroups of this machine, so a remote engine cannot be
/// governed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineAddress {
    candidates: Vec<PathBuf>,
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// The engine is on another machine, or reachable only over TCP.
    #[error(
        "engine address {0:?}: flowcond can only govern containers on its own machine, through a Unix socket; \
         use unix:///var/run/docker.sock, and run flowcond on each machine"
    )]
    NotLocal(String),
    /// The path is not absolute.
    #[error("engine address {0:?}: not an absolute path; use unix:///var/run/docker.sock, or omit the address")]
    NotAbsolute(String),
}

impl EngineAddress {
    /// Parses `unix:///path` or `/path`, as in the configuration or `DOCKER_HOST`. An empty text selects the standard sockets.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        let path = match text.split_once("://") {
            Some(("unix", path)) => path,
            Some(_) => return Err(AddressError::NotLocal(text.to_owned())),
            None => text,
        };
        if !path.starts_with('/') {
            return Err(AddressError::NotAbsolute(text.to_owned()));
        }
        Ok(EngineAddress { candidates: vec![PathBuf::from(path)] })
    }

    /// Returns the configured address, else `DOCKER_HOST`, else the standard sockets.
    pub fn from_config(configured: Option<&str>) -> Result<Self, AddressError> {
        match configured {
            Some(text) => Self::parse(text),
            None => Self::parse(&std::env::var("DOCKER_HOST").unwrap_or_default()),
        }
    }

    /// Whether `DOCKER_HOST` is not set and none of the standard sockets exists.
    pub fn no_local_engine() -> bool {
        let named = std::env::var_os("DOCKER_HOST").is_some_and(|name| !name.is_empty());
        !named && !STANDARD_SOCKETS.iter().any(|path| Path::new(path).exists())
    }

    /// Returns the first candidate that exists now, or the first one if none does. Evaluated anew by each call.
    pub fn socket(&self) -> &Path {
        self.candidates.iter().find(|path| path.exists()).unwrap_or(&self.candidates[0])
    }

    /// Returns the address of that socket alone, for several calls to the same engine.
    pub fn resolved(&self) -> EngineAddress {
        EngineAddress { candidates: vec![self.socket().to_owned()] }
    }

    /// Returns an address with these candidates, for tests.
    #[cfg(test)]
    pub(super) fn of_sockets(candidates: Vec<PathBuf>) -> EngineAddress {
        EngineAddress { candidates }
    }
}

impl Default for EngineAddress {
    fn default() -> Self {
        EngineAddress { candidates: STANDARD_SOCKETS.iter().map(PathBuf::from).collect() }
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.socket().display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_url_and_a_path_refer_to_the_same_socket() {
        let url = EngineAddress::parse("unix:///run/user/7/docker.sock").unwrap();
        assert_eq!(url, EngineAddress::parse(" /run/user/7/docker.sock\n").unwrap());
        assert_eq!(url.socket(), Path::new("/run/user/7/docker.sock"));
    }

    #[test]
    fn tcp_and_ssh_are_rejected_with_the_next_step() {
        for text in ["tcp://10.0.0.1:2375", "ssh://root@host", "https://host:2376", "npipe:////./pipe/docker"] {
            let error = EngineAddress::parse(text).unwrap_err();
            assert_eq!(error, AddressError::NotLocal(text.to_owned()));
            assert!(error.to_string().contains("unix:///var/run/docker.sock"), "{error}");
        }
    }

    #[test]
    fn a_relative_path_is_rejected() {
        assert!(matches!(EngineAddress::parse("docker.sock"), Err(AddressError::NotAbsolute(_))));
        assert!(matches!(EngineAddress::parse("unix://docker.sock"), Err(AddressError::NotAbsolute(_))));
    }

    #[test]
    fn an_empty_address_means_the_standard_sockets() {
        assert_eq!(EngineAddress::parse("").unwrap(), EngineAddress::default());
    }

    #[test]
    fn the_first_candidate_that_exists_at_the_time_of_the_call_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let address = EngineAddress::of_sockets(vec![first.clone(), second.clone()]);
        assert_eq!(address.socket(), first);
        std::fs::write(&second, "").unwrap();
        assert_eq!(address.socket(), second);
        let resolved = address.resolved();
        std::fs::write(&first, "").unwrap();
        assert_eq!(address.socket(), first);
        assert_eq!(resolved.socket(), second);
    }
}
