//! Tests of the `flowctl` binary with a real socket: pages, exit codes, closed pipes.

use crate::served::{READERS, Served, as_user, busy_node, idle_node, job};
use crate::support::daemon::{Daemon, eventually};
use crate::support::program::public_flowctl;
use assert_cmd::Command;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn flowctl(served: &Served, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    command.env("FLOWCON_SOCKET", &served.socket).env("COLUMNS", "80").env_remove("NO_COLOR").args(arguments);
    command
}

fn page(served: &Served, arguments: &[&str]) -> String {
    let output = flowctl(served, arguments).assert().success().get_output().stdout.clone();
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // The node's name and the age of a handmade snapshot differ between runs.
    String::from_utf8(output)
        .expect("UTF-8")
        .replace(&hostname, "gpu-box")
        .lines()
        .filter(|line| !line.contains("last updated this"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn widest(page: &str) -> usize {
    page.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap_or(0)
}

#[test]
fn status_lists_every_job_in_eighty_columns() {
    let page = page(&Served::new(busy_node()), &["status"]);
    assert!(widest(&page) <= 80, "{} columns:\n{page}", widest(&page));
    insta::assert_snapshot!("status", page);
}

#[test]
fn wide_status_truncates_nothing() {
    let page = page(&Served::new(busy_node()), &["status", "-o", "wide"]);
    assert!(page.contains("resnet50-cifar-baseline-run-3") && page.contains("scope:sweep-1"), "{page}");
    insta::assert_snapshot!("status_wide", page);
}

#[test]
fn an_idle_node_shows_how_to_start_a_job() {
    insta::assert_snapshot!("status_idle", page(&Served::new(idle_node()), &["status"]));
}

#[test]
fn ps_lists_containers_in_eighty_columns() {
    let served = Served::new(busy_node());
    let page = page(&served, &["ps"]);
    assert!(widest(&page) <= 80, "{page}");
    insta::assert_snapshot!("ps", page);
}

#[test]
fn explain_shows_every_number_behind_a_decision() {
    let served = Served::new(busy_node());
    let page = page(&served, &["explain", "mnist-vae"]);
    assert!(widest(&page) <= 80, "{page}");
    insta::assert_snapshot!("explain", page);
}

#[test]
fn explain_shows_how_a_hold_ends() {
    insta::assert_snapshot!("explain_held", page(&Served::new(busy_node()), &["explain", "lstm"]));
}

#[test]
fn colour_is_used_only_if_enabled_and_names_cannot_inject_it() {
    let served = Served::new(busy_node());
    let plain = flowctl(&served, &["status"]).assert().success().get_output().stdout.clone();
    assert!(!plain.contains(&0x1b));
    let coloured = flowctl(&served, &["status", "--color", "always"]).assert().success().get_output().stdout.clone();
    assert!(String::from_utf8_lossy(&coloured).contains("\x1b[32m"));
    let stderr = flowctl(&served, &["status", "--color", "auto"]).env("NO_COLOR", "1").assert().success();
    assert!(!stderr.get_output().stdout.contains(&0x1b));
}

#[test]
fn json_is_the_wire_document_and_jsonl_has_one_container_per_line() {
    let served = Served::new(busy_node());
    let json = flowctl(&served, &["status", "-o", "json"]).assert().success().get_output().stdout.clone();
    let document: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(document["containers"][0]["metric"]["trend"], "improving");
    assert_eq!(document["containers"][3]["metric"]["value"], serde_json::Value::Null);
    let lines = flowctl(&served, &["ps", "-o", "jsonl"]).assert().success().get_output().stdout.clone();
    let names: Vec<String> = String::from_utf8(lines)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["name"].to_string())
        .collect();
    assert_eq!(names.len(), 5);
    assert_eq!(names[0], "\"mnist-vae\"");
}

#[test]
fn every_failure_has_an_exit_code_and_a_next_step() {
    let served = Served::new(busy_node());
    let cases: &[(&[&str], i32, &str)] = &[
        (&["explain", "no-such-job"], 4, "flowctl ps"),
        (&["govern", "--all"], 6, "flowctl status"),
        (&["restore"], 1, "flowctl doctor"),
        (&["reload", "--timeout", "0.5"], 7, "--timeout"),
        (&["status", "--socket", "/nonexistent/flowcond.sock"], 3, "start it with `"),
        (&["status", "--no-such-flag"], 2, "--help"),
        (&["policy", "fair", "--objective", "0.5"], 6, "openapi.json"),
        (&["status", "--watch=never"], 2, "--help"),
        (&["pin", "mnist-vae", "--share", "140%"], 2, "at most 100%"),
        (&["unpin", "no-such-job"], 4, "flowctl ps"),
        (&["adopt"], 2, "--help"),
        (&["adopt", "train", "--label", "weight"], 2, "KEY=VALUE"),
        (&[], 2, "Usage"),
    ];
    for (arguments, code, next) in cases {
        let outcome = flowctl(&served, arguments).assert().code(*code);
        let stderr = String::from_utf8_lossy(&outcome.get_output().stderr).into_owned();
        assert!(stderr.contains(next), "{arguments:?} printed:\n{stderr}");
    }
}

#[test]
fn the_jobs_are_sorted_by_value_and_by_time_left() {
    let served = Served::new(busy_node());
    let names = |arguments: &[&str]| -> Vec<String> {
        let json = flowctl(&served, arguments).assert().success().get_output().stdout.clone();
        let status: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let jobs = status["containers"].as_array().expect("jobs").iter();
        jobs.map(|job| job["name"].as_str().expect("a name").to_owned()).collect()
    };
    let of = |key: &str| names(&["status", "--sort", key, "-o", "json"]);
    let mut by_name = names(&["status", "-o", "json"]);
    by_name.sort();
    assert_eq!(of("name"), by_name);
    let values = |pointer: &str, key: &str| -> Vec<f64> {
        let json = flowctl(&served, &["status", "--sort", key, "-o", "json"]).assert().success();
        let status: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).expect("JSON");
        status["containers"].as_array().expect("jobs").iter().filter_map(|job| job.pointer(pointer)?.as_f64()).collect()
    };
    let (by_value, by_left) = (values("/metric/value", "value"), values("/progress/remaining_s/likely", "left"));
    assert!(by_value.len() > 1 && by_value.is_sorted_by(|a, b| a >= b), "{by_value:?}");
    assert!(!by_left.is_empty() && by_left.is_sorted(), "{by_left:?}");
    let mut reversed = names(&["status", "--sort", "name", "--reverse", "-o", "json"]);
    reversed.reverse();
    assert_eq!(reversed, by_name);
    flowctl(&served, &["status", "--reverse"]).assert().code(2);
}

#[test]
fn metrics_events_and_help_are_complete_where_they_are_piped() {
    let mut node = busy_node();
    let name = "n".repeat(90);
    node.jobs = vec![job("aa11bb22cc33dd44", &name)];
    let served = Served::new(node);
    let (metrics, help) = (page(&served, &["metrics"]), page(&served, &["help", "labels"]));
    assert!(metrics.contains(&format!("name=\"{name}\"")), "{metrics}");
    assert!(!metrics.contains('…') && !help.contains('…'), "{metrics}{help}");
}

#[test]
fn commands_reach_the_daemon_with_the_full_id_and_the_user() {
    let served = Served::new(busy_node());
    flowctl(&served, &["release", "mnist-vae", "0c9d"]).assert().success();
    flowctl(&served, &["policy", "balanced", "--objective", "0.25"]).assert().success();
    flowctl(&served, &["pin", "mnist-vae", "--share", "40%"]).assert().success();
    flowctl(&served, &["pin", "mnist-vae"]).assert().success();
    flowctl(&served, &["unpin", "mnist-vae"]).assert().success();
    let commands = served.commands.lock().expect("lock").clone();
    let words: Vec<String> = commands.iter().map(|(command, _)| format!("{command:?}")).collect();
    assert_eq!(
        words,
        [
            "Release(Some(\"4f2a9c01d3e7aa55\"))",
            "Release(Some(\"0c9d8e7f6a5b4c3d\"))",
            "SetPolicy { policy: Balanced, objective: Some(0.25) }",
            "Pin { name: \"4f2a9c01d3e7aa55\", share: Some(0.4) }",
            "Pin { name: \"4f2a9c01d3e7aa55\", share: None }",
            "Unpin(\"4f2a9c01d3e7aa55\")"
        ]
    );
    assert!(commands[0].1.starts_with("uid 0 (pid "), "{}", commands[0].1);
}

#[test]
fn two_containers_with_the_same_name_are_distinguished_by_id() {
    let mut node = idle_node();
    node.jobs = vec![job("aa11bb22cc33dd44", "twin"), job("ee55ff66aa77bb88", "twin")];
    let served = Served::new(node);
    let outcome = flowctl(&served, &["release", "twin"]).assert().code(6);
    let stderr = String::from_utf8_lossy(&outcome.get_output().stderr).into_owned();
    assert!(stderr.contains("aa11bb22cc33") && stderr.contains("ee55ff66aa77"), "{stderr}");
    assert!(served.commands.lock().expect("lock").is_empty());
    flowctl(&served, &["release", "ee55"]).assert().success();
}

#[test]
fn readers_have_read_only_access_and_strangers_none() {
    let served = Served::new(busy_node());
    let folder = tempfile::tempdir().expect("folder");
    let binary = public_flowctl(folder.path());
    let binary = binary.to_str().expect("UTF-8 path");
    let socket = served.socket.to_str().expect("UTF-8 path");
    let code = |gid, groups, verb: &[&str]| {
        let arguments = [&[binary, "--socket", socket], verb].concat();
        as_user(12_345, gid, groups, &arguments).output().expect("setpriv runs").status.code()
    };
    assert_eq!(code(12_345, None, &["status"]), Some(5), "a stranger");
    assert_eq!(code(READERS, None, &["status"]), Some(0), "by primary group");
    assert_eq!(code(12_345, Some(READERS), &["status"]), Some(0), "by supplementary group");
    assert_eq!(code(12_345, Some(READERS), &["release", "mnist-vae"]), Some(5), "a reader has no write access");
    assert!(served.commands.lock().expect("lock").is_empty());
}

#[test]
fn a_socket_without_permission_is_reported_as_denied() {
    use std::os::unix::fs::PermissionsExt;
    let served = Served::new(idle_node());
    std::fs::set_permissions(&served.socket, std::fs::Permissions::from_mode(0o660)).expect("closed");
    let folder = tempfile::tempdir().expect("folder");
    let binary = public_flowctl(folder.path());
    let arguments = [binary.to_str().expect("UTF-8"), "--socket", served.socket.to_str().expect("UTF-8"), "status"];
    let output = as_user(12_345, 12_345, None, &arguments).output().expect("setpriv runs");
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usermod -aG flowcon"));
}

#[test]
fn a_next_step_fits_the_user() {
    let folder = tempfile::tempdir().expect("folder");
    let binary = public_flowctl(folder.path());
    let binary = binary.to_str().expect("UTF-8");
    let words = |verb: &'static str| [binary, "--socket", "/nonexistent/flowcond.sock", verb];
    let text = |output: std::process::Output| {
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    for verb in ["status", "doctor"] {
        let of_root = text(std::process::Command::new(binary).args(&words(verb)[1..]).output().expect("runs"));
        assert!(!of_root.contains("sudo"), "root needs no sudo: {of_root}");
        let of_user = text(as_user(12_345, 12_345, None, &words(verb)).output().expect("setpriv runs"));
        assert!(of_user.contains("`sudo "), "{of_user}");
        assert!(verb == "status" || of_user.contains("as root"), "{of_user}");
    }
}

#[test]
fn a_user_who_may_not_see_the_jobs_is_not_told_that_there_are_none() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = Daemon::start("off", &[]);
    let folder = daemon.socket().parent().expect("a folder").to_owned();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("open to all");
    let folder = tempfile::tempdir().expect("folder");
    let binary = public_flowctl(folder.path());
    let socket = daemon.socket();
    for options in [&[][..], &["-a"], &["-o", "json"]] {
        let words = [binary.to_str().expect("UTF-8"), "--socket", socket.to_str().expect("UTF-8"), "ps"];
        let output = as_user(12_345, 12_345, None, &[&words[..], options].concat()).output().expect("setpriv runs");
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(!stdout.contains("No job is governed yet"), "{stdout}");
        assert!(stderr.contains("only your own commands are listed") && stderr.contains("sudo flowctl"), "{stderr}");
        assert!(options.contains(&"json") || stdout.contains("you may not see the jobs of others"), "{stdout}");
    }
    for options in [&["history"][..], &["history", "some", "--events"], &["history", "-o", "json"]] {
        let words = [binary.to_str().expect("UTF-8"), "--socket", socket.to_str().expect("UTF-8")];
        let output = as_user(12_345, 12_345, None, &[&words[..], options].concat()).output().expect("setpriv runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(5), 0), "{stderr}");
        assert!(stderr.contains("this user may not connect"), "{stderr}");
    }
}

/// Metrics and notices come from logs and engines.
#[test]
fn nothing_that_a_job_named_can_control_a_terminal_in_any_format() {
    const NAME: &str = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{2066}\u{200f}\u{61c}";
    let mut node = idle_node();
    node.jobs = vec![job("aa11bb22cc33dd44", NAME)];
    node.notices = vec![flowcon::model::Notice {
        level: flowcon::model::NoticeLevel::Warning,
        unix_ms: 1_700_000_000_000,
        text: NAME.to_owned(),
    }];
    let served = Served::new(node);
    served.publish(1, NAME);
    let events = ["events", "-n", "1", "--no-follow"];
    let events_as_json = [&events[..], &["-o", "json"]].concat();
    for arguments in [
        &["status"][..],
        &["ps"],
        &["ps", "-o", "json"],
        &["ps", "-o", "jsonl"],
        &["explain", "aa11"],
        &["explain", "aa11", "-o", "json"],
        &["status", "-o", "json"],
        &["metrics"],
        &events,
        &events_as_json,
    ] {
        let output = flowctl(&served, arguments).assert().success().get_output().stdout.clone();
        let text = String::from_utf8(output).expect("UTF-8");
        let is_control = |c: &char| *c != '\n' && (c.is_control() || NAME.contains(*c) && !c.is_ascii());
        assert_eq!(text.chars().find(is_control), None, "{arguments:?}: {text:?}");
        if arguments == ["ps", "-o", "jsonl"] {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["name"], NAME);
        }
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut node = idle_node();
    node.jobs = (0..400).map(|number| job(&format!("{number:016x}"), &format!("job-{number}"))).collect();
    let served = Served::new(node);
    for arguments in [&["status"][..], &["ps", "-o", "json"], &["completion", "bash"], &["status", "--watch=0.1"]] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_flowctl"))
            .args(arguments)
            .env("FLOWCON_SOCKET", &served.socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut first = [0];
        let mut stdout = child.stdout.take().expect("piped");
        stdout.read_exact(&mut first).expect("one byte");
        drop(stdout);
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn events_prints_recent_events_and_ends_with_no_follow() {
    let served = Served::new(idle_node());
    for sequence in 1..=5 {
        served.publish(sequence, &format!("moved {sequence}"));
    }
    let page = page(&served, &["events", "--no-follow", "-n", "2"]);
    assert_eq!(
        page,
        "2023-11-14 22:13:20 list     mnist-vae: moved 4\n2023-11-14 22:13:20 list     mnist-vae: moved 5\n"
    );
    let lines = flowctl(&served, &["events", "--no-follow", "-o", "jsonl"]).assert().success();
    let last = String::from_utf8_lossy(&lines.get_output().stdout).lines().last().map(str::to_owned).expect("a line");
    let event: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(event["sequence"], 5);
    assert!(event["id"].as_str().is_some_and(|id| id.ends_with("-5")), "{event}");
}

#[test]
fn completion_scripts_contain_the_commands() {
    let served = Served::new(idle_node());
    for shell in ["bash", "zsh", "fish"] {
        let script = flowctl(&served, &["completion", shell]).assert().success().get_output().stdout.clone();
        assert!(String::from_utf8_lossy(&script).contains("explain"), "{shell}");
    }
}

#[test]
fn doctor_checks_the_daemon_and_says_how_to_fix_failures() {
    let served = Served::new(busy_node());
    let check = |arguments: &[&str], name: &str| {
        let output = flowctl(&served, arguments).output().expect("ran");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let checks = report["checks"].as_array().expect("checks").clone();
        let found = checks.iter().find(|check| check["name"] == name).expect("the check").clone();
        let failed = checks.iter().any(|check| check["verdict"] == "fail");
        assert_eq!(output.status.code(), Some(i32::from(failed)), "exit code and verdicts agree");
        found
    };
    let daemon = check(&["doctor", "-o", "json"], "daemon");
    assert_eq!(daemon["verdict"], "ok", "{daemon}");
    assert!(daemon["found"].as_str().is_some_and(|found| found.contains("5 jobs")), "{daemon}");

    let elsewhere = |socket: &str| {
        let mut command = flowctl(&served, &["doctor", "-o", "json", "--socket", socket]);
        let output = command.env("DOCKER_HOST", "ssh://elsewhere").output().expect("ran");
        String::from_utf8_lossy(&output.stdout).contains("ssh://elsewhere")
    };
    assert!(!elsewhere(served.socket.to_str().expect("UTF-8")), "the daemon has its own DOCKER_HOST");
    assert!(elsewhere("/nonexistent/flowcond.sock"), "a daemon started here would use it");

    let daemon = check(&["doctor", "-o", "json", "--socket", "/nonexistent/flowcond.sock"], "daemon");
    assert_eq!(daemon["verdict"], "fail");
    assert!(daemon["mend"].as_str().is_some_and(|mend| mend.contains("flowcond")), "{daemon}");

    let file = tempfile::NamedTempFile::new().expect("file");
    let path = file.path().to_str().expect("UTF-8");
    assert_eq!(check(&["doctor", "-o", "json", "--state-dir", path], "state")["verdict"], "fail");
}

#[test]
fn config_check_names_the_file_line_and_key_of_each_error() {
    let served = Served::new(idle_node());
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("flowcond.toml");
    let path = file.to_str().expect("UTF-8");
    std::fs::write(&file, "[policy]\nname = \"fair\"\n").expect("written");
    flowctl(&served, &["config", "check", path]).assert().success();
    let shown = flowctl(&served, &["config", "show", "--config", path]).assert().success();
    assert!(String::from_utf8_lossy(&shown.get_output().stdout).contains("name = \"fair\""));

    std::fs::write(&file, "[policy]\nname = \"greedy\"\nsurprise = 1\n").expect("written");
    let refused = flowctl(&served, &["config", "check", path]).assert().code(2);
    let stderr = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    for words in [&format!("{path}:2"), "policy.name", &format!("{path}:3"), "surprise", "config keys"] {
        assert!(stderr.contains(words), "{words} is not in:\n{stderr}");
    }
    let keys = flowctl(&served, &["config", "keys", "-o", "json"]).assert().success();
    let keys: serde_json::Value = serde_json::from_slice(&keys.get_output().stdout).expect("JSON");
    assert!(keys.as_array().is_some_and(|keys| keys.len() > 10));
}

#[test]
fn events_are_piped_into_jq_one_by_one_and_end_with_it() {
    let served = Served::new(busy_node());
    let pipeline = |filter: &str| {
        let script = format!("set -o pipefail; \"$0\" --socket \"$1\" events -o jsonl | jq --unbuffered {filter}");
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &script, env!("CARGO_BIN_EXE_flowctl")]).arg(&served.socket);
        bash.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash runs")
    };
    served.publish(1, "first");
    let mut follows = pipeline("-r .text");
    let mut lines = BufReader::new(follows.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("UTF-8"), "first");
    served.publish(2, "second");
    assert_eq!(lines.next().expect("printed immediately").expect("UTF-8"), "second");
    drop(lines);
    // jq's output is closed, and then flowctl's. A process that another test forks at this moment keeps the pipe open until it execs.
    let mut numbers = 3..;
    eventually("the pipeline ends with its reader", Duration::from_secs(20), || {
        served.publish(numbers.next()?, "more");
        follows.try_wait().expect("a state")
    });

    // jq ends after one event; no other event follows.
    let began = Instant::now();
    let ended = pipeline("-rn 'input.text'").wait_with_output().expect("the pipeline ends by itself");
    assert!(!ended.stdout.is_empty());
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
