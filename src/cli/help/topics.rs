//! The help topics, parsed from `topics/NAME.txt`.

use super::{Part, Section, Topic};
use config::{KEYS, Key, LABEL_PREFIX, LABELS, Label, Settings, TARGET_KEYS, default_of};

pub(super) fn all() -> Vec<Topic> {
    vec![
        parse("labels", include_str!("topics/labels.txt")),
        parse("status", include_str!("topics/status.txt")),
        parse("policy", include_str!("topics/policy.txt")),
        parse("limits", include_str!("topics/limits.txt")),
        parse("operations", include_str!("topics/operations.txt")),
        parse("gpu", include_str!("topics/gpu.txt")),
        parse("users", include_str!("topics/users.txt")),
        parse("notify", include_str!("topics/notify.txt")),
        parse("threads", include_str!("topics/threads.txt")),
        parse("cluster", include_str!("topics/cluster.txt")),
        parse("security", include_str!("topics/security.txt")),
    ]
}

/// The configuration of flowcond, from its registry of keys.
pub(super) fn configuration() -> Topic {
    let default = Settings::default();
    let files = "/etc/flowcon/flowcond.toml, then /etc/flowcon/flowcond.d/*.toml in the order of their names, then environment \
        variables (policy.interval is FLOWCON_POLICY_INTERVAL), then flags; later ones take precedence. `flowcond check-config` names \
        file, line and key of each mistake; `systemctl reload flowcond` applies changes, and keeps the current settings if there is a \
        mistake.";
    let keys = "A dot separates section and key: policy.interval is the key interval under [policy].";
    let key = |key: &Key| Part::Item(format!("{} = {}", key.name, (key.show)(&default)), key.help.to_owned());
    let paragraph = |words: &str| Part::Paragraph(words.to_owned());
    let keys = std::iter::once(paragraph(keys)).chain(KEYS.iter().map(key)).collect();
    let targets = "A table [notify.NAME] is a target of messages about jobs, which flowcon-notify sends; flowcon-notify(7) has examples.";
    let target_keys =
        TARGET_KEYS.iter().map(|key| Part::Item(format!("{} = {}", key.name, default_of(key)), key.help.to_owned()));
    let targets = std::iter::once(paragraph(targets)).chain(target_keys).collect();
    let sections = vec![
        Section { heading: "FILES", parts: vec![paragraph(files)] },
        Section { heading: "KEYS", parts: keys },
        Section { heading: "TARGETS OF MESSAGES", parts: targets },
    ];
    Topic { name: "flowcond.toml", about: "the configuration of flowcond", sections }
}

/// Parses a topic: one line about it, then blocks with blank lines in between. A block is one of:
/// - `## HEADING`, which starts a section;
/// - a paragraph;
/// - `* term`, and below it the meaning, indented by two spaces;
/// - code, indented by four spaces;
/// - `{labels}`, which stands for the list of labels in `config`.
///
/// Panics if the text is malformed: the texts are part of the program, and the tests parse them all.
fn parse(name: &'static str, text: &'static str) -> Topic {
    let (about, blocks) = text.split_once('\n').expect("a topic has more than one line");
    let mut sections: Vec<Section> = Vec::new();
    for block in blocks.trim().split("\n\n") {
        if let Some(heading) = block.strip_prefix("## ").filter(|heading| !heading.contains('\n')) {
            sections.push(Section { heading, parts: Vec::new() });
            continue;
        }
        let parts = &mut sections.last_mut().expect("the first block is a heading").parts;
        match block {
            "{labels}" => parts.extend(LABELS.iter().map(label_item)),
            _ => parts.push(part(block)),
        }
    }
    Topic { name, about, sections }
}

fn label_item(label: &Label) -> Part {
    Part::Item(format!("{LABEL_PREFIX}{}={}", label.name, label.example), label.help.to_owned())
}

fn part(block: &str) -> Part {
    if let Some(item) = block.strip_prefix("* ") {
        let (term, meaning) = item.split_once('\n').expect("a term has a meaning");
        Part::Item(term.to_owned(), prose(meaning, "  "))
    } else if block.starts_with("    ") {
        Part::Code(unindented(block, "    ").join("\n"))
    } else {
        Part::Paragraph(prose(block, ""))
    }
}

/// The lines of a paragraph or a meaning, joined by spaces. None may look like the start of another block.
fn prose(block: &str, indent: &str) -> String {
    let lines = unindented(block, indent);
    let is_prose = |line: &&str| !line.is_empty() && !line.starts_with([' ', '*', '#', '{']);
    assert!(lines.iter().all(is_prose), "a blank line is missing, or one too many: {block}");
    lines.join(" ")
}

fn unindented<'a>(block: &'a str, indent: &str) -> Vec<&'a str> {
    block.split('\n').map(|line| line.strip_prefix(indent).expect("all lines of a block are indented alike")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn each_block_becomes_its_part() {
        let text = "about it\n\n## ONE\n\nTwo\nlines.\n\n* a term\n  Its\n  meaning.\n\n    code \\\n        more\n\n\
            ## TWO\n\n{labels}\n";
        let topic = parse("name", text);
        assert_eq!((topic.name, topic.about), ("name", "about it"));
        let [first, second] = topic.sections.as_slice() else { panic!("{} sections", topic.sections.len()) };
        assert_eq!((first.heading, second.heading), ("ONE", "TWO"));
        let paragraph = Part::Paragraph("Two lines.".to_owned());
        let item = Part::Item("a term".to_owned(), "Its meaning.".to_owned());
        assert_eq!(first.parts, [paragraph, item, Part::Code("code \\\n    more".to_owned())]);
        assert_eq!(second.parts, LABELS.iter().map(label_item).collect::<Vec<_>>());
    }

    #[test]
    fn malformed_text_is_rejected() {
        let malformed = [
            "about",
            "about\n\nno heading",
            "about\n\n## HEADING\nno blank line",
            "about\n\n## HEADING\n\n* no meaning",
            "about\n\n## HEADING\n\n* term\nnot indented",
            "about\n\n## HEADING\n\n    code\nnot indented",
            "about\n\n## HEADING\n\nno blank line\n* term\n  meaning",
            "about\n\n## HEADING\n\n{unknown}",
            "about\n\n## HEADING\n\n\n\nan empty block",
        ];
        for text in malformed {
            assert!(catch_unwind(|| parse("name", text)).is_err(), "{text}");
        }
    }

    #[test]
    fn every_topic_is_well_formed() {
        for topic in all() {
            assert!(topic.sections.iter().all(|section| !section.parts.is_empty()), "{}", topic.name);
        }
    }
}
