//! Turns a job's labels into options of the reader, and reports invalid labels.
//!
//! Imports: model, `reader`.

use super::reader::ReaderOptions;
use crate::model::{Directives, Pattern, ProgressUnit};

/// Returns the reader's options, and one message for each invalid label.
pub(super) fn reader_options(directives: &Directives) -> (ReaderOptions, Vec<String>) {
    let mut problems = Vec::new();
    let unit = directives.unit.as_deref().and_then(|name| {
        let unit = unit(name);
        if unit.is_none() {
            problems.push(format!(
                "flowcon.unit={name} is not a unit and is ignored; use epoch, step, iteration, percent, round or sample"
            ));
        }
        unit
    });
    let total = directives.total.filter(|total| {
        let valid = total.is_finite() && *total > 0.0;
        if !valid {
            problems.push(format!("flowcon.total={total} is not a positive number and is ignored"));
        }
        valid
    });
    let pattern = directives.pattern.as_deref().and_then(|expression| match Pattern::new(expression) {
        Ok(pattern) => Some(pattern),
        Err(why) => {
            problems.push(format!("flowcon.pattern is ignored: {why}"));
            None
        }
    });
    let options = ReaderOptions {
        pattern,
        metric: directives.metric.clone(),
        direction: directives.direction,
        total,
        unit,
        ignore: directives.ignore.clone(),
    };
    (options, problems)
}

fn unit(name: &str) -> Option<ProgressUnit> {
    match name.trim().to_ascii_lowercase().trim_end_matches('s') {
        "epoch" => Some(ProgressUnit::Epoch),
        "step" | "batch" | "batche" => Some(ProgressUnit::Step),
        "iteration" | "iter" => Some(ProgressUnit::Iteration),
        "percent" | "%" => Some(ProgressUnit::Percent),
        "round" => Some(ProgressUnit::Round),
        "sample" => Some(ProgressUnit::Sample),
        _ => None,
    }
}
