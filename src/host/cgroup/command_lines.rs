//! How the processes of a cgroup were started: command line, environment, working directory.
//!
//! These contain passwords and keys. Therefore no type here implements `Debug`, and callers drop the result as soon as they have searched
//! it. A read may block for as long as the process wants (its memory may be on a slow file system), so read on a separate thread.
//!
//! All reads are limited in size and time, and a process id that was reused meanwhile is left out.

use super::directory::Directory;
use super::process::{self, StartTime};
use super::{Cgroup, Controller};
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Maximum number of processes to read.
const PROCESSES_AT_MOST: usize = 32;
/// Maximum size of a command line, and of an environment, in bytes.
const BYTES_AT_MOST: u64 = 32 << 10;
/// Time after which no further process is read.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The processes of a job, to be read outside of the event loop.
pub struct Members {
    directory: Directory,
}

/// How one process was started. Contains secrets: must not be stored, shown or logged.
pub struct Started {
    /// Process id.
    pub pid: u32,
    /// Start time; a different one means a different process.
    pub start: StartTime,
    /// Effective user on the host.
    pub uid: u32,
    /// Command line.
    pub words: Vec<String>,
    /// Environment at its start.
    pub variables: Vec<(String, String)>,
    /// Working directory, relative to its root.
    pub directory: Option<PathBuf>,
}

impl Cgroup {
    /// Returns a handle on its processes; `None` if its directory cannot be opened again.
    pub fn members(&self) -> Option<Members> {
        let directory = self.directories.of(Controller::Cpu).or_else(|| self.directories.all().next())?;
        Some(Members { directory: directory.try_clone().ok()? })
    }
}

impl Members {
    /// Reads how the processes were started, as far as possible.
    pub fn started(&self) -> Vec<Started> {
        let until = Instant::now() + READ_TIMEOUT;
        let listed = self.directory.processes(PROCESSES_AT_MOST);
        let in_time = listed.iter().take_while(|_| Instant::now() < until);
        let read: Vec<Started> = in_time.filter_map(|pid| started(*pid)).collect();
        // A process that was in the cgroup before and after the read, with the same start time, is a member.
        let still = self.directory.processes(PROCESSES_AT_MOST);
        let is_member = |read: &Started| still.contains(&read.pid) && process::start_time(read.pid) == Some(read.start);
        read.into_iter().filter(is_member).collect()
    }
}

fn started(pid: u32) -> Option<Started> {
    let start = process::start_time(pid)?;
    let words = pieces(pid, "cmdline").collect();
    let variables = pieces(pid, "environ")
        .filter_map(|text| Some(text.split_once('=')?).map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect();
    let uid = effective_uid(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)?;
    let directory = fs::read_link(format!("/proc/{pid}/cwd")).ok();
    Some(Started { pid, start, uid, words, variables, directory })
}

/// Returns the strings between zero bytes; a truncated one is left out.
fn pieces(pid: u32, file: &str) -> impl Iterator<Item = String> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/{file}")) {
        // Data read before an error is valid.
        let _ = file.take(BYTES_AT_MOST).read_to_end(&mut bytes);
    }
    let end = match bytes.len() as u64 {
        BYTES_AT_MOST => bytes.iter().rposition(|byte| *byte == 0).unwrap_or(0),
        _ => bytes.len(),
    };
    bytes.truncate(end);
    let texts: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .filter(|text| !text.is_empty())
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    texts.into_iter()
}

/// Returns the second number of `Uid:\treal\teffective\tsaved\tfile system`.
fn effective_uid(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn members_of(processes: &str) -> (tempfile::TempDir, Members) {
        let dir = tempfile::TempDir::new().unwrap();
        fs::write(dir.path().join("cgroup.procs"), processes).unwrap();
        let directory = Directory::open(dir.path().to_owned(), true, false).unwrap();
        (dir, Members { directory })
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").env_clear().env("EPOCHS", "9").current_dir("/usr").spawn().unwrap()
    }

    #[test]
    fn processes_of_a_cgroup_and_its_descendants_are_read_and_no_others() {
        let mut children = [sleeper(), sleeper(), sleeper()];
        let [own, below, other] = children.each_ref().map(Child::id);
        let (dir, members) = members_of(&format!("{own}\n0\n4194999\n"));
        fs::create_dir(dir.path().join("inner")).unwrap();
        fs::write(dir.path().join("inner/cgroup.procs"), format!("{below}\n")).unwrap();
        let found = members.started();
        children.iter_mut().for_each(|child| {
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let pids: Vec<u32> = found.iter().map(|found| found.pid).collect();
        assert!(pids.contains(&own) && pids.contains(&below) && !pids.contains(&other), "{pids:?}");
        for found in &found {
            assert_eq!(found.words, ["sleep", "1000"]);
            assert_eq!(found.variables, [("EPOCHS".to_owned(), "9".to_owned())]);
            assert_eq!(found.directory, Some(PathBuf::from("/usr")));
            assert_eq!(found.uid, rustix::process::geteuid().as_raw());
        }
        assert!(members.started().is_empty(), "they have exited");
    }

    #[test]
    fn the_number_of_processes_read_is_limited() {
        let listed: String = (1..5000).map(|pid| format!("{pid}\n")).collect();
        assert_eq!(members_of(&listed).1.directory.processes(PROCESSES_AT_MOST).len(), PROCESSES_AT_MOST);
    }

    #[test]
    fn the_effective_user_is_the_second_number() {
        assert_eq!(effective_uid("Name:\tx\nUid:\t1000\t33\t0\t0\nGid:\t1\n"), Some(33));
        assert_eq!(effective_uid("Name:\tx\n"), None);
    }
}
