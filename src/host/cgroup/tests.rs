//! Version 2 on files with real content in a temporary directory, for hosts that run version 1.

use super::*;
use model::{Bytes, CpuTime, CpuWeight, Quota};
use std::fs;
use tempfile::TempDir;

fn cgroup_of_files(unified: bool, files: &[(&str, &str)]) -> (TempDir, Cgroup) {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let open = || Some(Directory::open(dir.path().to_owned(), unified, false).unwrap());
    let directories = if unified {
        Directories { unified: open(), ..Directories::default() }
    } else {
        Directories { cpu: open(), cpuacct: open(), memory: open(), blkio: open(), freezer: open(), unified: None }
    };
    (dir, Cgroup::of_directories(directories))
}

const V2: &[(&str, &str)] = &[
    (
        "cpu.stat",
        "usage_usec 5123456\nuser_usec 5000000\nsystem_usec 123456\ncore_sched.force_idle_usec 0\nnr_periods 12\n\
         nr_throttled 7\nthrottled_usec 654321\nnr_bursts 0\nburst_usec 0\n",
    ),
    ("cpu.weight", "79\n"),
    ("cpu.max", "150000 100000\n"),
    (
        "cpu.pressure",
        "some avg10=25.00 avg60=3.16 avg300=0.70 total=2315\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    ("memory.current", "104857600\n"),
    (
        "memory.stat",
        "anon 83886080\nfile 20971520\ninactive_anon 1\nactive_anon 2\ninactive_file 10485760\nactive_file 5\n",
    ),
    ("memory.low", "1048576\n"),
    ("memory.high", "max\n"),
    ("memory.pressure", "some avg10=1.00 avg60=0.00 avg300=0.00 total=0\n"),
    ("io.stat", "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"),
    ("io.weight", "default 250\n254:0 300\n"),
    ("cgroup.events", "populated 1\nfrozen 0\n"),
];

#[test]
fn version_2_usage_is_read_from_its_files() {
    let (_dir, mut cgroup) = cgroup_of_files(true, V2);
    let usage = cgroup.usage();
    assert_eq!(usage.cpu, Some(CpuTime(5_123_456)));
    assert_eq!(usage.throttled, Some(CpuTime(654_321)));
    assert_eq!(usage.throttled_periods, Some(7));
    assert_eq!(usage.memory, Some(Bytes(104_857_600)));
    assert_eq!(usage.working_set, Some(Bytes(104_857_600 - 10_485_760)));
    assert_eq!(usage.block_io, Some(Bytes(12_288)));
    assert_eq!(usage.pressure.cpu, Some(0.25));
    assert_eq!(usage.pressure.memory, Some(0.01));
    assert_eq!(usage.pressure.io, None);
    assert_eq!(usage.network_io, None);
    assert_eq!(cgroup.frozen(), Some(false));
    assert!(cgroup.populated());
}

#[test]
fn a_glance_updates_the_fast_values_and_leaves_the_rest() {
    let (dir, mut cgroup) = cgroup_of_files(true, V2);
    let before = cgroup.usage();
    let mut glanced = before;
    cgroup.glance(&mut glanced);
    assert_eq!(glanced, before);
    fs::write(dir.path().join("memory.current"), "4096\n").unwrap();
    cgroup.glance(&mut glanced);
    assert_eq!(glanced, Usage { memory: Some(Bytes(4096)), ..before });
}

#[test]
fn version_2_limits_are_read_from_its_files() {
    let (_dir, cgroup) = cgroup_of_files(true, V2);
    let limits = cgroup.limits();
    assert_eq!(limits.cpu_weight, Some(CpuWeight::clamped(79.0)));
    assert_eq!(limits.cpu_quota, Some(Some(Quota(1500))));
    assert_eq!(limits.memory_low, Some(Bytes(1_048_576)));
    assert_eq!(limits.memory_high, Some(None));
    assert_eq!(limits.io_weight, Some(250));
}

#[test]
fn unlimited_and_missing_are_distinguished() {
    let (_dir, cgroup) = cgroup_of_files(true, &[("cpu.max", "max 100000\n")]);
    let limits = cgroup.limits();
    assert_eq!(limits.cpu_quota, Some(None));
    assert_eq!(limits.memory_high, None);
    assert_eq!(limits.io_weight, None);
}

#[test]
fn the_soft_limit_of_version_1_is_no_protection_and_is_never_written() {
    let files = &[("memory.soft_limit_in_bytes", "1048576\n"), ("cpu.shares", "10240\n")];
    let (dir, cgroup) = cgroup_of_files(false, files);
    assert_eq!(cgroup.limits().memory_low, None);
    assert!(matches!(cgroup.write(Setting::MemoryLow(Bytes(1))), Err(CgroupError::Unsupported { .. })));
    assert_eq!(fs::read_to_string(dir.path().join("memory.soft_limit_in_bytes")).unwrap(), "1048576\n");
    assert_eq!(cgroup.limits().memory_high, None);
    assert_eq!(cgroup.limits().cpu_weight, Some(CpuWeight::clamped(1000.0)));
}

#[test]
fn a_write_on_version_2_returns_the_value_read_back() {
    let (dir, cgroup) = cgroup_of_files(true, V2);
    let weight = Setting::CpuWeight(CpuWeight::clamped(40.0));
    assert_eq!(cgroup.write(weight).unwrap(), weight);
    assert_eq!(fs::read_to_string(dir.path().join("cpu.weight")).unwrap(), "40");
    let high = Setting::MemoryHigh(Some(Bytes(9_000_000)));
    assert_eq!(cgroup.write(high).unwrap(), high);
    let quota = Setting::CpuQuota(Some(Quota(250)));
    assert_eq!(cgroup.write(quota).unwrap(), quota);
    assert_eq!(fs::read_to_string(dir.path().join("cpu.max")).unwrap(), "25000 100000");
    assert_eq!(cgroup.write(Setting::CpuQuota(None)).unwrap(), Setting::CpuQuota(None));
}

#[test]
fn an_unsupported_limit_is_rejected_and_no_file_is_created() {
    let (dir, cgroup) = cgroup_of_files(true, &[("cpu.stat", "usage_usec 1\n")]);
    for setting in [Setting::CpuWeight(CpuWeight::DEFAULT), Setting::MemoryLow(Bytes(1)), Setting::IoWeight(100)] {
        assert!(matches!(cgroup.write(setting), Err(CgroupError::Unsupported { .. })), "{setting}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn every_weight_survives_conversion_to_shares_and_back() {
    let (_dir, cgroup) = cgroup_of_files(false, &[("cpu.shares", "1024\n")]);
    for number in (1..=10_000).step_by(7) {
        let weight = Setting::CpuWeight(CpuWeight::clamped(f64::from(number)));
        assert_eq!(cgroup.write(weight).unwrap(), weight);
    }
}

#[test]
fn an_io_weight_keeps_its_ratio_to_the_default() {
    let (_dir, bfq) = cgroup_of_files(false, &[("blkio.bfq.weight", "100\n")]);
    assert_eq!(bfq.limits().io_weight, Some(100));
    assert_eq!(bfq.write(Setting::IoWeight(40)).unwrap(), Setting::IoWeight(40));
    let (_dir, cfq) = cgroup_of_files(false, &[("blkio.weight", "500\n")]);
    assert_eq!(cfq.limits().io_weight, Some(100));
    assert_eq!(cfq.write(Setting::IoWeight(40)).unwrap(), Setting::IoWeight(40));
}

/// Else it looks as if somebody else had set it. The policy asks for at most 1000.
#[test]
fn every_io_weight_up_to_1000_is_read_back() {
    for (unified, file) in
        [(true, "io.weight"), (true, "io.bfq.weight"), (false, "blkio.bfq.weight"), (false, "blkio.weight")]
    {
        let (_dir, cgroup) = cgroup_of_files(unified, &[(file, "100\n")]);
        for weight in 1..=1000 {
            let Setting::IoWeight(read) = cgroup.write(Setting::IoWeight(weight)).unwrap() else {
                panic!("an I/O weight")
            };
            assert!(read.abs_diff(weight) <= 10.max(weight / 50), "{file}: {weight} is read as {read}");
        }
    }
    let (dir, cfq) = cgroup_of_files(false, &[("blkio.weight", "500\n")]);
    for number in 500..=1000 {
        std::fs::write(dir.path().join("blkio.weight"), number.to_string()).unwrap();
        let original = Setting::IoWeight(cfq.limits().io_weight.unwrap());
        cfq.write(original).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("blkio.weight")).unwrap(), number.to_string());
    }
}

#[test]
fn with_bfq_an_io_weight_is_written_to_both_files_as_systemd_converts_it() {
    let (dir, cgroup) = cgroup_of_files(true, &[("io.weight", "default 100\n"), ("io.bfq.weight", "default 100\n")]);
    let text = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(cgroup.limits().io_weight, Some(100));
    for (weight, of_bfq) in [(666, "151"), (190, "108"), (10_000, "1000"), (100, "100"), (40, "40")] {
        assert_eq!(cgroup.write(Setting::IoWeight(weight)).unwrap(), Setting::IoWeight(weight));
        assert_eq!((text("io.weight"), text("io.bfq.weight")), (weight.to_string(), of_bfq.to_owned()));
    }
}

#[test]
fn bfqs_weight_is_read_where_it_is_the_only_file_or_an_engine_wrote_it_alone() {
    let (_dir, alone) = cgroup_of_files(true, &[("io.bfq.weight", "default 151\n")]);
    assert_eq!(alone.limits().io_weight, Some(661));
    for weight in (1..=10_000).step_by(7) {
        let Setting::IoWeight(read) = alone.write(Setting::IoWeight(weight)).unwrap() else { panic!("an I/O weight") };
        assert!(read <= weight && weight - read <= 10, "{weight} is read as {read}");
    }
    let by_runc = &[("io.weight", "default 100\n"), ("io.bfq.weight", "default 500\n")];
    let (dir, cgroup) = cgroup_of_files(true, by_runc);
    let original = Setting::IoWeight(4500);
    assert_eq!(cgroup.limits().get(original.kind()), Some(original));
    cgroup.write(Setting::IoWeight(100)).unwrap();
    assert_eq!(cgroup.write(original).unwrap(), original);
    assert_eq!(fs::read_to_string(dir.path().join("io.bfq.weight")).unwrap(), "500");
}

#[test]
fn a_directory_that_replaced_the_opened_one_is_not_accessed() {
    let (dir, cgroup) = cgroup_of_files(true, &[("cpu.weight", "79\n")]);
    let (moved, path) = (dir.path().with_extension("moved"), dir.path().to_owned());
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("cpu.weight"), "5\n").unwrap();
    assert_eq!(cgroup.limits().cpu_weight, Some(CpuWeight::clamped(79.0)));
    cgroup.write(Setting::CpuWeight(CpuWeight::DEFAULT)).unwrap();
    assert_eq!(fs::read_to_string(path.join("cpu.weight")).unwrap(), "5\n");
    fs::remove_dir_all(moved).unwrap();
}
