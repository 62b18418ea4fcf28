//! Observations for the governor and snapshots for clients.

use super::event::Component;
use super::governing::Governing;
use super::journal::unix_ms;
use super::observe::{let_end, observe, status_of};
use super::subject::Subject;
use model::{ContainerObservation, Estimate, EventKind, GpuUse, Millis, NodeObservation, NodePlan, NodeStatus};

impl Governing {
    /// Observes everything that the governor may know at `now`, with the holdback block. `close`: for a tick, which also reports the block.
    pub(super) fn observed(&mut self, now: Millis, close: bool) -> NodeObservation {
        let holdback = self.blocks.now(&self.settings.policy, now);
        if close {
            let matters = !self.limits.is_everything_released() && !self.jobs.is_empty();
            if let Some(text) = self.blocks.transition(holdback, matters) {
                self.publisher.emit(EventKind::Holdback, None, text);
            }
        }
        if let Some(problem) = self.gpus.health_change() {
            self.publisher.health(Component::GpuDriver, problem);
        }
        let mut observed = observe(self.node, &mut self.jobs, (&self.limits, &self.gpus, &self.ended), now, close);
        let_end(&mut observed, |id| self.jobs.get(id).is_some_and(|job| job.ending.may_be_near(now)));
        let uses = observed.containers.iter_mut().map(|job| (&job.id, job.gpus.as_mut_slice()));
        self.gpus.means.add(uses, now, close);
        self.judge(&mut observed);
        let without_effect = self.effect.look(&observed, &self.jobs);
        self.publisher.health(Component::Weights, without_effect);
        self.threads.look(now, &mut self.jobs);
        self.warn_of_useless_gpu_control(&observed);
        self.warn_of_full_gpus(&observed);
        self.warn_of_expensive_logs();
        self.energy.charge(&mut self.jobs, &observed);
        self.uses.charge(&mut self.jobs, &self.settings.users, unix_ms());
        let users = self.uses.observed(&self.jobs, &self.settings.users);
        NodeObservation { holdback, users, ..observed }
    }

    /// Warns jobs whose GPU is nearly full, before an allocation fails.
    fn warn_of_full_gpus(&mut self, node: &NodeObservation) {
        for container in &node.containers {
            let others = node.containers.iter().filter(|other| other.id != container.id);
            let others = others.map(|other| -> &[GpuUse] { &other.gpus });
            let full = model::nearly_full(&container.gpus, others, &node.gpus);
            if let Some(job) = self.jobs.get_mut(&container.id) {
                job.set_notice(Subject::Gpu, full);
            }
        }
    }

    fn warn_of_useless_gpu_control(&mut self, node: &NodeObservation) {
        let (sees_gpus, parts) = (!node.gpus.is_empty(), node.containers.iter().flat_map(|job| &job.gpus));
        let hindrance = self.duty.hindrance(self.settings.gpu_control, sees_gpus, parts, node.now);
        self.publisher.health(Component::GpuControl, hindrance.map(str::to_owned));
    }

    fn warn_of_expensive_logs(&mut self) {
        for (id, job) in &mut self.jobs {
            job.set_notice(Subject::LogCost, self.logs.cost_warning(id).map(str::to_owned));
        }
    }

    /// Keeps the decision about each job, and its time left for as long as the decision holds.
    pub(super) fn store_plan(&mut self, plan: NodePlan, times_left: Vec<Option<Estimate>>) {
        let at = plan.at;
        for (decided, time_left) in plan.containers.into_iter().zip(times_left) {
            let Some(job) = self.jobs.get_mut(&decided.id) else { continue };
            let before = job.plan.as_ref().and_then(|plan| plan.list);
            if let (Some(list), true) = (decided.list, before != decided.list) {
                let name = job.target.name.clone();
                let text = format!("{name}: {list:?} list, {}", decided.reason);
                self.publisher.emit(EventKind::List, Some((decided.id.as_str(), &name)), text);
            }
            job.time_left = time_left.map(|left| (at, left));
            job.plan = Some(decided);
        }
    }

    pub(super) fn publish(&mut self) {
        let observation = self.observed(node::now(), false);
        self.publish_observed(observation);
    }

    pub(super) fn publish_observed(&mut self, observation: NodeObservation) {
        let NodeObservation { now, cores, pressure, holdback, gpus, users, containers, .. } = observation;
        let (all, limits, governor) = (&mut self.jobs, &self.limits, &self.governor);
        let with_job = |observed: ContainerObservation| {
            let drifts = limits.ledger(&observed.id)?.drifts();
            let job = all.get_mut(&observed.id)?;
            job.was_published = true;
            let forecast = governor.forecast(&observed.id);
            job.cost_per_unit = forecast.map(|forecast| forecast.per_unit).or(job.cost_per_unit);
            Some(status_of(job, drifts, observed, forecast, (now, cores)))
        };
        let mut jobs: Vec<_> = containers.into_iter().filter_map(with_job).collect();
        jobs.sort_by(|a, b| (a.observed.started, &a.observed.id).cmp(&(b.observed.started, &b.observed.id)));
        let scopes = if self.settings.scopes { Some("scopes: ready".to_owned()) } else { None };
        systemd::notify(&systemd::Notice::Status(format!("{} jobs; {}", jobs.len(), self.engine_state)));
        self.publisher.publish(NodeStatus {
            now,
            unix_ms: unix_ms(),
            since: self.since,
            cores,
            pressure,
            weights_effect: self.effect.meter.effect(),
            gpus,
            settings: self.settings.policy,
            interval: self.interval,
            next_tick: self.next_tick,
            ticks: self.ticks,
            released: self.limits.is_everything_released(),
            holdback,
            runtimes: std::iter::once(self.engine_state.clone()).chain(scopes).collect(),
            users,
            jobs,
            ended: self.ended.jobs(now),
            ends: self.ended.ends().clone(),
            notices: self.publisher.notices(),
        });
    }
}
