//! How right forecasts of the time left are: those of each tick of a simulated schedule, against the ends that followed.

use super::compare::each_seed;
use super::node::{Keep, simulate};
use super::scenario::Scenario;
use super::variant::{Decider, Variant};
use model::JudgedForecast;
use policy::Governor;
use serde::Serialize;

/// How right the forecasts of a scenario were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Number of forecasts: one for each job and tick.
    pub forecasts: usize,
    /// Part of them with the end inside the range.
    pub inside: f64,
    /// Median of |forecast / time left − 1| within a twentieth of half of each job's time.
    pub error_at_half: f64,
    /// The same for what remained at the speed of that time: units left by units per second.
    pub error_at_half_by_rate: f64,
}

/// Judges the forecasts of a variant on seeds `0 .. seeds`; `None` if it makes none.
pub fn accuracy(scenario: &Scenario, variant: &Variant, seeds: u64) -> Option<Accuracy> {
    let all = each_seed(seeds, |seed| forecasts(scenario, variant, seed)).into_iter().flatten();
    let (planned, by_rate): (Vec<_>, Vec<_>) = all.unzip();
    let found = model::Accuracy::of(&planned)?;
    Some(Accuracy {
        forecasts: found.forecasts,
        inside: found.inside,
        error_at_half: found.error_at_half?,
        error_at_half_by_rate: model::Accuracy::of(&by_rate)?.error_at_half?,
    })
}

/// The forecasts of all jobs at all ticks, by the plan and by the speed of that time. The recorded ticks are repeated with a governor, whose forecasts are not in the recording.
fn forecasts(scenario: &Scenario, variant: &Variant, seed: u64) -> Vec<(JudgedForecast, JudgedForecast)> {
    let Decider::Governor(settings) = variant.decider else { return Vec::new() };
    let outcome = simulate(&scenario.node, &scenario.draw(seed), variant, Keep { recording: true, ..Keep::default() });
    let mut governor = Governor::new(settings);
    let mut found = Vec::new();
    for tick in &outcome.recording {
        let plan = governor.tick(&tick.observation);
        let now = tick.observation.now.as_secs_f64();
        for (container, forecast) in
            tick.observation.containers.iter().zip(governor.times_left(&tick.observation, &plan))
        {
            let job = container.id.as_str().parse().ok().and_then(|number: usize| outcome.jobs.get(number));
            let (Some(forecast), Some(job)) = (forecast, job) else { continue };
            let (left, learning) = (job.end_s - now, &container.learning);
            let (Some(by_rate), true) = (learning.seconds_left(), left > 0.0) else { continue };
            let at = (now - job.start_s) / job.completion_s();
            let judged = |forecast| JudgedForecast { at, forecast, left_s: left };
            found.push((judged(forecast), judged(by_rate)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PolicySettings;

    fn judged(scenario: &str, seeds: u64) -> Accuracy {
        let balanced = Variant::named("balanced", &PolicySettings::default()).unwrap();
        accuracy(&Scenario::open(scenario).unwrap(), &balanced, seeds).expect("it forecasts")
    }

    #[test]
    fn four_of_five_ends_are_in_the_range_and_the_rest_of_a_half_done_job_is_right_within_an_eighth() {
        for scenario in ["random-5", "random-10", "random-10-threads", "random-10-mixed", "sweep-16"] {
            let found = judged(scenario, 20);
            assert!((0.75..=0.91).contains(&found.inside), "{scenario}: {found:?}");
            assert!(found.error_at_half < 0.12, "{scenario}: {found:?}");
            assert!(found.error_at_half < 0.2 * found.error_at_half_by_rate, "{scenario}: {found:?}");
        }
        // Measured trainings, a third of whose logs say nothing of their end.
        let unseen = judged(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/scenarios/unseen.toml"), 20);
        assert!((0.75..=0.88).contains(&unseen.inside) && unseen.error_at_half < 0.25, "{unseen:?}");
    }

    #[test]
    fn nothing_is_forecast_of_jobs_that_state_no_end() {
        let balanced = Variant::named("balanced", &PolicySettings::default()).unwrap();
        assert_eq!(accuracy(&Scenario::open("random-10-unknown").unwrap(), &balanced, 3), None);
    }
}
