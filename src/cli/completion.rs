//! `flowctl completion SHELL`: clap's script, taught the names of the jobs that are governed at the moment.
//!
//! Where a command takes a job, its argument has [`JOB`] as its hint, and the script asks `flowctl __jobs`. Imports: the API's
//! client, screen.

use crate::api::client::Client;
use crate::api::wire::ContainerList;
use crate::term::exit::Failure;
use crate::term::screen::Screen;
use clap::{Command, ValueHint};
use clap_complete::Shell;
use std::time::Duration;

/// The hint of an argument that is a job: no file, nothing else that a shell knows.
pub(super) const JOB: ValueHint = ValueHint::Other;

/// The hidden subcommand that the scripts ask.
pub(super) const JOBS: &str = "__jobs";

/// Nobody waits longer for a name.
const AT_MOST: Duration = Duration::from_millis(700);

/// Prints the script for a shell.
pub(super) fn script(shell: Shell, mut command: Command, screen: &Screen) -> Result<(), Failure> {
    let verbs = verbs_about_jobs(&command);
    let mut plain = Vec::new();
    clap_complete::generate(shell, &mut command, "flowctl", &mut plain);
    let plain = String::from_utf8_lossy(&plain);
    let script = match shell {
        Shell::Bash => for_bash(&plain, &verbs),
        Shell::Zsh => for_zsh(&plain),
        Shell::Fish => for_fish(&plain, &verbs),
        _ => plain.into_owned(),
    };
    Ok(screen.print(&script)?)
}

/// Prints the names of the governed jobs, one a line; nothing where no daemon answers at once.
pub(super) async fn jobs(client: &Client, screen: &Screen) -> Result<(), Failure> {
    let Ok(list) = client.hurried(AT_MOST).get::<ContainerList>("/v1/containers").await else { return Ok(()) };
    let words = list.containers.iter().map(|job| if is_plain(&job.name) { &job.name } else { &job.short_id });
    let lines: String = words.filter(|word| is_plain(word)).map(|word| format!("{word}\n")).collect();
    Ok(screen.print(&lines)?)
}

/// A shell sees these: strangers name containers, and nothing of theirs may mean anything to it.
fn is_plain(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn verbs_about_jobs(command: &Command) -> Vec<String> {
    let takes_job = |verb: &&Command| verb.get_positionals().any(|argument| argument.get_value_hint() == JOB);
    command.get_subcommands().filter(takes_job).map(|verb| verb.get_name().to_owned()).collect()
}

/// A function before clap's: after a verb about jobs, what is no option and follows none is a job.
fn for_bash(plain: &str, verbs: &[String]) -> String {
    let own = plain.replace("complete -F _flowctl ", "complete -F _flowctl_or_jobs ");
    let verbs = verbs.join("|");
    format!(
        r#"_flowctl_or_jobs() {{
    local word verb="" current="${{COMP_WORDS[COMP_CWORD]}}"
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$word" in {verbs}) verb=$word; break ;; esac
    done
    if [[ -z $verb || $current == -* || ${{COMP_WORDS[COMP_CWORD-1]}} == -* ]]; then
        _flowctl "$@"
        return
    fi
    COMPREPLY=()
    compopt +o default +o bashdefault 2>/dev/null
    while IFS= read -r word; do
        [[ $word == "$current"* ]] && COMPREPLY+=("$word")
    done < <("${{COMP_WORDS[0]}}" {JOBS} 2>/dev/null)
    return 0
}}

{own}"#
    )
}

/// clap writes no action for an argument with the hint [`JOB`].
fn for_zsh(plain: &str) -> String {
    let function = format!(
        "_flowctl_jobs() {{\n    local -a jobs\n    jobs=(${{(f)\"$(_call_program jobs flowctl {JOBS} 2>/dev/null)\"}})\n    \
         compadd -a jobs\n}}\n\n_flowctl() {{\n"
    );
    plain.replace(":' \\\n", ":_flowctl_jobs' \\\n").replacen("_flowctl() {\n", &function, 1)
}

fn for_fish(plain: &str, verbs: &[String]) -> String {
    let lines = verbs.iter().map(|verb| {
        format!(
            "complete -c flowctl -n \"__fish_flowctl_using_subcommand {verb}\" -f -a \"(flowctl {JOBS} 2>/dev/null)\"\n"
        )
    });
    format!("{plain}{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn zsh_and_fish_ask_for_jobs_where_bash_does() {
        let command = || super::super::Cli::command();
        let verbs = verbs_about_jobs(&command());
        assert_eq!(verbs, ["explain", "history", "release", "govern", "pin", "unpin", "disown", "logs"]);
        let plain = |shell: Shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "flowctl", &mut script);
            String::from_utf8(script).expect("UTF-8")
        };
        let zsh = for_zsh(&plain(Shell::Zsh));
        // Once more for each other name of a verb.
        let names: usize = verbs
            .iter()
            .map(|verb| 1 + command().find_subcommand(verb).map_or(0, |verb| verb.get_visible_aliases().count()))
            .sum();
        assert_eq!(zsh.matches(":_flowctl_jobs' \\\n").count(), names);
        assert_eq!(zsh.matches("_flowctl_jobs() {").count(), 1);
        assert_eq!(for_fish(&plain(Shell::Fish), &verbs).matches("(flowctl __jobs").count(), verbs.len());
    }

    #[test]
    fn a_name_that_a_shell_could_take_for_more_is_not_offered() {
        for name in ["$(reboot)", "a b", "`x`", "a;b", "-rf", "a\nb", "", "é"] {
            assert!(!is_plain(name), "{name}");
        }
        assert!(is_plain("sweep-1.lr_0"));
    }
}
