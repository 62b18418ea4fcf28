//! Every container back to its original limits, with or without a running daemon.
//!
//! "If a change ever started, its undoing must succeed": what cannot be undone now stays in the journal for the next try. A limit
//! that is neither what we wrote nor the original belongs to somebody else and is left alone.

use super::hands::Hands;
use super::journal::{Journal, Remembered, promised_of};
use super::piece::Piece;
use super::pulse::Pulse;
use super::target::{Target, unit, unit_of_scope};
use super::thaw::everything as thaw_everything;
use super::writer::{Connected, Writer, of_another_engine};
use crate::config::{EngineChoice, Settings};
use crate::host::cgroup::Cgroup;
use crate::host::docker::{Engine, EngineAddress, EngineError};
use crate::host::node;
use crate::host::store::{Original, StoreError};
use crate::limits::machine::{self, Restored};
use crate::limits::{End, Outcome, Return};
use crate::model::{Runtime, Setting};
use std::fs;
use std::path::Path;
use tokio::time::{Instant, timeout_at};

/// Restores from a state directory that no daemon uses.
///
/// # Errors
/// [`StoreError`] when the directory cannot be opened; a daemon that runs holds it: ask that one (`flowctl restore`).
pub async fn restore(settings: &Settings) -> Result<Restored, StoreError> {
    let Some((mut hands, remembered)) = hands_on(settings)? else {
        return Ok(Restored::default()); // nothing was ever changed
    };
    let frozen = thaw_everything(&mut hands).await;
    let needed = remembered.limits.originals.values().any(|known| known.runtime == Runtime::Docker);
    if let (Some(engine), true) = (&hands.writer.engine, needed)
        && let Ok(info) = engine.info().await
    {
        hands.writer.connected.lock().unwrap_or_else(std::sync::PoisonError::into_inner).replace(info);
    }
    let mut restored = everything(&mut hands, None).await;
    restored.failed.extend(frozen.into_iter().chain(remembered.notices));
    Ok(restored)
}

/// Thaws what a daemon left frozen, and leaves limits as they are; the answer is what could not be thawed.
///
/// # Errors
/// As [`restore`].
pub async fn thaw(settings: &Settings) -> Result<Vec<String>, StoreError> {
    match hands_on(settings)? {
        Some((mut hands, _)) => Ok(thaw_everything(&mut hands).await),
        None => Ok(Vec::new()),
    }
}

/// Hands on a state directory that no daemon uses; `None` where nothing was ever changed.
fn hands_on(settings: &Settings) -> Result<Option<(Hands, Remembered)>, StoreError> {
    if !Journal::is_there(&settings.state_dir) {
        return Ok(None);
    }
    let (journal, remembered) = Journal::open(&settings.state_dir)?;
    let address = match &settings.engine {
        EngineChoice::Off => None,
        EngineChoice::Auto => EngineAddress::from_config(None).ok(),
        EngineChoice::At(address) => EngineAddress::from_config(Some(address)).ok(),
    };
    let writer = Writer::new(address.map(Engine::new), Connected::default());
    Ok(Some((Hands { journal, writer, pulse: Pulse::default() }, remembered)))
}

/// Restores everything in the journal. What is not done `until` then has failed, and stays in it.
pub(super) async fn everything(hands: &mut Hands, until: Option<Instant>) -> Restored {
    let mut restored = Restored::default();
    let all = match tokio::task::block_in_place(|| hands.journal.everything()) {
        Ok(all) => all,
        Err(why) => return Restored { failed: vec![why], ..restored },
    };
    for (original, written) in all {
        let (id, name) = (original.id.clone(), original.name.clone());
        hands.pulse.beat();
        let end = in_time(until, one(hands, original, written)).await.map(|outcome| outcome.end);
        match end {
            Ok(End::Returned { forgotten: false, left, .. }) => {
                let why = format!("{}, and its engine keeps a value of ours for its next run", left.join("; "));
                restored.failed.push(format!("{name}: {why}; stop it, then restore again"));
            }
            Ok(End::Returned { stood, left, .. }) => {
                restored.left.extend(left.iter().map(|text| format!("{name}: {text}")));
                if stood {
                    restored.back.push(name)
                } else {
                    restored.nothing_to_do += 1
                }
                restored.settled.insert(id);
            }
            Ok(End::Failed(why) | End::NotBegun(why)) | Err(why) => restored.failed.push(format!("{name}: {why}")),
            Ok(_) => restored.failed.push(format!("{name}: it ended or started just now; restore again")),
        }
    }
    restored
}

async fn in_time(
    until: Option<Instant>,
    one: impl Future<Output = Result<Outcome, String>>,
) -> Result<Outcome, String> {
    let late = || Err("there was no time left for it; restore again".to_owned());
    match until {
        None => one.await,
        Some(until) if Instant::now() >= until => late(),
        Some(until) => timeout_at(until, one).await.unwrap_or_else(|_| late()),
    }
}

/// Puts one container back and forgets it; an error leaves it in the journal.
async fn one(hands: &mut Hands, original: Original, written: Vec<Setting>) -> Result<Outcome, String> {
    let target = match find(&hands.writer, &original).await {
        Found::Running(target) => Some(*target),
        Found::NotRunning => None,
        Found::Unknown(why) => return Err(why),
    };
    let outcome = hands.carry_out(vec![returning(original, written, target)]).await.pop();
    outcome.map(|came| *came.outcome).ok_or_else(|| "nothing came of it; restore again".to_owned())
}

/// Begins to put back what the journal remembers of a container; without a target it does not run.
pub(super) fn returning(original: Original, written: Vec<Setting>, target: Option<Target>) -> Piece<Return> {
    let promised = promised_of(&original);
    let (operation, ask) = match &target {
        Some(target) => Return::of_journal(promised, written, target.is_late()),
        None => Return::of_record(promised, written),
    };
    Piece { of: machine::Piece { id: original.id, run: None, original: promised, operation, ask }, target }
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
    if let Some(why) = of_another_engine(original, &info) {
        return Found::Unknown(why);
    }
    match engine.inspect(&original.id, info.name).await {
        Ok(container) => match Cgroup::of_container(container.pid, original.id.as_str()) {
            Ok(cgroup) => {
                let id = original.id.clone();
                let mut target = Target::new(id, original.name.clone(), Runtime::Docker, cgroup);
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

/// A process that lives in the remembered cgroup leads to it. Path names alone are never trusted.
fn by_cgroup(original: &Original) -> Found {
    let Ok(processes) = fs::read_dir("/proc") else { return Found::Unknown("/proc cannot be read".to_owned()) };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let Ok(lines) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { continue };
        let lives_there = |line: &str| {
            let path = line.splitn(3, ':').nth(2).unwrap_or("");
            // A container's processes may be in a cgroup inside its own.
            let is_inside = original.runtime == Runtime::Docker && path.contains(original.id.as_str());
            path.len() > 1 && (original.cgroup.ends_with(path) || is_inside)
        };
        if !lines.lines().any(lives_there) {
            continue;
        }
        let name = original.cgroup.rsplit('/').next().unwrap_or("");
        let cgroup = match original.runtime {
            Runtime::Docker => Cgroup::of_container(pid, original.id.as_str()),
            Runtime::Scope => Cgroup::of_scope(pid, None, name),
        };
        if let Ok(cgroup) = cgroup {
            let mut target = Target::new(original.id.clone(), original.name.clone(), original.runtime, cgroup);
            // Written to the file alone, a limit would be undone by systemd, which still has ours.
            target.unit = unit_of_scope(Path::new(&original.cgroup));
            return Found::Running(Box::new(target));
        }
    }
    Found::NotRunning
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeEngine, Folder, hands, id, info, original, weight};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn inspected(running: bool, shares: i64) -> Option<(u16, String)> {
        let state = format!(r#"{{"Running":{running},"Pid":0}}"#);
        Some((200, format!(r#"{{"Id":"{}","State":{state},"HostConfig":{{"CpuShares":{shares}}}}}"#, id(1).as_str())))
    }

    /// A weight of 40 may stand in a target beside the limits that it has now.
    fn back(target: Target) -> Piece<Return> {
        returning(original(&target), vec![weight(40)], Some(target))
    }

    fn shares(setting: Setting) -> i64 {
        let Setting::CpuWeight(weight) = setting else { panic!("{setting}") };
        info().conversion.shares(weight) as i64
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn whether_a_job_is_back_is_its_own_outcome_and_not_that_of_one_whose_name_begins_alike() {
        let job_1 = id(1);
        let refuses = move |line: &str, _: &str| match line {
            line if line.contains(job_1.as_str()) => Some((500, r#"{"message":"no"}"#.to_owned())),
            _ => Some((200, "{}".to_owned())),
        };
        for (first, second) in [("job-1", "job-10"), ("job-10", "job-1")] {
            let engine = FakeEngine::start(refuses.clone());
            let (_dir, mut hands) = hands(&engine);
            let folders = [Folder::new(), Folder::new()];
            let pieces = [(1, first, &folders[0]), (2, second, &folders[1])]
                .map(|(number, name, folder)| back(folder.target(id(number), name, Runtime::Docker)));
            folders[0].put("cpu.weight", "40");
            let ends: Vec<End> =
                hands.carry_out(pieces.into()).await.into_iter().map(|came| came.outcome.end).collect();
            assert!(ends.iter().any(|end| matches!(end, End::Failed(_))), "{first}: {ends:?}");
            assert!(ends.iter().any(|end| matches!(end, End::Returned { .. })), "{second}: {ends:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_limit_of_ours_that_still_stands_is_not_back_whatever_the_engine_says() {
        let engine = FakeEngine::start(|_, _| Some((200, "{}".to_owned())));
        let (_dir, mut hands) = hands(&engine);
        let folder = Folder::new();
        let piece = back(folder.target(id(1), "job", Runtime::Docker));
        folder.put("cpu.weight", "40");
        let end = hands.carry_out(vec![piece]).await.remove(0).outcome.end;
        assert!(matches!(&end, End::Failed(why) if why.contains("still stands")), "{end:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_an_owner_set_in_the_cgroup_alone_stays_and_the_journal_keeps_what_the_engine_has_of_ours() {
        for (recorded, is_forgotten) in [(shares(weight(40)), false), (shares(weight(300)), true), (0, true)] {
            let engine = FakeEngine::start(move |_, _| inspected(true, recorded));
            let (_dir, mut hands) = hands(&engine);
            let folder = Folder::new();
            let target = folder.target(id(1), "job", Runtime::Docker);
            hands.journal.before_writing(&[(original(&target), vec![weight(40)])]);
            let piece = back(target);
            folder.put("cpu.weight", "300");
            let end = hands.carry_out(vec![piece]).await.remove(0).outcome.end;
            let told =
                matches!(&end, End::Returned { forgotten, left, .. } if *forgotten == is_forgotten && left.len() == 1);
            assert!(told, "{recorded}: {end:?}");
            assert_eq!(hands.journal.everything().unwrap().is_empty(), is_forgotten);
            assert_eq!(folder.text("cpu.weight"), "300");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_an_owner_changed_in_a_container_that_does_not_run_stays() {
        for (present, updates, left) in [(3000, 0, 1), (shares(weight(40)), 1, 0), (777, 0, 0)] {
            let engine = FakeEngine::start(move |line, _| {
                if line.starts_with("GET") { inspected(false, present) } else { Some((200, "{}".to_owned())) }
            });
            let folder = Folder::new();
            let target = folder.target(id(1), "job", Runtime::Docker);
            let shares = crate::model::EngineLimits { cpu_shares: 777, ..Default::default() };
            let (_dir, mut hands) = hands(&engine);
            let row = Original { engine: Some(shares), ..original(&target) };
            hands.journal.before_writing(&[(row, vec![weight(40)])]);
            let restored = everything(&mut hands, None).await;
            assert_eq!((restored.left.len(), restored.failed.len()), (left, 0), "{present}: {restored:?}");
            assert!(restored.settled.contains(&id(1)) && hands.journal.everything().unwrap().is_empty());
            let asked = engine.asked.lock().unwrap().clone();
            assert_eq!(asked.iter().filter(|line| line.starts_with("POST")).count(), updates, "{present}: {asked:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_another_engine_has_never_heard_of_stays_in_the_journal_and_is_told() {
        let unheard = |line: &str, _: &str| match line {
            line if line.ends_with("/version") => Some((200, r#"{"Version":"28.0","ApiVersion":"1.48"}"#.to_owned())),
            line if line.ends_with("/info") => Some((200, r#"{"ID":"this"}"#.to_owned())),
            _ => Some((404, r#"{"message":"No such container: x"}"#.to_owned())),
        };
        let mark = |id: Option<&str>, socket: &str| {
            Some(crate::model::EngineMark { id: id.map(str::to_owned), socket: socket.to_owned() })
        };
        let others = [mark(Some("that"), "/this.sock"), mark(None, "/that.sock")];
        let engine = FakeEngine::start(unheard);
        let this = [mark(Some("this"), "/moved.sock"), mark(None, engine.socket().to_str().unwrap()), None];
        for (of, is_other) in others.into_iter().map(|of| (of, true)).chain(this.into_iter().map(|of| (of, false))) {
            let (_dir, mut hands) = hands(&engine);
            let mut target = Folder::new().target(id(1), "job", Runtime::Docker);
            target.mark = of.clone();
            hands.journal.before_writing(&[(original(&target), vec![weight(40)])]);
            let restored = everything(&mut hands, None).await;
            assert_eq!(hands.journal.everything().unwrap().len(), usize::from(is_other), "{of:?}: {restored:?}");
            assert_eq!(restored.failed.iter().any(|text| text.contains("engine.address=unix://")), is_other);
        }
    }

    /// Connected as one engine, answered by another that has taken its socket since.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_engine_that_took_the_socket_of_another_is_not_believed_about_its_containers() {
        let engine = FakeEngine::start(|line, _| match line {
            line if line.ends_with("/version") => Some((200, r#"{"Version":"28.0","ApiVersion":"1.48"}"#.to_owned())),
            line if line.ends_with("/info") => Some((200, r#"{"ID":"that"}"#.to_owned())),
            _ => Some((404, r#"{"message":"No such container: x"}"#.to_owned())),
        });
        let (_dir, mut hands) = hands(&engine);
        let mut target = Folder::new().target(id(1), "job", Runtime::Docker);
        target.mark = Some(info().mark);
        hands.journal.before_writing(&[(original(&target), vec![weight(40)])]);
        let restored = everything(&mut hands, None).await;
        assert_eq!((restored.failed.len(), hands.journal.everything().unwrap().len()), (1, 1), "{restored:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_restore_on_an_engine_that_never_answers_ends_by_its_deadline_and_keeps_what_it_could_not_do() {
        let engine = FakeEngine::start(|_, _| None);
        let (_dir, mut hands) = hands(&engine);
        let folder = Folder::new();
        for number in 1..=3 {
            let target = folder.target(id(number), &format!("job-{number}"), Runtime::Docker);
            hands.journal.before_writing(&[(original(&target), vec![weight(40)])]);
        }
        let began = Instant::now();
        let until = Some(began + Duration::from_millis(300));
        let restored = everything(&mut hands, until).await;
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!((restored.failed.len(), restored.settled.len()), (3, 0), "{restored:?}");
        assert_eq!(hands.journal.everything().unwrap().len(), 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_record_that_cannot_be_returned_now_is_returned_by_a_later_restore() {
        let fails = Arc::new(AtomicBool::new(true));
        let failing = fails.clone();
        let engine = FakeEngine::start(move |line, _| match line.starts_with("GET") {
            true => inspected(false, shares(weight(40))),
            false if failing.load(Ordering::Relaxed) => Some((500, r#"{"message":"busy"}"#.to_owned())),
            false => Some((200, "{}".to_owned())),
        });
        let (_dir, mut hands) = hands(&engine);
        let folder = Folder::new();
        let target = folder.target(id(1), "job", Runtime::Docker);
        hands.journal.before_writing(&[(original(&target), vec![weight(40)])]);
        assert_eq!(everything(&mut hands, None).await.failed.len(), 1);
        fails.store(false, Ordering::Relaxed);
        assert!(everything(&mut hands, None).await.failed.is_empty());
        assert!(hands.journal.everything().unwrap().is_empty());
    }
}
