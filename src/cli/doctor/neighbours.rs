//! Cgroups beside those of the jobs that use much CPU: what they take, no weight of a job can give.

use super::Check;
use api::wire::Container;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two readings of the CPU used.
const WINDOW: Duration = Duration::from_millis(500);

/// Cgroups read at most.
const READ_AT_MOST: usize = 2000;

/// Cores from which a neighbour is named, and the part of all cores from which all together are a warning.
const NAMED_FROM: f64 = 0.25;
const MANY_FROM: f64 = 0.5;

/// Cgroups named at most.
const NAMED_AT_MOST: usize = 3;

/// A cgroup that has none of the jobs in it.
#[derive(Debug, PartialEq)]
pub(super) struct Neighbour {
    /// Relative to its hierarchy.
    name: String,
    /// `cpu.weight` or `cpu.shares`, as written there.
    weight: String,
    cores: f64,
}

/// Measures the cgroups beside `parents` of jobs and beside each cgroup above these, but those of the jobs.
pub(super) async fn measure(hierarchy: &Path, parents: &BTreeSet<PathBuf>, jobs: &[Container]) -> Vec<Neighbour> {
    let before = used(hierarchy, parents, jobs);
    let began = std::time::Instant::now();
    tokio::time::sleep(WINDOW).await;
    let after = used(hierarchy, parents, jobs);
    let seconds = began.elapsed().as_secs_f64();
    let neighbour = |(path, now): (PathBuf, f64)| {
        let cores = (now - before.get(&path)?) / seconds;
        let weight = ["cpu.weight", "cpu.shares"].iter().find_map(|file| fs::read_to_string(path.join(file)).ok());
        let name = path.strip_prefix(hierarchy).ok()?.to_string_lossy().into_owned();
        Some(Neighbour { name, weight: weight.unwrap_or_default().trim().to_owned(), cores })
    };
    after.into_iter().filter_map(neighbour).collect()
}

/// CPU-seconds used by each neighbour.
fn used(hierarchy: &Path, parents: &BTreeSet<PathBuf>, jobs: &[Container]) -> BTreeMap<PathBuf, f64> {
    let above = parents.iter().flat_map(|parent| parent.ancestors());
    let above: BTreeSet<&Path> = above.filter(|path| path.starts_with(hierarchy)).collect();
    let entries = above.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let is_job = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains("flowcon-") || jobs.iter().any(|job| is_of(job, &name))
    };
    let cgroups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    let neighbours = cgroups.filter(|path| !above.contains(path.as_path()) && !is_job(path));
    neighbours
        .take(READ_AT_MOST)
        .filter_map(|path| Some((path.clone(), cgroup::cpu_used(&path)?.as_secs_f64())))
        .collect()
}

/// Whether a cgroup with this name is that of a job, by the names that its runtime gives.
fn is_of(job: &Container, name: &str) -> bool {
    match job.runtime.as_str() {
        // systemd's units have `_` in place of `-`.
        "pod" => name.replace('_', "-").contains(&job.id),
        // The id is what a user typed, without the namespace.
        "containerd" => {
            let id = job.id.rsplit('/').next().unwrap_or_default();
            let prefix = name.strip_suffix(".scope").unwrap_or(name).strip_suffix(id);
            prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('-'))
        }
        _ => name.contains(&job.id),
    }
}

/// Names the busiest neighbours; `None` if all together leave most of the CPU to the jobs.
pub(super) fn judge(mut neighbours: Vec<Neighbour>, cores: f64) -> Option<Check> {
    let all: f64 = neighbours.iter().map(|neighbour| neighbour.cores).sum();
    neighbours.retain(|neighbour| neighbour.cores >= NAMED_FROM);
    if all < MANY_FROM * cores || neighbours.is_empty() {
        return None;
    }
    neighbours.sort_by(|one, other| other.cores.total_cmp(&one.cores));
    let shown = |Neighbour { name, weight, cores }: &Neighbour| format!("{name} {cores:.1} cores (weight {weight})");
    let named: Vec<String> = neighbours.iter().take(NAMED_AT_MOST).map(shown).collect();
    Some(Check::warn(
        "neighbours",
        format!("what is not governed uses {all:.1} of {cores:.0} cores beside the jobs: {}", named.join(", ")),
        "govern them as well (`flowctl adopt NAME`), or give them a lower weight: `systemctl set-property UNIT CPUWeight=20`",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn neighbour(name: &str, cores: f64) -> Neighbour {
        Neighbour { name: name.to_owned(), weight: "100".to_owned(), cores }
    }

    fn job(runtime: &str, id: &str) -> Container {
        Container { id: id.to_owned(), runtime: runtime.to_owned(), ..Container::default() }
    }

    #[test]
    fn the_cgroups_of_jobs_are_known_by_the_names_that_runtimes_give() {
        let [docker, pod, ctr] = [job("docker", "4f2a9c"), job("pod", "61-9f6b"), job("containerd", "default/a")];
        for (job, name, is_of_job) in [
            (&docker, "docker-4f2a9c.scope", true),
            (&docker, "4f2a9c", true),
            (&pod, "pod61-9f6b", true),
            (&pod, "kubepods-burstable-pod61_9f6b.slice", true),
            (&pod, "kubepods-burstable-pod62_9f6b.slice", false),
            (&ctr, "a", true),
            (&ctr, "a.scope", true),
            (&ctr, "ctr-a.scope", true),
            (&ctr, "ctr-data.scope", false),
            (&ctr, "a.slice", false),
        ] {
            assert_eq!(is_of(job, name), is_of_job, "{} {name}", job.id);
        }
    }

    #[test]
    fn those_that_take_much_are_named_busiest_first() {
        let check = judge(vec![neighbour("a", 0.5), neighbour("b", 2.0), neighbour("c", 0.1)], 4.0).unwrap();
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(
            check.found.ends_with("2.6 of 4 cores beside the jobs: b 2.0 cores (weight 100), a 0.5 cores (weight 100)")
        );
        assert_eq!(judge(vec![neighbour("a", 1.0)], 4.0), None);
        assert_eq!(judge((0..30).map(|_| neighbour("tiny", 0.1)).collect(), 4.0), None, "nobody in particular");
    }

    #[tokio::test]
    async fn cgroups_beside_the_jobs_and_above_are_measured_and_the_jobs_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = |path: &str, usec: u64| {
            fs::create_dir_all(dir.path().join(path)).unwrap();
            fs::write(dir.path().join(path).join("cpu.stat"), format!("usage_usec {usec}\n")).unwrap();
            fs::write(dir.path().join(path).join("cpu.weight"), "100\n").unwrap();
        };
        for path in [
            "system.slice",
            "system.slice/docker-job1.scope",
            "system.slice/docker-web.scope",
            "user.slice",
            "x.slice/deep",
        ] {
            cgroup(path, 1_000_000);
        }
        let parents = BTreeSet::from([dir.path().join("system.slice")]);
        let jobs = [job("docker", "job1")];
        let measured = measure(dir.path(), &parents, &jobs);
        let later = async {
            tokio::time::sleep(WINDOW / 5).await;
            cgroup("user.slice", 3_000_000);
        };
        let (found, ()) = tokio::join!(measured, later);
        let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["system.slice/docker-web.scope", "user.slice"]);
        assert!(found[0].cores == 0.0 && found[1].cores > 1.0 && found[1].weight == "100", "{found:?}");
    }
}
