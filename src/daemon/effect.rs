//! The effect of CPU weights: a problem is told once, with its most likely cause.

use super::job::Jobs;
use limits::{EffectMeter, NoEffect, Received};
use model::NodeObservation;

/// The effect of CPU weights on this node.
#[derive(Debug, Default)]
pub(super) struct Effect {
    pub(super) meter: EffectMeter,
    /// The problem that was told, in words. Its cause is looked for once.
    told: Option<(NoEffect, String)>,
}

/// What decides instead of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// A scheduler of `sched_ext` with this name.
    Scheduler(String),
    /// The favoured job has real-time priority.
    RealTime,
    Unknown,
}

impl Effect {
    /// Judges whether weights decide who gets CPU. Returns the problem in words, while there is one.
    pub(super) fn look(&mut self, node: &NodeObservation, jobs: &Jobs) -> Option<String> {
        // What a frozen job waits for is not CPU.
        let thawed = node.containers.iter().filter(|seen| jobs.get(&seen.id).is_none_or(|job| job.frozen.is_none()));
        self.meter.look(node.now, thawed, |id| jobs.get(id)?.target.cgroup().waited());
        let found = self.meter.problem();
        if found != self.told.as_ref().map(|(problem, _)| problem) {
            self.told = found.cloned().map(|problem| {
                let text = told(&problem, &cause(&problem, jobs));
                (problem, text)
            });
        }
        self.told.as_ref().map(|(_, text)| text.clone())
    }
}

fn cause(problem: &NoEffect, jobs: &Jobs) -> Cause {
    let is_real_time = || jobs.get(&problem.favoured.id).is_some_and(|job| job.target.cgroup().is_real_time());
    match node::loaded_scheduler() {
        Some(name) => Cause::Scheduler(name),
        None if is_real_time() => Cause::RealTime,
        None => Cause::Unknown,
    }
}

fn told(problem: &NoEffect, cause: &Cause) -> String {
    let NoEffect { deprived, favoured } = problem;
    let got = |job: &Received| format!("{:.2} cores instead of {:.2}", job.used, job.due);
    let cause = match cause {
        Cause::Scheduler(name) => format!(
            "the sched_ext scheduler {name}, which replaces the kernel's, divides CPU in its own way; next: stop it \
             (`systemctl stop scx`), or load one that honours the weights of cgroups"
        ),
        Cause::RealTime => format!(
            "{} has threads with real-time priority, before which no weight counts; next: start it without `chrt` and without SYS_NICE",
            favoured.name
        ),
        Cause::Unknown => "unknown; next: `flowctl doctor`".to_owned(),
    };
    format!(
        "CPU weights have no effect: {}, weight {}, waits and got {}, while {}, weight {}, got {}; cause: {cause}",
        deprived.name,
        deprived.weight,
        got(deprived),
        favoured.name,
        favoured.weight,
        got(favoured)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ContainerId;

    #[test]
    fn the_cause_and_the_next_step_are_named() {
        let received = |name: &str, weight, due, used| {
            let id = ContainerId::new(name);
            Received { id, name: name.to_owned(), weight, due, used }
        };
        let problem = NoEffect { deprived: received("a", 900, 1.8, 1.0), favoured: received("b", 100, 0.2, 1.0) };
        let text = told(&problem, &Cause::Scheduler("rusty_1.0".to_owned()));
        assert!(
            text.starts_with(
                "CPU weights have no effect: a, weight 900, waits and got 1.00 cores instead of 1.80, while b, weight 100, got \
                 1.00 cores instead of 0.20; cause: the sched_ext scheduler rusty_1.0"
            ),
            "{text}"
        );
        assert!(told(&problem, &Cause::RealTime).contains("cause: b has threads with real-time priority"));
        assert!(told(&problem, &Cause::Unknown).ends_with("next: `flowctl doctor`"));
    }
}
