//! The commands of `flowctl run`: who may register which, what is remembered of them, and when they have ended.
//!
//! A task of its own. What it believes comes from the kernel: the caller's user, the process behind a pidfd, that process's cgroup and
//! who owns it. Everybody may register commands that compete with their own commands only; nobody can take a name, a place or a
//! forecast from another user. Imports: the event, api's wire types, config, host's cgroups, scopes, store and users, model.

use super::event::{Event, Output, ScopeEvent};
use crate::api::wire::{Container, ContainerList};
use crate::config::{Settings, labels};
use crate::host::cgroup::{self, Cgroup};
use crate::host::scope::protocol::{Answer, Registration};
use crate::host::scope::{Asked, Call, Caller, Incoming, Pidfd, ScopeName};
use crate::host::store::{ScopeRecord, ScopeRecords};
use crate::host::{node, users};
use crate::model::{ContainerId, LogOrigin, NodeStatus, TrainingId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Labels of one command.
const LABEL_BYTES: usize = 32 << 10;
/// Commands of all users together.
const SCOPES_AT_MOST: usize = 4096;
/// Registrations a second that a user may go on making after a burst of all that they may have.
const REGISTRATIONS_A_SECOND: f64 = 2.0;
/// A `flowctl run` that a daemon's restart cut off is back by then. Its command is not governed without its output before.
const BACK_AT_LATEST: Duration = Duration::from_secs(5);
/// Whether commands have ended is looked at this often, told or not: with more than a hundred of them in proportion less often.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const SCOPES_AT_FULL_PACE: f64 = 100.0;
const SLOWEST_PACE: f64 = 5.0;

/// What users other than root, the daemon's own and the admins may do.
struct Rules {
    trusted: BTreeSet<u32>,
    scopes_per_user: usize,
    label_bytes: usize,
}

struct Known {
    record: ScopeRecord,
    /// As its `flowctl` told it.
    exit_code: Option<i32>,
}

/// Keeps the commands.
pub(super) struct Keeper {
    own: u32,
    rules: Rules,
    records: ScopeRecords,
    known: BTreeMap<ContainerId, Known>,
    /// Known to an earlier daemon, until their `flowctl` is back.
    expected: BTreeMap<ContainerId, ScopeRecord>,
    connections: BTreeMap<u64, ContainerId>,
    /// Registrations that a user has left, and since when.
    allowance: BTreeMap<u32, (f64, Instant)>,
    status: watch::Receiver<Arc<NodeStatus>>,
    events: mpsc::Sender<Event>,
}

impl Keeper {
    /// Knows what an earlier daemon on this start of the machine knew. `admins`: users that may do what root may.
    pub fn new(
        settings: &Settings,
        admins: impl IntoIterator<Item = u32>,
        status: watch::Receiver<Arc<NodeStatus>>,
        events: mpsc::Sender<Event>,
    ) -> Keeper {
        let own = rustix::process::geteuid().as_raw();
        let records = ScopeRecords::of(&settings.state_dir, node::boot_id());
        let expected = records.all().into_iter().map(|record| (ContainerId::new(&record.id), record)).collect();
        let rules = Rules {
            trusted: admins.into_iter().chain([0, own]).collect(),
            scopes_per_user: settings.scopes_per_user,
            label_bytes: settings.scope_label_bytes.0 as usize,
        };
        let (known, connections, allowance) = Default::default();
        Keeper { own, rules, records, known, expected, connections, allowance, status, events }
    }

    /// Answers what comes in at the listener until the daemon ends.
    pub async fn run(mut self, mut listener: mpsc::Receiver<Incoming>) {
        let back_at = Instant::now() + BACK_AT_LATEST;
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
                () = sleep_until(back_at), if !self.expected.is_empty() => self.expect_no_longer().await,
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
                    Err((message, next)) => Answer::refused(message, next),
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
        let _ = reply.send(answer); // who asked may be gone
    }

    /// Its name, or what is wrong and what to do.
    async fn register(
        &mut self,
        caller: Caller,
        registration: Registration,
        process: &Pidfd,
        output: File,
    ) -> Result<String, (String, String)> {
        self.rules.admit(caller.uid, &registration.labels)?;
        let record = self.confirmed(caller, registration.clone(), process)?;
        let id = ContainerId::new(&record.id);
        let origin = caller.pid.map(|pid| LogOrigin::Output { pid, fd: registration.output });
        let output = Output { file: output, origin };
        let name = record.name.clone();
        let is_same = |known: &ScopeRecord| (known.pid, known.start_ticks) == (record.pid, record.start_ticks);
        if let Some(known) = self.known.get(&id) {
            if is_same(&known.record) {
                self.connections.insert(caller.connection, id.clone());
                self.tell(ScopeEvent::Output(id, output)).await;
                return Ok(name);
            }
            self.look_for_ends().await;
            if self.known.contains_key(&id) {
                let next = "choose another --name, or see `flowctl status`".to_owned();
                return Err((format!("a command named `{name}` runs already"), next));
            }
        }
        let is_back = self.expected.get(&id).is_some_and(is_same);
        if !is_back {
            self.find_room(&record)?;
        }
        if let Err(error) = tokio::task::block_in_place(|| self.records.keep(&record)) {
            tracing::warn!(%id, %error, "a command is governed, but would be unknown to the next daemon");
        }
        self.expected.remove(&id);
        self.connections.insert(caller.connection, id.clone());
        self.known.insert(id, Known { record: record.clone(), exit_code: None });
        self.tell(ScopeEvent::Started(Box::new(record), Some(output))).await;
        Ok(name)
    }

    /// What the kernel says about the process of a registration, if that is the caller's to register.
    fn confirmed(
        &self,
        caller: Caller,
        registration: Registration,
        process: &Pidfd,
    ) -> Result<ScopeRecord, (String, String)> {
        let refused = |message: String| (message, "start it with `flowctl run -- COMMAND`".to_owned());
        let name = ScopeName::new(&registration.name).map_err(|error| {
            let text = error.to_string();
            text.split_once("; ").map_or((text.clone(), String::new()), |(what, next)| (what.into(), next.into()))
        })?;
        let gone = || refused("the process has ended".to_owned());
        let pid = process.pid().ok_or_else(gone)?;
        let start = cgroup::start_time(pid).ok_or_else(gone)?;
        let of_name = |cgroup: String| Some((Cgroup::of_scope(pid, Some(start), &cgroup).ok()?, cgroup));
        let (found, cgroup) = of_name(name.cgroup()).or_else(|| of_name(name.unit())).ok_or_else(|| {
            refused(format!("process {pid} lives in no cgroup called {} or {}", name.cgroup(), name.unit()))
        })?;
        if caller.uid != 0 && caller.uid != self.own {
            let is_theirs = real_user(pid) == Some(caller.uid) && found.belongs_to(caller.uid);
            if !is_theirs {
                let message =
                    format!("process {pid}, its cgroup and the one above do not all belong to user {}", caller.uid);
                return Err(refused(message));
            }
        }
        // What was read was this process's only if it still lives.
        if process.pid() != Some(pid) || cgroup::start_time(pid) != Some(start) {
            return Err(gone());
        }
        let (id, shown) = if caller.uid == 0 || caller.uid == self.own {
            (format!("scope:{name}"), name.to_string())
        } else {
            (format!("scope:{name}@{}", caller.uid), format!("{name}@{}", user_name(caller.uid)))
        };
        let words = registration.command.iter().map(String::as_str);
        Ok(ScopeRecord {
            id,
            name: shown,
            uid: caller.uid,
            account: caller.account,
            labels: registration.labels,
            pid,
            start_ticks: start.0,
            cgroup,
            directories: found.directories(),
            training: Some(TrainingId::of_user(caller.uid, words).to_string()),
        })
    }

    /// Whether the caller may have one more.
    fn find_room(&mut self, new: &ScopeRecord) -> Result<(), (String, String)> {
        let all = self.known.values().map(|known| &known.record).chain(self.expected.values());
        if all.clone().count() >= SCOPES_AT_MOST {
            let message = format!("{SCOPES_AT_MOST} commands are governed already, and no more can be");
            return Err((message, "run it without `flowctl run`".to_owned()));
        }
        let account = new.account;
        if self.rules.trusted.contains(&new.uid) {
            return Ok(());
        }
        let own = all.filter(|record| record.account == account);
        let (count, bytes) = own
            .fold((1, bytes_of(&new.labels)), |(count, bytes), record| (count + 1, bytes + bytes_of(&record.labels)));
        let next = |key: &str| {
            format!(
                "wait until one ends, run it without `flowctl run`, or ask for a higher scopes.{key} in flowcond.toml"
            )
        };
        if count > self.rules.scopes_per_user {
            let message = format!("you have {} governed commands, as many as a user may have", count - 1);
            return Err((message, next("per-user")));
        }
        if bytes > self.rules.label_bytes {
            let most = self.rules.label_bytes;
            let message = format!("the labels of your commands would have {bytes} bytes, and a user's may have {most}");
            return Err((message, next("label-bytes")));
        }
        let burst = self.rules.scopes_per_user as f64;
        let now = Instant::now();
        let (left, since) = self.allowance.entry(account).or_insert((burst, now));
        *left = (*left + now.duration_since(*since).as_secs_f64() * REGISTRATIONS_A_SECOND).min(burst);
        *since = now;
        if *left < 1.0 {
            return Err((
                "you start commands faster than they can be taken".to_owned(),
                "try again in a second".to_owned(),
            ));
        }
        *left -= 1.0;
        Ok(())
    }

    /// Those whose `flowctl` did not come back are governed without their output, which means their fair share, until they end.
    async fn expect_no_longer(&mut self) {
        for (id, record) in std::mem::take(&mut self.expected) {
            let known = Known { record: record.clone(), exit_code: None };
            self.known.insert(id, known);
            self.tell(ScopeEvent::Started(Box::new(record), None)).await;
        }
    }

    async fn look_for_ends(&mut self) {
        let is_over = |record: &ScopeRecord| !cgroup::is_populated(&record.directories);
        let ended: Vec<ContainerId> =
            self.known.iter().filter(|(_, known)| is_over(&known.record)).map(|(id, _)| id.clone()).collect();
        for id in ended {
            let Some(known) = self.known.remove(&id) else { continue };
            self.clear(&known.record);
            self.tell(ScopeEvent::Ended(id, known.exit_code)).await;
        }
        let never_back: Vec<ContainerId> =
            self.expected.iter().filter(|(_, record)| is_over(record)).map(|(id, _)| id.clone()).collect();
        for id in never_back {
            if let Some(record) = self.expected.remove(&id) {
                self.clear(&record);
            }
        }
        let now = Instant::now();
        let spent = Duration::from_secs_f64(self.rules.scopes_per_user as f64 / REGISTRATIONS_A_SECOND);
        self.allowance.retain(|_, (_, since)| now.duration_since(*since) < spent);
    }

    /// A cgroup that no `flowctl` is left to remove goes; the kernel refuses while anything is in it.
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

    async fn tell(&self, event: ScopeEvent) {
        let _ = self.events.send(Event::Scope(event)).await; // the loop has ended
    }
}

impl Rules {
    /// Whether a user may give these labels.
    fn admit(&self, uid: u32, given: &BTreeMap<String, String>) -> Result<(), (String, String)> {
        let bytes = bytes_of(given);
        if bytes > LABEL_BYTES {
            let message =
                format!("the labels of a command may have {LABEL_BYTES} bytes together, and these have {bytes}");
            return Err((message, "leave some out".to_owned()));
        }
        if self.trusted.contains(&uid) {
            return Ok(());
        }
        labels::for_everybody(given)
            .map_err(|message| (message, "leave it out, or ask to be named in api.admins of flowcond.toml".to_owned()))
    }
}

fn bytes_of(labels: &BTreeMap<String, String>) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn real_user(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().next()?.parse().ok()
}

/// As `/etc/passwd` has it, if it is fit for a terminal; the number otherwise.
fn user_name(uid: u32) -> String {
    let fits = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    users::name_of(uid).filter(fits).unwrap_or_else(|| uid.to_string())
}
