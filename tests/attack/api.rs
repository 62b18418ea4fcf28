//! Tests of the daemon's API with real clients: correct, wrong, slow, too many, and malicious ones.

use crate::served::{READERS, Served, as_user, busy_node, idle_node, job};
use crate::support::program::public_flowctl;
use flowcon::api::{self, ApiLimits};
use flowcon::model::Millis;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().expect("a code").to_owned()
    }
}

fn connect(served: &Served) -> UnixStream {
    let stream = UnixStream::connect(&served.socket).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    stream
}

/// Sends raw bytes and reads until the server closes the connection.
fn send(served: &Served, bytes: &[u8]) -> Option<Reply> {
    let mut stream = connect(served);
    // The server may close early: only its reply matters.
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&reply[..end]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { status, head, body: reply[end + 4..].to_vec() })
}

fn request(served: &Served, method: &str, path: &str, body: &str) -> Reply {
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    send(served, request.as_bytes()).expect("an reply")
}

fn get(served: &Served, path: &str) -> Reply {
    request(served, "GET", path, "")
}

/// Whether the server replies to a status request; retries, because timeouts are short in some tests.
fn serves(served: &Served) -> bool {
    let begun = Instant::now();
    let request = b"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    while begun.elapsed() < Duration::from_secs(60) {
        if send(served, request).is_some_and(|reply| reply.status == 200) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn status_is_the_daemons_latest() {
    let served = Served::new(busy_node());
    let reply = get(&served, "/v1/status");
    assert_eq!(reply.status, 200);
    let status = reply.json();
    assert_eq!(status["node"]["policy"]["policy"], "flowcon");
    assert_eq!(status["node"]["next_decision_in_s"], 12.0);
    assert_eq!(status["containers"][0]["progress"]["remaining_s"]["likely"], 260.0);
    let work_left = &status["containers"][0]["work_left_cpu_s"];
    assert_eq!(*work_left, json!({"low": 40.0, "likely": 52.0, "high": null}));
    assert_eq!(status["containers"][1]["work_left_cpu_s"], Value::Null);
    assert_eq!(status["containers"][2]["hold"]["kind"], "foreign");

    let mut later = busy_node();
    later.now = Millis::from_secs(1005);
    later.jobs.truncate(1);
    served.status.send(std::sync::Arc::new(later)).expect("published");
    let status = get(&served, "/v1/status").json();
    assert_eq!(status["node"]["next_decision_in_s"], 7.0);
    assert_eq!(status["containers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_explanation_contains_every_number_behind_the_decision() {
    let served = Served::new(busy_node());
    for name in ["mnist-vae", "4f2a9c01d3e7aa55", "4f2a"] {
        let detail = get(&served, &format!("/v1/containers/{name}")).json();
        assert_eq!(detail["id"], "4f2a9c01d3e7aa55");
        let explanation = &detail["explanation"];
        assert_eq!(explanation["decision"]["rule"], "growing");
        assert_eq!(explanation["decision"]["numbers"]["part_of_growth"], 0.63);
        assert_eq!(explanation["growth"]["per_node_memory_s"], 0.062);
        assert_eq!(explanation["growth_threshold"], 0.005);
        let growth_of_all = explanation["growth_of_all"].as_f64().expect("a number");
        assert!((growth_of_all - 0.036).abs() < 1e-12, "negative growth is not part of the sum: {growth_of_all}");
        assert_eq!(explanation["limits"]["cpu_weight"]["original"], 100.0);
        assert_eq!(explanation["limits"]["cpu_weight"]["standing"], 252.0);
        assert_eq!(explanation["limits"]["memory_high_bytes"]["standing"], -1.0);
        assert_eq!(explanation["reading"]["line"], "Epoch 37/50 - loss: 0.123456");
        assert_eq!(explanation["reading"]["to_quality_s"]["high"], Value::Null);
    }
    assert_eq!(get(&served, "/v1/containers/scope%3Asweep-1").json()["runtime"], "scope");
}

#[test]
fn errors_are_json_with_a_next_step() {
    let served = Served::new(busy_node());
    let cases = [
        ("GET", "/", 404, "no-route"),
        ("GET", "/v2/status", 404, "no-route"),
        ("POST", "/v1/status", 405, "wrong-method"),
        ("GET", "/v1/release", 405, "wrong-method"),
        ("FROBNICATE", "/v1/policy", 405, "wrong-method"),
        ("GET", "/v1/containers/nobody", 404, "not-found"),
        ("POST", "/v1/containers/nobody/release", 404, "not-found"),
        ("GET", "/v1/containers/%FF%FE", 400, "bad-request"),
        ("POST", "/v1/containers/mnist-vae/pin?share=2", 400, "bad-request"),
        ("POST", "/v1/containers/mnist-vae/pin?share=nan", 400, "bad-request"),
        ("POST", "/v1/containers/mnist-vae/pin?shore=0.5", 400, "bad-request"),
        ("POST", "/v1/containers/nobody/unpin", 404, "not-found"),
        ("GET", "/v1/containers/nobody/adopt", 405, "wrong-method"),
        ("GET", "/v1/events?recent=many", 400, "bad-request"),
        ("GET", "/v1/events?after=yesterday", 400, "bad-request"),
        ("PUT", "/v1/policy", 400, "bad-request"),
        ("POST", "/v1/govern", 409, "refused"),
        ("POST", "/v1/restore", 500, "failed"),
    ];
    for (method, path, status, code) in cases {
        let reply = request(&served, method, path, "");
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{method} {path}");
        assert!(reply.json()["error"]["next"].as_str().is_some_and(|next| !next.is_empty()), "{method} {path}");
    }
}

#[test]
fn a_policy_change_with_any_invalid_part_is_rejected() {
    let served = Served::new(idle_node());
    let bad = [
        r#"{"policy":"greedy"}"#,
        r#"{"policy":"fair","objective":0.5}"#,
        r#"{"policy":"balanced","objective":1.5}"#,
        r#"{"policy":"balanced","objective":1e999}"#,
        r#"{"policy":"balanced","surprise":1}"#,
        r#"["balanced"]"#,
        "\u{0}",
    ];
    for body in bad {
        assert_eq!(request(&served, "PUT", "/v1/policy", body).status, 400, "{body}");
    }
    assert!(served.commands.lock().expect("lock").is_empty());
    assert_eq!(request(&served, "PUT", "/v1/policy", r#"{"policy":"balanced","objective":1}"#).status, 200);
}

#[test]
fn an_adoption_with_any_invalid_part_is_rejected() {
    let served = Served::new(idle_node());
    let path = "/v1/containers/train/adopt";
    for body in
        [r#"{"labels":["flowcon.weight=2"]}"#, r#"{"labels":{"flowcon.weight":2}}"#, r#"{"label":{}}"#, "[]", "\u{0}"]
    {
        assert_eq!(request(&served, "POST", path, body).status, 400, "{body}");
    }
    assert!(served.commands.lock().expect("lock").is_empty());
    assert_eq!(request(&served, "POST", path, "").status, 200, "without labels");
    assert_eq!(request(&served, "POST", path, r#"{"labels":{"flowcon.weight":"2"}}"#).status, 200);
    let asked: Vec<api::Command> =
        served.commands.lock().expect("lock").iter().map(|(asked, _)| asked.clone()).collect();
    let labels = [("flowcon.weight".to_owned(), "2".to_owned())].into();
    let adopt = |labels| api::Command::Adopt { name: "train".to_owned(), labels };
    assert_eq!(asked, [adopt(std::collections::BTreeMap::new()), adopt(labels)]);
}

/// Sends a request with `curl`, optionally as another user; returns the status.
fn curl(served: &Served, user: Option<u32>, arguments: &[&str]) -> u16 {
    let socket = served.socket.to_str().expect("UTF-8");
    let words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", socket];
    let words = [&words[..], arguments].concat();
    let mut command = match user {
        Some(user) => as_user(user, READERS, None, &words),
        None => {
            let mut command = std::process::Command::new(words[0]);
            command.args(&words[1..]);
            command
        }
    };
    let answered = command.output().expect("curl");
    String::from_utf8_lossy(&answered.stdout).parse().unwrap_or_else(|_| panic!("{answered:?}"))
}

#[test]
fn a_job_record_needs_write_access_and_has_a_separate_size_limit() {
    let served = Served::new(idle_node());
    let path = "/v1/services/wp9p2yqmszq0v7ctx4kc3jmrv/record";
    let of = |size: usize| format!(r#"{{"version":1,"checkpoint":"{}"}}"#, "x".repeat(size));
    assert_eq!(request(&served, "PUT", path, &of(50 * 1024)).status, 200, "larger than other bodies");
    assert_eq!(request(&served, "PUT", path, &of(64 * 1024)).status, 413);
    assert_eq!(get(&served, path).status, 200);
    assert_eq!(served.commands.lock().expect("lock").len(), 2);
    for (method, path, body, status) in [
        ("PUT", path, "[1]", 400),
        ("PUT", path, "", 400),
        ("PUT", "/v1/services/a%2Fb/record", "{}", 400),
        ("GET", "/v1/services/%FF/record", "", 400),
        ("POST", path, "{}", 405),
    ] {
        assert_eq!(request(&served, method, path, body).status, status, "{method} {path} {body}");
    }
    let long = format!("/v1/services/{}/record", "a".repeat(65));
    assert_eq!(get(&served, &long).status, 400);

    let url = format!("http://localhost{path}");
    let reader = |arguments: &[&str]| curl(&served, Some(12_345), &[arguments, &[&url]].concat());
    assert_eq!((reader(&[]), reader(&["-T", "/dev/null"])), (403, 400));
    assert_eq!(reader(&["-X", "PUT", "-d", "{}"]), 403);
    assert_eq!(reader(&["-X", "PUT", "-d", &of(20 * 1024)]), 413, "readers have the usual size limit");
    assert_eq!(served.commands.lock().expect("lock").len(), 2);
}

#[test]
fn two_containers_with_one_name_are_a_conflict_that_lists_the_ids() {
    let mut node = idle_node();
    node.jobs = vec![job("aa11bb22cc33dd44", "twin"), job("ee55ff66aa77bb88", "twin"), job("aa11bb22cc99", "other")];
    let served = Served::new(node);
    let reply = request(&served, "POST", "/v1/containers/twin/release", "");
    assert_eq!((reply.status, reply.code().as_str()), (409, "ambiguous"));
    assert!(reply.text().contains("aa11bb22cc33") && reply.text().contains("ee55ff66aa77"));
    assert_eq!(get(&served, "/v1/containers/aa11").status, 409, "an ambiguous prefix of an id");
    assert_eq!(get(&served, "/v1/containers/aa11bb22cc33").status, 200);
}

#[test]
fn a_body_that_is_too_large_is_rejected_with_or_without_a_content_length() {
    let served = Served::new(idle_node());
    let large = "x".repeat(17 * 1024);
    assert_eq!(request(&served, "PUT", "/v1/policy", &large).status, 413);
    let chunk = format!("{:x}\r\n{}\r\n", 4096, "y".repeat(4096));
    let endless =
        format!("PUT /v1/policy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(40));
    assert_eq!(send(&served, endless.as_bytes()).expect("an reply").status, 413);
    let head = format!("GET /v1/status HTTP/1.1\r\nX-Long: {}\r\n\r\n", "z".repeat(64 * 1024));
    assert_eq!(send(&served, head.as_bytes()).expect("an reply").status, 431);
}

fn short_timeouts() -> ApiLimits {
    ApiLimits {
        head_time: Duration::from_secs(20), // also a busy client sends its head in time
        request_time: Duration::from_millis(400),
        connections: 1,
        reserved: 0,
        root: 0,
        ..ApiLimits::default()
    }
}

#[test]
fn a_client_that_sends_its_head_slowly_is_disconnected() {
    let limits = ApiLimits { head_time: Duration::from_millis(300), ..short_timeouts() };
    let served = Served::with(idle_node(), limits);
    let mut stream = connect(&served);
    let begun = Instant::now();
    for byte in b"GET /v1/status HTTP/1.1\r\nX: y".iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(begun.elapsed() < Duration::from_secs(60), "the server still reads");
    }
    assert!(serves(&served), "its slot is free again");
}

#[test]
fn a_missing_body_is_a_timeout() {
    let served = Served::with(idle_node(), short_timeouts());
    let request = b"PUT /v1/policy HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"pol";
    let reply = send(&served, request).expect("an reply");
    assert_eq!((reply.status, reply.code().as_str()), (408, "timeout"));
}

#[test]
fn a_command_without_a_reply_from_the_daemon_is_a_timeout() {
    let served = Served::with(idle_node(), short_timeouts());
    let reply = request(&served, "POST", "/v1/reload", "");
    assert_eq!((reply.status, reply.code().as_str()), (504, "timeout"));
}

#[test]
fn a_client_that_does_not_read_its_reply_loses_its_slot() {
    let mut node = idle_node();
    node.jobs = (0..2000).map(|number| job(&format!("{number:016x}"), &format!("job-{number}"))).collect();
    let served = Served::with(node, ApiLimits { request_time: Duration::from_secs(20), ..short_timeouts() });
    let mut stream = connect(&served);
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n").expect("request sent");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(get(&served, "/v1/policy").status, 503, "the only slot is taken");
    let begun = Instant::now();
    while get(&served, "/v1/policy").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(120), "the slot is never freed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_flood_of_connections_is_bounded_and_leaves_nothing_behind() {
    // Connections keep their slots until the last of them has sent its request.
    let limits = ApiLimits { head_time: Duration::from_secs(60), ..ApiLimits::default() };
    let served = Served::with(idle_node(), limits.clone());
    let flood: Vec<UnixStream> = (0..300).map(|_| connect(&served)).collect();
    // They are accepted in order: once the last is closed, the server has accepted or rejected all of them.
    let closed = flood.last().map(|mut stream| stream.read_to_end(&mut Vec::new()));
    assert!(matches!(closed, Some(Ok(0))), "{closed:?}");
    let mut outcomes = [0, 0, 0];
    for mut stream in flood {
        let mut reply = String::new();
        let _ = stream.write_all(b"GET /v1/policy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_string(&mut reply);
        let outcome = match reply.split(' ').nth(1) {
            Some("200") => 0,
            Some("503") => 1,
            _closed => 2,
        };
        outcomes[outcome] += 1;
    }
    let roots = limits.reserved + limits.root;
    assert_eq!(outcomes[0], limits.connections + roots, "{outcomes:?}");
    assert_eq!(outcomes[1], limits.rejections + roots, "{outcomes:?}");
    assert_eq!(outcomes[2], 300 - limits.connections - limits.rejections - 2 * roots, "{outcomes:?}");
    assert_eq!(get(&served, "/v1/policy").status, 200);
}

#[test]
fn readers_that_take_every_slot_do_not_lock_out_root() {
    let served = Served::with(idle_node(), ApiLimits { connections: 1, reserved: 1, ..ApiLimits::default() });
    let folder = tempfile::tempdir().expect("folder");
    let binary = public_flowctl(folder.path());
    let binary = binary.to_str().expect("UTF-8");
    let socket = served.socket.to_str().expect("UTF-8");
    served.publish(1, "the watcher is connected");
    let mut watcher = as_user(12_345, READERS, None, &[binary, "--socket", socket, "events"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    // Kept open: the watcher would exit if its output were closed.
    let mut output = BufReader::new(watcher.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("an event");

    let second = as_user(12_345, READERS, None, &[binary, "--socket", socket, "status"]).output().expect("ran");
    assert_eq!(second.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&second.stderr).contains("too many connections"));
    assert_eq!(get(&served, "/v1/status").status, 200, "root has a reserved slot");
    watcher.kill().expect("killed");
    watcher.wait().expect("reaped");
}

/// `flowctl events` as this user, which holds a connection and a stream; returns when it has printed an event.
fn watch_events(served: &Served, flowctl: &str, uid: u32, gid: u32) -> (std::process::Child, impl Read + use<>) {
    let socket = served.socket.to_str().expect("UTF-8");
    let words = [flowctl, "--socket", socket, "events", "-n", "1"];
    let mut watcher = as_user(uid, gid, None, &words).stdout(Stdio::piped()).spawn().expect("started");
    // Kept open: the watcher would exit if its output were closed.
    let mut output = BufReader::new(watcher.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("an event");
    (watcher, output)
}

#[test]
fn an_admin_that_takes_every_connection_does_not_lock_out_root_nor_a_reader_its_streams() {
    const ADMIN: u32 = 23_456;
    let limits = ApiLimits { connections: 1, reserved: 1, streams: 1, ..ApiLimits::default() };
    for (uid, count) in [(ADMIN, 2), (12_345, 1)] {
        let served = Served::with_admins(idle_node(), limits.clone(), &[ADMIN]);
        let folder = tempfile::tempdir().expect("folder");
        let binary = public_flowctl(folder.path());
        let binary = binary.to_str().expect("UTF-8");
        served.publish(1, "the watcher is connected");
        let mut watchers: Vec<_> = (0..count).map(|_| watch_events(&served, binary, uid, READERS)).collect();
        let socket = served.socket.to_str().expect("UTF-8");
        let refused = as_user(uid, READERS, None, &[binary, "--socket", socket, "status"]).output().expect("ran");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(6) && said.contains("busy: too many connections"), "{said}");
        assert_eq!(get(&served, "/v1/status").status, 200, "root has connections of its own");
        assert_eq!(get(&served, "/v1/events?follow=false").status, 200, "and streams");
        for (watcher, _) in &mut watchers {
            watcher.kill().expect("killed");
            watcher.wait().expect("reaped");
        }
    }
}

#[test]
fn a_client_that_gets_no_answer_because_too_many_are_connected_says_so() {
    let limits = ApiLimits { head_time: Duration::from_secs(60), ..ApiLimits::default() };
    let served = Served::with(idle_node(), limits);
    let _slow: Vec<UnixStream> = (0..200).map(|_| connect(&served)).collect();
    let mut flowctl = std::process::Command::new(env!("CARGO_BIN_EXE_flowctl"));
    let output = flowctl.arg("--socket").arg(&served.socket).args(["status"]).output().expect("ran");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("busy: ") && said.contains("next: ") && !said.contains("same version"), "{said}");
}

#[test]
fn streams_have_a_separate_limit() {
    let served = Served::with(idle_node(), ApiLimits { streams: 2, reserved: 0, root: 0, ..ApiLimits::default() });
    let streams: Vec<BufReader<UnixStream>> = (0..2).map(|_| follow(&served, "")).collect();
    let reply = get(&served, "/v1/events");
    assert_eq!((reply.status, reply.code().as_str()), (503, "busy"));
    assert!(reply.head.to_lowercase().contains("retry-after: 1"));
    drop(streams);
    // The server notices that a client has disconnected at its next write.
    served.publish(1, "anything");
    let begun = Instant::now();
    while get(&served, "/v1/events?follow=false").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the slots are never freed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Opens an event stream and reads the head of the reply.
fn follow(served: &Served, headers: &str) -> BufReader<UnixStream> {
    let mut stream = connect(served);
    stream.write_all(format!("GET /v1/events HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).expect("request sent");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).expect("head") > 2 {
        line.clear();
    }
    reader
}

/// The next event's id, name and data.
fn next_event(reader: &mut BufReader<UnixStream>) -> (String, String, Value) {
    let (mut id, mut name, mut line) = (String::new(), String::new(), String::new());
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).expect("a line") > 0, "the stream ended");
        if let Some(value) = line.strip_prefix("id: ") {
            id = value.trim().to_owned();
        } else if let Some(value) = line.strip_prefix("event: ") {
            name = value.trim().to_owned();
        } else if let Some(value) = line.strip_prefix("data: ") {
            return (id, name, serde_json::from_str(value).expect("JSON"));
        }
    }
}

#[test]
fn a_stream_resumes_after_the_last_received_event() {
    let served = Served::new(idle_node());
    let mut live = follow(&served, "");
    served.publish(1, "one");
    served.publish(2, "two");
    let (first, name, data) = next_event(&mut live);
    assert_eq!((name.as_str(), &data["text"]), ("list", &Value::from("one")));
    drop(live);
    served.publish(3, "three");

    let mut resumed = follow(&served, &format!("Last-Event-ID: {first}\r\n"));
    assert_eq!(next_event(&mut resumed).2["text"], "two");
    assert_eq!(next_event(&mut resumed).2["text"], "three");
    served.publish(4, "four");
    assert_eq!(next_event(&mut resumed).2["text"], "four", "and goes on live");
}

#[test]
fn dropped_events_are_reported_as_a_gap() {
    let served = Served::new(idle_node());
    (1..=6).for_each(|sequence| served.publish(sequence, &format!("number {sequence}")));
    served.forget(3);
    let mut resumed = follow(&served, "Last-Event-ID: 1\r\n");
    let (_, name, data) = next_event(&mut resumed);
    assert_eq!((name.as_str(), data["lost"].as_u64()), ("gap", Some(2)));
    assert_eq!(next_event(&mut resumed).2["sequence"], 4);
}

#[test]
fn a_restart_of_the_daemon_is_reported_as_a_gap() {
    let served = Served::new(idle_node());
    served.publish(1, "of this daemon");
    let mut resumed = follow(&served, "Last-Event-ID: 12-1\r\n");
    let (_, name, data) = next_event(&mut resumed);
    assert_eq!((name.as_str(), &data["lost"]), ("gap", &Value::Null));
    assert_eq!(next_event(&mut resumed).2["text"], "of this daemon");
}

#[test]
fn a_slow_reader_misses_no_stored_event() {
    let served = Served::new(idle_node());
    let mut live = follow(&served, "");
    // Far more than the broadcast channel holds, in one burst.
    (1..=500).for_each(|sequence| served.publish(sequence, "burst"));
    for expected in 1..=500 {
        assert_eq!(next_event(&mut live).2["sequence"], expected);
    }
}

#[test]
fn stopping_finishes_open_requests_ends_streams_and_removes_the_socket() {
    let limits = ApiLimits {
        request_time: Duration::from_millis(500),
        close_time: Duration::from_secs(60),
        ..ApiLimits::default()
    };
    let mut served = Served::with(idle_node(), limits);
    let mut stream = follow(&served, "");
    let mut waiting = connect(&served);
    waiting.write_all(b"POST /v1/reload HTTP/1.1\r\nHost: x\r\n\r\n").expect("request sent");
    let begun = Instant::now();
    while served.commands.lock().expect("lock").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the request never arrives");
        std::thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    served.stop();
    assert!(begun.elapsed() < Duration::from_secs(60), "stopping took {:?}", begun.elapsed());
    let mut reply = String::new();
    waiting.read_to_string(&mut reply).expect("an reply");
    assert!(reply.starts_with("HTTP/1.1 504"), "{reply}");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the stream's end");
    assert!(!served.socket.exists());
}

#[test]
fn the_openapi_description_lists_all_routes() {
    let served = Served::new(busy_node());
    let description = get(&served, "/openapi.json").json();
    let paths = description["paths"].as_object().expect("paths");
    let served_paths = include_str!("../../src/api/server/routes.rs").matches(".route(\"").count();
    assert_eq!(paths.len(), served_paths);
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let path = path.replace("{name}", "mnist-vae");
            if path == "/v1/reload" || path == "/v1/events" {
                continue;
            }
            let status = request(&served, &method.to_uppercase(), &path, r#"{"policy":"fair"}"#).status;
            assert!(!matches!(status, 404 | 405), "{method} {path}: {status}");
        }
    }
    for schema in
        ["Status", "Container", "ContainerDetail", "Explanation", "Event", "Gap", "Problem", "Policy", "UserList"]
    {
        assert!(description["components"]["schemas"][schema].is_object(), "{schema} is not described");
    }
}

#[test]
fn metrics_follow_the_conventions_and_escape_names() {
    let mut node = busy_node();
    node.jobs[0].observed.name = "evil\"} 1\nflowcon_cores 99 #\\".to_owned();
    let served = Served::new(node);
    let modern =
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: application/openmetrics-text\r\n\r\n";
    let reply = send(&served, modern).expect("an reply");
    assert!(reply.head.contains("application/openmetrics-text"), "{}", reply.head);
    let text = reply.text();
    assert!(text.ends_with("# EOF\n"));
    let classic = get(&served, "/metrics");
    assert!(classic.head.contains("text/plain; version=0.0.4"), "{}", classic.head);
    assert!(classic.text().contains("# TYPE flowcon_decisions_total counter\nflowcon_decisions_total 45"));
    assert_eq!(
        text.lines().filter(|line| line.starts_with("flowcon_cores ")).collect::<Vec<_>>(),
        ["flowcon_cores 4.0"]
    );
    assert!(text.contains("flowcon_decisions_total 45"), "{text}");
    assert!(
        text.contains("flowcon_container_share_ratio{id=\"77aa01bc9d2f\",name=\"resnet50-cifar-baseline-run-3\"} 0.25")
    );
    assert!(text.contains("process_resident_memory_bytes "));
    let sample = regex::Regex::new(r#"^[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? -?[0-9.e-]+$"#);
    let sample = sample.expect("regex");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(sample.is_match(line), "{line}");
    }
}

#[test]
fn the_number_of_container_series_is_bounded() {
    let mut node = idle_node();
    node.jobs = (0..1100).map(|number| job(&format!("{number:016x}"), "j")).collect();
    let text = get(&Served::new(node), "/metrics").text();
    assert_eq!(text.matches("flowcon_container_memory_bytes{").count(), 1000);
    assert!(text.contains("flowcon_containers_omitted 100"));
}

/// One server for all malformed requests, so that later cases detect what earlier ones break.
fn shared() -> &'static Served {
    static SHARED: OnceLock<Served> = OnceLock::new();
    SHARED.get_or_init(|| {
        let quick = Duration::from_millis(100);
        Served::with(busy_node(), ApiLimits { head_time: quick, request_time: quick, ..ApiLimits::default() })
    })
}

/// A busy machine may not carry out a command within the short time for a request: status 504.
fn has_not_failed(reply: &Reply) -> bool {
    reply.status < 500 || reply.status == 504
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_request_makes_the_server_fail(
        method in "(GET|PUT|POST|HEAD|DELETE|[A-Z]{1,9})",
        path in "/(v1/(status|containers|policy|release|events\\?follow=false)?)?[!-~]{0,40}",
        header in "[ -~]{0,40}",
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {header}\r\nContent-Length: {}\r\n\r\n", body.len());
        if let Some(reply) = send(shared(), &[head.as_bytes(), &body].concat()) {
            prop_assert!(has_not_failed(&reply), "{method} {path}: {} {}", reply.status, reply.text());
        }
        prop_assert!(serves(shared()));
    }

    #[test]
    fn no_bytes_make_the_server_fail(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Some(reply) = send(shared(), &[&bytes[..], b"\r\n\r\n"].concat()) {
            prop_assert!(has_not_failed(&reply), "{} {}", reply.status, reply.text());
        }
        prop_assert!(serves(shared()));
    }
}
