//! `{epochs}` and `{seed}` in the words of a job: replaced wherever they stand, and whatever looks like them is an error.
//!
//! Imports: std only.

/// What may stand in braces.
pub const KNOWN: [&str; 2] = ["epochs", "seed"];

/// A part of a word.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    /// As it is.
    Text(&'a str),
    /// A name that stood in braces.
    Name(&'a str),
}

/// The word with each `{name}` replaced by what `value_of` gives for it.
///
/// A name is letters and underscores, so JSON stays as it is, and so does a shell's `${NAME}`; `{{name}}` is written for `{name}`.
///
/// # Errors
/// Those of `value_of`.
pub fn filled<E>(word: &str, mut value_of: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
    let mut filled = String::with_capacity(word.len());
    for piece in pieces(word) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Name(name) => filled.push_str(&value_of(name)?),
        }
    }
    Ok(filled)
}

fn pieces(word: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut told, mut at) = (0, 0);
    while let Some(brace) = word[at..].find('{').map(|found| at + found) {
        let is_shells = word[..brace].ends_with('$');
        let doubled = named(&word[brace..], "{{", "}}");
        let (piece, length) = match (doubled, named(&word[brace..], "{", "}")) {
            (Some(name), _) => (Piece::Text(&word[brace + 1..brace + name.len() + 3]), name.len() + 4),
            (None, Some(name)) if !is_shells => (Piece::Name(name), name.len() + 2),
            _ => {
                at = brace + 1;
                continue;
            }
        };
        pieces.extend([Piece::Text(&word[told..brace]), piece]);
        at = brace + length;
        told = at;
    }
    pieces.push(Piece::Text(&word[told..]));
    pieces
}

/// The name between `open`, with which the text begins, and `close`.
fn named<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (name, _) = text.strip_prefix(open)?.split_once(close)?;
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    fits.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> Result<String, String> {
        filled(word, |name| match name {
            "epochs" => Ok("7".to_owned()),
            "seed" => Ok("3".to_owned()),
            other => Err(other.to_owned()),
        })
    }

    #[test]
    fn names_are_replaced_wherever_they_stand() {
        let cases = [
            ("{epochs}", "7"),
            ("EPOCHS={epochs}", "EPOCHS=7"),
            ("--seed={seed},--epochs={epochs}.", "--seed=3,--epochs=7."),
            ("{epochs}{seed}", "73"),
            ("max_epochs: {epochs} # größer", "max_epochs: 7 # größer"),
        ];
        for (word, expected) in cases {
            assert_eq!(of(word).as_deref(), Ok(expected), "{word}");
        }
    }

    #[test]
    fn other_braces_stay() {
        for word in
            ["", "{", "}", "{}", "{ epochs }", "{1}", "${HOME}/{", "{\"a\":1}", "{\"a\":{\"b\":[]}}", "x{2,3}", "{a-b}"]
        {
            assert_eq!(of(word).as_deref(), Ok(word));
        }
        assert_eq!(of("{\"epochs\":{epochs}}").as_deref(), Ok("{\"epochs\":7}"));
        assert_eq!(of("f'{{loss}}' {{epochs}}").as_deref(), Ok("f'{loss}' {epochs}"));
    }

    #[test]
    fn an_unknown_name_is_told() {
        assert_eq!(of("--lr={rate}"), Err("rate".to_owned()));
        assert_eq!(of("{{epochs}} {Epochs}"), Err("Epochs".to_owned()));
    }
}
