//! Thaws everything that this daemon or an earlier one may have frozen: at the start, at the end, and by `flowcond restore`.
//!
//! Containers that their engine paused belong to the engine. It is asked, with a short time limit; if it does not answer, the last
//! record in the journal counts. Everything else is thawed, because a job that stays frozen is the worst that could be left behind.

use super::executor::Executor;
use super::writer::Writer;
use model::Runtime;
use std::path::Path;
use std::time::Duration;
use store::Freezable;
use tokio::task::block_in_place;
use tokio::time::timeout;

/// Time limit for the engine's answer about one container. An engine that exceeds it is not asked again.
const ENGINE_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Thaws all that the journal says may be frozen, and removes it from the journal. Returns what could not be thawed.
pub(super) async fn thaw_all(executor: &mut Executor) -> Vec<String> {
    let jobs = match block_in_place(|| executor.journal.freezable()) {
        Ok(jobs) => jobs,
        Err(why) => return vec![why],
    };
    let this_boot = node::boot_id().unwrap_or_default();
    let (mut failed, mut engine_answers) = (Vec::new(), true);
    for job in jobs.into_iter() {
        if job.boot_id == this_boot {
            let paused = match job.runtime {
                Runtime::Docker if engine_answers => is_paused(&executor.writer, &job).await,
                Runtime::Docker => None,
                Runtime::Scope | Runtime::Pod | Runtime::Containerd => Some(false),
            };
            engine_answers &= paused.is_some();
            match paused {
                Some(true) => {}
                // Paused by the engine, as far as is known: the next run of this function asks again.
                None if job.is_paused => continue,
                _ => {
                    if let Err(error) = freezer::thaw(Path::new(&job.cgroup)) {
                        failed.push(format!("{}: {} could not be thawed: {error}", job.name, job.cgroup));
                        continue;
                    }
                }
            }
        }
        failed.extend(block_in_place(|| executor.journal.forget_freezable(&job.id)).err());
    }
    failed
}

/// Whether its engine has paused the container; `None` if the engine does not answer, `false` if it does not know the container.
async fn is_paused(writer: &Writer, job: &Freezable) -> Option<bool> {
    let engine = writer.engine.as_ref()?;
    let asking = async {
        let name = match writer.info() {
            Some(info) => info.name,
            None => engine.info().await.ok()?.name,
        };
        match engine.inspect(&job.id, name).await {
            Ok(container) => Some(container.paused),
            Err(error) if error.is_missing() || error.is_gone() => Some(false),
            Err(_) => None,
        }
    };
    timeout(ENGINE_ANSWERS_WITHIN, asking).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeCgroup, FakeEngine, executor, id};
    use super::*;

    fn note(number: u8, folder: &FakeCgroup, runtime: Runtime, is_paused: bool) -> Freezable {
        Freezable {
            id: id(number),
            runtime,
            name: format!("job-{number}"),
            cgroup: folder.0.path().to_string_lossy().into_owned(),
            boot_id: node::boot_id().unwrap(),
            is_paused,
        }
    }

    fn frozen() -> FakeCgroup {
        let folder = FakeCgroup::new();
        folder.put("cgroup.freeze", "1");
        folder
    }

    fn inspected(paused: bool) -> Option<(u16, String)> {
        let state = format!(r#"{{"Running":true,"Paused":{paused},"Pid":1}}"#);
        Some((200, format!(r#"{{"Id":"{}","State":{state}}}"#, id(1).as_str())))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn everything_is_thawed_and_forgotten_except_what_the_engine_paused() {
        for (runtime, paused, frozen_afterwards) in
            [(Runtime::Docker, false, "0"), (Runtime::Docker, true, "1"), (Runtime::Scope, true, "0")]
        {
            let engine = FakeEngine::start(move |_, _| inspected(paused));
            let (_dir, mut executor) = executor(&engine);
            let folder = frozen();
            executor.journal.record_freezable(&note(1, &folder, runtime, false)).unwrap();
            assert_eq!(thaw_all(&mut executor).await, Vec::<String>::new());
            assert_eq!(folder.text("cgroup.freeze"), frozen_afterwards, "{runtime:?} {paused}");
            assert!(executor.journal.freezable().unwrap().is_empty());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_silent_engine_delays_nothing_and_containers_recorded_as_paused_stay_frozen() {
        let engine = FakeEngine::start(|_, _| None);
        let (_dir, mut executor) = executor(&engine);
        let folders = [frozen(), frozen(), frozen()];
        for (number, folder, is_paused) in [(1, &folders[0], false), (2, &folders[1], true), (3, &folders[2], false)] {
            executor.journal.record_freezable(&note(number, folder, Runtime::Docker, is_paused)).unwrap();
        }
        let began = std::time::Instant::now();
        assert_eq!(thaw_all(&mut executor).await, Vec::<String>::new());
        assert!(began.elapsed() < 3 * ENGINE_ANSWERS_WITHIN, "it is asked once");
        assert_eq!(folders.each_ref().map(|folder| folder.text("cgroup.freeze")), ["0", "1", "0"]);
        assert_eq!(executor.journal.freezable().unwrap(), [note(2, &folders[1], Runtime::Docker, true)]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_cgroup_that_cannot_be_thawed_stays_recorded_and_a_removed_one_does_not() {
        let engine = FakeEngine::start(|_, _| inspected(false));
        let (_dir, mut executor) = executor(&engine);
        let (no_freezer, gone) = (FakeCgroup::new(), FakeCgroup::new());
        executor.journal.record_freezable(&note(1, &no_freezer, Runtime::Scope, false)).unwrap();
        executor.journal.record_freezable(&note(2, &gone, Runtime::Scope, false)).unwrap();
        let other_boot = Freezable { boot_id: "another".to_owned(), ..note(3, &no_freezer, Runtime::Scope, false) };
        executor.journal.record_freezable(&other_boot).unwrap();
        drop(gone);
        let failed = thaw_all(&mut executor).await;
        assert!(failed.len() == 1 && failed[0].starts_with("job-1: "), "{failed:?}");
        assert_eq!(executor.journal.freezable().unwrap().len(), 1);
    }
}
