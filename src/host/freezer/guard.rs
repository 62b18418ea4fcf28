//! The daemon's side of the guard process: starts it, sends it plans, and thaws its cgroups after it has ended.
//!
//! Never blocks: a guard that has not responded gets no further plan, and is killed after a timeout.

use super::turns::{Plan, TurnResults};
use super::{leave, thaw};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Timeout after which a guard is killed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// A guard that ended or failed to start is not restarted sooner; until then the reason is reported.
const RESTART_AFTER: Duration = Duration::from_secs(10);

/// The outcome of sending a plan.
#[derive(Debug)]
pub struct Followed {
    /// The report on the previous plan; `None` = none has arrived yet.
    pub report: Option<TurnResults>,
    /// Whether the guard received this plan; otherwise it is still busy with the previous one.
    pub is_sent: bool,
}

/// The process that freezes and thaws. When dropped, it thaws everything and ends.
#[derive(Debug, Default)]
pub struct Guard {
    running: Option<Running>,
    /// Time and reason of the last failure, until a guard is running again.
    broken: Option<(Instant, String)>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    plans: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Cgroups that the guard may have frozen.
    maybe_frozen: BTreeSet<PathBuf>,
    /// Cgroups of its last plan; all others are thawed once it has responded to that plan.
    planned: BTreeSet<PathBuf>,
    report: Option<TurnResults>,
    /// When a plan was sent that has not been answered yet.
    unanswered: Option<Instant>,
    /// Why the guard ended.
    ended: Option<String>,
}

impl Guard {
    /// Sends a plan to the guard.
    ///
    /// # Errors
    /// The guard could not be started or has ended. It is restarted after a while; until then nothing is frozen.
    pub fn follow(&mut self, plan: &Plan) -> Result<Followed, String> {
        let (report, unanswered, ended) = {
            let mut shared = lock(&self.shared);
            (shared.report.take(), shared.unanswered, shared.ended.take())
        };
        if let Some(why) = ended {
            self.running = None;
            self.broken =
                Some((Instant::now(), format!("{why}; nothing is frozen until it is restarted in a few seconds")));
        }
        if let Some(since) = unanswered {
            if since.elapsed() >= RESPONSE_TIMEOUT
                && let Some(running) = &mut self.running
            {
                let _ = running.child.kill(); // its reader notices the end
            }
            return Ok(Followed { report, is_sent: false });
        }
        if self.running.is_none() {
            let recent_failure = self.broken.as_ref().filter(|(since, _)| since.elapsed() < RESTART_AFTER);
            if plan.turns.is_empty() || recent_failure.is_some() {
                plan.leave.iter().for_each(|path| leave(path));
                return match recent_failure {
                    Some((_, why)) if !plan.turns.is_empty() => Err(why.clone()),
                    _ => Ok(Followed { report: report.or_else(|| Some(TurnResults::default())), is_sent: true }),
                };
            }
            match start(&self.shared) {
                Ok(running) => (self.running, self.broken) = (Some(running), None),
                Err(error) => {
                    let why = format!("cannot start the process that freezes jobs: {error}");
                    return Err(self.broken.insert((Instant::now(), why)).1.clone());
                }
            }
        }
        self.send(plan);
        Ok(Followed { report, is_sent: true })
    }

    /// Whether the guard has carried out the last plan, so that it freezes nothing that the plan does not have turns for.
    pub fn has_answered(&self) -> bool {
        lock(&self.shared).unanswered.is_none()
    }

    /// Sets whether it has, for tests.
    #[doc(hidden)]
    pub fn set_answered(&self, is_answered: bool) {
        lock(&self.shared).unanswered = (!is_answered).then(Instant::now);
    }

    fn send(&mut self, plan: &Plan) {
        let Some(plans) = self.running.as_mut().and_then(|running| running.plans.as_mut()) else { return };
        {
            let mut shared = lock(&self.shared);
            shared.planned = plan.turns.iter().map(|turn| turn.cgroup.clone()).collect();
            let planned = shared.planned.clone();
            shared.maybe_frozen.extend(planned);
            shared.maybe_frozen.retain(|path| !plan.leave.contains(path));
            shared.unanswered = Some(Instant::now());
        }
        let mut line = serde_json::to_vec(plan).unwrap_or_default();
        line.push(b'\n');
        // On failure the guard has ended, which its reader notices.
        let _ = plans.write_all(&line);
    }
}

/// Starts this executable as the guard, even if its file was renamed or replaced.
fn start(shared: &Arc<Mutex<Shared>>) -> io::Result<Running> {
    // A separate process group, so that signals of the terminal do not reach the guard.
    let mut child = Command::new("/proc/self/exe")
        .arg("freezer")
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let plans = child.stdin.take();
    let reports = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    let reader_shared = Arc::clone(shared);
    lock(shared).unanswered = None;
    let reader = thread::Builder::new().name("freezer".to_owned()).spawn(move || read_reports(reports, &reader_shared));
    match reader {
        Ok(reader) => Ok(Running { child, plans, reader: Some(reader) }),
        Err(error) => {
            let _ = child.kill(); // it has received no plan
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Reads reports until the guard has ended for any reason, then thaws all cgroups that it may have left frozen.
fn read_reports(reports: ChildStdout, shared: &Mutex<Shared>) {
    for line in BufReader::new(reports).lines() {
        let Ok(report) = line.map_err(drop).and_then(|line| serde_json::from_str(&line).map_err(drop)) else { break };
        let mut shared = lock(shared);
        shared.report = Some(report);
        shared.unanswered = None;
        shared.maybe_frozen = shared.planned.clone();
    }
    let mut shared = lock(shared);
    let failed: Vec<String> = std::mem::take(&mut shared.maybe_frozen)
        .iter()
        .filter_map(|path| Some(format!(", and {} could not be thawed: {}", path.display(), thaw(path).err()?)))
        .collect();
    shared.unanswered = None;
    shared.ended = Some(format!("the process that freezes jobs has ended{}", failed.concat()));
}

impl Drop for Running {
    fn drop(&mut self) {
        self.plans = None;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill(); // in case it has not ended
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join(); // it thaws the remaining cgroups
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
