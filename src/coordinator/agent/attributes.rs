//! File attributes that do not fit into a tar header: subsecond modification times, by which jobs find their newest checkpoint, and extended
//! attributes. They are sent as PAX records in the format of GNU tar.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, XattrFlags};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const TIME: &str = "mtime";
const XATTR: &str = "SCHILY.xattr.";
/// The kernel's limit for the list of names and for each value.
const XATTR_AT_MOST: usize = 64 * 1024;
/// Prefixes that are transferred. Others belong to the host (`trusted.overlay.…`, `security.selinux`) or to programs
/// (`security.capability`), not to saved state.
const CARRIED: [&str; 2] = ["user.", "system.posix_acl_"];

/// Attributes of one file, folder or link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    modified: Option<(i64, i64)>,
    extended: Vec<(String, Vec<u8>)>,
}

impl Attributes {
    pub(super) fn of(path: &Path, found: &Metadata) -> Attributes {
        let extended = if found.is_symlink() { Vec::new() } else { extended(path) };
        Attributes { modified: Some((found.mtime(), found.mtime_nsec())), extended }
    }

    /// Returns the attributes as PAX records.
    pub(super) fn records(&self) -> Vec<(String, Vec<u8>)> {
        let time = self.modified.map(|(seconds, nanos)| {
            // Before 1970 the fraction still counts forwards, which a decimal number cannot express.
            let text = if seconds >= 0 { format!("{seconds}.{nanos:09}") } else { seconds.to_string() };
            (TIME.to_owned(), text.into_bytes())
        });
        let extended = self.extended.iter().map(|(name, value)| (format!("{XATTR}{name}"), value.clone()));
        time.into_iter().chain(extended).collect()
    }

    /// Parses PAX records; unknown or invalid ones are ignored.
    pub(super) fn read<'a>(records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Attributes {
        let mut read = Attributes::default();
        for (key, value) in records {
            let Ok(key) = std::str::from_utf8(key) else { continue };
            if key == TIME {
                read.modified = std::str::from_utf8(value).ok().and_then(time);
            } else if let Some(name) = key.strip_prefix(XATTR).filter(|name| is_carried(name)) {
                read.extended.push((name.to_owned(), value.to_vec()));
            }
        }
        read
    }

    /// Applies the attributes to `path` without following links.
    ///
    /// # Errors
    /// Errors of the system. On a file system without extended attributes, these are skipped.
    pub(super) fn give_to(&self, path: &Path) -> io::Result<()> {
        for (name, value) in &self.extended {
            match rustix::fs::lsetxattr(path, name.as_str(), value, XattrFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some((tv_sec, tv_nsec)) = self.modified else { return Ok(()) };
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access, last_modification: Timespec { tv_sec, tv_nsec } };
        Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

fn is_carried(name: &str) -> bool {
    CARRIED.iter().any(|prefix| name.starts_with(prefix))
}

/// Reads the extended attributes. Errors count as absence: the file system has none, or the file has just changed.
fn extended(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0_u8; XATTR_AT_MOST];
    let Ok(length) = rustix::fs::llistxattr(path, &mut names[..]) else { return Vec::new() };
    let names = names[..length].split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let value = |name: &str| {
        let mut value = vec![0_u8; XATTR_AT_MOST];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
        value.truncate(length);
        Some((name.to_owned(), value))
    };
    names.filter(|name| is_carried(name)).filter_map(value).collect()
}

/// Parses a time such as `1234.5` into seconds and nanoseconds.
fn time(text: &str) -> Option<(i64, i64)> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Some((seconds.parse().ok()?, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn times_and_attributes_survive_the_conversion_to_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, "x").expect("written");
        fs::write(&to, "x").expect("written");
        let has_xattrs = rustix::fs::lsetxattr(&from, "user.step", b"7\0\n=", XattrFlags::empty()).is_ok();
        let given = Attributes { modified: Some((1_700_000_000, 123_456_789)), extended: Vec::new() };
        given.give_to(&from).expect("given");
        let sent = Attributes::of(&from, &fs::symlink_metadata(&from).expect("there"));
        assert_eq!((sent.modified, sent.extended.len()), (given.modified, usize::from(has_xattrs)));
        let records = sent.records();
        let read = Attributes::read(records.iter().map(|(key, value)| (key.as_bytes(), value.as_slice())));
        assert_eq!(read, sent);
        read.give_to(&to).expect("given");
        assert_eq!(Attributes::of(&to, &fs::symlink_metadata(&to).expect("there")), sent);
    }

    #[test]
    fn records_of_another_tar_are_read_but_attributes_of_the_host_are_not() {
        let records: [(&[u8], &[u8]); 4] = [
            (b"mtime", b"12.5"),
            (b"SCHILY.xattr.trusted.overlay.opaque", b"y"),
            (b"SCHILY.xattr.user.a", b"1"),
            (b"\xff", b""),
        ];
        let read = Attributes::read(records.into_iter());
        assert_eq!(read.modified, Some((12, 500_000_000)));
        assert_eq!(read.extended, [("user.a".to_owned(), b"1".to_vec())]);
        assert_eq!(time("many"), None);
    }
}
