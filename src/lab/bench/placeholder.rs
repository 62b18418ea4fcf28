//! Replaces the placeholders `{epochs}` and `{seed}` in the words of a job; an unknown placeholder is an error.

/// Known placeholders.
pub(super) const KNOWN: [&str; 2] = ["epochs", "seed"];

/// A part of a word.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    /// Literal text.
    Text(&'a str),
    /// A name in braces.
    Name(&'a str),
}

/// Replaces each `{name}` in a word by the result of `value_of`.
///
/// A name consists of letters and underscores, so JSON and a shell's `${NAME}` are unchanged; `{{name}}` gives the text `{name}`.
///
/// # Errors
/// The errors of `value_of`.
pub(super) fn replace<E>(word: &str, mut value_of: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
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
    let (mut copied, mut at) = (0, 0);
    while let Some(brace) = word[at..].find('{').map(|found| at + found) {
        let is_shells = word[..brace].ends_with('$');
        let doubled = name_between(&word[brace..], "{{", "}}");
        let (piece, length) = match (doubled, name_between(&word[brace..], "{", "}")) {
            (Some(name), _) => (Piece::Text(&word[brace + 1..brace + name.len() + 3]), name.len() + 4),
            (None, Some(name)) if !is_shells => (Piece::Name(name), name.len() + 2),
            _ => {
                at = brace + 1;
                continue;
            }
        };
        pieces.extend([Piece::Text(&word[copied..brace]), piece]);
        at = brace + length;
        copied = at;
    }
    pieces.push(Piece::Text(&word[copied..]));
    pieces
}

/// The name between `open` at the beginning of the text and `close`.
fn name_between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (name, _) = text.strip_prefix(open)?.split_once(close)?;
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    fits.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> Result<String, String> {
        replace(word, |name| match name {
            "epochs" => Ok("7".to_owned()),
            "seed" => Ok("3".to_owned()),
            other => Err(other.to_owned()),
        })
    }

    #[test]
    fn names_are_replaced_anywhere_in_a_word() {
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
    fn other_braces_are_unchanged() {
        for word in
            ["", "{", "}", "{}", "{ epochs }", "{1}", "${HOME}/{", "{\"a\":1}", "{\"a\":{\"b\":[]}}", "x{2,3}", "{a-b}"]
        {
            assert_eq!(of(word).as_deref(), Ok(word));
        }
        assert_eq!(of("{\"epochs\":{epochs}}").as_deref(), Ok("{\"epochs\":7}"));
        assert_eq!(of("f'{{loss}}' {{epochs}}").as_deref(), Ok("f'{loss}' {epochs}"));
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert_eq!(of("--lr={rate}"), Err("rate".to_owned()));
        assert_eq!(of("{{epochs}} {Epochs}"), Err("Epochs".to_owned()));
    }
}
