//! `flowctl completion SHELL`: clap's script, extended to complete the names of current jobs and nodes.
//!
//! Arguments that take such a name have the hint [`JOB`], [`CLUSTER_JOB`] or [`NODE`]; the script calls `flowctl __jobs` for them.

use api::client::Client;
use api::wire::{Cluster, ContainerList};
use clap::{Arg, Command, ValueEnum, ValueHint};
use clap_complete::Shell;
use std::collections::BTreeSet;
use std::time::Duration;
use term::exit::Failure;
use term::screen::Screen;

/// The hint of an argument that is a job: not a file, nor anything else that a shell can complete.
pub(super) const JOB: ValueHint = ValueHint::Other;
/// The hint of an argument that is a job of the cluster. clap means user names by it, which no argument here takes.
pub(super) const CLUSTER_JOB: ValueHint = ValueHint::Username;
/// The hint of an argument that is a node of the cluster.
pub(super) const NODE: ValueHint = ValueHint::Hostname;

/// The hidden subcommand that the scripts call.
pub(super) const JOBS: &str = "__jobs";

/// The subcommand with the cluster's subcommands.
const CLUSTER: &str = "cluster";

/// Timeout of a completion: users do not wait longer.
const TIMEOUT: Duration = Duration::from_millis(700);

/// The kinds of names that can be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Names {
    /// The governed jobs.
    Jobs,
    /// The jobs of the cluster, and their gangs.
    ClusterJobs,
    /// The nodes of the cluster.
    Nodes,
}

impl Names {
    fn of(argument: &Arg) -> Option<Names> {
        match argument.get_value_hint() {
            JOB => Some(Names::Jobs),
            CLUSTER_JOB => Some(Names::ClusterJobs),
            NODE => Some(Names::Nodes),
            _ => None,
        }
    }

    /// The argument of `flowctl __jobs`.
    fn word(self) -> &'static str {
        match self {
            Names::Jobs => "jobs",
            Names::ClusterJobs => "cluster-jobs",
            Names::Nodes => "nodes",
        }
    }

    pub(super) fn is_of_the_cluster(self) -> bool {
        self != Names::Jobs
    }
}

/// A subcommand that takes names: the kind of each positional argument; the last kind applies to all further arguments.
struct Named {
    /// Whether it is a subcommand of `flowctl cluster`.
    is_of_cluster: bool,
    verb: String,
    names: Vec<Names>,
}

/// Prints the completion script for a shell.
pub(super) fn script(shell: Shell, mut command: Command, screen: &Screen) -> Result<(), Failure> {
    let verbs = verbs_with_names(&command);
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

/// Prints names, one per line; nothing if the daemon does not reply in time.
pub(super) async fn names(client: &Client, of: Names, screen: &Screen) -> Result<(), Failure> {
    let client = client.with_timeout(TIMEOUT);
    let words: BTreeSet<String> = if of.is_of_the_cluster() {
        let Ok(cluster) = client.get::<Cluster>("/v1/cluster").await else { return Ok(()) };
        match of {
            Names::Nodes => cluster.nodes.into_iter().map(|node| plain(node.name, &node.id)).collect(),
            _ => {
                let gangs: Vec<String> = cluster.jobs.iter().filter_map(|job| job.gang.clone()).collect();
                cluster.jobs.into_iter().map(|job| plain(job.name, &job.id)).chain(gangs).collect()
            }
        }
    } else {
        let Ok(list) = client.get::<ContainerList>("/v1/containers").await else { return Ok(()) };
        list.containers.into_iter().map(|job| plain(job.name, &job.short_id)).collect()
    };
    let lines: String = words.iter().filter(|word| is_plain(word)).map(|word| format!("{word}\n")).collect();
    Ok(screen.print(&lines)?)
}

/// The name, or the id if the name is not safe in a shell.
fn plain(name: String, id: &str) -> String {
    if is_plain(&name) { name } else { id.to_owned() }
}

/// Whether a name is safe in a shell: other users choose the names of containers, so a name must not contain shell syntax.
fn is_plain(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn verbs_with_names(command: &Command) -> Vec<Named> {
    let named = |is_of_cluster: bool| {
        move |verb: &Command| {
            let names: Vec<Names> = verb.get_positionals().filter_map(Names::of).collect();
            (!names.is_empty()).then(|| Named { is_of_cluster, verb: verb.get_name().to_owned(), names })
        }
    };
    let cluster = command.find_subcommand(CLUSTER).into_iter().flat_map(Command::get_subcommands);
    command.get_subcommands().filter_map(named(false)).chain(cluster.filter_map(named(true))).collect()
}

/// Adds a function in front of clap's: after a verb that takes names, a word that is no option and follows none is a name.
fn for_bash(plain: &str, verbs: &[Named]) -> String {
    let own = plain.replace("complete -F _flowctl ", "complete -F _flowctl_or_names ");
    let arms: String = verbs
        .iter()
        .map(|Named { is_of_cluster, verb, names }| {
            let of = if *is_of_cluster { format!("'{CLUSTER} '{verb}") } else { verb.clone() };
            let names: Vec<&str> = names.iter().map(|names| names.word()).collect();
            format!("            {of}) names=({}) ;;\n", names.join(" "))
        })
        .collect();
    format!(
        r#"_flowctl_or_names() {{
    local word of="" at=0 names=() current="${{COMP_WORDS[COMP_CWORD]}}"
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ ${{#names[@]}} != 0 ]]; then
            [[ $word == -* || $at -ge $((${{#names[@]}} - 1)) ]] || at=$((at + 1))
            continue
        fi
        case "$of$word" in
            {CLUSTER}) of="{CLUSTER} " ;;
{arms}        esac
    done
    if [[ ${{#names[@]}} == 0 || $current == -* || ${{COMP_WORDS[COMP_CWORD-1]}} == -* ]]; then
        _flowctl "$@"
        return
    fi
    COMPREPLY=()
    compopt +o default +o bashdefault 2>/dev/null
    while IFS= read -r word; do
        [[ $word == "$current"* ]] && COMPREPLY+=("$word")
    done < <("${{COMP_WORDS[0]}}" {JOBS} "${{names[at]}}" 2>/dev/null)
    return 0
}}

{own}"#
    )
}

/// Replaces clap's actions: it writes none for the hint [`JOB`], and its own for the other hints.
fn for_zsh(plain: &str) -> String {
    let mut script = plain.to_owned();
    for (names, action) in [(Names::Jobs, ""), (Names::ClusterJobs, "_users"), (Names::Nodes, "_hosts")] {
        let word = names.word();
        let function = format!(
            "_flowctl_{word}() {{\n    local -a names\n    names=(${{(f)\"$(_call_program names flowctl {JOBS} {word} 2>/dev/null)\"}})\n    \
             compadd -a names\n}}\n\n_flowctl() {{\n"
        );
        script = script.replace(&format!(":{action}' \\\n"), &format!(":_flowctl_{word}' \\\n"));
        script = script.replacen("_flowctl() {\n", &function, 1);
    }
    script
}

fn for_fish(plain: &str, verbs: &[Named]) -> String {
    let lines = verbs.iter().map(|Named { is_of_cluster, verb, names }| {
        let condition = match is_of_cluster {
            true => format!("__fish_flowctl_using_subcommand {CLUSTER}; and __fish_seen_subcommand_from {verb}"),
            false => format!("__fish_flowctl_using_subcommand {verb}"),
        };
        let asked: Vec<String> =
            names.iter().map(|names| format!("(flowctl {JOBS} {} 2>/dev/null)", names.word())).collect();
        format!("complete -c flowctl -n \"{condition}\" -f -a \"{}\"\n", asked.join(" "))
    });
    format!("{plain}{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn zsh_and_fish_complete_names_where_bash_does() {
        let command = || super::super::Cli::command();
        let verbs = verbs_with_names(&command());
        let of = |cluster: bool| verbs.iter().filter(move |verb| verb.is_of_cluster == cluster);
        let words = |cluster: bool| of(cluster).map(|verb| verb.verb.as_str()).collect::<Vec<_>>();
        assert_eq!(
            words(false),
            ["explain", "history", "sweep", "release", "govern", "pin", "unpin", "disown", "logs"]
        );
        assert_eq!(
            words(true),
            ["explain", "move", "drain", "undrain", "suspend", "resume", "cancel", "logs", "node-is-off"]
        );
        let plain = |shell: Shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "flowctl", &mut script);
            String::from_utf8(script).expect("UTF-8")
        };
        let (zsh, fish) = (for_zsh(&plain(Shell::Zsh)), for_fish(&plain(Shell::Fish), &verbs));
        for names in [Names::Jobs, Names::ClusterJobs, Names::Nodes] {
            let takes = |verb: &&Named| verb.names.contains(&names);
            // Each alias of a verb counts too.
            let spellings = |verb: &Named| {
                let command = command();
                let parent = if verb.is_of_cluster { command.find_subcommand(CLUSTER) } else { Some(&command) };
                let verb = parent.and_then(|parent| parent.find_subcommand(&verb.verb)).expect("a verb");
                1 + verb.get_visible_aliases().count()
            };
            let (word, places) = (names.word(), verbs.iter().filter(takes));
            let spelled: usize = places.clone().map(spellings).sum();
            assert_eq!(zsh.matches(&format!(":_flowctl_{word}' \\\n")).count(), spelled, "{word}");
            assert_eq!(zsh.matches(&format!("_flowctl_{word}() {{")).count(), 1);
            assert_eq!(fish.matches(&format!("(flowctl __jobs {word} ")).count(), places.count(), "{word}");
        }
    }

    #[test]
    fn a_name_with_shell_syntax_is_not_offered() {
        for name in ["$(reboot)", "a b", "`x`", "a;b", "-rf", "a\nb", "", "é"] {
            assert!(!is_plain(name), "{name}");
        }
        assert!(is_plain("sweep-1.lr_0"));
    }
}
