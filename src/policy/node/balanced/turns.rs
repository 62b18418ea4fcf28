//! Turns: where jobs waste CPU beside each other, they have their shares one after another instead of at the same time.
//!
//! Where the ranks give one job nearly everything, jobs come one after another anyway. But they give about equal shares where little is
//! known: ends that no log states, forecasts that have failed. Jobs whose threads wait for each other would pay several times the CPU
//! then ([`super::waste`]), for ever. So one of them has what all of them have together, and the others keep the floor; a share is a part of
//! the time. The next turn is that of the job that is owed most: what was due to it by the ranks, less what it was given.
//!
//! The same where a job's cost beside others is known and only a turn can show how much of it is waste.

use super::candidate::Candidate;
use super::waste::TURN;
use model::Millis;
use serde::{Deserialize, Serialize};

/// Turns in an interval. A turn should be long beside the kernel's balancing, about a quarter of a second.
const TURNS_AN_INTERVAL: u64 = 4;

/// No job is owed more, or owes more, than so many seconds of all cores that it could use alone: who could not take its turns for long does not get them all at once.
const OWED_AT_MOST_S: f64 = 60.0;

/// What one job is owed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    /// Core-seconds.
    owed: f64,
    /// Since when, and the cores by which it was given less than was due.
    last: Option<(Millis, f64)>,
    /// When its turn began, while it has it.
    began: Option<Millis>,
}

impl Turn {
    /// Records the cores that are due to the job, those that it is given from `now` on, and those that it could use alone; `has_it`: it is its
    /// turn.
    pub(super) fn give(&mut self, now: Millis, (due, given, most): (f64, f64, f64), has_it: bool) {
        self.owed = self.owed(now).clamp(-OWED_AT_MOST_S * most, OWED_AT_MOST_S * most);
        self.last = Some((now, due - given));
        self.began = has_it.then(|| self.began.unwrap_or(now));
    }

    /// Core-seconds owed.
    fn owed(&self, now: Millis) -> f64 {
        self.owed + self.last.map_or(0.0, |(since, less)| less * now.since(since).as_secs_f64())
    }

    /// Whether its turn has not lasted so long.
    fn goes_on(&self, now: Millis, length: Millis) -> bool {
        self.began.is_some_and(|began| now.since(began) < length)
    }
}

/// Length of a turn.
pub(super) fn length(interval: Millis) -> Millis {
    Millis(interval.0 / TURNS_AN_INTERVAL)
}

/// A job that takes turns.
struct Player<'a> {
    member: usize,
    candidate: &'a Candidate,
    /// It has its turn, which has not lasted long enough.
    goes_on: bool,
    owed: f64,
    least: f64,
}

/// Members of a domain by their ranks, in order.
pub(super) struct Ranks<'a> {
    pub(super) candidates: &'a [Option<Candidate>],
    /// The cores that their ranks give them.
    pub(super) due: &'a [f64],
    /// The cores that they keep in any case.
    pub(super) least: &'a dyn Fn(usize) -> f64,
}

/// Returns the cores of each member where they come in turns; `None` where those that are due are given as they are. Jobs take turns with those
/// of their own user, by which `groups` has the members, so that nobody else waits for them.
pub(super) fn take<'t>(
    (now, interval): (Millis, Millis),
    ranks: &Ranks<'_>,
    groups: impl FnOnce() -> Vec<Vec<usize>>,
    turn: impl Fn(usize) -> &'t Turn,
) -> Option<Vec<f64>> {
    let Ranks { candidates, due, least } = ranks;
    let has_all = |(candidate, due): (&Option<Candidate>, &f64)| {
        candidate.as_ref().is_some_and(|candidate| *due >= TURN * candidate.usable)
    };
    let is_wanted = |candidate: &Candidate| candidate.is_wasteful || candidate.needs_turn;
    if !candidates.iter().flatten().any(is_wanted) || candidates.iter().zip(*due).any(has_all) {
        return None;
    }
    let mut given = None;
    for group in groups() {
        let ranked = |member: usize| candidates[member].as_ref().filter(|candidate| candidate.may_wait);
        let player = |member: usize| {
            let (candidate, turn) = (ranked(member)?, turn(member));
            // Two reports that both come within the turn tell what a unit costs in it.
            let length = if candidate.needs_turn { interval } else { length(interval) };
            let (goes_on, owed) = (turn.goes_on(now, length), turn.owed(now));
            Some(Player { member, candidate, goes_on, owed, least: least(member).min(due[member]) })
        };
        let players: Vec<Player<'_>> = group.into_iter().filter_map(player).collect();
        if players.len() > 1 && players.iter().any(|player| is_wanted(player.candidate)) {
            play(players, due, given.get_or_insert_with(|| due.to_vec()));
        }
    }
    given
}

/// Gives the first player what all have together, as far as it can use it, then the next one.
fn play(mut players: Vec<Player<'_>>, due: &[f64], given: &mut [f64]) {
    let is_known = players.iter().any(|player| player.candidate.is_wasteful);
    players.sort_by(|one, other| {
        let key = |player: &Player<'_>| (is_known || player.candidate.needs_turn, player.goes_on);
        let index = |player: &Player<'_>| player.candidate.milestone.log_index;
        let owed = other.owed.total_cmp(&one.owed).then(index(other).total_cmp(&index(one)));
        key(other).cmp(&key(one)).then(owed)
    });
    let mut pool: f64 = players.iter().map(|player| due[player.member] - player.least).sum();
    for player in &players {
        let more = pool.min((player.candidate.usable - player.least).max(0.0));
        given[player.member] = player.least + more;
        pool -= more;
    }
    given[players[0].member] += pool; // nobody can use the rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::balanced::milestone::Milestone;
    use model::Estimate;

    const INTERVAL: Millis = Millis::from_secs(20);

    fn job(log_index: f64, is_wasteful: bool) -> Option<Candidate> {
        let (work, confidence, to_end) = (100.0, 0.5, Estimate::exactly(100.0));
        let milestone = Milestone { name: "an end", work, log_index, confidence, to_end };
        Some(Candidate { is_wasteful, ..Candidate::new(milestone, 1.0, 2.0) })
    }

    fn taken(now: Millis, candidates: &[Option<Candidate>], due: &[f64], memory: &[Turn]) -> Option<Vec<f64>> {
        let ranks = Ranks { candidates, due, least: &|_| 0.1 / due.len() as f64 };
        take((now, INTERVAL), &ranks, || vec![(0..due.len()).collect()], |member| &memory[member])
    }

    /// What each job had in each of so many turns on two cores, in cores; `due` are the cores by the ranks.
    fn played(candidates: &[Option<Candidate>], due: &[f64], turns: u64) -> Vec<Vec<f64>> {
        let mut memory = vec![Turn::default(); due.len()];
        let turn = |number: u64| {
            let now = Millis(number * length(INTERVAL).0);
            let given = taken(now, candidates, due, &memory).expect("turns");
            for (member, turn) in memory.iter_mut().enumerate() {
                turn.give(now, (due[member], given[member], 2.0), given[member] >= TURN * 2.0);
            }
            given
        };
        (0..turns).map(turn).collect()
    }

    fn means(turns: &[Vec<f64>]) -> Vec<f64> {
        let mean = |member: usize| turns.iter().map(|given| given[member]).sum::<f64>() / turns.len() as f64;
        (0..turns[0].len()).map(|member| (100.0 * mean(member)).round() / 100.0).collect()
    }

    #[test]
    fn a_share_is_a_part_of_the_time() {
        let jobs = [job(1.0, true), job(2.0, true), job(1.5, false), job(0.5, true)];
        let turns = played(&jobs, &[0.5; 4], 40);
        let whole = |given: &[f64]| given.iter().position(|cores| *cores > 1.9);
        let order: Vec<usize> = turns[..8].iter().filter_map(|given| whole(given)).collect();
        assert_eq!(order, [1, 2, 0, 3, 1, 2, 0, 3], "the best first, then each in turn");
        assert_eq!(means(&turns), [0.5; 4]);
        assert!(turns.iter().all(|given| (given.iter().sum::<f64>() - 2.0).abs() < 1e-9), "all is given, and no more");
        let turns = played(&jobs, &[1.0, 0.5, 0.3, 0.2], 1000);
        assert_eq!(means(&turns), [1.0, 0.5, 0.3, 0.2]);
    }

    #[test]
    fn a_job_is_owed_a_minute_at_most_however_long_it_waited() {
        let mut turn = Turn::default();
        for minute in 0..60 {
            turn.give(Millis::from_secs(60 * minute), (0.5, 0.0, 2.0), false);
        }
        turn.give(Millis::from_secs(3600), (0.5, 2.0, 2.0), true);
        assert_eq!(
            turn.owed(Millis::from_secs(3680)),
            0.0,
            "120 core-seconds are had in 80 s at 1.5 cores more than due"
        );
    }

    #[test]
    fn what_is_known_of_a_job_is_kept_and_so_is_the_share_of_an_unknown_one() {
        let turns = played(&[job(1.0, true), None, job(1.0, true)], &[0.5, 1.0, 0.5], 10);
        assert!(turns.iter().all(|given| given[1] == 1.0));
        assert_eq!(means(&turns), [0.5, 1.0, 0.5]);
    }

    #[test]
    fn a_job_that_may_not_wait_has_what_is_due_to_it_all_the_time() {
        let worker = job(1.0, true).map(|worker| Candidate { may_wait: false, ..worker });
        let turns = played(&[job(1.0, true), worker, job(1.0, true)], &[0.5, 1.0, 0.5], 10);
        assert!(turns.iter().all(|given| given[1] == 1.0));
        assert_eq!(means(&turns), [0.5, 1.0, 0.5]);
    }

    #[test]
    fn there_are_no_turns_without_waste_or_where_one_job_has_nearly_everything() {
        let took = |candidates: &[Option<Candidate>], due: &[f64]| {
            taken(Millis(0), candidates, due, &[Turn::default(); 2]).is_some()
        };
        assert!(took(&[job(1.0, true), job(1.0, false)], &[1.0, 1.0]));
        assert!(!took(&[job(1.0, false), job(1.0, false)], &[1.0, 1.0]));
        assert!(!took(&[job(2.0, true), job(1.0, true)], &[1.9, 0.1]));
        assert!(!took(&[job(1.0, true), None], &[1.0, 1.0]), "nobody to take turns with");
    }

    #[test]
    fn a_job_whose_waste_is_unknown_gets_one_turn_to_measure_it() {
        let unknown = Candidate { needs_turn: true, ..job(1.0, false).unwrap() };
        let turns = played(&[job(2.0, false), Some(unknown)], &[1.0, 1.0], 1);
        assert_eq!(turns[0], [0.05, 1.95]);
    }

    #[test]
    fn a_turn_lasts_its_length_however_often_it_is_decided() {
        let jobs = [job(1.0, true), job(1.0, true)];
        let mut memory = [Turn::default(); 2];
        let holder = |millis: u64, memory: &mut [Turn; 2]| {
            let (now, due) = (Millis(millis), [1.0, 1.0]);
            let given = taken(now, &jobs, &due, &*memory).expect("turns");
            for (member, turn) in memory.iter_mut().enumerate() {
                turn.give(now, (1.0, given[member], 2.0), given[member] > 1.0);
            }
            usize::from(given[1] > 1.0)
        };
        let holders: Vec<usize> = (0..12).map(|second| holder(1000 * second, &mut memory)).collect();
        assert_eq!(holders, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0]);
    }
}
