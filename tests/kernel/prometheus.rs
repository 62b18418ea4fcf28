//! Tests with a real Prometheus that scrapes a running daemon through `flowctl metrics`: metrics pass promtool, the rules are right, and
//! every panel of the dashboard has data.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// What limits a query to the coordinator that acts.
const ONLY_ACTIVE: &str = " and on (instance) flowcoord_acts == 1";

/// A process, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn promtool(arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("promtool: apt-get install prometheus");
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = running.wait_with_output().unwrap();
    let output = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&output));
}

fn root(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file).to_string_lossy().into_owned()
}

#[test]
fn the_alerts_pass_their_rule_tests() {
    promtool(&["check", "rules", &root("config/prometheus/flowcon-rules.yml")], "");
    promtool(&["test", "rules", &root("tests/prometheus/rules.test.yml")], "");
}

fn panels(dashboard: &str) -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(root(dashboard)).unwrap()).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

#[test]
fn a_coordinator_on_standby_does_not_show_in_the_panels() {
    // A standby asks no agent, so that it takes all nodes for unreachable.
    let input = [
        ("flowcoord_acts{instance=\"leader\"}", "1x10"),
        ("flowcoord_acts{instance=\"other\"}", "0x10"),
        ("flowcoord_nodes{instance=\"leader\", state=\"ready\"}", "3x10"),
        ("flowcoord_nodes{instance=\"other\", state=\"ready\"}", "0x10"),
        ("flowcoord_nodes{instance=\"leader\", state=\"unreachable\"}", "0x10"),
        ("flowcoord_nodes{instance=\"other\", state=\"unreachable\"}", "3x10"),
        ("flowcoord_jobs{instance=\"leader\", state=\"waiting\"}", "1x10"),
        ("flowcoord_jobs{instance=\"other\", state=\"waiting\"}", "2x10"),
    ];
    let expected = |title: &str| match title {
        "Ready nodes" => Some(vec![("ready", 3)]),
        "Nodes" => Some(vec![("ready", 3), ("unreachable", 0)]),
        "Waiting jobs" | "Jobs" => Some(vec![("waiting", 1)]),
        _ => None,
    };
    let series: Vec<Value> = input.iter().map(|(series, values)| json!({"series": series, "values": values})).collect();
    let mut tests = Vec::new();
    for panel in panels("config/grafana/flowcoord.json") {
        let Some(states) = expected(panel["title"].as_str().unwrap()) else { continue };
        let sample = |(state, value): &(&str, u32)| json!({"labels": format!("{{state=\"{state}\"}}"), "value": value});
        let samples: Vec<Value> = states.iter().map(sample).collect();
        let expression = panel["targets"][0]["expr"].as_str().unwrap().replace("$instance", ".*");
        assert!(expression.contains(ONLY_ACTIVE), "{expression}");
        tests.push(json!({"expr": expression, "eval_time": "5m", "exp_samples": samples}));
    }
    assert_eq!(tests.len(), 4);
    let tests = json!([{"interval": "1m", "input_series": series, "promql_expr_test": tests}]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("panels.test.yml"); // JSON is YAML
    fs::write(&file, json!({"rule_files": [], "evaluation_interval": "1m", "tests": tests}).to_string()).unwrap();
    promtool(&["test", "rules", &file.to_string_lossy()], "");
}

#[test]
fn panels_without_a_time_axis_do_not_show_ended_jobs() {
    let panels = [panels("config/grafana/flowcon.json"), panels("config/grafana/flowcoord.json")].concat();
    let mut checked = 0;
    for panel in panels.iter().filter(|panel| matches!(panel["type"].as_str(), Some("stat" | "bargauge"))) {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            // The series of a job end with it, those of a cluster with the manager's activity; a range would show their last values.
            let ends = ["flowcon_container_", "flowcoord_acts"].iter().any(|name| expression.contains(name));
            if ends {
                assert_eq!((&target["instant"], &target["range"]), (&json!(true), &json!(false)), "{expression}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 6, "{checked}");
}

/// A daemon without an engine, with one growing job.
fn governed() -> (Daemon, Job) {
    let daemon = Daemon::start("off", &["policy.interval=1s", "policy.name=flowcon"]);
    let script = "i=0; while :; do i=$((i+1)); echo \"step $i/9000 loss: $((90000-i))\"; sleep 0.1; done";
    let name = format!("scraped-{}", std::process::id());
    let job = Job::start(&daemon, &name, &[], &["sh", "-c", script]);
    daemon.wait_for_job(&name, "grows", SOON, |job| job["list"] == "new" && job["growth"].is_number());
    (daemon, job)
}

fn get_json(port: u16, path: &str) -> Value {
    let output = Command::new("curl").args(["-sfG", &format!("http://127.0.0.1:{port}{path}")]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn query(port: u16, expression: &str) -> Value {
    let parameter = format!("query={expression}");
    let output = Command::new("curl")
        .args(["-s", "-G", "--data-urlencode", &parameter, &format!("http://127.0.0.1:{port}/api/v1/query")])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A coordinator whose engine does not reply, so that it takes no action.
fn coordinator(folder: &Path) -> (Running, PathBuf) {
    let socket = folder.join("flowcoord.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowcoord"));
    command.arg("run").arg("--engine").arg(format!("unix://{}", folder.join("none.sock").display()));
    command.arg("--socket").arg(&socket).stderr(Stdio::null());
    let coordinator = Running(command.spawn().unwrap());
    eventually("the coordinator replies", SOON, || socket.exists().then_some(()));
    (coordinator, socket)
}

/// Starts `flowctl --socket … metrics --listen …`; returns its address, too.
fn exporter(socket: &Path) -> (Running, String) {
    let mut exporter = Command::new(env!("CARGO_BIN_EXE_flowctl"));
    exporter.arg("--socket").arg(socket).args(["metrics", "--listen", "127.0.0.1:0"]);
    let mut exporter = Running(exporter.stderr(Stdio::piped()).spawn().unwrap());
    let mut output = String::new();
    BufReader::new(exporter.0.stderr.take().unwrap()).read_line(&mut output).unwrap();
    (exporter, output.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned())
}

fn scraped(target: &str) -> String {
    let output = Command::new("curl").args(["-sf", &format!("http://{target}/metrics")]).output().unwrap();
    assert!(output.status.success(), "{target}: {:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_panel_has_data_from_a_real_prometheus() {
    let (daemon, job) = governed();
    promtool(&["check", "metrics"], &daemon.stdout_of(&["metrics"]));

    let folder = tempfile::tempdir().unwrap();
    let (_coordinator, socket) = coordinator(folder.path());
    let (_exporter, target) = exporter(&daemon.socket());
    let (_of_the_cluster, of_the_cluster) = exporter(&socket);
    promtool(&["check", "metrics"], &scraped(&of_the_cluster));

    let config = fs::read_to_string(root("config/prometheus/scrape.yml")).unwrap().replace("127.0.0.1:9713", &target);
    let cluster = fs::read_to_string(root("config/prometheus/scrape-cluster.yml")).unwrap();
    let (_, cluster) = cluster.split_once("scrape_configs:\n").unwrap();
    let config = config + &cluster.replace("127.0.0.1:9714", &of_the_cluster);
    let rules = format!("rule_files: [\"{}\"]\n", root("config/prometheus/flowcon-rules.yml"));
    let file = folder.path().join("prometheus.yml");
    fs::write(&file, format!("global: {{scrape_interval: 1s}}\n{rules}{config}")).unwrap();
    promtool(&["check", "config", &file.to_string_lossy()], "");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _prometheus = Running(
        Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("apt-get install prometheus"),
    );
    eventually("the targets are up", SOON, || {
        let targets = get_json(port, "/api/v1/targets");
        let targets = targets["data"]["activeTargets"].as_array()?;
        (targets.len() == 2 && targets.iter().all(|target| target["health"] == "up")).then_some(())
    });

    let (node, cluster) = (panels("config/grafana/flowcon.json"), panels("config/grafana/flowcoord.json"));
    assert!(node.len() > 10 && cluster.len() > 5);
    // Without pressure files in the kernel there is no pressure.
    let known = |title: &str| title != "Pressure" || Path::new("/proc/pressure/cpu").exists();
    for panel in node.iter().chain(&cluster).filter(|panel| known(panel["title"].as_str().unwrap())) {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression
                .replace(ONLY_ACTIVE, "") // this coordinator has no Swarm, so it is not active
                .replace("$instance", ".*")
                .replace("$job", ".*")
                .replace("[5m]", "[10s]")
                .replace("[1h]", "[10s]");
            eventually(&format!("{}: {expression}", panel["title"]), SOON, || {
                let reply = query(port, &expression);
                assert_eq!(reply["status"], "success", "{expression}: {reply}");
                (!reply["data"]["result"].as_array().unwrap().is_empty()).then_some(())
            });
        }
    }

    drop(daemon);
    eventually("Prometheus reports that the daemon is down", SOON, || {
        let up = query(port, "up{job=\"flowcon\"} == 0");
        (!up["data"]["result"].as_array().unwrap().is_empty()).then_some(())
    });
    drop(job);
}
