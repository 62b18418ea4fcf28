//! Why a job or an engine of the demo's Swarm has ended, from what the engine and the coordinator print.

use api::wire::ClusterJob as QueuedJob;
use std::collections::BTreeSet;

/// The failure of a job that the coordinator will not start again.
pub(super) fn failure_of(job: &QueuedJob) -> Option<String> {
    let exit_code = job.exit_code.filter(|_| job.state == "failed").map(|code| format!("exit code {code}"));
    let has_given_up = |kind: &str| job.state == "refused" || kind == "gave-up";
    let why = job.why.as_ref().filter(|why| has_given_up(&why.kind)).map(|why| why.text.clone());
    Some(format!("{}: {}", job.name, exit_code.or(why)?))
}

/// The first job whose latest task has failed and is not restarted, in lines `NAME|DESIRED STATE|STATE|ERROR`, a job's latest task first.
/// When Swarm restarts a job, it creates the next task in the same step in which it gives up the last one.
pub(super) fn failure_in(tasks: &str) -> Option<String> {
    let mut seen = BTreeSet::new();
    tasks.lines().find_map(|line| {
        let mut columns = line.splitn(4, '|');
        let (name, desired, state) = (columns.next()?, columns.next()?, columns.next()?);
        let error = columns.next().filter(|error| !error.is_empty()).unwrap_or(state);
        let has_failed = ["Failed", "Rejected"].iter().any(|failed| state.starts_with(failed));
        (seen.insert(name) && has_failed && desired == "Shutdown").then(|| format!("{name}: {error}"))
    })
}

/// Why an engine has ended: the beginning of its last panic, or the last lines of its log.
pub(super) fn last_words(log: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = log.lines().collect();
    let is_panic = |line: &&str| ["panic:", "fatal error:", "SIG"].iter().any(|start| line.starts_with(start));
    let first = lines.iter().rposition(is_panic).unwrap_or(lines.len().saturating_sub(LINES));
    lines[first..].iter().take(LINES).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_failed_for_good_if_it_is_the_latest_of_its_job_and_no_longer_wanted() {
        let restarted = "vae-1.1|Ready|Ready 2 seconds ago|\n\
                         vae-1.1|Shutdown|Failed 3 seconds ago|task: non-zero exit (1)\n\
                         gru-1.1|Shutdown|Complete 1 second ago|\nmlp-1.1|Running|Running 9 seconds ago|";
        assert_eq!(failure_in(restarted), None);
        assert_eq!(failure_in("mlp-1.1|Running|Failed 1 second ago|task: non-zero exit (1)"), None, "not handled yet");
        let failed = format!("{restarted}\nsoftmax-2.1|Shutdown|Rejected 1 second ago|no such | image\n{restarted}");
        assert_eq!(failure_in(&failed).as_deref(), Some("softmax-2.1: no such | image"));
        assert_eq!(failure_in(""), None);
    }

    #[test]
    fn the_last_words_of_an_engine_are_its_panic_or_its_last_lines() {
        let log = |count| (1..=count).map(|line| format!("line {line}\n")).collect::<String>();
        assert_eq!(last_words(&log(3)), "line 1\nline 2\nline 3");
        assert_eq!(last_words(&log(20)).lines().next(), Some("line 9"));
        let panic = format!("{}fatal error: concurrent map writes\n\ngoroutine 7 [running]:\n{}", log(20), log(99));
        assert!(last_words(&panic).starts_with("fatal error: concurrent map writes\n"));
        assert_eq!((last_words(&panic).lines().count(), last_words("")), (12, String::new()));
    }

    #[test]
    fn a_queued_job_has_failed_if_the_coordinator_gave_it_up() {
        let job = |state: &str, exit_code: Option<i64>, kind: &str| {
            let why = serde_json::json!({ "kind": kind, "text": "the reason" });
            let job = serde_json::json!({
                "id": "1", "name": "vae-1", "state": state, "moves": 0, "exit_code": exit_code, "why": why
            });
            failure_of(&serde_json::from_value(job).expect("a job"))
        };
        assert_eq!(job("failed", Some(3), "in-progress").as_deref(), Some("vae-1: exit code 3"));
        assert_eq!(job("waiting", None, "gave-up").as_deref(), Some("vae-1: the reason"));
        assert_eq!(job("refused", None, "invalid").as_deref(), Some("vae-1: the reason"));
        assert_eq!([job("done", Some(0), "in-progress"), job("waiting", None, "no-place")], [None, None]);
    }
}
