//! Splits a line of a table into cells.
//!
//! Cells are separated by bars, tabs, commas or blanks. Box-drawing characters count as blanks or bars. All offsets are byte offsets in the
//! line.

use super::numeral::is_not_finite;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruled {
    Bars,
    Tabs,
    Commas,
    Blanks,
}

/// Returns the offset of the blanks before the message, which give the position of the first cells.
pub(super) fn indented(line: &[u8], from: usize) -> usize {
    let before = line.get(..from).unwrap_or_default();
    before.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1)
}

/// Replaces frames by blanks and vertical lines by `|`, without changing byte offsets.
pub(super) fn plain(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '│' | '┃' | '║' => text.push_str("|  "),
                '\u{2500}'..='\u{25FF}' => text.push_str("   "),
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|_| text.push('_'));
    }
    // `||dx||` is a norm, not two bars.
    let text = text.replace("||", "  ");
    unframed(if text.contains([' ', '|', '\t']) { text } else { text.replace(';', "|") })
}

/// Removes a frame around columns that are separated by blanks: `│ iter  loss │`.
fn unframed(text: String) -> String {
    let inner = text.trim().trim_matches('|');
    if inner.len() == text.trim().len() || inner.contains('|') { text } else { text.replace('|', " ") }
}

pub(super) fn ruled(text: &str) -> Ruled {
    let inner = text.trim().trim_matches('|');
    if inner.contains('|') {
        Ruled::Bars
    } else if text.trim().contains('\t') {
        Ruled::Tabs
    } else if is_divided_by_commas(text) {
        Ruled::Commas
    } else {
        Ruled::Blanks
    }
}

/// Whether commas separate the columns: without blanks behind them, or around single words (`epoch, wall, loss`).
fn is_divided_by_commas(text: &str) -> bool {
    let commas = text.matches(',').count();
    let single = |cell: &str| !cell.trim().is_empty() && !cell.trim().contains(char::is_whitespace);
    match text.contains(", ") {
        false => commas > 0 && words(text).len() < 2 * commas,
        true => commas >= 2 && text.trim_end().trim_end_matches(',').split(',').all(single),
    }
}

pub(super) fn cells(text: &str, ruled: Ruled) -> Vec<(usize, &str)> {
    match ruled {
        Ruled::Bars => {
            let inner = text.trim().trim_start_matches('|').trim_end_matches('|');
            let offset = inner.as_ptr() as usize - text.as_ptr() as usize;
            divided(inner, '|', offset)
        }
        Ruled::Tabs => divided(text, '\t', 0),
        Ruled::Commas => divided(text, ',', 0),
        Ruled::Blanks => by_wide_blanks(text),
    }
}

fn divided(text: &str, mark: char, offset: usize) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut at = 0;
    for part in text.split(mark) {
        let cell = part.trim();
        cells.push((offset + at + (part.len() - part.trim_start().len()), cell));
        at += part.len() + 1;
    }
    cells
}

pub(super) fn words(text: &str) -> Vec<(usize, &str)> {
    text.split_ascii_whitespace().map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word)).collect()
}

fn by_wide_blanks(text: &str) -> Vec<(usize, &str)> {
    let mut cells: Vec<(usize, &str)> = Vec::new();
    for (at, word) in words(text) {
        match cells.last_mut() {
            Some((start, cell)) if *start + cell.len() + 1 == at => *cell = &text[*start..at + word.len()],
            _ => cells.push((at, word)),
        }
    }
    cells
}

/// Whether a cell is a name rather than a number.
pub(super) fn is_name(cell: &str) -> bool {
    cell.starts_with(char::is_alphabetic) && !is_not_finite(cell.as_bytes())
}

/// Whether most cells are numbers, possibly with a unit; the first cell may name the row.
pub(super) fn looks_like_row(row: &[(usize, &str)]) -> bool {
    let filled = row.iter().filter(|(_, cell)| !cell.is_empty()).count();
    let numeric = |cell: &str| {
        let cell = cell.trim_start_matches(['-', '+', '.', '[', '(', '"']);
        cell.chars().next().is_some_and(|c| c.is_ascii_digit()) || is_not_finite(cell.as_bytes()) || cell == "-"
    };
    let numbers = row.iter().filter(|(_, cell)| numeric(cell)).count();
    let named = row.iter().any(|(_, cell)| cell.contains('='));
    numbers >= 1 && numbers * 5 >= filled * 3 && !named
}
