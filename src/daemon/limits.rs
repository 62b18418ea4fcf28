//! Limits as the loop sees them: what it asks the actuator to write, what came of it, and who else wrote.

use super::actuator::{Order, Outcome};
use super::drift::Drift;
use super::governing::Governing;
use super::holds::Holds;
use super::job::Job;
use super::journal::unix_ms;
use super::target::{Target, same_kind};
use crate::host::node;
use crate::model::{ContainerId, DriftBy, EventKind, Hold, LimitChange, LimitDrift, Millis, NoticeLevel, Setting};
use std::collections::BTreeMap;

/// How long limits that could not be written are left alone at first; doubles up to the longest interval.
const WRITE_AGAIN: Millis = Millis::from_secs(30);

impl Governing {
    /// Tells which containers a plan leaves as they are because it breaks a rule for them.
    pub(super) fn say_left_out(&mut self, left_out: Vec<(ContainerId, String)>) {
        for (id, rule) in left_out {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let text = format!("what was planned for it breaks a rule ({rule}): its limits are left as they are");
            job.say(NoticeLevel::Warning, &text);
        }
    }

    pub(super) fn actuate(&mut self, changes: Vec<LimitChange>) {
        if changes.is_empty() {
            return;
        }
        let (loosen, tighten): (Vec<_>, Vec<_>) = changes.into_iter().partition(LimitChange::loosens);
        let (loosen, tighten) = (self.by_target(loosen), self.by_target(tighten));
        let asked: Vec<(ContainerId, Vec<Setting>)> =
            loosen.iter().chain(&tighten).map(|(target, settings)| (target.id.clone(), settings.clone())).collect();
        if !self.actuator.order(Order::Change { loosen, tighten }) {
            return;
        }
        self.in_flight += 1;
        for (id, settings) in asked {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.asked(&settings);
            }
        }
    }

    fn by_target(&self, changes: Vec<LimitChange>) -> Vec<(Target, Vec<Setting>)> {
        let mut grouped: BTreeMap<ContainerId, Vec<Setting>> = BTreeMap::new();
        for change in changes {
            grouped.entry(change.id).or_default().push(change.to);
        }
        let with_target = |(id, settings)| Some((self.jobs.get(&id)?.target.clone(), settings));
        grouped.into_iter().filter_map(with_target).collect()
    }

    /// Takes note of what became of a container's settings.
    pub(super) fn note(&mut self, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(&outcome.id) else { return };
        let name = job.target.name.clone();
        let about = Some((outcome.id.as_str(), name.as_str()));
        if let Some(original) = outcome.original {
            job.target.original = original;
        }
        if outcome.gone {
            return;
        }
        if outcome.original.is_none() && outcome.error.is_none() {
            return self.accepted(&outcome.id);
        }
        job.wrote(&outcome.stands);
        if !outcome.stands.is_empty() {
            job.drifts.written();
        }
        if outcome.asked.is_empty() {
            job.unsettled.clear(); // nothing was written: what stands was adopted, or the journal refused
        } else if outcome.error.is_none() {
            job.unsettled.retain(|setting| !outcome.asked.contains(setting));
        }
        match outcome.error {
            None if outcome.stands.is_empty() => {}
            None => {
                job.holds.wrote(&outcome.asked);
                let words: Vec<String> = outcome.stands.iter().map(ToString::to_string).collect();
                self.publisher.tell(EventKind::Limit, about, format!("{name}: {}", words.join(", ")));
            }
            Some(why) => {
                let stands = |asked: &Setting| outcome.stands.iter().any(|stands| same_kind(*stands, *asked));
                let mut failed = outcome.asked.clone();
                failed.retain(|asked| !stands(asked) || outcome.stands.len() == outcome.asked.len());
                let times = job.holds.failed(&failed);
                let wait = Millis(WRITE_AGAIN.0.saturating_mul(1 << (times - 1).min(10)));
                let wait = wait.min(self.settings.policy.max_interval.max(WRITE_AGAIN));
                job.holds.unwritable = Some((why.clone(), node::now().after(wait)));
                job.say(NoticeLevel::Warning, &why);
                self.publisher.tell(EventKind::Hold, about, format!("{name}: left alone: {why}"));
            }
        }
    }

    /// What stood in its cgroup is its original from now on, and the journal knows nothing else.
    fn accepted(&mut self, id: &ContainerId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.settled();
        job.target.original = job.limits;
        job.holds = Holds::default();
        self.remembered.originals.remove(id);
        self.tick_now();
    }

    /// Tries again to put back what still stands of ours in containers that are left alone.
    pub(super) fn return_leftovers(&mut self) {
        if self.in_flight > 0 {
            return;
        }
        let (now, paused) = (node::now(), self.paused);
        let is_left_alone = |job: &Job| {
            let hold = job.holds.strongest(now, paused);
            matches!(hold, Some(Hold::Operator | Hold::Foreign(_)))
        };
        let is_time = |job: &Job| job.holds.unwritable.as_ref().is_none_or(|(_, until)| now >= *until);
        let targets: Vec<Target> = self
            .jobs
            .values()
            .filter(|job| is_left_alone(job) && is_time(job) && !job.leftover().is_empty())
            .map(|job| job.target.clone())
            .collect();
        self.return_limits(targets);
    }

    /// Asks for the originals of these; where too much waits already, a later look asks again.
    pub(super) fn return_limits(&mut self, targets: Vec<Target>) {
        if !targets.is_empty() && self.actuator.order(Order::Return(targets)) {
            self.in_flight += 1;
        }
    }

    /// Yields to whoever changed a limit; says so where the system put one back (the tick writes it again).
    pub(super) fn look_for_drift(&mut self) {
        let ids: Vec<ContainerId> = self.jobs.keys().cloned().collect();
        ids.iter().for_each(|id| self.check_drift(id, false));
    }

    /// The engine says that somebody updated this container: even the original value is somebody's will.
    pub(super) fn updated(&mut self, id: &ContainerId) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.read_limits();
        }
        self.check_drift(id, true);
    }

    /// Compares the limits as last read with what should stand. `told`: the engine said that somebody set them.
    fn check_drift(&mut self, id: &ContainerId, told: bool) {
        if self.in_flight > 0 {
            return; // what stands is being written by us
        }
        let now = node::now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        if job.holds.foreign.is_some() || matches!(job.holds.strongest(now, self.paused), Some(Hold::Operator)) {
            return;
        }
        let text = match job.drift(now) {
            None => return job.drifts.written(),
            Some(Drift::Foreign(text)) => text,
            Some(Drift::Reverted(_)) if told && !job.is_returning(now) => {
                "its original limits were put back".to_owned()
            }
            Some(Drift::Reverted(settings)) => return self.reverted(id, &settings, now),
        };
        job.drifts.tell(LimitDrift { unix_ms: unix_ms(), by: DriftBy::Somebody, text: format!("{text}; left alone") });
        job.holds.foreign = Some(text.clone());
        let (name, target) = (job.target.name.clone(), job.target.clone());
        let text = format!("somebody else changed a limit: {text}");
        job.say(NoticeLevel::Info, &format!("{text}; left alone until `flowctl resume {name}`"));
        self.publisher.tell(EventKind::Hold, Some((id.as_str(), &name)), format!("{name}: left alone: {text}"));
        // Whatever else of ours stands there goes back, so that it is wholly its owner's.
        self.return_limits(vec![target]);
        self.tick_now();
    }

    /// The system put originals back: the next decision writes ours again, unless it does so again and again.
    fn reverted(&mut self, id: &ContainerId, settings: &[Setting], now: Millis) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let policy = &self.settings.policy;
        let Some(wait) = job.drifts.reverted(settings, now, policy.interval, policy.max_interval) else { return };
        let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let mut text = format!("the system reverted {}; it is decided anew", words.join(", "));
        if wait > Millis(0) {
            let why = "the system takes our limits back again and again".to_owned();
            text = format!("{text} in {} s, because {why}", wait.0 / 1000);
            job.holds.unwritable = Some((why, now.after(wait)));
        }
        job.drifts.tell(LimitDrift { unix_ms: unix_ms(), by: DriftBy::System, text: text.clone() });
        let name = job.target.name.clone();
        self.publisher.tell(EventKind::Limit, Some((id.as_str(), &name)), format!("{name}: {text}"));
    }
}
