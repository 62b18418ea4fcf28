//! The daemon's end of the guard: starts the process, hands it plans, and thaws what it left when it is gone.
//!
//! Never blocks: a guard that has not answered is handed nothing more, and after a while killed. Imports: the freezer's turns.

use super::turns::{Plan, Report};
use super::{leave, thaw};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A guard that has not answered for so long is stuck.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// One that ended, or did not start, is not started again sooner: until then the reason stands where people look.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What became of a plan.
#[derive(Debug)]
pub struct Followed {
    /// What came of the plan that was handed over before; `None` = there is no word of it yet.
    pub report: Option<Report>,
    /// The guard has this plan; otherwise it is busy with the one before.
    pub is_handed_over: bool,
}

/// The process that freezes and thaws. Dropped, it thaws everything and ends.
#[derive(Debug, Default)]
pub struct Guard {
    running: Option<Running>,
    /// Since when there is none and why, until there is one again.
    broken: Option<(Instant, String)>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    plans: Option<ChildStdin>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// What it may have frozen.
    in_hand: BTreeSet<PathBuf>,
    /// What it may freeze by its last plan; what else it had is thawed once it has answered that.
    planned: BTreeSet<PathBuf>,
    report: Option<Report>,
    /// A plan that is not answered yet.
    unanswered: Option<Instant>,
    /// Why it ended.
    ended: Option<String>,
}

impl Guard {
    /// Has a plan carried out.
    ///
    /// # Errors
    /// The guard could not be started or has ended. It will be started again after a while; until then nothing is frozen.
    pub fn follow(&mut self, plan: &Plan) -> Result<Followed, String> {
        let (report, unanswered, ended) = {
            let mut shared = lock(&self.shared);
            (shared.report.take(), shared.unanswered, shared.ended.take())
        };
        if let Some(why) = ended {
            self.running = None;
            self.broken = Some((Instant::now(), format!("{why}; nothing is frozen, and it is started again soon")));
        }
        if let Some(since) = unanswered {
            if since.elapsed() >= ANSWERS_WITHIN
                && let Some(running) = &mut self.running
            {
                let _ = running.child.kill(); // its listener hears of the end
            }
            return Ok(Followed { report, is_handed_over: false });
        }
        if self.running.is_none() {
            let barred = self.broken.as_ref().filter(|(since, _)| since.elapsed() < AGAIN_AFTER);
            if plan.turns.is_empty() || barred.is_some() {
                plan.leave.iter().for_each(|path| leave(path));
                return match barred {
                    Some((_, why)) if !plan.turns.is_empty() => Err(why.clone()),
                    _ => Ok(Followed { report: report.or_else(|| Some(Report::default())), is_handed_over: true }),
                };
            }
            match start(&self.shared) {
                Ok(running) => (self.running, self.broken) = (Some(running), None),
                Err(error) => {
                    let why = format!("the process that freezes does not start: {error}");
                    return Err(self.broken.insert((Instant::now(), why)).1.clone());
                }
            }
        }
        self.hand_over(plan);
        Ok(Followed { report, is_handed_over: true })
    }

    fn hand_over(&mut self, plan: &Plan) {
        let Some(plans) = self.running.as_mut().and_then(|running| running.plans.as_mut()) else { return };
        {
            let mut shared = lock(&self.shared);
            shared.planned = plan.turns.iter().map(|turn| turn.cgroup.clone()).collect();
            let planned = shared.planned.clone();
            shared.in_hand.extend(planned);
            shared.in_hand.retain(|path| !plan.leave.contains(path));
            shared.unanswered = Some(Instant::now());
        }
        let mut line = serde_json::to_vec(plan).unwrap_or_default();
        line.push(b'\n');
        // It ended: its listener hears of that.
        let _ = plans.write_all(&line);
    }
}

/// This program once more, whatever its file is called by now, as the guard.
fn start(shared: &Arc<Mutex<Shared>>) -> io::Result<Running> {
    // A group of its own: what a terminal tells the daemon's is not for it.
    let mut child = Command::new("/proc/self/exe")
        .arg("freezer")
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let plans = child.stdin.take();
    let reports = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    let listening = Arc::clone(shared);
    lock(shared).unanswered = None;
    let listener = thread::Builder::new().name("freezer".to_owned()).spawn(move || listen(reports, &listening));
    match listener {
        Ok(listener) => Ok(Running { child, plans, listener: Some(listener) }),
        Err(error) => {
            let _ = child.kill(); // nothing was handed to it
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Until the guard has ended, however: then all that it may have left frozen goes on.
fn listen(reports: ChildStdout, shared: &Mutex<Shared>) {
    for line in BufReader::new(reports).lines() {
        let Ok(report) = line.map_err(drop).and_then(|line| serde_json::from_str(&line).map_err(drop)) else { break };
        let mut shared = lock(shared);
        shared.report = Some(report);
        shared.unanswered = None;
        shared.in_hand = shared.planned.clone();
    }
    let mut shared = lock(shared);
    let failed: Vec<String> = std::mem::take(&mut shared.in_hand)
        .iter()
        .filter_map(|path| Some(format!(", and {} could not be thawed: {}", path.display(), thaw(path).err()?)))
        .collect();
    shared.unanswered = None;
    shared.ended = Some(format!("the process that freezes has ended{}", failed.concat()));
}

impl Drop for Running {
    fn drop(&mut self) {
        self.plans = None;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill(); // it has ended, or does not
        let _ = self.child.wait();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join(); // it thaws what is left
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
