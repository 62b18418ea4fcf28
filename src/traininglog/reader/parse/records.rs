//! Splits a whole run on one line into records.
//!
//! Problem: `print(..., end=" ")` or a compact JSON history prints many reports without a newline. Approach: a long line that repeats its
//! first word is split before each repetition. A long line of another kind (a configuration) does not repeat its first word.

use memchr::memmem;

/// Minimum bytes of a line with several records.
const LONG: usize = 400;

/// Minimum occurrences of the first word.
const RECURRENCES: usize = 4;

/// Returns the offsets of the records of a line, if it holds several.
#[inline]
pub(crate) fn beginnings(line: &[u8], from: usize) -> Option<Vec<usize>> {
    if line.len() < LONG { None } else { of_long(line, from) }
}

fn of_long(line: &[u8], from: usize) -> Option<Vec<usize>> {
    let message = &line[from..];
    let start = from + message.iter().position(u8::is_ascii_alphabetic)?;
    let length = line[start..].iter().take_while(|byte| is_word(**byte)).count();
    let word = &line[start..start + length];
    if length < 3 {
        return None;
    }
    let whole =
        |at: &usize| (*at == 0 || !is_word(line[at - 1])) && !line.get(at + length).is_some_and(|byte| is_word(*byte));
    let found: Vec<usize> = memmem::find_iter(line, word).filter(whole).collect();
    let dense = line.len() / found.len().max(1) <= LONG;
    (found.len() >= RECURRENCES && dense).then_some(found)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::beginnings;

    #[test]
    fn a_line_is_split_where_its_first_word_is_repeated() {
        let run = "epoch 1/20 loss 0.5; ".repeat(30);
        assert_eq!(beginnings(run.as_bytes(), 0).map(|found| found.len()), Some(30));
        let setting: String = (0..80).map(|i| format!("option_{i}={i}, ")).collect();
        assert_eq!(beginnings(setting.as_bytes(), 0), None);
        assert_eq!(beginnings(b"epoch 1 epoch 2 epoch 3 epoch 4", 0), None);
    }
}
