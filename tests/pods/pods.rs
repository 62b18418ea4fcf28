//! Pods that a real containerd runs, governed by a real daemon.

use crate::containerd::{Containerd, PodSpec, reload};
use crate::support::daemon::{Daemon, eventually};
use std::thread::sleep;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const FLOWCON: [&str; 2] = ["policy.name=flowcon", "policy.interval=2s"];
const ENABLE: [(&str, &str); 1] = [("flowcon.enable", "true")];

/// A training whose loss falls by one tenth with each step, and which never waits.
const LEARNS: &str = "i=0; while [ $i -lt 90000 ]; do i=$((i+1)); n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; \
    l=$((900000-10*i)); echo \"step $i/90000 loss: $((l/100)).$((l%100/10))$((l%10))\"; done";
/// A training whose loss falls for some steps and then stays constant.
const CONVERGED: &str = "i=0; l=300; while [ $i -lt 90000 ]; do i=$((i+1)); n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done; \
    [ $l -gt 100 ] && l=$((l-20)); echo \"step $i/90000 loss: $l.00\"; done";

#[test]
fn labelled_pods_are_governed_by_their_cgroups_and_restored_after_a_kill() {
    let containerd = Containerd::start();
    let learns =
        containerd.run(PodSpec { name: "learns", labels: &ENABLE, shares: 1024, script: LEARNS, ..PodSpec::default() });
    let flat = containerd.run(PodSpec {
        name: "flat",
        annotations: &ENABLE,
        shares: 614,
        script: CONVERGED,
        ..PodSpec::default()
    });
    let other = containerd.run(PodSpec { name: "other", shares: 512, script: LEARNS, ..PodSpec::default() });
    let all = [&learns, &flat, &other];
    let originals = all.map(|pod| pod.weight());

    let mut daemon = Daemon::start(&containerd.address(), &FLOWCON);
    daemon.wait_until_connected("containerd");
    for name in ["team/learns", "team/flat"] {
        daemon.wait_for_job(name, "is read", SOON, |job| job["metric"]["name"] == "loss");
    }
    // They share one of the cores, so that no limit of the policy is reached.
    daemon.carried_out(&["pin", "team/flat", "8%"]);
    daemon.carried_out(&["pin", "team/learns", "24%"]);
    let is_planned = || {
        let [learns, flat] = [&learns, &flat].map(|pod| pod.weight().parse::<f64>().unwrap());
        (learns / flat > 2.8).then_some(())
    };
    eventually("the weights follow the shares", SOON, is_planned);
    let mut names: Vec<String> = daemon.jobs().iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["team/flat", "team/learns"]);
    let job = daemon.job("team/flat").unwrap();
    assert_eq!((job["runtime"].as_str(), job["id"].as_str()), (Some("pod"), Some(flat.uid.as_str())));
    assert!(daemon.stdout_of(&["explain", "team/flat"]).contains("team/flat"));
    assert!(daemon.stdout_of(&["status"]).contains("team/learns"));
    assert!(daemon.stdout_of(&["logs", "team/learns"]).starts_with("step 1/90000 loss: 8999.90\n"));

    // The kubelet leaves the limits of a pod alone, and containerd sets those of its containers only.
    let kubelet = containerd.kubelet(&all);
    let weights = || all.map(|pod| pod.weight().parse::<f64>().unwrap());
    let measure = || {
        let (weights_before, used_before) = (weights(), all.map(|pod| pod.cpu_used()));
        sleep(Duration::from_secs(15));
        let used: Vec<f64> = all.iter().zip(used_before).map(|(pod, before)| pod.cpu_used() - before).collect();
        (weights() == weights_before).then_some((used, weights_before))
    };
    let (used, weights) = eventually("the weights stay as they are", SOON, measure);
    for (used_by, weight) in used.iter().zip(weights) {
        let (got, due) = (used_by / used.iter().sum::<f64>(), weight / weights.iter().sum::<f64>());
        assert!((got - due).abs() < 0.03, "got {got:.3}, due {due:.3}: {used:?} by {weights:?}");
    }
    assert_eq!(other.weight(), originals[2], "without the label");
    assert!(weights[0] / weights[1] > 2.8, "as planned, whatever the kubelet does: {weights:?}");
    assert!(kubelet.end() > 1);

    let checked = daemon.flowctl(&["doctor"]).stdout;
    let checked = String::from_utf8_lossy(&checked);
    assert!(checked.contains("CRI v1"), "{checked}");
    assert!(!checked.replace('_', "-").contains(&flat.uid), "no neighbour: {checked}");

    let adopted = daemon.flowctl(&["adopt", "other"]);
    assert!(String::from_utf8_lossy(&adopted.stderr).contains("a pod is governed by its label"), "{adopted:?}");

    daemon.end("KILL");
    let planned = flat.weight();
    assert_ne!(planned, originals[1]);
    // A last round, and systemd sets the limits of its units again.
    containerd.kubelet(&all).end();
    reload();
    assert_eq!(flat.weight(), planned);
    let restored = daemon.restore();
    assert_eq!(all.map(|pod| pod.weight()), originals, "{restored}");
    containerd.kubelet(&[&flat]).end();
    reload();
    assert_eq!(all.map(|pod| pod.weight()), originals);
}

#[test]
fn containers_of_ctr_are_governed_by_their_own_cgroups_and_restored_after_a_kill() {
    let containerd = Containerd::start();
    let log = containerd.log_file("learns.log");
    let enable = Some("flowcon.enable=true");
    let learns = containerd.run_alone("learns", enable, Some(&log), LEARNS);
    // A short id, which is part of the names of its cgroup's parent and its namespace.
    let quiet = containerd.run_alone("a", enable, None, "while :; do :; done");
    let other = containerd.run_alone("other", None, None, "while :; do :; done");
    let pod =
        containerd.run(PodSpec { name: "pod", labels: &ENABLE, shares: 614, script: LEARNS, ..PodSpec::default() });
    let weights = || [learns.weight(), quiet.weight(), other.weight()];
    let (originals, of_pod) = (weights(), pod.weight());

    let mut daemon = Daemon::start(&containerd.address(), &FLOWCON);
    daemon.wait_for_job("default/learns", "is read", SOON, |job| job["metric"]["name"] == "loss");
    let job = daemon.wait_for_job("default/a", "is governed", SOON, |_| true);
    assert_eq!((job["runtime"].as_str(), job["id"].as_str()), (Some("containerd"), Some("default/a")));
    daemon.wait_for_job("team/pod", "is governed", SOON, |_| true);
    daemon.carried_out(&["pin", "default/a", "8%"]);
    daemon.carried_out(&["pin", "default/learns", "24%"]);
    eventually("the weights follow the shares", SOON, || {
        let [learns, quiet] = [&learns, &quiet].map(|group| group.weight().parse::<f64>().unwrap());
        (learns / quiet > 2.8).then_some(())
    });
    assert_eq!(daemon.jobs().len(), 3);
    assert_eq!(other.weight(), originals[2], "without the label");
    assert!(daemon.stdout_of(&["explain", "default/a"]).contains("its output is not kept in a file"));
    let checked = daemon.flowctl(&["doctor"]).stdout;
    let checked = String::from_utf8_lossy(&checked);
    assert!(!checked.lines().any(|line| line.contains("neighbours") && line.contains("learns")), "{checked}");
    assert!(daemon.stdout_of(&["logs", "default/learns"]).starts_with("step 1/90000 loss: 8999.90\n"));

    daemon.end("KILL");
    let planned = quiet.weight();
    assert_ne!(planned, originals[1]);
    reload();
    assert_eq!(quiet.weight(), planned);
    let restored = daemon.restore();
    reload();
    assert_eq!(weights(), originals, "{restored}");

    daemon.boot();
    daemon.wait_for_job("default/a", "is governed again", SOON, |_| true);
    containerd.kill("a");
    eventually("its end is told", Duration::from_secs(90), || {
        let told = daemon.flowctl(&["explain", "default/a"]);
        String::from_utf8_lossy(&told.stdout).contains("SIGKILL").then_some(())
    });
    daemon.end("TERM");
    assert_eq!((learns.weight(), pod.weight()), (originals[0].clone(), of_pod));
}

#[test]
fn a_pod_that_ended_without_a_daemon_is_forgotten() {
    let containerd = Containerd::start();
    let [gone, stays] = ["gone", "stays"].map(|name| {
        containerd.run(PodSpec { name, labels: &ENABLE, shares: 614, script: LEARNS, ..PodSpec::default() })
    });
    let originals = [&gone, &stays].map(|pod| pod.weight());
    let mut daemon = Daemon::start(&containerd.address(), &FLOWCON);
    for name in ["team/gone", "team/stays"] {
        daemon.wait_for_job(name, "is governed", SOON, |_| true);
        // Neither is the original: 614 shares are weight 24 on version 2, and 60 on version 1.
        daemon.carried_out(&["pin", name, if name == "team/gone" { "8%" } else { "30%" }]);
    }
    eventually("both are changed", SOON, || {
        (gone.weight() != originals[0] && stays.weight() != originals[1]).then_some(())
    });
    daemon.end("KILL");
    containerd.stop(&gone);
    daemon.boot();
    let of_gone = format!("id = '{}'", gone.uid);
    eventually("the journal has only the other", SOON, || {
        (daemon.count_in_journal("original", &of_gone) == Some(0)).then_some(())
    });
    daemon.end("TERM");
    assert_eq!(stays.weight(), originals[1]);
}

#[test]
fn a_pod_is_followed_over_rotations_of_its_log_until_its_end() {
    let containerd = Containerd::start();
    let script =
        "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo \"step $i/60 loss: $((100-i)).0\"; sleep 1; done; exit 3";
    let pod = containerd.run(PodSpec { name: "short", labels: &ENABLE, shares: 512, script, ..PodSpec::default() });
    let daemon = Daemon::start(&containerd.address(), &FLOWCON);
    let done = |job: &serde_json::Value| job["progress"]["current"].as_f64().unwrap_or(0.0);
    let began = done(&daemon.wait_for_job("team/short", "is read", SOON, |job| done(job) >= 3.0));
    containerd.rotate(&pod);
    daemon.wait_for_job("team/short", "is read after a rotation", SOON, |job| done(job) >= began + 8.0);

    eventually("its end is told", Duration::from_secs(90), || {
        let told = daemon.flowctl(&["explain", "team/short"]);
        String::from_utf8_lossy(&told.stdout).contains("exit code 3").then_some(())
    });
    assert!(daemon.jobs().is_empty());
}
