//! Handmade wire documents for the tests in this folder.

use super::app::App;
use super::input::{Effect, Input, Now};
use super::jobs::Order;
use api::wire::{
    Container, ContainerDetail, Decision, Estimate, Event, Explanation, GrowthEfficiency, Health, Hold, Limit, Limits,
    Metric, Node, Notice, Policy, Pressure, Progress, Reading, Sample, Status, Trend, Use,
};
use model::{PolicyName, PolicySettings};
use ratatui::crossterm::event::KeyCode;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time of all snapshots.
pub(super) const NOW: u64 = 1_700_000_000_000;

/// A newly discovered job.
pub(super) fn container(name: &str) -> Container {
    Container {
        id: format!("{name}-0123456789abcdef"),
        short_id: format!("{name}-01234567"),
        name: name.to_owned(),
        runtime: "docker".to_owned(),
        state: "running".to_owned(),
        uptime_s: 720.0,
        max_share: 1.0,
        cpu_weight: Some(100),
        why: "not decided yet".to_owned(),
        ..Container::default()
    }
}

fn metric(name: &str, direction: &str, trend: Trend, recent: &[f64]) -> Metric {
    Metric {
        name: Some(name.to_owned()),
        direction: Some(direction.to_owned()),
        value: recent.last().copied().filter(|value| value.is_finite()),
        trend,
        confidence: 0.93,
        recent: recent.iter().map(|value| Some(*value).filter(|value| value.is_finite())).collect(),
    }
}

fn progress(current: f64, total: f64, left: f64) -> Progress {
    Progress {
        unit: "epoch".to_owned(),
        current: Some(current),
        total: Some(total),
        claimed_total: None,
        fraction: Some(current / total),
        units_per_s: Some(0.05),
        remaining_s: Some(Estimate { low: left * 0.9, likely: left, high: Some(left * 1.25) }),
    }
}

fn health(condition: &str, severity: &str, words: &str) -> Health {
    let [condition, severity, words] = [condition, severity, words].map(str::to_owned);
    Health { condition, severity, words, for_s: 60.0, confidence: 0.9 }
}

/// A growing job, one with foreign limits, a converged one with bounds, and a new one without a decision.
pub(super) fn containers() -> Vec<Container> {
    let mut vae = container("vae");
    vae.uptime_s = 4000.0;
    vae.list = Some("new".to_owned());
    vae.health = Some(health("learning", "ok", "learning"));
    vae.metric = Some(metric("loss", "down", Trend::Improving, &[0.9, 0.5, 0.3, 0.2, 0.15, 0.123_456]));
    vae.progress = Some(progress(37.0, 50.0, 260.0));
    (vae.share, vae.limit, vae.growth) = (Some(0.63), Some(0.63), Some(0.031));
    (vae.cpu_used, vae.memory_bytes) = (Some(0.62), Some(3 << 29));
    vae.why = "learning fast: 63% of all growth".to_owned();

    let mut lstm = container("lstm");
    lstm.list = Some("watching".to_owned());
    lstm.health = Some(health("diverging", "broken", "diverging since epoch 2"));
    lstm.metric = Some(metric("loss", "down", Trend::Diverging, &[2.0, 1.9, 2.4, f64::NAN, 3.1]));
    lstm.progress = Some(progress(3.0, 50.0, 9400.0));
    (lstm.share, lstm.growth, lstm.cpu_used, lstm.memory_bytes) = (Some(0.25), Some(0.004), Some(0.2), Some(900 << 20));
    lstm.why = "left alone: somebody else set cpu.w…".to_owned();
    lstm.hold = Some(Hold {
        kind: "foreign".to_owned(),
        why: "somebody else changed a limit, which is now theirs: cpu.weight is 40 where 73 was ours".to_owned(),
        ends: "`flowctl govern lstm-01234567` takes it back".to_owned(),
    });

    let mut resnet = container("resnet");
    resnet.list = Some("completing".to_owned());
    resnet.health = Some(health("plateau", "ok", "plateau"));
    resnet.metric = Some(metric("val_accuracy", "up", Trend::Plateau, &[0.9, 0.91, 0.913, 0.912, 0.9132]));
    resnet.progress = Some(progress(49.0, 50.0, 20.0));
    (resnet.share, resnet.growth, resnet.cpu_used, resnet.memory_bytes) =
        (Some(0.12), Some(0.0004), Some(0.12), Some(9 << 30));
    (resnet.min_share, resnet.max_share) = (0.05, 0.5);
    resnet.why = "plateau: at least 12%".to_owned();

    let mut sweep = container("sweep");
    sweep.notices = vec![Notice {
        level: "warning".to_owned(),
        unix_ms: NOW - 5000,
        text: "label flowcon.weight=\"lots\" is no number between 0.01 and 100: 1 is used".to_owned(),
    }];
    vec![vae, lstm, resnet, sweep]
}

/// A node in back-off with these jobs.
pub(super) fn status(containers: Vec<Container>) -> Status {
    let policy = PolicySettings { policy: PolicyName::Flowcon, ..PolicySettings::default() };
    Status {
        version: "0.1.0".to_owned(),
        node: Node {
            hostname: "gpu-box".to_owned(),
            unix_ms: NOW,
            uptime_s: 900.0,
            cores: 4.0,
            weights_effect: None,
            pressure: Pressure { cpu: Some(0.12), memory: Some(0.0), io: Some(0.031) },
            policy: Policy::of(&policy),
            interval_s: 40.0,
            next_decision_unix_ms: NOW + 12_000,
            next_decision_in_s: 12.0,
            decisions: 45,
            released: false,
            plain_until_unix_ms: None,
            gpus: Vec::new(),
            runtimes: vec!["docker: connected (28.2.2)".to_owned()],
        },
        containers,
        ended: Vec::new(),
        notices: Vec::new(),
    }
}

/// A job with its explanation, after `evaluations` evaluations of which `recent` are the last.
pub(super) fn detail(name: &str, recent: &[f64], evaluations: u64, line: &str) -> ContainerDetail {
    let mut job = containers().into_iter().find(|job| job.name == name).unwrap_or_else(|| container(name));
    job.metric = Some(metric("loss", "down", Trend::Improving, recent));
    let limit = Limit { original: Some(100.0), standing: Some(252.0), planned: Some(252.0) };
    ContainerDetail {
        container: job,
        explanation: Explanation {
            policy: "flowcon".to_owned(),
            decision: Some(Decision {
                rule: "growing".to_owned(),
                text: "learning fast: 63% of all growth".to_owned(),
                story: "It gains 0.0310 of its evaluation's range per node-CPU-second, above the threshold, which is 63% of \
                        what all containers gain together; the New list gets exactly that part."
                    .to_owned(),
                numbers: BTreeMap::new(),
            }),
            growth: GrowthEfficiency { per_node_cpu_s: Some(0.031), ..GrowthEfficiency::default() },
            growth_threshold: 0.01,
            growth_of_all: 0.05,
            containers_measured: 3,
            reading: Reading {
                source: "json-file".to_owned(),
                line: Some(line.to_owned()).filter(|line| !line.is_empty()),
                evaluations,
                latest_age_s: Some(4.0),
                gain: Some(0.031),
                gain_over_s: Some(20.0),
                phase: Some("improving".to_owned()),
                quality: Some(0.81),
                ..Reading::default()
            },
            limits: Limits { cpu_weight: limit, ..Limits::default() },
            max_share: 1.0,
            weight: 1.0,
            used: Use {
                cpu_s: Some(1296.0),
                memory_bytes: Some(3 << 29),
                working_set_bytes: Some(1 << 30),
                ..Use::default()
            },
            interval_s: 40.0,
            next_decision_unix_ms: NOW + 12_000,
            next_decision_in_s: 12.0,
            ..Explanation::default()
        },
    }
}

/// A sample of a job.
pub(super) fn sample(unix_ms: u64, share: f64, text: &str) -> Sample {
    Sample {
        job: 1,
        unix_ms,
        cpu_s: Some(unix_ms as f64 / 1000.0 - NOW as f64 / 1000.0 + 1000.0),
        value: Some(1.0 + (NOW.saturating_sub(unix_ms)) as f64 / 1e6),
        cpu_weight: Some(100),
        state: "running".to_owned(),
        share: Some(share),
        limit: Some(share),
        decision: Some(Decision {
            rule: "growing".to_owned(),
            text: text.to_owned(),
            story: text.to_owned(),
            numbers: BTreeMap::new(),
        }),
        ..Sample::default()
    }
}

/// An event of a job.
pub(super) fn event(sequence: u64, name: &str, text: &str) -> Event {
    Event {
        sequence,
        unix_ms: NOW - 60_000 + sequence * 1000,
        kind: "list".to_owned(),
        container: Some(container(name).id),
        name: Some(name.to_owned()),
        text: text.to_owned(),
        alert: None,
    }
}

/// A screen of two rows that shows [`containers`].
pub(super) fn app() -> App {
    let mut app = App::new(Duration::from_secs(1), Order::default(), "");
    app.take(Input::Status(Box::new(status(containers()))), Now::default());
    app.set_page(2);
    app
}

/// Presses a key.
pub(super) fn press(app: &mut App, code: KeyCode) -> Vec<Effect> {
    app.take(Input::Key(code.into()), Now::default())
}

/// Presses the keys of a text in turn.
pub(super) fn types(app: &mut App, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| press(app, KeyCode::Char(c))).collect()
}

/// The name of the job under the cursor.
pub(super) fn selected(app: &App) -> &str {
    app.selection().map_or("", |job| &job.name)
}
