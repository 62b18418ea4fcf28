//! How well the curve model predicts the 95 % point of real learning curves, and the cost of a fit.
//!
//! `cargo bench --bench curves -- FILE.csv` replays each curve of a CSV file with the columns `curve,units,value` (one header line, units
//! ascending). At 10, 25, 50 and 75 % of a run it takes the predicted units left until 95 % of the final improvement and compares them with
//! the true value: where the smoothed curve first crosses that point. Without a file it replays synthetic curves.

use flowcon::model::{Direction, Directives, Evaluation, Millis, Progress, ProgressUnit};
use flowcon::progress::Tracker;
use std::time::{Duration, Instant};

const PREFIXES: [f64; 4] = [0.10, 0.25, 0.50, 0.75];

struct RealCurve {
    name: String,
    points: Vec<(f64, f64)>,
}

impl RealCurve {
    fn direction(&self) -> Direction {
        let (first, last) = (self.points[0].1, self.points[self.points.len() - 1].1);
        if last < first { Direction::Down } else { Direction::Up }
    }

    fn total(&self) -> f64 {
        self.points[self.points.len() - 1].0
    }

    /// The units at which the curve first crosses 95 % of its final improvement, smoothed over a twentieth of the points.
    fn quality_at(&self) -> f64 {
        let window = (self.points.len() / 20).max(1);
        let smooth = |at: usize| {
            let from = at.saturating_sub(window / 2);
            let to = (at + window / 2 + 1).min(self.points.len());
            self.points[from..to].iter().map(|p| p.1).sum::<f64>() / (to - from) as f64
        };
        let first = self.points[0].1;
        let last = self.points[self.points.len() - window..].iter().map(|p| p.1).sum::<f64>() / window as f64;
        let target = first + 0.95 * (last - first);
        let direction = self.direction();
        let reached = |at: &usize| direction.improvement(target, smooth(*at)) >= 0.0;
        (0..self.points.len()).find(reached).map_or(self.total(), |at| self.points[at].0)
    }
}

/// The model's prediction of the 95 % point from one prefix, compared with the true value.
struct Prediction {
    log_error: f64,
    in_interval: bool,
}

fn replay(curve: &RealCurve, prefix: f64, with_total: bool, cost: &mut (Duration, u32)) -> Option<Prediction> {
    let directives = Directives { direction: Some(curve.direction()), ..Directives::default() };
    let mut tracker = Tracker::new(&directives);
    let total = with_total.then_some(curve.total());
    let prefix_points = curve.points.iter().take_while(|point| point.0 <= prefix * curve.total());
    let mut last = None;
    for (number, &(units, value)) in prefix_points.enumerate() {
        let at = Millis(1000 * number as u64);
        tracker.report(Progress { unit: ProgressUnit::Step, current: units, total, at });
        tracker.evaluate(Evaluation { at, value, current: Some(units), total });
        if number % 10 == 9 {
            let start = Instant::now();
            std::hint::black_box(tracker.close_interval(at));
            cost.0 += start.elapsed();
            cost.1 += 1;
        }
        last = Some((units, at));
    }
    let (units, at) = last?;
    let left = tracker.close_interval(at).curve?.units_to_quality?;
    let truth = curve.quality_at();
    if truth <= units {
        return None; // already past the point: nothing to predict
    }
    let predicted = units + left.likely;
    let in_interval = (units + left.low..=units + left.high).contains(&truth);
    Some(Prediction { log_error: (predicted / truth).ln().abs(), in_interval })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn read(path: &str) -> Vec<RealCurve> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}; expected a CSV file"));
    let mut curves: Vec<RealCurve> = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let parsed = match fields[..] {
            [name, units, value] => units.parse().ok().zip(value.parse().ok()).map(|point| (name, point)),
            _ => None,
        };
        let (name, point) =
            parsed.unwrap_or_else(|| panic!("{path}:{}: expected `curve,units,value`, found `{line}`", number + 1));
        match curves.last_mut() {
            Some(curve) if curve.name == name => curve.points.push(point),
            _ => curves.push(RealCurve { name: name.to_owned(), points: vec![point] }),
        }
    }
    curves
}

/// Exponential and power-law curves with deterministic noise.
fn synthetic_curves() -> Vec<RealCurve> {
    let noise = |n: usize| ((n * 7919 + 13) % 1009) as f64 / 1009.0 - 0.5;
    let exponential =
        |rate: f64| (1..=200).map(move |n| (n as f64, 0.2 + 2.0 * (-rate * n as f64 / 200.0).exp() + 0.05 * noise(n)));
    let power = |knee: f64| {
        (1..=200).map(move |n| (n as f64, 1.0 + 4.0 * (1.0 + n as f64 / knee).powf(-0.7) + 0.05 * noise(n)))
    };
    let exponentials = [4.0, 6.0, 9.0, 14.0].map(|rate| (format!("exponential {rate}"), exponential(rate).collect()));
    let powers = [2.0, 5.0, 10.0].map(|knee| (format!("power {knee}"), power(knee).collect()));
    exponentials.into_iter().chain(powers).map(|(name, points)| RealCurve { name, points }).collect()
}

fn main() {
    let path = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let curves = path.as_deref().map_or_else(synthetic_curves, read);
    let mut cost = (Duration::ZERO, 0);
    for (label, with_total) in [("total known", true), ("total unknown", false)] {
        for prefix in PREFIXES {
            let mut predictions = Vec::new();
            for curve in curves.iter().filter(|curve| curve.points.len() >= 20) {
                if let Some(prediction) = replay(curve, prefix, with_total, &mut cost) {
                    if std::env::var_os("EACH").is_some() {
                        println!("  {} {prefix}: {:.2} {}", curve.name, prediction.log_error, prediction.in_interval);
                    }
                    predictions.push(prediction);
                }
            }
            let count = predictions.len();
            let in_interval = predictions.iter().filter(|prediction| prediction.in_interval).count();
            let error = median(predictions.into_iter().map(|prediction| prediction.log_error).collect());
            println!(
                "{label}, after {:2.0} % of the run: median |ln(predicted/true)| of the 95 % point {error:.3}, \
                 in the 80 % interval {in_interval} of {count}",
                100.0 * prefix
            );
        }
    }
    println!(
        "closing one interval (fit and forecast): {:.1} µs",
        cost.0.as_secs_f64() * 1e6 / f64::from(cost.1.max(1))
    );
}
