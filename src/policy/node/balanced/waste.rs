//! Waste: how much more CPU a unit of progress costs a job beside others than in its own turn.
//!
//! The threads of a training wait for each other, mostly spinning. Beside other jobs one thread of the team does not run while the others
//! wait for it, so a unit costs up to ten times the CPU. Jobs with like shares lose most; where one job has nearly everything, little is
//! lost. No counter of the kernel shows it: everybody is busy.
//!
//! The cost is measured over reports between which the job had nearly all cores that it can use (its turn), and over those in which it had
//! less. Both are the latest ones, so a training with phases is compared with its present phase once it has had another turn. What a job
//! pays in another way beside others (caches, a slower clock) is less than [`WASTEFUL`].

use super::work::Paid;
use model::{Millis, WASTEFUL};
use serde::{Deserialize, Serialize};

/// In its turn a job has at least this part of the cores that it can use.
pub(super) const TURN: f64 = 0.8;

/// A job takes the turn of another one once its index is larger by this factor.
pub(super) const LEAD_TO_TAKE_A_TURN: f64 = 1.25;

/// A turn that only measures takes about two units; those of this many seconds or more are not worth it.
const SHORT_UNIT_S: f64 = 0.5;

/// CPU at a report is interpolated between ticks, so a cost is known after so many CPU-seconds.
const ENOUGH_S: f64 = 0.5;

/// The costs of one container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Waste {
    /// Whether the last offer was a turn, and since when offers have been like it.
    offer: Option<(bool, Millis)>,
    /// CPU-seconds and units since then.
    paid: Paid,
    in_turn: Option<f64>,
    beside: Option<f64>,
    /// CPU-seconds and units beside others that are not judged yet: no turn has followed, or none was before.
    open: (f64, f64),
    /// CPU-seconds lost so far.
    lost_s: f64,
}

impl Waste {
    /// Takes the units that were reported since the last tick.
    pub(super) fn after(&mut self, paid: Option<Paid>) {
        let (Some((is_turn, since)), Some(paid)) = (self.offer, paid) else { return };
        if paid.since < since {
            return;
        }
        self.paid.cpu += paid.cpu;
        self.paid.units += paid.units;
        if self.paid.cpu >= ENOUGH_S {
            let cost = Some(self.paid.cpu / self.paid.units);
            if is_turn {
                self.in_turn = cost
            } else {
                self.beside = cost;
                self.open = (self.open.0 + self.paid.cpu, self.open.1 + self.paid.units);
            }
            self.paid = Paid::default();
            self.judge();
        }
    }

    /// Counts what was paid beside others, as soon as its cost in a turn is known. Only while the latest costs say that it wastes: a phase of the
    /// training that cost more is no waste.
    fn judge(&mut self) {
        let Some(in_turn) = self.in_turn else { return };
        let (cpu, units) = std::mem::take(&mut self.open);
        if self.is_wasteful() {
            self.lost_s += (cpu - in_turn * units).max(0.0);
        }
    }

    /// CPU-seconds that the job paid beside others in addition to what the same units cost in its own turn; `None` until both costs are known.
    pub(super) fn lost_s(&self) -> Option<f64> {
        self.factor().map(|_| self.lost_s)
    }

    /// Records that the job may use `cores` from `now` on, of those that it could use alone.
    pub(super) fn offer(&mut self, now: Millis, cores: f64, most: f64) {
        let is_turn = cores >= TURN * most;
        if self.offer.is_none_or(|(was_turn, _)| was_turn != is_turn) {
            self.offer = Some((is_turn, now));
            self.paid = Paid::default();
        }
    }

    /// Like [`Waste::offer`], while jobs come in turns: beside the turn of another job it has only its floor, which says nothing of its cost
    /// at an equal share.
    pub(super) fn offer_in_turns(&mut self, now: Millis, cores: f64, most: f64) {
        self.offer(now, cores, most);
        if !self.has_turn() {
            self.offer = None;
        }
    }

    /// What a unit costs beside others, as a multiple of its cost in the job's own turn; `None` until both are known.
    pub(super) fn factor(&self) -> Option<f64> {
        Some(self.beside? / self.in_turn?)
    }

    /// Whether only its cost beside others is known, and a short turn would show how much of it is waste; `unit_s`: seconds that a unit takes
    /// in a turn.
    pub(super) fn needs_turn(&self, unit_s: f64) -> bool {
        self.beside.is_some() && self.in_turn.is_none() && unit_s < SHORT_UNIT_S
    }

    /// Whether it had nearly all cores that it can use since the last tick.
    pub(super) fn has_turn(&self) -> bool {
        self.offer.is_some_and(|(is_turn, _)| is_turn)
    }

    pub(super) fn is_wasteful(&self) -> bool {
        self.factor().is_some_and(|factor| factor > WASTEFUL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::balanced::testing::{Bench, INTERVAL, job};
    use model::CpuTime;

    /// The factor after these offers, in cores of two, and the CPU-seconds that a unit cost meanwhile.
    fn factor(offers: &[(f64, f64)]) -> Option<f64> {
        after(offers).factor()
    }

    fn after(offers: &[(f64, f64)]) -> Waste {
        let mut waste = Waste::default();
        for (second, &(cores, cost)) in offers.iter().enumerate() {
            let since = Millis::from_secs(second as u64);
            waste.offer(since, cores, 2.0);
            waste.after(Some(Paid { since, cpu: cost, units: 1.0 }));
        }
        waste
    }

    #[test]
    fn costs_beside_others_are_compared_with_those_of_the_last_turn() {
        assert_eq!(factor(&[(0.5, 3.0), (1.0, 3.0)]), None, "it had no turn yet");
        assert_eq!(factor(&[(1.9, 1.0), (0.1, 3.0)]), Some(3.0));
        assert_eq!(factor(&[(1.9, 1.0), (0.1, 3.0), (1.9, 2.5)]), Some(1.2), "another phase of the training");
        assert_eq!(factor(&[(1.9, 0.25), (0.1, 0.25), (0.1, 0.25)]), None, "too little CPU to know");
    }

    #[test]
    fn what_is_lost_adds_up_and_a_phase_is_not_lost() {
        let lost = |offers: &[(f64, f64)]| after(offers).lost_s();
        assert_eq!(lost(&[(0.5, 3.0), (0.5, 3.0)]), None, "it had no turn yet");
        assert_eq!(lost(&[(0.5, 3.0), (0.5, 3.0), (1.9, 1.0), (0.1, 2.0)]), Some(5.0));
        assert_eq!(lost(&[(0.5, 1.2), (1.9, 1.0), (0.5, 1.2)]), Some(0.0), "caches");
        assert_eq!(lost(&[(0.5, 9.0), (0.5, 9.0), (0.5, 1.0), (1.9, 1.0)]), Some(0.0), "a costlier phase before");
    }

    #[test]
    fn units_that_began_before_the_turn_say_nothing() {
        let mut waste = Waste::default();
        waste.offer(Millis(0), 0.1, 2.0);
        waste.after(Some(Paid { since: Millis(0), cpu: 2.0, units: 1.0 }));
        assert!(waste.needs_turn(0.1) && !waste.needs_turn(9.0), "units of 9 s would take too long a turn");
        waste.offer(Millis(1000), 1.9, 2.0);
        waste.after(Some(Paid { since: Millis(900), cpu: 9.0, units: 1.0 }));
        assert!(waste.needs_turn(0.1), "its cost in a turn is still unknown");
        waste.after(Some(Paid { since: Millis(1100), cpu: 1.0, units: 1.0 }));
        waste.offer(Millis(3000), 0.1, 2.0);
        waste.after(Some(Paid { since: Millis(3000), cpu: 2.0, units: 1.0 }));
        assert_eq!((waste.factor(), waste.is_wasteful(), waste.has_turn()), (Some(2.0), true, false));
    }

    /// What a training is like, for [`judged`].
    struct Training {
        /// CPU-seconds of a unit, by the number of the tick and its share of two cores.
        cost: fn(usize, f64) -> f64,
        /// The part of its cores that it uses.
        uses: f64,
    }

    /// Two such trainings of unknown length under the policy: how often the first one was called wasteful, and whether it is in the end.
    fn judged(training: &Training) -> (usize, bool) {
        let observed = |id: &str, (cpu, units): (f64, f64)| {
            let mut seen = job(id, units, None, None);
            seen.usage.cpu = Some(CpuTime((cpu * 1e6) as u64));
            seen
        };
        let mut totals = [(20.0, 40.0); 2];
        let mut bench = Bench::new(1.0, vec![observed("a", totals[0]), observed("b", totals[1])]);
        let mut is_wasteful = Vec::new();
        for tick in 0..60 {
            let plan = bench.tick();
            for (index, (id, (cpu, units))) in ["a", "b"].into_iter().zip(&mut totals).enumerate() {
                let share = plan.containers[index].share.fraction();
                let used = training.uses * share * 2.0 * INTERVAL.as_secs_f64();
                *units += used / (training.cost)(tick, share);
                *cpu += used;
                bench.advance(index, observed(id, (*cpu, *units)));
            }
            let waste = bench.governor.forecast(&bench.node.containers[0].id).and_then(|forecast| forecast.waste);
            is_wasteful.push(waste.is_some_and(|factor| factor > WASTEFUL));
        }
        (is_wasteful.iter().filter(|is| **is).count(), is_wasteful[59])
    }

    #[test]
    fn only_waste_is_taken_for_waste() {
        let spinning = Training { cost: |_, share| 0.2 * (1.0 + 0.57 * (1.0 / share - 1.0)), uses: 1.0 };
        let (_, in_the_end) = judged(&spinning);
        assert!(in_the_end, "the threads of each wait for each other");
        let never = [
            ("jobs that share well", Training { cost: |_, _| 0.2, uses: 1.0 }),
            (
                "a slower clock beside others",
                Training { cost: |_, share| if share > 0.8 { 0.2 } else { 0.27 }, uses: 1.0 },
            ),
            ("data loading", Training { cost: |_, _| 0.2, uses: 0.5 }),
        ];
        for (what, training) in never {
            assert_eq!(judged(&training), (0, false), "{what}");
        }
        let phases = Training { cost: |tick, _| if tick / 20 == 1 { 0.6 } else { 0.2 }, uses: 1.0 };
        let (ticks, in_the_end) = judged(&phases);
        assert!(ticks <= 6 && !in_the_end, "{ticks}: a turn in the new phase shows that it is one");
    }
}
