//! The expected work of a job that its node cannot forecast yet: that of jobs with the same command.
//!
//! Commands that differ in numbers only belong to one program, such as the trainings of a hyperparameter sweep, also if the numbers are
//! parts of words, as in `--out runs/exp-7`. The image counts as it is, because its numbers are versions. The work of a new job is the
//! mean over those jobs of its program, running or ended, that differ from it in the fewest numbers. If the total number of units of such a
//! job is a number of its command, as in `--epochs 50`, the work is scaled by that number.

use super::alternatives::Alternative;
use super::record::Record;
use model::swarm::WorkerReport;
use model::{Parameter, TrainingId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of ended trainings that are remembered.
const REMEMBERED: usize = 512;

/// What the runs of a program have in common: the image, and the command without its numbers, as on each node.
type ProgramId = (Arc<str>, TrainingId);

/// A command, with the numbers in it kept apart from the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    id: ProgramId,
    numbers: Vec<f64>,
}

impl Program {
    /// Splits a command; its first word is the image.
    pub(super) fn of(command: &[Arc<str>]) -> Program {
        let image = command.first().cloned().unwrap_or_default();
        let words = || command.iter().skip(1).map(AsRef::as_ref);
        let numbers = Parameter::all(words()).into_iter().filter_map(|number| number.value.parse().ok());
        Program { id: (image, TrainingId::of(words())), numbers: numbers.collect() }
    }
}

/// A training whose whole work is known or forecast.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Training {
    program: Program,
    /// CPU-seconds of the whole training.
    work: f64,
    /// Total number of units, as reported by its log.
    units: Option<f64>,
    /// In which alternative it ran from its start to its end without a stop, and for how many seconds.
    whole_run: Option<(Alternative, f64)>,
}

impl Training {
    /// Returns a training that has ended.
    pub(super) fn ended(program: &Program, report: &WorkerReport) -> Option<Training> {
        Training::with(program, report.total, report.cpu_time_s?)
    }

    /// Returns a training that has ended, from what is recorded about it.
    pub(super) fn recorded(program: &Program, record: &Record) -> Option<Training> {
        Training::with(program, record.total, record.work?)
    }

    /// Adds that it ran in one alternative without a stop.
    pub(super) fn in_one_run(self, alternative: Alternative, seconds: f64) -> Training {
        Training { whole_run: (seconds > 0.0).then_some((alternative, seconds)), ..self }
    }

    /// Returns a running training with the forecast of its node.
    pub(super) fn forecast(program: &Program, report: &WorkerReport) -> Option<Training> {
        Training::with(program, report.total, report.cpu_time_s? + report.work_left?.likely)
    }

    pub(super) fn work(&self) -> f64 {
        self.work
    }

    fn with(program: &Program, units: Option<f64>, work: f64) -> Option<Training> {
        let is_usable = work.is_finite() && work > 0.0;
        is_usable.then(|| Training { program: program.clone(), work, units, whole_run: None })
    }

    /// Returns the index of the number that is the total; `None` if no number, or more than one, equals it.
    fn total_at(&self) -> Option<usize> {
        let mut equal = self.program.numbers.iter().enumerate().filter(|(_, number)| Some(**number) == self.units);
        let (at, _) = equal.next()?;
        equal.next().is_none().then_some(at)
    }

    /// Returns in how many numbers, besides the total, it differs from a job of the same program, and how much larger that job is.
    fn for_job(&self, job: &Program) -> Option<(usize, f64)> {
        let total_at = self.total_at();
        let pairs = self.program.numbers.iter().zip(&job.numbers).enumerate();
        let differences = pairs.filter(|(at, (own, other))| Some(*at) != total_at && own != other).count();
        let scale = match total_at {
            Some(at) => job.numbers.get(at)? / self.program.numbers.get(at)?,
            None => 1.0,
        };
        (scale.is_finite() && scale > 0.0).then_some((differences, scale))
    }
}

/// The latest trainings that have ended.
#[derive(Debug, Default)]
pub(super) struct EndedTrainings(VecDeque<Training>);

impl EndedTrainings {
    pub(super) fn add(&mut self, training: Training) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(training);
    }
}

/// The known work of some programs.
pub(super) struct KnownWork(BTreeMap<ProgramId, Vec<Training>>);

impl KnownWork {
    /// Collects the trainings of these programs. `running` is not read if there are none.
    pub(super) fn of<'a>(
        programs: impl Iterator<Item = &'a Program>,
        ended: &EndedTrainings,
        running: impl Iterator<Item = (&'a Program, &'a WorkerReport)>,
    ) -> KnownWork {
        let wanted: BTreeSet<&ProgramId> = programs.map(|program| &program.id).collect();
        let mut known: BTreeMap<ProgramId, Vec<Training>> = BTreeMap::new();
        if wanted.is_empty() {
            return KnownWork(known);
        }
        let ended = ended.0.iter().filter(|training| wanted.contains(&training.program.id)).cloned();
        let running = running.filter(|(program, _)| wanted.contains(&program.id));
        for training in ended.chain(running.filter_map(|(program, report)| Training::forecast(program, report))) {
            known.entry(training.program.id.clone()).or_default().push(training);
        }
        KnownWork(known)
    }

    /// Returns the expected work of a job in CPU-seconds; `None` = no job of its program is known.
    pub(super) fn expected(&self, job: &Program) -> Option<f64> {
        self.mean(job, |training| Some(training.work))
    }

    /// Returns the expected seconds of a whole job in an alternative; `None` = no job of its program has run in it from start to end.
    pub(super) fn seconds(&self, job: &Program, alternative: &Alternative) -> Option<f64> {
        let seconds = |(ran_as, seconds): &(Alternative, f64)| ran_as.is_like(alternative).then_some(*seconds);
        self.mean(job, |training| training.whole_run.as_ref().and_then(seconds))
    }

    /// Returns the mean of a quantity over the trainings that are nearest to a job and have it, scaled to its size.
    fn mean(&self, job: &Program, quantity: impl Fn(&Training) -> Option<f64>) -> Option<f64> {
        let of = |training: &Training| {
            let (differences, scale) = training.for_job(job)?;
            Some((differences, scale * quantity(training)?))
        };
        let similar: Vec<(usize, f64)> = self.0.get(&job.id)?.iter().filter_map(of).collect();
        let fewest = similar.iter().map(|(differences, _)| *differences).min()?;
        let nearest = similar.iter().filter(|(differences, _)| *differences == fewest);
        let (count, sum) = nearest.fold((0.0, 0.0), |(count, sum), (_, value)| (count + 1.0, sum + value));
        Some(sum / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Estimate;
    use model::swarm::ServiceId;

    fn program(line: &str) -> Program {
        Program::of(&line.split(' ').map(Arc::from).collect::<Vec<_>>())
    }

    fn report(total: Option<f64>, cpu_time_s: f64, work_left: Option<f64>) -> WorkerReport {
        WorkerReport {
            service: ServiceId("s".into()),
            task: "t".into(),
            up_s: 9.0,
            units: Some(3.0),
            total,
            unit_s: None,
            cores: None,
            work_left: work_left.map(Estimate::exactly),
            cpu_time_s: Some(cpu_time_s),
            value: None,
        }
    }

    fn expected(ended: &[(&str, Option<f64>, f64)], job: &str) -> Option<f64> {
        let mut trainings = EndedTrainings::default();
        for (line, total, work) in ended {
            trainings.add(Training::ended(&program(line), &report(*total, *work, None)).expect("usable"));
        }
        let job = program(job);
        KnownWork::of(std::iter::once(&job), &trainings, std::iter::empty()).expected(&job)
    }

    #[test]
    fn a_job_needs_what_the_same_command_needed() {
        let ended = [("image train --lr 0.1", None, 50.0), ("image train --lr 0.1", None, 70.0)];
        assert_eq!(expected(&ended, "image train --lr 0.1"), Some(60.0));
        assert_eq!(expected(&ended, "image test --lr 0.1"), None, "another command");
        assert_eq!(expected(&ended, "image-2 train --lr 0.1"), None, "another image");
        assert_eq!(expected(&ended, "image train --lr 0.1 --fp16"), None, "another option");
    }

    #[test]
    fn a_job_takes_as_long_as_the_same_command_took_in_the_same_alternative() {
        let ways =
            super::super::alternatives::alternatives("cpus=2 | gpus=1 duration=9h | gpus=1 node.labels.type==a100")
                .unwrap();
        let mut trainings = EndedTrainings::default();
        for (way, seconds) in [(0, 100.0), (1, 10.0), (1, 30.0)] {
            let training = Training::ended(&program("i t --epochs 50"), &report(Some(50.0), 1.0, None)).unwrap();
            trainings.add(training.in_one_run(ways[way].clone(), seconds));
        }
        let job = program("i t --epochs 25");
        let known = KnownWork::of(std::iter::once(&job), &trainings, std::iter::empty());
        assert_eq!([0, 1, 2].map(|way| known.seconds(&job, &ways[way])), [Some(50.0), Some(10.0), None]);
    }

    #[test]
    fn numbers_in_words_belong_to_the_program_but_not_those_of_the_image() {
        let numbers = |line: &str| program(line).numbers;
        assert_eq!(numbers("i:2.1 t --lr=-1e-3 --out runs/exp-7_lr12.log 3 x"), [-1e-3, 7.0, 12.0, 3.0]);
        assert_eq!(numbers("i t v1.2.3 5. .5"), [1.0, 2.0, 3.0, 5.0, 0.5]);
        assert_eq!(program("i t --out runs/exp-7").id, program("i t --out runs/exp-12").id);
        for other in ["i:2 t --out runs/exp-7", "i t --out runs/exp-7b", "i t --out runs/exp-", "i t --out runs/exp- 7"]
        {
            assert_ne!(program("i t --out runs/exp-7").id, program(other).id, "{other}");
        }
        let ended = [("i t --epochs 50 --out runs/1", Some(50.0), 100.0)];
        assert_eq!(expected(&ended, "i t --epochs 25 --out runs/2"), Some(50.0));
    }

    #[test]
    fn of_a_sweep_the_trainings_with_the_fewest_other_numbers_count() {
        let ended = [("i t --width=64 --seed 1", None, 10.0), ("i t --width=256 --seed 1", None, 90.0)];
        assert_eq!(expected(&ended, "i t --width=64 --seed 2"), Some(10.0));
        assert_eq!(expected(&ended, "i t --width=128 --seed 2"), Some(50.0), "both differ in two numbers");
    }

    #[test]
    fn the_work_is_scaled_by_the_number_that_is_the_total() {
        let ended = [("i t --epochs 50 --seed 1", Some(50.0), 100.0)];
        assert_eq!(expected(&ended, "i t --epochs 25 --seed 2"), Some(50.0));
        assert_eq!(expected(&ended, "i t --epochs 0 --seed 2"), None);
        let ambiguous = [("i t --epochs 50 --batch 50", Some(50.0), 100.0)];
        assert_eq!(expected(&ambiguous, "i t --epochs 25 --batch 50"), Some(100.0), "either could be the total");
        let counted_in_steps = [("i t --epochs 50", Some(900.0), 100.0)];
        assert_eq!(expected(&counted_in_steps, "i t --epochs 25"), Some(100.0));
    }

    #[test]
    fn running_jobs_count_with_the_forecast_of_their_node() {
        let (job, other) = (program("i t --epochs 20"), program("i t --epochs 10"));
        let (forecast, silent) = (report(Some(10.0), 4.0, Some(8.0)), report(Some(10.0), 4.0, None));
        let running = [(&other, &silent), (&other, &forecast)];
        let known = KnownWork::of(std::iter::once(&job), &EndedTrainings::default(), running.into_iter());
        assert_eq!(known.expected(&job), Some(24.0));
    }

    #[test]
    fn only_the_latest_trainings_are_remembered_and_bad_values_never() {
        let mut trainings = EndedTrainings::default();
        let one = Training::ended(&program("i t"), &report(None, 1.0, None)).expect("usable");
        (0..2 * REMEMBERED).for_each(|_| trainings.add(one.clone()));
        assert_eq!(trainings.0.len(), REMEMBERED);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Training::ended(&program("i t"), &report(None, bad, None)), None);
        }
    }
}
