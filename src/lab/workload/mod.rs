//! Real trainings, small enough for any machine, for the demo, the benchmarks and the tests.
//!
//! Each generates its data from a seed, computes real gradients (or splits, or least squares) on the CPU, and prints its loss in
//! the format of a common framework. The amount of work is given in epochs and sizes, never in time, so the same numbers mean the
//! same computation on every machine, with any number of threads.

mod boosting;
mod cost;
mod descent;
mod digits;
mod factors;
mod gru;
mod layer;
mod matrix;
mod mlp;
mod sentences;
mod snapshot;
mod softmax;
mod vae;
mod worker_pool;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

pub(crate) use cost::{EpochCost, epoch_costs};
pub use snapshot::{Keeper, Snapshot};

/// A kind of training, with its log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A multi-layer perceptron that classifies drawn digits; prints like Keras (`Epoch 3/40`, `loss: … - accuracy: …`).
    Mlp,
    /// A variational auto-encoder of drawn digits; prints like the PyTorch examples (`Train Epoch: 3 [512/4096 (12%)]`).
    Vae,
    /// Gradient-boosted regression trees; prints like XGBoost (`[12]  train-rmse:0.53`), without a total.
    Boosting,
    /// A gated recurrent unit that predicts the next character; prints JSON lines.
    Gru,
    /// Softmax regression on overlapping clusters; prints like the Hugging Face Trainer (`{'loss': …, 'epoch': …}`).
    Softmax,
    /// Matrix factorisation by alternating least squares; prints `Iteration 3/50: rmse = …`.
    Factors,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [Kind::Mlp, Kind::Vae, Kind::Boosting, Kind::Gru, Kind::Softmax, Kind::Factors];

    /// The name accepted by [`Kind::from_str`].
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Mlp => "mlp",
            Kind::Vae => "vae",
            Kind::Boosting => "boosting",
            Kind::Gru => "gru",
            Kind::Softmax => "softmax",
            Kind::Factors => "factors",
        }
    }

    /// Whether it can resume from a [`Snapshot`].
    pub const fn resumes(self) -> bool {
        matches!(self, Kind::Mlp | Kind::Vae | Kind::Gru | Kind::Softmax)
    }

    /// Default number of examples, rows or ratings.
    pub const fn usual_size(self) -> usize {
        match self {
            Kind::Mlp | Kind::Vae => 2048,
            Kind::Boosting => 40_000,
            Kind::Gru => 512,
            Kind::Softmax => 8192,
            Kind::Factors => 60_000,
        }
    }

    /// Default number of epochs, rounds or iterations.
    pub const fn usual_epochs(self) -> usize {
        match self {
            Kind::Mlp | Kind::Vae | Kind::Gru => 40,
            Kind::Boosting => 200,
            Kind::Softmax => 60,
            Kind::Factors => 50,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown training {name:?}; expected one of {}", known.join(", "))
        })
    }
}

/// The amount of work of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Epochs, boosting rounds or iterations; at least 1.
    pub epochs: usize,
    /// Examples, table rows or ratings; at least 64.
    pub size: usize,
    /// Threads that share the computation; the result does not depend on it.
    pub threads: usize,
    /// Seed of the data, the starting point and the order of the examples.
    pub seed: u64,
}

impl Amount {
    /// The largest allowed number of threads.
    pub const THREADS_AT_MOST: u16 = 256;

    /// The default amount of a kind, on one thread.
    pub fn usual(kind: Kind) -> Amount {
        Amount { epochs: kind.usual_epochs(), size: kind.usual_size(), threads: 1, seed: 1 }
    }
}

/// Trains, writes one flushed line at a time to `log`, and returns the last loss.
///
/// # Errors
/// Writing to `log` fails.
pub fn train(kind: Kind, amount: Amount, log: &mut dyn Write) -> io::Result<f64> {
    train_kept(kind, amount, log, &mut snapshot::NoKeeper)
}

/// Like [`train`], but resumes from the snapshot of `keeper` and reports each epoch to it. Kinds that do not [resume](Kind::resumes)
/// ignore it.
///
/// # Errors
/// Writing to `log` fails, or `keeper` returns an error.
pub fn train_kept(kind: Kind, amount: Amount, log: &mut dyn Write, keeper: &mut dyn Keeper) -> io::Result<f64> {
    let amount =
        Amount { epochs: amount.epochs.max(1), size: amount.size.max(64), threads: amount.threads.max(1), ..amount };
    match kind {
        Kind::Mlp => mlp::train(amount, log, keeper),
        Kind::Vae => vae::train(amount, log, keeper),
        Kind::Boosting => boosting::train(amount, log),
        Kind::Gru => gru::train(amount, log, keeper),
        Kind::Softmax => softmax::train(amount, log, keeper),
        Kind::Factors => factors::train(amount, log),
    }
}

/// Writes a line and flushes it, so that a governor that reads the log sees it immediately.
fn print_line(log: &mut dyn Write, line: fmt::Arguments<'_>) -> io::Result<()> {
    log.write_fmt(line)?;
    log.write_all(b"\n")?;
    log.flush()
}

/// Creates a random generator for one purpose (`stream`), so that more data do not change the initial parameters.
fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// Draws a standard normal deviate (Box and Muller).
fn normal(rng: &mut ChaCha8Rng) -> f32 {
    let radius = (-2.0 * rng.random::<f32>().max(1e-12).ln()).sqrt();
    radius * (std::f32::consts::TAU * rng.random::<f32>()).cos()
}
