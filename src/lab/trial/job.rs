//! A job of a schedule, ready to start.

use crate::workload::{Amount, Kind};
use std::time::Duration;

/// One job of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrialJob {
    /// Its name, used in tables and in the name of the container.
    pub name: String,
    /// When it starts after the start of the run.
    pub start: Duration,
    /// Whether something goes wrong with it, so that a benchmark compares the others.
    pub is_broken: bool,
    /// Its `flowcon.*` labels.
    pub labels: Vec<(String, String)>,
    /// Its work.
    pub work: Work,
}

/// The work of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    /// A built-in training.
    Training(Kind, Amount),
    /// A program on this machine.
    Command {
        /// The program and its arguments.
        line: Vec<String>,
        /// Directories that it needs in addition to `/usr` and `/etc`; mounted in a container at the same paths, read-only.
        mounts: Vec<String>,
        /// Environment variables, (name, value); never shown, because they may contain secrets.
        environment: Vec<(String, String)>,
    },
}

/// Default variable of every command: without it, Python buffers its output if that is not a terminal.
const DEFAULT_VARIABLE: (&str, &str) = ("PYTHONUNBUFFERED", "1");

impl Work {
    /// The environment variables of a command; none for a built-in training.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        match self {
            Work::Training(..) => Vec::new(),
            Work::Command { environment, .. } => {
                let (name, value) = DEFAULT_VARIABLE;
                let default = (name.to_owned(), value.to_owned());
                let is_overridden = environment.iter().any(|(own, _)| own == name);
                (!is_overridden).then_some(default).into_iter().chain(environment.iter().cloned()).collect()
            }
        }
    }

    /// The command line; `flowctl` is the path of this program where the command will run.
    pub(crate) fn command_line(&self, flowctl: &str) -> Vec<String> {
        match self {
            Work::Command { line, .. } => line.clone(),
            Work::Training(kind, amount) => {
                let mut line = vec![flowctl.to_owned(), "train".to_owned(), kind.name().to_owned()];
                for (flag, value) in [
                    ("--epochs", amount.epochs as u64),
                    ("--size", amount.size as u64),
                    ("--threads", amount.threads as u64),
                    ("--seed", amount.seed),
                ] {
                    line.extend([flag.to_owned(), value.to_string()]);
                }
                line
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_override_the_default_variable() {
        let environment_of = |environment: &[(&str, &str)]| {
            let environment =
                environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let work = Work::Command { line: vec!["x".into()], mounts: Vec::new(), environment };
            work.environment().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(environment_of(&[("EPOCHS", "3")]), ["PYTHONUNBUFFERED=1", "EPOCHS=3"]);
        assert_eq!(environment_of(&[("PYTHONUNBUFFERED", "")]), ["PYTHONUNBUFFERED="]);
    }

    #[test]
    fn the_command_line_of_a_training_contains_all_amounts() {
        let work = Work::Training(Kind::Mlp, Amount { epochs: 3, size: 64, threads: 2, seed: 9 });
        let line = work.command_line("flowctl").join(" ");
        assert_eq!(line, "flowctl train mlp --epochs 3 --size 64 --threads 2 --seed 9");
    }
}
