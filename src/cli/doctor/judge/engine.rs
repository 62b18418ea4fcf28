//! Verdicts on the engine: version, cgroup driver, log driver, GPUs and restart policies. Pure.

use super::super::Check;
use cri::{CriError, RuntimeVersion};
use docker::{ApiVersion, EngineError, EngineInfo, EngineName, LostPolicy, Mislabelled};
use term::text;

const ENGINE: &str = "engine";

pub(in crate::doctor) fn bad_address(error: &str) -> Check {
    Check::warn(ENGINE, error, "unset DOCKER_HOST, or set it to unix:///var/run/docker.sock")
}

fn none_here() -> Check {
    Check::ok(ENGINE, "none on this machine; `flowctl run -- COMMAND` governs commands")
}

/// Why an engine cannot be examined.
#[derive(Clone, Copy)]
pub(in crate::doctor) enum Obstacle {
    /// Its socket exists, but this user may not open it.
    Closed,
    /// None of the standard sockets exists.
    NoSocket,
    /// There is no valid response.
    NoResponse,
}

/// Judges an engine that cannot be examined; `reported` is its state according to the daemon.
pub(in crate::doctor) fn no_engine(error: &EngineError, obstacle: Obstacle, reported: Option<&str>) -> Check {
    if let EngineError::Unsupported { found, next, .. } = error {
        return Check::fail(ENGINE, found.clone(), *next);
    }
    match (obstacle, reported) {
        (Obstacle::Closed, _) => Check::warn(
            ENGINE,
            "this user may not access the engine; the daemon runs as root and may",
            "`sudo flowctl doctor` checks it",
        ),
        // Such as an engine that only the DOCKER_HOST of the daemon names.
        (_, Some(state)) if state.contains(": connected") => {
            let why = match obstacle {
                Obstacle::NoSocket => "only the daemon knows its socket (DOCKER_HOST)",
                Obstacle::Closed | Obstacle::NoResponse => "it did not answer this command",
            };
            Check::ok(ENGINE, format!("{state}, as the daemon reports; not examined here: {why}"))
        }
        (Obstacle::NoSocket, state) if state.is_none_or(|state| !state.contains("not reachable")) => none_here(),
        _ => Check::warn(
            ENGINE,
            error.to_string(),
            "`sudo systemctl start docker`; without an engine `flowctl run -- COMMAND` governs commands",
        ),
    }
}

pub(in crate::doctor) fn engine(info: &EngineInfo) -> Check {
    let runtime = info.runtime.as_ref().map_or_else(String::new, |runtime| format!(", {runtime}"));
    let found = format!(
        "{:?} {}, API {} ({} or later is needed){runtime}",
        info.name,
        info.version,
        info.api,
        ApiVersion::OLDEST
    );
    if info.live_restore || info.name != EngineName::Docker {
        return Check::ok(ENGINE, found);
    }
    Check::ok(ENGINE, format!("{found}; live-restore is off: an engine restart stops containers"))
}

/// Judges the container runtime whose pods and containers are governed.
pub(in crate::doctor) fn pods(runtime: &Result<RuntimeVersion, CriError>) -> Check {
    match runtime {
        Ok(runtime @ RuntimeVersion { name, version, has_pods }) => {
            let found = match (has_pods, runtime.has_containers()) {
                (true, true) => "CRI v1: pods, and containers without a pod, are governed",
                (true, false) => "CRI v1: pods are governed",
                _ => "without its CRI plugin: containers are governed, and there are no pods",
            };
            Check::ok(ENGINE, format!("{name} {version}, {found}"))
        }
        Err(CriError::Unsupported { message, .. }) => Check::fail(
            ENGINE,
            format!("the container runtime has no CRI v1: {message}"),
            "update it to containerd 1.6 or later, or CRI-O",
        ),
        Err(error) => {
            Check::warn(ENGINE, error.to_string(), "`sudo flowctl doctor`, as only root may ask a container runtime")
        }
    }
}

pub(in crate::doctor) fn driver(info: &EngineInfo) -> Check {
    const NAME: &str = "driver";
    let found = format!("the engine's cgroup driver is {} on version {}", info.cgroup_driver, info.cgroup_version);
    match info.cgroup_driver.as_str() {
        "systemd" if info.rootless => Check::ok(
            NAME,
            format!(
                "{found}: a rootless engine, for which the user's systemd sets limits and reverts those that the engine cannot set; \
                 the memory of its jobs is not protected"
            ),
        ),
        "cgroupfs" | "systemd" => Check::ok(NAME, found),
        "none" => Check::fail(
            NAME,
            format!("{found}: a rootless engine without delegation, whose limits cannot be set"),
            "delegate controllers: `systemctl edit user@.service`, Delegate=cpu cpuset io memory pids; or run the engine as root",
        ),
        _ => Check::warn(NAME, found, "set native.cgroupdriver=systemd or cgroupfs in the engine's configuration"),
    }
}

pub(in crate::doctor) fn log_driver(info: &EngineInfo) -> Check {
    const NAME: &str = "logs";
    match info.log_driver.as_str() {
        "json-file" if info.name == EngineName::Docker => {
            Check::ok(NAME, "driver json-file: log files are followed directly")
        }
        "json-file" | "k8s-file" | "local" | "journald" => {
            Check::ok(NAME, format!("driver {}: read through the engine's logs API", info.log_driver))
        }
        "none" | "passthrough" => Check::fail(
            NAME,
            format!("driver {}: the output of jobs is not stored, so their progress is unknown", info.log_driver),
            "start jobs with `--log-driver json-file`, or name a file with `--label flowcon.log=/path/in/container`",
        ),
        other => Check::warn(
            NAME,
            format!("driver {other}: readable only if the engine keeps a local copy (dual logging)"),
            "start jobs with `--log-driver json-file` if `docker logs JOB` shows nothing",
        ),
    }
}

pub(in crate::doctor) fn gpus(nvidia: bool, hooked: &Result<Vec<String>, EngineError>, info: &EngineInfo) -> Check {
    const NAME: &str = "gpu";
    const FIX: &str = "use CDI devices: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`, then `--device nvidia.com/gpu=all` instead of `--gpus all`";
    match hooked {
        Err(error) => not_inspected(NAME, error),
        Ok(names) if !names.is_empty() => Check::warn(
            NAME,
            format!(
                "{} with GPUs through NVIDIA's legacy hook ({}): an engine update or a systemd reload can take the GPUs \
                 away; the daemon writes their cgroup instead",
                text::count(names.len(), "job"),
                names.join(", ")
            ),
            FIX,
        ),
        Ok(_) if nvidia && info.cgroup_driver == "systemd" => Check::ok(
            NAME,
            "NVIDIA GPUs; no job uses the legacy hook, with which `systemctl daemon-reload` takes GPUs away: prefer CDI",
        ),
        Ok(_) if nvidia => Check::ok(NAME, "NVIDIA GPUs; no job uses the legacy hook"),
        Ok(_) => Check::ok(NAME, "no NVIDIA GPU"),
    }
}

fn not_inspected(name: &'static str, error: &EngineError) -> Check {
    let next = "run `sudo flowctl doctor` when the engine answers";
    Check::warn(name, format!("cannot inspect the containers: {error}"), next)
}

/// Judges Podman's containers without the restart policy that they had: Podman resets it with an update that does not name it, as an earlier
/// flowcon sent. An owner may have removed it as well.
pub(in crate::doctor) fn restarts(lost: &Result<Vec<LostPolicy>, EngineError>) -> Check {
    const NAME: &str = "restarts";
    let lost = match lost {
        Err(error) => return not_inspected(NAME, error),
        Ok(lost) if lost.is_empty() => return Check::ok(NAME, "no job is known to have lost its restart policy"),
        Ok(lost) => lost,
    };
    let named = |job: &LostPolicy| match &job.policy {
        Some(policy) => format!("{} ({policy})", job.name),
        None => format!("{} (unknown, but it was restarted before)", job.name),
    };
    let command = |job: &LostPolicy| {
        format!("`podman update --restart={} {}`", job.policy.as_deref().unwrap_or("POLICY"), job.name)
    };
    let list = |text: &dyn Fn(&LostPolicy) -> String| lost.iter().map(text).collect::<Vec<String>>();
    Check::warn(
        NAME,
        format!(
            "{} without the restart policy that it was started with: {}; unless its owner removed it, Podman did when an \
             earlier flowcon changed a limit, and the job stays down if it fails",
            text::count(lost.len(), "job"),
            list(&named).join(", ")
        ),
        list(&command).join(", "),
    )
}

/// Containers that their labels do not have governed, if there are any.
pub(in crate::doctor) fn labels(found: &Result<Vec<Mislabelled>, EngineError>) -> Option<Check> {
    const NAME: &str = "labels";
    let found = match found {
        Err(error) => return Some(not_inspected(NAME, error)),
        Ok(found) if found.is_empty() => return None,
        Ok(found) => found,
    };
    let named: Vec<String> =
        found.iter().map(|container| format!("{} ({})", container.name, container.labels)).collect();
    let names: Vec<&str> = found.iter().map(|container| container.name.as_str()).collect();
    Some(Check::warn(
        NAME,
        format!("not governed, without the label flowcon.enable=true: {}", named.join(", ")),
        format!("`sudo flowctl adopt {}`; from the next start on, --label flowcon.enable=true", names.join(" ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict;
    use super::*;
    use docker::Conversion;
    use std::time::Duration;

    fn docker(version: &str, driver: &str, log_driver: &str) -> EngineInfo {
        EngineInfo {
            mark: Default::default(),
            name: EngineName::Docker,
            version: version.to_owned(),
            api: ApiVersion(1, 44),
            cgroup_driver: driver.to_owned(),
            cgroup_version: 2,
            runtime: None,
            log_driver: log_driver.to_owned(),
            live_restore: true,
            rootless: false,
            conversion: Conversion::expected(2, None),
        }
    }

    #[test]
    fn an_engine_that_only_the_daemon_reaches_is_no_problem() {
        let error = EngineError::Timeout { operation: "info".to_owned(), limit: Duration::from_secs(10) };
        let verdict = |obstacle, reported| no_engine(&error, obstacle, reported).verdict;
        let connected = no_engine(&error, Obstacle::NoResponse, Some("docker: connected (28.2.2)"));
        assert_eq!(connected.verdict, Verdict::Ok);
        assert!(connected.found.contains("28.2.2"), "{connected:?}");
        let elsewhere = no_engine(&error, Obstacle::NoSocket, Some("docker: connected (28.2.2)"));
        for check in [connected, elsewhere] {
            assert!(!check.found.contains("this user"), "it may be root: {check:?}");
        }
        assert_eq!(verdict(Obstacle::NoSocket, Some("engine: none found")), Verdict::Ok);
        assert_eq!(verdict(Obstacle::NoSocket, None), Verdict::Ok);
        assert_eq!(verdict(Obstacle::NoSocket, Some("engine: not reachable")), Verdict::Warn);
        assert_eq!(verdict(Obstacle::NoResponse, None), Verdict::Warn);
        assert_eq!(verdict(Obstacle::Closed, Some("docker: connected (28.2.2)")), Verdict::Warn);
    }

    #[test]
    fn an_engine_that_is_too_old_fails_with_the_versions_and_the_next_step() {
        let found = "Docker 19.03.15 has API 1.40, and flowcon needs 1.41 or later".to_owned();
        let error = EngineError::Unsupported { operation: "info".to_owned(), found, next: "update the engine" };
        let check = no_engine(&error, Obstacle::NoResponse, Some("engine: not reachable"));
        assert_eq!((check.verdict, check.fix.as_deref()), (Verdict::Fail, Some("update the engine")));
        assert!(check.found.starts_with("Docker 19.03.15 has API 1.40"), "{check:?}");
        let new = engine(&docker("29.0.1", "systemd", "local"));
        assert_eq!(new.verdict, Verdict::Ok);
        assert!(new.found.contains("Docker 29.0.1, API 1.44 (1.41 or later is needed)"), "{new:?}");
    }

    #[test]
    fn a_container_runtime_that_is_too_old_fails_with_its_version_and_the_next_step() {
        let message = "it is containerd 1.5.18".to_owned();
        let check = pods(&Err(CriError::Unsupported { socket: "/run/containerd/containerd.sock".into(), message }));
        assert_eq!(check.verdict, Verdict::Fail);
        assert!(check.found.ends_with("no CRI v1: it is containerd 1.5.18"), "{check:?}");
        assert!(check.fix.is_some_and(|fix| fix.contains("containerd 1.6")));
    }

    #[test]
    fn a_log_driver_that_stores_nothing_fails_and_an_unknown_one_warns() {
        assert_eq!(log_driver(&docker("28.0", "systemd", "none")).verdict, Verdict::Fail);
        assert_eq!(log_driver(&docker("28.0", "systemd", "fluentd")).verdict, Verdict::Warn);
        assert_eq!(log_driver(&docker("28.0", "systemd", "journald")).verdict, Verdict::Ok);
        let podman = EngineInfo { name: EngineName::Podman, ..docker("5.4", "systemd", "json-file") };
        assert!(log_driver(&podman).found.contains("API"), "it is the same as k8s-file there");
    }

    #[test]
    fn a_rootless_engine_protects_no_memory() {
        let root = docker("28.0", "systemd", "local");
        let found = |rootless: bool| driver(&EngineInfo { rootless, ..root.clone() }).found;
        assert!(found(true).ends_with("memory of its jobs is not protected") && !found(false).contains("memory"));
    }

    #[test]
    fn a_container_with_a_wrong_label_is_named_with_the_command_that_governs_it() {
        let container = Mislabelled {
            id: model::ContainerId::new("449e1d56655b"),
            name: "bert".to_owned(),
            labels: "flowcon.enabled=true".to_owned(),
        };
        let check = labels(&Ok(vec![container])).expect("a warning");
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.found.contains("bert (flowcon.enabled=true)"), "{check:?}");
        assert!(check.fix.is_some_and(|fix| fix.contains("flowctl adopt bert`")));
        assert_eq!(labels(&Ok(Vec::new())), None);
    }

    #[test]
    fn a_job_that_uses_the_legacy_hook_is_named() {
        let check = gpus(true, &Ok(vec!["bert".to_owned()]), &docker("28.0", "systemd", "json-file"));
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.found.contains("bert") && check.fix.is_some_and(|fix| fix.contains("cdi")));
    }
    #[test]
    fn a_lost_restart_policy_is_named_with_the_command_that_sets_it_again() {
        let lost =
            |name: &str, policy: Option<&str>| LostPolicy { name: name.to_owned(), policy: policy.map(str::to_owned) };
        let check = restarts(&Ok(vec![lost("bert", Some("on-failure:5")), lost("gpt", None)]));
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.found.contains("bert (on-failure:5), gpt (unknown"), "{check:?}");
        let fix = check.fix.unwrap();
        assert_eq!(fix, "`podman update --restart=on-failure:5 bert`, `podman update --restart=POLICY gpt`");
        assert_eq!(restarts(&Ok(Vec::new())).verdict, Verdict::Ok);
    }
}
