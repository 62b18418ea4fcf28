//! Whether the daemon sees the GPUs of this machine.

use super::super::Check;
use crate::api::wire::Status;
use crate::host::gpu::NoGpu;
use crate::host::gpu::mps::Mps;
use crate::term::text;

const NAME: &str = "gpu driver";

/// What this machine has of NVIDIA's, as far as was looked.
pub(in crate::cli::doctor) struct Driver {
    /// The kernel has the driver.
    pub(in crate::cli::doctor) is_loaded: bool,
    /// Whether the library works for `flowctl`; `None` = it was not tried, or did not answer in time.
    pub(in crate::cli::doctor) library: Option<Result<(), NoGpu>>,
    /// The daemon looks at GPUs.
    pub(in crate::cli::doctor) is_wanted: bool,
}

/// Nothing where there is neither a driver nor a GPU.
pub(in crate::cli::doctor) fn driver_of_gpus(daemon: Option<&Status>, driver: &Driver) -> Option<Check> {
    let seen = daemon.map_or(&[][..], |status| &status.node.gpus);
    if !seen.is_empty() {
        let mut names: Vec<&str> = seen.iter().map(|gpu| gpu.name.as_str()).collect();
        names.dedup();
        let found = format!("the daemon sees {}: {}", text::count(seen.len(), "GPU"), names.join(", "));
        return Some(Check::ok(NAME, found));
    }
    if !driver.is_loaded {
        return None;
    }
    if !driver.is_wanted {
        return Some(Check::ok(NAME, "loaded; the daemon does not look at GPUs: gpu.library = \"off\""));
    }
    Some(match &driver.library {
        Some(Err(error @ NoGpu::NoLibrary { .. })) => Check::warn(
            NAME,
            format!("loaded, but {error}: jobs' use of GPUs is not seen"),
            "install the driver's library (Debian: libnvidia-ml1, Ubuntu: libnvidia-compute-VERSION), then `sudo systemctl restart flowcond`",
        ),
        Some(Err(error)) => {
            Check::warn(NAME, format!("{error}: jobs' use of GPUs is not seen"), "`nvidia-smi` says more")
        }
        Some(Ok(())) if daemon.is_some() => Check::warn(
            NAME,
            "its library works here and the daemon sees no GPU: the unit keeps devices from it",
            "give it the GPUs by a drop-in: `flowctl help operations`, UNIT",
        ),
        Some(Ok(())) => Check::ok(NAME, "loaded, and its library works"),
        None => Check::warn(
            NAME,
            "loaded, and no answer from it: jobs' use of GPUs is not seen",
            "look at `dmesg`, try `nvidia-smi`",
        ),
    })
}

/// Whether what `gpu.control = "mps"` counts on is there.
pub(in crate::cli::doctor) fn mps(found: &Mps) -> Check {
    const NAME: &str = "gpu sharing";
    match found {
        Mps::Reachable(_) => Check::ok(NAME, found.to_string()),
        Mps::Closed(_) => Check::warn(
            NAME,
            format!("{found}: `flowctl run --gpu-share` of this user finds none"),
            "run the control daemon as the user of the jobs: on most GPUs MPS serves one user at a time",
        ),
        Mps::Ended(_) | Mps::Missing(_) => Check::warn(
            NAME,
            format!("gpu.control = \"mps\", but {found}: jobs share their GPU by turns, each with all of it"),
            "start it as the user of the jobs: nvidia-cuda-mps-control -d",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict;
    use super::*;
    use crate::model::NodeStatus;
    use crate::model::{Gpu, Millis, PolicySettings, Pressure};

    fn status(gpus: Vec<Gpu>) -> Status {
        let node = NodeStatus {
            now: Millis(0),
            unix_ms: 0,
            since: Millis(0),
            cores: 1.0,
            pressure: Pressure::default(),
            gpus,
            settings: PolicySettings::default(),
            interval: Millis(0),
            next_tick: Millis(0),
            ticks: 0,
            paused: false,
            holdback: None,
            runtimes: Vec::new(),
            jobs: Vec::new(),
            notices: Vec::new(),
        };
        Status::of(&node, "box")
    }

    fn judged(daemon: &Status, is_loaded: bool, library: Option<Result<(), NoGpu>>) -> Option<Check> {
        driver_of_gpus(Some(daemon), &Driver { is_loaded, library, is_wanted: true })
    }

    #[test]
    fn a_machine_without_a_driver_is_told_nothing() {
        assert_eq!(judged(&status(Vec::new()), false, None), None);
    }

    #[test]
    fn a_library_that_works_for_us_and_not_for_the_daemon_is_a_matter_of_its_unit() {
        let check = judged(&status(Vec::new()), true, Some(Ok(()))).unwrap();
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.mend.unwrap().contains("drop-in"));
    }

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let missing = NoGpu::NoLibrary { name: "libnvidia-ml.so.1".to_owned() };
        let check = judged(&status(Vec::new()), true, Some(Err(missing))).unwrap();
        assert!(check.found.contains("libnvidia-ml.so.1 is not installed"), "{check:?}");
    }

    #[test]
    fn gpus_that_the_daemon_sees_are_well_whatever_is_seen_from_here() {
        let gpu = |index| Gpu { index, name: "NVIDIA T4".to_owned(), ..Gpu::default() };
        let check = judged(&status(vec![gpu(0), gpu(1)]), true, None).unwrap();
        assert_eq!((check.verdict, check.found.as_str()), (Verdict::Ok, "the daemon sees 2 GPUs: NVIDIA T4"));
    }
}
