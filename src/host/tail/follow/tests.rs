//! A log under random hands: whatever is appended, rotated and cut comes out once and in order.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tempfile::TempDir;

const KEPT: u32 = 3;

/// A writer that does what engines, loggers and logrotate do, and the text that a reader should get.
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

    /// Each text is unlike every other, so that a repetition or a gap shows.
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

    fn cut(&mut self) {
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
enum Deed {
    Append {
        padding: usize,
        ends_line: bool,
    },
    Rotate,
    /// Cut in place, after the reader has seen everything: what is cut away unseen is nobody's to read.
    Cut,
    Look,
    LookUntilQuiet,
    /// The daemon restarts with the stored position.
    Restart,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        5 => (0_usize..200, any::<bool>()).prop_map(|(padding, ends_line)| Deed::Append { padding, ends_line }),
        2 => Just(Deed::Rotate),
        1 => Just(Deed::Cut),
        4 => Just(Deed::Look),
        1 => Just(Deed::LookUntilQuiet),
        1 => Just(Deed::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_byte_comes_once_and_in_order(deeds in prop::collection::vec(deed(), 1..60)) {
        let mut writer = Writer::new();
        let mut followed = writer.follow(Start::Beginning);
        let mut out = Vec::new();
        look(&mut followed, &mut out);
        let mut rotations_unseen = 0;
        for deed in deeds {
            match deed {
                Deed::Append { padding, ends_line } => writer.append(padding, ends_line),
                // More rotations than files are kept lose bytes, whoever reads.
                Deed::Rotate if rotations_unseen + 1 < KEPT => {
                    rotations_unseen += 1;
                    writer.rotate();
                    // A file's time of writing has the kernel's tick, a few milliseconds.
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                Deed::Rotate => {}
                Deed::Cut => {
                    look_until_quiet(&mut followed, &mut out);
                    rotations_unseen = 0;
                    writer.cut();
                    // Seen at once, or as soon as something else stands there.
                    look(&mut followed, &mut out);
                }
                Deed::Look => { look(&mut followed, &mut out); }
                Deed::LookUntilQuiet => {
                    look_until_quiet(&mut followed, &mut out);
                    rotations_unseen = 0;
                }
                Deed::Restart => {
                    look_until_quiet(&mut followed, &mut out);
                    rotations_unseen = 0;
                    // An unfinished line is read again as a whole: nobody has understood it yet.
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
fn a_log_that_was_cut_and_has_outgrown_the_old_offset_is_read_from_its_beginning() {
    let mut writer = Writer::new();
    let mut followed = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    writer.append(20, true);
    look_until_quiet(&mut followed, &mut out);
    writer.cut();
    writer.append(500, true);
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(out, writer.expected);
    assert_eq!(followed.health.truncated, 1);
}

#[test]
fn rotations_while_the_daemon_was_away_are_read_in_order() {
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
fn a_file_that_is_younger_than_a_stored_position_is_read_from_its_beginning() {
    let mut writer = Writer::new();
    let mut before = writer.follow(Start::Beginning);
    let mut read = Vec::new();
    writer.append(10, true);
    look_until_quiet(&mut before, &mut read);
    let position = before.position().unwrap();
    assert!(position.born_ns > 0, "this file system says when a file was made");
    drop(before);
    writer.append(10, true);
    // Of a file that is gone and had the same number; of one whose birth nobody knew; of this one.
    for (born_ns, begins_at) in [(position.born_ns - 1, 0), (0, read.len()), (position.born_ns, read.len())] {
        let mut after = writer.follow(Start::At(Position { born_ns, ..position }));
        let mut out = Vec::new();
        look_until_quiet(&mut after, &mut out);
        assert_eq!(out, writer.expected[begins_at..], "{born_ns}");
    }
}

/// File systems give a deleted file's number to the next one, and the time of writing has the grain of the kernel's tick.
#[test]
fn a_file_with_the_number_of_one_that_was_read_and_deleted_is_read_too() {
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
    // At once, so that no other test's file takes the number.
    fs::remove_file(writer.rotated(2)).unwrap();
    writer.rotate();
    if number(writer.log()) != first {
        eprintln!("not seen: the number went elsewhere");
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
fn a_log_that_appears_later_is_read_from_its_first_byte_whatever_the_start() {
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
fn starting_at_the_end_of_an_unfinished_line_waits_for_the_next() {
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
fn a_tebibyte_of_nothing_is_skipped_at_once_and_counted() {
    let writer = Writer::new();
    let log = fs::OpenOptions::new().write(true).open(writer.log()).unwrap();
    log.set_len(1 << 40).unwrap();
    log.write_at(b"\nloss 1\n", (1 << 40) - 8).unwrap();
    let mut followed = writer.follow(Start::Beginning);
    let mut out = Vec::new();
    look_until_quiet(&mut followed, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "loss 1\n");
    assert_eq!(followed.health.skipped, (1 << 40) - Budget::default().keep);
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
fn a_log_replaced_by_a_link_is_not_followed_there() {
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
fn another_reader_goes_on_in_the_midst_of_a_line_also_when_the_file_was_rotated_meanwhile() {
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
