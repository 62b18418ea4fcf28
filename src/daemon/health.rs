//! The health of the jobs: judged with each observation, and reported when a trouble begins or ends.

use super::governing::Governing;
use super::job::Job;
use ::health::Prospects;
use model::{
    Activity, Alert, AlertKind, ContainerObservation, EventKind, Evidence, Health, Millis, NodeObservation,
    WorkForecast,
};

impl Governing {
    /// Judges each job, and emits an event for each trouble that began or ended.
    pub(super) fn judge(&mut self, node: &mut NodeObservation) {
        for observed in &mut node.containers {
            let Some(job) = self.jobs.get_mut(&observed.id) else { continue };
            observed.health = judge(job, observed, self.governor.forecast(&observed.id), node.now, node.cores);
            if let Some(words) = job.reported.missed_nan(&observed.learning) {
                let about = Some((observed.id.as_str(), observed.name.as_str()));
                self.publisher.emit(EventKind::Health, about, format!("{}: {words}", observed.name));
            }
            let now = Some(observed.health.condition).filter(|condition| condition.is_trouble());
            let before = std::mem::replace(&mut job.reported.trouble, now);
            if before == now {
                continue;
            }
            let (name, health) = (&observed.name, observed.health);
            let unit = observed.learning.progress.map(|progress| progress.unit);
            let (kind, words, next) = match (before, AlertKind::of_condition(health.condition)) {
                (_, Some(kind)) => (kind, health.words(unit), format!("; next: flowctl explain {name}")),
                (before, None) => {
                    let before = before.unwrap_or_default();
                    let words = format!("{} again, no longer {before}", health.condition);
                    (AlertKind::Recovered, words, String::new())
                }
            };
            let text = format!("{name}: {words}{next}");
            let alert = Alert { detail: health.explanation(unit), ..job.alert(kind, words) };
            self.publisher.alert(EventKind::Health, (&observed.id, name), text, alert);
        }
    }
}

fn judge(
    job: &mut Job,
    observed: &ContainerObservation,
    forecast: Option<WorkForecast>,
    now: Millis,
    cores: f64,
) -> Health {
    let plan = job.plan.as_ref();
    let due_cores = plan.map(|plan| plan.share.fraction() * plan.contention.cores.min(cores));
    let most_cores = plan.map_or(cores, |plan| plan.contention.most);
    let mut health = job.health.look(now, observed, &Prospects { due_cores, most_cores, forecast });
    if let Evidence::Silence { activity: activity @ Activity::Asleep, .. } = &mut health.evidence
        && let Some(hindrance) = job.target.cgroup().hindrance()
    {
        *activity = hindrance;
    }
    job.reported.workers = match &mut health.evidence {
        Evidence::Gpu { loaders, .. } => {
            let workers = job.target.cgroup().workers();
            let before = job.reported.workers.take();
            *loaders = before.and_then(|(at, earlier)| workers.busy_since(&earlier, now.since(at).as_secs_f64()));
            Some((now, workers))
        }
        _ => None,
    };
    health
}
