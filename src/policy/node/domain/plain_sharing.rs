//! Plain sharing within a domain: the cores of each container when all of them want more.
//!
//! Containers of the same weight that may use the same atoms get the same, so each such kind is computed once. Where there are several
//! atoms, each kind spreads its weight over them in proportion to what it gets there, repeatedly until this settles: like the kernel's load
//! balancing, it moves away from contended atoms.

use super::{Atom, Domain};
use crate::node::importance;
use model::{NodeObservation, RunState};
use std::collections::BTreeMap;

/// Iterations until plain sharing over several atoms has settled.
const ROUNDS: usize = 100;

/// Kinds of containers: those of one kind have the same cores under plain sharing. Each list has one number for each kind.
#[derive(Default)]
struct Kinds {
    weight: Vec<f64>,
    /// Number of running containers.
    running: Vec<f64>,
    /// For each atom, the part of the weight there; 0 where the kind may not run.
    spread: Vec<Vec<f64>>,
}

impl Domain {
    /// Returns the cores of each atom that plain sharing gives each of its members, in the order of [`Atom::members`]. A frozen container
    /// has the part that it would get if it thawed.
    pub(in crate::node) fn plain_sharing(&self, node: &NodeObservation) -> Vec<Vec<f64>> {
        let (mut kinds, kind_of) = self.kinds(node);
        let given = settle(&self.atoms, &mut kinds);
        let each =
            |(atom, given): (&Atom, Vec<f64>)| atom.members.iter().map(|&member| given[kind_of[member]]).collect();
        self.atoms.iter().zip(given).map(each).collect()
    }

    /// The kinds, and the kind of each member.
    fn kinds(&self, node: &NodeObservation) -> (Kinds, Vec<usize>) {
        let (groups, group_of) = self.groups();
        let mut kinds = Kinds { spread: vec![Vec::new(); self.atoms.len()], ..Kinds::default() };
        let mut known: BTreeMap<(u64, usize, bool), usize> = BTreeMap::new();
        let mut kind_of = Vec::with_capacity(group_of.len());
        for (container, group) in self.containers(node).zip(group_of) {
            let (weight, runs) = (importance(container), container.state == RunState::Running);
            let number = *known.entry((weight.to_bits(), group, runs)).or_insert_with(|| {
                kinds.weight.push(weight);
                kinds.running.push(0.0);
                kinds.spread.iter_mut().zip(self.evenly(&groups[group])).for_each(|(spread, part)| spread.push(part));
                kinds.weight.len() - 1
            });
            kinds.running[number] += f64::from(u8::from(runs));
            kind_of.push(number);
        }
        (kinds, kind_of)
    }

    /// Groups the members by the atoms that they may use: the atoms of each group, and the group of each member.
    fn groups(&self) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut groups = vec![Vec::new()];
        let mut group_of = vec![0; self.members.len()];
        for (number, atom) in self.atoms.iter().enumerate() {
            // Those of a group that use this atom too become a group of their own.
            let mut joined: Vec<Option<usize>> = vec![None; groups.len()];
            for &member in &atom.members {
                let group = group_of[member];
                group_of[member] = *joined[group].get_or_insert_with(|| {
                    groups.push([groups[group].as_slice(), &[number]].concat());
                    groups.len() - 1
                });
            }
        }
        (groups, group_of)
    }

    /// Spreads a weight over the used atoms in proportion to their cores, as if there were no other containers.
    fn evenly(&self, used: &[usize]) -> Vec<f64> {
        let open: f64 = used.iter().map(|&atom| self.atoms[atom].cores).sum();
        let part = |(number, atom): (usize, &Atom)| if used.contains(&number) { atom.cores / open } else { 0.0 };
        self.atoms.iter().enumerate().map(part).collect()
    }
}

/// Cores of each atom that one container of each kind gets.
fn settle(atoms: &[Atom], kinds: &mut Kinds) -> Vec<Vec<f64>> {
    let count = kinds.weight.len();
    let mut given = vec![vec![0.0; count]; atoms.len()];
    divide(atoms, kinds, &mut given);
    if atoms.len() == 1 {
        return given;
    }
    let mut wholes = vec![0.0; count];
    for _ in 1..ROUNDS {
        wholes.fill(0.0);
        for atom in &given {
            wholes.iter_mut().zip(atom).for_each(|(whole, cores)| *whole += cores);
        }
        for (spread, atom) in kinds.spread.iter_mut().zip(&given) {
            spread.iter_mut().zip(atom).zip(&wholes).for_each(|((part, cores), whole)| *part = cores / whole);
        }
        // What a round leaves as it was, all further rounds leave as it is.
        if !divide(atoms, kinds, &mut given) {
            break;
        }
    }
    given
}

/// Divides each atom's cores by the weights of the kinds there. Returns whether any number in `given` has changed.
fn divide(atoms: &[Atom], kinds: &Kinds, given: &mut [Vec<f64>]) -> bool {
    let mut claims = vec![0.0; kinds.weight.len()];
    let mut has_changed = false;
    for ((atom, spread), given) in atoms.iter().zip(&kinds.spread).zip(given) {
        claims.iter_mut().zip(&kinds.weight).zip(spread).for_each(|((claim, weight), part)| *claim = weight * part);
        let whole: f64 = kinds.running.iter().zip(&claims).map(|(running, claim)| running * claim).sum();
        for (given, claim) in given.iter_mut().zip(&claims) {
            let cores = atom.cores * claim / whole.max(*claim).max(f64::MIN_POSITIVE);
            has_changed |= cores != *given;
            *given = cores;
        }
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::domain::domains;
    use crate::node::domain::tests::placed;

    #[test]
    fn plain_sharing_is_equal_where_the_cpu_sets_allow_it() {
        let cores = |places: &[(&str, &str)]| {
            let node = placed(places);
            let domain = domains(&node).remove(0);
            let mut cores = vec![0.0; domain.members.len()];
            for (atom, given) in domain.atoms.iter().zip(domain.plain_sharing(&node)) {
                atom.members.iter().zip(given).for_each(|(&member, given)| cores[member] += given);
            }
            cores
        };
        let near = |cores: Vec<f64>, expected: &[f64]| {
            let off = cores.iter().zip(expected).map(|(cores, expected)| (cores - expected).abs()).fold(0.0, f64::max);
            assert!(cores.len() == expected.len() && off < 0.05, "{cores:?}, expected {expected:?}");
        };
        near(cores(&[("0-7", "/a"), ("0-7", "/a"), ("4-11", "/a")]), &[4.0, 4.0, 4.0]);
        near(cores(&[("0", "/a"), ("0-3", "/a")]), &[1.0, 3.0]);
        near(cores(&[("", "/a"), ("", "/a")]), &[6.0, 6.0]);
    }

    #[test]
    fn a_kind_gets_the_same_as_its_containers_computed_one_by_one() {
        let mut node = placed(&[
            ("0-7", "/a"),
            ("0-7", "/a"),
            ("4-11", "/a"),
            ("2", "/a"),
            ("4-11", "/a"),
            ("", "/a"),
            ("", "/a"),
        ]);
        node.containers[1].weight = 3.0;
        node.containers[4].state = RunState::Paused;
        let domain = domains(&node).remove(0);
        let (kinds, kind_of) = domain.kinds(&node);
        assert_eq!(
            (kinds.weight.len(), kind_of[0] == kind_of[1], kind_of[2] == kind_of[4]),
            (6, false, false),
            "the last two are alike"
        );
        let of_each = |numbers: &[f64]| kind_of.iter().map(|&kind| numbers[kind]).collect::<Vec<f64>>();
        let runs = |container: &model::ContainerObservation| f64::from(u8::from(container.state == RunState::Running));
        let mut singles = Kinds {
            weight: of_each(&kinds.weight),
            running: domain.containers(&node).map(runs).collect(),
            spread: kinds.spread.iter().map(|spread| of_each(spread)).collect(),
        };
        let expected = settle(&domain.atoms, &mut singles);
        for ((atom, given), expected) in domain.atoms.iter().zip(domain.plain_sharing(&node)).zip(expected) {
            for (&member, given) in atom.members.iter().zip(given) {
                assert!((given - expected[member]).abs() < 1e-9, "{given}, expected {}", expected[member]);
            }
        }
    }
}
