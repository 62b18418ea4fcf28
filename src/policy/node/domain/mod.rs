//! Contention domains: the containers that compete for the same processors, and the capacity of these.
//!
//! ## Problem
//!
//! A share is meaningful only among containers that compete for the same processors, and the kernel compares weights only between children
//! of one cgroup. Containers pinned to different sockets do not compete; two slices first divide the CPU by their own weights, whatever is
//! planned inside them.
//!
//! ## Terms
//!
//! - *domain*: the containers below one cgroup whose processors overlap, directly or through other containers. Shares and the sum of
//!   weights are planned per domain.
//! - *atom*: processors of a domain that the same containers may use. Two containers on 0–7 and one on 4–11 make three: 0–3, 4–7, 8–11.
//!   Nearly every domain is a single atom.
//! - *capacity*: cores available to a domain. At most the cores that its containers may run on, limited by a quota above them; of these,
//!   what its containers used and what was idle. CPU used by ungoverned neighbours is not available to plans.
//!
//! ## Properties
//!
//! - Each container is in exactly one domain. A container with an unknown place is not separated from any other.
//! - The domains' parts of the node add up to at most the node.

mod plain_sharing;

use model::{ContainerObservation, NodeObservation, Numbers, Place, Quota, RunState};

/// Shorter intervals do not show the capacity.
const LEAST_SECONDS: f64 = 0.5;

/// A domain has at least this part of its processors as capacity, whatever its neighbours use.
const LEAST_CAPACITY: f64 = 0.05;

/// A domain has at least this many cores, whatever its quota.
const LEAST_CORES: f64 = 0.01;

/// Containers that compete.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Domain {
    /// Indices of the containers in the observation, ascending.
    pub(super) members: Vec<usize>,
    /// Their processors.
    pub(super) atoms: Vec<Atom>,
    /// Cores that each member may use, over all atoms.
    open: Vec<f64>,
    /// Cores that they may use together.
    pub(super) cores: f64,
    /// The domain's part of the node, after the entitlement of cgroups beside it.
    pub(super) part: f64,
    /// The part of the cores that ungoverned neighbours leave to it; 1 unless measured.
    pub(super) left: f64,
    /// The numbers of the processors; `None` = all of the node's.
    cpus: Option<Numbers>,
    parent_weight: f64,
}

/// Processors that the same containers may use.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Atom {
    pub(super) cores: f64,
    /// Indices into [`Domain::members`], ascending.
    pub(super) members: Vec<usize>,
}

/// Containers of one parent and one set of processors.
struct Class<'a> {
    place: &'a Place,
    members: Vec<usize>,
    domain: usize,
}

/// Returns the domains of a node, ordered by their first container.
pub(super) fn domains(node: &NodeObservation) -> Vec<Domain> {
    let mut classes: Vec<Class<'_>> = Vec::new();
    for (index, container) in node.containers.iter().enumerate() {
        let place = &*container.place;
        match classes.iter_mut().find(|class| class.place.parent == place.parent && class.place.cpus == place.cpus) {
            Some(class) => class.members.push(index),
            None => classes.push(Class { place, members: vec![index], domain: classes.len() }),
        }
    }
    for one in 1..classes.len() {
        for other in 0..one {
            if competes(classes[one].place, classes[other].place) {
                let (from, to) = (classes[one].domain, classes[other].domain);
                classes.iter_mut().filter(|class| class.domain == from).for_each(|class| class.domain = to);
            }
        }
    }
    let mut domains: Vec<Domain> = (0..classes.len())
        .map(|number| classes.iter().filter(|class| class.domain == number).collect::<Vec<_>>())
        .filter(|classes| !classes.is_empty())
        .map(|classes| domain(node, &classes))
        .collect();
    domains.sort_by_key(|domain| domain.members[0]);
    divide_node(&mut domains, cores_of(node));
    domains
}

/// The node's cores; an invalid number counts as one.
fn cores_of(node: &NodeObservation) -> f64 {
    if node.cores.is_finite() && node.cores > 0.0 { node.cores.clamp(LEAST_CORES, 1e6) } else { 1.0 }
}

fn competes(one: &Place, other: &Place) -> bool {
    one.parent == other.parent && overlap(one.cpus.as_ref(), other.cpus.as_ref())
}

/// Unknown processors count as all processors.
fn overlap(one: Option<&Numbers>, other: Option<&Numbers>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one.meets(other))
}

fn domain(node: &NodeObservation, classes: &[&Class<'_>]) -> Domain {
    let mut members: Vec<usize> = classes.iter().flat_map(|class| class.members.iter().copied()).collect();
    members.sort();
    let cpus = classes.iter().map(|class| class.place.cpus.as_ref()).collect::<Option<Vec<_>>>().map(|sets| {
        let mut all = Numbers::default();
        sets.into_iter().for_each(|set| all.extend(set.iter()));
        all
    });
    let place = classes[0].place;
    let mut atoms = match classes {
        [class] => {
            let cores = class.place.cpus.as_ref().map_or_else(|| cores_of(node), |cpus| cpus.count() as f64);
            vec![Atom { cores, members: (0..members.len()).collect() }]
        }
        _ => atoms(node, classes, &members),
    };
    let available: f64 = atoms.iter().map(|atom| atom.cores).sum();
    let cores =
        place.parent_quota.map_or(available, |Quota(millis)| available.min(millis as f64 / 1000.0)).max(LEAST_CORES);
    if cores < available {
        atoms.iter_mut().for_each(|atom| atom.cores *= cores / available);
    }
    let parent_weight = place.parent_weight.map_or(100.0, f64::from).max(1.0);
    let open = open(&atoms, members.len());
    Domain { members, atoms, open, cores, part: 1.0, left: 1.0, cpus, parent_weight }
}

/// The cores of the atoms that each of `members` may use.
fn open(atoms: &[Atom], members: usize) -> Vec<f64> {
    let mut open = vec![0.0; members];
    for atom in atoms {
        atom.members.iter().for_each(|&member| open[member] += atom.cores);
    }
    open
}

/// Groups the processors by the classes that may use them.
fn atoms(node: &NodeObservation, classes: &[&Class<'_>], members: &[usize]) -> Vec<Atom> {
    let named = classes.iter().filter_map(|class| class.place.cpus.as_ref()).flat_map(|cpus| cpus.iter().last()).max();
    let count = (cores_of(node).ceil() as usize).max(named.map_or(0, |last| last + 1));
    let mut found: Vec<(Vec<bool>, f64)> = Vec::new();
    for cpu in 0..count {
        let users: Vec<bool> =
            classes.iter().map(|class| class.place.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))).collect();
        match found.iter_mut().find(|(known, _)| *known == users) {
            Some((_, cores)) => *cores += 1.0,
            None if users.contains(&true) => found.push((users, 1.0)),
            None => {}
        }
    }
    let mut member_of = vec![0; node.containers.len()];
    members.iter().enumerate().for_each(|(member, &index)| member_of[index] = member);
    let atom = |(users, cores): (Vec<bool>, f64)| {
        let using = classes.iter().zip(users).filter(|(_, uses)| *uses);
        let indices = using.flat_map(|(class, _)| &class.members);
        let mut members: Vec<usize> = indices.map(|&index| member_of[index]).collect();
        members.sort();
        Atom { cores, members }
    };
    let mut atoms: Vec<Atom> = found.into_iter().map(atom).collect();
    // A job first gets cores where few others compete.
    atoms.sort_by_key(|atom| atom.members.len());
    atoms
}

/// Cgroups that want the same processors divide them by the cgroups' weights.
fn divide_node(domains: &mut [Domain], node_cores: f64) {
    let parts: Vec<f64> = domains
        .iter()
        .map(|domain| {
            let rivals = domains.iter().filter(|other| overlap(domain.cpus.as_ref(), other.cpus.as_ref()));
            domain.parent_weight / rivals.map(|rival| rival.parent_weight).sum::<f64>()
        })
        .collect();
    let whole: f64 = domains.iter().zip(&parts).map(|(domain, part)| part * domain.cores).sum();
    let whole = whole.max(node_cores);
    for (domain, part) in domains.iter_mut().zip(parts) {
        let part = part * domain.cores / whole;
        domain.part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 1.0 };
    }
}

impl Domain {
    /// The observed containers of the domain.
    pub(super) fn containers<'a>(
        &'a self,
        node: &'a NodeObservation,
    ) -> impl Iterator<Item = &'a ContainerObservation> {
        self.members.iter().map(|&index| &node.containers[index])
    }

    /// Cores available to its containers together over the last `seconds`: those that they used and those that were idle. `used` are the
    /// cores used by each container of the node, `idle` those of each processor. `None` if unknown.
    pub(super) fn capacity(
        &self,
        node: &NodeObservation,
        seconds: f64,
        used: &[Option<f64>],
        idle: &[f64],
    ) -> Option<f64> {
        if seconds < LEAST_SECONDS || idle.is_empty() {
            return None;
        }
        let mut available: f64 = match &self.cpus {
            Some(cpus) => cpus.iter().map(|cpu| idle.get(cpu).copied()).sum::<Option<f64>>()?,
            None => idle.iter().sum(),
        };
        for &index in self.members.iter().filter(|&&index| node.containers[index].state == RunState::Running) {
            available += used[index]?;
        }
        available.is_finite().then(|| available.clamp(LEAST_CAPACITY * self.cores, self.cores))
    }

    /// Returns the same domain with this many cores.
    pub(super) fn with_capacity(mut self, cores: f64) -> Domain {
        let scale = cores / self.cores;
        if scale.is_finite() && scale > 0.0 {
            self.atoms.iter_mut().for_each(|atom| atom.cores *= scale);
            self.open = open(&self.atoms, self.members.len());
            self.cores = cores;
            self.left *= scale;
        }
        self
    }

    /// Cores that the member could use if it were alone in the domain.
    pub(super) fn most(&self, member: usize, container: &ContainerObservation) -> f64 {
        let available = self.open[member];
        let original_quota = container.original.cpu_quota.flatten();
        original_quota.map_or(available, |Quota(millis)| available.min(millis as f64 / 1000.0))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::node::testing::{container, node};
    use std::sync::Arc;

    /// A node with containers on these processors and below these cgroups.
    pub(super) fn placed(places: &[(&str, &str)]) -> NodeObservation {
        let placed = |(number, (cpus, parent)): (usize, &(&str, &str))| {
            let mut c = container(&format!("{number}"));
            let cpus = Some(*cpus).filter(|cpus| !cpus.is_empty()).map(|cpus| cpus.parse().expect("a list"));
            c.place = Arc::new(Place { cpus, parent: Some(Arc::from(*parent)), ..Place::default() });
            c
        };
        NodeObservation { cores: 12.0, ..node(places.iter().enumerate().map(placed).collect()) }
    }

    fn members(node: &NodeObservation) -> Vec<Vec<usize>> {
        domains(node).into_iter().map(|domain| domain.members).collect()
    }

    #[test]
    fn containers_compete_if_their_processors_overlap() {
        assert_eq!(members(&placed(&[("", "/a"), ("0-3", "/a"), ("4-7", "/a")])), [vec![0, 1, 2]]);
        assert_eq!(members(&placed(&[("0-3", "/a"), ("4-7", "/a"), ("2", "/a")])), [vec![0, 2], vec![1]]);
        assert_eq!(
            members(&placed(&[("0-3", "/a"), ("4-7", "/a"), ("3-4", "/a")])),
            [vec![0, 1, 2]],
            "through the third"
        );
        assert_eq!(members(&placed(&[("0-3", "/a"), ("0-3", "/b"), ("0-3", "/a")])), [vec![0, 2], vec![1]]);
        assert_eq!(members(&placed(&[])), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn overlapping_cpu_sets_are_split_into_atoms_by_their_users() {
        let node = placed(&[("0-7", "/a"), ("0-7", "/a"), ("4-11", "/a")]);
        let [domain] = <[Domain; 1]>::try_from(domains(&node)).expect("one domain");
        let atoms: Vec<(f64, Vec<usize>)> = domain.atoms.iter().map(|a| (a.cores, a.members.clone())).collect();
        assert_eq!(atoms, [(4.0, vec![2]), (4.0, vec![0, 1]), (4.0, vec![0, 1, 2])]);
        assert_eq!((domain.cores, domain.most(0, &node.containers[0])), (12.0, 8.0));
    }

    #[test]
    fn cgroups_on_the_same_processors_divide_them_by_weight() {
        let mut node = placed(&[("", "/a"), ("", "/b"), ("", "/a")]);
        Arc::make_mut(&mut node.containers[1].place).parent_weight = Some(300);
        let parts: Vec<f64> = domains(&node).iter().map(|domain| domain.part).collect();
        assert_eq!(parts, [0.25, 0.75]);
        let apart: Vec<f64> = domains(&placed(&[("0-2", "/a"), ("3-11", "/a")])).iter().map(|d| d.part).collect();
        assert_eq!(apart, [0.25, 0.75]);
    }

    #[test]
    fn a_quota_of_the_parent_is_the_capacity_of_all_containers_below_it() {
        let mut node = placed(&[("0-3", "/a"), ("2-5", "/a")]);
        node.containers.iter_mut().for_each(|c| Arc::make_mut(&mut c.place).parent_quota = Some(Quota(3000)));
        let domain = domains(&node).remove(0);
        assert_eq!(domain.cores, 3.0);
        assert_eq!(domain.atoms.iter().map(|atom| atom.cores).sum::<f64>(), 3.0);
    }

    #[test]
    fn cpu_used_by_neighbours_is_not_part_of_the_capacity() {
        let node = placed(&[("0-1", "/a"), ("0-1", "/a"), ("2-3", "/b")]);
        let domain = domains(&node).remove(0);
        let capacity = |used: [Option<f64>; 3], idle: &[f64]| domain.capacity(&node, 20.0, &used, idle);
        assert_eq!(capacity([Some(0.75), Some(0.5), Some(2.0)], &[0.0, 0.25, 1.0, 1.0]), Some(1.5));
        assert_eq!(capacity([Some(9.0), Some(0.5), None], &[0.0; 4]), Some(2.0), "never more than there are");
        assert_eq!(capacity([Some(0.0), Some(0.0), None], &[0.0; 4]), Some(0.1), "never nothing");
        assert_eq!(capacity([None, Some(0.5), Some(0.0)], &[0.0; 4]), None);
        assert_eq!(capacity([Some(0.5), Some(0.5), None], &[0.0]), None, "a processor that /proc/stat does not list");
    }
}
