//! The processors that each job may use, and the kernel's division of them by weight.
//!
//! Jobs run on overlapping sets of processors, below several cgroups. Within one *atom* (processors that the same jobs may use) the cgroups
//! share by their own weights, which are equal here, and the jobs of each cgroup by theirs. A job spreads over its atoms, and its threads
//! leave contended ones: in the end each job has its weight's part of what it can reach.

use crate::job::Job;
use model::Numbers;
use model::sharing::{Claim, water_fill};
use std::sync::Arc;

/// Iterations until the threads have settled.
const ROUNDS: usize = 100;

/// The processors of a node, grouped by the jobs that may use them.
pub(super) struct Places {
    atoms: Vec<Atom>,
    /// Number of each job's parent cgroup.
    parents: Vec<usize>,
    parent_count: usize,
}

struct Atom {
    cpus: Vec<usize>,
    cores: f64,
    jobs: Vec<usize>,
}

impl Places {
    /// Returns `None` if all jobs may use all processors and have one parent: then a single water-filling is enough.
    pub(super) fn of(cores: f64, jobs: &[Arc<Job>]) -> Option<Places> {
        if jobs.iter().all(|job| job.plan.cpus.is_none() && job.plan.parent == jobs[0].plan.parent) {
            return None;
        }
        let processors = cores.ceil() as usize;
        let may_use = |cpus: &Option<Numbers>, cpu| cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        let mut atoms: Vec<Atom> = Vec::new();
        for cpu in 0..processors {
            let users: Vec<usize> = (0..jobs.len()).filter(|&number| may_use(&jobs[number].plan.cpus, cpu)).collect();
            match atoms.iter_mut().find(|atom| atom.jobs == users) {
                Some(atom) => atom.cpus.push(cpu),
                None => atoms.push(Atom { cpus: vec![cpu], cores: 0.0, jobs: users }),
            }
        }
        atoms.iter_mut().for_each(|atom| atom.cores = atom.cpus.len() as f64 * cores / processors as f64);
        let mut names: Vec<&Option<String>> = jobs.iter().map(|job| &job.plan.parent).collect();
        names.sort();
        names.dedup();
        let parent = |job: &Arc<Job>| names.binary_search(&&job.plan.parent).unwrap_or(0);
        Some(Places { atoms, parents: jobs.iter().map(parent).collect(), parent_count: names.len() })
    }

    /// Divides the processors among the `running` jobs by their claims' weights, up to their caps. `idle` gets what is left of each
    /// processor.
    pub(super) fn fill(&self, running: &[usize], claims: &[Claim], shares: &mut Vec<f64>, idle: &mut [f64]) {
        shares.clear();
        shares.resize(running.len(), 0.0);
        // For each atom: the running jobs that may use it, and the part of each job that runs placed.
        let mut placed: Vec<Vec<(usize, f64)>> = self
            .atoms
            .iter()
            .map(|atom| {
                let users = (0..running.len()).filter(|&at| atom.jobs.binary_search(&running[at]).is_ok());
                users.map(|at| (at, atom.cores / self.reach(running[at]))).collect()
            })
            .collect();
        let mut given: Vec<Vec<f64>> = Vec::new();
        for _ in 0..ROUNDS {
            given = self
                .atoms
                .iter()
                .zip(&placed)
                .map(|(atom, placed)| self.fill_atom(atom, placed, running, claims))
                .collect();
            shares.fill(0.0);
            for (placed, given) in placed.iter().zip(&given) {
                placed.iter().zip(given).for_each(|((at, _), cores)| shares[*at] += cores);
            }
            for (placed, given) in placed.iter_mut().zip(&given) {
                for ((at, part), cores) in placed.iter_mut().zip(given) {
                    *part = 0.5 * (*part + cores / shares[*at].max(f64::MIN_POSITIVE));
                }
            }
        }
        for (atom, given) in self.atoms.iter().zip(&given) {
            let left = (atom.cores - given.iter().sum::<f64>()).max(0.0) / atom.cpus.len() as f64;
            atom.cpus.iter().for_each(|&cpu| idle[cpu] = left);
        }
    }

    fn reach(&self, job: usize) -> f64 {
        self.atoms.iter().filter(|atom| atom.jobs.binary_search(&job).is_ok()).map(|atom| atom.cores).sum()
    }

    fn fill_atom(&self, atom: &Atom, placed: &[(usize, f64)], running: &[usize], claims: &[Claim]) -> Vec<f64> {
        let claim =
            |(at, part): &(usize, f64)| Claim { weight: claims[*at].weight * part, cap: claims[*at].cap * part };
        let parent = |(at, _): &(usize, f64)| self.parents[running[*at]];
        let mut parents = Vec::with_capacity(self.parent_count);
        for number in 0..self.parent_count {
            let cap = placed.iter().filter(|job| parent(job) == number).map(|job| claim(job).cap).sum();
            parents.push(Claim { weight: 1.0, cap });
        }
        let (mut of_parents, mut inside) = (Vec::new(), Vec::new());
        water_fill(atom.cores, &parents, &mut of_parents);
        let mut given = vec![0.0; placed.len()];
        for (number, cores) in of_parents.into_iter().enumerate() {
            let members: Vec<usize> = (0..placed.len()).filter(|&at| parent(&placed[at]) == number).collect();
            let members_claims: Vec<Claim> = members.iter().map(|&at| claim(&placed[at])).collect();
            water_fill(cores, &members_claims, &mut inside);
            members.into_iter().zip(&inside).for_each(|(at, cores)| given[at] = *cores);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    /// Cores of each job and idle cores of each processor, on a node with four cores and jobs as `(processors, cgroup, weight)`.
    fn filled(jobs: &[(&str, &str, f64)]) -> (Vec<f64>, Vec<f64>) {
        let job = |(cpus, parent, _): &(&str, &str, f64)| {
            format!("[[job]]\nwork = 1\nunits = 1\ncpus = \"{cpus}\"\nparent = \"{parent}\"\n")
        };
        let text: String = jobs.iter().map(job).collect();
        let drawn = Scenario::parse("places.toml", &format!("[node]\ncores = 4\n{text}")).expect("a scenario").draw(0);
        let drawn: Vec<Arc<Job>> = drawn.into_iter().map(Arc::new).collect();
        let claims: Vec<Claim> = jobs.iter().map(|(_, _, weight)| Claim { weight: *weight, cap: 4.0 }).collect();
        let places = Places::of(4.0, &drawn).expect("they differ");
        let running: Vec<usize> = (0..jobs.len()).collect();
        let (mut shares, mut idle) = (Vec::new(), vec![0.0; 4]);
        places.fill(&running, &claims, &mut shares, &mut idle);
        let rounded = |values: Vec<f64>| values.into_iter().map(|value| (value * 100.0).round() / 100.0).collect();
        (rounded(shares), rounded(idle))
    }

    #[test]
    fn weights_count_only_within_disjoint_cpu_sets() {
        let (shares, idle) = filled(&[("0", "a", 300.0), ("0", "a", 100.0), ("1-2", "a", 1.0)]);
        assert_eq!((shares, idle), (vec![0.75, 0.25, 2.0], vec![0.0, 0.0, 0.0, 1.0]));
    }

    #[test]
    fn overlapping_cpu_sets_are_shared_equally_where_possible() {
        for (first, expected) in [("0-1", [2.0, 2.0]), ("0", [1.0, 3.0])] {
            let shares = filled(&[(first, "a", 1.0), ("0-3", "a", 1.0)]).0;
            assert!(shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 0.05), "{shares:?}");
        }
    }

    #[test]
    fn cgroups_divide_the_processors_before_their_jobs_do() {
        let (shares, _) = filled(&[("0-3", "a", 900.0), ("0-3", "a", 900.0), ("0-3", "b", 1.0)]);
        assert_eq!(shares, [1.0, 1.0, 2.0]);
    }
}
