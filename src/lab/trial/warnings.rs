//! Collects what the governor says, during a run, about jobs that it does not govern: such a run says nothing about the policy.

use super::job::TrialJob;
use super::outcome::JobOutcome;
use api::wire::{Container, Notice};

/// The hold that ends by itself at the next decision.
const SETTLING: &str = "settling";
/// A job that runs for more than this many intervals must have been seen by the governor.
const SEEN_AFTER: f64 = 2.0;

/// The warnings of one run.
pub(super) struct Warnings {
    jobs: Vec<Watched>,
    texts: Vec<String>,
    asked: u32,
    replies: u32,
    /// Time between two decisions, from the last reply.
    interval_s: f64,
}

struct Watched {
    job: String,
    /// Its name in the governor's status.
    container: String,
    is_seen: bool,
}

impl Warnings {
    /// Creates an empty collection for jobs, each with its name in the governor's status.
    pub(super) fn new(jobs: &[TrialJob], containers: &[String]) -> Warnings {
        let watched = |(job, container): (&TrialJob, &String)| Watched {
            job: job.name.clone(),
            container: container.clone(),
            is_seen: false,
        };
        let jobs = jobs.iter().zip(containers).map(watched).collect();
        Warnings { jobs, texts: Vec::new(), asked: 0, replies: 0, interval_s: 0.0 }
    }

    /// Records that the governor did not reply to a request of its status.
    pub(super) fn unanswered(&mut self) {
        self.asked += 1;
    }

    /// Adds the warnings of a status that are not known yet.
    pub(super) fn heard(&mut self, containers: &[Container], notices: &[Notice], interval_s: f64) {
        self.asked += 1;
        self.replies += 1;
        self.interval_s = interval_s;
        let warnings = notices.iter().filter(|notice| notice.is_warning());
        let mut heard: Vec<String> = warnings.map(|notice| format!("the governor warned: {}", notice.text)).collect();
        for watched in &mut self.jobs {
            let Some(container) = containers.iter().find(|container| container.name == watched.container) else {
                continue;
            };
            watched.is_seen = true;
            let job = &watched.job;
            heard.extend(problems(container).map(|text| format!("{job} was not governed as intended: {text}")));
        }
        for text in heard {
            if !self.texts.contains(&text) {
                self.texts.push(text);
            }
        }
    }

    /// The distinct warnings; first whether the governor was silent, or never saw one of `jobs`.
    pub(super) fn conclude(self, jobs: &[JobOutcome]) -> Vec<String> {
        let Warnings { jobs: watched, texts, asked, replies, interval_s } = self;
        let is_silent = replies < asked - replies;
        let silence =
            is_silent.then(|| format!("the governor replied to only {replies} of {asked} requests of its status"));
        let is_long = |job: &JobOutcome| replies > 0 && job.completion_s > SEEN_AFTER * interval_s;
        let unseen = watched.iter().zip(jobs).filter(|(watched, job)| !watched.is_seen && is_long(job));
        let unseen = unseen.map(|(watched, _)| format!("the governor never saw {}", watched.job));
        silence.into_iter().chain(unseen).chain(texts).collect()
    }
}

/// Why a container's limits are left alone, and the warnings about it. The reason of a failed write is both.
fn problems(container: &Container) -> impl Iterator<Item = &str> {
    let hold = container.hold.as_ref().filter(|hold| hold.kind != SETTLING).map(|hold| hold.why.as_str());
    let warnings = container.notices.iter().filter(|notice| notice.is_warning()).map(|notice| notice.text.as_str());
    hold.into_iter().chain(warnings.filter(move |text| !hold.is_some_and(|why| why.contains(*text))))
}

#[cfg(test)]
mod tests {
    use super::super::job::Work;
    use super::*;
    use crate::workload::{Amount, Kind};
    use api::wire::Hold;
    use std::time::Duration;

    fn warnings(names: &[&str]) -> Warnings {
        let work = || Work::Training(Kind::Mlp, Amount { epochs: 1, size: 64, threads: 1, seed: 1 });
        let job = |name: &&str| TrialJob {
            name: (*name).to_owned(),
            start: Duration::ZERO,
            is_broken: false,
            labels: Vec::new(),
            work: work(),
        };
        let containers: Vec<String> = names.iter().map(|name| format!("x-{name}")).collect();
        Warnings::new(&names.iter().map(job).collect::<Vec<_>>(), &containers)
    }

    fn outcome(name: &str, completion_s: f64) -> JobOutcome {
        JobOutcome { name: name.to_owned(), start_s: 0.0, completion_s, exit_code: 0 }
    }

    fn notice(level: &str, text: &str) -> Notice {
        Notice { level: level.to_owned(), unix_ms: 0, text: text.to_owned() }
    }

    fn held(name: &str, kind: &str, why: &str) -> Container {
        let hold = Hold { kind: kind.to_owned(), why: why.to_owned(), ends: String::new() };
        Container { name: name.to_owned(), hold: Some(hold), ..Container::default() }
    }

    #[test]
    fn each_problem_is_reported_once() {
        let mut warnings = warnings(&["a", "b"]);
        let unwritable = held("x-a", "unwritable", "its limits could not be written: memory.low: denied");
        let noticed = [notice("warning", "memory.low: denied"), notice("info", "written directly")];
        let containers =
            [Container { notices: noticed.to_vec(), ..unwritable }, held("x-b", "settling", "found already running")];
        let notices = [notice("warning", "the journal is full"), notice("info", "hello")];
        warnings.heard(&containers, &notices, 2.0);
        warnings.heard(&containers, &notices, 2.0);
        assert_eq!(
            warnings.conclude(&[outcome("a", 9.0), outcome("b", 9.0)]),
            [
                "the governor warned: the journal is full",
                "a was not governed as intended: its limits could not be written: memory.low: denied"
            ]
        );
    }

    #[test]
    fn only_a_job_that_ran_for_more_than_two_intervals_must_have_been_seen() {
        let mut warnings = warnings(&["seen", "long", "short"]);
        warnings.heard(&[Container { name: "x-seen".to_owned(), ..Container::default() }], &[], 2.0);
        let outcomes = [outcome("seen", 9.0), outcome("long", 9.0), outcome("short", 3.0)];
        assert_eq!(warnings.conclude(&outcomes), ["the governor never saw long"]);
    }

    #[test]
    fn a_governor_that_rarely_replies_is_reported() {
        let mut rarely = warnings(&["a"]);
        rarely.unanswered();
        rarely.unanswered();
        rarely.heard(&[Container { name: "x-a".to_owned(), ..Container::default() }], &[], 2.0);
        let expected = ["the governor replied to only 1 of 3 requests of its status"];
        assert_eq!(rarely.conclude(&[outcome("a", 9.0)]), expected);
        let mut never = warnings(&["a"]);
        never.unanswered();
        assert_eq!(never.conclude(&[outcome("a", 9.0)]).len(), 1);
    }
}
