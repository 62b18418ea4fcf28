//! Tests of jobs that share a GPU: against results computed by hand, and with the duty cycle.

use super::{drawn, job, shape};
use crate::compare::compare;
use crate::job::{GpuLoad, JobPlan};
use crate::node::{Keep, simulate};
use crate::outcome::JobOutcome;
use crate::scenario::Scenario;
use crate::variant::Variant;
use model::PolicySettings;

/// A training that takes this many seconds alone, 96 % of it in GPU kernels of 4 ms.
fn training(start_s: f64, alone_s: f64, device: usize) -> JobPlan {
    let gpu = Some(GpuLoad { device, every: 0.000_16, kernel_s: 0.004 });
    JobPlan { gpu, units: (alone_s / 0.5) as usize, ..job(start_s, alone_s * 0.16 / 4.16, 1.0) }
}

fn run(policy: &str, plans: Vec<JobPlan>) -> Vec<JobOutcome> {
    let variant = Variant::named(policy, &PolicySettings::default()).unwrap();
    simulate(&shape(8.0), &drawn(plans), &variant, Keep::default()).jobs
}

fn ends(policy: &str, plans: Vec<JobPlan>) -> Vec<f64> {
    run(policy, plans).iter().map(|job| (job.end_s * 10.0).round() / 10.0).collect()
}

#[test]
fn kernels_in_one_queue_have_equal_slices_and_other_gpus_are_independent() {
    assert_eq!(ends("fair", vec![training(0.0, 100.0, 0)]), [100.0]);
    assert_eq!(ends("fair", vec![training(0.0, 100.0, 0), training(0.0, 60.0, 1)]), [100.0, 60.0]);
    // Each step: 0.16 ms on a core and 4 ms on the GPU, at half its speed while both are in the queue.
    let [long, short] =
        <[f64; 2]>::try_from(ends("fair", vec![training(0.0, 100.0, 0), training(0.0, 60.0, 0)])).unwrap();
    assert!((112.0..=120.0).contains(&short) && (154.0..=160.0).contains(&long), "{short} {long}");
}

#[test]
fn the_favoured_job_keeps_its_speed_and_the_gpu_stays_busy() {
    let others = (0..3).map(|_| training(0.0, 200.0, 0));
    let favoured = JobPlan { weight: 100.0, ..training(0.0, 400.0, 0) };
    let plans: Vec<JobPlan> = std::iter::once(favoured).chain(others).collect();
    let jobs = run("duty-cycle", plans);
    let kept = 400.0 / jobs[0].completion_s();
    let last = jobs.iter().map(|job| job.end_s).fold(0.0, f64::max);
    let busy = jobs.iter().map(|job| job.gpu_s).sum::<f64>() / last;
    assert!(kept >= 0.95, "the favoured job has {kept} of its speed alone");
    assert!(busy >= 0.95, "the GPU is busy for {busy} of the time");
}

#[test]
fn four_trainings_complete_a_fifth_sooner_and_all_complete() {
    let scenario = Scenario::built_in("gpu-4").unwrap().unwrap();
    let named = |name| Variant::named(name, &PolicySettings::default()).unwrap();
    let runs = compare(&scenario, &[named("duty-cycle")], 2);
    let duty_cycle = runs.policies[0].summary;
    let change = duty_cycle.mean_completion_s / runs.fair.mean_completion_s - 1.0;
    assert!(change <= -0.20, "{change}");
    assert!(runs.policies[0].ratios.iter().all(|ratio| ratio.is_finite()), "all complete");
}
