//! What earlier runs of the same training looked like, for the forecasts of those that begin.
//!
//! Imports: the actuator, host's clock and store, progress, model.

use super::actuator::Order;
use super::governing::Governing;
use super::job::Job;
use crate::host::node;
use crate::host::store::{PRECEDENTS_KEPT, RUNS_KEPT};
use crate::model::{ContainerId, Millis, TrainingId};
use crate::progress::Precedent;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A run that ended before this part of what it said it would do is no precedent: its curve was cut.
const WHOLE: f64 = 0.9;

/// The last lines of a job that ended are read by then.
const READ_ON: Millis = Millis::from_secs(3);

/// A job that ended a moment ago: its log is read to its end, then it has taught what it can.
pub(super) struct Departed {
    pub job: Box<Job>,
    exit_code: Option<i32>,
    until: Millis,
}

/// The curves that are known, by training. Bounded as the store is.
#[derive(Default)]
pub(super) struct Library {
    /// The latest last.
    runs: BTreeMap<TrainingId, VecDeque<Arc<Precedent>>>,
    /// In the order of their coming.
    order: VecDeque<TrainingId>,
}

impl Library {
    /// From what was stored, the oldest first. What cannot be read is left out.
    pub fn of(stored: Vec<(TrainingId, String)>) -> Library {
        let mut library = Library::default();
        for (training, curve) in stored {
            if let Some(precedent) = serde_json::from_str(&curve).ok().filter(Precedent::is_sound) {
                library.add(training, precedent);
            }
        }
        library
    }

    /// Earlier runs of this training.
    pub fn runs_of(&self, training: TrainingId) -> Vec<Arc<Precedent>> {
        self.runs.get(&training).into_iter().flatten().cloned().collect()
    }

    fn add(&mut self, training: TrainingId, precedent: Precedent) {
        self.runs.entry(training).or_default().push_back(Arc::new(precedent));
        self.order.push_back(training);
        if self.runs.get(&training).is_some_and(|runs| runs.len() > RUNS_KEPT) {
            self.drop_oldest(training);
        }
        if self.order.len() > PRECEDENTS_KEPT
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

impl Governing {
    /// What is done every second.
    pub(super) fn learn_and_save(&mut self, now: Millis) {
        self.learn_from_departed(|_, departed| now >= departed.until);
        self.save_due_positions(now);
        self.ask_for_claims(now);
        self.supervise_logs();
    }

    /// The job whose log this is, also for a moment after its end.
    pub(super) fn job_that_wrote(&mut self, id: &ContainerId) -> Option<&mut Job> {
        let departed = &mut self.departed;
        self.jobs.get_mut(id).or_else(|| Some(&mut departed.get_mut(id)?.job)).map(Box::as_mut)
    }

    /// Reads on in the log of a job that ended.
    pub(super) fn depart(&mut self, job: Box<Job>, exit_code: Option<i32>) {
        let until = node::now().after(READ_ON);
        self.departed.insert(job.id().clone(), Departed { job, exit_code, until });
    }

    /// Has done with those for which it is time.
    pub(super) fn learn_from_departed(&mut self, is_time: impl Fn(&ContainerId, &Departed) -> bool) {
        let is_time = |(id, departed): (&ContainerId, &Departed)| is_time(id, departed).then(|| id.clone());
        for id in self.departed.iter().filter_map(is_time).collect::<Vec<_>>() {
            let Some(Departed { job, exit_code, .. }) = self.departed.remove(&id) else { continue };
            self.logs.unfollow(&id);
            self.ended.read_on(&job);
            self.learn_from(&job, exit_code);
        }
    }

    /// Keeps the curve of a job that ended, if it came to its end and not just to a stop.
    fn learn_from(&mut self, job: &Job, exit_code: Option<i32>) {
        let progress = job.tracker.peek(node::now()).progress;
        let is_whole = match progress.and_then(|progress| Some(progress.current / progress.total?)) {
            Some(part) => part >= WHOLE,
            None => exit_code == Some(0),
        };
        let Some((training, precedent)) = job.training.zip(job.tracker.precedent().filter(|_| is_whole)) else {
            return;
        };
        let precedent = match job.usage.cpu {
            Some(cpu) => precedent.costing(cpu.as_secs_f64()),
            None => precedent,
        };
        let saved = serde_json::to_string(&precedent).map(|curve| self.actuator.order(Order::Learnt(training, curve)));
        if !saved.unwrap_or(false) {
            tracing::warn!(id = %job.id(), "the curve of an ended training is not saved; only this daemon knows it");
        }
        self.library.add(training, precedent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Direction, Directives, Evaluation, Millis};
    use crate::progress::Tracker;

    fn precedent(rate: f64) -> Precedent {
        let mut tracker = Tracker::new(&Directives { direction: Some(Direction::Down), ..Directives::default() });
        for n in 0..50u32 {
            let value = (-rate * f64::from(n)).exp();
            tracker.evaluate(Evaluation { at: Millis(n.into()), value, current: None, total: None });
        }
        tracker.precedent().expect("it improved")
    }

    fn training(number: usize) -> TrainingId {
        let name = ["a", "b", "c"][number % 3].repeat(1 + number / 3);
        TrainingId::of([name.as_str()])
    }

    #[test]
    fn the_latest_runs_of_a_training_are_kept() {
        let mut library = Library::default();
        (1..=10).for_each(|n| library.add(training(0), precedent(0.05 * f64::from(n))));
        let kept: Vec<Precedent> = library.runs_of(training(0)).iter().map(|run| run.as_ref().clone()).collect();
        assert_eq!(kept, [7, 8, 9, 10].map(|n| precedent(0.05 * f64::from(n))));
        assert!(library.runs_of(training(1)).is_empty());
    }

    #[test]
    fn the_oldest_trainings_go_first() {
        let mut library = Library::default();
        (0..PRECEDENTS_KEPT + 3).for_each(|n| library.add(training(n), precedent(0.1)));
        assert_eq!(library.runs.len(), PRECEDENTS_KEPT);
        assert!(library.runs_of(training(2)).is_empty() && library.runs_of(training(3)).len() == 1);
    }

    #[test]
    fn what_was_damaged_on_the_disk_is_left_out() {
        let good = serde_json::to_string(&precedent(0.1)).expect("numbers");
        let bad = good.replacen("[1.0,0.0]", "[1.0,7.0]", 1);
        assert_ne!(good, bad, "{good}");
        let library = Library::of(vec![(training(0), "{".to_owned()), (training(1), bad), (training(2), good)]);
        assert_eq!([0, 1, 2].map(|n| library.runs_of(training(n)).len()), [0, 0, 1]);
    }
}
