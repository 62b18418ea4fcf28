//! What a comma in a number means: a decimal point, a separator of thousands, or the end of a column.
//!
//! Problem: `1,234` is a loss of 1.234 in Germany and a step in America. Approach: `0,531` and `12,5 %` have decimal commas, `1,234.5` and
//! `1,234,567` have thousands. Once two lines of a log have decimal commas and none has thousands, every comma in a number is a decimal
//! point. Properties: until then `1,234` is a thousand; if the log shows both, it stays one.

/// Lines with decimal commas after which all commas are decimal points.
const CERTAIN: u32 = 2;

/// What commas in numbers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Commas {
    /// Each number decides for itself.
    #[default]
    Guessed,
    /// The stream is comma separated.
    Divide,
    Decimal,
}

/// What the commas of a line show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    decimal: bool,
    thousands: bool,
    ambiguous: bool,
}

impl Shown {
    /// Adds a number without its sign.
    pub(crate) fn add(&mut self, number: &[u8]) {
        let mut parts = number.split(|byte| *byte == b',');
        let (Some(whole), Some(behind)) = (parts.next(), parts.next()) else { return };
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if parts.next().is_some() || behind.contains(&b'.') {
            self.thousands = true;
        } else if digits != 3 || behind.len() > digits || whole == b"0" || whole.len() > 3 {
            self.decimal = true;
        } else {
            self.ambiguous = true;
        }
    }
}

/// What the commas of a log have shown so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommaEvidence {
    decimal: u32,
    thousands: bool,
    ambiguous: bool,
}

impl CommaEvidence {
    pub(crate) fn commas(&self) -> Commas {
        if self.decimal >= CERTAIN && !self.thousands { Commas::Decimal } else { Commas::Guessed }
    }

    /// Adds a line. Returns whether numbers of earlier lines were read with another meaning of their commas.
    #[inline]
    pub(crate) fn add(&mut self, shown: Shown) -> bool {
        if shown == Shown::default() || self.commas() == Commas::Decimal {
            return false;
        }
        self.decimal = self.decimal.saturating_add(u32::from(shown.decimal));
        self.thousands |= shown.thousands;
        self.ambiguous |= shown.ambiguous;
        self.commas() == Commas::Decimal && self.ambiguous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> (Commas, bool) {
        let mut evidence = CommaEvidence::default();
        let mut misread = false;
        for line in lines {
            let mut shown = Shown::default();
            line.split(' ').for_each(|number| shown.add(number.as_bytes()));
            misread |= evidence.add(shown);
        }
        (evidence.commas(), misread)
    }

    #[test]
    fn two_lines_with_decimal_commas_decide_unless_there_are_thousands() {
        assert_eq!(after(&["1,234", "0,531"]), (Commas::Guessed, false));
        assert_eq!(after(&["0,531 1,000e-3", "0,412 1,234e-4"]), (Commas::Decimal, false), "exponents have no groups");
        assert_eq!(after(&["1,234", "0,531", "0,412"]), (Commas::Decimal, true));
        assert_eq!(after(&["0,531 0,52", "12,5"]), (Commas::Decimal, false), "nothing was misread");
        assert_eq!(after(&["1,234,567 0,531", "0,531", "0,531"]), (Commas::Guessed, false));
        assert_eq!(after(&["1,234.5", "0,531", "0,531"]), (Commas::Guessed, false));
        assert_eq!(after(&["5", "1.5", "1,000", "2,000"]), (Commas::Guessed, false));
    }
}
