//! Whether messages reach people: flowcon-notify runs, and none of its messages waits for long or was refused.

use super::Check;
use config::{FAILED, Settings, WAITING, folder_of};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use term::text::{self, count};

const PROGRAM: &str = "flowcon-notify";
/// Where its unit has it.
const STATE_DIR: &str = "/var/lib/flowcon-notify";
/// A message waits no longer than this for the limit of messages within an hour.
const LONG_S: u64 = 3700;

/// What flowcon-notify has for one target.
#[derive(Debug, PartialEq)]
struct Target {
    name: String,
    waiting: usize,
    /// Age of the oldest message that waits.
    oldest_s: u64,
    /// Messages that could not be delivered.
    failed: usize,
}

/// Checks the program that sends messages, if the configuration has targets for them. `processes` is `/proc`.
pub(super) fn check(settings: &Settings, socket: &Path, processes: &Path, unix_ms: u64) -> Option<Check> {
    let names: Vec<&str> = settings.notify.keys().map(String::as_str).collect();
    if names.is_empty() {
        return None;
    }
    let running = state_dir_of(processes, &settings.socket, socket);
    let state_dir = running.as_deref().unwrap_or(Path::new(STATE_DIR));
    let targets: io::Result<Vec<Target>> = names.iter().map(|name| read(state_dir, name, unix_ms)).collect();
    Some(judge(names.len(), running.is_some(), &targets.unwrap_or_default(), state_dir))
}

/// The state directory of the running flowcon-notify that reads the events of the daemon at `socket`.
fn state_dir_of(processes: &Path, usual_socket: &Path, socket: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(processes).ok()?.flatten().map(|entry| entry.path());
    let words = |folder: PathBuf| -> Option<Vec<String>> {
        let is_it = fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim_end() == PROGRAM);
        let line = if is_it { fs::read_to_string(folder.join("cmdline")).ok()? } else { return None };
        Some(line.split('\0').map(str::to_owned).collect())
    };
    let value = |words: &[String], flag: &str| {
        let at = words.iter().position(|word| {
            word.strip_prefix(flag).is_some_and(|rest| matches!(rest.chars().next(), None | Some('=')))
        })?;
        let value = words[at].split_once('=').map(|(_, value)| value).or(words.get(at + 1).map(String::as_str))?;
        Some(PathBuf::from(value))
    };
    folders.filter_map(words).find_map(|words| {
        let is_of_daemon = value(&words, "--socket").map_or(usual_socket == socket, |other| other == socket);
        is_of_daemon.then(|| value(&words, "--state-dir").unwrap_or_else(|| STATE_DIR.into()))
    })
}

/// Reads what flowcon-notify has for a target. A message's file begins with its time in Unix milliseconds.
fn read(state_dir: &Path, name: &str, unix_ms: u64) -> io::Result<Target> {
    let files = |folder: &str| -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(state_dir.join(folder).join(folder_of(name))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let messages = names.filter(|name| name.ends_with(".json"));
        Ok(messages.filter_map(|name| name.split('-').next()?.parse().ok()).collect())
    };
    let (waiting, failed) = (files(WAITING)?, files(FAILED)?);
    let oldest_s = waiting.iter().min().map_or(0, |oldest| unix_ms.saturating_sub(*oldest) / 1000);
    Ok(Target { name: name.to_owned(), waiting: waiting.len(), oldest_s, failed: failed.len() })
}

fn judge(configured: usize, is_running: bool, targets: &[Target], state_dir: &Path) -> Check {
    const NAME: &str = "messages";
    let all = count(configured, "target");
    let waiting: usize = targets.iter().map(|target| target.waiting).sum();
    let wait = if waiting == 1 { "waits" } else { "wait" };
    let waiting = if targets.is_empty() { String::new() } else { format!("; {} {wait}", count(waiting, "message")) };
    if !is_running {
        return Check::warn(
            NAME,
            format!("{all} configured, but {PROGRAM} does not run, so nobody gets messages{waiting}"),
            "`sudo systemctl enable --now flowcon-notify`",
        );
    }
    let late = targets.iter().filter(|target| target.oldest_s > LONG_S).max_by_key(|target| target.oldest_s);
    if let Some(Target { name, waiting, oldest_s, .. }) = late {
        let since = text::duration(*oldest_s as f64);
        return Check::warn(
            NAME,
            format!("{} for {name} cannot be delivered, the oldest for {since}", count(*waiting, "message")),
            format!("`sudo flowctl notify test {name}` says why"),
        );
    }
    if let Some(Target { name, failed, .. }) = targets.iter().find(|target| target.failed > 0) {
        let folder = state_dir.join(FAILED).join(folder_of(name));
        return Check::warn(
            NAME,
            format!("{} for {name} could not be delivered and were given up", count(*failed, "message")),
            format!(
                "`sudo flowctl notify test {name}` says why; they are in {}, which can be removed",
                folder.display()
            ),
        );
    }
    Check::ok(NAME, format!("{PROGRAM} runs, {all}{waiting}"))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    /// A process with this command line.
    fn process(processes: &Path, pid: u32, words: &[&str]) {
        let folder = processes.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), format!("{}\n", words[0])).unwrap();
        fs::write(folder.join("cmdline"), words.join("\0") + "\0").unwrap();
    }

    #[test]
    fn messages_that_wait_or_were_refused_are_counted_and_a_target_needs_the_program() {
        let (dir, mut settings) = (tempfile::tempdir().unwrap(), Settings::default());
        let (processes, state) = (dir.path().join("proc"), dir.path().join("state"));
        let found = |settings: &Settings| check(settings, &settings.socket, &processes, NOW_MS);
        assert_eq!(found(&settings), None, "nobody wants messages");
        settings.notify.insert("phone".to_owned(), config::TargetSettings::default());
        let other = ["flowcon-notify", "--socket=/other.sock", "--state-dir=/other"];
        process(&processes, 7, &["sh", "flowcon-notify"]);
        process(&processes, 8, &other);
        let check = found(&settings).unwrap();
        assert!(check.verdict == Verdict::Warn && check.found.contains("does not run"), "{check:?}");

        process(&processes, 9, &["flowcon-notify", "--state-dir", state.to_str().unwrap()]);
        assert_eq!(found(&settings), Some(Check::ok("messages", "flowcon-notify runs, 1 target; 0 messages wait")));
        let message = |folder: &str, age_s: u64| {
            let folder = state.join(folder).join("to-phone");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{:013}-00.json", NOW_MS - 1000 * age_s)), "").unwrap();
        };
        message("spool", 60);
        assert_eq!(found(&settings).unwrap().found, "flowcon-notify runs, 1 target; 1 message waits");
        message("failed", 60);
        let check = found(&settings).unwrap();
        assert!(check.found.starts_with("1 message for phone could not be delivered"), "{check:?}");
        message("spool", 7200);
        let check = found(&settings).unwrap();
        assert_eq!(check.found, "2 messages for phone cannot be delivered, the oldest for 2h00m");
        assert!(check.fix.unwrap().contains("flowctl notify test phone"));
    }
}
