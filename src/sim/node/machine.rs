//! The event loop of a node: the next event and its effects.

use super::carried::{Carried, Resident};
use super::duty::Duty;
use super::governed::{Governed, Learned, Seen};
use super::gpus;
use super::idle::Idle;
use super::places::Places;
use super::rules::Ruled;
use super::speed;
use super::state::{Activity, State};
use crate::job::Job;
use crate::outcome::History;
use crate::scenario::NodeShape;
use crate::variant::{Decider, Variant};
use model::RecordedTick;
use model::sharing::{Claim, water_fill};
use std::sync::Arc;

enum Driver {
    Ruled(Ruled),
    Governed(Box<Governed>),
}

/// The next event.
#[derive(Clone, Copy)]
enum NextEvent {
    Job(usize),
    Recheck,
    Tick,
    Turn,
}

/// Weight of a job that a reference rule gives nothing for now: it can still use processors that no other job can reach.
const LEAST_WEIGHT: f64 = 1e-6;

/// One node and all jobs ever added to it, numbered in order.
pub(crate) struct SimulatedNode {
    shape: NodeShape,
    jobs: Vec<Arc<Job>>,
    states: Vec<State>,
    /// Jobs that have started and not ended, in order of start, and the time of each one's next event.
    present: Vec<usize>,
    due: Vec<f64>,
    now: f64,
    /// Time at which a reference rule must divide the cores again without any job's event.
    recheck: f64,
    driver: Driver,
    /// Freezes jobs that share a GPU.
    duty: Option<Duty>,
    history: Option<History>,
    /// Processors that the jobs may use, unless all may use all.
    places: Option<Places>,
    places_are_stale: bool,
    idle: Idle,
    claims: Vec<Claim>,
    running: Vec<usize>,
    shares: Vec<f64>,
}

impl SimulatedNode {
    pub(crate) fn new(shape: NodeShape, variant: &Variant, history: bool, recording: bool) -> Self {
        let driver = match &variant.decider {
            Decider::Rule(rule) => Driver::Ruled(Ruled::new(*rule)),
            Decider::Governor(settings) => {
                Driver::Governed(Box::new(Governed::new(*settings, &variant.name, recording)))
            }
        };
        SimulatedNode {
            shape,
            jobs: Vec::new(),
            states: Vec::new(),
            present: Vec::new(),
            due: Vec::new(),
            now: 0.0,
            recheck: f64::INFINITY,
            driver,
            duty: variant.duty_cycle.then(Duty::default),
            history: history.then(History::default),
            places: None,
            places_are_stale: false,
            idle: Idle::new(shape.cores),
            claims: Vec::new(),
            running: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// Adds a job that [`Node::start`] may start; returns its number.
    pub(crate) fn add(&mut self, job: Arc<Job>) -> usize {
        let state = State::new(&job);
        self.take(job, state, None)
    }

    /// Adds a job that moves here from another node; returns its number.
    pub(crate) fn add_carried(&mut self, carried: Carried) -> usize {
        self.take(carried.job, carried.state, carried.learned)
    }

    fn take(&mut self, job: Arc<Job>, state: State, learned: Option<Learned>) -> usize {
        if let Driver::Governed(governed) = &mut self.driver {
            governed.add(&job, learned);
        }
        self.states.push(state);
        self.jobs.push(job);
        self.places_are_stale = true;
        self.jobs.len() - 1
    }

    /// Starts a job at `now`, which must not be before the last event.
    pub(crate) fn start(&mut self, number: usize, now: f64) {
        self.now = now.max(self.now);
        if std::mem::take(&mut self.places_are_stale) {
            self.places = Places::of(self.shape.cores, &self.jobs);
        }
        self.states[number].start(&self.jobs[number], self.now);
        self.present.push(number);
        self.due.push(f64::INFINITY);
        self.population_changed();
    }

    /// Stops a job at `now` and returns it with its saved work.
    pub(crate) fn stop(&mut self, number: usize, now: f64) -> Option<Carried> {
        let slot = self.present.iter().position(|present| *present == number)?;
        self.now = now.max(self.now);
        self.states[number].settle(self.now);
        self.present.remove(slot);
        self.due.remove(slot);
        let state = self.states[number].saved();
        let learned = match &mut self.driver {
            Driver::Governed(governed) => governed.remove(number),
            Driver::Ruled(_) => None,
        };
        self.duty.iter_mut().for_each(|duty| duty.forget(number));
        self.states[number].leave();
        self.population_changed();
        Some(Carried { job: Arc::clone(&self.jobs[number]), state, learned })
    }

    /// Reports on the jobs present on the node.
    pub(crate) fn residents(&mut self, now: f64) -> impl Iterator<Item = Resident> {
        let at = now.max(self.now);
        for &number in &self.present {
            self.states[number].settle(at);
        }
        let SimulatedNode { states, present, driver, .. } = self;
        present.iter().map(move |&number| {
            let state = &states[number];
            let forecast = match &*driver {
                Driver::Governed(governed) => governed.forecast(number, state.cpu),
                Driver::Ruled(_) => None,
            };
            let forecast = forecast.filter(|forecast| forecast.is_known);
            Resident { number, forecast, cores: state.cores(), units: state.units(), unit_s: state.unit_s() }
        })
    }

    /// Returns the state of any job ever added.
    pub(crate) fn state(&self, number: usize) -> &State {
        &self.states[number]
    }

    /// Returns the states of all jobs, by number.
    pub(super) fn states(&self) -> &[State] {
        &self.states
    }

    /// Whether a job that starts at this time precedes the node's own next event.
    pub(super) fn starts_next(&self, start_s: f64) -> bool {
        let job = self.due.iter().copied().fold(f64::INFINITY, f64::min);
        start_s < job && start_s <= self.recheck && start_s <= self.tick_s() && start_s <= self.turn_s()
    }

    /// Time of the node's next event; infinite if there is none.
    pub(crate) fn next_s(&self) -> f64 {
        self.next().0
    }

    /// Handles the next event; returns the number of the job that ended, if any.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let (at, next) = self.next();
        if at.is_infinite() {
            return None;
        }
        self.now = at;
        match next {
            NextEvent::Job(slot) => return self.advance(slot),
            NextEvent::Recheck => self.share_out(),
            NextEvent::Tick => self.tick(),
            NextEvent::Turn => self.turn(),
        }
        None
    }

    fn next(&self) -> (f64, NextEvent) {
        let (mut at, mut next) = (f64::INFINITY, NextEvent::Recheck);
        for (slot, &due) in self.due.iter().enumerate() {
            if due < at {
                (at, next) = (due, NextEvent::Job(slot));
            }
        }
        if self.recheck < at {
            (at, next) = (self.recheck, NextEvent::Recheck);
        }
        if self.tick_s() < at {
            (at, next) = (self.tick_s(), NextEvent::Tick);
        }
        if self.turn_s() < at {
            (at, next) = (self.turn_s(), NextEvent::Turn);
        }
        (at.max(self.now), next)
    }

    fn tick_s(&self) -> f64 {
        match &self.driver {
            Driver::Governed(governed) if !self.present.is_empty() => governed.next_tick_s(),
            _ => f64::INFINITY,
        }
    }

    fn turn_s(&self) -> f64 {
        self.duty.as_ref().filter(|_| !self.present.is_empty()).map_or(f64::INFINITY, Duty::next_s)
    }

    /// Handles the event of a job: it reached its next stop, or its wait or its kernel is over.
    fn advance(&mut self, slot: usize) -> Option<usize> {
        let number = self.present[slot];
        let (job, state) = (&Arc::clone(&self.jobs[number]), &mut self.states[number]);
        if !matches!(state.stage, Activity::Computing) {
            state.settle(self.now);
            state.resume(job, self.now);
            self.share_out();
            return None;
        }
        state.reach_stop(self.now);
        let reached_quality = state.note_quality(job, self.now);
        while let Some(unit) = state.finish_unit(job) {
            state.note_report(self.now);
            if let Driver::Governed(governed) = &mut self.driver {
                governed.print(number, unit, self.now);
            }
            if let Some(history) = &mut self.history {
                history.prints.push((self.now, number, job.printed[unit]));
            }
        }
        if let Driver::Governed(governed) = &mut self.driver {
            let SimulatedNode { shape, idle, jobs, states, present, .. } = self;
            governed.check(&Seen { shape, idle, jobs, states, present }, self.now);
        }
        let state = &mut self.states[number];
        if state.is_done(job) {
            state.end(self.now);
            self.present.remove(slot);
            self.due.remove(slot);
            if let Driver::Governed(governed) = &mut self.driver {
                governed.remove(number);
            }
            self.duty.iter_mut().for_each(|duty| duty.forget(number));
            self.population_changed();
            return Some(number);
        } else if state.wait_if_due(job, self.now) || state.queue_if_due(job) {
            self.share_out();
        } else if reached_quality && matches!(self.driver, Driver::Ruled(_)) {
            state.aim(job);
            self.share_out();
        } else {
            state.aim(job);
            self.due[slot] = state.due();
        }
        None
    }

    /// Algorithm 2: a start or an end triggers a decision at once.
    fn population_changed(&mut self) {
        if let Driver::Governed(governed) = &mut self.driver {
            governed.pull(self.now);
        }
        self.share_out();
    }

    fn tick(&mut self) {
        for &number in &self.present {
            self.states[number].settle(self.now);
        }
        self.idle.settle(self.now);
        let SimulatedNode { shape, idle, jobs, states, present, .. } = self;
        if let Driver::Governed(governed) = &mut self.driver
            && governed.tick(&Seen { shape, idle, jobs, states, present }, self.now)
        {
            self.share_out();
        }
    }

    /// Freezes and thaws jobs by the duty cycle.
    fn turn(&mut self) {
        let (Some(duty), Driver::Governed(governed)) = (&mut self.duty, &mut self.driver) else { return };
        let SimulatedNode { shape, idle, jobs, states, present, .. } = self;
        if duty.is_plan_due(self.now) {
            duty.plan(governed.gpu_jobs(&Seen { shape, idle, jobs, states, present }, self.now), self.now);
        }
        if duty.turn(states, present, self.now) {
            self.share_out();
        }
    }

    /// Divides the cores again and computes each job's next event.
    fn share_out(&mut self) {
        self.collect_claims();
        self.recheck = f64::INFINITY;
        match &mut self.driver {
            Driver::Governed(_) => water_fill(self.shape.cores, &self.claims, &mut self.shares),
            Driver::Ruled(ruled) => {
                let horizon = ruled.share_out(
                    self.shape.cores,
                    &self.jobs,
                    &self.states,
                    &self.running,
                    &mut self.claims,
                    &mut self.shares,
                );
                self.recheck = self.now + horizon;
            }
        }
        self.share_out_places();
        let wanted = self.present.iter().map(|&number| self.jobs[number].plan.memory.0).sum();
        let speed = speed::of(&self.shape, &self.shares, wanted);
        for (&number, &cores) in self.running.iter().zip(&self.shares) {
            let squeeze = match &self.driver {
                Driver::Governed(governed) => governed.squeeze(number, &self.jobs[number]),
                Driver::Ruled(_) => 1.0,
            };
            let kept = speed * squeeze * speed::of_threads(&self.jobs[number].plan, cores);
            self.states[number].set_rate(cores, cores * kept);
        }
        gpus::share_out(&self.jobs, &mut self.states, &self.present);
        for (due, &number) in self.due.iter_mut().zip(&self.present) {
            *due = self.states[number].due();
        }
        self.note_shares();
    }

    /// Where jobs may not use all processors: divides these by the governor's weights, or by the shares of a reference rule as weights.
    fn share_out_places(&mut self) {
        self.idle.settle(self.now);
        match &self.places {
            Some(places) => {
                if matches!(self.driver, Driver::Ruled(_)) {
                    let weighed = self.claims.iter_mut().zip(&self.shares);
                    weighed.for_each(|(claim, share)| claim.weight = share.max(LEAST_WEIGHT));
                }
                places.fill(&self.running, &self.claims, &mut self.shares, &mut self.idle.rates);
            }
            None => {
                let left = (self.shape.cores - self.shares.iter().sum::<f64>()).max(0.0);
                let each = left / self.idle.rates.len() as f64;
                self.idle.rates.fill(each);
            }
        }
    }

    fn collect_claims(&mut self) {
        self.claims.clear();
        self.running.clear();
        for &number in &self.present {
            let state = &mut self.states[number];
            state.settle(self.now);
            if matches!(state.stage, Activity::Computing) && !state.is_frozen {
                let parallelism = self.jobs[number].plan.parallelism;
                self.running.push(number);
                self.claims.push(match &self.driver {
                    Driver::Governed(governed) => governed.claim(number, parallelism),
                    Driver::Ruled(_) => {
                        Claim { weight: f64::from(self.jobs[number].plan.cpu_weight.number()), cap: parallelism }
                    }
                });
            }
        }
    }

    fn note_shares(&mut self) {
        let Some(history) = &mut self.history else { return };
        let mut cores = vec![0.0; self.jobs.len()];
        for (&number, &share) in self.running.iter().zip(&self.shares) {
            cores[number] = share;
        }
        match history.shares.last_mut() {
            Some((at, last)) if *at == self.now => *last = cores,
            _ => history.shares.push((self.now, cores)),
        }
    }

    /// Returns the number of governor ticks, the data for charts, and the recorded ticks.
    pub(super) fn finish(self) -> (u64, Option<History>, Vec<RecordedTick>) {
        let (ticks, recording) = match self.driver {
            Driver::Governed(governed) => governed.finish(),
            Driver::Ruled(_) => (0, Vec::new()),
        };
        (ticks, self.history, recording)
    }
}
