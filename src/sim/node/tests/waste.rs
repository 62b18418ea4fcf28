//! Trainings whose threads wait for each other: the model against what was measured, and the default policy against plain sharing.

use super::job;
use crate::compare::{Comparison, compare};
use crate::job::JobPlan;
use crate::node::speed;
use crate::scenario::Scenario;
use crate::variant::Variant;
use model::PolicySettings;

/// CPU that a unit of four equal trainings with LightGBM costs on two cores with these weights, as a multiple of its cost alone.
fn cost(weights: [f64; 4]) -> f64 {
    let training = JobPlan { waste: 0.6, ..job(0.0, 1.0, 2.0) };
    let cores = weights.map(|weight| 2.0 * weight / weights.iter().sum::<f64>());
    2.0 / cores.map(|cores| cores * speed::of_threads(&training, cores)).iter().sum::<f64>()
}

#[test]
fn the_model_gives_what_was_measured_with_turns_of_different_ratios() {
    // CPU-seconds of one of four equal trainings with LightGBM, of 2.6 alone: all weight to one at a time, at these ratios.
    for (ratio, measured) in [(2045.0, 2.6), (397.0, 2.8), (50.0, 3.3), (20.0, 3.4), (1.0, 7.6)] {
        let model = 2.6 * cost([ratio, 1.0, 1.0, 1.0]);
        assert!((model / measured - 1.0).abs() < 0.15, "{ratio}: {model} instead of {measured}");
    }
}

fn comparison(scenario: &str) -> Comparison {
    let scenario = Scenario::built_in(scenario).unwrap().unwrap();
    let variants = ["no-turns", "balanced"].map(|name| Variant::named(name, &PolicySettings::default()).unwrap());
    compare(&scenario, &variants, 10)
}

#[test]
fn no_job_loses_where_threads_wait_for_each_other_and_most_complete_far_sooner() {
    // In the mixture, single-threaded jobs have a core each under plain sharing. They lose up to a tenth, mostly to ranks and a little to turns.
    for (scenario, at_most, later) in [
        ("threads-4", -0.62, 0.0),
        ("threads-4-unknown", -0.40, 0.0),
        ("threads-10", -0.71, 0.0),
        ("threads-10-unknown", -0.48, 0.03),
        ("threads-mixed-10", -0.56, 0.11),
    ] {
        let runs = comparison(scenario);
        let mean = |of: usize| runs.policies[of].summary.mean_completion_s / runs.fair.mean_completion_s - 1.0;
        let worst = |of: usize| runs.policies[of].ratios.iter().copied().fold(0.0, f64::max) - 1.0;
        println!("{scenario}: {:.3} {:.3}, worst {:.3} {:.3}", mean(0), mean(1), worst(0), worst(1));
        assert!(mean(1) <= at_most, "{scenario}: {}", mean(1));
        assert!(mean(1) <= mean(0) + 0.01, "{scenario}: {} with turns, {} without", mean(1), mean(0));
        assert!(worst(0).max(worst(1)) <= later, "{scenario}: a job takes {} or {} longer", worst(0), worst(1));
    }
}
