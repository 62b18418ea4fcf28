//! The rules of decisions: their names and numbers.

use model::Reason;

/// Returns the name of the rule, and its numbers by name with unit.
pub(super) fn spelled(reason: &Reason) -> (&'static str, Vec<(&'static str, f64)>) {
    match reason {
        Reason::NotMeasured => ("not-measured", Vec::new()),
        Reason::Silent => ("silent", Vec::new()),
        Reason::Unranked => ("unranked", Vec::new()),
        Reason::Paused => ("paused", Vec::new()),
        Reason::Broken { .. } => ("broken", Vec::new()),
        Reason::Growing { growth, part } => {
            ("growing", vec![("growth_per_node_cpu_s", *growth), ("part_of_growth", part.fraction())])
        }
        Reason::Watching { growth } => ("watching", vec![("growth_per_node_cpu_s", *growth)]),
        Reason::Converged { growth, floor } => {
            ("converged", vec![("growth_per_node_cpu_s", *growth), ("floor_share", floor.fraction())])
        }
        Reason::AllConverged { interval } => ("all-converged", vec![("interval_s", interval.as_secs_f64())]),
        Reason::ObserveOnly => ("observe-only", Vec::new()),
        Reason::Bounded { wanted, bound } => {
            ("bounded", vec![("wanted_share", wanted.fraction()), ("bound_share", bound.fraction())])
        }
        Reason::PlainBlock { until_unix_ms } => ("plain-block", vec![("until_unix_ms", *until_unix_ms as f64)]),
        Reason::Held { .. } => ("held", Vec::new()),
        Reason::Ranked { work, rank, of, .. } => {
            ("ranked", vec![("work_cpu_s", *work), ("rank", *rank as f64), ("ranked", *of as f64)])
        }
        Reason::Trial { units, rank, of, .. } => {
            ("trial", vec![("units", *units), ("rank", *rank as f64), ("trials", *of as f64)])
        }
        Reason::Turn { is_on, of } => ("turn", vec![("is_on", f64::from(u8::from(*is_on))), ("jobs", *of as f64)]),
        Reason::RankedOnGpu { gpu, work, rank, of, .. } => {
            let ranks =
                [("gpu", f64::from(*gpu)), ("work_gpu_s", *work), ("rank", *rank as f64), ("ranked", *of as f64)];
            ("ranked-on-gpu", ranks.to_vec())
        }
    }
}
