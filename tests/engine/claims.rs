//! Tests of claimed totals, read from running processes of scopes and Docker containers, their environment and their configuration
//! files. Needs root.

use crate::support::daemon::{Daemon, eventually, eventually_or};
use crate::support::engine::{Engine, RunSpec};
use crate::support::job::Job;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);

/// A script that prints twelve epochs without a total, and continues to the sixtieth once the file `go` exists.
const TRAINING: &str = "i=0; l=90000; while [ $i -lt 60 ]; do i=$((i+1)); l=$((l*9/10+7)); \
    echo \"epoch $i loss: $((l/100)).$((l%100/10))$((l%10))\"; \
    [ $i -ne 12 ] || while [ ! -e go ]; do sleep 0.2; done; sleep 0.1; done; while [ ! -e end ]; do sleep 0.2; done\n";

/// A folder with the training, readable by all users.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("train.sh"), TRAINING).unwrap();
    folder
}

/// Runs a command with `flowctl run` in this folder.
fn run(daemon: &Daemon, folder: &Path, name: &str, words: &[&str]) -> Job {
    let mut command = Job::command(daemon, name, &[], words);
    command.current_dir(folder).env("DB_PASSWORD", "swordfish-1").env("SWORDFISH_4_EPOCHS", "3");
    Job::spawn(command)
}

fn reading(daemon: &Daemon, name: &str) -> Option<Value> {
    let output = daemon.flowctl(&["explain", name, "-o", "json"]);
    let detail: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(detail["explanation"]["reading"].clone())
}

/// Waits until the job's claim has this total, key and origin.
fn claims(daemon: &Daemon, name: &str, total: f64, key: &str, origin: &str) -> Value {
    let expected =
        |claim: &Value| claim["total"].as_f64() == Some(total) && claim["key"] == key && claim["origin"] == origin;
    let current = || reading(daemon, name).map_or(Value::Null, |reading| reading["claim"].clone());
    let what = format!("{name} claims {total} by {key} ({origin})");
    let diagnostics = || format!("now: {}\n{}", current(), daemon.log());
    eventually_or(&what, SOON, || Some(current()).filter(expected), diagnostics)
}

/// The content of all files in a folder.
fn all_bytes(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes.extend(all_bytes(&path));
        } else if path.is_file() {
            bytes.extend(fs::read(&path).unwrap());
        }
    }
    bytes
}

#[test]
fn a_claim_is_shown_until_the_job_exceeds_it_and_no_other_part_of_the_command_is() {
    let (daemon, folder) = (Daemon::start("off", &["policy.interval=1s"]), folder());
    let recorded = folder.path().join("ticks.jsonl");
    let mut recording = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    recording.arg("--socket").arg(daemon.socket()).args(["record", recorded.to_str().unwrap()]);
    let mut recording = Job::spawn(recording);
    let is_begun = || fs::metadata(&recorded).is_ok_and(|file| file.len() > 0).then_some(());
    eventually("it records", SOON, is_begun);
    let words = [
        "sh",
        "train.sh",
        "--api-key",
        "swordfish-2",
        "--epochs",
        "40",
        "swordfish_3.max_epochs=40",
        "--token=swordfish-5",
    ];
    let _scope = run(&daemon, folder.path(), "claims-shown", &words);

    let claimed = || claims(&daemon, "claims-shown", 40.0, "--epochs", "command");
    claimed();
    let job =
        daemon.wait_for_job("claims-shown", "is at its twelfth epoch", SOON, |job| job["progress"]["current"] == 12.0);
    let claim = claimed(); // it has a unit once the log has been read
    assert!(claim["unit"] == "epoch" && claim["confidence"].as_f64() > Some(0.9), "{claim}");
    assert_eq!((&job["progress"]["total"], &job["progress"]["claimed_total"]), (&Value::Null, &40.0.into()));
    let status = daemon.stdout_of(&["status"]);
    assert!(status.contains("epoch 12/~40"), "{status}");
    let page = daemon.stdout_of(&["explain", "claims-shown"]);
    assert!(
        page.contains("40 epochs, from `--epochs` of its command") && page.contains("epoch 12.00 of ~40"),
        "{page}"
    );

    fs::write(folder.path().join("go"), "").unwrap();
    daemon.wait_for_job("claims-shown", "exceeds its claim", SOON, |job| {
        job["progress"]["current"].as_f64() > Some(40.0)
    });
    let read = reading(&daemon, "claims-shown").unwrap();
    assert_eq!(read["claim"], Value::Null, "{read}");
    let status = daemon.stdout_of(&["status"]);
    assert!(status.contains("epoch ") && !status.contains("/~"), "{status}");

    let history = eventually("the history has it", SOON, || {
        let output = daemon.flowctl(&["history", "claims-shown", "-o", "json"]);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    });
    let output = [
        status,
        page,
        daemon.stdout_of(&["explain", "claims-shown", "-o", "json"]),
        daemon.stdout_of(&["status", "-o", "json"]),
        history,
        daemon.stdout_of(&["history", "--events", "claims-shown", "-o", "jsonl"]),
        daemon.stdout_of(&["metrics"]),
        daemon.log(),
    ];
    recording.end("INT");
    let ticks = fs::read_to_string(&recorded).unwrap();
    assert!(ticks.contains("\"--epochs\""), "the claim itself is in the recording");
    let replayed = Command::new(env!("CARGO_BIN_EXE_flowsim")).arg("replay").arg(&recorded).output().unwrap();
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    for text in output.iter().chain([&ticks]) {
        assert!(!text.to_lowercase().contains("swordfish"), "{text}");
    }
    let mut daemon = daemon;
    daemon.end("TERM");
    let state = String::from_utf8_lossy(&all_bytes(&daemon.state_dir())).to_lowercase();
    assert!(state.contains("claims-shown") && !state.contains("swordfish"), "the journal and the history");
}

#[test]
fn claims_are_read_however_the_training_was_started() {
    let (daemon, folder) = (Daemon::start("off", &["policy.interval=1s"]), folder());
    fs::write(folder.path().join("conf.yaml"), "trainer:\n  max_epochs: 45\n").unwrap();
    let jobs: [(&str, &[&str], f64, &str, &str); 6] = [
        ("claims-exec", &["sh", "-c", "N=41; exec sh train.sh --epochs $N"], 41.0, "--epochs", "command"),
        ("claims-fork", &["sh", "-c", "N=42; sh train.sh --num-epochs $N; true"], 42.0, "--num-epochs", "command"),
        ("claims-env", &["sh", "-c", "N=43; export EPOCHS=$N; exec sh train.sh"], 43.0, "EPOCHS", "environment"),
        (
            "claims-late",
            &["sh", "-c", "sleep 4; N=44; exec sh train.sh --max_epochs $N"],
            44.0,
            "--max_epochs",
            "command",
        ),
        ("claims-file", &["sh", "train.sh", "--config", "conf.yaml"], 45.0, "trainer.max_epochs", "config-file"),
        // The daemon could read the file, but the user could then make it read files of others.
        (
            "claims-user",
            &[
                "setpriv",
                "--reuid=65534",
                "--clear-groups",
                "sh",
                "-c",
                "N=46; EPOCHS=$N exec sh train.sh --config=conf.yaml",
            ],
            46.0,
            "EPOCHS",
            "environment",
        ),
    ];
    let _scopes: Vec<Job> = jobs.iter().map(|(name, words, ..)| run(&daemon, folder.path(), name, words)).collect();
    for (name, _, total, key, origin) in jobs {
        claims(&daemon, name, total, key, origin);
    }
    // The claims must not change later.
    std::thread::sleep(Duration::from_secs(12));
    for (name, _, total, key, origin) in jobs {
        claims(&daemon, name, total, key, origin);
    }
}

#[test]
fn files_are_read_only_inside_the_container() {
    let (engine, folder) = (Engine::start(), folder());
    let daemon = Daemon::start(&engine.address(), &["policy.interval=1s"]);
    let work = folder.path();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("host.yaml"), "max_epochs: 99\n").unwrap();
    fs::write(work.join("a.json"), "{\"training\": {\"num_epochs\": 51}, \"api_key\": \"swordfish\"}").unwrap();
    fs::write(work.join("b.toml"), "[trainer]\nmax_epochs = 52\nwarmup_epochs = 3\n").unwrap();
    fs::write(work.join("c.yaml"), "seed: 7\ntrain:\n  epochs: 53\n  lr: 1e-3\n").unwrap();
    fs::create_dir(work.join("inner")).unwrap();
    fs::write(work.join("inner/inside.yaml"), "n_epochs: 54\n").unwrap();
    symlink("/work/inner/inside.yaml", work.join("inside.yaml")).unwrap();
    symlink(outside.path().join("host.yaml"), work.join("outside.yaml")).unwrap();
    let fifo = work.join("fifo.yaml");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::write(work.join("large.yaml"), format!("max_epochs: 98\n{}", "#\n".repeat(200_000))).unwrap();
    fs::write(work.join("closed.yaml"), "max_epochs: 97\n").unwrap();
    fs::set_permissions(work.join("closed.yaml"), fs::Permissions::from_mode(0o600)).unwrap();

    let mount = format!("{}:/work", work.display());
    let options = ["--volume", &mount, "--workdir", "/work", "--env", "NUM_EPOCHS=60"];
    let of_user: Vec<&str> = options.iter().copied().chain(["--user", "65534"]).collect();
    let jobs: [(&str, &str, f64, &str, &str); 8] = [
        ("json", "a.json", 51.0, "training.num_epochs", "config-file"),
        ("toml", "/work/b.toml", 52.0, "trainer.max_epochs", "config-file"),
        ("yaml", "inner/../c.yaml", 53.0, "train.epochs", "config-file"),
        ("inside", "inside.yaml", 54.0, "n_epochs", "config-file"),
        ("outside", "outside.yaml", 60.0, "NUM_EPOCHS", "environment"),
        ("fifo", "fifo.yaml", 60.0, "NUM_EPOCHS", "environment"),
        ("large", "large.yaml", 60.0, "NUM_EPOCHS", "environment"),
        ("closed", "closed.yaml", 60.0, "NUM_EPOCHS", "environment"),
    ];
    for (name, file, ..) in jobs {
        let script = format!("exec sh /work/train.sh --config {file}");
        let options = if name == "closed" { &of_user[..] } else { &options[..] };
        engine.run(RunSpec { name, script: &script, labels: &["flowcon.enable=true"], options });
    }
    for (name, _, total, key, origin) in jobs {
        claims(&daemon, name, total, key, origin);
    }
    eventually("all jobs are at their twelfth epoch", SOON, || {
        let counted =
            jobs.iter().filter(|(name, ..)| daemon.job(name).is_some_and(|job| job["progress"]["current"] == 12.0));
        (counted.count() == jobs.len()).then_some(())
    });
    for (name, _, total, key, origin) in jobs {
        claims(&daemon, name, total, key, origin);
    }
    assert!(!daemon.log().contains("swordfish"), "{}", daemon.log());
    fs::write(work.join("end"), "").unwrap();
}
