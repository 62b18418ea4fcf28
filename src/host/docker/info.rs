//! The description of an engine, from its `/version` and `/info`.

use super::api_version::{ApiVersion, EngineVersion};
use super::error::shortened;
use super::{Conversion, EngineName};
use model::EngineMark;
use serde::Deserialize;

/// Description of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// Docker or Podman.
    pub name: EngineName,
    /// Version of the engine.
    pub version: String,
    /// API version that is spoken with it.
    pub api: ApiVersion,
    /// `cgroupfs` or `systemd`.
    pub cgroup_driver: String,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// The OCI runtime with its version, if reported: `runc 1.1.5+ds1`.
    pub runtime: Option<String>,
    /// The default log driver.
    pub log_driver: String,
    /// Whether containers survive a restart of the engine.
    pub live_restore: bool,
    /// Whether it runs as a user other than root.
    pub rootless: bool,
    /// Identity of the engine.
    pub mark: EngineMark,
    /// Conversion of `cpu_shares` to a weight: a guess until [`Conversion::detect`] has seen a value read back.
    pub conversion: Conversion,
}

/// The fields used of `/info`. Docker before 20.10 does not report a cgroup version: it is 1.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Info {
    cgroup_driver: String,
    cgroup_version: String,
    logging_driver: String,
    live_restore_enabled: bool,
    security_options: Option<Vec<String>>,
    #[serde(rename = "ID")]
    id: String,
}

pub(super) fn describe(version: &EngineVersion, api: ApiVersion, info: Info) -> EngineInfo {
    let (name, runtime) = (version.name(), version.runtime());
    let cgroup_version = if info.cgroup_version.trim_start_matches('v') == "2" { 2 } else { 1 };
    // The id reported by Podman changes with each start.
    let id = Some(info.id).filter(|id| name == EngineName::Docker && !id.is_empty());
    EngineInfo {
        mark: EngineMark { id: id.map(|id| shortened(&id)), socket: String::new() },
        name,
        version: shortened(&version.version),
        api,
        cgroup_driver: shortened(&info.cgroup_driver),
        cgroup_version,
        conversion: Conversion::expected(cgroup_version, runtime.as_deref()),
        runtime,
        log_driver: shortened(&info.logging_driver),
        live_restore: info.live_restore_enabled,
        rootless: info.security_options.is_some_and(|options| options.iter().any(|option| option == "name=rootless")),
    }
}
