//! A job of a schedule, ready to start.
//!
//! Imports: workload.

use crate::lab::workload::{Amount, Kind};
use std::time::Duration;

/// One job of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in tables and in the container's name.
    pub name: String,
    /// When it starts after the run's beginning.
    pub start: Duration,
    /// `flowcon.*` labels of its own.
    pub labels: Vec<(String, String)>,
    /// What it does.
    pub work: Work,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A built-in training.
    Training(Kind, Amount),
    /// A program of this machine.
    Command {
        /// The program and its arguments.
        line: Vec<String>,
        /// Directories that it needs besides `/usr` and `/etc`; a container sees them at the same paths, read-only.
        mounts: Vec<String>,
        /// Variables of its own, (name, value); they may hold secrets and are shown nowhere.
        environment: Vec<(String, String)>,
    },
}

/// Every command has these, unless it says otherwise: Python holds lines back where nobody watches.
const USUAL_ENVIRONMENT: (&str, &str) = ("PYTHONUNBUFFERED", "1");

impl Work {
    /// The variables of a command, on either runtime; none for a built-in training.
    pub fn environment(&self) -> Vec<(String, String)> {
        match self {
            Work::Training(..) => Vec::new(),
            Work::Command { environment, .. } => {
                let (name, value) = USUAL_ENVIRONMENT;
                let usual = (name.to_owned(), value.to_owned());
                let is_own = environment.iter().any(|(own, _)| own == name);
                (!is_own).then_some(usual).into_iter().chain(environment.iter().cloned()).collect()
            }
        }
    }

    /// The command line, `flowctl` being what this program is called where it will run.
    pub fn command_line(&self, flowctl: &str) -> Vec<String> {
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
    fn a_command_may_say_otherwise_about_its_usual_environment() {
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
    fn a_trainings_command_line_says_every_amount() {
        let work = Work::Training(Kind::Mlp, Amount { epochs: 3, size: 64, threads: 2, seed: 9 });
        let line = work.command_line("flowctl").join(" ");
        assert_eq!(line, "flowctl train mlp --epochs 3 --size 64 --threads 2 --seed 9");
    }
}
