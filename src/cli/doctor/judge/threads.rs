//! Jobs whose threads wait for each other, which no counter of the kernel shows.

use super::Check;
use crate::cost;
use api::wire::Container;
use term::text::{clean, count};

/// Jobs named at most.
const NAMED_AT_MOST: usize = 3;

/// Names the jobs that pay much more CPU for their progress beside others; `None` without such jobs.
pub(in super::super) fn threads(jobs: &[Container]) -> Option<Check> {
    let mut found: Vec<(f64, &Container)> = jobs.iter().filter_map(|job| Some((cost::waste(job)?, job))).collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let named: Vec<String> = found.iter().take(NAMED_AT_MOST).map(|(factor, job)| named(*factor, job)).collect();
    (!found.is_empty()).then(|| {
        Check::warn(
            "threads",
            format!(
                "the threads of {} wait for each other, spinning, and pay more CPU beside others than in a turn of their own: {}",
                count(found.len(), "job"),
                named.join(", ")
            ),
            "start them with threads that sleep: `flowctl help threads`",
        )
    })
}

fn named(factor: f64, job: &Container) -> String {
    let lost = cost::lost_in_words(job.lost_cpu_s).map_or_else(String::new, |lost| format!(" ({lost} lost)"));
    format!("{} {factor:.1} times{lost}", clean(&job.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, waste: Option<f64>) -> Container {
        let mut job = Container { name: name.to_owned(), ..Container::default() };
        (job.waste, job.lost_cpu_s) = (waste, waste.map(|waste| 60.0 * waste));
        job
    }

    #[test]
    fn wasteful_jobs_are_named_the_worst_first() {
        assert_eq!(threads(&[job("alone", None), job("cached", Some(1.3))]), None);
        let check = threads(&[job("lgb", Some(2.0)), job("cached", Some(1.3)), job("xgb", Some(3.4))]).unwrap();
        assert!(
            check.found.ends_with("xgb 3.4 times (3.4 CPU-minutes lost), lgb 2.0 times (2 CPU-minutes lost)"),
            "{}",
            check.found
        );
        assert!(check.found.starts_with("the threads of 2 jobs wait"), "{}", check.found);
    }
}
