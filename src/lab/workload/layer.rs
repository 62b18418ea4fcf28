//! Building blocks of the networks: a dense layer, its activation, and softmax with cross-entropy.
//!
//! A layer has an offset into the model's flat vector of parameters; its gradient has the same offset.

use super::matrix::{Matrix, View, add_transposed_product, product, product_transposed};
use super::normal;
use rand_chacha::ChaCha8Rng;

/// y = x·W + b. The parameters hold W, `inputs × outputs`, followed by b.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dense {
    pub inputs: usize,
    pub outputs: usize,
    /// Offset of W in the model's parameters.
    pub offset: usize,
}

impl Dense {
    /// Creates consecutive layers of the given widths, starting at `offset`.
    pub(super) fn chain(widths: &[usize], mut offset: usize) -> Vec<Dense> {
        let mut layers = Vec::new();
        for pair in widths.windows(2) {
            let layer = Dense { inputs: pair[0], outputs: pair[1], offset };
            offset = layer.end();
            layers.push(layer);
        }
        layers
    }

    /// Offset of the first parameter after this layer.
    pub(super) fn end(&self) -> usize {
        self.offset + (self.inputs + 1) * self.outputs
    }

    /// Initialises the weights with normal deviates of variance `gain / inputs` (He et al. 2015 with gain 2), and the bias with zero.
    pub(super) fn start(&self, gain: f32, parameters: &mut [f32], rng: &mut ChaCha8Rng) {
        let scale = (gain / self.inputs as f32).sqrt();
        let (weights, bias) = parameters[self.offset..self.end()].split_at_mut(self.inputs * self.outputs);
        weights.iter_mut().for_each(|weight| *weight = scale * normal(rng));
        bias.fill(0.0);
    }

    fn weights<'a>(&self, parameters: &'a [f32]) -> View<'a> {
        let end = self.offset + self.inputs * self.outputs;
        View::new(self.inputs, self.outputs, &parameters[self.offset..end])
    }

    /// Computes the layer's output for each row of `x`.
    pub(super) fn forward(&self, parameters: &[f32], x: View<'_>) -> Matrix {
        let mut y = product(x, self.weights(parameters));
        let bias = &parameters[self.offset + self.inputs * self.outputs..self.end()];
        for row in 0..y.rows {
            y.row_mut(row).iter_mut().zip(bias).for_each(|(value, b)| *value += b);
        }
        y
    }

    /// Adds the gradient of W and b, given the slope `dy` at the output.
    pub(super) fn add_gradient(&self, x: View<'_>, dy: &Matrix, gradient: &mut [f32]) {
        let (weights, bias) = gradient[self.offset..self.end()].split_at_mut(self.inputs * self.outputs);
        add_transposed_product(x, dy.view(), weights);
        for row in 0..dy.rows {
            bias.iter_mut().zip(dy.row(row)).for_each(|(sum, slope)| *sum += slope);
        }
    }

    /// Computes the slope at the layer's input.
    pub(super) fn slope_at_input(&self, parameters: &[f32], dy: &Matrix) -> Matrix {
        product_transposed(dy.view(), self.weights(parameters))
    }
}

/// max(0, x).
pub(super) fn relu(x: Matrix) -> Matrix {
    x.map(|value| value.max(0.0))
}

/// The slope at the input of a rectifier, given the slope at its output and the output.
pub(super) fn relu_slope(mut dy: Matrix, y: &Matrix) -> Matrix {
    dy.values.iter_mut().zip(&y.values).for_each(|(slope, value)| {
        if *value <= 0.0 {
            *slope = 0.0;
        }
    });
    dy
}

/// 1 / (1 + e⁻ˣ).
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Replaces a row of logits by the slope of its cross-entropy (softmax − one-hot); returns the loss and whether the class was right.
pub(super) fn cross_entropy(logits: &mut [f32], class: usize) -> (f64, bool) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let right = logits[class] >= largest;
    let mut sum = 0.0;
    for logit in logits.iter_mut() {
        *logit = (*logit - largest).exp();
        sum += *logit;
    }
    logits.iter_mut().for_each(|value| *value /= sum);
    let loss = -f64::from(logits[class].max(1e-30)).ln();
    logits[class] -= 1.0;
    (loss, right)
}
