//! Layout of the lines of an invented program. Imports: random numbers.

use super::names::one;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;

/// An item to print.
#[derive(Clone, Debug)]
pub enum Cell {
    Count {
        name: String,
        current: usize,
        total: Option<usize>,
    },
    /// An evaluation or a decoy, formatted.
    Value {
        name: String,
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Line,
    Blanks,
    Bars,
    Tabs,
    Commas,
    Tuple,
    Json,
    JsonSections,
    Dict,
    DictLines,
    Prose,
    Block,
}

pub const FORMS: [Form; 14] = [
    Form::Line,
    Form::Line,
    Form::Line,
    Form::Blanks,
    Form::Bars,
    Form::Tabs,
    Form::Commas,
    Form::Tuple,
    Form::Json,
    Form::JsonSections,
    Form::Dict,
    Form::DictLines,
    Form::Prose,
    Form::Block,
];

/// The format of a line.
#[derive(Clone, Debug)]
pub struct Layout {
    pub form: Form,
    assign: &'static str,
    divide: &'static str,
    count: usize,
    phrase: usize,
    head_every: usize,
    rows: usize,
}

impl Layout {
    pub fn new(rng: &mut ChaCha8Rng, form: Form) -> Layout {
        Layout {
            form,
            assign: one(rng, &["=", ": ", " ", " = ", ":", " : "]),
            divide: one(rng, &[", ", " | ", "  ", "; ", "\t", " - ", " "]),
            count: rng.random_range(0..8),
            phrase: rng.random_range(0..5),
            head_every: [10, 1000][rng.random_range(0..2)],
            rows: 0,
        }
    }

    /// A free-form line, as in most programs.
    pub fn line(rng: &mut ChaCha8Rng) -> Layout {
        let mut layout = Layout::new(rng, Form::Line);
        // `loss 0.5 acc 0.6` is ambiguous if names contain blanks.
        if layout.divide == " " && layout.assign.starts_with(' ') {
            layout.divide = ", ";
        }
        layout
    }

    pub fn any(rng: &mut ChaCha8Rng) -> Layout {
        let form = FORMS[rng.random_range(0..FORMS.len())];
        if form == Form::Line { Layout::line(rng) } else { Layout::new(rng, form) }
    }

    /// Columns without a header.
    pub fn headless(rng: &mut ChaCha8Rng) -> Layout {
        let form = [Form::Blanks, Form::Tabs, Form::Commas, Form::Bars][rng.random_range(0..4)];
        Layout { head_every: 0, count: 1, ..Layout::new(rng, form) }
    }

    /// Whether totals are printed with their counters.
    pub fn shows_totals(&self) -> bool {
        match self.form {
            Form::Line | Form::Block => self.count < 5,
            Form::Bars | Form::Blanks | Form::Tabs => self.count == 0,
            Form::Prose => self.phrase == 0,
            _ => false,
        }
    }

    /// Renders the cells as lines, without a newline at the end.
    pub fn render(&mut self, cells: &[Cell]) -> String {
        self.rows += 1;
        match self.form {
            Form::Line => cells.iter().map(|cell| self.field(cell)).collect::<Vec<_>>().join(self.divide),
            Form::Block => {
                let indent = |(at, field): (usize, String)| if at == 0 { field } else { format!("  {field}") };
                cells.iter().map(|cell| self.field(cell)).enumerate().map(indent).collect::<Vec<_>>().join("\n")
            }
            Form::Blanks | Form::Bars | Form::Tabs | Form::Commas => self.table(cells),
            Form::Tuple => {
                let quoted = |cell: &Cell| format!("'{}', {}", name(cell), bare(cell));
                format!("({})", cells.iter().map(quoted).collect::<Vec<_>>().join(", "))
            }
            Form::Json => object(cells, '"', ", "),
            Form::Dict => object(cells, '\'', ", "),
            Form::DictLines => format!("{{{}}}", object(cells, '\'', ",\n ").trim_matches(['{', '}'])),
            Form::JsonSections => {
                let (counts, values): (Vec<Cell>, Vec<Cell>) =
                    cells.iter().cloned().partition(|cell| matches!(cell, Cell::Count { .. }));
                let counts = object(&counts, '"', ", ");
                let values = object(&values, '"', ", ");
                if counts == "{}" {
                    values
                } else {
                    format!("{}, \"metrics\": {values}}}", counts.trim_end_matches('}'))
                }
            }
            Form::Prose => self.prose(cells),
        }
    }

    fn field(&self, cell: &Cell) -> String {
        let Cell::Count { name, current, total } = cell else {
            return format!("{}{}{}", name(cell), self.assign, text(cell));
        };
        match (self.count, total) {
            (0, Some(total)) => format!("{name} {current}/{total}"),
            (1, Some(total)) => format!("{name}: {current}/{total}"),
            (2, Some(total)) => format!("{name} [{current}/{total}]"),
            (3, Some(total)) => format!("{name} {current} of {total}"),
            (4, Some(total)) => format!("{name}: [{current:3}/{total}]"),
            (5, _) => format!("{name} {current:03}"),
            (6, _) => format!("{name} #{current}"),
            (7, _) => format!("{name}[{current}]"),
            _ => format!("{name}{}{current}", self.assign),
        }
    }

    fn table(&self, cells: &[Cell]) -> String {
        let heads = self.head_every > 0 && self.rows % self.head_every == 1;
        let cell_of = |cell: &Cell| match cell {
            Cell::Count { current, total: Some(total), .. } if self.shows_totals() => format!("{current}/{total}"),
            cell => bare(cell),
        };
        let width = |cell: &Cell| name(cell).chars().count().max(11) + 2;
        let row = |text: &dyn Fn(&Cell) -> String| match self.form {
            Form::Bars => format!(
                "|{}|",
                cells.iter().map(|cell| format!(" {:>1$} ", text(cell), width(cell))).collect::<Vec<_>>().join("|")
            ),
            Form::Tabs => cells.iter().map(text).collect::<Vec<_>>().join("\t"),
            Form::Commas => cells.iter().map(text).collect::<Vec<_>>().join(","),
            _ => cells.iter().map(|cell| format!("{:>1$}", text(cell), width(cell))).collect::<Vec<_>>().join(" "),
        };
        let body = row(&cell_of);
        if heads { format!("{}\n{body}", row(&|cell| name(cell).to_owned())) } else { body }
    }

    fn prose(&self, cells: &[Cell]) -> String {
        let count = cells.iter().find_map(|cell| match cell {
            Cell::Count { name, current, total } => Some((name, *current, *total)),
            Cell::Value { .. } => None,
        });
        let mut values = cells.iter().filter(|cell| matches!(cell, Cell::Value { .. }));
        let first = values.next().map(|cell| (name(cell), text(cell))).unwrap_or_default();
        let mut line = match (self.phrase, count) {
            (0, Some((epoch, current, Some(total)))) => {
                format!("{epoch} {current} of {total} finished with {} {}", first.0, first.1)
            }
            (1, Some((epoch, current, _))) => format!("{} after {epoch} {current}: {}", first.0, first.1),
            (2, Some((epoch, current, _))) => format!("finished {epoch} {current} with {} {}", first.0, first.1),
            (3, Some((epoch, current, _))) => format!("{epoch} {current} done, {} is {}", first.0, first.1),
            (_, Some((epoch, current, _))) => format!("After {epoch} {current} the {} is {}", first.0, first.1),
            (_, None) => format!("{} is {}", first.0, first.1),
        };
        for cell in values {
            let _ = write!(line, ", {} {}", name(cell), text(cell));
        }
        line
    }
}

fn name(cell: &Cell) -> &str {
    match cell {
        Cell::Count { name, .. } | Cell::Value { name, .. } => name,
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Count { current, .. } => current.to_string(),
        Cell::Value { text, .. } => text.clone(),
    }
}

/// The value without its unit, as printed in tables and objects.
fn bare(cell: &Cell) -> String {
    let text = text(cell);
    if text.contains(':') { text } else { text.trim_end_matches(|c: char| c.is_alphabetic() || c == '%').to_owned() }
}

fn object(cells: &[Cell], quote: char, divide: &str) -> String {
    let member = |cell: &Cell| {
        let value = bare(cell);
        let value = if value.contains(':') { format!("{quote}{value}{quote}") } else { value };
        format!("{quote}{}{quote}: {value}", name(cell))
    };
    format!("{{{}}}", cells.iter().map(member).collect::<Vec<_>>().join(divide))
}
