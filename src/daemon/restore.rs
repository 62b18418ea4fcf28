//! Every container back to its original limits, with or without a running daemon.
//!
//! "If a change ever started, its undoing must succeed": what cannot be undone now stays in the journal for the next try. A limit
//! that is neither what we wrote nor the original belongs to somebody else and is left alone.

use super::actuator::{Connected, Writer};
use super::journal::{Journal, back_to};
use super::target::{Target, same_kind, standing, stands_in};
use crate::config::{EngineChoice, Settings};
use crate::host::cgroup::Cgroup;
use crate::host::docker::{Engine, EngineAddress, EngineError, EngineName};
use crate::host::node;
use crate::host::store::{Original, StoreError};
use crate::model::{Runtime, Setting};
use std::fs;
use std::path::Path;

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Names of containers whose limits were put back.
    pub back: Vec<String>,
    /// Containers that had nothing of ours, or are gone.
    pub nothing_to_do: usize,
    /// Limits that somebody else has set since: left to them.
    pub left: Vec<String>,
    /// What could not be done, and the next step; it stays in the journal.
    pub failed: Vec<String>,
}

/// Restores from a state directory that no daemon uses.
///
/// # Errors
/// [`StoreError`] when the directory cannot be opened; a daemon that runs holds it: ask that one (`flowctl restore`).
pub async fn restore(settings: &Settings) -> Result<Restored, StoreError> {
    let (mut journal, remembered) = Journal::open(&settings.state_dir)?;
    let address = match &settings.engine {
        EngineChoice::Off => None,
        EngineChoice::Auto => EngineAddress::from_config(None).ok(),
        EngineChoice::At(address) => EngineAddress::from_config(Some(address)).ok(),
    };
    let engine = address.map(Engine::new);
    let connected = Connected::default();
    let needed = remembered.originals.values().any(|(original, _)| original.runtime == Runtime::Docker);
    if let (Some(engine), true) = (&engine, needed)
        && let Ok(info) = engine.info().await
    {
        connected.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(info);
    }
    let mut restored = everything(&mut journal, &mut Writer { engine, connected, systemd: None }).await;
    restored.failed.extend(remembered.notices);
    Ok(restored)
}

/// Restores everything in the journal.
pub(super) async fn everything(journal: &mut Journal, writer: &mut Writer) -> Restored {
    let mut restored = Restored::default();
    let all = match tokio::task::block_in_place(|| journal.everything()) {
        Ok(all) => all,
        Err(why) => return Restored { failed: vec![why], ..restored },
    };
    for (original, written) in all {
        let done = one(writer, &original, &written, &mut restored).await;
        if done && let Err(why) = tokio::task::block_in_place(|| journal.forget(&original.id)) {
            restored.failed.push(why);
        }
    }
    restored
}

/// `true`: nothing of ours is left on this container.
async fn one(writer: &mut Writer, original: &Original, written: &[Setting], restored: &mut Restored) -> bool {
    let target = match find(writer, original).await {
        Found::Running(target) => *target,
        Found::NotRunning => {
            let done = original.runtime == Runtime::Scope || writer.return_record(original, written).await;
            if done {
                restored.nothing_to_do += 1;
            } else {
                restored.failed.push(format!(
                    "{}: it does not run, and its engine cannot be asked; restore again later",
                    original.name
                ));
            }
            return done;
        }
        Found::Unknown(why) => {
            restored.failed.push(format!("{}: {why}", original.name));
            return false;
        }
    };
    let stands = target.cgroup().limits();
    let ours: Vec<Setting> = written.iter().copied().filter(|setting| stands_in(&stands, *setting)).collect();
    let mut theirs: Vec<String> = written
        .iter()
        .filter(|setting| !ours.iter().any(|ours| same_kind(*ours, **setting)))
        .filter_map(|setting| standing(&stands, *setting))
        .filter(|now| !stands_in(&original.limits, *now))
        .map(|now| format!("{}: {now} is neither ours nor the original", original.name))
        .collect();
    theirs.dedup();
    restored.left.append(&mut theirs);
    if ours.is_empty() {
        restored.nothing_to_do += 1;
        return true;
    }
    writer.connect_systemd(std::iter::once(&target)).await;
    let outcome = writer.write(&target, back_to(&original.limits, &ours)).await;
    if outcome.gone {
        let done = original.runtime == Runtime::Scope || writer.return_record(original, written).await;
        restored.nothing_to_do += usize::from(done);
        return done;
    }
    match outcome.error {
        Some(why) => restored.failed.push(format!("{}: {why}", original.name)),
        None => restored.back.push(original.name.clone()),
    }
    restored.failed.is_empty() || !restored.failed.iter().any(|text| text.starts_with(&original.name))
}

enum Found {
    Running(Box<Target>),
    NotRunning,
    Unknown(String),
}

/// Finds a remembered container again: through its engine, or by the cgroup that it had.
async fn find(writer: &Writer, original: &Original) -> Found {
    let this_boot = node::boot_id().unwrap_or_default() == original.boot_id;
    if original.runtime == Runtime::Scope {
        return if this_boot { by_cgroup(original) } else { Found::NotRunning };
    }
    let (Some(engine), Some(info)) = (&writer.engine, writer.info()) else {
        return match by_cgroup(original) {
            Found::Running(_) => Found::Unknown("its engine does not answer; start it and restore again".to_owned()),
            other => other,
        };
    };
    match engine.inspect(&original.id, info.name).await {
        Ok(container) => match Cgroup::of_process(container.pid, None) {
            Ok(cgroup) => {
                let id = original.id.clone();
                let mut target = Target::new(id, original.name.clone(), Runtime::Docker, cgroup);
                target.original = original.limits;
                target.engine_limits = original.engine;
                target.gpu_hook = container.gpu_hook;
                target.unit = unit(&original.id, info.name, &info.cgroup_driver);
                Found::Running(Box::new(target))
            }
            Err(error) => Found::Unknown(error.to_string()),
        },
        Err(EngineError::Gone { .. }) => Found::NotRunning,
        Err(error) => Found::Unknown(error.to_string()),
    }
}

/// The systemd unit of an engine's container, where the engine leaves cgroups to systemd.
pub(super) fn unit(id: &crate::model::ContainerId, engine: EngineName, driver: &str) -> Option<String> {
    let prefix = match engine {
        EngineName::Docker => "docker",
        EngineName::Podman => "libpod",
    };
    (driver == "systemd").then(|| format!("{prefix}-{}.scope", id.as_str()))
}

/// The unit of the system's manager that owns the cgroup of a command. One of a user's own manager is not the system's to change: its
/// might be another unit of that name.
pub(super) fn unit_of_scope(cgroup: &Path) -> Option<String> {
    let name = cgroup.file_name()?.to_str()?;
    let is_users = cgroup.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"user@"));
    (node::systemd_is_init() && name.ends_with(".scope") && !is_users).then(|| name.to_owned())
}

/// A process that lives in the remembered cgroup leads to it. Path names alone are never trusted.
fn by_cgroup(original: &Original) -> Found {
    let Ok(processes) = fs::read_dir("/proc") else { return Found::Unknown("/proc cannot be read".to_owned()) };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let Ok(lines) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { continue };
        let lives_there = |line: &str| {
            let path = line.splitn(3, ':').nth(2).unwrap_or("");
            path.len() > 1 && original.cgroup.ends_with(path)
        };
        if !lines.lines().any(lives_there) {
            continue;
        }
        let name = original.cgroup.rsplit('/').next().unwrap_or("");
        if let Ok(cgroup) = Cgroup::of_scope(pid, None, name) {
            let mut target = Target::new(original.id.clone(), original.name.clone(), original.runtime, cgroup);
            target.original = original.limits;
            // Written to the file alone, a limit would be undone by systemd, which still has ours.
            target.unit = unit_of_scope(Path::new(&original.cgroup));
            return Found::Running(Box::new(target));
        }
    }
    Found::NotRunning
}
