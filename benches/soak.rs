//! Simulates hours of use in minutes: 500 scopes and 50 containers that start and end, log rotation, reloads and engine restarts. Measures
//! the memory and file descriptors of `flowcond` over time, checks that it finds every job, and compares its cost at rest with
//! `docker stats` and netdata for the same jobs in the same run. `flowcond` runs with the environment of its systemd unit.
//!
//! As root: `cargo bench --bench soak` (`SCOPES`, `CONTAINERS` and `MINUTES` for another size; netdata from `apt-get install netdata`).

#![allow(clippy::unwrap_used)] // a benchmark fails by panicking

#[path = "../tests/support/mod.rs"]
mod support;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::cost::{cpu_of, docker_stats, number, percent_of_a_core, resident};
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, Options, RunSpec};

const LINES: &str = "i=0; while :; do i=$((i+1)); echo \"step $i/100000 loss: $((90000-i))\"; sleep 2; done";
const FOUND_WITHIN: Duration = Duration::from_secs(180);
/// The duration of each measurement at rest.
const MEASURED: Duration = Duration::from_secs(60);

fn main() {
    let (scopes, containers): (usize, usize) = (number("SCOPES", 500), number("CONTAINERS", 50));
    let minutes: u64 = number("MINUTES", 20);
    let mut machine = Machine::new();
    let idle = percent_of_a_core(&[machine.daemon.pid()], MEASURED);
    let idle_resident = resident(machine.daemon.pid());
    let half = scopes / 2;
    (0..half).for_each(|_| machine.start_scope());
    machine.wait_until_all_are_found("with the first half of the scopes");
    sleep(Duration::from_secs(90));
    let half_resident = resident(machine.daemon.pid());
    (0..containers).for_each(|_| machine.start_container());
    (half..scopes).for_each(|_| machine.start_scope());
    machine.wait_until_all_are_found("before the churn");
    sleep(Duration::from_secs(90)); // until the decisions caused by the starts are over

    println!(
        "{scopes} scopes and {containers} containers, one line every two seconds each, measured for {} s at rest:",
        MEASURED.as_secs()
    );
    let jobs = (scopes + containers) as f64;
    let loaded = percent_of_a_core(&[machine.daemon.pid()], MEASURED);
    let loaded_resident = resident(machine.daemon.pid());
    println!(
        "  flowcond      {loaded:.2} % of a core, {loaded_resident:.1} MiB resident (without jobs {idle:.2} %, {idle_resident:.1} MiB)"
    );
    println!(
        "  per job       {:.4} % of a core, {:.1} KiB (targets: 0.005 %, 20 KiB)",
        (loaded - idle) / jobs,
        (loaded_resident - idle_resident) * 1024.0 / jobs
    );
    println!("  each job beyond {half}: {:.1} KiB", (loaded_resident - half_resident) * 1024.0 / (jobs - half as f64));
    machine.compare_docker_stats();
    machine.compare_netdata("with all its plugins", loaded, "");
    machine.compare_netdata("with only its cgroups collector", loaded, ONLY_CGROUPS);

    println!("{minutes} minutes of churn:\n  minute  jobs  resident MiB  descriptors  threads  CPU %  done so far");
    let (began, mut previous_cpu) = (Instant::now(), cpu_of(&[machine.daemon.pid()]));
    for minute in 1..=minutes {
        while began.elapsed() < Duration::from_secs(60 * minute) {
            machine.churn();
        }
        let pid = machine.daemon.pid();
        let cpu = cpu_of(&[pid]);
        println!(
            "  {minute:>6}  {:>4}  {:>12.1}  {:>11}  {:>7}  {:>5.1}  {:?}",
            machine.daemon.jobs().len(),
            resident(pid),
            count_entries(&format!("/proc/{pid}/fd")),
            count_entries(&format!("/proc/{pid}/task")),
            (cpu - previous_cpu) / 60.0 * 100.0,
            machine.done
        );
        previous_cpu = cpu;
    }
    machine.wait_until_all_are_found("after the churn");
    println!("after the churn, flowcond reports exactly the jobs that exist");
    let pid = machine.daemon.pid();
    println!(
        "  at the end    {:.1} MiB resident, {} descriptors; {:.2} % of a core at rest",
        resident(pid),
        count_entries(&format!("/proc/{pid}/fd")),
        percent_of_a_core(&[pid], MEASURED)
    );
}

/// The engine, the daemon, and the jobs that the daemon should know.
struct Machine {
    engine: Engine,
    daemon: Daemon,
    containers: BTreeSet<String>,
    scopes: BTreeMap<String, Child>,
    started: usize,
    random: ChaCha8Rng,
    last_restart: Instant,
    last_reload: Instant,
    /// The number of churn steps of each kind.
    done: BTreeMap<&'static str, usize>,
}

impl Machine {
    fn new() -> Machine {
        let engine = Engine::start_with(Options { live_restore: true });
        let daemon = Daemon::start_as_unit(&engine.address(), &[]);
        Machine {
            engine,
            daemon,
            containers: BTreeSet::new(),
            scopes: BTreeMap::new(),
            started: 0,
            random: ChaCha8Rng::seed_from_u64(1),
            last_restart: Instant::now(),
            last_reload: Instant::now(),
            done: BTreeMap::new(),
        }
    }

    fn start_container(&mut self) {
        self.started += 1;
        let name = format!("c{}", self.started);
        // Logs of a few kilobytes rotate often.
        let options = ["--log-opt", "max-size=4k", "--log-opt", "max-file=2"];
        self.engine.run(RunSpec { name: &name, labels: &["flowcon.enable=true"], options: &options, script: LINES });
        self.containers.insert(name);
    }

    fn start_scope(&mut self) {
        self.started += 1;
        let name = format!("s{}-{}", std::process::id(), self.started);
        let child = Command::new(env!("CARGO_BIN_EXE_flowctl"))
            .arg("--socket")
            .arg(self.daemon.socket())
            .args(["run", "--name", &name, "--", "sh", "-c", LINES])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.scopes.insert(name, child);
    }

    /// Makes one random change, as on a busy machine.
    fn churn(&mut self) {
        if self.last_restart.elapsed() > Duration::from_secs(240) {
            self.last_restart = Instant::now();
            self.engine.restart();
            return self.count("engine restarts");
        }
        if self.last_reload.elapsed() > Duration::from_secs(20) {
            self.last_reload = Instant::now();
            self.daemon.signal("HUP");
            return self.count("reloads");
        }
        if self.random.random_bool(0.3) {
            let names: Vec<String> = self.containers.iter().cloned().collect();
            let name = names[self.random.random_range(0..names.len())].clone();
            self.engine.docker(&["rm", "--force", &name]);
            self.containers.remove(&name);
            self.start_container();
            self.count("containers replaced");
        } else {
            let names: Vec<String> = self.scopes.keys().cloned().collect();
            let name = names[self.random.random_range(0..names.len())].clone();
            end(self.scopes.remove(&name).unwrap());
            self.start_scope();
            self.count("scopes replaced");
        }
        sleep(Duration::from_millis(300));
    }

    fn count(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    fn wait_until_all_are_found(&self, when: &str) {
        let expected: BTreeSet<String> = self.containers.iter().chain(self.scopes.keys()).cloned().collect();
        eventually(&format!("the daemon reads the metric of every job {when}"), FOUND_WITHIN, || {
            let jobs = self.daemon.jobs();
            let read = jobs.iter().filter(|job| job["metric"].is_object());
            let found: BTreeSet<String> = read.map(|job| job["name"].as_str().unwrap().to_owned()).collect();
            (jobs.len() == expected.len() && found == expected).then_some(())
        });
    }

    fn compare_docker_stats(&self) {
        let mut stats = docker_stats(&self.engine.address());
        let cost = percent_of_a_core(&[stats.id()], MEASURED);
        end_with(&mut stats, "KILL");
        println!(
            "  docker stats  {cost:.2} % of a core for the {} containers, without the engine's part",
            self.containers.len()
        );
    }

    /// Measures netdata with Debian's configuration, its own folder and the lines `more`; `own` is flowcond's CPU use.
    fn compare_netdata(&self, variant: &str, own: f64, more: &str) {
        if !Path::new("/usr/sbin/netdata").exists() {
            return println!("  netdata       not installed: apt-get install netdata");
        }
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "[global]\nrun as user = root\n[directories]\ncache = {0}\nlib = {0}\nlog = {0}\n\
             [plugin:cgroups]\nmax cgroups to find = 2000\nenable by default cgroups matching = *flowcon*\n\
             search for cgroups in subpaths matching = *\n{more}",
            dir.path().display()
        );
        let file = dir.path().join("netdata.conf");
        fs::write(&file, config).unwrap();
        let mut netdata = Command::new("/usr/sbin/netdata")
            .arg("-D")
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        sleep(Duration::from_secs(60)); // netdata looks up the name of each cgroup once
        let processes = process_tree(netdata.id());
        let cost = percent_of_a_core(&processes, MEASURED);
        let alive = processes.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
        let memory: f64 = alive.map(|pid| resident(*pid)).sum();
        end_with(&mut netdata, "TERM");
        println!(
            "  netdata, {variant}: {cost:.2} % of a core, {memory:.1} MiB: flowcond uses {:.2} of that (target: 0.1)",
            own / cost
        );
    }
}

/// Turns off everything in netdata except its cgroups collector.
const ONLY_CGROUPS: &str = "[db]\nmode = ram\n[ml]\nenabled = no\n[web]\nmode = none\n[health]\nenabled = no\n\
     [plugins]\nproc = no\ndiskspace = no\ntc = no\nidlejitter = no\ntimex = no\nstatsd = no\nchecks = no\napps = no\n\
     go.d = no\npython.d = no\ncharts.d = no\nioping = no\nfping = no\nperf = no\nslabinfo = no\nebpf = no\n\
     netdata monitoring = no\nenable running new plugins = no\ncgroups = yes\n";

/// A process and all its descendants.
fn process_tree(ancestor: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let parents: BTreeMap<u32, u32> = all.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let descends =
        |pid: &u32| std::iter::successors(Some(*pid), |pid| parents.get(pid).copied()).any(|pid| pid == ancestor);
    parents.keys().copied().filter(descends).collect()
}

impl Drop for Machine {
    fn drop(&mut self) {
        std::mem::take(&mut self.scopes).into_values().for_each(end);
    }
}

/// Ends a `flowctl run`, and with it its job.
fn end(mut child: Child) {
    end_with(&mut child, "TERM");
}

fn end_with(child: &mut Child, signal: &str) {
    Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
}

fn count_entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}
