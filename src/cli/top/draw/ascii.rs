//! The same screen for terminals that have only the characters of ASCII. Pure. Imports: ratatui.
//!
//! Drawing knows nothing of it: what stands in the buffer is replaced cell by cell, so that nothing moves.

use ratatui::buffer::Buffer;

/// Replaces every character that is not ASCII; what has no likeness becomes `?`.
pub fn translate(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if let Some(c) = cell.symbol().chars().next().filter(|c| !c.is_ascii()) {
            cell.set_char(likeness(c));
        }
    }
}

fn likeness(c: char) -> char {
    match c {
        '\u{2800}'..='\u{28ff}' => dots(c as u32 - 0x2800),
        '▁' => '_',
        '▂' => '.',
        '▃' => ':',
        '▄' => '-',
        '▅' | '▓' => '=',
        '▆' => '+',
        '▇' | '•' => '*',
        '█' | '▉' | '▊' | '▋' | '▌' => '#',
        '▍' | '▎' | '▏' | '░' | '─' | '–' | '—' => '-',
        '▒' => '!',
        '·' => '.',
        '…' => '~',
        '│' => '|',
        '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' => '+',
        '↑' => '^',
        '↓' => 'v',
        '→' => '>',
        '×' => 'x',
        _ => '?',
    }
}

/// A cell of a curve, two by four dots: what of it lies in the upper half, and what in the lower.
fn dots(bits: u32) -> char {
    const UPPER: u32 = 0b0001_1011;
    match (bits & UPPER != 0, bits & !UPPER != 0) {
        (false, false) => ' ',
        (true, false) => '\'',
        (false, true) => '.',
        (true, true) => ':',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_height_within_a_cell() {
        let likenesses: String = "⠀⠉⠒⠤⣀⣿⢸".chars().map(likeness).collect();
        assert_eq!(likenesses, " ''..::");
    }

    #[test]
    fn levels_and_signs_that_differ_still_differ() {
        let differ = |signs: &str| {
            let likenesses: std::collections::BTreeSet<char> = signs.chars().map(likeness).collect();
            assert_eq!(likenesses.len(), signs.chars().count(), "{signs}");
        };
        differ("▁▂▃▄▅▆▇█");
        differ("█▓░·▒");
        differ("↑↓→×");
    }

    #[test]
    fn text_of_other_alphabets_keeps_its_columns() {
        let mut buffer = Buffer::with_lines(["模型 naïve é…"]);
        translate(&mut buffer);
        assert_eq!(super::super::lines(&buffer), "? ?  na?ve ?~\n");
    }
}
