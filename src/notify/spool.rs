//! The files of the spool: one for each message and target, and one with what else must outlive this process.
//!
//! A file is written beside its place, flushed to the disk and renamed, so that it is either whole or not there.

use crate::message::Message;
use config::{FAILED, WAITING, folder_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Failed messages that are kept for each target.
const FAILED_AT_MOST: usize = 100;

/// The folder of the spool.
pub(crate) struct Spool {
    directory: PathBuf,
}

impl Spool {
    /// Opens the spool in `directory`, which is created if necessary (mode 0700).
    pub(crate) fn open(directory: &Path) -> io::Result<Spool> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Ok(Spool { directory: directory.to_owned() })
    }

    /// The name of a message's file: the same for the same event, so that one that is handled again after a crash takes its place.
    pub(crate) fn name(message: &Message) -> String {
        let mut hasher = DefaultHasher::new();
        (message.kind, &message.container, &message.job, &message.words).hash(&mut hasher);
        format!("{:013}-{:016x}.json", message.unix_ms, hasher.finish())
    }

    /// Stores a message for a target.
    pub(crate) fn put(&self, target: &str, name: &str, message: &Message) -> io::Result<()> {
        write(&self.waiting(target), name, message)
    }

    /// Removes a message that was delivered.
    pub(crate) fn remove(&self, target: &str, name: &str) -> io::Result<()> {
        gone(fs::remove_file(self.waiting(target).join(name)))
    }

    /// Sets a message aside that cannot be delivered.
    pub(crate) fn set_aside(&self, target: &str, name: &str) -> io::Result<()> {
        let folder = self.directory.join(FAILED).join(folder_of(target));
        fs::create_dir_all(&folder)?;
        gone(fs::rename(self.waiting(target).join(name), folder.join(name)))?;
        let kept = names(&folder)?;
        kept.iter()
            .take(kept.len().saturating_sub(FAILED_AT_MOST))
            .try_for_each(|old| fs::remove_file(folder.join(old)))
    }

    /// Reads the messages that wait for a target, oldest first. What is no message is set aside.
    pub(crate) fn read(&self, target: &str) -> io::Result<Vec<(String, Message)>> {
        let folder = self.waiting(target);
        let mut found = Vec::new();
        for name in names(&folder)? {
            match fs::read(folder.join(&name)).map(|bytes| serde_json::from_slice(&bytes)) {
                Ok(Ok(message)) => found.push((name, message)),
                Ok(Err(_)) => self.set_aside(target, &name)?,
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Reads the other state; `None` = there is none yet.
    pub(crate) fn state<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        match fs::read(self.directory.join(STATE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores the other state.
    pub(crate) fn save(&self, state: &impl Serialize) -> io::Result<()> {
        write(&self.directory, STATE, state)
    }

    fn waiting(&self, target: &str) -> PathBuf {
        self.directory.join(WAITING).join(folder_of(target))
    }
}

const STATE: &str = "state.json";

/// Names of the messages in a folder, oldest first.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.retain(|name| name.ends_with(".json"));
    names.sort();
    Ok(names)
}

fn write(folder: &Path, name: &str, document: &impl Serialize) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let part = folder.join(format!("{name}.part"));
    let mut file = File::create(&part)?;
    file.write_all(&serde_json::to_vec(document)?)?;
    file.sync_all()?;
    fs::rename(&part, folder.join(name))?;
    File::open(folder)?.sync_all()
}

/// A file that is not there is as good as removed: a message whose file could not be written has none.
fn gone(done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::message;
    use model::AlertKind;

    #[test]
    fn messages_outlive_the_process_in_order_and_what_is_none_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(&dir.path().join("state")).unwrap();
        let (first, second) = (message("a", AlertKind::Nan, 1_000), message("b", AlertKind::Failed, 20_000));
        for message in [&second, &first, &first] {
            spool.put("..", &Spool::name(message), message).unwrap();
        }
        let folder = dir.path().join("state/spool/to-..");
        fs::write(folder.join("0.json"), "{").unwrap();
        fs::write(folder.join("1.json.part"), "{").unwrap();
        let spool = Spool::open(&dir.path().join("state")).unwrap();
        let read: Vec<Message> = spool.read("..").unwrap().into_iter().map(|(_, message)| message).collect();
        assert_eq!(read, [first.clone(), second]);
        assert!(dir.path().join("state/failed/to-../0.json").exists());
        spool.remove("..", &Spool::name(&first)).unwrap();
        spool.remove("..", &Spool::name(&first)).unwrap();
        assert_eq!(spool.read("..").unwrap().len(), 1);
        assert_eq!(spool.state::<u32>().unwrap(), None);
        spool.save(&7).unwrap();
        assert_eq!(spool.state::<u32>().unwrap(), Some(7));
    }
}
