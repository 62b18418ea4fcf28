//! The top-level help, with commands in groups, and a hint for verbs of `docker`.

use super::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use std::fmt::Write as _;

/// The commands by purpose; within a group, the one needed first.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Observe", &["status", "top", "ps", "sweep", "users", "explain", "history", "events", "logs", "report"]),
    ("Control", &["release", "govern", "pin", "unpin", "adopt", "disown", "restore", "policy", "reload"]),
    ("Set up", &["run", "env", "check-log", "doctor", "config", "metrics", "notify", "completion", "help", "man"]),
    ("Several machines", &["cluster"]),
    ("Evaluate", &["demo", "bench", "record"]),
];

/// Verbs of `docker` and `systemctl` that users may try.
const DOCKER_VERBS: [&str; 7] = ["stop", "start", "restart", "kill", "rm", "exec", "update"];

/// The whole command line, with grouped help.
pub(super) fn command() -> Command {
    let command = Cli::command();
    let mut groups = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(groups, "{group}:"); // writing to a String cannot fail
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

/// A hint if the unknown subcommand is a verb of `docker`.
pub(super) fn docker_hint(rejection: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(verb)) = rejection.get(ContextKind::InvalidSubcommand) else { return None };
    let is_docker = rejection.kind() == ErrorKind::InvalidSubcommand && DOCKER_VERBS.contains(&verb.as_str());
    is_docker.then(|| {
        format!(
            "no such command: use `docker {verb} JOB`; `flowctl release JOB` restores a job's original limits and stops governing it"
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
    fn a_docker_verb_gets_a_hint() {
        let rejection = command().try_get_matches_from(["flowctl", "stop", "vae"]).expect_err("no such command");
        assert!(docker_hint(&rejection).is_some_and(|words| words.contains("docker stop")));
        let rejection = command().try_get_matches_from(["flowctl", "statsu"]).expect_err("no such command");
        assert_eq!(docker_hint(&rejection), None);
    }
}
