//! Finds totals in program text: `model.fit(x, y, epochs=5)`, `EPOCHS = 5`, `{"epochs": 5}`.
//!
//! It parses no language; it looks for a name, `=` or `:`, and a number that is not part of an expression.

use super::key::{Key, key};
use super::number;

/// Maximum bytes of a program that are searched.
const MAX_BYTES: usize = 64 << 10;

/// Returns the names and totals in `text`, in order.
pub(super) fn assignments(text: &str) -> impl Iterator<Item = (Key, f64)> + '_ {
    let end = (0..=text.len().min(MAX_BYTES)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let text = &text[..end];
    text.char_indices().filter(|(_, mark)| matches!(mark, '=' | ':')).filter_map(move |(at, mark)| {
        let (before, after) = (&text[..at], &text[at + 1..]);
        let compares = before.ends_with(['=', '<', '>', '!', '+', '-', '*', '/', ':']) || after.starts_with('=');
        if compares {
            return None;
        }
        let before = before.trim_end_matches(' ');
        let quoted = before.ends_with(['"', '\'']);
        if quoted != (mark == ':') {
            return None;
        }
        let before = before.trim_end_matches(['"', '\'']);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let name = &before[before.trim_end_matches(is_name).len()..];
        let after = after.trim_start_matches(' ');
        let digits =
            after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "._".contains(c)).len();
        let total = number::total(&after[..digits])?;
        let calculates = after[digits..].trim_start_matches(' ').starts_with(['*', '/', '+', '-', '%', '(', '[']);
        if calculates {
            return None;
        }
        Some((key(name)?, total))
    })
}

#[cfg(test)]
mod tests {
    use super::assignments;

    #[test]
    fn assigned_numbers_are_found_and_comparisons_and_expressions_are_not() {
        let text = "EPOCHS = 5\nif epochs == 7: pass\nfit(x, n_epochs=9, max_steps=3*4, d={'num_epochs': 11, 'seed': 3})\
                    \nepochs += 13; warmup_epochs = 2; args.max_epochs=1_000; epochs: int = 6";
        let found: Vec<(String, f64)> = assignments(text).map(|(key, total)| (key.shown, total)).collect();
        let expected = [("EPOCHS", 5.0), ("n_epochs", 9.0), ("num_epochs", 11.0), ("args.max_epochs", 1000.0)];
        assert_eq!(found, expected.map(|(key, total)| (key.to_owned(), total)));
    }
}
