//! `flowctl help`: help on commands, from clap, and on topics: labels, policies, limits and others.
//!
//! `manual` turns the same text into man pages, which `flowctl man` shows without installed packages, and `markdown` into pages of the
//! documentation site.

pub(crate) mod man;
mod manual;
mod markdown;
mod roff;
mod topics;

use crate::{flowcond, flowcoord, notify};
use clap::Command;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use term::exit::{Exit, Failure};
use term::screen::Screen;
use term::text;

const COLUMNS: usize = 100;

/// A help page that is not about a command.
struct Topic {
    /// Name for `flowctl help`; the man page is `flowcon-NAME(7)`.
    name: &'static str,
    /// One-line description.
    about: &'static str,
    sections: Vec<Section>,
}

struct Section {
    heading: &'static str,
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq)]
enum Part {
    Paragraph(String),
    /// A term and its meaning.
    Item(String, String),
    /// Preformatted text.
    Code(String),
}

/// Arguments of `flowctl help`.
#[derive(clap::Args, Debug)]
pub(crate) struct HelpArgs {
    /// A command (`run`, or `config check`), or one of: labels, policy, limits, operations, users, notify, threads, gpu, cluster,
    /// security
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

/// Prints the requested help; `flowctl` is the complete command line.
pub(crate) fn run(args: &HelpArgs, flowctl: Command, screen: &Screen) -> Result<(), Failure> {
    let topics = topics::all();
    let mut command = flowctl;
    command.build();
    if let [name] = args.topic.as_slice()
        && let Some(topic) = meant(&topics, name, command.find_subcommand(name).is_some())
    {
        return Ok(screen.print(&page(topic))?);
    }
    for name in &args.topic {
        command = command.find_subcommand(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = topics.iter().map(|topic| topic.name).collect();
            let message = format!("no command or topic is called `{}`", text::clean(name));
            let next = format!("`flowctl help` lists the commands; topics: {}", known.join(", "));
            Failure::new(Exit::Usage, message, next)
        })?;
    }
    Ok(screen.print(&command.render_long_help().to_string())?)
}

/// Arguments of `flowctl __manual`.
#[derive(clap::Args, Debug)]
pub(crate) struct ManualArgs {
    /// The folder for `man1` and the other sections
    folder: PathBuf,
    /// Write Markdown for the documentation site instead: one page for each program, topic and the configuration
    #[arg(long)]
    markdown: bool,
}

/// Writes the manual of all programs into a folder, as `man1/flowctl.1` and so on, or as `flowctl.md` and so on.
pub(crate) fn write_manual(args: &ManualArgs, flowctl: Command, flowsim: Command) -> Result<(), Failure> {
    if args.markdown {
        return Ok(markdown::write(&args.folder, programs(flowctl, flowsim))?);
    }
    for manual::Page { name, section, roff } in manual::pages(programs(flowctl, flowsim))? {
        let folder = args.folder.join(format!("man{section}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{name}.{section}")), roff)?;
    }
    Ok(())
}

/// The command lines of all programs, each with its section of the manual.
fn programs(flowctl: Command, flowsim: Command) -> Vec<(Command, &'static str)> {
    vec![
        (flowctl, "1"),
        (flowsim, "1"),
        (flowcond::command(), "8"),
        (flowcoord::command(), "8"),
        (notify::command(), "8"),
    ]
}

/// The topic with this name, or, unless it is a command, the only one that begins with it in singular: `label`, `limit`, `ops`.
fn meant<'a>(topics: &'a [Topic], name: &str, is_command: bool) -> Option<&'a Topic> {
    let exact = topics.iter().find(|topic| topic.name == name);
    let name = name.to_lowercase();
    let stem = name.strip_suffix("ies").or(name.strip_suffix('s')).unwrap_or(&name);
    let mut similar = topics.iter().filter(|topic| !is_command && !stem.is_empty() && topic.name.starts_with(stem));
    let only = similar.next().filter(|_| similar.next().is_none());
    exact.or(only)
}

fn page(topic: &Topic) -> String {
    let mut page = format!("{}\n", topic.about);
    for section in &topic.sections {
        let _ = write!(page, "\n{}\n", section.heading); // writing to a String cannot fail
        for part in &section.parts {
            match part {
                Part::Paragraph(words) => indented(&mut page, words, 2),
                Part::Code(code) => code.lines().for_each(|line| page.push_str(&format!("    {line}\n"))),
                Part::Item(term, meaning) => {
                    let _ = writeln!(page, "  {term}");
                    indented(&mut page, meaning, 6);
                }
            }
        }
    }
    page
}

fn indented(page: &mut String, words: &str, columns: usize) {
    for line in text::wrap(words, COLUMNS - columns) {
        let _ = writeln!(page, "{:columns$}{line}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::LABELS;

    #[test]
    fn a_topic_is_found_by_its_singular_and_by_its_beginning() {
        let topics = topics::all();
        let found = |name: &str, is_command| meant(&topics, name, is_command).map(|topic| topic.name);
        assert_eq!(found("label", false), Some("labels"));
        assert_eq!(found("Limit", false), Some("limits"));
        assert_eq!(found("policies", false), Some("policy"));
        assert_eq!(found("gpus", false), Some("gpu"));
        assert_eq!(found("sec", false), Some("security"));
        assert_eq!(found("l", false), None, "labels and limits");
        assert_eq!(found("stat", true), None, "a command comes first");
        assert_eq!(found("status", true), Some("status"), "the topic has more than its command's help");
        assert_eq!((found("", false), found("labelled", false)), (None, None));
    }

    #[test]
    fn the_labels_page_lists_every_label() {
        let topics = topics::all();
        let labels = page(topics.iter().find(|topic| topic.name == "labels").expect("a topic"));
        assert!(LABELS.iter().all(|label| labels.contains(&format!("flowcon.{}={}", label.name, label.example))));
        assert!(labels.lines().all(|line| text::width(line) <= COLUMNS), "{labels}");
    }
}
