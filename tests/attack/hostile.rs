//! Hostile containers next to honest ones on a real engine: whatever they write, the honest ones are governed, the daemon stays small,
//! and no data of the host leaks. Also a command whose log is as expensive to read as possible.

use crate::support::cost::percent_of_a_core;
use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{Engine, GROWING, RunSpec};
use crate::support::job::Job;
use std::fs;
use std::time::Duration;

const GOVERNED: &str = "flowcon.enable=true";
const SOON: Duration = Duration::from_secs(60);
const HONEST: usize = 10;

/// Content of a file of the host that no container may read.
const SECRET: &str = "31415926";

/// Maximum memory of the daemon with ten hostile and ten honest jobs, in MiB; an unoptimised build takes more.
const MAX_MIB: u64 = if cfg!(debug_assertions) { 96 } else { 64 };

/// Duration of the measurement.
const MEASURED_TIME: Duration = Duration::from_secs(20);
/// Maximum fraction of a core that an optimised daemon may use.
const MAX_CORE_FRACTION: f64 = 0.05;

/// Name, log (empty = standard output) and script of each hostile container.
fn hostile(secret: &str) -> [(&'static str, &'static str, String); 9] {
    let idle = "sleep 1000000";
    let at_most = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1))";
    [
        ("link", "/tmp/log", format!("ln -s {secret} /tmp/log; {idle}")),
        ("linked-folder", "/tmp/logs", format!("ln -s $(dirname {secret}) /tmp/logs; {idle}")),
        ("fifo", "/tmp/log", format!("mkfifo /tmp/log; {idle}")),
        ("sparse", "/tmp/log", format!("truncate -s 1T /tmp/log; (echo; {GROWING}) >> /tmp/log")),
        (
            "many-files",
            "/tmp/logs/",
            format!("mkdir /tmp/logs; {at_most}; [ $i -gt 100000 ] && {idle}; : > /tmp/logs/$i; done"),
        ),
        (
            "torrent",
            "/tmp/log",
            format!(
                "yes 'step 1 loss: 0.5 of a torrent of lines' | head -c 1000000 > /tmp/block; {at_most}; cat /tmp/block >> /tmp/log; usleep 100000; done"
            ),
        ),
        (
            "endless-line",
            "/tmp/log",
            format!(
                "yes | tr -d '\\n' | head -c 1000000 > /tmp/block; {at_most}; cat /tmp/block >> /tmp/log; usleep 100000; done"
            ),
        ),
        (
            "liar",
            "",
            format!(
                "{at_most}; echo \"step 99/100 loss: 0.$((1000000-i))\"; j=0; while [ $j -lt 20000 ]; do j=$((j+1)); done; done"
            ),
        ),
        ("forks", "", "f() { f | f & }; f; sleep 1000000".to_owned()),
    ]
}

fn resident_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn honest_jobs_keep_their_shares_next_to_hostile_ones_and_the_daemon_stays_small() {
    let engine = Engine::start();
    let secret = engine.dir().join("host/secret");
    fs::create_dir(secret.parent().unwrap()).unwrap();
    fs::write(&secret, format!("loss: 0.{SECRET}\n").repeat(100)).unwrap();
    let daemon = Daemon::start(&engine.address(), &["policy.interval=2s"]);

    let bomb: Vec<String> = (0..200).map(|n| format!("flowcon.bomb-{n}={}", "x".repeat(200))).collect();
    let labels: Vec<&str> = [GOVERNED].into_iter().chain(bomb.iter().map(String::as_str)).collect();
    engine.run(RunSpec { name: "labels", labels: &labels, ..RunSpec::default() });
    for (name, log, script) in hostile(&secret.display().to_string()) {
        let log = (!log.is_empty()).then(|| format!("flowcon.log={log}"));
        let labels: Vec<&str> = [GOVERNED].into_iter().chain(log.as_deref()).collect();
        let script = format!("mkdir -p /tmp; {script}");
        engine.run(RunSpec { name, labels: &labels, options: &["--pids-limit", "100"], script: &script });
    }
    let honest: Vec<String> = (0..HONEST).map(|n| format!("honest-{n}")).collect();
    for name in &honest {
        engine.run(RunSpec { name, labels: &[GOVERNED], script: GROWING, ..RunSpec::default() });
    }
    for name in &honest {
        daemon.wait_for_job(name, "is read and governed", SOON, |job| {
            job["metric"].is_object() && job["progress"].is_object() && job["share"].is_number()
        });
    }

    let used = percent_of_a_core(&[daemon.pid()], MEASURED_TIME) / 100.0;
    let resident = resident_mib(daemon.pid());
    println!("the daemon used {:.1} % of a core and at most {resident} MiB", 100.0 * used);

    // A job that a busy machine does not let print for an interval has a smaller share for that time.
    eventually("honest jobs have their shares", SOON, || {
        let jobs = daemon.jobs();
        let share = |name: &str| jobs.iter().find(|job| job["name"] == name).unwrap()["share"].as_f64().unwrap();
        let equal = 1.0 / jobs.len() as f64;
        for name in &honest {
            assert!(share(name) >= 0.04 * equal, "{name} has {} of {equal}: {jobs:#?}", share(name));
        }
        let all: f64 = honest.iter().map(|name| share(name)).sum();
        println!("honest jobs have {all:.3} of {:.3}", HONEST as f64 * equal);
        (all >= 0.9 * HONEST as f64 * equal).then_some(())
    });
    for arguments in
        [&["status", "-o", "json"][..], &["explain", "link", "-o", "json"], &["explain", "linked-folder", "-o", "json"]]
    {
        assert!(!daemon.stdout_of(arguments).contains(SECRET), "{arguments:?} leaks data of the host");
    }
    assert!(!daemon.log().contains(SECRET), "the log leaks data of the host");
    assert!(resident <= MAX_MIB, "{resident} MiB");
    if !cfg!(debug_assertions) {
        assert!(used <= MAX_CORE_FRACTION, "{:.1} % of a core", 100.0 * used);
    }
}

/// An expensive pattern and a script that prints matching lines faster than they can be read.
const EXPENSIVE: [&str; 2] = [
    r"flowcon.pattern=(^)(?P<value>(?:(?:\w)*){0,77})x",
    "b=$(yes $(head -c 400 /dev/zero | tr '\\0' a) | head -c 1000000); i=0; \
     while [ $i -lt 3000 ]; do i=$((i+1)); printf '%s\\n' \"$b\"; sleep 0.1; done",
];

#[test]
fn a_log_that_is_expensive_to_read_is_skipped_in_parts_and_the_daemon_continues() {
    let daemon = Daemon::start("off", &["policy.interval=2s"]);
    let run = |name: &str, labels: &[&str], script: &str| Job::start(&daemon, name, labels, &["sh", "-c", script]);
    let names = ["expensive", "honest"].map(|name| format!("{name}-{}", std::process::id()));
    let _expensive = run(&names[0], &[EXPENSIVE[0]], EXPENSIVE[1]);
    daemon.wait_for_job(&names[0], "is skipped in parts", SOON, |job| {
        job["notices"].as_array().unwrap().iter().any(|notice| notice["text"].as_str().unwrap().contains("costs more"))
    });
    // The host's sleep instead of busybox's usleep in containers.
    let _honest = run(&names[1], &[], &GROWING.replace("usleep 100000", "sleep 0.1"));
    daemon.wait_for_job(&names[1], "is read and governed", SOON, |job| {
        job["metric"].is_object() && job["progress"].is_object() && job["share"].is_number()
    });
    // The initial budget of a log, which may be long, is used up after a while.
    let at_most = if cfg!(debug_assertions) { 4.0 * MAX_CORE_FRACTION } else { MAX_CORE_FRACTION };
    eventually("it costs the daemon little", Duration::from_secs(120), || {
        let used = percent_of_a_core(&[daemon.pid()], MEASURED_TIME / 4) / 100.0;
        println!("the daemon used {:.1} % of a core", 100.0 * used);
        (used <= at_most).then_some(())
    });
}
