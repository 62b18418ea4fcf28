//! Tests of containers with labels of flowcon that do not have them governed, with a real dockerd, `flowcond` and `flowctl`.

use crate::support::daemon::{Daemon, eventually};
use crate::support::engine::{Engine, RunSpec};
use std::time::Duration;

/// The engine's containers are listed every 30 s.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_container_with_a_wrong_label_is_noticed_once_and_by_the_doctor() {
    let engine = Engine::start();
    let mistakes = [
        ("enabled", "flowcon.enabled=true"),
        ("capital", "flowcon.enable=True"),
        ("one", "flowcon.enable=1"),
        ("other", "flowcon.weight=2"),
    ];
    let fine = [("right", "flowcon.enable=true"), ("off", "flowcon.enable=false"), ("foreign", "com.example=1")];
    for (name, label) in mistakes.into_iter().chain(fine) {
        engine.run(RunSpec { name, labels: &[label], ..RunSpec::default() });
    }
    let daemon = Daemon::start(&engine.address(), &[]);
    let notices = || daemon.stdout_of(&["events", "--no-follow", "-n", "1000"]);
    for (name, label) in mistakes {
        let words = format!("notice   {name} is not governed: it has {label}, not flowcon.enable=true");
        eventually(&words, SOON, || notices().contains(&words).then_some(()));
    }
    // Another list comes within this time, and the container that has ended is forgotten.
    engine.docker(&["rm", "--force", "one"]);
    std::thread::sleep(Duration::from_secs(35));
    let all = notices();
    assert_eq!(all.matches("is not governed").count(), mistakes.len(), "{all}");

    let checked = String::from_utf8(daemon.flowctl(&["doctor", "-o", "json"]).stdout).unwrap();
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    let labels = checked["checks"].as_array().unwrap().iter().find(|check| check["name"] == "labels").unwrap();
    let found = labels["found"].as_str().unwrap();
    for (name, label) in [mistakes[0], mistakes[1], mistakes[3]] {
        assert!(found.contains(&format!("{name} ({label})")), "{found}");
    }
    assert!(!["right", "off", "foreign", "one"].iter().any(|name| found.contains(&format!("{name} ("))), "{found}");
    daemon.carried_out(&["adopt", "enabled"]);
    let text = String::from_utf8(daemon.flowctl(&["doctor"]).stdout).unwrap();
    assert!(text.contains("capital (") && !text.contains("enabled ("), "an adopted one is governed: {text}");
}
