//! The process: reads events, fills the spool, delivers, and reloads its configuration.

use crate::backend::{self, SendError};
use crate::message::{Delivery, Message};
use crate::outbox::{Outbox, Paces};
use crate::route::{Memory, route};
use crate::source::{Cursor, follow};
use crate::spool::Spool;
use api::client::Client;
use api::wire::Event;
use config::{ConfigError, Settings};
use model::AlertKind;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Reads the configuration again.
pub type Reread = Box<dyn Fn() -> Result<Settings, Vec<ConfigError>>>;

/// Timeout of a request to the daemon.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// When stopped, deliveries under way may take this time.
const LAST_DELIVERIES: Duration = Duration::from_secs(25);
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// What must outlive the process, beside the messages.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    cursor: Cursor,
    memory: Memory,
    paces: Paces,
}

/// The loop's data.
struct Server {
    settings: Settings,
    outbox: Outbox,
    state: State,
    host: String,
}

/// Sends messages until the process is told to stop.
///
/// # Errors
/// The state directory cannot be used, or signals cannot be handled.
pub fn serve(settings: Settings, state_dir: &Path, reread: &Reread) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("state directory {}: {error}", state_dir.display());
    let spool = Spool::open(state_dir).map_err(failed)?;
    let state = spool.state().unwrap_or_else(|error| {
        tracing::warn!("what was told before is not known, because its record cannot be read: {error}");
        None
    });
    let state = state.unwrap_or_else(|| State { cursor: Cursor::begin(now_ms()), ..State::default() });
    let outbox = Outbox::open(spool, settings.notify.keys()).map_err(failed)?;
    let server = Server { settings, outbox, state, host: host() };
    server.save();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let ended = runtime.block_on(server.run(reread)).map_err(|error| format!("cannot handle signals: {error}"));
    runtime.shutdown_background();
    ended
}

/// Sends a test message to the target of this name, or to all, and reports what came of each.
///
/// # Errors
/// There is no such target.
pub fn test(
    settings: &Settings,
    name: Option<&str>,
    report: &mut dyn FnMut(&str, Result<(), String>),
) -> Result<(), String> {
    let known = || settings.notify.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) if !settings.notify.contains_key(name) => {
            return Err(format!("there is no target {name}; the configuration has: {}", known()));
        }
        None if settings.notify.is_empty() => {
            return Err("the configuration has no target; `flowctl help notify` has examples".to_owned());
        }
        _ => {}
    }
    let chosen = settings.notify.iter().filter(|(known, _)| name.is_none_or(|name| name == *known));
    let message = Message {
        unix_ms: now_ms(),
        queued_ms: now_ms(),
        kind: AlertKind::Node,
        host: host(),
        job: None,
        container: None,
        user: None,
        words: "this is a test of flowcon-notify".to_owned(),
        detail: "Messages reach you.".to_owned(),
    };
    let delivery = Delivery::of(vec![message], 0);
    for (name, target) in chosen {
        report(name, backend::send(target, &delivery).map_err(|error| error.to_string()));
    }
    Ok(())
}

impl Server {
    async fn run(mut self, reread: &Reread) -> std::io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let (sender, mut events) = mpsc::channel(64);
        let client = Client::new(&self.settings.socket, ANSWER_WITHIN);
        tokio::spawn(follow(client, self.state.cursor.since_ms(now_ms()), sender, now_ms));
        let (results, mut ended) = mpsc::unbounded_channel();
        let targets = self.settings.notify.len();
        tracing::info!(targets, "flowcon-notify {} starts", env!("CARGO_PKG_VERSION"));
        if targets == 0 {
            tracing::warn!("no target is configured, so nothing is sent; next: flowctl help notify");
        }
        loop {
            let pause = self.deliver(&results);
            tokio::select! {
                Some(event) = events.recv() => self.happened(&event),
                Some((target, result)) = ended.recv() => self.done(&target, result),
                _ = hangup.recv() => self.reload(reread()),
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                () = sleep(pause) => {}
            }
        }
        let last = async {
            while self.outbox.is_sending() {
                let Some((target, result)) = ended.recv().await else { return };
                self.done(&target, result);
            }
        };
        if tokio::time::timeout(LAST_DELIVERIES, last).await.is_err() {
            tracing::warn!("stopped within a delivery, which will be repeated");
        }
        Ok(())
    }

    /// Starts the deliveries that are due, and returns the time until the next may be.
    fn deliver(&mut self, results: &mpsc::UnboundedSender<(String, Result<(), SendError>)>) -> Duration {
        let now = now_ms();
        let (due, next) = self.outbox.take_due(&self.settings.notify, &self.state.paces, now);
        for (name, delivery) in due {
            let (settings, results) = (self.settings.notify[&name].clone(), results.clone());
            tokio::task::spawn_blocking(move || {
                let result = backend::send(&settings, &delivery);
                let _ = results.send((name, result)); // the process may be stopping
            });
        }
        next.map_or(LONGEST_SLEEP, |at| Duration::from_millis(at.saturating_sub(now).max(1))).min(LONGEST_SLEEP)
    }

    /// Handles an event: its messages are in the spool before it counts as handled.
    fn happened(&mut self, event: &Event) {
        if !self.state.cursor.is_new(event, now_ms()) {
            return;
        }
        let State { memory, paces, .. } = &mut self.state;
        for (target, message) in route(event, memory, &self.settings.notify, &self.host, now_ms()) {
            self.outbox.put(&target, message, paces);
        }
        self.save();
    }

    /// Handles the end of a delivery: a message leaves the disk only after the pace that counts it is there.
    fn done(&mut self, target: &str, result: Result<(), SendError>) {
        let delivered = self.outbox.done(target, result, &mut self.state.paces, now_ms());
        self.save();
        for name in delivered {
            if let Err(error) = self.outbox.spool().remove(target, &name) {
                tracing::warn!("a delivered message cannot be removed, and will be repeated after a restart: {error}");
            }
        }
    }

    fn reload(&mut self, reread: Result<Settings, Vec<ConfigError>>) {
        match reread {
            Ok(settings) => {
                for target in settings.notify.keys() {
                    if let Err(error) = self.outbox.add_target(target) {
                        tracing::warn!("what waits for {target} cannot be read: {error}");
                    }
                }
                self.settings.notify = settings.notify;
                tracing::info!(targets = self.settings.notify.len(), "configuration reloaded");
            }
            Err(errors) => {
                let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
                tracing::error!("the configuration was not reloaded: {}", texts.join("; "));
            }
        }
    }

    fn save(&self) {
        if let Err(error) = self.outbox.spool().save(&self.state) {
            tracing::warn!("what was told cannot be recorded, and may be told again after a restart: {error}");
        }
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
