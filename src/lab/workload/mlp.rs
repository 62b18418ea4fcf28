//! A multi-layer perceptron that classifies drawn digits; prints in the format of Keras with `verbose=2`.

use super::descent::{Descent, Model, Score, descend};
use super::digits::{self, CLASSES, PIXELS};
use super::layer::{Dense, cross_entropy, relu, relu_slope};
use super::matrix::Matrix;
use super::{Amount, Keeper, print_line};
use rand_chacha::ChaCha8Rng;
use std::io::{self, Write};
use std::time::Instant;

const WIDTHS: [usize; 4] = [PIXELS, 96, 48, CLASSES];

struct Mlp {
    images: Matrix,
    classes: Vec<usize>,
    layers: Vec<Dense>,
}

impl Mlp {
    fn new(size: usize, seed: u64) -> Mlp {
        let (images, classes) = digits::draw(size, seed);
        Mlp { images, classes, layers: Dense::chain(&WIDTHS, 0) }
    }
}

impl Model for Mlp {
    fn examples(&self) -> usize {
        self.classes.len()
    }

    fn start(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        let mut parameters = vec![0.0; self.layers[self.layers.len() - 1].end()];
        self.layers.iter().for_each(|layer| layer.start(2.0, &mut parameters, rng));
        parameters
    }

    fn score(&self, parameters: &[f32], examples: &[usize], _draw: u64, gradient: &mut [f32]) -> Score {
        let mut input = Matrix::zeros(examples.len(), PIXELS);
        for (row, &example) in examples.iter().enumerate() {
            input.row_mut(row).copy_from_slice(self.images.row(example));
        }
        let last = self.layers.len() - 1;
        let mut values = vec![input];
        for (depth, layer) in self.layers.iter().enumerate() {
            let output = layer.forward(parameters, values[depth].view());
            values.push(if depth == last { output } else { relu(output) });
        }

        let mut slope = values.pop().unwrap_or_else(|| Matrix::zeros(0, CLASSES));
        let mut score = Score { predictions: examples.len(), ..Score::default() };
        for (row, &example) in examples.iter().enumerate() {
            let (loss, right) = cross_entropy(slope.row_mut(row), self.classes[example]);
            score.loss += loss;
            score.right += usize::from(right);
        }
        for (depth, layer) in self.layers.iter().enumerate().rev() {
            layer.add_gradient(values[depth].view(), &slope, gradient);
            if depth > 0 {
                slope = relu_slope(layer.slope_at_input(parameters, &slope), &values[depth]);
            }
        }
        score
    }
}

/// Prints `Epoch 3/40` and `64/64 - 1s - loss: 0.4417 - accuracy: 0.8613` for each epoch.
pub(super) fn train(amount: Amount, log: &mut dyn Write, keeper: &mut dyn Keeper) -> io::Result<f64> {
    let model = Mlp::new(amount.size, amount.seed);
    let mut epoch_began = Instant::now();
    descend(&model, Descent { batch: 128, learning_rate: 1.5e-4 }, amount, keeper, |report| {
        if report.batch == 1 {
            epoch_began = Instant::now();
            print_line(log, format_args!("Epoch {}/{}", report.epoch, amount.epochs))?;
        }
        if report.batch < report.batches {
            return Ok(());
        }
        let score = report.epoch_score;
        let (done, all, took) = (report.batch, report.batches, epoch_began.elapsed().as_secs());
        let (loss, accuracy) = (score.mean_loss(), score.accuracy());
        print_line(log, format_args!("{done}/{all} - {took}s - loss: {loss:.4} - accuracy: {accuracy:.4}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::descent::assert_gradient_is_right;

    #[test]
    fn the_gradient_agrees_with_differences_of_the_loss() {
        let examples: Vec<usize> = (0..16).collect();
        assert_gradient_is_right(&Mlp::new(64, 5), &examples, 1e-3);
    }
}
