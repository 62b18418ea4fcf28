//! Prior runs of each training, for the forecasts of new runs.

use super::job::Job;
use model::{Millis, TrainingId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::{PRIOR_RUNS_KEPT, RUNS_KEPT};
use traininglog::PriorRun;

/// A run that ended before this share of its announced total is not a prior run: its curve is cut off.
const WHOLE: f64 = 0.9;

/// The known prior runs, by training. Bounded as the store is.
#[derive(Default)]
pub(super) struct Library {
    /// Latest last.
    runs: BTreeMap<TrainingId, VecDeque<Arc<PriorRun>>>,
    /// Trainings in the order in which their runs were added.
    order: VecDeque<TrainingId>,
}

impl Library {
    /// Loads the stored runs, given oldest first. Runs that cannot be read are left out.
    pub(crate) fn of(stored: Vec<(TrainingId, String)>) -> Library {
        let mut library = Library::default();
        for (training, curve) in stored {
            if let Some(prior_run) = serde_json::from_str(&curve).ok().filter(PriorRun::is_valid) {
                library.add(training, prior_run);
            }
        }
        library
    }

    /// Returns the prior runs of a training.
    pub(crate) fn runs_of(&self, training: TrainingId) -> Vec<Arc<PriorRun>> {
        self.runs.get(&training).into_iter().flatten().cloned().collect()
    }

    /// Adds the curve of a job that completed and was not just stopped. Returns it in the form to be stored.
    pub(crate) fn learn_from(
        &mut self,
        job: &Job,
        exit_code: Option<i32>,
        now: Millis,
    ) -> Option<(TrainingId, String)> {
        let progress = job.tracker.peek(now).progress;
        let is_whole = match progress.and_then(|progress| Some(progress.current / progress.total?)) {
            Some(part) => part >= WHOLE,
            None => exit_code == Some(0),
        };
        let (training, prior_run) = job.training.zip(job.tracker.prior_run().filter(|_| is_whole))?;
        let prior_run = match (job.cost_per_unit_of_moved(), job.usage.cpu) {
            // The CPU that it used here was only for part of its units.
            (Some(cost), _) => prior_run.with_cost_per_unit(cost),
            (None, Some(cpu)) => prior_run.with_total_cost(cpu.as_secs_f64()),
            (None, None) => prior_run,
        };
        let curve = serde_json::to_string(&prior_run).ok();
        self.add(training, prior_run);
        Some((training, curve?))
    }

    fn add(&mut self, training: TrainingId, prior_run: PriorRun) {
        self.runs.entry(training).or_default().push_back(Arc::new(prior_run));
        self.order.push_back(training);
        if self.runs.get(&training).is_some_and(|runs| runs.len() > RUNS_KEPT) {
            self.drop_oldest(training);
        }
        if self.order.len() > PRIOR_RUNS_KEPT
            && let Some(oldest) = self.order.front().copied()
        {
            self.drop_oldest(oldest);
        }
    }

    fn drop_oldest(&mut self, training: TrainingId) {
        if let Some(at) = self.order.iter().position(|known| *known == training) {
            self.order.remove(at);
        }
        if let Some(runs) = self.runs.get_mut(&training) {
            runs.pop_front();
            if runs.is_empty() {
                self.runs.remove(&training);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Direction, Evaluation, Hints, Millis};
    use traininglog::Tracker;

    fn prior_run(rate: f64) -> PriorRun {
        let mut tracker = Tracker::new(&Hints { direction: Some(Direction::Down), ..Hints::default() });
        for n in 0..50u32 {
            let value = (-rate * f64::from(n)).exp();
            tracker.evaluate(Evaluation { at: Millis(n.into()), value, current: None, total: None });
        }
        tracker.prior_run().expect("it improved")
    }

    fn training(number: usize) -> TrainingId {
        let name = ["a", "b", "c"][number % 3].repeat(1 + number / 3);
        TrainingId::of([name.as_str()])
    }

    #[test]
    fn the_latest_runs_of_a_training_are_kept() {
        let mut library = Library::default();
        (1..=10).for_each(|n| library.add(training(0), prior_run(0.05 * f64::from(n))));
        let kept: Vec<PriorRun> = library.runs_of(training(0)).iter().map(|run| run.as_ref().clone()).collect();
        assert_eq!(kept, [7, 8, 9, 10].map(|n| prior_run(0.05 * f64::from(n))));
        assert!(library.runs_of(training(1)).is_empty());
    }

    #[test]
    fn the_oldest_trainings_are_dropped_first() {
        let mut library = Library::default();
        (0..PRIOR_RUNS_KEPT + 3).for_each(|n| library.add(training(n), prior_run(0.1)));
        assert_eq!(library.runs.len(), PRIOR_RUNS_KEPT);
        assert!(library.runs_of(training(2)).is_empty() && library.runs_of(training(3)).len() == 1);
    }

    #[test]
    fn damaged_rows_are_left_out() {
        let good = serde_json::to_string(&prior_run(0.1)).expect("numbers");
        let bad = good.replacen("[1.0,0.0]", "[1.0,7.0]", 1);
        assert_ne!(good, bad, "{good}");
        let library = Library::of(vec![(training(0), "{".to_owned()), (training(1), bad), (training(2), good)]);
        assert_eq!([0, 1, 2].map(|n| library.runs_of(training(n)).len()), [0, 0, 1]);
    }
}
