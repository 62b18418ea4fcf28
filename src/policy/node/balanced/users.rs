//! Parts of users: under `fair-between = "users"`, whoever starts ten jobs gets no more than whoever starts one.
//!
//! Each atom of a domain, and each GPU, is first divided among the users who have running jobs there:
//!
//! ```text
//! part   = cores · claim / Σ claims
//! claim  = weight · max(¼, 2^(−(part of all use) / (part of all weights)))
//! ```
//!
//! The factor is that of SLURM's classic fair-share priority: with equal weights and equal use all claims are equal, and who
//! used more lately yields, but keeps at least a quarter of what the weight gives. Use is CPU time, of which earlier time counts less; each
//! user is credited with a part of [`USE_OF_ALL`] by weight, so that the first minutes of a new node decide nothing.
//!
//! Inside a user's part, the default policy ranks this user's jobs as if there were no others: each has a part by its importance and
//! contributes to the pool of this user only. Broken jobs keep the floor within the part; the part of a user whose jobs are all broken
//! shrinks to its floor. Jobs without a user count as those of one user: ten anonymous containers do not outvote anyone.
//!
//! A part is soft, as each share is: what a user's jobs leave unused flows to the others by weight.
//!
//! Under `fair-between = "jobs"`, all jobs count as those of one user.

use crate::node::domain::Domain;
use crate::node::sane_weight;
use model::{FairBetween, NOBODY, NodeObservation, PolicySettings, RunState, UserObservation};
use std::collections::BTreeMap;

/// The least factor of use.
const LEAST_FACTOR: f64 = 0.25;

/// All users together are credited with the use of the whole node for this many seconds.
const USE_OF_ALL: f64 = 3600.0;

/// Whose each container is, and what each user may claim.
pub(super) struct Users {
    /// The number of each container's user, in the order of the observation; empty if all count as those of one user.
    of: Vec<usize>,
    /// By number.
    claims: Vec<f64>,
}

impl Users {
    pub(super) fn of(node: &NodeObservation, settings: &PolicySettings) -> Users {
        if settings.fair_between == FairBetween::Jobs {
            return Users { of: Vec::new(), claims: Vec::new() };
        }
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut running = Vec::new();
        let mut of = Vec::with_capacity(node.containers.len());
        for container in &node.containers {
            let number = *numbers.entry(container.user.as_deref().unwrap_or(NOBODY)).or_insert_with(|| {
                running.push(false);
                running.len() - 1
            });
            running[number] |= container.state == RunState::Running;
            of.push(number);
        }
        let mut known: Vec<Option<&UserObservation>> = vec![None; running.len()];
        for user in &node.users {
            if let Some(&number) = numbers.get(user.name.as_str()) {
                known[number] = Some(user);
            }
        }
        Users { of, claims: claims(&known, &running, node.cores * USE_OF_ALL) }
    }

    /// Returns the cores of each member of each atom that its user's part and its importance entitle it to, and those of each member in
    /// all atoms.
    pub(super) fn entitle(
        &self,
        node: &NodeObservation,
        domain: &Domain,
        (floor, is_broken): (f64, impl Fn(usize) -> bool),
    ) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut plain = domain.plain_sharing(node);
        let mut entitled = vec![0.0; domain.members.len()];
        for (atom, cores) in domain.atoms.iter().zip(&mut plain) {
            let indices: Vec<usize> = atom.members.iter().map(|&member| domain.members[member]).collect();
            self.divide(node, &indices, cores, (floor, &is_broken));
            atom.members.iter().zip(cores).for_each(|(&member, cores)| entitled[member] += *cores);
        }
        (plain, entitled)
    }

    /// Divides a resource among users. `parts` are those of the containers at `indices` under plain sharing; afterwards they add up to each
    /// user's part.
    pub(super) fn divide(
        &self,
        node: &NodeObservation,
        indices: &[usize],
        parts: &mut [f64],
        (floor, is_broken): (f64, impl Fn(usize) -> bool),
    ) {
        if self.is_one() {
            return leave_the_floor(parts, floor, |at| is_broken(indices[at]));
        }
        let groups = self.groups(indices);
        let runs = |at: usize| node.containers[indices[at]].state == RunState::Running;
        let sums: Vec<f64> =
            groups.iter().map(|group| group.iter().filter(|at| runs(**at)).map(|&at| parts[at]).sum()).collect();
        let claim =
            |(group, sum): (&Vec<usize>, &f64)| if *sum > 0.0 { self.claims[self.of[indices[group[0]]]] } else { 0.0 };
        let mut of_users: Vec<f64> = groups.iter().zip(&sums).map(claim).collect();
        let (whole, all): (f64, f64) = (sums.iter().sum(), of_users.iter().sum());
        of_users.iter_mut().for_each(|part| *part *= whole / all);
        let all_broken = |user: usize| groups[user].iter().filter(|at| runs(**at)).all(|&at| is_broken(indices[at]));
        leave_the_floor(&mut of_users, floor, all_broken);
        for ((group, of_user), sum) in groups.iter().zip(of_users).zip(sums) {
            // Frozen jobs of a user without others keep the part that they would have if all were one user's.
            let scale = if sum > 0.0 { of_user / sum } else { 1.0 };
            let mut own: Vec<f64> = group.iter().map(|&at| scale * parts[at]).collect();
            leave_the_floor(&mut own, floor, |of_group| is_broken(indices[group[of_group]]));
            group.iter().zip(own).for_each(|(&at, own)| parts[at] = own);
        }
    }

    /// Whether all jobs count as those of one user.
    pub(super) fn is_one(&self) -> bool {
        self.claims.len() < 2
    }

    /// The positions in `indices` of each user's containers.
    pub(super) fn groups(&self, indices: &[usize]) -> Vec<Vec<usize>> {
        if self.is_one() {
            return vec![(0..indices.len()).collect()];
        }
        let mut groups = vec![Vec::new(); self.claims.len()];
        indices.iter().enumerate().for_each(|(at, &index)| groups[self.of[index]].push(at));
        groups.retain(|group| !group.is_empty());
        groups
    }
}

/// Leaves the floor of its part to each broken member; the others get the rest in proportion to their parts. Nothing changes if all are
/// broken.
pub(super) fn leave_the_floor(entitled: &mut [f64], floor: f64, is_broken: impl Fn(usize) -> bool) {
    let whole: f64 = entitled.iter().sum();
    let of_others: f64 = entitled.iter().enumerate().filter(|(at, _)| !is_broken(*at)).map(|(_, cores)| cores).sum();
    if of_others <= 0.0 || of_others >= whole {
        return;
    }
    let left = whole - floor * (whole - of_others);
    for (at, cores) in entitled.iter_mut().enumerate() {
        *cores *= if is_broken(at) { floor } else { left / of_others };
    }
}

/// The claim of each user. Only users with running jobs are compared with each other.
fn claims(known: &[Option<&UserObservation>], running: &[bool], use_of_all: f64) -> Vec<f64> {
    let weight = |user: &Option<&UserObservation>| user.map_or(1.0, |user| sane_weight(user.weight));
    let present = |of: &dyn Fn(&Option<&UserObservation>) -> f64| -> f64 {
        known.iter().zip(running).filter(|(_, runs)| **runs).map(|(user, _)| of(user)).sum()
    };
    let weights = present(&weight).max(f64::MIN_POSITIVE);
    let credit = if use_of_all.is_finite() && use_of_all > 0.0 { use_of_all } else { USE_OF_ALL };
    let used = |user: &Option<&UserObservation>| {
        let used = user.map_or(0.0, |user| user.used);
        let used = if used.is_finite() { used.clamp(0.0, 1e15) } else { 0.0 };
        used + credit * weight(user) / weights
    };
    let all = present(&used).max(f64::MIN_POSITIVE);
    let claim = |user: &Option<&UserObservation>| {
        let (weight, part_of_use) = (weight(user), used(user) / all);
        weight * (-part_of_use * weights / weight).exp2().max(LEAST_FACTOR)
    };
    known.iter().map(claim).collect()
}

#[cfg(test)]
#[path = "users_tests.rs"]
mod tests;
