//! Random numbers that depend only on a seed and a stream number.
//!
//! SplitMix64 (G. Steele, D. Lea, C. Flood, 2014), implemented here so that a seed gives the same plans with all versions of libraries.

/// A stream of random numbers.
pub(crate) struct Draw(u64);

impl Draw {
    /// Creates stream `number` of `seed`.
    pub(crate) fn new(seed: u64, number: u64) -> Draw {
        let mut draw = Draw(seed);
        let mixed = draw.next();
        Draw(mixed ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number uniformly from [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws an index with a probability proportional to its weight. Weights must not be negative.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.uniform() * weights.iter().sum::<f64>();
        for (at, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return at;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let first = |seed, number| Draw::new(seed, number).uniform();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }

    #[test]
    fn indexes_are_drawn_in_proportion_to_their_weights() {
        let mut draw = Draw::new(5, 0);
        let mut counts = [0_u32; 3];
        for _ in 0..10_000 {
            counts[draw.weighted(&[1.0, 0.0, 3.0])] += 1;
        }
        assert!(counts[1] == 0 && (2_300..2_700).contains(&counts[0]), "{counts:?}");
    }
}
