//! Messages about real trainings at real servers: flowcond, flowcon-notify, and an HTTP and an SMTP server of this test. Needs root.

use crate::ended::{ended, limit_memory};
use crate::mail::{MailServer, Security, certificate};
use crate::support::cgroups::cgroups_named;
use crate::support::daemon::{Daemon, eventually, eventually_or, unwrapped};
use crate::support::gpu::StandIn;
use crate::support::job::Job;
use crate::support::notify::{Http, Notify, Post, full, wait_for};
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(40);
/// A silence counts from a minute on.
const A_SILENCE: Duration = Duration::from_secs(120);
/// A message waits ten seconds for others about the same job.
const LATER: Duration = Duration::from_secs(14);
const ENDS: &str =
    r#"events = ["failed", "ended", "killed-for-memory", "nan", "diverging", "stalled", "late", "node"]"#;

/// Prints an epoch five times a second, with a loss that falls; from epoch 21 on it prints what `$AFTER` computes, or does it.
fn training(daemon: &Daemon, name: &str, labels: &[&str], after: &str) -> Job {
    let script = format!(
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); value=0.$((90000-i*100)); [ $i -le 20 ] || {{ {after}; }}; \
         echo \"epoch $i/100000 loss: $value\"; sleep 0.2; done"
    );
    Job::start(daemon, &full(name), labels, &["sh", "-c", &script])
}

/// Prints an epoch five times a second, with a loss on held-out data that rises from epoch 21 on.
const OVERFITS: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); [ $i -le 20 ] && l=$((90000-i*2000)) || l=$((l<90000?l+60:l)); \
                        echo \"epoch $i/100000 val_loss: 0.$l\"; sleep 0.2; done";

/// Takes a megabyte each second.
const LEAKS: &str =
    "exec awk 'BEGIN { s = \"x\"; while (length(s) < 1e6) s = s s; for (;;) { a[i++] = s i; system(\"sleep 1\") } }'";

/// A command that runs `script` once it is governed.
fn ending(daemon: &Daemon, name: &str, labels: &[&str], script: &str) -> Job {
    let go = daemon.config().with_file_name(format!("go-{name}"));
    let script = format!("until [ -e {} ]; do sleep 0.05; done; {script}", go.display());
    let job = Job::start(daemon, &full(name), labels, &["sh", "-c", &script]);
    daemon.wait_for_job(&full(name), "is governed", SOON, |_| true);
    fs::write(go, "").unwrap();
    job
}

/// A command that fails once it is governed.
fn failing(daemon: &Daemon, name: &str, labels: &[&str]) -> Job {
    ending(daemon, name, labels, "exit 3")
}

/// The message about the end of a command.
fn message_about(daemon: &Daemon, name: &str) -> String {
    let end = ended(daemon, &full(name))["ended"]["kind"].as_str().unwrap().to_owned();
    let kind = match end.as_str() {
        "unknown" => "ended",
        "signalled" => "killed",
        kind => kind,
    };
    format!("{name} {kind}")
}

#[test]
fn each_trouble_reaches_each_kind_of_target_once_and_nothing_is_told_about_a_healthy_job() {
    let (server, mail) = (Http::start(), MailServer::start());
    let daemon = Daemon::start("off", &["policy.interval=1s"]);
    let folder = daemon.config().parent().unwrap().to_owned();
    fs::write(folder.join("token"), "secret\n").unwrap();
    fs::write(folder.join("url"), server.url("/chat")).unwrap();
    let config = format!(
        "[notify.hook]\ntype = \"webhook\"\nurl = \"{}\"\ntoken-file = \"{folder}/token\"\n{ENDS}\nper-hour = 100\n\
         [notify.chat]\ntype = \"slack\"\nurl-file = \"{folder}/url\"\n{ENDS}\n\
         [notify.phone]\ntype = \"ntfy\"\nurl = \"{}\"\n{ENDS}\n\
         [notify.mail]\ntype = \"smtp\"\nurl = \"smtp://127.0.0.1:{}\"\nfrom = \"flowcon@test.example\"\n\
         to = [\"alice@test.example\"]\n{ENDS}\n\
         [notify.program]\ntype = \"command\"\ncommand = [\"sh\", \"-c\", \"cat >>{folder}/program\"]\n{ENDS}\n\
         [notify.named]\ntype = \"webhook\"\nurl = \"{}\"\nall-jobs = false\n",
        server.url("/hook"),
        server.url("/topic"),
        mail.port,
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
    let mails = mail.mails.lock().unwrap().clone();
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
fn every_kind_of_message_is_sent() {
    const GPUS: &str = "gpu 0 GPU-aaaa 20 1024 42949672960 55000 400000 34 210 1215 0 A100\n\
                        gpu 1 GPU-bbbb 0 1024 42949672960 55000 400000 34 210 1215 0 A100\n";
    let (server, gpus) = (Http::start(), StandIn::of(&[]));
    gpus.set_script(GPUS);
    // It looks often, also while nothing changes.
    let daemon = gpus.daemon(&["policy.interval=1s", "policy.max-interval=2s"]);
    let kinds: Vec<String> = model::AlertKind::ALL.into_iter().map(model::word).collect();
    let url = server.url("/hook");
    let config = format!("[notify.hook]\ntype = \"webhook\"\nurl = \"{url}\"\nevents = {kinds:?}\nper-hour = 100\n");
    fs::write(daemon.config(), config).unwrap();
    daemon.stdout_of(&["reload"]);
    let _notify = Notify::start(&daemon);
    Notify::wait_until_connected(&daemon, 1);
    let run =
        |name: &str, labels: &[&str], script: &str| Job::start(&daemon, &full(name), labels, &["sh", "-c", script]);

    let _steady = training(&daemon, "steady", &[], ":");
    let _passing = training(&daemon, "passing", &[], "[ $i -gt 40 ] || value=nan");
    let _overfit = run("overfit", &[], OVERFITS);
    let _leak = run("leak", &[], LEAKS);
    daemon.wait_for_job(&full("leak"), "is governed", SOON, |_| true);
    limit_memory(&full("leak"), 80 << 20);
    // It uses all that it gets, on any machine.
    let pid_file = daemon.config().with_file_name("pid");
    let burns = format!("echo $$ >{}; while :; do :; done", pid_file.display());
    let _loads = run("loads", &["flowcon.max-share=0.01"], &burns);
    let pid = eventually("its process", SOON, || fs::read_to_string(&pid_file).ok().filter(|pid| pid.ends_with('\n')));
    gpus.set_script(&format!("{GPUS}process 0 {} 20 1024\n", pid.trim()));

    let mut expected: Vec<String> = [
        "passing nan",
        "passing recovered",
        "overfit overfitting",
        "leak short-of-memory",
        "loads starving-gpu",
        "- node",
    ]
    .map(str::to_owned)
    .into();
    for (name, script) in [("good", "exit 0"), ("shot", "kill -KILL $$"), ("halted", "kill -TERM $$")] {
        ending(&daemon, name, &[], script).wait();
        expected.push(message_about(&daemon, name));
    }
    let group = format!("flowcon.group={}", full("sweep"));
    let trials: Vec<(&str, Job)> =
        ["trial-1", "trial-2", "trial-3"].map(|name| (name, run(name, &[&group], "exec sleep 1000"))).into();
    daemon.wait_for_job(&full("trial-3"), "is one of a sweep", SOON, |job| !job["trial"].is_null());
    for (name, mut job) in trials {
        job.end("TERM");
        expected.push(message_about(&daemon, name));
    }
    expected.push("trial-3 sweep".to_owned());
    // Nobody reports the end of a command whose `flowctl` was killed.
    let mut orphan = run("orphan", &[], &format!("echo $$ >{}; exec sleep 1000", pid_file.display()));
    let job = daemon.wait_for_job(&full("orphan"), "is governed", SOON, |_| true);
    let orphan_pid = eventually("its process", SOON, || {
        fs::read_to_string(&pid_file).ok().filter(|found| found.ends_with('\n') && *found != pid)
    });
    orphan.end("KILL");
    let _ = Command::new("kill").args(["-KILL", orphan_pid.trim()]).stderr(std::process::Stdio::null()).status();
    expected.push(message_about(&daemon, "orphan"));
    assert!(expected.contains(&"orphan ended".to_owned()), "{job:#}");
    gpus.set_script(&format!("{GPUS}process 0 {} 20 1024\nlost 1\n", pid.trim()));
    expected.push(message_about(&daemon, "leak"));
    let probe = || {
        let sent = server.kinds("/hook");
        expected.iter().all(|message| sent.contains(message)).then_some(())
    };
    // While others use the whole machine, the job whose GPU waits gets less than its share, which is not flowcon's doing.
    eventually_or(&format!("{expected:#?}"), 5 * A_SILENCE, probe, || format!("{:#?}", server.kinds("/hook")));
    let about = |job: &str| server.kinds("/hook").into_iter().filter(|message| message.starts_with(job)).count();
    assert_eq!((about("steady"), about("overfit "), about("leak ")), (0, 1, 2), "{:#?}", server.kinds("/hook"));
    flowcon::host::cgroup::remove_empty(&cgroups_named(&format!("flowcon-{}", full("orphan"))));
}

#[test]
fn mail_is_sent_over_tls_with_a_login_and_only_to_a_server_that_the_system_trusts() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name)
    };
    let trusted = certificate(dir.path());
    let secured = |security| MailServer::start_secured(security, &trusted);
    let (always, on_request, open) = (secured(Security::Always), secured(Security::OnRequest), MailServer::start());
    let (right, wrong) = (file("right", "secret\n"), file("wrong", "guessed\n"));
    let target = |name: &str, url: String, password: &std::path::Path| {
        format!(
            "[notify.{name}]\ntype = \"smtp\"\nurl = \"{url}\"\nuser = \"flowcon\"\npassword-file = \"{}\"\n\
             from = \"flowcon@test.example\"\nto = [\"alice@test.example\"]\n",
            password.display()
        )
    };
    let config = [
        target("tls", format!("smtps://localhost:{}", always.port), &right),
        target("starttls", format!("smtp://localhost:{}?tls=required", on_request.port), &right),
        target("guesses", format!("smtps://localhost:{}", always.port), &wrong),
        target("downgraded", format!("smtp://localhost:{}?tls=required", open.port), &right),
    ];
    let config = file("notify.toml", &config.concat());
    let test = |name: &str, trusted: &std::path::Path| {
        let mut flowctl = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        flowctl.args(["notify", "test", name, "--config"]).arg(&config).env("SSL_CERT_FILE", trusted);
        let output = flowctl.output().unwrap();
        (output.status.code(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat())
    };
    for (name, server) in [("tls", &always), ("starttls", &on_request)] {
        let (code, text) = test(name, &trusted);
        assert!(code == Some(0) && text.contains(&format!("{name}: delivered")), "{code:?} {text}");
        let mail = server.mails.lock().unwrap().pop().expect("a mail");
        assert!(mail.contains("Subject: ") && mail.contains("To: alice@test.example"), "{mail}");
        // Another certificate, of which the system knows nothing.
        let other = tempfile::tempdir().unwrap();
        let (code, text) = test(name, &certificate(other.path()));
        assert!(code == Some(1) && text.contains("certificate"), "{code:?} {text}");
        assert!(server.mails.lock().unwrap().is_empty());
    }
    let (code, text) = test("guesses", &trusted);
    assert!(code == Some(1) && text.contains("check user, password and addresses"), "{code:?} {text}");
    let (code, text) = test("downgraded", &trusted);
    assert_eq!(code, Some(1), "{text}");
    assert!(always.mails.lock().unwrap().is_empty() && open.mails.lock().unwrap().is_empty());
    for server in [&on_request, &open] {
        let in_clear = server.in_clear.lock().unwrap().clone();
        assert!(!in_clear.iter().any(|line| line.starts_with("AUTH")), "a password in clear: {in_clear:?}");
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
