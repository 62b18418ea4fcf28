//! Follows the schedule of jobs with deadlines: reserves room for its starts, stops running jobs for them when it is time, and moves others.

use super::capacity::{FreeCapacity, When};
use super::due;
use super::placement::work_of;
use super::plan::Planner;
use super::schedule::{Followed, Scheduled};
use model::cluster::{ClusterReason, Move, NodeState, Stop};

impl Planner<'_> {
    /// Reserves the room of jobs that are to start by the schedule, as far as it is there or will be soon.
    pub(super) fn hold(&mut self, jobs: Vec<(usize, usize)>) {
        for (job, node) in jobs {
            let request = self.observation.jobs[job].request;
            if self.free.fits(node, request, 1, When::Soon) {
                self.free.take(node, request);
                self.held.push((job, node));
            }
        }
    }

    /// Gives back some of the reserved room, and returns whose that was.
    pub(super) fn release(&mut self, which: impl Fn(&(usize, usize)) -> bool) -> Vec<(usize, usize)> {
        let released: Vec<(usize, usize)> = self.held.iter().copied().filter(&which).collect();
        self.held.retain(|held| !which(held));
        released.iter().for_each(|(job, node)| self.free.give_back(*node, self.observation.jobs[*job].request));
        released
    }

    /// Returns the open node on which a job is to start by the schedule.
    pub(super) fn scheduled_on(&self, job: usize) -> Option<usize> {
        let node = self.schedule.job(job)?.node?;
        (self.observation.nodes[node].state == NodeState::Ready).then_some(node)
    }

    /// Starts a job as scheduled, or says why it waits. If the schedule gives it the room of running jobs, those are stopped once it would be
    /// late otherwise.
    pub(super) fn follow(&mut self, at: usize) -> Followed {
        if self.schedule.job(at).is_some_and(|scheduled| scheduled.waits) {
            self.wait(at, ClusterReason::CheaperLater);
            return Followed::Waits;
        }
        let Some(node) = self.scheduled_on(at) else { return Followed::No };
        let job = &self.observation.jobs[at];
        let fits = |free: &FreeCapacity<'_>, when| free.fits(node, job.request, 1, when);
        if let Some(ahead) = self.reserved[node] {
            self.wait(at, ClusterReason::NotOvertaking { ahead });
            return Followed::Waits;
        }
        if !fits(&self.free, When::Soon) {
            let leaving = self.make_scheduled_room(at, node);
            if leaving.is_empty() {
                self.wait(at, ClusterReason::NoRoom(self.free.refusals(job)));
                return Followed::Waits;
            }
            self.plan.stops.extend(leaving);
        }
        let starts = fits(&self.free, When::Now);
        self.free.take(node, job.request);
        match self.schedule.job(at).filter(|_| starts).and_then(|scheduled| scheduled.cost) {
            Some(cost) => {
                self.placer.place(node, work_of(job, 1));
                self.start(at, job, vec![(node, ClusterReason::Planned { cost })]);
                Followed::Starts
            }
            None => {
                self.wait(at, ClusterReason::RoomBeingMade);
                Followed::Waits
            }
        }
    }

    /// Returns the stops of the jobs that leave a node by the schedule, as many as a job needs to start there; none if it can wait, or if they
    /// would not be enough.
    fn make_scheduled_room(&mut self, at: usize, node: usize) -> Vec<Stop> {
        let (observation, settings) = (self.observation, self.settings);
        let job = &observation.jobs[at];
        let end = self.plan.ends.iter().find(|(waiting, _)| *waiting == at).map(|(_, end)| *end);
        if !settings.reclaim || !due::needs_room(job, end, observation, settings) {
            return Vec::new();
        }
        let mut free = self.free.clone();
        let mut stops = Vec::new();
        for (leaves, _) in self.schedule.leaving() {
            let worker = observation.jobs[leaves].placed.first().filter(|worker| worker.node == node);
            let Some(worker) = worker.filter(|_| self.stopped[leaves] == 0) else { continue };
            free.will_leave(node, observation.jobs[leaves].request);
            stops.push(Stop { job: leaves, worker: worker.number, reason: ClusterReason::Preempted { waiting: at } });
            if free.fits(node, job.request, 1, When::Soon) {
                stops.iter().for_each(|stop| self.stopped[stop.job] += 1);
                self.free = free;
                return stops;
            }
        }
        Vec::new()
    }

    /// Moves the job that costs less on another node, or stops it if it is to start there in another alternative. Nothing waits then.
    pub(super) fn reschedule(&mut self) {
        let stays_put = |at: usize| self.stopped[at] > 0;
        let saving = self.schedule.leaving().filter(|(at, scheduled)| {
            let worker = self.observation.jobs[*at].placed.first();
            worker.is_some() && !stays_put(*at) && scheduled.saves > 0.0 && self.scheduled_on(*at).is_some()
        });
        let best = saving.max_by(|(_, one), (_, other)| one.saves.total_cmp(&other.saves));
        let Some((at, Scheduled { saves, changes, .. })) = best else { return };
        let (job, Some(to)) = (&self.observation.jobs[at], self.scheduled_on(at)) else { return };
        let worker = &job.placed[0];
        let reason = ClusterReason::Cheaper { saves: *saves, restart_s: self.schedule.restart_s };
        if *changes {
            self.plan.stops.push(Stop { job: at, worker: worker.number, reason });
        } else if worker.node != to
            && self.allowance.allows(worker.node, to)
            && self.reserved[to].is_none()
            && self.free.admits(to, job)
            && self.free.fits(to, job.request, 1, When::Now)
        {
            self.free.take(to, job.request);
            self.allowance.take(worker.node, to);
            self.plan.moves.push(Move { job: at, worker: worker.number, from: worker.node, to, reason });
        }
    }
}
