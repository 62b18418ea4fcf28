//! Divides a line that holds the output of several writes.
//!
//! Problem: where standard output and errors share a file, a report follows a progress bar without a newline, and some collectors write a
//! carriage return as `#015`, `^M`, `\r` or `\u000d`. Approach: a written return divides renderings, and the bracket that ends a bar
//! (`[00:01<00:09, 2.3it/s]`) divides two texts of which both stay visible.

use super::lines::Rendering;
use memchr::{memchr, memchr_iter, memchr3_iter};

/// How a carriage return is written.
const RETURNS: [&[u8]; 6] = [b"#015", b"^M", b"\\u000d", b"\\u000D", b"\\x0d", b"\\r"];

/// Whether a line is to be divided.
pub(crate) fn are_in(line: &[u8]) -> bool {
    returns(line).next().is_some() || end_of_bar(line).is_some()
}

/// Calls `each` with the pieces of a line, in order.
pub(crate) fn each<'a>(rendering: Rendering<'a>, mut each: impl FnMut(Rendering<'a>)) {
    let line = rendering.printed;
    let mut begin = 0;
    for (end, length) in returns(line).chain([(line.len(), 0)]) {
        // A return at the end of the line overwrites nothing.
        let last = rendering.last && end + length == line.len();
        while begin < end {
            let piece = &line[begin..end];
            let length = end_of_bar(piece).unwrap_or(piece.len());
            let text = piece[..length].trim_ascii_end();
            if !text.is_empty() {
                each(Rendering { text, printed: text, last, ..rendering });
            }
            begin += length;
        }
        begin = end + length;
    }
}

/// The written returns and their lengths.
fn returns(line: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    memchr3_iter(b'#', b'^', b'\\', line).filter_map(|at| Some((at, written_return(line, at)?)))
}

/// Returns the length of the return that is written at `at`. `#0151` has none, and neither has `C:\run\results`.
fn written_return(text: &[u8], at: usize) -> Option<usize> {
    let written = RETURNS.iter().find(|written| text[at..].starts_with(written))?;
    let next = text.get(at + written.len());
    let in_path = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'_' | b'-' | b'\\');
    let is_other = match *written {
        b"#015" => next.is_some_and(u8::is_ascii_digit),
        b"\\r" => {
            next.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
                && at > 0
                && in_path(&text[at - 1])
        }
        _ => false,
    };
    (!is_other).then_some(written.len())
}

/// Returns the end of the first bar, if another text follows it directly.
fn end_of_bar(text: &[u8]) -> Option<usize> {
    let percent = memchr_iter(b'%', text).find(|at| text.get(at + 1) == Some(&b'|'))?;
    let clock = percent + memchr(b'<', &text[percent..])?;
    let end = clock + memchr(b']', &text[clock..])? + 1;
    let begins = |byte: &u8| !byte.is_ascii_whitespace() && !matches!(byte, b',' | b';' | b'.' | b'|' | b']' | b')');
    text.get(end).is_some_and(begins).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(String, bool)> {
        let mut pieces = Vec::new();
        let text = text.as_bytes();
        each(Rendering { line: 1, text, printed: text, last: true }, |piece| {
            pieces.push((String::from_utf8_lossy(piece.text).into_owned(), piece.last));
        });
        pieces
    }

    #[test]
    fn a_written_return_divides_renderings_of_which_the_last_stays_visible() {
        for written in ["#015", "^M", "\\r", "\\u000d", "\\x0d"] {
            let line = format!("1/3 loss 0.5{written} 2/3 loss 0.4{written}Done");
            let expected = [("1/3 loss 0.5".into(), false), (" 2/3 loss 0.4".into(), false), ("Done".into(), true)];
            assert_eq!(pieces(&line), expected, "{written}");
            assert_eq!(pieces(&format!("loss 0.5{written}")), [("loss 0.5".into(), true)]);
        }
        for line in ["saved C:\\runs\\results\\r2", "issue #0151", "#01", "x^2 ^ y"] {
            assert_eq!(pieces(line), [(line.into(), true)]);
        }
    }

    #[test]
    fn a_report_behind_a_bar_is_another_piece() {
        let bar = " 12%|█▏        | 3/25 [00:01<00:09,  2.3it/s]";
        assert_eq!(pieces(&format!("{bar}{{'loss': 12.4}}")), [(bar.into(), true), ("{'loss': 12.4}".into(), true)]);
        for line in [bar.to_owned(), format!("{bar} loss 0.5"), format!("{bar}, loss=0.5"), "50%|██| 1/2 [a]b".into()]
        {
            assert_eq!(pieces(&line), [(line, true)]);
        }
    }
}
