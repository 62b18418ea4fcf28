//! The pages of the manual as Markdown, for the documentation site: the same texts as the man pages.

use super::{Part, Section, Topic, topics};
use clap::builder::StyledStr;
use clap::{Arg, Command};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

/// Words that stay in capitals in a heading.
const ABBREVIATIONS: [&str; 1] = ["MPS"];

/// The sections of the man pages are of no use here.
pub(super) fn write(folder: &Path, programs: Vec<(Command, &str)>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let save = |name: &str, text: String| fs::write(folder.join(format!("{name}.md")), text);
    for (command, _) in programs {
        let mut built = command.disable_help_subcommand(true);
        built.build();
        save(built.get_name(), program(&built))?;
    }
    std::iter::once(topics::configuration()).chain(topics::all()).try_for_each(|topic| save(topic.name, prose(&topic)))
}

fn prose(topic: &Topic) -> String {
    let headings: Vec<&str> = topic.sections.iter().map(|section| section.heading).collect();
    let mut page = format!("# {}\n", escaped(&capitalised(topic.about)));
    for Section { heading, parts } in &topic.sections {
        let _ = write!(page, "\n## {}\n", capitalised(&lower(heading))); // writing to a String cannot fail
        for part in parts {
            let _ = match part {
                Part::Paragraph(words) => write!(page, "\n{}\n", linked(words, &headings)),
                Part::Code(code) => write!(page, "\n```sh\n{code}\n```\n"),
                Part::Item(code, meaning) if !code.contains(' ') || code.contains(" = ") => {
                    write!(page, "\n`{code}`\n: {}\n", linked(meaning, &headings))
                }
                Part::Item(term, meaning) => write!(page, "\n{}\n: {}\n", escaped(term), linked(meaning, &headings)),
            };
        }
    }
    page
}

/// Prose in which "see HEADING" is a link to that section of the page.
fn linked(words: &str, headings: &[&str]) -> String {
    headings.iter().fold(escaped(words), |words, heading| {
        let lower = lower(heading);
        let link = format!("[{}](#{})", capitalised(&lower), lower.to_lowercase().replace(' ', "-").replace('\'', ""));
        words
            .replace(&format!("see {heading}"), &format!("see {link}"))
            .replace(&format!("See {heading}"), &format!("See {link}"))
    })
}

fn lower(heading: &str) -> String {
    let word = |word: &str| if ABBREVIATIONS.contains(&word) { word.to_owned() } else { word.to_lowercase() };
    heading.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn capitalised(words: &str) -> String {
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Prose in Markdown: what is in backticks is code already, and nothing else is markup.
fn escaped(words: &str) -> String {
    let escape = |prose: &str| {
        prose.chars().fold(String::new(), |mut text, character| {
            if "\\*_[]<>#|~".contains(character) {
                text.push('\\');
            }
            text.push(character);
            text
        })
    };
    let part = |(at, part): (usize, &str)| if at % 2 == 0 { escape(part) } else { format!("`{part}`") };
    words.split('`').enumerate().map(part).collect()
}

/// The page of a program: its own options, then a section for each of its commands.
fn program(command: &Command) -> String {
    let mut page = format!("# {}\n", command.get_name());
    usage(&mut page, command);
    let commands: Vec<&Command> = command.get_subcommands().filter(|child| !child.is_hide_set()).collect();
    if !commands.is_empty() {
        page.push_str("\n## Commands\n\n");
        commands.iter().for_each(|child| list(&mut page, command.get_name(), child));
        commands.iter().for_each(|child| section(&mut page, command.get_name(), child));
    }
    page
}

fn list(page: &mut String, parent: &str, command: &Command) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(text).unwrap_or_default();
    let _ = writeln!(page, "- [`{name}`](#{}): {about}", name.replace(' ', "-"));
}

fn section(page: &mut String, parent: &str, command: &Command) {
    let name = format!("{parent} {}", command.get_name());
    let _ = write!(page, "\n## {name}\n");
    usage(page, command);
    command.get_subcommands().filter(|child| !child.is_hide_set()).for_each(|child| section(page, &name, child));
}

/// What a command does, how it is typed, and what its arguments mean.
fn usage(page: &mut String, command: &Command) {
    let about = command.get_long_about().or(command.get_about()).map(text).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "\n{about}\n\n```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let is_root = !command.get_bin_name().is_some_and(|name| name.contains(' '));
    for argument in command.get_arguments() {
        let is_own = is_root || !argument.is_global_set();
        if is_own && !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str()) {
            item(page, argument);
        }
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        let _ = write!(page, "\n{}\n", text(after));
    }
}

fn item(page: &mut String, argument: &Arg) {
    let short = argument.get_short().map(|letter| format!("`-{letter}`, ")).unwrap_or_default();
    let help = argument.get_long_help().or(argument.get_help()).map(text).unwrap_or_default();
    let takes_values = argument.get_action().takes_values(); // others have internal ones
    let defaults = argument.get_default_values().iter().filter(|_| takes_values);
    let default = defaults.map(|value| format!(" (default: `{}`)", value.to_string_lossy())).collect::<String>();
    let _ = write!(page, "\n{short}`{argument}`\n: {}{default}\n", help.replace('\n', "\n  "));
    let values = argument.get_possible_values();
    let mut values = values.iter().filter(|value| takes_values && !value.is_hide_set()).peekable();
    if values.peek().is_some() {
        page.push('\n');
    }
    for value in values {
        let help = value.get_help().map(|help| format!(": {}", text(help))).unwrap_or_default();
        let _ = writeln!(page, "  - `{}`{help}", value.get_name());
    }
}

/// A text of clap in Markdown; paragraphs with indented lines, such as examples, are preformatted.
fn text(words: &StyledStr) -> String {
    let words = words.to_string();
    let paragraph = |words: &str| match words.lines().any(|line| line.starts_with(' ')) {
        true => format!("```text\n{words}\n```"),
        false => escaped(words),
    };
    words.split("\n\n").map(|words| paragraph(words.trim_end())).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_becomes_headings_definitions_code_and_links() {
        let topic = Topic {
            name: "name",
            about: "what it is",
            sections: vec![
                Section {
                    heading: "A LOST NODE",
                    parts: vec![
                        Part::Paragraph("Files *.toml, see MPS, `a_b <c>`.".to_owned()),
                        Part::Item("flowcon.weight=2".to_owned(), "Its weight.".to_owned()),
                        Part::Item("a [term]".to_owned(), "See A LOST NODE.".to_owned()),
                    ],
                },
                Section { heading: "MPS", parts: vec![Part::Code("flowctl ps  # list".to_owned())] },
            ],
        };
        let expected = "# What it is\n\n## A lost node\n\nFiles \\*.toml, see [MPS](#mps), `a_b <c>`.\n\n\
            `flowcon.weight=2`\n: Its weight.\n\na \\[term\\]\n: See [A lost node](#a-lost-node).\n\n\
            ## MPS\n\n```sh\nflowctl ps  # list\n```\n";
        assert_eq!(prose(&topic), expected);
    }

    #[test]
    fn a_program_lists_its_commands_and_explains_the_arguments_of_each() {
        let mut flowctl = Command::new("flowctl")
            .about("Control")
            .arg(clap::arg!(-o --output <FORMAT> "Output format").global(true).default_value("table"))
            .subcommand(
                Command::new("run")
                    .about("Run a command")
                    .arg(clap::arg!(--keep "Keep <it>"))
                    .arg(clap::arg!(<WHEN> "The time").value_parser(["now", "later"]))
                    .after_help("Example:\n  flowctl run now"),
            )
            .subcommand(Command::new("__enter").hide(true))
            .disable_help_subcommand(true);
        flowctl.build();
        let page = program(&flowctl);
        let expected = "# flowctl\n\nControl\n\n```text\nflowctl [OPTIONS] [COMMAND]\n```\n\n\
            `-o`, `--output <FORMAT>`\n: Output format (default: `table`)\n\n\
            ## Commands\n\n- [`flowctl run`](#flowctl-run): Run a command\n\n\
            ## flowctl run\n\nRun a command\n\n```text\nflowctl run [OPTIONS] <WHEN>\n```\n\n\
            `--keep`\n: Keep \\<it\\>\n\n`<WHEN>`\n: The time\n\n  - `now`\n  - `later`\n\n\
            ```text\nExample:\n  flowctl run now\n```\n";
        assert_eq!(page, expected);
    }
}
