//! Owners and administrators who move a container's processes to other cgroups, and who change limits in the engine's units: on a real
//! dockerd, the container's own cgroup and the engine's record have exactly the owner's limits afterwards.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{CONVERGED, Engine, GROWING, RunSpec};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const FLOWCON: [&str; 2] = ["policy.name=flowcon", "policy.interval=2s"];

fn run(engine: &Engine, name: &str, options: &[&str], script: &str) -> String {
    engine.run(RunSpec { name, labels: &["flowcon.enable=true"], options, script })
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap().trim().to_owned()
}

/// A value of the engine's record of the container `flat`.
fn recorded(engine: &Engine, field: &str) -> String {
    engine.docker(&["inspect", "--format", &format!("{{{{.HostConfig.{field}}}}}"), "flat"])
}

/// Another cgroup in some hierarchies, as an administrator's tool or a nested engine creates one; removed when dropped.
struct OtherCgroup(Vec<PathBuf>);

impl OtherCgroup {
    fn in_hierarchies(of: impl Fn(&str) -> bool) -> OtherCgroup {
        let root = Path::new("/sys/fs/cgroup");
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("flowcon-other-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mounted = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
        let is_hierarchy = |path: &PathBuf| path.join("cgroup.procs").exists() && !path.is_symlink();
        let hierarchies: Vec<PathBuf> = match Engine::is_cgroup_v1() {
            true => {
                mounted.filter(is_hierarchy).filter(|path| of(path.file_name().unwrap().to_str().unwrap())).collect()
            }
            false => vec![root.to_owned()],
        };
        let other = OtherCgroup(hierarchies.into_iter().map(|hierarchy| hierarchy.join(&name)).collect());
        for cgroup in &other.0 {
            fs::create_dir(cgroup).unwrap();
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if Engine::is_cgroup_v1() && cgroup.join(file).exists() {
                    fs::copy(cgroup.parent().unwrap().join(file), cgroup.join(file)).unwrap();
                }
            }
        }
        other
    }

    /// Moves all processes of the cgroup with this directory in the hierarchy of the CPU.
    fn take_all_of(&self, own: &Path) {
        eventually("its own cgroup is empty", SOON, || {
            let processes = read(&own.join("cgroup.procs"));
            for process in processes.lines() {
                self.0.iter().for_each(|cgroup| drop(fs::write(cgroup.join("cgroup.procs"), process))); // it may have ended
            }
            processes.is_empty().then_some(())
        });
    }
}

/// Moves a process back to its own cgroup, which has the same path in each hierarchy.
fn move_back(other: &OtherCgroup, own: &Path, process: u32) {
    let hierarchies: Vec<&Path> = other.0.iter().filter_map(|other| other.parent()).collect();
    let path = hierarchies.iter().find_map(|hierarchy| own.strip_prefix(hierarchy).ok()).unwrap();
    let entrances = hierarchies.iter().map(|hierarchy| hierarchy.join(path).join("cgroup.procs"));
    entrances
        .filter(|entrance| entrance.exists())
        .for_each(|entrance| fs::write(entrance, process.to_string()).unwrap());
}

impl Drop for OtherCgroup {
    fn drop(&mut self) {
        for cgroup in &self.0 {
            let _ = (0..100).find(|_| {
                std::thread::sleep(Duration::from_millis(50));
                fs::remove_dir(cgroup).is_ok()
            });
        }
    }
}

/// The limits of a container are in the cgroup that its engine made for it, wherever its processes are.
fn an_original_outlives_a_move(of: impl Fn(&str) -> bool) {
    let other = OtherCgroup::in_hierarchies(of);
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &FLOWCON);
    run(&engine, "grow", &[], GROWING);
    let flat = run(&engine, "flat", &["--cpu-shares", "513"], CONVERGED);
    let (own, file) = (engine.cgroup_of(&flat, "cpu"), engine.weight_file(&flat));
    let original = read(&file);
    let is_limited = || (read(&file) != original).then_some(());

    eventually("flat is limited", SOON, is_limited);
    daemon.end("KILL");
    other.take_all_of(&own);
    let stdout = daemon.restore();
    assert!(stdout.contains("flat: original limits restored"), "{stdout}");
    assert_eq!((read(&file), recorded(&engine, "CpuShares")), (original.clone(), "513".to_owned()));

    engine.docker(&["restart", "--time", "0", "flat"]);
    daemon.boot();
    eventually("the next run is limited", SOON, is_limited);
    other.take_all_of(&own);
    daemon.wait_for_job("flat", "is left alone", SOON, |job| job["hold"]["kind"] == "moved");
    eventually("flat has its original, for when its processes come back", SOON, || {
        (read(&file) == original).then_some(())
    });
    let refused = daemon.flowctl(&["govern", "flat"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && why.contains("moved to the cgroup") && why.contains("move them back"),
        "{why}"
    );

    move_back(&other, &own, engine.pid_of(&flat));
    daemon.wait_for_job("flat", "is governed again", SOON, |job| job["hold"].is_null());
    eventually("flat is limited again", SOON, is_limited);
    daemon.end("TERM");
    assert_eq!((read(&file), recorded(&engine, "CpuShares")), (original, "513".to_owned()));
}

#[test]
fn the_original_of_a_container_whose_processes_were_moved_in_the_cpu_hierarchy_is_restored() {
    an_original_outlives_a_move(|hierarchy| hierarchy == "cpu" || hierarchy == "cpu,cpuacct");
}

#[test]
fn the_original_of_a_container_whose_processes_were_moved_in_all_hierarchies_is_restored() {
    an_original_outlives_a_move(|_| true);
}

/// Shares that are no whole weight: 660 are weight 64, and so are 655.
#[test]
fn shares_that_an_owner_sets_are_restored_exactly_after_they_were_accepted() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &FLOWCON);
    run(&engine, "grow", &[], GROWING);
    let flat = run(&engine, "flat", &[], CONVERGED);
    let file = engine.weight_file(&flat);
    let shares = || recorded(&engine, "CpuShares");
    let (limited, governed) = ("flat is limited", |job: &serde_json::Value| job["hold"].is_null());
    let mut theirs = read(&file);
    for (owners, is_released_first) in [("660", false), ("513", true), ("700", true), ("300", false)] {
        eventually(limited, SOON, || (read(&file) != theirs).then_some(()));
        if is_released_first {
            daemon.carried_out(&["release", "flat"]);
        }
        engine.docker(&["update", "--cpu-shares", owners, "flat"]);
        theirs = read(&file);
        if !is_released_first {
            daemon.wait_for_job("flat", "is left alone", SOON, |job| job["hold"]["kind"] == "foreign");
        }
        daemon.carried_out(&["govern", "flat"]);
        assert!(daemon.job("flat").is_some_and(|job| governed(&job)), "at once, and not left alone as changed");
        eventually(limited, SOON, || (read(&file) != theirs).then_some(()));
        daemon.carried_out(&["release", "flat"]);
        assert_eq!((read(&file), shares()), (theirs.clone(), owners.to_owned()));
        daemon.carried_out(&["govern", "flat"]);
    }
    // Shares that are set only in the cgroup are not in the engine's record.
    if Engine::is_cgroup_v1() {
        daemon.carried_out(&["release", "flat"]);
        fs::write(&file, "415").unwrap();
        daemon.carried_out(&["govern", "flat"]);
        eventually(limited, SOON, || (read(&file) != "415").then_some(()));
        theirs = "415".to_owned();
    }
    daemon.end("TERM");
    assert_eq!(read(&file), theirs);
}

#[test]
fn a_job_whose_owner_sets_cpus_while_it_is_released_is_governed_again() {
    let engine = Engine::start();
    let settings = [FLOWCON[0], FLOWCON[1], "policy.enforcement=quota", "policy.quota-floor=0.1"];
    let mut daemon = Daemon::start(&engine.address(), &settings);
    run(&engine, "grow", &[], GROWING);
    let flat = run(&engine, "flat", &[], CONVERGED);
    let file = if Engine::is_cgroup_v1() { "cpu.cfs_quota_us" } else { "cpu.max" };
    let file = engine.cgroup_of(&flat, "cpu").join(file);
    let (original, weight) = (read(&file), engine.weight_file(&flat));
    let original_weight = read(&weight);
    eventually("flat has a quota", SOON, || (read(&file) != original).then_some(()));
    daemon.carried_out(&["release", "flat"]);
    engine.docker(&["update", "--cpus", "1.5", "flat"]);
    let theirs = (read(&file), "1500000000".to_owned(), "0".to_owned());
    daemon.carried_out(&["govern", "flat"]);
    // The policy leaves an owner's quota as it is, and governs the weight.
    eventually("flat has a weight of flowcon", SOON, || (read(&weight) != original_weight).then_some(()));
    let job = daemon.job("flat").unwrap();
    assert!(job["hold"].is_null(), "{job:#?}");
    daemon.end("TERM");
    let has_theirs = || {
        assert_eq!((read(&file), recorded(&engine, "NanoCpus"), recorded(&engine, "CpuQuota")), theirs);
    };
    has_theirs();
    assert_eq!(read(&weight), original_weight);
    // The engine must not have kept a quota of flowcon beside it, which would count from the next start on.
    engine.docker(&["restart", "--time", "0", "flat"]);
    has_theirs();
}
