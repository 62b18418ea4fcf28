//! Detects and strips a tag on every line: `0: ` of srun or `trainer: ` of a logger, also after times and levels.
//!
//! Problem: a tag has no distinctive form; `149: 0.53` and `loss: 0.53` look alike and are meaningful. Approach: watch the first lines. A
//! text is a tag if it precedes the first colon of *every* line, is one of few words without a meaning, and the lines after it have
//! several templates. The watched lines are kept and read again without their tags.

use super::commas::Commas;
use super::lexicon;
use super::meaning::{Meaning, Split};
use super::prefix;
use super::scan::Scan;
use crate::reader::decode::Rendering;
use std::collections::BTreeSet;

/// Maximum bytes of a tag.
const TAG_MAX: usize = 32;

/// Number of lines before the first decision; it is repeated whenever the number doubles.
const FIRST_LOOK: usize = 8;

/// Maximum number of watched lines.
const LINES_MAX: usize = 64;

/// Maximum bytes of watched lines.
const KEPT_MAX: usize = 8 * 1024;

/// Minimum number of templates after a tag: a program with a single template may begin it with the name of a value.
const TEMPLATES_MIN: usize = 3;

/// Whether the lines of a stream have tags.
#[derive(Debug)]
pub(crate) enum LineTags {
    Watching(Vec<Kept>),
    None,
    /// Every line has a tag.
    Present,
}

/// A line that was read and may be read again.
#[derive(Debug)]
pub(crate) struct Kept {
    line: u64,
    last: bool,
    text: Box<[u8]>,
}

impl Kept {
    pub(crate) fn rendering(&self) -> Rendering<'_> {
        Rendering { line: self.line, text: &self.text, printed: &self.text, last: self.last }
    }
}

impl LineTags {
    pub(crate) fn new() -> Self {
        LineTags::Watching(Vec::new())
    }

    /// Returns the line without its tag.
    pub(crate) fn without<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        match self {
            LineTags::Present => tag(text).map_or(text, |(_, rest)| rest),
            LineTags::Watching(_) | LineTags::None => text,
        }
    }

    /// Watches a line that was read. Returns the lines to read again once tags are detected.
    #[inline]
    pub(crate) fn watch(&mut self, rendering: Rendering<'_>) -> Option<Vec<Kept>> {
        if let LineTags::Watching(_) = self { self.look_at(rendering) } else { None }
    }

    fn look_at(&mut self, rendering: Rendering<'_>) -> Option<Vec<Kept>> {
        let LineTags::Watching(lines) = self else { return None };
        let kept: usize = lines.iter().map(|kept| kept.text.len()).sum();
        if tag(rendering.text).is_none() || kept + rendering.text.len() > KEPT_MAX || lines.len() >= LINES_MAX {
            *self = LineTags::None;
            return None;
        }
        lines.push(Kept { line: rendering.line, last: rendering.last, text: rendering.text.into() });
        if !lines.len().is_power_of_two() || lines.len() < FIRST_LOOK || !all_tagged(lines) {
            return None;
        }
        let lines = std::mem::take(lines);
        *self = LineTags::Present;
        Some(lines)
    }
}

/// Whether the text after a tag begins with a count (`[12]` or `12:`), so that the tag does not name a value.
fn counts(rest: &[u8]) -> bool {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.starts_with(b"[") || digits > 0 && rest.get(digits) == Some(&b':')
}

/// Whether the lines have tags: few different tags and several templates, or a word before lines that count.
fn all_tagged(lines: &[Kept]) -> bool {
    let (mut tags, mut templates) = (BTreeSet::new(), BTreeSet::new());
    let mut scan = Scan::default();
    let mut counted = 0;
    for (tag, rest) in lines.iter().filter_map(|kept| tag(&kept.text)) {
        counted += usize::from(counts(rest) && !tag[0].is_ascii_digit());
        tags.insert(tag);
        scan.read(rest, Commas::Guessed);
        templates.insert(scan.shape);
    }
    tags.len() * 2 <= lines.len() && (templates.len() >= TEMPLATES_MIN || counted * 2 > lines.len())
}

/// Splits a line at the first colon of its message, if the text before it could be a tag.
fn tag(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let message = text.get(prefix::end(text)..)?;
    let end = message.iter().take(TAG_MAX).position(|byte| matches!(byte, b':' | b' ' | b'\t' | b'='))?;
    // An empty line has its tag too; trailing blanks were removed.
    let rest = if &message[end..] == b":" { &[] } else { message[end..].strip_prefix(b": ")? };
    let word = &message[..end];
    let fits = !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-/[]#@".contains(byte));
    (fits && (word.iter().all(u8::is_ascii_digit) || has_no_meaning(word))).then_some((word, rest))
}

fn has_no_meaning(word: &[u8]) -> bool {
    let text = String::from_utf8_lossy(word);
    let splits = lexicon::split_of(&lexicon::words(&text)) != Split::Unsaid;
    // A word such as `trainer` or `evaluator` is the printing program, not a data split.
    let prints = text.ends_with("er");
    matches!(lexicon::meaning(&text), Meaning::Unknown | Meaning::Other) && (prints || !splits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(log: &str) -> bool {
        let mut line_tags = LineTags::new();
        log.lines().enumerate().any(|(at, text)| {
            let text = text.as_bytes();
            line_tags.watch(Rendering { line: at as u64, text, printed: text, last: true }).is_some()
        })
    }

    fn lines(line: impl Fn(usize) -> String) -> String {
        (0..40).map(|i| line(i) + "\n").collect()
    }

    #[test]
    fn tags_are_distinguished_from_counters_and_names() {
        let templates = ["loading data", "epoch 3", "loss 0.5 acc 0.3", "saved"];
        assert!(found(&lines(|i| format!("0: {}", templates[i % 4]))));
        assert!(found(&lines(|i| format!("{}: {}", i % 8, templates[i / 8 % 4]))));
        assert!(found(&lines(|i| format!("2026-01-01 10:00:{:02},123 INFO trainer: {}", i, templates[i % 4]))));
        assert!(found(&lines(|i| format!("trainer: [{i}]\tloss: 0.5"))));
        assert!(!found(&lines(|i| format!("{i}: {}", templates[i % 4]))), "counts");
        assert!(!found(&lines(|i| format!("train: {}", templates[i % 4]))), "a data split");
        assert!(!found(&lines(|i| format!("quux: 0.{i}"))), "one template, one name");
        assert!(!found(&lines(|i| if i == 5 { "hello".to_owned() } else { format!("0: {}", templates[i % 4]) })));
    }
}
