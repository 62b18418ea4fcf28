//! Jobs with low parallelism that are so long that the node would be half idle in the end if they came last.

use super::Candidate;

/// A job with low parallelism is critical if it takes more than this part of the time that all jobs take together.
const CRITICAL_ABOVE: f64 = 0.9;

/// A job has low parallelism if it would leave at least this many cores idle. On a single processor, a low measurement is caused by the
/// machine's other processes.
const IDLE_CORES: f64 = 0.5;

/// A critical job gets at most this many equal shares.
const CRITICAL_SHARES: f64 = 2.0;

/// Marks each job with low parallelism that takes about as long as all jobs together: if it came last, the node would be half idle in the
/// end.
///
/// A log that claims endless work gains little by it: a critical job gets at most [`CRITICAL_SHARES`] equal shares, and must never have
/// been mispredicted beyond what is forgiven.
pub(super) fn mark(candidates: &mut [Option<Candidate>], entitled: &[f64], running: f64, cores: f64) {
    let (known, ahead) =
        candidates.iter().flatten().fold((0.0, 0.0), |(n, sum), c| (n + 1.0, sum + c.milestone.to_end.likely));
    // Jobs with unknown work are assumed to take as long as the mean of the others.
    let everything = ahead / known * running / cores;
    let with_part =
        candidates.iter_mut().zip(entitled).filter_map(|(candidate, part)| Some((candidate.as_mut()?, part)));
    let may_be_critical = |c: &Candidate| c.is_measured && c.usable + IDLE_CORES <= cores && c.reliability >= 1.0;
    for (candidate, entitled) in with_part.filter(|(c, _)| may_be_critical(c)) {
        if candidate.milestone.to_end.likely / candidate.usable >= CRITICAL_ABOVE * everything {
            candidate.is_critical = true;
            candidate.usable = candidate.usable.min(CRITICAL_SHARES * entitled);
        }
    }
}
