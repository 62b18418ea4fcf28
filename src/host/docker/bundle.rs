//! What a container was started with, from the bundle of its runtime: an update changes only the engine's record and the cgroup.

use model::ContainerId;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::Read;

/// Maximum bytes of a bundle's configuration; the usual one has about 20 KB.
const LONGEST: u64 = 4 << 20;

#[derive(Deserialize)]
struct Config {
    linux: Linux,
}

#[derive(Deserialize)]
struct Linux {
    #[serde(rename = "cgroupsPath", default)]
    cgroups_path: String,
    #[serde(default)]
    resources: Option<Resources>,
}

#[derive(Default, Deserialize)]
struct Resources {
    #[serde(default)]
    cpu: Option<Cpu>,
}

#[derive(Deserialize)]
struct Cpu {
    #[serde(default)]
    shares: Option<i64>,
}

/// Returns the CPU shares with which the current run of the container began, 0 for the default; `None` if its bundle cannot be read.
/// `pid`: its first process.
pub fn shares_at_start(pid: u32, id: &ContainerId) -> Option<i64> {
    // The container's shim, or conmon, works in the directory of the bundle.
    let mut text = String::new();
    let file = File::open(format!("/proc/{}/cwd/config.json", parent(pid)?)).ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    shares_in(&text, id)
}

fn shares_in(config: &str, id: &ContainerId) -> Option<i64> {
    let Config { linux } = serde_json::from_str(config).ok()?;
    let is_its_bundle = linux.cgroups_path.contains(id.as_str());
    is_its_bundle.then(|| linux.resources.and_then(|limits| limits.cpu).and_then(|cpu| cpu.shares).unwrap_or(0))
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_at_the_start_are_those_of_the_containers_own_bundle() {
        let id = ContainerId::new(&"ab".repeat(32));
        let config = |path: &str, cpu: &str| {
            let path = path.replace("ID", id.as_str());
            shares_in(&format!(r#"{{"linux":{{"cgroupsPath":"{path}","resources":{{"cpu":{cpu}}}}}}}"#), &id)
        };
        assert_eq!(config("/docker/ID", r#"{"shares":512}"#), Some(512));
        assert_eq!(config("system.slice:docker:ID", r#"{"shares":null}"#), Some(0));
        assert_eq!(config("/docker/ID", "null"), Some(0));
        assert_eq!(config("/docker/other", r#"{"shares":512}"#), None);
        assert_eq!(shares_in("{}", &id), None);
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}
