//! Messages about real trainings at real servers: flowcond, flowcon-notify, and an HTTP and an SMTP server of this test. Needs root.

use crate::support::daemon::{Daemon, eventually, eventually_or, unwrapped};
use crate::support::job::Job;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);
/// A silence counts from a minute on.
const A_SILENCE: Duration = Duration::from_secs(120);
/// A message waits ten seconds for others about the same job.
const LATER: Duration = Duration::from_secs(14);
const ENDS: &str =
    r#"events = ["failed", "ended", "killed-for-memory", "nan", "diverging", "stalled", "late", "node"]"#;

/// A request as an HTTP server got it.
#[derive(Clone)]
struct Post {
    path: String,
    authorization: String,
    body: Value,
}

/// An HTTP server that keeps what is posted, and answers each path with 200 or the status set for it.
#[derive(Clone)]
struct Http {
    port: u16,
    posts: Arc<Mutex<Vec<Post>>>,
    statuses: Arc<Mutex<BTreeMap<String, u16>>>,
}

impl Http {
    fn start() -> Http {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Http { port, posts: Arc::default(), statuses: Arc::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                thread::spawn(move || serving.answer(stream));
            }
        });
        server
    }

    fn answer(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let header = |name: &str| {
            let found = lines.iter().find_map(|line| {
                line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            });
            found.unwrap_or_default().to_owned()
        };
        let mut body = vec![0; header("content-length").parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        let path = lines.first()?.split(' ').nth(1)?.to_owned();
        let status = self.statuses.lock().unwrap().get(&path).copied().unwrap_or(200);
        let body = serde_json::from_slice(&body).ok()?;
        self.posts.lock().unwrap().push(Post { path, authorization: header("authorization"), body });
        let mut stream = stream;
        write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").ok()
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn set(&self, path: &str, status: u16) {
        self.statuses.lock().unwrap().insert(path.to_owned(), status);
    }

    fn posts(&self, path: &str) -> Vec<Post> {
        self.posts.lock().unwrap().iter().filter(|post| post.path == path).cloned().collect()
    }

    fn clear(&self) {
        self.posts.lock().unwrap().clear();
    }

    /// Job and kind of each message that a webhook got.
    fn messages(&self, path: &str) -> Vec<String> {
        let posts = self.posts(path);
        let of = |message: &Value| {
            let word = |key: &str| message[key].as_str().unwrap_or("-").to_owned();
            // It is unknown if the cgroup of a command is seen empty before `flowctl` reports its end, as on a busy machine.
            let job = word("job").replace(&full(""), "");
            format!("{job} {}", word("kind").replace("ended", "failed"))
        };
        let mut all: Vec<String> =
            posts.iter().flat_map(|post| post.body["messages"].as_array().unwrap().iter().map(of)).collect();
        all.sort();
        all
    }
}

/// An SMTP server that keeps the mails.
fn smtp() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, mails) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let kept = mails.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = kept.clone();
            thread::spawn(move || talk(stream, &kept));
        }
    });
    (port, mails)
}

fn talk(stream: TcpStream, kept: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    out.write_all(b"220 test\r\n")?;
    let (mut mail, mut is_data) = (String::new(), false);
    for line in BufReader::new(stream).lines() {
        let line = line?;
        match line.as_str() {
            "." if is_data => {
                kept.lock().unwrap().push(std::mem::take(&mut mail));
                is_data = false;
                out.write_all(b"250 kept\r\n")?;
            }
            _ if is_data => mail.push_str(&(line + "\n")),
            "DATA" => {
                is_data = true;
                out.write_all(b"354 go on\r\n")?;
            }
            "QUIT" => return out.write_all(b"221 bye\r\n"),
            _ => out.write_all(b"250 ok\r\n")?,
        }
    }
    Ok(())
}

/// A running flowcon-notify, killed when dropped.
struct Notify(Child);

impl Notify {
    fn start(daemon: &Daemon) -> Notify {
        let log = fs::File::options().create(true).append(true).open(Notify::log(daemon)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowcon-notify"));
        command.arg("--config").arg(daemon.config()).arg("--socket").arg(daemon.socket());
        Notify(command.arg("--state-dir").arg(Notify::state(daemon)).stderr(log).spawn().unwrap())
    }

    fn log(daemon: &Daemon) -> PathBuf {
        daemon.config().with_file_name("notify.log")
    }

    fn state(daemon: &Daemon) -> PathBuf {
        daemon.config().with_file_name("notify")
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits until it reads the events of the daemon.
    fn wait_until_connected(daemon: &Daemon, times: usize) {
        let log = || fs::read_to_string(Notify::log(daemon)).unwrap();
        let probe = || (log().matches("connected to flowcond").count() >= times).then_some(());
        eventually_or("flowcon-notify is connected", SOON, probe, log);
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The name of a job, of which no other run of this test has one.
fn full(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Prints an epoch five times a second, with a loss that falls; from epoch 21 on it prints what `$AFTER` computes, or does it.
fn training(daemon: &Daemon, name: &str, labels: &[&str], after: &str) -> Job {
    let script = format!(
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); value=0.$((90000-i*100)); [ $i -le 20 ] || {{ {after}; }}; \
         echo \"epoch $i/100000 loss: $value\"; sleep 0.2; done"
    );
    Job::start(daemon, &full(name), labels, &["sh", "-c", &script])
}

/// A command that fails once it is governed.
fn failing(daemon: &Daemon, name: &str, labels: &[&str]) -> Job {
    let go = daemon.config().with_file_name(format!("go-{name}"));
    let script = format!("until [ -e {} ]; do sleep 0.05; done; exit 3", go.display());
    let job = Job::start(daemon, &full(name), labels, &["sh", "-c", &script]);
    daemon.wait_for_job(&full(name), "is governed", SOON, |_| true);
    fs::write(go, "").unwrap();
    job
}

/// Waits until a webhook got exactly these messages; later ones are not awaited.
fn wait_for(daemon: &Daemon, server: &Http, path: &str, expected: &[&str], within: Duration) {
    let probe = || (server.messages(path) == expected).then_some(());
    eventually_or(&format!("{path} gets {expected:?}"), within, probe, || {
        let log = fs::read_to_string(Notify::log(daemon)).unwrap_or_default();
        format!("it got {:?}\n{log}", server.messages(path))
    });
}

#[test]
fn each_trouble_reaches_each_kind_of_target_once_and_nothing_is_told_about_a_healthy_job() {
    let (server, (mail_port, mails)) = (Http::start(), smtp());
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let folder = daemon.config().parent().unwrap().to_owned();
    fs::write(folder.join("token"), "secret\n").unwrap();
    fs::write(folder.join("url"), server.url("/chat")).unwrap();
    let config = format!(
        "[notify.hook]\ntype = \"webhook\"\nurl = \"{}\"\ntoken-file = \"{folder}/token\"\n{ENDS}\nper-hour = 100\n\
         [notify.chat]\ntype = \"slack\"\nurl-file = \"{folder}/url\"\n{ENDS}\n\
         [notify.phone]\ntype = \"ntfy\"\nurl = \"{}\"\n{ENDS}\n\
         [notify.mail]\ntype = \"smtp\"\nurl = \"smtp://127.0.0.1:{mail_port}\"\nfrom = \"flowcon@test.example\"\n\
         to = [\"alice@test.example\"]\n{ENDS}\n\
         [notify.program]\ntype = \"command\"\ncommand = [\"sh\", \"-c\", \"cat >>{folder}/program\"]\n{ENDS}\n\
         [notify.named]\ntype = \"webhook\"\nurl = \"{}\"\nall-jobs = false\n",
        server.url("/hook"),
        server.url("/topic"),
        server.url("/named"),
        folder = folder.display(),
    );
    fs::write(daemon.config(), config).unwrap();
    daemon.stdout_of(&["reload"]);
    let notify = Notify::start(&daemon);
    Notify::wait_until_connected(&daemon, 1);

    let mut healthy = training(&daemon, "healthy", &[], ":");
    let _nan = training(&daemon, "exploded", &[], "value=nan");
    let _diverging = training(&daemon, "diverging", &[], "value=$((i*1000))");
    let _late = training(&daemon, "late", &["flowcon.deadline=5s"], ":");
    let _hung = training(&daemon, "hung", &[], "exec sleep 100000");
    let _named = training(&daemon, "named", &["flowcon.notify=named"], "value=nan");
    let _nobody = training(&daemon, "nobody", &["flowcon.notify=none"], "value=nan");
    let _failed = failing(&daemon, "crashed", &[]);
    let expected = ["crashed failed", "diverging diverging", "exploded nan", "hung stalled", "late late"];
    wait_for(&daemon, &server, "/hook", &expected, A_SILENCE);
    wait_for(&daemon, &server, "/named", &["named nan"], SOON);
    assert_eq!(healthy.end("TERM").code(), Some(143));
    sleep(LATER);
    drop(notify);

    assert_eq!(server.messages("/hook"), expected, "each once");
    assert!(server.posts("/hook").iter().all(|post| post.authorization == "Bearer secret"));
    let program = fs::read_to_string(folder.join("program")).unwrap();
    let mails = mails.lock().unwrap().clone();
    let texts = |posts: Vec<Post>, key: &str| -> Vec<String> {
        posts.iter().map(|post| post.body[key].as_str().unwrap().to_owned()).collect()
    };
    // ntfy gets JSON at the address of its server.
    let (chat, phone) = (texts(server.posts("/chat"), "text"), texts(server.posts("/"), "title"));
    assert!(server.posts("/").iter().all(|post| post.body["topic"] == "topic"));
    let title = &format!("{}: NaN since epoch 21", full("exploded"));
    for name in ["crashed", "diverging", "exploded", "hung", "late"] {
        let begins = |text: &str, before: &str| text.contains(&format!("{before}{}: ", full(name)));
        assert_eq!(chat.iter().filter(|text| begins(text, "*")).count(), 1, "{name}: {chat:#?}");
        assert_eq!(phone.iter().filter(|text| begins(text, "")).count(), 1, "{name}: {phone:#?}");
        assert_eq!(mails.iter().filter(|text| begins(text, "Subject: ")).count(), 1, "{name}: {mails:#?}");
        assert_eq!(
            program.lines().filter(|line| line.starts_with(&format!("{}: ", full(name)))).count(),
            1,
            "{program}"
        );
    }
    assert!(chat.iter().any(|text| text.contains(title) && text.contains("gradient clipping")), "{chat:#?}");
    assert!(mails.iter().any(|mail| mail.contains(title) && mail.contains("To: alice@test.example")), "{mails:#?}");
    for other in ["healthy", "nobody", "named"] {
        let everything = format!("{chat:?}{phone:?}{mails:?}{program}{:?}", server.messages("/hook"));
        assert!(!everything.contains(other), "{other}: {everything}");
    }
}

#[test]
fn nothing_is_lost_or_repeated_when_either_process_is_killed_and_the_server_is_down() {
    let server = Http::start();
    server.set("/hook", 503);
    let config = format!("[notify.hook]\ntype = \"webhook\"\nurl = \"{}\"\n{ENDS}\n", server.url("/hook"));
    let mut daemon = Daemon::start_configured("off", &["policy.interval=1s"], &config);
    let notify = Notify::start(&daemon);
    Notify::wait_until_connected(&daemon, 1);
    let _nan = training(&daemon, "kept-nan", &[], "value=nan");
    daemon.wait_for_job(&full("kept-nan"), "is NaN", SOON, |job| job["health"]["condition"] == "nan");
    eventually("it is in the spool", SOON, || {
        fs::read_dir(Notify::state(&daemon).join("spool/to-hook")).ok()?.next().map(drop)
    });
    notify.kill();
    let _crashed = failing(&daemon, "kept-crashed", &[]);
    let probe = || {
        daemon.stdout_of(&["history", "--events"]).contains(&format!("{} ended", full("kept-crashed"))).then_some(())
    };
    eventually("the history has it", SOON, probe);
    daemon.end("KILL");
    daemon.boot();
    daemon.wait_for_job(&full("kept-nan"), "is NaN", SOON, |job| job["health"]["condition"] == "nan");

    let notify = Notify::start(&daemon);
    eventually("attempts fail", SOON, || (!server.posts("/hook").is_empty()).then_some(()));
    notify.kill();
    server.set("/hook", 200);
    server.clear();
    let _notify = Notify::start(&daemon);
    wait_for(&daemon, &server, "/hook", &["kept-crashed failed", "kept-nan nan"], SOON);
    daemon.end("KILL");
    daemon.boot();
    let _late = failing(&daemon, "kept-later", &[]);
    let all = ["kept-crashed failed", "kept-later failed", "kept-nan nan"];
    wait_for(&daemon, &server, "/hook", &all, SOON);
    sleep(LATER);
    assert_eq!(server.messages("/hook"), all, "each once");
    assert_eq!(fs::read_dir(Notify::state(&daemon).join("spool/to-hook")).unwrap().count(), 0);
}

#[test]
fn what_is_too_much_comes_in_one_digest_and_what_a_server_refuses_is_given_up() {
    let server = Http::start();
    server.set("/gone", 404);
    let target = |name: &str, more: &str| {
        let url = server.url(&format!("/{name}"));
        format!("[notify.{name}]\ntype = \"webhook\"\nurl = \"{url}\"\n{ENDS}\n{more}\n")
    };
    let config = [target("hook", "per-hour = 2"), target("gone", "all-jobs = false")].concat();
    let daemon = Daemon::start_configured("off", &["policy.interval=1s"], &config);
    let test = |arguments: &[&str]| {
        let mut flowctl = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        flowctl.args(["notify", "test"]).args(arguments).arg("--config").arg(daemon.config());
        let output = flowctl.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), text)
    };
    let (code, text) = test(&["hook"]);
    assert!(code == Some(0) && text.contains("hook: delivered"), "{code:?} {text}");
    let (code, text) = test(&[]);
    assert!(code == Some(1) && text.contains("gone: HTTP status 404: ok; next: check the url"), "{code:?} {text}");
    let (code, text) = test(&["nosuch"]);
    assert!(code == Some(1) && text.contains("no target nosuch; the configuration has: gone, hook"), "{code:?} {text}");
    assert!(server.posts("/hook")[0].body["title"].as_str().unwrap().ends_with(": this is a test of flowcon-notify"));
    server.clear();

    let _notify = Notify::start(&daemon);
    Notify::wait_until_connected(&daemon, 1);
    let _wrong = Job::start(&daemon, &full("mistaken"), &["flowcon.notify=hok"], &["sleep", "1000"]);
    daemon.wait_for_job(&full("mistaken"), "is governed", SOON, |_| true);
    let page = daemon.stdout_of(&["explain", &full("mistaken")]);
    let warning = "label flowcon.notify ignored for hok: there is no such target of messages (targets: gone, hook)";
    assert!(unwrapped(&page).contains(warning), "{page}");
    let _jobs: Vec<Job> = (1..=4).map(|n| failing(&daemon, &format!("too-many-{n}"), &[])).collect();
    let refused = ["run", "-d", "--notify", "gone", "--name", &full("refused"), "--", "sh", "-c", "sleep 5; exit 3"];
    assert_eq!(daemon.stdout_of(&refused).trim(), full("refused"));
    let all: Vec<String> = (1..=4).map(|n| format!("too-many-{n} failed")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    wait_for(&daemon, &server, "/hook", &all, SOON);
    let posts = server.posts("/hook");
    assert!(posts.len() <= 2, "{} deliveries within an hour", posts.len());
    assert!(posts.iter().any(|post| post.body["messages"].as_array().unwrap().len() > 1));
    let failed = Notify::state(&daemon).join("failed/to-gone");
    let probe = || fs::read_dir(&failed).ok().map(Iterator::count).filter(|files| *files == 1).map(drop);
    eventually("a refused message is set aside", SOON, probe);
    assert_eq!(server.posts("/gone").len(), 1, "it is not repeated");
}
