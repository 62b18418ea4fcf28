//! Why a container has the limit that it has, in words an operator understands.

use super::time::utc;
use super::{Millis, Share};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The rule that set a limit, with the numbers that it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum Reason {
    /// No evaluation read yet: free competition.
    NotMeasured,
    /// No evaluation in this interval, which is unknown and not zero growth: list and limit are kept.
    Silent,
    /// No progress read yet, so the default policy cannot rank it: an equal share.
    Unranked,
    /// Frozen: it can use nothing, so it takes no share.
    Paused,
    /// New list: its part of all growth (Algorithm 1, line 26).
    Growing {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
        /// Its part of the sum.
        part: Share,
    },
    /// Watching list: the limit is left as it was (line 24).
    Watching {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
    },
    /// Completing list: its part of all growth, at least the floor (lines 20–22).
    Converged {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
        /// The floor 1/(β·n).
        floor: Share,
    },
    /// Every container converged: free competition, longer intervals (lines 14–17).
    AllConverged {
        /// The interval that is being waited.
        interval: Millis,
    },
    /// The policy only watches.
    ObserveOnly,
    /// A block of time of the holdback: nothing is governed, so that governing can be measured.
    PlainBlock {
        /// When it ends, Unix time in milliseconds.
        until_unix_ms: u64,
    },
    /// The owner's bound or the node's floor decided; the text says which.
    Bounded {
        /// What the policy would have given.
        wanted: Share,
        /// The bound that held.
        bound: Share,
    },
    /// Limits are left alone; the text says who asked for it.
    Held {
        /// Operator, foreign change, settling, or a write that failed.
        why: String,
    },
    /// Ranked by credit per CPU-second (the default policy).
    Ranked {
        /// The milestone that is worth most per CPU-second.
        milestone: Cow<'static, str>,
        /// CPU-seconds of work to it.
        work: f64,
        /// Place among the containers, from 1.
        rank: usize,
        /// How many were ranked.
        of: usize,
    },
    /// Its GPU limits it: ranked by credit per GPU-second among those on the same GPU (the default policy).
    RankedOnGpu {
        /// The GPU's number.
        gpu: u32,
        /// The milestone that is worth most per GPU-second.
        milestone: Cow<'static, str>,
        /// GPU-seconds of work to it.
        work: f64,
        /// Place among the containers on the GPU, from 1.
        rank: usize,
        /// How many were ranked there.
        of: usize,
    },
}

/// The milestone of a job's end, as the default policy names it.
const COMPLETION: &str = "completion";
/// A job with less work left is nearly done, CPU-seconds.
const NEARLY_DONE_S: f64 = 120.0;

impl fmt::Display for Reason {
    /// What the job does, then what follows from it: at most 40 characters, for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotMeasured => f.write_str("no metric yet: competes freely"),
            Reason::Silent => f.write_str("no new value: limit kept"),
            Reason::Unranked => f.write_str("no progress yet: equal share"),
            Reason::Paused => f.write_str("frozen: takes no share"),
            Reason::Growing { part, .. } => write!(f, "learning fast: {part} of all growth"),
            Reason::Watching { .. } => f.write_str("slowing down: limit kept"),
            Reason::Converged { floor, .. } => write!(f, "plateau: at least {floor}"),
            Reason::AllConverged { interval } => {
                write!(f, "all at a plateau: free for {:.0} s", interval.as_secs_f64())
            }
            Reason::ObserveOnly => f.write_str("policy only watches"),
            Reason::PlainBlock { until_unix_ms } => {
                write!(f, "control period: plain until {}", of_day(*until_unix_ms))
            }
            Reason::Bounded { wanted, bound } => write!(f, "bounded to {bound} (wanted {wanted})"),
            Reason::Held { why } => write!(f, "left alone: {}", shortened(why, 28)),
            Reason::Ranked { milestone, work, rank, of } => {
                let work_left = time(*work, "CPU");
                match milestone.as_ref() {
                    COMPLETION if *work < NEARLY_DONE_S => write!(f, "nearly done: {work_left} left ({rank}/{of})"),
                    COMPLETION => write!(f, "to completion: {work_left} ({rank}/{of})"),
                    _ => write!(f, "learning: {work_left} to 95 % ({rank}/{of})"),
                }
            }
            Reason::RankedOnGpu { gpu, milestone, work, rank, of } => {
                let goal = if milestone == COMPLETION { "done" } else { "95 %" };
                write!(f, "GPU {gpu}: {} to {goal} ({rank}/{of})", time(*work, "GPU"))
            }
        }
    }
}

impl Reason {
    /// The whole story in one or two sentences, for `flowctl explain`.
    pub fn explanation(&self) -> String {
        match self {
            Reason::NotMeasured => {
                "No interval with two readings of the evaluation function has passed yet, so its growth is \
                unknown and it competes freely."
                    .to_owned()
            }
            Reason::Silent => {
                "Its log held no evaluation in the last interval. That is unknown, not zero growth: its list and \
                its limit stay as they were."
                    .to_owned()
            }
            Reason::Unranked => {
                "Its log has not told how far it is, so the work ahead of it cannot be compared with that of the \
                others. It has an equal share until it does."
                    .to_owned()
            }
            Reason::Paused => "Its processes are frozen. Its share goes to the others until it is thawed.".to_owned(),
            Reason::Growing { growth, part } => format!(
                "It gains {growth:.4} of its evaluation's range per node-CPU-second, above the threshold, which is {part} of \
                 what all containers gain together; the New list gets exactly that part."
            ),
            Reason::Watching { growth } => format!(
                "It gains {growth:.4} of its evaluation's range per node-CPU-second, below the threshold in this interval; \
                 its limit stays until a second interval confirms it."
            ),
            Reason::Converged { growth, floor } => format!(
                "It gains {growth:.4} of its evaluation's range per node-CPU-second, below the threshold for two consecutive intervals; it \
                 gets its part of all growth, but at least {floor} of the node."
            ),
            Reason::AllConverged { interval } => format!(
                "Every container has converged, so all compete freely and the next decision waits {:.0} s unless a container \
                 starts, ends or changes.",
                interval.as_secs_f64()
            ),
            Reason::ObserveOnly => "The policy watches and changes nothing.".to_owned(),
            Reason::PlainBlock { until_unix_ms } => format!(
                "This is a control period: until {} UTC every job has its original limits, so that what governing gains can be \
                 measured (policy.holdback).",
                of_day(*until_unix_ms)
            ),
            Reason::Bounded { wanted, bound } => {
                format!(
                    "The policy would have given {wanted} of the node; the owner's or the node's bound makes it {bound}."
                )
            }
            Reason::Held { why } => format!("Its limits are left alone: {why}."),
            Reason::Ranked { milestone, work, rank, of } => format!(
                "Its best credit is \"{milestone}\", after about {} of work. Credit divided by work ranks it {rank} of {of}; \
                 the better the rank, the larger the share.",
                time(*work, "CPU")
            ),
            Reason::RankedOnGpu { gpu, milestone, work, rank, of } => format!(
                "GPU {gpu} limits it, not the CPU: it has its equal share of the CPU, so that the GPU does not wait for it. Its best credit is \
                 \"{milestone}\", after about {} of work. Credit divided by work ranks it {rank} of {of} on this GPU.",
                time(*work, "GPU")
            ),
        }
    }
}

/// Work with three significant places at most: `42 CPU-s`, `12 CPU-min`, `30 GPU-h`.
fn time(seconds: f64, of: &str) -> String {
    match seconds {
        s if s < 600.0 => format!("{s:.0} {of}-s"),
        s if s < 36_000.0 => format!("{:.0} {of}-min", s / 60.0),
        s => format!("{:.0} {of}-h", s / 3600.0),
    }
}

/// `14:05:00`.
fn of_day(unix_ms: u64) -> String {
    utc(unix_ms)[11..19].to_owned()
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_fits_a_table_column() {
        let reasons = [
            Reason::NotMeasured,
            Reason::Silent,
            Reason::Unranked,
            Reason::Paused,
            Reason::Growing { growth: 0.25, part: Share::ALL },
            Reason::Watching { growth: 0.25 },
            Reason::Converged { growth: 0.001, floor: Share::ALL },
            Reason::AllConverged { interval: Millis::from_secs(320) },
            Reason::ObserveOnly,
            Reason::PlainBlock { until_unix_ms: 1_700_000_000_000 },
            Reason::Bounded { wanted: Share::ALL, bound: Share::ALL },
            Reason::Held { why: "somebody else set cpu.weight to 40 where 73 was ours".to_owned() },
            Reason::Ranked { milestone: "95 % quality".into(), work: 35_999.0, rank: 128, of: 1000 },
            Reason::Ranked { milestone: COMPLETION.into(), work: 35_999.0, rank: 1000, of: 1000 },
            Reason::RankedOnGpu { gpu: 15, milestone: COMPLETION.into(), work: 35_999.0, rank: 1000, of: 1000 },
        ];
        for reason in reasons {
            let text = reason.to_string();
            assert!(text.chars().count() <= 40, "{} characters: {text}", text.chars().count());
            assert!(reason.explanation().len() >= text.len());
        }
    }
}
