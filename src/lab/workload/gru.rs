//! A gated recurrent unit (Cho et al. 2014) that learns sentences letter by letter; prints JSON lines.
//!
//! Gradients are computed by back-propagation through the whole window.

use super::descent::{Descent, Model, Score, descend};
use super::layer::{Dense, cross_entropy, sigmoid};
use super::matrix::Matrix;
use super::sentences::{self, ALPHABET};
use super::{Amount, Keeper, print_line};
use rand_chacha::ChaCha8Rng;
use std::io::{self, Write};

const UNITS: usize = 64;
/// Number of predicted characters in a window.
const WINDOW: usize = 32;
/// Log lines per epoch.
const LINES_PER_EPOCH: usize = 2;

struct Gru {
    text: Vec<u8>,
    windows: usize,
    /// From a one-hot character to update, reset and candidate before activation, 3 × [`UNITS`].
    from_input: Dense,
    /// From the state to the same three.
    from_state: Dense,
    reader: Dense,
}

impl Gru {
    fn new(size: usize, seed: u64) -> Gru {
        let from_input = Dense { inputs: ALPHABET, outputs: 3 * UNITS, offset: 0 };
        let from_state = Dense { inputs: UNITS, outputs: 3 * UNITS, offset: from_input.end() };
        let reader = Dense { inputs: UNITS, outputs: ALPHABET, offset: from_state.end() };
        Gru { text: sentences::write(size * WINDOW + 1, seed), windows: size, from_input, from_state, reader }
    }

    fn character(&self, window: usize, at: usize) -> usize {
        usize::from(self.text[window * WINDOW + at])
    }

    /// One-hot rows of the windows' characters at position `at`.
    fn input(&self, windows: &[usize], at: usize) -> Matrix {
        let mut input = Matrix::zeros(windows.len(), ALPHABET);
        for (row, &window) in windows.iter().enumerate() {
            input.row_mut(row)[self.character(window, at)] = 1.0;
        }
        input
    }
}

/// Values of one time step that the backward pass needs.
struct TimeStep {
    input: Matrix,
    before: Matrix,
    /// z, r, n side by side.
    gates: Matrix,
    /// The state's contribution to the candidate, which is multiplied by the reset gate.
    recurrent: Matrix,
    after: Matrix,
}

/// z = σ(xz + hz), r = σ(xr + hr), n = tanh(xn + r·hn), h' = (1 − z)·n + z·h.
fn forward_step(from_input: Matrix, from_state: Matrix, input: Matrix, before: Matrix) -> TimeStep {
    let mut gates = from_input;
    let mut recurrent = Matrix::zeros(before.rows, UNITS);
    let mut after = Matrix::zeros(before.rows, UNITS);
    for row in 0..before.rows {
        let state_part = from_state.row(row);
        recurrent.row_mut(row).copy_from_slice(&state_part[2 * UNITS..]);
        let gate = gates.row_mut(row);
        let (next, old) = (after.row_mut(row), before.row(row));
        for unit in 0..UNITS {
            let update = sigmoid(gate[unit] + state_part[unit]);
            let reset = sigmoid(gate[UNITS + unit] + state_part[UNITS + unit]);
            let candidate = (gate[2 * UNITS + unit] + reset * state_part[2 * UNITS + unit]).tanh();
            (gate[unit], gate[UNITS + unit], gate[2 * UNITS + unit]) = (update, reset, candidate);
            next[unit] = (1.0 - update) * candidate + update * old[unit];
        }
    }
    TimeStep { input, before, gates, recurrent, after }
}

/// Slopes at the outputs of the two dense layers and, through the update gate, at the previous state.
struct Slopes {
    from_input: Matrix,
    from_state: Matrix,
    before: Matrix,
}

fn backward(step: &TimeStep, after: &Matrix) -> Slopes {
    let rows = after.rows;
    let mut slopes = Slopes {
        from_input: Matrix::zeros(rows, 3 * UNITS),
        from_state: Matrix::zeros(rows, 3 * UNITS),
        before: Matrix::zeros(rows, UNITS),
    };
    for row in 0..rows {
        let (gate, recurrent, old) = (step.gates.row(row), step.recurrent.row(row), step.before.row(row));
        let (from_input, from_state) = (slopes.from_input.row_mut(row), slopes.from_state.row_mut(row));
        let before = slopes.before.row_mut(row);
        for (unit, &slope) in after.row(row).iter().enumerate() {
            let (update, reset, candidate) = (gate[unit], gate[UNITS + unit], gate[2 * UNITS + unit]);
            let at_candidate = slope * (1.0 - update) * (1.0 - candidate * candidate);
            let at_update = slope * (old[unit] - candidate) * update * (1.0 - update);
            let at_reset = at_candidate * recurrent[unit] * reset * (1.0 - reset);
            (from_input[unit], from_state[unit]) = (at_update, at_update);
            (from_input[UNITS + unit], from_state[UNITS + unit]) = (at_reset, at_reset);
            from_input[2 * UNITS + unit] = at_candidate;
            from_state[2 * UNITS + unit] = at_candidate * reset;
            before[unit] = slope * update;
        }
    }
    slopes
}

fn add(into: &mut Matrix, other: &Matrix) {
    into.values.iter_mut().zip(&other.values).for_each(|(sum, value)| *sum += value);
}

impl Model for Gru {
    fn examples(&self) -> usize {
        self.windows
    }

    fn start(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        let mut parameters = vec![0.0; self.reader.end()];
        for layer in [self.from_input, self.from_state, self.reader] {
            layer.start(1.0, &mut parameters, rng);
        }
        parameters
    }

    fn score(&self, parameters: &[f32], windows: &[usize], _draw: u64, gradient: &mut [f32]) -> Score {
        let mut steps: Vec<TimeStep> = Vec::with_capacity(WINDOW);
        let mut state = Matrix::zeros(windows.len(), UNITS);
        for at in 0..WINDOW {
            let input = self.input(windows, at);
            let from_input = self.from_input.forward(parameters, input.view());
            let from_state = self.from_state.forward(parameters, state.view());
            let step = forward_step(from_input, from_state, input, state);
            state = step.after.clone();
            steps.push(step);
        }

        let mut score = Score { predictions: windows.len() * WINDOW, ..Score::default() };
        let mut slope = Matrix::zeros(windows.len(), UNITS);
        for (at, step) in steps.iter().enumerate().rev() {
            let mut letters = self.reader.forward(parameters, step.after.view());
            for (row, &window) in windows.iter().enumerate() {
                let (loss, right) = cross_entropy(letters.row_mut(row), self.character(window, at + 1));
                score.loss += loss;
                score.right += usize::from(right);
            }
            self.reader.add_gradient(step.after.view(), &letters, gradient);
            add(&mut slope, &self.reader.slope_at_input(parameters, &letters));

            let slopes = backward(step, &slope);
            self.from_input.add_gradient(step.input.view(), &slopes.from_input, gradient);
            self.from_state.add_gradient(step.before.view(), &slopes.from_state, gradient);
            slope = self.from_state.slope_at_input(parameters, &slopes.from_state);
            add(&mut slope, &slopes.before);
        }
        score
    }
}

/// Prints `{"step": 96, "total_steps": 1280, "loss": 1.234567, "accuracy": 0.6123}` twice an epoch.
pub(super) fn train(amount: Amount, log: &mut dyn Write, keeper: &mut dyn Keeper) -> io::Result<f64> {
    let model = Gru::new(amount.size, amount.seed);
    let mut since_line = Score::default();
    descend(&model, Descent { batch: 16, learning_rate: 7e-4 }, amount, keeper, |report| {
        since_line.add(report.latest);
        let every = report.batches.div_ceil(LINES_PER_EPOCH);
        if report.batch % every != 0 && report.batch != report.batches {
            return Ok(());
        }
        let score = std::mem::take(&mut since_line);
        let (step, steps) = (report.step, report.batches * amount.epochs);
        let (loss, accuracy) = (score.mean_loss(), score.accuracy());
        print_line(
            log,
            format_args!(r#"{{"step": {step}, "total_steps": {steps}, "loss": {loss:.6}, "accuracy": {accuracy:.4}}}"#),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::descent::assert_gradient_is_right;

    #[test]
    fn the_gradient_through_time_agrees_with_differences_of_the_loss() {
        assert_gradient_is_right(&Gru::new(64, 5), &[3], 1e-2);
    }
}
