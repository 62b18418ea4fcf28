//! Why a container has its limit, in terms that an operator understands.

use super::time::utc;
use super::{Condition, Millis, Share, TrialStanding};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The rule that set a limit, with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum Reason {
    /// No evaluation read yet: the container competes freely.
    NotMeasured,
    /// No evaluation in this interval. Growth is unknown, not zero, so list and limit are kept.
    Silent,
    /// No progress read yet, so the default policy cannot rank the job: it gets an equal share.
    Unranked,
    /// Frozen: it cannot use CPU time, so it takes no share.
    Paused,
    /// NaN, diverging or stalled: it gets the floor until it recovers (the default policy).
    Broken {
        /// Its condition.
        condition: Condition,
    },
    /// New list: its fraction of all growth (Algorithm 1, line 26).
    Growing {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
        /// Its fraction of the sum.
        part: Share,
    },
    /// Watching list: the limit is kept (line 24).
    Watching {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
    },
    /// Completing list: its fraction of all growth, but at least the floor (lines 20–22).
    Converged {
        /// Growth efficiency per node-CPU-second.
        growth: f64,
        /// The floor 1/(β·n).
        floor: Share,
    },
    /// All containers have converged: free competition, longer intervals (lines 14–17).
    AllConverged {
        /// The current interval.
        interval: Millis,
    },
    /// The policy only observes.
    ObserveOnly,
    /// A control period of the holdback experiment: nothing is governed, so that the effect of governing can be measured.
    PlainBlock {
        /// End of the period, Unix time in milliseconds.
        until_unix_ms: u64,
    },
    /// The owner's bound or the node's floor replaced the share of the policy.
    Bounded {
        /// The share that the policy would have given.
        wanted: Share,
        /// The bound that applied.
        bound: Share,
    },
    /// The limits are left alone.
    Held {
        /// The cause: an operator, a foreign change, settling, or a write that failed.
        why: String,
    },
    /// Ranked by credit per CPU-second (the default policy).
    Ranked {
        /// The milestone with the most credit per CPU-second.
        milestone: Cow<'static, str>,
        /// CPU-seconds of work to the milestone.
        work: f64,
        /// Rank among the containers, from 1.
        rank: usize,
        /// Number of ranked containers.
        of: usize,
    },
    /// A trial of a sweep: the sweep's CPU goes to its best trials (the default policy).
    Trial {
        /// How it stands.
        standing: TrialStanding,
        /// Progress units at which it was compared last, or will be for the first time.
        units: f64,
        /// Place among the trials that run, from 1.
        rank: usize,
        /// Number of trials that run.
        of: usize,
    },
    /// One of the jobs that waste CPU beside each other, and have their shares one after another (the default policy).
    Turn {
        /// Whether it is its turn.
        is_on: bool,
        /// Number of jobs that take turns.
        of: usize,
    },
    /// Limited by its GPU: ranked by credit per GPU-second among the jobs on that GPU (the default policy).
    RankedOnGpu {
        /// Index of the GPU.
        gpu: u32,
        /// The milestone with the most credit per GPU-second.
        milestone: Cow<'static, str>,
        /// GPU-seconds of work to the milestone.
        work: f64,
        /// Rank among the containers on the GPU, from 1.
        rank: usize,
        /// Number of ranked containers on the GPU.
        of: usize,
    },
}

/// Name of the milestone "end of the job" in the default policy.
const COMPLETION: &str = "completion";
/// Name of the milestone of a job in its first seconds, whose work is not known yet.
pub const FIRST_REPORTS: &str = "first reports";
/// A job with less work left than this is nearly done, in CPU-seconds.
const NEARLY_DONE_S: f64 = 120.0;

impl fmt::Display for Reason {
    /// Describes the job and the consequence in at most 40 characters, for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotMeasured => f.write_str("no metric yet: competes freely"),
            Reason::Silent => f.write_str("no new value: limit kept"),
            Reason::Unranked => f.write_str("no progress yet: equal share"),
            Reason::Paused => f.write_str("frozen: takes no share"),
            Reason::Broken { condition } => write!(f, "{condition}: floor until it recovers"),
            Reason::Growing { part, .. } => write!(f, "learning fast: {part} of all growth"),
            Reason::Watching { .. } => f.write_str("slowing down: limit kept"),
            Reason::Converged { floor, .. } => write!(f, "plateau: at least {floor}"),
            Reason::AllConverged { interval } => {
                write!(f, "all at a plateau: free for {:.0} s", interval.as_secs_f64())
            }
            Reason::ObserveOnly => f.write_str("policy only observes"),
            Reason::PlainBlock { until_unix_ms } => {
                write!(f, "control period: plain until {}", time_of_day(*until_unix_ms))
            }
            Reason::Bounded { wanted, bound } => write!(f, "bounded to {bound} (wanted {wanted})"),
            Reason::Held { why } => write!(f, "left alone: {}", shortened(why, 28)),
            Reason::Ranked { milestone, work, rank, of } => {
                let work_left = time(*work, "CPU");
                match milestone.as_ref() {
                    COMPLETION if *work < NEARLY_DONE_S => write!(f, "nearly done: {work_left} left ({rank}/{of})"),
                    COMPLETION => write!(f, "to completion: {work_left} ({rank}/{of})"),
                    FIRST_REPORTS => write!(f, "new: counts as short ({rank}/{of})"),
                    _ => write!(f, "learning: {work_left} to 95 % ({rank}/{of})"),
                }
            }
            Reason::Turn { is_on: true, of } => write!(f, "its turn, one of {of}"),
            Reason::Turn { is_on: false, of } => write!(f, "waits for its turn, one of {of}"),
            Reason::Trial { standing: TrialStanding::Starting, rank, of, .. } => {
                write!(f, "trial not compared yet ({rank}/{of})")
            }
            Reason::Trial { standing, units, rank, of } => {
                write!(f, "trial {standing} at unit {} ({rank}/{of})", amount(*units))
            }
            Reason::RankedOnGpu { gpu, milestone, work, rank, of } => {
                let goal = if milestone == COMPLETION { "done" } else { "95 %" };
                write!(f, "GPU {gpu}: {} to {goal} ({rank}/{of})", time(*work, "GPU"))
            }
        }
    }
}

impl Reason {
    /// Returns one or two sentences for `flowctl explain`.
    pub fn explanation(&self) -> String {
        match self {
            Reason::NotMeasured => {
                "No interval with two readings of the evaluation function has passed yet, so its growth is \
                unknown and it competes freely."
                    .to_owned()
            }
            Reason::Silent => {
                "Its log contained no evaluation in the last interval. Its growth is unknown, not zero, so its list \
                and its limit are kept."
                    .to_owned()
            }
            Reason::Unranked => {
                "Its log reports no progress yet, so the work that it has left cannot be compared with that of \
                other jobs. Until then it gets an equal share."
                    .to_owned()
            }
            Reason::Paused => "Its processes are frozen. Its share goes to the others until it is thawed.".to_owned(),
            Reason::Broken { condition } => format!(
                "It makes no progress that is worth CPU time ({condition}), so it gets the floor, and the other jobs divide the rest. It \
                 competes again as soon as it recovers."
            ),
            Reason::Growing { growth, part } => format!(
                "It gains {growth:.4} of its evaluation's range per node-CPU-second, above the threshold, which is {part} of \
                 what all containers gain together; the New list gets exactly that part."
            ),
            Reason::Watching { growth } => format!(
                "It gains {growth:.4} of its evaluation's range per node-CPU-second, below the threshold in this interval; \
                 its limit is kept until a second interval confirms it."
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
            Reason::ObserveOnly => "The policy observes and changes nothing.".to_owned(),
            Reason::PlainBlock { until_unix_ms } => format!(
                "This is a control period: until {} UTC every job has its original limits, so that the effect of governing can be \
                 measured (policy.holdback).",
                time_of_day(*until_unix_ms)
            ),
            Reason::Bounded { wanted, bound } => {
                format!(
                    "The policy would have given {wanted} of the node; the owner's or the node's bound makes it {bound}."
                )
            }
            Reason::Held { why } => format!("Its limits are left alone: {why}."),
            Reason::Ranked { milestone, work, rank, of } if milestone == FIRST_REPORTS => format!(
                "It has just started, and its log does not say yet how much work it has. For its first CPU-seconds ({} more) it counts as a short \
                 job, because jobs beside each other waste CPU here; it is {rank} of {of}.",
                time(*work, "CPU")
            ),
            Reason::Ranked { milestone, work, rank, of } => format!(
                "Its best credit is \"{milestone}\", after about {} of work. Credit divided by work ranks it {rank} of {of}; \
                 the better the rank, the larger the share.",
                time(*work, "CPU")
            ),
            Reason::Turn { is_on, of } => format!(
                "The threads of jobs wait for each other here, spinning, if jobs run at the same time. So {of} jobs have their shares one after \
                 another, as parts of the time; {}.",
                if *is_on { "now it is the turn of this one" } else { "this one keeps the floor until its turn comes" }
            ),
            Reason::Trial { standing, units, rank, of } => format!(
                "It is one of {of} trials of the same training. {}, so it comes {} of them; the better the rank, the larger the share.",
                standing_at(*standing, *units),
                ordinal(*rank)
            ),
            Reason::RankedOnGpu { gpu, milestone, work, rank, of } => format!(
                "GPU {gpu} limits it, not the CPU: it has its equal share of the CPU, so that the GPU does not wait for it. Its best credit is \
                 \"{milestone}\", after about {} of work. Credit divided by work ranks it {rank} of {of} on this GPU.",
                time(*work, "GPU")
            ),
        }
    }
}

/// Formats work with at most four digits: `42 CPU-s`, `12 CPU-min`, `30 GPU-h`, `3 CPU-y`; more than 9,999 years as `9999 CPU-y`.
fn time(seconds: f64, of: &str) -> String {
    match seconds {
        s if s < 600.0 => format!("{s:.0} {of}-s"),
        s if s < 36_000.0 => format!("{:.0} {of}-min", s / 60.0),
        s if s < 9999.0 * 3600.0 => format!("{:.0} {of}-h", s / 3600.0),
        s => format!("{:.0} {of}-y", (s / (8766.0 * 3600.0)).min(9999.0)),
    }
}

/// What the standing of a trial means.
fn standing_at(standing: TrialStanding, units: f64) -> String {
    let units = amount(units);
    match standing {
        TrialStanding::Starting => {
            format!(
                "Trials are compared for the first time at unit {units} of their progress, which it has not reached"
            )
        }
        TrialStanding::Promoted => format!("At unit {units} of its progress it was among the best third"),
        TrialStanding::CaughtUp => {
            format!(
                "At unit {units} of its progress others were better, but it has caught up with what they had at its present progress"
            )
        }
        TrialStanding::Behind => format!("At unit {units} of its progress others were better"),
    }
}

/// Formats progress units with at most four digits: `14`, `12k`.
fn amount(units: f64) -> String {
    match units.max(0.0) {
        u if u < 9999.5 => format!("{u:.0}"),
        u if u < 9_999_500.0 => format!("{:.0}k", u / 1e3),
        u => format!("{:.0}M", (u / 1e6).min(9999.0)),
    }
}

fn ordinal(rank: usize) -> String {
    let suffix = match (rank % 10, rank % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{rank}{suffix}")
}

/// Formats the time of day in UTC: `14:05:00`.
fn time_of_day(unix_ms: u64) -> String {
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
            Reason::Broken { condition: Condition::Diverging },
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
            Reason::Ranked { milestone: "95 % quality".into(), work: 9998.6 * 3600.0, rank: 128, of: 1000 },
            Reason::Ranked { milestone: "95 % quality".into(), work: 1e300, rank: 128, of: 1000 },
            Reason::Ranked { milestone: COMPLETION.into(), work: f64::NAN, rank: 1000, of: 1000 },
            Reason::Ranked { milestone: FIRST_REPORTS.into(), work: 4.0, rank: 128, of: 1000 },
            Reason::Trial { standing: TrialStanding::CaughtUp, units: 9_999_499.0, rank: 128, of: 1000 },
            Reason::Trial { standing: TrialStanding::Starting, units: f64::NAN, rank: 128, of: 1000 },
            Reason::RankedOnGpu { gpu: 15, milestone: COMPLETION.into(), work: 35_999.0, rank: 1000, of: 1000 },
            Reason::RankedOnGpu { gpu: 15, milestone: COMPLETION.into(), work: f64::INFINITY, rank: 1000, of: 1000 },
        ];
        for reason in reasons {
            let text = reason.to_string();
            assert!(text.chars().count() <= 40, "{} characters: {text}", text.chars().count());
            assert!(reason.explanation().len() >= text.len());
        }
    }
}
