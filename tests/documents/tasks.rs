//! Tests that the task pages of the documentation site do what they say: commands that `docs.rs` does not run for another text, and names
//! that the pages use.

use super::docs::{GOVERNED, Machine, SOON, json};
use crate::support::daemon::eventually;
use crate::support::engine::{GROWING, IMAGE, RunSpec};
use regex::Regex;

fn page(name: &str) -> String {
    crate::texts::read(&crate::texts::root().join("integration/site/src/tasks").join(name))
}

/// The names of the columns of `flowctl status` in a text.
fn header(text: &str) -> Vec<&str> {
    text.lines()
        .find(|line| line.starts_with("NAME "))
        .map(|line| line.split_whitespace().collect())
        .unwrap_or_default()
}

#[test]
fn a_command_is_preferred_by_its_labels() {
    let machine = Machine::start(&[]);
    let _weighty = machine.spawn("flowctl run --label flowcon.weight=2 -- python train.py", &[]);
    let _bounded = machine.spawn("flowctl run --label flowcon.min-share=25% -- python train.py", &[]);
    let _threads = machine.spawn("flowctl run --threads auto -- python train.py", &[]);
    eventually("all are governed", SOON, || {
        let jobs = machine.daemon.jobs();
        let has_bound = jobs.iter().any(|job| job["min_share"] == 0.25);
        let weighs_two = |job: &serde_json::Value| machine.explained(job["name"].as_str().unwrap())["weight"] == 2.0;
        (jobs.len() == 3 && has_bound && jobs.iter().any(weighs_two)).then_some(())
    });
}

#[test]
fn the_machine_is_divided_between_users() {
    let rules = "users.rules=image nothing/* = bob, image * = carol";
    let machine = Machine::start(&["policy.fair-between=users", rules]);
    machine.engine.run(RunSpec { name: "ruled", labels: &[GOVERNED], script: GROWING, ..RunSpec::default() });
    machine.daemon.wait_for_job("ruled", "is carol's by its image", SOON, |job| job["user"] == "carol");
    let _one = machine.spawn(
        "docker run --label flowcon.enable=true --label flowcon.user=alice IMAGE python train.py",
        &[("IMAGE", &format!("--name one {IMAGE}")), ("python train.py", "sleep 600")],
    );
    let _other = machine.spawn("flowctl run --label flowcon.weight=2 -- python train.py", &[]);
    machine.daemon.wait_for_job("one", "is alice's", SOON, |job| job["user"] == "alice" && job["share"].is_number());
    let explained = machine.run_ok("flowctl explain JOB", &[("JOB", "one")]);
    assert!(explained.contains("alice's part"), "{explained}");
    let users = machine.run_ok("flowctl users", &[]);
    assert!(users.contains("divided between users") && users.contains("alice"), "{users}");
    let wide = machine.run_ok("flowctl ps -o wide", &[]);
    assert!(wide.contains("USER") && wide.contains("alice"), "{wide}");
}

#[test]
fn trials_of_a_sweep_run_two_at_a_time_or_all_together() {
    let machine = Machine::start(&[]);
    let names = || {
        let mut names: Vec<_> =
            machine.daemon.jobs().iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    };
    let two_at_a_time = machine.spawn(
        "printf '%s\\n' 0.1 0.03 0.01 | xargs -P 2 -I RATE flowctl run --name rate-RATE -- python train.py --lr RATE",
        &[],
    );
    eventually("two of them run", SOON, || (names() == ["rate-0.03", "rate-0.1"]).then_some(()));
    drop(two_at_a_time);
    eventually("they have ended", SOON, || names().is_empty().then_some(()));
    machine.run_ok(
        "for rate in 0.1 0.03 0.01; do flowctl run -d --name rate-$rate -- python train.py --lr $rate; done",
        &[],
    );
    eventually("all of them run", SOON, || (names() == ["rate-0.01", "rate-0.03", "rate-0.1"]).then_some(()));
    let sweep = eventually("they are one sweep", SOON, || {
        let page = machine.run_ok("flowctl sweep", &[]);
        page.contains("sweep rate: 3 trials (3 run").then_some(page)
    });
    assert!(sweep.contains("lr=0.03"), "{sweep}");
    assert!(machine.run_ok("flowctl status --group", &[]).contains("rate (3 tri"), "it may be cut");
    let past = eventually("the history has the sweep", SOON, || {
        let page = machine.run_any("flowctl history --group rate", &[]);
        (page.matches("rate-0.").count() >= 3).then_some(page)
    });
    assert_eq!(
        machine.run_ok("flowctl history --group NAME", &[("NAME", "rate-0.03")]).lines().count(),
        past.lines().count()
    );
    let quality = machine.run_ok("flowctl policy quality", &[]);
    assert_eq!(json(&machine.run_ok("flowctl status -o json", &[]))["node"]["policy"]["objective"], 0.0, "{quality}");
}

#[test]
fn a_job_is_only_watched_then_governed_pinned_restored_and_stopped() {
    let mut machine = Machine::start(&[]);
    let options = &["--cpu-shares", "700"];
    let one = machine.engine.run(RunSpec { name: "one", labels: &[GOVERNED], options, script: GROWING });
    let original = machine.engine.cpu_weight(&one);
    machine.run_ok("flowctl policy fair", &[]);
    machine.daemon.wait_for_job("one", "is watched", SOON, |job| job["rule"] == "observe-only");
    let status = machine.run_ok("flowctl status", &[]);
    let page_of_watching = page("watch.md");
    assert!(!header(&status).is_empty());
    assert_eq!(header(&status), header(&page_of_watching));
    assert!(page_of_watching.contains("policy only observes") && status.contains("policy only observes"), "{status}");
    machine.run_ok("flowctl policy balanced", &[]);
    machine
        .daemon
        .wait_for_job("one", "is governed", SOON, |job| job["rule"].is_string() && job["rule"] != "observe-only");
    machine.run_ok("flowctl pin JOB 40%", &[("JOB", "one")]);
    machine.wait_for_weight("it is pinned", &one, |weight| weight != original);
    let status = machine.run_ok("flowctl status", &[]);
    assert!(page("prefer.md").contains("“pinned”") && status.contains("pinned"), "{status}");
    machine.run_until_ok("flowctl restore", &[]);
    let shares = machine.run_ok("docker inspect -f \"{{.HostConfig.CpuShares}}\" NAME", &[("NAME", "one")]);
    assert_eq!((shares.trim(), machine.engine.cpu_weight(&one)), ("700", original), "as it was started");
    machine.daemon.wait_for_job("one", "is released", SOON, |job| job["hold"]["kind"] == "released");
    machine.daemon.end("TERM");
    let _again = machine.spawn("flowcond", &[]);
    eventually("the daemon replies", SOON, || machine.daemon.flowctl(&["ps"]).status.success().then_some(()));
    machine.daemon.wait_for_job("one", "is governed again", SOON, |job| job["hold"]["kind"] != "released");
    machine.run_ok("docker stop NAME", &[("NAME", "one")]);
    eventually("it has ended", SOON, || machine.daemon.jobs().is_empty().then_some(()));
}

#[test]
fn a_container_with_a_deadline_is_explained_and_the_metrics_have_the_names_on_the_page() {
    let machine = Machine::start(&[]);
    let _job = machine.spawn(
        "docker run --label flowcon.enable=true --label flowcon.deadline=90m IMAGE python train.py",
        &[
            ("IMAGE", &format!("--name urgent {IMAGE}")),
            ("python train.py", "sh -c 'while :; do echo epoch $((i+=1))/900 loss: $((900-i)); sleep 0.1; done'"),
        ],
    );
    machine.daemon.wait_for_job("urgent", "is read", SOON, |job| job["metric"]["name"] == "loss");
    let explained = machine.run_ok("flowctl explain JOB", &[("JOB", "urgent")]);
    assert!(explained.contains("flowcon.deadline"), "{explained}");
    let metrics = machine.run_ok("flowctl metrics", &[]);
    let text = page("prometheus.md");
    let names: Vec<&str> = Regex::new("flowcon_[a-z_]+").unwrap().find_iter(&text).map(|name| name.as_str()).collect();
    assert!(names.len() >= 4 && names.iter().all(|name| metrics.contains(name)), "{names:?}: {metrics}");
}
