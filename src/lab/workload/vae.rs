//! A variational auto-encoder of drawn digits (Kingma and Welling 2014); prints in the format of the PyTorch examples.
//!
//! The loss is the binary cross-entropy of the image plus the divergence of the code from a standard normal.

use super::descent::{Descent, Model, Score, descend};
use super::digits::{self, PIXELS};
use super::layer::{Dense, relu, relu_slope, sigmoid};
use super::matrix::Matrix;
use super::{Amount, Keeper, generator, normal, print_line};
use rand_chacha::ChaCha8Rng;
use std::io::{self, Write};

const HIDDEN: usize = 96;
const CODE: usize = 8;
/// Log lines per epoch, in addition to the average at its end.
const LINES_PER_EPOCH: usize = 4;

struct Vae {
    images: Matrix,
    encoder: Dense,
    /// Mean of the code, then the logarithm of its variance.
    coder: Dense,
    decoder: Dense,
    painter: Dense,
}

impl Vae {
    fn new(size: usize, seed: u64) -> Vae {
        let encoder = Dense { inputs: PIXELS, outputs: HIDDEN, offset: 0 };
        let coder = Dense { inputs: HIDDEN, outputs: 2 * CODE, offset: encoder.end() };
        let decoder = Dense { inputs: CODE, outputs: HIDDEN, offset: coder.end() };
        let painter = Dense { inputs: HIDDEN, outputs: PIXELS, offset: decoder.end() };
        Vae { images: digits::draw(size, seed).0, encoder, coder, decoder, painter }
    }
}

/// A drawn code with the noise, which the backward pass needs.
struct Code {
    values: Matrix,
    noise: Matrix,
}

/// The reparametrisation: code = mean + e^(log variance / 2) · noise.
fn draw_code(distribution: &Matrix, draw: u64) -> Code {
    let mut rng = generator(draw, 3);
    let mut noise = Matrix::zeros(distribution.rows, CODE);
    noise.values.iter_mut().for_each(|value| *value = normal(&mut rng));
    let mut values = Matrix::zeros(distribution.rows, CODE);
    for row in 0..values.rows {
        let (mean, log_variance) = distribution.row(row).split_at(CODE);
        for (unit, value) in values.row_mut(row).iter_mut().enumerate() {
            *value = mean[unit] + (0.5 * log_variance[unit]).exp() * noise.row(row)[unit];
        }
    }
    Code { values, noise }
}

/// Computes Σ −½(1 + log σ² − μ² − σ²) over the codes, and its slope added to the slope propagated back through the code.
fn divergence(distribution: &Matrix, code: &Code, code_slope: &Matrix) -> (f64, Matrix) {
    let mut slope = Matrix::zeros(distribution.rows, 2 * CODE);
    let mut total = 0.0;
    for row in 0..distribution.rows {
        let (mean, log_variance) = distribution.row(row).split_at(CODE);
        let (mean_slope, log_variance_slope) = slope.row_mut(row).split_at_mut(CODE);
        for unit in 0..CODE {
            let variance = log_variance[unit].exp();
            total -= 0.5 * f64::from(1.0 + log_variance[unit] - mean[unit] * mean[unit] - variance);
            let back = code_slope.row(row)[unit];
            mean_slope[unit] = back + mean[unit];
            log_variance_slope[unit] =
                back * 0.5 * variance.sqrt() * code.noise.row(row)[unit] + 0.5 * (variance - 1.0);
        }
    }
    (total, slope)
}

/// Replaces logits by the slope of the binary cross-entropy with `wanted` as target; returns the loss.
fn paint(logits: &mut [f32], wanted: &[f32]) -> f64 {
    let mut loss = 0.0;
    for (logit, &want) in logits.iter_mut().zip(wanted) {
        let x = *logit;
        loss += x.max(0.0) - x * want + (-x.abs()).exp().ln_1p();
        *logit = sigmoid(x) - want;
    }
    f64::from(loss)
}

impl Model for Vae {
    fn examples(&self) -> usize {
        self.images.rows
    }

    fn start(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        let mut parameters = vec![0.0; self.painter.end()];
        for (layer, gain) in [(self.encoder, 2.0), (self.coder, 0.5), (self.decoder, 2.0), (self.painter, 1.0)] {
            layer.start(gain, &mut parameters, rng);
        }
        parameters
    }

    fn score(&self, parameters: &[f32], examples: &[usize], draw: u64, gradient: &mut [f32]) -> Score {
        let mut input = Matrix::zeros(examples.len(), PIXELS);
        for (row, &example) in examples.iter().enumerate() {
            input.row_mut(row).copy_from_slice(self.images.row(example));
        }
        let encoded = relu(self.encoder.forward(parameters, input.view()));
        let distribution = self.coder.forward(parameters, encoded.view());
        let code = draw_code(&distribution, draw);
        let decoded = relu(self.decoder.forward(parameters, code.values.view()));
        let mut slope = self.painter.forward(parameters, decoded.view());
        let painting: f64 = (0..examples.len()).map(|row| paint(slope.row_mut(row), input.row(row))).sum();

        self.painter.add_gradient(decoded.view(), &slope, gradient);
        let slope = relu_slope(self.painter.slope_at_input(parameters, &slope), &decoded);
        self.decoder.add_gradient(code.values.view(), &slope, gradient);
        let (divergence, slope) = divergence(&distribution, &code, &self.decoder.slope_at_input(parameters, &slope));
        self.coder.add_gradient(encoded.view(), &slope, gradient);
        let slope = relu_slope(self.coder.slope_at_input(parameters, &slope), &encoded);
        self.encoder.add_gradient(input.view(), &slope, gradient);
        Score { loss: painting + divergence, right: 0, predictions: examples.len() }
    }
}

/// Prints `Train Epoch: 3 [512/2048 (25%)]\tLoss: 95.123456` a few times an epoch and the average at its end.
pub(super) fn train(amount: Amount, log: &mut dyn Write, keeper: &mut dyn Keeper) -> io::Result<f64> {
    let model = Vae::new(amount.size, amount.seed);
    let how = Descent { batch: 128, learning_rate: 1e-3 };
    descend(&model, how, amount, keeper, |report| {
        let every = report.batches.div_ceil(LINES_PER_EPOCH);
        let (epoch, loss) = (report.epoch, report.latest.mean_loss());
        if (report.batch - 1) % every == 0 {
            let (done, all) = ((report.batch - 1) * how.batch, amount.size);
            let percent = 100.0 * (report.batch - 1) as f64 / report.batches as f64;
            print_line(log, format_args!("Train Epoch: {epoch} [{done}/{all} ({percent:.0}%)]\tLoss: {loss:.6}"))?;
        }
        if report.batch == report.batches {
            print_line(log, format_args!("====> Epoch: {epoch} Average loss: {:.4}", report.epoch_score.mean_loss()))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::descent::assert_gradient_is_right;

    #[test]
    fn the_gradient_agrees_with_differences_of_the_loss() {
        let examples: Vec<usize> = (0..16).collect();
        assert_gradient_is_right(&Vae::new(64, 5), &examples, 1e-3);
    }

    #[test]
    fn the_slope_of_the_divergence_agrees_with_its_differences() {
        let mut rng = generator(2, 0);
        let mut distribution = Matrix::zeros(1, 2 * CODE);
        distribution.values.iter_mut().for_each(|value| *value = normal(&mut rng));
        let nothing_behind = Matrix::zeros(1, CODE);
        let total_of = |distribution: &Matrix| divergence(distribution, &draw_code(distribution, 1), &nothing_behind);
        let slope = total_of(&distribution).1;
        for unit in 0..2 * CODE {
            let mut moved = [distribution.clone(), distribution.clone()];
            moved[0].values[unit] += 1e-2;
            moved[1].values[unit] -= 1e-2;
            let numeric = (total_of(&moved[0]).0 - total_of(&moved[1]).0) / 2e-2;
            assert!((numeric - f64::from(slope.values[unit])).abs() < 2e-3, "{unit}: {numeric} {}", slope.values[unit]);
        }
    }
}
