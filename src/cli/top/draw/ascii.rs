//! Converts the screen for terminals that can show only ASCII. Pure.
//!
//! Works on the finished buffer, cell by cell, so that nothing moves.

use ratatui::buffer::Buffer;

/// Replaces every non-ASCII character by a similar one, or by `?`.
pub(super) fn translate(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if let Some(c) = cell.symbol().chars().next().filter(|c| !c.is_ascii()) {
            cell.set_char(similar(c));
        }
    }
}

fn similar(c: char) -> char {
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
        '↗' => '/',
        '↘' => '\\',
        '×' => 'x',
        _ => '?',
    }
}

/// Converts a braille cell of two by four dots: distinguishes only the upper and the lower half.
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
        let replaced: String = "⠀⠉⠒⠤⣀⣿⢸".chars().map(similar).collect();
        assert_eq!(replaced, " ''..::");
    }

    #[test]
    fn distinct_levels_and_signs_stay_distinct() {
        let differ = |signs: &str| {
            let replaced: std::collections::BTreeSet<char> = signs.chars().map(similar).collect();
            assert_eq!(replaced.len(), signs.chars().count(), "{signs}");
        };
        differ("▁▂▃▄▅▆▇█");
        differ("█▓░·▒");
        differ("↑↓→×");
    }

    #[test]
    fn text_in_other_scripts_keeps_its_columns() {
        let mut buffer = Buffer::with_lines(["模型 naïve é…"]);
        translate(&mut buffer);
        assert_eq!(super::super::lines(&buffer), "? ?  na?ve ?~\n");
    }
}
