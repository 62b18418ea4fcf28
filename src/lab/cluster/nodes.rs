//! The sizes of the demo's nodes, and the CPU of this machine that each is confined to.
//!
//! Either all nodes are equal, or the first is twice as large as each of the others, as in a cluster whose machines were bought one after
//! another. Swarm places by the number of tasks, so it gives them all the same work.

/// Fraction of a CPU reserved for the engines, daemons and the kernel if they have no CPU of their own. With half of it, the jobs of a node
/// got less than its quota whenever one of them started.
const FOR_ENGINES: f64 = 0.25;

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LabNode {
    pub cores: f64,
    /// The CPU that it is confined to, as an index into the CPUs of this machine. Several nodes may share one.
    pub cpu: usize,
}

/// Returns `count` nodes on a machine with this number of CPUs: each with one unit of CPU, but the first with two if it `is_larger`. Then a
/// CPU has an even number of units.
pub(super) fn nodes(cpus: usize, count: u16, is_larger: bool) -> Vec<LabNode> {
    let (cpus, count) = (cpus.max(1), usize::from(count));
    let first = if is_larger { 2 } else { 1 };
    let units = first * (first + count - 1).div_ceil(first * cpus);
    let reserved = if cpus > count { 0.0 } else { FOR_ENGINES };
    let mut used = vec![0; cpus.min(count)];
    let of = |number: usize| {
        let wanted = if number == 0 { first } else { 1 };
        let cpu = (0..used.len()).min_by_key(|cpu| used[*cpu]).unwrap_or_default();
        used[cpu] += wanted;
        LabNode { cores: wanted as f64 * (1.0 - reserved) / units as f64, cpu }
    };
    (0..count).map(of).collect()
}

/// Returns the number of cores of all nodes together.
pub(super) fn cores(nodes: &[LabNode]) -> f64 {
    nodes.iter().map(|node| node.cores).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(cpus: usize, count: u16, is_larger: bool) -> Vec<(f64, usize)> {
        nodes(cpus, count, is_larger).into_iter().map(|node| (node.cores, node.cpu)).collect()
    }

    #[test]
    fn the_first_node_can_be_twice_as_large_as_the_others() {
        assert_eq!(shapes(2, 3, true), [(0.75, 0), (0.375, 1), (0.375, 1)]);
        assert_eq!(shapes(3, 3, true), [(0.75, 0), (0.375, 1), (0.375, 2)]);
        assert_eq!(shapes(64, 3, true), [(1.0, 0), (0.5, 1), (0.5, 2)], "the engines have CPUs of their own");
        assert_eq!(shapes(1, 3, true), [(0.375, 0), (0.1875, 0), (0.1875, 0)]);
    }

    #[test]
    fn equal_nodes_are_equal_and_no_cpu_is_overloaded() {
        assert_eq!(shapes(2, 3, false), [(0.375, 0), (0.375, 1), (0.375, 0)]);
        assert_eq!(shapes(64, 3, false), [(1.0, 0), (1.0, 1), (1.0, 2)]);
        for cpus in 1..20 {
            for count in 2..=16 {
                for is_larger in [true, false] {
                    let nodes = nodes(cpus, count, is_larger);
                    let on =
                        |cpu: usize| cores(&nodes.iter().filter(|node| node.cpu == cpu).cloned().collect::<Vec<_>>());
                    assert!((0..cpus).all(|cpu| on(cpu) < 1.0 + 1e-9), "{count} nodes on {cpus} CPUs");
                }
            }
        }
    }
}
