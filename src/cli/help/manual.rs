//! Man pages: programs and subcommands from clap, the configuration from its registry of keys, and the help topics.

use super::{Part, Topic, topics};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// The SEE ALSO section of every page.
const SEE_ALSO: &[(&str, &str)] = &[
    ("flowctl", "1"),
    ("flowsim", "1"),
    ("flowcond", "8"),
    ("flowcoord", "8"),
    ("flowcon-notify", "8"),
    ("flowcond.toml", "5"),
    ("flowcon-labels", "7"),
    ("flowcon-policy", "7"),
    ("flowcon-limits", "7"),
    ("flowcon-operations", "7"),
    ("flowcon-users", "7"),
    ("flowcon-threads", "7"),
    ("flowcon-security", "7"),
    ("flowcon-cluster", "7"),
    ("flowcon-gpu", "7"),
];

/// A page of the manual.
pub(super) struct Page {
    /// Its name, such as `flowctl-run`.
    pub(super) name: String,
    /// Its section, such as `1`.
    pub(super) section: &'static str,
    /// Its text for `roff`.
    pub(super) roff: Vec<u8>,
}

/// Returns all pages: those of the programs, each followed by those of its commands, and the others.
pub(super) fn pages(programs: Vec<(Command, &'static str)>) -> io::Result<Vec<Page>> {
    let mut pages = Vec::new();
    for (program, section) in programs {
        let name = program.get_name().to_owned();
        let mut built = program.disable_help_subcommand(true);
        built.build();
        add_command(&mut pages, &built, &name, section)?;
    }
    let mut add =
        |name: String, section, topic: &Topic| pages.push(Page { roff: prose(&name, section, topic), name, section });
    add("flowcond.toml".to_owned(), "5", &topics::configuration());
    topics::all().iter().for_each(|topic| add(format!("flowcon-{}", topic.name), "7", topic));
    Ok(pages)
}

/// Adds the page of a program or command and those of its commands, such as `flowctl-config-check(1)`.
fn add_command(pages: &mut Vec<Page>, command: &Command, name: &str, section: &'static str) -> io::Result<()> {
    let page = Man::new(command.clone()).title(name.to_uppercase()).section(section).manual("flowcon");
    let mut roff = Vec::new();
    page.render(&mut roff)?;
    roff.extend(see_also(name).to_roff().into_bytes());
    pages.push(Page { name: name.to_owned(), section, roff });
    let children = command.get_subcommands().filter(|child| !child.is_hide_set());
    children
        .into_iter()
        .try_for_each(|child| add_command(pages, child, &format!("{name}-{}", child.get_name()), section))
}

fn start_page(name: &str, section: &str, about: &str) -> Roff {
    let mut page = Roff::new();
    let source = concat!("flowcon ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [name.to_uppercase().as_str(), section, "", source, "flowcon"]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page
}

fn see_also(but: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["SEE ALSO"]);
    let others: Vec<String> =
        SEE_ALSO.iter().filter(|(name, _)| *name != but).map(|(name, section)| format!("{name}({section})")).collect();
    section.text([roman(others.join(", "))]);
    section
}

fn prose(name: &str, section: &str, topic: &Topic) -> Vec<u8> {
    let mut page = start_page(name, section, topic.about);
    for section in &topic.sections {
        page.control("SH", [section.heading]);
        for part in &section.parts {
            match part {
                Part::Paragraph(words) => page.control("PP", []).text([roman(words)]),
                Part::Item(term, meaning) => page.control("TP", []).text([bold(term)]).text([roman(meaning)]),
                Part::Code(code) => {
                    page.control("PP", []).control("nf", []).control("RS", ["4"]);
                    page.text([roman(code)]).control("RE", []).control("fi", [])
                }
            };
        }
    }
    [page.to_roff().into_bytes(), see_also(name).to_roff().into_bytes()].concat()
}
