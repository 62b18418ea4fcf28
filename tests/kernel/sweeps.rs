//! A sweep of real trainings on the real kernel: linear regression by gradient descent, at several learning rates. Needs root.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(240);

const EPOCHS: u32 = 24;

/// Prints a loss after each epoch of a quarter of a CPU-second or so. The larger the rate, the sooner it falls.
const TRAIN: &str = r#"
BEGIN {
    srand(1)
    for (i = 0; i < 200; i++) { x[i] = 2 * rand() - 1; y[i] = 3 * x[i] + 1 + 0.1 * rand() }
    for (epoch = 1; epoch <= epochs; epoch++) {
        for (pass = 0; pass < 10000; pass++) {
            loss = 0; slope = 0; shift = 0
            for (i = 0; i < 200; i++) {
                error = a * x[i] + b - y[i]
                loss += error * error / 200; slope += error * x[i] / 200; shift += error / 200
            }
            a -= rate / 10000 * slope; b -= rate / 10000 * shift
        }
        printf "epoch %d/%d loss %.6f\n", epoch, epochs, loss
        fflush()
    }
}
"#;

/// All trials on one processor, so that they compete on any machine.
fn start(daemon: &Daemon, name: &str, script: &str, rate: f64) -> Job {
    let (epochs, rate) = (format!("epochs={EPOCHS}"), format!("rate={rate}"));
    Job::start(daemon, name, &[], &["taskset", "-c", "0", "awk", "-v", &epochs, "-v", &rate, "-f", script])
}

/// The trials of the sweep, the best first.
fn trials(daemon: &Daemon, name: &str) -> Vec<Value> {
    let sweeps: Value = serde_json::from_str(&daemon.stdout_of(&["sweep", name, "-o", "json"])).unwrap();
    sweeps[0]["trials"].as_array().expect("a list").clone()
}

#[test]
fn the_best_trial_is_complete_first_and_the_others_keep_the_floor() {
    let daemon = Daemon::start("off", &["policy.interval=1s", "policy.max-interval=2s"]);
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("train.awk");
    fs::write(&script, TRAIN).unwrap();
    let prefix = format!("sweep-{}-rate", std::process::id());
    let name = |number: usize| format!("{prefix}-{number}");
    // The best one is in the middle, so that no order of starts or names finds it.
    let rates = [0.002, 0.01, 0.05, 0.5, 0.005, 0.02, 0.003, 0.015, 0.03, 0.007, 0.04, 0.001];
    let mut jobs: Vec<Job> = rates
        .iter()
        .enumerate()
        .map(|(number, rate)| start(&daemon, &name(number), script.to_str().unwrap(), *rate))
        .collect();
    let best = name(3);

    eventually("the best one is promoted and has most of the processor", WITHIN, || {
        let jobs = daemon.jobs();
        let share = |job: &Value| job["share"].as_f64().unwrap_or(0.0);
        let found = jobs.iter().find(|job| job["name"] == best.as_str())?;
        let is_promoted = found["rule"] == "trial" && found["why"].as_str()?.contains("promoted");
        (is_promoted && share(found) > 0.6 * jobs.iter().map(share).sum::<f64>()).then_some(())
    });
    // On a busy machine the last of them may print its first values later.
    eventually("it is explained as one of all", WITHIN, || {
        daemon.stdout_of(&["explain", &best]).contains("one of 12 trials of the same training").then_some(())
    });
    let page = daemon.stdout_of(&["sweep", &name(0), "-o", "wide"]);
    assert!(page.contains(&format!("sweep {prefix}: 12 trials")) && page.contains("loss, smaller is better"), "{page}");
    assert!(page.contains("rate=0.5") && !page.contains("epochs="), "only what differs: {page}");
    let grouped = daemon.stdout_of(&["status", "--group", "-o", "wide"]);
    assert!(grouped.contains(&format!("{prefix} (12 trials)")), "{grouped}");

    let trials = eventually("the best trial is complete", WITHIN, || {
        let trials = trials(&daemon, &best);
        let has_ended = |trial: &Value| trial["name"] == best.as_str() && !trial["ended"].is_null();
        trials.iter().any(has_ended).then_some(trials)
    });
    assert_eq!(trials[0]["name"], best.as_str(), "the smallest loss comes first");
    let others = || trials.iter().filter(|trial| trial["name"] != best.as_str());
    assert!(others().all(|trial| trial["ended"].is_null()), "the others are not: {trials:#?}");
    let done: f64 = others().filter_map(|trial| trial["progress"]["fraction"].as_f64()).sum();
    assert!(done < 0.6 * 11.0, "under plain sharing all would be: {done}");
    // One of twelve had up to twelve times its equal share, and no kernel kept another value than ours.
    assert!(daemon.jobs().iter().all(|job| job["hold"].is_null()), "{:#?}", daemon.jobs());
    assert!(jobs.iter_mut().all(|job| job.wait().success()), "nobody is stopped");
}

#[test]
fn a_group_is_named_by_a_label_and_none_is_a_single_job() {
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let name = |kind: &str| format!("group-{}-{kind}", std::process::id());
    let script = |word: &str| format!("echo {word}; sleep 60");
    let labelled = |kind: &str, labels: &[&str], word: &str| {
        Job::start(&daemon, &name(kind), labels, &["sh", "-c", &script(word)])
    };
    let mut by_option = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    by_option.arg("--socket").arg(daemon.socket()).args(["run", "--name", &name("a"), "--group", "words"]);
    by_option.args(["--", "sh", "-c", &script("one")]);
    let _jobs = [
        Job::spawn(by_option),
        labelled("b", &["flowcon.group=words"], "two"),
        labelled("c", &["flowcon.group=none"], "three"),
        labelled("d", &[], "three"),
    ];
    eventually("both are a sweep", Duration::from_secs(30), || (daemon.jobs().len() == 4).then_some(()));
    let names = eventually("the snapshot has the sweep", Duration::from_secs(30), || {
        let names: Vec<String> = trials_if_any(&daemon, "words")?;
        (names.len() == 2).then_some(names)
    });
    assert!(names.contains(&name("a")) && names.contains(&name("b")), "{names:?}");
    let gone = daemon.flowctl(&["sweep", &name("c")]);
    let stderr = String::from_utf8_lossy(&gone.stderr);
    assert!(gone.status.code() == Some(4) && stderr.contains("flowcon.group"), "{stderr}");
}

/// The names of the trials of a sweep, if it exists.
fn trials_if_any(daemon: &Daemon, name: &str) -> Option<Vec<String>> {
    let output = daemon.flowctl(&["sweep", name, "-o", "json"]);
    let sweeps: Value = serde_json::from_slice(&output.stdout).ok()?;
    let trials = sweeps[0]["trials"].as_array()?;
    Some(trials.iter().filter_map(|trial| Some(trial["name"].as_str()?.to_owned())).collect())
}
