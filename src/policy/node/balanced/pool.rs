//! What each job puts in and gets out: from ranks to cores.
//!
//! Every atom of a domain (processors that the same jobs may use) is divided by itself, those that few want first: what a job finds there
//! it need not take where many meet. Imports: the domain.

use super::Candidate;
use crate::policy::node::domain::{Atom, Domain};

/// How sharply the pool prefers the best index: twice the index gets 2⁸ times the share.
const SHARPNESS: f64 = 8.0;

/// Comes before every rank.
const CRITICAL_CLAIM: f64 = 1e6;

/// Cores for each member of the domain. `plain` is what plain sharing gives each member of each atom; `floor` is the part of it that
/// everybody keeps.
pub(super) fn divide(domain: &Domain, candidates: &[Option<Candidate>], plain: &[Vec<f64>], floor: f64) -> Vec<f64> {
    let mut given = vec![0.0; candidates.len()];
    for (atom, entitled) in domain.atoms.iter().zip(plain) {
        let here = divide_atom(atom, candidates, entitled, floor, &given);
        atom.members.iter().zip(here).for_each(|(&member, cores)| given[member] += cores);
    }
    given
}

/// Cores of one atom for each of its members, who have been `given` so much elsewhere.
fn divide_atom(atom: &Atom, candidates: &[Option<Candidate>], entitled: &[f64], floor: f64, given: &[f64]) -> Vec<f64> {
    let members: Vec<Option<&Candidate>> = atom.members.iter().map(|&member| candidates[member].as_ref()).collect();
    let usable: Vec<f64> = members
        .iter()
        .zip(&atom.members)
        .map(|(candidate, &member)| candidate.map_or(0.0, |candidate| candidate.usable - given[member]))
        .collect();
    divide_among(&members, entitled, floor, &usable)
}

/// What each gets of something whose parts for each by plain sharing are `entitled`, and of which it can use so much.
pub(super) fn divide_among(members: &[Option<&Candidate>], entitled: &[f64], floor: f64, usable: &[f64]) -> Vec<f64> {
    let ranked = || members.iter().flatten();
    let best = ranked().map(|c| c.milestone.log_index).fold(f64::NEG_INFINITY, f64::max);
    let rank = |c: &Candidate| (SHARPNESS * (c.milestone.log_index - best)).exp();
    let claim = |c: &Candidate| if c.is_critical { CRITICAL_CLAIM } else { rank(c) };
    let claims: Vec<f64> = members.iter().map(|candidate| candidate.map_or(0.0, claim)).collect();
    let all_claims: f64 = claims.iter().sum();
    if all_claims.is_nan() || all_claims <= 0.0 {
        return entitled.to_vec();
    }
    let take =
        |(candidate, claim): (&Option<&Candidate>, &f64)| candidate.map_or(0.0, |c| c.honesty * claim / all_claims);
    let takes: Vec<f64> = members.iter().zip(&claims).map(take).collect();
    let taken: f64 = takes.iter().sum();
    let put_in = |c: &Candidate, entitled: f64| taken * c.honesty * c.milestone.trust * (1.0 - floor) * entitled;
    let puts: Vec<f64> =
        members.iter().zip(entitled).map(|(c, entitled)| c.map_or(0.0, |c| put_in(c, *entitled))).collect();
    let mut cores: Vec<f64> = entitled.iter().zip(&puts).map(|(entitled, put_in)| entitled - put_in).collect();
    hand_out(puts.iter().sum(), &takes, usable, entitled, &mut cores);
    cores
}

/// Adds `pool` to the cores in proportion to `takes`; what a job cannot use goes to the others in the same proportion.
fn hand_out(pool: f64, takes: &[f64], usable: &[f64], entitled: &[f64], cores: &mut [f64]) {
    let mut open: Vec<usize> = (0..takes.len()).filter(|&index| takes[index] > 0.0).collect();
    let mut left = pool;
    while !open.is_empty() {
        let whole: f64 = open.iter().map(|&index| takes[index]).sum();
        let level = left / whole;
        let full = |index: &usize| cores[*index] + level * takes[*index] > usable[*index];
        let (capped, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|index| full(index));
        if capped.is_empty() {
            open.iter().for_each(|&index| cores[index] += level * takes[index]);
            return;
        }
        for index in capped {
            left -= (usable[index] - cores[index]).max(0.0);
            cores[index] = cores[index].max(usable[index]);
        }
        open = rest;
    }
    // Nobody can use it: plain sharing of what is left is as good as anything.
    let whole: f64 = entitled.iter().sum();
    cores.iter_mut().zip(entitled).for_each(|(cores, entitled)| *cores += left.max(0.0) * entitled / whole);
}
