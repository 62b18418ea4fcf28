//! A log under random operations: all data that is appended, rotated or truncated is read once and in order.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tempfile::TempDir;

const KEPT: u32 = 3;

/// Writes, rotates and truncates as engines, loggers and logrotate do, and keeps the expected text.
struct Writer {
    dir: TempDir,
    expected: Vec<u8>,
    serial: u32,
}

impl Writer {
    fn new() -> Writer {
        let writer = Writer { dir: TempDir::new().unwrap(), expected: Vec::new(), serial: 0 };
        fs::write(writer.log(), "").unwrap();
        writer
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn rotated(&self, number: u32) -> PathBuf {
        self.dir.path().join(format!("log.{number}"))
    }

    fn follow(&self, start: Start) -> Followed {
        Followed::new(Source::Host(self.log()), start)
    }

    /// Each text is unique, so that a repetition or a gap is detected.
    fn append(&mut self, padding: usize, ends_line: bool) {
        self.serial += 1;
        let text = format!("{} {}{}", self.serial, "x".repeat(padding), if ends_line { "\n" } else { "" });
        fs::OpenOptions::new().append(true).open(self.log()).unwrap().write_all(text.as_bytes()).unwrap();
        self.expected.extend_from_slice(text.as_bytes());
    }

    fn rotate(&mut self) {
        for number in (1..KEPT).rev() {
            let _ = fs::rename(self.rotated(number), self.rotated(number + 1));
        }
        fs::rename(self.log(), self.rotated(1)).unwrap();
        fs::write(self.log(), "").unwrap();
    }

    fn truncate(&mut self) {
        if fs::metadata(self.log()).unwrap().len() == 0 {
            return;
        }
        fs::OpenOptions::new().write(true).open(self.log()).unwrap().set_len(0).unwrap();
        if self.expected.last().is_some_and(|last| *last != b'\n') {
            self.expected.push(b'\n');
        }
    }
}

fn look(followed: &mut Followed, out: &mut Vec<u8>) -> Look {
    followed.look(Budget::default(), &mut Vec::new(), &mut |bytes| out.extend_from_slice(bytes))
}

fn look_until_quiet(followed: &mut Followed, out: &mut Vec<u8>) {
    for _ in 0..100 {
        let look = look(followed, out);
        if look.bytes == 0 && !look.more {
            return;
        }
    }
    panic!("never quiet");
}

#[derive(Clone, Debug)]
enum Action {
    Append {
        padding: usize,
        ends_line: bool,
    },
    Rotate,
    /// Truncated in place after the reader has read everything: data that was truncated before cannot be read.
    Truncate,
    Look,
    LookUntilQuiet,
    /// The daemon restarts with the stored position.
    Restart,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (0_usize..200, any::<bool>()).prop_map(|(padding, ends_line)| Action::Append { padding, ends_line }),
        2 => Just(Action::Rotate),
        1 => Just(Action::Truncate),
        4 => Just(Action::Look),
        1 => Just(Action::LookUntilQuiet),
        1 => Just(Action::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_byte_is_read_once_and_in_order(actions in prop::collection::vec(action(), 1..60)) {
        let mut writer = Writer::new();
        let mut followed = writer.follow(Start::Beginning);
        let mut out = Vec::new();
        look(&mut followed, &mut out);
        let mut rotations_unseen = 0;
        for action in actions {
            match action {
                Action::Append { padding, ends_line } => writer.append(padding, ends_line),
                // More rotations than files kept lose bytes for every reader.
                Action::Rotate if rotations_unseen + 1 < KEPT => {
                    rotations_unseen += 1;
                    writer.rotate();
                    // Modification times have the resolution of the kernel's tick, a few milliseconds.
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                Action::Rotate => {}
                Action::Truncate => {
                    look_until_quiet(&mut followed, &mut out);
                    rotations_unseen = 0;
                    writer.truncate();
                    // Noticed at once, or as soon as other data has been written.
                    look(&mut followed, &mut out);
                }
                Action::Look => { look(&mut followed, &mut out); }
                Action::LookUntilQuiet => {
                    look_until_quiet(&mut followed, &mut out);
                    rotations_unseen = 0;
                }
                Action::Restart => {
                    look_until_quiet(&mut followed, &mut out);
                    rotations_unseen = 0;
                    // An incomplete line is read again as a whole, because it has not been parsed yet.
                    let in_file = fs::read(writer.log()).unwrap();
                    let unfinished = in_file.len() - in_file.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                    out.truncate(out.len() - unfinished);
                    followed = writer.follow(Start::At(followed.position().unwrap()));
                }
            }
        }
        look_until_quiet(&mut followed, &mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(writer.expected).unwrap());
    }
}

#[test]
fn a_truncated_log_that_has_outgrown_the_old_offset_is_read_from_its_beginning() {
    let mut writer = Writer::new();
    let mut followed = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    writer.append(20, true);
    look_until_quiet(&mut followed, &mut out);
    writer.truncate();
    writer.append(500, true);
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(out, writer.expected);
    assert_eq!(followed.health.truncated, 1);
}

#[test]
fn rotations_while_the_daemon_was_down_are_read_in_order() {
    let mut writer = Writer::new();
    let mut before = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    writer.append(10, true);
    look_until_quiet(&mut before, &mut out);
    let position = before.position().unwrap();
    drop(before);
    for _ in 0..2 {
        writer.append(10, true);
        writer.rotate();
    }
    writer.append(10, true);
    let mut after = writer.follow(Start::At(position));
    look_until_quiet(&mut after, &mut out);
    assert_eq!(out, writer.expected);
}

#[test]
fn a_file_newer_than_a_stored_position_is_read_from_its_beginning() {
    let mut writer = Writer::new();
    let mut before = writer.follow(Start::Beginning);
    let mut read = Vec::new();
    writer.append(10, true);
    look_until_quiet(&mut before, &mut read);
    let position = before.position().unwrap();
    assert!(position.born_ns > 0, "this file system supports creation times");
    drop(before);
    writer.append(10, true);
    // A position in a deleted file with the same inode; a position without a creation time; a position in this file.
    for (born_ns, begins_at) in [(position.born_ns - 1, 0), (0, read.len()), (position.born_ns, read.len())] {
        let mut after = writer.follow(Start::At(Position { born_ns, ..position }));
        let mut out = Vec::new();
        look_until_quiet(&mut after, &mut out);
        assert_eq!(out, writer.expected[begins_at..], "{born_ns}");
    }
}

/// File systems reuse the inode number of a deleted file, and modification times have the resolution of the kernel's tick.
#[test]
fn a_file_with_the_inode_of_a_deleted_file_is_read() {
    let number = |path: PathBuf| fs::metadata(path).unwrap().ino();
    let mut writer = Writer::new();
    let mut followed = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    let first = number(writer.log());
    for _ in 0..2 {
        writer.append(10, true);
        look_until_quiet(&mut followed, &mut out);
        writer.rotate();
        writer.append(10, true);
        look_until_quiet(&mut followed, &mut out);
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    // Immediately, so that the file of another test does not get the number.
    fs::remove_file(writer.rotated(2)).unwrap();
    writer.rotate();
    if number(writer.log()) != first {
        eprintln!("not tested: another file got the inode");
        return;
    }
    writer.append(10, true);
    let written = fs::metadata(writer.rotated(1)).unwrap().modified().unwrap();
    fs::File::options().append(true).open(writer.log()).unwrap().set_modified(written).unwrap();
    writer.rotate();
    writer.append(10, true);
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(out, writer.expected);
}

#[test]
fn a_log_that_appears_later_is_read_from_its_first_byte_for_any_start() {
    let mut writer = Writer::new();
    fs::remove_file(writer.log()).unwrap();
    let mut followed = writer.follow(Start::End);
    let mut out = Vec::new();
    look(&mut followed, &mut out);
    assert!(matches!(followed.health.problem, Some(TailError::Missing { .. })));
    fs::write(writer.log(), "").unwrap();
    writer.append(3, true);
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(out, writer.expected);
    assert_eq!(followed.health.problem, None);
}

#[test]
fn starting_at_the_end_within_a_line_waits_for_the_next_line() {
    let mut writer = Writer::new();
    writer.append(3, false);
    let mut followed = writer.follow(Start::End);
    let mut out = Vec::new();
    look_until_quiet(&mut followed, &mut out);
    writer.append(3, true);
    writer.append(4, true);
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "3 xxxx\n");
}

#[test]
fn a_hole_of_a_tebibyte_is_skipped_at_once_and_counted() {
    let writer = Writer::new();
    let log = fs::OpenOptions::new().write(true).open(writer.log()).unwrap();
    log.set_len(1 << 40).unwrap();
    log.write_at(b"\nloss 1\n", (1 << 40) - 8).unwrap();
    let mut followed = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "loss 1\n");
    assert_eq!(followed.health.skipped, (1 << 40) - Budget::default().keep);
    assert!(followed.health.skipped_at.is_some());
}

#[test]
fn one_look_reads_no_more_than_its_budget() {
    let writer = Writer::new();
    fs::write(writer.log(), vec![b'x'; 3 << 20]).unwrap();
    let mut followed = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    assert_eq!(look(&mut followed, &mut out), Look { bytes: 1 << 20, more: true });
    assert_eq!(out.len(), 1 << 20);
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(out.len(), 3 << 20);
}

#[test]
fn a_log_replaced_by_a_symbolic_link_is_not_followed() {
    let mut writer = Writer::new();
    writer.append(3, true);
    let mut followed = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    look_until_quiet(&mut followed, &mut out);
    fs::remove_file(writer.log()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", writer.log()).unwrap();
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(out, writer.expected);
}

#[test]
fn another_reader_resumes_within_a_line_even_after_a_rotation() {
    let mut writer = Writer::new();
    writer.append(3, true);
    writer.append(3, false);
    let mut first = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    look_until_quiet(&mut first, &mut out);
    let position = first.position().unwrap();
    for rotates in [false, true] {
        writer.append(2, true);
        if rotates {
            writer.rotate();
            writer.append(1, true);
        }
        let mut all = out.clone();
        look_until_quiet(&mut writer.follow(Start::On(position)), &mut all);
        assert_eq!(String::from_utf8_lossy(&all), String::from_utf8_lossy(&writer.expected), "{rotates}");
    }
}
