//! A real API server on a Unix socket with handmade data, shared by the tests of the API and the command line.

#![allow(dead_code, reason = "each test binary needs only a part of it")]

use flowcon::api::{self, Access, ApiLimits, Command, Feed, Refusal, Request};
use flowcon::model::*;
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// A group id that no account of the machine has.
pub const READERS: u32 = 54_321;

/// A server with a fake daemon that replies to commands.
pub struct Served {
    pub socket: PathBuf,
    pub status: watch::Sender<Arc<NodeStatus>>,
    pub commands: Arc<Mutex<Vec<(Command, String)>>>,
    recent: Arc<Mutex<VecDeque<Event>>>,
    events: broadcast::Sender<Event>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Served {
    /// Starts a server with the default limits.
    pub fn new(status: NodeStatus) -> Served {
        Served::with(status, ApiLimits::default())
    }

    /// Starts a server with other limits. Every user may connect, so that only peer credentials decide.
    pub fn with(status: NodeStatus, limits: ApiLimits) -> Served {
        Served::with_admins(status, limits, &[])
    }

    /// Like [`Served::with`], with users who have full control.
    pub fn with_admins(status: NodeStatus, limits: ApiLimits, admins: &[u32]) -> Served {
        let access = Access::new(admins.iter().copied(), Some(READERS));
        let folder = tempfile::tempdir().expect("folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("open folder");
        let socket = folder.path().join("flowcond.sock");
        let (status, published) = watch::channel(Arc::new(status));
        let (commands, requests) = mpsc::channel(8);
        let events = broadcast::channel(64).0;
        let recent = Arc::new(Mutex::new(VecDeque::new()));
        let recordings = mpsc::channel(1).0; // recording is not tested here
        let history = mpsc::channel(1).0; // there is no history here
        let configuration = watch::channel(Arc::from("[policy]\n")).1;
        let feed = Feed {
            status: published,
            configuration,
            recent: recent.clone(),
            events: events.clone(),
            commands,
            recordings,
            history,
        };
        let received = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let (ready, bound) = std::sync::mpsc::channel();
        let (path, log) = (socket.clone(), received.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("runtime").block_on(async move {
                let socket = api::bind(&path, None, 0o666).expect("bound");
                tokio::spawn(reply_to_commands(requests, log));
                ready.send(()).expect("the test waits");
                let shutdown = async { drop(stopped.await) };
                api::serve(socket, feed, access, limits, shutdown).await;
            });
        });
        bound.recv().expect("the server binds");
        Served {
            socket,
            status,
            commands: received,
            recent,
            events,
            stop: Some(stop),
            thread: Some(thread),
            _folder: folder,
        }
    }

    /// Publishes an event like the daemon: stored first, then sent.
    pub fn publish(&self, sequence: u64, text: &str) {
        let event = Event {
            sequence,
            unix_ms: 1_700_000_000_000 + sequence,
            kind: EventKind::List,
            container: Some("4f2a9c01d3e7".to_owned()),
            name: Some("mnist-vae".to_owned()),
            text: text.to_owned(),
            alert: None,
        };
        self.recent.lock().expect("lock").push_back(event.clone());
        // Fails without subscribers.
        let _ = self.events.send(event);
    }

    /// Drops the oldest events, like a bounded queue.
    pub fn forget(&self, count: usize) {
        self.recent.lock().expect("lock").drain(..count);
    }

    /// Stops the server and waits for its end.
    pub fn stop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends cleanly");
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Replies to commands: rejects a resume, fails to restore, never replies to a reload, and accepts the rest.
async fn reply_to_commands(mut requests: mpsc::Receiver<Request<Command>>, log: Arc<Mutex<Vec<(Command, String)>>>) {
    let mut pending = Vec::new();
    while let Some(Request { command, requested_by, reply }) = requests.recv().await {
        log.lock().expect("lock").push((command.clone(), requested_by));
        let result = match command {
            Command::Reload => {
                pending.push(reply);
                continue;
            }
            Command::Govern(None) => Err(Refusal::Refused("nothing is released".to_owned())),
            Command::Restore => Err(Refusal::Failed("cpu.weight of vae: permission denied".to_owned())),
            other => Ok(format!("done: {other:?}")),
        };
        let _ = reply.send(result);
    }
}

/// Runs `arguments` as another user and group.
pub fn as_user(uid: u32, gid: u32, extra_groups: Option<u32>, arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new("setpriv");
    command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}"));
    match extra_groups {
        Some(group) => command.arg(format!("--groups={group}")),
        None => command.arg("--clear-groups"),
    };
    command.args(arguments);
    command
}

/// A node without governed jobs.
pub fn idle_node() -> NodeStatus {
    NodeStatus {
        now: Millis::from_secs(1000),
        unix_ms: 1_700_000_000_000,
        since: Millis::from_secs(100),
        cores: 4.0,
        pressure: Pressure { cpu: Some(0.12), memory: Some(0.0), io: Some(0.031) },
        settings: PolicySettings { policy: PolicyName::Flowcon, ..PolicySettings::default() },
        interval: Millis::from_secs(20),
        next_tick: Millis::from_secs(1012),
        ticks: 45,
        runtimes: vec!["docker: connected (28.2.2)".to_owned()],
        ..NodeStatus::default()
    }
}

/// A node with one job of each kind.
pub fn busy_node() -> NodeStatus {
    let mut node = idle_node();
    node.interval = Millis::from_secs(40);
    node.jobs = vec![growing(), converged(), foreign(), diverging(), unread()];
    node.jobs.iter_mut().for_each(|job| job.time_left = job.observed.learning.seconds_left());
    node.notices = vec![Notice {
        level: NoticeLevel::Warning,
        unix_ms: 1_699_999_000_000,
        text: "inotify: no watches left; raise fs.inotify.max_user_watches".to_owned(),
    }];
    node
}

/// A newly discovered job.
pub fn job(id: &str, name: &str) -> JobStatus {
    let weight = Limits {
        cpu_weight: Some(CpuWeight::DEFAULT),
        cpu_quota: Some(None),
        memory_low: Some(Bytes(0)),
        memory_high: Some(None),
        io_weight: None,
    };
    let observed = ContainerObservation {
        id: ContainerId::new(id),
        name: name.to_owned(),
        started: Millis::from_secs(280),
        usage: Usage {
            cpu: Some(CpuTime(1_296_000_000)),
            memory: Some(Bytes(3 << 29)),
            working_set: Some(Bytes(1 << 30)),
            ..Usage::default()
        },
        limits: weight,
        original: weight,
        ..ContainerObservation::new(id)
    };
    JobStatus {
        observed,
        plan: None,
        time_left: None,
        energy: None,
        forecast: None,
        cpu_used: Some(0.45),
        frozen: None,
        threads: None,
        recent: Vec::new(),
        line: None,
        log_source: "json-file".to_owned(),
        log_origin: None,
        directives: std::sync::Arc::default(),
        drifts: Vec::new(),
        pinned: None,
        adopted: None,
        restarts: None,
        parameters: std::sync::Arc::default(),
        expected_final: None,
        notices: Vec::new(),
    }
}

fn planned(job: &mut JobStatus, list: List, growth: f64, limit: f64, share: f64, weight: f64, reason: Reason) {
    job.plan = Some(ContainerPlan {
        id: job.observed.id.clone(),
        list: Some(list),
        contention: Default::default(),
        growth: GrowthEfficiency { cpu: Some(growth), memory: Some(growth * 2.0), ..GrowthEfficiency::default() },
        limit: Share::clamped(limit),
        share: Share::clamped(share),
        limits: Some(Limits { cpu_weight: Some(CpuWeight::clamped(weight)), ..Limits::default() }),
        gpus: Vec::new(),
        reason,
    });
    job.observed.limits.cpu_weight = Some(CpuWeight::clamped(weight));
}

fn learned(metric: &str, direction: Direction, value: f64, phase: Phase) -> Learning {
    Learning {
        metric: Some(metric.to_owned()),
        direction: Some(direction),
        confidence: 0.93,
        latest: Some(Evaluation { at: Millis::from_secs(996), value, current: Some(37.0), total: Some(50.0) }),
        evaluations: 37,
        gain: Some(Gain { amount: 0.031, from: Millis::from_secs(972), to: Millis::from_secs(992) }),
        progress: Some(Progress {
            unit: ProgressUnit::Epoch,
            current: 37.0,
            total: Some(50.0),
            at: Millis::from_secs(996),
        }),
        units_per_second: Some(0.05),
        units_to_completion: Some(Estimate { low: 12.0, likely: 13.0, high: 16.0 }),
        curve: Some(Curve {
            phase,
            quality: 0.81,
            units_to_quality: Some(Estimate { low: 4.0, likely: 6.0, high: f64::INFINITY }),
        }),
        prior_runs: 0,
        prior_cost_per_unit: None,
        claim: None,
        ..Learning::default()
    }
}

fn health(condition: Condition, evidence: Evidence) -> Health {
    Health { condition, since: Millis::from_secs(700), confidence: 0.93, evidence }
}

fn growing() -> JobStatus {
    let mut job = job("4f2a9c01d3e7aa55", "mnist-vae");
    job.observed.learning = learned("loss", Direction::Down, 0.123_456, Phase::Improving);
    job.observed.health = health(Condition::Learning, Evidence::Nothing);
    job.recent = vec![0.5, 0.3, 0.2, 0.123_456];
    job.line = Some("Epoch 37/50 - loss: 0.123456".to_owned());
    let to_end = Estimate { low: 40.0, likely: 52.0, high: f64::INFINITY };
    let (used, per_unit, is_known) = (1296.0, 4.0, true);
    job.forecast = Some(WorkForecast { to_end, used, per_unit, is_known, usable: None, waste: None, lost_s: None });
    let reason = Reason::Growing { growth: 0.031, part: Share::clamped(0.63) };
    planned(&mut job, List::New, 0.031, 0.63, 0.63, 252.0, reason);
    job
}

fn converged() -> JobStatus {
    let mut job = job("77aa01bc9d2f0011", "resnet50-cifar-baseline-run-3");
    job.observed.learning = learned("val_accuracy", Direction::Up, 0.913_2, Phase::Plateau);
    let best = Evidence::Worse { best: 0.9203, units: Some(31.0), evaluations: 6 };
    job.observed.health = health(Condition::Overfitting, best);
    job.recent = vec![0.91, 0.913, 0.912, 0.913_2];
    let reason = Reason::Converged { growth: 0.001, floor: Share::clamped(0.25) };
    planned(&mut job, List::Completing, 0.001, 0.25, 0.25, 100.0, reason);
    job
}

fn foreign() -> JobStatus {
    let mut job = job("0c9d8e7f6a5b4c3d", "lstm");
    job.observed.learning = learned("perplexity", Direction::Down, 1_234.5, Phase::Improving);
    job.observed.health = health(Condition::Learning, Evidence::Nothing);
    job.observed.hold = Some(Hold::Foreign("cpu.weight is 40 where 73 was ours".to_owned()));
    let reason = Reason::Held { why: "somebody else set cpu.weight to 40".to_owned() };
    planned(&mut job, List::Watching, 0.004, 0.12, 0.12, 40.0, reason);
    job
}

fn diverging() -> JobStatus {
    let mut job = job("ee11dd22cc33bb44", "模型训练-大型语言模型\u{1b}[31m");
    job.observed.learning = learned("loss", Direction::Down, f64::NAN, Phase::Diverging);
    job.observed.health = health(Condition::Nan, Evidence::NotFinite { values: 2, units: Some(36.0) });
    job.observed.learning.units_to_completion = None;
    job.observed.learning.progress.as_mut().expect("progress").total = None;
    job.recent = vec![2.0, f64::INFINITY, f64::NAN];
    job.notices = vec![Notice {
        level: NoticeLevel::Warning,
        unix_ms: 1_699_999_900_000,
        text: "label flowcon.weight=\"lots\" is no number between 0.01 and 100: 1 is used".to_owned(),
    }];
    planned(&mut job, List::New, -0.2, 1.0, 0.0, 100.0, Reason::Silent);
    job
}

fn unread() -> JobStatus {
    let mut job = job("scope:sweep-1", "sweep-1");
    job.observed.runtime = Runtime::Scope;
    job.observed.hold = Some(Hold::Settling);
    job.cpu_used = None;
    job
}
