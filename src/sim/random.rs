//! Seeded random numbers. All randomness of the simulator comes from a [`Stream`], so that one seed gives one schedule.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of random numbers that depends only on its seed and its number.
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Returns stream `number` of `seed`. Streams of one seed are independent of each other: drawing more from one does not change another.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(number);
        Stream(generator)
    }

    /// Draws uniformly from `low ..= high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// Draws log-uniformly from `low ..= high`, both positive.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    /// Draws uniformly from the integers `0 .. below`.
    pub fn below(&mut self, below: usize) -> usize {
        self.0.random_range(0..below)
    }

    /// Draws from the normal distribution with mean 0 and standard deviation 1 (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.random::<f64>()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, number| Stream::new(seed, number).uniform(0.0, 1.0);
        assert_eq!(draw(1, 1), draw(1, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_ne!(draw(1, 1), draw(2, 1));
    }

    #[test]
    fn normal_draws_have_mean_zero_and_deviation_one() {
        let mut stream = Stream::new(7, 0);
        let draws: Vec<f64> = (0..20_000).map(|_| stream.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "mean {mean}, variance {variance}");
    }
}
