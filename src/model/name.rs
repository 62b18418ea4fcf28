//! Which job a person means: one rule for the node's API, for its limits, and for a cluster.

/// Minimum length of the beginning of an id that names a job: a mistyped name must not name another one.
const PREFIX_LEAST: usize = 4;

/// What a job may be called.
#[derive(Clone, Copy, Debug)]
pub struct JobName<'a> {
    /// Id of its container or service.
    pub id: &'a str,
    /// Name of its container or service; `NAME@USER` for the command of a user.
    pub name: &'a str,
    /// Name of its gang, in a cluster.
    pub gang: Option<&'a str>,
}

impl<'a> JobName<'a> {
    /// The names of a job that belongs to no gang.
    pub fn of(id: &'a str, name: &'a str) -> JobName<'a> {
        JobName { id, name, gang: None }
    }
}

/// Returns the indexes of the jobs that `wanted` means; none if there is no such job, several if it is ambiguous or a gang.
///
/// In this order: the job with that id, those with that name, those with that name and a user, those of the gang with that name, and those
/// whose id begins with it. Such a beginning has at least 4 characters.
pub fn named<'a>(jobs: impl IntoIterator<Item = JobName<'a>>, wanted: &str) -> Vec<usize> {
    let rank = |job: &JobName<'_>| match job {
        _ if job.id == wanted => Some(0),
        _ if job.name == wanted => Some(1),
        _ if job.name.strip_prefix(wanted).is_some_and(|user| user.starts_with('@')) => Some(2),
        _ if job.gang == Some(wanted) => Some(3),
        _ if wanted.len() >= PREFIX_LEAST && job.id.starts_with(wanted) => Some(4),
        _ => None,
    };
    let ranked = jobs.into_iter().enumerate().filter_map(|(at, job)| Some((rank(&job)?, at)));
    let ranked: Vec<(u8, usize)> = ranked.collect();
    let best = ranked.iter().map(|(rank, _)| *rank).min();
    ranked.into_iter().filter(|(rank, _)| Some(*rank) == best).map(|(_, at)| at).collect()
}

/// Like [`named`], for commands that apply to one job or to all workers of a gang.
///
/// # Errors
/// The name is ambiguous; the indexes of the jobs that it may mean.
pub fn job_or_gang(jobs: &[JobName<'_>], wanted: &str) -> Result<Vec<usize>, Vec<usize>> {
    let found = named(jobs.iter().copied(), wanted);
    let is_gang = found.iter().all(|at| jobs[*at].gang == Some(wanted));
    if found.len() <= 1 || is_gang { Ok(found) } else { Err(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_its_id_its_name_its_gang_or_the_beginning_of_its_id() {
        let worker = |id, name, gang| JobName { id, name, gang };
        let jobs = [
            worker("k3v9x0aaaaaa", "resnet", None),
            worker("k3v9x0bbbbbb", "bert-1", Some("bert")),
            worker("p7q2m4cccccc", "bert-2", Some("bert")),
            worker("k3v9x0aaaaab", "k3v9x0", None),
            worker("s1d2f3dddddd", "sweep@anna", None),
            worker("s1d2f3eeeeee", "tune@anna", None),
            worker("s1d2f3ffffff", "tune@ben", None),
        ];
        for (wanted, expected) in [
            ("resnet", vec![0]),
            ("p7q2m4cccccc", vec![2]),
            ("bert", vec![1, 2]),
            ("p7q2", vec![2]),
            ("p7q", vec![]),
            ("p7q3", vec![]),
            ("k3v9x0", vec![3]),
            ("k3v9x0a", vec![0, 3]),
            ("k3v9x0aaaaaa", vec![0]),
            ("sweep", vec![4]),
            ("sweep@anna", vec![4]),
            ("swee", vec![]),
            ("tune", vec![5, 6]),
            ("", vec![]),
        ] {
            assert_eq!(named(jobs, wanted), expected, "{wanted}");
        }
        assert_eq!(job_or_gang(&jobs, "bert"), Ok(vec![1, 2]));
        assert_eq!(job_or_gang(&jobs, "k3v9x0a"), Err(vec![0, 3]), "ambiguous");
    }
}
