//! A label that every line bears: `0: ` of srun, `trainer: ` of a logger's name, also after times and levels.
//!
//! Problem: such a label has no form of its own; `149: 0.53` and `loss: 0.53` look alike and mean something. Approach: watch the
//! first lines. What stands before the first colon of *every* line, is one of few words that mean nothing, and is followed by
//! lines of several templates, is a label. The lines watched are kept, to be read again without it.
//! Imports: its siblings, `decode`.

use super::lexicon;
use super::meaning::{Meaning, Split};
use super::prefix;
use super::scan::Scan;
use crate::progress::reader::decode::Rendering;
use std::collections::BTreeSet;

/// Longest label, in bytes.
const LABEL_MAX: usize = 32;

/// When to look: after so many lines, then after twice as many, and so on.
const FIRST_LOOK: usize = 8;

/// Lines watched at most. A line that ends before does not decide.
const LINES_MAX: usize = 64;

/// Bytes of watched lines at most.
const KEPT_MAX: usize = 8 * 1024;

/// Templates that must follow a label: a program that prints one template only may well begin it with a name.
const TEMPLATES_MIN: usize = 3;

/// What is known of the labels of a stream.
#[derive(Debug)]
pub enum Labels {
    Watching(Vec<Kept>),
    None,
    /// Every line bears one.
    Borne,
}

/// A line that was read, and may be read again.
#[derive(Debug)]
pub struct Kept {
    line: u64,
    last: bool,
    text: Box<[u8]>,
}

impl Kept {
    pub fn rendering(&self) -> Rendering<'_> {
        Rendering { line: self.line, text: &self.text, last: self.last }
    }
}

impl Labels {
    pub fn new() -> Self {
        Labels::Watching(Vec::new())
    }

    /// The line without its label.
    pub fn without<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        match self {
            Labels::Borne => label(text).map_or(text, |(_, rest)| rest),
            Labels::Watching(_) | Labels::None => text,
        }
    }

    /// Looks at a line that was read; once the lines turn out to bear labels, gives those that must be read again.
    #[inline]
    pub fn watch(&mut self, rendering: Rendering<'_>) -> Option<Vec<Kept>> {
        if let Labels::Watching(_) = self { self.look_at(rendering) } else { None }
    }

    fn look_at(&mut self, rendering: Rendering<'_>) -> Option<Vec<Kept>> {
        let Labels::Watching(lines) = self else { return None };
        let kept: usize = lines.iter().map(|kept| kept.text.len()).sum();
        if label(rendering.text).is_none() || kept + rendering.text.len() > KEPT_MAX || lines.len() >= LINES_MAX {
            *self = Labels::None;
            return None;
        }
        lines.push(Kept { line: rendering.line, last: rendering.last, text: rendering.text.into() });
        if !lines.len().is_power_of_two() || lines.len() < FIRST_LOOK || !all_labelled(lines) {
            return None;
        }
        let lines = std::mem::take(lines);
        *self = Labels::Borne;
        Some(lines)
    }
}

/// Whether a line goes on as `[12]` or `12:`, a count of its own: what stands before that is no name of a value.
fn counts(rest: &[u8]) -> bool {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.starts_with(b"[") || digits > 0 && rest.get(digits) == Some(&b':')
}

/// Few labels, many templates; or one word before lines that count.
fn all_labelled(lines: &[Kept]) -> bool {
    let (mut labels, mut templates) = (BTreeSet::new(), BTreeSet::new());
    let mut scan = Scan::default();
    let mut counted = 0;
    for (label, rest) in lines.iter().filter_map(|kept| label(&kept.text)) {
        counted += usize::from(counts(rest) && !label[0].is_ascii_digit());
        labels.insert(label);
        scan.read(rest, false);
        templates.insert(scan.shape);
    }
    labels.len() * 2 <= lines.len() && (templates.len() >= TEMPLATES_MIN || counted * 2 > lines.len())
}

/// What stands before the first colon of the message, if it could be a label, and what follows.
fn label(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let message = text.get(prefix::end(text)..)?;
    let end = message.iter().take(LABEL_MAX).position(|byte| matches!(byte, b':' | b' ' | b'\t' | b'='))?;
    // An empty line bears its label too; blanks at its end are gone.
    let rest = if &message[end..] == b":" { &[] } else { message[end..].strip_prefix(b": ")? };
    let word = &message[..end];
    let fits = !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-/[]#@".contains(byte));
    (fits && (word.iter().all(u8::is_ascii_digit) || means_nothing(word))).then_some((word, rest))
}

fn means_nothing(word: &[u8]) -> bool {
    let text = String::from_utf8_lossy(word);
    let splits = lexicon::split_of(&lexicon::words(&text)) != Split::Unsaid;
    // A trainer or an evaluator is whoever prints, no part of the data.
    let prints = text.ends_with("er");
    matches!(lexicon::meaning(&text), Meaning::Unknown | Meaning::Other) && (prints || !splits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(log: &str) -> bool {
        let mut labels = Labels::new();
        log.lines()
            .enumerate()
            .any(|(at, text)| labels.watch(Rendering { line: at as u64, text: text.as_bytes(), last: true }).is_some())
    }

    fn lines(line: impl Fn(usize) -> String) -> String {
        (0..40).map(|i| line(i) + "\n").collect()
    }

    #[test]
    fn labels_are_told_from_counters_and_names() {
        let templates = ["loading data", "epoch 3", "loss 0.5 acc 0.3", "saved"];
        assert!(found(&lines(|i| format!("0: {}", templates[i % 4]))));
        assert!(found(&lines(|i| format!("{}: {}", i % 8, templates[i / 8 % 4]))));
        assert!(found(&lines(|i| format!("2026-01-01 10:00:{:02},123 INFO trainer: {}", i, templates[i % 4]))));
        assert!(found(&lines(|i| format!("trainer: [{i}]\tloss: 0.5"))));
        assert!(!found(&lines(|i| format!("{i}: {}", templates[i % 4]))), "counts");
        assert!(!found(&lines(|i| format!("train: {}", templates[i % 4]))), "a part of the data");
        assert!(!found(&lines(|i| format!("quux: 0.{i}"))), "one template, one name");
        assert!(!found(&lines(|i| if i == 5 { "hello".to_owned() } else { format!("0: {}", templates[i % 4]) })));
    }
}
