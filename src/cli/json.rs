//! `-o json` means JSON, or is refused: the commands that print something else.

use super::Verb;
use term::exit::{Exit, Failure};
use term::screen::Screen;

/// Refuses JSON for a command that cannot print it.
pub(super) fn check(verb: &Verb, screen: &Screen) -> Result<(), Failure> {
    match other_output(verb).filter(|_| screen.is_json()) {
        Some((what, next)) => Err(Failure::new(Exit::Usage, what, next)),
        None => Ok(()),
    }
}

/// What the command prints instead, and where its data is as JSON.
fn other_output(verb: &Verb) -> Option<(&'static str, &'static str)> {
    match verb {
        Verb::Top(_) => Some((
            "`top` has no JSON output",
            "use `flowctl status --watch=1 -o jsonl`, or `flowctl events -o jsonl` for events",
        )),
        Verb::Report(_) => {
            Some(("a report is written only as an HTML page", "`flowctl history -o json` prints its data"))
        }
        Verb::Metrics(_) => Some((
            "metrics are text in the format of Prometheus",
            "`flowctl status -o json` prints the numbers of the jobs",
        )),
        Verb::Notify(_) => {
            Some(("the result of a test is text", "omit -o json; the exit code is 0 if every message was delivered"))
        }
        Verb::Run(_) => Some(("`run` prints what its command prints", "`flowctl ps -o json` describes the job")),
        Verb::Logs(args) if args.prints_text() => {
            Some(("a log is printed as it is", "without -f and -n, -o json prints what was read from it"))
        }
        Verb::Completion { .. } => Some(("a completion script has no JSON output", "omit -o json")),
        Verb::Help(_) | Verb::Man(_) => {
            Some(("help is text", "omit -o json; `flowctl config keys -o json` lists the settings"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, usage};
    use clap::FromArgMatches;
    use term::screen::ColorChoice;

    fn is_refused(line: &str) -> bool {
        let matches = usage::command().try_get_matches_from(line.split(' ')).expect("a command line");
        let cli = Cli::from_arg_matches(&matches).expect("a command line");
        check(&cli.verb, &Screen::new(cli.common.format(), ColorChoice::Never)).is_err()
    }

    #[test]
    fn json_is_refused_by_commands_that_print_something_else() {
        for verb in [
            "top",
            "metrics",
            "help",
            "help run",
            "man",
            "completion bash",
            "run true",
            "notify test",
            "logs -f a",
            "logs -n 3 a",
        ] {
            let line = format!("flowctl -o json {verb}");
            assert!(is_refused(&line), "{line}");
            assert!(is_refused(&line.replace("-o json", "--json")), "{line}");
            assert!(!is_refused(&line.replace("-o json", "-o table")), "{verb}");
        }
        assert!(is_refused("flowctl --json report"));
        for verb in
            ["status", "ps -a", "history", "events", "policy", "doctor", "config keys", "env", "logs a", "release a"]
        {
            assert!(!is_refused(&format!("flowctl -o json {verb}")), "{verb}");
        }
    }
}
