//! Verdicts on GPUs: whether the daemon sees them, and whether MPS is available.

use super::super::Check;
use api::wire::Status;
use gpu::NoGpu;
use gpu::mps::Mps;
use term::text;

const NAME: &str = "gpu driver";

/// What was found of NVIDIA's driver.
pub(in crate::doctor) struct Driver {
    /// Whether the kernel driver is loaded.
    pub(in crate::doctor) is_loaded: bool,
    /// Whether the library works for `flowctl`; `None`: not tried, or no response in time.
    pub(in crate::doctor) library: Option<Result<(), NoGpu>>,
    /// Whether the daemon monitors GPUs.
    pub(in crate::doctor) is_wanted: bool,
}

/// Checks the driver; `None` if there is neither a driver nor a GPU.
pub(in crate::doctor) fn driver_of_gpus(daemon: Option<&Status>, driver: &Driver) -> Option<Check> {
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
        return Some(Check::ok(NAME, "loaded; the daemon does not monitor GPUs: gpu.library = \"off\""));
    }
    Some(match &driver.library {
        Some(Err(error @ NoGpu::NoLibrary { .. })) => Check::warn(
            NAME,
            format!("loaded, but {error}: the GPU use of jobs is unknown"),
            "install the driver's library (Debian: libnvidia-ml1, Ubuntu: libnvidia-compute-VERSION), then `sudo systemctl restart flowcond`",
        ),
        Some(Err(error @ NoGpu::StaticBuild { .. })) => Check::warn(
            NAME,
            format!("loaded, but {error}: the GPU use of jobs is unknown"),
            "install the Debian package, or build on a machine like this one: `cargo build --release`",
        ),
        Some(Err(error)) => {
            Check::warn(NAME, format!("{error}: the GPU use of jobs is unknown"), "`nvidia-smi` shows details")
        }
        Some(Ok(())) if daemon.is_some() => Check::warn(
            NAME,
            "the library works here, but the daemon sees no GPU: the unit denies it the devices, or the driver was installed after it started",
            "allow the devices with a drop-in (`flowctl help operations`, UNIT), then `sudo systemctl restart flowcond`",
        ),
        Some(Ok(())) => Check::ok(NAME, "loaded, and its library works"),
        None => Check::warn(
            NAME,
            "loaded, but it does not respond: the GPU use of jobs is unknown",
            "check `dmesg` and `nvidia-smi`",
        ),
    })
}

/// Checks the control daemon that `gpu.control = "mps"` needs.
pub(in crate::doctor) fn mps(found: &Mps) -> Check {
    const NAME: &str = "gpu sharing";
    match found {
        Mps::Reachable(_) => Check::ok(NAME, found.to_string()),
        Mps::Closed(_) => Check::warn(
            NAME,
            format!("{found}: `flowctl run --gpu-share` of this user cannot use it"),
            "run the control daemon as the user of the jobs: on most GPUs MPS serves one user at a time",
        ),
        Mps::Ended(_) | Mps::Missing(_) => Check::warn(
            NAME,
            format!("gpu.control = \"mps\", but {found}: jobs take turns on the whole GPU"),
            "start it as the user of the jobs: nvidia-cuda-mps-control -d",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict;
    use super::*;
    use model::{Gpu, NodeStatus};

    fn status(gpus: Vec<Gpu>) -> Status {
        Status::of(&NodeStatus { cores: 1.0, gpus, ..NodeStatus::default() }, "box")
    }

    fn judged(daemon: &Status, is_loaded: bool, library: Option<Result<(), NoGpu>>) -> Option<Check> {
        driver_of_gpus(Some(daemon), &Driver { is_loaded, library, is_wanted: true })
    }

    #[test]
    fn a_machine_without_a_driver_gets_no_check() {
        assert_eq!(judged(&status(Vec::new()), false, None), None);
    }

    #[test]
    fn a_library_that_works_only_outside_the_daemon_points_to_its_unit() {
        let check = judged(&status(Vec::new()), true, Some(Ok(()))).unwrap();
        assert_eq!(check.verdict, Verdict::Warn);
        let fix = check.fix.unwrap();
        assert!(fix.contains("drop-in") && fix.contains("systemctl restart flowcond"), "{fix}");
    }

    #[test]
    fn a_static_build_is_told_to_use_the_package() {
        let library = Some(Err(NoGpu::StaticBuild { name: "libnvidia-ml.so.1".to_owned() }));
        let check = judged(&status(Vec::new()), true, library).unwrap();
        assert!(check.found.contains("static build of flowcon cannot load libnvidia-ml.so.1"), "{check:?}");
        assert!(check.fix.unwrap().contains("Debian package"));
    }

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let missing = NoGpu::NoLibrary { name: "libnvidia-ml.so.1".to_owned() };
        let check = judged(&status(Vec::new()), true, Some(Err(missing))).unwrap();
        assert!(check.found.contains("libnvidia-ml.so.1 is not installed"), "{check:?}");
    }

    #[test]
    fn gpus_that_the_daemon_sees_are_ok_even_if_the_library_was_not_tried() {
        let gpu = |index| Gpu { index, name: "NVIDIA T4".to_owned(), ..Gpu::default() };
        let check = judged(&status(vec![gpu(0), gpu(1)]), true, None).unwrap();
        assert_eq!((check.verdict, check.found.as_str()), (Verdict::Ok, "the daemon sees 2 GPUs: NVIDIA T4"));
    }
}
