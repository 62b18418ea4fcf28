//! Tests of the history of a real daemon: short jobs are queried after they end, and the disk fails. Needs root.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{Engine, RunSpec};
use crate::support::job::Job;
use flowcon::host::store::history::{HistoryBatch, HistoryStore};
use flowcon::model::{ContainerId, End, Event, EventKind, JobRecord, Runtime};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Starts a daemon without an engine and with a short decision interval.
fn daemon(settings: &[&str]) -> Daemon {
    let usual = ["policy.interval=1s", "policy.max-interval=1s", "api.group="];
    Daemon::start("off", &usual.iter().chain(settings).copied().collect::<Vec<_>>())
}

/// Starts a job that computes and prints a falling loss, twenty times a second.
fn train(daemon: &Daemon, name: &str, prints: u32) -> Job {
    let script = format!(
        "i=0; while [ $i -lt {prints} ]; do i=$((i+1)); j=0; while [ $j -lt 3000 ]; do j=$((j+1)); done; \
         echo \"epoch $i/{prints} loss: 0.$((900 / i))\"; done"
    );
    Job::start(daemon, name, &[], &["sh", "-c", &script])
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs a job to its end and waits until the history contains its end.
fn run_to_end(daemon: &Daemon, name: &str, prints: u32) -> Value {
    run_to_end_after(daemon, name, prints, 0)
}

/// Like [`run_to_end`], for a job with a number greater than `number`.
fn run_to_end_after(daemon: &Daemon, name: &str, prints: u32, number: u64) -> Value {
    assert!(train(daemon, name, prints).wait().success());
    ended_after(daemon, name, number)
}

/// Waits until the history contains the end of a job with a number greater than `number`.
fn ended_after(daemon: &Daemon, name: &str, number: u64) -> Value {
    eventually("the history contains its end", Duration::from_secs(20), || {
        let output = daemon.flowctl(&["history", name, "-o", "json"]);
        let history = output.status.success().then(|| json(&String::from_utf8_lossy(&output.stdout)))?;
        let is_new = history["job"]["number"].as_u64() > Some(number);
        (is_new && history["job"]["ended_unix_ms"].is_u64()).then_some(history)
    })
}

#[test]
fn an_ended_job_and_its_decisions_can_be_queried() {
    let daemon = daemon(&[]);
    let name = with_exit_code("brief", |name| run_to_end(&daemon, name, 3_000));
    let history = json(&daemon.stdout_of(&["history", &name, "-o", "json"]));
    let samples = history["samples"].as_array().expect("samples");
    assert!(samples.len() >= 2, "{history:#}");
    let times: Vec<u64> = samples.iter().map(|sample| sample["unix_ms"].as_u64().expect("a time")).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let cpu: Vec<f64> = samples.iter().filter_map(|sample| sample["cpu_s"].as_f64()).collect();
    assert!(cpu.windows(2).all(|pair| pair[0] <= pair[1]) && cpu.last().is_some_and(|cpu| *cpu > 0.0), "{cpu:?}");
    assert!(samples.iter().any(|sample| sample["decision"]["rule"].is_string()), "{history:#}");
    assert_eq!(history["job"]["metric"], "loss");

    let listed = daemon.stdout_of(&["history"]);
    assert!(listed.contains(&name) && listed.contains("done"), "{listed}");
    let rows = daemon.stdout_of(&["ps", "-a", "-o", "jsonl"]);
    assert!(rows.lines().any(|row| json(row)["name"] == *name), "one line for each job: {rows}");
    let middle = times[times.len() / 2];
    let middle = flowcon::model::time::utc(middle).replace('Z', &format!(".{:03}Z", middle % 1000));
    let explained = daemon.stdout_of(&["explain", &name, "--at", &middle]);
    assert!(explained.contains("Decision in force") && explained.contains("why"), "{explained}");
    let document = json(&daemon.stdout_of(&["explain", &name, "--at", &middle, "-o", "json"]));
    assert_eq!(document["job"]["name"], *name);

    let early = daemon.flowctl(&["explain", &name, "--at", "1h ago"]);
    assert_eq!(early.status.code(), Some(4));
    let text = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(text.contains(&format!("the history of {name} begins at")), "{text}");
    let unknown = daemon.flowctl(&["history", "nobody"]);
    assert_eq!(unknown.status.code(), Some(4), "{}", String::from_utf8_lossy(&unknown.stderr));
    let events = daemon.stdout_of(&["history", "--events", &name, "-o", "jsonl"]);
    let kinds: Vec<String> = events.lines().map(|line| json(line)["kind"].as_str().unwrap_or("").to_owned()).collect();
    assert!(kinds.contains(&"started".to_owned()) && kinds.contains(&"ended".to_owned()), "{kinds:?}");
}

/// Runs commands until one has ended with exit code 0, and returns its name. The exit code of a command is unknown if its cgroup is seen
/// empty before `flowctl` reports its end.
fn with_exit_code(name: &str, run: impl Fn(&str) -> Value) -> String {
    let ended = |name: &String| {
        let found = run(name)["job"]["exit_code"].clone();
        assert!(found == 0 || found.is_null(), "{name}: {found}");
        found == 0
    };
    (0..5).map(|n| format!("{name}-{n}")).find(ended).expect("an exit code is reported")
}

#[test]
fn an_end_is_recorded_with_its_exit_code() {
    let engine = Engine::start();
    let daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    let in_container = |name: &str, code: u32| {
        let script = format!("until [ -e /go ]; do usleep 100000; done; exit {code}");
        engine.run(RunSpec { name, labels: &["flowcon.enable=true"], script: &script, ..RunSpec::default() });
        daemon.wait_for_job(name, "is found", Duration::from_secs(20), |_| true);
        engine.try_docker(&["exec", name, "sh", "-c", ": > /go"]); // may be killed by the end of the container
        assert_eq!(ended_after(&daemon, name, 0)["job"]["exit_code"], code, "{name}");
    };
    in_container("good", 0);
    in_container("bad", 3);
    let command = with_exit_code("command", |name| run_to_end(&daemon, name, 100)); // reported by `flowctl run`
    let listed = daemon.stdout_of(&["history"]);
    for (name, end) in [("good", "done"), ("bad", "failed 3"), (command.as_str(), "done")] {
        let line = listed.lines().find(|line| line.starts_with(name)).expect("it is listed");
        assert!(line.trim_end().ends_with(end), "{listed}");
    }
    let page = daemon.stdout_of(&["report", "-o", "-"]);
    for end in ["done", "failed 3"] {
        assert!(page.contains(&format!("<td class=\"left\">{end}</td>")), "{end}");
    }
}

#[test]
fn a_name_refers_to_its_newest_job_and_history_survives_a_restart() {
    let mut daemon = daemon(&[]);
    let first = run_to_end(&daemon, "again", 60);
    daemon.end("TERM");
    daemon.boot();
    run_to_end_after(&daemon, "again", 60, first["job"]["number"].as_u64().expect("a number"));
    let both = json(&daemon.stdout_of(&["history", "-o", "json"]));
    assert_eq!(both.as_array().map(Vec::len), Some(2), "{both:#}");
}

#[test]
fn a_disabled_history_is_an_error_and_writes_nothing() {
    let daemon = daemon(&["history.enabled=false"]);
    let output = daemon.flowctl(&["history"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&output.stderr).contains("history.enabled = true"));
    assert!(!daemon.state_dir().join("history.db").exists());
    let _job = train(&daemon, "runs", 1_000_000);
    daemon.wait_for_job("runs", "is found", Duration::from_secs(20), |_| true);
    let all = daemon.flowctl(&["ps", "-a"]);
    assert!(all.status.success() && String::from_utf8_lossy(&all.stdout).contains("runs"), "{all:?}");
    assert!(String::from_utf8_lossy(&all.stderr).contains("jobs that ended are not shown"), "{all:?}");
}

/// Writes a user's command that ended three days ago, with its events, and `count` notices about another job half an hour ago.
fn write_events(state: &Path, count: u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
    let (began, ended, later) = (now - 3 * 86_400_000, now - 3 * 86_400_000 + 60_000, now - 1_800_000);
    let job = JobRecord {
        number: 1,
        id: ContainerId::new("scope:old@ann"),
        name: "old@ann".to_owned(),
        runtime: Runtime::Scope,
        started_unix_ms: began,
        first_unix_ms: began,
        last_unix_ms: ended,
        ended_unix_ms: Some(ended),
        exit_code: Some(0),
        end: Some(End::Done),
        original_weight: None,
        metric: None,
        direction: None,
        unit: None,
        total: None,
        user: None,
        lost_s: None,
        trial: None,
    };
    let event = |unix_ms: u64, kind: EventKind, name: &str, text: String| Event {
        sequence: 0,
        unix_ms,
        kind,
        container: Some(format!("scope:{name}")),
        name: Some(name.to_owned()),
        text,
        alert: None,
    };
    let mut events = vec![
        event(began, EventKind::Started, "old@ann", "it began".to_owned()),
        event(ended, EventKind::Ended, "old@ann", "it ended".to_owned()),
    ];
    events.extend((0..count).map(|n| event(later + n, EventKind::Notice, "other", format!("notice {n}"))));
    let batch = HistoryBatch { jobs: [(1, job)].into(), events, ..HistoryBatch::default() };
    HistoryStore::open(state).unwrap().store.write(&batch).unwrap();
}

/// Texts of the events about the job with this name, from lines of JSON.
fn texts_of(lines: &str, name: &str) -> Vec<String> {
    let events = lines.lines().map(json).filter(|event| event["name"] == name);
    events.map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_newest_events_are_shown_and_those_of_a_job_from_its_beginning() {
    let state = tempfile::tempdir().unwrap();
    write_events(state.path(), 25_000);
    let daemon = Daemon::start_over(state.path(), &["api.group="]);
    let of_job = daemon.stdout_of(&["history", "old", "--events", "-o", "jsonl"]);
    assert_eq!(of_job.lines().count(), 2, "{of_job}");
    assert_eq!(texts_of(&of_job, "old@ann"), ["it began", "it ended"]);
    let unknown = daemon.flowctl(&["history", "nobody", "--events"]);
    assert_eq!(unknown.status.code(), Some(4), "{}", String::from_utf8_lossy(&unknown.stderr));

    let newest = daemon.flowctl(&["history", "--events", "--since", "1h", "-o", "jsonl"]);
    let lines = String::from_utf8(newest.stdout).unwrap();
    assert_eq!(lines.lines().count(), 20_000);
    assert_eq!(texts_of(&lines, "other").last().unwrap(), "notice 24999");
    assert!(String::from_utf8_lossy(&newest.stderr).contains("only the newest 20000 rows"));

    let all = daemon.stdout_of(&["events", "--since", "1h", "--no-follow", "-o", "jsonl"]);
    let expected: Vec<String> = (0..25_000).map(|n| format!("notice {n}")).collect();
    assert!(texts_of(&all, "other") == expected, "each recorded event once, in order");

    let many = daemon.flowctl(&["events", "--no-follow", "-n", "5000"]);
    assert!(String::from_utf8_lossy(&many.stderr).contains("use --since TIME for older ones"), "{many:?}");
}

#[test]
fn a_damaged_history_is_moved_aside_and_reported() {
    let mut daemon = daemon(&[]);
    run_to_end(&daemon, "before", 30);
    daemon.end("TERM");
    fs::write(daemon.state_dir().join("history.db"), "no database at all, whatever it was before".repeat(99)).unwrap();
    daemon.boot();
    eventually("it is reported", Duration::from_secs(10), || {
        daemon.stdout_of(&["status", "-o", "json"]).contains("history.db.corrupt-1").then_some(())
    });
    run_to_end(&daemon, "after", 30);
    assert!(daemon.state_dir().join("history.db.corrupt-1").exists());
}

/// Overwrites the root page of a table of the history, as a bad disk does.
fn damage(daemon: &Daemon, table: &str) {
    let path = daemon.state_dir().join("history.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: u32 = connection.query_row(root, [table], |row| row.get(0)).unwrap();
    let size: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    drop(connection);
    let file = fs::File::options().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, &[0xA5; 512], u64::from((root - 1) * size)).unwrap();
}

fn is_set_aside(daemon: &Daemon) -> Option<()> {
    daemon.stdout_of(&["status", "-o", "json"]).contains("history.db.corrupt-1").then_some(())
}

#[test]
fn a_history_whose_jobs_cannot_be_read_does_not_stay_off() {
    let mut daemon = daemon(&[]);
    run_to_end(&daemon, "before", 30);
    daemon.end("TERM");
    damage(&daemon, "job");
    daemon.boot();
    eventually("it is reported", Duration::from_secs(10), || is_set_aside(&daemon));
    run_to_end(&daemon, "after", 30);
}

#[test]
fn damage_that_only_a_query_finds_is_mended_without_a_restart() {
    let daemon = daemon(&[]);
    let _job = train(&daemon, "runs", 1_000_000);
    let count = || {
        let disk = rusqlite::Connection::open(daemon.state_dir().join("history.db")).unwrap();
        disk.query_row("SELECT COUNT(*) FROM moment", [], |row| row.get::<_, u32>(0)).ok().filter(|count| *count > 0)
    };
    eventually("samples are sorted in, which is done every ten minutes", Duration::from_secs(30), count);
    std::thread::sleep(Duration::from_secs(5)); // old ones are looked for at the same time
    damage(&daemon, "moment");
    let read = daemon.flowctl(&["history", "runs"]);
    let errors = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(read.status.code() == Some(1) && errors.contains("a new one begins"), "{errors}");
    assert!(!errors.contains("restart"), "{errors}");
    eventually("it is reported", Duration::from_secs(30), || is_set_aside(&daemon));
    let samples = || {
        let output = daemon.flowctl(&["history", "runs", "-o", "json"]);
        let history = output.status.success().then(|| json(&String::from_utf8_lossy(&output.stdout)))?;
        history["samples"].as_array().filter(|samples| samples.len() > 1).map(drop)
    };
    eventually("the running job is in the new history", Duration::from_secs(30), samples);
    let is_recorded = || {
        let events = daemon.stdout_of(&["history", "--events", "-o", "jsonl"]);
        events.contains("history.db.corrupt-1").then_some(())
    };
    eventually("so is the event", Duration::from_secs(30), is_recorded);
}

#[test]
fn a_renamed_container_has_its_new_name_everywhere_and_is_still_found_by_the_old_one() {
    let engine = Engine::start();
    let mut daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    let script = "i=0; until [ -e /go ]; do i=$((i+1)); echo epoch $i loss: 0.$((900 / i)); usleep 200000; done";
    engine.run(RunSpec { name: "alpha", labels: &["flowcon.enable=true"], script, ..RunSpec::default() });
    let soon = Duration::from_secs(30);
    daemon.wait_for_job("alpha", "its metric is read", soon, |job| job["metric"]["name"] == "loss");
    let history_of = |daemon: &Daemon, name: &str| {
        let output = daemon.flowctl(&["history", name, "-o", "json"]);
        output.status.success().then(|| json(&String::from_utf8_lossy(&output.stdout))["job"].clone())
    };
    eventually("it is in the history", soon, || history_of(&daemon, "alpha"));
    engine.docker(&["rename", "alpha", "bravo"]);
    daemon.wait_for_job("bravo", "has its new name", soon, |_| true);
    assert!(daemon.job("alpha").is_none());
    let is_renamed = |daemon: &Daemon| {
        let jobs = [history_of(daemon, "alpha")?, history_of(daemon, "bravo")?];
        (jobs[0]["name"] == "bravo" && jobs[0]["number"] == jobs[1]["number"]).then_some(())
    };
    eventually("it has its new name in the history, and is found by both", soon, || is_renamed(&daemon));
    for name in ["alpha", "bravo"] {
        let events = daemon.stdout_of(&["history", "--events", name, "-o", "jsonl"]);
        assert!(events.contains("alpha is governed") && events.contains("alpha was renamed to bravo"), "{events}");
        daemon.stdout_of(&["explain", name, "--at", "1s"]);
    }
    daemon.stdout_of(&["logs", "bravo"]);
    daemon.stdout_of(&["explain", "bravo"]);
    assert!(daemon.stdout_of(&["metrics"]).contains("bravo") && !daemon.stdout_of(&["metrics"]).contains("alpha"));
    // Renamed again while no daemon runs.
    daemon.end("TERM");
    engine.docker(&["rename", "bravo", "charlie"]);
    daemon.boot();
    daemon.wait_for_job("charlie", "is found by the next daemon", soon, |_| true);
    engine.try_docker(&["exec", "charlie", "sh", "-c", ": > /go"]); // may be killed by the end of the container
    let ended = |name: &str| {
        let job = history_of(&daemon, name)?;
        job["ended_unix_ms"].is_u64().then(|| job["name"].clone())
    };
    for name in ["alpha", "bravo", "charlie"] {
        assert_eq!(eventually("its end is in the history", soon, || ended(name)), "charlie", "{name}");
    }
    let rows = daemon.stdout_of(&["ps", "-a", "-o", "jsonl"]);
    let names: Vec<Value> = rows.lines().map(|row| json(row)["name"].clone()).collect();
    assert_eq!(names, ["charlie"]);
    assert!(daemon.stdout_of(&["report", "-o", "-"]).contains("charlie"));
}

/// A very small file system, unmounted when dropped.
struct Tiny<'a>(&'a Path);

impl<'a> Tiny<'a> {
    fn mounted(at: &'a Path, kibibytes: u32) -> Tiny<'a> {
        let size = format!("size={kibibytes}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).status().unwrap();
        assert!(mounted.success());
        Tiny(at)
    }
}

impl Drop for Tiny<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn decisions(daemon: &Daemon) -> u64 {
    json(&daemon.stdout_of(&["status", "-o", "json"]))["node"]["decisions"].as_u64().expect("a count")
}

#[test]
fn a_full_disk_stops_the_history_with_one_notice_but_no_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = Tiny::mounted(folder.path(), 400);
    let mut daemon = Daemon::start_over(folder.path(), &["policy.interval=1s", "policy.max-interval=1s", "api.group="]);
    let mut job = train(&daemon, "on-a-full-disk", 1_000_000);
    daemon.wait_for_job("on-a-full-disk", "governed", Duration::from_secs(20), |job| job["share"].is_number());
    let _ = fs::write(folder.path().join("fill"), vec![0u8; 1 << 20]); // until the disk is full
    let notice_count = |daemon: &Daemon| {
        let status = json(&daemon.stdout_of(&["status", "-o", "json"]));
        let notices = status["notices"].as_array().expect("notices").clone();
        notices.iter().filter(|notice| notice["text"].as_str().is_some_and(|text| text.contains("the history"))).count()
    };
    eventually("it is reported", Duration::from_secs(40), || (notice_count(&daemon) > 0).then_some(()));
    let before = decisions(&daemon);
    eventually("decisions continue", Duration::from_secs(15), || (decisions(&daemon) > before + 3).then_some(()));
    assert_eq!(notice_count(&daemon), 1);
    job.end("TERM");
    daemon.end("TERM");
    drop(tiny);
}

/// A separate file system whose writers can be made to hang, as on a disk that does not respond.
struct Freezer {
    place: tempfile::TempDir,
    bound: std::path::PathBuf,
}

impl Freezer {
    /// Mounts a file of it at `path`.
    fn under(path: &Path) -> Freezer {
        let place = tempfile::tempdir().unwrap();
        let (image, mounted) = (place.path().join("image"), place.path().join("mounted"));
        fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        fs::create_dir(&mounted).unwrap();
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
        };
        run("mkfs.ext4", &["-q".as_ref(), image.as_ref()]);
        run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), mounted.as_ref()]);
        let freezer = Freezer { place, bound: path.to_owned() };
        fs::write(mounted.join("file"), "").unwrap();
        fs::write(path, "").unwrap();
        run("mount", &["--bind".as_ref(), mounted.join("file").as_ref(), path.as_ref()]);
        freezer
    }

    /// Makes writers hang until the result is dropped.
    fn freeze(&self) -> Frozen<'_> {
        assert!(self.set("-f"));
        Frozen(self)
    }

    fn set(&self, flag: &str) -> bool {
        let mounted = self.place.path().join("mounted");
        Command::new("fsfreeze").arg(flag).arg(mounted).stderr(Stdio::null()).status().unwrap().success()
    }
}

struct Frozen<'a>(&'a Freezer);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.set("-u");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.bound).status();
        let _ = Command::new("umount").arg("-l").arg(self.place.path().join("mounted")).status();
    }
}

#[test]
fn a_hanging_disk_delays_no_decision_and_is_reported_once() {
    let state = tempfile::tempdir().unwrap();
    let freezer = Freezer::under(&state.path().join("history.db"));
    let mut daemon = Daemon::start_over(state.path(), &["policy.interval=1s", "policy.max-interval=1s", "api.group="]);
    let mut job = train(&daemon, "on-a-hung-disk", 1_000_000);
    daemon.wait_for_job("on-a-hung-disk", "governed", Duration::from_secs(30), |job| job["share"].is_number());
    let frozen = freezer.freeze();
    let notice_count =
        |daemon: &Daemon| daemon.stdout_of(&["status", "-o", "json"]).matches("too slow for the history").count();
    let mut slowest = Duration::ZERO;
    eventually("it is reported", Duration::from_secs(90), || {
        let (before, began) = (decisions(&daemon), std::time::Instant::now());
        while decisions(&daemon) == before && began.elapsed() < Duration::from_secs(90) {
            std::thread::sleep(Duration::from_millis(100));
        }
        slowest = slowest.max(began.elapsed());
        (notice_count(&daemon) > 0).then_some(())
    });
    assert_eq!(notice_count(&daemon), 1);
    assert!(slowest < Duration::from_secs(60), "decisions come every second; one took {slowest:?}");
    drop(frozen);
    eventually("the notice is removed", Duration::from_secs(60), || (notice_count(&daemon) == 0).then_some(()));
    job.end("TERM");
    daemon.end("TERM");
}
