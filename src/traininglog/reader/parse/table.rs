//! Reads rows of numbers under a header, with the same findings as from named numbers.
//!
//! Problem: a header such as `epoch  train_loss  valid_loss` is printed once, or before each row. Cells are separated by blanks, tabs,
//! bars or commas, and header cells may contain blanks. Approach: a line is a header if one of its cells has a known meaning. The columns
//! of a row are assigned by index if their number matches, and by position otherwise.

use super::columns::{Ruled, cells, indented, is_name, looks_like_row, plain, ruled, words};
use super::fields::{Found, What};
use super::meaning::{Count, Counted, Meaning, Split};
use super::{lexicon, number::Span, numeral::is_not_finite};

/// Maximum bytes of a header.
const HEADER_MAX: usize = 1024;

/// Maximum number of columns.
const COLUMNS_MAX: usize = 64;

/// Maximum number of columns without a header.
const HEADLESS_MAX: usize = 5;

/// A header line.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    text: String,
    ruled: Ruled,
    /// Hash of the header, which distinguishes rows of one shape under different headers.
    pub hash: u64,
}

impl Header {
    /// Reads a line as a header; `None` if none of its columns has a known meaning.
    pub(crate) fn read(line: &[u8], from: usize, numbers: &[Span], hash: u64) -> Option<Header> {
        let from = indented(line, from);
        let bar = || line.contains(&b'%');
        let line = line.get(from..)?;
        // Lines with numbers are usually no headers, except if a progress bar follows the header.
        // `2d_loss` is a name, and so is `mAP@.5:.95`.
        let is_named = |number: &Span| {
            let (start, end) = (usize::from(number.start) - from, usize::from(number.end) - from);
            let word = line[..start].rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
            line.get(end).is_some_and(u8::is_ascii_alphabetic)
                || word.first().is_some_and(u8::is_ascii_alphabetic) && word.contains(&b'@')
        };
        let numbers: Vec<&Span> =
            numbers.iter().filter(|number| usize::from(number.start) >= from && !is_named(number)).collect();
        if line.len() > HEADER_MAX || !numbers.is_empty() && !bar() {
            return None;
        }
        // `# epoch loss` is a commented header; the blank keeps the positions of the columns.
        let text = plain(line).replacen(
            '#',
            if line.first() == Some(&b'#') && line.get(1) == Some(&b' ') { " " } else { "#" },
            1,
        );
        let text = before_bar(text);
        let ruled = ruled(&text);
        let header = Header { ruled, hash, text };
        let cells = header.cells();
        let end = from + cells.last().map_or(0, |(at, cell)| at + cell.len());
        let sentence = header.text.contains(": ") || header.text.trim_end().ends_with(['.', '!', '…']);
        let numeric = numbers.iter().any(|number| (from..end).contains(&usize::from(number.start)));
        // `% mean accuracy` is the commented header of a single column.
        let is_plain =
            |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/' | '(' | ')' | '#' | '%');
        let is_commented = matches!(line.first(), Some(b'%' | b'#')) && header.text.chars().all(is_plain);
        let least = if is_commented { 1 } else { 2 };
        if cells.len() < least || cells.len() > COLUMNS_MAX || numeric || (sentence && ruled == Ruled::Blanks) {
            return None;
        }
        let means =
            |cell: &str| matches!(column(cell), Meaning::Counter(_) | Meaning::Metric { .. } | Meaning::Declared(_));
        cells.iter().any(|(_, cell)| means(cell)).then_some(header)
    }

    /// Joins this header with the line below if both together form the names: `Mini-batch` over `Loss`.
    pub(crate) fn over(&self, below: &Header) -> Option<Header> {
        let (above, names) = (self.cells(), below.cells());
        let is_filled = |cells: &[(usize, &str)]| cells.iter().all(|(_, cell)| !cell.is_empty());
        let completes = self.ruled == Ruled::Bars && below.ruled == Ruled::Bars && above.len() == names.len();
        if !completes || !is_filled(&above) || is_filled(&names) {
            return None;
        }
        let joined: Vec<String> = above
            .iter()
            .zip(&names)
            .map(|((_, above), (_, below))| format!("{above} {below}").trim_end().to_owned())
            .collect();
        Some(Header { text: joined.join("|"), ruled: Ruled::Bars, hash: self.hash.rotate_left(7) ^ below.hash })
    }

    /// The header line.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether columns are separated by commas, so that a comma is never part of a number.
    pub(crate) fn has_commas(&self) -> bool {
        self.ruled == Ruled::Commas
    }

    fn cells(&self) -> Vec<(usize, &str)> {
        cells(&self.text, self.ruled)
    }

    /// Returns the cells of a row without an empty one after the last column: `1, 0.5,`.
    fn cells_of<'a>(&self, row: &'a str) -> Vec<(usize, &'a str)> {
        let mut row = cells(row, self.ruled);
        if row.len() == self.cells().len() + 1 && row.last().is_some_and(|(_, cell)| cell.is_empty()) {
            row.pop();
        }
        row
    }

    /// Returns the cells with single blanks as separators.
    fn words(&self) -> Vec<(usize, &str)> {
        let end = self.cells().last().map_or(0, |(at, cell)| at + cell.len());
        words(&self.text[..end])
    }

    /// Returns a row without the bar after its last cell: `1/100  2.5G  1.58  640:` of `1/100  2.5G  1.58  640: 12%|█▎   | 1/8`.
    fn without_bar<'a>(&self, row: &'a [u8]) -> &'a [u8] {
        if self.ruled != Ruled::Blanks || self.cells().len() < 2 {
            return row;
        }
        let ends = |at: &usize| {
            let (word, rest) = row.split_at(*at);
            rest[0] == b':'
                && word.last().is_some_and(|byte| !byte.is_ascii_whitespace())
                && rest.get(1).is_none_or(u8::is_ascii_whitespace)
        };
        (0..row.len()).find(ends).map_or(row, |end| &row[..=end])
    }

    /// Whether a line has as many cells as the header has columns, most of them numbers.
    pub(crate) fn fits(&self, line: &[u8], from: usize) -> bool {
        let message = self.without_bar(line.get(from..).unwrap_or_default());
        let digits = message.iter().filter(|byte| byte.is_ascii_digit()).count();
        if message.iter().filter(|byte| byte.is_ascii_alphabetic()).count() > digits {
            return false; // fast path
        }
        let text = plain(message);
        if self.ruled == Ruled::Blanks {
            let row = words(&text);
            return !row.is_empty()
                && looks_like_row(&row)
                && [self.cells().len(), self.words().len()].contains(&row.len());
        }
        let row = self.cells_of(&text);
        row.len() >= 2 && looks_like_row(&row) && self.cells().len() == row.len()
    }

    /// Returns the findings in a row; `None` if the line is no row of this table.
    pub(crate) fn row(&self, line: &[u8], from: usize, numbers: &[Span]) -> Option<Vec<Found>> {
        let from = indented(line, from);
        let text = plain(self.without_bar(line.get(from..)?));
        let row = match self.ruled {
            Ruled::Blanks => words(&text),
            _ => self.cells_of(&text),
        };
        if row.len() < self.cells().len().min(2) || row.len() > COLUMNS_MAX || !looks_like_row(&row) {
            return None;
        }
        let names = self.columns_for(&row)?;
        let of_row = if is_name(row[0].1) { lexicon::split_of(&lexicon::words(row[0].1)) } else { Split::Unsaid };
        let mut found = Vec::new();
        for ((at, cell), name) in row.iter().zip(names) {
            let begin = from + at;
            let Some(name) = name else { continue };
            let mut inside =
                numbers.iter().enumerate().filter(|(_, n)| (begin..begin + cell.len()).contains(&usize::from(n.start)));
            let Some((mut number, _)) = inside.next() else { continue };
            let second = inside.next().map(|(second, _)| second);
            let total = second.filter(|_| cell.contains('/'));
            // The first cell below `## avg. loss` also has the count.
            if let Some(value) = second.filter(|_| name.starts_with('#') && found.is_empty() && total.is_none()) {
                found.push(Found {
                    number,
                    total: None,
                    what: What::Counter(Counted { count: Count::Lead, label: 0 }),
                });
                number = value;
            }
            let mut column = match lexicon::names_a_split(name) {
                true => of_a_split(row[0].1, name, number).unwrap_or_else(|| named(name, number, total, cell)),
                false => named(name, number, total, cell),
            };
            if let Some(Found { what: What::Series { name, split, .. }, .. }) = &mut column {
                *split = if *split == Split::Unsaid { of_row } else { *split };
                let again = |found: &&Found| matches!(&found.what, What::Series { name: other, .. } if other == name);
                let repeats = found.iter().filter(again).count();
                if repeats > 0 {
                    *name = format!("{name}#{}", repeats + 1);
                }
            }
            found.extend(column);
        }
        Some(found)
    }

    fn columns_for(&self, row: &[(usize, &str)]) -> Option<Vec<Option<&str>>> {
        let (by_cells, by_words) = (self.cells(), self.words());
        if self.ruled != Ruled::Blanks {
            let names = by_cells.iter().map(|(_, name)| Some(*name));
            // The names of the rows have no header.
            if row.len() == by_cells.len() + 1 && is_name(row[0].1) {
                return Some([None].into_iter().chain(names).collect());
            }
            return (row.len() <= by_cells.len()).then(|| names.take(row.len()).collect());
        }
        for names in [&by_cells, &by_words] {
            if names.len() == row.len() {
                return Some(names.iter().map(|(_, name)| Some(*name)).collect());
            }
        }
        // With missing cells, each value belongs to the header cell with the largest overlap.
        if row.len() < 3 || by_cells.len() < 3 {
            return None;
        }
        let under = |(at, cell): &(usize, &str)| {
            let shared = |(start, name): &(usize, &str)| {
                (at + cell.len()).min(start + name.len()).saturating_sub(*at.max(start))
            };
            let (nth, most) = by_cells.iter().map(shared).enumerate().max_by_key(|(_, shared)| *shared)?;
            (most > 0).then_some(nth)
        };
        let places: Vec<Option<usize>> = row.iter().map(under).collect();
        let name = |(at, place): (usize, &Option<usize>)| {
            let (_, name) = by_cells[(*place)?];
            let among = places.iter().filter(|other| *other == place).count();
            let before = places[..at].iter().filter(|other| *other == place).count();
            // Two values under `Iterat #Fevals` take one word each.
            match name.split_ascii_whitespace().count() {
                _ if among == 1 => Some(name),
                words if words == among => name.split_ascii_whitespace().nth(before),
                _ => None,
            }
        };
        let placed = places.iter().flatten().count();
        (placed * 3 >= row.len() * 2).then(|| places.iter().enumerate().map(name).collect())
    }
}

/// Removes a progress bar after the header: `mAP50  mAP50-95): 100% ━━━`.
fn before_bar(mut text: String) -> String {
    let found = words(&text);
    let before = |pair: &&[(usize, &str)]| pair[0].1.ends_with(':') && pair[1].1.contains('%');
    let end = found.windows(2).skip(2).find(before).map(|pair| pair[0].0 + pair[0].1.len() - 1);
    if let Some(end) = end {
        text.truncate(end);
    }
    text
}

/// Whether a line could be a row of a table.
pub(crate) fn is_row(line: &[u8], from: usize) -> bool {
    let text = plain(line.get(from..).unwrap_or_default());
    let ruled = ruled(&text);
    let row = if ruled == Ruled::Blanks { words(&text) } else { cells(&text, ruled) };
    row.len() >= 2 && row.len() <= COLUMNS_MAX && looks_like_row(&row)
}

/// Reads columns without a header: the first or last number is the counter if it is whole, and the others are unnamed series. `None` for
/// other lines.
pub(crate) fn headless(line: &[u8], from: usize, numbers: &[Span]) -> Option<Vec<Found>> {
    let text = plain(line.get(from..).unwrap_or_default());
    let other = |c: char| {
        !(c.is_ascii_digit() || c.is_ascii_whitespace() || matches!(c, '.' | ',' | '-' | '+' | 'e' | 'E' | '|' | ';'))
    };
    let first = numbers.iter().position(|number| usize::from(number.start) >= from)?;
    let cells = numbers.len() - first;
    if words(&text)
        .iter()
        .any(|(_, word)| word.contains(other) && !is_not_finite(word.trim_start_matches('+').as_bytes()))
        || !(2..=HEADLESS_MAX).contains(&cells)
    {
        return None;
    }
    let whole = |number: &usize| numbers[*number].of(line).iter().all(u8::is_ascii_digit);
    let counter = [first, numbers.len() - 1].into_iter().find(whole)?;
    let count = |number: usize| What::Counter(Counted { count: Count::Lead, label: number as u16 });
    let series = |number: usize| What::Series {
        name: format!("column {}", number - first + 1),
        direction: None,
        weight: 0.0,
        split: Split::Unsaid,
    };
    let found = |number: usize| {
        let what = if number == counter { count(number) } else { series(number) };
        (number == counter || !whole(&number)).then_some(Found { number, total: None, what })
    };
    Some((first..numbers.len()).filter_map(found).collect())
}

fn column(name: &str) -> Meaning {
    match name.trim() {
        "#" | "" => Meaning::Counter(Count::Lead), // as in spaCy's table
        name => lexicon::meaning(name),
    }
}

fn named(name: &str, number: usize, total: Option<usize>, cell: &str) -> Option<Found> {
    let what = match column(name) {
        Meaning::Counter(count) | Meaning::Declared(count) => {
            What::Counter(Counted { count, label: lexicon::label_of(name) })
        }
        Meaning::Metric { direction, weight, split } => What::Series { name: clean(name), direction, weight, split },
        Meaning::Unknown if cell.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/') => {
            What::Counter(Counted { count: Count::Tally, label: lexicon::label_of(name) })
        }
        Meaning::Unknown if cell.contains('.') => {
            What::Series { name: clean(name), direction: None, weight: 0.0, split: Split::Unsaid }
        }
        _ => return None,
    };
    Some(Found { number, total: total.filter(|_| matches!(what, What::Counter(_))), what })
}

/// Returns the finding in a column that is named only by a data split, as in `| loss | 0.41 | 0.48 |`: the row has the name, which may
/// be none of a metric. `None` if the row has no name.
fn of_a_split(title: &str, split: &str, number: usize) -> Option<Option<Found>> {
    if !is_name(title) {
        return None;
    }
    let Meaning::Metric { direction, weight, .. } = lexicon::meaning(title) else { return Some(None) };
    let what = What::Series { name: clean(title), direction, weight, split: lexicon::split_of(&lexicon::words(split)) };
    Some(Some(Found { number, total: None, what }))
}

fn clean(name: &str) -> String {
    name.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ':' | ')' | '(' | '#' | '%')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::commas::Commas;
    use super::super::scan::Scan;
    use super::*;

    fn scanned(line: &str) -> Scan {
        let mut scan = Scan::default();
        scan.read(line.as_bytes(), Commas::Guessed);
        scan
    }

    fn columns(header: &str, row: &str) -> Vec<String> {
        let head = scanned(header);
        let header = Header::read(header.as_bytes(), 0, &head.numbers, head.shape).expect("a header");
        let numbers = scanned(row).numbers;
        let found = header.row(row.as_bytes(), 0, &numbers).expect("a row of it");
        let value = |f: &Found| String::from_utf8_lossy(numbers[f.number].of(row.as_bytes())).into_owned();
        found
            .iter()
            .map(|f| match &f.what {
                What::Series { name, .. } => format!("{name}={}", value(f)),
                What::Counter(Counted { count, .. }) | What::Declared(count) => format!("{count:?}={}", value(f)),
            })
            .collect()
    }

    #[test]
    fn rows_take_their_names_from_the_header() {
        let yolo = "  Class  Images  Labels  P   R  mAP@.5 mAP@.5:.95: 100%|███| 4/4 [00:01<00:00,  3.21it/s]";
        assert_eq!(
            columns(yolo, "    all     128     929  0.6 0.5    0.55   0.3"),
            ["Tally=929", "R=0.5", "mAP@.5=0.55", "mAP@.5:.95=0.3"]
        );
        assert_eq!(columns("epoch,loss,val_loss", "3,0.5,"), ["Epoch=3", "loss=0.5"]);
        assert_eq!(
            columns("| epoch | train loss | lr |", "|   3   |   0.25     | 1e-3 |"),
            ["Epoch=3", "train loss=0.25"]
        );
        let sparse = "epoch  step     LOSS NER    SCORE";
        assert_eq!(columns(sparse, "    1    50                  0.75"), ["Epoch=1", "Step=50", "SCORE=0.75"]);
    }

    #[test]
    fn a_bar_after_the_last_cell_is_no_part_of_its_row() {
        let head = "  Epoch  GPU_mem  box_loss  cls_loss  Size";
        let row = "  1/100     2.5G     1.584     2.802   640: 12%|█▎        | 1/8 [00:00<00:02,  2.50it/s]";
        assert_eq!(columns(head, row), ["Epoch=1", "box_loss=1.584", "cls_loss=2.802"]);
        let scan = scanned(head);
        let header = Header::read(head.as_bytes(), 0, &scan.numbers, scan.shape).expect("a header");
        assert!(header.fits(row.as_bytes(), 0));
        assert!(!header.fits(b"Epoch 3: loss 0.5", 0));
    }

    #[test]
    fn sentences_and_rows_are_no_headers() {
        for line in [
            "Starting training of the model now.",
            "epoch 3 loss 0.5",
            "3 0.5 0.6",
            "Using cpu device",
            "Note: loss is a sum",
        ] {
            let scan = scanned(line);
            assert!(Header::read(line.as_bytes(), 0, &scan.numbers, scan.shape).is_none(), "{line}");
        }
    }
}
