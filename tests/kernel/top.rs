//! Tests of `flowctl top` on a real pseudo-terminal, with a real daemon and a real job: keys, silence, signals, and the restored
//! terminal. Needs root, like the daemon.

use crate::pty::{Pty, Start};
use crate::served::{Served, busy_node};
use crate::support::daemon::Daemon;
use crate::support::job::Job;
use assert_cmd::Command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

/// Starts a training without an engine, under `flowctl run`.
fn train(daemon: &Daemon, name: &str) -> Job {
    // Ends on SIGTERM after its `sleep`, so that nothing is left in the cgroup.
    let script = "trap 'exit 0' TERM; for epoch in $(seq 1 9000); do echo Epoch $epoch/9000 - loss: 0.$((99999 - epoch)); sleep 0.2; done";
    let job = Job::start(daemon, name, &[], &["sh", "-c", script]);
    daemon.wait_for_job(name, "is governed and read", SOON, |job| job["metric"]["value"].is_number());
    job
}

/// Whether a job has this weight in the kernel, or one so close to it that flowcon does not write the difference.
fn has_weight(job: &Value, planned: f64, difference: f64) -> bool {
    job["cpu_weight"].as_f64().is_some_and(|weight| (weight - planned).abs() <= difference)
}

fn name(test: &str) -> String {
    format!("top-{}-{test}", std::process::id() % 10_000)
}

fn top(socket: PathBuf, arguments: &[&str]) -> Pty {
    Pty::start(&Start { socket, arguments, rows: 24, columns: 80, environment: &[] })
}

fn assert_restored(pty: &Pty, code: i32) {
    let (ended, before, after) = pty.end();
    assert_eq!(ended, code, "exit code");
    assert_eq!(before, after, "the terminal's settings");
    pty.eventually("the normal screen and the cursor", |_| pty.is_taken() == (false, false));
}

#[test]
fn keys_sort_filter_release_and_govern_and_q_restores_the_terminal() {
    let daemon = Daemon::start("off", &["policy.interval=2s"]);
    let name = name("keys");
    let _job = train(&daemon, &name);
    let mut pty = top(daemon.socket(), &["-d", "0.2"]);
    pty.wait_for(&name);
    assert_eq!(pty.is_taken(), (true, true));

    pty.press_and_see("p", "is released");
    let held = daemon.wait_for_job(&name, "is released", SOON, |job| job["hold"]["kind"] == "released");
    assert_eq!(held["name"], name);
    pty.eventually("the flag of a released job", |screen| screen.lines().any(|line| line.starts_with(">R")));
    pty.press("p");
    daemon.wait_for_job(&name, "is governed again", SOON, |job| job["hold"]["kind"] != "released");

    pty.press("/nothing-like-that\r");
    pty.wait_for("no job matches");
    pty.press("\x1b");
    pty.eventually("all rows again", |screen| !screen.contains("filter") && screen.contains(&name));
    pty.press("?");
    pty.wait_for("seconds between updates");
    pty.press("x");
    pty.press("s");
    pty.wait_for("Sort by");
    pty.press("\x1b[H\r");
    pty.wait_for("by name");

    pty.press("\r");
    let detail = pty.eventually("the detail with curve, lines and events", |screen| {
        screen.contains("loss ")
            && screen.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c))
            && screen.matches("/9000 - loss").count() > 1
            && screen.contains("decided")
    });
    assert!(detail.contains("share") && detail.contains("progress"), "{detail}");
    pty.press("q");
    pty.wait_for("by name");
    pty.press("q");
    assert_restored(&pty, 0);
}

#[test]
fn with_a_silent_daemon_keys_still_work_and_a_restarted_one_is_reconnected() {
    let mut daemon = Daemon::start("off", &[]);
    let mut pty = top(daemon.socket(), &["-d", "0.2"]);
    pty.wait_for("No job is governed yet");
    daemon.signal("STOP");
    // Drawn once a second: a busy machine may skip a number.
    pty.eventually("the time without a reply", |screen| {
        (3..=180).any(|seconds| screen.contains(&format!("no reply for {seconds} s")))
    });
    pty.press("?");
    pty.wait_for("seconds between updates");
    pty.press("q");
    daemon.signal("CONT");
    pty.eventually("a reply again", |screen| !screen.contains("no reply"));

    daemon.end("KILL");
    pty.wait_for("no daemon answers");
    daemon.boot();
    pty.eventually("the new daemon", |screen| !screen.contains("no reply") && screen.contains("No job is governed"));
    pty.press("\x03");
    assert_restored(&pty, 0);
}

/// Runs `flowctl top` in a script, as a job of a shell with job control. The shell prints how often the job was stopped and by which signal,
/// and continues it after Enter.
fn top_in_a_shell(folder: &Path, socket: &Path) -> Pty {
    let (script, shell) = (folder.join("script"), folder.join("shell"));
    let (flowctl, pid) = (env!("CARGO_BIN_EXE_flowctl"), folder.join("pid"));
    let top =
        format!("sh -c 'echo $$ >{}; exec {flowctl} --socket {} top'\nexit $?\n", pid.display(), socket.display());
    std::fs::write(&script, top).unwrap();
    let job_control = format!(
        "set -m\nsh {}\ncode=$?\nstops=0\nwhile [ $code -gt 128 ]; do\nstops=$((stops + 1))\n\
         echo \"stop $stops by $((code - 128))\"\nread -r _\nfg\ncode=$?\ndone\nexit $code\n",
        script.display()
    );
    std::fs::write(&shell, job_control).unwrap();
    Pty::run(&format!("sh {}", shell.display()), 24, 80, &[])
}

#[test]
fn control_z_and_tstp_return_to_the_shell_and_the_continued_screen_is_redrawn() {
    let (served, folder) = (Served::new(busy_node()), tempfile::tempdir().unwrap());
    let mut pty = top_in_a_shell(folder.path(), &served.socket);
    pty.wait_for("mnist-vae");
    pty.press("\x1a");
    pty.wait_for("stop 1 by 19");
    assert_eq!(pty.is_taken(), (false, false));
    pty.press("\r");
    pty.wait_for("mnist-vae");
    assert_eq!(pty.is_taken(), (true, true));
    assert!(pty.is_coloured());

    let flowctl = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    Command::new("kill").args(["-TSTP", flowctl.trim()]).assert().success();
    pty.wait_for("stop 2 by 19");
    pty.press("\r");
    pty.wait_for("mnist-vae");
    pty.press("q");
    assert_restored(&pty, 0);
}

#[test]
fn without_a_shell_control_z_shows_a_message_and_signals_restore_the_terminal() {
    let served = Served::new(busy_node());
    let mut pty = top(served.socket.clone(), &[]);
    pty.wait_for("mnist-vae");
    pty.press_and_see("\x1a", "no shell to return to");
    assert_eq!(pty.is_taken(), (true, true));
    assert_ne!(pty.state(), 'T');
    pty.signal("TERM");
    assert_restored(&pty, 0);
}

#[test]
fn a_hang_up_restores_the_terminal() {
    let served = Served::new(busy_node());
    for signal in ["HUP", "INT"] {
        let pty = top(served.socket.clone(), &[]);
        pty.wait_for("mnist-vae");
        pty.signal(signal);
        assert_restored(&pty, 0);
    }
}

#[test]
fn many_resizes_down_to_one_cell_leave_a_complete_screen_and_restore_the_terminal() {
    let served = Served::new(busy_node());
    let mut pty = top(served.socket.clone(), &["-d", "0.1"]);
    pty.wait_for("mnist-vae");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for round in 0..200u16 {
        let (rows, columns) = match round % 20 {
            0 => (1, 1),
            10 => (500, 500),
            _ => (random.random_range(1..60), random.random_range(1..200)),
        };
        pty.resize(rows, columns);
        // Some sizes are drawn, some are skipped, with keys in between. An even number of them closes the help again; Esc might still wait
        // to be read when `q` comes, and both would be one key.
        std::thread::sleep(Duration::from_millis(u64::from(round % 8)));
        if round % 10 == 5 {
            pty.press("?");
        }
    }
    pty.resize(24, 80);
    pty.eventually("the whole list", |screen| {
        screen.contains("mnist-vae") && screen.contains("Quit") && !screen.contains("seconds between updates")
    });
    assert_eq!(pty.is_taken(), (true, true));
    pty.resize(1, 1);
    pty.press("q");
    let (code, before, after) = pty.end();
    let settings = |stty: &str| stty.split_once("line =").map(|(_, rest)| rest.to_owned());
    assert_eq!((code, settings(&before)), (0, settings(&after)), "only the size has changed");
    pty.eventually("the normal screen and the cursor", |_| pty.is_taken() == (false, false));
}

#[test]
fn an_ascii_terminal_gets_only_ascii() {
    let served = Served::new(busy_node());
    let seen = |arguments: &[&str], environment: &[(&str, &str)]| {
        let start = Start { socket: served.socket.clone(), arguments, rows: 24, columns: 80, environment };
        let mut pty = Pty::start(&start);
        let screen = pty.eventually("the list", |screen| screen.contains("mnist-vae") && screen.contains("Quit"));
        pty.press("q");
        assert_restored(&pty, 0);
        screen
    };
    assert!(!seen(&[], &[]).is_ascii());
    assert!(seen(&[], &[("LC_ALL", "C")]).is_ascii());
    assert!(seen(&[], &[("TERM", "linux")]).is_ascii());
    assert!(seen(&["--ascii"], &[]).is_ascii());
}

#[test]
fn it_exits_after_the_given_number_of_updates() {
    let served = Served::new(busy_node());
    let pty = top(served.socket.clone(), &["-d", "0.1", "-n", "3"]);
    assert_restored(&pty, 0);
}

#[test]
fn names_and_lines_from_containers_cannot_control_the_terminal_and_no_color_is_respected() {
    let served = Served::new(busy_node());
    let start = Start {
        socket: served.socket.clone(),
        arguments: &["--sort", "name"],
        rows: 60,
        columns: 200,
        environment: &[("NO_COLOR", "1")],
    };
    let mut pty = Pty::start(&start);
    let screen = pty.wait_for("模型训练-大型语言模");
    assert!(screen.contains("resnet50-cifar-basel"), "{screen}");
    assert!(!pty.is_coloured());
    pty.press("q");
    assert_restored(&pty, 0);
}

fn flowctl(served: &Served, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    command.env("FLOWCON_SOCKET", &served.socket).env("COLUMNS", "80").args(arguments);
    command
}

#[test]
fn without_a_usable_terminal_the_error_names_alternatives() {
    let served = Served::new(busy_node());
    let refused = flowctl(&served, &["top"]).assert().code(2);
    let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(text.contains("not a terminal") && text.contains("top -b") && text.contains("status --watch"), "{text}");
    flowctl(&served, &["top", "-o", "json"]).assert().code(2);

    let start = Start {
        socket: served.socket.clone(),
        arguments: &[],
        rows: 24,
        columns: 80,
        environment: &[("TERM", "dumb")],
    };
    let pty = Pty::start(&start);
    assert_restored(&pty, 2);
    pty.wait_for("TERM=dumb");

    let nobody = Start { socket: "/nonexistent/flowcond.sock".into(), environment: &[], ..start };
    assert_restored(&Pty::start(&nobody), 3);
}

#[test]
fn a_batch_is_plain_text_with_every_job() {
    let served = Served::new(busy_node());
    let printed = flowctl(&served, &["top", "-b", "-n", "2", "-d", "0.1", "--sort", "name"]).assert().success();
    let text = String::from_utf8(printed.get_output().stdout.clone()).unwrap();
    assert!(!text.contains('\x1b'), "{text}");
    assert_eq!(text.matches("mnist-vae ").count(), 2, "{text}");
    assert!(text.lines().all(|line| unicode_width::UnicodeWidthStr::width(line) <= 80), "{text}");
    let narrowed = flowctl(&served, &["top", "-b", "-n", "1", "-f", "perplexity"]).assert().success();
    let text = String::from_utf8(narrowed.get_output().stdout.clone()).unwrap();
    assert!(text.contains("lstm") && !text.contains("mnist-vae "), "{text}");
}

#[test]
fn a_pinned_share_is_enforced_in_the_kernel_until_it_is_unpinned_or_the_daemon_ends() {
    let mut daemon = Daemon::start("off", &["policy.interval=2s"]);
    let (name, other) = (name("pin"), name("second"));
    let _jobs = (train(&daemon, &name), train(&daemon, &other));
    let mut pty = top(daemon.socket(), &["-d", "0.2", "--filter", &name]);
    pty.eventually("the job", |screen| screen.lines().any(|line| line.starts_with('>')));
    pty.press_and_see("x20%\r", "is pinned to 20 %");
    // The weights of two jobs add up to 200.
    daemon.wait_for_job(&name, "has a fifth of the weight", SOON, |job| has_weight(job, 40.0, 1.0));
    daemon.wait_for_job(&other, "has the rest", SOON, |job| has_weight(job, 160.0, 2.0));
    pty.eventually("the flag of a pinned job", |screen| screen.lines().any(|line| line.starts_with(">=")));
    let text = daemon.stdout_of(&["explain", &name]);
    assert!(text.contains("pinned") && text.contains("20% of the node") && text.contains("flowctl unpin"), "{text}");

    daemon.stdout_of(&["pin", &other]);
    daemon.wait_for_job(&other, "is pinned to its current share", SOON, |job| {
        job["pinned_share"].as_f64().is_some_and(|pin| (pin - 0.8).abs() < 0.01)
    });
    daemon.stdout_of(&["pin", &other, "--share", "100%"]);
    daemon.wait_for_job(&other, "shares the node in proportion to both pins", SOON, |job| has_weight(job, 167.0, 2.0));

    pty.press_and_see("x", "is no longer pinned");
    daemon.stdout_of(&["unpin", &other]);
    daemon.wait_for_job(&name, "is no longer pinned", SOON, |job| job["pinned_share"].is_null());
    assert_eq!(daemon.flowctl(&["unpin", &other]).status.code(), Some(6), "a job that is not pinned");
    daemon.stdout_of(&["pin", &name, "--share", "0.2"]);
    daemon.end("TERM");
    daemon.boot();
    let found = daemon.wait_for_job(&name, "is found again", SOON, |_| true);
    assert!(found["pinned_share"].is_null(), "{found}");
    daemon.stdout_of(&["policy", "fair"]);
    assert_eq!(daemon.flowctl(&["pin", &name]).status.code(), Some(6), "a policy that changes no limits");
    pty.press("q");
    assert_restored(&pty, 0);
}
