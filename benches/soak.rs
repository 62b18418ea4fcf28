//! Hours in minutes: 500 scopes and 50 containers that come and go, logs that rotate, reloads, an engine that restarts. Memory and
//! descriptors of `flowcond` over that time, whether every job is found again, and what it costs at rest beside `docker stats` and
//! netdata on the same set, in the same run. It runs with the environment of its systemd unit.
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
use support::cost::{cpu_of, resident};
use support::daemon::{Daemon, eventually};
use support::engine::{Engine, Options, RunSpec};

const LINES: &str = "i=0; while :; do i=$((i+1)); echo \"step $i/100000 loss: $((90000-i))\"; sleep 2; done";
const SOON: Duration = Duration::from_secs(180);
/// Each comparison at rest takes so long.
const WHILE: Duration = Duration::from_secs(60);

fn main() {
    let [scopes, containers, minutes] = [("SCOPES", 500), ("CONTAINERS", 50), ("MINUTES", 20)].map(asked);
    let mut place = Place::new();
    let empty = at_rest(|| cpu_of(&[place.daemon.pid()]));
    let resident_empty = resident(place.daemon.pid());
    let half = scopes / 2;
    (0..half).for_each(|_| place.start_scope());
    place.all_are_found("with the first half of the scopes");
    sleep(Duration::from_secs(90));
    let resident_half = resident(place.daemon.pid());
    (0..containers).for_each(|_| place.start_container());
    (half..scopes).for_each(|_| place.start_scope());
    place.all_are_found("at first");
    sleep(Duration::from_secs(90)); // past the decisions that their starts asked for

    println!(
        "{scopes} scopes and {containers} containers, a line every two seconds each, {} s at rest:",
        WHILE.as_secs()
    );
    let number = (scopes + containers) as f64;
    let alone = at_rest(|| cpu_of(&[place.daemon.pid()]));
    let own = resident(place.daemon.pid());
    println!(
        "  flowcond      {alone:.2} % of a core, {own:.1} MiB resident (without jobs {empty:.2} %, {resident_empty:.1} MiB)"
    );
    println!(
        "  for each job  {:.4} % of a core, {:.1} KiB (targets: 0.005 %, 20 KiB)",
        (alone - empty) / number,
        (own - resident_empty) * 1024.0 / number
    );
    println!("  each job beyond {half}: {:.1} KiB", (own - resident_half) * 1024.0 / (number - half as f64));
    place.beside_docker_stats();
    place.beside_netdata("with all its plugins", alone, "");
    place.beside_netdata("its collector of cgroups alone", alone, CGROUPS_ALONE);

    println!("{minutes} minutes of churn:\n  minute  jobs  resident MiB  descriptors  threads  CPU %  done so far");
    let (began, mut spent) = (Instant::now(), cpu_of(&[place.daemon.pid()]));
    for minute in 1..=minutes {
        while began.elapsed() < Duration::from_secs(60 * minute as u64) {
            place.churn();
        }
        let pid = place.daemon.pid();
        let now = cpu_of(&[pid]);
        println!(
            "  {minute:>6}  {:>4}  {:>12.1}  {:>11}  {:>7}  {:>5.1}  {:?}",
            place.daemon.jobs().len(),
            resident(pid),
            entries(&format!("/proc/{pid}/fd")),
            entries(&format!("/proc/{pid}/task")),
            (now - spent) / 60.0 * 100.0,
            place.done
        );
        spent = now;
    }
    place.all_are_found("after the churn");
    println!("every job is found after the churn, and nothing else");
    let pid = place.daemon.pid();
    println!(
        "  at the end    {:.1} MiB resident, {} descriptors; {:.2} % of a core at rest",
        resident(pid),
        entries(&format!("/proc/{pid}/fd")),
        at_rest(|| cpu_of(&[pid]))
    );
}

fn asked((name, usual): (&str, usize)) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The engine, the daemon, and the jobs that should be known.
struct Place {
    engine: Engine,
    daemon: Daemon,
    containers: BTreeSet<String>,
    scopes: BTreeMap<String, Child>,
    started: usize,
    random: ChaCha8Rng,
    last_restart: Instant,
    last_reload: Instant,
    /// What was done, by name.
    done: BTreeMap<&'static str, usize>,
}

impl Place {
    fn new() -> Place {
        let engine = Engine::start_with(Options { live_restore: true });
        let mut daemon = Daemon::start(&engine.address(), &[]);
        daemon.end("TERM");
        let environment = environment_of_unit();
        let under: Vec<&str> = std::iter::once("env").chain(environment.iter().map(String::as_str)).collect();
        daemon.launch_under(&under);
        Place {
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
        // Logs of a few kilobytes rotate all the time.
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

    /// One thing that happens on a busy machine.
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

    fn all_are_found(&self, when: &str) {
        let expected: BTreeSet<String> = self.containers.iter().chain(self.scopes.keys()).cloned().collect();
        eventually(&format!("every job is found {when}, and read"), SOON, || {
            let jobs = self.daemon.jobs();
            let read = jobs.iter().filter(|job| job["metric"].is_object());
            let found: BTreeSet<String> = read.map(|job| job["name"].as_str().unwrap().to_owned()).collect();
            (jobs.len() == expected.len() && found == expected).then_some(())
        });
    }

    fn beside_docker_stats(&self) {
        let mut stats = Command::new("docker")
            .args(["--host", &self.engine.address(), "stats", "--format", "{{.Name}} {{.CPUPerc}}"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        sleep(Duration::from_secs(3));
        let cost = at_rest(|| cpu_of(&[stats.id()]));
        end_with(&mut stats, "KILL");
        println!(
            "  docker stats  {cost:.2} % of a core for the {} containers, without the engine's part",
            self.containers.len()
        );
    }

    /// netdata as Debian configures it, in a folder of its own, besides `more`.
    fn beside_netdata(&self, which: &str, own: f64, more: &str) {
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
        sleep(Duration::from_secs(60)); // it looks up the name of each cgroup once
        let family = family_of(netdata.id());
        let cost = at_rest(|| cpu_of(&family));
        let alive = family.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
        let memory: f64 = alive.map(|pid| resident(*pid)).sum();
        end_with(&mut netdata, "TERM");
        println!(
            "  netdata, {which}: {cost:.2} % of a core, {memory:.1} MiB: flowcond uses {:.2} of that (target: 0.1)",
            own / cost
        );
    }
}

/// Everything else of netdata is turned off.
const CGROUPS_ALONE: &str = "[db]\nmode = ram\n[ml]\nenabled = no\n[web]\nmode = none\n[health]\nenabled = no\n\
     [plugins]\nproc = no\ndiskspace = no\ntc = no\nidlejitter = no\ntimex = no\nstatsd = no\nchecks = no\napps = no\n\
     go.d = no\npython.d = no\ncharts.d = no\nioping = no\nfping = no\nperf = no\nslabinfo = no\nebpf = no\n\
     netdata monitoring = no\nenable running new plugins = no\ncgroups = yes\n";

/// What the unit sets for the daemon, `NAME=VALUE` each.
fn environment_of_unit() -> Vec<String> {
    let unit = include_str!("../systemd/flowcond.service");
    let lines = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// A process, its children, and theirs.
fn family_of(ancestor: u32) -> Vec<u32> {
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

impl Drop for Place {
    fn drop(&mut self) {
        std::mem::take(&mut self.scopes).into_values().for_each(end);
    }
}

/// Ends a `flowctl run`, which ends its job.
fn end(mut child: Child) {
    end_with(&mut child, "TERM");
}

fn end_with(child: &mut Child, signal: &str) {
    Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
}

/// Percent of a core over a while.
fn at_rest(cpu: impl Fn() -> f64) -> f64 {
    let (began, before) = (Instant::now(), cpu());
    sleep(WHILE);
    (cpu() - before) / began.elapsed().as_secs_f64() * 100.0
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}
