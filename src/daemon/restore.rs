//! Restores the original limits of every container, with or without a running daemon.
//!
//! "If a change ever started, its undoing must succeed": what cannot be undone now stays in the journal for the next try. A limit
//! that is neither ours nor the original belongs to others and is left alone.

use super::executor::Executor;
use super::find::{Found, by_cgroup, find};
use super::journal::{Journal, Remembered, journalled_of};
use super::operation::Piece;
use super::pulse::Pulse;
use super::target::Target;
use super::thaw::thaw_all;
use super::unknown_limits::unknown_limits;
use super::writer::{Connected, Writer, of_another_engine};
use config::{EngineChoice, Settings};
use docker::{Engine, EngineAddress, EngineError};
use limits::machine::{self, Restored};
use limits::{End, Outcome, Restore};
use model::{ContainerId, Runtime, Setting};
use std::collections::BTreeSet;
use std::path::PathBuf;
use store::{Original, Store, StoreError};
use tokio::time::{Instant, timeout_at};

/// What a restore without a daemon did.
#[derive(Debug)]
pub struct Undone {
    /// Path of the journal.
    pub journal: PathBuf,
    /// What was restored from it; `None` if it does not exist.
    pub restored: Option<Restored>,
    /// Containers that the journal does not know and whose limits look like flowcon's, each with the next step; or why the engine could not be
    /// asked for them.
    pub unknown: Result<Vec<String>, String>,
}

/// Restores all containers in a state directory that no daemon uses. `forget_missing`: their owner says that the engines which are not in
/// reach no longer exist.
///
/// # Errors
/// [`StoreError`] if the directory cannot be used. A running daemon locks it; use `flowctl restore` then.
pub async fn restore(settings: &Settings, forget_missing: bool) -> Result<Undone, StoreError> {
    let journal = Store::file(&settings.state_dir);
    let Some((opened, remembered)) = Journal::open_existing(&settings.state_dir)? else {
        let unknown = unknown_limits(&writer(settings), &settings.label, &BTreeSet::new()).await;
        return Ok(Undone { journal, restored: None, unknown });
    };
    let known: BTreeSet<ContainerId> =
        remembered.limits.originals.keys().chain(&remembered.limits.damaged).cloned().collect();
    let mut executor = Executor { journal: opened, writer: writer(settings), pulse: Pulse::default() };
    let restored = restore_remembered(&mut executor, remembered, forget_missing).await;
    let unknown = unknown_limits(&executor.writer, &settings.label, &known).await;
    Ok(Undone { journal, restored: Some(restored), unknown })
}

async fn restore_remembered(executor: &mut Executor, remembered: Remembered, forget_missing: bool) -> Restored {
    let frozen = thaw_all(executor).await;
    let needed = remembered.limits.originals.values().any(|known| known.runtime == Runtime::Docker);
    if let (Some(engine), true) = (&executor.writer.engine, needed)
        && let Ok(info) = engine.info().await
    {
        executor.writer.connected.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(info);
    }
    let forgotten = if forget_missing { missing_forgotten(executor) } else { Ok(Vec::new()) };
    let mut restored = restore_all(executor, None).await;
    match forgotten {
        Ok(names) => restored.missing = names,
        Err(why) => restored.failed.push(why),
    }
    restored.failed.extend(frozen.into_iter().chain(remembered.notices));
    for id in &remembered.limits.damaged {
        restored.failed.extend(damaged(&executor.writer, id).await);
    }
    restored
}

/// Says that the original of a container is lost, unless its engine says that it was removed.
async fn damaged(writer: &Writer, id: &ContainerId) -> Option<String> {
    if let Some(engine) = &writer.engine
        && matches!(engine.record(id).await, Err(EngineError::Gone { .. }))
    {
        return None;
    }
    let id = id.short();
    Some(format!(
        "{id}: its record in the journal is damaged; `docker inspect {id}` shows its limits: set them yourself"
    ))
}

/// Forgets containers that do not run and whose engine is not the connected one, such as one whose data directory was deleted: nothing
/// else would ever remove them. Returns their names.
fn missing_forgotten(executor: &mut Executor) -> Result<Vec<String>, String> {
    let info = executor.writer.info();
    let is_missing = |original: &Original| {
        let is_out_of_reach = info.as_ref().is_none_or(|info| of_another_engine(original, info).is_some());
        original.runtime == Runtime::Docker && is_out_of_reach && matches!(by_cgroup(original), Found::NotRunning)
    };
    let all = executor.journal.everything()?;
    let missing = all.into_iter().map(|(original, _)| original).filter(is_missing);
    missing.map(|original| executor.journal.forget(&original.id).map(|()| original.name)).collect()
}

/// Thaws what a daemon left frozen, without changing limits. Returns what could not be thawed.
///
/// # Errors
/// See [`restore`].
pub async fn thaw(settings: &Settings) -> Result<Vec<String>, StoreError> {
    let Some((journal, _)) = Journal::open_existing(&settings.state_dir)? else { return Ok(Vec::new()) };
    Ok(thaw_all(&mut Executor { journal, writer: writer(settings), pulse: Pulse::default() }).await)
}

/// Returns a writer that is not connected yet.
fn writer(settings: &Settings) -> Writer {
    let address = match &settings.engine {
        EngineChoice::Off | EngineChoice::Pods(_) => None,
        EngineChoice::Auto => EngineAddress::from_config(None).ok(),
        EngineChoice::At(address) => EngineAddress::from_config(Some(address)).ok(),
    };
    // All calls go to one engine, even if the socket of another appears meanwhile.
    let engine = address.map(|address| Engine::new(address.resolved()));
    Writer::new(engine, Connected::default())
}

/// Restores everything in the journal. What is not done `until` then fails and stays in the journal.
pub(super) async fn restore_all(executor: &mut Executor, until: Option<Instant>) -> Restored {
    let mut restored = Restored::default();
    let all = match tokio::task::block_in_place(|| executor.journal.everything()) {
        Ok(all) => all,
        Err(why) => return Restored { failed: vec![why], ..restored },
    };
    for (original, written) in all {
        let (id, name) = (original.id.clone(), original.name.clone());
        executor.pulse.beat();
        let end = in_time(until, restore_one(executor, original, written)).await.map(|outcome| outcome.end);
        match end {
            Ok(End::Restored { forgotten: false, kept, .. }) => {
                restored.failed.push(format!("{name}: {}; stop the container, then restore again", kept.join("; ")));
            }
            Ok(End::Restored { found_ours, kept, .. }) => {
                restored.left.extend(kept.iter().map(|text| format!("{name}: {text}")));
                if found_ours {
                    restored.back.push(name)
                } else {
                    restored.nothing_to_do += 1
                }
                restored.settled.insert(id);
            }
            Ok(End::Failed(why) | End::NotBegun(why)) | Err(why) => restored.failed.push(format!("{name}: {why}")),
            Ok(_) => restored.failed.push(format!("{name}: it has just ended or started; restore again")),
        }
    }
    restored
}

async fn in_time(
    until: Option<Instant>,
    task: impl Future<Output = Result<Outcome, String>>,
) -> Result<Outcome, String> {
    let late = || Err("the time limit was reached; restore again".to_owned());
    match until {
        None => task.await,
        Some(until) if Instant::now() >= until => late(),
        Some(until) => timeout_at(until, task).await.unwrap_or_else(|_| late()),
    }
}

/// Restores one container and removes it from the journal; on an error it stays there.
pub(super) async fn restore_one(
    executor: &mut Executor,
    original: Original,
    written: Vec<Setting>,
) -> Result<Outcome, String> {
    let target = match find(&executor.writer, &original).await {
        Found::Running(target) => Some(*target),
        Found::NotRunning => None,
        Found::Unknown(why) => return Err(why),
    };
    restore_found(executor, original, written, target).await
}

/// Restores one container as [`restore_one`]; without a target it does not run.
pub(super) async fn restore_found(
    executor: &mut Executor,
    original: Original,
    written: Vec<Setting>,
    target: Option<Target>,
) -> Result<Outcome, String> {
    let outcome = executor.carry_out(vec![begin_restore(original, written, target)]).await.pop();
    outcome.map(|done| *done.outcome).ok_or_else(|| "it was not carried out; restore again".to_owned())
}

/// Starts to restore a container of the journal; without a target it does not run.
fn begin_restore(original: Original, written: Vec<Setting>, target: Option<Target>) -> Piece<Restore> {
    let journalled = journalled_of(&original);
    let (operation, ask) = match &target {
        Some(target) => Restore::of_journal(journalled, written, target.is_deferred()),
        None => Restore::of_record(journalled, written),
    };
    Piece { of: machine::Piece { id: original.id, run: None, original: journalled, operation, ask }, target }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeCgroup, FakeEngine, executor, id, info, original, weight};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn inspected(running: bool, shares: i64) -> Option<(u16, String)> {
        let state = format!(r#"{{"Running":{running},"Pid":0}}"#);
        Some((200, format!(r#"{{"Id":"{}","State":{state},"HostConfig":{{"CpuShares":{shares}}}}}"#, id(1).as_str())))
    }

    /// Restores a target's current limits; the journal says that a weight of 40 may be in force.
    fn restore_of(target: Target) -> Piece<Restore> {
        begin_restore(original(&target), vec![weight(40)], Some(target))
    }

    fn shares(setting: Setting) -> i64 {
        let Setting::CpuWeight(weight) = setting else { panic!("{setting}") };
        info().conversion.shares(weight) as i64
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn outcomes_of_jobs_with_similar_names_are_not_confused() {
        let job_1 = id(1);
        let refuses = move |line: &str, _: &str| match line {
            line if line.contains(job_1.as_str()) => Some((500, r#"{"message":"no"}"#.to_owned())),
            _ => Some((200, "{}".to_owned())),
        };
        for (first, second) in [("job-1", "job-10"), ("job-10", "job-1")] {
            let engine = FakeEngine::start(refuses.clone());
            let (_dir, mut executor) = executor(&engine);
            let folders = [FakeCgroup::new(), FakeCgroup::new()];
            let pieces = [(1, first, &folders[0]), (2, second, &folders[1])]
                .map(|(number, name, folder)| restore_of(folder.target(id(number), name, Runtime::Docker)));
            folders[0].put("cpu.weight", "40");
            let ends: Vec<End> =
                executor.carry_out(pieces.into()).await.into_iter().map(|done| done.outcome.end).collect();
            assert!(ends.iter().any(|end| matches!(end, End::Failed(_))), "{first}: {ends:?}");
            assert!(ends.iter().any(|end| matches!(end, End::Restored { .. })), "{second}: {ends:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_limit_that_is_still_in_force_is_not_restored_even_if_the_engine_reports_success() {
        let engine = FakeEngine::start(|_, _| Some((200, "{}".to_owned())));
        let (_dir, mut executor) = executor(&engine);
        let folder = FakeCgroup::new();
        let piece = restore_of(folder.target(id(1), "job", Runtime::Docker));
        folder.put("cpu.weight", "40");
        let end = executor.carry_out(vec![piece]).await.remove(0).outcome.end;
        assert!(matches!(&end, End::Failed(why) if why.contains("still in force")), "{end:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_owners_cgroup_value_stays_and_the_journal_keeps_our_values_in_the_engines_record() {
        for (recorded, is_forgotten) in [(shares(weight(40)), false), (shares(weight(300)), true), (0, true)] {
            let engine = FakeEngine::start(move |_, _| inspected(true, recorded));
            let (_dir, mut executor) = executor(&engine);
            let folder = FakeCgroup::new();
            let target = folder.target(id(1), "job", Runtime::Docker);
            executor.journal.journal_changes(&[(original(&target), vec![weight(40)])]);
            let piece = restore_of(target);
            folder.put("cpu.weight", "300");
            let end = executor.carry_out(vec![piece]).await.remove(0).outcome.end;
            let End::Restored { forgotten, kept, .. } = &end else { panic!("{recorded}: {end:?}") };
            assert_eq!((*forgotten, kept.len()), (is_forgotten, 2 - usize::from(is_forgotten)), "{recorded}: {end:?}");
            assert_eq!(executor.journal.everything().unwrap().is_empty(), is_forgotten);
            assert_eq!(folder.text("cpu.weight"), "300");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_owners_change_of_a_stopped_container_stays() {
        for (present, updates, left) in [(3000, 0, 1), (shares(weight(40)), 1, 0), (777, 0, 0)] {
            let engine = FakeEngine::start(move |line, _| {
                if line.starts_with("GET") { inspected(false, present) } else { Some((200, "{}".to_owned())) }
            });
            let folder = FakeCgroup::new();
            let target = folder.target(id(1), "job", Runtime::Docker);
            let shares = model::EngineLimits { cpu_shares: 777, ..Default::default() };
            let (_dir, mut executor) = executor(&engine);
            let row = Original { engine: Some(shares), ..original(&target) };
            executor.journal.journal_changes(&[(row, vec![weight(40)])]);
            let restored = restore_all(&mut executor, None).await;
            assert_eq!((restored.left.len(), restored.failed.len()), (left, 0), "{present}: {restored:?}");
            assert!(restored.settled.contains(&id(1)) && executor.journal.everything().unwrap().is_empty());
            let requests = engine.requests.lock().unwrap().clone();
            assert_eq!(
                requests.iter().filter(|line| line.starts_with("POST")).count(),
                updates,
                "{present}: {requests:?}"
            );
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_container_of_another_engine_stays_in_the_journal_and_is_reported() {
        let unheard = |line: &str, _: &str| match line {
            line if line.ends_with("/version") => Some((200, r#"{"Version":"28.0","ApiVersion":"1.48"}"#.to_owned())),
            line if line.ends_with("/info") => Some((200, r#"{"ID":"this"}"#.to_owned())),
            _ => Some((404, r#"{"message":"No such container: x"}"#.to_owned())),
        };
        let mark = |id: Option<&str>, socket: &str| {
            Some(model::EngineMark { id: id.map(str::to_owned), socket: socket.to_owned() })
        };
        let others = [mark(Some("that"), "/this.sock"), mark(None, "/that.sock")];
        let engine = FakeEngine::start(unheard);
        let this = [mark(Some("this"), "/moved.sock"), mark(None, engine.socket().to_str().unwrap()), None];
        for (of, is_other) in others.into_iter().map(|of| (of, true)).chain(this.into_iter().map(|of| (of, false))) {
            let (_dir, mut executor) = executor(&engine);
            let mut target = FakeCgroup::new().target(id(1), "job", Runtime::Docker);
            target.mark = of.clone();
            executor.journal.journal_changes(&[(original(&target), vec![weight(40)])]);
            let restored = restore_all(&mut executor, None).await;
            assert_eq!(executor.journal.everything().unwrap().len(), usize::from(is_other), "{of:?}: {restored:?}");
            assert_eq!(restored.failed.iter().any(|text| text.contains("engine.address=unix://")), is_other);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_containers_of_engines_out_of_reach_are_forgotten_as_missing() {
        let engine = FakeEngine::start(|_, _| None);
        let (_dir, mut executor) = executor(&engine);
        let other = model::EngineMark { id: Some("that".to_owned()), socket: "/that.sock".to_owned() };
        for (number, name, mark) in [(1, "gone", other), (2, "ours", info().mark)] {
            let mut target = FakeCgroup::new().target(id(number), name, Runtime::Docker);
            target.mark = Some(mark);
            executor.journal.journal_changes(&[(original(&target), vec![weight(40)])]);
        }
        assert_eq!(missing_forgotten(&mut executor).unwrap(), ["gone"]);
        assert_eq!(executor.journal.everything().unwrap().len(), 1);
    }

    /// The writer connected to one engine; another has taken over its socket since.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_engine_that_took_over_the_socket_is_not_trusted_about_the_containers_of_the_other() {
        let engine = FakeEngine::start(|line, _| match line {
            line if line.ends_with("/version") => Some((200, r#"{"Version":"28.0","ApiVersion":"1.48"}"#.to_owned())),
            line if line.ends_with("/info") => Some((200, r#"{"ID":"that"}"#.to_owned())),
            _ => Some((404, r#"{"message":"No such container: x"}"#.to_owned())),
        });
        let (_dir, mut executor) = executor(&engine);
        let mut target = FakeCgroup::new().target(id(1), "job", Runtime::Docker);
        target.mark = Some(info().mark);
        executor.journal.journal_changes(&[(original(&target), vec![weight(40)])]);
        let restored = restore_all(&mut executor, None).await;
        assert_eq!((restored.failed.len(), executor.journal.everything().unwrap().len()), (1, 1), "{restored:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_restore_on_a_hung_engine_ends_by_its_deadline_and_keeps_the_journal() {
        let engine = FakeEngine::start(|_, _| None);
        let (_dir, mut executor) = executor(&engine);
        let folder = FakeCgroup::new();
        for number in 1..=3 {
            let target = folder.target(id(number), &format!("job-{number}"), Runtime::Docker);
            executor.journal.journal_changes(&[(original(&target), vec![weight(40)])]);
        }
        let began = Instant::now();
        let until = Some(began + Duration::from_millis(300));
        let restored = restore_all(&mut executor, until).await;
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!((restored.failed.len(), restored.settled.len()), (3, 0), "{restored:?}");
        assert_eq!(executor.journal.everything().unwrap().len(), 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_record_that_cannot_be_restored_now_is_restored_later() {
        let fails = Arc::new(AtomicBool::new(true));
        let failing = fails.clone();
        let engine = FakeEngine::start(move |line, _| match line.starts_with("GET") {
            true => inspected(false, shares(weight(40))),
            false if failing.load(Ordering::Relaxed) => Some((500, r#"{"message":"busy"}"#.to_owned())),
            false => Some((200, "{}".to_owned())),
        });
        let (_dir, mut executor) = executor(&engine);
        let folder = FakeCgroup::new();
        let target = folder.target(id(1), "job", Runtime::Docker);
        executor.journal.journal_changes(&[(original(&target), vec![weight(40)])]);
        assert_eq!(restore_all(&mut executor, None).await.failed.len(), 1);
        fails.store(false, Ordering::Relaxed);
        assert!(restore_all(&mut executor, None).await.failed.is_empty());
        assert!(executor.journal.everything().unwrap().is_empty());
    }
}
