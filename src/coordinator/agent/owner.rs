//! The record of whose saved state a volume holds, beside its content: it lasts as long as the volume, whatever becomes of the service.
//!
//! ```text
//! volumes/NAME/_data           content that containers see
//! volumes/NAME/.flowcon-of     the owner
//! volumes/NAME/.flowcon-of.new the same while it is being written
//! ```

use model::swarm::{Owner, SavedState, ServiceId};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// File that names the owner. Files with this prefix are no staging folders.
pub(super) const FILE: &str = ".flowcon-of";
const NEW_FILE: &str = ".flowcon-of.new";
const VERSION: u32 = 1;
/// Maximum size of the file; a larger one is damaged.
const MOST: u64 = 4096;
/// Maximum length of a service's id.
const ID_MOST: usize = 64;
/// Maximum number of volumes in a report.
const LISTED_MOST: usize = 4096;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    service: ServiceId,
    name: Arc<str>,
    number: u64,
}

/// Returns the owner of a volume's state; `None` = none is recorded.
///
/// # Errors
/// The file cannot be read, or is not a record of an owner: then the owner is unknown.
pub(super) fn read(data: &Path) -> io::Result<Option<Owner>> {
    let file = folder(data)?.join(FILE);
    let mut text = Vec::new();
    match File::open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?.take(MOST).read_to_end(&mut text)?,
    };
    parse(&String::from_utf8_lossy(&text)).map(Some).ok_or_else(|| {
        let what = format!(
            "{}: not a record of the volume's owner; if you know whose saved state the volume holds, remove this file and set flowcon.take-over=unknown on the service of its job",
            file.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

fn parse(text: &str) -> Option<Owner> {
    let is_id =
        |word: &str| (1..=ID_MOST).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match serde_json::from_str::<Stored>(text) {
        Ok(Stored { version: VERSION, service, name, number }) => Some(Owner { service, name, number }),
        // Older agents wrote the id alone.
        Err(_) if is_id(text.trim()) => {
            Some(Owner { service: ServiceId(text.trim().into()), name: "".into(), number: 0 })
        }
        _ => None,
    }
}

/// Records the owner of a volume's state. After a crash the file has either the previous owner or this one.
pub(super) fn write(data: &Path, owner: &Owner) -> io::Result<()> {
    if matches!(read(data), Ok(Some(recorded)) if recorded == *owner) {
        return Ok(());
    }
    let folder = folder(data)?;
    let Owner { service, name, number } = owner.clone();
    let text = serde_json::to_string(&Stored { version: VERSION, service, name, number })?;
    let new = folder.join(NEW_FILE);
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, folder.join(FILE))?;
    File::open(folder)?.sync_all()
}

/// Returns the volumes that hold files and have a recorded owner. What cannot be read is left out: a claim reports that.
pub(super) fn list(volumes: &Path) -> Vec<SavedState> {
    let Ok(entries) = fs::read_dir(volumes) else { return Vec::new() };
    let saved = entries.filter_map(Result::ok).filter_map(|entry| {
        let data = entry.path().join("_data");
        let owner = read(&data).ok()??;
        let volume = entry.file_name().to_str()?.into();
        (!is_empty(&data).ok()?).then_some(SavedState { volume, owner })
    });
    let mut saved: Vec<SavedState> = saved.take(LISTED_MOST).collect();
    saved.sort();
    saved
}

/// Whether a volume has no files.
pub(super) fn is_empty(data: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(data)?.next().is_none())
}

fn folder(data: &Path) -> io::Result<&Path> {
    data.parent().ok_or_else(|| io::Error::other("a volume without a folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(service: &str, number: u64) -> Owner {
        Owner { service: ServiceId(service.into()), name: "train".into(), number }
    }

    fn volume(volumes: &Path, name: &str) -> std::path::PathBuf {
        let data = volumes.join(name).join("_data");
        fs::create_dir_all(&data).expect("made");
        data
    }

    #[test]
    fn an_owner_is_replaced_as_a_whole_and_the_file_of_a_killed_agent_does_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = volume(folder.path(), "saved");
        assert_eq!(read(&data).expect("readable"), None);
        write(&data, &owner("a", 1)).expect("written");
        fs::write(folder.path().join("saved").join(NEW_FILE), "{\"vers").expect("half written");
        assert_eq!(read(&data).expect("readable"), Some(owner("a", 1)));
        write(&data, &owner("b", 2)).expect("written");
        assert_eq!(read(&data).expect("readable"), Some(owner("b", 2)));
        assert!(is_empty(&data).expect("readable"), "the record is not visible to containers");
    }

    #[test]
    fn the_record_of_an_older_agent_is_read_and_a_damaged_one_is_no_owner_and_not_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = volume(folder.path(), "saved");
        let file = folder.path().join("saved").join(FILE);
        fs::write(&file, "k3v9x0aaaaaa").expect("written");
        let expected = Owner { service: ServiceId("k3v9x0aaaaaa".into()), name: "".into(), number: 0 };
        assert_eq!(read(&data).expect("readable"), Some(expected));
        for damaged in
            ["", "{\"version\":1", "{\"version\":2,\"service\":\"a\",\"name\":\"b\",\"number\":1}", &"x".repeat(9000)]
        {
            fs::write(&file, damaged).expect("written");
            let error = read(&data).expect_err("damaged").to_string();
            assert!(error.contains(".flowcon-of: not a record"), "{error}");
        }
    }

    #[test]
    fn volumes_with_files_and_an_owner_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, has_files, is_owned) in
            [("b", true, true), ("a", true, true), ("empty", false, true), ("data", true, false)]
        {
            let data = volume(folder.path(), name);
            if has_files {
                fs::write(data.join("model"), "7").expect("written");
            }
            if is_owned {
                write(&data, &owner(name, 3)).expect("written");
            }
        }
        let expected = ["a", "b"].map(|name| SavedState { volume: name.into(), owner: owner(name, 3) });
        assert_eq!(list(folder.path()), expected);
        assert_eq!(list(&folder.path().join("none")), []);
    }
}
