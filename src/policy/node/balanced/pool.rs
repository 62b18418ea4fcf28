//! From ranks to cores: the contribution of each job to a common pool, and what it draws from it.
//!
//! Each atom of a domain (processors that the same jobs may use) is divided separately, the least contended first: what a job gets there it
//! need not draw from the others. The jobs of each user have a pool of their own.

use super::{Candidate, Users};
use crate::node::domain::{Atom, Domain};

/// Exponent on the index: twice the index gets 2⁸ times the share.
pub(super) const SHARPNESS: f64 = 8.0;

/// The same where jobs waste CPU beside each other: the best one gets nearly all, whatever its lead.
pub(super) const SHARPNESS_AGAINST_WASTE: f64 = 32.0;

/// The claim of a critical job: larger than that of any rank.
const CRITICAL_CLAIM: f64 = 1e6;

/// Returns the cores of each member of the domain. `plain` are the cores of each member of each atom under plain sharing; `floor` is the
/// part of them that every member keeps, `sharpness` the exponent on the index.
pub(super) fn divide(
    (domain, users): (&Domain, &Users),
    candidates: &[Option<Candidate>],
    plain: &[Vec<f64>],
    (floor, sharpness): (f64, f64),
) -> Vec<f64> {
    let mut given = vec![0.0; candidates.len()];
    for (atom, entitled) in domain.atoms.iter().zip(plain) {
        let indices: Vec<usize> = atom.members.iter().map(|&member| domain.members[member]).collect();
        let here = divide_atom(atom, (users, &indices), candidates, entitled, (floor, sharpness), &given);
        atom.members.iter().zip(here).for_each(|(&member, cores)| given[member] += cores);
    }
    given
}

/// Returns the cores of one atom for each of its members, which are at `indices` in the observation; `given` are their cores in other atoms.
fn divide_atom(
    atom: &Atom,
    (users, indices): (&Users, &[usize]),
    candidates: &[Option<Candidate>],
    entitled: &[f64],
    (floor, sharpness): (f64, f64),
    given: &[f64],
) -> Vec<f64> {
    let members: Vec<Option<&Candidate>> = atom.members.iter().map(|&member| candidates[member].as_ref()).collect();
    let usable: Vec<f64> = members
        .iter()
        .zip(&atom.members)
        .map(|(candidate, &member)| candidate.map_or(0.0, |candidate| candidate.usable - given[member]))
        .collect();
    divide_by_user((users, indices), &members, entitled, (floor, sharpness), &usable)
}

/// Divides a resource among the jobs of each user, within the user's part; otherwise like [`divide_among`].
pub(super) fn divide_by_user(
    (users, indices): (&Users, &[usize]),
    members: &[Option<&Candidate>],
    entitled: &[f64],
    (floor, sharpness): (f64, f64),
    usable: &[f64],
) -> Vec<f64> {
    if users.is_one() {
        return divide_among(members, entitled, (floor, sharpness), usable);
    }
    let mut cores = vec![0.0; members.len()];
    for group in users.groups(indices) {
        let of = |all: &[f64]| group.iter().map(|&at| all[at]).collect::<Vec<f64>>();
        let ranked: Vec<Option<&Candidate>> = group.iter().map(|&at| members[at]).collect();
        let given = divide_among(&ranked, &of(entitled), (floor, sharpness), &of(usable));
        group.iter().zip(given).for_each(|(&at, given)| cores[at] = given);
    }
    cores
}

/// Divides a resource: `entitled` are the members' parts under plain sharing, `usable` the parts that they can use.
pub(super) fn divide_among(
    members: &[Option<&Candidate>],
    entitled: &[f64],
    (floor, sharpness): (f64, f64),
    usable: &[f64],
) -> Vec<f64> {
    let ranked = || members.iter().flatten();
    let best = ranked().map(|c| c.milestone.log_index).fold(f64::NEG_INFINITY, f64::max);
    let rank = |c: &Candidate| (sharpness * (c.milestone.log_index - best)).exp();
    let claim = |c: &Candidate| if c.is_critical { CRITICAL_CLAIM } else { rank(c) };
    let claims: Vec<f64> = members.iter().map(|candidate| candidate.map_or(0.0, claim)).collect();
    let all_claims: f64 = claims.iter().sum();
    if all_claims.is_nan() || all_claims <= 0.0 {
        return entitled.to_vec();
    }
    let draw =
        |(candidate, claim): (&Option<&Candidate>, &f64)| candidate.map_or(0.0, |c| c.reliability * claim / all_claims);
    let draws: Vec<f64> = members.iter().zip(&claims).map(draw).collect();
    let drawn: f64 = draws.iter().sum();
    let contribution =
        |c: &Candidate, entitled: f64| drawn * c.reliability * c.milestone.confidence * (1.0 - floor) * entitled;
    let contributions: Vec<f64> =
        members.iter().zip(entitled).map(|(c, entitled)| c.map_or(0.0, |c| contribution(c, *entitled))).collect();
    let mut cores: Vec<f64> =
        entitled.iter().zip(&contributions).map(|(entitled, contribution)| entitled - contribution).collect();
    distribute(contributions.iter().sum(), &draws, usable, entitled, &mut cores);
    cores
}

/// Adds `pool` to the cores in proportion to `draws`; what a job cannot use goes to the others in the same proportion.
fn distribute(pool: f64, draws: &[f64], usable: &[f64], entitled: &[f64], cores: &mut [f64]) {
    let mut open: Vec<usize> = (0..draws.len()).filter(|&index| draws[index] > 0.0).collect();
    let mut left = pool;
    while !open.is_empty() {
        let whole: f64 = open.iter().map(|&index| draws[index]).sum();
        let level = left / whole;
        let full = |index: &usize| cores[*index] + level * draws[*index] > usable[*index];
        let (capped, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|index| full(index));
        if capped.is_empty() {
            open.iter().for_each(|&index| cores[index] += level * draws[index]);
            return;
        }
        for index in capped {
            left -= (usable[index] - cores[index]).max(0.0);
            cores[index] = cores[index].max(usable[index]);
        }
        open = rest;
    }
    // No job can use the rest: divide it as plain sharing does.
    let whole: f64 = entitled.iter().sum();
    cores.iter_mut().zip(entitled).for_each(|(cores, entitled)| *cores += left.max(0.0) * entitled / whole);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::balanced::milestone::Milestone;
    use model::Estimate;

    #[test]
    fn a_small_lead_gets_nearly_everything_only_where_jobs_waste_cpu() {
        let ranked = |work: f64| {
            let to_end = Estimate::exactly(work);
            Candidate::new(
                Milestone { name: "completion", work, log_index: -work.ln(), confidence: 1.0, to_end },
                1.0,
                2.0,
            )
        };
        let jobs = [ranked(100.0), ranked(115.0)];
        let members: Vec<_> = jobs.iter().map(Some).collect();
        let first = |sharpness| divide_among(&members, &[1.0, 1.0], (0.05, sharpness), &[2.0, 2.0])[0] / 2.0;
        assert!((0.7..0.8).contains(&first(SHARPNESS)), "{}", first(SHARPNESS));
        assert!(first(SHARPNESS_AGAINST_WASTE) > 0.95, "{}", first(SHARPNESS_AGAINST_WASTE));
    }
}
