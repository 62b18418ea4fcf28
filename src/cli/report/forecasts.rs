//! How right the forecasts of the time left were that people saw, judged by the ends that followed. Pure.

use super::data::Series;
use model::{Accuracy, JudgedForecast};

/// Judges all forecasts about jobs that ran to their end; `None` if there are none.
pub(super) fn accuracy(jobs: &[Series]) -> Option<Accuracy> {
    let all: Vec<JudgedForecast> = jobs.iter().flat_map(judged).collect();
    Accuracy::of(&all)
}

/// The forecasts about a job. A job that was stopped or failed has no end that could have been forecast.
fn judged(series: &Series) -> Vec<JudgedForecast> {
    let job = &series.job;
    let Some(ended) = job.ended_unix_ms.filter(|_| job.end.as_deref() == Some("done")) else { return Vec::new() };
    let whole_s = ended.saturating_sub(job.started_unix_ms) as f64 / 1000.0;
    let forecasts =
        series.samples.iter().filter_map(|sample| Some((ended.saturating_sub(sample.unix_ms), sample.remaining_s?)));
    let judged = |(left_ms, forecast): (u64, api::wire::Estimate)| {
        let left_s = left_ms as f64 / 1000.0;
        JudgedForecast { at: 1.0 - left_s / whole_s, forecast: forecast.into(), left_s }
    };
    forecasts.map(judged).filter(|judged| judged.left_s > 0.0).collect()
}
