//! What a run cost, and how much of it after its best value, from its samples. Pure.

use api::wire::{Container, JobRecord, Sample};
use term::text;

/// CPU and GPU time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spent {
    cpu_s: f64,
    /// `None` if it used no GPU.
    gpu_s: Option<f64>,
}

/// At least this part after the best value is worth a word.
const TOLD_FROM: f64 = 0.05;

/// A run that lost this part of its CPU beside other jobs is marked.
const DISTURBED_FROM: f64 = 0.1;

/// The cost of a run in words, such as `cost 2.1 CPU-hours; 38% of them after its best value, 0.3285 at epoch 15`; `None` if it is not known.
/// `samples` are those of its whole time, in order.
pub(super) fn in_words(job: &JobRecord, samples: &[Sample]) -> Option<String> {
    let all = spent_from(0.0, samples)?;
    let lost = job.lost_cpu_s.filter(|lost| *lost >= TOLD_FROM * all.cpu_s);
    let lost = lost_in_words(lost).map(|lost| format!("; {lost} were lost beside other jobs"));
    Some(spent_in_words(job, samples, all) + &lost.unwrap_or_default())
}

/// How many times the CPU of its own turn a unit costs the job beside others, if its threads waste CPU.
pub(super) fn waste(job: &Container) -> Option<f64> {
    job.waste.filter(|factor| *factor > model::WASTEFUL)
}

/// CPU-seconds lost beside other jobs, if they are worth a number.
pub(super) fn lost_s(seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| *seconds >= 1.0)
}

/// The part of its CPU that a run lost beside other jobs, if it was so much that its speed says little about the training.
pub(super) fn disturbed(lost_s: Option<f64>, cpu_s: Option<f64>) -> Option<f64> {
    lost_s.zip(cpu_s).map(|(lost, all)| lost / all).filter(|part| part.is_finite() && *part >= DISTURBED_FROM)
}

/// The same in words, such as `3.4 CPU-minutes`.
pub(super) fn lost_in_words(seconds: Option<f64>) -> Option<String> {
    Some(time(lost_s(seconds)?, "CPU"))
}

fn spent_in_words(job: &JobRecord, samples: &[Sample], all: Spent) -> String {
    let gpus = all.gpu_s.filter(|seconds| *seconds > 0.0).map(|seconds| time(seconds, "GPU"));
    let parts: Vec<String> =
        [Some(time(all.cpu_s, "CPU")), gpus, energy_j(samples).map(energy)].into_iter().flatten().collect();
    let cost = match &parts[..] {
        [all_but_last @ .., last] if !all_but_last.is_empty() => format!("cost {} and {last}", all_but_last.join(", ")),
        parts => format!("cost {}", parts.concat()),
    };
    let Some((best, value, after)) = after_best(job, samples) else { return cost };
    let part = match (all.gpu_s, after.gpu_s) {
        (Some(all), Some(after)) if all > 0.0 => after / all,
        _ => after.cpu_s / all.cpu_s,
    };
    if !(TOLD_FROM..=1.0).contains(&part) {
        return cost;
    }
    let at = best
        .progress
        .zip(job.unit.as_ref())
        .map(|(progress, unit)| format!(" at {unit} {}", text::number_text(progress)));
    let (part, value) = (text::percent(part), text::number_text(value));
    format!("{cost}; {part} of it after its best value, {value}{}", at.unwrap_or_default())
}

/// The sample with the best value, this value, and what was spent from the first one with it on; `None` without a direction or values.
fn after_best<'a>(job: &JobRecord, samples: &'a [Sample]) -> Option<(&'a Sample, f64, Spent)> {
    let sign = if job.direction.as_deref()? == "up" { 1.0 } else { -1.0 };
    let score = |sample: &Sample| sample.value.filter(|value| value.is_finite()).map(|value| sign * value);
    let mut best: Option<(usize, f64)> = None;
    for (at, sample) in samples.iter().enumerate() {
        if let Some(score) = score(sample).filter(|score| best.is_none_or(|(_, best)| *score > best)) {
            best = Some((at, score));
        }
    }
    let (at, score) = best?;
    Some((&samples[at], sign * score, spent_from(samples[at].cpu_s?, &samples[at..])?))
}

/// What was spent in these samples, each of which holds until the next. CPU counts from `cpu_s` on.
fn spent_from(cpu_s: f64, samples: &[Sample]) -> Option<Spent> {
    let last = samples.iter().rev().find_map(|sample| sample.cpu_s)?;
    let seconds = |two: &[Sample]| two[1].unix_ms.saturating_sub(two[0].unix_ms) as f64 / 1000.0;
    let gpu = samples.windows(2).filter_map(|two| Some(two[0].gpus? * seconds(two)));
    Some(Spent { cpu_s: last - cpu_s, gpu_s: gpu.reduce(|one, other| one + other) })
}

/// The energy of a run in joules, as far as it was observed; `None` where the machine did not tell it. The counter begins again with each
/// daemon.
pub(super) fn energy_j(samples: &[Sample]) -> Option<f64> {
    let mut before = 0.0;
    let counters = samples.iter().filter_map(|sample| sample.energy_j);
    let used = counters.map(|now| {
        let earlier = std::mem::replace(&mut before, now);
        if now >= earlier { now - earlier } else { now }
    });
    used.reduce(|one, other| one + other)
}

/// Energy in the unit that reads best, such as `12 Wh`.
pub(super) fn energy(joules: f64) -> String {
    let (number, unit) = match joules {
        ..3.6e3 => (joules, "J"),
        3.6e3..3.6e6 => (joules / 3.6e3, "Wh"),
        _ => (joules / 3.6e6, "kWh"),
    };
    format!("{} {unit}", text::number_text(rounded(number)))
}

/// Two digits of a small number, and all of a large one.
fn rounded(number: f64) -> f64 {
    if number < 10.0 { (10.0 * number).round() / 10.0 } else { number.round() }
}

/// A time in the unit that reads best, such as `2.1 CPU-hours`.
fn time(seconds: f64, of: &str) -> String {
    let (number, unit) = match seconds {
        ..120.0 => (seconds, "second"),
        120.0..7200.0 => (seconds / 60.0, "minute"),
        _ => (seconds / 3600.0, "hour"),
    };
    let rounded = rounded(number);
    format!("{} {of}-{unit}{}", text::number_text(rounded), if rounded == 1.0 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job whose metric falls, with one value a minute, half a core and these GPUs.
    fn run(values: &[f64], gpus: Option<f64>) -> (JobRecord, Vec<Sample>) {
        let job = serde_json::json!({
            "number": 1, "id": "a", "short_id": "a", "name": "a", "runtime": "docker", "started_unix_ms": 0, "first_unix_ms": 0,
            "last_unix_ms": 0, "ended_unix_ms": null, "exit_code": null, "original_weight": null, "metric": "val_loss",
            "direction": "down", "unit": "epoch", "total": null, "latest": null, "end": null,
        });
        let job = serde_json::from_value(job).expect("a record");
        let sample = |(at, value): (usize, &f64)| Sample {
            unix_ms: 60_000 * (at as u64 + 1),
            cpu_s: Some(30.0 * (at + 1) as f64),
            value: Some(*value).filter(|value| value.is_finite()),
            progress: Some((at + 1) as f64),
            gpus,
            ..Sample::default()
        };
        (job, values.iter().enumerate().map(sample).collect())
    }

    fn words(values: &[f64], gpus: Option<f64>) -> Option<String> {
        let (job, samples) = run(values, gpus);
        in_words(&job, &samples)
    }

    #[test]
    fn what_was_spent_after_the_best_value_is_named() {
        let falling = [0.9, 0.5, 0.4, 0.3];
        assert_eq!(words(&falling, None).as_deref(), Some("cost 2 CPU-minutes"));
        let overfitted = [0.9, 0.3285, 0.4, 0.5, 0.6];
        let of_cpu = "cost 2.5 CPU-minutes; 60% of it after its best value, 0.3285 at epoch 2";
        assert_eq!(words(&overfitted, None).as_deref(), Some(of_cpu));
        let of_gpu = "cost 2.5 CPU-minutes and 8 GPU-minutes; 75% of it after its best value, 0.3285 at epoch 2";
        assert_eq!(words(&overfitted, Some(2.0)).as_deref(), Some(of_gpu));
        let broken = [0.9, 0.5, f64::NAN, f64::NAN, f64::NAN, f64::NAN];
        assert!(
            words(&broken, None).is_some_and(|words| words.ends_with("67% of it after its best value, 0.5 at epoch 2"))
        );
    }

    #[test]
    fn without_values_or_a_direction_only_the_cost_is_told() {
        assert_eq!(words(&[], None), None);
        assert_eq!(words(&[f64::NAN; 9], None).as_deref(), Some("cost 4.5 CPU-minutes"));
        let (job, samples) = run(&[0.9, 0.3, 0.4, 0.5], None);
        let unknown = JobRecord { direction: None, ..job };
        assert_eq!(in_words(&unknown, &samples).as_deref(), Some("cost 2 CPU-minutes"));
    }

    #[test]
    fn what_was_lost_beside_others_is_named_unless_it_is_little() {
        let (mut job, samples) = run(&[0.9, 0.5, 0.4, 0.3], None);
        let mut lost = |seconds| {
            job.lost_cpu_s = Some(seconds);
            in_words(&job, &samples)
        };
        assert_eq!(lost(60.0).as_deref(), Some("cost 2 CPU-minutes; 60 CPU-seconds were lost beside other jobs"));
        assert_eq!(lost(2.0).as_deref(), Some("cost 2 CPU-minutes"));
    }

    #[test]
    fn a_run_is_disturbed_if_it_lost_a_tenth_of_its_cpu() {
        assert_eq!(disturbed(Some(30.0), Some(120.0)), Some(0.25));
        let undisturbed = [(Some(11.0), Some(120.0)), (None, Some(120.0)), (Some(30.0), None), (Some(0.0), Some(0.0))];
        assert!(undisturbed.iter().all(|(lost, all)| disturbed(*lost, *all).is_none()));
    }

    #[test]
    fn times_have_the_unit_that_reads_best() {
        let shown = [9.04, 60.0, 600.0, 3600.0, 80_000.0].map(|seconds| time(seconds, "CPU"));
        assert_eq!(shown, ["9 CPU-seconds", "60 CPU-seconds", "10 CPU-minutes", "60 CPU-minutes", "22 CPU-hours"]);
    }

    #[test]
    fn energy_is_part_of_the_cost_where_the_machine_tells_it() {
        let (job, mut samples) = run(&[0.9, 0.5, 0.4, 0.3], Some(1.0));
        for (sample, joules) in samples.iter_mut().skip(1).zip([500.0, 4000.0, 1400.0]) {
            sample.energy_j = Some(joules);
        }
        assert_eq!(energy_j(&samples), Some(5400.0), "the daemon was restarted before the last");
        let words = in_words(&job, &samples);
        assert_eq!(words.as_deref(), Some("cost 2 CPU-minutes, 3 GPU-minutes and 1.5 Wh"));
        assert_eq!(energy_j(&run(&[0.9], None).1), None);
        assert_eq!([900.0, 3.6e5, 9e6].map(energy), ["900 J", "100 Wh", "2.5 kWh"]);
    }
}
