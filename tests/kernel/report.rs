//! Tests of `flowctl report` with a real daemon's history and a real browser. Needs root and Chromium.

use crate::support::daemon::{Daemon, eventually};
use crate::support::job::Job;
use flowcon::host::store::history::{HistoryBatch, HistoryStore};
use flowcon::model::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// A script that computes, prints a falling loss, and ends.
fn script(prints: u32) -> String {
    format!(
        "i=0; while [ $i -lt {prints} ]; do i=$((i+1)); j=0; while [ $j -lt 20000 ]; do j=$((j+1)); done; \
         echo \"epoch $i/{prints} <b>loss</b>: 0.$((900 / i)) <script>alert(1)</script>\"; done"
    )
}

/// Runs three jobs with a real daemon and writes their report.
fn report(folder: &Path) -> PathBuf {
    let daemon = Daemon::start("off", &["policy.interval=1s", "api.group="]);
    let jobs = [("first", 100), ("second", 150), ("script-alert-1", 60)]
        .map(|(name, prints)| Job::start(&daemon, name, &[], &["sh", "-c", &script(prints)]));
    for mut job in jobs {
        assert!(job.wait().success());
    }
    eventually("the history contains their ends", Duration::from_secs(20), || {
        let listed: Value = serde_json::from_str(&daemon.stdout_of(&["history", "-o", "json"])).unwrap();
        let ended = listed.as_array().unwrap().iter().filter(|job| job["ended_unix_ms"].is_u64());
        (ended.count() == 3).then_some(())
    });
    let file = folder.join("report.html");
    daemon.stdout_of(&["report", "--since", "1h", "-o", file.to_str().unwrap()]);
    let nothing = daemon.flowctl(&["report", "--since", "3d", "--until", "2d", "-o", "/dev/null"]);
    assert_eq!(nothing.status.code(), Some(4), "{}", String::from_utf8_lossy(&nothing.stderr));
    file
}

/// The DOM of a page in Chromium, and its console messages.
struct Seen {
    dom: String,
    console: Vec<String>,
}

fn browse(folder: &Path, page: &Path, more: &[&str]) -> Seen {
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
        ])
        .args(["--enable-logging=stderr", "--allow-file-access-from-files", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        // Blocks the browser's own requests.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .args(more)
        .arg(format!("file://{}", page.display()));
    let output = command.output().expect("chromium is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: stderr.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
    }
}

/// Measures the page in a frame of this width from outside, because the page runs no script.
fn measure_layout(folder: &Path, page: &Path, width: u32) -> Value {
    let harness = folder.join(format!("harness-{width}.html"));
    let html = format!(
        "<!doctype html><iframe id=f src=\"{}\" style=\"width:{width}px;height:800px;border:0\"></iframe><pre id=out></pre><script>\
         f.onload = () => {{ const d = f.contentDocument, e = d.documentElement, w = f.contentWindow; \
         const small = [...d.querySelectorAll('p,td,th,dd,dt,a,summary,li')].filter(n => parseFloat(w.getComputedStyle(n).fontSize) < 12).length; \
         const loaded = w.performance.getEntriesByType('resource').map(r => r.name).filter(n => !n.startsWith('data:')); \
         const focusable = [...d.querySelectorAll('a[href],summary,[tabindex=\"0\"]')].length; \
         const wide = [...d.body.querySelectorAll('*')].filter(n => !n.closest('.scroll') && n.getBoundingClientRect().right > {width} + 0.5).map(n => n.tagName + '.' + n.className); \
         out.textContent = JSON.stringify({{scroll: e.scrollWidth, client: e.clientWidth, small, focusable, wide, loaded, scripts: d.scripts.length, text: d.body.innerText.length}}); }};\
         </script>",
        page.file_name().unwrap().to_str().unwrap()
    );
    fs::write(&harness, html).unwrap();
    let seen = browse(folder, &harness, &["--dump-dom"]);
    let layout = seen.dom.split("<pre id=\"out\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    serde_json::from_str(layout.unwrap_or_default()).unwrap_or_else(|error| panic!("{error}: {}", seen.dom))
}

#[test]
fn a_real_browser_shows_the_report_without_errors_network_or_horizontal_scrolling() {
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path());
    let html = fs::read_to_string(&page).unwrap();
    assert!(!html.contains("<script"), "text from logs is escaped");
    for name in ["first", "second", "script-alert-1"] {
        assert!(html.contains(name), "{name}");
    }

    let seen = browse(folder.path(), &page, &["--dump-dom"]);
    assert_eq!(seen.console, [] as [String; 0]);
    // That of the gains is left out if no estimate says anything, as on a busy machine.
    assert!(seen.dom.contains("When each job ran") && seen.dom.matches("<svg").count() >= 6);

    assert_fits_every_screen(folder.path(), &page);

    let pdf = folder.path().join("report.pdf");
    browse(folder.path(), &page, &[&format!("--print-to-pdf={}", pdf.display())]);
    assert!(fs::read(&pdf).unwrap().starts_with(b"%PDF"));
}

fn assert_fits_every_screen(folder: &Path, page: &Path) {
    for width in [320, 375, 1280] {
        let layout = measure_layout(folder, page, width);
        assert_eq!(layout["scroll"], layout["client"], "horizontal scrolling at {width} px: {layout}");
        assert_eq!(layout["wide"], Value::Array(Vec::new()), "{width} px");
        assert_eq!(layout["loaded"], Value::Array(Vec::new()), "nothing is fetched");
        assert_eq!((&layout["small"], &layout["scripts"]), (&Value::from(0), &Value::from(0)), "{width} px: {layout}");
        assert!(layout["focusable"].as_u64().is_some_and(|count| count >= 10), "{layout}");
    }
}

/// Writes the history of an hour with 15 jobs, with a sample of each every six seconds, and a holdback: every third block of two minutes is
/// plain, and in it each job gets half a core instead of 0.6.
fn write_history(state: &Path) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
    let since = now - 3_600_000;
    let mut batch = HistoryBatch::default();
    for number in 1..=15u64 {
        let first = since + (number - 1) * 120_000;
        let ended = (number % 4 != 0).then_some(first + 900_000 + number * 60_000);
        let reason = |rank| Reason::Ranked { milestone: "completion".into(), work: 99.5, rank, of: 15 };
        let last = ended.unwrap_or(now - 1_000);
        for (n, unix_ms) in (first..=last).step_by(6_000).enumerate() {
            let share = Share::clamped(0.05 + 0.01 * ((n / 50) % 5) as f64);
            let (growth, limit) = (GrowthEfficiency::default(), Share::ALL);
            let decision = DecisionRecord { list: None, growth, limit, share, reason: reason(n % 15) };
            batch.samples.push(Sample {
                job: number,
                unix_ms,
                cpu: Some(CpuTime(n as u64 * 3_000_000)),
                memory: Some(Bytes(1 << 30)),
                gpus: None,
                gpu_memory: None,
                value: Some(0.1 + (-(n as f64) / 60.0).exp()),
                progress: Some(n as f64 / 10.0),
                quality: None,
                time_left: None,
                energy: None,
                weight: Some(CpuWeight::DEFAULT),
                state: RunState::Running,
                hold: None,
                decision: Some(decision),
                is_turn: n % 50 == 0,
            });
        }
        batch.jobs.insert(
            number,
            JobRecord {
                number,
                id: ContainerId::new(&format!("{number:064x}")),
                name: format!("training-{number}"),
                runtime: Runtime::Docker,
                started_unix_ms: first,
                first_unix_ms: first,
                last_unix_ms: last,
                ended_unix_ms: ended,
                exit_code: ended.map(|_| 0),
                end: ended.map(|_| flowcon::model::End::Done),
                original_weight: Some(CpuWeight::DEFAULT),
                metric: Some("loss".to_owned()),
                direction: Some(Direction::Down),
                unit: Some(ProgressUnit::Epoch),
                total: None,
                user: None,
                lost_s: None,
                trial: None,
            },
        );
    }
    for (n, from_unix_ms) in (since..now - 120_000).step_by(120_000).enumerate() {
        let (until_unix_ms, plain) = (from_unix_ms + 120_000, n % 3 == 1);
        let runs = |job: &&JobRecord| job.first_unix_ms <= from_unix_ms && job.last_unix_ms >= until_unix_ms;
        let cpu = CpuTime(if plain { 50_000_000 } else { 60_000_000 });
        let work = batch.jobs.values().filter(runs).map(|job| BlockWork { job: job.number, cpu }).collect();
        batch.blocks.push(BlockRecord { from_unix_ms, until_unix_ms, plain, span: Millis(100_000), work });
    }
    HistoryStore::open(state).unwrap().store.write(&batch).unwrap();
}

#[test]
fn a_report_of_an_hour_with_15_jobs_is_small() {
    let state = tempfile::tempdir().unwrap();
    write_history(state.path());
    let daemon = Daemon::start_over(state.path(), &["api.group="]);
    let began = Instant::now();
    let page = daemon.stdout_of(&["report", "--since", "70m", "-o", "-"]);
    let took = began.elapsed();
    eprintln!("report of 15 jobs × 1 hour: {} bytes in {took:?} (this build, from request to page)", page.len());
    assert!(page.len() <= 2_000_000, "{}", page.len());
    assert!(page.contains("training-15") && (page.contains("11 ended") || page.contains("12 ended")));
    assert!(took < Duration::from_secs(300), "{took:?}");
}

#[test]
fn a_measured_gain_is_reported_and_fits_every_screen() {
    let (state, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_history(state.path());
    let daemon = Daemon::start_over(state.path(), &["api.group="]);
    let page = folder.path().join("report.html");
    daemon.stdout_of(&["report", "--since", "70m", "-o", page.to_str().unwrap()]);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Work while governed") && text.contains("measured gain"), "{text}");
    assert!(text.contains("+20%"), "0.6 cores compared with 0.5");
    assert_fits_every_screen(folder.path(), &page);
}

#[test]
fn without_jobs_or_a_daemon_the_exit_codes_differ() {
    let daemon = Daemon::start("off", &["api.group="]);
    let empty = daemon.flowctl(&["report", "-o", "/nowhere/report.html"]);
    assert_eq!(empty.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&empty.stderr).contains("no job ran"));
    for words in [&["-o", "json", "report"][..], &["report", "-o", "json"], &["report", "--json"]] {
        let form = daemon.flowctl(words);
        let stderr = String::from_utf8_lossy(&form.stderr);
        assert_eq!(form.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains("only as an HTML page"), "{stderr}");
        assert!(!Path::new("json").exists(), "{words:?}");
    }
    let alone = Command::new(env!("CARGO_BIN_EXE_flowctl"))
        .args(["--socket", "/nowhere/flowcond.sock", "report", "-o", "/dev/null"])
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(3));
}
