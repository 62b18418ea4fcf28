//! Turns on the real kernel: the daemon is killed in the middle of them. Needs root.
//!
//! `FLOWCON_CRASHES=1000 cargo test --test kernel turn` is the long run; the default is a few kills.

use crate::domain::processors;
use crate::support::cgroups::cgroups_named;
use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const KILLS: u64 = 3;

/// A turn is a quarter of a second; kills come at any time within it and shortly after.
const WITHIN_MS: u64 = 300;

const WITHIN: Duration = Duration::from_secs(60);

/// Prints steps that cost 0.1 CPU-seconds while the job `other` hardly runs, and three times as much beside it, as if threads waited for each
/// other. Each job writes its process id to a file of its name.
const TRAIN: &str = r#"
function seconds_of(pid,    file, line, fields) {
    file = "/proc/" pid "/stat"
    if ((getline line < file) <= 0) return 0
    close(file)
    sub(/.*\) /, "", line)
    split(line, fields, " ")
    return (fields[12] + fields[13]) / 100
}
function own_pid(    line, fields) {
    getline line < "/proc/self/stat"
    split(line, fields, " ")
    return fields[1]
}
BEGIN {
    me = own_pid()
    print me > (folder "/" name)
    close(folder "/" name)
    while ((getline it < (folder "/" other)) <= 0) close(folder "/" other)
    mine = seconds_of(me); its = seconds_of(it)
    while (1) {
        for (i = 0; i < 100000; i++) x += i
        used = seconds_of(me) - mine
        if (used < 0.1) continue
        beside = seconds_of(it) - its
        done += used / (beside < 0.25 * used ? 0.1 : 0.3)
        for (; done >= 1; done--) print "step " ++step
        fflush()
        mine += used; its += beside
    }
}
"#;

/// With version 1, a cgroup whose jobs come before everything else on their processor: on a processor that other tests keep busy they could
/// not use what a turn gives them, and would get none.
struct Undisturbed(Option<PathBuf>);

impl Undisturbed {
    fn new() -> Undisturbed {
        let directory = Path::new("/sys/fs/cgroup/cpu").join(format!("turns-{}", std::process::id()));
        if fs::create_dir(&directory).is_err() {
            return Undisturbed(None);
        }
        fs::write(directory.join("cpu.shares"), "262144").unwrap();
        Undisturbed(Some(directory))
    }

    /// The same command, which enters the cgroup first.
    fn within(&self, command: Command) -> Command {
        let Undisturbed(Some(directory)) = self else { return command };
        let mut entering = Command::new("sh");
        entering.args(["-c", r#"echo $$ >"$0/cgroup.procs" && exec "$@""#]).arg(directory);
        entering.arg(command.get_program()).args(command.get_args());
        entering
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        let _ = self.0.as_ref().map(fs::remove_dir);
    }
}

/// A job whose threads seem to wait for those of another one, both on one processor.
struct Trainee {
    name: String,
    _running: Job,
}

impl Trainee {
    fn start(daemon: &Daemon, undisturbed: &Undisturbed, folder: &str, [own, other]: [&str; 2]) -> Trainee {
        let name = format!("turns-{}-{own}", std::process::id());
        let of = |key: &str, value: &str| format!("{key}={value}");
        let [folder, own, other] = [of("folder", folder), of("name", own), of("other", other)];
        let one = processors().last().unwrap().to_string();
        let words = ["taskset", "-c", &one, "awk", "-v", &folder, "-v", &own, "-v", &other, TRAIN];
        let running = Job::spawn(undisturbed.within(Job::command(daemon, &name, &[], &words)));
        Trainee { name, _running: running }
    }

    /// Whether its CPU weight is not the kernel's default.
    fn is_limited(&self) -> bool {
        !["100", "1024"].contains(&self.weight().as_str())
    }

    /// Its CPU weight, from the file that it has.
    fn weight(&self) -> String {
        let folders = cgroups_named(&format!("flowcon-{}", self.name));
        let files = folders.iter().flat_map(|folder| ["cpu.weight", "cpu.shares"].map(|file| folder.join(file)));
        let file: PathBuf = files.into_iter().find(|file| file.exists()).expect("a weight");
        fs::read_to_string(file).unwrap().trim().to_owned()
    }
}

#[test]
fn original_weights_are_restored_after_a_kill_in_the_middle_of_a_turn() {
    let kills = std::env::var("FLOWCON_CRASHES").ok().and_then(|count| count.parse().ok()).unwrap_or(KILLS);
    let mut daemon = Daemon::start("off", &["policy.interval=1s", "policy.max-interval=1s"]);
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    let undisturbed = Undisturbed::new();
    let jobs = [["a", "b"], ["b", "a"]].map(|names| Trainee::start(&daemon, &undisturbed, folder, names));
    for kill in 0..kills {
        eventually("they take turns", WITHIN, || {
            let shown = daemon.jobs();
            let has_turn = |job: &&serde_json::Value| job["rule"] == "turn";
            // What is decided is shown before it is written.
            (shown.iter().filter(has_turn).count() == 2 && jobs.iter().any(Trainee::is_limited)).then_some(())
        });
        sleep(Duration::from_millis(kill * 37 % WITHIN_MS));
        daemon.end("KILL");
        assert!(jobs.iter().any(Trainee::is_limited), "one of them has its turn");
        // The next daemon may come before a restore.
        if kill % 2 == 0 || kill + 1 == kills {
            let output = daemon.restore();
            for job in &jobs {
                assert!(!job.is_limited(), "kill {kill}, {}: {}; {output}", job.name, job.weight());
            }
        }
        if kill + 1 < kills {
            daemon.boot();
        }
    }
}
