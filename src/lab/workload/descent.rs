//! Stochastic gradient descent over mini-batches with Adam (Kingma and Ba 2015), used by all models with a gradient.
//!
//! A batch is split into a fixed number of shards, whose gradients are added in order: the result does not depend on the number of
//! threads.

use super::worker_pool::with_workers;
use super::{Amount, Keeper, Snapshot, generator};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::io;
use std::sync::{Mutex, PoisonError, RwLock};

/// Number of shards of a batch.
const SHARDS: usize = 8;

/// Score of one or several batches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// Sum of the examples' losses.
    pub loss: f64,
    /// Number of right predictions, if the model classifies.
    pub right: usize,
    /// Number of predictions (an example may have several).
    pub predictions: usize,
}

impl Score {
    /// Mean loss of a prediction.
    pub(super) fn mean_loss(&self) -> f64 {
        self.loss / self.predictions.max(1) as f64
    }

    /// Fraction of right predictions.
    pub(super) fn accuracy(&self) -> f64 {
        self.right as f64 / self.predictions.max(1) as f64
    }

    pub(super) fn add(&mut self, other: Score) {
        self.loss += other.loss;
        self.right += other.right;
        self.predictions += other.predictions;
    }
}

/// A model with a differentiable loss. Parameters are one flat vector.
pub(super) trait Model: Sync {
    /// Number of training examples.
    fn examples(&self) -> usize;

    /// Draws the initial parameters.
    fn start(&self, rng: &mut ChaCha8Rng) -> Vec<f32>;

    /// Adds the gradient of the examples' summed loss to `gradient`, which is as long as `parameters`. `draw` is the seed of the random
    /// numbers of this step.
    fn score(&self, parameters: &[f32], examples: &[usize], draw: u64, gradient: &mut [f32]) -> Score;
}

/// Parameters of the descent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descent {
    pub batch: usize,
    pub learning_rate: f32,
}

/// State of a descent after a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct DescentState {
    /// Counts from 1.
    pub epoch: usize,
    /// Batches done in this epoch.
    pub batch: usize,
    /// Number of batches in an epoch.
    pub batches: usize,
    /// Batches done since the start.
    pub step: usize,
    /// Score of this batch.
    pub latest: Score,
    /// Score of this epoch so far.
    pub epoch_score: Score,
    /// Euclidean length of the mean gradient.
    pub gradient_norm: f32,
}

/// Descends for `amount.epochs` epochs. Calls `on_batch` after every batch and `keeper` after every epoch; an error from either ends
/// the descent. Returns the last epoch's mean loss.
pub(super) fn descend<M: Model>(
    model: &M,
    how: Descent,
    amount: Amount,
    keeper: &mut dyn Keeper,
    mut on_batch: impl FnMut(&DescentState) -> io::Result<()>,
) -> io::Result<f64> {
    let start = model.start(&mut generator(amount.seed, 1));
    let fresh =
        || Snapshot { epoch: 0, steps: 0, vectors: [start.clone(), vec![0.0; start.len()], vec![0.0; start.len()]] };
    let Snapshot { epoch: done, steps, vectors } = match keeper.resume()? {
        Some(kept) if kept.vectors[0].len() == start.len() => kept,
        Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "the snapshot belongs to another training")),
        None => fresh(),
    };
    let [parameters, mean, square] = vectors;
    let mut adam = Adam { mean, square, learning_rate: how.learning_rate, steps };
    let slots: Vec<Mutex<Slot>> = (0..SHARDS)
        .map(|_| Mutex::new(Slot { gradient: vec![0.0; parameters.len()], score: Score::default() }))
        .collect();
    let step = RwLock::new(Step { parameters, examples: Vec::new(), draw: 0 });

    let score_shard = |shard: usize| {
        let step = step.read().unwrap_or_else(PoisonError::into_inner);
        let mut slot = slots[shard].lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut *slot;
        slot.gradient.fill(0.0);
        slot.score = match step.shard(shard) {
            [] => Score::default(),
            examples => model.score(&step.parameters, examples, step.draw + shard as u64, &mut slot.gradient),
        };
    };

    with_workers(amount.threads, SHARDS, score_shard, |score_all_shards| {
        let mut order: Vec<usize> = (0..model.examples()).collect();
        let mut shuffler = generator(amount.seed, 2);
        let mut gradient = vec![0.0f32; adam.mean.len()];
        let batches = order.len().div_ceil(how.batch);
        let mut last = 0.0;
        let mut steps = done as usize * batches;
        for epoch in 1..=amount.epochs {
            order.shuffle(&mut shuffler);
            if epoch <= done as usize {
                continue;
            }
            let mut epoch_score = Score::default();
            for (batch, examples) in order.chunks(how.batch).enumerate() {
                step.write().unwrap_or_else(PoisonError::into_inner).next(examples, (steps * SHARDS) as u64);
                score_all_shards();
                let latest = gather(&slots, &mut gradient);
                let per_prediction = 1.0 / latest.predictions.max(1) as f32;
                gradient.iter_mut().for_each(|slope| *slope *= per_prediction);
                adam.update(&mut step.write().unwrap_or_else(PoisonError::into_inner).parameters, &gradient);
                steps += 1;
                epoch_score.add(latest);
                let gradient_norm = gradient.iter().map(|slope| slope * slope).sum::<f32>().sqrt();
                let batch = batch + 1;
                on_batch(&DescentState { epoch, batch, batches, step: steps, latest, epoch_score, gradient_norm })?;
            }
            last = epoch_score.mean_loss();
            let epoch = epoch as u32;
            keeper.epoch_done(epoch, &|| {
                let parameters = step.read().unwrap_or_else(PoisonError::into_inner).parameters.clone();
                Snapshot { epoch, steps: adam.steps, vectors: [parameters, adam.mean.clone(), adam.square.clone()] }
            })?;
        }
        Ok(last)
    })
}

struct Step {
    parameters: Vec<f32>,
    examples: Vec<usize>,
    draw: u64,
}

impl Step {
    fn next(&mut self, examples: &[usize], draw: u64) {
        self.examples.clear();
        self.examples.extend_from_slice(examples);
        self.draw = draw;
    }

    fn shard(&self, shard: usize) -> &[usize] {
        let at = |n: usize| n * self.examples.len() / SHARDS;
        &self.examples[at(shard)..at(shard + 1)]
    }
}

struct Slot {
    gradient: Vec<f32>,
    score: Score,
}

/// Sums the shards, always in the same order.
fn gather(slots: &[Mutex<Slot>], gradient: &mut [f32]) -> Score {
    gradient.fill(0.0);
    let mut score = Score::default();
    for slot in slots {
        let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        gradient.iter_mut().zip(&slot.gradient).for_each(|(sum, slope)| *sum += slope);
        score.add(slot.score);
    }
    score
}

/// Adam's moments, with the paper's constants.
struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    learning_rate: f32,
    steps: i32,
}

impl Adam {
    const MEAN_DECAY: f32 = 0.9;
    const SQUARE_DECAY: f32 = 0.999;

    fn update(&mut self, parameters: &mut [f32], gradient: &[f32]) {
        self.steps = self.steps.saturating_add(1);
        let mean_correction = 1.0 / (1.0 - Self::MEAN_DECAY.powi(self.steps));
        let square_correction = 1.0 / (1.0 - Self::SQUARE_DECAY.powi(self.steps));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, &slope), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments) {
            *mean += (1.0 - Self::MEAN_DECAY) * (slope - *mean);
            *square += (1.0 - Self::SQUARE_DECAY) * (slope * slope - *square);
            let spread = (*square * square_correction).sqrt() + 1e-8;
            *parameter -= self.learning_rate * *mean * mean_correction / spread;
        }
    }
}

/// Compares a model's gradient with central differences of its loss, for two hundred parameters whose gradient is not tiny. `reach` is the
/// step: small if it might cross a rectifier's kink (a few failures are tolerated), larger if rounding errors dominate.
#[cfg(test)]
pub(super) fn assert_gradient_is_right<M: Model>(model: &M, examples: &[usize], reach: f32) {
    let mut parameters = model.start(&mut generator(7, 1));
    parameters.iter_mut().for_each(|parameter| *parameter *= 2.0); // large enough that every gate has an effect
    let mut analytic = vec![0.0; parameters.len()];
    model.score(&parameters, examples, 3, &mut analytic);
    let steepest = analytic.iter().fold(0.0f32, |most, slope| most.max(slope.abs()));
    let mut checked: Vec<usize> = (0..analytic.len()).filter(|&n| analytic[n].abs() > 0.002 * steepest).collect();
    checked.shuffle(&mut generator(7, 9));
    checked.truncate(200);
    assert!(checked.len() > 50, "only {} parameters have a gradient", checked.len());
    let mut wrong = Vec::new();
    for &index in &checked {
        let here = parameters[index];
        let mut loss_at = |value: f32| {
            parameters[index] = value;
            model.score(&parameters, examples, 3, &mut vec![0.0; analytic.len()]).loss
        };
        let numeric = (loss_at(here + reach) - loss_at(here - reach)) / f64::from(2.0 * reach);
        parameters[index] = here;
        let expected = f64::from(analytic[index]);
        if (numeric - expected).abs() > 0.03 * expected.abs() + 0.0005 * f64::from(steepest) {
            wrong.push(format!("parameter {index}: numeric {numeric}, analytic {expected}"));
        }
    }
    assert!(wrong.len() <= checked.len() / 50, "{} of {}:\n{}", wrong.len(), checked.len(), wrong.join("\n"));
}
