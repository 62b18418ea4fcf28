//! Reads the subset of YAML that training configurations use: nested `key: value` lines.
//!
//! Lists, multi-line texts and all other syntax are skipped.

/// Maximum indentation of a line.
const MAX_INDENT: usize = 200;

/// The parent of a deeper line.
enum Open {
    Section(String),
    /// A list or a text, whose content is ignored.
    Skipped,
}

/// Calls `take` with the path and the value of each setting in the first `at_most` lines.
pub(super) fn settings(text: &str, at_most: usize, take: &mut impl FnMut(&[String], &str)) {
    let mut open: Vec<(usize, Open)> = Vec::new();
    for line in text.lines().take(at_most) {
        let content = without_comment(line).trim_end();
        let indent = content.len() - content.trim_start_matches(' ').len();
        let content = &content[indent..];
        if content.is_empty() {
            continue;
        }
        open.retain(|(outer, _)| *outer < indent);
        if content == "---" {
            open.clear();
            continue;
        }
        let skipped = open.iter().any(|(_, open)| matches!(open, Open::Skipped));
        if skipped || indent > MAX_INDENT || content.starts_with(['-', '\t', '?', '%', '{', '[']) {
            open.push((indent, Open::Skipped));
            continue;
        }
        let Some((name, value)) = entry(content) else { continue };
        let mut path: Vec<String> = sections(&open);
        path.push(name.to_owned());
        match value {
            "" => open.push((indent, Open::Section(name.to_owned()))),
            // An anchor before a section.
            value if value.starts_with('&') && !value.contains(' ') => {
                open.push((indent, Open::Section(name.to_owned())));
            }
            value if value.starts_with('{') && value.ends_with('}') => {
                flow(&value[1..value.len() - 1], &mut path, take)
            }
            value if value.starts_with(['|', '>', '[', '{', '"', '\'']) && !is_quoted(value) => {
                open.push((indent, Open::Skipped));
            }
            value => take(&path, value),
        }
    }
}

fn sections(open: &[(usize, Open)]) -> Vec<String> {
    let name = |(_, open): &(usize, Open)| match open {
        Open::Section(name) => Some(name.clone()),
        Open::Skipped => None,
    };
    open.iter().filter_map(name).collect()
}

/// Reads `{epochs: 5, lr: 0.1}`, one level deep.
fn flow(text: &str, path: &mut Vec<String>, take: &mut impl FnMut(&[String], &str)) {
    if text.contains(['{', '[']) {
        return;
    }
    for (name, value) in text.split(',').filter_map(|pair| entry(pair.trim())) {
        path.push(name.to_owned());
        take(path, value);
        path.pop();
    }
}

/// Splits `key: value`, and removes the quotes of the key.
fn entry(content: &str) -> Option<(&str, &str)> {
    let (name, value) = match content.split_once(": ") {
        Some((name, value)) => (name, value.trim()),
        None => (content.strip_suffix(':')?, ""),
    };
    let name = name.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then_some((name, value))
}

fn is_quoted(value: &str) -> bool {
    let quote = |mark: char| value.len() > 1 && value.starts_with(mark) && value.ends_with(mark);
    quote('"') || quote('\'')
}

fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| *at == 0 || line.as_bytes()[at - 1].is_ascii_whitespace();
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}
