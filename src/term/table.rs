//! Tables like those of `docker ps`: columns as wide as their content, truncated only if the page is too narrow.

use super::screen::{Look, Tone};
use super::text;

/// Spaces between two columns.
const GAP: usize = 2;

/// A column of a table.
pub struct Column {
    title: &'static str,
    right: bool,
    least: Option<usize>,
}

impl Column {
    /// A left-aligned column that is never truncated.
    pub fn left(title: &'static str) -> Column {
        Column { title, right: false, least: None }
    }

    /// A right-aligned column that is never truncated.
    pub fn right(title: &'static str) -> Column {
        Column { title, right: true, least: None }
    }

    /// A left-aligned column that may be truncated to a width of `least`.
    pub fn elastic(title: &'static str, least: usize) -> Column {
        Column { title, right: false, least: Some(least) }
    }
}

/// A cell: printable text and its tone.
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Creates a cell; the text is made safe to print.
    pub fn new(tone: Tone, text: &str) -> Cell {
        Cell { text: text::clean(text), tone }
    }

    /// Creates a cell without colour.
    pub fn plain(text: &str) -> Cell {
        Cell::new(Tone::Plain, text)
    }

    /// Creates a cell without colour; a dash for `None`.
    pub fn or_dash(text: Option<String>) -> Cell {
        text.map_or_else(|| Cell::new(Tone::Dim, "–"), |text| Cell::plain(&text))
    }
}

/// Formats the table, one line per row.
pub fn table(columns: &[Column], rows: &[Vec<Cell>], look: &Look) -> String {
    let widths = widths(columns, rows, look.columns);
    let titles: Vec<Cell> = columns.iter().map(|column| Cell::new(Tone::Bold, column.title)).collect();
    let mut page = line(columns, &titles, &widths, look);
    for row in rows {
        page.push_str(&line(columns, row, &widths, look));
    }
    page
}

/// Whether the table fits the page without truncation.
pub fn fits(columns: &[Column], rows: &[Vec<Cell>], look: &Look) -> bool {
    let gaps = GAP * columns.len().saturating_sub(1);
    look.columns.is_none_or(|page| natural(columns, rows).iter().sum::<usize>() + gaps <= page)
}

fn natural(columns: &[Column], rows: &[Vec<Cell>]) -> Vec<usize> {
    let widest = |(at, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| text::width(&cell.text));
        cells.chain([text::width(column.title)]).max().unwrap_or(0)
    };
    columns.iter().enumerate().map(widest).collect()
}

fn widths(columns: &[Column], rows: &[Vec<Cell>], page: Option<usize>) -> Vec<usize> {
    let mut widths = natural(columns, rows);
    let Some(page) = page else { return widths };
    let room = page.saturating_sub(GAP * columns.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let elastic = (0..columns.len()).filter(|at| columns[*at].least.is_some_and(|least| widths[*at] > least));
        let Some(widest) = elastic.max_by_key(|at| widths[*at]) else { break };
        widths[widest] -= 1;
    }
    widths
}

fn line(columns: &[Column], cells: &[Cell], widths: &[usize], look: &Look) -> String {
    let mut line = String::new();
    let mut pending = 0;
    for ((column, cell), width) in columns.iter().zip(cells).zip(widths) {
        let shown = text::fit(&cell.text, *width);
        let blank = width.saturating_sub(text::width(&shown));
        let before = pending + if column.right { blank } else { 0 };
        if !shown.is_empty() {
            line.push_str(&" ".repeat(before));
            line.push_str(&look.paint(cell.tone, &shown));
            pending = 0;
        } else {
            pending = before;
        }
        pending += GAP + if column.right { 0 } else { blank };
    }
    line.push('\n');
    line
}
