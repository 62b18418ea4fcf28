//! The time left of jobs, in words. Pure.

use api::wire::{Container, Estimate};
use term::text;

/// When all jobs are done, such as `all done in 12m30s (9m to 15m)`; `None` for a single job, or if the end of one is unknown.
pub(crate) fn all_done(jobs: &[Container]) -> Option<String> {
    let left: Vec<Estimate> = jobs.iter().map(|job| job.progress.as_ref()?.remaining_s).collect::<Option<_>>()?;
    let last = |of: fn(&Estimate) -> f64| left.iter().map(of).fold(0.0, f64::max);
    let high = left.iter().map(|left| left.high).try_fold(0.0, |last: f64, high| Some(last.max(high?)));
    let (likely, range) = in_words(Estimate { low: last(|left| left.low), likely: last(|left| left.likely), high });
    (left.len() > 1).then(|| format!("all done in {likely}{}", bracketed(&range)))
}

/// A time left and its 80 % range, which is empty if its ends read the same: it says nothing.
pub(crate) fn in_words(left: Estimate) -> (String, String) {
    let low = text::duration(left.low);
    let high = left.high.map_or_else(|| "?".to_owned(), text::duration);
    let range = if low == high { String::new() } else { format!("{low} to {high}") };
    (text::duration(left.likely), range)
}

/// The 80 % range in brackets after the time left, if there is one.
pub(crate) fn bracketed(range: &str) -> String {
    if range.is_empty() { String::new() } else { format!(" ({range})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_done_with_the_last_unless_an_end_is_unknown() {
        let job = |low, likely, high| Container {
            progress: serde_json::from_value(serde_json::json!({
                "unit": "epoch", "current": 1.0, "remaining_s": Estimate { low, likely, high }
            }))
            .unwrap(),
            ..Container::default()
        };
        let (soon, late) = (job(50.0, 60.0, Some(70.0)), job(540.0, 600.0, Some(900.0)));
        assert_eq!(all_done(&[soon.clone(), late.clone()]).as_deref(), Some("all done in 10m (9m00s to 15m)"));
        assert_eq!(all_done(&[job(50.0, 60.0, None), late.clone()]).as_deref(), Some("all done in 10m (9m00s to ?)"));
        assert_eq!(all_done(std::slice::from_ref(&late)), None, "its own line says so");
        assert_eq!(all_done(&[soon, late, Container::default()]), None);
    }
}
