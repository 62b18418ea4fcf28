//! How the command line presents itself: its commands in groups, and an answer to verbs that are `docker`'s. Imports: clap.

use super::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use std::fmt::Write as _;

/// The commands by what one wants; within a group the one that is needed first.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Look", &["status", "top", "ps", "explain", "history", "events", "logs", "report"]),
    ("Control", &["release", "govern", "pin", "unpin", "adopt", "disown", "restore", "policy", "reload"]),
    ("Set up", &["run", "check-log", "doctor", "config", "metrics", "completion", "help"]),
    ("Several machines", &["cluster"]),
    ("Evaluate", &["demo", "bench", "record"]),
];

/// What people type who know `docker` and `systemctl`.
const NOT_OURS: [&str; 7] = ["stop", "start", "restart", "kill", "rm", "exec", "update"];

/// The whole command line, with grouped help.
pub(super) fn command() -> Command {
    let command = Cli::command();
    let mut groups = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(groups, "{group}:"); // a String takes everything
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(groups, "  {name:<11} {}", about.unwrap_or_default());
        }
        groups.push('\n');
    }
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}");
    command.help_template(template)
}

/// What to say to a verb that is no command of ours but one of the engine's.
pub(super) fn is_the_engines(refusal: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(verb)) = refusal.get(ContextKind::InvalidSubcommand) else { return None };
    let theirs = refusal.kind() == ErrorKind::InvalidSubcommand && NOT_OURS.contains(&verb.as_str());
    theirs.then(|| {
        format!(
            "no such command: `docker {verb} JOB` does that; `flowctl release JOB` leaves a job alone, with its original limits"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
        let mut shown: Vec<&str> = shown.collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(shown, grouped);
    }

    #[test]
    fn a_verb_of_the_engine_is_answered() {
        let refusal = command().try_get_matches_from(["flowctl", "stop", "vae"]).expect_err("no such command");
        assert!(is_the_engines(&refusal).is_some_and(|words| words.contains("docker stop")));
        let refusal = command().try_get_matches_from(["flowctl", "statsu"]).expect_err("no such command");
        assert_eq!(is_the_engines(&refusal), None);
    }
}
