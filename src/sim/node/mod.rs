//! One node on virtual time.
//!
//! Problem: jobs share the cores as a fluid; what happens at instants (a start, a printed line, a wait, an end, a decision)
//! is an event. Between two events every rate is constant, so the next event of each job is known exactly and the
//! clock jumps to the earliest. A job's work stands still only where its rate changed or it printed: events cost O(jobs) at most.
//! Order within one instant: jobs, starts, reference rule, governor. Imports: model, policy, progress.

mod governed;
mod places;
mod rules;
mod state;

use super::contender::{Contender, Decider};
use super::job::Job;
use super::outcome::{History, JobOutcome, Outcome};
use super::scenario::NodeShape;
use super::sharing::{Claim, water_fill};
use governed::{Governed, Idle, Seen};
use places::Places;
use rules::Ruled;
use state::{Stage, State};

/// What to keep besides the outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Shares and prints, for pictures.
    pub history: bool,
    /// Each tick's observation and plan.
    pub recording: bool,
}

/// Runs the jobs (ordered by start) under one policy to the end of the last.
pub fn simulate(shape: &NodeShape, jobs: &[Job], contender: &Contender, keep: Keep) -> Outcome {
    Node::new(*shape, jobs, contender, keep).run()
}

enum Driver {
    Ruled(Ruled),
    Governed(Box<Governed>),
}

/// What happens next.
#[derive(Clone, Copy)]
enum Next {
    Job(usize),
    Start,
    Recheck,
    Tick,
}

/// A rule that gives a job nothing for now still lets it have what nobody else can reach.
const LEAST_CLAIM: f64 = 1e-6;

struct Node<'a> {
    shape: NodeShape,
    jobs: &'a [Job],
    states: Vec<State>,
    /// Jobs that started and did not end, in order of start, and when each has its next event.
    present: Vec<usize>,
    due: Vec<f64>,
    next_start: usize,
    now: f64,
    /// When a reference rule must share out again although no job has an event.
    recheck: f64,
    driver: Driver,
    events: u64,
    history: Option<History>,
    /// Where the jobs may run, unless all may run everywhere.
    places: Option<Places>,
    idle: Idle,
    claims: Vec<Claim>,
    running: Vec<usize>,
    shares: Vec<f64>,
}

impl<'a> Node<'a> {
    fn new(shape: NodeShape, jobs: &'a [Job], contender: &Contender, keep: Keep) -> Self {
        let driver = match &contender.decider {
            Decider::Rule(rule) => Driver::Ruled(Ruled::new(*rule)),
            Decider::Governor(settings) => {
                Driver::Governed(Box::new(Governed::new(*settings, &contender.name, jobs, keep.recording)))
            }
        };
        Node {
            shape,
            jobs,
            states: jobs.iter().map(State::new).collect(),
            present: Vec::new(),
            due: Vec::new(),
            next_start: 0,
            now: 0.0,
            recheck: f64::INFINITY,
            driver,
            events: 0,
            history: keep.history.then(History::default),
            places: Places::of(shape.cores, jobs),
            idle: Idle::new(shape.cores),
            claims: Vec::new(),
            running: Vec::new(),
            shares: Vec::new(),
        }
    }

    fn run(mut self) -> Outcome {
        while let Some((at, next)) = self.next() {
            self.now = at;
            self.events += 1;
            match next {
                Next::Job(slot) => self.advance(slot),
                Next::Start => self.start(),
                Next::Recheck => self.share_out(),
                Next::Tick => self.tick(),
            }
        }
        self.outcome()
    }

    fn next(&self) -> Option<(f64, Next)> {
        let (mut at, mut next) = (f64::INFINITY, Next::Recheck);
        for (slot, &due) in self.due.iter().enumerate() {
            if due < at {
                (at, next) = (due, Next::Job(slot));
            }
        }
        if let Some(job) = self.jobs.get(self.next_start)
            && job.plan.start_s < at
        {
            (at, next) = (job.plan.start_s, Next::Start);
        }
        if self.recheck < at {
            (at, next) = (self.recheck, Next::Recheck);
        }
        if let Driver::Governed(governed) = &self.driver
            && !self.present.is_empty()
            && governed.next_tick_s() < at
        {
            (at, next) = (governed.next_tick_s(), Next::Tick);
        }
        at.is_finite().then(|| (at.max(self.now), next))
    }

    /// The next job of the schedule starts.
    fn start(&mut self) {
        let number = self.next_start;
        self.next_start += 1;
        self.states[number].start(&self.jobs[number], self.now);
        self.present.push(number);
        self.due.push(f64::INFINITY);
        self.population_changed();
    }

    /// A present job reached its next stop, or its wait is over.
    fn advance(&mut self, slot: usize) {
        let number = self.present[slot];
        let (job, state) = (&self.jobs[number], &mut self.states[number]);
        if matches!(state.stage, Stage::Waiting { .. }) {
            state.resume(job, self.now);
            return self.share_out();
        }
        state.reach_stop(self.now);
        let reached_quality = state.note_quality(job, self.now);
        while let Some(unit) = state.finish_unit(job) {
            if let Driver::Governed(governed) = &mut self.driver {
                governed.print(number, unit, self.now);
            }
            if let Some(history) = &mut self.history {
                history.prints.push((self.now, number, job.printed[unit]));
            }
        }
        if let Driver::Governed(governed) = &mut self.driver {
            let Node { shape, idle, jobs, states, present, .. } = self;
            governed.look(&Seen { shape, idle, jobs, states, present }, self.now);
        }
        let state = &mut self.states[number];
        if state.is_done(job) {
            state.end(self.now);
            self.present.remove(slot);
            self.due.remove(slot);
            self.population_changed();
        } else if state.wait_if_due(job, self.now) {
            self.share_out();
        } else if reached_quality && matches!(self.driver, Driver::Ruled(_)) {
            state.aim(job);
            self.share_out();
        } else {
            state.aim(job);
            self.due[slot] = state.due();
        }
    }

    /// Algorithm 2: a start or an end pulls the next decision to now.
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
        let Node { shape, idle, jobs, states, present, .. } = self;
        if let Driver::Governed(governed) = &mut self.driver
            && governed.tick(&Seen { shape, idle, jobs, states, present }, self.now)
        {
            self.share_out();
        }
    }

    /// Shares the cores out anew and finds each job's next event.
    fn share_out(&mut self) {
        self.collect_claims();
        self.recheck = f64::INFINITY;
        match &mut self.driver {
            Driver::Governed(_) => water_fill(self.shape.cores, &self.claims, &mut self.shares),
            Driver::Ruled(ruled) => {
                let horizon = ruled.share_out(
                    self.shape.cores,
                    self.jobs,
                    &self.states,
                    &self.running,
                    &mut self.claims,
                    &mut self.shares,
                );
                self.recheck = self.now + horizon;
            }
        }
        self.share_out_places();
        let speed = self.speed();
        for (&number, &cores) in self.running.iter().zip(&self.shares) {
            let squeeze = match &self.driver {
                Driver::Governed(governed) => governed.squeeze(number, &self.jobs[number]),
                Driver::Ruled(_) => 1.0,
            };
            self.states[number].set_rate(cores, cores * speed * squeeze);
        }
        for (due, &number) in self.due.iter_mut().zip(&self.present) {
            *due = self.states[number].due();
        }
        self.note_shares();
    }

    /// Where jobs may not run everywhere, what was shared out as if they did is what they claim on the processors that they have.
    fn share_out_places(&mut self) {
        self.idle.settle(self.now);
        match &self.places {
            Some(places) => {
                if matches!(self.driver, Driver::Ruled(_)) {
                    let weighed = self.claims.iter_mut().zip(&self.shares);
                    weighed.for_each(|(claim, share)| claim.weight = share.max(LEAST_CLAIM));
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
            if matches!(state.stage, Stage::Computing) {
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

    /// Work done per core-second: competing jobs disturb each other by the *effective* number of them, (Σc)²/Σc², and memory that
    /// does not fit is paged.
    fn speed(&self) -> f64 {
        let (sum, squares) = self.shares.iter().fold((0.0, 0.0), |(sum, squares), c| (sum + c, squares + c * c));
        if squares == 0.0 {
            return 1.0;
        }
        let disturbed = 1.0 + self.shape.contention * (sum * sum / squares - 1.0);
        let wanted: u64 = self.present.iter().map(|&number| self.jobs[number].plan.memory.0).sum();
        let paged = (self.shape.memory.0 as f64 / wanted as f64).min(1.0);
        paged / disturbed
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

    fn outcome(self) -> Outcome {
        let jobs = self.jobs.iter().zip(&self.states).map(|(job, state)| JobOutcome {
            name: job.plan.name.clone(),
            start_s: job.plan.start_s,
            end_s: state.ended_at,
            quality_s: state.quality_at - job.plan.start_s,
            cpu_s: state.cpu,
        });
        let (ticks, recording) = match self.driver {
            Driver::Governed(governed) => governed.finish(),
            Driver::Ruled(_) => (0, Vec::new()),
        };
        Outcome { jobs: jobs.collect(), events: self.events, ticks, history: self.history, recording }
    }
}

#[cfg(test)]
mod tests;
