//! Reads CSV files with a header line. Every error names file, line and column.
//!
//! Fields may be quoted; a quoted field must not contain a line break.

/// Largest accepted integer; small enough that products with a number of GPUs do not overflow.
pub const MOST: u64 = 1_000_000_000_000;

/// A parsed CSV file. Line numbers count from 1, the header is line 1.
pub struct TableFile<'a> {
    path: &'a str,
    header: Vec<String>,
    rows: Vec<(usize, Vec<Field>)>,
}

#[derive(Clone, Debug)]
struct Field {
    text: String,
    /// Character position in its line, from 1.
    column: usize,
}

/// One row, accessed by column number.
pub struct Row<'t, 'a> {
    table: &'t TableFile<'a>,
    line: usize,
    fields: &'t [Field],
}

impl<'a> TableFile<'a> {
    /// Splits `text`; `path` names the file in errors.
    ///
    /// # Errors
    /// A row whose number of fields differs from the header's, or an unclosed quote.
    pub fn parse(path: &'a str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim_end_matches('\r')));
        let (_, first) = lines
            .next()
            .ok_or_else(|| format!("{path}:1:1: the file is empty; expected a header line with column names"))?;
        let first = first.trim_start_matches('\u{feff}');
        let header: Vec<String> = split(path, 1, first)?.into_iter().map(|field| field.text).collect();
        let mut rows = Vec::new();
        for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
            let fields = split(path, line, text)?;
            if fields.len() != header.len() {
                let column = fields.get(header.len()).or(fields.last()).map_or(1, |field| field.column);
                return Err(format!(
                    "{path}:{line}:{column}: {} fields; expected {} as in the header ({})",
                    fields.len(),
                    header.len(),
                    header.join(","),
                ));
            }
            rows.push((line, fields));
        }
        Ok(TableFile { path, header, rows })
    }

    /// Returns the number of the first column that has one of these names.
    ///
    /// # Errors
    /// If there is none.
    pub fn column(&self, names: &[&str]) -> Result<usize, String> {
        names.iter().find_map(|name| self.header.iter().position(|h| h == name)).ok_or_else(|| {
            let expected = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
            format!("{}:1:1: no column {expected}; the header has {}", self.path, self.header.join(","))
        })
    }

    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_, 'a>> {
        self.rows.iter().map(|(line, fields)| Row { table: self, line: *line, fields })
    }
}

impl Row<'_, '_> {
    /// Returns the field's text.
    pub fn text(&self, column: usize) -> &str {
        &self.fields[column].text
    }

    /// Parses the field as a number.
    ///
    /// # Errors
    /// If it is not a finite number.
    pub fn number(&self, column: usize) -> Result<f64, String> {
        let number: Option<f64> = self.text(column).trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.error(column, "expected a number"))
    }

    /// Parses the field as an integer of at least `least` and at most [`MOST`]; `6.000` is accepted.
    ///
    /// # Errors
    /// If it is not an integer, too small or too large.
    pub fn whole(&self, column: usize, least: u64) -> Result<u64, String> {
        let text = self.text(column).trim();
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_whole = !decimals.is_empty() && decimals.bytes().all(|digit| digit == b'0');
        let number: Option<u64> = whole.parse().ok().filter(|number| is_whole && (least..=MOST).contains(number));
        number.ok_or_else(|| self.error(column, &format!("expected a whole number from {least} to {MOST}")))
    }

    /// Returns an error about a field: file, line, column, the field, and what was expected.
    pub fn error(&self, column: usize, expected: &str) -> String {
        let field = &self.fields[column];
        let (path, line, name) = (self.table.path, self.line, &self.table.header[column]);
        format!("{path}:{line}:{}: {name} = `{}`: {expected}", field.column, field.text)
    }
}

fn split(path: &str, line: usize, text: &str) -> Result<Vec<Field>, String> {
    let mut fields = vec![Field { text: String::new(), column: 1 }];
    let mut quote_from = None;
    let mut characters = text.chars().enumerate().peekable();
    while let Some((at, character)) = characters.next() {
        let Some(field) = fields.last_mut() else { break };
        match (character, quote_from) {
            ('"', Some(_)) if characters.peek().is_some_and(|(_, next)| *next == '"') => {
                field.text.push('"');
                characters.next();
            }
            ('"', Some(_)) => quote_from = None,
            ('"', None) if field.text.is_empty() => quote_from = Some(at + 1),
            (',', None) => fields.push(Field { text: String::new(), column: at + 2 }),
            (other, _) => field.text.push(other),
        }
    }
    match quote_from {
        Some(column) => Err(format!("{path}:{line}:{column}: quote is not closed; expected `\"` before the line ends")),
        None => Ok(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_name_and_quotes_are_parsed() {
        let table = TableFile::parse("t.csv", "id,name\n7,\"a, \"\"b\"\"\"\n").unwrap();
        let (id, name) = (table.column(&["job_id", "id"]).unwrap(), table.column(&["name"]).unwrap());
        let rows: Vec<_> = table.rows().map(|row| (row.number(id).unwrap(), row.text(name).to_owned())).collect();
        assert_eq!(rows, [(7.0, "a, \"b\"".to_owned())]);
    }

    #[test]
    fn errors_name_line_column_and_what_is_expected() {
        let table = TableFile::parse("t.csv", "id,gpus\n1,2\n2,two\n").unwrap();
        let gpus = table.column(&["gpus"]).unwrap();
        let error = table.rows().nth(1).unwrap().whole(gpus, 1).unwrap_err();
        assert_eq!(error, "t.csv:3:3: gpus = `two`: expected a whole number from 1 to 1000000000000");
        let error = TableFile::parse("t.csv", "a,b\n1,2,3\n").err().unwrap();
        assert_eq!(error, "t.csv:2:5: 3 fields; expected 2 as in the header (a,b)");
        assert!(TableFile::parse("t.csv", "a\n\"b\n").err().unwrap().starts_with("t.csv:2:1: quote"));
    }
}
