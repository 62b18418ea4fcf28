//! Gains, phases and forecasts of the history for known curves.

use super::*;
use crate::{Curve, ProgressUnit};

const INTERVAL: u64 = 20_000;

/// Deterministic noise: uniform over −1 … 1 in an order without a pattern.
fn noise(n: u32) -> f64 {
    f64::from(n.wrapping_mul(7919) % 1009) / 504.5 - 1.0
}

/// A run that prints once per second, with an interval of 20 seconds.
struct Run {
    history: History,
    units: u32,
    total: Option<f64>,
}

impl Run {
    fn new(direction: Direction, total: Option<f64>) -> Self {
        Run { history: History::new(Some(direction)), units: 0, total }
    }

    fn print(&mut self, value: f64) {
        self.units += 1;
        let (at, current) = (Millis(u64::from(self.units) * 1000), f64::from(self.units));
        self.history.report(Progress { unit: ProgressUnit::Step, current, total: self.total, at });
        self.history.push(Evaluation { at, value, current: Some(current), total: self.total });
    }

    /// Prints twenty values of `curve` and closes the interval.
    fn interval(&mut self, curve: impl Fn(f64) -> f64) -> Learning {
        for _ in 0..20 {
            let value = curve(f64::from(self.units + 1));
            self.print(value);
        }
        self.history.close_interval(Millis(u64::from(self.units) * 1000))
    }
}

fn gain(learning: &Learning) -> f64 {
    learning.gain.expect("two intervals had evaluations").amount
}

fn curve(learning: &Learning) -> Curve {
    learning.curve.expect("a curve is known")
}

#[test]
fn the_gain_does_not_depend_on_the_scale_of_the_loss() {
    let gains = |from: f64, to: f64| -> Vec<f64> {
        let mut run = Run::new(Direction::Down, None);
        let falling = |x: f64| to + (from - to) * (-x / 60.0).exp();
        run.interval(falling);
        (0..4).map(|_| (gain(&run.interval(falling)) * 1e6).round() / 1e6).collect()
    };
    assert_eq!(gains(300.0, 290.0), gains(2.3, 0.1));
    assert!(gains(2.3, 0.1).windows(2).all(|pair| pair[1] < pair[0]), "the gains shrink");
}

#[test]
fn noise_is_no_gain() {
    let mut run = Run::new(Direction::Down, None);
    let flat = |x: f64| 1.0 + 0.05 * noise(x as u32);
    for _ in 0..5 {
        run.interval(flat);
    }
    for _ in 0..20 {
        let gain = gain(&run.interval(flat));
        assert!(gain.abs() < 0.02, "gain {gain} of pure noise");
    }
}

#[test]
fn a_gain_below_the_noise_of_one_interval_is_still_measured() {
    let mut run = Run::new(Direction::Down, None);
    let slow = |x: f64| 1.0 - 0.0005 * x + 0.1 * noise(x as u32);
    for _ in 0..10 {
        run.interval(slow);
    }
    let mean = (0..10).map(|_| gain(&run.interval(slow))).sum::<f64>() / 10.0;
    assert!(mean > 0.01, "twenty steps of 0.0005 in a range of about 0.3: {mean}");
}

#[test]
fn a_rising_loss_is_a_negative_gain_and_diverges() {
    let mut run = Run::new(Direction::Down, None);
    run.interval(|x| 2.0 - 0.02 * x);
    run.interval(|x| 2.0 - 0.02 * x);
    run.interval(|x| 1.2 + 0.05 * (x - 40.0));
    let learning = run.interval(|x| 1.2 + 0.05 * (x - 40.0));
    assert!(gain(&learning) < -0.1);
    assert_eq!(curve(&learning).phase, Phase::Diverging);
}

#[test]
fn values_that_are_not_finite_diverge_and_have_no_gain() {
    let mut run = Run::new(Direction::Down, None);
    run.interval(|x| 2.0 - 0.02 * x);
    let learning = run.interval(|_| f64::NAN);
    assert_eq!(learning.gain, None);
    assert_eq!(curve(&learning).phase, Phase::Diverging);
    assert!(learning.evaluations == 40 && run.history.recent().len() == 20);
}

#[test]
fn values_that_were_not_finite_are_known_once_they_are_over_unless_it_was_one() {
    let mut run = Run::new(Direction::Down, None);
    run.interval(|x| if x == 9.0 { f64::NAN } else { 2.0 - 0.02 * x });
    assert_eq!(run.history.peek(Millis(0)).was_not_finite, None, "a single one");
    let during = run.interval(|x| if (25.0..28.0).contains(&x) { f64::NAN } else { 1.0 });
    assert_eq!((during.not_finite, during.was_not_finite.map(|streak| streak.values)), (None, Some(3)));
    let learning = run.interval(|_| f64::NAN);
    assert_eq!(learning.was_not_finite, during.was_not_finite, "the present one is not over");
    assert_eq!(learning.not_finite.map(|streak| streak.values), Some(20));
}

#[test]
fn an_interval_without_evaluations_has_no_gain_and_the_next_gain_includes_it() {
    let mut run = Run::new(Direction::Down, None);
    run.interval(|x| 2.0 - 0.01 * x);
    assert_eq!(run.history.close_interval(Millis(2 * INTERVAL)).gain, None);
    run.units = 40;
    let gain = run.interval(|x| 2.0 - 0.01 * x).gain.expect("evaluations again");
    assert_eq!((gain.from, gain.to), (Millis(INTERVAL), Millis(3 * INTERVAL)));
}

/// Accuracy 0.526 → 0.545 over ten epochs, then 0.675 in one: the job seemed converged.
#[test]
fn a_job_improves_again_after_its_learning_rate_is_lowered() {
    let mut run = Run::new(Direction::Up, None);
    let before = |x: f64| 0.2 + 0.34 * (1.0 - (-x / 12.0).exp()) + 0.004 * noise(x as u32);
    let mut learning = run.interval(before);
    for _ in 0..8 {
        learning = run.interval(before);
    }
    assert_eq!(curve(&learning).phase, Phase::Plateau);
    assert!(curve(&learning).quality > 0.95);
    let after = |x: f64| 0.62 + 0.13 * (1.0 - (-(x - 180.0) / 30.0).exp()) + 0.004 * noise(x as u32);
    learning = run.interval(after);
    assert!(gain(&learning) > 0.1, "a jump is a gain at once");
    learning = run.interval(after);
    assert_eq!(curve(&learning).phase, Phase::Improving);
    assert!(curve(&learning).units_to_quality.is_some_and(|units| units.likely > 0.0));
}

#[test]
fn the_95_percent_point_of_a_known_curve_is_forecast() {
    for (rate, total) in [(5.0, 400.0), (10.0, 400.0), (5.0, 2000.0)] {
        let mut run = Run::new(Direction::Down, Some(total));
        let falling = |x: f64| 0.3 + 2.0 * (-rate * x / total).exp() + 0.02 * noise(x as u32);
        let end: f64 = 1.0 - (-rate).exp();
        let truth = -(1.0 - 0.95 * end).ln() / rate * total;
        while f64::from(run.units) < 0.5 * truth {
            run.interval(falling);
        }
        let learning = run.interval(falling);
        let units = curve(&learning).units_to_quality.expect("a forecast");
        let forecast = f64::from(run.units) + units.likely;
        assert!((forecast / truth).ln().abs() < 0.25, "rate {rate}: {forecast} for {truth}");
        assert!(units.low <= units.likely && units.likely <= units.high);
        assert_eq!(learning.units_to_completion.map(|left| left.likely), Some(total - f64::from(run.units)));
    }
}

#[test]
fn a_slow_logarithmic_curve_is_not_taken_for_converged() {
    let mut run = Run::new(Direction::Down, Some(1000.0));
    // 95 % of the improvement over 1,000 units is reached at 733.
    let slow = |x: f64| 3.0 - 0.3 * (1.0 + x / 2.0).ln() + 0.01 * noise(x as u32);
    for _ in 0..5 {
        let learning = run.interval(slow);
        let left = curve(&learning).units_to_quality.expect("a forecast");
        let at = f64::from(run.units) + left.likely;
        assert!((80.0..900.0).contains(&at) && left.high > 0.0, "at {}: {at}", run.units);
    }
}

#[test]
fn a_converged_run_stays_converged() {
    let mut run = Run::new(Direction::Down, Some(400.0));
    let falling = |x: f64| (-x / 30.0).exp() + 0.01 * noise(x as u32);
    let mut learning = run.interval(falling);
    while run.units < 300 {
        learning = run.interval(falling);
    }
    let curve = curve(&learning);
    assert!(curve.quality > 0.98 && curve.units_to_quality.is_some_and(|units| units.high == 0.0), "{curve:?}");
}

#[test]
fn a_gain_is_relative_to_the_range_seen_so_far() {
    let mut run = Run::new(Direction::Down, None);
    run.interval(|_| 3.0);
    let first = gain(&run.interval(|_| 2.0));
    assert!(first > 0.9, "nearly all of the range seen so far: the first value of a step counts as an outlier");
    let second = gain(&run.interval(|_| 1.5));
    assert!((second - 1.0 / 3.0).abs() < 0.1, "a third of the new range: {second}");
}

#[test]
fn a_counter_that_starts_again_begins_a_new_curve() {
    let mut run = Run::new(Direction::Down, Some(100.0));
    for _ in 0..4 {
        run.interval(|x| (-x / 15.0).exp());
    }
    run.units = 0;
    let learning = run.interval(|x| (-x / 15.0).exp());
    assert_eq!(learning.gain, None);
    assert!(curve(&learning).quality < 0.95);
}

#[test]
fn rate_and_units_to_completion_follow_the_counter() {
    let mut history = History::new(None);
    for step in 0..100u64 {
        let progress =
            Progress { unit: ProgressUnit::Step, current: step as f64, total: Some(200.0), at: Millis(step * 500) };
        history.report(progress);
    }
    let learning = history.peek(Millis(49_500));
    assert_eq!(learning.units_per_second, Some(2.0));
    assert_eq!(learning.units_to_completion.map(|left| left.likely), Some(101.0));
    let stalled = history.peek(Millis(109_500)).units_per_second.expect("a rate");
    assert!(stalled < 0.5, "a report that is a minute late lowers the rate: {stalled}");
}

#[test]
fn a_total_below_the_counter_is_ignored() {
    let mut history = History::new(None);
    let progress = |total| Progress { unit: ProgressUnit::Step, current: 50.0, total: Some(total), at: Millis(1) };
    for total in [10.0, -3.0, f64::NAN, f64::INFINITY] {
        history.report(progress(total));
        assert_eq!(history.peek(Millis(1)).units_to_completion, None);
    }
}

#[test]
fn a_history_continues_from_its_checkpoint() {
    let mut run = Run::new(Direction::Down, Some(500.0));
    let falling = |x: f64| 1.0 + (-x / 60.0).exp() + 0.01 * noise(x as u32);
    for _ in 0..4 {
        run.interval(falling);
    }
    let text = serde_json::to_string(&run.history).expect("serialisable");
    assert!(text.len() < 16 * 1024, "{} bytes", text.len());
    let mut resumed =
        Run { history: serde_json::from_str(&text).expect("the same"), ..Run::new(Direction::Down, Some(500.0)) };
    resumed.units = run.units;
    assert_eq!(resumed.interval(falling), run.interval(falling));
}

/// The prior run of `units` steps along `curve`.
fn prior_runs(units: u32, curve: impl Fn(f64) -> f64) -> Vec<Arc<PriorRun>> {
    let mut run = Run::new(Direction::Down, Some(f64::from(units)));
    (0..units / 20).for_each(|_| drop(run.interval(&curve)));
    vec![Arc::new(run.history.prior_run().expect("it improved").with_total_cost(2.0 * f64::from(units)))]
}

/// A curve that falls by half, is flat, and falls again after step 300. It reaches 95 % of the improvement at about step 347.
fn in_two_steps(x: f64) -> f64 {
    let noise = 0.01 * noise(x as u32);
    if x < 300.0 { 1.0 + (-x / 20.0).exp() + noise } else { (-(x - 300.0) / 20.0).exp() + noise }
}

#[test]
fn a_drop_in_the_last_run_is_forecast_for_this_one() {
    let mut informed = Run::new(Direction::Down, Some(400.0));
    informed.history.use_prior_runs(prior_runs(400, |x| in_two_steps(x) * 3.0));
    let mut alone = Run::new(Direction::Down, Some(400.0));
    for seen in [60.0, 120.0, 240.0] {
        let both = loop {
            let both = [informed.interval(in_two_steps), alone.interval(in_two_steps)];
            if f64::from(informed.units) >= seen {
                break both;
            }
        };
        let [informed_at, alone_at] =
            both.map(|learning| seen + curve(&learning).units_to_quality.expect("fitted").likely);
        assert!((300.0..390.0).contains(&informed_at), "at {seen}: {informed_at}");
        assert!(alone_at < 300.0, "at {seen}, a formula cannot know: {alone_at}");
    }
    let learning = informed.history.peek(Millis(0));
    assert_eq!((learning.prior_runs, learning.prior_cost_per_unit), (1, Some(2.0)));
}

#[test]
fn the_values_of_a_run_override_the_curve_of_the_last_run() {
    let (quick, slow) = (|x: f64| (-x / 10.0).exp(), |x: f64| 5.0 * (-x / 120.0).exp());
    let mut run = Run::new(Direction::Down, Some(800.0));
    run.history.use_prior_runs(prior_runs(800, |x| quick(x) + 0.002 * noise(x as u32)));
    let learning = (0..5).map(|_| run.interval(|x| slow(x) + 0.01 * noise(x as u32))).last().expect("five");
    let at = 100.0 + curve(&learning).units_to_quality.expect("fitted").likely;
    assert!((250.0..480.0).contains(&at), "95 % is at 360, and was at 30 in the last run: {at}");
}

#[test]
fn before_the_first_line_the_last_run_gives_the_forecast() {
    let mut history = History::new(None);
    assert_eq!(history.peek(Millis(0)), Learning::default());
    history.use_prior_runs(prior_runs(400, in_two_steps));
    let learning = history.peek(Millis(0));
    assert_eq!(learning.units_to_completion.expect("a forecast").likely, 400.0);
    let at = curve(&learning).units_to_quality.expect("a forecast").likely;
    assert!((300.0..390.0).contains(&at), "{at}");
    assert_eq!((learning.prior_runs, learning.prior_cost_per_unit), (1, Some(2.0)));

    // Another unit: no prior run is comparable.
    history.report(Progress { unit: ProgressUnit::Epoch, current: 1.0, total: Some(9.0), at: Millis(0) });
    let learning = history.peek(Millis(0));
    assert_eq!((learning.prior_runs, learning.units_to_completion.expect("a total").likely), (0, 8.0));
}

#[test]
fn a_short_trial_does_not_affect_the_forecast_of_a_long_run() {
    let slow = |x: f64| (-x / 300.0).exp() + 0.001 * noise(x as u32);
    let mut run = Run::new(Direction::Down, Some(2000.0));
    run.history.use_prior_runs(prior_runs(40, slow));
    let learning = (0..10).map(|_| run.interval(slow)).last().expect("ten");
    let at = 200.0 + curve(&learning).units_to_quality.expect("fitted").likely;
    assert!((600.0..1300.0).contains(&at), "95 % is at 898: {at}");
}
