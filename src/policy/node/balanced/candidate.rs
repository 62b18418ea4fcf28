//! A container that competes for its domain's cores or for its GPU.

use super::milestone::Milestone;
use super::standing::{Place, Standing};

/// A ranked container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) milestone: Milestone,
    /// How far its forecasts have proved right, 0 ..= 1.
    pub(super) reliability: f64,
    /// Cores that it can use.
    pub(super) usable: f64,
    /// Any further delay of it delays the completion of all jobs.
    pub(super) is_critical: bool,
    /// Whether the cost per unit was measured between two reports.
    pub(super) is_measured: bool,
    /// Whether it costs much more CPU beside others than in its turn.
    pub(super) is_wasteful: bool,
    /// Whether a turn would show that.
    pub(super) needs_turn: bool,
    /// Whether others may have their turns before it. Of a job that has just started too little is known.
    pub(super) may_wait: bool,
    /// Its place in its sweep.
    pub(super) place: Option<Place>,
    /// The work after which to decide again: to the milestone, or to the next rung of its sweep.
    pub(super) work_ahead: f64,
}

/// A container that competes, by what it is ranked by.
pub(super) enum Ranked {
    OnCpu(Candidate),
    OnGpu(Candidate),
    /// Nothing is known of its work yet.
    Newcomer(Candidate),
}

impl Candidate {
    /// Makes it a trial of a sweep; `per_unit` is the cost of a unit.
    pub(super) fn in_sweep(self, standing: Option<Standing>, per_unit: f64) -> Candidate {
        let to_next_rung = standing.map_or(f64::INFINITY, |standing| standing.work_to_next_rung(per_unit));
        let work_ahead = self.work_ahead.min(to_next_rung);
        Candidate { place: standing.and_then(|standing| standing.place()), work_ahead, ..self }
    }

    /// A candidate of which nothing else is known.
    pub(super) fn new(milestone: Milestone, reliability: f64, usable: f64) -> Candidate {
        Candidate {
            work_ahead: milestone.work,
            milestone,
            reliability,
            usable,
            is_critical: false,
            is_measured: false,
            is_wasteful: false,
            needs_turn: false,
            may_wait: true,
            place: None,
        }
    }
}

/// Whether one candidate at a time is to get nearly everything: jobs waste CPU beside each other, or only a turn of the best one can show it.
pub(super) fn take_turns(candidates: &[Option<Candidate>]) -> bool {
    let all = || candidates.iter().flatten();
    let best = all().max_by(|a, b| a.milestone.log_index.total_cmp(&b.milestone.log_index));
    all().any(|candidate| candidate.is_wasteful) || best.is_some_and(|best| best.needs_turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Estimate;

    #[test]
    fn one_at_a_time_where_a_job_is_wasteful_or_the_best_one_was_never_alone() {
        let ranked = |log_index| {
            let (work, confidence, to_end) = (1.0, 1.0, Estimate::exactly(1.0));
            Candidate::new(Milestone { name: "completion", work, log_index, confidence, to_end }, 1.0, 2.0)
        };
        let takes_turns = |best: Candidate, other: Candidate| take_turns(&[Some(other), None, Some(best)]);
        assert!(!takes_turns(ranked(2.0), ranked(1.0)));
        assert!(takes_turns(ranked(2.0), Candidate { is_wasteful: true, ..ranked(1.0) }));
        assert!(takes_turns(Candidate { needs_turn: true, ..ranked(2.0) }, ranked(1.0)));
        assert!(!takes_turns(ranked(2.0), Candidate { needs_turn: true, ..ranked(1.0) }), "its turn comes");
    }
}
