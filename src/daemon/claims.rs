//! Claims in the commands of jobs about how long they will train. Each reading has its own thread beside the loop.
//!
//! A reading looks into processes and files of the job, which the job's owner controls, and may take as long as they like. So each reading
//! has its own thread, a job has one reading at a time, and their total is bounded. Arguments and environment variables may hold secrets:
//! they never leave the thread. The loop receives only claims: numbers, and names made of known words.

use super::event::Event;
use super::job::{Job, Jobs};
use cgroup::{Members, Started, start_time};
use model::{Millis, Progress, RunState};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use tail::ContainerFile;
use tokio::sync::mpsc;
use traininglog::claim::{Claim, config_files, gathered, of_command, of_config, of_environment};

/// Readings at one time.
const READINGS_AT_MOST: usize = 4;
/// Files beyond this size are not configurations.
const FILE_AT_MOST: u64 = 256 << 10;
/// Configuration files of one job that are opened in one reading.
const FILES_AT_MOST: usize = 8;

/// The loop's handle.
pub(super) struct ClaimReader {
    events: mpsc::Sender<Event>,
    /// Each reading in progress holds one more reference.
    readings: Arc<()>,
}

impl ClaimReader {
    pub(crate) fn new(events: mpsc::Sender<Event>) -> ClaimReader {
        ClaimReader { events, readings: Arc::new(()) }
    }

    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.readings) > READINGS_AT_MOST
    }

    /// Starts a reading. Returns whether it could be started.
    fn begin(&self, job: &Job) -> bool {
        let Some(members) = job.target.cgroup().members() else { return false };
        let (id, run, owner) = (job.id().clone(), job.run, job.owner.uid);
        let (events, reading) = (self.events.clone(), self.readings.clone());
        let read = move || {
            let claims = claims_of(&members, owner);
            drop(reading);
            let _ = events.blocking_send(Event::Claims { id, run, claims }); // the loop has ended
        };
        thread::Builder::new().name("claims".to_owned()).spawn(read).is_ok()
    }
}

impl ClaimReader {
    /// Reads the commands of jobs for which a reading is due and whose log and labels do not say how long they will train.
    pub(crate) fn ask(&self, jobs: &mut Jobs, now: Millis) {
        for job in jobs.values_mut() {
            if self.is_busy() {
                return;
            }
            let progress = job.tracker.progress();
            let is_known =
                job.directives.hints.total.is_some() || progress.is_some_and(|progress| progress.total.is_some());
            if is_known || job.state != RunState::Running || !job.claim_schedule.is_due(now, counts(progress)) {
                continue;
            }
            if self.begin(job) {
                job.claim_schedule.begin(now, counts(progress));
            }
        }
    }
}

/// Stores the claims that were read. An empty result removes none: a process may hide its command line.
pub(super) fn claimed(job: &mut Job, claims: Vec<Claim>) {
    job.claim_schedule.in_flight = false;
    if !claims.is_empty() {
        job.tracker.claims(claims);
    }
}

fn counts(progress: Option<Progress>) -> bool {
    progress.is_some_and(|progress| progress.total.is_none())
}

fn claims_of(members: &Members, owner: Option<u32>) -> Vec<Claim> {
    let mut found = Vec::new();
    let mut files = 0;
    for process in members.started() {
        found.extend(of_command(&process.words));
        found.extend(of_environment(&process.variables));
        // The daemon may read more than a user: outside of containers it opens no file that a user names.
        if owner.is_some_and(|owner| owner != 0 || process.uid != 0) {
            continue;
        }
        for path in config_files(&process.words) {
            if files == FILES_AT_MOST {
                break;
            }
            files += 1;
            if let Some(text) = config_text(&process, path) {
                found.extend(of_config(path, &text));
            }
        }
    }
    gathered(found)
}

/// Returns the text of a file that the command of a process names, if it is a small regular file inside the process's root that the
/// process itself may read.
fn config_text(process: &Started, path: &str) -> Option<String> {
    let path = match &process.directory {
        Some(directory) => directory.join(path),
        None => Path::new(path).to_owned(),
    };
    let file = ContainerFile::new(Some(process.pid), &[], &path);
    // The root that was opened is this process's only if the process still lived afterwards.
    if start_time(process.pid) != Some(process.start) {
        return None;
    }
    let file = file.open_file().ok()?;
    let kept = file.metadata().ok()?;
    let may_read = process.uid == 0 || kept.uid() == process.uid || kept.mode() & 0o004 != 0;
    if !may_read || kept.len() > FILE_AT_MOST {
        return None;
    }
    let mut text = String::new();
    file.take(FILE_AT_MOST).read_to_string(&mut text).ok()?;
    Some(text)
}
