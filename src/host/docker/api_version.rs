//! Versions of the Docker Engine API: which one is spoken with an engine, and which engines are too old or too new. Pure.
//!
//! Every request names the version. Without it, an engine answers in the newest one that it has, which may differ from what was read of it
//! here, and future engines may not answer at all.

use super::EngineName;
use super::error::shortened;
use serde::Deserialize;
use std::fmt;

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion(pub u32, pub u32);

impl ApiVersion {
    /// The oldest that is spoken, of Docker 20.10.
    pub const OLDEST: ApiVersion = ApiVersion(1, 41);
    /// The newest that is spoken, of Docker 29. Newer engines speak it too.
    pub const NEWEST: ApiVersion = ApiVersion(1, 52);

    fn parse(text: &str) -> Option<ApiVersion> {
        let (major, minor) = text.split_once('.')?;
        Some(ApiVersion(major.parse().ok()?, minor.parse().ok()?))
    }

    /// Returns the path of a request in this version. One that it already names is replaced, but not a version of Podman's own API, which has
    /// three numbers.
    pub(super) fn path(self, path: &str) -> String {
        let named = path.strip_prefix("/v").and_then(|path| path.split_once('/'));
        let numbers = |version: &str| version.split('.').all(|part| part.parse::<u32>().is_ok());
        match named.filter(|(version, _)| numbers(version)) {
            Some((version, _)) if version.split('.').count() == 3 => path.to_owned(),
            Some((_, rest)) => format!("/v{self}/{rest}"),
            None => format!("/v{self}{path}"),
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The fields used of `/version`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EngineVersion {
    pub(super) version: String,
    api_version: String,
    #[serde(rename = "MinAPIVersion")]
    min_api_version: String,
    components: Option<Vec<Component>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Component {
    name: String,
    version: String,
}

/// An engine that speaks no version in common with this program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoCommonVersion {
    pub(super) found: String,
    pub(super) next: &'static str,
}

impl EngineVersion {
    pub(super) fn name(&self) -> EngineName {
        if self.component("podman").is_some() { EngineName::Podman } else { EngineName::Docker }
    }

    /// Returns the OCI runtime with its version. Docker: "runc", "1.1.5+ds1". Podman: "OCI Runtime (crun)", "crun version 1.8.1\ncommit: …".
    pub(super) fn runtime(&self) -> Option<String> {
        ["runc", "crun"].into_iter().find_map(|name| {
            let mut words = self.component(name)?.version.split_whitespace();
            let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
            Some(format!("{name} {}", shortened(version)))
        })
    }

    fn component(&self, word: &str) -> Option<&Component> {
        self.components.iter().flatten().find(|component| component.name.to_lowercase().contains(word))
    }

    /// Returns the version to speak with this engine: the newest that both have.
    pub(super) fn spoken(&self) -> Result<ApiVersion, NoCommonVersion> {
        const OURS: (ApiVersion, ApiVersion) = (ApiVersion::OLDEST, ApiVersion::NEWEST);
        let engine = format!("{:?} {}", self.name(), shortened(&self.version));
        let Some(newest) = ApiVersion::parse(&self.api_version) else {
            return Err(NoCommonVersion {
                found: format!("it reports the API version {:?}", shortened(&self.api_version)),
                next: "check that the socket belongs to Docker or Podman",
            });
        };
        if newest < OURS.0 {
            return Err(NoCommonVersion {
                found: format!("{engine} has API {newest}, and flowcon needs {} or later", OURS.0),
                next: "update the engine to Docker 20.10 or later, or Podman 4 or later",
            });
        }
        match ApiVersion::parse(&self.min_api_version) {
            Some(oldest) if oldest > OURS.1 => Err(NoCommonVersion {
                found: format!(
                    "{engine} accepts API {oldest} and later only, and this flowcon has {} to {}",
                    OURS.0, OURS.1
                ),
                next: "update flowcon",
            }),
            _ => Ok(newest.min(OURS.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(newest: &str, oldest: &str) -> Result<ApiVersion, NoCommonVersion> {
        let version = serde_json::json!({"Version": "7.0", "ApiVersion": newest, "MinAPIVersion": oldest});
        serde_json::from_value::<EngineVersion>(version).unwrap().spoken()
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        assert_eq!(spoken("1.41", "1.12"), Ok(ApiVersion(1, 41)), "Docker 20.10");
        assert_eq!(spoken("1.48", "1.24"), Ok(ApiVersion(1, 48)), "Docker 28");
        assert_eq!(spoken("1.52", "1.44"), Ok(ApiVersion(1, 52)), "Docker 29");
        assert_eq!(spoken("1.60", "1.44"), Ok(ApiVersion::NEWEST));
        assert_eq!(spoken("1.41", ""), Ok(ApiVersion(1, 41)), "an engine may not report its oldest");
    }

    #[test]
    fn an_engine_that_is_too_old_or_too_new_is_rejected_with_the_versions_and_the_next_step() {
        let too_old = spoken("1.40", "1.12").unwrap_err();
        assert_eq!(too_old.found, "Docker 7.0 has API 1.40, and flowcon needs 1.41 or later");
        assert!(too_old.next.contains("20.10"));
        let too_new = spoken("1.99", "1.60").unwrap_err();
        assert_eq!(too_new.found, "Docker 7.0 accepts API 1.60 and later only, and this flowcon has 1.41 to 1.52");
        assert_eq!(too_new.next, "update flowcon");
        assert!(spoken("two", "1.12").unwrap_err().found.contains("\"two\""));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(ApiVersion::parse("1.9") < ApiVersion::parse("1.41"));
        assert!(ApiVersion::parse("2.0") > ApiVersion::parse("1.52"));
    }

    #[test]
    fn a_version_in_a_path_is_replaced() {
        let version = ApiVersion(1, 44);
        assert_eq!(version.path("/info"), "/v1.44/info");
        assert_eq!(version.path("/v1.53/containers/a/json?size=0"), "/v1.44/containers/a/json?size=0");
        assert_eq!(version.path("/volumes/x"), "/v1.44/volumes/x");
        assert_eq!(version.path("/v4.0.0/libpod/containers/a/json"), "/v4.0.0/libpod/containers/a/json");
    }

    #[test]
    fn docker_and_podman_are_told_apart_and_their_runtimes_are_named() {
        let parsed = |json| serde_json::from_value::<EngineVersion>(json).unwrap();
        let docker = parsed(
            serde_json::json!({"Components": [{"Name": "Engine", "Version": "29.0.1"}, {"Name": "runc", "Version": "1.3.3"}]}),
        );
        assert_eq!((docker.name(), docker.runtime().as_deref()), (EngineName::Docker, Some("runc 1.3.3")));
        let crun = "crun version 1.8.1\ncommit: f8a096be";
        let podman = parsed(serde_json::json!({"Components": [
            {"Name": "Podman Engine", "Version": "5.4.2"}, {"Name": "OCI Runtime (crun)", "Version": crun},
        ]}));
        assert_eq!((podman.name(), podman.runtime().as_deref()), (EngineName::Podman, Some("crun 1.8.1")));
        assert_eq!(parsed(serde_json::json!({"Components": null})).runtime(), None);
    }
}
