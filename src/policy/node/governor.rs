//! One tick: observation in, plan out.
//!
//! ```text
//! recall      the state of each observed container; detects starts and ends (Algorithm 2)
//! measure     growth of each, and the capacity of each domain         growth, capacity, domain
//! decide      a limit, a list, a memory role and a reason for each    flowcon, …: one file per policy
//! allocate    limits → shares → weights, within bounds                allocation
//! enforce     quota, memory, I/O                                      quota, memory
//! wait        the interval until the next tick                        backoff
//! ```
//!
//! A tick cannot fail, and wrong data never tightens a limit: where data is missing, the current limits are kept. (Only `flowcon-2019` takes
//! missing data for convergence, as its source does.)

use super::allocation::{self, Allocation, Demand};
use super::backoff::Backoff;
use super::balanced::{self, Course, Decisions, Sweeps};
use super::capacity::{Capacities, CapacityMemory, CapacityMeter};
use super::decision::Decision;
use super::diff::differs;
use super::domain::Domain;
use super::flowcon::{self, Parameters};
use super::flowcon_2019;
use super::gpu_time::GpuUsed;
use super::growth::Measurement;
use super::memory::{self, MemoryPlan, MemoryRole, PlannedMemory};
use super::quota;
use super::recollection::Recollection;
use super::remembered::Remembered;
use super::situation::Situation;
use super::wording::{explain_bounds, reason_of};
use model::{
    ContainerId, ContainerObservation, ContainerPlan, Contention, Enforcement, GrowthEfficiency, HoldbackBlock, Limits,
    List, Millis, NodeObservation, NodePlan, PolicyName, PolicySettings, Pressure, RunState, Share, TrialStop,
    WorkForecast,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Decides for one node. Keeps only lists and measurements between ticks. The whole state can be serialized, so a recording may start at
/// any time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Governor {
    settings: PolicySettings,
    remembered: Recollection<Remembered>,
    backoff: Backoff,
    #[serde(default)]
    capacity: CapacityMeter,
    /// Under the default policy.
    #[serde(default)]
    sweeps: Sweeps,
    last_tick: Option<Millis>,
    /// Whether the last tick fell into a control period.
    #[serde(default)]
    plain: bool,
}

/// A policy's decisions for all containers.
struct Decided {
    decisions: Vec<Decision>,
    /// Time to the next tick; `None` = depends on whether this tick changes any limit.
    interval: Option<Millis>,
    /// Upper bound on the wait, where the policy expects an event sooner.
    at_most: Millis,
    /// Trials to be stopped.
    stops: Vec<TrialStop>,
}

impl Governor {
    /// Creates a governor that has observed nothing yet.
    pub fn new(settings: PolicySettings) -> Self {
        let backoff = Backoff::new(&settings);
        Governor {
            settings,
            remembered: Recollection::default(),
            backoff,
            capacity: CapacityMeter::default(),
            sweeps: Sweeps::default(),
            last_tick: None,
            plain: false,
        }
    }

    /// Returns the current settings.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// Applies other settings from the next tick on; the state of the containers is kept.
    pub fn reconfigure(&mut self, settings: PolicySettings) {
        self.settings = settings;
        self.backoff = Backoff::new(&settings);
    }

    /// Returns the forecast of a container's remaining work, made at the last tick; `None` if it is unknown or another policy than the
    /// default is active.
    pub fn forecast(&self, id: &ContainerId) -> Option<WorkForecast> {
        let remembered = self.remembered.get(id).filter(|_| self.settings.policy == PolicyName::Balanced);
        remembered?.balanced.forecast()
    }

    /// Returns how the rank of a container develops, under the default policy; `None` if it is not ranked.
    pub(super) fn course(&self, id: &ContainerId) -> Option<&Course> {
        let remembered = self.remembered.get(id).filter(|_| self.settings.policy == PolicyName::Balanced);
        remembered?.balanced.course()
    }

    /// Decides for every observed container. The state of a container that is no longer observed is dropped.
    pub fn tick(&mut self, observation: &NodeObservation) -> NodePlan {
        let is_same = self.remembered.is_of(&observation.containers);
        let disturbed = !is_same || self.jobs_disturb(observation);
        let mut remembered = self.recall(observation, is_same);
        let each = observation.containers.iter().zip(&mut remembered);
        let (on_gpus, measurements): (Vec<Option<GpuUsed>>, Vec<Measurement>) = each
            .map(|(container, memory)| {
                memory.note(container);
                let used = memory.gpu_time.after(observation, container);
                let gpu = used.map(|used| used.gpu);
                (used, memory.measure(observation, container, gpu, &self.settings))
            })
            .unzip();
        let Capacities { domains, kept } = self.measure_capacity(observation, &mut remembered);
        let Decided { mut decisions, interval, at_most, mut stops } =
            self.decide(observation, (&domains, &kept), &mut remembered, (&measurements, &on_gpus), disturbed);
        if let Some(block) = self.plain_block(observation) {
            decisions = decisions.into_iter().map(|decision| decision.held_back(block)).collect();
            stops.clear();
        }
        let allocations = self.allocate(observation, &domains, &decisions);
        explain_bounds(&mut decisions, &allocations, &observation.containers);
        let limits = self.enforce(observation, &mut remembered, &decisions, &allocations);
        let mut containers: Vec<ContainerPlan> = observation
            .containers
            .iter()
            .zip(decisions)
            .zip(measurements)
            .zip(allocations.iter().zip(limits))
            .map(|(((container, decision), measurement), (allocation, limits))| ContainerPlan {
                id: container.id.clone(),
                list: Some(decision.list),
                contention: Contention::default(),
                growth: growth_of(measurement),
                limit: Share::clamped(decision.limit),
                share: Share::clamped(allocation.share),
                limits,
                gpus: decision.gpus,
                reason: reason_of(container, decision.reason),
            })
            .collect();
        note_contention(&domains, &observation.containers, &mut containers);
        self.remember(observation, remembered);
        let at = observation.now;
        let mut plan = NodePlan { at, containers, next_tick: at, interval: self.settings.interval, stops };
        plan.interval = interval.unwrap_or_else(|| {
            let nothing_changes = !differs(&plan, observation);
            self.wait(nothing_changes, disturbed, observation.pressure)
        });
        let block_end = observation.holdback.map(|block| block.until).filter(|until| *until > at);
        plan.next_tick = at.after(plan.interval.min(at_most));
        plan.next_tick = block_end.map_or(plan.next_tick, |block_end| block_end.min(plan.next_tick));
        plan
    }

    /// Whether a tick should run before the planned one: a container started, ended, froze, thawed, broke, recovered or got another place; a
    /// control period began or ended; or, during a back-off or a memory squeeze, a job reached a milestone, entered another phase or printed
    /// progress for the first time, or pressure changed. Cheap and without side effects.
    pub fn is_disturbed(&self, observation: &NodeObservation) -> bool {
        self.plain != observation.is_plain()
            || !self.remembered.is_of(&observation.containers)
            || self.jobs_disturb(observation)
    }

    /// Like [`Self::is_disturbed`] for the containers of the last tick, but without control periods: their begin and end do not end a
    /// back-off.
    fn jobs_disturb(&self, observation: &NodeObservation) -> bool {
        let is_backing_off =
            self.backoff.is_backing_off(&self.settings) && self.settings.policy != PolicyName::Flowcon2019;
        let limit = self.settings.memory_pressure_limit;
        (is_backing_off && self.backoff.pressure_changed(observation.pressure))
            || observation.containers.iter().zip(self.remembered.memories()).any(|(container, memory)| {
                let has_moved = !Arc::ptr_eq(&memory.place, &container.place) && memory.place != container.place;
                memory.state != Some(container.state)
                    || has_moved
                    || memory.situation.broke_or_recovered(container)
                    || (is_backing_off && memory.situation.changed(Situation::of(container)))
                    || (memory.planned.is_squeezing() && !memory::is_calm(observation, container, limit))
            })
    }

    /// Takes out the state of each container, in the order of the observation; a new container starts empty, in the New list.
    #[expect(clippy::vec_box, reason = "they are put back without being copied")]
    fn recall(&mut self, observation: &NodeObservation, is_same: bool) -> Vec<Box<Remembered>> {
        let clock_was_set_back = self.last_tick.is_some_and(|last| observation.now < last);
        let mut recalled = self.remembered.take(&observation.containers, is_same);
        if clock_was_set_back {
            recalled.iter_mut().for_each(|memory| memory.meter.forget_marks());
        }
        recalled
    }

    #[expect(clippy::vec_box, reason = "as above")]
    fn remember(&mut self, observation: &NodeObservation, recalled: Vec<Box<Remembered>>) {
        self.last_tick = Some(observation.now);
        self.plain = observation.is_plain();
        self.remembered.put(recalled);
    }

    /// The current control period, in which the policy's decisions are not applied.
    fn plain_block<'a>(&self, observation: &'a NodeObservation) -> Option<&'a HoldbackBlock> {
        observation.holdback.as_ref().filter(|block| block.plain && self.settings.policy != PolicyName::Fair)
    }

    fn measure_capacity(&mut self, observation: &NodeObservation, remembered: &mut [Box<Remembered>]) -> Capacities {
        let mut memories: Vec<&mut CapacityMemory> = remembered.iter_mut().map(|memory| &mut memory.capacity).collect();
        self.capacity.measure(observation, &mut memories)
    }

    /// Returns a decision for each container. Lists are maintained under every policy.
    fn decide(
        &mut self,
        observation: &NodeObservation,
        (domains, kept): (&[Domain], &[f64]),
        remembered: &mut [Box<Remembered>],
        (measurements, on_gpus): (&[Measurement], &[Option<GpuUsed>]),
        disturbed: bool,
    ) -> Decided {
        let mut entries = entries(&observation.containers, remembered, measurements);
        let parameters = Parameters::of(&self.settings, entries.iter().filter(|entry| entry.running).count());
        let all_completing = flowcon::run(&mut entries, &parameters);
        let lists = entries.iter().map(|entry| entry.standing.list);
        match self.settings.policy {
            PolicyName::Flowcon | PolicyName::Flowcon2019 => {
                let interval = self.wait(all_completing, disturbed, observation.pressure);
                let mut decisions = flowcon::decisions(&entries, all_completing, interval, &parameters);
                if self.settings.policy == PolicyName::Flowcon2019 {
                    decisions.iter_mut().for_each(|decision| decision.role = MemoryRole::Leave);
                }
                Decided { decisions, interval: Some(interval), at_most: interval, stops: Vec::new() }
            }
            PolicyName::Fair => {
                let decisions = lists.map(Decision::listed).collect();
                Decided { decisions, interval: None, at_most: Millis(u64::MAX), stops: Vec::new() }
            }
            PolicyName::Balanced => {
                let lists: Vec<List> = lists.collect();
                let each = remembered.iter_mut().zip(lists).zip(kept.iter().zip(on_gpus));
                let mut entries: Vec<balanced::Entry<'_>> = each
                    .map(|((memory, list), (kept, used))| {
                        balanced::Entry::new(&mut memory.balanced, list, *kept, *used)
                    })
                    .collect();
                let Decisions { decisions, wait, stops } =
                    balanced::decide(observation, domains, &mut entries, &mut self.sweeps, &self.settings);
                Decided { decisions, interval: None, at_most: wait, stops }
            }
        }
    }

    fn wait(&mut self, nothing_changes: bool, disturbed: bool, pressure: Pressure) -> Millis {
        let cap = match self.settings.policy {
            PolicyName::Flowcon2019 => flowcon_2019::NO_CAP,
            _ => self.settings.max_interval,
        };
        let settings = PolicySettings { max_interval: cap, ..self.settings };
        self.backoff.next(nothing_changes, disturbed, pressure, &settings)
    }

    fn allocate(&self, observation: &NodeObservation, domains: &[Domain], decisions: &[Decision]) -> Vec<Allocation> {
        if self.settings.policy == PolicyName::Fair {
            return allocation::untouched(observation, domains);
        }
        if observation.is_plain() {
            return allocation::plain(observation, domains);
        }
        let numbers: Vec<f64> = decisions.iter().map(|decision| decision.limit).collect();
        let demand = match self.settings.policy {
            PolicyName::Flowcon | PolicyName::Flowcon2019 => Demand::Limits(&numbers),
            PolicyName::Balanced | PolicyName::Fair => Demand::Claims(&numbers),
        };
        allocation::allocate(observation, domains, demand)
    }

    /// The limits to set for each container; `None` for a container that must be left alone.
    fn enforce(
        &self,
        observation: &NodeObservation,
        remembered: &mut [Box<Remembered>],
        decisions: &[Decision],
        allocations: &[Allocation],
    ) -> Vec<Option<Limits>> {
        let busy = quota::node_is_busy(observation, remembered.iter().map(|memory| &memory.quota));
        let protected = observation.containers.iter().zip(decisions);
        let protected = protected.filter(|(_, decision)| decision.role == MemoryRole::Protect).map(|(c, _)| c);
        let fraction = memory::protected_fraction(observation, protected);
        let mut plans = Vec::with_capacity(allocations.len());
        for (((container, memory), decision), allocation) in
            observation.containers.iter().zip(remembered).zip(decisions).zip(allocations)
        {
            plans.push(self.limits_of(observation, container, memory, decision, allocation, busy, fraction));
        }
        plans
    }

    #[allow(clippy::too_many_arguments, reason = "one container's row of the tables that the tick has built")]
    fn limits_of(
        &self,
        observation: &NodeObservation,
        container: &ContainerObservation,
        memory: &mut Remembered,
        decision: &Decision,
        allocation: &Allocation,
        busy: Option<bool>,
        protected_fraction: f64,
    ) -> Option<Limits> {
        let s = &self.settings;
        let plain = self.plain_block(observation).is_some();
        let governs =
            s.policy != PolicyName::Fair && !plain && container.state == RunState::Running && container.hold.is_none();
        let cpu_quota = if governs && s.enforcement == Enforcement::Quota {
            memory.quota.plan(observation, container, allocation.limit, s.quota_floor, busy)
        } else {
            memory.quota.watch(observation, container);
            None
        };
        let MemoryPlan { low, high } = if governs && s.govern_memory {
            memory.planned.plan(observation, container, decision.role, protected_fraction, s)
        } else {
            memory.planned = PlannedMemory::default();
            MemoryPlan::default()
        };
        if container.hold.is_some() {
            return None;
        }
        if s.policy == PolicyName::Fair {
            return Some(Limits::default());
        }
        if plain {
            let fixed = container.bounds.fixed().filter(|_| container.state == RunState::Running);
            return Some(Limits { cpu_weight: fixed.map(|_| allocation.weight), ..Limits::default() });
        }
        // A frozen container cannot use its limits; they are planned again when it thaws.
        governs.then(|| Limits {
            cpu_weight: Some(allocation.weight),
            cpu_quota: cpu_quota.map(Some),
            memory_low: low,
            memory_high: high.map(Some),
            io_weight: s.govern_io.then_some(allocation.io_weight),
        })
    }
}

fn entries<'a>(
    containers: &[ContainerObservation],
    remembered: &'a mut [Box<Remembered>],
    measurements: &[Measurement],
) -> Vec<flowcon::Entry<'a>> {
    containers
        .iter()
        .zip(remembered)
        .zip(measurements)
        .map(|((container, memory), measurement)| flowcon::Entry {
            standing: &mut memory.standing,
            measurement: *measurement,
            running: container.state == RunState::Running,
        })
        .collect()
}

fn growth_of(measurement: Measurement) -> GrowthEfficiency {
    match measurement {
        Measurement::Fresh(growth) => growth,
        Measurement::Pending | Measurement::Silent => GrowthEfficiency::default(),
    }
}

fn note_contention(domains: &[Domain], containers: &[ContainerObservation], plans: &mut [ContainerPlan]) {
    for domain in domains {
        for (member, &index) in domain.members.iter().enumerate() {
            plans[index].contention = Contention {
                containers: domain.members.len(),
                cores: domain.cores,
                most: domain.most(member, &containers[index]),
            };
        }
    }
}
