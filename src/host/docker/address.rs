//! Where the engine listens. Imports: std only.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where engines listen when nobody says otherwise, in the order in which they are tried.
const USUAL_SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/// The Unix socket of an engine on this machine, or the usual places to look for one.
///
/// Only Unix sockets: limits are written and read back through this machine's cgroups, so an engine elsewhere cannot be governed from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineAddress {
    candidates: Vec<PathBuf>,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// Another machine's engine, or one behind TCP.
    #[error(
        "engine address {0:?}: flowcond governs the containers of its own machine through the engine's Unix socket; \
         write unix:///var/run/docker.sock, and run a flowcond on each machine"
    )]
    NotLocal(String),
    /// Not absolute.
    #[error("engine address {0:?}: not an absolute path; write unix:///var/run/docker.sock or leave it out")]
    NotAbsolute(String),
}

impl EngineAddress {
    /// Reads `unix:///path` or `/path`, as in the configuration or `DOCKER_HOST`. An empty text means the usual places.
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

    /// The configured address, else `DOCKER_HOST`, else the usual places.
    pub fn from_config(configured: Option<&str>) -> Result<Self, AddressError> {
        match configured {
            Some(text) => Self::parse(text),
            None => Self::parse(&std::env::var("DOCKER_HOST").unwrap_or_default()),
        }
    }

    /// Whether nobody named an engine, and none of the usual sockets exists.
    pub fn is_no_engine_here() -> bool {
        let named = std::env::var_os("DOCKER_HOST").is_some_and(|name| !name.is_empty());
        !named && !USUAL_SOCKETS.iter().any(|path| Path::new(path).exists())
    }

    /// The first candidate that exists now; the first of all where none does. Looked up anew at each connection.
    pub fn socket(&self) -> &Path {
        self.candidates.iter().find(|path| path.exists()).unwrap_or(&self.candidates[0])
    }
}

impl Default for EngineAddress {
    fn default() -> Self {
        EngineAddress { candidates: USUAL_SOCKETS.iter().map(PathBuf::from).collect() }
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
    fn a_unix_url_and_a_plain_path_name_the_same_socket() {
        let url = EngineAddress::parse("unix:///run/user/7/docker.sock").unwrap();
        assert_eq!(url, EngineAddress::parse(" /run/user/7/docker.sock\n").unwrap());
        assert_eq!(url.socket(), Path::new("/run/user/7/docker.sock"));
    }

    #[test]
    fn tcp_and_ssh_are_refused_with_the_next_step() {
        for text in ["tcp://10.0.0.1:2375", "ssh://root@host", "https://host:2376", "npipe:////./pipe/docker"] {
            let error = EngineAddress::parse(text).unwrap_err();
            assert_eq!(error, AddressError::NotLocal(text.to_owned()));
            assert!(error.to_string().contains("unix:///var/run/docker.sock"), "{error}");
        }
    }

    #[test]
    fn a_relative_path_is_refused() {
        assert!(matches!(EngineAddress::parse("docker.sock"), Err(AddressError::NotAbsolute(_))));
        assert!(matches!(EngineAddress::parse("unix://docker.sock"), Err(AddressError::NotAbsolute(_))));
    }

    #[test]
    fn nothing_said_means_the_usual_places() {
        assert_eq!(EngineAddress::parse("").unwrap(), EngineAddress::default());
    }

    #[test]
    fn the_first_existing_candidate_is_taken_at_the_time_of_asking() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let address = EngineAddress { candidates: vec![first.clone(), second.clone()] };
        assert_eq!(address.socket(), first);
        std::fs::write(&second, "").unwrap();
        assert_eq!(address.socket(), second);
        std::fs::write(&first, "").unwrap();
        assert_eq!(address.socket(), first);
    }
}
