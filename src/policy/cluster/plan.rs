//! The planner: observation in, plan out.
//!
//! ```text
//! complete    gangs with too few running workers        gang
//! drain       moves workers off draining nodes          (here)
//! start       waiting jobs, in order                    queue, due, schedule, admission, gang, placement; elastic makes room
//! scale       running jobs up into unused resources     elastic
//! move        running jobs, where it pays               forecast_moves, specon, schedule
//! ```
//!
//! The planner keeps no state between plans: all input is in the observation.

use super::admission::Prices;
use super::capacity::{FreeCapacity, When};
use super::due;
use super::elastic::{self, MakingRoom, free_number, make_room};
use super::forecast_moves::{self, Allowance};
use super::gang::{Seats, seat, seat_most};
use super::placement::Placer;
use super::price::price;
use super::queue;
use super::schedule::{Followed, Schedule};
use super::specon;
use model::cluster::{
    Admission, ClusterJob, ClusterObservation, ClusterPlan, ClusterReason, ClusterSettings, Move, MoveRule, NodeState,
    Phase, QueueRule, Start, Stop, Wait, Worker,
};

/// Plans the whole cluster.
pub fn plan(observation: &ClusterObservation, settings: &ClusterSettings) -> ClusterPlan {
    let mut schedule = Schedule::of(observation, settings);
    let settled = schedule.settled(observation);
    let observation = &*settled;
    let choices = std::mem::take(&mut schedule.choices);
    let mut planner = Planner {
        observation,
        settings,
        held: Vec::new(),
        free: FreeCapacity::of(observation),
        placer: Placer::new(observation, settings.placement, settings.procon_limit),
        allowance: Allowance::of(observation, settings),
        reserved: vec![None; observation.nodes.len()],
        stopped: vec![0; observation.jobs.len()],
        plan: ClusterPlan { at: observation.now, choices, ..ClusterPlan::default() },
        schedule,
    };
    planner.complete_gangs();
    planner.drain();
    planner.start_waiting();
    planner.scale_up();
    planner.move_running();
    planner.plan
}

pub(super) struct Planner<'a> {
    pub(super) observation: &'a ClusterObservation,
    pub(super) settings: &'a ClusterSettings,
    pub(super) free: FreeCapacity<'a>,
    /// Decisions about jobs with deadlines.
    pub(super) schedule: Schedule,
    /// Jobs that are to start on a node by the schedule, while their room is reserved.
    pub(super) held: Vec<(usize, usize)>,
    pub(super) placer: Placer,
    pub(super) allowance: Allowance,
    /// For each node, the job that has waited too long and for which the node is reserved.
    pub(super) reserved: Vec<Option<usize>>,
    /// Number of workers of each job that this plan stops; all workers of a job that it moves.
    pub(super) stopped: Vec<u32>,
    pub(super) plan: ClusterPlan,
}

impl Planner<'_> {
    /// Completes each gang that lacks workers, or stops all of it: an incomplete gang holds resources without training. Waits for workers
    /// that are stopping or moving, unless a stopping one is on an unreachable node.
    fn complete_gangs(&mut self) {
        for (at, job) in self.observation.jobs.iter().enumerate() {
            let there: Vec<_> = job.placed.iter().filter(|worker| worker.phase != Phase::Stopping).collect();
            let missing = job.workers.min.saturating_sub(there.len() as u32);
            if there.is_empty() || missing == 0 || there.iter().any(|worker| matches!(worker.phase, Phase::MovingTo(_)))
            {
                continue;
            }
            let is_out_of_reach =
                |worker: &&Worker| self.observation.nodes[worker.node].state == NodeState::Unreachable;
            let stopping = || job.placed.iter().filter(|worker| worker.phase == Phase::Stopping);
            let seats = match stopping().next() {
                Some(_) if !stopping().any(|worker| is_out_of_reach(&worker)) => continue,
                Some(_) => None,
                // Some of its workers cannot start.
                None if job.workers.max < job.workers.min => None,
                None => seat(job, missing, &mut self.free, &mut self.placer, &|_| true, When::Now),
            };
            match seats {
                Some(seats) => self.start(at, job, seats),
                None => {
                    let reason = ClusterReason::GangIncomplete;
                    let stop = |worker: u32| Stop { job: at, worker, reason: reason.clone() };
                    self.plan.stops.extend(there.iter().map(|worker| stop(worker.number)));
                    self.stopped[at] += there.len() as u32;
                    there.iter().for_each(|worker| self.free.will_leave(worker.node, job.request));
                }
            }
        }
    }

    fn drain(&mut self) {
        let is_draining = |node: usize| self.observation.nodes[node].state == NodeState::Draining;
        if !(0..self.observation.nodes.len()).any(is_draining) {
            return;
        }
        for (at, job) in self.observation.jobs.iter().enumerate().filter(|(_, job)| job.movable) {
            let leaving = |phase: Phase, node: usize| phase == Phase::Running && is_draining(node);
            for worker in job.placed.iter().filter(|worker| leaving(worker.phase, worker.node)) {
                let Planner { free, placer, allowance, .. } = self;
                let work = worker.work_left.map(|work| work.likely);
                let target = placer.choose(work, |to| {
                    allowance.allows(worker.node, to)
                        && free.fits(to, job.request, 1, When::Now)
                        && free.admits(to, job)
                });
                let Some((to, _)) = target.filter(|_| self.stopped[at] == 0) else { continue };
                free.take(to, job.request);
                placer.place(to, work);
                allowance.take(worker.node, to);
                self.stopped[at] += job.placed.len() as u32;
                let reason = ClusterReason::Drained;
                self.plan.moves.push(Move { job: at, worker: worker.number, from: worker.node, to, reason });
            }
        }
    }

    fn start_waiting(&mut self) {
        let mut prices = match self.settings.admission {
            Admission::All => None,
            Admission::Prices => Prices::of(self.observation, self.settings),
        };
        let mut tiers = vec![f64::INFINITY];
        let order = match self.settings.queue {
            QueueRule::Deadlines => {
                let forecast = due::forecast(self.observation, &self.free, self.settings);
                self.plan.ends = forecast.ends;
                tiers = due::price_tiers(self.observation);
                forecast.order
            }
            rule => queue::order(self.observation, rule),
        };
        // Jobs that found no room, with the reason; it also holds for jobs that need at least as much.
        let mut failed: Vec<(usize, ClusterReason)> = Vec::new();
        self.hold(self.schedule.starts(self.observation));
        for at in order {
            let job = &self.observation.jobs[at];
            self.release(|(held, _)| *held == at);
            if let Some(reason) = prices.as_ref().and_then(|prices| prices.refusal(job)) {
                self.wait(at, reason);
                continue;
            }
            match self.follow(at) {
                Followed::Starts => {
                    if let Some(prices) = &mut prices {
                        prices.admit(job);
                    }
                    continue;
                }
                Followed::Waits => continue,
                Followed::No => {}
            }
            let like = failed.iter().find(|(before, _)| queue::needs_no_less(job, &self.observation.jobs[*before]));
            if let Some((_, reason)) = like {
                let reason = reason.clone();
                self.wait(at, reason);
                continue;
            }
            // The solver does not know gangs: no job behind one takes its room.
            let behind = if self.schedule.job(at).is_none() { self.release(|_| true) } else { Vec::new() };
            let Planner { observation, free, placer, reserved, schedule, .. } = self;
            // What the solver gives no room, or a closed node, starts on a free node if that is no dearer than it needs.
            let least = (0..observation.nodes.len()).filter(|node| free.admits(*node, job));
            let least = least.map(|node| price(observation, node)).reduce(f64::min);
            let scheduled =
                schedule.job(at).map(|scheduled| scheduled.node.map_or(0.0, |node| price(observation, node)));
            let least = least.zip(scheduled).map(|(least, scheduled)| vec![least.max(scheduled)]);
            let seats = least.as_ref().unwrap_or(&tiers).iter().find_map(|max_price| {
                let may = |node: usize| {
                    reserved[node].is_none() && (max_price.is_infinite() || price(observation, node) <= *max_price)
                };
                seat_most(job, free, placer, &may)
            });
            match seats {
                Some(seats) => {
                    if let Some(prices) = &mut prices {
                        prices.admit(job);
                    }
                    self.start(at, job, seats);
                }
                // A deadline that is far away does not need a dearer node.
                None if least.is_some() && self.has_room_for(job) => self.wait(at, ClusterReason::CheaperLater),
                None => {
                    if let Some(reason) = self.find_room_for(at, job) {
                        // The numbers of a job for which the cluster is too small hold for that job alone.
                        if !matches!(reason, ClusterReason::ClusterTooSmall { .. }) {
                            failed.push((at, reason.clone()));
                        }
                        self.wait(at, reason);
                    }
                }
            }
            self.hold(behind);
        }
    }

    /// Says whether a job could start now, at any price.
    fn has_room_for(&self, job: &ClusterJob) -> bool {
        (0..self.reserved.len()).any(|node| self.reserved[node].is_none() && self.could_run(node, job))
    }

    /// Says whether a node has room for a job now, reserved or not.
    fn could_run(&self, node: usize, job: &ClusterJob) -> bool {
        self.free.admits(node, job) && self.free.fits(node, job.request, job.workers.min.max(1), When::Now)
    }

    /// Makes room for a job that fits nowhere now. Returns `None` if room is being made, else the reason why the job waits.
    fn find_room_for(&mut self, at: usize, job: &ClusterJob) -> Option<ClusterReason> {
        let Planner { observation, settings, free, stopped, reserved, plan, .. } = self;
        let is_stuck = match settings.queue {
            QueueRule::Weighted => queue::is_stuck(job, observation.now, settings.overtaken_for),
            // The schedule knows what is late, and what that costs.
            QueueRule::Deadlines if self.schedule.job(at).is_some() => due::is_long_overdue(job, observation, settings),
            QueueRule::Deadlines => due::is_overdue(job, observation, settings),
            QueueRule::FirstFit | QueueRule::Dragon => false,
        };
        let end = plan.ends.iter().find(|(waiting, _)| *waiting == at).map(|(_, end)| *end);
        let asks = match settings.queue {
            // For jobs of the schedule, room is made only by it.
            QueueRule::Deadlines if self.schedule.job(at).is_some() => false,
            QueueRule::Deadlines => settings.reclaim && due::needs_room(job, end, observation, settings),
            _ => elastic::may_ask(observation, job, settings, is_stuck),
        };
        if asks {
            let open = |node: usize| reserved[node].is_none();
            if let MakingRoom::Yes(stops) = make_room(observation, at, settings, free, stopped, &plan.stops, &open) {
                self.plan.stops.extend(stops);
                self.wait(at, ClusterReason::RoomBeingMade);
                return None;
            }
        }
        if let Some(ahead) = self.kept_for(job) {
            return Some(ClusterReason::NotOvertaking { ahead });
        }
        let refusals = self.free.refusals(job);
        let (workers, room) = (job.workers.min.max(1), self.free.room_when_empty(job));
        // Other nodes may come back.
        let are_usable = refusals.draining + refusals.unreachable + refusals.ungoverned == 0;
        if (1..workers).contains(&room) && are_usable {
            return Some(ClusterReason::ClusterTooSmall { workers, room });
        }
        // A job that would not fit even without all others must not keep its nodes from them.
        if is_stuck && room >= workers {
            for node in 0..self.reserved.len() {
                if self.free.admits(node, job) {
                    self.reserved[node].get_or_insert(at);
                }
            }
        }
        Some(ClusterReason::NoRoom(refusals))
    }

    /// Returns the job for which nodes are reserved that could run this one.
    fn kept_for(&self, job: &ClusterJob) -> Option<usize> {
        self.reserved.iter().enumerate().find_map(|(node, ahead)| ahead.filter(|_| self.could_run(node, job)))
    }

    fn scale_up(&mut self) {
        let Planner { observation, settings, free, placer, reserved, .. } = self;
        if self.plan.stops.is_empty() {
            let open = |node: usize| reserved[node].is_none();
            self.plan.starts.extend(elastic::scale_up(observation, settings, free, placer, &open));
        }
    }

    fn move_running(&mut self) {
        let Planner { observation, settings, free, allowance, plan, reserved, .. } = self;
        let moves = match settings.moves {
            MoveRule::Never => return,
            // Moves that shorten completions would undo what the schedule decides about costs.
            MoveRule::Forecast if settings.queue == QueueRule::Deadlines && settings.reclaim => {
                return self.reschedule();
            }
            MoveRule::Forecast => {
                let closed: Vec<bool> = reserved.iter().map(Option::is_some).collect();
                forecast_moves::moves(observation, free, allowance, &closed)
            }
            MoveRule::SpeCon => {
                let (moves, settled) = specon::moves(observation, |job, to| {
                    let (seen, from) = (&observation.jobs[job], observation.jobs[job].placed[0].node);
                    let may = allowance.allows(from, to)
                        && free.admits(to, seen)
                        && free.fits(to, seen.request, 1, When::Now);
                    if may {
                        free.take(to, seen.request);
                        allowance.take(from, to);
                    }
                    may
                });
                plan.settled = settled;
                moves
            }
        };
        // Jobs that already stop or move are not moved again.
        let moves = moves.into_iter().filter(|moved| self.stopped[moved.job] == 0);
        plan.moves.extend(moves);
    }

    pub(super) fn start(&mut self, at: usize, job: &ClusterJob, seats: Seats) {
        let alternative =
            self.schedule.job(at).map(|scheduled| scheduled.alternative).filter(|_| !job.alternatives.is_empty());
        let starts = seats.into_iter().enumerate().map(|(skip, (node, reason))| Start {
            job: at,
            worker: free_number(job, skip as u32),
            node,
            alternative,
            reason,
        });
        self.plan.starts.extend(starts);
    }

    pub(super) fn wait(&mut self, job: usize, reason: ClusterReason) {
        self.plan.waits.push(Wait { job, reason });
    }
}
