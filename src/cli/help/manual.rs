//! Man pages: programs and subcommands from clap, the configuration from its registry of keys, and the help topics.

use super::{Part, Topic, topics};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io;
use std::path::Path;

/// The SEE ALSO section of every page.
const SEE_ALSO: &[(&str, &str)] = &[
    ("flowctl", "1"),
    ("flowsim", "1"),
    ("flowcond", "8"),
    ("flowcoord", "8"),
    ("flowcond.toml", "5"),
    ("flowcon-labels", "7"),
    ("flowcon-policy", "7"),
    ("flowcon-limits", "7"),
    ("flowcon-operations", "7"),
    ("flowcon-threads", "7"),
    ("flowcon-security", "7"),
    ("flowcon-cluster", "7"),
    ("flowcon-gpu", "7"),
];

pub(super) fn write(folder: &Path, programs: Vec<(Command, &str)>) -> io::Result<()> {
    for (command, section) in programs {
        write_command(folder, command, section)?;
    }
    save(folder, "flowcond.toml", "5", &prose("flowcond.toml", "5", &topics::configuration()))?;
    topics::all().iter().try_for_each(|topic| {
        let name = format!("flowcon-{}", topic.name);
        save(folder, &name, "7", &prose(&name, "7", topic))
    })
}

/// Writes the page of a program and of each subcommand, such as `flowctl-config-check(1)`.
fn write_command(folder: &Path, program: Command, section: &str) -> io::Result<()> {
    let name = program.get_name().to_owned();
    let mut built = program.disable_help_subcommand(true);
    built.build();
    write_tree(folder, &built, &name, section)
}

fn write_tree(folder: &Path, command: &Command, name: &str, section: &str) -> io::Result<()> {
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        write_tree(folder, child, &format!("{name}-{}", child.get_name()), section)?;
    }
    let page = Man::new(command.clone()).title(name.to_uppercase()).section(section).manual("flowcon");
    let mut text = Vec::new();
    page.render(&mut text)?;
    text.extend(see_also(name).to_roff().into_bytes());
    save(folder, name, section, &text)
}

fn save(folder: &Path, name: &str, section: &str, text: &[u8]) -> io::Result<()> {
    let folder = folder.join(format!("man{section}"));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{name}.{section}")), text)
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
