//! What the daemon showed during one run, each figure over the time to which it belongs.

use crate::training::Training;
use flowcon_gpu_check::figures::Run;
use flowcon_gpu_check::log::{Line, pid};
use flowcon_gpu_check::pmon::Monitored;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Ages are rounded: times of readings closer than this belong to one reading.
const SAME_READING: Duration = Duration::from_millis(500);

/// The observations of one run.
pub struct Observed {
    /// The last line of each training when one was frozen for the first time.
    when_frozen: Option<Vec<Option<Line>>>,
    /// Largest `frozen_share` of a training.
    frozen: f64,
    /// Since when all trainings compute that have not ended.
    computing_since: Option<Instant>,
    /// Readings of the GPU since then. Each is about the time since the one before.
    readings: Vec<Reading>,
}

/// One reading of the GPU by the daemon.
struct Reading {
    at: Instant,
    busy: f64,
    /// The GPU's time for each training, while all of them share the GPU.
    shares: Option<Vec<f64>>,
}

impl Observed {
    pub fn new() -> Observed {
        Observed { when_frozen: None, frozen: 0.0, computing_since: None, readings: Vec::new() }
    }

    /// Adds a status of the daemon.
    pub fn add(&mut self, trainings: &[Training], status: &Value) {
        let container = |training: &Training| {
            status["containers"].as_array()?.iter().find(|container| container["name"] == training.name.as_str())
        };
        let containers: Vec<Option<&Value>> = trainings.iter().map(container).collect();
        for container in containers.iter().flatten() {
            self.frozen = self.frozen.max(container["frozen_share"].as_f64().unwrap_or(0.0));
        }
        if self.frozen > 0.0 && self.when_frozen.is_none() {
            self.when_frozen = Some(trainings.iter().map(Training::line).collect());
        }
        let gpu = &status["node"]["gpus"][0];
        let (Some(busy), Some(age_s)) = (gpu["busy"].as_f64(), gpu["age_s"].as_f64()) else { return };
        let at = Instant::now().checked_sub(Duration::from_secs_f64(age_s)).unwrap_or_else(Instant::now);
        let compute = trainings.iter().all(|training| training.ended.is_some() || training.line().is_some());
        let since = if compute { *self.computing_since.get_or_insert_with(Instant::now) } else { return };
        if at < since || self.readings.last().is_some_and(|last| at.duration_since(last.at) < SAME_READING) {
            return;
        }
        let shares = containers.iter().map(|container| container.as_ref()?["gpus"][0]["share"].as_f64()).collect();
        let share_it = trainings.iter().all(|training| training.ended.is_none());
        self.readings.push(Reading { at, busy, shares: if share_it { shares } else { None } });
    }

    /// Returns the time of the readings in which all trainings share the GPU.
    pub fn shared_time(&self) -> (Instant, Instant) {
        let shared = || self.readings.iter().filter(|reading| reading.shares.is_some()).map(|reading| reading.at);
        let now = Instant::now();
        (shared().next().unwrap_or(now), shared().next_back().unwrap_or(now))
    }

    /// Returns the mean over the time of the readings; `None` if there are fewer than two. The first one only begins that time.
    fn mean(&self, value: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
        let values = self.readings.iter().filter_map(|reading| Some((reading.at, value(reading)?)));
        let values: Vec<(Instant, f64)> = values.collect();
        let (mut sum, mut time) = (0.0, 0.0);
        for pair in values.windows(2) {
            let passed = (pair[1].0 - pair[0].0).as_secs_f64();
            (sum, time) = (sum + pair[1].1 * passed, time + passed);
        }
        (time > 0.0).then(|| sum / time)
    }

    fn share(&self, number: usize) -> Option<f64> {
        self.mean(|reading| Some(reading.shares.as_ref()?[number]))
    }

    /// Returns the figures of the run.
    pub fn run(&self, trainings: &[Training], monitored: &Monitored, speed_alone: f64) -> Run {
        let error = |(number, training): (usize, &Training)| {
            Some((100.0 * self.share(number)? - monitored.mean(pid(&training.log())?)?).abs())
        };
        let errors: Vec<f64> = trainings.iter().enumerate().filter_map(error).collect();
        Run {
            ended: trainings.iter().filter_map(|training| training.ended).map(|(ended, _)| ended).collect(),
            lost: trainings.iter().filter(|training| training.ended.is_some_and(|(_, succeeded)| !succeeded)).count(),
            favoured_speed: self.speed_of_first(trainings).map(|speed| speed / speed_alone),
            idle: self.mean(|reading| Some(1.0 - reading.busy)),
            accounting_error: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
            unattributed: self.mean(|reading| Some(reading.busy - reading.shares.as_ref()?.iter().sum::<f64>())),
            frozen: self.frozen,
        }
    }

    /// Returns the speed of the training that ended first, since another was frozen for it.
    fn speed_of_first(&self, trainings: &[Training]) -> Option<f64> {
        let end = |training: &Training| training.ended.map_or(f64::INFINITY, |(ended, _)| ended);
        let first = trainings.iter().enumerate().min_by(|(_, one), (_, other)| end(one).total_cmp(&end(other)));
        let (index, training) = first?;
        training.line()?.speed_since(&self.when_frozen.as_ref()?[index]?)
    }
}
