//! The health of a running job: one condition of a closed set, with its evidence.

use super::{Bytes, Millis, ProgressUnit, word};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a running job, the worst that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Nothing has been read from its log yet, or too little to judge.
    #[default]
    Starting,
    /// It improves, or its progress grows.
    Learning,
    /// It has not improved beyond the noise for a while.
    Plateau,
    /// Its log says that all units are done.
    Done,
    /// Its GPU is idle for want of CPU.
    StarvingGpu,
    /// Its metric on held-out data has been getting worse since its best value.
    Overfitting,
    /// Its deadline has passed, or cannot be met with the whole node.
    Late,
    /// Its memory grows towards its limit and will reach it soon.
    ShortOfMemory,
    /// No progress for much longer than usual.
    Stalled,
    /// Its metric is far worse than it ever was.
    Diverging,
    /// Its metric is not a number any more.
    Nan,
}

impl Condition {
    /// All conditions, from the best to the worst.
    pub const ALL: [Condition; 11] = [
        Condition::Starting,
        Condition::Learning,
        Condition::Plateau,
        Condition::Done,
        Condition::StarvingGpu,
        Condition::Overfitting,
        Condition::Late,
        Condition::ShortOfMemory,
        Condition::Stalled,
        Condition::Diverging,
        Condition::Nan,
    ];

    /// Whether CPU is wasted on it: the policy gives it the floor until it recovers.
    pub fn is_broken(self) -> bool {
        self >= Condition::Stalled
    }

    /// Whether somebody should look at it.
    pub fn is_trouble(self) -> bool {
        self >= Condition::StarvingGpu
    }
}

impl fmt::Display for Condition {
    /// One or two words for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Condition::Starting => "starting",
            Condition::Learning => "learning",
            Condition::Plateau => "plateau",
            Condition::Done => "done",
            Condition::StarvingGpu => "GPU waits",
            Condition::Overfitting => "overfitting",
            Condition::Late => "late",
            Condition::ShortOfMemory => "memory",
            Condition::Stalled => "stalled",
            Condition::Diverging => "diverging",
            Condition::Nan => "NaN",
        })
    }
}

/// What the processes of a stalled job do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// They use hardly any CPU, although they could have it.
    Asleep,
    /// They use as much CPU as the work of several reports.
    Busy,
    /// They were stopped by a signal, such as SIGSTOP.
    Stopped,
    /// They wait for a disk or a file system.
    WaitingForDisk,
}

/// What a condition was concluded from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Evidence {
    /// The absence of anything worse.
    #[default]
    Nothing,
    /// The latest values are not finite.
    NotFinite {
        /// Number of values since the first that was not finite.
        values: u64,
        /// The progress counter at the first.
        units: Option<f64>,
    },
    /// The latest values are far worse than all before, measured by the range of those.
    Exploded {
        /// Number of them.
        values: u64,
        /// The progress counter at the first.
        units: Option<f64>,
    },
    /// The metric is worse than it was.
    Worse {
        /// The best mean of five values.
        best: f64,
        /// The progress counter then.
        units: Option<f64>,
        /// Evaluations since then.
        evaluations: u64,
    },
    /// No progress.
    Silence {
        /// Time without progress, while it could run.
        quiet: Millis,
        /// Usual time between two reports.
        usual: Millis,
        /// What its processes do.
        activity: Activity,
    },
    /// The working set grows.
    Memory {
        /// The working set.
        used: Bytes,
        /// The limit.
        limit: Bytes,
        /// Seconds until the limit is reached at the present rate.
        seconds: f64,
    },
    /// The GPU waits for the CPU.
    Gpu {
        /// Fraction of the time in which the job's GPUs were busy.
        busy: f64,
        /// Cores that the job used.
        cores: f64,
        /// Those of its processes or threads that load data; `None` if none are known.
        #[serde(default)]
        loaders: Option<Loaders>,
    },
    /// The deadline is missed.
    Deadline {
        /// Seconds by which it is missed at least.
        late_s: f64,
        /// Whether it has passed; otherwise the job cannot meet it.
        has_passed: bool,
    },
}

/// The processes of a job, or else the threads, that use CPU beside its main one: as a rule they load data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaders {
    /// Number of them.
    pub count: usize,
    /// Whether they are threads.
    pub are_threads: bool,
    /// Cores that they use together.
    pub cores: f64,
}

impl fmt::Display for Loaders {
    /// `4 loader processes use 1.9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (are, use_) = match (self.are_threads, self.count) {
            (true, 1) => ("thread", "uses"),
            (true, _) => ("threads", "use"),
            (false, 1) => ("process", "uses"),
            (false, _) => ("processes", "use"),
        };
        write!(f, "{} loader {are} {use_} {:.1}", self.count, self.cores)
    }
}

/// The health of a job at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// The condition.
    pub condition: Condition,
    /// Since when it holds.
    pub since: Millis,
    /// Confidence in it, 0 ..= 1.
    pub confidence: f64,
    /// What it was concluded from.
    pub evidence: Evidence,
}

impl Health {
    /// Describes the condition in a few words, for a table: `NaN since epoch 11`, `stalled for 7m`.
    pub fn words(&self, unit: Option<ProgressUnit>) -> String {
        let since =
            |units: Option<f64>| units.map_or_else(String::new, |units| format!(" since {}", place(unit, units)));
        match self.evidence {
            Evidence::NotFinite { units, .. } => format!("NaN{}", since(units)),
            Evidence::Worse { units, .. } | Evidence::Exploded { units, .. } => {
                format!("{}{}", self.condition, since(units))
            }
            Evidence::Silence { quiet, .. } => format!("stalled for {}", duration(quiet.as_secs_f64())),
            Evidence::Memory { seconds, .. } => format!("out of memory in {}", duration(seconds)),
            Evidence::Gpu { .. } => "GPU waits for CPU".to_owned(),
            Evidence::Deadline { has_passed: true, late_s } => format!("late by {}", duration(late_s)),
            Evidence::Deadline { .. } => "cannot meet its deadline".to_owned(),
            Evidence::Nothing => self.condition.to_string(),
        }
    }

    /// Describes the evidence and the next step in one or two sentences, for `flowctl explain` and events.
    pub fn explanation(&self, unit: Option<ProgressUnit>) -> String {
        match (self.condition, self.evidence) {
            (_, Evidence::NotFinite { values, units }) => format!(
                "The last {values} values of its metric are not finite{}. It will hardly recover: stop it, and start again from a \
                 checkpoint with a lower learning rate or with gradient clipping. Until then it gets the floor of the CPU.",
                units.map_or_else(String::new, |units| format!(", since {}", place(unit, units))),
            ),
            (_, Evidence::Worse { best, units, evaluations }) => format!(
                "Its metric on held-out data was best{} ({}) and has been worse for {evaluations} evaluations, by more than the noise. Keep \
                 the checkpoint from there, and consider stopping it.",
                units.map_or_else(String::new, |units| format!(" at {}", place(unit, units))),
                short(best),
            ),
            (_, Evidence::Exploded { values, units }) => format!(
                "The last {values} values of its metric{} are far worse than all before: by about the whole range of those, or more. Look at \
                 its log; a lower learning rate or gradient clipping often helps. Until it recovers it gets the floor of the CPU.",
                units.map_or_else(String::new, |units| format!(", since {},", place(unit, units))),
            ),
            (_, Evidence::Silence { quiet, usual, activity }) => format!(
                "It has reported nothing for {}; usually a report comes every {}. {} Until it reports again it gets the floor of the CPU.",
                duration(quiet.as_secs_f64()),
                duration(usual.as_secs_f64()),
                match activity {
                    Activity::Asleep =>
                        "Its processes are asleep: look for a deadlock, a lock file or a lost connection.",
                    Activity::Busy =>
                        "Its processes use the CPU without progress: look at them with `py-spy dump` or `gdb -p`.",
                    Activity::Stopped => "Its processes are stopped; `kill -CONT` continues them.",
                    Activity::WaitingForDisk =>
                        "Its processes wait for a disk or a network file system: look at `dmesg` and the mounts.",
                },
            ),
            (_, Evidence::Memory { used, limit, seconds }) => format!(
                "Its working set is {used} of {limit} and reaches the limit in about {} at the present rate; the kernel will then kill it. \
                 Raise the limit (of a container: `docker update --memory`), or lower the batch size.",
                duration(seconds),
            ),
            (_, Evidence::Gpu { busy, cores, loaders }) => format!(
                "Its GPU is busy for {:.0} % of the time only, while the job uses all of the {cores:.1} cores that it gets{}. {} would keep \
                 the GPU busy: raise its share (`flowcon.weight`), or make loading cheaper.",
                100.0 * busy,
                loaders.map_or_else(String::new, |loaders| format!("; {loaders} of them")),
                if busy > 0.05 {
                    format!("At this rate about {:.1} cores", cores / busy)
                } else {
                    "More CPU".to_owned()
                },
            ),
            (_, Evidence::Deadline { late_s, has_passed: true }) => format!(
                "Its deadline passed {} ago. It is ranked like the others now, without favour.",
                duration(late_s)
            ),
            (_, Evidence::Deadline { late_s, .. }) => format!(
                "Even with the whole node it would miss its deadline by {}. It is ranked like the others, without favour.",
                duration(late_s)
            ),
            (Condition::Starting, Evidence::Nothing) => "Too little has been read from its log to judge it.".to_owned(),
            (Condition::Plateau, Evidence::Nothing) => {
                "Its metric has not improved beyond the noise for a while.".to_owned()
            }
            (Condition::Done, Evidence::Nothing) => "Its log says that all units are done.".to_owned(),
            (_, Evidence::Nothing) => "It makes progress.".to_owned(),
        }
    }
}

fn place(unit: Option<ProgressUnit>, units: f64) -> String {
    match unit {
        Some(ProgressUnit::Percent) => format!("{} %", short(units)),
        Some(unit) => format!("{} {}", word(unit), short(units)),
        None => format!("report {}", short(units)),
    }
}

/// At most five significant digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        v if v >= 1000.0 => 0,
        v if v >= 1.0 => 3,
        _ => 5,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `45s`, `7m`, `3h10m`, `2d4h`.
fn duration(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 1e9).round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match whole {
        0..120 => format!("{whole}s"),
        120..3600 => format!("{minutes}m"),
        3600..86_400 => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_each_condition_fit_a_table_column() {
        let evidence = [
            Evidence::NotFinite { values: 3, units: Some(123_456.0) },
            Evidence::Exploded { values: 12, units: Some(123_456.0) },
            Evidence::Worse { best: 0.123_456, units: Some(123_456.0), evaluations: 12 },
            Evidence::Silence {
                quiet: Millis::from_secs(7 * 60),
                usual: Millis::from_secs(3),
                activity: Activity::Asleep,
            },
            Evidence::Memory { used: Bytes(1 << 30), limit: Bytes(1 << 31), seconds: 90.0 },
            Evidence::Gpu { busy: 0.2, cores: 1.5, loaders: None },
            Evidence::Deadline { late_s: 1e6, has_passed: true },
            Evidence::Deadline { late_s: 1e6, has_passed: false },
            Evidence::Nothing,
        ];
        for condition in Condition::ALL {
            assert!(condition.to_string().len() <= 12);
            for evidence in evidence {
                let health = Health { condition, evidence, ..Health::default() };
                let words = health.words(Some(ProgressUnit::Iteration));
                assert!(words.chars().count() <= 40, "{words}");
                assert!(health.explanation(None).ends_with('.'));
            }
        }
    }

    #[test]
    fn the_place_in_the_training_is_named() {
        let health = Health {
            condition: Condition::Nan,
            evidence: Evidence::NotFinite { values: 2, units: Some(11.0) },
            ..Health::default()
        };
        assert_eq!(health.words(Some(ProgressUnit::Epoch)), "NaN since epoch 11");
        assert_eq!(health.words(Some(ProgressUnit::Percent)), "NaN since 11 %");
        assert_eq!(short(0.328_5), "0.3285");
        assert_eq!(
            [duration(59.0), duration(420.0), duration(11_400.0), duration(1e5)],
            ["59s", "7m", "3h10m", "1d3h"]
        );
    }

    #[test]
    fn a_job_that_starves_its_gpu_is_told_what_its_loaders_use_and_what_would_suffice() {
        let loaders = Some(Loaders { count: 4, are_threads: false, cores: 1.9 });
        let evidence = Evidence::Gpu { busy: 0.4, cores: 2.0, loaders };
        let text = Health { condition: Condition::StarvingGpu, evidence, ..Health::default() }.explanation(None);
        assert!(text.contains("all of the 2.0 cores that it gets; 4 loader processes use 1.9 of them."), "{text}");
        assert!(text.contains("At this rate about 5.0 cores would keep the GPU busy"), "{text}");
        assert_eq!(Loaders { count: 1, are_threads: true, cores: 0.5 }.to_string(), "1 loader thread uses 0.5");
    }

    #[test]
    fn the_broken_conditions_are_the_worst() {
        let broken: Vec<Condition> = Condition::ALL.into_iter().filter(|condition| condition.is_broken()).collect();
        assert_eq!(broken, [Condition::Stalled, Condition::Diverging, Condition::Nan]);
        assert!(Condition::ALL.is_sorted());
        assert!(!Condition::Done.is_trouble() && Condition::Overfitting.is_trouble());
    }
}
