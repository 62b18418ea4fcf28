//! Alternatives of a job, as its owner writes them, and the table of run times: what a job reserves, where, and how long it takes.
//!
//! ```text
//! flowcon.alternatives="cpus=2 duration=2h | gpus=1 node.labels.type==a100 duration=20m"
//! ```

use super::constraints::constraint;
use model::Millis;
use model::cluster::{Constraint, Resources};
use model::time::duration;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of alternatives of a job.
const MOST: usize = 16;
const CORES_MOST: f64 = 65_536.0;
const SPANS: std::ops::RangeInclusive<Millis> = Millis::from_secs(1)..=Millis::from_secs(31_536_000);
/// The expected value of the label.
pub(super) const EXPECTED: &str = "up to 16 alternatives, separated by |, of cpus=N, gpus=N, constraints and duration=TIME, such as \
                                   cpus=2 duration=2h | gpus=1 node.labels.type==a100 duration=20m";

/// One way to run a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Reserved cores.
    pub cores: f64,
    /// Reserved GPUs.
    pub gpus: u32,
    /// Constraints on the node, besides those of the service.
    pub constraints: Vec<Constraint>,
    /// Duration of the whole job, as its owner estimates it.
    pub duration: Option<Millis>,
    /// As it was written.
    pub text: Arc<str>,
}

impl Alternative {
    /// Returns an alternative that only says what is reserved.
    pub(super) fn of(request: Resources) -> Alternative {
        let text = format!("cpus={} gpus={}", request.cores, request.gpus).into();
        Alternative { cores: request.cores, gpus: request.gpus, constraints: Vec::new(), duration: None, text }
    }

    /// Returns what a service reserves in this alternative. Its memory is the same in all.
    pub(super) fn request(&self, service: Resources) -> Resources {
        Resources { cores: self.cores, gpus: self.gpus, ..service }
    }

    /// Whether a job runs in the same way.
    pub(super) fn is_like(&self, other: &Alternative) -> bool {
        (self.cores, self.gpus, &self.constraints) == (other.cores, other.gpus, &other.constraints)
    }

    /// Parses `cpus=2 node.labels.type==a100 duration=2h`: parts separated by spaces or commas.
    fn parse(text: &str) -> Option<Alternative> {
        let mut alternative = Alternative { text: text.trim().into(), ..Alternative::of(Resources::default()) };
        for part in text.split([' ', ',']).filter(|part| !part.is_empty()) {
            if let Some(constraint) = constraint(part) {
                alternative.constraints.push(constraint);
                continue;
            }
            let (name, value) = part.split_once('=')?;
            match name {
                "cpus" => alternative.cores = value.parse().ok().filter(|cores| (0.0..=CORES_MOST).contains(cores))?,
                "gpus" => alternative.gpus = value.parse().ok()?,
                "duration" => alternative.duration = Some(span(value)?),
                _ => return None,
            }
        }
        (alternative.cores > 0.0 || alternative.gpus > 0).then_some(alternative)
    }
}

/// Parses a duration from a second to a year.
pub(super) fn span(value: &str) -> Option<Millis> {
    let span = Millis(u64::try_from(duration(value)?.as_millis()).ok()?);
    SPANS.contains(&span).then_some(span)
}

/// Parses the value of the label.
pub(super) fn alternatives(value: &str) -> Option<Vec<Alternative>> {
    let all: Option<Vec<Alternative>> = value.split('|').map(Alternative::parse).collect();
    all.filter(|all| all.len() <= MOST)
}

/// The table of run times: by kind of job, the duration of each alternative.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTimes(BTreeMap<String, Vec<(Alternative, Millis)>>);

impl RunTimes {
    /// Parses a TOML file: a table for each kind of job, in it `"cpus=2" = "2h"`.
    ///
    /// # Errors
    /// Names the line, or the key with what is expected.
    pub fn parse(text: &str) -> Result<RunTimes, String> {
        let file: BTreeMap<String, BTreeMap<String, String>> =
            toml::from_str(text).map_err(|error| error.to_string())?;
        let row = |kind: &str, (alternative, takes): (String, String)| {
            let wrong = |what: &str| format!("[{kind}]: \"{alternative}\" = \"{takes}\": expected {what}");
            let parsed = Alternative::parse(&alternative).filter(|parsed| parsed.duration.is_none());
            let parsed = parsed.ok_or_else(|| wrong("an alternative, such as \"gpus=1 node.labels.type==a100\""))?;
            let takes = span(&takes).ok_or_else(|| wrong("a duration from 1s to a year, such as \"90m\""))?;
            Ok((parsed, takes))
        };
        let kinds = file.into_iter().map(|(kind, rows)| {
            let rows = rows.into_iter().map(|entry| row(&kind, entry)).collect::<Result<Vec<_>, String>>()?;
            Ok((kind, rows))
        });
        kinds.collect::<Result<_, String>>().map(RunTimes)
    }

    /// Returns the duration of a whole job of this kind in an alternative.
    pub(super) fn of(&self, kind: &str, alternative: &Alternative) -> Option<Millis> {
        self.0.get(kind)?.iter().find(|(known, _)| known.is_like(alternative)).map(|(_, takes)| *takes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_parsed_as_a_user_writes_them() {
        let all = alternatives("cpus=2 duration=2h | gpus=1, node.labels.type==a100 node.hostname!=old").unwrap();
        let constraint =
            |label: &str, equal, value: &str| Constraint { label: label.into(), equal, value: value.into() };
        assert_eq!((all[0].cores, all[0].gpus, all[0].duration), (2.0, 0, Some(Millis::from_secs(7200))));
        assert_eq!((all[1].cores, all[1].gpus, all[1].duration), (0.0, 1, None));
        assert_eq!(all[1].constraints, [constraint("type", true, "a100"), constraint("node.hostname", false, "old")]);
        assert_eq!(&*all[1].text, "gpus=1, node.labels.type==a100 node.hostname!=old");
        for wrong in [
            "",
            "cpus=2 |",
            "cpus=0",
            "cpus=-1",
            "gpus=half",
            "duration=2h",
            "2 cores",
            "memory=1GiB",
            "gpus=1 type==",
            "cpus=inf",
        ] {
            assert_eq!(alternatives(wrong), None, "{wrong}");
        }
        assert_eq!(alternatives(&["cpus=1"; 17].join("|")), None);
    }

    #[test]
    fn the_table_of_run_times_says_how_long_a_kind_of_job_takes_in_an_alternative() {
        let table = RunTimes::parse(include_str!("../../../config/examples/run-times.toml")).unwrap();
        let takes = |kind: &str, text: &str| table.of(kind, &alternatives(text).unwrap()[0]);
        assert_eq!(takes("resnet50", "gpus=1 node.labels.type==a100 duration=9h"), Some(Millis::from_secs(1200)));
        assert_eq!(takes("resnet50", "gpus=1"), None, "on any GPU");
        assert_eq!(takes("bert", "gpus=1 node.labels.type==a100"), None);
        for (text, expected) in [
            ("[a]\n\"cpus=2\" = \"soon\"\n", "\"cpus=2\" = \"soon\": expected a duration"),
            ("[a]\n\"two\" = \"2h\"\n", "[a]: \"two\" = \"2h\": expected an alternative"),
            ("a = 1\n", "line 1"),
        ] {
            assert!(RunTimes::parse(text).unwrap_err().contains(expected), "{text}");
        }
    }
}
