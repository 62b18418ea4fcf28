//! Tests of following many logs with the real inotify and clock: prompt for quiet logs, cheap for busy ones, fair to all.

use flowcon::host::tail::{Budget, Source, Start, Tailer};
use flowcon::model::ContainerId;
use flowcon::traininglog::JsonFile;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A tailer with the data read from each log.
struct Reader {
    tailer: Tailer,
    read: BTreeMap<ContainerId, Vec<u8>>,
    polls: u32,
}

impl Reader {
    fn new(budget: Budget) -> Reader {
        Reader { tailer: Tailer::new(budget), read: BTreeMap::new(), polls: 0 }
    }

    fn follow(&mut self, name: &str, log: &Path) -> ContainerId {
        let id = ContainerId::new(name);
        self.tailer.follow(id.clone(), Source::Host(log.to_owned()), Start::Beginning);
        self.read.insert(id.clone(), Vec::new());
        id
    }

    /// Reads like the daemon until the condition holds.
    fn until(&mut self, what: &str, mut done: impl FnMut(&BTreeMap<ContainerId, Vec<u8>>) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let read = &mut self.read;
            let rest = self.tailer.poll(&mut |id, bytes| read.entry(id.clone()).or_default().extend_from_slice(bytes));
            self.polls += 1;
            if done(&self.read) {
                return;
            }
            assert!(Instant::now() < deadline, "timed out: {what}");
            std::thread::sleep(rest);
        }
    }

    fn text(&self, id: &ContainerId) -> &str {
        std::str::from_utf8(&self.read[id]).expect("the tests write text")
    }
}

fn log_in(dir: &Path, name: &str) -> PathBuf {
    let folder = dir.join(name);
    fs::create_dir(&folder).expect("a fresh folder");
    let log = folder.join("output.log");
    fs::write(&log, "").expect("a fresh file");
    log
}

fn append(log: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(log).expect("the log opens");
    file.write_all(text.as_bytes()).expect("the disk has room");
}

#[test]
fn a_line_in_a_quiet_log_is_read_before_the_next_round() {
    // With so many logs, a round takes four and a half seconds.
    const LOGS: usize = 450;
    flowcon::host::node::raise_open_files();
    let dir = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(Budget::default());
    let logs: Vec<(ContainerId, PathBuf)> = (0..LOGS)
        .map(|number| {
            let log = log_in(dir.path(), &number.to_string());
            (reader.follow(&number.to_string(), &log), log)
        })
        .collect();
    // After the first reads, only an event can make the next one early.
    let settled = Instant::now() + Duration::from_millis(600);
    reader.until("the first reads", |_| Instant::now() > settled);
    // An event takes at most half a second. A busy machine may take longer, hence twenty attempts, each with other quiet logs;
    // without events, each would take a whole round.
    let mut took = Vec::new();
    let is_early = (0..20).any(|attempt| {
        let written: Vec<_> = logs.iter().skip(attempt).step_by(LOGS / 20).collect();
        let began = Instant::now();
        written.iter().for_each(|(_, log)| append(log, "loss 1\n"));
        reader.until("the lines", |read| written.iter().all(|(id, _)| !read[id].is_empty()));
        took.push(began.elapsed());
        assert!(written.iter().all(|(id, _)| reader.text(id) == "loss 1\n"));
        took[attempt] < Duration::from_millis(2500)
    });
    assert!(is_early, "took {took:?}");
}

#[test]
fn a_log_is_followed_after_rotation_removal_and_late_creation_of_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let log = log_in(dir.path(), "a");
    let mut reader = Reader::new(Budget::default());
    let (id, later) = (reader.follow("a", &log), reader.follow("later", &dir.path().join("b/output.log")));
    append(&log, "1\n");
    reader.until("the first line", |read| read[&id] == b"1\n");
    fs::rename(&log, log.with_extension("log.1")).unwrap();
    append(&log.with_extension("log.1"), "2\n");
    append(&log, "3\n");
    reader.until("a late line in the old file, then the new file", |read| read[&id] == b"1\n2\n3\n");
    fs::remove_file(&log).unwrap();
    append(&log, "4\n");
    reader.until("a recreated file", |read| read[&id] == b"1\n2\n3\n4\n");
    append(&log_in(dir.path(), "b"), "5\n");
    reader.until("a log whose folder was created later", |read| read[&later] == b"5\n");
    assert_eq!(reader.tailer.health(&id).unwrap().rotated, 2);
}

#[test]
fn a_flood_in_one_log_does_not_starve_others_and_is_skipped_when_too_far_behind() {
    let dir = tempfile::tempdir().unwrap();
    let budget = Budget { per_log: 64 << 10, per_call: 96 << 10, behind: 1 << 20, keep: 16 << 10 };
    let mut reader = Reader::new(budget);
    // The flood's name sorts first.
    let (loud_log, quiet_log) = (log_in(dir.path(), "a"), log_in(dir.path(), "z"));
    let (loud, quiet) = (reader.follow("a", &loud_log), reader.follow("z", &quiet_log));
    append(&loud_log, &"loud line\n".repeat(800_000));
    append(&quiet_log, "quiet line\n");
    reader.until("the quiet line", |read| !read[&quiet].is_empty());
    assert!(reader.read[&loud].len() <= 1 << 20, "{}", reader.read[&loud].len());
    append(&loud_log, "end\n");
    reader.until("the end of the flood", |read| read[&loud].ends_with(b"end\n"));
    let health = reader.tailer.health(&loud).unwrap();
    assert!(health.skipped >= 6 << 20, "{health:?}");
    assert!(reader.text(&loud).lines().all(|line| line == "loud line" || line == "end"), "a line was split");
}

#[test]
fn an_engines_log_is_decoded_to_the_containers_output() {
    let dir = tempfile::tempdir().unwrap();
    let log = log_in(dir.path(), "a");
    let mut reader = Reader::new(Budget::default());
    let id = reader.follow("a", &log);
    for epoch in 1..=3 {
        let entry =
            serde_json::json!({"log": format!("Epoch {epoch}\n"), "stream": "stdout", "time": "2026-01-01T00:00:00Z"});
        append(&log, &format!("{entry}\n"));
    }
    reader.until("three entries", |read| read[&id].iter().filter(|byte| **byte == b'\n').count() == 3);
    let mut out = Vec::new();
    JsonFile::default().push(&reader.read[&id], |_, text| out.extend_from_slice(text));
    assert_eq!(String::from_utf8(out).unwrap(), "Epoch 1\nEpoch 2\nEpoch 3\n");
}

#[test]
fn the_rest_of_a_log_is_read_immediately_when_its_container_ends() {
    let dir = tempfile::tempdir().unwrap();
    let log = log_in(dir.path(), "a");
    let mut reader = Reader::new(Budget::default());
    let id = reader.follow("a", &log);
    append(&log, "1\n");
    reader.until("the first line", |read| read[&id] == b"1\n");
    append(&log, "2\n");
    fs::rename(&log, log.with_extension("log.1")).unwrap();
    append(&log, "3\n");
    let mut rest = Vec::new();
    reader.tailer.drain(&id, 1 << 20, &mut |bytes| rest.extend_from_slice(bytes));
    assert_eq!(rest, b"2\n3\n");
    assert_eq!(reader.tailer.unfollow(&id).map(|position| position.offset), Some(2));
    assert!(reader.tailer.health(&id).is_none());
}

/// CPU time of this process so far, all threads.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc is mounted");
    let fields: Vec<u64> =
        stat[stat.rfind(')').expect("a name") + 2..].split(' ').map(|field| field.parse().unwrap_or(0)).collect();
    let ticks = fields[11] + fields[12];
    Duration::from_millis(ticks * 10)
}

#[test]
fn two_hundred_logs_with_a_line_a_second_cost_little() {
    // Measured in a separate process, without the cost of other tests. The writer is another process, too.
    let measured = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tail::measures_two_hundred_logs", "--nocapture"])
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&measured.stdout);
    assert!(measured.status.success(), "{out}");
}

/// Run by the test above in a separate process; prints its measurements.
#[test]
#[ignore = "measures its own process; run by another test"]
fn measures_two_hundred_logs() {
    const LOGS: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(Budget::default());
    for number in 0..LOGS {
        reader.follow(&number.to_string(), &log_in(dir.path(), &number.to_string()));
    }
    let script =
        "while :; do for i in $(seq 0 199); do echo 'epoch 1 loss 0.1' >> $1/$i/output.log; done; sleep 1; done";
    let mut writer = Command::new("sh").args(["-c", script, "writer"]).arg(dir.path()).spawn().unwrap();
    let count_lines = |read: &BTreeMap<ContainerId, Vec<u8>>| {
        read.values().map(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count()).sum::<usize>()
    };
    let mut measure = |seconds: u64, lines_at_least: usize| {
        let (from, began) = (cpu_time(), Instant::now());
        let polls = reader.polls;
        let is_over = |read: &BTreeMap<_, _>| {
            began.elapsed() >= Duration::from_secs(seconds) && count_lines(read) >= lines_at_least
        };
        reader.until("time passed, and lines were read", is_over);
        let cores = (cpu_time() - from).as_secs_f64() / began.elapsed().as_secs_f64();
        (cores, f64::from(reader.polls - polls) / began.elapsed().as_secs_f64())
    };
    let (first_seconds, _) = measure(4, 0);
    let (cores, polls) = measure(10, LOGS * 5 + 1);
    writer.kill().unwrap();
    writer.wait().unwrap();
    let lines = count_lines(&reader.read);
    println!("{LOGS} logs: {:.2} % of a core, {polls:.1} polls a second, {lines} lines read", cores * 100.0);
    println!("in the first seconds: {:.2} %", first_seconds * 100.0);
    assert!(polls <= 5.0, "{polls} polls a second");
    // An unoptimised build may take several times as long as the service.
    assert!(cores < 0.05, "{cores} of a core");
}

/// Runs in a separate user namespace with a small limit of inotify watches.
#[test]
fn without_watches_logs_are_still_read_and_the_reason_is_reported() {
    let script =
        "echo 1 >/proc/sys/user/max_inotify_watches && exec \"$0\" --ignored --exact tail::one_watch_for_two_logs";
    let this = std::env::current_exe().expect("a test is a program");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script]).arg(this);
    let inside = command.output().expect("util-linux");
    let output = String::from_utf8_lossy(&[inside.stdout, inside.stderr].concat()).into_owned();
    assert!(inside.status.success() && output.contains("1 passed"), "{output}");
}

#[test]
#[ignore = "run by the test above with a limit of one watch"]
fn one_watch_for_two_logs() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut reader = Reader::new(Budget::default());
    let first = reader.follow("first", &log_in(dir.path(), "first"));
    assert_eq!(reader.tailer.watch_problem(), None);
    let log = log_in(dir.path(), "second");
    let second = reader.follow("second", &log);
    let problem = reader.tailer.watch_problem().expect("there is only one watch");
    assert!(problem.contains("fs.inotify.max_user_watches"), "{problem}");

    append(&log, "polled\n");
    reader.until("the second log is read", |read| read[&second] == b"polled\n");
    reader.tailer.unfollow(&first);
    append(&log, "watched\n");
    reader.until("the rest of it", |read| read[&second].ends_with(b"watched\n"));
    assert_eq!(reader.tailer.watch_problem(), None, "the second log has its watch now");
}
