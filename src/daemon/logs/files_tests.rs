//! Logs on a file system that does not answer, beside logs that do: a real FUSE mount without a server.

use super::*;
use crate::event::Event;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tail::ContainerFile;
use tempfile::TempDir;

const IMPATIENT: Duration = Duration::from_millis(300);
const AT_MOST: Duration = Duration::from_secs(60);

/// A folder on which every access blocks, until it is dropped or mended.
struct Hung {
    folder: PathBuf,
    /// Closing the device ends the file system: blocked accesses fail.
    device: Option<File>,
}

impl Hung {
    /// Mounts the file system; `None` if there is no FUSE.
    fn mount(folder: &Path) -> Option<Hung> {
        let device = match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(device) => device,
            Err(error) => {
                println!("skipped: /dev/fuse: {error}");
                return None;
            }
        };
        fs::create_dir(folder).unwrap();
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0";
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", options, "hung"])
            .arg(folder)
            .stdin(Stdio::from(device.try_clone().unwrap()))
            .output()
            .unwrap();
        assert!(mounted.status.success(), "as root: {}", String::from_utf8_lossy(&mounted.stderr));
        Some(Hung { folder: folder.to_owned(), device: Some(device) })
    }

    /// Ends the file system: blocked accesses fail, and the folder is an ordinary one again.
    fn mend(&mut self) {
        if self.device.take().is_some() {
            let gone = Command::new("umount").arg("-l").arg(&self.folder).status().unwrap();
            assert!(gone.success());
        }
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.mend();
    }
}

/// Does what the loop does: receives log bytes and supervises the threads.
struct Loop {
    files: Files,
    inbox: mpsc::Receiver<Event>,
    read: BTreeMap<ContainerId, Vec<u8>>,
    silent: Vec<ContainerId>,
    serial: u64,
}

impl Loop {
    fn start() -> Loop {
        let (events, inbox) = mpsc::channel(64);
        let files = Files::new(IMPATIENT, events);
        Loop { files, inbox, read: BTreeMap::new(), silent: Vec::new(), serial: 0 }
    }

    /// Follows a log from its beginning.
    fn follow(&mut self, id: &str, source: Source) {
        self.follow_with(None, id, source);
    }

    fn follow_with(&mut self, decoder: Option<LogFile>, id: &str, source: Source) {
        self.serial += 1;
        let (id, serial, start) = (ContainerId::new(id), self.serial, Start::Beginning);
        self.files.follow(Follow { id, serial, source, decoder, start });
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&Loop) -> bool) {
        let deadline = Instant::now() + AT_MOST;
        loop {
            while let Ok(event) = self.inbox.try_recv() {
                let Event::Logs(chunks) = event else { continue };
                for chunk in chunks {
                    self.read.entry(chunk.id).or_default().extend_from_slice(&chunk.bytes);
                }
            }
            self.silent.extend(self.files.supervise());
            if done(self) {
                return;
            }
            assert!(Instant::now() < deadline, "never: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn text(&self, id: &str) -> &str {
        self.read.get(&ContainerId::new(id)).map_or("", |bytes| std::str::from_utf8(bytes).unwrap())
    }

    fn threads(&self) -> usize {
        self.files.held.len() + self.files.own.len()
    }
}

fn append(log: &Path, text: &str) {
    File::options().create(true).append(true).open(log).unwrap().write_all(text.as_bytes()).unwrap();
}

fn inside(path: &Path) -> Source {
    Source::Inside(ContainerFile::new(Some(std::process::id()), &[], path))
}

#[test]
fn a_log_that_does_not_answer_blocks_no_other_and_is_read_when_it_does() {
    let dir = TempDir::new().unwrap();
    let Some(mut hung) = Hung::mount(&dir.path().join("network")) else { return };
    let log = |name: &str| dir.path().join(name);
    let mut running = Loop::start();
    // Half a line, and half an entry, are read when the thread is retired: nothing of it may be lost or sent twice.
    append(&log("a"), "a 1\na ");
    append(&log("c"), "c 1\n");
    append(&log("json"), "{\"log\":\"j 1\\n\"}\n{\"log\":\"j \\u00");
    running.follow("a", Source::Host(log("a")));
    running.follow("c", inside(&log("c")));
    running.follow_with(Some(LogFile::json()), "json", Source::Host(log("json")));
    running.until("all are read", |it| {
        it.text("a") == "a 1\na " && it.text("c") == "c 1\n" && it.text("json") == "j 1\nj "
    });

    running.follow("b", inside(&dir.path().join("network/log")));
    running.until("the silence is reported", |it| it.silent.contains(&ContainerId::new("b")));
    append(&log("a"), "2\n");
    append(&log("c"), "c 2\n");
    append(&log("json"), "e9 2\\n\"}\n");
    running.until("the others are read on", |it| it.text("a") == "a 1\na 2\n" && it.text("c") == "c 1\nc 2\n");
    running.until("and the entry from its middle", |it| it.text("json") == "j 1\nj é 2\n");
    append(&log("d"), "d 1\n");
    running.follow("d", inside(&log("d")));
    running.until("one that comes later is read too", |it| it.text("d") == "d 1\n");
    assert_eq!(running.text("b"), "");

    hung.mend();
    append(&dir.path().join("network/log"), "b 1\n");
    running.until("it is read", |it| it.text("b") == "b 1\n");
    running.until("by the one thread", |it| it.threads() == 0);
    for name in ["a", "b", "c", "d"] {
        append(&if name == "b" { dir.path().join("network/log") } else { log(name) }, "end\n");
    }
    running.until("each byte came once", |it| {
        [("a", "a 1\na 2\nend\n"), ("b", "b 1\nend\n"), ("c", "c 1\nc 2\nend\n"), ("d", "d 1\nend\n")]
            .iter()
            .all(|(id, text)| it.text(id) == *text)
    });
}

#[test]
fn logs_that_do_not_answer_take_a_bounded_number_of_threads() {
    let dir = TempDir::new().unwrap();
    let Some(mut hung) = Hung::mount(&dir.path().join("network")) else { return };
    let log = dir.path().join("a");
    let mut running = Loop::start();
    append(&log, "1\n");
    running.follow("a", inside(&log));
    running.until("it is read", |it| it.text("a") == "1\n");
    let stuck: Vec<String> = (0..12).map(|n| format!("s{n:02}")).collect();
    for name in &stuck {
        running.follow(name, inside(&dir.path().join("network").join(name)));
    }
    running.until("some block a thread each", |it| it.files.held.len() == TRIED_AT_MOST);
    append(&log, "2\n");
    running.until("the log that answers is read on", |it| it.text("a") == "1\n2\n");
    assert!(running.threads() <= HELD_AT_MOST, "{}", running.threads());

    hung.mend();
    for name in &stuck {
        append(&dir.path().join("network").join(name), "back\n");
    }
    running.until("all are read", |it| stuck.iter().all(|name| it.text(name) == "back\n"));
    running.until("by the one thread", |it| it.threads() == 0);
}

#[test]
fn a_job_that_ends_while_its_log_blocks_a_thread_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    let Some(mut hung) = Hung::mount(&dir.path().join("network")) else { return };
    let mut running = Loop::start();
    let id = ContainerId::new("b");
    let source = || inside(&dir.path().join("network/log"));
    running.follow("b", source());
    running.until("the silence is reported", |it| it.silent.contains(&id));
    running.files.unfollow(&id);
    running.follow("b", source());
    running.files.unfollow(&id);
    hung.mend();
    append(&dir.path().join("network/log"), "unread\n");
    running.until("its thread is back", |it| it.threads() == 0);
    assert_eq!((running.text("b"), running.files.logs.len()), ("", 0));
}
