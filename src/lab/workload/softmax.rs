//! Softmax regression on overlapping clusters; prints in the format of the Hugging Face Trainer.

use super::descent::{Descent, Model, Score, descend};
use super::layer::{Dense, cross_entropy};
use super::matrix::Matrix;
use super::{Amount, Keeper, generator, normal, print_line};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::io::{self, Write};

const FEATURES: usize = 96;
const CLASSES: usize = 24;
/// Log lines per epoch, as with the Trainer's `logging_steps`.
const LINES_PER_EPOCH: usize = 2;

struct Softmax {
    points: Matrix,
    classes: Vec<usize>,
    layer: Dense,
}

impl Softmax {
    fn new(size: usize, seed: u64) -> Softmax {
        let mut rng = generator(seed, 0);
        let mut centres = Matrix::zeros(CLASSES, FEATURES);
        centres.values.iter_mut().for_each(|value| *value = 0.33 * normal(&mut rng));
        let classes: Vec<usize> = (0..size).map(|_| rng.random_range(0..CLASSES)).collect();
        let mut points = Matrix::zeros(size, FEATURES);
        for (row, &class) in classes.iter().enumerate() {
            let centre = centres.row(class);
            points.row_mut(row).iter_mut().zip(centre).for_each(|(x, c)| *x = c + normal(&mut rng));
        }
        Softmax { points, classes, layer: Dense { inputs: FEATURES, outputs: CLASSES, offset: 0 } }
    }
}

impl Model for Softmax {
    fn examples(&self) -> usize {
        self.classes.len()
    }

    fn start(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        let mut parameters = vec![0.0; self.layer.end()];
        self.layer.start(0.1, &mut parameters, rng);
        parameters
    }

    fn score(&self, parameters: &[f32], examples: &[usize], _draw: u64, gradient: &mut [f32]) -> Score {
        let mut input = Matrix::zeros(examples.len(), FEATURES);
        for (row, &example) in examples.iter().enumerate() {
            input.row_mut(row).copy_from_slice(self.points.row(example));
        }
        let mut slope = self.layer.forward(parameters, input.view());
        let mut score = Score { predictions: examples.len(), ..Score::default() };
        for (row, &example) in examples.iter().enumerate() {
            let (loss, right) = cross_entropy(slope.row_mut(row), self.classes[example]);
            score.loss += loss;
            score.right += usize::from(right);
        }
        self.layer.add_gradient(input.view(), &slope, gradient);
        score
    }
}

/// Prints `{'loss': 1.2345, 'grad_norm': 0.56, 'learning_rate': 0.002, 'epoch': 1.5}` twice an epoch.
pub(super) fn train(amount: Amount, log: &mut dyn Write, keeper: &mut dyn Keeper) -> io::Result<f64> {
    let model = Softmax::new(amount.size, amount.seed);
    let how = Descent { batch: 256, learning_rate: 6e-5 };
    let (mut loss, mut batches) = (0.0, 0);
    descend(&model, how, amount, keeper, |report| {
        loss += report.latest.mean_loss();
        batches += 1;
        let every = report.batches.div_ceil(LINES_PER_EPOCH);
        if report.batch % every != 0 && report.batch != report.batches {
            return Ok(());
        }
        let mean = std::mem::take(&mut loss) / std::mem::take(&mut batches) as f64;
        let epoch = report.step as f64 / report.batches as f64;
        let (norm, rate) = (report.gradient_norm, how.learning_rate);
        print_line(
            log,
            format_args!("{{'loss': {mean:.4}, 'grad_norm': {norm:.4}, 'learning_rate': {rate}, 'epoch': {epoch:.2}}}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::descent::assert_gradient_is_right;

    #[test]
    fn the_gradient_agrees_with_differences_of_the_loss() {
        let examples: Vec<usize> = (0..32).collect();
        assert_gradient_is_right(&Softmax::new(64, 5), &examples, 1e-2);
    }
}
