//! The problem that `train` solves: targets are a noisy linear function of samples. Some directions are learnt a hundred times slower
//! than others, so that the loss falls until the last step.

/// Samples and targets, with the current weights of a training on the CPU.
pub struct Problem {
    /// Number of samples.
    pub rows: usize,
    /// Number of weights.
    pub columns: usize,
    /// Sample `s` of weight `c` is `samples[c * rows + s]`.
    pub samples: Vec<f32>,
    /// One target per sample.
    pub targets: Vec<f32>,
    weights: Vec<f32>,
}

impl Problem {
    /// Generates the problem of a seed.
    pub fn of(seed: u64, rows: usize, columns: usize) -> Problem {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut samples = Vec::with_capacity(rows * columns);
        for column in 0..columns {
            // From 1 down to 1/10. The square of the scale is the speed at which the weight is learnt.
            let scale = 10_f32.powf(-(column as f32) / columns as f32);
            samples.extend((0..rows).map(|_| scale * random.normal()));
        }
        let truth: Vec<f32> = (0..columns).map(|_| random.normal()).collect();
        let mut targets: Vec<f32> = (0..rows).map(|_| 0.1 * random.normal()).collect();
        for (column, weight) in samples.chunks_exact(rows).zip(&truth) {
            targets.iter_mut().zip(column).for_each(|(target, sample)| *target += weight * sample);
        }
        Problem { rows, columns, samples, targets, weights: vec![0.0; columns] }
    }

    /// Does one step of gradient descent, like the kernels.
    pub fn step(&mut self, rate: f32) {
        let errors = self.errors();
        for (weight, column) in self.weights.iter_mut().zip(self.samples.chunks_exact(self.rows)) {
            let slope: f32 = column.iter().zip(&errors).map(|(sample, error)| sample * error).sum();
            *weight -= rate * slope / self.rows as f32;
        }
    }

    /// Returns the mean squared error.
    pub fn loss(&self) -> f32 {
        self.errors().iter().map(|error| error * error).sum::<f32>() / self.rows as f32
    }

    fn errors(&self) -> Vec<f32> {
        let mut errors: Vec<f32> = self.targets.iter().map(|target| -target).collect();
        for (weight, column) in self.weights.iter().zip(self.samples.chunks_exact(self.rows)) {
            errors.iter_mut().zip(column).for_each(|(error, sample)| *error += weight * sample);
        }
        errors
    }
}

/// The random number generator xorshift64*.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f32 / (1 << 24) as f32
    }

    /// Approximately normal: a sum of twelve uniform numbers.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::Problem;

    #[test]
    fn the_loss_falls_until_the_last_step_and_stays_finite() {
        for steps in [200_u32, 800] {
            let mut problem = Problem::of(7, 512, 64);
            let rate = 60.0 / steps as f32;
            let mut losses = vec![problem.loss()];
            for _ in 0..10 {
                (0..steps / 10).for_each(|_| problem.step(rate));
                losses.push(problem.loss());
            }
            assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{losses:?}");
            assert!(losses[10] < 0.1 * losses[0], "{losses:?}");
        }
    }
}
