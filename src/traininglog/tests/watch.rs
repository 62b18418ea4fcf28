//! The example `watch`, as a user runs it.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.log");

/// The program that `cargo run --example watch` runs.
fn watch(arguments: &[&str]) -> Command {
    let test = std::env::current_exe().expect("a test is a program");
    let built = test.ancestors().nth(2).expect("the folder of the profile").join("examples/watch");
    assert!(built.exists(), "{} is missing; next: cargo build -p traininglog --examples", built.display());
    let mut command = Command::new(built);
    command.args(arguments);
    command
}

#[test]
fn a_log_is_read_to_its_end() {
    let output = watch(&["--once", LOG]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "val_loss 0.3991, epoch 12 of 20\n");
}

#[test]
fn a_growing_log_is_followed() {
    let log = fs::read_to_string(LOG).expect("the example's log");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("train.log");
    let (known, rest) = log.split_at(log.find("INFO Epoch 5/20").expect("an epoch"));
    fs::write(&path, known).expect("written");
    let mut program = watch(&[path.to_str().expect("text")]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(program.stdout.take().expect("its output")).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("val_loss 1.0181, epoch 4 of 20"));
    let mut file = OpenOptions::new().append(true).open(&path).expect("it exists");
    let mut line = String::new();
    for epoch in rest.lines().filter(|line| line.contains("Epoch")) {
        // An epoch takes time: without any, nothing is known of how much is left.
        thread::sleep(Duration::from_millis(5));
        // In one write: a part of a line could be printed as a change of its own.
        file.write_all(format!("{epoch}\n").as_bytes()).expect("appended");
        line = lines.next().expect("it printed the change");
    }
    assert!(line.starts_with("val_loss 0.3991, epoch 12 of 20, ") && line.ends_with(" s left"), "{line}");
    // It ends when it has nobody to print to.
    drop(lines);
    file.write_all(b"INFO Epoch 13/20  train_loss 0.2  val_loss 0.3  val_acc 0.9\n").expect("appended");
    assert!(program.wait().expect("it ended").success());
}

#[test]
fn a_missing_file_is_named() {
    let output = watch(&["/nowhere/train.log"]).output().expect("it runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("watch: /nowhere/train.log: No such file"));
}
