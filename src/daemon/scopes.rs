//! Commands of `flowctl run`: who may register which, their records, and their ends.
//!
//! A task of its own. It trusts only the kernel: the caller's user, the process behind a pidfd, that process's cgroup and its owner. Every
//! user may register commands that compete only with their own commands; no user can take a name, a place or a forecast from another.

mod made;
mod rules;

use super::event::{Event, Output, ScopeEvent};
use api::wire::{Container, ContainerList};
use cgroup::{Cgroup, MemoryRecord};
use config::Settings;
use model::{ContainerId, LogOrigin, NodeStatus, Parameter, TrainingId};
use node::users;
use rules::{Refusal, Rules, bytes_of, name_of, users_of};
use scope::protocol::{Answer, Registration};
use scope::{Asked, Call, Caller, Incoming, Pidfd, ScopeName};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use store::{ScopeRecord, ScopeRecords};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Commands of all users.
const SCOPES_AT_MOST: usize = 4096;
/// Registrations per second of a user after a burst of as many as they may have commands.
const REGISTRATIONS_A_SECOND: f64 = 2.0;
/// Time for a `flowctl run` to reconnect after a restart of the daemon. Until then its command is not governed without its output.
const RECONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How often the daemon looks for commands that have ended, even without a report; less often with more than a hundred commands.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const SCOPES_AT_FULL_PACE: f64 = 100.0;
const SLOWEST_PACE: f64 = 5.0;

struct Known {
    record: ScopeRecord,
    /// As reported by its `flowctl`.
    exit_code: Option<i32>,
    /// When it was first seen without processes.
    empty_since: Option<Instant>,
}

impl Known {
    fn new(record: ScopeRecord) -> Known {
        Known { record, exit_code: None, empty_since: None }
    }
}

/// Registry of commands.
pub(super) struct Registry {
    own: u32,
    rules: Rules,
    records: ScopeRecords,
    known: BTreeMap<ContainerId, Known>,
    /// Commands of an earlier daemon whose `flowctl` has not reconnected.
    expected: BTreeMap<ContainerId, ScopeRecord>,
    connections: BTreeMap<u64, ContainerId>,
    /// Registrations that each user has left, as of a time.
    allowance: BTreeMap<u32, (f64, Instant)>,
    status: watch::Receiver<Arc<NodeStatus>>,
    events: mpsc::Sender<Event>,
}

impl Registry {
    /// Loads the records that an earlier daemon wrote since the last boot. `admins`: users with root's rights.
    pub(crate) fn new(
        settings: &Settings,
        admins: impl IntoIterator<Item = u32>,
        status: watch::Receiver<Arc<NodeStatus>>,
        events: mpsc::Sender<Event>,
    ) -> Registry {
        let own = rustix::process::geteuid().as_raw();
        let records = ScopeRecords::of(&settings.state_dir, node::boot_id());
        let expected = records.all().into_iter().map(|record| (ContainerId::new(&record.id), record)).collect();
        let rules = Rules {
            trusted: admins.into_iter().chain([0, own]).collect(),
            scopes_per_user: settings.scopes_per_user,
            label_bytes: settings.scope_label_bytes.0 as usize,
        };
        let (known, connections, allowance) = Default::default();
        Registry { own, rules, records, known, expected, connections, allowance, status, events }
    }

    /// Answers calls until the daemon ends.
    pub(crate) async fn run(mut self, mut listener: mpsc::Receiver<Incoming>) {
        let reconnected_by = Instant::now() + RECONNECT_WITHIN;
        let mut look_at = Instant::now();
        loop {
            tokio::select! {
                call = listener.recv() => match call {
                    Some(Incoming::Call(call)) => self.answer(call).await,
                    Some(Incoming::Gone(caller)) => if self.connections.remove(&caller.connection).is_some() {
                        look_at = Instant::now();
                    },
                    None => return,
                },
                () = sleep_until(reconnected_by), if !self.expected.is_empty() => self.stop_expecting().await,
                () = sleep_until(look_at) => {
                    self.look_for_ends().await;
                    let pace = (self.known.len() as f64 / SCOPES_AT_FULL_PACE).clamp(1.0, SLOWEST_PACE);
                    look_at = Instant::now() + LOOK_EVERY.mul_f64(pace);
                }
                () = self.events.closed() => return,
            }
        }
    }

    async fn answer(&mut self, call: Call) {
        let Call { caller, asked, reply } = call;
        let answer = match asked {
            Asked::Register { registration, process, output } => {
                match self.register(caller, registration, &process, output).await {
                    Ok(name) => Answer::Registered { name },
                    Err(answer) => answer,
                }
            }
            Asked::Jobs => self.jobs_of(caller.uid),
            Asked::End { exit_code } => {
                let known = self.connections.get(&caller.connection).and_then(|id| self.known.get_mut(id));
                if let Some(known) = known {
                    known.exit_code = exit_code.map(i32::from);
                }
                self.look_for_ends().await;
                Answer::Noted {}
            }
        };
        let _ = reply.send(answer); // the caller may be gone
    }

    /// Registers a command. Returns its name, or the answer that rejects it.
    async fn register(
        &mut self,
        caller: Caller,
        registration: Registration,
        process: &Pidfd,
        output: File,
    ) -> Result<String, Answer> {
        self.rules.check_labels(caller.uid, caller.account, &registration.labels).map_err(refused)?;
        let made = self.make_cgroup(caller, &registration, process).await?;
        let record = match self.verify(caller, registration.clone(), process) {
            Ok(record) => record,
            Err(refusal) => {
                if let Some(home) = made {
                    home.remove(); // its process has ended
                }
                return Err(refused(refusal));
            }
        };
        let id = ContainerId::new(&record.id);
        let origin = caller.pid.map(|pid| LogOrigin::Output { pid, fd: registration.output });
        let output = Output { file: output, origin };
        let name = record.name.clone();
        let is_same = |known: &ScopeRecord| (known.pid, known.start_ticks) == (record.pid, record.start_ticks);
        if let Some(known) = self.known.get(&id) {
            if is_same(&known.record) {
                self.connections.insert(caller.connection, id.clone());
                self.emit(ScopeEvent::Output(id, output)).await;
                return Ok(name);
            }
            if !is_empty(&known.record) {
                let next = "choose another --name, or see `flowctl status`".to_owned();
                return Err(Answer::refused(format!("a command named `{name}` is already running"), next));
            }
            self.end(id.clone()).await;
        }
        let is_reconnected = self.expected.get(&id).is_some_and(is_same);
        if !is_reconnected && made.is_none() {
            self.check_quota(caller, &registration.labels).map_err(refused)?;
        }
        if let Err(error) = tokio::task::block_in_place(|| self.records.keep(&record)) {
            tracing::warn!(%id, %error, "a command is governed, but its record is not saved for the next daemon");
        }
        self.expected.remove(&id);
        self.connections.insert(caller.connection, id.clone());
        self.known.insert(id, Known::new(record.clone()));
        self.emit(ScopeEvent::Started(Box::new(record), Some(output))).await;
        Ok(name)
    }

    /// Verifies with the kernel that the caller may register this process, and returns its record.
    fn verify(&self, caller: Caller, registration: Registration, process: &Pidfd) -> Result<ScopeRecord, Refusal> {
        let refused = |message: String| (message, START_IT.to_owned());
        let name = name_of(&registration)?;
        let pid = process.pid().ok_or_else(gone)?;
        let start = cgroup::start_time(pid).ok_or_else(gone)?;
        let of_name = |cgroup: String| Some((Cgroup::of_scope(pid, Some(start), &cgroup).ok()?, cgroup));
        let (found, cgroup) = of_name(name.cgroup()).or_else(|| of_name(name.unit())).ok_or_else(|| {
            refused(format!("process {pid} is in no cgroup called {} or {}", name.cgroup(), name.unit()))
        })?;
        if !self.is_privileged(caller.uid) {
            let is_in_theirs = found.belongs_to(caller.uid) || found.was_made_for(caller.uid);
            let is_theirs = is_in_theirs && users_of(pid).is_some_and(|[real, ..]| real == caller.uid);
            if !is_theirs {
                let message =
                    format!("process {pid}, its cgroup and the parent cgroup do not all belong to user {}", caller.uid);
                return Err(refused(message));
            }
        }
        // What was read belongs to this process only if it is still alive.
        if process.pid() != Some(pid) || cgroup::start_time(pid) != Some(start) {
            return Err(gone());
        }
        let (id, shown) = self.called(caller.uid, &name);
        let words = || registration.command.iter().map(String::as_str);
        Ok(ScopeRecord {
            id: id.as_str().to_owned(),
            name: shown,
            uid: caller.uid,
            account: caller.account,
            labels: registration.labels,
            pid,
            start_ticks: start.0,
            cgroup,
            directories: found.directories(),
            training: Some(TrainingId::of_user(caller.uid, words()).to_string()),
            parameters: Parameter::all(words()),
        })
    }

    /// Whether this user is root or that of the daemon, whose commands need no mark.
    fn is_privileged(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own
    }

    /// The id of a user's command, and its name in `flowctl status`.
    fn called(&self, uid: u32, name: &ScopeName) -> (ContainerId, String) {
        if self.is_privileged(uid) {
            (ContainerId::new(&format!("scope:{name}")), name.to_string())
        } else {
            (ContainerId::new(&format!("scope:{name}@{uid}")), format!("{name}@{}", users::name_or_number(uid)))
        }
    }

    /// Checks that the caller may register one more command.
    fn check_quota(&mut self, caller: Caller, labels: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let all = self.known.values().map(|known| &known.record).chain(self.expected.values());
        if all.clone().count() >= SCOPES_AT_MOST {
            let message = format!("{SCOPES_AT_MOST} commands are governed, which is the maximum");
            return Err((message, "run it without `flowctl run`".to_owned()));
        }
        let account = caller.account;
        if self.rules.trusted.contains(&caller.uid) {
            return Ok(());
        }
        let own = all.filter(|record| record.account == account);
        let (count, bytes) =
            own.fold((1, bytes_of(labels)), |(count, bytes), record| (count + 1, bytes + bytes_of(&record.labels)));
        let next = |key: &str| {
            format!(
                "wait until one ends, run it without `flowctl run`, or ask for a higher scopes.{key} in flowcond.toml"
            )
        };
        if count > self.rules.scopes_per_user {
            let message = format!("you have {} governed commands, which is the maximum per user", count - 1);
            return Err((message, next("per-user")));
        }
        if bytes > self.rules.label_bytes {
            let most = self.rules.label_bytes;
            let message =
                format!("the labels of your commands would have {bytes} bytes; the maximum per user is {most}");
            return Err((message, next("label-bytes")));
        }
        let burst = self.rules.scopes_per_user as f64;
        let now = Instant::now();
        let (left, since) = self.allowance.entry(account).or_insert((burst, now));
        *left = (*left + now.duration_since(*since).as_secs_f64() * REGISTRATIONS_A_SECOND).min(burst);
        *since = now;
        if *left < 1.0 {
            return Err(("you start commands too fast".to_owned(), "try again in a second".to_owned()));
        }
        *left -= 1.0;
        Ok(())
    }

    /// Governs commands whose `flowctl` did not reconnect, without their output: they get their fair share until they end.
    async fn stop_expecting(&mut self) {
        for (id, record) in std::mem::take(&mut self.expected) {
            self.known.insert(id, Known::new(record.clone()));
            self.emit(ScopeEvent::Started(Box::new(record), None)).await;
        }
    }

    /// Ends the commands without processes. A connected `flowctl` that has yet to report the exit code has time until the next look.
    async fn look_for_ends(&mut self) {
        let now = Instant::now();
        let mut ended = Vec::new();
        for (id, known) in &mut self.known {
            if !is_empty(&known.record) {
                known.empty_since = None;
                continue;
            }
            let empty_for = now.duration_since(*known.empty_since.get_or_insert(now));
            let is_connected = || self.connections.values().any(|connected| connected == id);
            if known.exit_code.is_some() || empty_for >= LOOK_EVERY || !is_connected() {
                ended.push(id.clone());
            }
        }
        for id in ended {
            self.end(id).await;
        }
        let ended: Vec<ContainerId> =
            self.expected.iter().filter(|(_, record)| is_empty(record)).map(|(id, _)| id.clone()).collect();
        for id in ended {
            if let Some(record) = self.expected.remove(&id) {
                self.clear(&record);
            }
        }
        let spent = Duration::from_secs_f64(self.rules.scopes_per_user as f64 / REGISTRATIONS_A_SECOND);
        self.allowance.retain(|_, (_, since)| now.duration_since(*since) < spent);
    }

    async fn end(&mut self, id: ContainerId) {
        if let Some(known) = self.known.remove(&id) {
            let memory = MemoryRecord::of_directories(&known.record.directories);
            self.clear(&known.record);
            self.emit(ScopeEvent::Ended(id, known.exit_code, memory)).await;
        }
    }

    /// Removes the record, and the cgroup, which no `flowctl` may be left to remove; the kernel refuses while it has processes.
    fn clear(&self, record: &ScopeRecord) {
        self.records.forget(&record.id);
        if !record.cgroup.ends_with(".scope") {
            cgroup::remove_empty(&record.directories);
        }
    }

    fn jobs_of(&self, uid: u32) -> Answer {
        let own: BTreeSet<&str> =
            self.known.iter().filter(|(_, known)| known.record.uid == uid).map(|(id, _)| id.as_str()).collect();
        let status = self.status.borrow().clone();
        let jobs = status.jobs.iter().filter(|job| own.contains(job.observed.id.as_str()));
        let containers = jobs.map(|job| Container::of(job, &status)).collect();
        match serde_json::to_value(ContainerList { containers }) {
            Ok(jobs) => Answer::Jobs(jobs),
            Err(error) => Answer::refused(error.to_string(), "report it"),
        }
    }

    async fn emit(&self, event: ScopeEvent) {
        let _ = self.events.send(Event::Scope(event)).await; // the loop may have ended
    }
}

/// Whether a command has no processes.
fn is_empty(record: &ScopeRecord) -> bool {
    !cgroup::is_populated(&record.directories)
}

const START_IT: &str = "start it with `flowctl run -- COMMAND`";

fn gone() -> Refusal {
    ("the process has ended".to_owned(), START_IT.to_owned())
}

fn refused((message, next): Refusal) -> Answer {
    Answer::refused(message, next)
}
