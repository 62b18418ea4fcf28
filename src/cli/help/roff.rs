//! Formats a page of this manual as plain text, on machines without groff. Knows only the requests that these pages use. Pure.

use std::fmt::Write as _;
use term::text::{self, wrap};

/// Columns by which the text of a section is indented.
const INDENT: usize = 7;
/// Columns by which the meaning of a term is indented further.
const MEANING: usize = 7;

/// The page in lines of at most `columns`, except for code.
pub(super) fn text(roff: &str, columns: usize) -> String {
    let mut page = Page { text: String::new(), words: String::new(), indents: vec![INDENT], columns, is_code: false };
    let mut lines = roff.lines();
    while let Some(line) = lines.next() {
        let Some(request) = line.strip_prefix('.').or(line.strip_prefix("\'\\\"")) else {
            page.line(&plain(line));
            continue;
        };
        let (name, argument) = request.split_once(' ').unwrap_or((request, ""));
        match name {
            "SH" => {
                page.paragraph();
                page.indents = vec![INDENT];
                let _ = writeln!(page.text, "{}", plain(argument.trim_matches('"'))); // writing to a String cannot fail
            }
            "PP" => page.paragraph(),
            "TP" => {
                page.paragraph();
                let term = lines.next().map(plain).unwrap_or_default();
                page.term(&term);
            }
            "IP" => {
                page.flush();
                page.words = format!("{} ", plain(argument.split(' ').next().unwrap_or_default()));
            }
            "br" => page.flush(),
            "RS" => {
                page.flush();
                page.indents.push(page.indent() + if page.is_code { 4 } else { MEANING });
            }
            "RE" => {
                page.flush();
                page.indents.pop();
            }
            "nf" => {
                page.flush();
                page.is_code = true;
            }
            "fi" => page.is_code = false,
            _ => {} // the title, and definitions for other formatters
        }
    }
    page.flush();
    page.text
}

struct Page {
    text: String,
    /// Words that are not in lines yet.
    words: String,
    indents: Vec<usize>,
    columns: usize,
    is_code: bool,
}

impl Page {
    fn indent(&self) -> usize {
        self.indents.last().copied().unwrap_or(INDENT)
    }

    fn line(&mut self, line: &str) {
        if self.is_code {
            let _ = writeln!(self.text, "{:1$}{line}", "", self.indent());
        } else {
            self.words.push_str(line);
            self.words.push(' ');
        }
    }

    fn flush(&mut self) {
        let indent = self.indent();
        if !self.words.trim().is_empty() {
            for line in wrap(&self.words, self.columns.saturating_sub(indent).max(20)) {
                let _ = writeln!(self.text, "{:indent$}{line}", "");
            }
        }
        self.words.clear();
    }

    /// Ends a paragraph, or the meaning of a term.
    fn paragraph(&mut self) {
        self.flush();
        self.indents.truncate(1);
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn term(&mut self, term: &str) {
        self.words.push_str(term);
        self.flush();
        self.indents.push(self.indent() + MEANING);
    }
}

/// A line without escapes.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let escapes = [
            ("fB", ""),
            ("fI", ""),
            ("fR", ""),
            ("&", ""),
            ("-", "-"),
            ("\\", "\\"),
            ("*(Aq", "'"),
            ("(aq", "'"),
            ("(bu", "•"),
        ];
        match escapes.iter().find(|(escape, _)| rest.starts_with(escape)) {
            Some((escape, meaning)) => {
                plain.push_str(meaning);
                rest = &rest[escape.len()..];
            }
            None => plain.push('\\'),
        }
    }
    plain.push_str(rest);
    text::clean(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_terms_and_code_are_indented_and_paragraphs_wrapped() {
        let roff = ".TH X 1\n.SH NAME\nx \\- an example\n.SH \"SEE ALSO\"\none two three four five six seven eight\n.TP\n\\fB\\-\\-socket\\fR \\fIPATH\\fR\nits place\n\
                    .PP\n.nf\n.RS 4\ncode \\\\\n    more\n.RE\n.fi\n.SH END\nthe\\*(Aqend\n";
        let expected = "NAME\n       x - an example\n\nSEE ALSO\n       one two three four\n       five six seven eight\n\n       --socket PATH\n              \
                        its place\n\n           code \\\n               more\n\nEND\n       the'end\n";
        assert_eq!(text(roff, 27), expected);
    }
}
